package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"strandline/internal/daemon"
	"strandline/internal/lab"
	"strandline/internal/leak"
)

const loopRegions = `
regions:
  - {name: a, service: {kind: hyperbolic, mu: 1000, kappa: 2}}
  - {name: b, service: {kind: hyperbolic, mu: 1000, kappa: 2}}
  - {name: c, service: {kind: hyperbolic, mu: 1000, kappa: 2}}
frontends:
  - {name: office, rate: 20}
`

const loopConfig = `
admin: {listen: 127.0.0.1:0}
dns:
  listen: [127.0.0.1:0]
  zones:
    - name: example.org
      records: |
        $TTL 300
        @    SOA ns1 hostmaster 1 7200 900 1209600 60
        @    NS  ns1
        ns1  A   127.0.0.1
  steer: [{name: api.example.org, ttl: 20s, service: chat}]
services:
  - name: chat
    regions:
      - {name: a, addresses: [10.88.1.1]}
      - {name: b, addresses: [10.88.2.1]}
      - {name: c, addresses: [10.88.3.1]}
router:
  world: world.yaml
  clients: [{prefix: 198.51.100.0/24, frontend: office}]
  default_frontend: office
`

// TestKernelLoop is the loop on a real kernel: round trips measured through
// cables with known delays become the allocation, and the allocation becomes DNS
// answers; when the delays are swapped and measured again, the answers move.
func TestKernelLoop(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR2) // starts the runtime's one signal goroutine, which stays
	signal.Stop(signals)
	leak.Check(t)
	l, err := lab.Up(lab.Three("loop", 5*time.Millisecond, 20*time.Millisecond, 40*time.Millisecond))
	if errors.Is(err, os.ErrPermission) || errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("needs root: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Down(); err != nil {
			t.Error(err)
		}
	})
	dir := t.TempDir()
	write(t, filepath.Join(dir, "regions.yaml"), loopRegions)
	write(t, filepath.Join(dir, "strandline.yaml"), loopConfig)

	measureLoop(t, l, dir, "before", map[string]float64{"a": 10, "b": 40, "c": 80})
	reload := make(chan struct{})
	server := serveLoop(t, filepath.Join(dir, "strandline.yaml"), reload)
	if got, want := askLoop(t, server), netip.MustParseAddr("10.88.1.1"); got != want {
		t.Fatalf("DNS answers %v, but the nearest region is at %v", got, want)
	}

	for region, delay := range map[string]time.Duration{"a": 40 * time.Millisecond, "c": 5 * time.Millisecond} {
		if err := l.SetCable("rtr", region, lab.Cable{Delay: delay}); err != nil {
			t.Fatal(err)
		}
	}
	measureLoop(t, l, dir, "after", map[string]float64{"a": 80, "b": 40, "c": 10})
	reload <- struct{}{}
	want, got := netip.MustParseAddr("10.88.3.1"), netip.Addr{}
	for deadline := time.Now().Add(10 * time.Second); got != want && time.Now().Before(deadline); {
		got = askLoop(t, server)
	}
	if got != want {
		t.Errorf("DNS answers %v after the delays were swapped, but the nearest region is at %v", got, want)
	}
}

// measureLoop pings the regions from inside the lab, checks the medians against
// the cables' round trips in milliseconds, and turns the rows into world.yaml.
func measureLoop(t *testing.T, l *lab.Lab, dir, name string, truthMS map[string]float64) {
	t.Helper()
	set := filepath.Join(dir, name)
	var rows []byte
	err := l.Do("src", func() error {
		rows = command(t, "probe", "ping", "--vantage", "office", "--interval", "20ms", "--format", "json", "-o", set,
			"a=10.88.1.1", "b=10.88.2.1", "c=10.88.3.1")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(rows) {
		var row struct {
			Region   string  `json:"region"`
			MinMS    float64 `json:"min_ms"`
			Received int     `json:"received"`
		}
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		if truth := truthMS[row.Region]; row.Received < 15 || row.MinMS < truth || row.MinMS > truth+5 {
			t.Errorf("%s: region %s: %d received, minimum %.3f ms; the cables make %.0f ms", name, row.Region, row.Received, row.MinMS, truth)
		}
	}
	command(t, "dataset", "validate", set)
	command(t, "route", "world", set, "--regions", filepath.Join(dir, "regions.yaml"), "-o", filepath.Join(dir, "world.yaml"))
	command(t, "route", "solve", filepath.Join(dir, "world.yaml"))
}

// command runs the program in this process and returns its standard output.
func command(t *testing.T, args ...string) []byte {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(args, nil, &stdout, &stderr); code != exitDone {
		t.Fatalf("strandline %v: exit code %d\n%s", args, code, &stderr)
	}
	return stdout.Bytes()
}

// serveLoop runs the daemon until the test ends and returns its DNS address.
func serveLoop(t *testing.T, file string, reload <-chan struct{}) netip.AddrPort {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan daemon.Addrs, 1), make(chan error, 1)
	go func() {
		done <- daemon.Run(ctx, daemon.Options{ConfigFile: file, DNS: true, Reload: reload, Ready: func(a daemon.Addrs) { ready <- a }})
	}()
	select {
	case a := <-ready:
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		return a.DNS[0]
	case err := <-done:
		cancel()
		t.Fatal(err)
		return netip.AddrPort{}
	}
}

// askLoop asks for the steered name on behalf of a client of the office.
func askLoop(t *testing.T, server netip.AddrPort) netip.Addr {
	t.Helper()
	answer, err := exchange(server)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range answer.Answers {
		if a, ok := r.Body.(*dnsmessage.AResource); ok {
			return netip.AddrFrom4(a.A)
		}
	}
	t.Fatalf("no address in %v", answer.GoString())
	return netip.Addr{}
}

func exchange(server netip.AddrPort) (answer dnsmessage.Message, err error) {
	var edns dnsmessage.ResourceHeader
	if err := edns.SetEDNS0(1232, dnsmessage.RCodeSuccess, false); err != nil {
		return answer, err
	}
	query := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 7},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("api.example.org."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
		Additionals: []dnsmessage.Resource{{Header: edns, Body: &dnsmessage.OPTResource{
			Options: []dnsmessage.Option{{Code: 8, Data: []byte{0, 1, 24, 0, 198, 51, 100}}}}}},
	}
	b, err := query.Pack()
	if err != nil {
		return answer, err
	}
	conn, err := net.Dial("udp", server.String())
	if err != nil {
		return answer, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return answer, err
	}
	if _, err := conn.Write(b); err != nil {
		return answer, err
	}
	buf := make([]byte, 2048)
	n, err := conn.Read(buf)
	if err != nil {
		return answer, fmt.Errorf("asking %v: %w", server, err)
	}
	return answer, answer.Unpack(buf[:n])
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
