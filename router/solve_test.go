package router_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"strandline/router"
)

// Reference document, section 3.1: the closed form by bisection.
func TestSolveOneByTwo(t *testing.T) {
	w := world([]float64{10}, [][2]float64{{10, 10}, {20, 40}}, [][]float64{{0.010, 0.080}})
	p := solved(t, w)
	near(t, "mean latency", p.MeanLatencyS, 2.374867, 1e-6)
	near(t, "rate A", p.Regions[0].RateHz, 4.812536, 1e-6)
	near(t, "rate B", p.Regions[1].RateHz, 5.187464, 1e-6)
	near(t, "workload A", p.Regions[0].Workload, 9.277244, 1e-6)
	near(t, "workload B", p.Regions[1].Workload, 14.008306, 1e-6)
	near(t, "common cost at A", p.Regions[0].PriceS+0.010, 3.726121, 1e-6)
	near(t, "common cost at B", p.Regions[1].PriceS+0.080, 3.726121, 1e-6)
	near(t, "share A", p.Frontends[0].Shares[0], 0.4812536, 1e-6)
	if p.Gap > 1e-8 {
		t.Errorf("gap: got %g, want at most 1e-8", p.Gap)
	}
}

// Reference document, section 3.2, printed there to six or seven digits.
func TestSolveThreeByThree(t *testing.T) {
	for _, c := range []struct {
		scale, mean float64
		r, p, n     [3]float64
	}{
		{0.1, 3.679675, [3]float64{7.12739, 7.96859, 8.90402}, [3]float64{12.11846, 12.11646, 12.10946}, [3]float64{24.8116, 19.6135, 43.8191}},
		{1, 3.705190, [3]float64{7.13310, 7.97113, 8.89577}, [3]float64{12.16677, 12.14677, 12.07677}, [3]float64{24.8809, 19.6442, 43.7194}},
	} {
		p := solved(t, reference32(c.scale))
		near(t, "mean latency", p.MeanLatencyS, c.mean, 1e-6)
		for j, r := range p.Regions {
			near(t, "rate "+r.Name, r.RateHz, c.r[j], 1e-5)
			near(t, "price "+r.Name, r.PriceS, c.p[j], 1e-5)
			near(t, "workload "+r.Name, r.Workload, c.n[j], 1e-5)
		}
		if p.Gap > 1e-8 {
			t.Errorf("scale %v: gap: got %g, want at most 1e-8", c.scale, p.Gap)
		}
	}
}

// Reference document, section 4.4.
func TestSolveSheds(t *testing.T) {
	for _, c := range []struct{ price, workload, rate float64 }{{20, 34.7214, 7.7639}, {100, 90, 9}} {
		w := world([]float64{30}, [][2]float64{{10, 10}}, [][]float64{{0}})
		w.Objective.Shed = &router.Shed{PriceS: c.price}
		p := solved(t, w)
		near(t, "workload", p.Regions[0].Workload, c.workload, 1e-5)
		near(t, "rate", p.Regions[0].RateHz, c.rate, 1e-5)
		near(t, "shed", p.Frontends[0].ShedHz, 30-c.rate, 1e-5)
		near(t, "utilisation", p.Regions[0].Utilisation, 1-math.Sqrt(10/(10*c.price)), 1e-5)
		near(t, "price", p.Regions[0].PriceS, c.price, 1e-9)
	}
}

// Below capacity a high price of shedding changes nothing; in overload it serves
// all that can be served, which is the max-flow value.
func TestShedPriceLimits(t *testing.T) {
	plain, w := solved(t, reference32(1)), reference32(1)
	w.Objective.Shed = &router.Shed{PriceS: 1000}
	priced := solved(t, w)
	for j, r := range priced.Regions {
		near(t, "rate "+r.Name, r.RateHz, plain.Regions[j].RateHz, 1e-6)
	}
	for _, f := range priced.Frontends {
		if f.ShedHz != 0 {
			t.Errorf("frontend %s sheds %g requests/s below capacity", f.Name, f.ShedHz)
		}
	}
	// f0 may use r0 only: of its 30 requests/s at most 10 fit; f1 fills r1 and r2.
	w = world([]float64{30, 18}, [][2]float64{{10, 10}, {10, 10}, {10, 10}}, [][]float64{{.01, forbidden, forbidden}, {.01, .02, .03}})
	for _, price := range []float64{1e2, 1e4, 1e6} {
		w.Objective.Shed = &router.Shed{PriceS: price}
		served := 0.0
		for _, r := range solved(t, w).Regions {
			served += r.RateHz
		}
		if lost := 28 - served; lost < 0 || lost > 4*math.Sqrt(10*10/price) {
			t.Errorf("price %g: served %g of 28 requests/s", price, served)
		}
	}
}

