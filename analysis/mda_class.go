package analysis

import (
	"math"
	"slices"

	"strandline/datasets"
)

// decision is what was found out about the class of a balancer.
type decision struct {
	class datasets.Class
	error float64 // probability that a balancer of another class looks like this
}

// suspect reports whether a place has several next hops and no class.
func (p *Paths) suspect(at place) bool {
	var first *answer
	for _, f := range p.flows {
		for ttl := p.opt.FirstTTL; ttl < p.opt.MaxTTL; ttl++ {
			here, next := &f.cells[ttl], &f.cells[ttl+1]
			if len(here.answers) == 0 || len(next.answers) == 0 || here.answers[0].sample.From != at.addr {
				continue
			}
			if first == nil {
				first = &next.answers[0]
			} else if first.sample.From != next.answers[0].sample.From {
				return true
			}
		}
	}
	return false
}

// classes repeats probes of flows that pass balancers of unknown class, those
// nearest to the source first, and decides what can be decided. It reports
// whether more is to come.
func (a *asker) classes(s *survey) bool {
	usable, busy := s.usable(), false
	for i := range s.vertices {
		v := &s.vertices[i]
		if v.width() < 2 || v.kind == placeCloud || a.decided[v.place] != nil {
			continue
		}
		if len(usable[i]) == 0 { // behind another one of unknown class
			continue
		}
		busy = true
		if !a.classify(v, usable[i]) {
			break // the route changed: what the survey says is old
		}
	}
	return busy
}

// usable returns, by vertex of unknown class, the flows that do not pass another
// one before it, and at which TTL their next hop is.
func (s *survey) usable() map[int][]visit {
	lowest := largestTTL + 1
	for i := range s.vertices {
		if s.unclear(i) {
			lowest = min(lowest, s.vertices[i].first)
		}
	}
	out := map[int][]visit{}
	for i := range s.walkers {
		expected := s.p.opt.FirstTTL
		if s.unclear(0) {
			out[0] = append(out[0], visit{i, expected})
			continue
		}
		for _, at := range s.walkers[i].steps {
			if at.ttl != expected && lowest < at.ttl {
				break // it may have passed one unseen
			}
			if s.unclear(at.flow) {
				out[at.flow] = append(out[at.flow], visit{i, at.ttl + 1})
				break
			}
			expected = at.ttl + 1
		}
	}
	return out
}

func (s *survey) unclear(i int) bool {
	v := &s.vertices[i]
	return v.width() > 1 && v.kind != placeCloud && s.p.decided[v.place] == nil
}

// classify repeats probes of the flows through v to their next hop, or decides.
// It reports false when the route has changed.
func (a *asker) classify(v *vertex, flows []visit) bool {
	eps := a.epsilon(2)
	need, agreed, waiting, asked := repeats(eps, v.flowsPerChoice()), 0, 0, 0
	for _, at := range flows {
		c := &a.flows[at.flow].cells[at.ttl]
		if len(c.answers) == 0 {
			continue
		}
		if differ(c.answers) {
			return a.separate(v, a.flows[at.flow], at.ttl, need)
		}
		agreed += len(c.answers) - 1
		waiting += c.waiting
		asked += max(0, c.asked-1)
	}
	switch {
	case agreed >= need:
		a.decided[v.place] = &decision{datasets.PerFlow, math.Pow(squares(v.flowsPerChoice()), float64(agreed))}
		return true
	case asked > 8*need+32: // the answers do not come
		a.decided[v.place] = &decision{datasets.ClassUnknown, 1}
		return true
	}
	for want, repeat := need-agreed-waiting, 1; want > 0 && repeat <= need; repeat++ {
		for _, at := range flows {
			c := &a.flows[at.flow].cells[at.ttl]
			if want > 0 && len(c.answers) > 0 && len(c.answers)+c.waiting <= repeat {
				if !a.ask(a.flows[at.flow], at.ttl, forClass) {
					return true
				}
				want--
			}
		}
	}
	return true
}

// separate tells a balancer per packet from a change of the route, by a flow
// that was seen to take different ways: its packets go to and fro, or they went
// one way up to a time and have gone the other since. It reports false when the
// route has changed.
func (a *asker) separate(v *vertex, f *flowCells, ttl, need int) bool {
	c := &f.cells[ttl]
	turns, since := 0, 0
	for i := 1; i < len(c.answers); i++ {
		if c.answers[i].sample.From != c.answers[i-1].sample.From {
			turns, since = turns+1, i
		}
	}
	steady := len(c.answers) - since
	switch {
	case turns > 1:
		a.decided[v.place] = &decision{datasets.PerPacket, a.epsilon(2)}
		return true
	case steady > need:
		a.changes++
		a.forget(ttl, c.answers[since].sample.TxNS)
		return false
	case c.asked > 8*need+32:
		a.decided[v.place] = &decision{datasets.ClassUnknown, 1}
		return true
	}
	for range need + 1 - steady - c.waiting {
		if !a.ask(f, ttl, forClass) {
			break
		}
	}
	return true
}

