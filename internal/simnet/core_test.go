package simnet_test

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"strandline/datasets"
	"strandline/internal/simnet"
	"strandline/probe"
	"strandline/probe/wire"
)

func TestTTL(t *testing.T) {
	n := build(t, diamond(1, simnet.Hash{}), nil)
	for _, dst := range []netip.Addr{addr4(2), addr6(2)} {
		c := conn(t, n.Virtual(1), "a")
		src := local(t, c, dst)
		hops := []int{3, 11, 4, 2, 2} // r1, m1, r2, b, and b again
		for i, hop := range hops {
			ttl := uint8(i + 1)
			r, rtt, ok := exchange(t, c, echo(t, wire.IP{Src: src, Dst: dst, TTL: ttl}, 5, uint16(i)))
			want := addr4(hop)
			if dst.Is6() {
				want = addr6(hop)
			}
			if !ok || r.Src != want {
				t.Fatalf("ttl %d to %v: answer from %v (%v), want %v", ttl, dst, r.Src, ok, want)
			}
			links := min(i+1, 4)
			if want := 2 * time.Duration(links) * time.Millisecond; rtt != want {
				t.Errorf("ttl %d to %v: RTT %v, want %v", ttl, dst, rtt, want)
			}
			if hop == 2 {
				if r.Kind != wire.KindEchoReply || r.ICMPSeq != uint16(i) || r.TTL != 64-3 {
					t.Errorf("ttl %d: %v seq %d ttl %d, want an echo reply, %d, 61", ttl, r.Kind, r.ICMPSeq, r.TTL, i)
				}
				continue
			}
			if r.Kind != wire.KindTimeExceeded || !r.HasQuote || r.Quoted.TTL != 1 || r.Quoted.ICMPSeq != uint16(i) {
				t.Errorf("ttl %d: %+v, want time exceeded that quotes our probe with TTL 1", ttl, r)
			}
			if want := uint8(255 - i); r.TTL != want {
				t.Errorf("ttl %d: TTL of the answer %d, want %d", ttl, r.TTL, want)
			}
		}
	}
}

func TestAnswers(t *testing.T) {
	n := build(t, diamond(2, simnet.Hash{}), nil)
	a4, a6 := netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("2001:db8:a::9")
	nobody4, nobody6 := netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("2001:db8:ffff::1")
	tests := []struct {
		name   string
		packet func(wire.IP) []byte
		dst    []netip.Addr
		kind   wire.Kind
		code   [2]uint8 // ICMP, ICMPv6
		from   []netip.Addr
	}{
		{"echo host", func(ip wire.IP) []byte { return echo(t, ip, 1, 2) }, []netip.Addr{addr4(2), addr6(2)}, wire.KindEchoReply, [2]uint8{}, []netip.Addr{addr4(2), addr6(2)}},
		{"echo router", func(ip wire.IP) []byte { return echo(t, ip, 1, 2) }, []netip.Addr{addr4(4), addr6(4)}, wire.KindEchoReply, [2]uint8{}, []netip.Addr{addr4(4), addr6(4)}},
		{"echo self", func(ip wire.IP) []byte { return echo(t, ip, 1, 2) }, []netip.Addr{addr4(1), addr6(1)}, wire.KindEchoRequest, [2]uint8{}, []netip.Addr{addr4(1), addr6(1)}},
		{"echo anycast", func(ip wire.IP) []byte { return echo(t, ip, 1, 2) }, []netip.Addr{a4, a6}, wire.KindEchoReply, [2]uint8{}, []netip.Addr{a4, a6}},
		{"closed port of a host", func(ip wire.IP) []byte { return udp(t, ip, 1, 2) }, []netip.Addr{addr4(2), addr6(2)}, wire.KindUnreachable, [2]uint8{3, 4}, []netip.Addr{addr4(2), addr6(2)}},
		{"closed port of an anycast address", func(ip wire.IP) []byte { return udp(t, ip, 1, 2) }, []netip.Addr{a4, a6}, wire.KindUnreachable, [2]uint8{3, 4}, []netip.Addr{a4, a6}},
		{"no such address", func(ip wire.IP) []byte { return echo(t, ip, 1, 2) }, []netip.Addr{nobody4, nobody6}, wire.KindUnreachable, [2]uint8{1, 3}, []netip.Addr{addr4(3), addr6(3)}},
	}
	for _, tt := range tests {
		for i, dst := range tt.dst {
			c := conn(t, n.Virtual(1), "a")
			r, _, ok := exchange(t, c, tt.packet(wire.IP{Src: local(t, c, dst), Dst: dst, TTL: 64}))
			if !ok || r.Kind != tt.kind || r.Src != tt.from[i] {
				t.Errorf("%s %v: %v from %v (%v), want %v from %v", tt.name, dst, r.Kind, r.Src, ok, tt.kind, tt.from[i])
			}
			if tt.kind == wire.KindUnreachable && (r.ICMPCode != tt.code[i] || !r.HasQuote || r.Quoted.Dst != dst) {
				t.Errorf("%s %v: code %d quoting %v, want %d", tt.name, dst, r.ICMPCode, r.Quoted.Dst, tt.code[i])
			}
		}
	}
}

