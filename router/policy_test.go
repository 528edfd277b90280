package router_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"strandline/router"
)

// policy makes the policy of frontend 0 in a world of regions with the given
// capacities, 10 ms apart.
func policy(t testing.TB, spec string, capacity ...float64) router.Policy {
	t.Helper()
	services, tau := make([][2]float64, len(capacity)), make([]float64, len(capacity))
	for j, c := range capacity {
		services[j], tau[j] = [2]float64{c, 10}, 0.01*float64(j+1)
	}
	w := world([]float64{1}, services, [][]float64{tau})
	k, err := router.LookupPolicy(spec)
	if err != nil {
		t.Fatal(err)
	}
	p, err := k.New(w, solved(t, w), 0)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func usable(n int) []bool { return slices.Repeat([]bool{true}, n) }

func picks(p router.Policy, v *router.View, n int, rng *rand.Rand) string {
	var b strings.Builder
	for k := range n {
		b.WriteByte(byte('a' + p.Pick(router.Request{Seq: uint64(k), Work: 1}, v, rng)))
	}
	return b.String()
}

// The sequence of nginx for weights 5, 1, 1; that it repeats shows that the current
// values return to 0.
func TestSmoothWeightedRoundRobin(t *testing.T) {
	p, v := policy(t, "swrr", 5, 1, 1), &router.View{Usable: usable(3)}
	if got, want := picks(p, v, 21, seeded(t, 1)), strings.Repeat("aabacaa", 3); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	v.Usable[0] = false
	if got := picks(p, v, 10, seeded(t, 1)); strings.Contains(got, "a") || strings.Count(got, "b") != 5 {
		t.Errorf("without the first: got %s", got)
	}
}

// A failing region falls behind and comes back step by step.
func TestSmoothWeightsFallWithFailures(t *testing.T) {
	p, v := policy(t, "swrr", 1, 1), &router.View{Usable: usable(2)}
	for range 3 {
		p.Observe(router.Outcome{Region: 0, OK: false})
	}
	got := picks(p, v, 60, seeded(t, 1))
	if early, late := strings.Count(got[:10], "a"), strings.Count(got[40:], "a"); early > 3 || late != 10 {
		t.Errorf("after three failures %d of the first 10 and %d of the last 20 in %s", early, late, got)
	}
}

// New weights do not restart the cycle: over any run of picks each region gets its
// share to within one or two requests, whatever changes.
func TestPlannedSharesAreInterleaved(t *testing.T) {
	rng := seeded(t, 61)
	const n = 4
	p := policy(t, "plan", 1, 2, 3, 4)
	v, want, got := &router.View{Usable: usable(n)}, make([]float64, n), make([]float64, n)
	for range 300 {
		shares := randomWeights(rng, n)
		sum := 0.0
		for _, x := range shares {
			sum += x
		}
		for j := range shares {
			shares[j] /= sum
		}
		p.(router.PlanObserver).SetPlan(&router.Plan{Frontends: []router.FrontendPlan{{Shares: shares}}})
		clear(want)
		clear(got)
		for range 200 {
			got[p.Pick(router.Request{}, v, rng)]++
			for j, x := range shares {
				want[j] += x
			}
		}
		for j := range want {
			if math.Abs(got[j]-want[j]) > 4 {
				t.Fatalf("shares %v: region %d got %v of 200", shares, j, got[j])
			}
		}
	}
}

func TestGreedyPoliciesTakeTheLeast(t *testing.T) {
	v := &router.View{Usable: usable(3), Workload: []float64{50, 4, 10}, AgeS: make([]float64, 3), Own: []float64{9, 1, 2}, OwnWork: []float64{1, 9, 0.5}}
	for spec, want := range map[string]int{
		"nearest": 0, "jsq": 1, "lc": 1, "lw": 2, "waterfall": 0, "waterfall(0.5)": 1, "waterfall(0.1)": 1,
		"gmsr": 1, "marginal": 1, "latency": 1, "pd(3)": 1,
	} {
		if got := policy(t, spec, 10, 10, 10).Pick(router.Request{}, v, seeded(t, 1)); got != want {
			t.Errorf("%s: got %d, want %d", spec, got, want)
		}
	}
}

// Ties go to all in equal parts, or every frontend would choose the same region.
func TestTiesAreDrawn(t *testing.T) {
	for _, spec := range []string{"jsq", "lc", "lw", "gmsr", "random", "rr", "jiq", "headroom", "li"} {
		p, count, rng := policy(t, spec, 10, 10, 10, 10), make([]float64, 4), seeded(t, 62)
		v := &router.View{Usable: usable(4), Workload: make([]float64, 4), AgeS: make([]float64, 4), Own: make([]float64, 4), OwnWork: make([]float64, 4)}
		for k := range 8000 {
			v.NowS = float64(k)
			count[p.Pick(router.Request{}, v, rng)]++
		}
		for j, n := range count {
			if math.Abs(n-2000) > 250 {
				t.Errorf("%s: region %d got %v of 8000", spec, j, n)
			}
		}
	}
}

// Capacity-weighted drawing: the shares of drawn regions follow capacity, so that a
// small region is not overrun.
func TestPowerOfOneIsProportional(t *testing.T) {
	p, count, rng := policy(t, "pd(1)", 1, 2, 7), make([]float64, 3), seeded(t, 63)
	v := &router.View{Usable: usable(3), Workload: make([]float64, 3), AgeS: make([]float64, 3)}
	for range 20_000 {
		count[p.Pick(router.Request{}, v, rng)]++
	}
	for j, want := range []float64{0.1, 0.2, 0.7} {
		if got := count[j] / 20_000; math.Abs(got-want) > 0.02 {
			t.Errorf("region %d: got %v, want %v", j, got, want)
		}
	}
}

// The level solves its equation, the shares sum to 1, no region below the level is
// left out, and the limits are JSQ and capacity shares.
func TestFillLevel(t *testing.T) {
	rng := seeded(t, 64)
	for range 500 {
		n := 1 + rng.IntN(8)
		load, speed, ok, dst := make([]float64, n), make([]float64, n), make([]bool, n), make([]float64, n)
		for j := range load {
			load[j], speed[j], ok[j] = float64(rng.IntN(50)), 0.5+rng.Float64(), rng.IntN(5) > 0
		}
		ok[rng.IntN(n)] = true
		amount := rng.ExpFloat64() * 40
		level := router.FillLevel(dst, load, speed, ok, amount)
		filled, sum := 0.0, 0.0
		for j := range load {
			sum += dst[j]
			if !ok[j] {
				if dst[j] != 0 {
					t.Fatalf("region %d is not usable and gets %v", j, dst[j])
				}
				continue
			}
			gap := max(0, speed[j]*level-load[j])
			filled += gap
			near(t, "share", dst[j]*amount, gap, 1e-9+1e-9/max(gap, 1e-9))
		}
		near(t, "filled", filled, amount, 1e-9)
		near(t, "sum", sum, 1, 1e-12)
	}
	load, speed, dst := []float64{5, 2, 9}, []float64{1, 2, 3}, make([]float64, 3)
	router.FillLevel(dst, load, speed, usable(3), 0)
	if dst[1] != 1 {
		t.Errorf("nothing arrives: got %v, want all at the emptiest", dst)
	}
	router.FillLevel(dst, load, speed, usable(3), 1e9)
	for j, s := range speed {
		near(t, "much arrives", dst[j], s/6, 1e-6)
	}
}

// A token is used once, before it expires, for a usable region.
func TestIdleTokens(t *testing.T) {
	p, v, rng := policy(t, "jiq", 1, 1e-4, 1e-4), &router.View{Usable: usable(3)}, seeded(t, 65)
	idle := p.(router.IdleObserver)
	idle.ObserveIdle(1, 10)
	idle.ObserveIdle(2, 1)
	v.NowS = 5
	if got := picks(p, v, 2, rng); got != "ba" { // without tokens the big region is all but certain
		t.Errorf("got %s, want ba", got)
	}
	idle.ObserveIdle(2, 10)
	v.Usable[2] = false
	if got := picks(p, v, 1, rng); got != "a" {
		t.Errorf("got %s: a token of an unusable region", got)
	}
}

// lines are the costs of the learners' toy, with their load.
func lines() (a, b []float64, load float64) {
	return []float64{10, 40, 120}, []float64{0.5, 0.25, 0.4}, 160
}

// toy lets 100 routers act at once, round by round, on regions whose cost is a
// straight line; it returns the mean cost over the last half relative to that of
// the selfish split.
func toy(t *testing.T, spec string, rounds int) float64 {
	a, b, load := lines()
	_, selfish, err := router.EqualFinish(a, b, load)
	if err != nil {
		t.Fatal(err)
	}
	const routers = 100
	rng, v := seeded(t, 66), &router.View{Usable: usable(3)}
	list, chosen := make([]router.Policy, routers), make([]int, routers)
	for i := range list {
		list[i] = policy(t, spec, 1, 1, 1)
	}
	sum, n := 0.0, 0.0
	for round := range rounds {
		x := make([]float64, 3)
		for i, p := range list {
			chosen[i] = p.Pick(router.Request{Seq: uint64(round), Work: 1}, v, rng)
			x[chosen[i]] += load / routers
		}
		for i, p := range list {
			j := chosen[i]
			cost := a[j] + b[j]*x[j]
			p.Observe(router.Outcome{Seq: uint64(round), Region: j, LatencyS: cost, Work: 1, OK: true})
			if round >= rounds/2 {
				sum += cost
				n++
			}
		}
	}
	return sum / n / selfish
}

// learned is what toy should give for learner(power): the cost at the fixed point
// at which each region is chosen in proportion to its own cost^-power.
func learned(t *testing.T, power float64) float64 {
	a, b, load := lines()
	_, selfish, err := router.EqualFinish(a, b, load)
	if err != nil {
		t.Fatal(err)
	}
	x := []float64{load / 3, load / 3, load / 3}
	for range 20_000 {
		w, sum := make([]float64, 3), 0.0
		for j := range x {
			w[j] = math.Pow(a[j]+b[j]*x[j], -power)
			sum += w[j]
		}
		for j := range x {
			x[j] += 0.02 * (load*w[j]/sum - x[j])
		}
	}
	return meanCost(a, b, x) / selfish
}

// Learners come to the fixed point of their rule, and with a large exponent to the
// selfish split, where all used regions cost the same.
func TestLearnersOnTheToy(t *testing.T) {
	for spec, power := range map[string]float64{"learner(1)": 1, "learner(2)": 2, "learner": 4, "learner(8)": 8} {
		near(t, spec, toy(t, spec, 3000), learned(t, power), 0.02)
	}
	near(t, "learner(16)", toy(t, "learner(16)", 3000), 1, 0.02)
	// Regret matching is robust and mediocre: it leaves part of the traffic on the
	// bad region, where a uniform draw would leave a third of it.
	a, b, load := lines()
	_, selfish, _ := router.EqualFinish(a, b, load)
	random := meanCost(a, b, []float64{load / 3, load / 3, load / 3}) / selfish
	for _, spec := range []string{"regret", "regret(0.005)"} {
		if got := toy(t, spec, 3000); !(got > 1 && got < 0.95*random) {
			t.Errorf("%s: got %.3f, want above 1 and below the %.3f of random choice", spec, got, random)
		}
	}
	// A bandit herds where all act at once: no better than that is promised.
	if got := toy(t, "bandit", 3000); !(got < 2) {
		t.Errorf("bandit: got %.3f", got)
	}
}

// A learner notices that a region has failed and that it is back.
func TestLearnersNoticeRecovery(t *testing.T) {
	for _, spec := range []string{"learner", "regret", "bandit"} {
		p, v, rng := policy(t, spec, 1, 1), &router.View{Usable: usable(2)}, seeded(t, 67)
		part := func(cost0, cost1 float64, seq uint64) float64 {
			count := 0.0
			for k := range uint64(6000) {
				j := p.Pick(router.Request{Seq: seq + k, Work: 1}, v, rng)
				if k >= 3000 && j == 1 {
					count++
				}
				p.Observe(router.Outcome{Seq: seq + k, Region: j, LatencyS: []float64{cost0, cost1}[j], Work: 1, OK: true})
			}
			return count / 3000
		}
		if got := part(1, 5, 0); got > 0.3 {
			t.Errorf("%s: %.2f to the slow region", spec, got)
		}
		if got := part(5, 1, 6000); got < 0.7 {
			t.Errorf("%s: %.2f to the region that has become fast", spec, got)
		}
	}
}

func TestLookupPolicy(t *testing.T) {
	for _, k := range router.Policies() {
		if got, err := router.LookupPolicy(k.Name); err != nil || got.Doc == "" {
			t.Errorf("%s: %v, doc %q", k.Name, err, got.Doc)
		}
	}
	if k, err := router.LookupPolicy("pd(5)"); err != nil || k.Argument != 5 {
		t.Errorf("pd(5): got %v, %v", k.Argument, err)
	}
	for _, bad := range []string{"", "best", "rr(1)", "pd(", "pd()", "pd(x)", "pd(NaN)", "pd(-1)", "pd(2) "} {
		if _, err := router.LookupPolicy(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

// Picking allocates nothing, in a router as in the simulator.
func TestPickAllocatesNothing(t *testing.T) {
	for _, k := range router.Policies() {
		p, rng := policy(t, k.Name, 1, 2, 3, 4), seeded(t, 68)
		v := &router.View{Usable: usable(4), Workload: make([]float64, 4), AgeS: make([]float64, 4), Own: make([]float64, 4), OwnWork: make([]float64, 4)}
		n := testing.AllocsPerRun(200, func() {
			v.NowS += 0.3
			j := p.Pick(router.Request{Seq: 1, Key: 7, Work: 1}, v, rng)
			p.Observe(router.Outcome{Seq: 1, Region: j, LatencyS: 1, Work: 1, OK: true})
		})
		if n != 0 {
			t.Errorf("%s: %v allocations per pick", k.Name, n)
		}
	}
}

// What planned shares lack to 1 is shed, evenly spread or by chance.
func TestPlannedSheddingIsKept(t *testing.T) {
	plan := &router.Plan{Frontends: []router.FrontendPlan{{Shares: []float64{0.5, 0.2}}}}
	for _, spec := range []string{"plan", "split", "hash"} {
		p, v, rng := policy(t, spec, 10, 10), &router.View{Usable: usable(2)}, seeded(t, 69)
		p.(router.PlanObserver).SetPlan(plan)
		count := map[int]float64{}
		for k := range 10_000 {
			count[p.Pick(router.Request{Key: rng.Uint64(), Seq: uint64(k)}, v, rng)]++
		}
		for j, want := range map[int]float64{-1: 0.3, 0: 0.5, 1: 0.2} {
			if got := count[j] / 10_000; math.Abs(got-want) > 0.02 {
				t.Errorf("%s: %v of the requests to %d, want %v", spec, got, j, want)
			}
		}
	}
}

// Above the price requests are shed, and again accepted at nine tenths of it.
func TestAdmissionPrice(t *testing.T) {
	p, rng := policy(t, "admission(10)", 10, 10), seeded(t, 70)
	v := &router.View{Usable: usable(2), Workload: make([]float64, 2), AgeS: make([]float64, 2)}
	// The price is (10+N)^2/100: 10 at N = 21.62, 9 at N = 20.
	for _, c := range []struct {
		workload float64
		want     int
	}{{5, 0}, {21, 0}, {22, -1}, {21, -1}, {19.5, 0}, {21, 0}} {
		v.Workload[0], v.Workload[1] = c.workload, 1000
		if got := p.Pick(router.Request{}, v, rng); got != c.want {
			t.Errorf("workload %v: got %d, want %d", c.workload, got, c.want)
		}
	}
}
