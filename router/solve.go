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

	StartPricesS  []float64 // prices of an earlier plan, by region; nil = none
	MaxIterations int       // Newton steps; 0 means 2000
}

// smallShare is the share below which an arc is cleaned away: entropy smoothing
// never gives exact zeros.
const smallShare = 1e-9

// Solve finds the optimal allocation of w to the target gap, or as near as
// rounding and MaxIterations allow: Plan.Gap says how near. The same input gives
// the same bits. The error is that of World.Validate, or says that no feasible
// allocation was found, which needs demand within rounding of capacity.
//
// The method is Newton's on the dual in the prices, where the minimum over
// regions is smoothed by an entropy term e that falls step by step:
//
//	D_e(p) = sum_i lam_i softmin_e(c_ij + p_j) - sum_j N_j*(p_j)
//	softmin_e(c) = -e ln sum_j exp(-c_j/e)
//
// Its gradient is sum_i lam_i w_ij - r_j(p_j) with w the softmax of -(c+p)/e,
// and w is the allocation. It starts from the one price at which the regions
// together serve the demand. The gap is taken to the unsmoothed dual.
func Solve(w *World, opts SolveOptions) (*Plan, error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	if n := len(opts.StartPricesS); n != 0 && n != len(w.Regions) {
		return nil, fmt.Errorf("solve: %d start prices for %d regions", n, len(w.Regions))
	}
	return solve(w, opts)
}

func solve(w *World, opts SolveOptions) (*Plan, error) {
	if opts.TargetGap == 0 {
		opts.TargetGap = 1e-12
	}
	if opts.MaxIterations == 0 {
		opts.MaxIterations = 2000
	}
	s := newSolver(w, opts)
	s.run()
	if s.bestShares == nil {
		return nil, fmt.Errorf("solve: no feasible allocation found in %d steps: the demand is too near to the capacity", s.iterations)
	}
	p := newPlan(w, s.clean(), s.bestPricesS)
	p.Iterations = s.iterations
	p.Gap = relativeGap(p.Cost, s.lower)
	return p, nil
}

// LowerBound is the unsmoothed dual at any prices: no allocation of w costs less
// (in the unit of Plan.Cost). It certifies a plan without trusting Solve.
func LowerBound(w *World, pricesS []float64) float64 {
	bound := 0.0
	for i, f := range w.Frontends {
		least := math.Inf(1)
		if w.Objective.Shed != nil {
			least = w.Objective.Shed.PriceS
		}
		for j := range w.Regions {
			if c, ok := w.NetworkS(i, j); ok {
				least = min(least, c+pricesS[j])
			}
		}
		if f.RateHz > 0 {
			bound += f.RateHz * least
		}
	}
	for j, r := range w.Regions {
		bound -= r.Service.Conjugate(pricesS[j])
	}
	return bound
}

func relativeGap(cost, lower float64) float64 {
	if cost == 0 {
		return 0
	}
	return max(0, (cost-lower)/cost) // below 0 is rounding
}

// solver is the state of one run. Its own regions are the arcs of the dual; the
// shed arc has a constant price, so it is no variable of the dual.
type solver struct {
	w      *World
	opts   SolveOptions
	demand float64
	cost   []float64 // F x B network costs in seconds, +Inf where not allowed
	shedS  float64   // +Inf where nothing may be shed
	idle   []float64 // lower bounds of the prices

	e          float64 // smoothing, seconds
	prices     []float64
	now, trial point
	iterations int

	bestCost    float64
	bestShares  []float64 // F x B; nil until a feasible allocation was seen
	lower       float64
	bestPricesS []float64

	hessian  []float64
	step     []float64
	gradient []float64
}

// point is what one evaluation of the dual yields.
type point struct {
	dual     float64   // smoothed
	lower    float64   // unsmoothed
	network  float64   // network and shedding cost of the shares
	shares   []float64 // F x B
	arriving []float64 // by region
}

func newSolver(w *World, opts SolveOptions) *solver {
	f, b := len(w.Frontends), len(w.Regions)
	s := &solver{
		w: w, opts: opts, demand: w.DemandHz(), shedS: math.Inf(1),
		cost: make([]float64, f*b), idle: make([]float64, b),
		bestCost: math.Inf(1), lower: math.Inf(-1),
		hessian: make([]float64, b*b), step: make([]float64, b), gradient: make([]float64, b),
	}
	for _, p := range []*point{&s.now, &s.trial} {
		p.shares, p.arriving = make([]float64, f*b), make([]float64, b)
	}
	if w.Objective.Shed != nil {
		s.shedS = w.Objective.Shed.PriceS
	}
	for i := range w.Frontends {
		for j := range w.Regions {
			s.cost[i*b+j], _ = w.NetworkS(i, j)
		}
	}
	for j, r := range w.Regions {
		s.idle[j] = r.Service.IdlePriceS()
	}
	s.prices = s.startPrices()
	return s
}

