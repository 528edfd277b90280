package proxy

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// TestSilenceIsPerPiece: gaps below the limit add up to any length, and time
// that the client takes to read does not count; one gap above it cancels, at the
// limit.
func TestSilenceIsPerPiece(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = time.Minute
		var cause error
		var at time.Time
		out, in := io.Pipe()
		body := newRegionBody(out, limit, func(err error) { cause, at = err, time.Now(); in.CloseWithError(err) })
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for range 10 {
				time.Sleep(limit - time.Second)
				io.WriteString(in, "x")
			}
			time.Sleep(limit + time.Second)
			io.WriteString(in, "too late")
		}()
		buf := make([]byte, 8)
		for i := range 10 {
			if n, err := body.Read(buf); n != 1 || err != nil {
				t.Fatalf("piece %d: %d bytes, %v, want 1", i, n, err)
			}
			if i == 5 {
				time.Sleep(limit - 2*time.Second) // a slow client, with the next piece not there yet
			}
		}
		last := time.Now()
		if _, err := body.Read(buf); err != errSilent || cause != errSilent || body.err != errSilent {
			t.Errorf("after the gap: read gave %v, cancel %v, want both %v", err, cause, errSilent)
		}
		if got := at.Sub(last); got != limit {
			t.Errorf("cancelled %v after the last piece, want %v", got, limit)
		}
		<-ended
	})
}

func TestNoLimitNoTimer(t *testing.T) {
	if b := newRegionBody(nil, 0, nil); b.timer != nil {
		t.Error("a timer without a limit")
	}
	for _, tt := range []struct{ given, want time.Duration }{{0, 7}, {-1, 0}, {3, 3}} {
		if got := limit(tt.given, 7); got != tt.want {
			t.Errorf("limit(%v) is %v, want %v", tt.given, got, tt.want)
		}
	}
}

// TestBodyEndsOnce: whether the end is known by EOF or by the length, the reader
// below is not asked again.
func TestBodyEndsOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		length int64
		src    io.Reader
	}{
		"EOF":             {-1, io.MultiReader(strings.NewReader("abcd"))},
		"length":          {4, io.MultiReader(strings.NewReader("abcd"), iotest.ErrReader(io.ErrClosedPipe))},
		"byte by byte":    {4, iotest.OneByteReader(io.MultiReader(strings.NewReader("abcd"), iotest.ErrReader(io.ErrClosedPipe)))},
		"EOF with data":   {-1, iotest.DataErrReader(strings.NewReader("abcd"))},
		"length with EOF": {4, iotest.DataErrReader(strings.NewReader("abcd"))},
	} {
		b := &clientBody{ReadCloser: io.NopCloser(tt.src), left: tt.length}
		if b.touched() || b.ended() {
			t.Errorf("%s: touched or ended before the first read", name)
		}
		for range 2 {
			got, err := io.ReadAll(b)
			if err != nil || !b.ended() || !b.touched() || b.broken() {
				t.Errorf("%s: %v, ended %t, touched %t, broken %t, want a clean end", name, err, b.ended(), b.touched(), b.broken())
			}
			if len(got) > 0 && string(got) != "abcd" {
				t.Errorf("%s: read %q, want abcd", name, got)
			}
		}
	}
	short := &clientBody{ReadCloser: io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF)), left: 4}
	if _, err := io.ReadAll(short); err != io.ErrUnexpectedEOF || short.ended() || !short.broken() {
		t.Errorf("broken off: %v, ended %t, broken %t", err, short.ended(), short.broken())
	}
}
