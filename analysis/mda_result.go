package analysis

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"strandline/datasets"
)

// Graph is what Paths found out about the paths to one target.
type Graph struct {
	Vantage   string
	Target    netip.Addr
	Proto     datasets.Proto
	Reached   bool                // some flow was answered by the target
	Hops      []datasets.Hop      // one for each flow and TTL that was asked, up to the end of the flow's path
	Links     []datasets.Link     // in the order of TTL and addresses
	Balancers []datasets.Balancer // in the order of TTL and address
	Probes    PathCounts
	// Confidence is the percentage asked for when everything that it promises was
	// done, and 0 when not: Notes say why.
	Confidence float64
	Notes      []Note // in the order of TTL
}

// Note names something about the paths that hops and links do not show.
type Note struct {
	TTL  uint8      `json:"ttl,omitempty"`
	Addr netip.Addr `json:"addr,omitzero"`
	Kind string     `json:"kind"` // one of the Note constants
	Text string     `json:"text"`
}

// The kinds of notes.
const (
	NoteZeroTTL     = "zero-ttl"     // a router forwards packets whose TTL has run out
	NoteLoop        = "loop"         // a flow passes one address at several TTLs
	NoteUnequal     = "unequal"      // branches of different length meet at an address
	NoteRouteChange = "route-change" // the paths changed while they were measured
	NoteBudget      = "budget"       // MaxProbes were sent
	NoteSilent      = "silent"       // beyond a silent router fewer flows were seen than promised
	NoteUnfinished  = "unfinished"   // the measurement was interrupted
	NoteRare        = "rare"         // too few flows pass a router to be certain about it
	NoteCloud       = "per-packet"   // links behind a per-packet balancer cannot be told
)

// Graph returns what is known by now. Everything is complete once Done.
func (p *Paths) Graph() Graph {
	s := p.surveyed(true)
	g := Graph{Vantage: p.subject.Vantage, Target: p.subject.Target, Proto: p.subject.Proto, Probes: p.counts}
	if p.done && !p.exhausted && !p.starved {
		g.Confidence = p.opt.Confidence
	}
	for i, f := range p.flows {
		g.Hops = append(g.Hops, p.hops(f, &s.walkers[i], &g)...)
	}
	for l, n := range s.links {
		g.Links = append(g.Links, datasets.Link{From: l.from, To: l.to, TTL: l.ttl, Flows: uint32(n)})
	}
	slices.SortFunc(g.Links, func(a, b datasets.Link) int {
		return cmp.Or(cmp.Compare(a.TTL, b.TTL), a.From.Compare(b.From), a.To.Compare(b.To))
	})
	for i := range s.vertices {
		if v := &s.vertices[i]; v.kind == placeRouter && v.width() > 1 {
			g.Balancers = append(g.Balancers, p.balancer(v))
		}
	}
	slices.SortFunc(g.Balancers, func(a, b datasets.Balancer) int {
		return cmp.Or(cmp.Compare(a.TTL, b.TTL), a.Addr.Compare(b.Addr))
	})
	g.Notes = p.notes(s)
	g.name()
	return g
}

// name puts the vantage, target and protocol into the rows.
func (g *Graph) name() {
	for i := range g.Links {
		g.Links[i].Vantage, g.Links[i].Target = g.Vantage, g.Target
	}
	for i := range g.Balancers {
		b := &g.Balancers[i]
		b.Vantage, b.Target, b.Proto = g.Vantage, g.Target, g.Proto
	}
}

// hops returns the rows of one flow, and puts into g what the samples say of all.
func (p *Paths) hops(f *flowCells, w *walker, g *Graph) []datasets.Hop {
	last := p.opt.MaxTTL
	if w.ended {
		last = w.steps[len(w.steps)-1].ttl
	}
	var rows []datasets.Hop
	for ttl := p.opt.FirstTTL; ttl <= min(last, p.highest); ttl++ {
		c := &f.cells[ttl]
		if c.asked == 0 {
			continue
		}
		at := ttlAnswers{ttl: uint8(ttl)}
		for _, a := range c.answers {
			at.samples = append(at.samples, a.sample)
			g.Reached = g.Reached || a.reached
		}
		slices.SortStableFunc(at.samples, func(a, b datasets.Sample) int { return a.From.Compare(b.From) })
		one := flowPath{flowKey: flowKey{seriesKey: seriesKey{vantage: g.Vantage, target: g.Target, proto: g.Proto}}, number: f.Index}
		for _, row := range one.hops(at) {
			row.Probes = uint32(c.asked)
			rows = append(rows, row)
		}
	}
	return rows
}

