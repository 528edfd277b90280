package simnet_test

import (
	"math"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"go.yaml.in/yaml/v3"
	"golang.org/x/net/icmp"

	"strandline/datasets"
	"strandline/internal/simnet"
	"strandline/probe"
	"strandline/probe/wire"
)

func node(s *simnet.Spec, name string) *simnet.Node {
	return &s.Nodes[slices.IndexFunc(s.Nodes, func(n simnet.Node) bool { return n.Name == name })]
}

func link(s *simnet.Spec, a, b string) *simnet.Link {
	return &s.Links[slices.IndexFunc(s.Links, func(l simnet.Link) bool { return l.A == a && l.B == b })]
}

// atTTL is between with a TTL.
func atTTL(v6 bool, ttl uint8) wire.IP {
	ip := between(v6)
	ip.TTL = ttl
	return ip
}

func pick(v6 bool, four, six netip.Addr) netip.Addr {
	if v6 {
		return six
	}
	return four
}

// TestMPLS: a router reports the labels of the link that the packet came over,
// and golang.org/x/net/icmp reads them too.
func TestMPLS(t *testing.T) {
	spec := diamond(1, simnet.Hash{})
	link(&spec, "r1", "m1").MPLS = []uint32{29657, 1<<20 - 1}
	link(&spec, "m1", "r2").MPLS = []uint32{16}
	n := build(t, spec, nil)
	for _, v6 := range []bool{false, true} {
		c := conn(t, n.Virtual(1), "a")
		for ttl, want := range map[uint8][]wire.MPLS{
			1: nil,
			2: {{Label: 29657, TTL: 1}, {Label: 1<<20 - 1, TTL: 1, Bottom: true}},
			3: {{Label: 16, TTL: 1, Bottom: true}},
			4: nil,
		} {
			send(t, c, udp(t, atTTL(v6, ttl), 7, 9))
			p, ok := recv(t, c, time.Second)
			var r wire.Reply
			var e wire.Extensions
			if err := r.Decode(p.Data); !ok || err != nil || e.Decode(r.Extension) != nil {
				t.Fatalf("ttl %d: %v, %v", ttl, ok, err)
			}
			if !slices.Equal(e.MPLS, want) || !r.HasQuote || r.Quoted.SrcPort != 7 {
				t.Errorf("IPv6 %v, ttl %d: %+v, want %+v", v6, ttl, e.MPLS, want)
			}
			if got := netLabels(t, p.Data, &r); !slices.Equal(got, want) {
				t.Errorf("IPv6 %v, ttl %d: x/net/icmp reads %+v, want %+v", v6, ttl, got, want)
			}
			redecode(t, p.Data)
		}
	}
}

// netLabels reads a label stack by golang.org/x/net/icmp.
func netLabels(t *testing.T, data []byte, r *wire.Reply) []wire.MPLS {
	t.Helper()
	m, err := icmp.ParseMessage(int(r.Proto), data[r.HeaderLen:r.TotalLen])
	if err != nil {
		t.Fatal(err)
	}
	body, ok := m.Body.(*icmp.TimeExceeded)
	if !ok {
		return nil
	}
	var out []wire.MPLS
	for _, x := range body.Extensions {
		for _, l := range x.(*icmp.MPLSLabelStack).Labels {
			out = append(out, wire.MPLS{Label: uint32(l.Label), TC: uint8(l.TC), Bottom: l.S, TTL: uint8(l.TTL)})
		}
	}
	return out
}

