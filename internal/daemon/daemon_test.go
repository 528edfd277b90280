package daemon_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"strandline/internal/config"
	"strandline/internal/daemon"
	"strandline/internal/leak"
	"strandline/internal/simbackend"
)

// patience bounds every wait for something that must happen.
const patience = 10 * time.Second

// region is one simulated region: an inference engine behind a real socket.
type region struct {
	*simbackend.Backend
	url string
}

func newRegion(t *testing.T, name string) region {
	t.Helper()
	b, err := simbackend.New(simbackend.Options{Region: name, MuHz: 1000, Kappa: 10, TokenTime: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(b)
	t.Cleanup(srv.Close)
	return region{b, srv.URL}
}

// confText is a configuration with two regions, fra near europe and nyc near
// america, so little loaded that each frontend uses its own region only.
func confText(fra, nyc string, edits ...string) string {
	text := `
admin: {listen: 127.0.0.1:0}
dns:
  listen: [127.0.0.1:0]
  zones: [{name: example.org, file: example.org.zone}]
  steer: [{name: api.example.org, ttl: 7s, service: chat}]
services:
  - name: chat
    regions:
      - name: fra
        addresses: [192.0.2.10]
        backend: "` + fra + `"
        health: {http: /health, interval: 20ms, timeout: 2s, rise: 1, fall: 2}
      - name: nyc
        addresses: [192.0.2.20]
        backend: "` + nyc + `"
        health: {http: /health, interval: 20ms, timeout: 2s, rise: 1, fall: 2}
router:
  world:
    frontends: [{name: europe, rate: 1}, {name: america, rate: 1}]
    regions:
      - {name: fra, service: {kind: hyperbolic, mu: 1000, kappa: 1}}
      - {name: nyc, service: {kind: hyperbolic, mu: 1000, kappa: 1}}
    latency: {unit: ms, kind: rtt, matrix: [[10, 100], [100, 10]]}
    objective: {network: rtt}
  clients: [{prefix: 198.51.100.0/24, frontend: europe}, {prefix: 203.0.113.0/24, frontend: america}]
  default_frontend: america
http: {listen: [127.0.0.1:0], service: chat, frontend: europe, drain_timeout: 5s}
`
	return strings.NewReplacer(edits...).Replace(text)
}

const zoneText = "$TTL 60\n@ SOA ns1 hostmaster 1 7200 900 1209600 30\n@ NS ns1\nns1 A 192.0.2.1\nwww A 192.0.2.80\n"

// running is a daemon under test.
type running struct {
	t      *testing.T
	file   string
	addrs  daemon.Addrs
	reload chan struct{}
	cancel context.CancelFunc
	ended  chan error
	log    *logBuffer
}

type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start runs a daemon on a configuration and waits until it serves.
func start(t *testing.T, text string, opts daemon.Options) *running {
	t.Helper()
	dir := t.TempDir()
	r := &running{t: t, file: filepath.Join(dir, "strandline.yaml"), reload: make(chan struct{}), ended: make(chan error, 1), log: &logBuffer{}}
	r.write(text)
	if err := os.WriteFile(filepath.Join(dir, "example.org.zone"), []byte(zoneText), 0o644); err != nil {
		t.Fatal(err)
	}
	ready := make(chan daemon.Addrs, 1)
	opts.ConfigFile, opts.Reload, opts.Ready = r.file, r.reload, func(a daemon.Addrs) { ready <- a }
	opts.Logger = slog.New(slog.NewTextHandler(r.log, nil))
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel = cancel
	go func() { r.ended <- daemon.Run(ctx, opts) }()
	select {
	case r.addrs = <-ready:
	case err := <-r.ended:
		t.Fatalf("did not start: %v", err)
	case <-time.After(patience):
		t.Fatal("did not start in time")
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(r.log)
		}
	})
	return r
}

