package router

import (
	"math"
	"math/rand/v2"
)

// learner is Schaerf, Shoham and Tennenholtz 1995 (arXiv cs/9505102) as the
// literature retells it: the efficiency e_j is the smoothed time over the smoothed
// work (a smoothed ratio would be ruled by the smallest requests) and j is drawn in
// proportion to e_j^-n. A small n explores, a large one exploits.
type learner struct {
	power   float64
	timeS   []float64
	work    []float64
	samples []float64
	weights []float64
}

// learnerWeight is the weight of a new sample in the long run.
const learnerWeight = 0.3

func newLearner(in PolicyInput) (Policy, error) {
	n := in.Regions
	return &learner{power: in.Argument, timeS: make([]float64, n), work: make([]float64, n),
		samples: make([]float64, n), weights: make([]float64, n)}, nil
}

func (p *learner) Observe(o Outcome) {
	j, z := o.Region, o.LatencyS
	if !o.OK { // a failure is worth ten times what the region has cost so far
		z = 10 * max(z, p.timeS[j])
	}
	p.samples[j]++
	w := learnerWeight + (1-learnerWeight)/p.samples[j]
	p.timeS[j] += w * (z - p.timeS[j])
	p.work[j] += w * (o.Work - p.work[j])
}

// efficiency is the time per unit of work in region j, which was tried.
func (p *learner) efficiency(j int) float64 {
	if p.work[j] <= 0 {
		return p.timeS[j]
	}
	return p.timeS[j] / p.work[j]
}

func (p *learner) Pick(_ Request, v *View, rng *rand.Rand) int {
	mean, known := 0.0, 0.0
	for j, n := range p.samples {
		if n > 0 && v.Usable[j] {
			mean += p.efficiency(j)
			known++
		}
	}
	if known == 0 {
		return uniform(v.Usable, rng)
	}
	mean /= known
	for j, n := range p.samples {
		e := mean
		if n > 0 {
			e = p.efficiency(j)
		}
		p.weights[j] = math.Pow(max(e, 1e-9*mean)/mean, -p.power)
	}
	return draw(v.Usable, p.weights, rng)
}

// regret is modified regret matching with a constant step (Hart and Mas-Colell's
// procedure for unknown games, as S14 states it): the average gain from having
// played k wherever j was played is estimated by importance weighting, and the
// next choice leaves the last one in proportion to it.
type regret struct {
	step    float64
	gains   []float64 // Q(j,k), row by row
	chances []float64 // the next draw
	history []float64 // the chances of the last picks, a ring of rows
	seqs    []uint64  // whose they are, +1; 0 = free
	scaleS  float64   // a running maximum-like scale of latency
}

const (
	regretExplore = 0.05
	regretRing    = 1024
)

func newRegret(in PolicyInput) (Policy, error) {
	n := in.Regions
	p := &regret{step: in.Argument, gains: make([]float64, n*n), chances: make([]float64, n),
		history: make([]float64, regretRing*n), seqs: make([]uint64, regretRing)}
	for j := range p.chances {
		p.chances[j] = 1 / float64(n)
	}
	return p, nil
}

func (p *regret) Pick(r Request, v *View, rng *rand.Rand) int {
	n, slot := len(p.chances), int(r.Seq%regretRing)
	row, sum := p.history[slot*n:(slot+1)*n], 0.0
	for j, ok := range v.Usable {
		row[j] = 0
		if ok {
			row[j] = p.chances[j]
			sum += row[j]
		}
	}
	if sum <= 0 {
		return uniform(v.Usable, rng)
	}
	for j := range row {
		row[j] /= sum
	}
	p.seqs[slot] = r.Seq + 1
	return draw(v.Usable, row, rng)
}

// Observe updates with the chances at the time of the pick; an outcome whose
// chances were overwritten is too old to count.
func (p *regret) Observe(o Outcome) {
	n, slot := len(p.chances), int(o.Seq%regretRing)
	if p.seqs[slot] != o.Seq+1 {
		return
	}
	p.seqs[slot] = 0
	row, a := p.history[slot*n:(slot+1)*n], o.Region
	v := p.utility(o)
	for j := range n {
		for k := range n {
			if j == k {
				continue
			}
			gain := 0.0
			switch {
			case a == k && row[k] > 0:
				gain = v * row[j] / row[k]
			case a == j:
				gain = -v
			}
			q := &p.gains[j*n+k]
			*q += p.step * (gain - *q)
		}
	}
	p.choose(a)
}

// utility is -latency over a scale, in [-1, 0]. The scale is four times the
// smoothed latency, so that the usual range is used and outliers are clipped.
func (p *regret) utility(o Outcome) float64 {
	if p.scaleS == 0 {
		p.scaleS = 4 * o.LatencyS
	}
	p.scaleS += 0.01 * (4*o.LatencyS - p.scaleS)
	if !o.OK || p.scaleS <= 0 {
		return -1
	}
	return max(-1, -o.LatencyS/p.scaleS)
}

func (p *regret) choose(a int) {
	n := len(p.chances)
	if n == 1 {
		return
	}
	most := 2 * float64(n-1)
	rest := 1.0
	for k := range p.chances {
		if k == a {
			continue
		}
		p.chances[k] = (1-regretExplore)*min(max(p.gains[a*n+k], 0)/most, 1/float64(n-1)) + regretExplore/float64(n)
		rest -= p.chances[k]
	}
	p.chances[a] = rest
}

// bandit explores a fixed part of the time and else takes the least smoothed
// latency.
type bandit struct {
	explore  float64
	estimate []float64
	tried    []bool
}

const banditWeight = 0.1

func newBandit(in PolicyInput) (Policy, error) {
	return &bandit{explore: in.Argument, estimate: make([]float64, in.Regions), tried: make([]bool, in.Regions)}, nil
}

func (p *bandit) Observe(o Outcome) {
	j, z := o.Region, o.LatencyS
	if !o.OK {
		z = 10 * max(z, p.estimate[j])
	}
	if !p.tried[j] {
		p.tried[j], p.estimate[j] = true, z
		return
	}
	p.estimate[j] += banditWeight * (z - p.estimate[j])
}

// Pick takes an untried region first, since its estimate is 0.
func (p *bandit) Pick(_ Request, v *View, rng *rand.Rand) int {
	if rng.Float64() < p.explore {
		return uniform(v.Usable, rng)
	}
	return leastOf(v.Usable, rng, func(j int) float64 { return p.estimate[j] })
}
