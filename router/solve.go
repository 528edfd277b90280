package router

import (
	"fmt"
	"math"
	"slices"
)

// SolveOptions tune Solve; the zero value asks for the accurate optimum.
type SolveOptions struct {
	TargetGap float64 // relative duality gap to stop at; 0 means 1e-12, since rates are only as accurate as its root

	// SmoothingS is the least smoothing in seconds. Above 0 (about 1 ms) the shares
	// are unique and change smoothly with the input, so that ties do not flap, at
	// a cost of at most SmoothingS ln(regions) of mean latency; the gap may then
	// stay above the target.
	SmoothingS float64

	// Previous is the plan to stay near, for a world with the same frontends,
	// classes and regions. StickinessS prices the move, in seconds per request and
	// nat of the Kullback-Leibler divergence from its shares: it is a smoothing
	// around that plan instead of around equal shares. Where shedding is allowed, a
	// request that is refused is no move.
	Previous    *Plan
	StickinessS float64

	StartPricesS  []float64 // prices of an earlier plan, by region; nil = none
	MaxIterations int       // Newton steps; 0 means 2000
}

// smallShare is the share below which an arc is cleaned away: entropy smoothing
// never gives exact zeros.
const smallShare = 1e-9

// worstGap is the gap above which a plan is no plan: it happens where service
// parameters are many orders of magnitude apart.
const worstGap = 0.01

// Solve finds the optimal allocation of w to the target gap, or as near as
// rounding and MaxIterations allow: Plan.Gap says how near. The same input gives
// the same bits. The error is that of World.Validate, or says that no feasible
// allocation was found, which needs demand within rounding of capacity, or none with
// a gap of at most 1 %, which needs numbers many orders of magnitude apart.
//
// The method is Newton's on the dual in the prices, where the minimum over
// regions is smoothed by an entropy term e that falls step by step:
//
//	D_e(p) = sum_i lam_i softmin_e(c_ij + p_j) - sum_j N_j*(p_j)
//	softmin_e(c) = -e ln sum_j exp(-c_j/e)
//
// Its gradient is sum_i lam_i w_ij - r_j(p_j) with w the softmax of -(c+p)/e,
// and w is the allocation. It starts from the one price at which the regions
// together serve the demand, or from StartPricesS, all raised or lowered together
// until the regions serve the demand, and then with a small e. The gap is taken to
// the unsmoothed dual.
func Solve(w *World, opts SolveOptions) (*Plan, error) {
	q, err := w.problem()
	if err != nil {
		return nil, err
	}
	if n := len(opts.StartPricesS); n != 0 && n != len(w.Regions) {
		return nil, fmt.Errorf("solve: %d start prices for %d regions", n, len(w.Regions))
	}
	if p := opts.Previous; p != nil && !p.fits(w) {
		return nil, fmt.Errorf("solve: the previous plan is for other frontends, classes or regions")
	}
	return solve(q, opts)
}

func solve(q *problem, opts SolveOptions) (*Plan, error) {
	if opts.TargetGap == 0 {
		opts.TargetGap = 1e-12
	}
	if opts.MaxIterations == 0 {
		opts.MaxIterations = 2000
	}
	if opts.Previous != nil && opts.StickinessS > 0 {
		q.setPrior(opts.Previous)
		opts.SmoothingS = max(opts.SmoothingS, opts.StickinessS)
	}
	s := newSolver(q, opts)
	s.run()
	if s.bestShares == nil || s.bestPricesS == nil {
		return nil, fmt.Errorf("solve: no feasible allocation with a certificate found in %d steps: the demand is too near to the capacity, or the numbers are too far apart", s.iterations)
	}
	p := newPlan(q, s.clean(), s.bestPricesS)
	p.Iterations = s.iterations
	if p.Gap = relativeGap(p.Cost, s.lower); !finite(p.Cost) || !finite(p.Gap) {
		return nil, fmt.Errorf("solve: the cost is not finite after %d steps: the numbers of the world are too far apart", s.iterations)
	}
	if sticky := opts.Previous != nil && opts.StickinessS > 0; p.Gap > worstGap && !sticky { // stickiness costs, and the gap says how much
		return nil, fmt.Errorf("solve: the plan found in %d steps is only certified to a gap of %.2g: the numbers of the world are too far apart", s.iterations, p.Gap)
	}
	return p, nil
}

