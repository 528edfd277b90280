package simnet_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"strandline/datasets"
	"strandline/internal/simnet"
	"strandline/probe"
	"strandline/probe/wire"
)

// TestTruthIsWhatHappens sends random probes of random flows through "earth" and
// requires of each the answer, from the address, with the TTL and within the
// times that Truth foretells; and of the lost ones that something could be lost.
func TestTruthIsWhatHappens(t *testing.T) {
	n := earth(t)
	rng := seeded(t, 21)
	hosts, targets := n.Hosts(), everybody(n)
	lost, expected := 0, 0.0
	outcomes := map[datasets.Outcome]int{}
	for range 6000 {
		from := hosts[rng.IntN(len(hosts))]
		c := conn(t, n.Virtual(rng.Uint64()), from)
		data := randomProbe(t, rng, targets, c)
		w, err := n.Truth(from, data)
		if err != nil {
			t.Fatal(err)
		}
		r, rtt, ok := exchange(t, c, data)
		outcomes[w.Outcome]++
		if w.Outcome == datasets.OutcomeTimeout {
			if ok {
				t.Fatalf("%s % x: answered by %v, want silence", from, data, r.Src)
			}
			continue
		}
		if len(w.Forward) == 1 {
			continue // to itself: its own probe arrives first
		}
		expected += 1 - w.Delivery
		if !ok {
			lost++
			continue
		}
		if r.Src != w.From || r.TTL != w.ReplyTTL || rtt < w.Min || rtt > w.Max || rtt == w.Max && w.Max > w.Min {
			t.Fatalf("%s % x: answer from %v ttl %d after %v, want %+v", from, data, r.Src, r.TTL, rtt, w)
		}
	}
	if sd := math.Sqrt(expected); math.Abs(float64(lost)-expected) > 4*sd {
		t.Errorf("%d lost, want %.1f +- %.1f", lost, expected, sd)
	}
	if outcomes[datasets.OutcomeReply] == 0 || outcomes[datasets.OutcomeTTLExceeded] == 0 || outcomes[datasets.OutcomeTimeout] == 0 {
		t.Errorf("outcomes %v: some never happened", outcomes)
	}
	t.Logf("outcomes %v, lost %d, expected %.1f", outcomes, lost, expected)
}

// everybody lists the targets and the vantages.
func everybody(n *simnet.Net) []datasets.Target {
	to := slices.Concat(n.Targets(), n.AnycastTargets())
	for _, v := range n.Vantages() {
		to = append(to, datasets.Target{Addr: v.Addr}, datasets.Target{Addr: v.Addr6})
	}
	return to
}

// randomProbe is an echo, a UDP probe or a CHAOS question from c's host to
// one of the targets, with random flow fields and a TTL that may run out.
func randomProbe(t *testing.T, rng *rand.Rand, to []datasets.Target, c probe.Conn) []byte {
	t.Helper()
	dst := to[rng.IntN(len(to))].Addr
	for dst == local(t, c, dst) {
		dst = to[rng.IntN(len(to))].Addr
	}
	ip := wire.IP{Src: local(t, c, dst), Dst: dst, TTL: uint8(1 + rng.IntN(12)), FlowLabel: rng.Uint32N(1 << 20)}
	switch rng.IntN(3) {
	case 0:
		return echo(t, ip, uint16(rng.Uint32()), uint16(rng.Uint32()))
	case 1:
		return udp(t, ip, uint16(rng.Uint32()), uint16(33434+rng.IntN(100)))
	}
	return chaos(t, ip, uint16(rng.Uint32()), "id.server")
}