func TestSilence(t *testing.T) {
	spec := diamond(1, simnet.Hash{})
	spec.Nodes[2].Silent = true
	n := build(t, spec, nil)
	c := conn(t, n.Virtual(1), "a")
	ip := wire.IP{Src: addr4(1), Dst: addr4(2), TTL: 1}
	reply := func(e wire.Echo) []byte {
		e.Reply, e.Payload = true, []byte("x")
		return must(t)(wire.AppendEcho(nil, wire.IP{Src: addr4(1), Dst: addr4(2), TTL: 64}, e))
	}
	fault := func(ttl uint8) []byte {
		about := udp(t, wire.IP{Src: addr4(2), Dst: addr4(1), TTL: 9}, 1, 2)
		return must(t)(wire.AppendError(nil, wire.IP{Src: addr4(1), Dst: addr4(2), TTL: ttl}, wire.PortUnreachable, about, 0))
	}
	tests := map[string][]byte{
		"time exceeded at a silent router": echo(t, ip, 1, 1),
		"an echo reply":                    reply(wire.Echo{ID: 1}),
		"an ICMP error":                    fault(64),
		"an ICMP error whose TTL runs out": fault(2),
		"TCP":                              must(t)(wire.AppendIP(nil, wire.IP{Src: addr4(1), Dst: addr4(2), TTL: 64}, wire.ProtoTCP, 20)),
	}
	tests["TCP"] = append(tests["TCP"], make([]byte, 12)...)
	tests["TCP"] = append(tests["TCP"], 5<<4, 2, 0, 0, 0, 0, 0, 0)
	for name, data := range tests {
		if r, _, ok := exchange(t, c, data); ok {
			t.Errorf("%s was answered: %+v", name, r)
		}
	}
}

func TestCHAOS(t *testing.T) {
	n := earth(t)
	for _, name := range []string{"id.server", "hostname.bind", "ID.Server", "version.bind"} {
		for _, dst := range []string{"192.0.2.1", "2001:db8:a::1"} {
			c := conn(t, n.Virtual(3), "lhr")
			dst := netip.MustParseAddr(dst)
			r, _, ok := exchange(t, c, chaos(t, wire.IP{Src: local(t, c, dst), Dst: dst, TTL: 64}, 5353, name))
			if !ok || r.Kind != wire.KindUDP || r.Src != dst || r.SrcPort != 53 || r.DstPort != 5353 {
				t.Fatalf("%s at %v: %+v (%v), want a UDP answer", name, dst, r, ok)
			}
			var m wire.DNSMessage
			if err := m.Decode(r.Payload); err != nil {
				t.Fatal(err)
			}
			want, rcode := "lhr1", uint16(0)
			if name == "version.bind" {
				want, rcode = "", 5
			}
			if string(m.TXT) != want || m.Rcode != rcode || !m.Answers(wire.DNSQuery{ID: 99, Name: name, Type: 16, Class: 3}) {
				t.Errorf("%s at %v: %q, rcode %d, want %q, %d", name, dst, m.TXT, m.Rcode, want, rcode)
			}
		}
	}
}

