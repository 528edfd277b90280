package analysis_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"strandline/analysis"
)

// The columns of published tables: scamper's for 95 %, which is the fixed-sample
// rule, Veitch's sequential rule, the closed form of Diamond-Miner, and the one
// on which all agree at 99 %.
func TestStopsGiveThePublishedColumns(t *testing.T) {
	ninetyNine := []int{8, 15, 21, 28, 36, 43, 51, 58, 66, 74, 82, 90}
	for _, c := range []struct {
		rule analysis.StopRule
		eps  float64
		want []int
	}{
		{analysis.StopFixed, 0.05, []int{6, 11, 16, 21, 27, 33, 38, 44, 51, 57, 63, 70}},
		{analysis.StopSequential, 0.05, []int{6, 11, 16, 21, 27, 33, 39, 45, 51, 57, 63, 70}},
		{analysis.StopClosed, 0.05, []int{6, 11, 16, 21, 27, 33, 39, 45, 51, 57, 63, 70}},
		{analysis.StopFixed, 0.01, ninetyNine},
		{analysis.StopSequential, 0.01, ninetyNine},
		{analysis.StopClosed, 0.01, ninetyNine},
		{"", 0.01, ninetyNine},
	} {
		s := analysis.NewStops(c.rule, c.eps)
		for i, want := range c.want {
			if got := s.At(i + 1); got != want {
				t.Errorf("%s, eps %g: n_%d = %d, want %d", c.rule, c.eps, i+1, got, want)
			}
		}
	}
	if got := analysis.NewStops(analysis.StopClosed, 0.05).At(100); got != 765 {
		t.Errorf("closed form: n_100 = %d, want 765", got)
	}
}

// The failure probabilities and costs of scamper's tables, from an independent
// computation; 0.03125 is also what Fakeroute prints for two paths.
func TestStopsFailure(t *testing.T) {
	for _, c := range []struct {
		n          int
		eps        float64
		fail, cost float64
	}{
		{1, 0.05, 0, 6}, {2, 0.05, 0.03125, 10.8}, {4, 0.05, 0.0424, 20.8}, {8, 0.05, 0.0501, 43.7},
		{1, 0.01, 0, 8}, {2, 0.01, 0.00781, 14.9}, {4, 0.01, 0.00969, 27.9}, {8, 0.01, 0.00886, 57.9},
	} {
		fail, cost := analysis.NewStops(analysis.StopFixed, c.eps).Failure(c.n)
		if math.Abs(fail-c.fail) > 6e-5 || math.Abs(cost-c.cost) > 0.06 {
			t.Errorf("%d next hops, eps %g: failure %.5f, %.2f flows; want %.5f, %.1f", c.n, c.eps, fail, cost, c.fail, c.cost)
		}
	}
}

// The sequential rule never fails more often than it promises, up to the widest
// diamonds known and with the small probabilities that large graphs need.
func TestSequentialStopsKeepTheirPromise(t *testing.T) {
	for _, eps := range []float64{0.2, 0.05, 0.01, 0.001, 0.00005} {
		s := analysis.NewStops(analysis.StopSequential, eps)
		for n := 1; n <= 96; n++ {
			if fail, _ := s.Failure(n); fail > eps*(1+1e-9) {
				t.Errorf("eps %g: fails with %g at %d next hops", eps, fail, n)
			}
			if n > 1 && s.At(n) <= s.At(n-1) {
				t.Errorf("eps %g: n_%d = %d after %d", eps, n, s.At(n), s.At(n-1))
			}
		}
	}
}

func TestGraphEpsilonAndShares(t *testing.T) {
	for _, b := range []int{0, 1, 6, 100} {
		eps := analysis.GraphEpsilon(0.05, b)
		if got := 1 - math.Pow(1-eps, float64(max(b, 1))); math.Abs(got-0.05) > 1e-12 {
			t.Errorf("%d branching: eps %g makes %g in all", b, eps, got)
		}
	}
	for n, want := range map[int]float64{6: 0.39, 16: 0.17, 51: 0.057, 100: 0.030, 0: 1} {
		if got := analysis.RuledOutShare(0.05, n); math.Abs(got-want) > 0.005 {
			t.Errorf("%d flows rule out %.4f, want %.3f", n, got, want)
		}
	}
	if got := analysis.ShareFlows(0.05, 0.5); got != 6 {
		t.Errorf("two equal halves need %d flows, want n_1 = 6", got)
	}
}

// Whatever the shares, flows in the number of ShareFlows miss one of at least
// that share no more often than promised.
func TestShareFlowsKeepTheirPromise(t *testing.T) {
	const runs, eps, seed = 20000, 0.05, 5
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, c := range []struct {
		share  float64
		shares []float64
	}{
		{0.1, []float64{0.9, 0.1}}, {0.2, []float64{0.2, 0.2, 0.2, 0.2, 0.2}}, {0.25, []float64{0.25, 0.7, 0.05}}, {0.3, []float64{0.3, 0.3, 0.4}},
	} {
		n, missed := analysis.ShareFlows(eps, c.share), 0
		for range runs {
			seen := make([]bool, len(c.shares))
			for range n {
				i, x := 0, rng.Float64()
				for ; i < len(c.shares)-1 && x >= c.shares[i]; i++ {
					x -= c.shares[i]
				}
				seen[i] = true
			}
			for i, s := range c.shares {
				if s >= c.share && !seen[i] {
					missed++
					break
				}
			}
		}
		if lo, _ := wilson(missed, runs); lo > eps {
			t.Errorf("seed %d, shares %v: %d of %d runs missed one, want at most %g", seed, c.shares, missed, runs, eps)
		}
	}
}

// wilson is the score interval of a proportion at 99.9 % (Wilson, JASA 1927).
func wilson(hits, n int) (lo, hi float64) {
	const z = 3.2905
	p, m := float64(hits)/float64(n), float64(n)
	mid, half := p+z*z/(2*m), z*math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return (mid - half) / (1 + z*z/m), (mid + half) / (1 + z*z/m)
}