// startPrices is the warm start, or the price at which the regions together
// serve the demand (water-filling by bisection), the same for all.
func (s *solver) startPrices() []float64 {
	prices := make([]float64, len(s.idle))
	if len(s.opts.StartPricesS) > 0 {
		for j, p := range s.opts.StartPricesS {
			prices[j] = max(p, s.idle[j])
		}
		return prices
	}
	low := slices.Min(s.idle)
	high := 2 * low
	for k := 0; k < 200 && s.servedAt(high) < s.demand && high < s.shedS; k++ {
		high *= 2
	}
	for range 60 {
		if mid := (low + high) / 2; s.servedAt(mid) < s.demand {
			low = mid
		} else {
			high = mid
		}
	}
	for j := range prices {
		prices[j] = max(min(high, s.shedS), s.idle[j])
	}
	return prices
}

func (s *solver) servedAt(priceS float64) float64 {
	sum := 0.0
	for _, r := range s.w.Regions {
		sum += r.Service.RateAtHz(priceS)
	}
	return sum
}

// shrink is the factor between two smoothings.
const shrink = 0.3

// run lowers the smoothing until the gap is small enough, nothing moves any
// more, or the smoothing is below what rounding lets one see.
func (s *solver) run() {
	s.e = max(s.startSmoothing(), s.opts.SmoothingS)
	floor := max(1e-13*slices.Max(s.prices), s.opts.SmoothingS)
	last := slices.Clone(s.prices)
	for {
		s.climb()
		if s.e <= floor || s.done() {
			return
		}
		s.extrapolate(last)
		s.e = max(s.e*shrink, floor)
	}
}

func (s *solver) done() bool {
	if s.iterations >= s.opts.MaxIterations {
		return true
	}
	return s.opts.SmoothingS == 0 && s.bestShares != nil && relativeGap(s.bestCost, s.lower) <= s.opts.TargetGap
}

// startSmoothing is a fifth of the spread of network costs, and a small part of
// the price where there is none.
func (s *solver) startSmoothing() float64 {
	least, most := math.Inf(1), 0.0
	for _, c := range s.cost {
		if !math.IsInf(c, 1) {
			least, most = min(least, c), max(most, c)
		}
	}
	return max(0.2*(most-least), 1e-4*slices.Max(s.prices))
}

// extrapolate moves the prices on along the line that they followed at the last
// change of the smoothing, and remembers them in last. Near the end they are
// linear in e, so shares that split a tie stay put.
func (s *solver) extrapolate(last []float64) {
	for j, p := range s.prices {
		s.prices[j] = max(p+shrink*(p-last[j]), s.idle[j])
		last[j] = p
	}
}

// climb is the damped Newton method at one smoothing. The gap has two parts:
// what the smoothing costs, which only a smaller e lowers, and what regions lose
// by getting another rate than their price stands for, which the steps lower. It
// stops where the second is small beside the first or the target.
func (s *solver) climb() {
	const most = 100
	s.evaluate(&s.now, s.prices)
	s.record()
	for range most {
		smoothing, mismatch := s.gapParts()
		small := 0.1*smoothing + 0.1*s.opts.TargetGap*math.Abs(s.now.dual)
		if s.done() || mismatch <= small || !s.newtonStep() {
			return
		}
		s.iterations++
		if !s.lineSearch() {
			return
		}
		s.record()
	}
}

// gapParts splits the gap of the present shares and prices: by frontend, the cost
// at the prices above the least; by region, the Fenchel gap N(r) + N*(p) - p r.
func (s *solver) gapParts() (smoothing, mismatch float64) {
	smoothing = s.now.network - s.now.lower
	for j, r := range s.w.Regions {
		rate, price := s.now.arriving[j], s.prices[j]
		conjugate := r.Service.Conjugate(price)
		smoothing += price*rate - conjugate
		mismatch += r.Service.Workload(rate) + conjugate - price*rate
	}
	return smoothing, mismatch
}

// evaluate fills p at the given prices.
func (s *solver) evaluate(p *point, prices []float64) {
	b := len(s.idle)
	p.dual, p.lower, p.network = 0, 0, 0
	clear(p.arriving)
	for i, f := range s.w.Frontends {
		s.evaluateFrontend(p, i*b, f.RateHz, prices)
	}
	for j, r := range s.w.Regions {
		c := r.Service.Conjugate(prices[j])
		p.dual -= c
		p.lower -= c
	}
}

