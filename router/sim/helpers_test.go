package sim_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"strandline/router"
	"strandline/router/sim"
)

// forbidden marks an arc that a frontend may not use.
const forbidden = -1

// world builds a routing problem from rates, (mu, kappa) pairs and one-way seconds.
func world(rates []float64, services [][2]float64, tau [][]float64) *router.World {
	w := &router.World{}
	for i, r := range rates {
		w.Frontends = append(w.Frontends, router.Frontend{Name: fmt.Sprint("f", i), RateHz: r})
		row := make([]*float64, len(tau[i]))
		for j, t := range tau[i] {
			if t != forbidden {
				row[j] = &t
			}
		}
		w.Latency.Matrix = append(w.Latency.Matrix, row)
	}
	for j, s := range services {
		w.Regions = append(w.Regions, router.Region{
			Name:    fmt.Sprint("r", j),
			Service: router.Service{Kind: router.KindHyperbolic, Mu: s[0], Kappa: s[1]},
		})
	}
	return w
}

// single is one frontend in front of one region, with no network.
func single(mu, kappa, rateHz float64) *router.World {
	return world([]float64{rateHz}, [][2]float64{{mu, kappa}}, [][]float64{{0}})
}

// reference32 is the three by three case of the fluid model's reference values.
func reference32(scale float64) *router.World {
	tau := [][]float64{{.01, .04, .10}, {.04, .01, .08}, {.10, .08, .01}}
	for i := range tau {
		for j := range tau[i] {
			tau[i][j] *= scale
		}
	}
	return world([]float64{12, 8, 4}, [][2]float64{{10, 10}, {10, 5}, {15, 30}}, tau)
}

// identical is one frontend in front of n M/M/1 servers of rate 1 at load rho, with
// no network, and the truth that makes them so.
func identical(n int, rho float64) (*router.World, func(region, inside int) float64) {
	services, tau := make([][2]float64, n), make([]float64, n)
	for j := range services {
		services[j] = [2]float64{1, 1}
	}
	return world([]float64{rho * float64(n)}, services, [][]float64{tau}), func(int, int) float64 { return 1 }
}

func seeded(t testing.TB, seed uint64) *rand.Rand {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

func run(t testing.TB, c sim.Config) *sim.Result {
	t.Helper()
	r, err := sim.Run(c)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return r
}

func sources(t testing.TB, list []sim.Process) []sim.Source {
	t.Helper()
	s, err := sim.Sources(list)
	if err != nil {
		t.Fatalf("Sources: %v", err)
	}
	return s
}

// near compares to a relative tolerance.
func near(t testing.TB, what string, got, want, rel float64) {
	t.Helper()
	if !(math.Abs(got-want) <= rel*math.Abs(want)) {
		t.Errorf("%s: got %.6g, want %.6g to %g", what, got, want, rel)
	}
}
