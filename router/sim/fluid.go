package sim

import (
	"fmt"
	"math"
	"slices"

	"strandline/router"
)

// Fluid describes one run of the delay differential equation
//
//	dN_j/dt = sum_i lam_i x_ij(t - tau_ij) - l_j(N_j(t))
//
// in which frontend i moves its shares x_i by what it sees of the regions, N_j(t -
// tau_ij) (arXiv 2504.10693). The zero values of what is optional are usable.
type Fluid struct {
	World  *router.World // one class of requests
	Plan   *router.Plan  // what policies that see the plan follow; nil = the optimum of World
	Policy string        // one of FluidPolicies

	// Eta is the step of dgd for all frontends. 0 = by frontend the EtaFraction of
	// the plan's EtaMax, and where that is 0 too what router.DGD takes by default.
	Eta, EtaFraction float64

	DurationS float64
	StepS     float64 // of the integrator; 0 = half the least delay, but between 1 and 20 ms
	MeasureS  float64 // how much at the end is measured; 0 = the last quarter

	Shares    [][]float64 // first shares by frontend and region, in force for ever before; nil = by capacity
	Workloads []float64   // first workloads by region, in force for ever before; nil = none

	Changes []Change // of demand, by rising time
	Outages []Outage
	DetectS float64 // from the beginning or end of an outage until it shows in what a region reports

	SampleS float64 // between two samples of the trajectory; 0 = none

	// Continue is asked about once a simulated second; false stops the run, which
	// returns ErrStopped. nil = always.
	Continue func(nowS float64) bool
}

// Change is a new arrival rate of one frontend.
type Change struct {
	AtS      float64
	Frontend int
	RateHz   float64
}

// FluidResult is what a run of the fluid model measured, over its last MeasureS.
type FluidResult struct {
	Policy       string
	MeanLatencyS float64 // requests inside and on the network over the rate of those served
	P50S         float64 // of the latency that an arrival is to expect: network, and workload over rate
	P99S         float64
	Excess       float64 // cost over that of the optimum, less 1; the optimum follows demand and outages at once
	ThroughputHz float64
	ShedHz       float64 // refused
	LostHz       float64 // inside or under way to a region that was down
	Oscillates   bool    // a workload keeps turning, and its last turns are not smaller than half its greatest
	Swing        float64 // the most that one workload moved between its least and its greatest
	StepS        float64

	Workloads  []float64   // at the end, by region
	Shares     [][]float64 // at the end, by frontend and region
	Trajectory []FluidSample
}

// FluidSample is the state at one time. Slices are by region.
type FluidSample struct {
	AtS       float64
	CostHz    float64 // requests in the system, with what the objective adds: what the optimum minimises
	Workloads []float64
	SentHz    []float64 // what frontends send now
}

// RunFluid integrates the equation with Heun's method at a fixed step, histories
// being straight between its ends, which is of second order in the step. The same
// run gives the same bits.
func RunFluid(c Fluid) (*FluidResult, error) {
	f, err := newFluid(c)
	if err != nil {
		return nil, fmt.Errorf("fluid: %w", err)
	}
	every := max(1, int(1/f.StepS))
	for f.steps < f.total {
		if f.steps%every == 0 && c.Continue != nil && !c.Continue(f.nowS()) {
			return nil, ErrStopped
		}
		f.step()
	}
	return f.result(), nil
}

// fluid is the state of one run. Time is counted in steps. The past and the future of
// regions are rows of two strips, of which row now is the present; when the strips
// end, what is still needed moves to their beginning.
type fluid struct {
	Fluid
	steps, total, measureFrom int

	curves  []router.Curve
	policy  fluidPolicy
	rateHz  []float64 // by frontend
	arcs    []fluidArcs
	shares  [][]float64 // by frontend; what they lack to 1 is refused
	inside  []float64   // workloads by region
	leaving []float64   // l_j of them
	down    []bool

	now, reach int       // the present row; how many rows around it are needed
	signals    []float64 // what regions report
	arrivals   []float64 // rates that reach regions

	costs   []float64 // scratch: what one frontend sees
	sent    []float64 // by region, now
	outages []seenOutage
	account fluidAccount
}

