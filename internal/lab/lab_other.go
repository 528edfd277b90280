//go:build !linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
)

// Lab is a network that is up; there is none but on Linux.
type Lab struct{ topo Topology }

func unsupported() error {
	return fmt.Errorf("network namespaces on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// Up returns an error that wraps errors.ErrUnsupported.
func Up(Topology) (*Lab, error) { return nil, unsupported() }

// Topology returns what the lab was built from.
func (l *Lab) Topology() *Topology { return &l.topo }

// Down returns an error that wraps errors.ErrUnsupported.
func (l *Lab) Down() error { return unsupported() }

// Do returns an error that wraps errors.ErrUnsupported.
func (l *Lab) Do(string, func() error) error { return unsupported() }

// Exec returns an error that wraps errors.ErrUnsupported.
func (l *Lab) Exec(context.Context, string, ...string) ([]byte, error) { return nil, unsupported() }

// SetCable returns an error that wraps errors.ErrUnsupported.
func (l *Lab) SetCable(string, string, Cable) error { return unsupported() }

// Do returns an error that wraps errors.ErrUnsupported.
func Do(string, func() error) error { return unsupported() }

// Start returns an error that wraps errors.ErrUnsupported.
func Start(string, *exec.Cmd) error { return unsupported() }

// Run returns an error that wraps errors.ErrUnsupported.
func Run(context.Context, Topology, func()) error { return unsupported() }

// SetCable returns an error that wraps errors.ErrUnsupported.
func SetCable(string, string, string, Cable) error { return unsupported() }

// Down returns an error that wraps errors.ErrUnsupported.
func Down(string) error { return unsupported() }

// List returns an error that wraps errors.ErrUnsupported.
func List() ([]string, error) { return nil, unsupported() }
