package router

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// maxServers bounds what one evaluation of an erlang curve takes.
const maxServers = 100_000

func checkService(p *problems, key string, s Service) {
	switch s.Kind {
	case KindHyperbolic, KindExponential:
		checkMu(p, key, s)
		checkKappa(p, key, s)
	case KindGeneralised:
		checkMu(p, key, s)
		checkKappa(p, key, s)
		if !finite(s.Q) || s.Q < 0.05 || s.Q > 50 {
			p.add(key+".q", "write the sharpness of the knee, 0.05 to 50; 1 is "+KindHyperbolic, "%v is not a shape", s.Q)
		}
	case KindMM1:
		checkMu(p, key, s)
	case KindMMC:
		checkMu(p, key, s)
		if s.Servers < 1 || s.Servers > maxServers {
			p.add(key+".servers", fmt.Sprintf("write the number of servers, 1 to %d", maxServers), "%d is not a number of servers", s.Servers)
		}
	case KindPiecewise, KindTable:
		checkPoints(p, key, s)
	case "":
		p.add(key+".kind", "write kind: "+KindHyperbolic, "is missing")
		return
	default:
		p.add(key+".kind", "write "+strings.Join(serviceKinds(), ", "), "unknown service kind %q", s.Kind)
		return
	}
	checkUnused(p, key, s)
}

func serviceKinds() []string {
	return []string{KindHyperbolic, KindGeneralised, KindExponential, KindMM1, KindMMC, KindPiecewise, KindTable}
}

func checkMu(p *problems, key string, s Service) {
	if !positive(s.Mu) {
		p.add(key+".mu", "write the greatest rate in requests per second"+positiveFix, "%v is not a capacity", s.Mu)
	}
}

func checkKappa(p *problems, key string, s Service) {
	if !positive(s.Kappa) {
		p.add(key+".kappa", "write the number of requests inside at half of mu"+positiveFix, "%v is not a workload", s.Kappa)
	}
}

// checkUnused reports parameters that the kind does not have: they would be
// believed to count.
func checkUnused(p *problems, key string, s Service) {
	points := s.Kind == KindPiecewise || s.Kind == KindTable
	for _, u := range []struct {
		key    string
		unused bool
	}{
		{"mu", points && s.Mu != 0},
		{"kappa", (points || s.Kind == KindMM1 || s.Kind == KindMMC) && s.Kappa != 0},
		{"q", s.Kind != KindGeneralised && s.Q != 0},
		{"servers", s.Kind != KindMMC && s.Servers != 0},
		{"points", !points && len(s.Points) > 0},
		{"smoothing", s.Kind != KindPiecewise && s.Smoothing != 0},
	} {
		if u.unused {
			p.add(key+"."+u.key, "remove it, or choose another kind", "means nothing for kind %s", s.Kind)
		}
	}
}

func checkPoints(p *problems, key string, s Service) {
	if len(s.Points) == 0 {
		p.add(key+".points", "write pairs such as {n: 8, rate: 2.5} by rising n", "there is none")
	}
	if s.Kind == KindPiecewise && !(s.Smoothing >= 0 && s.Smoothing <= 1) {
		p.add(key+".smoothing", "write a fraction of the slope, above 0 to 1", "%v is not a fraction", s.Smoothing)
	}
	last, ok := Point{}, true
	for k, at := range s.Points {
		at, point := index(key+".points", k), at
		switch {
		case !positive(point.Workload) || point.Workload <= last.Workload:
			p.add(at+".n", "write the points by rising n"+positiveFix, "%v does not follow %v", point.Workload, last.Workload)
			ok = false
		case !positive(point.RateHz):
			p.add(at+".rate", "write the requests per second completed"+positiveFix, "%v is not a rate", point.RateHz)
			ok = false
		}
		last = point
	}
	if ok && s.Kind == KindPiecewise {
		checkConcave(p, key, s.Points)
	}
}

// checkConcave accepts corners only if each line climbs, and less than the one
// before.
func checkConcave(p *problems, key string, points []Point) {
	slopes := secants(points)
	for k, slope := range slopes {
		if slope <= 0 || k > 0 && slope >= slopes[k-1]*(1-1e-9) {
			p.add(index(key+".points", k)+".rate", "make every line climb, and less than the one before, or write kind: "+KindTable+", which takes the concave envelope of measured points",
				"the line to %v requests/s is not concave", points[k].RateHz)
			return
		}
	}
}

func (w *World) checkRegion(p *problems, key string, r Region) {
	if !within(r.MaxRateHz) {
		p.add(key+".max_rate", "write requests per second, above 0, or remove it", "%v is not a limit", r.MaxRateHz)
	}
	if r.Price != nil {
		checkNotNegative(p, key+".price.request", r.Price.Request, "dollars")
		checkNotNegative(p, key+".price.token", r.Price.Token, "dollars")
	}
	if r.Prefill != nil {
		checkService(p, key+".prefill", *r.Prefill)
	} else if w.Objective.Kind == ObjectiveTTFT {
		p.add(key+".prefill", "write the service of queue and prefill, such as {kind: mm1, mu: 40}", "is missing, and objective.kind is "+ObjectiveTTFT)
	}
}

func checkNotNegative(p *problems, key string, v float64, unit string) {
	if !within(v) {
		p.add(key, "write "+unit+", 0 or more", "%v is not a number of %s", v, unit)
	}
}

