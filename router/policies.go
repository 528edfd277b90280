package router

import (
	"math"
	"math/rand/v2"
	"slices"
)

type random struct{ base }

func newRandom(PolicyInput) (Policy, error) { return random{}, nil }

func (random) Pick(_ Request, v *View, rng *rand.Rand) int { return uniform(v.Usable, rng) }

type roundRobin struct {
	base
	next int
}

func newRR(PolicyInput) (Policy, error) { return &roundRobin{}, nil }

func (p *roundRobin) Pick(_ Request, v *View, _ *rand.Rand) int {
	for range v.Usable {
		j := p.next % len(v.Usable)
		p.next = j + 1
		if v.Usable[j] {
			return j
		}
	}
	return -1
}

// smooth is smooth weighted round robin as nginx does it: add each weight to its
// current value, pick the largest, take the total from it. An effective weight
// falls by a third of the weight with each failure and recovers by a tenth with
// each pick.
//
// Where weights are planned shares, what they lack to 1 is shed: that is one more
// weight behind those of the regions.
type smooth struct {
	weights, effective, current []float64
}

func newSmooth(weights []float64) *smooth {
	return &smooth{slices.Clone(weights), slices.Clone(weights), make([]float64, len(weights))}
}

func newSmoothShares(shares []float64) *smooth {
	s := newSmooth(append(slices.Clone(shares), 0))
	s.setShares(shares)
	return s
}

// setShares is setWeights with what is shed behind.
func (s *smooth) setShares(shares []float64) {
	n := len(shares)
	shed := rest(shares)
	s.setWeights(shares)
	if s.weights[n], s.effective[n] = shed, shed; shed == 0 {
		s.current[n] = 0
	}
}

// setWeights keeps the current values, scaled by the change of the total, so that
// new weights do not restart the cycle.
func (s *smooth) setWeights(weights []float64) {
	before, after := 0.0, 0.0
	for j, w := range weights {
		before += s.weights[j]
		after += w
	}
	for j, w := range weights {
		health := 1.0
		if s.weights[j] > 0 {
			health = s.effective[j] / s.weights[j]
		}
		s.weights[j], s.effective[j] = w, w*health
		if before > 0 {
			s.current[j] *= after / before
		}
		if w == 0 {
			s.current[j] = 0
		}
	}
}

func (s *smooth) pick(usable []bool, rng *rand.Rand) int {
	best, total := -1, 0.0
	for j, w := range s.weights {
		if w == 0 || j < len(usable) && !usable[j] {
			continue
		}
		s.current[j] += s.effective[j]
		total += s.effective[j]
		s.effective[j] = min(s.weights[j], s.effective[j]+s.weights[j]/10)
		if best < 0 || s.current[j] > s.current[best]+1e-12*s.weights[j] { // rounding is no reason to leave the lowest index
			best = j
		}
	}
	if best < 0 {
		return uniform(usable, rng)
	}
	if s.current[best] -= total; best >= len(usable) {
		return -1
	}
	return best
}

func (s *smooth) Observe(o Outcome) {
	if !o.OK {
		s.effective[o.Region] = max(0, s.effective[o.Region]-s.weights[o.Region]/3)
	}
}

type weightedRR struct{ *smooth }

func newSWRR(in PolicyInput) (Policy, error) { return weightedRR{newSmooth(in.CapacityHz)}, nil }

func (p weightedRR) Pick(_ Request, v *View, rng *rand.Rand) int { return p.pick(v.Usable, rng) }

// proportional draws by fixed weights; split is the same with planned ones.
type proportional struct {
	base
	weights []float64
}

func newProportional(in PolicyInput) (Policy, error) {
	return &proportional{weights: in.CapacityHz}, nil
}

func (p *proportional) Pick(_ Request, v *View, rng *rand.Rand) int {
	return draw(v.Usable, p.weights, rng)
}

type split struct {
	proportional
	frontend int
	shed     float64
}

func newSplit(in PolicyInput) (Policy, error) {
	p := &split{frontend: in.Frontend}
	p.SetPlan(in.Plan)
	return p, nil
}

