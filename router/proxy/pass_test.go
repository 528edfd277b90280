package proxy_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"strandline/internal/leak"
	"strandline/router/proxy"
)

// oddBodies are bodies that a proxy which parses would change: order and
// repetition of keys, white space, escapes, numbers beyond float64, no JSON.
var oddBodies = []string{
	``,
	`{}`,
	"{ \"model\":\t\"m\" ,\r\n \"messages\" : [ ] , \"messages\":[{\"role\":\"user\"}] }",
	`{"seed":12345678901234567890123,"t":1.0,"u":1e400,"v":-0,"é":"\u00e9\ud83d\ude00\/","x_unknown":{"b":1,"a":2}}`,
	"\xef\xbb\xbf{\"bom\":true}\n\n\n",
	"{\"broken\": \"\xff\xfe\x00",
	"data: {\"half\":",
}

func TestBodiesPassByteForByteBothWays(t *testing.T) {
	leak.Check(t)
	bodies := append([]string{}, oddBodies...)
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, n := range []int{1, 4095, 1 << 15, 1<<15 + 1, 3 << 20} {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		bodies = append(bodies, string(b))
	}
	seen := make(chan string, 1)
	f := oneRegion(t, proxy.Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("backend: %v", err)
		}
		seen <- r.Method + " " + r.RequestURI + " " + string(b)
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		w.WriteHeader(299)
		w.Write(b)
	}))
	for i, path := range []string{"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/x"} {
		for k, want := range bodies {
			var body io.Reader = strings.NewReader(want)
			if (i+k)%2 == 1 {
				body = io.MultiReader(body) // of unknown length: chunked
			}
			r := f.request(t, t.Context(), http.MethodPost, path, body)
			r.Header.Set("Content-Type", "application/json; odd=\"yes\"")
			res, got := f.do(t, r)
			if in := soon(t, seen, "the request"); in != "POST "+path+" "+want {
				t.Errorf("%s body %d (seed %d): the backend got %d bytes %.80q, want %d bytes %.80q", path, k, seed, len(in), in, len(want), want)
			}
			if got != want || res.StatusCode != 299 {
				t.Errorf("%s body %d (seed %d): the client got %d and %d bytes %.80q, want 299 and %d bytes", path, k, seed, res.StatusCode, len(got), got, len(want))
			}
			if ct := res.Header.Get("Content-Type"); ct != "application/json; odd=\"yes\"" {
				t.Errorf("content type %q changed", ct)
			}
		}
	}
}

// TestTargetsPassByteForByte writes request lines by hand, since clients tidy
// them, and compares with what the backend's request line was.
func TestTargetsPassByteForByte(t *testing.T) {
	leak.Check(t)
	targets := []string{
		"/", "/v1/models", "/v1/models/", "/v1/models/a%2Fb", "/v1/models/a%2fb", "/v1//models", "//v1/models",
		"/v1/../models/./x", "/v1/models/%41", "/v1/models?", "/v1/models?a=1;b=2", "/v1/models?a=%zz&b", "/v1/models?q=a+b%20c",
		"/v1/models?url=http://x/y?z", `/v1/mo"d|e^l`, "/v1/m\u00f6del", "/v1/models/a:b@c;d,e=f!$'()*",
	}
	for _, base := range []string{"", "/", "/pre%2Ffix", "/prefix/"} {
		seen := make(chan string, 1)
		back := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { seen <- r.RequestURI }))
		f := serve(t, proxy.Options{Backends: []proxy.Backend{{Region: "a", URL: mustURL(t, back.String()+base)}}}, newTable(t, 1, []arc{{"a", 1}}))
		for _, target := range targets {
			res := raw(t, f.url, "GET "+target+" HTTP/1.1\r\nHost: api.example.org\r\nConnection: close\r\n\r\n")
			if !strings.HasPrefix(res, "HTTP/1.1 200 ") {
				t.Errorf("base %q target %q: answer %.60q, want 200", base, target, res)
				continue
			}
			want := strings.TrimSuffix(base, "/") + target
			if got := soon(t, seen, "the request"); got != want {
				t.Errorf("base %q target %q: backend got %q, want %q", base, target, got, want)
			}
		}
		// The absolute form names the proxy's own authority; only its path goes on.
		raw(t, f.url, "GET http://other.example/v1/models?x HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\n\r\n")
		if got, want := soon(t, seen, "the request"), strings.TrimSuffix(base, "/")+"/v1/models?x"; got != want {
			t.Errorf("absolute form: backend got %q, want %q", got, want)
		}
	}
}