// TestInterfaces: errors come from the interface that the packet came in by and
// may name it, its address answers, and the graph has a hop for each.
func TestInterfaces(t *testing.T) {
	spec := diamond(2, simnet.Hash{})
	for i, m := range []string{"m1", "m2"} {
		l := link(&spec, m, "r2")
		l.AddrA, l.AddrB, l.Addr6A, l.Addr6B = addr4(100+2*i), addr4(101+2*i), addr6(100+2*i), addr6(101+2*i)
	}
	node(&spec, "r2").InterfaceInfo = true
	n := build(t, spec, nil)
	for _, v6 := range []bool{false, true} {
		c := conn(t, n.Virtual(1), "a")
		from := map[netip.Addr]int{}
		for sport := range uint16(40) {
			r, _, ok := exchange(t, c, udp(t, atTTL(v6, 3), sport, 9))
			var e wire.Extensions
			if err := e.Decode(r.Extension); !ok || err != nil || len(e.Interfaces) != 1 {
				t.Fatalf("%+v, %v", e, err)
			}
			i := e.Interfaces[0]
			if i.Addr != r.Src || i.Role != wire.Incoming || i.MTU != 1500 || string(i.Name) != "eth"+string(rune('0'+i.Index-1)) {
				t.Errorf("interface %+v in an answer from %v", i, r.Src)
			}
			from[r.Src]++
		}
		if one, two := pick(v6, addr4(101), addr6(101)), pick(v6, addr4(103), addr6(103)); from[one] == 0 || from[two] == 0 || len(from) != 2 {
			t.Errorf("answers from %v, want %v and %v", from, one, two)
		}
		for _, own := range []int{4, 101, 103} {
			ip := between(v6)
			ip.Dst = pick(v6, addr4(own), addr6(own))
			if r, _, ok := exchange(t, c, echo(t, ip, 1, 1)); !ok || r.Kind != wire.KindEchoReply || r.Src != ip.Dst {
				t.Errorf("echo to %v: %v from %v (%v)", ip.Dst, r.Kind, r.Src, ok)
			}
		}
		links, err := n.Links("a", pick(v6, addr4(2), addr6(2)))
		if err != nil || len(links) != 6 { // two each: r1 to m, m to r2's interfaces, those to b
			t.Errorf("%d links, %v; want 6: %v", len(links), err, links)
		}
	}
}

// TestShortQuotes: a router may quote eight octets of the transport header.
func TestShortQuotes(t *testing.T) {
	spec := diamond(1, simnet.Hash{})
	node(&spec, "r1").Quote = 8
	node(&spec, "m1").Quote = 20
	n := build(t, spec, nil)
	for _, v6 := range []bool{false, true} {
		c := conn(t, n.Virtual(1), "a")
		for ttl, want := range map[uint8]int{1: 8, 2: 20, 3: 8 + len("strandline test packet")} {
			r, _, ok := exchange(t, c, udp(t, atTTL(v6, ttl), 7, 9))
			if got := len(r.Payload) - r.Quoted.HeaderLen; !ok || got != want || r.Quoted.DstPort != 9 {
				t.Errorf("IPv6 %v, ttl %d: %d octets after the quoted IP header, want %d", v6, ttl, got, want)
			}
		}
	}
}

// TestICMPLimit compares which probes of a random train are answered with a
// bucket that is filled tick by tick.
func TestICMPLimit(t *testing.T) {
	const rate, burst = 50, 7
	spec := diamond(1, simnet.Hash{})
	for i := range spec.Links {
		spec.Links[i].Delay = time.Microsecond // so that probes arrive when they are sent, but for a microsecond
	}
	node(&spec, "r1").ICMPLimit = simnet.ICMPLimit{RateHz: rate, Burst: burst}
	n := build(t, spec, nil)
	c := conn(t, n.Virtual(1), "a")
	rng := seeded(t, 3)
	tokens, answered := float64(burst), 0
	for i := range uint16(2000) {
		_, _, ok := exchange2(t, c, udp(t, atTTL(false, 1), i, 9))
		want := tokens >= 1
		if want {
			tokens--
			answered++
		}
		if ok != want {
			t.Fatalf("probe %d: answered %v, want %v with %.3f tokens", i, ok, want, tokens)
		}
		pause := time.Duration(rng.IntN(20)) * time.Millisecond
		recvNothing(t, c, pause)
		for range pause/time.Millisecond + 1 { // a probe takes a millisecond, below
			tokens = min(burst, tokens+rate/1000.)
		}
		if frac := math.Abs(tokens - math.Round(tokens)); frac < 1e-6 {
			tokens = math.Round(tokens) // sums of binary fractions
		}
	}
	if answered < 900 || answered > 1900 {
		t.Errorf("%d of 2000 answered: the limit was not tried", answered)
	}
	w, err := n.Truth("a", udp(t, atTTL(false, 1), 1, 9))
	if err != nil || !w.Limited || w.Outcome != datasets.OutcomeTTLExceeded {
		t.Errorf("truth %+v, %v; want an answer, limited", w, err)
	}
	for i := range uint16(100) { // echoes are no errors
		ip := between(false)
		ip.Dst = addr4(3)
		if r, _, ok := exchange(t, c, echo(t, ip, 1, i)); !ok || r.Kind != wire.KindEchoReply {
			t.Fatalf("echo %d to the router: %v, %v", i, r.Kind, ok)
		}
	}
}