func (p *split) SetPlan(plan *Plan) {
	p.weights = plan.Frontends[p.frontend].Shares
	p.shed = rest(p.weights)
}

func (p *split) Pick(r Request, v *View, rng *rand.Rand) int {
	if p.shed > 0 && rng.Float64() < p.shed {
		return -1
	}
	return p.proportional.Pick(r, v, rng)
}

// planned interleaves the planned shares: with the same shares it spaces the
// requests of a region more evenly than drawing does, so they wait less.
type planned struct {
	*smooth
	frontend int
}

func newPlanned(in PolicyInput) (Policy, error) {
	return planned{newSmoothShares(in.Plan.Frontends[in.Frontend].Shares), in.Frontend}, nil
}

func (p planned) Pick(_ Request, v *View, rng *rand.Rand) int { return p.pick(v.Usable, rng) }

func (p planned) SetPlan(plan *Plan) { p.setShares(plan.Frontends[p.frontend].Shares) }

// hashed is the rendezvous choice of Table.Pick over the planned shares. Its keys
// are the region numbers, so it agrees with itself in every frontend and process.
type hashed struct {
	base
	frontend   int
	candidates []candidate
}

func newHashed(in PolicyInput) (Policy, error) {
	p := &hashed{frontend: in.Frontend, candidates: make([]candidate, in.Regions+1)} // the last sheds
	for j := range p.candidates {
		p.candidates[j] = candidate{region: j, seed: mix(uint64(j) + 1)}
	}
	p.SetPlan(in.Plan)
	return p, nil
}

func (p *hashed) SetPlan(plan *Plan) {
	for j, s := range plan.Frontends[p.frontend].Shares {
		p.candidates[j].weight = s
	}
	p.candidates[len(p.candidates)-1].weight = rest(plan.Frontends[p.frontend].Shares)
}

func (p *hashed) Pick(r Request, v *View, rng *rand.Rand) int {
	best, least := -1, math.Inf(1)
	for _, c := range p.candidates {
		if c.weight > 0 && (c.region == len(v.Usable) || v.Usable[c.region]) {
			if s := c.score(r.Key); s < least {
				best, least = c.region, s
			}
		}
	}
	if best == len(v.Usable) {
		return -1
	}
	if best < 0 {
		return uniform(v.Usable, rng)
	}
	return best
}

type nearest struct {
	base
	tau []float64
}

func newNearest(in PolicyInput) (Policy, error) { return &nearest{tau: in.OneWayS}, nil }

func (p *nearest) Pick(_ Request, v *View, rng *rand.Rand) int {
	return leastOf(v.Usable, rng, func(j int) float64 { return p.tau[j] })
}

// waterfall sends to the nearest region below the cap, the least utilised one
// where all are full.
type waterfall struct {
	base
	tau    []float64
	curves []Curve
	full   float64
}

func newWaterfall(in PolicyInput) (Policy, error) {
	return &waterfall{tau: in.OneWayS, curves: in.Curves, full: in.Argument}, nil
}

func (p *waterfall) Pick(_ Request, v *View, rng *rand.Rand) int {
	j := leastOf(v.Usable, rng, func(j int) float64 {
		if utilisation(p.curves[j], v.Workload[j]) < p.full {
			return p.tau[j]
		}
		return math.Inf(1)
	})
	if j >= 0 && utilisation(p.curves[j], v.Workload[j]) < p.full {
		return j
	}
	return leastOf(v.Usable, rng, func(j int) float64 { return utilisation(p.curves[j], v.Workload[j]) })
}

// utilisation is the part of the capacity in use with the given workload.
func utilisation(s Curve, workload float64) float64 {
	if workload <= 0 {
		return 0
	}
	return s.RateHz(workload) / s.CapacityHz()
}

type leastConnections struct {
	base
	capacity []float64
}

func newLC(in PolicyInput) (Policy, error) { return &leastConnections{capacity: in.CapacityHz}, nil }

func (p *leastConnections) Pick(_ Request, v *View, rng *rand.Rand) int {
	return leastOf(v.Usable, rng, func(j int) float64 { return (v.Own[j] + 1) / p.capacity[j] })
}

