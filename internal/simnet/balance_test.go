package simnet_test

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	"strandline/datasets"
	"strandline/internal/simnet"
	"strandline/probe/wire"
)

// weighted is Pearson's statistic of counts against shares by weight.
func weighted(counts map[string]int, weights map[string]int) float64 {
	total, sum := 0, 0
	for name, w := range weights {
		total, sum = total+counts[name], sum+w
	}
	stat := 0.0
	for name, w := range weights {
		want := float64(total) * float64(w) / float64(sum)
		stat += (float64(counts[name]) - want) * (float64(counts[name]) - want) / want
	}
	return stat
}

// second sends packets that are all alike, or one per flow, to their second hop
// and counts who answers.
func second(t *testing.T, n *simnet.Net, seed uint64, packets int, alike bool) (map[string]int, string) {
	t.Helper()
	names := map[netip.Addr]string{}
	for i := range 16 {
		names[addr4(11+i)] = "m" + string(rune('1'+i))
	}
	c := conn(t, n.Virtual(seed), "a")
	counts, order := map[string]int{}, ""
	for i := range packets {
		sport := uint16(i)
		if alike {
			sport = 4711
		}
		ip := between(false)
		ip.TTL = 2
		r, _, ok := exchange(t, c, udp(t, ip, sport, 33434))
		if !ok {
			t.Fatal("no answer")
		}
		counts[names[r.Src]]++
		order += names[r.Src]
	}
	return counts, order
}

// TestSpray: a balancer that goes by packets splits one flow, by its weights, at
// random or in exact turns.
func TestSpray(t *testing.T) {
	for _, weights := range []map[string]int{{"m1": 1, "m2": 1}, {"m1": 1, "m2": 1, "m3": 1, "m4": 1}, {"m1": 9, "m2": 1}, {"m1": 3, "m2": 1, "m3": 2, "m4": 10}} {
		h := simnet.Hash{Spread: simnet.SpreadPacket, Weights: weights}
		n := build(t, diamond(len(weights), h), nil)
		counts, order := second(t, n, 1, 4000, true)
		if got := weighted(counts, weights); got > critical(len(weights)) {
			t.Errorf("weights %v: chi-square %.1f, want below %.1f: %v", weights, got, critical(len(weights)), counts)
		}
		if _, again := second(t, n, 1, 4000, true); again != order {
			t.Error("one seed, two runs: they differ")
		}
		if _, other := second(t, n, 2, 4000, true); other == order {
			t.Error("two seeds, one run")
		}
		h.Spread = simnet.SpreadRoundRobin
		n = build(t, diamond(len(weights), h), nil)
		sum := 0
		for _, w := range weights {
			sum += w
		}
		counts, _ = second(t, n, 1, 100*sum, true)
		for name, w := range weights {
			if counts[name] != 100*w {
				t.Errorf("round robin by %v: %v, want exactly by weight", weights, counts)
			}
		}
		w, err := n.Truth("a", udp(t, between(false), 1, 1))
		if err != nil || !w.Sprayed || w.Forward[2] != "m1" {
			t.Errorf("truth %+v, %v; want it sprayed, over the first next hop", w, err)
		}
	}
	if w, err := build(t, diamond(2, simnet.Hash{}), nil).Truth("a", udp(t, between(false), 1, 1)); err != nil || w.Sprayed {
		t.Errorf("per flow: %+v, %v; want it not sprayed", w, err)
	}
}

// TestSprayIndependent: the pairs of successive packets are even too, so that no
// packet learns from the one before.
func TestSprayIndependent(t *testing.T) {
	n := build(t, diamond(2, simnet.Hash{Spread: simnet.SpreadPacket}), nil)
	_, order := second(t, n, 5, 4000, true)
	pairs := map[string]int{}
	for i := 0; i+4 <= len(order); i += 4 {
		pairs[order[i:i+4]]++
	}
	if got := chiSquare(pairs, 4); got > critical(4) {
		t.Errorf("chi-square of pairs %.1f, want below %.1f: %v", got, critical(4), pairs)
	}
}

