package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"strandline/internal/leak"
	"strandline/router/proxy"
)

// threeRegions are backends a, b and c that answer with their names.
func threeRegions(t testing.TB) []proxy.Backend {
	t.Helper()
	var bs []proxy.Backend
	for _, name := range []string{"a", "b", "c"} {
		bs = append(bs, proxy.Backend{Region: name, URL: start(t, named(name))})
	}
	return bs
}

// TestSharesAreFollowed sends N requests and compares the counts per region with
// the shares by the chi-square test: 13.82 is its 0.1 % quantile for 2 degrees of
// freedom. The draws are seeded, so the outcome is the same in each run.
func TestSharesAreFollowed(t *testing.T) {
	leak.Check(t)
	const n = 4000
	arcs := []arc{{"a", 0.5}, {"b", 0.3}, {"c", 0.2}}
	for _, seed := range []uint64{0, 1, 1 << 63} {
		f := serve(t, proxy.Options{Backends: threeRegions(t), Seed: seed}, newTable(t, 1, arcs))
		counts := map[string]float64{}
		for range n {
			res, body := f.get(t, "/v1/models")
			if got := res.Header.Get(proxy.HeaderRegion); got != body {
				t.Fatalf("header names %q, %q answered", got, body)
			}
			counts[body]++
		}
		chi2 := 0.0
		for _, a := range arcs {
			want := a.share * n
			chi2 += (counts[a.region] - want) * (counts[a.region] - want) / want
			if got := f.region(a.region).Requests; float64(got) != counts[a.region] {
				t.Errorf("seed %d: counter of %s is %d, want %v", seed, a.region, got, counts[a.region])
			}
		}
		if chi2 > 13.82 {
			t.Errorf("seed %d: counts %v of %d, chi-square %.1f, want at most 13.82", seed, counts, n, chi2)
		}
	}
}

func TestSameSeedSameDecisions(t *testing.T) {
	leak.Check(t)
	run := func(seed uint64) (s string) {
		f := serve(t, proxy.Options{Backends: threeRegions(t), Seed: seed}, newTable(t, 1, []arc{{"a", 0.5}, {"b", 0.3}, {"c", 0.2}}))
		for range 64 {
			_, body := f.get(t, "/")
			s += body
		}
		return s
	}
	if one, again, other := run(5), run(5), run(6); one != again || one == other {
		t.Errorf("seed 5 twice and seed 6 gave\n%s\n%s\n%s\nwant the first two alike only", one, again, other)
	}
}

// TestSessionsStick: a session stays in its region; in all, sessions follow the
// shares; and when a region goes, only its sessions move.
func TestSessionsStick(t *testing.T) {
	leak.Check(t)
	const sessions = 400
	opts := proxy.Options{Backends: threeRegions(t)}
	f := serve(t, opts, newTable(t, 1, []arc{{"a", 0.5}, {"b", 0.3}, {"c", 0.2}}))
	opts.Seed = 99
	twin := serve(t, opts, newTable(t, 7, []arc{{"a", 0.5}, {"b", 0.3}, {"c", 0.2}}))
	ask := func(f front, i int) string {
		r := f.request(t, t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader("{}"))
		r.Header.Set(proxy.HeaderSession, fmt.Sprintf("session-%d", i))
		_, body := f.do(t, r)
		return body
	}
	before, counts := make([]string, sessions), map[string]float64{}
	for i := range sessions {
		before[i] = ask(f, i)
		counts[before[i]]++
		if again, elsewhere := ask(f, i), ask(twin, i); again != before[i] || elsewhere != before[i] {
			t.Errorf("session %d went to %s, then %s, and %s by another proxy", i, before[i], again, elsewhere)
		}
	}
	// Five standard deviations of a binomial count.
	for name, share := range map[string]float64{"a": 0.5, "b": 0.3, "c": 0.2} {
		if want := share * sessions; math.Abs(counts[name]-want) > 5*math.Sqrt(want*(1-share)) {
			t.Errorf("%v sessions in %s, want about %v", counts[name], name, want)
		}
	}
	if err := f.Publish(newTable(t, 2, []arc{{"a", 0.5}, {"b", 0.3}, {"c", 0.2}}, "b")); err != nil {
		t.Fatal(err)
	}
	for i := range sessions {
		switch after := ask(f, i); {
		case after == "b":
			t.Errorf("session %d is in b, which is down", i)
		case before[i] != "b" && after != before[i]:
			t.Errorf("session %d moved from %s to %s, though only b went down", i, before[i], after)
		}
	}
}