// leastWork counts a request by its expected work, and the new one too, so that a
// long prompt is not taken for a short one.
type leastWork struct {
	base
	capacity []float64
}

func newLW(in PolicyInput) (Policy, error) { return &leastWork{capacity: in.CapacityHz}, nil }

func (p *leastWork) Pick(r Request, v *View, rng *rand.Rand) int {
	work := r.Work
	if work <= 0 {
		work = 1 // not known: a mean request
	}
	return leastOf(v.Usable, rng, func(j int) float64 { return (v.OwnWork[j] + work) / p.capacity[j] })
}

// shortestDelay is sed: the speed of a region is the inverse of its filtered
// seconds per unit of work. Only the ratio of the filter's two variances matters;
// a tenth of a new sample counts in the long run.
type shortestDelay struct {
	tau      []float64
	factor   float64
	estimate []float64 // seconds per unit of work
	variance []float64 // 0 = no sample yet
	prior    float64   // median of the estimates
	known    []float64 // scratch
}

const sedProcess, sedNoise = 0.01, 1.0

func newSED(in PolicyInput) (Policy, error) {
	n := in.Regions
	return &shortestDelay{tau: in.OneWayS, factor: in.NetworkFactor,
		estimate: make([]float64, n), variance: make([]float64, n), known: make([]float64, 0, n)}, nil
}

func (p *shortestDelay) Pick(_ Request, v *View, rng *rand.Rand) int {
	return leastOf(v.Usable, rng, func(j int) float64 {
		perWork := p.prior
		if p.variance[j] > 0 {
			perWork = p.estimate[j]
		}
		return p.factor*p.tau[j] + (v.Own[j]+1)*perWork
	})
}

func (p *shortestDelay) Observe(o Outcome) {
	if !o.OK || o.Work <= 0 {
		return
	}
	j, z := o.Region, max(0, o.LatencyS-2*p.tau[o.Region])/o.Work
	if p.variance[j] == 0 {
		p.estimate[j], p.variance[j] = z, sedNoise
	} else {
		v := p.variance[j] + sedProcess
		gain := v / (v + sedNoise)
		p.estimate[j] += gain * (z - p.estimate[j])
		p.variance[j] = v * (1 - gain)
	}
	p.known = p.known[:0]
	for k, v := range p.variance {
		if v > 0 {
			p.known = append(p.known, p.estimate[k])
		}
	}
	p.prior = median(p.known)
}

// powerOfD draws d distinct usable regions in proportion to capacity, since
// uniform drawing can overload the small ones, and takes the shortest expected
// delay by capacity.
type powerOfD struct {
	base
	d        int
	tau      []float64
	factor   float64
	capacity []float64
	left     []bool
}

func newPD(in PolicyInput) (Policy, error) {
	return &powerOfD{d: max(1, int(in.Argument)), tau: in.OneWayS, factor: in.NetworkFactor,
		capacity: in.CapacityHz, left: make([]bool, in.Regions)}, nil
}

func (p *powerOfD) Pick(_ Request, v *View, rng *rand.Rand) int {
	score := func(j int) float64 { return p.factor*p.tau[j] + (v.Workload[j]+1)/p.capacity[j] }
	usable := 0
	for _, ok := range v.Usable {
		if ok {
			usable++
		}
	}
	if usable <= p.d {
		return leastOf(v.Usable, rng, score)
	}
	copy(p.left, v.Usable)
	best, least := -1, math.Inf(1)
	for range p.d { // the order of drawing is random, so the first of equals will do
		j := draw(p.left, p.capacity, rng)
		p.left[j] = false
		if s := score(j); best < 0 || s < least {
			best, least = j, s
		}
	}
	return best
}

type shortestQueue struct{ base }

func newJSQ(PolicyInput) (Policy, error) { return shortestQueue{}, nil }

func (shortestQueue) Pick(_ Request, v *View, rng *rand.Rand) int {
	return leastOf(v.Usable, rng, func(j int) float64 { return v.Workload[j] })
}

