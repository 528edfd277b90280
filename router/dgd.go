package router

import "math"

// Defaults of DGDOptions.
const (
	DefaultStepFraction = 0.25
	DefaultTrustArc     = 0.2
	DefaultTrustTotal   = 0.3
	DefaultIntervalS    = 1.0
	DefaultLostS        = 30.0
	DefaultQuietS       = 300.0
)

// DGDOptions tune a DGD. The zero value of each field asks for the default.
type DGDOptions struct {
	Eta float64 // step, in shares per second and second of price; 0 = StepFraction of the lesser of the bounds at SetPlan

	StepFraction float64 // DefaultStepFraction
	Loop         Loop    // delays beside those of the network; AveragingS below is added
	TrustArc     float64 // most that one share may differ from the plan's; DefaultTrustArc
	TrustTotal   float64 // most total variation (half the sum of differences) to the plan; DefaultTrustTotal

	// PriceCapS bounds the price in the gradient, in seconds; 0 = the price of
	// shedding, or without it the greatest price of a region at 99.99 % of its
	// capacity. Towards the capacity the price has no bound, and one such gradient
	// would throw all shares over.
	PriceCapS float64

	AveragingS float64 // time constant of the exponential average over prices; 0 = none
	IntervalS  float64 // between two reports of a region; DefaultIntervalS
	LostS      float64 // age from which a region's state is unknown; DefaultLostS
	QuietS     float64 // without oscillation, after which a halved step doubles; DefaultQuietS
}

// Signal is what a frontend knows of one region when it takes a step. The zero
// value is an idle region at time zero.
type Signal struct {
	Workload float64 // requests inside at AtS; a number that cannot be is as if the report were lost
	AtS      float64 // when the region counted them, on the clock of Step
	Down     bool    // known to be down: no share, whatever the rest says

	// Sent and AnsweredHz correct Workload for what this frontend did itself: the
	// requests that it sent after AtS less the one-way delay, which the region had
	// not seen, and the rate of answers that it gets from the region. The state that
	// a request sent now will meet is then
	//
	//	Workload + Sent - AnsweredHz (now + one-way - AtS)
	//
	// so in equilibrium the correction is 0 and the optimum stays where it is. Both 0
	// = no correction.
	Sent       float64
	AnsweredHz float64
}

// DGD is distributed gradient descent with delayed state (DGD-LB, arXiv
// 2504.10693) for one frontend. The approximate gradient of the mean latency in
// the share of region j is
//
//	g_j = 1/l_j'(N_j) + c_j
//
// the region's price at the workload last heard of, which is at least a one-way
// delay old, plus the cost of the arc; and the shares x follow the projection of
// -eta g on the tangent cone of the simplex at x. In discrete time that is the
// projection of x - eta dt g on the simplex, which has the same limit and cannot
// leave it. Frontends need not know of each other: where all follow the rule, the
// shares come to rest at the optimum of Solve. They do so only for a small enough
// eta (see EtaMax).
//
// Around the algorithm DGD has what the theory leaves out. Inside a trust region
// around the last plan; with no plan it runs free. Regions that report late are
// believed less: beyond three intervals their price moves to the plan's, and beyond
// LostS the share stays at the lesser of its last value and the region's part of
// the capacity. A region that is down loses its share to the others by price. An
// oscillation of the shares halves eta.
//
// It knows one class of requests, whose objective may be any; a limit on a region's
// rate acts through the price cap, and a least share not at all. A DGD reads no
// clock and allocates nothing in a step. It is not safe for
// concurrent use.
type DGD struct {
	opts     DGDOptions
	services []Curve   // how fast the regions work
	curves   []Curve   // what that costs, as the objective counts it
	arcS     []float64 // cost of the arcs, then that of shedding; +Inf where not allowed
	oneWayS  []float64
	capacity []float64 // part of the capacity of the allowed regions
	capS     float64

	x         []float64 // shares by region, then what is shed
	y         []float64 // scratch
	low, high []float64 // scratch: bounds of x
	pricesS   []float64 // by region, averaged; NaN = not heard of; +Inf = down or not allowed
	held      []float64 // by region: the share while its state is unknown; NaN = it is known

	hasPlan bool
	planned []float64 // shares of the plan, as x
	planS   []float64 // prices of the plan
	etaMax  float64

	nowS      float64
	started   bool
	damping   float64
	dampedAtS float64
	swings    []swing
}