// exchange2 waits one millisecond, whether or not there is an answer.
func exchange2(t *testing.T, c probe.Conn, data []byte) (wire.Reply, time.Duration, bool) {
	t.Helper()
	sent := send(t, c, data)
	p, ok := recv(t, c, time.Millisecond)
	if !ok {
		return wire.Reply{}, 0, false
	}
	recvNothing(t, c, sent.Add(time.Millisecond).Sub(c.Now()))
	var r wire.Reply
	if err := r.Decode(p.Data); err != nil {
		t.Fatal(err)
	}
	return r, p.Time.Sub(sent), true
}

func recvNothing(t *testing.T, c probe.Conn, d time.Duration) {
	t.Helper()
	if p, ok := recv(t, c, d); ok {
		t.Fatalf("unexpected packet % x", p.Data)
	}
}

// TestZeroTTL: behind a faulty router its successor answers twice, first quoting
// TTL 0, and no link is drawn over it.
func TestZeroTTL(t *testing.T) {
	spec := diamond(1, simnet.Hash{})
	node(&spec, "m1").ZeroTTL = true
	n := build(t, spec, nil)
	for _, v6 := range []bool{false, true} {
		c := conn(t, n.Virtual(1), "a")
		for ttl, want := range map[uint8]struct {
			from   int
			quoted uint8
		}{1: {3, 1}, 2: {4, 0}, 3: {4, 1}, 4: {2, 1}} {
			r, _, ok := exchange(t, c, udp(t, atTTL(v6, ttl), 7, 9))
			if from := pick(v6, addr4(want.from), addr6(want.from)); !ok || r.Src != from || r.Quoted.TTL != want.quoted {
				t.Errorf("IPv6 %v, ttl %d: %v quoting TTL %d (%v), want %v and %d", v6, ttl, r.Src, r.Quoted.TTL, ok, from, want.quoted)
			}
		}
		g, err := n.Graph("a", udp(t, between(v6), 7, 9))
		if err != nil || len(g.Links) != 1 || g.Links[0].TTL != 3 {
			t.Errorf("links %v, %v; want only that from r2 to b", g.Links, err)
		}
		if !g.Hops[1].ZeroTTL || g.Hops[1].Addr.IsValid() {
			t.Errorf("hop %+v, want it marked", g.Hops[1])
		}
	}
}

// TestRewriting: routers behind the gateway look like it, with TTLs that say
// otherwise, and are in no link; the target is itself.
func TestRewriting(t *testing.T) {
	spec := diamond(2, simnet.Hash{})
	node(&spec, "r1").Rewrites = prefixes("198.18.0.4/32", "198.18.0.11/32", "198.18.0.12/32", "2001:db8::4/128", "2001:db8::b/128", "2001:db8::c/128")
	n := build(t, spec, nil)
	for _, v6 := range []bool{false, true} {
		c := conn(t, n.Virtual(1), "a")
		gateway, target := pick(v6, addr4(3), addr6(3)), pick(v6, addr4(2), addr6(2))
		for ttl, want := range map[uint8]netip.Addr{1: gateway, 2: gateway, 3: gateway, 4: target} {
			r, _, ok := exchange(t, c, udp(t, atTTL(v6, ttl), 7, 9))
			if left := uint8(256 - int(ttl)); !ok || r.Src != want || ttl < 4 && r.TTL != left {
				t.Errorf("IPv6 %v, ttl %d: %v TTL %d (%v), want %v and %d", v6, ttl, r.Src, r.TTL, ok, want, left)
			}
		}
		g, err := n.Graph("a", udp(t, between(v6), 7, 9))
		if err != nil || len(g.Links) != 0 || len(g.Hops) != 5 {
			t.Fatalf("graph %+v, %v; want five hops and no link", g, err)
		}
		for _, h := range g.Hops {
			if want := h.Node != "r1" && h.Node != "b"; h.Rewritten != want {
				t.Errorf("hop %+v, want rewritten %v", h, want)
			}
		}
	}
}