// TestWeights: flows split by weight, a flow stays, and weights of one are the
// same as none.
func TestWeights(t *testing.T) {
	for _, weights := range []map[string]int{{"m1": 9, "m2": 1}, {"m1": 7, "m2": 3}, {"m1": 1, "m2": 2, "m3": 3, "m4": 10}} {
		n := build(t, diamond(len(weights), simnet.Hash{Weights: weights}), nil)
		counts, order := second(t, n, 1, 4000, false)
		if got := weighted(counts, weights); got > critical(len(weights)) {
			t.Errorf("weights %v: chi-square %.1f, want below %.1f: %v", weights, got, critical(len(weights)), counts)
		}
		if _, again := second(t, n, 99, 4000, false); again != order {
			t.Error("flows moved with the driver's seed")
		}
	}
	even, none := build(t, diamond(3, simnet.Hash{Weights: map[string]int{"m1": 1, "m2": 1, "m3": 1}}), nil), build(t, diamond(3, simnet.Hash{}), nil)
	for i := range uint16(500) {
		if data := udp(t, between(false), i, 9); branch(t, even, data, 2) != branch(t, none, data, 2) {
			t.Fatal("weights of one move flows")
		}
	}
}

// TestBalancers: class, fields, width and shares as they were specified, seen by
// packets of each protocol.
func TestBalancers(t *testing.T) {
	all := func(extra ...string) []string { return append([]string{"src", "dst", "proto"}, extra...) }
	udp4 := udp(t, between(false), 1, 2)
	tests := []struct {
		name   string
		hash   simnet.Hash
		packet []byte
		class  datasets.Class
		fields []string
		shares []float64
		links  int // of 3 or 7: with one or all of the next hops
	}{
		{"five-tuple by UDP", simnet.Hash{}, udp4, datasets.PerFlow, all("sport", "dport"), []float64{1. / 3, 1. / 3, 1. / 3}, 7},
		{"five-tuple by ICMP", simnet.Hash{}, echo(t, between(false), 1, 2), datasets.PerDestination, all(), []float64{1. / 3, 1. / 3, 1. / 3}, 3},
		{"five-tuple by TCP", simnet.Hash{}, must(t)(wire.AppendTCP(nil, between(false), wire.TCP{SrcPort: 5})), datasets.PerFlow, all("sport", "dport"), []float64{1. / 3, 1. / 3, 1. / 3}, 7},
		{"checksum by ICMP", simnet.Hash{Fields: []string{"icmp_checksum", "src"}}, echo(t, between(false), 1, 2), datasets.PerFlow, []string{"src", "icmp_checksum"}, []float64{1. / 3, 1. / 3, 1. / 3}, 7},
		{"checksum by UDP", simnet.Hash{Fields: []string{"icmp_checksum", "src"}}, udp4, datasets.PerDestination, []string{"src"}, []float64{1. / 3, 1. / 3, 1. / 3}, 3},
		{"destination", simnet.Hash{Fields: []string{"dst", "src"}}, udp4, datasets.PerDestination, []string{"src", "dst"}, []float64{1. / 3, 1. / 3, 1. / 3}, 3},
		{"flow label by IPv4", simnet.Hash{Fields: []string{"flow_label"}}, udp4, datasets.PerDestination, nil, []float64{1. / 3, 1. / 3, 1. / 3}, 3},
		{"flow label by IPv6", simnet.Hash{Fields: []string{"flow_label"}}, udp(t, between(true), 1, 2), datasets.PerFlow, []string{"flow_label"}, []float64{1. / 3, 1. / 3, 1. / 3}, 7},
		{"packets", simnet.Hash{Spread: simnet.SpreadPacket, Weights: map[string]int{"m2": 2}}, udp4, datasets.PerPacket, nil, []float64{0.25, 0.5, 0.25}, 7},
		{"weighted", simnet.Hash{Weights: map[string]int{"m1": 6, "m3": 3}}, udp4, datasets.PerFlow, all("sport", "dport"), []float64{0.6, 0.1, 0.3}, 7},
	}
	for _, tt := range tests {
		g, err := build(t, diamond(3, tt.hash), nil).Graph("a", tt.packet)
		if err != nil || len(g.Balancers) != 1 {
			t.Fatalf("%s: %+v, %v; want one balancer", tt.name, g.Balancers, err)
		}
		b := g.Balancers[0]
		if b.TTL != 1 || b.Node != "r1" || b.Class != tt.class || !slices.Equal(b.Fields, tt.fields) || b.Width != 3 {
			t.Errorf("%s: %+v, want %s by %v at r1", tt.name, b, tt.class, tt.fields)
		}
		for i, want := range tt.shares {
			if d := b.Shares[i] - want; d > 1e-12 || d < -1e-12 {
				t.Errorf("%s: shares %v, want %v", tt.name, b.Shares, tt.shares)
			}
		}
		if len(g.Links) != tt.links {
			t.Errorf("%s: %d links, want %d: %v", tt.name, len(g.Links), tt.links, g.Links)
		}
		if b.MinShare() != slices.Min(b.Shares) {
			t.Errorf("%s: min share %v of %v", tt.name, b.MinShare(), b.Shares)
		}
	}
	n := build(t, diamond(3, simnet.Hash{}), nil)
	for _, c := range []struct {
		vary  string
		links int
	}{{simnet.FieldSport, 7}, {simnet.FieldTOS, 3}, {simnet.FieldDport, 7}, {simnet.FieldDst, 7}} {
		if g, err := n.Graph("a", udp4, c.vary); err != nil || len(g.Links) != c.links {
			t.Errorf("varying %s: %d links, %v; want %d", c.vary, len(g.Links), err, c.links)
		}
	}
	for _, err := range []error{second2(n.Graph("a", udp4, "port")), second2(n.Graph("nobody", udp4)), second2(n.Graph("a", udp4[:9]))} {
		if err == nil {
			t.Error("no error for an unknown field, an unknown host or half a packet")
		}
	}
}