// Optimality conditions (section 1.3) and the certificate, on random worlds.
func TestSolveRandomWorlds(t *testing.T) {
	rng := seeded(t, 3)
	for n := 0; n < 300; {
		w := randomWorld(rng, 1+rng.IntN(12), 1+rng.IntN(8), 0.05+0.93*rng.Float64(), 0.6*rng.Float64())
		if rng.IntN(3) == 0 {
			w.Objective.Shed = &router.Shed{PriceS: 1 + 30*rng.Float64()}
			w.Frontends[0].RateHz *= 1 + 3*rng.Float64()
		}
		if rng.IntN(4) == 0 {
			w.Frontends[rng.IntN(len(w.Frontends))].RateHz = 0
		}
		if w.Validate() != nil {
			continue
		}
		n++
		p := solved(t, w)
		checkPlan(t, w, p)
		if p.Gap > 1e-8 {
			t.Errorf("world %d: gap %g after %d iterations", n, p.Gap, p.Iterations)
		}
		if t.Failed() {
			t.Fatalf("world %d: %d frontends, %d regions", n, len(w.Frontends), len(w.Regions))
		}
	}
}

// checkPlan checks feasibility, the sums, the optimality conditions and that the
// printed gap follows from the printed prices.
func checkPlan(t *testing.T, w *router.World, p *router.Plan) {
	t.Helper()
	demand, rates := w.DemandHz(), make([]float64, len(w.Regions))
	cost := 0.0
	for i, f := range p.Frontends {
		sum, best := 0.0, math.Inf(1)
		if w.Objective.Shed != nil {
			best = w.Objective.Shed.PriceS
			cost += f.ShedHz * best
		} else if f.ShedHz != 0 {
			t.Errorf("%s sheds %g where shedding is not configured", f.Name, f.ShedHz)
		}
		for j := range f.Shares {
			if c, ok := w.NetworkS(i, j); ok {
				best = min(best, c+p.Regions[j].PriceS)
			}
		}
		for j, share := range f.Shares {
			c, ok := w.NetworkS(i, j)
			if share < 0 || share > 0 && (!ok || share < 1e-9) {
				t.Errorf("%s -> %s: share %g", f.Name, p.Regions[j].Name, share)
			}
			if share == 0 {
				continue
			}
			sum += share
			rates[j] += share * f.RateHz
			cost += share * f.RateHz * c
			// What an arc costs above the best, weighted by its traffic, is part of the gap.
			if excess := share * f.RateHz * (c + p.Regions[j].PriceS - best); excess > 1e-8*p.Cost {
				t.Errorf("%s -> %s: share %g at %g s above the best", f.Name, p.Regions[j].Name, share, c+p.Regions[j].PriceS-best)
			}
		}
		if f.RateHz > 0 {
			near(t, "shares and shed of "+f.Name, sum+f.ShedHz/f.RateHz, 1, 1e-12)
		}
	}
	for j, r := range p.Regions {
		s := w.Regions[j].Service
		if math.Abs(r.RateHz-rates[j]) > 1e-9*demand {
			t.Errorf("%s: rate %g, the shares say %g", r.Name, r.RateHz, rates[j])
		}
		near(t, "workload "+r.Name, r.Workload, s.Workload(r.RateHz), 1e-12)
		near(t, "price "+r.Name, s.PriceS(r.RateHz), r.PriceS, 1e-3)
		cost += r.Workload
	}
	near(t, "cost", p.Cost, cost, 1e-9)
	prices := pricesOf(p)
	if lower := router.LowerBound(w, prices); lower > p.Cost*(1+1e-12) {
		t.Errorf("lower bound %g is above the cost %g", lower, p.Cost)
	} else if p.Cost > 0 && math.Abs((p.Cost-lower)/p.Cost-p.Gap) > 1e-12 {
		t.Errorf("gap %g, the prices certify %g", p.Gap, (p.Cost-lower)/p.Cost)
	}
}

func pricesOf(p *router.Plan) []float64 {
	prices := make([]float64, len(p.Regions))
	for j, r := range p.Regions {
		prices[j] = r.PriceS
	}
	return prices
}