// TestSwapInMidStream: a request finishes where it began, the next one goes by
// the new table.
func TestSwapInMidStream(t *testing.T) {
	leak.Check(t)
	s := newStepper("text/event-stream")
	f := serve(t, proxy.Options{Backends: []proxy.Backend{{Region: "a", URL: start(t, s)}, {Region: "b", URL: start(t, named("b"))}}},
		newTable(t, 1, []arc{{"a", 1}, {"b", 0}}))
	res, err := f.client.Do(f.request(t, t.Context(), http.MethodGet, "/v1/x", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	s.give(t, "one")
	readPiece(t, res.Body, "one")
	if err := f.Publish(newTable(t, 2, []arc{{"a", 0}, {"b", 1}})); err != nil {
		t.Fatal(err)
	}
	if res, body := f.get(t, "/v1/x"); body != "b" || res.Header.Get(proxy.HeaderEpoch) != "2" {
		t.Errorf("new request: %q of epoch %s, want b of epoch 2", body, res.Header.Get(proxy.HeaderEpoch))
	}
	s.give(t, "two")
	readPiece(t, res.Body, "two")
	close(s.next)
	if _, err := io.ReadAll(res.Body); err != nil || res.Header.Get(proxy.HeaderEpoch) != "1" {
		t.Errorf("old stream of epoch %s ended with %v, want epoch 1 and no error", res.Header.Get(proxy.HeaderEpoch), err)
	}
}

// TestSwapUnderLoad: whatever the moment, region and epoch of an answer belong
// to one table. Odd epochs send all to a, even ones to b.
func TestSwapUnderLoad(t *testing.T) {
	leak.Check(t)
	tables := func(epoch uint64) []arc {
		odd := float64(epoch % 2)
		return []arc{{"a", odd}, {"b", 1 - odd}, {"c", 0}}
	}
	f := serve(t, proxy.Options{Backends: threeRegions(t)}, newTable(t, 1, tables(1)))
	var wg sync.WaitGroup
	seen := make([]map[string]bool, 4)
	for g := range seen {
		seen[g] = map[string]bool{}
		wg.Go(func() {
			for range 200 {
				res, body := f.get(t, "/")
				epoch, _ := strconv.Atoi(res.Header.Get(proxy.HeaderEpoch))
				if want := string("ba"[epoch%2]); body != want {
					t.Errorf("epoch %d: answer of %s, want %s", epoch, body, want)
				}
				seen[g][body] = true
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for epoch := uint64(2); ; epoch++ {
		if err := f.Publish(newTable(t, epoch, tables(epoch))); err != nil {
			t.Error(err)
		}
		select {
		case <-done:
			for g := range seen {
				if len(seen[g]) != 2 {
					t.Errorf("client %d saw %v, want both tables", g, seen[g])
				}
			}
			return
		default:
		}
	}
}

func TestPublishKeepsLastGood(t *testing.T) {
	leak.Check(t)
	f := serve(t, proxy.Options{Backends: threeRegions(t)}, newTable(t, 1, []arc{{"a", 1}}))
	err := f.Publish(newTable(t, 2, []arc{{"a", 0.5}, {"x", 0.25}, {"y", 0.25}, {"z", 0}}))
	if err == nil || !strings.Contains(err.Error(), `"x"`) || !strings.Contains(err.Error(), `"y"`) || strings.Contains(err.Error(), `"z"`) {
		t.Errorf("error %v, want the regions x and y without backend named, not z, which has no share", err)
	}
	if res, body := f.get(t, "/"); body != "a" || res.Header.Get(proxy.HeaderEpoch) != "1" {
		t.Errorf("after a bad table: %q of epoch %s, want a of epoch 1", body, res.Header.Get(proxy.HeaderEpoch))
	}
	other, err := proxy.New(proxy.Options{Frontend: "nowhere"})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Publish(newTable(t, 1, []arc{{"a", 1}})); err == nil || !strings.Contains(err.Error(), `"nowhere"`) {
		t.Errorf("error %v, want the unknown frontend named", err)
	}
}

func TestNewNamesEveryBadBackend(t *testing.T) {
	u := mustURL(t, "http://x")
	_, err := proxy.New(proxy.Options{Backends: []proxy.Backend{
		{Region: "a", URL: u}, {Region: "a", URL: u}, {URL: u}, {Region: "b"}, {Region: "c", URL: mustURL(t, "ftp://x")},
		{Region: "d", URL: mustURL(t, "/path")}, {Region: "e", URL: mustURL(t, "http://user:secret@x")}, {Region: "f", URL: mustURL(t, "http://x?q")},
	}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`"a" has two`, "without a region", `"b"`, `"c"`, `"d"`, `"e"`, `"f"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error\n%v\nwant %q in it", err, want)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("error shows the password: %v", err)
	}
}

// TestRerouteWhenRefused: the first region refuses connections; the body, larger
// than any buffer on the way, arrives whole at the other.
func TestRerouteWhenRefused(t *testing.T) {
	leak.Check(t)
	body := strings.Repeat("0123456789abcdef", 256<<10) // 4 MiB
	f := serve(t, proxy.Options{Backends: []proxy.Backend{
		{Region: "a", URL: deadURL(t)},
		{Region: "b", URL: start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).EnableFullDuplex() // it answers while it reads
			io.Copy(w, r.Body)
		}))},
		{Region: "c", URL: start(t, named("c"))},
	}}, newTable(t, 1, []arc{{"a", 1}, {"b", 0}, {"c", 0}}))
	for name, r := range map[string]*http.Request{
		"length known": f.request(t, t.Context(), http.MethodPost, "/v1/x", strings.NewReader(body)),
		"chunked":      f.request(t, t.Context(), http.MethodPost, "/v1/x", io.MultiReader(strings.NewReader(body))),
	} {
		res, got := f.do(t, r)
		if res.StatusCode != 200 || got != body || res.Header.Get(proxy.HeaderRegion) != "b" {
			t.Errorf("%s: %d from %q and %d bytes, want 200 from b, the cheaper of the others, and %d bytes",
				name, res.StatusCode, res.Header.Get(proxy.HeaderRegion), len(got), len(body))
		}
	}
	if res, _ := f.get(t, "/v1/models"); res.StatusCode != 200 {
		t.Errorf("GET: %d, want 200", res.StatusCode)
	}
	want := proxy.RegionStats{Region: "a", Requests: 3, Failed: 3, Rerouted: 3}
	if got := f.region("a"); got != want {
		t.Errorf("counters %+v, want %+v", got, want)
	}
}

// TestRerouteAfterCrash: connections to the region were open when it went. The
// first request after it is one that may be repeated, so that it does not matter
// whether the proxy has noticed the close yet.
func TestRerouteAfterCrash(t *testing.T) {
	leak.Check(t)
	crashing := httptest.NewServer(named("a"))
	f := serve(t, proxy.Options{Backends: []proxy.Backend{
		{Region: "a", URL: mustURL(t, crashing.URL)}, {Region: "b", URL: start(t, named("b"))},
	}}, newTable(t, 1, []arc{{"a", 1}, {"b", 0}}))
	post := func() string {
		_, body := f.do(t, f.request(t, t.Context(), http.MethodPost, "/v1/x", strings.NewReader("{}")))
		return body
	}
	if got := post(); got != "a" {
		t.Fatalf("got %q, want a", got)
	}
	crashing.Close()
	if _, got := f.get(t, "/v1/models"); got != "b" {
		t.Errorf("after the crash: %q, want b", got)
	}
	for range 3 {
		if got := post(); got != "b" {
			t.Errorf("after the crash: %q, want b", got)
		}
	}
}

func TestOnlyOneReroute(t *testing.T) {
	leak.Check(t)
	f := serve(t, proxy.Options{Backends: []proxy.Backend{
		{Region: "a", URL: deadURL(t)}, {Region: "b", URL: deadURL(t)}, {Region: "c", URL: start(t, named("c"))},
	}}, newTable(t, 1, []arc{{"a", 1}, {"b", 0}, {"c", 0}}))
	res, body := f.get(t, "/v1/models")
	wantFailure(t, res, body, http.StatusBadGateway, "connect_failed")
	if got := res.Header.Get(proxy.HeaderRegion); got != "b" {
		t.Errorf("region header %q, want b, the last one asked", got)
	}
	if a, b, c := f.region("a"), f.region("b"), f.region("c"); a.Failed != 1 || b.Failed != 1 || b.Rerouted != 0 || c.Requests != 0 {
		t.Errorf("counters %+v %+v %+v, want a and b failed once and c not asked", a, b, c)
	}
}

// TestNoSecondSend: a region that took the request and then failed may have
// worked on it, so it must not be sent again.
func TestNoSecondSend(t *testing.T) {
	leak.Check(t)
	f := serve(t, proxy.Options{Backends: []proxy.Backend{
		{Region: "a", URL: start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))},
		{Region: "b", URL: start(t, named("b"))},
	}}, newTable(t, 1, []arc{{"a", 1}, {"b", 0}}))
	res, body := f.do(t, f.request(t, t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader("{}")))
	wantFailure(t, res, body, http.StatusBadGateway, "backend_failed")
	if b := f.region("b"); b.Requests != 0 {
		t.Errorf("b got %d requests, want 0", b.Requests)
	}
}

// TestErrorsOfTheRegionPass: what the engine says is not the proxy's to change.
func TestErrorsOfTheRegionPass(t *testing.T) {
	leak.Check(t)
	for _, status := range []int{400, 404, 429, 500, 503} {
		f := oneRegion(t, proxy.Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "17")
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"error" : %d}`, status)
		}))
		res, body := f.get(t, "/v1/models")
		if res.StatusCode != status || body != fmt.Sprintf(`{"error" : %d}`, status) || res.Header.Get("Retry-After") != "17" {
			t.Errorf("got %d %s %v, want the region's %d", res.StatusCode, body, res.Header, status)
		}
	}
}

// TestConnectTimeout: the region accepts and then says nothing, so TLS does not
// come about; where there is another region, it serves.
func TestConnectTimeout(t *testing.T) {
	leak.Check(t)
	l, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts, nobody else does
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	silent := proxy.Backend{Region: "a", URL: &url.URL{Scheme: "https", Host: l.Addr().String()}}
	opts := proxy.Options{Backends: []proxy.Backend{silent}, ConnectTimeout: 50 * time.Millisecond}
	f := serve(t, opts, newTable(t, 1, []arc{{"a", 1}}))
	res, body := f.get(t, "/v1/models")
	wantFailure(t, res, body, http.StatusGatewayTimeout, "connect_timeout")

	opts.Backends = append(opts.Backends, proxy.Backend{Region: "b", URL: start(t, named("b"))})
	f = serve(t, opts, newTable(t, 1, []arc{{"a", 1}, {"b", 0}}))
	if _, body := f.get(t, "/v1/models"); body != "b" {
		t.Errorf("got %q, want b", body)
	}
}

// TestTLSBackend: HTTP/2 to a backend that speaks it; a backend with a
// certificate that is not trusted counts as one that cannot be connected to.
func TestTLSBackend(t *testing.T) {
	leak.Check(t)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Proto", r.Proto)
		io.Copy(w, r.Body)
	}))
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = discardLog()
	srv.StartTLS()
	t.Cleanup(srv.Close)
	opts := proxy.Options{
		Backends: []proxy.Backend{{Region: "a", URL: mustURL(t, srv.URL)}, {Region: "b", URL: start(t, named("b"))}},
		TLS:      srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone(),
	}
	table := newTable(t, 1, []arc{{"a", 1}, {"b", 0}})
	f := serve(t, opts, table)
	want := strings.Repeat("x", 100_000)
	for range 2 { // new connection, kept connection
		res, body := f.do(t, f.request(t, t.Context(), http.MethodPost, "/v1/x", io.MultiReader(strings.NewReader(want))))
		if res.Header.Get("X-Proto") != "HTTP/2.0" || body != want {
			t.Errorf("got %d bytes by %q, want %d by HTTP/2.0", len(body), res.Header.Get("X-Proto"), len(want))
		}
	}
	opts.TLS = nil
	f = serve(t, opts, table)
	if _, body := f.get(t, "/v1/x"); body != "b" {
		t.Errorf("certificate not trusted: got %q, want b", body)
	}
}