// TestTCP: what hosts and routers answer to segments, by gopacket.
func TestTCP(t *testing.T) {
	spec := diamond(1, simnet.Hash{})
	node(&spec, "b").TCP = []uint16{80, 443}
	n := build(t, spec, nil)
	spoilt := func(ip wire.IP) []byte {
		b := must(t)(wire.AppendTCP(nil, ip, wire.TCP{SrcPort: 5, DstPort: 80, Flags: wire.TCPSyn}))
		b[len(b)-3] ^= 1
		return b
	}
	for _, v6 := range []bool{false, true} {
		for _, tt := range []struct {
			name     string
			segment  wire.TCP
			flags    string
			seq, ack uint32 // seq 1: any
		}{
			{"open", wire.TCP{DstPort: 80, Flags: wire.TCPSyn, Seq: 9}, "SA", 1, 10},
			{"open, another", wire.TCP{DstPort: 443, Flags: wire.TCPSyn, Seq: 1<<32 - 1}, "SA", 1, 0},
			{"closed", wire.TCP{DstPort: 81, Flags: wire.TCPSyn, Seq: 9}, "RA", 0, 10},
			{"closed, with data", wire.TCP{DstPort: 81, Flags: wire.TCPSyn, Seq: 9, Payload: []byte("abc")}, "RA", 0, 13},
			{"ACK", wire.TCP{DstPort: 80, Flags: wire.TCPAck, Seq: 9, Ack: 77}, "R", 77, 0},
			{"SYN+ACK", wire.TCP{DstPort: 80, Flags: wire.TCPAck | wire.TCPSyn, Seq: 9, Ack: 78}, "R", 78, 0},
			{"no flag", wire.TCP{DstPort: 80, Seq: 9, Payload: []byte("ab")}, "RA", 0, 11},
			{"FIN", wire.TCP{DstPort: 80, Flags: wire.TCPFin, Seq: 9}, "RA", 0, 10},
			{"RST", wire.TCP{DstPort: 81, Flags: wire.TCPRst, Seq: 9}, "", 0, 0},
		} {
			tt.segment.SrcPort = 40000
			c := conn(t, n.Virtual(1), "a")
			send(t, c, must(t)(wire.AppendTCP(nil, between(v6), tt.segment)))
			p, ok := recv(t, c, time.Second)
			if ok != (tt.flags != "") {
				t.Errorf("%s: answered %v", tt.name, ok)
			}
			if !ok {
				continue
			}
			redecode(t, p.Data)
			tcp := asTCP(t, p.Data)
			var flags strings.Builder
			for _, f := range []struct {
				set  bool
				name string
			}{{tcp.SYN, "S"}, {tcp.RST, "R"}, {tcp.ACK, "A"}, {tcp.FIN || tcp.PSH || tcp.URG, "?"}} {
				if f.set {
					flags.WriteString(f.name)
				}
			}
			if flags.String() != tt.flags || tcp.Ack != tt.ack || tt.seq != 1 && tcp.Seq != tt.seq || tcp.DstPort != 40000 || uint16(tcp.SrcPort) != tt.segment.DstPort {
				t.Errorf("%s: %s seq %d ack %d from port %d, want %s %d %d", tt.name, flags.String(), tcp.Seq, tcp.Ack, tcp.SrcPort, tt.flags, tt.seq, tt.ack)
			}
			recvNothing(t, c, time.Second) // a reset ends it
		}
		c := conn(t, n.Virtual(1), "a")
		send(t, c, spoilt(between(v6)))
		recvNothing(t, c, time.Second)
		r, _, ok := exchange(t, c, must(t)(wire.AppendTCP(nil, atTTL(v6, 2), wire.TCP{SrcPort: 5, DstPort: 80, Seq: 0xabcdef01, Flags: wire.TCPSyn})))
		if !ok || r.Kind != wire.KindTimeExceeded || r.Quoted.TCPSeq != 0xabcdef01 || r.Quoted.SrcPort != 5 {
			t.Errorf("TTL 2: %+v", r)
		}
		w, err := n.Truth("a", must(t)(wire.AppendTCP(nil, between(v6), wire.TCP{SrcPort: 5, DstPort: 80, Flags: wire.TCPSyn})))
		if err != nil || w.Outcome != datasets.OutcomeReply {
			t.Errorf("truth %+v, %v; want a reply", w, err)
		}
	}
}