// forget drops what was learnt at a TTL and beyond by probes sent before a time.
// Too many changes end the work on classes: nothing here stays as it is.
func (a *asker) forget(ttl int, beforeNS int64) {
	const tooMany = 4
	for _, f := range a.flows {
		for t := ttl; t < len(f.cells); t++ {
			c := &f.cells[t]
			c.answers = slices.DeleteFunc(c.answers, func(x answer) bool { return x.sample.TxNS < beforeNS })
			if len(c.answers) == 0 {
				c.asked = c.waiting
			}
		}
	}
	clear(a.decided)
	clear(a.tests)
	clear(a.variants)
	clear(a.sole)
	clear(a.unique)
	if a.changes >= tooMany {
		a.exhausted = true
		a.opt.MaxProbes = len(a.probes)
	}
}

// differ reports whether the answers came from several addresses.
func differ(answers []answer) bool {
	for _, x := range answers[1:] {
		if x.sample.From != answers[0].sample.From {
			return true
		}
	}
	return false
}

// squares is the probability that two packets spread like these flows agree.
func squares(flows []int) float64 {
	total, sum := 0, 0.0
	for _, f := range flows {
		total += f
	}
	for _, f := range flows {
		sum += math.Pow(float64(f)/float64(total), 2)
	}
	return sum
}

// fieldTest is the question whether a balancer hashes a field.
type fieldTest struct {
	place
	field datasets.Field
}

type fieldResult struct{ known, moves bool }

// fields sends, for each balancer per flow and each field to test, flows that are
// like one through the balancer but for that field. It reports whether more is to
// come.
func (a *asker) fields(s *survey) bool {
	busy := false
	for i := range s.vertices {
		v := &s.vertices[i]
		d := a.decided[v.place]
		if d == nil || d.class != datasets.PerFlow || v.kind != placeRouter {
			continue
		}
		for _, field := range a.opt.Test {
			test := fieldTest{v.place, field}
			if a.tests[test] == nil {
				a.tests[test] = &fieldResult{}
			}
			if !a.tests[test].known {
				busy = a.tryField(s, v, test) || busy
			}
		}
	}
	return busy
}

// tryField sends what the test lacks, or ends it. It reports whether more is to
// come.
func (a *asker) tryField(s *survey, v *vertex, test fieldTest) bool {
	result := a.tests[test]
	at, check, ok := a.witness(s, v, test.field)
	if !ok {
		result.known = len(a.opt.Test) > 0 // never to be known: no flow shows its next hop
		return false
	}
	base := a.flows[at.flow]
	seen := base.cells[at.ttl+1].answers[0].sample.From
	need := agreeing(a.epsilon(2), v.flowsPerChoice())
	limit := uint32(need)
	if check {
		limit = uint32(16 * need)
	}
	agreed, pending := 1, 0
	for value := uint32(1); value <= limit && agreed+pending < need; value++ {
		f := a.variant(Flow{Index: base.Index, Field: test.field, Value: value})
		here, next := &f.cells[at.ttl], &f.cells[at.ttl+1]
		switch {
		case check && here.asked == 0:
			a.ask(f, at.ttl, forFields)
			pending++
		case check && here.waiting > 0:
			pending++
		case check && (len(here.answers) == 0 || here.answers[0].sample.From != v.addr):
		case next.asked == 0:
			a.ask(f, at.ttl+1, forFields)
			pending++
		case len(next.answers) == 0:
			pending += min(next.waiting, 1)
		case next.answers[0].sample.From != seen:
			*result = fieldResult{known: true, moves: true}
			return false
		default:
			agreed++
		}
	}
	if pending > 0 {
		return true
	}
	result.known = true
	return false
}

// witness returns a flow through v whose next hop is known, and whether those
// that differ from it in a field may miss v, because a balancer before it may
// hash the field.
func (a *asker) witness(s *survey, v *vertex, field datasets.Field) (at visit, check, ok bool) {
	for _, at := range v.visits {
		w := &s.walkers[at.flow]
		if at.ttl >= a.opt.MaxTTL || a.know(a.flows[at.flow], at.ttl+1) != answered {
			continue
		}
		check, expected := false, a.opt.FirstTTL
		for _, step := range w.steps {
			if step.ttl >= at.ttl {
				break
			}
			u := &s.vertices[step.flow]
			result := a.tests[fieldTest{u.place, field}]
			check = check || step.ttl != expected || u.width() > 1 && (result == nil || !result.known || result.moves || u.kind != placeRouter)
			expected = step.ttl + 1
		}
		return at, check || expected != at.ttl || s.vertices[0].width() > 1, true
	}
	return visit{}, false, false
}

func (p *Paths) variant(f Flow) *flowCells {
	if p.variants[f] == nil {
		p.variants[f] = p.newFlow(f)
	}
	return p.variants[f]
}
