package simnet_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"strandline/internal/simnet"
	"strandline/probe"
	"strandline/probe/wire"
)

// home is a world with two hosts, a and a2, behind the translator r1, and b outside.
func home(nat simnet.NAT) simnet.Spec {
	s := diamond(2, simnet.Hash{Fields: []string{simnet.FieldSport, simnet.FieldICMPID}})
	s.Nodes = append(s.Nodes, host("a2", 1000))
	s.Links = append(s.Links, simnet.Link{A: "a2", B: "r1", Delay: time.Millisecond})
	nat.Inside = prefixes("198.18.0.1/32", addr4(1000).String()+"/32", "2001:db8::1/128", addr6(1000).String()+"/128")
	node(&s, "r1").NAT = nat
	node(&s, "b").TCP = []uint16{80}
	return s
}

// starter makes a packet of some protocol with a source port or identifier.
func starter(t *testing.T, proto string, ip wire.IP, port uint16) []byte {
	t.Helper()
	switch proto {
	case "echo":
		return echo(t, ip, port, 5)
	case "tcp":
		return must(t)(wire.AppendTCP(nil, ip, wire.TCP{SrcPort: port, DstPort: 80, Seq: 7, Flags: wire.TCPSyn}))
	}
	return udp(t, ip, port, 33434)
}

// outside is the port or identifier of a packet as seen outside.
func outside(h *wire.Header) uint16 {
	if h.Proto == wire.ProtoUDP || h.Proto == wire.ProtoTCP {
		return h.SrcPort
	}
	return h.ICMPID
}

// TestNAT: outside, packets come from the translator's address, one port for each
// inside end, with right checksums; the answers reach the end that asked; errors
// from outside quote what the world says.
func TestNAT(t *testing.T) {
	for _, nat := range []simnet.NAT{{}, {Ports: true}, {Quote: simnet.QuoteFull, Ports: true}, {Quote: simnet.QuoteNone}} {
		n := build(t, home(nat), nil)
		rng := seeded(t, 77)
		v := n.Virtual(1)
		b := conn(t, v, "b")
		conns := map[string]probe.Conn{"a": conn(t, v, "a"), "a2": conn(t, v, "a2")}
		ports := map[string]string{} // outside -> inside
		for i := range 600 {
			from := []string{"a", "a2"}[rng.IntN(2)]
			proto := []string{"udp", "echo", "tcp"}[rng.IntN(3)]
			c, v6, port := conns[from], rng.IntN(2) == 0, uint16(2000+rng.IntN(8))
			ip := between(v6)
			ip.Src = local(t, c, ip.Dst)
			ip.TTL = []uint8{64, 2, 3}[rng.IntN(3)]
			data := starter(t, proto, ip, port)
			send(t, c, data)
			if ip.TTL == 64 {
				inside := fmt.Sprint(from, port)
				checkOutside(t, b, v6, nat.Ports, port, func(h *wire.Header) {
					key := fmt.Sprint(h.Proto, h.Version, outside(h))
					if ports[key] == "" {
						ports[key] = inside
					}
					if ports[key] != inside {
						t.Fatalf("%s stands for %s and %s", key, ports[key], inside)
					}
				})
			}
			p, ok := recv(t, c, time.Second)
			if !ok {
				t.Fatalf("%+v, packet %d: no answer to %s", nat, i, proto)
			}
			checkInside(t, nat, p.Data, data)
			for _, other := range conns {
				recvNothing(t, other, 50*time.Millisecond)
			}
		}
		if want := 3 * 2 * 2 * 8; len(ports) < want*3/4 {
			t.Errorf("%d mappings, want nearly %d", len(ports), want)
		}
	}
}

func checkOutside(t *testing.T, b probe.Conn, v6, newPorts bool, port uint16, note func(*wire.Header)) {
	t.Helper()
	for {
		p, ok := recv(t, b, 20*time.Millisecond)
		if !ok {
			t.Fatal("nothing arrives outside")
		}
		var r wire.Reply
		if err := r.Decode(p.Data); err != nil {
			t.Fatal(err)
		}
		if r.TCPFlags&wire.TCPRst != 0 || r.Kind == wire.KindEchoReply || r.HasQuote {
			continue // of the exchange before
		}
		redecode(t, p.Data)
		if want := pick(v6, addr4(3), addr6(3)); r.Src != want {
			t.Errorf("outside it comes from %v, want %v", r.Src, want)
		}
		if got := outside(&r.Header); !newPorts && got != port && (got < port || got > port+16) {
			t.Errorf("port %d became %d", port, got)
		}
		note(&r.Header)
		return
	}
}

