package router_test

import (
	"math"
	"testing"

	"strandline/router"
)

func meanCost(a, b, x []float64) float64 {
	sum, load := 0.0, 0.0
	for j := range x {
		sum += x[j] * (a[j] + b[j]*x[j])
		load += x[j]
	}
	return sum / load
}

func doubled(b []float64) []float64 {
	out := make([]float64, len(b))
	for j := range b {
		out[j] = 2 * b[j]
	}
	return out
}

// The two checks of the reference: Pigou's roads, whose selfish split is 4/3 as
// costly as the best, and three regions.
func TestEqualFinishReference(t *testing.T) {
	for _, c := range []struct {
		a, b              []float64
		load              float64
		selfish, best     []float64
		cost, price, mean float64
		selfishMean       float64
		tolerance         float64
	}{
		{[]float64{0, 1}, []float64{1, 0}, 1, []float64{1, 0}, []float64{0.5, 0.5}, 1, 1, 0.75, 1, 1e-12},
		{[]float64{10, 40, 120}, []float64{0.5, 0.25, 0.4}, 160, []float64{93.3333, 66.6667, 0}, []float64{73.3333, 86.6667, 0}, 56.6667, 83.3333, 54.7917, 56.6667, 1e-6},
	} {
		x, cost, err := router.EqualFinish(c.a, c.b, c.load)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "selfish cost", cost, c.cost, c.tolerance)
		near(t, "selfish mean", meanCost(c.a, c.b, x), c.selfishMean, c.tolerance)
		y, price, err := router.EqualFinish(c.a, doubled(c.b), c.load)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "marginal price", price, c.price, c.tolerance)
		near(t, "best mean", meanCost(c.a, c.b, y), c.mean, c.tolerance)
		for j := range x {
			near(t, "selfish load", x[j], c.selfish[j], c.tolerance)
			near(t, "best load", y[j], c.best[j], c.tolerance)
		}
	}
}

// Against random lines: loads add up, used regions cost T, others no less; and no
// split found by moving load around has a lower mean than the best.
func TestEqualFinishConditions(t *testing.T) {
	rng := seeded(t, 51)
	for range 300 {
		n := 1 + rng.IntN(6)
		a, b := make([]float64, n), make([]float64, n)
		for j := range a {
			a[j], b[j] = 100*rng.Float64(), rng.ExpFloat64()
			if rng.IntN(6) == 0 {
				b[j] = 0
			}
		}
		load := 200 * rng.Float64()
		x, cost, err := router.EqualFinish(a, b, load)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for j := range x {
			sum += x[j]
			own := a[j] + b[j]*x[j]
			if x[j] < 0 || x[j] > 0 && math.Abs(own-cost) > 1e-9*(1+cost) || own < cost-1e-9*(1+cost) {
				t.Fatalf("a %v b %v load %v: region %d has %v at cost %v, the common one is %v", a, b, load, j, x[j], own, cost)
			}
		}
		near(t, "load", sum, load, 1e-9)
		y, _, err := router.EqualFinish(a, doubled(b), load)
		if err != nil {
			t.Fatal(err)
		}
		best := meanCost(a, b, y)
		for range 50 {
			j, k := rng.IntN(n), rng.IntN(n)
			z := append([]float64(nil), y...)
			move := z[j] * rng.Float64()
			z[j] -= move
			z[k] += move
			if meanCost(a, b, z) < best-1e-9*(1+best) {
				t.Fatalf("a %v b %v load %v: moving %v from %d to %d is better", a, b, load, move, j, k)
			}
		}
	}
	for _, bad := range [][2][]float64{{nil, nil}, {{1}, {1, 2}}, {{1}, {-1}}, {{math.NaN()}, {1}}} {
		if _, _, err := router.EqualFinish(bad[0], bad[1], 1); err == nil {
			t.Errorf("lines %v: no error", bad)
		}
	}
}

func TestTrendShares(t *testing.T) {
	rng := seeded(t, 52)
	for range 200 {
		n := 1 + rng.IntN(8)
		fair, dst, flagged, count := make([]float64, n), make([]float64, n), make([]bool, n), 0
		for j := range fair {
			fair[j] = 1 / float64(n)
			if flagged[j] = rng.IntN(3) == 0; flagged[j] {
				count++
			}
		}
		router.TrendShares(dst, fair, flagged, 0.4)
		sum := 0.0
		for j, x := range dst {
			sum += x
			want := fair[j]
			switch {
			case 2*count > n || count == 0:
			case flagged[j]:
				want *= 0.6
			default:
				want *= 1 + 0.4*float64(count)/float64(n-count)
			}
			near(t, "share", x, want, 1e-12)
		}
		near(t, "sum", sum, 1, 1e-12)
	}
}

