package sim_test

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"strandline/router"
	"strandline/router/sim"
)

// within fails where got is further from want than five half-widths of a 95 %
// interval, plus a hundredth for the bias of few batches.
func within(t testing.TB, what string, got, half, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 2.5*half+0.005*want) || math.IsNaN(half) {
		t.Errorf("%s: got %.4f +- %.4f, want %.4f", what, got, half, want)
	}
}

// A processor-sharing region of rate mu n/(kappa+n) has (kappa+1) rho/(1-rho)
// requests inside, whatever the distribution of their sizes.
func TestWorkloadIsInsensitiveToSizes(t *testing.T) {
	type params struct{ mu, kappa, rate float64 }
	cases := []params{{10, 10, 7}, {10, 0, 7}, {10, 3, 9}}
	rng := seeded(t, 21)
	for range 4 {
		mu := 1 + 49*rng.Float64()
		cases = append(cases, params{mu, 30 * rng.Float64(), mu * (0.1 + 0.75*rng.Float64())})
	}
	sizes := []sim.Sizes{{Kind: sim.SizeExponential}, {Kind: sim.SizeDeterministic},
		{Kind: sim.SizeLogNormal, CV: 3}, {Kind: sim.SizePareto, Tail: 2.5}}
	for _, c := range cases {
		for k, z := range sizes {
			w := single(c.mu, max(c.kappa, 1), c.rate)
			rho := c.rate / c.mu
			want := (c.kappa + 1) * rho / (1 - rho)
			r := run(t, sim.Config{World: w, Policy: "random", Seed: uint64(k), DurationS: 300_000 / c.rate, WarmupS: 20_000 / c.rate,
				Sources: sources(t, []sim.Process{{Rates: []sim.RateStep{{RateHz: c.rate}}, Sizes: z}}),
				Truth:   func(_, n int) float64 { return c.mu * float64(n) / (c.kappa + float64(n)) }})
			name := fmt.Sprintf("mu %.3g kappa %.3g rate %.3g %s", c.mu, c.kappa, c.rate, z.Kind)
			within(t, name+" workload", r.Regions[0].Workload, r.Regions[0].HalfWidth, want)
			within(t, name+" latency (Little)", r.MeanLatencyS, r.HalfWidthS, want/c.rate)
		}
	}
}

// productForm is the mean number inside a processor-sharing region with Poisson
// arrivals, for any rate function l and any distribution of work: the chance of n is
// in proportion to the product of rate/l(k) for k = 1..n.
func productForm(l func(n float64) float64, rateHz float64) float64 {
	sum, mean, p := 1.0, 0.0, 1.0
	for n := 1.0; n < 1e6 && (n < 1000 || p > 1e-15*sum); n++ {
		p *= rateHz / l(n)
		sum += p
		mean += n * p
	}
	return mean / sum
}

// Every family of service, against the product form.
func TestWorkloadOfEveryFamily(t *testing.T) {
	near(t, "the product form of the closed form", productForm(func(n float64) float64 { return 10 * n / (10 + n) }, 7), 11*0.7/0.3, 1e-9)
	for _, s := range []router.Service{
		{Kind: router.KindHyperbolic, Mu: 10, Kappa: 10},
		{Kind: router.KindExponential, Mu: 10, Kappa: 8},
		{Kind: router.KindGeneralised, Mu: 10, Kappa: 12, Q: 2},
		{Kind: router.KindMMC, Mu: 10, Servers: 4},
		{Kind: router.KindPiecewise, Points: []router.Point{{Workload: 4, RateHz: 5}, {Workload: 20, RateHz: 10}}},
		{Kind: router.KindTable, Points: []router.Point{{Workload: 2, RateHz: 3}, {Workload: 8, RateHz: 7}, {Workload: 30, RateHz: 10}}},
	} {
		w := single(10, 1, 7.5)
		w.Regions[0].Service = s
		r := run(t, sim.Config{World: w, Policy: "random", DurationS: 60_000, WarmupS: 2000, Seed: 4,
			Sources: sources(t, []sim.Process{{Rates: []sim.RateStep{{RateHz: 7.5}}, Sizes: sim.Sizes{Kind: sim.SizeLogNormal, CV: 2}}})})
		within(t, s.Kind, r.Regions[0].Workload, r.Regions[0].HalfWidth, productForm(s.Curve().RateHz, 7.5))
	}
}

