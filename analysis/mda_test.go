package analysis_test

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"strandline/analysis"
	"strandline/datasets"
)

// graph is a network that answers the probes of one source, written down as
// "a: b c; b: d; ...": s is the source, z the target. It knows nothing of packets:
// it is an oracle for the state machine alone.
type graph struct {
	next   map[string][]string
	packet map[string]bool             // balances per packet
	fields map[string][]datasets.Field // that a balancer hashes; default sport
	silent map[string]bool
	zero   map[string]bool // forwards TTL 0
	loss   float64
	rng    *rand.Rand
	seed   uint64
	clock  int64
}

func parseGraph(text string, seed uint64) *graph {
	g := &graph{next: map[string][]string{}, packet: map[string]bool{}, fields: map[string][]datasets.Field{}, silent: map[string]bool{},
		zero: map[string]bool{}, rng: rand.New(rand.NewPCG(seed, 77)), seed: seed}
	for line := range strings.SplitSeq(text, ";") {
		from, to, _ := strings.Cut(strings.TrimSpace(line), ":")
		g.next[from] = strings.Fields(to)
	}
	return g
}

// name is the address of a router.
func name(router string) netip.Addr {
	h := fnv.New32a()
	h.Write([]byte(router))
	sum := h.Sum32()
	return netip.AddrFrom4([4]byte{10, byte(sum >> 16), byte(sum >> 8), byte(sum)})
}

// choose is the next hop of a flow.
func (g *graph) choose(at string, f analysis.Flow) string {
	next := g.next[at]
	if len(next) == 1 {
		return next[0]
	}
	if g.packet[at] {
		return next[g.rng.IntN(len(next))]
	}
	fields := g.fields[at]
	if fields == nil {
		fields = []datasets.Field{datasets.FieldSport}
	}
	h := fnv.New64a()
	fmt.Fprint(h, g.seed, at)
	for _, field := range fields {
		if field == datasets.FieldSport {
			fmt.Fprint(h, "/", f.Index)
		} else if field == f.Field {
			fmt.Fprint(h, "/", f.Field, f.Value)
		}
	}
	x := h.Sum64() // FNV mixes its high bits badly
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return next[(x^x>>31)%uint64(len(next))]
}

// answer is what becomes of a probe.
func (g *graph) answer(p analysis.PathProbe) datasets.Sample {
	g.clock++
	s := datasets.Sample{Vantage: "v", Target: name("z"), Proto: datasets.ProtoUDP, Seq: p.Seq, TTL: p.TTL, TxNS: g.clock,
		Outcome: datasets.OutcomeTimeout}
	at := "s"
	quoted := uint8(1)
	for left := int(p.TTL); at != "z" && (left > 0 || g.zero[at]); left-- {
		if left <= 0 {
			quoted = 0
		}
		at = g.choose(at, p.Flow)
	}
	if g.silent[at] || g.rng.Float64() < g.loss {
		return s
	}
	s.Outcome, s.From, s.QuotedTTL, s.RTTNS, s.RxNS = datasets.OutcomeTTLExceeded, name(at), quoted, 1e6, s.TxNS+1e6
	if at == "z" {
		s.Outcome = datasets.OutcomeReply
	}
	return s
}

// links are the true links but those behind per-packet balancers.
func (g *graph) links() map[[2]netip.Addr]bool {
	out := map[[2]netip.Addr]bool{}
	for from, to := range g.next {
		for _, next := range to {
			if from != "s" {
				out[[2]netip.Addr{name(from), name(next)}] = true
			}
		}
	}
	return out
}

// explore runs Paths over g, answers coming in any order.
func explore(g *graph, o analysis.PathsOptions) (*analysis.Paths, analysis.Graph) {
	p := analysis.NewPaths(o)
	var flying []analysis.PathProbe
	for flying = p.Next(nil); !p.Done() && len(flying) > 0; flying = p.Next(flying) {
		i := g.rng.IntN(len(flying))
		probe := flying[i]
		flying = slices.Delete(flying, i, i+1)
		p.Observe(g.answer(probe))
	}
	return p, p.Graph()
}

func found(out analysis.Graph) map[[2]netip.Addr]bool {
	links := map[[2]netip.Addr]bool{}
	for _, l := range out.Links {
		links[[2]netip.Addr{l.From, l.To}] = true
	}
	return links
}

