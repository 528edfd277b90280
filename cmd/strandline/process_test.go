package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"strandline/datasets"
	"strandline/internal/config"
	"strandline/internal/daemon"
)

// process is the program running beside the test.
type process struct {
	cmd    *exec.Cmd
	stdout bytes.Buffer
	lines  *bufio.Scanner // of standard error
	seen   strings.Builder
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs signals")
	}
	p := &process{cmd: exec.CommandContext(t.Context(), "strandline", args...)}
	p.cmd.Stdout = &p.stdout
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(stderr)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// await reads standard error up to the first line that holds text.
func (p *process) await(t *testing.T, text string) string {
	t.Helper()
	for p.lines.Scan() {
		fmt.Fprintln(&p.seen, p.lines.Text())
		if strings.Contains(p.lines.Text(), text) {
			return p.lines.Text()
		}
	}
	t.Fatalf("got no %q on standard error:\n%s", text, p.seen.String())
	return ""
}

// interrupt sends Ctrl-C and waits for the end; it returns the exit code.
func (p *process) interrupt(t *testing.T) int {
	t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for p.lines.Scan() {
		fmt.Fprintln(&p.seen, p.lines.Text())
	}
	if err := p.cmd.Wait(); p.cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// TestInterrupt: Ctrl-C in the middle of a measurement keeps what was measured,
// on standard output and in the data set, and the exit code says that it is not
// all.
func TestInterrupt(t *testing.T) {
	out := filepath.Join(t.TempDir(), "set")
	p := start(t, "probe", "ping", "--sim", "earth", "-v", "--format", "json", "--rate", "1e5", "--prefix-rate", "1e5",
		"--interval", "1ms", "--count", "1000000000", "-o", out, "regions")
	p.await(t, "ping 0/13, ")
	if code := p.interrupt(t); code != exitFailed {
		t.Errorf("got exit code %d, want %d", code, exitFailed)
	}
	if want := "strandline: ping interrupted: the rows are what was measured until then\n"; !strings.HasSuffix(p.seen.String(), want) {
		t.Errorf("got standard error\n%s\nwant it to end in %s", p.seen.String(), want)
	}
	printed, err := datasets.Collect(datasets.Read[datasets.Latency](&p.stdout, "stdout", datasets.JSONL))
	if err != nil || len(printed) != 13 {
		t.Errorf("got %d rows on standard output, want 13 (%v)", len(printed), err)
	}
	if err := datasets.Validate(out); err != nil {
		t.Errorf("got a data set that is not valid: %v", err)
	}
	set, err := datasets.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := datasets.All[datasets.Latency](set)
	if err != nil || !slices.Equal(kept, printed) {
		t.Errorf("got %d rows in the data set, want the %d printed ones (%v)", len(kept), len(printed), err)
	}
}

// TestExamplesServe: each example serves as printed, but for the ports; what DNS
// answers is what route explain says.
func TestExamplesServe(t *testing.T) {
	for _, kind := range config.ExampleKinds() {
		t.Run(kind, func(t *testing.T) {
			p := start(t, "serve", kind, "--config", exampleFile(t, kind))
			var dns, web string
			if kind != "http" {
				dns = addressIn(t, p.await(t, "serving DNS on "))
			}
			if kind != "dns" {
				web = addressIn(t, p.await(t, "serving HTTP on "))
			}
			admin := addressIn(t, p.await(t, "admin on "))
			if dns != "" {
				checkSteered(t, dns, admin)
			}
			if web != "" {
				checkRouted(t, web)
			}
			if code := p.interrupt(t); code != exitDone || p.stdout.Len() > 0 {
				t.Errorf("got exit code %d and %q on standard output, want %d and none\n%s", code, p.stdout.String(), exitDone, p.seen.String())
			}
		})
	}
}

// exampleFile writes an example with ports that the system chooses and backends
// that are there.
func exampleFile(t *testing.T, kind string) string {
	t.Helper()
	text, err := config.Example(kind)
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range []string{"9099", "5300", "8080"} {
		text = strings.ReplaceAll(text, "127.0.0.1:"+port+"]", "127.0.0.1:0]")
		text = strings.ReplaceAll(text, "127.0.0.1:"+port+"}", "127.0.0.1:0}")
	}
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "served "+r.URL.Path)
	}))
	t.Cleanup(backend.Close)
	for _, port := range []string{"8001", "8002", "8003"} {
		text = strings.ReplaceAll(text, "http://127.0.0.1:"+port, backend.URL)
	}
	file := filepath.Join(t.TempDir(), "strandline.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// addressIn finds the address in a line that says what is served where.
func addressIn(t *testing.T, line string) string {
	t.Helper()
	for word := range strings.FieldsSeq(line) {
		word = strings.TrimRight(strings.TrimPrefix(word, "http://"), "/")
		if _, err := netip.ParseAddrPort(word); err == nil {
			return word
		}
	}
	t.Fatalf("no address in %q", line)
	return ""
}

// checkSteered asks DNS as a resolver on loopback would, and the daemon why.
func checkSteered(t *testing.T, dns, admin string) {
	t.Helper()
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, dns)
	}}
	got, err := resolver.LookupNetIP(t.Context(), "ip", "api.example.org.")
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if code := run([]string{"route", "explain", "api.example.org", "127.0.0.1", "--admin", admin, "--format", "json"}, nil, &stdout, &stderr); code != exitDone {
		t.Fatalf("route explain: got exit code %d: %s", code, stderr.String())
	}
	var e daemon.Explanation
	if err := json.Unmarshal(stdout.Bytes(), &e); err != nil || e.DNS == nil {
		t.Fatalf("route explain: %v: %s", err, stdout.String())
	}
	slices.SortFunc(got, netip.Addr.Compare)
	slices.SortFunc(e.DNS.Addresses, netip.Addr.Compare)
	if !slices.Equal(got, e.DNS.Addresses) {
		t.Errorf("got %v from DNS, want %v as explained", got, e.DNS.Addresses)
	}
	stderr.Reset()
	code := run([]string{"route", "explain", "www.example.org", "127.0.0.1", "--admin", admin}, nil, &stdout, &stderr)
	if code != exitUsage || !strings.Contains(stderr.String(), "www.example.org is not steered") {
		t.Errorf("explain of a name that is not steered: got exit code %d and %q", code, stderr.String())
	}
}

// checkRouted sends a request through the HTTP router.
func checkRouted(t *testing.T, addr string) {
	t.Helper()
	resp, err := http.Post("http://"+addr+"/v1/chat/completions", "application/json", strings.NewReader(`{"model": "any"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || string(body) != "served /v1/chat/completions" {
		t.Errorf("got %s %q %v, want the backend's answer", resp.Status, body, err)
	}
}