func second2(_ simnet.Graph, err error) error { return err }

// TestByDestination: a balancer by destination sends all flows to one address one
// way, and addresses of a prefix different ways.
func TestByDestination(t *testing.T) {
	n := build(t, diamond(4, simnet.Hash{Fields: []string{simnet.FieldSrc, simnet.FieldDst}}), nil)
	used := map[string]bool{}
	for host := range 60 {
		ip := between(false)
		ip.Dst = netip.AddrFrom4([4]byte{192, 0, 2, byte(host)})
		ways := map[string]bool{}
		for sport := range uint16(20) {
			ways[branch(t, n, udp(t, ip, sport, sport), 2)] = true
		}
		if len(ways) != 1 {
			t.Errorf("flows to %v go by %v", ip.Dst, slices.Collect(maps.Keys(ways)))
		}
		maps.Copy(used, ways)
	}
	if len(used) != 4 {
		t.Errorf("60 addresses use %v, want all four ways", used)
	}
}

// TestMaze: the world "maze" has the addresses, links and balancers that it
// says it has, in both families.
func TestMaze(t *testing.T) {
	spec, dir := embedded(t, "maze")
	n := build(t, spec, dir)
	for _, target := range n.Targets() {
		c := conn(t, n.Virtual(1), "src")
		g, err := n.Graph("src", udp(t, wire.IP{Src: local(t, c, target.Addr), Dst: target.Addr, TTL: 64}, 1, 2))
		if err != nil {
			t.Fatal(err)
		}
		addrs, pairs, shares := map[netip.Addr]bool{}, map[[2]netip.Addr]bool{}, map[string]float64{}
		for _, h := range g.Hops {
			addrs[h.Addr] = true
			shares[h.Node] += h.Share
		}
		for _, l := range g.Links {
			pairs[[2]netip.Addr{l.From, l.To}] = true
		}
		if len(addrs) != 20 || len(pairs) != 27 {
			t.Errorf("%v: %d addresses and %d links, want 20 and 27", target.Addr, len(addrs), len(pairs))
		}
		for node, want := range map[string]float64{"r3": 1, "a3": 0.25, "b2": 0.5, "d1": 0.25, "d2": 0.5, "d3": 0.25, "p1": 0.5, "dst": 1} {
			if d := shares[node] - want; d > 1e-12 || d < -1e-12 {
				t.Errorf("%v: %s gets %v of the packets, want %v", target.Addr, node, shares[node], want)
			}
		}
		classes := map[string]datasets.Class{}
		for _, b := range g.Balancers {
			classes[b.Node] = b.Class
		}
		want := map[string]datasets.Class{"r1": datasets.PerFlow, "r2": datasets.PerFlow, "r3": datasets.PerFlow,
			"c1": datasets.PerFlow, "c2": datasets.PerFlow, "r4": datasets.PerPacket}
		if !maps.Equal(classes, want) {
			t.Errorf("%v: balancers %v, want %v", target.Addr, classes, want)
		}
	}
}