// A router with K next hops is left with one missing as often as computed, at
// the confidence of each router and with the probes that go with it.
func TestPathsFailAsComputed(t *testing.T) {
	const runs = 2000
	for _, c := range []struct {
		width      int
		confidence float64
	}{{2, 95}, {4, 95}, {8, 95}, {2, 99}, {4, 99}} {
		var text strings.Builder
		text.WriteString("s: r; r:")
		for i := range c.width {
			text.WriteString(fmt.Sprintf(" x%d", i))
		}
		missed, probes := 0, 0
		for seed := range uint64(runs) {
			o := analysis.PathsOptions{Confidence: c.confidence, Branching: 1, MaxTTL: 2}
			_, out := explore(parseGraph(text.String(), seed), o)
			if len(out.Links) != c.width {
				missed++
			}
			for _, h := range out.Hops {
				if h.TTL == 2 {
					probes++
				}
			}
		}
		want, cost := analysis.NewStops(analysis.StopSequential, 1-c.confidence/100).Failure(c.width)
		lo, hi := wilson(missed, runs)
		mean := float64(probes) / runs
		t.Logf("%d next hops, %g %%: %d of %d incomplete (%.5f to %.5f), computed %.5f; %.2f flows, computed %.2f", c.width, c.confidence, missed, runs, lo, hi, want, mean, cost)
		if want < lo || want > hi {
			t.Errorf("%d next hops at %g %%: %d of %d incomplete, hence %.5f to %.5f; computed %.5f", c.width, c.confidence, missed, runs, lo, hi, want)
		}
		if math.Abs(mean-cost) > 0.02*cost {
			t.Errorf("%d next hops at %g %%: %.2f flows on average, computed %.2f", c.width, c.confidence, mean, cost)
		}
	}
}

// labGraph is the chain of the namespace lab: a diamond, branches of unequal
// length, a nested uneven mesh, a balancer per packet. Every router has one address.
const labGraph = "s: r1; r1: a1 a2 a3 a4; a1: r2; a2: r2; a3: r2; a4: r2; r2: b1 b2; b1: r3; b2: b3; b3: r3; " +
	"r3: c1 c2; c1: d1 d2; c2: d2 d3; d1: r4; d2: r4; d3: r4; r4: p1 p2; p1: r5; p2: r5; r5: z"

// The promise for the whole graph holds, without a false link, and the probes that
// it costs do not grow.
func TestPathsKeepThePromiseForTheGraph(t *testing.T) {
	for _, c := range []struct {
		confidence float64
		median     int
	}{{95, 330}, {99, 400}} {
		const runs = 40
		exact, falseLinks := 0, 0
		var probes []int
		for seed := range uint64(runs) {
			g := parseGraph(labGraph, seed)
			g.packet["r4"] = true
			_, out := explore(g, analysis.PathsOptions{Confidence: c.confidence})
			truth, got := g.links(), found(out)
			for l := range got {
				if !truth[l] {
					falseLinks++
				}
			}
			if maps.Equal(truth, got) {
				exact++
			}
			probes = append(probes, out.Probes.Discovery)
		}
		slices.Sort(probes)
		lo, hi := wilson(exact, runs)
		median := probes[runs/2]
		t.Logf("%g %%: exact in %d of %d (%.3f to %.3f), %d false links, discovery probes %d / %d / %d", c.confidence, exact, runs, lo, hi,
			falseLinks, probes[0], median, probes[runs-1])
		if hi < c.confidence/100 || falseLinks > 0 {
			t.Errorf("%g %%: exact in %d of %d, %d false links", c.confidence, exact, runs, falseLinks)
		}
		if median > c.median {
			t.Errorf("%g %%: %d discovery probes in the median, want at most %d", c.confidence, median, c.median)
		}
	}
}

// What disturbs the measurement is named, and never makes a false link.
func TestPathsInBadWeather(t *testing.T) {
	const diamond = "s: r; r: a b; a: c; b: c; c: d e; d: f; e: f; f: z"
	fields := func(f ...datasets.Field) []datasets.Field { return f }
	for _, c := range []struct {
		name   string
		change func(*graph)
		links  int    // at least, with full confidence; 0 = the result may be inconclusive
		note   string // that must be there
	}{
		{"fair", func(*graph) {}, 9, ""},
		{"loss", func(g *graph) { g.loss = 0.2 }, 9, ""},
		{"a silent branch", func(g *graph) { g.silent["a"] = true }, 7, ""},
		{"a silent hop", func(g *graph) { g.silent["c"] = true }, 5, ""},
		{"zero TTL before a balancer", func(g *graph) { g.zero["r"] = true }, 6, analysis.NoteZeroTTL},
		{"zero TTL on a branch", func(g *graph) { g.zero["d"] = true }, 7, analysis.NoteZeroTTL},
		{"per packet", func(g *graph) { g.packet["c"] = true }, 9, analysis.NoteCloud},
		{"per packet twice", func(g *graph) { g.packet["r"], g.packet["c"] = true, true }, 0, analysis.NoteCloud},
		{"other fields", func(g *graph) { g.fields["c"] = fields(datasets.FieldSport, datasets.FieldTOS) }, 9, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(8) {
				g := parseGraph(diamond, seed)
				c.change(g)
				o := analysis.PathsOptions{Confidence: 99.9, MaxProbes: 800, Vary: datasets.FieldSport, Test: fields(datasets.FieldDport, datasets.FieldTOS)}
				p, out := explore(g, o)
				got, truth := found(out), g.links()
				for l := range got {
					if !truth[l] {
						t.Errorf("seed %d: false link %v", seed, l)
					}
				}
				if c.links > 0 && (len(got) < c.links || !out.Reached || !p.Done() || out.Confidence != o.Confidence) {
					t.Errorf("seed %d: %d links, reached %v, done %v, confidence %v, notes %v", seed, len(got), out.Reached, p.Done(), out.Confidence, out.Notes)
				}
				if c.note != "" && !slices.ContainsFunc(out.Notes, func(n analysis.Note) bool { return n.Kind == c.note }) {
					t.Errorf("seed %d: notes %v, want %s", seed, out.Notes, c.note)
				}
				g.checkBalancers(t, seed, out.Balancers)
			}
		})
	}
}

