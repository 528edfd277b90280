package router_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"

	"strandline/router"
)

// Every family against the nested search, which knows the curves' workloads only.
func TestSolveEveryKindAgainstNestedSearch(t *testing.T) {
	for _, kind := range everyKind() {
		t.Run(kind, func(t *testing.T) {
			rng := seeded(t, 21)
			for n := range 9 {
				w := randomWorld(rng, 1+n%3/2, 2+n%3%2, 0.5, 0) // 1x2, 1x3, 2x2
				mixServices(rng, w, kind, 0.2+0.7*rng.Float64())
				stretch(w, 30*rng.Float64())
				p := solved(t, w)
				near(t, "cost", p.Cost, nestedSearch(w, make([]float64, len(w.Regions)), 0, 0, w.Frontends[0].RateHz), 1e-7)
				if t.Failed() {
					t.Fatalf("%+v", w)
				}
			}
		})
	}
}

// mixServices gives every other region a service of the kind, and the frontends a
// demand that loads all to rho.
func mixServices(rng *rand.Rand, w *router.World, kind string, rho float64) {
	capacity := 0.0
	for j := range w.Regions {
		if j%2 == 0 {
			w.Regions[j].Service = randomService(rng, kind)
			w.Regions[j].Service = onlyUsed(w.Regions[j].Service)
		}
		capacity += w.Regions[j].Service.CapacityHz()
	}
	demand := w.DemandHz()
	for i := range w.Frontends {
		w.Frontends[i].RateHz *= rho * capacity / demand
	}
}

// onlyUsed clears the parameters that the kind does not have.
func onlyUsed(s router.Service) router.Service {
	switch s.Kind {
	case router.KindMM1, router.KindMMC:
		s.Kappa = 0
	case router.KindPiecewise, router.KindTable:
		s.Mu, s.Kappa = 0, 0
	}
	return s
}

// Mixed families, limits on rates, larger worlds: the certificate.
func TestSolveCertifiesMixedWorlds(t *testing.T) {
	rng := seeded(t, 22)
	kinds := everyKind()
	for n := range 60 {
		w := randomWorld(rng, 1+rng.IntN(20), 2+rng.IntN(10), 0.5, 0.3*rng.Float64())
		mixServices(rng, w, kinds[n%len(kinds)], 0.2+0.6*rng.Float64())
		for j := range w.Regions {
			if rng.IntN(3) == 0 {
				w.Regions[j].MaxRateHz = w.Regions[j].Service.CapacityHz() * (0.5 + 0.6*rng.Float64())
			}
		}
		if w.Validate() != nil {
			continue
		}
		p := solved(t, w)
		if !(p.Gap <= 1e-7) {
			t.Errorf("world %d: gap %g after %d iterations", n, p.Gap, p.Iterations)
		}
		for j, r := range p.Regions {
			if limit := w.Regions[j].MaxRateHz; limit > 0 && r.RateHz > limit*(1+1e-9) {
				t.Errorf("world %d: %s gets %v, at most %v is allowed", n, r.Name, r.RateHz, limit)
			}
		}
		if lower := router.LowerBound(w, pricesOf(p)); math.Abs((p.Cost-lower)/p.Cost-p.Gap) > 1e-12 {
			t.Errorf("world %d: gap %g, the prices certify %g", n, p.Gap, (p.Cost-lower)/p.Cost)
		}
	}
}

// A limit that binds takes what it may; the price goes on above the curve's own.
func TestMaxRate(t *testing.T) {
	w := world([]float64{10}, [][2]float64{{10, 10}, {20, 40}}, [][]float64{{0.010, 0.080}})
	w.Regions[0].MaxRateHz = 3
	p := solved(t, w)
	near(t, "rate A", p.Regions[0].RateHz, 3, 1e-9)
	near(t, "rate B", p.Regions[1].RateHz, 7, 1e-9)
	near(t, "price A", p.Regions[0].PriceS, p.Regions[1].PriceS+0.07, 1e-6)
	if own := w.Regions[0].Service.PriceS(3); p.Regions[0].PriceS <= own {
		t.Errorf("price A: got %v, want more than %v", p.Regions[0].PriceS, own)
	}
	w.Regions[0].MaxRateHz, w.Regions[1].MaxRateHz = 3, 6
	wantProblems(t, w.Validate(), "frontends f0 need 10 requests/s, which is not below the 9 requests/s that the regions they may use can serve: r0, r1")
	w.Objective.Shed = &router.Shed{PriceS: 1000}
	p = solved(t, w)
	near(t, "shed", p.Frontends[0].ShedHz, 1, 1e-6)
}