func TestConnErrors(t *testing.T) {
	spec := diamond(1, simnet.Hash{})
	spec.Nodes[0].Addr6 = netip.Addr{}
	n := build(t, spec, nil)
	v := n.Virtual(1)
	for _, name := range []string{"nobody", "r1", ""} {
		if _, err := v.Conn(name); err == nil {
			t.Errorf("Conn(%q) gave no error", name)
		}
		if _, err := n.Real(1).Conn(name); err == nil {
			t.Errorf("Real Conn(%q) gave no error", name)
		}
	}
	c := conn(t, v, "a")
	if _, err := c.Local(addr6(2)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Local without IPv6: %v, want ErrUnsupported", err)
	}
	good := echo(t, wire.IP{Src: addr4(1), Dst: addr4(2), TTL: 9}, 1, 1)
	spoof := echo(t, wire.IP{Src: addr4(9), Dst: addr4(2), TTL: 9}, 1, 1)
	anycast := echo(t, wire.IP{Src: netip.MustParseAddr("192.0.2.1"), Dst: addr4(1), TTL: 9}, 1, 1)
	for name, bad := range map[string][]byte{"spoofed": spoof, "short": good[:9], "empty": nil, "anycast": anycast} {
		k, err := c.Send([]probe.Packet{{Data: good}, {Data: bad}, {Data: good}})
		if k != 1 || err == nil {
			t.Errorf("%s source: Send = %d, %v, want 1 and an error", name, k, err)
		}
	}
	if k, err := conn(t, v, "b").Send([]probe.Packet{{Data: anycast}}); k != 1 || err != nil {
		t.Errorf("a site sends from its anycast address: %d, %v", k, err)
	}
}

// TestGopacket decodes everything that arrives with the independent decoder and
// lets it compute the checksums anew.
func TestGopacket(t *testing.T) {
	n := earth(t)
	rng := seeded(t, 11)
	got := map[string]int{}
	for range 400 {
		from := n.Vantages()[rng.IntN(40)]
		to := slices.Concat(n.Targets(), n.AnycastTargets())
		dst := to[rng.IntN(len(to))].Addr
		c := conn(t, n.Virtual(rng.Uint64()), from.Name)
		ip := wire.IP{Src: local(t, c, dst), Dst: dst, TTL: uint8(1 + rng.IntN(9)), FlowLabel: rng.Uint32N(1 << 20), TOS: uint8(rng.Uint32N(64) << 2)}
		packets := [][]byte{
			echo(t, ip, uint16(rng.Uint32()), uint16(rng.Uint32())),
			udp(t, ip, uint16(rng.Uint32()), 33434),
			chaos(t, ip, uint16(rng.Uint32()), "id.server"),
		}
		send(t, c, packets[rng.IntN(3)])
		for {
			p, ok := recv(t, c, time.Second)
			if !ok {
				break
			}
			got[redecode(t, p.Data)]++
		}
	}
	for _, kind := range []string{"ICMPv4 TimeExceeded", "ICMPv6 TimeExceeded", "ICMPv4 DestinationUnreachable", "ICMPv6 DestinationUnreachable",
		"ICMPv4 EchoReply", "ICMPv6 EchoReply", "UDP DNS"} {
		if got[kind] == 0 {
			t.Errorf("no %s among %v", kind, got)
		}
	}
}

