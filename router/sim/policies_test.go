package sim_test

import (
	"fmt"
	"math"
	"runtime"
	"testing"

	"strandline/router"
	"strandline/router/sim"
)

// supermarket is the mean time in system, in mean service times, of many identical
// exponential servers at load rho with the best of d: sum over k >= 1 of
// rho^((d^k-d)/(d-1)) (standard theory, Mitzenmacher).
func supermarket(rho float64, d int) float64 {
	sum := 0.0
	for k := 1; k < 200; k++ {
		exponent := float64(k - 1)
		if d > 1 {
			exponent = (math.Pow(float64(d), float64(k)) - float64(d)) / float64(d-1)
		}
		if exponent > 1e6 {
			break
		}
		sum += math.Pow(rho, exponent)
	}
	return sum
}

// The published table, from the formula.
func TestSupermarketTable(t *testing.T) {
	for rho, want := range map[float64][3]float64{
		0.7: {3.3333, 1.6145, 1.3568}, 0.9: {10, 2.6141, 2.0279}, 0.99: {86.6, 5.4320, 3.8578},
	} {
		for d, w := range want {
			if rho == 0.99 && d == 0 {
				w = (1 - math.Pow(rho, 199)) / (1 - rho) // the sum is cut
			}
			near(t, fmt.Sprintf("rho %v d %d", rho, d+1), supermarket(rho, d+1), w, 1e-4)
		}
	}
}

// The simulator against theory: 200 identical M/M/1 servers under pd(d).
func TestPowerOfD(t *testing.T) {
	type cell struct {
		rho float64
		d   int
	}
	cells := []cell{{0.7, 2}, {0.7, 3}, {0.9, 2}, {0.9, 3}}
	rng := seeded(t, 71)
	for range 2 {
		cells = append(cells, cell{0.3 + 0.5*rng.Float64(), 2 + rng.IntN(4)})
	}
	for _, c := range cells {
		w, truth := identical(200, c.rho)
		r := run(t, sim.Config{World: w, Truth: truth, Policy: fmt.Sprintf("pd(%d)", c.d), DurationS: 900, WarmupS: 100, Seed: 5})
		near(t, fmt.Sprintf("rho %.3f d %d", c.rho, c.d), r.MeanLatencyS, supermarket(c.rho, c.d), 0.03)
	}
}

// Over a sweep of the age of a snapshot the repair is never worse than the shortest
// queue of the snapshot nor than random choice; the shortest queue herds with age.
func TestStaleSnapshots(t *testing.T) {
	const n, rho = 10, 0.9
	w, truth := identical(n, rho)
	mean := func(policy string) float64 {
		return run(t, sim.Config{World: w, Truth: truth, Policy: policy, DurationS: 20_000, WarmupS: 1000, Seed: 6}).MeanLatencyS
	}
	random := mean("random")
	near(t, "random is M/M/1", random, 1/(1-rho), 0.06)
	last := 0.0
	for _, age := range []float64{0.2, 1, 4, 16, 64} {
		stale, repaired := mean(fmt.Sprintf("stale-jsq(%v)", age)), mean(fmt.Sprintf("li(%v)", age))
		if repaired > 1.02*min(stale, random) {
			t.Errorf("age %v: repaired %.3f, stale %.3f, random %.3f", age, repaired, stale, random)
		}
		if stale < last {
			t.Errorf("age %v: %.3f is less than the %.3f of a fresher snapshot", age, stale, last)
		}
		last = stale
	}
	if last < random {
		t.Errorf("a snapshot of 64 s gives %.3f, random %.3f: no herding", last, random)
	}
}

// Idle tokens beat random choice among identical servers, and approach waiting that
// vanishes as the system grows.
func TestJoinIdleQueue(t *testing.T) {
	mean := func(n int, policy string) float64 {
		w, truth := identical(n, 0.8)
		return run(t, sim.Config{World: w, Truth: truth, Policy: policy, DurationS: 40_000 / float64(n), WarmupS: 4000 / float64(n), Seed: 7}).MeanLatencyS
	}
	small, large := mean(10, "jiq"), mean(200, "jiq")
	if random := mean(10, "random"); small > random/2 {
		t.Errorf("10 servers: %.3f with tokens, %.3f without", small, random)
	}
	if large > small || large > 1.6 {
		t.Errorf("200 servers take %.3f, 10 take %.3f: waiting does not vanish", large, small)
	}
}