// fluidArcs is what one frontend needs of its arcs to read and write the strips.
type fluidArcs struct {
	costS, networkS []float64 // +Inf where not allowed
	tauS            []float64
	read, write     []place
	used            []int32 // regions that get something now
}

// place lies between two rows: part of the way from the number of the strip that is
// offset behind the first of the row now, to the one a row later. It is small, since
// a step goes through all arcs.
type place struct {
	offset int32
	part   float32
}

func placeOf(steps float64, regions, j int) place {
	row := math.Floor(steps)
	return place{int32(row)*int32(regions) + int32(j), float32(steps - row)}
}

// seenOutage is an outage by steps.
type seenOutage struct {
	region   int
	from, to int
}

func newFluid(c Fluid) (*fluid, error) {
	f := &fluid{Fluid: c}
	if err := f.check(); err != nil {
		return nil, err
	}
	w := c.World
	if f.StepS == 0 {
		f.StepS = defaultStepS(w)
	}
	if f.MeasureS == 0 {
		f.MeasureS = c.DurationS / 4
	}
	f.total = int(math.Ceil(c.DurationS/f.StepS - 1e-9))
	f.measureFrom = f.total - int(math.Round(f.MeasureS/f.StepS))
	if f.Plan == nil {
		p, err := router.Solve(w, router.SolveOptions{})
		if err != nil {
			return nil, err
		}
		f.Plan = p
	}
	for _, fr := range w.Frontends {
		f.rateHz = append(f.rateHz, fr.RateHz)
	}
	if steps := c.DurationS / f.StepS; steps > 1e12 {
		return nil, fmt.Errorf("%g steps will not end", steps)
	}
	if longest := longestS(w); longest/f.StepS*float64(len(w.Regions)) > mostCells {
		return nil, fmt.Errorf("a delay of %g s is too long to remember in steps of %g s", longest, f.StepS)
	}
	f.setRegions()
	f.setArcs()
	if err := f.setPolicy(); err != nil {
		return nil, err
	}
	f.fillHistory()
	f.setOutages()
	return f, f.account.init(f)
}

// check finds what would make the run meaningless.
func (c *Fluid) check() error {
	w := c.World
	if w == nil {
		return fmt.Errorf("no world")
	}
	if err := w.Validate(); err != nil {
		return err
	}
	if len(w.Classes) > 0 {
		return fmt.Errorf("the world has %d classes of requests, and this model knows one", len(w.Classes))
	}
	positive := func(v float64) bool { return v > 0 && !math.IsInf(v, 1) }
	if !positive(c.DurationS) || c.StepS != 0 && !positive(c.StepS) || c.MeasureS < 0 || c.MeasureS > c.DurationS || math.IsNaN(c.MeasureS) {
		return fmt.Errorf("%v s in steps of %v s, of which %v s measured, is no length of a run", c.DurationS, c.StepS, c.MeasureS)
	}
	for _, eta := range []float64{c.Eta, c.EtaFraction} {
		if eta != 0 && !positive(eta) {
			return fmt.Errorf("%v is not a step of dgd", eta)
		}
	}
	if c.Shares != nil && len(c.Shares) != len(w.Frontends) || c.Workloads != nil && len(c.Workloads) != len(w.Regions) {
		return fmt.Errorf("first shares of %d frontends and workloads of %d regions, for %d and %d", len(c.Shares), len(c.Workloads), len(w.Frontends), len(w.Regions))
	}
	for i, row := range c.Shares {
		if len(row) != len(w.Regions) {
			return fmt.Errorf("first shares of frontend %d: %d of %d regions", i, len(row), len(w.Regions))
		}
	}
	for k, ch := range c.Changes {
		if ch.Frontend < 0 || ch.Frontend >= len(w.Frontends) || !(ch.RateHz >= 0) || math.IsInf(ch.RateHz, 1) || k > 0 && ch.AtS < c.Changes[k-1].AtS {
			return fmt.Errorf("change %d: %+v", k, ch)
		}
	}
	for k, o := range c.Outages {
		if o.Region < 0 || o.Region >= len(w.Regions) || !(o.FromS < o.ToS) {
			return fmt.Errorf("outage %d: %+v", k, o)
		}
	}
	return nil
}

