package proxy_test

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"time"

	"strandline/router"
	"strandline/router/proxy"
)

// arc is a region with the share that the frontend fra gives it.
type arc struct {
	region string
	share  float64
}

// newTable is a table in which the frontend fra has these shares; what they
// leave of 1 is shed, except where all are 0.
func newTable(t testing.TB, epoch uint64, arcs []arc, down ...string) *router.Table {
	t.Helper()
	w := &router.World{Frontends: []router.Frontend{{Name: "fra", RateHz: 10}}, Latency: router.Latency{Matrix: make([][]*float64, 1)}}
	f := router.FrontendPlan{Name: "fra", RateHz: 10, ShedHz: 10}
	var p router.Plan
	for i, a := range arcs {
		delayS := float64(i+1) / 100
		w.Regions = append(w.Regions, router.Region{Name: a.region, Service: router.Service{Mu: 100}})
		w.Latency.Matrix[0] = append(w.Latency.Matrix[0], &delayS)
		f.Shares = append(f.Shares, a.share)
		f.ShedHz -= 10 * a.share
		p.Regions = append(p.Regions, router.RegionPlan{Name: a.region})
	}
	if math.Abs(f.ShedHz) < 1e-9 || f.ShedHz == 10 {
		f.ShedHz = 0
	}
	p.Frontends = []router.FrontendPlan{f}
	table, err := router.NewTable(epoch, w, &p, nil, "fra", down)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// start serves h on a loopback port until the end of the test.
func start(t testing.TB, h http.Handler) *url.URL {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return mustURL(t, srv.URL)
}

func mustURL(t testing.TB, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// deadURL is an address that nobody listens at.
func deadURL(t testing.TB) *url.URL {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return &url.URL{Scheme: "http", Host: l.Addr().String()}
}

// front is a proxy being served, with a client of its own.
type front struct {
	*proxy.Proxy
	url    string
	client *http.Client
}

// serve starts a proxy for the frontend fra.
func serve(t testing.TB, opts proxy.Options, table *router.Table) front {
	t.Helper()
	opts.Frontend = "fra"
	p, err := proxy.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	if table != nil {
		if err := p.Publish(table); err != nil {
			t.Fatal(err)
		}
	}
	tr := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
	t.Cleanup(tr.CloseIdleConnections)
	return front{p, start(t, p).String(), &http.Client{Transport: tr, Timeout: 30 * time.Second}}
}

// oneRegion serves a proxy whose only region a is h.
func oneRegion(t testing.TB, opts proxy.Options, h http.Handler) front {
	t.Helper()
	opts.Backends = []proxy.Backend{{Region: "a", URL: start(t, h)}}
	return serve(t, opts, newTable(t, 1, []arc{{"a", 1}}))
}

// do sends a request and returns the response, its body read.
func (f front) do(t testing.TB, r *http.Request) (*http.Response, string) {
	t.Helper()
	res, err := f.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// request makes a request for the path of f.
func (f front) request(t testing.TB, ctx context.Context, method, path string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, f.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// get is a GET of the path of f.
func (f front) get(t testing.TB, path string) (*http.Response, string) {
	t.Helper()
	return f.do(t, f.request(t, t.Context(), http.MethodGet, path, nil))
}

// region returns the counters of one region.
func (f front) region(name string) proxy.RegionStats {
	s := f.Stats().Regions
	return s[slices.IndexFunc(s, func(r proxy.RegionStats) bool { return r.Region == name })]
}

// wantFailure checks status and code of an answer of the proxy's own.
func wantFailure(t *testing.T, res *http.Response, body string, status int, code string) {
	t.Helper()
	var got struct {
		Error struct{ Message, Type, Code string }
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatalf("body %q: %v", body, err)
	}
	if res.StatusCode != status || got.Error.Code != code || got.Error.Message == "" || got.Error.Type == "" {
		t.Errorf("got %d %+v, want %d with code %q, a message and a type", res.StatusCode, got.Error, status, code)
	}
	if ct := res.Header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("content type %q, want application/json", ct)
	}
}

// soon receives from c, or fails the test after a time that only a fault takes.
func soon[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(10 * time.Second):
		t.Fatalf("%s did not happen in 10 s", what)
		panic("unreachable")
	}
}

// named answers with its name.
func named(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, name)
	})
}

// discardLog silences a server whose complaints are part of a test.
func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }
