package simnet_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"strandline/datasets"
	"strandline/internal/simnet"
	"strandline/probe"
	"strandline/probe/wire"
)

// TestRandomWorlds: every world validates, is the same for the same seed, has a
// diamond, keeps what its features promise, and all of its ways end at the target.
func TestRandomWorlds(t *testing.T) {
	widths, features, longest := map[int]int{}, map[simnet.Features]int{}, 0
	for seed := range uint64(300) {
		r := simnet.Random{Allowed: simnet.AllFeatures}
		w := r.World(seed)
		if again := r.World(seed); !reflect.DeepEqual(w, again) {
			t.Fatalf("seed %d: two draws differ", seed)
		}
		n := build(t, w.Spec, nil)
		g, err := n.Graph(w.Host, udp(t, wire.IP{Src: addr4(1), Dst: w.Target, TTL: 64}, 1, 2), simnet.FieldSport, simnet.FieldDport, simnet.FieldTOS)
		if err != nil || len(g.Balancers) == 0 && w.Features&simnet.Silences == 0 {
			t.Fatalf("seed %d: %d balancers, %v", seed, len(g.Balancers), err)
		}
		checkShares(t, seed, w, &g)
		for _, b := range g.Balancers {
			widths[b.Width]++
		}
		longest = max(longest, int(g.Hops[len(g.Hops)-1].TTL))
		for f := simnet.Nested; f < simnet.AllFeatures; f <<= 1 {
			if w.Features.Has(f) {
				features[f]++
			}
		}
	}
	for f := simnet.Nested; f < simnet.AllFeatures; f <<= 1 {
		if k := features[f]; k < 65 || k > 135 {
			t.Errorf("%v in %d of 300 worlds, want about a third", f, k)
		}
	}
	widest := slices.Max(slices.Collect(maps.Keys(widths)))
	if widest < 80 || widest > 96 {
		t.Errorf("widest balancer %d, want nearly 96", widest)
	}
	t.Logf("longest path %d hops, widest balancer %d, widths %v", longest, widest, widths)
}

// checkShares requires that the target gets all packets, each once, and that the
// shares of a balancer add up.
func checkShares(t *testing.T, seed uint64, w simnet.RandomWorld, g *simnet.Graph) {
	t.Helper()
	sum := 0.0
	for _, h := range g.Hops {
		if h.Node == "dst" {
			sum += h.Share
		}
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("seed %d (%v): the target gets %v of the packets, want all", seed, w.Features, sum)
	}
	for _, b := range g.Balancers {
		total := 0.0
		for _, s := range b.Shares {
			total += s
		}
		if math.Abs(total-1) > 1e-9 || len(b.Shares) != b.Width || len(b.Next) != b.Width || b.Width < 2 {
			t.Errorf("seed %d: balancer %+v, shares sum to %v", seed, b, total)
		}
	}
}

func TestRandomIsTame(t *testing.T) {
	for seed := range uint64(100) {
		w := simnet.Random{MaxWidth: 4, Diamonds: 1}.World(seed)
		if w.Features != 0 || w.Loss != 0 {
			t.Fatalf("seed %d: features %v with none allowed", seed, w.Features)
		}
		g, err := build(t, w.Spec, nil).Graph(w.Host, udp(t, wire.IP{Src: addr4(1), Dst: w.Target, TTL: 64}, 1, 2))
		if err != nil || len(g.Balancers) != 1 || g.Balancers[0].Width > 4 || g.Balancers[0].Class != datasets.PerFlow {
			t.Fatalf("seed %d: %+v, %v; want one balancer, 4 wide at most", seed, g.Balancers, err)
		}
	}
	all := simnet.Random{Required: simnet.AllFeatures}.World(1)
	if all.Features != simnet.AllFeatures || len(all.Spec.Changes) == 0 || all.Loss == 0 || all.Spec.Links[2].AddrA == (netip.Addr{}) {
		t.Errorf("with all features required: %v", all.Features)
	}
	if got := (simnet.Nested | simnet.Changing).String(); got != "nested,changing" {
		t.Errorf("String = %q", got)
	}
}

// TestRandomTruthIsWhatHappens: random probes of random worlds with every feature
// but chance and change get the answers that Truth foretells.
func TestRandomTruthIsWhatHappens(t *testing.T) {
	allowed := simnet.AllFeatures &^ (simnet.Spraying | simnet.Changing | simnet.Limited | simnet.Lossy | simnet.Noisy)
	answered := 0
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 9))
		w := simnet.Random{Allowed: allowed}.World(seed)
		n := build(t, w.Spec, nil)
		for range 40 {
			c := conn(t, n.Virtual(seed), w.Host)
			data := flowTo(t, rng, c, w, uint8(1+rng.IntN(25)))
			truth, err := n.Truth(w.Host, data)
			if err != nil {
				t.Fatal(err)
			}
			r, rtt, ok := exchange(t, c, data)
			if ok != (truth.Outcome != datasets.OutcomeTimeout) {
				t.Fatalf("seed %d (%v): answered %v, want %+v", seed, w.Features, ok, truth)
			}
			if !ok {
				continue
			}
			answered++
			if r.Src != truth.From || r.TTL != truth.ReplyTTL || rtt < truth.Min || rtt > truth.Max {
				t.Fatalf("seed %d (%v): from %v ttl %d after %v, want %+v", seed, w.Features, r.Src, r.TTL, rtt, truth)
			}
		}
	}
	if answered < 5000 {
		t.Errorf("only %d of 6000 answered", answered)
	}
}

// flowTo makes a probe of a random protocol and flow.
func flowTo(t *testing.T, rng *rand.Rand, c probe.Conn, w simnet.RandomWorld, ttl uint8) []byte {
	t.Helper()
	dst := w.Target
	if rng.IntN(2) == 0 {
		dst = w.Target6
	}
	ip := wire.IP{Src: local(t, c, dst), Dst: dst, TTL: ttl, TOS: uint8(rng.Uint32()) &^ 3, FlowLabel: rng.Uint32N(1 << 20)}
	sport, dport := uint16(1024+rng.IntN(60000)), uint16(1024+rng.IntN(60000))
	switch rng.IntN(3) {
	case 0:
		return echo(t, ip, sport, dport)
	case 1:
		return must(t)(wire.AppendTCP(nil, ip, wire.TCP{SrcPort: sport, DstPort: dport, Seq: rng.Uint32(), Flags: wire.TCPSyn}))
	}
	return udp(t, ip, sport, dport)
}

// TestGraphIsWhatTracesSee traces many random UDP flows through random worlds, by
// the driver, and compares with the graph: what was seen is in it, with the right
// share, and what has a share is seen. Where balancers go by packets, traces that
// end at the target see the far hops less often, and join hops that are no
// neighbours; where a gateway rewrites, they cannot tell its neighbours. There
// only the addresses are compared.
func TestGraphIsWhatTracesSee(t *testing.T) {
	const flows = 500
	allowed := simnet.AllFeatures &^ (simnet.Changing | simnet.Limited | simnet.Lossy | simnet.Noisy)
	hops, links := 0, 0
	for seed := range uint64(45) {
		w := simnet.Random{Allowed: allowed, MaxWidth: 16}.World(seed)
		n := build(t, w.Spec, nil)
		rng := rand.New(rand.NewPCG(seed, 2))
		v6 := seed%2 == 1
		dst := pick(v6, w.Target, w.Target6)
		c := conn(t, n.Virtual(seed), w.Host)
		g, err := n.Graph(w.Host, udp(t, wire.IP{Src: local(t, c, dst), Dst: dst, TTL: 64}, 1, 2))
		if err != nil {
			t.Fatal(err)
		}
		seen, pairs := map[string]int{}, map[datasets.Link]int{}
		for range flows {
			traceOnce(t, rng, c, w, dst, seen, pairs)
		}
		what := fmt.Sprintf("seed %d (%v)", seed, w.Features)
		sprayed := slices.ContainsFunc(g.Balancers, func(b simnet.Balancer) bool { return b.Class == datasets.PerPacket })
		compareHops(t, what, &g, seen, flows, !sprayed)
		hops += len(g.Hops)
		if sprayed || w.Features.Has(simnet.Rewriting) {
			continue
		}
		for _, l := range g.Links {
			if pairs[l] == 0 && leastShare(&g, l) > 0.03 {
				t.Errorf("%s: true link never seen: %+v", what, l)
			}
			delete(pairs, l)
			links++
		}
		for l := range pairs {
			t.Errorf("%s: seen, but no true link: %+v", what, l)
		}
	}
	t.Logf("%d hops and %d links compared", hops, links)
	if hops < 2500 || links < 1500 {
		t.Errorf("%d hops and %d links: too few", hops, links)
	}
}

