package dnsserver_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"strandline/dnsserver"
	"strandline/internal/leak"
)

// run starts a server on loopback, on one port over UDP and TCP, and stops it at
// the end of the test.
func run(t *testing.T, opts dnsserver.Options) (srv *dnsserver.Server, addr string, stop func()) {
	t.Helper()
	c, l := onePort(t)
	var err error
	opts.PacketConns, opts.Listeners = []net.PacketConn{c}, []net.Listener{l}
	if srv, err = dnsserver.New(opts); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(stop)
	return srv, c.LocalAddr().String(), stop
}

// onePort binds UDP and TCP to one port that is free for both: a port that the
// kernel picks for UDP may be taken for TCP.
func onePort(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	for attempt := 0; ; attempt++ {
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", c.LocalAddr().String())
		if err == nil {
			return c, l
		}
		c.Close()
		if attempt == 20 {
			t.Fatal(err)
		}
	}
}

func exchange(t *testing.T, network, addr, name string, typ uint16) *dns.Msg {
	t.Helper()
	m := new(dns.Msg).SetQuestion(name, typ)
	client := dns.Client{Net: network, Timeout: 5 * time.Second}
	reply, _, err := client.Exchange(m, addr)
	if err != nil {
		t.Fatalf("%s %s: %v", network, name, err)
	}
	return reply
}

func TestServe(t *testing.T) {
	leak.Check(t)
	srv, addr, stop := run(t, dnsserver.Options{})
	srv.Publish(example(t))
	for _, network := range []string{"udp", "tcp"} {
		reply := exchange(t, network, addr, "www.example.org.", dns.TypeA)
		if len(reply.Answer) != 1 || !reply.Authoritative || reply.Rcode != dns.RcodeSuccess {
			t.Errorf("%s: %v", network, reply)
		}
		if reply := exchange(t, network, addr, "nx.example.org.", dns.TypeA); reply.Rcode != dns.RcodeNameError {
			t.Errorf("%s: %v", network, reply)
		}
	}
	got := srv.Stats()
	if got.UDPQueries != 2 || got.TCPQueries != 2 || got.Rcodes["NOERROR"] != 2 || got.Rcodes["NXDOMAIN"] != 2 || got.TCPAccepted != 2 {
		t.Errorf("stats %+v", got)
	}
	stop()
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("the listener is open after Run has returned")
	}
}

// What has arrived when the end comes is answered, over both transports.
func TestDrain(t *testing.T) {
	leak.Check(t)
	srv, addr, stop := run(t, dnsserver.Options{})
	srv.Publish(example(t))
	u, err := net.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	s, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	msg := query("www.example.org", 1, nil).pack()
	roundTrip(t, s, msg) // the connection is accepted
	const n = 50
	for range n {
		u.Write(msg)
		s.Write(append(be16(uint16(len(msg))), msg...))
	}
	stop()
	buf := make([]byte, 2000)
	u.SetReadDeadline(time.Now().Add(time.Second))
	for i := range n {
		if _, err := u.Read(buf); err != nil {
			t.Fatalf("reply %d over UDP: %v", i, err)
		}
	}
	all, err := io.ReadAll(s)
	if want := n * (2 + len(msg) + 16); len(all) != want || err != nil {
		t.Errorf("%d octets over TCP, want %d (%v)", len(all), want, err)
	}
}

func roundTrip(t *testing.T, c net.Conn, msg []byte) []byte {
	t.Helper()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Write(append(be16(uint16(len(msg))), msg...)); err != nil {
		t.Fatal(err)
	}
	return readStream(t, c)
}

func readStream(t *testing.T, c net.Conn) []byte {
	t.Helper()
	var length [2]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		t.Fatal(err)
	}
	reply := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(c, reply); err != nil {
		t.Fatal(err)
	}
	return reply
}