// LowerBound is the unsmoothed dual at any prices: no allocation of w costs less
// (in the unit of Plan.Cost). It certifies a plan without trusting Solve.
func LowerBound(w *World, pricesS []float64) float64 { return newProblem(w).lowerBound(pricesS) }

func relativeGap(cost, lower float64) float64 {
	if cost == 0 {
		return 0
	}
	return max(0, (cost-lower)/cost) // below 0 is rounding
}

// solver is the state of one run. The shed arc of a row has a constant price, so
// it is no variable of the dual.
type solver struct {
	*problem
	opts  SolveOptions
	floor []float64 // lower bounds of the prices: those of idle regions

	e          float64 // smoothing, seconds
	reach      float64 // cost above the least, in units of e, from which a softmax weight is taken as 0
	prices     []float64
	now, trial point
	iterations int

	bestCost    float64
	bestShares  []float64 // like point.shares; nil until a feasible allocation was seen
	lower       float64
	bestPricesS []float64

	hessian  []float64
	step     []float64
	gradient []float64
	active   []arc // of one row
}

// arc is one arc of the row at hand.
type arc struct {
	region int
	value  float64
}

// point is what one evaluation of the dual yields.
type point struct {
	dual      float64   // smoothed
	lower     float64   // unsmoothed
	arcs      float64   // cost of the shares on the arcs, refused requests included
	shares    []float64 // rows x regions, of the free part of a row
	arriving  []float64 // by region, work per second
	rates     []float64 // by region, r(p)
	slopes    []float64 // by region, dr/dp
	conjugate []float64 // by region, N*(p)
}

func newSolver(q *problem, opts SolveOptions) *solver {
	n, b := len(q.rows), len(q.curves)
	s := &solver{
		problem: q, opts: opts, floor: make([]float64, b),
		bestCost: math.Inf(1), lower: math.Inf(-1),
		hessian: make([]float64, b*b), step: make([]float64, b), gradient: make([]float64, b), active: make([]arc, 0, b),
	}
	for _, p := range []*point{&s.now, &s.trial} {
		p.shares, p.arriving = make([]float64, n*b), make([]float64, b)
		p.rates, p.slopes, p.conjugate = make([]float64, b), make([]float64, b), make([]float64, b)
	}
	for j, c := range q.curves {
		s.floor[j] = c.IdlePriceS()
	}
	// exp(-37) is below the rounding of 1; what the target does not see may be more
	s.reach = min(37, 10-math.Log(opts.TargetGap))
	s.prices = s.startPrices()
	return s
}

// startPrices is the warm start with one amount added to all prices such that the
// regions together serve the demand (water-filling by bisection). The cold start
// is the same from zero.
func (s *solver) startPrices() []float64 {
	prices := make([]float64, len(s.floor))
	copy(prices, s.opts.StartPricesS)
	demand, most := s.demand()
	least := math.Inf(1)
	for j := range prices {
		prices[j] = min(max(prices[j], 0), most)
		least = min(least, s.floor[j]-prices[j])
	}
	low, high := min(least, -slices.Max(prices)), slices.Max(s.floor)
	for k := 0; k < 200 && s.servedAt(prices, high) < demand && high < most; k++ {
		high *= 2
	}
	for range 60 {
		if mid := (low + high) / 2; s.servedAt(prices, mid) < demand {
			low = mid
		} else {
			high = mid
		}
	}
	for j := range prices {
		prices[j] = max(min(prices[j]+high, most), s.floor[j])
	}
	return prices
}

// demand is the work per second of all rows, in the region where it is least, and
// the greatest price that can matter: one at which every row sheds.
func (s *solver) demand() (workHz, mostS float64) {
	b := len(s.floor)
	for k, r := range s.rows {
		least := math.Inf(1)
		for j := range b {
			if !math.IsInf(s.arcS[k*b+j], 1) {
				least = min(least, s.workOf(k)[j])
			}
		}
		if r.rateHz > 0 && !math.IsInf(least, 1) {
			workHz += r.rateHz * least
			mostS = max(mostS, r.shedS/least)
		}
	}
	if mostS == 0 {
		mostS = math.Inf(1)
	}
	return workHz, mostS
}