// A method with nothing in common, exact for a few free shares: golden sections
// nested in each other.
func TestSolveAgainstNestedSearch(t *testing.T) {
	rng := seeded(t, 4)
	for _, size := range [][2]int{{1, 2}, {2, 2}, {1, 3}, {3, 2}, {1, 4}} {
		for range 5 {
			w := randomWorld(rng, size[0], size[1], 0.2+0.7*rng.Float64(), 0)
			if rng.IntN(2) == 0 {
				stretch(w, 30) // network times that matter as much as service
			}
			p := solved(t, w)
			near(t, "cost", p.Cost, nestedSearch(w, make([]float64, len(w.Regions)), 0, 0, w.Frontends[0].RateHz), 1e-9)
		}
	}
}

// nestedSearch is the least cost of placing the rest of frontend i's requests on
// regions j and up, and then the other frontends, on top of load.
func nestedSearch(w *router.World, load []float64, i, j int, rest float64) float64 {
	c := w.ArcS(i, j)
	place := func(rate float64) float64 {
		load[j] += rate
		defer func() { load[j] -= rate }()
		switch {
		case j+1 < len(load):
			return c*rate + nestedSearch(w, load, i, j+1, rest-rate)
		case i+1 < len(w.Frontends):
			return c*rate + nestedSearch(w, load, i+1, 0, w.Frontends[i+1].RateHz)
		}
		cost := c * rate
		for k, l := range load {
			cost += extended(w.Curve(k), l)
		}
		return cost
	}
	if j+1 == len(load) {
		return place(rest)
	}
	const golden = 0.6180339887498949
	low, high := 0.0, rest
	a, b := high-golden*(high-low), low+golden*(high-low)
	fa, fb := place(a), place(b)
	for range 45 {
		if fa < fb {
			high, b, fb = b, a, fa
			a = high - golden*(high-low)
			fa = place(a)
		} else {
			low, a, fa = a, b, fb
			b = low + golden*(high-low)
			fb = place(b)
		}
	}
	return min(fa, fb, place(0), place(rest))
}

// extended is the workload, on a straight line from 99.9 % of capacity on, so that
// the search has a finite convex function.
func extended(c router.Curve, rate float64) float64 {
	edge, slope := 0.999*c.CapacityHz(), 0.0
	if full := c.CapacityHz() * (1 - 1e-12); !math.IsInf(c.PriceS(c.CapacityHz()), 1) {
		edge, slope = full, 1e4*c.PriceS(full) // a limit that may be reached
	}
	if rate = max(0, rate); rate <= edge {
		return c.Workload(rate)
	}
	return c.Workload(edge) + (slope+c.PriceS(edge))*(rate-edge)
}

// A slow method for bigger worlds: exact transfers between pairs of arcs of one
// frontend. It closes in from above, and slowly, hence the two tolerances.
func TestSolveAgainstPairwiseTransfers(t *testing.T) {
	rng := seeded(t, 9)
	for n := 0; n < 10; {
		w := randomWorld(rng, 3+n%2, 3+n%2, 0.2+0.6*rng.Float64(), 0)
		want, ok := pairwise(w)
		if !ok {
			continue
		}
		n++
		p := solved(t, w)
		near(t, "cost", p.Cost, want, 5e-3)
		if p.Cost > want*(1+1e-9) {
			t.Errorf("world %d: cost %.12g, the slow method reaches %.12g", n, p.Cost, want)
		}
	}
}

func stretch(w *router.World, factor float64) {
	for i := range w.Latency.Matrix {
		for j := range w.Latency.Matrix[i] {
			*w.Latency.Matrix[i][j] *= factor
		}
	}
}

func pairwise(w *router.World) (cost float64, ok bool) {
	f, b := len(w.Frontends), len(w.Regions)
	x, load := make([][]float64, f), make([]float64, b)
	for i := range x {
		x[i] = make([]float64, b)
		for j := range x[i] {
			x[i][j] = w.Frontends[i].RateHz / float64(b) // in requests/s
			load[j] += x[i][j]
		}
	}
	for j, l := range load {
		if l >= w.Regions[j].Service.Mu {
			return 0, false
		}
	}
	marginal := func(i, j int, rate float64) float64 {
		c, _ := w.NetworkS(i, j)
		return c + w.Regions[j].Service.PriceS(rate)
	}
	for range 300 {
		for i := range x {
			for j := range b {
				for k := range b {
					low, high := 0.0, x[i][j] // moved from j to k
					for range 45 {
						mid := (low + high) / 2
						if marginal(i, j, load[j]-mid) > marginal(i, k, load[k]+mid) {
							low = mid
						} else {
							high = mid
						}
					}
					if j != k {
						x[i][j], x[i][k] = x[i][j]-low, x[i][k]+low
						load[j], load[k] = load[j]-low, load[k]+low
					}
				}
			}
		}
	}
	for j, l := range load {
		cost += w.Regions[j].Service.Workload(l)
		for i := range x {
			c, _ := w.NetworkS(i, j)
			cost += x[i][j] * c
		}
	}
	return cost, true
}