func asTCP(t *testing.T, data []byte) *layers.TCP {
	t.Helper()
	first := layers.LayerTypeIPv4
	if data[0]>>4 == 6 {
		first = layers.LayerTypeIPv6
	}
	tcp, ok := gopacket.NewPacket(data, first, gopacket.Default).Layer(layers.LayerTypeTCP).(*layers.TCP)
	if !ok {
		t.Fatalf("no TCP in % x", data)
	}
	return tcp
}

// TestChanges: routes follow a link that goes down and up again, in the driver,
// in At and in RouteChanges alike.
func TestChanges(t *testing.T) {
	spec := diamond(2, simnet.Hash{})
	spec.Changes = []simnet.Change{{At: 20 * time.Second, A: "m1", B: "r1"}, {At: 10 * time.Second, A: "r1", B: "m1", Down: true}, {At: 30 * time.Second, A: "r1", B: "m1"}}
	n := build(t, spec, nil)
	times, err := n.RouteChanges("a", addr4(2))
	if err != nil || !slices.Equal(times, []time.Duration{10 * time.Second, 20 * time.Second}) {
		t.Errorf("changes at %v, %v; want 10 and 20 s", times, err)
	}
	c := conn(t, n.Virtual(1), "a")
	start := c.Now()
	for i := range 400 {
		at := time.Duration(i) * 100 * time.Millisecond
		recvNothing(t, c, start.Add(at).Sub(c.Now()))
		data := udp(t, atTTL(false, 2), uint16(i), 9)
		r, _, ok := exchange(t, c, data)
		w, err := n.At(at).Truth("a", data)
		if err != nil || !ok || r.Src != w.From {
			t.Fatalf("at %v: answer from %v (%v), want %v; %v", at, r.Src, ok, w.From, err)
		}
		if down := at >= 10*time.Second && at < 20*time.Second; down && r.Src != addr4(12) {
			t.Errorf("at %v: answer from %v over a link that is down", at, r.Src)
		}
		before, err := n.Truth("a", data)
		if at < 10*time.Second && (err != nil || before.From != r.Src) {
			t.Errorf("at %v: before the change %v, answer %v", at, before.From, r.Src)
		}
	}
	for at, want := range map[time.Duration]int{0: 5, 10*time.Second - 1: 5, 10 * time.Second: 3, 20 * time.Second: 5, time.Hour: 5} {
		if links, err := n.At(at).Links("a", addr4(2)); err != nil || len(links) != want {
			t.Errorf("at %v: %d links, %v; want %d", at, len(links), err, want)
		}
	}
	spec.Changes = []simnet.Change{{At: time.Second, A: "a", B: "r1", Down: true}}
	n = build(t, spec, nil)
	if w, err := n.At(time.Second).Truth("a", udp(t, between(false), 1, 1)); err != nil || w.Outcome != datasets.OutcomeUnreachable || w.From != addr4(1) {
		t.Errorf("cut off: %+v, %v", w, err)
	}
	if _, err := n.RouteChanges("nobody", addr4(2)); err == nil {
		t.Error("RouteChanges of an unknown host gave no error")
	}
}

// TestNoise: a link doubles and damages as often as it should, checksums give the
// damage away, and hosts do not answer to damaged probes.
func TestNoise(t *testing.T) {
	const probes, rate = 20000, 0.1
	spec := diamond(1, simnet.Hash{})
	link(&spec, "r2", "b").Duplicate, link(&spec, "a", "r1").Corrupt = rate, rate
	n := build(t, spec, nil)
	v := n.Virtual(1)
	c, b := conn(t, v, "a"), conn(t, v, "b")
	answers, bad, arrived, badThere := 0, 0, 0, 0
	count := func(c probe.Conn, total, bad *int) {
		for p, ok := recv(t, c, 20*time.Millisecond); ok; p, ok = recv(t, c, 20*time.Millisecond) {
			*total++
			if wire.VerifyChecksums(p.Data) != nil {
				*bad++
			}
		}
	}
	for i := range probes {
		send(t, c, echo(t, between(false), 1, uint16(i)))
		count(c, &answers, &bad)
		count(b, &arrived, &badThere)
	}
	// Doubled on the way there; of those that are whole, the answers are doubled again.
	for _, x := range []struct {
		what      string
		got, want float64
	}{
		{"arrived", float64(arrived), probes * (1 + rate)},
		{"damaged there", float64(badThere), probes * (1 + rate) * rate},
		{"answers", float64(answers), probes * (1 - rate) * (1 + rate) * (1 + rate)},
		{"damaged answers", float64(bad), probes * (1 - rate) * (1 + rate) * (1 + rate) * rate},
	} {
		if math.Abs(x.got-x.want) > 5*math.Sqrt(2*x.want*rate) {
			t.Errorf("%s: %v, want about %.0f", x.what, x.got, x.want)
		}
	}
}