func (r *running) write(text string) {
	r.t.Helper()
	if err := os.WriteFile(r.file, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// stop ends the daemon and waits for it.
func (r *running) stop() {
	r.t.Helper()
	r.cancel()
	select {
	case err := <-r.ended:
		if err != nil {
			r.t.Errorf("ended with %v", err)
		}
	case <-time.After(patience):
		r.t.Fatal("did not end in time")
	}
}

// answer is the address that a client of a subnet gets.
func (r *running) answer(subnet string) string {
	r.t.Helper()
	reply, err := ask(r.addrs.DNS[0], "api.example.org", netip.MustParsePrefix(subnet))
	if err != nil || len(reply.addrs) != 1 {
		r.t.Fatalf("answer %+v, %v", reply, err)
	}
	return reply.addrs[0].String()
}

// served is the region that an HTTP request is answered by.
func (r *running) served() string {
	r.t.Helper()
	res, err := http.Post(fmt.Sprintf("http://%v/v1/completions", r.addrs.HTTP[0]), "application/json", strings.NewReader(`{"prompt": "a", "max_tokens": 1}`))
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 200 {
		r.t.Fatalf("%s %s %v", res.Status, b, err)
	}
	return res.Header.Get("X-Strandline-Region")
}

// admin fetches a JSON page.
func (r *running) admin(path string, into any) int {
	r.t.Helper()
	res, err := http.Get(fmt.Sprintf("http://%v%s", r.addrs.Admin, path))
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if into != nil {
		if err := json.Unmarshal(b, into); err != nil {
			r.t.Fatalf("%v: %s", err, b)
		}
	}
	return res.StatusCode
}

func (r *running) status() daemon.Status {
	r.t.Helper()
	var s daemon.Status
	if code := r.admin("/status", &s); code != 200 {
		r.t.Fatalf("/status says %d", code)
	}
	return s
}

// eventually waits until the status is as wanted.
func (r *running) eventually(what string, ok func(daemon.Status) bool) daemon.Status {
	r.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		s := r.status()
		if ok(s) {
			return s
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s: not in time; status %+v", what, s)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func (r *running) sendReload() {
	r.t.Helper()
	select {
	case r.reload <- struct{}{}:
	case <-time.After(patience):
		r.t.Fatal("nobody takes the reload")
	}
}

// TestServe is the whole life: answers by DNS and HTTP, a region that fails and
// returns, explanations, and nothing left behind.
func TestServe(t *testing.T) {
	leakCheck(t)
	fra, nyc := newRegion(t, "fra"), newRegion(t, "nyc")
	r := start(t, confText(fra.url, nyc.url), daemon.Options{DNS: true, HTTP: true, Version: "test"})

	reply, err := ask(r.addrs.DNS[0], "api.example.org", netip.MustParsePrefix("198.51.100.0/24"))
	if err != nil {
		t.Fatal(err)
	}
	if want := (dnsReply{addrs: []netip.Addr{netip.MustParseAddr("192.0.2.10")}, ttl: 7, scope: 24}); !sameReply(reply, want) {
		t.Errorf("answer %+v, want %+v", reply, want)
	}
	if got := r.answer("203.0.113.0/24"); got != "192.0.2.20" {
		t.Errorf("america gets %s, want nyc's address", got)
	}
	if got := r.served(); got != "fra" {
		t.Errorf("europe's requests go to %s, want fra", got)
	}
	if s := r.status(); s.Epoch != 1 || !s.Ready || len(s.Regions) != 2 || s.Frontends[0].Shares["fra"] != 1 || s.Regions[0].Checks[0].State != "up" {
		t.Errorf("status %+v", s)
	}

	fra.SetHealthy(false)
	s := r.eventually("fra goes down", func(s daemon.Status) bool { return s.Regions[0].Down })
	if s.Epoch != 2 || s.Frontends[0].Shares["nyc"] != 1 || !strings.Contains(s.Regions[0].Checks[0].Error, "503") {
		t.Errorf("status %+v", s)
	}
	if got := r.answer("198.51.100.0/24"); got != "192.0.2.20" {
		t.Errorf("with fra down europe gets %s, want nyc's address", got)
	}
	if got := r.served(); got != "nyc" {
		t.Errorf("with fra down europe's requests go to %s, want nyc", got)
	}

	fra.SetHealthy(true)
	if s = r.eventually("fra comes back", func(s daemon.Status) bool { return !s.Regions[0].Down }); s.Epoch != 3 {
		t.Errorf("epoch %d, want 3", s.Epoch)
	}
	if a, b := r.answer("198.51.100.0/24"), r.served(); a != "192.0.2.10" || b != "fra" {
		t.Errorf("with fra back europe gets %s and %s, want fra", a, b)
	}
	r.checkExplain()
	r.stop()
}

// leakCheck must come before everything else in a test, so that its clean-up
// comes last. The client's idle connections are the test's own.
func leakCheck(t *testing.T) {
	t.Helper()
	leak.Check(t)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
}

func sameReply(a, b dnsReply) bool {
	return a.rcode == b.rcode && a.ttl == b.ttl && a.scope == b.scope && slices.Equal(a.addrs, b.addrs)
}

// checkExplain: the explanation names the region that the answers named.
func (r *running) checkExplain() {
	r.t.Helper()
	var e daemon.Explanation
	if code := r.admin("/explain?name=api.example.org&client=198.51.100.0/24", &e); code != 200 {
		r.t.Fatalf("/explain says %d", code)
	}
	if e.Region != "fra" || e.Frontend != "europe" || e.Epoch != 3 || e.DNS == nil || e.DNS.Scope != 24 ||
		!slices.Equal(e.DNS.Addresses, []netip.Addr{netip.MustParseAddr("192.0.2.10")}) || e.DNS.TTLSecond != 7 {
		r.t.Errorf("explanation %+v, DNS %+v", e.Explanation, e.DNS)
	}
	for query, want := range map[string]string{
		"name=api.example.org&client=nonsense":   "not an IP address",
		"name=www.example.org&client=192.0.2.1":  "steered are api.example.org",
		"name=&client=192.0.2.1":                 "no name",
		"name=api.example.org&client=192.0.2.1/": "not an IP prefix",
	} {
		var body struct{ Error []string }
		if code := r.admin("/explain?"+query, &body); code != 400 || !strings.Contains(strings.Join(body.Error, " "), want) {
			r.t.Errorf("%s: %d %v, want 400 and %q", query, code, body.Error, want)
		}
	}
}

// TestExplainOffline agrees with what a running daemon says.
func TestExplainOffline(t *testing.T) {
	fra, nyc := newRegion(t, "fra"), newRegion(t, "nyc")
	r := start(t, confText(fra.url, nyc.url), daemon.Options{DNS: true})
	defer r.stop()
	for _, client := range []string{"198.51.100.0/24", "203.0.113.7", "192.0.2.0/24"} {
		got, err := daemon.Explain(r.file, "API.example.org.", client)
		if err != nil {
			t.Fatal(err)
		}
		var want daemon.Explanation
		r.admin("/explain?name=api.example.org&client="+client, &want)
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		if string(a) != string(b) {
			t.Errorf("%s: offline %s\nonline %s", client, a, b)
		}
	}
	if _, err := daemon.Explain(r.file, "nothing.example.org", "192.0.2.1"); err == nil {
		t.Error("a name that is not steered was explained")
	}
}

// TestAllDown: with every region down readyz says so, DNS gives the last good
// answer and HTTP still tries.
func TestAllDown(t *testing.T) {
	leakCheck(t)
	fra, nyc := newRegion(t, "fra"), newRegion(t, "nyc")
	r := start(t, confText(fra.url, nyc.url), daemon.Options{DNS: true, HTTP: true})
	if code := r.admin("/readyz", nil); code != 200 {
		t.Errorf("readyz %d, want 200", code)
	}
	fra.SetHealthy(false)
	nyc.SetHealthy(false)
	s := r.eventually("all down", func(s daemon.Status) bool { return s.Regions[0].Down && s.Regions[1].Down })
	if s.Ready || s.Reason != "every region is down" {
		t.Errorf("ready %v %q", s.Ready, s.Reason)
	}
	if code := r.admin("/readyz", nil); code != 503 {
		t.Errorf("readyz %d, want 503", code)
	}
	if code := r.admin("/healthz", nil); code != 200 {
		t.Errorf("healthz %d, want 200: the process is alive", code)
	}
	if reply, err := ask(r.addrs.DNS[0], "api.example.org", netip.MustParsePrefix("198.51.100.0/24")); err != nil || len(reply.addrs) != 1 {
		t.Errorf("DNS %+v %v, want an address", reply, err)
	}
	if got := r.served(); got != "fra" {
		t.Errorf("HTTP by %q, want fra: the backends do work", got)
	}
	r.stop()
}

// TestDownAtStart: the first answer knows the check results already.
func TestDownAtStart(t *testing.T) {
	fra, nyc := newRegion(t, "fra"), newRegion(t, "nyc")
	fra.SetHealthy(false)
	r := start(t, confText(fra.url, nyc.url), daemon.Options{DNS: true})
	defer r.stop()
	if got := r.answer("198.51.100.0/24"); got != "192.0.2.20" {
		t.Errorf("first answer %s, want nyc's address", got)
	}
	if s := r.status(); s.Epoch != 1 {
		t.Errorf("epoch %d, want 1", s.Epoch)
	}
}

// TestReload: a good file replaces everything at once, a bad one nothing.
func TestReload(t *testing.T) {
	leakCheck(t)
	fra, nyc := newRegion(t, "fra"), newRegion(t, "nyc")
	text := confText(fra.url, nyc.url)
	r := start(t, text, daemon.Options{DNS: true, HTTP: true})

	swapped := confText(fra.url, nyc.url, "[[10, 100], [100, 10]]", "[[100, 10], [10, 100]]", "ttl: 7s", "ttl: 9s")
	r.write(swapped)
	r.sendReload()
	s := r.eventually("the reload", func(s daemon.Status) bool { return s.Reload.Count == 1 })
	if !s.Reload.OK || s.Epoch != 2 {
		t.Errorf("reload %+v, epoch %d", s.Reload, s.Epoch)
	}
	reply, err := ask(r.addrs.DNS[0], "api.example.org", netip.MustParsePrefix("198.51.100.0/24"))
	if want := (dnsReply{addrs: []netip.Addr{netip.MustParseAddr("192.0.2.20")}, ttl: 9, scope: 24}); err != nil || !sameReply(reply, want) {
		t.Errorf("after the swap %+v %v, want %+v", reply, err, want)
	}
	if got := r.served(); got != "nyc" {
		t.Errorf("after the swap requests go to %s, want nyc", got)
	}

	for name, c := range map[string]struct{ text, want string }{
		"syntax":       {"dns: [", "is not YAML"},
		"unknown key":  {swapped + "bus: {}\n", "bus: unknown key"},
		"infeasible":   {strings.Replace(swapped, "rate: 1}", "rate: 5000}", 1), "need 5001 requests/s"},
		"other socket": {strings.Replace(swapped, "admin: {listen: 127.0.0.1:0}", "admin: {listen: 127.0.0.1:1}", 1), "admin.listen: changed from 127.0.0.1:0 to 127.0.0.1:1, which a reload cannot do; restart, or put the old value back"},
		"no dns":       {swapped[:strings.Index(swapped, "dns:")] + swapped[strings.Index(swapped, "services:"):], "dns: is missing"},
	} {
		r.write(c.text)
		count := r.status().Reload.Count
		r.sendReload()
		s := r.eventually(name, func(s daemon.Status) bool { return s.Reload.Count > count })
		if s.Reload.OK || s.Epoch != 2 || !strings.Contains(strings.Join(s.Reload.Error, "\n"), c.want) {
			t.Errorf("%s: epoch %d, reload %+v, want %q", name, s.Epoch, s.Reload, c.want)
		}
		if got := r.answer("198.51.100.0/24"); got != "192.0.2.20" {
			t.Errorf("%s: answer %s, want the old one", name, got)
		}
	}

	// New backends and a check fewer, asked for through the admin page.
	other := newRegion(t, "other")
	r.write(strings.Replace(confText(fra.url, other.url), "        health: {http: /health, interval: 20ms, timeout: 2s, rise: 1, fall: 2}\n      - name: nyc", "      - name: nyc", 1))
	res, err := http.Post(fmt.Sprintf("http://%v/reload", r.addrs.Admin), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if res.StatusCode != 200 || !strings.Contains(string(b), `"epoch": 3`) {
		t.Errorf("/reload says %s %s", res.Status, b)
	}
	if s := r.status(); len(s.Regions[0].Checks) != 0 || len(s.Regions[1].Checks) != 1 || s.Reload.Failed != 5 {
		t.Errorf("status %+v", s)
	}
	fra.SetHealthy(false) // nobody looks any more
	if a, b := r.answer("198.51.100.0/24"), r.served(); a != "192.0.2.10" || b != "fra" {
		t.Errorf("%s and %s, want fra", a, b)
	}
	r.stop()
}

// TestReloadFromPage: a web page cannot reload, nor reach the pages by a name of its own.
func TestReloadFromPage(t *testing.T) {
	fra, nyc := newRegion(t, "fra"), newRegion(t, "nyc")
	r := start(t, confText(fra.url, nyc.url), daemon.Options{DNS: true})
	defer r.stop()
	for name, edit := range map[string]func(*http.Request){
		"other origin": func(q *http.Request) { q.Header.Set("Origin", "https://evil.example") },
		"other host":   func(q *http.Request) { q.Host = "evil.example:9099" },
	} {
		q, err := http.NewRequest(http.MethodPost, fmt.Sprintf("http://%v/reload", r.addrs.Admin), nil)
		if err != nil {
			t.Fatal(err)
		}
		edit(q)
		res, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s, want 403", name, res.Status)
		}
	}
	if s := r.status(); s.Reload.Count != 0 {
		t.Errorf("%d reloads, want none", s.Reload.Count)
	}
}

// TestDrain: a stream under way ends whole, while nothing new is accepted and
// readyz says 503.
func TestDrain(t *testing.T) {
	leakCheck(t)
	hold := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/health" {
			return
		}
		fmt.Fprintln(w, "first")
		w.(http.Flusher).Flush()
		<-hold
		fmt.Fprintln(w, "last")
	}))
	defer slow.Close()
	r := start(t, confText(slow.URL, slow.URL), daemon.Options{DNS: true, HTTP: true})
	res, err := http.Get(fmt.Sprintf("http://%v/stream", r.addrs.HTTP[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	if line, err := lines.ReadString('\n'); line != "first\n" || err != nil {
		t.Fatalf("%q %v", line, err)
	}
	r.cancel()
	deadline := time.Now().Add(patience)
	for r.admin("/readyz", nil) != 503 {
		if time.Now().After(deadline) {
			t.Fatal("readyz did not turn to 503")
		}
	}
	for {
		conn, err := net.Dial("tcp", r.addrs.HTTP[0].String())
		if err != nil {
			break // refused: the listener is closed
		}
		conn.Close()
		if time.Now().After(deadline) {
			t.Fatal("new requests are still accepted")
		}
	}
	if _, err := ask(r.addrs.DNS[0], "api.example.org", netip.MustParsePrefix("198.51.100.0/24")); err == nil {
		t.Error("DNS still answers although HTTP is draining")
	}
	close(hold)
	if rest, err := io.ReadAll(lines); string(rest) != "last\n" || err != nil {
		t.Errorf("the stream ended with %q %v, want all of it", rest, err)
	}
	r.stop()
	if strings.Contains(r.log.String(), "cut what") {
		t.Error("the log says that streams were cut")
	}
}

// TestDrainCut: a stream that outlasts drain_timeout is cut, and counted.
func TestDrainCut(t *testing.T) {
	leakCheck(t)
	gone := make(chan struct{})
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/health" {
			return
		}
		fmt.Fprintln(w, "first")
		w.(http.Flusher).Flush()
		<-q.Context().Done()
		close(gone)
	}))
	defer endless.Close()
	r := start(t, confText(endless.URL, endless.URL, "drain_timeout: 5s", "drain_timeout: 50ms"), daemon.Options{HTTP: true})
	res, err := http.Get(fmt.Sprintf("http://%v/stream", r.addrs.HTTP[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	r.stop()
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("the cut stream looks whole")
	}
	select {
	case <-gone:
	case <-time.After(patience):
		t.Error("the backend still works for a stream that was cut")
	}
	if !strings.Contains(r.log.String(), "streams=1") {
		t.Errorf("the log does not count the cut stream:\n%s", r.log)
	}
}

// TestStateDir: epochs go on after a restart.
func TestStateDir(t *testing.T) {
	fra, nyc := newRegion(t, "fra"), newRegion(t, "nyc")
	dir := filepath.Join(t.TempDir(), "state")
	text := "state_dir: " + dir + "\n" + confText(fra.url, nyc.url)
	for _, want := range []uint64{1, 2, 3} {
		r := start(t, text, daemon.Options{DNS: true})
		if got := r.status().Epoch; got != want {
			t.Errorf("epoch %d, want %d", got, want)
		}
		r.stop()
	}
	if err := os.WriteFile(filepath.Join(dir, "epoch"), []byte("many\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(text, "file: example.org.zone", `records: "@ 1 SOA a b 1 2 3 4 5\n@ 1 NS ns.example.com."`, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := daemon.Run(t.Context(), daemon.Options{ConfigFile: file, DNS: true}); err == nil || !strings.Contains(err.Error(), "remove the file") {
		t.Errorf("got %v, want the fix", err)
	}
}

// TestStartErrors: what cannot be served is said at once, and nothing stays open.
func TestStartErrors(t *testing.T) {
	leakCheck(t)
	dir := t.TempDir()
	src, err := config.Example("dns")
	if err != nil {
		t.Fatal(err)
	}
	taken := httptest.NewServer(nil)
	defer taken.Close()
	for name, c := range map[string]struct {
		text string
		opts daemon.Options
		want string
	}{
		"http missing": {src, daemon.Options{DNS: true, HTTP: true}, "http: is missing"},
		"nothing":      {src, daemon.Options{}, "neither DNS nor HTTP"},
		"bad file":     {"x: 1\n", daemon.Options{DNS: true}, "x: unknown key"},
		"port taken": {strings.NewReplacer("127.0.0.1:9099", taken.Listener.Addr().String(), "127.0.0.1:5300", "127.0.0.1:0").Replace(src),
			daemon.Options{DNS: true}, "admin.listen: "},
	} {
		file := filepath.Join(dir, "c.yaml")
		if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		c.opts.ConfigFile = file
		if err := daemon.Run(t.Context(), c.opts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// TestCancelWhileStarting: an end that comes before the checks know is obeyed.
func TestCancelWhileStarting(t *testing.T) {
	leakCheck(t)
	asked := make(chan struct{}, 10)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		asked <- struct{}{}
		<-q.Context().Done()
	}))
	defer silent.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "c.yaml")
	text := confText(silent.URL, silent.URL, "interval: 20ms", "interval: 1m")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "example.org.zone"), []byte(zoneText), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- daemon.Run(ctx, daemon.Options{ConfigFile: file, DNS: true, HTTP: true}) }()
	<-asked
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("did not end in time")
	}
}