// Weak duality: no prices certify more than any allocation costs.
func TestLowerBoundNeverExceedsTheOptimum(t *testing.T) {
	rng := seeded(t, 5)
	for range 50 {
		w := randomWorld(rng, 1+rng.IntN(5), 1+rng.IntN(5), 0.7, 0)
		p := solved(t, w)
		for range 50 {
			prices := pricesOf(p)
			for j := range prices {
				prices[j] *= math.Exp(rng.NormFloat64())
			}
			if lower := router.LowerBound(w, prices); lower > p.Cost*(1+1e-12) {
				t.Fatalf("prices %v certify %g, but %g is possible", prices, lower, p.Cost)
			}
		}
	}
}

func TestSolveIsDeterministic(t *testing.T) {
	w := randomWorld(seeded(t, 6), 20, 10, 0.8, 0.3)
	if a, b := solved(t, w), solved(t, w); !reflect.DeepEqual(a, b) {
		t.Errorf("two runs differ: %+v, %+v", a, b)
	}
}

func TestSolveSizesAndLoads(t *testing.T) {
	for _, rho := range []float64{0.01, 0.5, 0.8, 0.95, 0.999, 0.999999} {
		for _, sparse := range []float64{0, 0.6} {
			w := randomWorld(rand.New(rand.NewPCG(7, 7)), 100, 20, rho, sparse)
			p := solved(t, w)
			if p.Gap > 1e-6 || p.Iterations > 300 {
				t.Errorf("load %v, sparse %v: gap %g after %d iterations", rho, sparse, p.Gap, p.Iterations)
			}
		}
	}
}

func TestSolveWithoutDemand(t *testing.T) {
	w := reference32(1)
	for i := range w.Frontends {
		w.Frontends[i].RateHz = 0
	}
	p := solved(t, w)
	if p.MeanLatencyS != 0 || p.Cost != 0 || p.Gap != 0 {
		t.Errorf("got mean %v, cost %v, gap %v, want zeros", p.MeanLatencyS, p.Cost, p.Gap)
	}
	for _, f := range p.Frontends {
		sum := 0.0
		for _, share := range f.Shares {
			sum += share
		}
		near(t, "shares of "+f.Name, sum, 1, 1e-12)
	}
}

// A smoothed plan costs no more than the bound says, and its gap shows it.
func TestSmoothing(t *testing.T) {
	w := reference32(1)
	exact := solved(t, w)
	p, err := router.Solve(w, router.SolveOptions{SmoothingS: 0.001})
	if err != nil {
		t.Fatal(err)
	}
	loss := (p.Cost - exact.Cost) / w.DemandHz()
	if loss < -1e-9 || loss > 0.001*math.Log(3) {
		t.Errorf("smoothing of 1 ms costs %g s of mean latency, want at most %g", loss, 0.001*math.Log(3))
	}
	if p.Gap == 0 || p.Gap > 1e-3 {
		t.Errorf("gap: got %g", p.Gap)
	}
}

func TestWarmStartFindsTheSamePlan(t *testing.T) {
	w := randomWorld(seeded(t, 8), 50, 15, 0.8, 0.2)
	cold := solved(t, w)
	warm, err := router.Solve(w, router.SolveOptions{StartPricesS: pricesOf(cold)})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "cost", warm.Cost, cold.Cost, 1e-9)
	if _, err := router.Solve(w, router.SolveOptions{StartPricesS: []float64{1}}); err == nil {
		t.Error("one start price for 15 regions: got no error")
	}
}

// What is returned early is honest about how good it is.
func TestSolveStopsAtTheLimits(t *testing.T) {
	w := reference32(1)
	exact := solved(t, w)
	for _, o := range []router.SolveOptions{{TargetGap: 1e-3}, {MaxIterations: 6}} {
		p, err := router.Solve(w, o)
		if err != nil {
			t.Fatal(err)
		}
		if p.Iterations >= exact.Iterations || p.Gap <= exact.Gap || p.Gap > 1e-2 || p.Gap < (p.Cost-exact.Cost)/p.Cost-1e-12 {
			t.Errorf("%+v: %d iterations, gap %g, %g above the optimum", o, p.Iterations, p.Gap, (p.Cost-exact.Cost)/p.Cost)
		}
	}
}

func TestSolveRefusesABadWorld(t *testing.T) {
	w := reference32(1)
	w.Regions[1].Service.Mu = -1
	_, err := router.Solve(w, router.SolveOptions{})
	wantProblems(t, err, "regions[1].service.mu -1 is not")
}
