package sim

import (
	"math"
	"slices"

	"strandline/router"
)

// fluidAccount adds up the measured part of a run.
type fluidAccount struct {
	steps             float64
	cost, optimum     float64 // integrals over the measured time, in steps
	inSystem, leaving float64
	shed, lost        float64
	measuring         bool
	latency           Sketch
	optima            []fluidOptimum
	turns             []turns
	least, most       []float64
	objective         []router.Curve // nil where workloads are the cost
	shedPriceS        float64
	trajectory        []FluidSample
	sampleEvery       int
	latencyEvery      int
}

// fluidOptimum is the least cost from a step on.
type fluidOptimum struct {
	from int
	cost float64
}

func (a *fluidAccount) init(f *fluid) error {
	b := len(f.inside)
	a.turns, a.least, a.most = make([]turns, b), make([]float64, b), make([]float64, b)
	for j := range a.least {
		a.least[j], a.most[j] = math.Inf(1), math.Inf(-1)
	}
	if f.World.Objective.Kind == router.ObjectiveTTFT {
		for j := range b {
			a.objective = append(a.objective, f.World.Curve(j))
		}
	}
	if s := f.World.Objective.Shed; s != nil {
		a.shedPriceS = s.PriceS
	}
	a.sampleEvery = max(1, int(math.Round(f.SampleS/f.StepS)))
	a.latencyEvery = max(1, int(math.Round(0.1/f.StepS)))
	a.sample(f, f.costHz())
	return a.solve(f)
}

// solve finds the optimum of every span between two events that is measured.
func (a *fluidAccount) solve(f *fluid) error {
	starts := []int{0}
	for _, c := range f.Changes {
		starts = append(starts, max(0, int(math.Ceil(c.AtS/f.StepS-1e-9))))
	}
	for _, o := range f.outages {
		starts = append(starts, max(0, o.from), o.to)
	}
	slices.Sort(starts)
	starts = slices.Compact(starts)
	for k, from := range starts {
		if from >= f.total || k+1 < len(starts) && starts[k+1] <= f.measureFrom {
			continue
		}
		cost, err := f.optimumAt(from)
		if err != nil {
			return err
		}
		a.optima = append(a.optima, fluidOptimum{from, cost})
	}
	return nil
}

// optimumAt is the least cost of the world as it is at a step; +Inf where demand is
// above what is left.
func (f *fluid) optimumAt(step int) (float64, error) {
	w := *f.World
	w.Frontends = slices.Clone(w.Frontends)
	for _, c := range f.Changes {
		if c.AtS <= float64(step)*f.StepS+1e-9 {
			w.Frontends[c.Frontend].RateHz = c.RateHz
		}
	}
	var down []string
	for _, o := range f.outages {
		if name := w.Regions[o.region].Name; step >= o.from && step < o.to && !slices.Contains(down, name) {
			down = append(down, name)
		}
	}
	p, err := router.Replan(&w, down)
	if err != nil {
		// More demand than all regions can serve is no fault of the run.
		if rest, e := router.Replan(f.World, nil); e == nil && !rest.Overloaded {
			return math.Inf(1), nil
		}
		return 0, err
	}
	return p.Cost, nil
}

// costHz is what the optimum minimises, for the state as it is now.
func (f *fluid) costHz() float64 {
	cost := 0.0
	for j, n := range f.inside {
		if f.account.objective != nil {
			n = f.account.objective[j].Workload(f.leaving[j])
		}
		cost += n
	}
	for i, x := range f.shares {
		rest := 1.0
		for _, j := range f.arcs[i].used {
			rest -= x[j]
			cost += f.rateHz[i] * x[j] * f.arcs[i].costS[j]
		}
		cost += f.account.shedPriceS * max(0, rest) * f.rateHz[i]
	}
	return cost
}

// lose counts requests that a region that is down takes with it.
func (a *fluidAccount) lose(requests float64) {
	if a.measuring {
		a.lost += requests
	}
}

// add counts the step that has just been made.
func (a *fluidAccount) add(f *fluid) {
	measuring := f.steps > f.measureFrom
	sampled := f.SampleS > 0 && f.steps%a.sampleEvery == 0
	a.measuring = f.steps >= f.measureFrom
	if !measuring && !sampled {
		return
	}
	cost := f.costHz()
	if sampled {
		a.sample(f, cost)
	}
	if !measuring {
		return
	}
	a.steps++
	a.cost += cost
	for len(a.optima) > 1 && a.optima[1].from < f.steps {
		a.optima = a.optima[1:]
	}
	a.optimum += a.optima[0].cost
	for j, n := range f.inside {
		a.inSystem += n
		a.leaving += f.leaving[j]
		a.least[j], a.most[j] = min(a.least[j], n), max(a.most[j], n)
		a.turns[j].add(n)
	}
	a.addArcs(f)
}

// addArcs counts what is on the network, what is refused and, every tenth of a
// second, latencies.
func (a *fluidAccount) addArcs(f *fluid) {
	const units = 1e6 // per second of a request rate of 1
	withLatency := f.steps%a.latencyEvery == 0
	for i, x := range f.shares {
		rest := 1.0
		for _, j := range f.arcs[i].used {
			rest -= x[j]
			v := f.rateHz[i] * x[j]
			a.inSystem += v * f.arcs[i].networkS[j]
			if withLatency && !f.down[j] {
				a.latency.addMany(f.arcs[i].networkS[j]+fluidLatencyS(f.curves[j], f.inside[j]), uint64(units*v))
			}
		}
		if rest > 1e-9 {
			a.shed += rest * f.rateHz[i]
		}
	}
}

func (a *fluidAccount) sample(f *fluid, cost float64) {
	if f.SampleS > 0 {
		a.trajectory = append(a.trajectory, FluidSample{f.nowS(), cost, slices.Clone(f.inside), slices.Clone(f.sent)})
	}
}

func (a *fluidAccount) result(f *fluid) *FluidResult {
	r := &FluidResult{
		MeanLatencyS: a.inSystem / a.leaving, Excess: a.cost/a.optimum - 1,
		P50S: a.latency.Quantile(0.5), P99S: a.latency.Quantile(0.99),
		ThroughputHz: a.leaving / a.steps, ShedHz: a.shed / a.steps, LostHz: a.lost / (a.steps * f.StepS),
		Trajectory: a.trajectory,
	}
	if math.IsInf(a.optimum, 1) || a.optimum == 0 {
		r.Excess = math.NaN()
	}
	for j := range a.turns {
		r.Swing = max(r.Swing, a.most[j]-a.least[j])
		r.Oscillates = r.Oscillates || a.turns[j].sustained()
	}
	return r
}

// turns follows the turning points of one workload.
type turns struct {
	started, up     bool
	extreme, last   float64 // furthest in the present direction; the turning point before
	n               int
	largest, latest float64 // distance between neighbouring turning points
}

// add takes the next value. A turn counts when it goes back by a hundredth of the
// value, or of one request where there is less.
func (t *turns) add(v float64) {
	if !t.started {
		*t = turns{started: true, extreme: v, last: v}
		return
	}
	if t.up && v >= t.extreme || !t.up && v <= t.extreme {
		t.extreme = v
		return
	}
	if math.Abs(v-t.extreme) < 0.01*max(1, v) {
		return
	}
	t.n++
	t.latest = math.Abs(t.extreme - t.last)
	t.largest = max(t.largest, t.latest)
	t.last, t.extreme, t.up = t.extreme, v, !t.up
}

// sustained reports whether the value turned often and does not calm down.
func (t *turns) sustained() bool {
	const often = 6
	return t.n >= often && t.latest >= t.largest/2
}