// prefilled gives every region a prefill stage four times as fast as its service.
func prefilled(w *router.World) *router.World {
	for j := range w.Regions {
		w.Regions[j].Prefill = &router.Service{Kind: router.KindMM1, Mu: 4 * w.Regions[j].Service.Mu}
	}
	w.Objective.Kind = router.ObjectiveTTFT
	return w
}

func TestSolveForTheFirstToken(t *testing.T) {
	rng := seeded(t, 23)
	for n := range 9 {
		w := prefilled(randomWorld(rng, 1+n%3/2, 2+n%3%2, 0.3+0.5*rng.Float64(), 0))
		w.Objective.Weights = &router.Weights{Network: 0.5 + rng.Float64(), Service: 0.001 + rng.Float64()}
		p := solved(t, w)
		near(t, "cost", p.Cost, nestedSearch(w, make([]float64, len(w.Regions)), 0, 0, w.Frontends[0].RateHz), 1e-7)
	}
	w := prefilled(reference32(1))
	first, total := solved(t, w), solved(t, reference32(1))
	if first.MeanLatencyS <= total.MeanLatencyS {
		t.Errorf("mean latency: got %v, below the optimum %v", first.MeanLatencyS, total.MeanLatencyS)
	}
	early, rate := 0.0, w.DemandHz()
	for i, f := range total.Frontends {
		for j, share := range f.Shares {
			c, _ := w.NetworkS(i, j)
			early += f.RateHz * share * c
		}
	}
	for j, r := range total.Regions {
		early += w.Regions[j].Prefill.Workload(r.RateHz)
	}
	if first.MeanTTFTS <= 0 || first.MeanTTFTS >= early/rate {
		t.Errorf("mean time to first token: got %v, the plan for the total has %v", first.MeanTTFTS, early/rate)
	}
	b, _ := json.Marshal(first)
	if !strings.Contains(string(b), `"mean_ttft_s":`) {
		t.Errorf("no mean_ttft_s in %s", b)
	}
}

// A dearer dollar never buys more money's worth of latency: the frontier.
func TestMoneyFrontier(t *testing.T) {
	w := reference32(1)
	for j, dollars := range []float64{0.03, 0.01, 0.001} {
		w.Regions[j].Price = &router.Price{Request: dollars / 2, Token: dollars / 400}
	}
	w.Objective.Tokens = 200
	latency, money := 0.0, math.Inf(1)
	for _, gamma := range []float64{0, 1, 10, 100, 1000} {
		w.Objective.Gamma = gamma
		p := solved(t, w)
		if p.MeanLatencyS < latency-1e-9 || p.MoneyPerS > money+1e-9 {
			t.Errorf("gamma %v: latency %v after %v, dollars/s %v after %v", gamma, p.MeanLatencyS, latency, p.MoneyPerS, money)
		}
		latency, money = p.MeanLatencyS, p.MoneyPerS
		want := 0.0
		for j, r := range p.Regions {
			want += r.RateHz * (w.Regions[j].Price.Request + 200*w.Regions[j].Price.Token)
		}
		near(t, "dollars/s", p.MoneyPerS, want, 1e-9)
		near(t, "cost", p.Cost, p.MeanLatencyS*24+gamma*p.MoneyPerS, 1e-9)
	}
	if latency < 3.75 {
		t.Errorf("a dollar of 1000 s moves nothing: mean latency %v", latency)
	}
}

