package probe_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"strandline/analysis"
	"strandline/datasets"
	"strandline/internal/config"
	"strandline/internal/simnet"
	"strandline/probe"
)

// earth is the embedded world.
func earth(t testing.TB) *simnet.Net {
	t.Helper()
	spec, files, err := config.LoadSim("earth")
	if err != nil {
		t.Fatal(err)
	}
	n, err := simnet.Build(spec, files)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// at is an engine without limits at a host of a world.
func at(t testing.TB, n *simnet.Net, host string, seed uint64) *probe.Engine {
	t.Helper()
	c, err := n.Virtual(seed).Conn(host)
	if err != nil {
		t.Fatal(err)
	}
	return &probe.Engine{Conn: c, Vantage: host, Rand: rand.New(rand.NewPCG(seed, 1)), RateHz: math.Inf(1), PrefixRateHz: math.Inf(1)}
}

// graphs seeks all paths from a host, and checks the rows.
func graphs(t testing.TB, e *probe.Engine, targets []datasets.Target, o probe.PathsOptions) map[netip.Addr]analysis.Graph {
	t.Helper()
	out, probes := map[netip.Addr]analysis.Graph{}, map[netip.Addr]int{}
	err := e.Paths(t.Context(), targets, o, func(s datasets.Sample) error {
		probes[s.Target]++
		return s.Validate()
	}, func(g analysis.Graph) error {
		out[g.Target] = g
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for addr, g := range out {
		for _, r := range g.Hops {
			if err := r.Validate(); err != nil {
				t.Error(err)
			}
		}
		for _, r := range g.Links {
			if err := r.Validate(); err != nil {
				t.Error(err)
			}
		}
		for _, r := range g.Balancers {
			if err := r.Validate(); err != nil {
				t.Error(err)
			}
		}
		if probes[addr] != g.Probes.Total() {
			t.Errorf("%s: %d samples of %d probes", addr, probes[addr], g.Probes.Total())
		}
	}
	return out
}

// All paths of the embedded world, to all targets at once, over both protocols
// and families: no false link, all links within the promise, each balancer per
// flow and with the fields of its recipe.
func TestPathsOfEarth(t *testing.T) {
	n := earth(t)
	missing, links := 0, 0
	for i, host := range []string{"nbo", "icn", "akl", "eze", "lim", "fra"} {
		for _, v6 := range []bool{false, true} {
			targets := slices.DeleteFunc(n.Targets(), func(x datasets.Target) bool { return x.Addr.Is6() != v6 })
			seed := uint64(i)
			for addr, g := range graphs(t, at(t, n, host, seed), targets, probe.PathsOptions{Confidence: 99}) {
				truth, err := n.Links(host, addr)
				if err != nil {
					t.Fatal(err)
				}
				next := map[netip.Addr]int{}
				for _, l := range truth {
					next[l.From]++
				}
				for _, l := range g.Links {
					l.Flows = 0
					if !slices.Contains(truth, l) {
						t.Errorf("seed %d, %s to %s: false link %+v", seed, host, addr, l)
					}
				}
				links += len(truth)
				missing += len(truth) - len(g.Links)
				if !g.Reached || g.Confidence != 99 || len(g.Notes) > 0 {
					t.Errorf("seed %d, %s to %s: reached %v, confidence %v, notes %v", seed, host, addr, g.Reached, g.Confidence, g.Notes)
				}
				checkBalancers(t, fmt.Sprintf("seed %d, %s to %s", seed, host, addr), g.Balancers, truthOf(t, n, host, addr))
			}
		}
	}
	t.Logf("%d of %d links missing", missing, links)
	if missing*100 > links {
		t.Errorf("%d of %d links missing", missing, links)
	}
}

// truthOf is the truth about the UDP packets from a host to a target that differ
// in what may be varied.
func truthOf(t testing.TB, n *simnet.Net, host string, target netip.Addr, vary ...string) simnet.Graph {
	t.Helper()
	c, err := n.Virtual(0).Conn(host)
	if err != nil {
		t.Fatal(err)
	}
	src, err := c.Local(target)
	if err != nil {
		t.Fatal(err)
	}
	s := datasets.Sample{Src: src, Target: target, Proto: datasets.ProtoUDP, Sport: 1, Dport: probe.DefaultUDPPort, TTL: 64}
	g, err := n.Graph(host, packet(t, s), vary...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// checkBalancers compares balancers with the truth.
func checkBalancers(t testing.TB, what string, got []datasets.Balancer, truth simnet.Graph) {
	t.Helper()
	for _, b := range got {
		i := slices.IndexFunc(truth.Balancers, func(x simnet.Balancer) bool { return x.Addr == b.Addr })
		if i < 0 {
			t.Errorf("%s: %+v is none", what, b)
			continue
		}
		want := truth.Balancers[i]
		fields := slices.DeleteFunc(slices.Clone(want.Fields), func(f string) bool {
			return f == simnet.FieldSrc || f == simnet.FieldDst || f == simnet.FieldProto
		})
		if string(b.Class) != string(want.Class) || b.Width > uint32(want.Width) || !sameFields(b.Fields, fields) {
			t.Errorf("%s: got %+v, want %+v", what, b, want)
		}
	}
}

func sameFields(got []datasets.Field, want []string) bool {
	if len(got) != len(want) {
		return false
	}
	for _, f := range got {
		if !slices.Contains(want, string(f)) {
			return false
		}
	}
	return true
}

// Random worlds: no link is false, and branches and classes are found as promised
// wherever the graph says so. Behind per-packet balancers hops may be mistaken.
func TestPathsOfRandomWorlds(t *testing.T) {
	steady := simnet.Nested | simnet.Meshed | simnet.Unequal | simnet.OddFields | simnet.ByDestination | simnet.Silences |
		simnet.ShortQuotes | simnet.ZeroTTLs | simnet.Labelled | simnet.InterfaceNames | simnet.Lossy
	for _, c := range []struct {
		name       string
		random     simnet.Random
		falseLinks int // at most
	}{
		{"steady", simnet.Random{Allowed: steady, MaxWidth: 12, Diamonds: 2}, 0},
		{"spraying", simnet.Random{Allowed: simnet.Labelled | simnet.ShortQuotes, Required: simnet.Spraying, MaxWidth: 8, Diamonds: 2}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			const worlds = 15
			var s score
			for seed := range uint64(worlds) {
				w := c.random.World(seed)
				n, err := simnet.Build(w.Spec, nil)
				if err != nil {
					t.Fatal(err)
				}
				g := graphs(t, at(t, n, w.Host, seed), []datasets.Target{{Addr: w.Target}}, probe.PathsOptions{Confidence: 99, MaxProbes: 2500})[w.Target]
				s.add(t, fmt.Sprintf("seed %d (%v)", seed, w.Features), g, truthOf(t, n, w.Host, w.Target, simnet.FieldSport),
					truthOf(t, n, w.Host, w.Target, simnet.FieldSport, simnet.FieldDport, simnet.FieldTOS))
			}
			t.Logf("%+v", s)
			if s.falseLinks > c.falseLinks || s.wrong*100 > s.balancers || s.certain*10 < 8*worlds || s.missing*20 > s.links {
				t.Errorf("%+v: want no false link, at most 1 %% wrong classes and 5 %% missing links, and certainty in 8 of 10 worlds", s)
			}
		})
	}
}

// pairs are links at whatever TTL: a router that is reached at several is looked at
// as one.
func pairs(links []datasets.Link) map[[2]netip.Addr]bool {
	out := map[[2]netip.Addr]bool{}
	for _, l := range links {
		out[[2]netip.Addr{l.From, l.To}] = true
	}
	return out
}

// score sums up how measured graphs compare with the truth.
type score struct {
	links, falseLinks, missing         int
	balancers, right, wrong, undecided int
	exact, graphs, certain, probes     int
}

func (s *score) add(t testing.TB, what string, g analysis.Graph, seen, all simnet.Graph) {
	s.graphs++
	s.probes += g.Probes.Discovery
	if g.Confidence > 0 {
		s.certain++
	}
	for _, l := range g.Links {
		l.Flows = 0
		if !slices.Contains(all.Links, l) {
			s.falseLinks++
			t.Logf("%s: false link %+v", what, l)
		}
	}
	truth, found := pairs(seen.Links), pairs(g.Links)
	missing := 0
	for l := range truth {
		if !found[l] {
			missing++
		}
	}
	s.links += len(truth)
	s.missing += missing
	if missing == 0 {
		s.exact++
	}
	for _, b := range g.Balancers {
		s.balancers++
		i := slices.IndexFunc(all.Balancers, func(x simnet.Balancer) bool { return x.Addr == b.Addr })
		switch {
		case b.Class == datasets.ClassUnknown:
			s.undecided++
		case i >= 0 && string(all.Balancers[i].Class) == string(b.Class):
			s.right++
		default:
			s.wrong++
			t.Logf("%s: balancer %+v", what, b)
		}
	}
}