// The distribution of the time in an M/M/1 queue with processor sharing is not
// exponential, but that of the number inside is geometric; the quantiles are
// tested where they are known: deterministic work in an otherwise empty system.
func TestLatencyOfALonelyRequest(t *testing.T) {
	w := world([]float64{0.001}, [][2]float64{{10, 10}}, [][]float64{{0.05}})
	alone := 11.0 / 10 // l(1) = 10/11
	for network, want := range map[string]float64{router.KindOneWay: alone + 0.05, router.KindRTT: alone + 0.1} {
		w.Objective.Network = network
		r := run(t, sim.Config{World: w, Policy: "random", DurationS: 1e6, Seed: 3,
			Sources: sources(t, []sim.Process{{Rates: []sim.RateStep{{RateHz: 0.001}}, Gaps: sim.Gaps{Kind: sim.GapFixed}, Sizes: sim.Sizes{Kind: sim.SizeDeterministic}, Prefill: 0.25}})})
		near(t, network+" mean", r.MeanLatencyS, want, 1e-9)
		near(t, network+" median", r.P50S, want, 1.0/128)
		near(t, network+" p99", r.P99S, want, 1.0/128)
		near(t, network+" first token", r.MeanTTFTS, want-0.75*alone, 1e-9)
	}
}

// With kappa+1 in place of kappa the fluid objective is exact for static splits.
func TestStaticSplitsMatchTheFluid(t *testing.T) {
	for _, scale := range []float64{0.1, 1} {
		w := reference32(scale)
		plan, err := router.Solve(sim.Integer(w), router.SolveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r := run(t, sim.Config{World: w, Plan: plan, Policy: "split", DurationS: 60_000, WarmupS: 2000, Seed: 5})
		within(t, fmt.Sprintf("scale %v mean latency", scale), r.MeanLatencyS, r.HalfWidthS, plan.MeanLatencyS)
		for j, g := range r.Regions {
			within(t, fmt.Sprintf("scale %v workload of %s", scale, g.Name), g.Workload, g.HalfWidth, plan.Regions[j].Workload)
			near(t, "rate of "+g.Name, g.RateHz, plan.Regions[j].RateHz, 0.02)
		}
	}
}

// A large region is a fluid: with ten times the rate and ten times kappa the
// workload per kappa is that of the fluid, within what 1/kappa leaves.
func TestLargeRegionsAreFluid(t *testing.T) {
	for _, kappa := range []float64{100, 1000} {
		w := single(kappa, kappa, 0.7*kappa)
		r := run(t, sim.Config{World: w, Policy: "random", DurationS: 400_000 / kappa, WarmupS: 40_000 / kappa, Seed: 6})
		fluid := w.Regions[0].Service.Workload(0.7 * kappa)
		near(t, fmt.Sprintf("kappa %v", kappa), r.Regions[0].Workload, fluid, 0.02+1/kappa)
	}
}

// The same configuration gives the same bits, another seed does not.
func TestRunsRepeat(t *testing.T) {
	for _, k := range router.Policies() {
		c := sim.Config{World: reference32(1), Policy: k.Name, DurationS: 300, WarmupS: 50, Seed: 7, Retries: 1, DetectS: 2,
			Outages: []sim.Outage{{Region: 0, Window: sim.Window{FromS: 100, ToS: 150}}}}
		a, b := run(t, c), run(t, c)
		if fmt.Sprintf("%+v", a) != fmt.Sprintf("%+v", b) { // NaN is not equal to itself
			t.Errorf("%s: two runs differ:\n%+v\n%+v", k.Name, a, b)
		}
		c.Seed = 8
		if reflect.DeepEqual(a.MeanLatencyS, run(t, c).MeanLatencyS) {
			t.Errorf("%s: another seed gives the same mean", k.Name)
		}
	}
}

// All policies with the same seed meet the same requests.
func TestPoliciesAreMetByTheSameRequests(t *testing.T) {
	var want *sim.Result
	for _, k := range router.Policies() {
		r := run(t, sim.Config{World: reference32(1), Policy: k.Name, DurationS: 200, Seed: 9})
		if want == nil {
			want = r
		}
		if r.ArrivedHz != want.ArrivedHz {
			t.Errorf("%s: %v arrivals/s, %s has %v", k.Name, r.ArrivedHz, want.Policy, want.ArrivedHz)
		}
	}
}

// Every request that enters is served, shed, failed or still inside.
func TestRequestsAreConserved(t *testing.T) {
	w := reference32(1)
	const duration = 2000
	r := run(t, sim.Config{World: w, Policy: "jsq", DurationS: duration, Seed: 10, Retries: 0, DetectS: 5,
		Outages: []sim.Outage{{Region: 2, Window: sim.Window{FromS: 500, ToS: 600}}}})
	arrived, gone := r.ArrivedHz*duration, (r.ThroughputHz+r.ShedHz+r.FailedHz)*duration
	inside := 0.0
	for _, g := range r.Regions {
		inside += float64(g.PeakWorkload)
	}
	if left := arrived - gone; left < 0 || left > inside+20 {
		t.Errorf("%.0f arrived, %.0f left: %.0f inside, where at most %.0f were ever", arrived, gone, left, inside)
	}
	if r.FailedHz == 0 {
		t.Error("an outage with five seconds of ignorance failed nothing")
	}
	if r.RetriedHz != 0 {
		t.Errorf("%v retries/s where none are allowed", r.RetriedHz)
	}
}

// During an outage nothing reaches the region once it is detected, retries save
// what the others can take, and afterwards it is used again.
func TestOutage(t *testing.T) {
	w := world([]float64{8}, [][2]float64{{10, 5}, {10, 5}}, [][]float64{{0.01, 0.01}})
	c := sim.Config{World: w, Policy: "jsq", DurationS: 1000, WarmupS: 400, Seed: 11, Retries: 1, DetectS: 1,
		Outages: []sim.Outage{{Region: 1, Window: sim.Window{FromS: 300, ToS: 500}}}}
	during := c
	during.DurationS = 500
	r := run(t, during)
	if r.Regions[1].RateHz != 0 || r.Regions[1].Workload != 0 {
		t.Errorf("a dead region got %v requests/s", r.Regions[1].RateHz)
	}
	near(t, "the other's rate", r.Regions[0].RateHz, 8, 0.1)
	after := c
	after.WarmupS = 600
	r = run(t, after)
	near(t, "rate after recovery", r.Regions[1].RateHz, 4, 0.15)
	all := c
	all.WarmupS = 0
	r = run(t, all)
	if r.FailedHz != 0 || r.RetriedHz == 0 {
		t.Errorf("got %v failed/s and %v retried/s, want none and some", r.FailedHz, r.RetriedHz)
	}
	all.Exclude = []sim.Window{{FromS: 290, ToS: 600}}
	if quiet := run(t, all); quiet.RetriedHz != 0 || !(quiet.MeanLatencyS < r.MeanLatencyS) {
		t.Errorf("with the outage left out: %v retried/s, mean %v, want none and below %v", quiet.RetriedHz, quiet.MeanLatencyS, r.MeanLatencyS)
	}
}

// A change of weights reaches the traffic of busy resolvers as F(t) says.
func TestNamesObeyLate(t *testing.T) {
	w := world([]float64{2000}, [][2]float64{{10_000, 5}, {10_000, 5}}, [][]float64{{0.01, 0.01}})
	first := &router.Plan{Regions: make([]router.RegionPlan, 2), Frontends: []router.FrontendPlan{{Shares: []float64{1, 0}}}}
	second := &router.Plan{Frontends: []router.FrontendPlan{{Shares: []float64{0, 1}}}}
	const change = 100
	for _, d := range []sim.DNS{{TTLS: 60}, {TTLS: 30, Tail: 0.2, TailS: 200}} {
		for _, after := range []float64{10, 20, 50, 100} {
			const width = 4.0
			d.Resolvers = 1000
			r := run(t, sim.Config{World: w, Plan: first, Policy: "split", Seed: 12, DNS: &d,
				WarmupS: change + after - width/2, DurationS: change + after + width/2, EpochS: change,
				Planner: func(e sim.Epoch) (*router.Plan, error) {
					if e.Index == 0 {
						return nil, nil
					}
					return second, nil
				}})
			got := r.Regions[1].RateHz / (r.Regions[0].RateHz + r.Regions[1].RateHz)
			if want := d.Obeyed(after); math.Abs(got-want) > 0.05 {
				t.Errorf("ttl %v tail %v: after %v s %.3f of the traffic obeys, want %.3f", d.TTLS, d.Tail, after, got, want)
			}
		}
	}
}

// What a policy may not see is not there.
func TestSightIsKept(t *testing.T) {
	w := reference32(1)
	plan, err := router.Solve(w, router.SolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range router.Policies() {
		p, err := k.New(w, plan, 0)
		if err != nil {
			t.Errorf("%s: %v", k.Name, err)
			continue
		}
		v := router.View{Usable: []bool{true, false, true}}
		if k.Sees&router.SeesOwn != 0 {
			v.Own, v.OwnWork = make([]float64, 3), make([]float64, 3)
		}
		if k.Sees&router.SeesWorkload != 0 {
			v.Workload, v.AgeS = make([]float64, 3), make([]float64, 3)
		}
		rng := seeded(t, 1)
		for n := range 100 {
			v.NowS = float64(n)
			if j := p.Pick(router.Request{Seq: uint64(n), Key: uint64(n) << 40, Work: 1}, &v, rng); j != 0 && j != 2 {
				t.Fatalf("%s picked %d, which is not usable", k.Name, j)
			}
		}
		v.Usable = make([]bool, 3)
		if j := p.Pick(router.Request{Seq: 200}, &v, rng); j != -1 {
			t.Errorf("%s picked %d where nothing is usable", k.Name, j)
		}
	}
}

func TestBadConfigurations(t *testing.T) {
	good := func() sim.Config {
		return sim.Config{World: reference32(1), Policy: "random", DurationS: 10}
	}
	for name, spoil := range map[string]func(*sim.Config){
		"no world":             func(c *sim.Config) { c.World = nil },
		"no duration":          func(c *sim.Config) { c.DurationS = 0 },
		"endless":              func(c *sim.Config) { c.DurationS = math.Inf(1) },
		"not a number":         func(c *sim.Config) { c.DurationS = math.NaN() },
		"warm-up over the end": func(c *sim.Config) { c.WarmupS = 10 },
		"unknown policy":       func(c *sim.Config) { c.Policy = "best" },
		"argument not taken":   func(c *sim.Config) { c.Policy = "rr(3)" },
		"argument not closed":  func(c *sim.Config) { c.Policy = "pd(3" },
		"outage of nothing":    func(c *sim.Config) { c.Outages = []sim.Outage{{Region: 3, Window: sim.Window{FromS: 1, ToS: 2}}} },
		"outage backwards":     func(c *sim.Config) { c.Outages = []sim.Outage{{Region: 1, Window: sim.Window{FromS: 2, ToS: 1}}} },
		"state unheard of":     func(c *sim.Config) { c.State = "gossip" },
		"dns without lifetime": func(c *sim.Config) { c.DNS = &sim.DNS{} },
		"one batch":            func(c *sim.Config) { c.Batches = 1 },
		"window backwards":     func(c *sim.Config) { c.Exclude = []sim.Window{{FromS: 2, ToS: 1}} },
		"nothing measured":     func(c *sim.Config) { c.Exclude = []sim.Window{{FromS: 0, ToS: 11}} },
		"negative retries":     func(c *sim.Config) { c.Retries = -1 },
	} {
		c := good()
		spoil(&c)
		if _, err := sim.Run(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := sim.Run(good()); err != nil {
		t.Errorf("the good one: %v", err)
	}
	for name, p := range map[string]sim.Process{
		"no rates":      {},
		"negative rate": {Rates: []sim.RateStep{{RateHz: -1}}},
		"late start":    {Rates: []sim.RateStep{{FromS: 1, RateHz: 1}}},
		"short period":  {Rates: []sim.RateStep{{RateHz: 1}, {FromS: 5, RateHz: 2}}, PeriodS: 5},
		"no variation":  {Rates: []sim.RateStep{{RateHz: 1}}, Gaps: sim.Gaps{Kind: sim.GapGamma}},
		"no mean":       {Rates: []sim.RateStep{{RateHz: 1}}, Sizes: sim.Sizes{Kind: sim.SizePareto, Tail: 1}},
	} {
		if _, err := p.Source(); err == nil {
			t.Errorf("process with %s: no error", name)
		}
	}
}

func TestStop(t *testing.T) {
	c := sim.Config{World: reference32(1), Policy: "random", DurationS: 1e6, Continue: func(now float64) bool { return now < 100 }}
	if _, err := sim.Run(c); err != sim.ErrStopped {
		t.Errorf("got %v, want ErrStopped", err)
	}
}