func TestRulesTakeArcsAway(t *testing.T) {
	w := prefilled(reference32(1))
	w.Objective.Kind = ""
	w.Frontends[0].RateHz, w.Frontends[2].RateHz = 4, 4
	for j, zone := range []string{"eu", "eu", "us"} {
		w.Regions[j].Zone = zone
	}
	w.Frontends[0].Residency = []string{"eu"}
	w.Objective.Limit = &router.Limit{NetworkS: 0.09, TTFTS: 0.1}
	for _, c := range []struct {
		i, j int
		want string
	}{
		{0, 0, ""}, {0, 1, ""}, {1, 2, ""},
		{0, 2, `zone "us" is not one that frontend f0 may use: eu`},
		{2, 0, "network time 0.1 s is above the limit of 0.09 s"},
		{2, 1, "time to first token 0.105 s, even when idle, is above the limit of 0.1 s"},
	} {
		if got := w.Excluded(c.i, c.j); got != c.want {
			t.Errorf("f%d -> r%d: got %q, want %q", c.i, c.j, got, c.want)
		}
		if _, ok := w.NetworkS(c.i, c.j); ok != (c.want == "") {
			t.Errorf("f%d -> r%d: NetworkS says %v", c.i, c.j, ok)
		}
	}
	p := solved(t, w)
	if p.Frontends[0].Shares[2] != 0 || p.Frontends[2].Shares[0] != 0 || p.Gap > 1e-8 {
		t.Errorf("shares %v %v, gap %g", p.Frontends[0].Shares, p.Frontends[2].Shares, p.Gap)
	}
	if notes := strings.Join(w.Notes(), "\n"); strings.Count(notes, "\n") != 2 || !strings.Contains(notes, "frontend f0 may not use region r2: zone") {
		t.Errorf("notes: got %s", notes)
	}
	w.Regions[2].Zone = "asia"
	w.Frontends[2].Residency = []string{"us"}
	wantProblems(t, w.Validate(), `frontends[2] f2 may use no region: r0: zone "eu" is not one that frontend f2 may use: us; r1:`)
}

func TestMinShare(t *testing.T) {
	w := reference32(1)
	w.Objective.MinShare = 0.05
	p := solved(t, w)
	used := 0
	for _, f := range p.Frontends {
		sum := 0.0
		for _, share := range f.Shares {
			if share < 0.05-1e-12 {
				t.Errorf("%s: share %v is below the least", f.Name, share)
			}
			if share > 0.05+1e-9 {
				used++
			}
			sum += share
		}
		near(t, "sum of shares", sum, 1, 1e-12)
	}
	plain := solved(t, reference32(1))
	if p.Gap > 1e-8 || p.Cost <= plain.Cost || p.Cost > 1.01*plain.Cost || used < 3 {
		t.Errorf("gap %g, cost %v, without the rule %v, %d arcs above the least", p.Gap, p.Cost, plain.Cost, used)
	}
	w.Regions[1].MaxRateHz = 1
	wantProblems(t, w.Validate(), "objective.min_share gives region r1 more than the 1 requests/s that it can serve")
}