func (w *World) checkClasses(p *problems) {
	seen := map[string]int{}
	for i := range w.Classes {
		c, key := &w.Classes[i], index("classes", i)
		checkName(p, key, c.Name, i, seen)
		w.checkNamed(p, key+".rates", c.Rates, w.hasFrontend, "frontend", func(v float64) bool { return v >= 0 })
		w.checkNamed(p, key+".work", c.Work, w.hasRegion, "region", func(v float64) bool { return v > 0 })
		for k, name := range c.Hosts {
			if !w.hasRegion(name) {
				p.add(index(key+".hosts", k), "name a region of the world", "there is no region %q", name)
			}
		}
		checkNotNegative(p, key+".tokens", c.Tokens, "tokens")
		checkLimit(p, key, c.Limit)
		checkShed(p, key, c.Shed)
	}
}

// checkNamed checks the values of a map by name, in order of the names.
func (w *World) checkNamed(p *problems, key string, values map[string]float64, known func(string) bool, what string, fine func(float64) bool) {
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		switch v := values[name]; {
		case !known(name):
			p.add(key+"."+name, "name a "+what+" of the world", "there is no %s %q", what, name)
		case !within(v) || !fine(v):
			p.add(key+"."+name, "write a number above 0, at most 1e9", "%v is not a number that can stand here", v)
		}
	}
}

func (w *World) hasFrontend(name string) bool {
	return slices.ContainsFunc(w.Frontends, func(f Frontend) bool { return f.Name == name })
}

func (w *World) hasRegion(name string) bool {
	return slices.ContainsFunc(w.Regions, func(r Region) bool { return r.Name == name })
}

func (w *World) checkObjective(p *problems) {
	o := &w.Objective
	oneOf(p, "objective.kind", o.Kind, ObjectiveTotal, ObjectiveTTFT)
	oneOf(p, "objective.network", o.Network, KindOneWay, KindRTT)
	if v := o.Weights; v != nil {
		if o.Kind != ObjectiveTTFT {
			p.add("objective.weights", "write objective.kind: "+ObjectiveTTFT+", or remove them", "mean nothing for kind %s", ObjectiveTotal)
		}
		checkNotNegative(p, "objective.weights.network", v.Network, "seconds per second")
		checkNotNegative(p, "objective.weights.prefill", v.Prefill, "seconds per second")
		checkNotNegative(p, "objective.weights.service", v.Service, "seconds per second")
	}
	checkNotNegative(p, "objective.gamma", o.Gamma, "seconds per dollar")
	checkNotNegative(p, "objective.tokens", o.Tokens, "tokens")
	if !(o.MinShare >= 0 && o.MinShare*float64(len(w.Regions)) <= 1) {
		p.add("objective.min_share", "write a fraction from 0 to 1 / number of regions", "%v on each of %d regions is not a share", o.MinShare, len(w.Regions))
	}
	checkLimit(p, "objective", o.Limit)
	checkShed(p, "objective", o.Shed)
}

func checkLimit(p *problems, key string, l *Limit) {
	if l != nil {
		checkNotNegative(p, key+".limit.network", l.NetworkS, "seconds")
		checkNotNegative(p, key+".limit.ttft", l.TTFTS, "seconds")
	}
}

func checkShed(p *problems, key string, s *Shed) {
	if s != nil && !positive(s.PriceS) {
		p.add(key+".shed.price", "write what a refused request costs in seconds"+positiveFix, "%v is not a price", s.PriceS)
	}
}

// checkArcs reports the rows to which the rules have left no region.
func (q *problem) checkArcs(p *problems) {
	w := q.world
	for k, r := range q.rows {
		if least, _ := q.workRange(k); r.rateHz == 0 || !math.IsInf(least, 1) || !math.IsInf(r.shedS, 1) {
			continue
		}
		var reasons []string
		for j := range w.Regions {
			reason := w.Excluded(r.frontend, j)
			if r.class >= 0 {
				reason = w.ExcludedClass(r.class, r.frontend, j)
			}
			reasons = append(reasons, w.Regions[j].Name+": "+reason)
		}
		p.add(index("frontends", r.frontend), "relax one of these rules, or set objective.shed", "%s may use no region: %s", q.rowName(k), strings.Join(reasons, "; "))
	}
}

// Notes says what a valid world leaves out: measured points that are not on the
// concave envelope of their table, and arcs that rules have taken away.
func (w *World) Notes() []string {
	var notes []string
	for _, r := range w.Regions {
		notes = append(notes, tableNote(r.Name, r.Service)...)
		if r.Prefill != nil {
			notes = append(notes, tableNote(r.Name+" (prefill)", *r.Prefill)...)
		}
	}
	for i, f := range w.Frontends {
		for j, r := range w.Regions {
			if w.Latency.Matrix[i][j] == nil {
				continue
			}
			if reason := w.Excluded(i, j); reason != "" {
				notes = append(notes, fmt.Sprintf("frontend %s may not use region %s: %s", f.Name, r.Name, reason))
				continue
			}
			for c := range w.Classes {
				if reason := w.ExcludedClass(c, i, j); reason != "" {
					notes = append(notes, fmt.Sprintf("class %s of frontend %s may not use region %s: %s", w.Classes[c].Name, f.Name, r.Name, reason))
				}
			}
		}
	}
	return notes
}

func tableNote(region string, s Service) []string {
	if s.Kind != KindTable {
		return nil
	}
	hull := envelope(s.Points)
	if len(hull) == len(s.Points) {
		return nil
	}
	return []string{fmt.Sprintf("region %s: %d of %d measured points count; the others are below the concave envelope or behind the peak of %g requests/s at %g inside",
		region, len(hull), len(s.Points), hull[len(hull)-1].RateHz, hull[len(hull)-1].Workload)}
}