// balancer returns the row of a vertex with several next hops.
func (p *Paths) balancer(v *vertex) datasets.Balancer {
	k := v.width()
	b := datasets.Balancer{
		Addr: v.addr, TTL: uint8(v.first), Class: datasets.ClassUnknown, Width: uint32(k),
		MinShare: RuledOutShare(p.epsilon(k), v.drawn()), Probes: uint32(v.drawn()),
	}
	d := p.decided[v.place]
	if d == nil {
		return b
	}
	b.Class, b.Confidence = d.class, 100*(1-d.error)
	if d.class != datasets.PerFlow {
		return b
	}
	if p.opt.Vary != "" {
		b.Fields = append(b.Fields, p.opt.Vary)
	}
	for _, field := range p.opt.Test {
		if r := p.tests[fieldTest{v.place, field}]; r != nil && r.moves {
			b.Fields = append(b.Fields, field)
		}
	}
	return b
}

// notes names what the rows do not show.
func (p *Paths) notes(s *survey) []Note {
	var notes []Note
	add := func(kind string, ttl int, addr netip.Addr, format string, args ...any) {
		notes = append(notes, Note{Kind: kind, TTL: uint8(ttl), Addr: addr, Text: fmt.Sprintf(format, args...)})
	}
	for addr, ttl := range s.hidden {
		add(NoteZeroTTL, ttl, addr, "the router before %s forwards packets whose TTL has run out, so %s answers at two TTLs", addr, addr)
	}
	for i := range s.vertices {
		v := &s.vertices[i]
		switch {
		case v.kind == placeRouter && s.looped[v.addr]:
			add(NoteLoop, v.first, v.addr, "flows pass %s more than once", v.addr)
		case v.kind == placeRouter && slices.ContainsFunc(v.visits, func(at visit) bool { return at.ttl != v.first }):
			add(NoteUnequal, v.first, v.addr, "branches of unequal length meet at %s", v.addr)
		case v.kind == placeCloud:
			add(NoteCloud, v.first, v.addr, "%s balances per packet: of TTL %d only the set of hops is known", v.addr, v.first)
		}
	}
	if p.changes > 0 {
		add(NoteRouteChange, 0, netip.Addr{}, "the route changed %d times while it was measured", p.changes)
	}
	if p.exhausted {
		add(NoteBudget, 0, netip.Addr{}, "gave up after %d probes", len(p.probes))
	}
	if !p.done {
		add(NoteUnfinished, 0, netip.Addr{}, "ended before everything was known")
	}
	if p.silent {
		add(NoteSilent, 0, netip.Addr{}, "some routers are silent beside others that answer; what is behind them is not covered by the confidence")
	}
	if p.starved {
		add(NoteRare, 0, netip.Addr{}, "too few flows pass some router to be certain about its next hops")
	}
	slices.SortStableFunc(notes, func(a, b Note) int {
		return cmp.Or(cmp.Compare(a.TTL, b.TTL), cmp.Compare(a.Kind, b.Kind), a.Addr.Compare(b.Addr))
	})
	return notes
}

// PerDestination returns the balancers that only targets tell from plain routers:
// addresses at which all flows to one target agree on the next hop, and targets of
// one /24 or /48 do not. A next hop that is the target itself does not count, since
// the last router must tell its hosts apart. There is one row for each balancer
// and target.
func PerDestination(graphs []Graph) []datasets.Balancer {
	type site struct {
		prefix netip.Prefix
		addr   netip.Addr
	}
	next := map[site]map[netip.Addr]bool{}
	rows := map[site][]datasets.Balancer{}
	for _, g := range graphs {
		bits := 48
		if g.Target.Is4() {
			bits = 24
		}
		prefix, err := g.Target.Prefix(bits)
		if err != nil {
			continue
		}
		to := map[netip.Addr]datasets.Link{}
		several := map[netip.Addr]bool{}
		for _, l := range g.Links {
			old, ok := to[l.From]
			several[l.From] = several[l.From] || ok && old.To != l.To || l.To == g.Target
			l.Flows += old.Flows
			to[l.From] = l
		}
		for addr, l := range to {
			at := site{prefix, addr}
			if several[addr] {
				continue
			}
			if next[at] == nil {
				next[at] = map[netip.Addr]bool{}
			}
			next[at][l.To] = true
			rows[at] = append(rows[at], datasets.Balancer{Vantage: g.Vantage, Target: g.Target, Proto: g.Proto, Addr: addr, TTL: l.TTL,
				Class: datasets.PerDestination, Fields: []datasets.Field{datasets.FieldDst}, MinShare: 1, Confidence: g.Confidence, Probes: l.Flows})
		}
	}
	var out []datasets.Balancer
	for at, found := range next {
		if len(found) < 2 {
			continue
		}
		for _, row := range rows[at] {
			row.Width = uint32(len(found))
			out = append(out, row)
		}
	}
	slices.SortFunc(out, func(a, b datasets.Balancer) int {
		return cmp.Or(a.Target.Compare(b.Target), cmp.Compare(a.TTL, b.TTL), a.Addr.Compare(b.Addr))
	})
	return out
}