func TestBodyLimit(t *testing.T) {
	leak.Check(t)
	const limit = 1000
	var whole int
	f := oneRegion(t, proxy.Options{MaxBodyBytes: limit}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			whole++
		}
	}))
	for _, n := range []int{limit, limit + 1, 1 << 20} {
		for _, chunked := range []bool{false, true} {
			var body io.Reader = strings.NewReader(strings.Repeat("x", n))
			if chunked {
				body = io.MultiReader(body)
			}
			res, text := f.do(t, f.request(t, t.Context(), http.MethodPost, "/v1/x", body))
			if n <= limit {
				if res.StatusCode != 200 {
					t.Errorf("%d bytes, chunked %t: %d, want 200", n, chunked, res.StatusCode)
				}
				continue
			}
			wantFailure(t, res, text, http.StatusRequestEntityTooLarge, "body_too_large")
		}
	}
	f.Drain(t.Context())
	if whole != 2 {
		t.Errorf("the backend got %d whole bodies, want 2", whole)
	}
}

// TestUnreadBodyEndsConnection: what follows a body that broke off, or that
// nobody read, must not be taken for the next request.
func TestUnreadBodyEndsConnection(t *testing.T) {
	leak.Check(t)
	smuggled := make(chan string, 4)
	f := oneRegion(t, proxy.Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/read":
			io.Copy(io.Discard, r.Body)
		case "/ignore":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			smuggled <- r.URL.Path
		}
	}))
	const next = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
	chunked := func(path, body string) string {
		return "POST " + path + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + body
	}
	for _, tt := range []struct{ name, request, want string }{
		{"nonsense read", chunked("/read", "2\r\nab\r\nnonsense\r\n"+next), "HTTP/1.1 400 "},
		{"nonsense at once", chunked("/read", "nonsense\r\n"+next), "HTTP/1.1 400 "},
		{"unread", chunked("/ignore", "80000\r\n"+strings.Repeat("x", 0x80000)+"\r\nnonsense\r\n"+next), "HTTP/1.1 40"}, // whichever is first, 400 or 401
	} {
		answer := raw(t, f.url, tt.request)
		head, _, _ := strings.Cut(answer, "\r\n\r\n")
		if !strings.HasPrefix(head, tt.want) || !strings.Contains(head, "\r\nConnection: close") || strings.Count(answer, "HTTP/1.1") != 1 {
			t.Errorf("%s: answer %q, want one %q with Connection: close", tt.name, answer, tt.want)
		}
	}
	f.Drain(t.Context())
	if len(smuggled) > 0 {
		t.Errorf("the backend got %d requests that came out of bodies", len(smuggled))
	}
}