// Several queries in one segment are answered in order, a query in many pieces is
// put together.
func TestStreamFraming(t *testing.T) {
	leak.Check(t)
	srv, addr, _ := run(t, dnsserver.Options{})
	srv.Publish(example(t))
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	var pipeline []byte
	for id := range uint16(20) {
		msg := query("www.example.org", 1, func(m *message) { m.id = id }).pack()
		pipeline = append(append(pipeline, be16(uint16(len(msg)))...), msg...)
	}
	c.Write(pipeline)
	for id := range uint16(20) {
		if got := binary.BigEndian.Uint16(readStream(t, c)); got != id {
			t.Fatalf("reply %d has the id %d", id, got)
		}
	}
	msg := query("www.example.org", 1, nil).pack()
	for _, b := range append(be16(uint16(len(msg))), msg...) {
		c.Write([]byte{b})
	}
	if reply := readStream(t, c); !bytes.Equal(reply[:2], msg[:2]) {
		t.Errorf("reply %x", reply)
	}
}

func TestStreamLimits(t *testing.T) {
	leak.Check(t)
	srv, addr, _ := run(t, dnsserver.Options{MaxTCP: 2, IdleTime: time.Second})
	srv.Publish(example(t))
	msg := query("www.example.org", 1, nil).pack()
	var conns []net.Conn
	for range 3 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if conns = append(conns, c); len(conns) == 1 {
			roundTrip(t, c, msg)
		}
	}
	conns[2].SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := conns[2].Read(make([]byte, 1)); err == nil {
		t.Error("a third connection was served")
	}
	// conns[1] dribbles, and is closed at the idle time all the same.
	conns[1].SetDeadline(time.Now().Add(5 * time.Second))
	conns[1].Write([]byte{0})
	start := time.Now()
	if _, err := conns[1].Read(make([]byte, 1)); err == nil || time.Since(start) > 4*time.Second {
		t.Errorf("idle connection: %v after %v", err, time.Since(start))
	}
	// A message that claims 65535 octets closes the connection too.
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	c.Write([]byte{0xff, 0xff, 0})
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("a message of 65535 octets was waited for")
	}
	if got := srv.Stats(); got.TCPRefused != 1 || got.TCPQueries != 1 {
		t.Errorf("stats %+v, want one refused and one query", got)
	}
}

// Each answer is of one snapshot, whatever is published meanwhile: the region's
// two addresses agree. Run it with -race.
func TestPublishWhileServing(t *testing.T) {
	leak.Check(t)
	srv, addr, stop := run(t, dnsserver.Options{})
	zones := []*dnsserver.Zone{parseZone(t, "example.org", exampleZone)}
	snapshots := []*dnsserver.Snapshot{
		compile(t, zones, []dnsserver.Steer{apiSteer("")}, apiTable(t, 1, "r0")),
		compile(t, zones, []dnsserver.Steer{apiSteer("")}, apiTable(t, 2, "r1")),
		compile(t, zones, []dnsserver.Steer{apiSteer("")}, apiTable(t, 3, "r0", "r1", "r2")),
	}
	srv.Publish(snapshots[0])
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for p := range 2 {
		wg.Go(func() {
			for i := p; ctx.Err() == nil; i++ {
				srv.Publish(snapshots[i%len(snapshots)])
			}
		})
	}
	for _, network := range []string{"udp", "tcp"} {
		for range 200 {
			reply := exchange(t, network, addr, "api.example.org.", dns.TypeA)
			switch len(reply.Answer) {
			case 1: // r0 or r2
			case 2: // r1
				if !strings.HasPrefix(reply.Answer[0].(*dns.A).A.String(), "198.51.100.2") {
					t.Fatalf("mixed answer %v", reply)
				}
			default:
				t.Fatalf("%v", reply)
			}
		}
	}
	cancel()
	wg.Wait()
	stop()
}

