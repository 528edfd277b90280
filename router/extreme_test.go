package router_test

import (
	"math"
	"strings"
	"testing"

	"strandline/router"
)

// Whatever Validate accepts is solved to a finite certificate, or refused with an
// error: at the ends of the ranges, in every combination with ordinary values.
func TestSolveAtTheEndsOfTheRanges(t *testing.T) {
	rng := seeded(t, 17)
	draw := func(ends ...float64) float64 {
		if rng.IntN(2) == 0 {
			return ends[rng.IntN(len(ends))]
		}
		return math.Exp(rng.NormFloat64() * 3)
	}
	solved := 0
	for range 3000 {
		w := &router.World{Latency: router.Latency{Unit: router.UnitSeconds, Kind: router.KindOneWay}}
		for j := range 1 + rng.IntN(3) {
			w.Regions = append(w.Regions, router.Region{Name: string(rune('a' + j)), Service: router.Service{
				Kind: router.KindHyperbolic, Mu: draw(1e-6, 1e-3, 1e6, 1e9), Kappa: draw(1e-6, 1e-3, 1e6, 1e9)}})
		}
		for i := range 1 + rng.IntN(3) {
			w.Frontends = append(w.Frontends, router.Frontend{Name: string(rune('f' + i)), RateHz: draw(0, 1e-9, 1, 1e9)})
			var row []*float64
			for range w.Regions {
				row = append(row, new(draw(0, 1e-9, 1e5)))
			}
			w.Latency.Matrix = append(w.Latency.Matrix, row)
		}
		if w.Validate() != nil {
			continue // demand over capacity
		}
		p, err := router.Solve(w, router.SolveOptions{})
		if err != nil {
			continue
		}
		solved++
		if math.IsNaN(p.Cost) || math.IsInf(p.Cost, 0) || !(p.Gap >= 0 && p.Gap <= 0.01) {
			t.Errorf("cost %v, gap %v for %+v %+v", p.Cost, p.Gap, w.Frontends, w.Regions)
		}
	}
	if solved < 300 {
		t.Errorf("only %d worlds were solved", solved)
	}
}

// Values that no system has are refused by name; before, some panicked.
func TestValidateRefusesWhatNoSystemHas(t *testing.T) {
	for _, c := range []struct {
		name string
		spot func(*router.World)
		key  string
	}{
		{"mu", func(w *router.World) { w.Regions[0].Service.Mu = 1e308 }, "regions[0].service.mu"},
		{"small mu", func(w *router.World) { w.Regions[0].Service.Mu = 1e-308 }, "regions[0].service.mu"},
		{"kappa", func(w *router.World) { w.Regions[1].Service.Kappa = 1e20 }, "regions[1].service.kappa"},
		{"small kappa", func(w *router.World) { w.Regions[1].Service.Kappa = 1e-20 }, "regions[1].service.kappa"},
		{"latency", func(w *router.World) { w.Latency.Matrix[0][1] = new(1e20) }, "latency.matrix[0][1]"},
		{"rate", func(w *router.World) { w.Frontends[0].RateHz = 1e12 }, "frontends[0].rate"},
	} {
		w, _ := twoFrontends(t)
		c.spot(w)
		if err := w.Validate(); err == nil || !strings.Contains(err.Error(), c.key+": ") {
			t.Errorf("%s: %v, want a problem at %s", c.name, err, c.key)
		}
		if _, err := router.Solve(w, router.SolveOptions{}); err == nil {
			t.Errorf("%s: solved", c.name)
		}
	}
}