// raw sends bytes to the server at addr and returns everything it answers.
func raw(t *testing.T, addr, request string) string {
	t.Helper()
	u, err := url.Parse(addr)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	io.WriteString(c, request)
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

func TestHeaders(t *testing.T) {
	leak.Check(t)
	seen := make(chan *http.Request, 1)
	f := oneRegion(t, proxy.Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r
		h := w.Header()
		h.Set("Connection", "X-Hop-Back")
		h.Set("X-Hop-Back", "1")
		h.Set("Keep-Alive", "timeout=5")
		h.Set("Proxy-Authenticate", "Basic")
		h.Set("X-Request-Id", "r-1")
		h.Set(proxy.HeaderRegion, "somewhere else")
		h.Set(proxy.HeaderEpoch, "999")
		h.Add("Set-Cookie", "a=1")
		h.Add("Set-Cookie", "b=2")
	}))
	answer := raw(t, f.url, "GET /v1/models HTTP/1.1\r\nHost: api.example.org\r\nConnection: close, X-Hop\r\n"+
		"X-Hop: 1\r\nKeep-Alive: 3\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\nTE: gzip\r\n"+
		"Authorization: Bearer sk-1\r\nX-Strandline-Session: s\r\nX-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Proto: https\r\n"+
		"X-Forwarded-Host: evil.example\r\nForwarded: for=203.0.113.9\r\nVia: 1.0 other\r\nOpenAI-Organization: o\r\n\r\n")
	r := soon(t, seen, "the request")
	if r.Host == "api.example.org" || !strings.HasPrefix(r.Host, "127.0.0.1:") {
		t.Errorf("backend got the Host %q, want its own", r.Host)
	}
	want := http.Header{
		"Authorization":        {"Bearer sk-1"},
		"X-Strandline-Session": {"s"},
		"X-Forwarded-For":      {"127.0.0.1"},
		"X-Forwarded-Proto":    {"http"},
		"X-Forwarded-Host":     {"api.example.org"},
		"Via":                  {"1.0 other, 1.1 strandline"},
		"Openai-Organization":  {"o"},
	}
	if !reflect.DeepEqual(r.Header, want) {
		t.Errorf("backend got\n%v\nwant\n%v", r.Header, want)
	}
	res, err := http.ReadResponse(bufio.NewReader(strings.NewReader(answer)), nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Header.Del("Date")
	wantBack := http.Header{
		"X-Request-Id":        {"r-1"},
		"X-Strandline-Region": {"a"},
		"X-Strandline-Epoch":  {"1"},
		"Set-Cookie":          {"a=1", "b=2"},
		"Content-Length":      {"0"},
	}
	if !reflect.DeepEqual(res.Header, wantBack) {
		t.Errorf("client got\n%v\nwant\n%v", res.Header, wantBack)
	}
}

func TestTrailersPassBothWays(t *testing.T) {
	leak.Check(t)
	seen := make(chan http.Header, 1)
	f := oneRegion(t, proxy.Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		seen <- r.Trailer
		w.Header().Set("Trailer", "X-Announced")
		io.WriteString(w, "body")
		w.Header().Set("X-Announced", "1")
		w.Header().Set(http.TrailerPrefix+"X-Late", "2")
	}))
	r := f.request(t, t.Context(), http.MethodPost, "/v1/audio", io.MultiReader(strings.NewReader("x")))
	r.Trailer = http.Header{"X-Sum": {"abc"}}
	res, body := f.do(t, r)
	if got := soon(t, seen, "the request").Get("X-Sum"); got != "abc" {
		t.Errorf("backend got the trailer %q, want abc", got)
	}
	if want := (http.Header{"X-Announced": {"1"}, "X-Late": {"2"}}); body != "body" || !reflect.DeepEqual(res.Trailer, want) {
		t.Errorf("client got %q and the trailer %v, want %v", body, res.Trailer, want)
	}
}

// TestUpgradePasses runs a protocol of lines through an upgraded connection.
func TestUpgradePasses(t *testing.T) {
	leak.Check(t)
	f := oneRegion(t, proxy.Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Connection") != "Upgrade" {
			t.Errorf("backend got %v, want the upgrade", r.Header)
		}
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		w.WriteHeader(http.StatusSwitchingProtocols)
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		for {
			line, err := rw.ReadString('\n')
			if err != nil {
				return
			}
			fmt.Fprintf(rw, "echo %s", line)
			rw.Flush()
		}
	}))
	c, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET /v1/realtime HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	br := bufio.NewReader(c)
	res, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 101 || res.Header.Get(proxy.HeaderRegion) != "a" {
		t.Fatalf("got %d %v, want 101 from region a", res.StatusCode, res.Header)
	}
	for _, line := range []string{"one\n", "two\n"} {
		io.WriteString(c, line)
		if got, err := br.ReadString('\n'); got != "echo "+line {
			t.Errorf("got %q, %v, want echo %q", got, err, line)
		}
	}
	if n := f.InFlight(); n != 1 {
		t.Errorf("%d in flight while the connection is open, want 1", n)
	}
	c.Close()
	if n := f.Drain(t.Context()); n != 0 {
		t.Errorf("%d in flight after it closed, want 0", n)
	}
}

// TestExpectContinue: the body goes only after the backend has asked for it.
func TestExpectContinue(t *testing.T) {
	leak.Check(t)
	f := oneRegion(t, proxy.Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		io.Copy(w, r.Body)
	}))
	for path, want := range map[string]string{"/yes": "HTTP/1.1 100 Continue", "/no": "HTTP/1.1 401 Unauthorized"} {
		c, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n", path)
		br := bufio.NewReader(c)
		line, _ := br.ReadString('\n')
		if got := strings.TrimSpace(line); got != want {
			t.Errorf("%s: first line %q, want %q", path, got, want)
		}
		io.WriteString(c, "ok")
		rest, _ := io.ReadAll(br)
		if path == "/yes" && !bytes.HasSuffix(rest, []byte("\r\n\r\nok")) {
			t.Errorf("answer %q, want it to end with the body", rest)
		}
		c.Close()
	}
}