func (s *solver) servedAt(prices []float64, more float64) float64 {
	sum := 0.0
	for j, c := range s.curves {
		sum += c.RateAtHz(prices[j] + more)
	}
	return sum
}

// shrink is the factor between two smoothings.
const shrink = 0.3

// run lowers the smoothing until the gap is small enough, nothing moves any
// more, or the smoothing is below what rounding lets one see.
func (s *solver) run() {
	const loose = 5e-5 // the target above which a cold start gets there directly
	warm := len(s.opts.StartPricesS) > 0
	if warm && s.runFrom(0.6, 0.006, 20) || !warm && s.opts.TargetGap >= loose && s.runFrom(1.2, 0.03, 40) {
		return
	}
	s.e = max(s.startSmoothing(), s.opts.SmoothingS)
	s.lowerSmoothing()
}

// runFrom starts at the smoothing that the target needs, or so many times of it,
// which is more than it takes to get back from small changes; a little above where
// that is tiny, since prices of an earlier world are not worth more; and no more
// than the given part of the spread, since the number of arcs with weight is what a
// step costs. It returns false, with the prices of a cold start, where Newton's
// method does not get there in so many steps.
func (s *solver) runFrom(times, part float64, steps int) bool {
	const worthGap = 5e-6
	demand, _ := s.demand()
	deserved := times * max(s.opts.TargetGap, worthGap) * math.Abs(s.lowerBound(s.prices)) / demand
	if spread := s.spreadS(); spread > 0 {
		deserved = min(deserved, part*spread)
	}
	if !(deserved > 0) {
		return false
	}
	s.e = max(deserved, s.opts.SmoothingS)
	if s.climb(s.e == s.opts.SmoothingS, steps) {
		s.lowerSmoothing()
		return true
	}
	s.opts.StartPricesS = nil
	s.prices = s.startPrices()
	return false
}

// lowerSmoothing goes on from the present smoothing.
func (s *solver) lowerSmoothing() {
	const steps = 100
	least := max(1e-13*slices.Max(s.prices), s.opts.SmoothingS)
	last := slices.Clone(s.prices)
	for {
		s.climb(s.e <= least, steps)
		if s.e <= least || s.done() {
			break
		}
		s.extrapolate(last)
		s.e = max(s.e*shrink, least)
	}
	if s.opts.SmoothingS > 0 {
		s.bestCost = math.Inf(1) // the smoothed optimum was asked for, not the cheapest allocation on the way
		s.record()
	}
}

func (s *solver) done() bool {
	if s.iterations >= s.opts.MaxIterations {
		return true
	}
	return s.opts.SmoothingS == 0 && s.bestShares != nil && relativeGap(s.bestCost, s.lower) <= s.opts.TargetGap
}

// startSmoothing is a fifth of the spread of costs on the arcs, and a small part
// of the price where there is none.
func (s *solver) startSmoothing() float64 { return max(0.2*s.spreadS(), 1e-4*slices.Max(s.prices)) }

// spreadS is the difference between the dearest and the cheapest arc.
func (s *solver) spreadS() float64 {
	least, most := math.Inf(1), 0.0
	for _, c := range s.arcS {
		if !math.IsInf(c, 1) {
			least, most = min(least, c), max(most, c)
		}
	}
	return max(0, most-least)
}

// extrapolate moves the prices on along the line that they followed at the last
// change of the smoothing, and remembers them in last. Near the end they are
// linear in e, so shares that split a tie stay put.
func (s *solver) extrapolate(last []float64) {
	for j, p := range s.prices {
		s.prices[j] = max(p+shrink*(p-last[j]), s.floor[j])
		last[j] = p
	}
}

// climb is the damped Newton method at one smoothing. The gap has two parts:
// what the smoothing costs, which only a smaller e lowers, and what regions lose
// by getting another rate than their price stands for, which the steps lower. It
// stops where the second is small beside the first, unless that one is final, or
// the target. It returns false where the steps did not suffice.
func (s *solver) climb(final bool, steps int) bool {
	s.evaluate(&s.now, s.prices)
	s.record()
	for range steps {
		smoothing, mismatch := s.gapParts()
		small := 0.1 * s.opts.TargetGap * math.Abs(s.now.dual)
		if !final {
			small += 0.1 * smoothing
		}
		if s.done() || mismatch <= small || !s.newtonStep() {
			return true
		}
		s.iterations++
		if !s.lineSearch() {
			return true
		}
		s.record()
	}
	return false
}