// The penalty against its definition: mean latency plus StickinessS times the
// divergence from the earlier shares, minimised by golden section.
func TestStickiness(t *testing.T) {
	w := world([]float64{10}, [][2]float64{{10, 10}, {20, 40}}, [][]float64{{0.010, 0.080}})
	before, err := router.Solve(world([]float64{10}, [][2]float64{{30, 10}, {20, 40}}, [][]float64{{0.010, 0.080}}), router.SolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	old := before.Frontends[0].Shares[0]
	optimum := solved(t, w).Frontends[0].Shares[0]
	last := optimum
	for _, price := range []float64{0.01, 0.1, 1, 10} {
		p, err := router.Solve(w, router.SolveOptions{Previous: before, StickinessS: price})
		if err != nil {
			t.Fatal(err)
		}
		got := p.Frontends[0].Shares[0]
		prior := 0.99*old + 0.005
		want := golden(func(x float64) float64 {
			kl := x*math.Log(x/prior) + (1-x)*math.Log((1-x)/(1-prior))
			return w.Regions[0].Service.Workload(10*x) + w.Regions[1].Service.Workload(10*(1-x)) + 10*(0.01*x+0.08*(1-x)) + price*10*kl
		}, 1e-6, 1-1e-6)
		near(t, fmt.Sprintf("share at %v s", price), got, want, 1e-5)
		if math.Abs(got-old) > math.Abs(last-old)+1e-9 {
			t.Errorf("price %v: share %v is further from %v than %v at a lower price", price, got, old, last)
		}
		last = got
	}
	if _, err := router.Solve(reference32(1), router.SolveOptions{Previous: before, StickinessS: 1}); err == nil {
		t.Error("a previous plan of another world: got no error")
	}
}

func golden(f func(float64) float64, low, high float64) float64 {
	const ratio = 0.6180339887498949
	for range 100 {
		a, b := high-ratio*(high-low), low+ratio*(high-low)
		if f(a) < f(b) {
			high = b
		} else {
			low = a
		}
	}
	return (low + high) / 2
}

// split gives all demand of w to classes named in order, in the given parts.
func split(w *router.World, parts ...float64) *router.World {
	for c, part := range parts {
		class := router.Class{Name: fmt.Sprint("c", c), Rates: map[string]float64{}}
		for _, f := range w.Frontends {
			class.Rates[f.Name] = part * f.RateHz
		}
		w.Classes = append(w.Classes, class)
	}
	return w
}

// Classes that differ in nothing are one class.
func TestEqualClassesAreOne(t *testing.T) {
	plain, p := solved(t, reference32(1)), solved(t, split(reference32(1), 0.7, 0.3))
	near(t, "cost", p.Cost, plain.Cost, 1e-9)
	for j, r := range p.Regions {
		near(t, "rate "+r.Name, r.RateHz, plain.Regions[j].RateHz, 1e-5)
	}
	near(t, "rate of c1", p.Classes[1].RateHz, 0.3*24, 1e-12)
	for i, f := range p.Frontends {
		for j, share := range f.Shares {
			near(t, "joined share", share, 0.7*p.Classes[0].Frontends[i].Shares[j]+0.3*p.Classes[1].Frontends[i].Shares[j], 1e-9)
		}
	}
	b, _ := json.Marshal(p)
	if !strings.Contains(string(b), `"classes":[{"name":"c0","rate":16.`) {
		t.Errorf("no classes in %s", b)
	}
	if w := split(reference32(1), 0.5, 0.4); w.Validate() == nil {
		t.Error("rates of classes that do not add up to the frontend's: got no problem")
	}
}

// A class on some regions only is a frontend of its own without the other arcs;
// work factors scale the load.
func TestClassesAgainstFrontends(t *testing.T) {
	rng := seeded(t, 24)
	for n := 0; n < 40; {
		w := split(randomWorld(rng, 3, 4, 0.3+0.5*rng.Float64(), 0), 0.6, 0.4)
		w.Classes[1].Hosts = []string{"r1", "r3"}
		work := 0.5 + 2*rng.Float64()
		w.Classes[1].Work = map[string]float64{"r0": work, "r1": work, "r2": work, "r3": work}
		flat := &router.World{Regions: w.Regions}
		for _, f := range w.Frontends {
			for c, class := range w.Classes {
				i, factor := w.Frontends, 1.0
				if c == 1 {
					factor = work
				}
				at := slices.IndexFunc(i, func(o router.Frontend) bool { return o.Name == f.Name })
				row := make([]*float64, len(w.Regions))
				for j, v := range w.Latency.Matrix[at] {
					if c == 0 || j%2 == 1 {
						scaled := *v / factor // the network time of a request counts once, its work factor times
						row[j] = &scaled
					}
				}
				flat.Frontends = append(flat.Frontends, router.Frontend{Name: f.Name + class.Name, RateHz: factor * class.Rates[f.Name]})
				flat.Latency.Matrix = append(flat.Latency.Matrix, row)
			}
		}
		if got, want := w.Validate() == nil, flat.Validate() == nil; got != want {
			t.Fatalf("feasible %v, want %v: %v", got, want, w.Validate())
		} else if !got {
			continue
		}
		n++
		p, q := solved(t, w), solved(t, flat)
		near(t, "cost", p.Cost, q.Cost, 1e-8)
		for j, r := range p.Regions {
			near(t, "rate "+r.Name, r.RateHz, q.Regions[j].RateHz, 1e-3)
			near(t, "price "+r.Name, r.PriceS, q.Regions[j].PriceS, 1e-3)
		}
		if p.Gap > 1e-8 {
			t.Errorf("gap %g", p.Gap)
		}
	}
}

// Low classes are refused first, and no high one while a low one is served.
func TestLowClassesAreShedFirst(t *testing.T) {
	for _, load := range []float64{0.5, 0.9, 1.2, 2, 4} {
		w := reference32(1)
		for i := range w.Frontends {
			w.Frontends[i].RateHz *= load * 35 / 24
		}
		split(w, 0.5, 0.5)
		w.Classes[0].Shed, w.Classes[1].Shed = &router.Shed{PriceS: 60}, &router.Shed{PriceS: 15}
		p := solved(t, w)
		high, low := p.Classes[0], p.Classes[1]
		if high.ShedHz > 1e-6 && low.ShedHz < low.RateHz*(1-1e-6) {
			t.Errorf("load %v: %v of the high class refused, %v of %v of the low", load, high.ShedHz, low.ShedHz, low.RateHz)
		}
		if (load == 0.5) != (low.ShedHz < 1e-9) || (load >= 2) != (high.ShedHz > 1) {
			t.Errorf("load %v: refused %v and %v", load, high.ShedHz, low.ShedHz)
		}
		near(t, "refused in all", p.Frontends[0].ShedHz+p.Frontends[1].ShedHz+p.Frontends[2].ShedHz, high.ShedHz+low.ShedHz, 1e-9)
		if p.Gap > 1e-8 {
			t.Errorf("load %v: gap %g", load, p.Gap)
		}
	}
}

// Work that depends on the region: feasibility against linear programming.
func TestFeasibilityWithWorkAgainstLinearProgramming(t *testing.T) {
	rng := seeded(t, 25)
	feasible := 0
	for range 150 {
		w := split(randomWorld(rng, 1+rng.IntN(2), 2+rng.IntN(2), 0.5+0.8*rng.Float64(), 0), 0.5, 0.5)
		for c := range w.Classes {
			w.Classes[c].Work = map[string]float64{}
			for _, r := range w.Regions {
				w.Classes[c].Work[r.Name] = 0.4 + 1.6*rng.Float64()
			}
		}
		most := mostServed(t, w)
		if math.Abs(most-1) < 1e-4 {
			continue
		}
		err := w.Validate()
		if got, want := err == nil, most > 1; got != want {
			t.Fatalf("got feasible %v, but %v times the demand can be served: %v", got, most, err)
		}
		if err == nil {
			feasible++
			if p := solved(t, w); !(p.Gap <= 1e-5) { // some are loaded to 99.99 %
				t.Errorf("gap %g", p.Gap)
			}
		}
	}
	if feasible < 20 || feasible > 130 {
		t.Errorf("%d of 150 worlds are feasible: the test does not see both cases", feasible)
	}
}

// mostServed is the greatest multiple of the demand that fits the capacities: the
// largest s with sum_j x_kj = s d_k and sum_k work_kj x_kj <= capacity_j.
func mostServed(t *testing.T, w *router.World) float64 {
	b, rows := len(w.Regions), len(w.Frontends)*len(w.Classes)
	vars := 1 + rows*b + b // s, x, slack
	a, rhs, cost := mat.NewDense(rows+b, vars, nil), make([]float64, rows+b), make([]float64, vars)
	cost[0] = -1
	for i, f := range w.Frontends {
		for c, class := range w.Classes {
			k := i*len(w.Classes) + c
			a.Set(k, 0, -class.Rates[f.Name])
			for j, r := range w.Regions {
				a.Set(k, 1+k*b+j, 1)
				a.Set(rows+j, 1+k*b+j, class.Work[r.Name])
			}
		}
	}
	for j, r := range w.Regions {
		a.Set(rows+j, 1+rows*b+j, 1)
		rhs[rows+j] = r.Service.CapacityHz()
	}
	best, _, err := lp.Simplex(cost, a, rhs, 1e-10, nil)
	if err != nil {
		t.Fatal(err)
	}
	return -best
}

func TestCutNamesClasses(t *testing.T) {
	w := split(reference32(1), 0.5, 0.5)
	w.Classes[1].Hosts = []string{"r0"}
	wantProblems(t, w.Validate(), "frontends f0 (c1), f1 (c1), f2 (c1) need 12 requests/s, which is not below the 10 requests/s that the regions they may use can serve: r0")
	w.Classes[1].Hosts, w.Classes[0].Work = nil, map[string]float64{"r0": 2, "r1": 2, "r2": 2}
	wantProblems(t, w.Validate(), "frontends need 36 units of work/s, which is not below the 35 units of work/s")
	w.Classes[0].Work["r2"] = 2.1
	wantProblems(t, w.Validate(), "frontends f0 (c0), f0 (c1)")
}

func TestValidateTheNewKeys(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(w *router.World)
		want   []string
	}{
		{"parameters of another kind", func(w *router.World) { w.Regions[0].Service.Q, w.Regions[0].Service.Servers = 2, 3 },
			[]string{"regions[0].service.q means nothing", "regions[0].service.servers means nothing"}},
		{"shape", func(w *router.World) {
			w.Regions[0].Service.Kind = router.KindGeneralised
			w.Regions[1].Service = router.Service{Kind: router.KindMMC, Mu: 3}
		}, []string{"regions[0].service.q 0 is not a shape", "regions[1].service.servers 0 is not"}},
		{"points", func(w *router.World) {
			w.Regions[0].Service = router.Service{Kind: router.KindTable}
			w.Regions[1].Service = router.Service{Kind: router.KindTable, Points: []router.Point{{4, 2}, {4, 3}, {9, -1}}}
			w.Regions[2].Service = router.Service{Kind: router.KindPiecewise, Points: []router.Point{{4, 2}, {8, 5}}, Smoothing: 2}
		}, []string{"regions[0].service.points there is none", "regions[1].service.points[1].n 4 does not follow 4",
			"regions[1].service.points[2].rate -1 is not", "regions[2].service.smoothing 2 is not", "regions[2].service.points[1].rate not concave"}},
		{"limits and money", func(w *router.World) {
			w.Regions[0].MaxRateHz, w.Regions[1].Price = -1, &router.Price{Request: -1, Token: math.NaN()}
			w.Objective.Gamma, w.Objective.MinShare = math.Inf(1), 0.5
			w.Objective.Limit, w.Objective.Weights = &router.Limit{NetworkS: -1}, &router.Weights{}
		}, []string{"regions[0].max_rate -1", "regions[1].price.request -1", "regions[1].price.token NaN", "objective.weights mean nothing",
			"objective.gamma +Inf", "objective.min_share 0.5 on each of 3 regions", "objective.limit.network -1"}},
		{"classes", func(w *router.World) {
			w.Classes = []router.Class{{Name: "a", Rates: map[string]float64{"f9": 1, "f0": 12, "f1": 8, "f2": 4}, Hosts: []string{"x"},
				Work: map[string]float64{"r0": 0, "y": 1}, Shed: &router.Shed{}}, {Name: "a"}}
		}, []string{"classes[0].rates.f9 there is no frontend", "classes[0].work.r0 0 is not", "classes[0].work.y there is no region",
			"classes[0].hosts[0] there is no region", "classes[0].shed.price 0 is not", `classes[1].name "a" is also`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := reference32(1)
			c.damage(w)
			wantProblems(t, w.Validate(), c.want...)
		})
	}
}