// NewDGD is the controller of frontend i of a valid world. It starts with shares
// in proportion to capacity.
func NewDGD(w *World, i int, opts DGDOptions) *DGD {
	b := len(w.Regions)
	d := &DGD{
		opts: opts.withDefaults(), services: make([]Curve, b), curves: make([]Curve, b), oneWayS: make([]float64, b),
		arcS: make([]float64, b+1), capacity: make([]float64, b), capS: opts.PriceCapS,
		x: make([]float64, b+1), pricesS: make([]float64, b), y: make([]float64, b+1),
		low: make([]float64, b+1), high: make([]float64, b+1), held: make([]float64, b),
		planned: make([]float64, b+1), planS: make([]float64, b), swings: make([]swing, b), damping: 1,
	}
	sum := 0.0
	for j, r := range w.Regions {
		d.services[j], d.curves[j] = r.Service.Curve(), w.Curve(j)
		d.arcS[j], d.held[j], d.pricesS[j] = w.ArcS(i, j), math.NaN(), math.Inf(1)
		if t, ok := w.OneWayS(i, j); ok {
			d.oneWayS[j], d.pricesS[j], d.capacity[j] = t, math.NaN(), d.curves[j].CapacityHz()
			sum += d.capacity[j]
		}
	}
	for j := range d.capacity {
		d.capacity[j] /= sum
	}
	copy(d.x, d.capacity)
	d.arcS[b] = math.Inf(1)
	if s := w.Objective.Shed; s != nil {
		d.arcS[b] = s.PriceS
	}
	if d.capS == 0 {
		d.capS = d.defaultCapS()
	}
	return d
}

// cappedUtilisation is where a region's price is the cap, unless something else
// bounds it.
const cappedUtilisation = 0.9999

func (d *DGD) defaultCapS() float64 {
	if shed := d.arcS[len(d.curves)]; !math.IsInf(shed, 1) {
		return shed
	}
	most := 0.0
	for j, c := range d.curves {
		if !math.IsInf(d.arcS[j], 1) {
			most = max(most, c.PriceS(cappedUtilisation*c.CapacityHz()))
		}
	}
	return most
}

func (o DGDOptions) withDefaults() DGDOptions {
	for _, f := range []struct {
		value     *float64
		otherwise float64
	}{
		{&o.StepFraction, DefaultStepFraction}, {&o.TrustArc, DefaultTrustArc}, {&o.TrustTotal, DefaultTrustTotal},
		{&o.IntervalS, DefaultIntervalS}, {&o.LostS, DefaultLostS}, {&o.QuietS, DefaultQuietS},
	} {
		if *f.value == 0 {
			*f.value = f.otherwise
		}
	}
	return o
}

// Shares are the present shares by region; what they lack to 1 is shed. The slice
// belongs to d and changes with the next step.
func (d *DGD) Shares() []float64 { return d.x[:len(d.pricesS)] }

// Eta is the present step, in shares per second and second of price. It is 0 where
// neither the options nor SetPlan have given one, or nothing delays the loop.
func (d *DGD) Eta() float64 {
	if d.opts.Eta != 0 {
		return d.opts.Eta * d.damping
	}
	if math.IsInf(d.etaMax, 1) {
		return 0
	}
	return d.opts.StepFraction * d.etaMax * d.damping
}

// Damping is the factor on the step that the oscillation detector has come to: 1,
// 1/2, 1/4 and so on.
func (d *DGD) Damping() float64 { return d.damping }

// SetShares replaces the shares, by region. They must not be negative or sum to
// more than 1; what they lack to 1 is shed, which needs a world that sheds.
func (d *DGD) SetShares(shares []float64) {
	copy(d.x, shares)
	d.x[len(shares)] = rest(shares)
}

// rest is what shares lack to 1, without what is rounding.
func rest(shares []float64) float64 {
	left := 1.0
	for _, x := range shares {
		left -= x
	}
	if left < smallShare {
		return 0
	}
	return left
}