// gapParts splits the gap of the present shares and prices: by row, the cost at
// the prices above the least; by region, the Fenchel gap N(r) + N*(p) - p r.
func (s *solver) gapParts() (smoothing, mismatch float64) {
	smoothing = s.now.arcs - s.now.lower
	for j, c := range s.curves {
		rate, price, conjugate := s.now.arriving[j], s.prices[j], s.now.conjugate[j]
		smoothing += price*rate - conjugate
		mismatch += c.Workload(rate) + conjugate - price*rate
	}
	return smoothing, mismatch
}

// evaluate fills p at the given prices.
func (s *solver) evaluate(p *point, prices []float64) {
	p.dual, p.lower, p.arcs = 0, 0, 0
	clear(p.arriving)
	for k := range s.rows {
		s.evaluateRow(p, k, prices)
	}
	for j, c := range s.curves {
		r, slope := c.at(prices[j])
		conjugate := c.conjugateAt(prices[j], r)
		p.rates[j], p.slopes[j], p.conjugate[j] = r, slope, conjugate
		p.dual -= conjugate
		p.lower -= conjugate
	}
}

func (s *solver) evaluateRow(p *point, k int, prices []float64) {
	b := len(prices)
	r, cost, work, shares := &s.rows[k], s.arcS[k*b:k*b+b], s.workOf(k), p.shares[k*b:k*b+b]
	least := r.shedS
	work, prices = work[:len(cost)], prices[:len(cost)] // spares bounds checks
	for j, c := range cost {
		c += work[j] * prices[j]
		shares[j] = c
		if c < least {
			least = c
		}
	}
	if math.IsInf(least, 1) {
		clear(shares)
		return // no region is left and nothing may be shed; Replan gave it no demand
	}
	if r.base > 0 {
		s.addBase(p, k, prices)
	}
	shed := weight(r.shedS-least, s.e)
	sum, cut, sharp := shed, least+s.reach*s.e, 1/s.e
	for j, c := range shares {
		if c > cut {
			shares[j] = 0
			continue
		}
		x := math.Exp((least - c) * sharp)
		if s.prior != nil {
			x *= s.prior[k*b+j]
		}
		shares[j] = x
		sum += x
	}
	rate := r.rateHz * r.free
	if rate > 0 {
		p.lower += rate * least
		p.dual += rate * (least - s.e*math.Log(sum))
	}
	scale, arcs := 1/sum, 0.0
	for j, x := range shares {
		if x > 0 {
			x *= scale
			shares[j] = x
			p.arriving[j] += rate * work[j] * x
			arcs += x * cost[j]
		}
	}
	if shed > 0 {
		arcs += shed * scale * r.shedS
	}
	p.arcs += rate * arcs
}

// addBase counts the least share on every arc of row k.
func (s *solver) addBase(p *point, k int, prices []float64) {
	r, b := &s.rows[k], len(prices)
	rate := r.rateHz * r.base
	for j := range b {
		c, work := s.arcS[k*b+j], s.workOf(k)[j]
		if math.IsInf(c, 1) {
			continue
		}
		p.arriving[j] += rate * work
		p.arcs += rate * c
		p.lower += rate * (c + work*prices[j])
		p.dual += rate * (c + work*prices[j])
	}
}

// weight is the softmax weight of an arc so far above the least cost, in seconds;
// exp(-37) is below the rounding of 1.
func weight(aboveS, e float64) float64 {
	if aboveS > 37*e {
		return 0
	}
	return math.Exp(-aboveS / e)
}

// record keeps the best allocation and the best prices seen. Where a region gets
// more than the limit that it may reach, which prices enforce only in the end,
// the allocation is repaired first.
func (s *solver) record() {
	shares, arcs, arriving := s.now.shares, s.now.arcs, s.now.arriving
	if s.isOverLimit(arriving) {
		shares, arcs, arriving = s.repaired()
	}
	cost := arcs
	for j, c := range s.curves {
		cost += c.Workload(arriving[j])
	}
	if cost < s.bestCost {
		s.bestCost, s.bestShares = cost, append(s.bestShares[:0], shares...)
	}
	if s.now.lower > s.lower {
		s.lower, s.bestPricesS = s.now.lower, append(s.bestPricesS[:0], s.prices...)
	}
}

