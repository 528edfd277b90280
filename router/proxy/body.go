package proxy

import (
	"errors"
	"io"
	"sync/atomic"
	"time"
)

// clientBody is the body of a request. It remembers whether the transport has
// begun to read it, after which the request cannot be sent to another region,
// whether it is all read and whether it broke off. Read is for one goroutine at a
// time, the others are for all; a nil *clientBody is the body of a request that
// has none.
type clientBody struct {
	io.ReadCloser
	left               int64 // bytes to come; negative = not known
	begun, done, broke atomic.Bool
}

// Read reads from the client. After the end it asks the server no more, which may
// have closed the body by then: the transport would take that for a failure.
func (b *clientBody) Read(p []byte) (int, error) {
	if b.done.Load() {
		return 0, io.EOF
	}
	b.begun.Store(true)
	n, err := b.ReadCloser.Read(p)
	switch {
	case err != nil && err != io.EOF:
		b.broke.Store(true)
	case err == io.EOF || b.left == int64(n): // the length is known to be reached before EOF is seen
		b.done.Store(true)
	}
	b.left -= int64(n)
	return n, err
}

func (b *clientBody) touched() bool { return b != nil && b.begun.Load() }
func (b *clientBody) ended() bool   { return b == nil || b.done.Load() }
func (b *clientBody) broken() bool  { return b != nil && b.broke.Load() }

// errSilent is the cause of a cancel after ChunkTimeout.
var errSilent = errors.New("proxy: the region was silent for too long within a response")

// regionBody is the body of a response. It cancels the request when the region
// is silent for too long; time that the client takes does not count. It belongs
// to the goroutine of ServeHTTP.
type regionBody struct {
	io.ReadCloser
	limit time.Duration
	timer *time.Timer // nil without a limit
	err   error       // what ended the body; io.EOF at its end, nil before
}

func newRegionBody(body io.ReadCloser, limit time.Duration, cancel func(error)) *regionBody {
	b := &regionBody{ReadCloser: body, limit: limit}
	if limit > 0 {
		b.timer = time.AfterFunc(limit, func() { cancel(errSilent) })
		b.timer.Stop()
	}
	return b
}

// Read reads from the region.
func (b *regionBody) Read(p []byte) (int, error) {
	if b.timer != nil {
		b.timer.Reset(b.limit)
		defer b.timer.Stop()
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.err = err
	}
	return n, err
}