// Replan with classes and a limit: what has no region left is refused, the rest is
// the optimum without it.
func TestReplanWithClasses(t *testing.T) {
	w := split(reference32(0.5), 0.4, 0.2)
	for i := range w.Frontends {
		w.Frontends[i].RateHz = 0
	}
	w.Classes[1].Hosts = []string{"r0"}
	w.Regions[2].MaxRateHz = 9
	p, err := router.Replan(w, []string{"r0"})
	if err != nil {
		t.Fatal(err)
	}
	lost, kept := p.Classes[1], p.Classes[0]
	near(t, "refused of c1", lost.ShedHz, 24*0.2, 1e-12)
	near(t, "refused of f0", p.Frontends[0].ShedHz, 12*0.2, 1e-12)
	if p.Overloaded || kept.ShedHz != 0 || p.Regions[0].RateHz != 0 || !(p.Gap <= 1e-8) || p.Regions[2].RateHz > 9*(1+1e-9) {
		t.Errorf("got %+v", p)
	}
	rest := split(reference32(0.5), 0.4)
	rest.Frontends[0].RateHz, rest.Frontends[1].RateHz, rest.Frontends[2].RateHz = 0, 0, 0
	rest.Regions[2].MaxRateHz = 9
	rest.Classes[0].Hosts = []string{"r1", "r2"}
	near(t, "cost", p.Cost, solved(t, rest).Cost, 1e-9)

	w.Classes[0].Rates = map[string]float64{"f0": 20}
	if p, err := router.Replan(w, []string{"r0"}); err != nil || !p.Overloaded || len(p.Classes) != 2 {
		t.Errorf("20 requests/s on regions of 19: got %+v, %v", p, err)
	}
}

func TestExplainSaysWhatIsExcluded(t *testing.T) {
	w := reference32(1)
	w.Regions[0].Zone, w.Regions[1].Zone = "eu", "eu"
	w.Frontends[2].Residency = []string{"eu"}
	w.Latency.Matrix[2][1] = nil
	w.Objective.Gamma, w.Regions[0].Price = 10, &router.Price{Request: 0.1}
	w.Frontends[0].RateHz = 4
	tab, err := router.NewTable(1, w, solved(t, w), nil, "f2", nil)
	if err != nil {
		t.Fatal(err)
	}
	e := tab.Explain("x.", prefix("192.0.2.1/32"))
	want := []router.ExcludedRegion{{Name: "r1", Reason: "not allowed by the latency matrix"},
		{Name: "r2", Reason: `zone "" is not one that frontend f2 may use: eu`}}
	if !slices.Equal(e.Excluded, want) {
		t.Errorf("got %+v, want %+v", e.Excluded, want)
	}
	near(t, "cost of r0, network, money and price", e.Regions[0].CostMS, 100+1000+1000*e.Regions[0].PriceS, 1e-9)
}
