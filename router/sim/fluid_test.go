package sim_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"strandline/router"
	"strandline/router/sim"
)

func ran(t testing.TB, c sim.Fluid) *sim.FluidResult {
	t.Helper()
	r, err := sim.RunFluid(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// swings is how far the workload that moves most moves in a part of a trajectory.
func swings(trajectory []sim.FluidSample, from, to float64) float64 {
	n, most := float64(len(trajectory)), 0.0
	part := trajectory[int(from*n):int(to*n)]
	for j := range part[0].Workloads {
		least, greatest := math.Inf(1), math.Inf(-1)
		for _, s := range part {
			least, greatest = min(least, s.Workloads[j]), max(greatest, s.Workloads[j])
		}
		most = max(most, greatest-least)
	}
	return most
}

// One frontend, two equal regions: a small perturbation dies out just below the
// critical step of the closed form and grows just above. The rows of the reference
// document, section 1.5, and others at random.
func TestFluidCriticalStep(t *testing.T) {
	type row struct{ mu, kappa, rate, tau float64 }
	rows := []row{{10, 10, 10, 0.05}, {10, 10, 16, 0.2}, {10, 2, 10, 0.5}}
	rng := seeded(t, 41)
	for range 8 {
		mu := 2 + 30*rng.Float64()
		rows = append(rows, row{mu, 1 + 20*rng.Float64(), 2 * mu * (0.2 + 0.7*rng.Float64()), math.Exp(rng.NormFloat64() - 2)})
	}
	for _, c := range rows {
		w := world([]float64{c.rate}, [][2]float64{{c.mu, c.kappa}, {c.mu, c.kappa}}, [][]float64{{c.tau, c.tau}})
		s := w.Regions[0].Service
		gain, period := router.CriticalGain(s.Slope(c.rate/2), 2*c.tau)
		critical := gain / (c.rate * s.Stiffness(c.rate/2))
		n := s.Workload(c.rate / 2)
		growth := func(factor float64) float64 {
			r := ran(t, sim.Fluid{
				World: w, Policy: "dgd", Eta: factor * critical, DurationS: 80 * period, StepS: period / 200, SampleS: period / 20,
				Shares: [][]float64{{0.50001, 0.49999}}, Workloads: []float64{n, n},
			})
			return swings(r.Trajectory, 0.9, 1) / swings(r.Trajectory, 0.2, 0.3)
		}
		if below, above := growth(0.98), growth(1.02); !(below < 0.97 && above > 1.03) {
			t.Errorf("%+v, critical step %g: at 0.98 the swings change by the factor %.4f, at 1.02 by %.4f", c, critical, below, above)
		}
	}
}

// Unequal delays, regions and demand: the sweep predicts the onset to 2 %.
func TestFluidOnsetInUnequalWorlds(t *testing.T) {
	rng := seeded(t, 42)
	for n := 0; n < 12; {
		w := unequalWorld(rng)
		p, err := router.Solve(w, router.SolveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		slowest, ok := clearSplit(w, p)
		if !ok {
			continue
		}
		n++
		shares, workloads := make([][]float64, len(w.Frontends)), make([]float64, len(w.Regions))
		for j, r := range p.Regions {
			workloads[j] = r.Workload
		}
		for i, f := range p.Frontends {
			shares[i] = slices.Clone(f.Shares)
			first := slices.IndexFunc(shares[i], func(x float64) bool { return x > 0 })
			for j := first + 1; j < len(shares[i]); j++ {
				if shares[i][j] > 0 {
					shares[i][j], shares[i][first] = shares[i][j]+1e-5, shares[i][first]-1e-5
				}
			}
		}
		growth := func(factor float64) float64 {
			r := ran(t, sim.Fluid{World: w, Plan: p, Policy: "dgd", EtaFraction: factor, DurationS: 100 * slowest,
				StepS: slowest / 1000, SampleS: slowest / 50, Shares: shares, Workloads: workloads})
			return swings(r.Trajectory, 0.9, 1) / swings(r.Trajectory, 0.3, 0.4)
		}
		below, above := growth(0.98), growth(1.02)
		t.Logf("%d x %d, eta_max %.4g: at 0.98 the swings change by the factor %.4f, at 1.02 by %.4f", len(w.Frontends), len(w.Regions), p.Frontends[0].EtaMax, below, above)
		if !(below < 1 && above > 1) {
			t.Errorf("world %d: wrong side", n)
		}
	}
}

// unequalWorld is small, 70 % loaded, with delays that matter.
func unequalWorld(rng *rand.Rand) *router.World {
	f, b := 2+rng.IntN(3), 2+rng.IntN(3)
	rates, services, tau := make([]float64, f), make([][2]float64, b), make([][]float64, f)
	demand, capacity := 0.0, 0.0
	for j := range services {
		services[j] = [2]float64{5 + 15*rng.Float64(), 2 + 20*rng.Float64()}
		capacity += services[j][0]
	}
	for i := range rates {
		rates[i] = 1 + 4*rng.Float64()
		demand += rates[i]
		for range b {
			tau[i] = append(tau[i], 0.02+0.4*rng.Float64())
		}
	}
	for i := range rates {
		rates[i] *= 0.7 * capacity / demand
	}
	return world(rates, services, tau)
}

// clearSplit reports whether somebody splits and no share or price difference is so
// small that a perturbation would change the arcs in use, and about how long the
// slowest oscillation takes.
func clearSplit(w *router.World, p *router.Plan) (periodS float64, ok bool) {
	splits := 0
	for i, f := range p.Frontends {
		used, cost, longest := 0, 0.0, 0.0
		for j, share := range f.Shares {
			if share > 0 {
				used++
				cost = p.Regions[j].PriceS + w.ArcS(i, j)
				tau, _ := w.OneWayS(i, j)
				longest = max(longest, tau)
				if share < 0.02 {
					return 0, false
				}
			}
		}
		for j, share := range f.Shares {
			if share == 0 && p.Regions[j].PriceS+w.ArcS(i, j) < cost+1e-3 {
				return 0, false
			}
		}
		if used < 2 {
			continue
		}
		splits++
		for j, share := range f.Shares {
			if share > 0 {
				_, period := router.CriticalGain(w.Regions[j].Service.Slope(p.Regions[j].RateHz), 2*longest)
				periodS = max(periodS, period)
			}
		}
	}
	return periodS, splits > 0
}

// Reference document, section 3.3.
func TestFluidPolicies(t *testing.T) {
	for _, c := range []struct {
		scale, stepS float64
		want         map[string]float64 // excess in percent
	}{
		{0.1, 0.002, map[string]float64{"dgd": 0.04, "dgd fast": 0.01, "gmsr": 0.06, "marginal": 0.06, "jsq": 8.6, "latency": 11.3}},
		{1, 0.01, map[string]float64{"dgd": 0.03, "dgd fast": 1.7, "gmsr": 0.6, "marginal": 0.5, "jsq": 8.7, "latency": 11.6}},
	} {
		got := map[string]float64{}
		for name, want := range c.want {
			run := sim.Fluid{World: reference32(c.scale), Policy: name, DurationS: 2000, StepS: c.stepS}
			switch name {
			case "dgd":
				run.Eta = 0.02
			case "dgd fast":
				run.Policy, run.Eta = "dgd", 0.1
			}
			r := ran(t, run)
			got[name] = 100 * r.Excess
			t.Logf("scale %g: %-8s excess %.4f %%, reference %.2f %%, mean %.5f s, swing %.3g, oscillates %v", c.scale, name, got[name], want, r.MeanLatencyS, r.Swing, r.Oscillates)
			if math.Abs(got[name]-want) > 0.3 {
				t.Errorf("scale %g: %s: excess %.3f %%, want %.2f %% to 0.3", c.scale, name, got[name], want)
			}
			if fast := name == "dgd fast" && c.scale == 1; name[:3] == "dgd" && r.Oscillates != fast {
				t.Errorf("scale %g: %s: oscillates %v", c.scale, name, r.Oscillates)
			}
		}
		if order := []float64{got["dgd"], got["marginal"], got["gmsr"], got["jsq"], got["latency"]}; c.scale == 1 && !slices.IsSorted(order) || order[2] > order[3] || order[3] > order[4] {
			t.Errorf("scale %g: order %v", c.scale, order)
		}
	}
}

// From empty regions and shares by capacity, far from the plan, the default step
// never ends in an oscillation. A quarter of the plan's EtaMax alone does, in about
// one such world of ten: there more frontends split than at the plan.
func TestFluidDefaultStepCalmsDown(t *testing.T) {
	rng := seeded(t, 45)
	local := 0
	for n := range 40 {
		w := unequalWorld(rng)
		load := 0.3 + rng.Float64()
		for i := range w.Frontends {
			w.Frontends[i].RateHz *= load
		}
		c := sim.Fluid{World: w, Policy: "dgd", DurationS: 2000, StepS: 0.02, MeasureS: 400}
		if r := ran(t, c); r.Oscillates || r.Excess > 0.05 {
			t.Errorf("world %d: oscillates %v, excess %g", n, r.Oscillates, r.Excess)
		}
		c.EtaFraction = router.DefaultStepFraction
		if ran(t, c).Oscillates {
			local++
		}
	}
	if local == 0 {
		t.Error("the bound that holds anywhere is not needed")
	}
	t.Logf("a quarter of EtaMax alone oscillates in %d of 40 worlds", local)
}

// Where DGD comes to rest is the optimum, in any world.
func TestFluidRestsAtTheOptimum(t *testing.T) {
	rng := seeded(t, 43)
	for n := range 12 {
		w := unequalWorld(rng)
		if n%3 == 1 {
			w.Objective.Network = router.KindRTT
		}
		if n%3 == 2 {
			w.Objective.Shed = &router.Shed{PriceS: 5}
			w.Frontends[0].RateHz *= 3
		}
		p, err := router.Solve(w, router.SolveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r := ran(t, sim.Fluid{World: w, Plan: p, Policy: "dgd", DurationS: 20000, StepS: 0.02, MeasureS: 100})
		name := fmt.Sprintf("world %d", n)
		if math.Abs(r.Excess) > 2e-4 || r.Oscillates {
			t.Errorf("%s: excess %g, oscillates %v", name, r.Excess, r.Oscillates)
		}
		near(t, name+" throughput", r.ThroughputHz, w.DemandHz()-shedHz(p), 1e-3)
		if math.Abs(r.ShedHz-shedHz(p)) > 1e-3*w.DemandHz() {
			t.Errorf("%s: sheds %g, the plan %g", name, r.ShedHz, shedHz(p))
		}
		near(t, name+" mean", r.MeanLatencyS, p.MeanLatencyS, 2e-3)
		for j, workload := range r.Workloads {
			near(t, fmt.Sprint(name, " workload ", j), workload, p.Regions[j].Workload, 0.02)
		}
	}
}

func shedHz(p *router.Plan) float64 {
	sum := 0.0
	for _, f := range p.Frontends {
		sum += f.ShedHz
	}
	return sum
}

// The integrator against closed forms: static shares come to N(r); with no service
// bound in the way, what is sent arrives one delay later; and halving the step
// quarters the error.
func TestFluidAgainstClosedForms(t *testing.T) {
	w := world([]float64{10}, [][2]float64{{10, 10}, {20, 40}}, [][]float64{{0.010, 0.080}})
	for _, c := range []struct {
		policy string
		rateA  float64
	}{{"plan", 4.812536}, {"replicas", 10. / 3}} {
		r := ran(t, sim.Fluid{World: w, Policy: c.policy, DurationS: 400, MeasureS: 1})
		near(t, c.policy+" A", r.Workloads[0], 10*c.rateA/(10-c.rateA), 1e-6)
		near(t, c.policy+" B", r.Workloads[1], 40*(10-c.rateA)/(20-(10-c.rateA)), 1e-6)
	}
	near(t, "excess of proportional shares", ran(t, sim.Fluid{World: w, Policy: "replicas", DurationS: 400, MeasureS: 1}).MeanLatencyS, 2.556667, 1e-6)
	latency := ran(t, sim.Fluid{World: w, Policy: "plan", DurationS: 400, MeasureS: 1})
	near(t, "median", latency.P50S, 14.008306/5.187464+0.080, 0.01)

	// The demand steps from 0 to 8 at 1 s; until 1.07 s nothing is inside; after that
	// dN/dt = 8 - 10 N/(10+N), whose solution is implicit in t.
	step := world([]float64{0}, [][2]float64{{10, 10}}, [][]float64{{0.07}})
	at := func(stepS float64) float64 {
		r := ran(t, sim.Fluid{World: step, Policy: "plan", DurationS: 5.07, StepS: stepS, MeasureS: 1,
			Changes: []sim.Change{{AtS: 1, Frontend: 0, RateHz: 8}}})
		return r.Workloads[0]
	}
	exact := implicit(4)
	coarse, fine := at(0.01)-exact, at(0.005)-exact
	if math.Abs(fine) > 0.02 || math.Abs(fine) > 0.6*math.Abs(coarse) {
		t.Errorf("after a step: errors %g and %g of %g", coarse, fine, exact)
	}
}

// implicit is N(t) of dN/dt = 8 - 10N/(10+N) from 0: t = int_0^N (10+n)/(80-2n) dn =
// -N/2 - 25 ln(1-N/40).
func implicit(t float64) float64 {
	low, high := 0.0, 39.9
	for range 80 {
		if n := (low + high) / 2; -n/2-25*math.Log(1-n/40) < t {
			low = n
		} else {
			high = n
		}
	}
	return low
}

// The largest region fails: what was there is lost, traffic goes elsewhere once it
// shows, and all is as before some time after it is back.
func TestFluidOutage(t *testing.T) {
	w := reference32(1)
	for i := range w.Frontends {
		w.Frontends[i].RateHz *= 0.5
	}
	for _, policy := range []string{"dgd", "marginal", "plan"} {
		c := sim.Fluid{World: w, Policy: policy, Eta: 0.02, DurationS: 3000, StepS: 0.01, SampleS: 1,
			Outages: []sim.Outage{{Region: 2, Window: sim.Window{FromS: 1000, ToS: 1600}}}, DetectS: 0.5}
		r := ran(t, c)
		before, during, after := r.Trajectory[990], r.Trajectory[1500], r.Trajectory[2990]
		if during.Workloads[2] != 0 || during.SentHz[2] != 0 || r.LostHz != 0 {
			t.Errorf("%s: during: %+v, lost %g", policy, during, r.LostHz)
		}
		// In the plan f2 uses r2 alone, so it has nowhere to go.
		want := 12.0
		if policy == "plan" {
			want = 10
		}
		near(t, policy+" sent during", during.SentHz[0]+during.SentHz[1], want, 1e-9)
		if policy != "marginal" {
			near(t, policy+" after", after.CostHz, before.CostHz, 2e-3)
		}
		if policy == "dgd" {
			rest, err := router.Replan(w, []string{"r2"})
			if err != nil {
				t.Fatal(err)
			}
			near(t, "cost during", during.CostHz, rest.Cost, 2e-3)
		}
		c.MeasureS = 2001
		c.SampleS = 0
		lost := ran(t, c).LostHz * 2001
		// What was inside, and at most all arrivals of half a second and two delays.
		if inside := before.Workloads[2]; lost < inside || lost > inside+12*0.7 {
			t.Errorf("%s: lost %g requests of %g inside", policy, lost, inside)
		}
	}
}

// Demand steps up: DGD without a plan finds the new optimum, the old plan does not.
func TestFluidDemandStep(t *testing.T) {
	w := reference32(1)
	c := sim.Fluid{World: w, Policy: "dgd", Eta: 0.02, DurationS: 4000, StepS: 0.01,
		Changes: []sim.Change{{AtS: 1000, Frontend: 0, RateHz: 15}, {AtS: 1000, Frontend: 1, RateHz: 6}}}
	if r := ran(t, c); math.Abs(r.Excess) > 1e-3 || math.Abs(r.ThroughputHz-25) > 0.01 {
		t.Errorf("dgd: excess %g, throughput %g", r.Excess, r.ThroughputHz)
	}
	c.Policy = "plan"
	if r := ran(t, c); r.Excess < 0.005 {
		t.Errorf("the old plan: excess %g", r.Excess)
	}
	c.Changes[1].RateHz = 60
	if r := ran(t, c); !math.IsNaN(r.Excess) || r.ThroughputHz >= 35 {
		t.Errorf("overload: excess %g, throughput %g", r.Excess, r.ThroughputHz)
	}
}

func TestFluidIsDeterministicAndStops(t *testing.T) {
	c := sim.Fluid{World: reference32(1), Policy: "dgd", Eta: 0.1, DurationS: 50, SampleS: 1}
	if a, b := ran(t, c), ran(t, c); fmt.Sprint(*a) != fmt.Sprint(*b) {
		t.Error("two runs differ")
	}
	c.Continue = func(now float64) bool { return now < 10 }
	if _, err := sim.RunFluid(c); err != sim.ErrStopped {
		t.Errorf("got %v, want ErrStopped", err)
	}
}

func TestFluidRefuses(t *testing.T) {
	good := func() sim.Fluid { return sim.Fluid{World: reference32(1), Policy: "dgd", DurationS: 1} }
	for name, spoil := range map[string]func(*sim.Fluid){
		"no world":        func(c *sim.Fluid) { c.World = nil },
		"unknown policy":  func(c *sim.Fluid) { c.Policy = "magic" },
		"no duration":     func(c *sim.Fluid) { c.DurationS = 0 },
		"endless":         func(c *sim.Fluid) { c.DurationS = math.Inf(1) },
		"an age":          func(c *sim.Fluid) { c.DurationS = 1e200 },
		"NaN step":        func(c *sim.Fluid) { c.StepS = math.NaN() },
		"long measure":    func(c *sim.Fluid) { c.MeasureS = 2 },
		"negative eta":    func(c *sim.Fluid) { c.Eta = -1 },
		"short shares":    func(c *sim.Fluid) { c.Shares = [][]float64{{1, 0, 0}} },
		"short rows":      func(c *sim.Fluid) { c.Shares = [][]float64{{1, 0}, {1}, {0}} },
		"bad change":      func(c *sim.Fluid) { c.Changes = []sim.Change{{Frontend: 3}} },
		"negative change": func(c *sim.Fluid) { c.Changes = []sim.Change{{RateHz: -1}} },
		"bad outage":      func(c *sim.Fluid) { c.Outages = []sim.Outage{{Region: -1, Window: sim.Window{FromS: 0, ToS: 1}}} },
		"endless delay":   func(c *sim.Fluid) { *c.World.Latency.Matrix[0][1] = 1e12 },
		"no delay":        func(c *sim.Fluid) { c.World = reference32(0) },
	} {
		c := good()
		spoil(&c)
		if _, err := sim.RunFluid(c); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	if _, err := sim.RunFluid(good()); err != nil {
		t.Error(err)
	}
}

// The target: 1000 x 100 for 100 s in steps of 20 ms in at most 10 s of processor
// time. model-s/s is how much faster than time it runs.
func BenchmarkFluid(b *testing.B) {
	for _, size := range [][2]int{{3, 3}, {1000, 100}} {
		b.Run(fmt.Sprintf("dgd/%dx%d", size[0], size[1]), func(b *testing.B) {
			w := sphereWorld(seeded(b, 44), size[0], size[1], 0.8)
			p, err := router.Solve(w, router.SolveOptions{TargetGap: 1e-4})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				ran(b, sim.Fluid{World: w, Plan: p, Policy: "dgd", DurationS: 100, StepS: 0.02})
			}
			b.ReportMetric(100*float64(b.N)/b.Elapsed().Seconds(), "model-s/s")
		})
	}
}

// sphereWorld spreads frontends and regions over the earth, with log-normal demand.
func sphereWorld(rng *rand.Rand, frontends, regions int, load float64) *router.World {
	place := func() [3]float64 {
		z, a := 2*rng.Float64()-1, 2*math.Pi*rng.Float64()
		r := math.Sqrt(1 - z*z)
		return [3]float64{r * math.Cos(a), r * math.Sin(a), z}
	}
	rates, services, places := make([]float64, frontends), make([][2]float64, regions), make([][3]float64, regions)
	demand, capacity, tau := 0.0, 0.0, make([][]float64, frontends)
	for j := range services {
		mu := 5 + 45*rng.Float64()
		services[j], places[j] = [2]float64{mu, mu * (1 + 3*rng.Float64())}, place()
		capacity += mu
	}
	for i := range rates {
		rates[i] = math.Exp(rng.NormFloat64())
		demand += rates[i]
		at := place()
		for _, p := range places {
			tau[i] = append(tau[i], 0.0478*math.Acos(max(-1, min(1, at[0]*p[0]+at[1]*p[1]+at[2]*p[2]))))
		}
	}
	for i := range rates {
		rates[i] *= load * capacity / demand
	}
	return world(rates, services, tau)
}