// The sharp test: a policy of marginal costs lands on the optimum, one of latencies
// on the selfish split, where they differ. One frontend, a near and a far region, as
// the reference case of the fluid model, but ten times as large so that chance
// matters less.
func TestMarginalAgainstSelfish(t *testing.T) {
	w := world([]float64{100}, [][2]float64{{100, 100}, {200, 400}}, [][]float64{{0.010, 0.080}})
	mean := func(policy string) (latency, share float64) {
		r := run(t, sim.Config{World: w, Policy: policy, DurationS: 3000, WarmupS: 500, Seed: 8})
		return r.MeanLatencyS, r.Regions[0].RateHz / (r.Regions[0].RateHz + r.Regions[1].RateHz)
	}
	// Shares and means of the fluid: 0.4812536 at the optimum, 0.6088109 selfish.
	for policy, want := range map[string]struct{ share, mean float64 }{
		"plan": {0.4812536, 2.374867}, "marginal": {0.4812536, 2.374867}, "gmsr": {0.4775923, 2.374996},
		"dgd": {0.4812536, 2.374867}, "latency": {0.6088109, 2.566308}, "jsq": {0.5425729, 2.414301},
	} {
		latency, share := mean(policy)
		if math.Abs(share-want.share) > 0.02 {
			t.Errorf("%s: a share of %.4f to the near region, want %.4f", policy, share, want.share)
		}
		near(t, policy+" mean latency", latency, want.mean, 0.03)
	}
}

// Waterfall fills the nearest to the cap and loses to all others at high load.
func TestWaterfall(t *testing.T) {
	w := world([]float64{100}, [][2]float64{{100, 100}, {200, 400}}, [][]float64{{0.010, 0.080}})
	r := run(t, sim.Config{World: w, Policy: "waterfall", DurationS: 2000, WarmupS: 500, Seed: 9})
	near(t, "rate of the nearest", r.Regions[0].RateHz, 90, 0.03)
	near(t, "mean latency", r.MeanLatencyS, 9.227526, 0.1)
}

// Shares of work follow what each policy promises.
func TestProportions(t *testing.T) {
	w := world([]float64{20}, [][2]float64{{10, 10}, {30, 10}}, [][]float64{{0.01, 0.01}})
	for _, policy := range []string{"swrr", "replicas"} {
		r := run(t, sim.Config{World: w, Policy: policy, DurationS: 5000, Seed: 10})
		near(t, policy, r.Regions[1].RateHz/r.Regions[0].RateHz, 3, 0.03)
	}
	for _, policy := range []string{"rr", "random"} {
		r := run(t, sim.Config{World: world([]float64{10}, [][2]float64{{10, 10}, {30, 10}}, [][]float64{{0.01, 0.01}}), Policy: policy, DurationS: 5000, Seed: 10})
		near(t, policy, r.Regions[1].RateHz/r.Regions[0].RateHz, 1, 0.03)
	}
}

// Interleaving spaces requests, so that the same shares give less waiting than
// drawing them.
func TestInterleavingBeatsDrawing(t *testing.T) {
	w := reference32(1)
	mean := func(policy string) float64 {
		return run(t, sim.Config{World: w, Policy: policy, DurationS: 20_000, WarmupS: 1000, Seed: 11}).MeanLatencyS
	}
	if a, b := mean("plan"), mean("split"); a >= b {
		t.Errorf("interleaved %.4f, drawn %.4f", a, b)
	}
}

// A run works in memory that does not depend on its length.
func TestMemoryIsIndependentOfTime(t *testing.T) {
	w := planet(5, 4, 0.7)
	for _, state := range []sim.StateKind{sim.StateDelayed, sim.StateReports} {
		bytes := func(duration float64) float64 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			run(t, sim.Config{World: w, Policy: "jsq", State: state, DurationS: duration, Seed: 12})
			runtime.ReadMemStats(&after)
			return float64(after.TotalAlloc - before.TotalAlloc)
		}
		if short, long := bytes(100), bytes(2000); long > 2*short {
			t.Errorf("%s: %.0f bytes for 100 s, %.0f for 2000 s", state, short, long)
		}
	}
}

// Late state makes greedy choice swing: reports every four seconds are worse than
// state of a network delay ago. Gradient descent with the step that belongs to them
// is hardly touched, and a plan not at all.
func TestLateStateHurtsGreedyChoice(t *testing.T) {
	w := reference32(1)
	mean := func(policy string, state sim.StateKind) *sim.Result {
		return run(t, sim.Config{World: w, Policy: policy, State: state, ReportS: 4, DurationS: 10_000, WarmupS: 500, Seed: 13})
	}
	fresh, late := mean("gmsr", sim.StateDelayed), mean("gmsr", sim.StateReports)
	if late.Oscillation < 1.1*fresh.Oscillation || late.MeanLatencyS < fresh.MeanLatencyS {
		t.Errorf("gmsr: fresh mean %.3f swing %.3f, late mean %.3f swing %.3f", fresh.MeanLatencyS, fresh.Oscillation, late.MeanLatencyS, late.Oscillation)
	}
	if d := mean("dgd", sim.StateReports); d.MeanLatencyS > 0.95*late.MeanLatencyS || d.MeanLatencyS > 1.03*mean("dgd", sim.StateDelayed).MeanLatencyS {
		t.Errorf("late dgd takes %.3f, late gmsr %.3f", d.MeanLatencyS, late.MeanLatencyS)
	}
	if a, b := mean("plan", sim.StateDelayed), mean("plan", sim.StateReports); a.MeanLatencyS != b.MeanLatencyS {
		t.Errorf("a plan does not look at state: %v and %v", a.MeanLatencyS, b.MeanLatencyS)
	}
}