// An error of one read does not end the server; a socket that somebody closed does.
func TestSocketErrors(t *testing.T) {
	leak.Check(t)
	inner, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &flaky{PacketConn: inner, faults: 3}
	srv, err := dnsserver.New(dnsserver.Options{PacketConns: []net.PacketConn{c}})
	if err != nil {
		t.Fatal(err)
	}
	srv.Publish(example(t))
	done := make(chan error, 1)
	go func() { done <- srv.Run(context.Background()) }()
	if reply := exchange(t, "udp", inner.LocalAddr().String(), "www.example.org.", dns.TypeA); len(reply.Answer) != 1 {
		t.Errorf("%v", reply)
	}
	if got := srv.Stats().UDPErrors; got != 3 {
		t.Errorf("%d UDP errors counted, want 3", got)
	}
	inner.Close()
	if err := <-done; err == nil {
		t.Error("Run returned nil although its socket was closed")
	}
}

// flaky fails the first reads.
type flaky struct {
	net.PacketConn
	faults int
}

func (f *flaky) ReadFrom(b []byte) (int, net.Addr, error) {
	if f.faults > 0 {
		f.faults--
		return 0, nil, &net.OpError{Op: "read", Err: io.ErrUnexpectedEOF}
	}
	return f.PacketConn.ReadFrom(b)
}

func TestNewErrors(t *testing.T) {
	if _, err := dnsserver.New(dnsserver.Options{}); err == nil {
		t.Error("a server without sockets was made")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := dnsserver.New(dnsserver.Options{Listeners: []net.Listener{l}, ID: strings.Repeat("x", 64)}); err == nil {
		t.Error("an id of 64 octets was accepted")
	}
}

// The real client agrees.
func TestDig(t *testing.T) {
	dig, err := exec.LookPath("dig")
	if err != nil {
		t.Skip("dig is not installed")
	}
	leak.Check(t)
	srv, addr, _ := run(t, dnsserver.Options{ID: "ns1.fra"})
	srv.Publish(example(t))
	ap := netip.MustParseAddrPort(addr)
	for _, c := range []struct {
		args string
		want []string
	}{
		{"www.example.org A", []string{"status: NOERROR", "flags: qr aa rd;", "192.0.2.1"}},
		{"+tcp www.example.org A", []string{"status: NOERROR", "192.0.2.1"}},
		{"nx.example.org A", []string{"status: NXDOMAIN", "SOA"}},
		{"+subnet=203.0.113.0/24 api.example.org A", []string{"198.51.100.20", "198.51.100.21", "CLIENT-SUBNET: 203.0.113.0/24/24"}},
		{"+subnet=203.0.112.0/24 api.example.org A", []string{"198.51.100.30", "CLIENT-SUBNET: 203.0.112.0/24/24"}},
		{"+subnet=2001:db8:1::/56 api.example.org AAAA", []string{"2001:db8:a::20", "CLIENT-SUBNET: 2001:db8:1::/56/48"}},
		{"+subnet=0 api.example.org A", []string{"198.51.100.10", "CLIENT-SUBNET: 0.0.0.0/0/0"}},
		{"+nsid www.example.org A", []string{`("ns1.fra")`}},
		{"+edns=1 +noednsneg www.example.org A", []string{"status: BADVERS"}},
		{"www.example.com A", []string{"status: REFUSED"}},
		{"x.sub.example.org A", []string{"ns.sub.example.org.", "192.0.2.9", "flags: qr rd;"}},
		{"+opcode=UPDATE www.example.org A", []string{"status: NOTIMP"}},
		{"id.server CH TXT", []string{`"ns1.fra"`}},
	} {
		args := append([]string{"@" + ap.Addr().String(), "-p", strconv.Itoa(int(ap.Port())), "+time=5", "+tries=1"}, strings.Fields(c.args)...)
		out, err := exec.Command(dig, args...).CombinedOutput()
		if err != nil {
			t.Errorf("dig %s: %v\n%s", c.args, err, out)
		}
		for _, want := range append(c.want, ";; Query time") {
			if !strings.Contains(string(out), want) {
				t.Errorf("dig %s has no %q:\n%s", c.args, want, out)
			}
		}
		if strings.Contains(string(out), "WARNING") && !strings.Contains(string(out), "recursion requested") {
			t.Errorf("dig %s warns:\n%s", c.args, out)
		}
	}
}