// checkInside compares an answer with the probe that it is to.
func checkInside(t *testing.T, nat simnet.NAT, answer, probe []byte) {
	t.Helper()
	redecode(t, answer)
	var r wire.Reply
	var sent wire.Header
	if err := r.Decode(answer); err != nil {
		t.Fatal(err)
	}
	if err := sent.Decode(probe); err != nil {
		t.Fatal(err)
	}
	if r.Dst != sent.Src {
		t.Errorf("answer to %v, want %v", r.Dst, sent.Src)
	}
	switch {
	case r.Kind == wire.KindEchoReply && r.ICMPID != sent.ICMPID, r.Kind == wire.KindTCP && r.DstPort != sent.SrcPort:
		t.Errorf("answer %+v to %+v", r.Header, sent)
	case !r.HasQuote:
		return
	}
	q := r.Quoted
	public := pick(sent.Version == 6, addr4(3), addr6(3))
	if nat.Quote == simnet.QuoteNone {
		if q.Src != public {
			t.Errorf("quoted source %v, want the translator's %v", q.Src, public)
		}
		return
	}
	if q.Src != sent.Src || outside(&q) != outside(&sent) || q.Dst != sent.Dst {
		t.Errorf("quoted %+v, want %+v restored", q, sent)
	}
	// Restored but for the checksum, which the translation changed; that of ICMP
	// does not cover the addresses.
	same, covers := q.Checksum == sent.Checksum, sent.Proto != wire.ProtoICMP
	if full := nat.Quote == simnet.QuoteFull; full && !same || !full && same && covers {
		t.Errorf("%+v: quoted checksum %#x, sent %#x", nat, q.Checksum, sent.Checksum)
	}
}

// TestNATCollision: when two hosts use one port, the second gets another and
// both get their answers.
func TestNATCollision(t *testing.T) {
	n := build(t, home(simnet.NAT{}), nil)
	v := n.Virtual(1)
	b, a, a2 := conn(t, v, "b"), conn(t, v, "a"), conn(t, v, "a2")
	seen := map[uint16]bool{}
	for _, c := range []probe.Conn{a, a2, a, a2} {
		ip := between(false)
		ip.Src = local(t, c, ip.Dst)
		r, _, ok := exchange(t, c, udp(t, ip, 5000, 9))
		if !ok || r.Kind != wire.KindUnreachable || r.Quoted.Src != ip.Src || r.Quoted.SrcPort != 5000 {
			t.Errorf("answer %+v, %v", r, ok)
		}
		p, _ := recv(t, b, time.Second)
		var h wire.Header
		if err := h.Decode(p.Data); err != nil {
			t.Fatal(err)
		}
		seen[h.SrcPort] = true
	}
	if len(seen) != 2 || !seen[5000] || !seen[5001] {
		t.Errorf("outside ports %v, want 5000 and 5001", seen)
	}
}

// TestNATUninvited: what comes from outside without a mapping stays outside, and
// the translator answers for itself.
func TestNATUninvited(t *testing.T) {
	n := build(t, home(simnet.NAT{}), nil)
	v := n.Virtual(1)
	b, a := conn(t, v, "b"), conn(t, v, "a")
	ip := wire.IP{Src: addr4(2), Dst: addr4(3), TTL: 64}
	if r, _, ok := exchange(t, b, echo(t, ip, 9, 9)); !ok || r.Kind != wire.KindEchoReply || r.Src != addr4(3) {
		t.Errorf("echo to the translator: %+v, %v", r.Header, ok)
	}
	if r, _, ok := exchange(t, b, udp(t, ip, 9, 9)); !ok || r.Kind != wire.KindUnreachable {
		t.Errorf("UDP to the translator: %+v, %v", r.Header, ok)
	}
	recvNothing(t, a, time.Second)
}

// TestNATTruth: Truth foretells what a host behind a translator sees, new ports
// and the paths that they take included.
func TestNATTruth(t *testing.T) {
	for _, nat := range []simnet.NAT{{}, {Ports: true}} {
		n := build(t, home(nat), nil)
		rng := rand.New(rand.NewPCG(4, 4))
		moved := 0
		for range 200 {
			c := conn(t, n.Virtual(rng.Uint64()), "a")
			ip := atTTL(rng.IntN(2) == 0, uint8(1+rng.IntN(4)))
			data := starter(t, []string{"udp", "echo", "tcp"}[rng.IntN(3)], ip, uint16(1024+rng.IntN(60000)))
			w, err := n.Truth("a", data)
			if err != nil {
				t.Fatal(err)
			}
			r, rtt, ok := exchange(t, c, data)
			if !ok || r.Src != w.From || r.TTL != w.ReplyTTL || rtt != w.Min {
				t.Fatalf("answer from %v ttl %d after %v, want %+v", r.Src, r.TTL, rtt, w)
			}
			if ip.TTL == 2 && r.Src != addr4(11) && r.Src != addr6(11) {
				moved++
			}
		}
		if moved == 0 {
			t.Error("all flows over one branch")
		}
	}
}