// TestYAML: every key of a world can be written down, and nothing is lost.
func TestYAML(t *testing.T) {
	const text = `
name: keys
seed: 9
nodes:
  - {name: a, kind: host, addr: 198.18.0.1, addr6: "2001:db8::1"}
  - {name: b, kind: host, addr: 198.18.0.2, addr6: "2001:db8::2", tcp: [80, 443]}
  - name: r1
    addr: 198.18.0.3
    addr6: "2001:db8::3"
    hash: {spread: round-robin, weights: {r2: 3, r3: 1}}
    quote: 8
    interface_info: true
    zero_ttl: true
    icmp_limit: {rate_hz: 2.5, burst: 4}
    nat: {inside: [198.18.0.1/32, "2001:db8::1/128"], ports: true, quote: none}
    rewrites: [198.18.0.4/32]
  - {name: r2, addr: 198.18.0.4}
  - {name: r3, addr: 198.18.0.5, hash: {fields: [sport, tos], spread: flow}}
links:
  - {a: a, b: r1, delay: 1ms, duplicate: 0.01, corrupt: 0.02}
  - {a: r1, b: r2, delay: 1ms, addr_a: 198.19.0.1, addr_b: 198.19.0.2, addr6_a: "2001:db8:1::1", addr6_b: "2001:db8:1::2", mpls: [16, 17]}
  - {a: r1, b: r3, delay: 1ms}
  - {a: r2, b: b, delay: 1ms}
  - {a: r3, b: b, delay: 1ms}
changes:
  - {at: 2s, a: r1, b: r2, down: true}
  - {at: 3s, a: r1, b: r2}
`
	var got simnet.Spec
	dec := yaml.NewDecoder(strings.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&got); err != nil {
		t.Fatal(err)
	}
	a := netip.MustParseAddr
	want := simnet.Spec{Name: "keys", Seed: 9, Nodes: []simnet.Node{
		{Name: "a", Kind: "host", Addr: addr4(1), Addr6: addr6(1)},
		{Name: "b", Kind: "host", Addr: addr4(2), Addr6: addr6(2), TCP: []uint16{80, 443}},
		{Name: "r1", Addr: addr4(3), Addr6: addr6(3), Hash: simnet.Hash{Spread: "round-robin", Weights: map[string]int{"r2": 3, "r3": 1}},
			Quote: 8, InterfaceInfo: true, ZeroTTL: true, ICMPLimit: simnet.ICMPLimit{RateHz: 2.5, Burst: 4},
			NAT: simnet.NAT{Inside: prefixes("198.18.0.1/32", "2001:db8::1/128"), Ports: true, Quote: "none"}, Rewrites: prefixes("198.18.0.4/32")},
		{Name: "r2", Addr: addr4(4)},
		{Name: "r3", Addr: addr4(5), Hash: simnet.Hash{Fields: []string{"sport", "tos"}, Spread: "flow"}},
	}, Links: []simnet.Link{
		{A: "a", B: "r1", Delay: time.Millisecond, Duplicate: 0.01, Corrupt: 0.02},
		{A: "r1", B: "r2", Delay: time.Millisecond, AddrA: a("198.19.0.1"), AddrB: a("198.19.0.2"), Addr6A: a("2001:db8:1::1"), Addr6B: a("2001:db8:1::2"), MPLS: []uint32{16, 17}},
		{A: "r1", B: "r3", Delay: time.Millisecond},
		{A: "r2", B: "b", Delay: time.Millisecond},
		{A: "r3", B: "b", Delay: time.Millisecond},
	}, Changes: []simnet.Change{{At: 2 * time.Second, A: "r1", B: "r2", Down: true}, {At: 3 * time.Second, A: "r1", B: "r2"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("decoded\n%+v\nwant\n%+v", got, want)
	}
}