// mostCells bounds the memory of the strips, in numbers.
const mostCells = 1 << 27

func longestS(w *router.World) float64 {
	longest := 0.0
	for i := range w.Frontends {
		for j := range w.Regions {
			if t, ok := w.OneWayS(i, j); ok {
				longest = max(longest, t)
			}
		}
	}
	return longest
}

func defaultStepS(w *router.World) float64 {
	least := math.Inf(1)
	for i := range w.Frontends {
		for j := range w.Regions {
			if t, ok := w.OneWayS(i, j); ok && t > 0 {
				least = min(least, t)
			}
		}
	}
	return min(max(least/2, 0.001), 0.020)
}

func (f *fluid) setRegions() {
	b := len(f.World.Regions)
	f.inside, f.leaving, f.down = make([]float64, b), make([]float64, b), make([]bool, b)
	f.costs, f.sent = make([]float64, b), make([]float64, b)
	copy(f.inside, f.Workloads)
	for j, r := range f.World.Regions {
		f.curves = append(f.curves, r.Service.Curve())
		f.leaving[j] = f.curves[j].RateHz(f.inside[j])
	}
}

// setArcs turns delays into places, and makes the strips long enough for the longest.
func (f *fluid) setArcs() {
	w, b := f.World, len(f.World.Regions)
	f.reach = 3
	for i := range w.Frontends {
		a := fluidArcs{make([]float64, b), make([]float64, b), make([]float64, b), make([]place, b), make([]place, b), nil}
		for j := range w.Regions {
			tau, ok := w.OneWayS(i, j)
			a.costS[j] = w.ArcS(i, j)
			a.networkS[j], _ = w.NetworkS(i, j)
			if a.tauS[j] = tau; !ok {
				continue
			}
			// What counts for a step is the state in its middle, one delay ago.
			a.read[j], a.write[j] = placeOf(0.5-tau/f.StepS, b, j), placeOf(tau/f.StepS, b, j)
			f.reach = max(f.reach, int(tau/f.StepS)+3)
		}
		f.arcs = append(f.arcs, a)
	}
	const moves = 256 // steps between two moves of the strips
	f.signals, f.arrivals = make([]float64, (2*f.reach+moves)*b), make([]float64, (2*f.reach+moves)*b)
}

// fillHistory makes the strips what they are when nothing has changed for ever.
func (f *fluid) fillHistory() {
	b := len(f.inside)
	for k := range f.signals {
		f.signals[k] = f.policy.signal(k%b, f.inside[k%b])
	}
	for ; f.now <= f.reach; f.now++ {
		clear(f.sent)
		for i := range f.arcs {
			f.send(i, 0)
		}
	}
	f.now--
}

// row is the row of a strip some steps after now.
func (f *fluid) row(strip []float64, after int) []float64 {
	b := len(f.inside)
	return strip[(f.now+after)*b : (f.now+after+1)*b]
}

// advance makes the next row the present one.
func (f *fluid) advance() {
	f.now++
	b := len(f.inside)
	if (f.now+f.reach)*b < len(f.signals) {
		return
	}
	from := (f.now - f.reach) * b
	f.now = f.reach
	copy(f.signals, f.signals[from:])
	clear(f.arrivals[copy(f.arrivals, f.arrivals[from:]):])
}