// TestRoutes compares round trips and catchments on random graphs with those by
// Floyd and Warshall's algorithm, which shares nothing with the product's. With
// delays of whole microseconds the default metric is the delay, so the shortest
// path's delay is unique even where the path is not.
func TestRoutes(t *testing.T) {
	for seed := range uint64(30) {
		rng := seeded(t, seed)
		spec, hosts := randomWorld(rng)
		n := build(t, spec, nil)
		for _, a := range hosts {
			dist := oracle(spec, a)
			for _, b := range hosts {
				w, err := n.Truth(a, echo(t, wire.IP{Src: address(spec, a), Dst: address(spec, b), TTL: 200}, 1, 1))
				if err != nil {
					t.Fatal(err)
				}
				if want := 2 * dist[b]; w.Outcome != datasets.OutcomeReply || w.Min != want || w.Max != want {
					t.Fatalf("seed %d: %s to %s: %+v, want %v", seed, a, b, w, want)
				}
			}
			site := spec.Anycast[0].Sites[0].Name
			best := time.Duration(math.MaxInt64)
			for _, s := range spec.Anycast[0].Sites {
				d := dist[s.Node] + time.Duration(s.Metric)*time.Microsecond
				if s.Node == a {
					d = -1 // a site serves itself
				}
				if d < best {
					best, site = d, s.Name
				}
			}
			got, err := n.Catchment(a, netip.MustParseAddr("192.0.2.1"))
			if err != nil || !slices.Equal(got, []string{site}) {
				t.Fatalf("seed %d: catchment of %s = %v, %v, want %s", seed, a, got, err, site)
			}
		}
	}
}

// randomWorld is a random tree of routers with more links thrown in, hosts with
// one or two links, and an anycast service. Delays are random, so no two sites
// are equally far.
func randomWorld(rng *rand.Rand) (simnet.Spec, []string) {
	s := simnet.Spec{Name: "random", Seed: rng.Uint64()}
	routers, hosts := 3+rng.IntN(12), []string{}
	link := func(a, b string) {
		d := time.Duration(1+rng.IntN(40_000_000)) * time.Microsecond
		s.Links = append(s.Links, simnet.Link{A: a, B: b, Delay: d})
	}
	for i := range routers {
		s.Nodes = append(s.Nodes, router(fmt.Sprint("r", i), i+1))
		if i > 0 {
			link(fmt.Sprint("r", i), fmt.Sprint("r", rng.IntN(i)))
		}
	}
	for range rng.IntN(2 * routers) {
		if a, b := rng.IntN(routers), rng.IntN(routers); a != b {
			link(fmt.Sprint("r", a), fmt.Sprint("r", b))
		}
	}
	for i := range 6 {
		name := fmt.Sprint("h", i)
		s.Nodes = append(s.Nodes, host(name, 100+i))
		hosts = append(hosts, name)
		for range 1 + rng.IntN(2) {
			link(name, fmt.Sprint("r", rng.IntN(routers)))
		}
	}
	s.Anycast = []simnet.Anycast{{Name: "any", Prefix: netip.MustParsePrefix("192.0.2.0/24"), Sites: []simnet.Site{
		{Name: "s0", Node: "h0"}, {Name: "s1", Node: "h1", Metric: rng.IntN(1_000_000)}, {Name: "s2", Node: "h2"}}}}
	return s, hosts
}

func address(s simnet.Spec, name string) netip.Addr {
	return s.Nodes[slices.IndexFunc(s.Nodes, func(n simnet.Node) bool { return n.Name == name })].Addr
}

// oracle returns the distances from a host by Floyd and Warshall; only routers
// are passed through.
func oracle(s simnet.Spec, from string) map[string]time.Duration {
	const far = time.Duration(math.MaxInt64 / 4)
	d := map[[2]string]time.Duration{}
	get := func(a, b string) time.Duration {
		if v, ok := d[[2]string{a, b}]; ok {
			return v
		}
		return far
	}
	for _, l := range s.Links {
		v := min(l.Delay, get(l.A, l.B))
		d[[2]string{l.A, l.B}], d[[2]string{l.B, l.A}] = v, v
	}
	for _, k := range s.Nodes {
		for _, a := range s.Nodes {
			for _, b := range s.Nodes {
				if v := get(a.Name, k.Name) + get(k.Name, b.Name); k.Kind != simnet.KindHost && v < get(a.Name, b.Name) {
					d[[2]string{a.Name, b.Name}] = v
				}
			}
		}
	}
	dist := map[string]time.Duration{}
	for _, n := range s.Nodes {
		dist[n.Name] = get(from, n.Name)
	}
	dist[from] = 0
	return dist
}

