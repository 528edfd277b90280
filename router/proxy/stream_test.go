package proxy_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"strandline/internal/leak"
	"strandline/internal/simbackend"
	"strandline/router/proxy"
)

// stepper streams pieces, each only when told to.
type stepper struct {
	contentType string
	length      int            // announced; 0 = not
	next        chan string    // closed: end
	gone        chan time.Time // when the request's context ended
	cut         chan struct{}  // closed: break off
}

func newStepper(contentType string) *stepper {
	return &stepper{contentType: contentType, next: make(chan string), gone: make(chan time.Time, 1), cut: make(chan struct{})}
}

func (s *stepper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", s.contentType)
	if s.length > 0 {
		w.Header().Set("Content-Length", strconv.Itoa(s.length))
	}
	w.WriteHeader(http.StatusOK)
	http.NewResponseController(w).Flush()
	for {
		select {
		case piece, more := <-s.next:
			if !more {
				return
			}
			io.WriteString(w, piece)
			http.NewResponseController(w).Flush()
		case <-s.cut:
			panic(http.ErrAbortHandler)
		case <-r.Context().Done():
			s.gone <- time.Now()
			return
		}
	}
}

// give makes the backend send a piece.
func (s *stepper) give(t *testing.T, piece string) {
	t.Helper()
	select {
	case s.next <- piece:
	case <-time.After(10 * time.Second):
		t.Fatal("the backend does not take a piece")
	}
}

// readPiece reads exactly the bytes of want.
func readPiece(t *testing.T, r io.Reader, want string) {
	t.Helper()
	got := make(chan string, 1)
	go func() {
		buf := make([]byte, len(want))
		n, _ := io.ReadFull(r, buf)
		got <- string(buf[:n])
	}()
	if s := soon(t, got, "the piece"); s != want {
		t.Fatalf("got %q, want %q", s, want)
	}
}