// TestConnectionIsKept: connections of clients are used again after an ordinary request.
func TestConnectionIsKept(t *testing.T) {
	leak.Check(t)
	f := oneRegion(t, proxy.Options{}, named("a"))
	for i := range 50 {
		var body io.Reader = strings.NewReader(strings.Repeat("x", 1<<(i%20)))
		if i%2 == 1 {
			body = io.MultiReader(body)
		}
		reused := i == 0
		trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = reused || info.Reused }}
		r := f.request(t, httptrace.WithClientTrace(t.Context(), trace), http.MethodPost, "/v1/x", body)
		if f.do(t, r); !reused {
			t.Errorf("request %d needed a new connection", i)
		}
	}
}

func TestRefusals(t *testing.T) {
	leak.Check(t)
	without := serve(t, proxy.Options{Backends: threeRegions(t)}, nil)
	if s := without.Stats(); s.HasTable {
		t.Errorf("%+v before the first table, want HasTable false", s)
	}
	res, body := without.get(t, "/v1/models")
	wantFailure(t, res, body, http.StatusServiceUnavailable, "no_table")
	if res.Header.Get("Retry-After") == "" {
		t.Errorf("503 without Retry-After")
	}

	f := serve(t, proxy.Options{Backends: threeRegions(t)}, newTable(t, 1, []arc{{"z", 0}}, "z"))
	res, body = f.get(t, "/v1/models")
	wantFailure(t, res, body, http.StatusServiceUnavailable, "no_region")

	f = serve(t, proxy.Options{Backends: threeRegions(t)}, newTable(t, 3, []arc{{"a", 1}}))
	if answer := raw(t, f.url, "CONNECT x:443 HTTP/1.1\r\nHost: x:443\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 405 ") {
		t.Errorf("CONNECT: %q, want 405", answer)
	}
	if s := f.Stats(); s.Refused != 1 || !s.HasTable || s.Epoch != 3 || s.InFlight != 0 {
		t.Errorf("%+v, want 1 refused, epoch 3, none in flight", s)
	}
}