// A ring of four with unequal capacities comes to one utilisation within 1 % in 19
// rounds and keeps the total.
func TestDiffuse(t *testing.T) {
	load, capacity := []float64{100, 0, 0, 0}, []float64{1, 1, 1, 1}
	edges := [][2]int{{0, 1}, {1, 2}, {2, 3}, {3, 0}}
	for range 19 {
		for n, f := range router.Diffuse(load, capacity, edges) {
			load[edges[n][0]] -= f
			load[edges[n][1]] += f
		}
	}
	for j := range load {
		near(t, "load", load[j], 25, 0.01)
	}
	rng := seeded(t, 53)
	for range 50 { // any connected graph, any capacities
		n := 2 + rng.IntN(6)
		load, capacity := make([]float64, n), make([]float64, n)
		total, all := 0.0, 0.0
		edges = nil
		for j := range load {
			load[j], capacity[j] = 100*rng.Float64(), 1+9*rng.Float64()
			total += load[j]
			all += capacity[j]
			if j > 0 {
				edges = append(edges, [2]int{rng.IntN(j), j})
			}
		}
		for range 5000 {
			for k, f := range router.Diffuse(load, capacity, edges) {
				load[edges[k][0]] -= f
				load[edges[k][1]] += f
			}
		}
		for j := range load {
			near(t, "utilisation", load[j]/capacity[j], total/all, 0.01)
		}
	}
}

// Greedy is exact on convex curves: the dynamic program over all splits finds no
// better.
func TestKnapsackIsTheDynamicProgram(t *testing.T) {
	rng := seeded(t, 54)
	for range 200 {
		n, units := 1+rng.IntN(5), 1+rng.IntN(30)
		curves := make([][]float64, n)
		for j := range curves {
			points := make([]router.CurvePoint, 2+rng.IntN(6))
			for k := range points {
				points[k] = router.CurvePoint{Share: rng.Float64(), LatencyS: rng.ExpFloat64()}
			}
			c, err := router.ConvexLatency(points, units)
			if err != nil {
				t.Fatal(err)
			}
			for k := 2; k < len(c); k++ {
				if c[k] < c[k-1]-1e-12 || c[k]-c[k-1] < c[k-1]-c[k-2]-1e-12 {
					t.Fatalf("fit of %v falls or is not convex: %v", points, c)
				}
			}
			curves[j] = c[:1+rng.IntN(units+1)]
		}
		split, excess := router.Knapsack(curves, units)
		got, used := 0.0, 0
		for j, k := range split {
			got += float64(k) * curves[j][k]
			used += k
		}
		if used+excess != units {
			t.Fatalf("%d used and %d in excess of %d units", used, excess, units)
		}
		if want := bestSplit(curves, used); math.Abs(got-want) > 1e-9*(1+want) {
			t.Fatalf("got %v, the dynamic program %v", got, want)
		}
	}
}

// bestSplit is the dynamic program over regions and units.
func bestSplit(curves [][]float64, units int) float64 {
	best := make([]float64, units+1)
	for u := 1; u <= units; u++ {
		best[u] = math.Inf(1)
	}
	for _, c := range curves {
		for u := units; u >= 0; u-- {
			least := best[u]
			for k := 1; k < len(c) && k <= u; k++ {
				least = min(least, best[u-k]+float64(k)*c[k])
			}
			best[u] = least
		}
	}
	return best[units]
}

func TestConvexLatencyFits(t *testing.T) {
	var points []router.CurvePoint
	for k := range 11 {
		x := float64(k) / 10
		points = append(points, router.CurvePoint{Share: x, LatencyS: 1 + x*x})
	}
	c, err := router.ConvexLatency(points, 10)
	if err != nil {
		t.Fatal(err)
	}
	for k, got := range c {
		near(t, "convex points are kept", got, points[k].LatencyS, 1e-12)
	}
	for _, bad := range [][]router.CurvePoint{nil, {{0.5, 1}}, {{0.5, 1}, {0.5, 2}}, {{-1, 1}, {0.5, 1}}, {{0.1, math.NaN()}, {0.5, 1}}} {
		if _, err := router.ConvexLatency(bad, 10); err == nil {
			t.Errorf("points %v: no error", bad)
		}
	}
}

// Fed with the latencies of straight lines at its own shares, with some noise, the
// solver comes to the split of least mean latency; and it drops a region that is
// down at once and takes it up again.
func TestKnapsackLBLearnsTheOptimum(t *testing.T) {
	a, b := []float64{10, 40, 120}, []float64{80, 40, 64} // cost by share of a load of 160
	y, _, err := router.EqualFinish(a, doubled(b), 1)
	if err != nil {
		t.Fatal(err)
	}
	best := meanCost(a, b, y)
	rng, ok := seeded(t, 55), usable(3)
	lb := router.NewKnapsackLB([]float64{1, 1, 1}, []float64{300, 300, 300}, 160)
	latency, nan := make([]float64, 3), math.NaN()
	step := func(shares []float64) []float64 {
		used := append([]float64(nil), shares...)
		for j, x := range used {
			if latency[j] = (a[j] + b[j]*x) * (1 + 0.01*rng.NormFloat64()); x == 0 {
				latency[j] = nan
			}
		}
		return lb.Step(latency, used, ok)
	}
	shares := lb.Step([]float64{nan, nan, nan}, []float64{nan, nan, nan}, ok)
	for range 100 {
		shares = step(shares)
	}
	near(t, "mean latency after 100 epochs", meanCost(a, b, shares), best, 0.03)
	ok[0] = false
	if shares = step(shares); shares[0] != 0 || math.Abs(shares[1]+shares[2]-1) > 1e-12 {
		t.Errorf("with the first down: got %v", shares)
	}
	ok[0] = true
	for range 100 {
		shares = step(shares)
	}
	near(t, "mean latency after recovery", meanCost(a, b, shares), best, 0.03)
}