// TestPiecesArriveAsTheyAreSent: the backend sends a piece only after the client
// has the one before, so a proxy that held back a single byte would hang. That
// the header arrives before the first piece is part of it.
func TestPiecesArriveAsTheyAreSent(t *testing.T) {
	// The second piece is half an event: a flush is not a whole event.
	pieces := []string{"data: {\"a\":1}\n\n", "data: {\"b", "\":2}\n\n", strings.Repeat("x", 100_000), "data: [DONE]\n\n"}
	for _, tt := range []struct {
		contentType string
		length      int
	}{
		{"text/event-stream", 0},
		{"text/event-stream; charset=utf-8", 0},
		{"application/json", 0},
		{"application/octet-stream", len(strings.Join(pieces, ""))},
	} {
		t.Run(tt.contentType, func(t *testing.T) {
			leak.Check(t)
			s := newStepper(tt.contentType)
			s.length = tt.length
			f := oneRegion(t, proxy.Options{}, s)
			res, err := f.client.Do(f.request(t, t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"stream":true}`)))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			for _, piece := range pieces {
				s.give(t, piece)
				readPiece(t, res.Body, piece)
			}
			close(s.next)
			if rest, err := io.ReadAll(res.Body); len(rest) > 0 || err != nil {
				t.Errorf("after the last piece: %q, %v, want the end", rest, err)
			}
			if n := f.Drain(t.Context()); n != 0 {
				t.Errorf("%d in flight, want 0", n)
			}
			if r := f.region("a"); r.Broken+r.Cancelled+r.Failed != 0 || r.InFlight != 0 || r.Requests != 1 {
				t.Errorf("counters %+v, want one request that went well", r)
			}
		})
	}
}

// TestAnswerDuringUpload: the backend answers each piece of the body as it comes,
// while the client is still sending.
func TestAnswerDuringUpload(t *testing.T) {
	leak.Check(t)
	f := oneRegion(t, proxy.Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		rc.EnableFullDuplex()
		buf := make([]byte, 1<<10)
		for {
			n, err := r.Body.Read(buf)
			w.Write(buf[:n])
			rc.Flush()
			if err != nil {
				return
			}
		}
	}))
	up, send := io.Pipe()
	answered := make(chan *http.Response, 1)
	go func() {
		res, err := f.client.Do(f.request(t, t.Context(), http.MethodPost, "/v1/audio", up))
		if err != nil {
			t.Error(err)
			close(answered)
			return
		}
		answered <- res
	}()
	var res *http.Response
	for i := range 400 { // 400 KiB, more than a server reads ahead
		piece := strings.Repeat(string(rune('a'+i%26)), 1<<10)
		io.WriteString(send, piece)
		if res == nil {
			if res = soon(t, answered, "the answer to the first piece"); res == nil {
				return
			}
			defer res.Body.Close()
		}
		readPiece(t, res.Body, piece)
	}
	send.Close()
	if rest, err := io.ReadAll(res.Body); len(rest) > 0 || err != nil {
		t.Errorf("after the last piece: %d bytes, %v, want the end", len(rest), err)
	}
}

// cancelBound is how soon a client's leaving must be seen by the backend.
const cancelBound = 100 * time.Millisecond

func TestClientCancelReachesBackend(t *testing.T) {
	tests := []struct {
		name   string
		pieces int // sent before the client leaves; -1 = it leaves before the header
	}{{"before the answer", -1}, {"before the first piece", 0}, {"in mid-stream", 3}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			leak.Check(t)
			s := newStepper("text/event-stream")
			arrived := make(chan struct{}, 1)
			var back http.Handler = s
			if tt.pieces < 0 {
				back = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					arrived <- struct{}{}
					<-r.Context().Done()
					s.gone <- time.Now()
				})
			}
			f := oneRegion(t, proxy.Options{}, back)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r := f.request(t, ctx, http.MethodPost, "/v1/chat/completions", strings.NewReader("{}"))
			if tt.pieces < 0 {
				go f.client.Do(r)
				soon(t, arrived, "the request")
			} else {
				res, err := f.client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				for range tt.pieces {
					s.give(t, "data: x\n\n")
					readPiece(t, res.Body, "data: x\n\n")
				}
			}
			left := time.Now()
			cancel()
			if d := soon(t, s.gone, "the cancel at the backend").Sub(left); d > cancelBound {
				t.Errorf("the backend saw the cancel after %v, want at most %v", d, cancelBound)
			}
			f.Drain(t.Context())
			if got := f.region("a"); got.Cancelled != 1 || got.InFlight != 0 || got.Failed+got.Broken != 0 {
				t.Errorf("counters %+v, want 1 cancelled and nothing else", got)
			}
		})
	}
}

// TestBrokenResponseIsCut: the client must not take half an answer for a whole one.
func TestBrokenResponseIsCut(t *testing.T) {
	tests := []struct {
		name string
		opts proxy.Options
		end  func(*stepper)
	}{
		{"backend breaks off", proxy.Options{}, func(s *stepper) { close(s.cut) }},
		{"backend is silent", proxy.Options{ChunkTimeout: 50 * time.Millisecond}, func(*stepper) {}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			leak.Check(t)
			s := newStepper("text/event-stream")
			f := oneRegion(t, tt.opts, s)
			res, err := f.client.Do(f.request(t, t.Context(), http.MethodPost, "/v1/completions", strings.NewReader("{}")))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			s.give(t, "data: x\n\n")
			readPiece(t, res.Body, "data: x\n\n")
			tt.end(s)
			if rest, err := io.ReadAll(res.Body); !errors.Is(err, io.ErrUnexpectedEOF) || len(rest) > 0 {
				t.Errorf("the client read %q, %v, want an unexpected end", rest, err)
			}
			f.Drain(t.Context())
			if got := f.region("a"); got.Broken != 1 || got.Cancelled != 0 {
				t.Errorf("counters %+v, want 1 broken", got)
			}
		})
	}
}

func TestFirstByteTimeout(t *testing.T) {
	leak.Check(t)
	gone := make(chan struct{})
	f := oneRegion(t, proxy.Options{FirstByteTimeout: 50 * time.Millisecond}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		close(gone)
	}))
	res, body := f.get(t, "/v1/models")
	wantFailure(t, res, body, http.StatusGatewayTimeout, "first_byte_timeout")
	soon(t, gone, "the cancel at the backend")
	if got := f.region("a"); got.Failed != 1 || got.Cancelled != 0 {
		t.Errorf("counters %+v, want 1 failed", got)
	}
}

func TestDrainWaitsForStreams(t *testing.T) {
	leak.Check(t)
	s := newStepper("text/event-stream")
	f := oneRegion(t, proxy.Options{}, s)
	res, err := f.client.Do(f.request(t, t.Context(), http.MethodGet, "/v1/x", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	ended, end := context.WithCancel(t.Context())
	end()
	if n := f.Drain(ended); n != 1 {
		t.Errorf("%d left when the time for draining is over, want 1", n)
	}
	drained := make(chan int64, 1)
	go func() { drained <- f.Drain(t.Context()) }()
	s.give(t, "x")
	select {
	case n := <-drained:
		t.Fatalf("drained with a stream under way, %d left", n)
	default:
	}
	close(s.next)
	io.Copy(io.Discard, res.Body)
	if n := soon(t, drained, "the drain"); n != 0 {
		t.Errorf("%d left, want 0", n)
	}
}

// TestCurl streams from a simulated engine through the proxy with the real curl,
// kills it, and looks at whether the engine stops working.
func TestCurl(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("curl is not installed")
	}
	leak.Check(t)
	engine, err := simbackend.New(simbackend.Options{Region: "a", MuHz: 100})
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan time.Time, 1)
	f := oneRegion(t, proxy.Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		engine.ServeHTTP(w, r)
		left <- time.Now()
	}))
	// The engine would take 10 minutes for all, so what arrives was not held back
	// to the end.
	cmd := exec.CommandContext(t.Context(), curl, "-sN", "-D", "/dev/stderr", "-d",
		`{"messages":[{"role":"user","content":"hi"}],"stream":true,"max_tokens":1000000}`, f.url+"/v1/chat/completions")
	var head strings.Builder
	cmd.Stderr = &head
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for i := range 20 { // ten events, each with an empty line after it
		if !lines.Scan() {
			t.Fatalf("the stream ended after %d lines: %v", i, lines.Err())
		}
	}
	if s := engine.Stats(); s.Running != 1 || s.Finished != 0 {
		t.Errorf("engine %+v after ten events, want one request running", s)
	}
	killed := time.Now()
	cmd.Process.Kill()
	d := soon(t, left, "the end of the engine's work").Sub(killed)
	if s := engine.Stats(); d > cancelBound || s.Running != 0 || s.Cancelled != 1 {
		t.Errorf("engine %+v, %v after curl was killed, want 1 cancelled and none running within %v", s, d, cancelBound)
	}
	cmd.Wait()
	if !strings.Contains(head.String(), "X-Strandline-Region: a\r\n") {
		t.Errorf("curl saw the header\n%s\nwant the region in it", &head)
	}
}