// snapshot is a copy of the reported workloads that is renewed every ageS; 0
// means at every look.
type snapshot struct {
	ageS, takenS float64
	workload     []float64
	takenAge     float64
}

func newSnapshot(regions int, ageS float64) snapshot {
	return snapshot{ageS: ageS, takenS: math.Inf(-1), workload: make([]float64, regions)}
}

// look renews the snapshot where due and returns its own age, the greatest age of
// the reports in it included.
func (s *snapshot) look(v *View) float64 {
	if v.NowS-s.takenS >= s.ageS {
		s.takenS = v.NowS
		if s.ageS > 0 { // all frontends renew at the same moments, which is the worst case
			s.takenS = math.Floor(v.NowS/s.ageS) * s.ageS
		}
		copy(s.workload, v.Workload)
		s.takenAge = v.NowS - s.takenS
		for j, age := range v.AgeS {
			if v.Usable[j] && finite(age) {
				s.takenAge = max(s.takenAge, age)
			}
		}
	}
	return v.NowS - s.takenS + s.takenAge
}

type staleQueue struct {
	base
	seen snapshot
}

func newStaleJSQ(in PolicyInput) (Policy, error) {
	return &staleQueue{seen: newSnapshot(in.Regions, in.Argument)}, nil
}

func (p *staleQueue) Pick(_ Request, v *View, rng *rand.Rand) int {
	p.seen.look(v)
	return leastOf(v.Usable, rng, func(j int) float64 { return p.seen.workload[j] })
}

// interpreted repairs decisions on old reports: about A = demand x period
// requests arrive while one snapshot lives, so they are spread to fill the
// regions to a common level.
type interpreted struct {
	base
	seen     snapshot
	capacity []float64
	demand   float64
	filled   []float64
	forS     float64 // the snapshot that filled belongs to
	usable   []bool
}

func newInterpreted(in PolicyInput) (Policy, error) {
	return &interpreted{seen: newSnapshot(in.Regions, in.Argument), capacity: in.CapacityHz,
		demand: in.DemandHz, filled: make([]float64, in.Regions), forS: math.NaN(), usable: make([]bool, in.Regions)}, nil
}

func (p *interpreted) Pick(_ Request, v *View, rng *rand.Rand) int {
	age := p.seen.look(v)
	if p.seen.ageS > 0 {
		age = p.seen.ageS + p.seen.takenAge
	}
	if p.forS != p.seen.takenS || !slices.Equal(p.usable, v.Usable) {
		copy(p.usable, v.Usable)
		p.forS = p.seen.takenS
		FillLevel(p.filled, p.seen.workload, p.capacity, v.Usable, p.demand*age)
	}
	return draw(v.Usable, p.filled, rng)
}

// FillLevel fills dst with the shares in which an amount of arriving requests
// brings the usable regions to one level of requests per speed: the level L
// solves sum_j max(0, v_j L - n_j) = amount, and dst_j = max(0, v_j L -
// n_j)/amount. It returns L. Without an amount the shares belong to the regions
// at the least level. The slices are by region; speeds are above 0 where usable.
// This is the load-interpretation rule.
func FillLevel(dst, workload, speed []float64, usable []bool, amount float64) (level float64) {
	clear(dst)
	lowest := math.Inf(1)
	for j, ok := range usable {
		if ok {
			lowest = min(lowest, workload[j]/speed[j])
		}
	}
	if math.IsInf(lowest, 1) {
		return lowest
	}
	level = lowest
	for { // raise the level over one region after another
		sum, inside, next := 0.0, 0.0, math.Inf(1)
		for j, ok := range usable {
			if !ok {
				continue
			}
			if own := workload[j] / speed[j]; own <= level {
				sum += speed[j]
				inside += workload[j]
			} else {
				next = min(next, own)
			}
		}
		if l := (amount + inside) / sum; l <= next || math.IsInf(next, 1) {
			level = max(level, l)
			break
		}
		level = next
	}
	total := 0.0
	for j, ok := range usable {
		if ok {
			dst[j] = max(0, speed[j]*level-workload[j])
			total += dst[j]
		}
	}
	if total <= 0 {
		for j, ok := range usable {
			if ok && workload[j]/speed[j] <= level {
				dst[j] = speed[j]
				total += speed[j]
			}
		}
	}
	for j := range dst {
		dst[j] /= total
	}
	return level
}