func (s *solver) isOverLimit(arriving []float64) bool {
	for j, c := range s.curves {
		if c.attained && c.isBeyond(arriving[j]) {
			return true
		}
	}
	return false
}

// repaired takes from every region above its limit what is too much, from all rows
// alike, and gives it to the other arcs of the same rows that still have room: to
// those in use by share and room, else by room. A few rounds do, since what is
// moved is little; what then is still too much is refused, or costs +Inf.
func (s *solver) repaired() (shares []float64, arcs float64, arriving []float64) {
	const rounds = 8
	b := len(s.curves)
	shares = slices.Clone(s.now.shares)
	arriving = slices.Clone(s.now.arriving)
	keep, room := make([]float64, b), make([]float64, b)
	for n := range rounds {
		for j, c := range s.curves {
			keep[j], room[j] = 1, max(0, c.limitHz-arriving[j])
			if c.attained && arriving[j] > c.limitHz {
				keep[j] = c.limitHz / arriving[j]
			}
		}
		for k := range s.rows {
			s.repairRow(k, shares[k*b:k*b+b], keep, room, n == rounds-1)
		}
		arcs, arriving = s.measure(shares)
		if !s.isOverLimit(arriving) {
			break
		}
	}
	return shares, arcs, arriving
}

func (s *solver) repairRow(k int, shares, keep, room []float64, last bool) {
	b, freed, used, open := len(shares), 0.0, 0.0, 0.0
	for j, x := range shares {
		shares[j] = x * keep[j]
		freed += x - shares[j]
		if !math.IsInf(s.arcS[k*b+j], 1) {
			used += shares[j] * room[j]
			open += room[j]
		}
	}
	mayShed := !math.IsInf(s.rows[k].shedS, 1)
	if freed == 0 || open == 0 || mayShed && (last || used == 0) {
		return // what is not placed is shed
	}
	for j := range shares {
		switch {
		case math.IsInf(s.arcS[k*b+j], 1):
		case used > 0:
			shares[j] += freed * shares[j] * room[j] / used
		default:
			shares[j] += freed * room[j] / open
		}
	}
}

// measure is the cost on the arcs and the load of the regions of given shares.
func (s *solver) measure(shares []float64) (arcs float64, arriving []float64) {
	b := len(s.curves)
	arriving = make([]float64, b)
	for k, r := range s.rows {
		placed := 0.0
		for j, x := range shares[k*b : k*b+b] {
			c := s.arcS[k*b+j]
			if math.IsInf(c, 1) {
				continue
			}
			rate := r.rateHz * (r.base + r.free*x)
			placed += x
			arriving[j] += rate * s.workOf(k)[j]
			arcs += rate * c
		}
		if !math.IsInf(r.shedS, 1) {
			arcs += r.rateHz * r.free * (1 - placed) * r.shedS
		}
	}
	return arcs, arriving
}

// newtonStep solves for the step in the prices; false where rounding has eaten
// the Hessian.
func (s *solver) newtonStep() bool {
	s.fillHessian()
	for j := range s.curves {
		s.gradient[j] = s.now.arriving[j] - s.now.rates[j]
		s.step[j] = s.gradient[j]
	}
	return solveCholesky(s.hessian, s.step)
}

// fillHessian makes the negative Hessian (lower triangle)
//
//	sum_i (lam_i/e)(diag(w_i) - w_i w_i^T) + diag(dr_j/dp_j),
//
// leaving out products with small weights, which keeps it positive definite. With
// work factors, w_i is multiplied by them on both sides.
func (s *solver) fillHessian() {
	const small = 1e-6
	b := len(s.curves)
	clear(s.hessian)
	for k, r := range s.rows {
		shares, work, scale := s.now.shares[k*b:k*b+b], s.workOf(k), r.rateHz*r.free/s.e
		s.active = s.active[:0]
		for j, x := range shares {
			if x == 0 {
				continue
			}
			v := work[j] * x
			s.hessian[j*b+j] += scale * work[j] * v * (1 - x)
			if x < small {
				continue
			}
			line, y := s.hessian[j*b:j*b+j], scale*v
			for _, a := range s.active {
				line[a.region] -= y * a.value
			}
			s.active = append(s.active, arc{j, v})
		}
	}
	for j, c := range s.curves {
		s.hessian[j*b+j] += s.bounded(c, j)
	}
}