// TestAllDownIsTried: a wrong health check must not stop a service that works.
func TestAllDownIsTried(t *testing.T) {
	leak.Check(t)
	f := serve(t, proxy.Options{Backends: threeRegions(t)}, newTable(t, 1, []arc{{"a", 0.5}, {"b", 0.5}}, "a", "b"))
	if _, body := f.get(t, "/"); body != "a" && body != "b" {
		t.Errorf("got %q, want an answer of a or b", body)
	}
}

// TestSheddingFollowsThePlan: a share of 0.75 served leaves a quarter refused,
// sessions too, none of them for ever.
func TestSheddingFollowsThePlan(t *testing.T) {
	leak.Check(t)
	const n, share = 2000, 0.25
	f := serve(t, proxy.Options{Backends: threeRegions(t), Seed: 3}, newTable(t, 1, []arc{{"a", 0.5}, {"b", 0.25}}))
	shed := 0
	for range n {
		r := f.request(t, t.Context(), http.MethodGet, "/", nil)
		r.Header.Set(proxy.HeaderSession, "one")
		res, body := f.do(t, r)
		if res.StatusCode == http.StatusOK {
			continue
		}
		shed++
		wantFailure(t, res, body, http.StatusTooManyRequests, "shed")
	}
	if sigma := math.Sqrt(n * share * (1 - share)); math.Abs(float64(shed)-n*share) > 4*sigma {
		t.Errorf("%d of %d shed, want %v within %v", shed, n, n*share, 4*sigma)
	}
}

// TestCutAtDrainTellsTheClient: the daemon ends the base context while the client
// is still there and has seen nothing; it must not read an empty 200.
func TestCutAtDrainTellsTheClient(t *testing.T) {
	leak.Check(t)
	arrived := make(chan struct{})
	p, err := proxy.New(proxy.Options{Frontend: "fra", Backends: []proxy.Backend{{Region: "a", URL: start(t, http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { close(arrived); <-r.Context().Done() }))}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	if err := p.Publish(newTable(t, 1, []arc{{"a", 1}})); err != nil {
		t.Fatal(err)
	}
	base, cut := context.WithCancel(t.Context())
	srv := httptest.NewUnstartedServer(p)
	srv.Config.BaseContext = func(net.Listener) context.Context { return base }
	srv.Start()
	t.Cleanup(srv.Close)
	go func() { <-arrived; cut() }()
	res, err := srv.Client().Get(srv.URL)
	if err != nil {
		if errors.Is(err, io.EOF) {
			return // cut: the client knows too
		}
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	wantFailure(t, res, string(body), http.StatusServiceUnavailable, "cancelled")
}