// joinIdle keeps the newest tokens of free slots. A token is used once.
type joinIdle struct {
	base
	capacity []float64
	tokens   []idleToken
}

type idleToken struct {
	region   int
	expiresS float64
}

// mostTokens bounds the memory of a frontend that gets more tokens than requests.
const mostTokens = 4096

func newJIQ(in PolicyInput) (Policy, error) { return &joinIdle{capacity: in.CapacityHz}, nil }

func (p *joinIdle) ObserveIdle(region int, expiresS float64) {
	if len(p.tokens) == mostTokens {
		p.tokens = append(p.tokens[:0], p.tokens[mostTokens/2:]...)
	}
	p.tokens = append(p.tokens, idleToken{region, expiresS})
}

func (p *joinIdle) Pick(_ Request, v *View, rng *rand.Rand) int {
	for n := len(p.tokens); n > 0; n = len(p.tokens) {
		t := p.tokens[n-1]
		p.tokens = p.tokens[:n-1]
		if t.expiresS >= v.NowS && v.Usable[t.region] {
			return t.region
		}
	}
	return draw(v.Usable, p.capacity, rng)
}

// headroom draws in proportion to the spare capacity at the last poll, smoothed
// against flapping; by capacity where nothing is spare.
type headroom struct {
	base
	curves  []Curve
	pollS   float64
	nextS   float64
	weights []float64
	started bool
}

const headroomSmoothing = 0.3

func newHeadroom(in PolicyInput) (Policy, error) {
	return &headroom{curves: in.Curves, pollS: in.Argument, weights: make([]float64, in.Regions)}, nil
}

func (p *headroom) Pick(_ Request, v *View, rng *rand.Rand) int {
	if !p.started || v.NowS >= p.nextS {
		p.nextS = v.NowS + p.pollS
		p.poll(v)
	}
	return draw(v.Usable, p.weights, rng)
}

func (p *headroom) poll(v *View) {
	spare, keep := 0.0, 1-headroomSmoothing
	if !p.started {
		keep = 0
	}
	for j, s := range p.curves {
		w := s.CapacityHz() * max(0, 1-utilisation(s, v.Workload[j]))
		if v.Usable[j] {
			spare += w
		}
		p.weights[j] = keep*p.weights[j] + (1-keep)*w
	}
	if spare <= 0 {
		for j, s := range p.curves {
			p.weights[j] = s.CapacityHz()
		}
	}
	p.started = true
}

// greedy is the family that reads a cost off the reported workload and takes the
// least: latency, gmsr and marginal.
type greedy struct {
	base
	curves   []Curve
	costs    []Curve
	networkS []float64
	costS    func(serves, costs *Curve, workload float64) float64
}

// admission is marginal with a price: a request is shed while the least marginal
// cost and network are above it, and until they have come down to nine tenths.
type admission struct {
	greedy
	priceS   float64
	shedding bool
}

const admissionResume = 0.9

func newAdmission(in PolicyInput) (Policy, error) {
	p := &admission{greedy: *newGreedyOf(in, marginalCostS), priceS: in.Argument}
	if p.priceS == 0 {
		p.priceS = in.ShedPriceS
	}
	return p, nil
}

func (p *admission) Pick(r Request, v *View, rng *rand.Rand) int {
	j := p.greedy.Pick(r, v, rng)
	if j < 0 {
		return j
	}
	limit := p.priceS
	if p.shedding {
		limit *= admissionResume
	}
	if p.shedding = p.scoreS(v, j) > limit; p.shedding {
		return -1
	}
	return j
}

func newGreedy(in PolicyInput, costS func(serves, costs *Curve, workload float64) float64) (Policy, error) {
	return newGreedyOf(in, costS), nil
}