// traceOnce traces one random flow, notes who answered at each TTL and the pairs
// of neighbours, and passes over answers that quote TTL 0.
func traceOnce(t *testing.T, rng *rand.Rand, c probe.Conn, w simnet.RandomWorld, dst netip.Addr, seen map[string]int, pairs map[datasets.Link]int) {
	t.Helper()
	sport, dport := uint16(1024+rng.IntN(60000)), uint16(1024+rng.IntN(60000))
	tos, label := uint8(rng.Uint32()), rng.Uint32N(1<<20)
	prev := netip.Addr{}
	for ttl := uint8(1); ttl < 60 && prev != dst; ttl++ {
		ip := wire.IP{Src: local(t, c, dst), Dst: dst, TTL: ttl, TOS: tos, FlowLabel: label}
		r, _, ok := exchange(t, c, udp(t, ip, sport, dport))
		if !ok || r.Quoted.TTL == 0 {
			prev = netip.Addr{}
			continue
		}
		seen[fmt.Sprint(ttl, r.Src)]++
		if prev.IsValid() {
			pairs[datasets.Link{Vantage: w.Host, Target: dst, From: prev, To: r.Src, TTL: ttl - 1}]++
		}
		prev = r.Src
	}
}

// compareHops requires of every address seen that it is in the graph and, when
// counted is set, of every address at every TTL that it was seen as often as its
// share says, within five standard deviations and the three more of rare events.
func compareHops(t *testing.T, what string, g *simnet.Graph, seen map[string]int, flows int, counted bool) {
	t.Helper()
	share := map[string]float64{}
	for _, h := range g.Hops {
		if h.Addr.IsValid() {
			share[fmt.Sprint(h.TTL, h.Addr)] += h.Share
		}
	}
	for at, p := range share {
		sd := math.Sqrt(max(p*(1-p), 0) * float64(flows))
		if got, want := float64(seen[at]), p*float64(flows); counted && math.Abs(got-want) > 5*sd+3 {
			t.Errorf("%s: %s seen %v times, want %.1f +- %.1f", what, at, got, want, sd)
		}
	}
	for at, k := range seen {
		if share[at] == 0 {
			t.Errorf("%s: %s seen %d times and not in the graph", what, at, k)
		}
	}
}

// leastShare bounds the share of packets that pass a link from below: the rarer of
// its ends, by the widest balancer of these worlds.
func leastShare(g *simnet.Graph, l datasets.Link) float64 {
	least := 1.0
	for _, h := range g.Hops {
		if h.TTL == l.TTL && h.Addr == l.From || h.TTL == l.TTL+1 && h.Addr == l.To {
			least = min(least, h.Share)
		}
	}
	return least / 16
}

// TestRandomLoss: the world loses what it says of the round trips to the target.
func TestRandomLoss(t *testing.T) {
	w := simnet.Random{Required: simnet.Lossy | simnet.Unequal | simnet.Nested}.World(4)
	n := build(t, w.Spec, nil)
	c := conn(t, n.Virtual(1), w.Host)
	const probes = 20000
	got := 0
	for i := range probes {
		if _, _, ok := exchange(t, c, udp(t, wire.IP{Src: addr4(1), Dst: w.Target, TTL: 64}, uint16(i), 9)); ok {
			got++
		}
	}
	if p, sd := 1-w.Loss, math.Sqrt(w.Loss*(1-w.Loss)*probes); math.Abs(float64(got)-p*probes) > 4*sd || w.Loss < 0.02 {
		t.Errorf("%d of %d answered, want %.0f +- %.0f", got, probes, p*probes, sd)
	}
}