func (f *fluid) setOutages() {
	for _, o := range f.Outages {
		f.outages = append(f.outages, seenOutage{o.Region, int(math.Ceil(o.FromS / f.StepS)), int(math.Ceil(min(o.ToS, f.DurationS) / f.StepS))})
	}
}

func (f *fluid) nowS() float64 { return float64(f.steps) * f.StepS }

// step goes from now to now plus StepS.
func (f *fluid) step() {
	f.change()
	f.foresee()
	clear(f.sent)
	for i := range f.arcs {
		f.look(i)
		f.policy.move(i, f.costs)
		f.send(i, 1)
	}
	f.work(f.row(f.arrivals, 0), f.row(f.arrivals, 1), f.row(f.signals, 1))
	f.advance()
	f.steps++
	f.account.add(f)
}

// change applies what happens now.
func (f *fluid) change() {
	for len(f.Changes) > 0 && f.Changes[0].AtS <= f.nowS()+1e-9 {
		f.rateHz[f.Changes[0].Frontend] = f.Changes[0].RateHz
		f.Changes = f.Changes[1:]
	}
	for _, o := range f.outages {
		if f.steps == o.from {
			f.down[o.region] = true
			f.account.lose(f.inside[o.region])
			f.inside[o.region], f.leaving[o.region] = 0, 0
		}
		if f.steps == o.to {
			f.down[o.region] = false
		}
	}
}

// foresee continues the signals by one step in a straight line, for arcs whose
// delay is less than half a step.
func (f *fluid) foresee() {
	before, now, next := f.row(f.signals, -1), f.row(f.signals, 0), f.row(f.signals, 1)
	for j := range next {
		next[j] = 2*now[j] - before[j]
	}
}

// look fills costs with what frontend i sees of the regions: +Inf is down.
func (f *fluid) look(i int) {
	a, b := &f.arcs[i], len(f.costs)
	first := f.now * b
	for j, at := range a.read[:b] {
		k := first + int(at.offset)
		v := f.signals[k]
		f.costs[j] = v + (f.signals[k+b]-v)*float64(at.part)
	}
	for _, o := range f.outages {
		late := int((f.DetectS + a.tauS[o.region]) / f.StepS)
		if s := f.steps - late; a.tauS[o.region] < math.MaxFloat64 && s >= o.from && s < o.to {
			f.costs[o.region] = math.Inf(1)
		}
	}
}

// send puts what frontend i sends some steps after now where it arrives.
func (f *fluid) send(i, after int) {
	a, b, rate := &f.arcs[i], len(f.inside), f.rateHz[i]
	first := (f.now + after) * b
	a.used = a.used[:0]
	for j, share := range f.shares[i] {
		if share == 0 {
			continue
		}
		a.used = append(a.used, int32(j))
		v, at := rate*share, a.write[j]
		k, later := first+int(at.offset), v*float64(at.part)
		f.arrivals[k] += v - later
		f.arrivals[k+b] += later
		f.sent[j] += v
	}
}

// work is Heun's step of the workloads.
func (f *fluid) work(now, next, signals []float64) {
	for j, n := range f.inside {
		if f.down[j] {
			f.account.lose((now[j] + next[j]) / 2 * f.StepS)
		} else {
			c := f.curves[j]
			slope := now[j] - f.leaving[j]
			guess := max(0, n+f.StepS*slope)
			f.inside[j] = max(0, n+f.StepS/2*(slope+next[j]-c.RateHz(guess)))
			f.leaving[j] = c.RateHz(f.inside[j])
		}
		signals[j] = f.policy.signal(j, f.inside[j])
	}
}

// result collects the figures.
func (f *fluid) result() *FluidResult {
	r := f.account.result(f)
	r.Policy, r.StepS, r.Workloads = f.Policy, f.StepS, f.inside
	for _, x := range f.shares {
		r.Shares = append(r.Shares, slices.Clone(x))
	}
	return r
}