// redecode checks a packet with gopacket and returns what it is.
func redecode(t *testing.T, data []byte) string {
	t.Helper()
	first := layers.LayerTypeIPv4
	if data[0]>>4 == 6 {
		first = layers.LayerTypeIPv6
	}
	p := gopacket.NewPacket(data, first, gopacket.Default)
	if e := p.ErrorLayer(); e != nil {
		t.Fatalf("gopacket: %v\n% x", e.Error(), data)
	}
	if again := reserialize(t, p); !slices.Equal(again, data) {
		t.Fatalf("gopacket's lengths and checksums differ:\n% x\n% x", again, data)
	}
	switch l := p.Layers()[1].(type) {
	case *layers.ICMPv4:
		name := map[uint8]string{0: "EchoReply", 3: "DestinationUnreachable", 11: "TimeExceeded"}[l.TypeCode.Type()]
		return "ICMPv4 " + name
	case *layers.ICMPv6:
		name := map[uint8]string{129: "EchoReply", 1: "DestinationUnreachable", 3: "TimeExceeded"}[l.TypeCode.Type()]
		return "ICMPv6 " + name
	case *layers.TCP:
		return "TCP"
	case *layers.UDP:
		if dns, ok := p.Layers()[2].(*layers.DNS); ok && len(dns.Answers) == 1 && len(dns.Answers[0].TXTs) == 1 {
			return "UDP DNS"
		}
	}
	return "other"
}

// reserialize builds the packet's headers again, with gopacket's arithmetic.
func reserialize(t *testing.T, p gopacket.Packet) []byte {
	t.Helper()
	ls := p.Layers()
	network := ls[0].(gopacket.NetworkLayer)
	head := []gopacket.SerializableLayer{ls[0].(gopacket.SerializableLayer), ls[1].(gopacket.SerializableLayer)}
	switch l := ls[1].(type) {
	case *layers.ICMPv6:
		if err := l.SetNetworkLayerForChecksum(network); err != nil {
			t.Fatal(err)
		}
	case *layers.UDP:
		if err := l.SetNetworkLayerForChecksum(network); err != nil {
			t.Fatal(err)
		}
	case *layers.TCP:
		if err := l.SetNetworkLayerForChecksum(network); err != nil {
			t.Fatal(err)
		}
	}
	buf := gopacket.NewSerializeBuffer()
	head = append(head, gopacket.Payload(ls[1].LayerPayload()))
	if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, head...); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// FuzzSend sends arbitrary bytes: nothing panics, and whatever comes back is a
// packet with right checksums from somebody who exists.
func FuzzSend(f *testing.F) {
	n := build(f, diamond(3, simnet.Hash{}), nil)
	ip4, ip6 := wire.IP{Src: addr4(1), Dst: addr4(2), TTL: 3}, wire.IP{Src: addr6(1), Dst: addr6(2), TTL: 9}
	for _, ip := range []wire.IP{ip4, ip6} {
		f.Add(echo(f, ip, 1, 2))
		f.Add(udp(f, ip, 1, 2))
		ip.Dst = netip.MustParseAddr("192.0.2.1")
		if ip.Src.Is6() {
			ip.Dst = netip.MustParseAddr("2001:db8:a::1")
		}
		f.Add(chaos(f, ip, 7, "hostname.bind"))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := conn(t, n.Virtual(1), "a")
		if k, err := c.Send([]probe.Packet{{Data: data}}); (k == 1) != (err == nil) {
			t.Fatalf("Send = %d, %v", k, err)
		}
		for {
			p, ok := recv(t, c, time.Second)
			if !ok {
				return
			}
			if p.Stamp != datasets.StampSim {
				t.Fatalf("stamp %q", p.Stamp)
			}
			var r wire.Reply
			if err := r.Decode(p.Data); err != nil {
				t.Fatal(err)
			}
			toSelf := r.Dst == r.Src || slices.Equal(p.Data, data)
			if err := wire.VerifyChecksums(p.Data); err != nil && !toSelf {
				t.Fatalf("% x: %v", p.Data, err)
			}
		}
	})
}
