//go:build !linux

package rawsock

import (
	"errors"
	"fmt"
	"runtime"

	"strandline/probe"
)

// Open returns an error that wraps errors.ErrUnsupported: raw sockets with
// kernel time stamps are implemented for Linux only.
func Open(Options) (probe.Conn, error) {
	return nil, fmt.Errorf("raw sockets on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