// BenchmarkRandomWorld draws a world, builds it and computes its truth.
func BenchmarkRandomWorld(b *testing.B) {
	seed := uint64(0)
	start := time.Now()
	for b.Loop() {
		w := simnet.Random{Allowed: simnet.AllFeatures}.World(seed)
		n := build(b, w.Spec, nil)
		if _, err := n.Graph(w.Host, udp(b, wire.IP{Src: addr4(1), Dst: w.Target, TTL: 64}, 1, 2)); err != nil {
			b.Fatal(err)
		}
		seed++
	}
	b.ReportMetric(float64(seed)/time.Since(start).Seconds(), "worlds/s")
}

// TestRandomGopacket decodes all that arrives in worlds with every feature but
// damage by gopacket, which computes the checksums anew.
func TestRandomGopacket(t *testing.T) {
	got := map[string]int{}
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 5))
		w := simnet.Random{Allowed: simnet.AllFeatures &^ simnet.Noisy, MaxWidth: 8}.World(seed)
		v := build(t, w.Spec, nil).Virtual(seed)
		src, dst := conn(t, v, "src"), conn(t, v, "dst")
		for range 40 {
			send(t, src, flowTo(t, rng, src, w, uint8(1+rng.IntN(20))))
		}
		for _, c := range []probe.Conn{src, dst} {
			for p, ok := recv(t, c, 3*time.Second); ok; p, ok = recv(t, c, 3*time.Second) {
				got[redecode(t, p.Data)]++
			}
		}
	}
	for _, kind := range []string{"ICMPv4 TimeExceeded", "ICMPv6 TimeExceeded", "ICMPv4 DestinationUnreachable", "ICMPv6 DestinationUnreachable",
		"ICMPv4 EchoReply", "ICMPv6 EchoReply", "TCP"} {
		if got[kind] < 20 {
			t.Errorf("%d of %s: too few among %v", got[kind], kind, got)
		}
	}
}

// FuzzSendFeatures sends arbitrary bytes into a world with every feature: nothing
// panics, and what comes back to the host decodes.
func FuzzSendFeatures(f *testing.F) {
	w := simnet.Random{Required: simnet.AllFeatures &^ simnet.Lossy, MaxWidth: 4, Diamonds: 1}.World(3)
	n := build(f, w.Spec, nil)
	src4, src6 := w.Spec.Nodes[0].Addr, w.Spec.Nodes[0].Addr6
	for ttl := range uint8(12) {
		ip4, ip6 := wire.IP{Src: src4, Dst: w.Target, TTL: ttl}, wire.IP{Src: src6, Dst: w.Target6, TTL: ttl}
		for _, ip := range []wire.IP{ip4, ip6} {
			f.Add(udp(f, ip, 1, uint16(ttl)))
			f.Add(echo(f, ip, 1, 2))
			f.Add(must(f)(wire.AppendTCP(nil, ip, wire.TCP{SrcPort: 1, DstPort: 80, Flags: wire.TCPSyn})))
			about := udp(f, wire.IP{Src: ip.Dst, Dst: ip.Src, TTL: 4}, 1, 2)
			f.Add(must(f)(wire.AppendError(nil, ip, wire.PortUnreachable, about, 0)))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := conn(t, n.Virtual(1), w.Host)
		if k, err := c.Send([]probe.Packet{{Data: data}, {Data: data}}); (k == 2) != (err == nil) {
			t.Fatalf("Send = %d, %v", k, err)
		}
		for p, ok := recv(t, c, time.Second); ok; p, ok = recv(t, c, time.Second) {
			var r wire.Reply
			if err := r.Decode(p.Data); err != nil {
				continue // damaged on the way
			}
			var e wire.Extensions
			_ = e.Decode(r.Extension)
		}
		if _, err := n.Truth(w.Host, data); err == nil {
			if _, err := n.Graph(w.Host, data); err != nil {
				t.Fatalf("%x: truth, but no graph: %v", data, err)
			}
		}
	})
}
