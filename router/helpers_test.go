package router_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"strandline/datasets"
	"strandline/router"
)

// forbidden marks an arc that a frontend may not use in the matrices of tests.
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

// reference32 is the three by three case of the reference document.
func reference32(scale float64) *router.World {
	tau := [][]float64{{.01, .04, .10}, {.04, .01, .08}, {.10, .08, .01}}
	for i := range tau {
		for j := range tau[i] {
			tau[i][j] *= scale
		}
	}
	return world([]float64{12, 8, 4}, [][2]float64{{10, 10}, {10, 5}, {15, 30}}, tau)
}

// randomWorld puts frontends and regions on a sphere, with log-normal demand that
// loads the regions to rho together; sparse is the part of arcs not allowed.
func randomWorld(rng *rand.Rand, frontends, regions int, rho, sparse float64) *router.World {
	rates, services := make([]float64, frontends), make([][2]float64, regions)
	demand, capacity := 0.0, 0.0
	for i := range rates {
		rates[i] = math.Exp(rng.NormFloat64())
		demand += rates[i]
	}
	places := make([][3]float64, regions)
	for j := range services {
		mu := 5 + 45*rng.Float64()
		services[j] = [2]float64{mu, mu * (1 + 3*rng.Float64())}
		capacity += mu
		places[j] = onSphere(rng)
	}
	tau := make([][]float64, frontends)
	for i := range tau {
		rates[i] *= rho * capacity / demand
		at, keep := onSphere(rng), rng.IntN(regions)
		for j, p := range places {
			angle := math.Acos(max(-1, min(1, at[0]*p[0]+at[1]*p[1]+at[2]*p[2])))
			t := angle * 6371 / 200e3 * 1.5
			if j != keep && rng.Float64() < sparse {
				t = forbidden
			}
			tau[i] = append(tau[i], t)
		}
	}
	return world(rates, services, tau)
}

func onSphere(rng *rand.Rand) [3]float64 {
	z, a := 2*rng.Float64()-1, 2*math.Pi*rng.Float64()
	r := math.Sqrt(1 - z*z)
	return [3]float64{r * math.Cos(a), r * math.Sin(a), z}
}

// seeded returns a random source and prints its seed when the test fails.
func seeded(t testing.TB, seed uint64) *rand.Rand {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

func solved(t testing.TB, w *router.World) *router.Plan {
	t.Helper()
	p, err := router.Solve(w, router.SolveOptions{})
	if err != nil {
		t.Fatalf("Solve: %v", err)
	}
	return p
}

// near compares to a relative tolerance.
func near(t testing.TB, what string, got, want, rel float64) {
	t.Helper()
	if !(math.Abs(got-want) <= rel*math.Abs(want)) {
		t.Errorf("%s: got %.9g, want %.9g to %g", what, got, want, rel)
	}
}

// wantProblems checks that err joins exactly one *datasets.Problem per entry, in
// order, whose key is the entry's first word and whose text contains the rest.
func wantProblems(t *testing.T, err error, want ...string) {
	t.Helper()
	var got []*datasets.Problem
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			var p *datasets.Problem
			if !errors.As(e, &p) {
				t.Errorf("got error %v, want a problem", e)
				continue
			}
			got = append(got, p)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("got %d problems, want %d: %v", len(got), len(want), err)
	}
	for i, p := range got {
		key, text, _ := strings.Cut(want[i], " ")
		if p.Key != key || !strings.Contains(p.Error(), text) || p.Fix == "" {
			t.Errorf("problem %d: got %q, want key %s, text %q and a fix", i, p.Error(), key, text)
		}
	}
}