// TestExamplesServe: every example serves as printed, on ports of its own.
func TestExamplesServe(t *testing.T) {
	leakCheck(t)
	for _, kind := range config.ExampleKinds() {
		src, err := config.Example(kind)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.NewReplacer("127.0.0.1:9099", "127.0.0.1:0", "127.0.0.1:5300", "127.0.0.1:0", "127.0.0.1:8080", "127.0.0.1:0").Replace(src)
		r := start(t, text, daemon.Options{DNS: kind != "http", HTTP: kind != "dns"})
		if kind != "http" {
			reply, err := ask(r.addrs.DNS[0], "api.example.org", netip.MustParsePrefix("198.51.100.0/24"))
			if err != nil || reply.rcode != 0 || len(reply.addrs) != 1 {
				t.Errorf("%s: %+v %v", kind, reply, err)
			}
		}
		if kind != "dns" {
			res, err := http.Get(fmt.Sprintf("http://%v/v1/models", r.addrs.HTTP[0]))
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != http.StatusBadGateway { // the example's backends do not run here
				t.Errorf("%s: %s, want 502", kind, res.Status)
			}
		}
		r.stop()
	}
}

// TestConcurrent: queries, requests, flips and reloads at the same time. Every
// answer is one of the two regions', and epochs never step back.
func TestConcurrent(t *testing.T) {
	leakCheck(t)
	fra, nyc := newRegion(t, "fra"), newRegion(t, "nyc")
	r := start(t, confText(fra.url, nyc.url), daemon.Options{DNS: true, HTTP: true})
	var wg sync.WaitGroup
	errs := make(chan error, 100)
	const rounds = 60
	wg.Go(func() {
		for range rounds {
			reply, err := ask(r.addrs.DNS[0], "api.example.org", netip.MustParsePrefix("198.51.100.0/24"))
			if err != nil || len(reply.addrs) != 1 {
				errs <- fmt.Errorf("DNS %+v %w", reply, err)
			}
		}
	})
	wg.Go(func() {
		last := uint64(0)
		for range rounds {
			res, err := http.Get(fmt.Sprintf("http://%v/v1/models", r.addrs.HTTP[0]))
			if err != nil {
				errs <- err
				continue
			}
			res.Body.Close()
			var epoch uint64
			if _, err := fmt.Sscan(res.Header.Get("X-Strandline-Epoch"), &epoch); err != nil || epoch < last || res.StatusCode != 200 {
				errs <- fmt.Errorf("%s, epoch %d after %d: %w", res.Status, epoch, last, err)
			}
			last = epoch
		}
	})
	for i := range 10 {
		fra.SetHealthy(i%2 == 1)
		r.sendReload()
		r.status()
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	s := r.eventually("all reloads", func(s daemon.Status) bool { return s.Reload.Count == 10 })
	if s.Reload.Failed != 0 || s.Epoch < 11 {
		t.Errorf("status %+v", s)
	}
	r.stop()
}

// TestReloadKeepsStreams: a reload that replaces the backends leaves a stream
// from an old one alone, while new requests go to the new one.
func TestReloadKeepsStreams(t *testing.T) {
	leakCheck(t)
	hold := make(chan struct{})
	old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/health" {
			return
		}
		fmt.Fprintln(w, "first")
		w.(http.Flusher).Flush()
		<-hold
		fmt.Fprintln(w, "last")
	}))
	defer old.Close()
	fresh := newRegion(t, "fresh")
	r := start(t, confText(old.URL, old.URL), daemon.Options{DNS: true, HTTP: true})
	res, err := http.Get(fmt.Sprintf("http://%v/stream", r.addrs.HTTP[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	r.write(confText(fresh.url, fresh.url))
	r.sendReload()
	r.eventually("the reload", func(s daemon.Status) bool { return s.Reload.Count == 1 && s.Reload.OK })
	if got := r.served(); got != "fra" {
		t.Errorf("served by %q, want fra", got)
	}
	if fresh.Stats().Finished != 1 {
		t.Errorf("the new backend finished %d requests, want 1", fresh.Stats().Finished)
	}
	close(hold)
	if b, err := io.ReadAll(res.Body); string(b) != "first\nlast\n" || err != nil {
		t.Errorf("the old stream ended with %q %v, want all of it", b, err)
	}
	r.stop()
}

// TestOtherParts: HTTP alone, on IPv6, with pages of somebody else's.
func TestOtherParts(t *testing.T) {
	leakCheck(t)
	if l, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skipf("no IPv6 loopback: %v", err)
	} else {
		l.Close()
	}
	fra, nyc := newRegion(t, "fra"), newRegion(t, "nyc")
	text := confText(fra.url, nyc.url, "127.0.0.1:0", `"[::1]:0"`)
	text = text[:strings.Index(text, "dns:")] + text[strings.Index(text, "services:"):]
	r := start(t, text, daemon.Options{HTTP: true, Pages: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		fmt.Fprintf(w, "%q", "page "+q.URL.Path)
	})})
	var page string
	if r.admin("/map", &page); page != "page /map" {
		t.Errorf("page %q", page)
	}
	if got := r.served(); got != "fra" {
		t.Errorf("served by %q, want fra", got)
	}
	var e daemon.Explanation
	if code := r.admin("/explain?name=chat&client=198.51.100.1", &e); code != 200 || e.DNS != nil || e.Region != "fra" {
		t.Errorf("%d: %+v", code, e)
	}
	r.stop()
}