// erlang is the mean time in an M/M/c queue with servers of rate 1 at load rho, by
// Erlang's delay formula.
func erlang(c int, rho float64) float64 {
	a := rho * float64(c)
	b := 1.0 // Erlang B by its recursion
	for k := 1; k <= c; k++ {
		b = a * b / (float64(k) + a*b)
	}
	wait := b / (1 - rho*(1-b))
	return 1 + wait/(float64(c)*(1-rho))
}

// A shared central queue is the bound: with identical servers and no network no
// policy that chooses on arrival beats it. It is one region that serves min(n, c).
func TestCentralQueueIsTheBound(t *testing.T) {
	const servers, rho = 10, 0.85
	w, truth := identical(servers, rho)
	central := run(t, sim.Config{World: world([]float64{rho * servers}, [][2]float64{{servers, 1}}, [][]float64{{0}}), Policy: "random",
		Truth: func(_, n int) float64 { return float64(min(n, servers)) }, DurationS: 20_000, WarmupS: 1000, Seed: 14})
	near(t, "central queue", central.MeanLatencyS, erlang(servers, rho), 0.03)
	for _, policy := range []string{"jsq", "pd", "jiq", "lc", "gmsr", "rr", "random", "li"} {
		r := run(t, sim.Config{World: w, Truth: truth, Policy: policy, DurationS: 20_000, WarmupS: 1000, Seed: 14})
		if r.MeanLatencyS < 0.99*erlang(servers, rho) {
			t.Errorf("%s takes %.4f, a central queue %.4f", policy, r.MeanLatencyS, erlang(servers, rho))
		}
		if policy == "jsq" && r.MeanLatencyS > 1.5*erlang(servers, rho) {
			t.Errorf("jsq takes %.4f, a central queue %.4f", r.MeanLatencyS, erlang(servers, rho))
		}
	}
}

// Twice the demand that the regions can serve, with a price for refusing: by plan
// each region runs at r_max = mu - sqrt(mu kappa/c), and by admission its workload
// stays near N_max = sqrt(c mu kappa) - kappa. Nothing is lost but what is shed.
func TestOverloadSheds(t *testing.T) {
	for _, price := range []float64{20, 100} {
		w := world([]float64{40}, [][2]float64{{10, 10}, {10, 10}}, [][]float64{{0, 0}})
		w.Objective.Shed = &router.Shed{PriceS: price}
		most, rate := math.Sqrt(price*100)-10, 10-math.Sqrt(100/price)
		for _, policy := range []string{"plan", "split", "hash", "admission"} {
			r := run(t, sim.Config{World: w, Policy: policy, DurationS: 4000, WarmupS: 500, Seed: 15})
			name := fmt.Sprintf("price %v %s", price, policy)
			near(t, name+" served and shed", r.ThroughputHz+r.ShedHz, r.ArrivedHz, 0.01)
			near(t, name+" throughput", r.ThroughputHz, 2*rate, 0.03)
			if policy != "admission" {
				continue
			}
			for _, g := range r.Regions {
				if float64(g.PeakWorkload) > most+2 || g.Workload < 0.8*most {
					t.Errorf("%s: %s has %.1f inside, at most %d, want at most %.1f", name, g.Name, g.Workload, g.PeakWorkload, most)
				}
			}
		}
	}
}

// Sessions stay put under a hash of the plan, and go elsewhere with each request
// under a draw.
func TestHashedSessionsStay(t *testing.T) {
	w := reference32(1)
	moves := func(policy string) (share float64) {
		seen, moved, all := map[uint64]int{}, 0, 0
		kind, err := router.LookupPolicy(policy)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := router.Solve(w, router.SolveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := kind.New(w, plan, 0)
		if err != nil {
			t.Fatal(err)
		}
		rng, v := seeded(t, 16), &router.View{Usable: []bool{true, true, true}}
		for range 5000 {
			key := router.SessionKey(0, rng.IntN(100))
			j := p.Pick(router.Request{Key: key}, v, rng)
			if old, ok := seen[key]; ok {
				all++
				if old != j {
					moved++
				}
			}
			seen[key] = j
		}
		return float64(moved) / float64(all)
	}
	if got := moves("hash"); got != 0 {
		t.Errorf("hash moved %v of the sessions' requests", got)
	}
	if got := moves("split"); got < 0.3 {
		t.Errorf("split moved only %v", got)
	}
}
