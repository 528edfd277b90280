package simnet_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"strandline/internal/simnet"
	"strandline/probe"
	"strandline/probe/wire"
)

// earthSpec decodes the embedded world "earth" strictly.
func earthSpec(t testing.TB) (simnet.Spec, fs.FS) {
	t.Helper()
	return embedded(t, "earth")
}

// embedded decodes an embedded world strictly.
func embedded(t testing.TB, name string) (simnet.Spec, fs.FS) {
	t.Helper()
	dir, err := fs.Sub(simnet.Worlds, "worlds")
	if err != nil {
		t.Fatal(err)
	}
	text, err := fs.ReadFile(dir, name+".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var spec simnet.Spec
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&spec); err != nil {
		t.Fatal(err)
	}
	return spec, dir
}

func earth(t testing.TB) *simnet.Net {
	t.Helper()
	spec, dir := earthSpec(t)
	return build(t, spec, dir)
}

func build(t testing.TB, spec simnet.Spec, dir fs.FS) *simnet.Net {
	t.Helper()
	n, err := simnet.Build(spec, dir)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// diamond is a - r1 = m1..mW = r2 - b, every link 1 ms; b is a site of 192.0.2.0/24.
func diamond(width int, h simnet.Hash) simnet.Spec {
	s := simnet.Spec{Name: "diamond", Seed: 7, Nodes: []simnet.Node{
		host("a", 1), host("b", 2), router("r1", 3), router("r2", 4)}}
	s.Nodes[2].Hash, s.Nodes[3].Hash = h, h
	s.Links = []simnet.Link{{A: "a", B: "r1", Delay: time.Millisecond}, {A: "r2", B: "b", Delay: time.Millisecond}}
	for i := range width {
		name := fmt.Sprint("m", i+1)
		s.Nodes = append(s.Nodes, router(name, 11+i))
		s.Links = append(s.Links, simnet.Link{A: "r1", B: name, Delay: time.Millisecond},
			simnet.Link{A: name, B: "r2", Delay: time.Millisecond})
	}
	s.Anycast = []simnet.Anycast{{Name: "any", Prefix: netip.MustParsePrefix("192.0.2.0/24"),
		Prefix6: netip.MustParsePrefix("2001:db8:a::/48"), Sites: []simnet.Site{{Name: "site-b", Node: "b"}}}}
	return s
}

func router(name string, i int) simnet.Node {
	return simnet.Node{Name: name, Addr: addr4(i), Addr6: addr6(i)}
}

func host(name string, i int) simnet.Node {
	n := router(name, i)
	n.Kind = simnet.KindHost
	return n
}

func addr4(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}) }

func addr6(i int) netip.Addr {
	return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 14: byte(i >> 8), 15: byte(i)})
}

func conn(t testing.TB, d interface {
	Conn(string) (probe.Conn, error)
}, host string) probe.Conn {
	t.Helper()
	c, err := d.Conn(host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func local(t testing.TB, c probe.Conn, dst netip.Addr) netip.Addr {
	t.Helper()
	src, err := c.Local(dst)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func must(t testing.TB) func([]byte, error) []byte {
	return func(b []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

func echo(t testing.TB, ip wire.IP, id, seq uint16) []byte {
	t.Helper()
	return must(t)(wire.AppendEcho(nil, ip, wire.Echo{ID: id, Seq: seq, Payload: []byte("strandline test packet")}))
}

func udp(t testing.TB, ip wire.IP, sport, dport uint16) []byte {
	t.Helper()
	return must(t)(wire.AppendUDP(nil, ip, wire.UDP{SrcPort: sport, DstPort: dport, Payload: []byte("strandline test packet")}))
}

func chaos(t testing.TB, ip wire.IP, sport uint16, name string) []byte {
	t.Helper()
	q := must(t)(wire.AppendDNSQuery(nil, wire.DNSQuery{ID: 99, Name: name, Type: wire.DNSTypeTXT, Class: wire.DNSClassCHAOS}))
	return must(t)(wire.AppendUDP(nil, ip, wire.UDP{SrcPort: sport, DstPort: wire.DNSPort, Payload: q}))
}

// send sends one packet and returns when it left.
func send(t testing.TB, c probe.Conn, data []byte) time.Time {
	t.Helper()
	p := []probe.Packet{{Data: data}}
	if n, err := c.Send(p); n != 1 || err != nil {
		t.Fatalf("Send = %d, %v", n, err)
	}
	return p[0].Time
}

// recv waits up to d for one packet; ok is false when none came.
func recv(t testing.TB, c probe.Conn, d time.Duration) (p probe.Packet, ok bool) {
	t.Helper()
	buf := make([]probe.Packet, 1)
	n, err := c.Recv(context.Background(), buf, c.Now().Add(d))
	if err != nil {
		t.Fatal(err)
	}
	return buf[0], n == 1
}

// exchange sends a packet and returns the first answer and its round trip.
func exchange(t testing.TB, c probe.Conn, data []byte) (r wire.Reply, rtt time.Duration, ok bool) {
	t.Helper()
	sent := send(t, c, data)
	p, ok := recv(t, c, 5*time.Second)
	if !ok {
		return r, 0, false
	}
	if err := r.Decode(p.Data); err != nil {
		t.Fatal(err)
	}
	if err := wire.VerifyChecksums(p.Data); err != nil {
		t.Fatalf("% x: %v", p.Data, err)
	}
	return r, p.Time.Sub(sent), true
}

// seeded returns a generator and prints its seed when the test fails.
func seeded(t testing.TB, seed uint64) *rand.Rand {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 1))
}