// TestFlowsStay: a flow that keeps its fields keeps its path, for every recipe,
// while TTL and payload change.
func TestFlowsStay(t *testing.T) {
	n := earth(t)
	rng := seeded(t, 8)
	for range 300 {
		from := n.Vantages()[rng.IntN(40)]
		dst := n.Targets()[rng.IntN(26)].Addr
		ip := wire.IP{Src: from.Addr, Dst: dst, TTL: 64, FlowLabel: rng.Uint32N(1 << 20)}
		if dst.Is6() {
			ip.Src = from.Addr6
		}
		sport, tag := uint16(rng.Uint32()), uint16(1+rng.IntN(1<<15))
		first, err := n.Truth(from.Name, udp(t, ip, sport, 33434))
		if err != nil {
			t.Fatal(err)
		}
		data := must(t)(wire.AppendUDP(nil, ip, wire.UDP{SrcPort: sport, DstPort: 33434, Checksum: tag, Payload: []byte("other payload")}))
		walks, err := n.Trace(from.Name, data, 30)
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range walks {
			if want := first.Forward[:min(i+2, len(first.Forward))]; !slices.Equal(w.Forward, want) {
				t.Fatalf("%s to %v, ttl %d: %v, want %v", from.Name, dst, i+1, w.Forward, want)
			}
		}
		if last := walks[len(walks)-1]; last.Outcome != datasets.OutcomeReply || len(walks) != len(first.Forward)-1 {
			t.Fatalf("%s to %v: trace ends with %+v after %d, want the target after %d", from.Name, dst, last, len(walks), len(first.Forward)-1)
		}
	}
}

// TestLinks: the links of many random flows, traced through the driver, are
// exactly the true ones.
func TestLinks(t *testing.T) {
	spec, dir := earthSpec(t)
	for i := range spec.Links {
		spec.Links[i].Loss = 0
	}
	n := build(t, spec, dir)
	rng := seeded(t, 31)
	for _, pair := range [][2]string{{"icn", "lon"}, {"akl", "tok"}, {"nbo", "dal"}, {"lim", "osa"}, {"eze", "lon"}, {"icn", "192.0.2.1"}} {
		for _, v6 := range []bool{false, true} {
			dst := target(t, n, pair[1], v6)
			c := conn(t, n.Virtual(1), pair[0])
			found := map[datasets.Link]bool{}
			for range 300 {
				sport, prev := uint16(rng.Uint32()), netip.Addr{}
				for ttl := uint8(1); ttl < 20 && prev != dst; ttl++ {
					ip := wire.IP{Src: local(t, c, dst), Dst: dst, TTL: ttl}
					r, _, ok := exchange(t, c, udp(t, ip, sport, 33434))
					if ok && prev.IsValid() {
						found[datasets.Link{Vantage: pair[0], Target: dst, From: prev, To: r.Src, TTL: ttl - 1}] = true
					}
					prev = netip.Addr{}
					if ok {
						prev = r.Src
					}
				}
			}
			want, err := n.Links(pair[0], dst)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range want {
				if !found[l] {
					t.Errorf("%s to %v: true link not seen: %+v", pair[0], dst, l)
				}
				delete(found, l)
			}
			for l := range found {
				t.Errorf("%s to %v: link is not among the true ones: %+v", pair[0], dst, l)
			}
		}
	}
}

// target is an address of a region, or the anycast one.
func target(t *testing.T, n *simnet.Net, name string, v6 bool) netip.Addr {
	t.Helper()
	for _, r := range slices.Concat(n.Targets(), n.AnycastTargets()) {
		if (r.Region == name || r.Region == "" && name == "192.0.2.1") && r.Addr.Is6() == v6 {
			return r.Addr
		}
	}
	t.Fatalf("no target %s", name)
	return netip.Addr{}
}

func TestTruthErrors(t *testing.T) {
	n := build(t, diamond(2, simnet.Hash{}), nil)
	good := echo(t, between(false), 1, 1)
	if _, err := n.Truth("nobody", good); err == nil {
		t.Error("Truth of an unknown host gave no error")
	}
	if _, err := n.Truth("a", good[:7]); err == nil {
		t.Error("Truth of half a packet gave no error")
	}
	if _, err := n.Trace("a", nil, 3); err == nil {
		t.Error("Trace of no packet gave no error")
	}
	for _, dst := range []string{"203.0.113.9", "198.18.0.2"} {
		if _, err := n.Catchment("a", netip.MustParseAddr(dst)); err == nil {
			t.Errorf("Catchment of %s gave no error", dst)
		}
	}
	if _, err := n.Links("a", netip.MustParseAddr("203.0.113.9")); err == nil {
		t.Error("Links to nobody gave no error")
	}
}