// SetPlan makes row i of the plan p the centre of the trust region and takes its
// prices, which are those of every region. The shares jump to the first plan; after
// that they move.
//
// etaMax is what EtaMax says, at best for the delays of the caller's loop. It holds
// near the plan, with the arcs that the plan uses. Further away more frontends may
// split, over longer arcs, and oscillate for ever where the plan would be stable;
// so the step is bounded too by what is sufficient with any arcs in use.
func (d *DGD) SetPlan(p *Plan, i int, etaMax float64) {
	shares := p.Frontends[i].Shares
	copy(d.planned, shares)
	d.planned[len(shares)] = rest(shares)
	for j, r := range p.Regions {
		d.planS[j] = r.PriceS
	}
	if !d.hasPlan {
		copy(d.x, d.planned)
	}
	d.hasPlan, d.etaMax = true, min(etaMax, d.safeEta(p))
}

// safeEta is the sufficient bound of EtaMax where all frontends split between all
// regions at the workloads of the plan.
func (d *DGD) safeEta(p *Plan) float64 {
	extra := (d.opts.Loop.ExtraS() + d.opts.AveragingS) / 2
	row := linearRow{n: 2, arcs: make([]linearArc, 0, len(d.curves))}
	l := linear{make([]float64, len(d.curves)), make([]float64, len(d.curves)), make([]float64, len(d.curves)), []linearRow{row}}
	demand := 0.0
	for _, f := range p.Frontends {
		demand += f.RateHz
	}
	for j, c := range d.curves {
		if !math.IsInf(d.arcS[j], 1) {
			l.slope[j], l.stiffness[j] = lineariseRegion(d.services[j], c, p.Regions[j].RateHz)
			l.split[j] = demand
			l.rows[0].arcs = append(l.rows[0].arcs, linearArc{j, d.oneWayS[j] + extra})
		}
	}
	return l.sufficient()[0]
}

// DropPlan forgets the last plan: there is no trust region any more. The step
// stays. For when the planner is lost: the algorithm converges without it.
func (d *DGD) DropPlan() { d.hasPlan = false }

// Step takes one step at nowS, which must not go back, with one signal per region,
// and returns the new shares as Shares does. The first step only starts the clock.
func (d *DGD) Step(nowS float64, signals []Signal) []float64 {
	dt := nowS - d.nowS
	if !d.started {
		dt, d.started, d.dampedAtS = 0, true, nowS
	}
	d.nowS = nowS
	// A step after a pause is no longer than one that the reports can support.
	dt = min(dt, staleIntervals*d.opts.IntervalS)
	bounded := d.hasPlan
	for j := range signals {
		s := &signals[j]
		if math.IsInf(d.arcS[j], 1) {
			continue
		}
		if s.Down {
			d.pricesS[j], d.held[j] = math.Inf(1), math.NaN()
			continue
		}
		age := nowS - s.AtS
		if n := s.Workload; !(n >= 0 && n <= math.MaxFloat64) {
			age = math.Inf(1) // nonsense is no news
		} else {
			d.average(j, d.believed(j, age, d.priceS(j, s)), dt)
		}
		bounded = d.hold(j, age) || bounded
	}
	d.leaveClosed(d.pricesS)
	d.descend(dt, d.pricesS, bounded)
	d.watch()
	return d.Shares()
}

// Descend takes a step of dtS seconds of the bare algorithm at the given prices,
// one per region: no ages, no trust region, no oscillation detector. A price of
// +Inf closes the region, whose share goes to the others. For simulators of the
// algorithm.
func (d *DGD) Descend(dtS float64, pricesS []float64) {
	d.leaveClosed(pricesS)
	d.descend(dtS, pricesS, false)
}

// priceS is 1/l'(N) at the workload that a request sent now will meet.
func (d *DGD) priceS(j int, s *Signal) float64 {
	n := s.Workload
	if s.Sent != 0 || s.AnsweredHz != 0 {
		n += s.Sent - s.AnsweredHz*(d.nowS+d.oneWayS[j]-s.AtS)
	}
	return min(d.curves[j].PriceS(d.services[j].RateHz(max(0, n))), d.capS)
}