// checkBalancers compares classes and fields with what the graph does.
func (g *graph) checkBalancers(t *testing.T, seed uint64, rows []datasets.Balancer) {
	t.Helper()
	for _, b := range rows {
		class, fields := datasets.PerFlow, []datasets.Field{datasets.FieldSport}
		for router := range g.next {
			if name(router) == b.Addr && g.packet[router] {
				class, fields = datasets.PerPacket, nil
			} else if name(router) == b.Addr && g.fields[router] != nil {
				fields = g.fields[router]
			}
		}
		if b.Class != class || !slices.Equal(b.Fields, fields) || b.Width != 2 || b.MinShare > 0.6 {
			t.Errorf("seed %d: %+v; want %s by %v", seed, b, class, fields)
		}
	}
}

// A change of the route while it is measured is told from a balancer per packet,
// and what holds afterwards is what is reported.
func TestPathsTellRouteChanges(t *testing.T) {
	named := 0
	const runs = 60
	for seed := range uint64(runs) {
		g := parseGraph("s: r; r: a; a: c; b: c; c: z", seed)
		p := analysis.NewPaths(analysis.PathsOptions{Confidence: 99.9})
		var flying []analysis.PathProbe
		n := 0
		for flying = p.Next(nil); !p.Done() && len(flying) > 0; flying = p.Next(flying) {
			if n++; n == 12 {
				g.next["r"] = []string{"b"}
			}
			i := g.rng.IntN(len(flying))
			probe := flying[i]
			flying = slices.Delete(flying, i, i+1)
			p.Observe(g.answer(probe))
		}
		out := p.Graph()
		for _, b := range out.Balancers {
			t.Errorf("seed %d: %+v of a network without balancers", seed, b)
		}
		if slices.ContainsFunc(out.Notes, func(n analysis.Note) bool { return n.Kind == analysis.NoteRouteChange }) {
			named++
		}
	}
	t.Logf("%d of %d changes named", named, runs)
	if named < runs/2 {
		t.Errorf("%d of %d changes named", named, runs)
	}
}

// The smallest share asked for is ruled out: uneven branches are found.
func TestPathsMinShare(t *testing.T) {
	const runs, share = 25, 0.1
	missed := 0
	for seed := range uint64(runs) {
		g := parseGraph("s: r; r: a a a a a a a a a b; a: c; b: c; c: z", seed)
		_, out := explore(g, analysis.PathsOptions{MinShare: share})
		if len(out.Balancers) != 1 {
			missed++
		} else if b := out.Balancers[0]; b.MinShare > share {
			t.Errorf("seed %d: %+v rules out %g only", seed, b, b.MinShare)
		}
	}
	if lo, _ := wilson(missed, runs); lo > 0.05 {
		t.Errorf("a branch of %g missed in %d of %d", share, missed, runs)
	}
}

// Only targets of one network tell a balancer per destination.
func TestPerDestination(t *testing.T) {
	link := func(target, from, to string) datasets.Link {
		return datasets.Link{Vantage: "v", Target: name(target), From: name(from), To: name(to), TTL: 2, Flows: 6}
	}
	at := func(last byte, via string) analysis.Graph {
		target := netip.AddrFrom4([4]byte{192, 0, 2, last})
		g := analysis.Graph{Vantage: "v", Target: target, Proto: datasets.ProtoUDP, Confidence: 95}
		for _, l := range []datasets.Link{link("", "r", via), link("", via, "c")} {
			l.Target = target
			g.Links = append(g.Links, l)
		}
		end := link("", "c", "")
		end.Target, end.To = target, target
		g.Links = append(g.Links, end)
		return g
	}
	rows := analysis.PerDestination([]analysis.Graph{at(1, "a"), at(2, "b"), at(3, "a")})
	if len(rows) != 3 {
		t.Fatalf("got %+v, want r for each target", rows)
	}
	for _, b := range rows {
		if b.Addr != name("r") || b.Width != 2 || b.Class != datasets.PerDestination || b.Validate() != nil {
			t.Errorf("got %+v, %v; want r over 2 next hops", b, b.Validate())
		}
	}
	if rows := analysis.PerDestination([]analysis.Graph{at(1, "a"), at(2, "a")}); rows != nil {
		t.Errorf("got %+v of targets that agree", rows)
	}
}
