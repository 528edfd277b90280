package router_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/optimize"

	"strandline/router"
)

// flat is a world as arrays, for the methods that Solve is compared with.
type flat struct {
	rates  []float64
	curves []router.Curve
	arcS   []float64 // frontends x regions
}

func flatten(w *router.World) *flat {
	f := &flat{}
	for j := range w.Regions {
		f.curves = append(f.curves, w.Curve(j))
	}
	for i, fe := range w.Frontends {
		f.rates = append(f.rates, fe.RateHz)
		for j := range w.Regions {
			f.arcS = append(f.arcS, w.ArcS(i, j))
		}
	}
	return f
}

func (f *flat) demand() float64 {
	sum := 0.0
	for _, r := range f.rates {
		sum += r
	}
	return sum
}

// waterFilling is the price at which the regions together serve the demand.
func (f *flat) waterFilling() float64 {
	low, high := 0.0, 1.0
	served := func(p float64) float64 {
		sum := 0.0
		for _, c := range f.curves {
			sum += c.RateAtHz(p)
		}
		return sum
	}
	for served(high) < f.demand() {
		high *= 2
	}
	for range 60 {
		if mid := (low + high) / 2; served(mid) < f.demand() {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

// frankWolfe is the conditional gradient method with exact line search from
// water-filling, every frontend spreading alike. It needs no shares, only the rates
// of the regions and the requests on the network, so a step is one pass over the
// arcs. It returns the relative gap after at most so many steps, or once it is
// below the target.
func (f *flat) frankWolfe(target float64, steps int) (gap float64) {
	b, demand := len(f.curves), f.demand()
	load, network := make([]float64, b), 0.0
	for j, c := range f.curves {
		load[j] = c.RateAtHz(f.waterFilling()) * (1 - 1e-12)
	}
	for i, rate := range f.rates {
		for j := range b {
			network += rate * load[j] / demand * f.arcS[i*b+j]
		}
	}
	prices, next := make([]float64, b), make([]float64, b)
	for range steps {
		cost := network
		for j, c := range f.curves {
			prices[j] = c.PriceS(load[j])
			cost += c.Workload(load[j])
		}
		clear(next)
		nextNetwork, best, now := 0.0, 0.0, network
		for i, rate := range f.rates {
			arcs, least, at := f.arcS[i*b:i*b+b], math.Inf(1), 0
			for j, c := range arcs {
				if c += prices[j]; c < least {
					least, at = c, j
				}
			}
			next[at] += rate
			nextNetwork += rate * arcs[at]
			best += rate * least
		}
		for j, l := range load {
			now += prices[j] * l
		}
		if gap = (now - best) / cost; gap <= target {
			return gap
		}
		t := f.lineSearch(load, next, nextNetwork-network)
		for j := range load {
			load[j] += t * (next[j] - load[j])
		}
		network += t * (nextNetwork - network)
	}
	return gap
}

// lineSearch bisects the derivative of the cost from load to next.
func (f *flat) lineSearch(load, next []float64, network float64) float64 {
	low, high := 0.0, 1.0
	for range 50 {
		mid, slope := (low+high)/2, network
		for j, c := range f.curves {
			d := next[j] - load[j]
			if p := c.PriceS(load[j] + mid*d); d != 0 {
				slope += p * d
			}
		}
		if slope < 0 {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// lbfgs is gonum's method on the smoothed dual at one smoothing, from water-filling,
// until the gap of the shares to the unsmoothed dual is below the target.
func (f *flat) lbfgs(e, target float64, steps int) (gap float64) {
	b := len(f.curves)
	start := make([]float64, b)
	for j := range start {
		start[j] = f.waterFilling()
	}
	gap = math.Inf(1)
	arriving := make([]float64, b)
	var prices []float64
	dual := 0.0
	at := func(p []float64) {
		if prices != nil && sameSlice(prices, p) {
			return
		}
		prices = append(prices[:0], p...)
		var g float64
		if dual, g = f.smoothed(p, e, arriving); g < gap {
			gap = g
		}
	}
	problem := optimize.Problem{
		Func: func(p []float64) float64 { at(p); return -dual },
		Grad: func(grad, p []float64) {
			at(p)
			for j, c := range f.curves {
				grad[j] = c.RateAtHz(p[j]) - arriving[j]
			}
		},
		Status: func() (optimize.Status, error) {
			if gap <= target {
				return optimize.Success, nil
			}
			return optimize.NotTerminated, nil
		},
	}
	if _, err := optimize.Minimize(problem, start, &optimize.Settings{MajorIterations: steps, GradientThreshold: 1e-12}, &optimize.LBFGS{}); err != nil {
		return gap // its line search gives up near the end: the best gap stands
	}
	return gap
}

func sameSlice(a, b []float64) bool {
	for k := range a {
		if a[k] != b[k] {
			return false
		}
	}
	return true
}

// smoothed evaluates the smoothed dual, the rates of its shares and their gap.
func (f *flat) smoothed(prices []float64, e float64, arriving []float64) (dual, gap float64) {
	b, lower, cost := len(prices), 0.0, 0.0
	clear(arriving)
	weights := make([]float64, b)
	for i, rate := range f.rates {
		arcs, least := f.arcS[i*b:i*b+b], math.Inf(1)
		for j, c := range arcs {
			least = min(least, c+prices[j])
		}
		sum := 0.0
		for j, c := range arcs {
			weights[j] = 0
			if d := c + prices[j] - least; d < 37*e {
				weights[j] = math.Exp(-d / e)
				sum += weights[j]
			}
		}
		for j, x := range weights {
			if x > 0 {
				arriving[j] += rate * x / sum
				cost += rate * x / sum * arcs[j]
			}
		}
		lower += rate * least
		dual += rate * (least - e*math.Log(sum))
	}
	for j, c := range f.curves {
		conjugate := c.Conjugate(prices[j])
		dual, lower = dual-conjugate, lower-conjugate
		cost += c.Workload(arriving[j])
	}
	return dual, (cost - lower) / cost
}

// The methods that Solve is measured against do reach the optimum where it is easy.
func TestBaselinesReachTheOptimum(t *testing.T) {
	rng := seeded(t, 41)
	for range 5 {
		w := randomWorld(rng, 5, 3, 0.6, 0)
		f := flatten(w)
		if gap := f.frankWolfe(1e-3, 20_000); !(gap <= 1e-3) {
			t.Errorf("Frank-Wolfe: gap %g", gap)
		}
		p := solved(t, w)
		if gap := f.lbfgs(1e-5*p.MeanLatencyS, 1e-4, 1000); !(gap <= 1e-4) {
			t.Errorf("L-BFGS: gap %g", gap)
		}
	}
}

// A warm start reaches the target in few steps, from near and from absurd prices.
func TestWarmStartPays(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, rho := range []float64{0.5, 0.8, 0.95} {
		w := randomWorld(rng, 200, 40, rho, 0)
		for _, target := range []float64{1e-4, 1e-6} {
			cold, err := router.Solve(w, router.SolveOptions{TargetGap: target})
			if err != nil {
				t.Fatal(err)
			}
			moved := drifted(rng, w, 0.02, 0.01)
			warm, err := router.Solve(moved, router.SolveOptions{TargetGap: target, StartPricesS: pricesOf(cold)})
			if err != nil {
				t.Fatal(err)
			}
			if warm.Gap > target || cold.Gap > target || warm.Iterations > 12 {
				t.Errorf("load %v, target %g: cold %d steps to %g, warm %d to %g", rho, target, cold.Iterations, cold.Gap, warm.Iterations, warm.Gap)
			}
			for _, price := range []float64{0, 1e-9, 1e6} {
				absurd := make([]float64, 40)
				absurd[3] = price
				p, err := router.Solve(moved, router.SolveOptions{TargetGap: target, StartPricesS: absurd})
				if err != nil || p.Gap > target {
					t.Errorf("load %v, start price %g: gap %v, %v", rho, price, p, err)
				}
			}
		}
	}
}

// drifted is w with every demand moved by up to spread either way, and all by common.
func drifted(rng *rand.Rand, w *router.World, spread, common float64) *router.World {
	moved := *w
	moved.Frontends = append([]router.Frontend(nil), w.Frontends...)
	for i := range moved.Frontends {
		moved.Frontends[i].RateHz *= (1 + common) * (1 + spread*(2*rng.Float64()-1))
	}
	return &moved
}