// staleIntervals is the age, in intervals between reports, from which a report is
// late.
const staleIntervals = 3

// believed moves the price of a late report to that of the plan, all the way at
// LostS.
func (d *DGD) believed(j int, age, priceS float64) float64 {
	late := staleIntervals * d.opts.IntervalS
	if age <= late || !d.hasPlan || late >= d.opts.LostS {
		return priceS
	}
	w := min(1, (age-late)/(d.opts.LostS-late))
	return (1-w)*priceS + w*min(d.planS[j], d.capS)
}

// average takes the price into the exponential average. A region that was down, or
// never heard of, starts afresh.
func (d *DGD) average(j int, priceS, dt float64) {
	old := d.pricesS[j]
	if d.opts.AveragingS == 0 || math.IsNaN(old) || math.IsInf(old, 1) {
		d.pricesS[j] = priceS
		return
	}
	d.pricesS[j] += (1 - math.Exp(-dt/d.opts.AveragingS)) * (priceS - old)
}

// hold fixes the share of a region whose report is too old, and lets it go when a
// new one comes. It reports whether the share is fixed.
func (d *DGD) hold(j int, age float64) bool {
	if age <= d.opts.LostS {
		d.held[j] = math.NaN()
		return false
	}
	if math.IsNaN(d.held[j]) {
		d.held[j] = min(d.x[j], d.capacity[j])
	}
	return true
}

// leaveClosed empties the regions whose price is +Inf.
func (d *DGD) leaveClosed(pricesS []float64) {
	for j, p := range pricesS {
		if p > math.MaxFloat64 && d.x[j] > 0 {
			d.leave(j, pricesS)
		}
	}
}

// leave moves the share of region j to the others by price, in proportion to
// exp(-(g-min)/e) with e a tenth of the least gradient: in proportion to the shares
// it would go where the load was, and evenly, as the projection does it, also to
// the far end of the world.
func (d *DGD) leave(j int, pricesS []float64) {
	least := math.Inf(1)
	for k, c := range d.arcS {
		if d.y[k] = c; k < len(pricesS) {
			d.y[k] += pricesS[k]
		}
		if math.IsNaN(d.y[k]) {
			d.y[k] = math.Inf(1) // never heard of
		}
		least = min(least, d.y[k])
	}
	if math.IsInf(least, 1) {
		return // nothing is left, and this is as good as anything
	}
	const part, atLeastS = 0.1, 1e-9
	sum, e := 0.0, max(part*least, atLeastS)
	for k, g := range d.y {
		d.y[k] = math.Exp((least - g) / e)
		sum += d.y[k]
	}
	share := d.x[j]
	d.x[j] = 0
	for k, v := range d.y {
		d.x[k] += share * v / sum
	}
}

// descend is x <- the feasible point nearest to x - eta dt g.
func (d *DGD) descend(dtS float64, pricesS []float64, bounded bool) {
	b, rate := len(pricesS), d.Eta()*dtS
	if rate == 0 {
		return
	}
	x, y, arc := d.x[:b], d.y[:b], d.arcS[:b]
	sum, n := -1.0, 0.0
	for j, p := range pricesS {
		if p > d.capS && !math.IsInf(p, 1) {
			p = d.capS
		}
		y[j] = x[j] - rate*(p+arc[j])
		if x[j] > 0 {
			sum += y[j]
			n++
		}
	}
	d.y[b] = d.x[b] - rate*d.arcS[b]
	if d.x[b] > 0 {
		sum += d.y[b]
		n++
	}
	if bounded {
		d.projectBounded()
		return
	}
	// The regions in use are nearly those of the next shares.
	if start := sum / n; math.Abs(start) < farAway {
		cut(d.x, d.y, threshold(d.y, start))
	} else if d.open() {
		ProjectSimplex(d.x, d.y)
	}
}

// open reports whether any region, or shedding, is possible.
func (d *DGD) open() bool {
	for _, v := range d.y {
		if !math.IsInf(v, -1) {
			return true
		}
	}
	return false
}

