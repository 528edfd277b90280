package router

import "math"

// problem is a world as the solver sees it: one row per frontend and class,
// matrices row by row over the regions. Of its requests a row puts the share
// base on every allowed arc, and the rest, a share of free, where it likes:
//
//	minimise sum_k rate_k sum_j c_kj x_kj + sum_j N_j(sum_k rate_k work_kj x_kj)
type problem struct {
	world  *World
	rows   []row
	curves []Curve     // by region
	arcS   []float64   // c, +Inf where not allowed
	work   [][]float64 // of one request, by class and region; one class where there are none
	prior  []float64   // weights of the arcs in the softmax; nil = all 1

	networkWeight float64 // what a unit of the latency matrix counts, seconds
}

type row struct {
	frontend, class int // class -1 where there are none
	rateHz          float64
	shedS           float64 // +Inf where nothing may be shed
	tokens          float64 // of a request
	lostHz          float64 // left out of rateHz, since no region is left (Replan)
	base, free      float64
}

func newProblem(w *World) *problem {
	b := len(w.Regions)
	p := &problem{world: w, curves: make([]Curve, b), networkWeight: w.networkUnitS() * w.networkWeight()}
	for j := range w.Regions {
		p.curves[j] = w.Curve(j)
	}
	n := len(w.Frontends) * max(1, len(w.Classes))
	p.rows, p.arcS = make([]row, 0, n), make([]float64, 0, n*b)
	p.setWork()
	for i, f := range w.Frontends {
		if len(w.Classes) == 0 {
			p.addRow(row{frontend: i, class: -1, rateHz: f.RateHz})
		}
		for c := range w.Classes {
			p.addRow(row{frontend: i, class: c, rateHz: w.Classes[c].Rates[f.Name]})
		}
	}
	return p
}

func (p *problem) addRow(r row) {
	w := p.world
	shed := w.Objective.Shed
	r.tokens = w.Objective.Tokens
	if r.class >= 0 {
		c := &w.Classes[r.class]
		if c.Shed != nil {
			shed = c.Shed
		}
		if c.Tokens > 0 {
			r.tokens = c.Tokens
		}
	}
	r.shedS = math.Inf(1)
	if shed != nil {
		r.shedS = shed.PriceS
	}
	allowed := 0
	for j := range w.Regions {
		cost := math.Inf(1)
		if p.isAllowed(r, j) {
			cost = p.networkWeight**w.Latency.Matrix[r.frontend][j] + w.Objective.Gamma*w.dollars(j, r.tokens)
			allowed++
		}
		p.arcS = append(p.arcS, cost)
	}
	r.base = w.Objective.MinShare
	r.free = max(0, 1-r.base*float64(allowed))
	p.rows = append(p.rows, r)
}

func (p *problem) setWork() {
	for c := range max(1, len(p.world.Classes)) {
		work := make([]float64, len(p.curves))
		for j, r := range p.world.Regions {
			work[j] = 1
			if len(p.world.Classes) > 0 {
				work[j] = p.world.Classes[c].workAt(r.Name)
			}
		}
		p.work = append(p.work, work)
	}
}

// workOf is the work of one request of row k by region.
func (p *problem) workOf(k int) []float64 { return p.work[max(0, p.rows[k].class)] }

func (p *problem) isAllowed(r row, j int) bool {
	if r.class < 0 {
		return !p.world.isExcluded(r.frontend, j)
	}
	return p.world.ExcludedClass(r.class, r.frontend, j) == ""
}

// mayShed reports whether every row may shed, which makes any demand feasible.
func (p *problem) mayShed() bool {
	for _, r := range p.rows {
		if r.rateHz > 0 && (math.IsInf(r.shedS, 1) || r.base > 0) {
			return false
		}
	}
	return true
}

// lowerBound is the dual without smoothing at any prices.
func (p *problem) lowerBound(pricesS []float64) float64 {
	b, bound := len(p.curves), 0.0
	for k, r := range p.rows {
		least, base := r.shedS, 0.0
		for j := range b {
			if c := p.arcS[k*b+j]; !math.IsInf(c, 1) {
				c += p.workOf(k)[j] * pricesS[j]
				least = min(least, c)
				base += c
			}
		}
		if r.rateHz > 0 {
			bound += r.rateHz * r.base * base
			if r.free > 0 {
				bound += r.rateHz * r.free * least
			}
		}
	}
	for j, c := range p.curves {
		bound -= c.Conjugate(pricesS[j])
	}
	return bound
}

// arrivingHz is the work per second that the shares x, row by row, bring to each
// region.
func (p *problem) arrivingHz(x []float64) []float64 {
	b := len(p.curves)
	load := make([]float64, b)
	for k, r := range p.rows {
		for j := range b {
			if v := x[k*b+j]; v > 0 {
				load[j] += r.rateHz * p.workOf(k)[j] * v
			}
		}
	}
	return load
}

// setPrior weights the arcs by the shares of an earlier plan, of which a hundredth
// is spread evenly, so that no arc is closed for ever.
func (p *problem) setPrior(previous *Plan) {
	const fresh = 0.01
	b := len(p.curves)
	p.prior = make([]float64, len(p.rows)*b)
	for k, r := range p.rows {
		f := previous.Frontends[r.frontend]
		if r.class >= 0 && len(previous.Classes) > 0 {
			f = previous.Classes[r.class].Frontends[r.frontend]
		}
		for j := range b {
			p.prior[k*b+j] = (1-fresh)*f.Shares[j] + fresh/float64(b)
		}
	}
}