// bounded is dr/dp between bounds that keep the Hessian regular: it is 0 from the
// limit of a curve on, and may be infinite where a curve starts.
func (s *solver) bounded(c Curve, j int) float64 {
	scale := c.limitHz / s.prices[j]
	return min(max(s.now.slopes[j], 1e-9*scale), 1e9*scale)
}

// lineSearch halves the step until it gains. A price falls by at most half in one
// step, for at a much lower price the curvature has nothing to do with the
// present one, and never below that of an idle region, where the dual is flat.
func (s *solver) lineSearch() bool {
	prices := make([]float64, len(s.prices))
	for t := 1.0; t > 1e-10; t /= 2 {
		expected := 0.0
		for j, p := range s.prices {
			prices[j] = max(p+t*s.step[j], p/2, s.floor[j])
			expected += s.gradient[j] * (prices[j] - p)
		}
		s.evaluate(&s.trial, prices)
		if expected > 0 && s.gains(prices, expected) {
			s.prices = prices
			s.now, s.trial = s.trial, s.now
			return true
		}
	}
	return false
}

// gains is Armijo's rule. Where the gain drowns in the rounding of the dual, the
// slope decides: it must have halved along the step.
func (s *solver) gains(prices []float64, expected float64) bool {
	noise := 1e-13 * math.Abs(s.now.dual)
	if s.trial.dual >= s.now.dual+1e-4*expected && expected > noise {
		return true
	}
	if s.trial.dual < s.now.dual-noise {
		return false
	}
	slope := 0.0
	for j := range s.curves {
		slope += (s.trial.arriving[j] - s.trial.rates[j]) * (prices[j] - s.prices[j])
	}
	return math.Abs(slope) <= expected/2
}

// clean is the best allocation row by row, the base share included, without the
// small shares, unless a region would thereby get more than its limit.
func (s *solver) clean() []float64 {
	if x := s.cleaned(smallShare); !s.isOverLimit(s.arrivingHz(x)) {
		return x
	}
	return s.cleaned(0)
}

func (s *solver) cleaned(least float64) []float64 {
	b := len(s.curves)
	x := slices.Clone(s.bestShares)
	for k, r := range s.rows {
		cleanRow(r, s.arcS[k*b:k*b+b], x[k*b:k*b+b], least)
	}
	return x
}

func cleanRow(r row, cost, x []float64, least float64) {
	kept, all := 0.0, 0.0
	for j, share := range x {
		all += share
		if share < least {
			x[j] = 0
		}
		kept += x[j]
	}
	if math.IsInf(r.shedS, 1) || all > 1-least {
		all = 1
	}
	for j := range x {
		if kept > 0 {
			x[j] *= all / kept
		}
		if x[j] *= r.free; !math.IsInf(cost[j], 1) {
			x[j] += r.base
		}
	}
}

// solveCholesky replaces v by the solution of A x = v, where a holds the lower
// triangle of the symmetric A row by row and is overwritten by its factor. It
// returns false where A is not positive definite.
func solveCholesky(a, v []float64) bool {
	n := len(v)
	for j := range n {
		row := a[j*n : j*n+j+1]
		for k := range j {
			other := a[k*n : k*n+k+1]
			sum := row[k]
			for l := range k {
				sum -= row[l] * other[l]
			}
			row[k] = sum / other[k]
		}
		pivot := row[j]
		for _, x := range row[:j] {
			pivot -= x * x
		}
		if !(pivot > 0) {
			return false
		}
		row[j] = math.Sqrt(pivot)
		for k := range j {
			v[j] -= row[k] * v[k]
		}
		v[j] /= row[j]
	}
	for j := n - 1; j >= 0; j-- {
		v[j] /= a[j*n+j]
		for k := range j {
			v[k] -= a[j*n+k] * v[j]
		}
	}
	return true
}