// projectBounded keeps the shares in the trust region, held shares where they are
// and closed regions empty. It gives up the trust region where that leaves no
// shares that sum to 1, as when a region of the plan is down; where all shares are
// held, they are scaled to sum to 1.
func (d *DGD) projectBounded() {
	switch {
	case d.hasPlan && d.boundsWithin(d.opts.TrustArc):
		projectBox(d.x, d.y, d.low, d.high)
		d.pullBack()
	case d.boundsWithin(1):
		projectBox(d.x, d.y, d.low, d.high)
	default:
		sum := 0.0
		for _, v := range d.low {
			sum += v
		}
		if sum == 0 {
			return
		}
		for k, v := range d.low {
			d.x[k] = v / sum
		}
	}
}

// boundsWithin sets low and high for a trust region of the given half-width, and
// reports whether shares within can sum to 1.
func (d *DGD) boundsWithin(trust float64) bool {
	least, most := 0.0, 0.0
	for k, v := range d.y {
		d.low[k], d.high[k] = max(0, d.planned[k]-trust), min(1, d.planned[k]+trust)
		if math.IsInf(v, -1) {
			d.low[k], d.high[k] = 0, 0
		} else if k < len(d.held) && !math.IsNaN(d.held[k]) {
			d.low[k], d.high[k] = d.held[k], d.held[k]
		}
		least += d.low[k]
		most += d.high[k]
	}
	return least <= 1 && most >= 1
}

// pullBack scales the difference to the plan down to the total variation that is
// trusted, unless a share of the plan is out of reach.
func (d *DGD) pullBack() {
	total := 0.0
	for k, p := range d.planned {
		if p < d.low[k] || p > d.high[k] {
			return
		}
		total += math.Abs(d.x[k]-p) / 2
	}
	if total <= d.opts.TrustTotal {
		return
	}
	for k, p := range d.planned {
		d.x[k] = p + (d.x[k]-p)*d.opts.TrustTotal/total
	}
}

// The oscillation detector's constants.
const (
	swingBand      = 0.02     // a share that turns by less is noise
	swingReversals = 8        // in a row, of regular length and without decay, are an oscillation
	swingDecay     = 0.8      // least size of a swing relative to the one before
	swingStretch   = 1.5      // greatest ratio of the lengths of two neighbouring swings
	leastDamping   = 1. / 256 // the step is not halved below
)

// swing follows the turning points of one share. A share moves against its
// gradient's difference to the others, so a turning point is a change of sign of
// that difference; the band is what filters it.
type swing struct {
	up         bool
	extreme    float64 // furthest point in the present direction
	extremeAtS float64
	turn       float64 // the last turning point
	turnAtS    float64
	size       float64 // of the swing before that point
	lengthS    float64
	regular    int // swings in a row like the one before
}

// step takes the share x at nowS and returns the number of regular swings.
func (s *swing) step(x, nowS float64) int {
	if s.up && x >= s.extreme || !s.up && x <= s.extreme {
		s.extreme, s.extremeAtS = x, nowS
		return s.regular
	}
	if math.Abs(x-s.extreme) < swingBand {
		return s.regular
	}
	size, length := math.Abs(s.extreme-s.turn), s.extremeAtS-s.turnAtS
	if size >= swingBand && size >= swingDecay*s.size && length <= swingStretch*s.lengthS && s.lengthS <= swingStretch*length {
		s.regular++
	} else {
		s.regular = 0
	}
	s.turn, s.turnAtS, s.size, s.lengthS = s.extreme, s.extremeAtS, size, length
	s.up, s.extreme, s.extremeAtS = !s.up, x, nowS
	return s.regular
}

// watch halves the step where a share oscillates, and doubles it again after a
// long quiet time.
func (d *DGD) watch() {
	for j := range d.swings {
		if d.swings[j].step(d.x[j], d.nowS) < swingReversals {
			continue
		}
		clear(d.swings)
		d.damping, d.dampedAtS = max(d.damping/2, leastDamping), d.nowS
		return
	}
	if d.damping < 1 && d.nowS-d.dampedAtS >= d.opts.QuietS {
		d.damping, d.dampedAtS = 2*d.damping, d.nowS
	}
}