// negligible is the cost above the least, in units of the smoothing, at which a
// softmax weight is taken as zero: exp(-45) is below the rounding of 1.
const negligible = 45

func (s *solver) evaluateFrontend(p *point, row int, rate float64, prices []float64) {
	cost, shares := s.cost[row:row+len(prices)], p.shares[row:row+len(prices)]
	least := s.shedS
	for j, c := range cost {
		least = min(least, c+prices[j])
	}
	if math.IsInf(least, 1) {
		return // no region is left and nothing may be shed; Replan gave it no demand
	}
	sum := weight(s.shedS-least, s.e)
	shed := sum
	for j, c := range cost {
		shares[j] = weight(c+prices[j]-least, s.e)
		sum += shares[j]
	}
	if rate > 0 {
		p.lower += rate * least
		p.dual += rate * (least - s.e*math.Log(sum))
	}
	for j := range shares {
		if shares[j] > 0 {
			shares[j] /= sum
			p.arriving[j] += rate * shares[j]
			p.network += rate * shares[j] * cost[j]
		}
	}
	if shed > 0 {
		p.network += rate * shed / sum * s.shedS
	}
}

func weight(aboveS, e float64) float64 {
	if aboveS > negligible*e {
		return 0
	}
	return math.Exp(-aboveS / e)
}

// record keeps the best allocation and the best prices seen.
func (s *solver) record() {
	cost := s.now.network
	for j, r := range s.w.Regions {
		cost += r.Service.Workload(s.now.arriving[j])
	}
	if cost < s.bestCost {
		s.bestCost, s.bestShares = cost, append(s.bestShares[:0], s.now.shares...)
	}
	if s.now.lower > s.lower {
		s.lower, s.bestPricesS = s.now.lower, append(s.bestPricesS[:0], s.prices...)
	}
}

// newtonStep solves for the step in the prices; false where rounding has eaten
// the Hessian.
func (s *solver) newtonStep() bool {
	s.fillHessian()
	for j, r := range s.w.Regions {
		s.gradient[j] = s.now.arriving[j] - r.Service.RateAtHz(s.prices[j])
		s.step[j] = s.gradient[j]
	}
	return solveCholesky(s.hessian, s.step)
}

// fillHessian makes the negative Hessian (lower triangle)
//
//	sum_i (lam_i/e)(diag(w_i) - w_i w_i^T) + diag(dr_j/dp_j),
//
// leaving out products with small weights, which keeps it positive definite.
func (s *solver) fillHessian() {
	const small = 1e-6
	b := len(s.idle)
	clear(s.hessian)
	for i, f := range s.w.Frontends {
		shares, scale := s.now.shares[i*b:(i+1)*b], f.RateHz/s.e
		for j, x := range shares {
			if x == 0 {
				continue
			}
			s.hessian[j*b+j] += scale * x * (1 - x)
			if x < small {
				continue
			}
			for k, y := range shares[:j] {
				if y >= small {
					s.hessian[j*b+k] -= scale * x * y
				}
			}
		}
	}
	for j, r := range s.w.Regions {
		s.hessian[j*b+j] += r.Service.RateSlope(s.prices[j])
	}
}

// lineSearch halves the step until it gains. A price falls by at most half in one
// step, for at a much lower price the curvature has nothing to do with the
// present one, and never below that of an idle region, where the dual is flat.
func (s *solver) lineSearch() bool {
	prices := make([]float64, len(s.prices))
	for t := 1.0; t > 1e-10; t /= 2 {
		expected := 0.0
		for j, p := range s.prices {
			prices[j] = max(p+t*s.step[j], p/2, s.idle[j])
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
	for j, r := range s.w.Regions {
		slope += (s.trial.arriving[j] - r.Service.RateAtHz(prices[j])) * (prices[j] - s.prices[j])
	}
	return math.Abs(slope) <= expected/2
}

// clean is the best allocation by frontend, without the small shares.
func (s *solver) clean() [][]float64 {
	b := len(s.idle)
	x := make([][]float64, len(s.w.Frontends))
	for i := range x {
		x[i] = slices.Clone(s.bestShares[i*b : (i+1)*b])
		kept, all := 0.0, 0.0
		for j, share := range x[i] {
			all += share
			if share < smallShare {
				x[i][j] = 0
			}
			kept += x[i][j]
		}
		if math.IsInf(s.shedS, 1) || all > 1-smallShare {
			all = 1
		}
		for j := range x[i] {
			if kept > 0 {
				x[i][j] *= all / kept
			}
		}
	}
	return x
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