func newGreedyOf(in PolicyInput, costS func(serves, costs *Curve, workload float64) float64) *greedy {
	p := &greedy{curves: in.Curves, costs: in.Costs, networkS: make([]float64, in.Regions), costS: costS}
	for j, t := range in.OneWayS {
		p.networkS[j] = in.NetworkFactor * t
	}
	return p
}

func newLatency(in PolicyInput) (Policy, error) {
	return newGreedy(in, func(serves, _ *Curve, n float64) float64 { return (n + 1) / serves.RateHz(n+1) })
}

func newGMSR(in PolicyInput) (Policy, error) { return newGreedy(in, marginalCostS) }

func newMarginal(in PolicyInput) (Policy, error) { return newGreedy(in, marginalCostS) }

// marginalCostS is 1/l'(N), or the price of the objective at the rate l(N).
func marginalCostS(serves, costs *Curve, workload float64) float64 {
	if workload <= 0 {
		return costs.IdlePriceS()
	}
	return costs.PriceS(serves.RateHz(workload))
}

func (p *greedy) Pick(_ Request, v *View, rng *rand.Rand) int {
	return leastOf(v.Usable, rng, func(j int) float64 { return p.scoreS(v, j) })
}

func (p *greedy) scoreS(v *View, j int) float64 {
	return p.networkS[j] + p.costS(&p.curves[j], &p.costs[j], v.Workload[j])
}

// gradientDescent lets a DGD move the shares and interleaves them. It steps with
// the picks, every half round trip of its furthest region and no more often than
// every 0.2 s.
type gradientDescent struct {
	dgd       *DGD
	frontend  int
	intervalS float64
	nextS     float64
	signals   []Signal
	*smooth
}

const (
	leastDGDIntervalS  = 0.2
	leastDGDAveragingS = 5.0 // time constant, s: the requests inside a region of tens swing by chance within seconds
)

// furthestS is the greatest finite delay.
func furthestS(oneWayS []float64) float64 {
	most := 0.0
	for _, t := range oneWayS {
		if finite(t) {
			most = max(most, t)
		}
	}
	return most
}

func dgdTimes(oneWayS []float64) (averagingS, intervalS float64) {
	f := furthestS(oneWayS)
	return max(leastDGDAveragingS, 2*f), max(leastDGDIntervalS, f)
}

// dgdLoop is the slowest loop of the frontends of w. An exponential average delays
// by its time constant, a window by half its length.
func dgdLoop(w *World) Loop {
	var l Loop
	for i := range w.Frontends {
		tau := make([]float64, len(w.Regions))
		for j := range tau {
			tau[j], _ = w.OneWayS(i, j)
		}
		a, n := dgdTimes(tau)
		l.AveragingS, l.IntervalS = max(l.AveragingS, 2*a), max(l.IntervalS, n)
	}
	return l
}

func newDGDPolicy(in PolicyInput) (Policy, error) {
	averagingS, intervalS := dgdTimes(in.OneWayS)
	d := NewDGD(in.world, in.Frontend, DGDOptions{StepFraction: in.Argument, AveragingS: averagingS})
	p := &gradientDescent{dgd: d, frontend: in.Frontend, intervalS: intervalS, signals: make([]Signal, in.Regions)}
	p.SetPlan(in.Plan)
	p.smooth = newSmoothShares(d.Shares())
	return p, nil
}

func (p *gradientDescent) SetPlan(plan *Plan) {
	p.dgd.SetPlan(plan, p.frontend, plan.Frontends[p.frontend].EtaMax)
}

func (p *gradientDescent) Observe(Outcome) {}

func (p *gradientDescent) Pick(_ Request, v *View, rng *rand.Rand) int {
	if v.NowS >= p.nextS {
		p.nextS = v.NowS + p.intervalS
		for j := range p.signals {
			p.signals[j] = Signal{Workload: v.Workload[j], AtS: v.NowS - v.AgeS[j], Down: !v.Usable[j]}
		}
		p.setShares(p.dgd.Step(v.NowS, p.signals))
	}
	return p.pick(v.Usable, rng)
}
