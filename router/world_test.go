package router_test

import (
	"math"
	"testing"

	"strandline/router"
)

func TestValidateAcceptsTheReferenceWorlds(t *testing.T) {
	for _, scale := range []float64{0.1, 1} {
		if err := reference32(scale).Validate(); err != nil {
			t.Errorf("scale %v: %v", scale, err)
		}
	}
}

func TestValidateNamesEveryFault(t *testing.T) {
	nan, minus := math.NaN(), -0.5
	for _, c := range []struct {
		name   string
		damage func(w *router.World)
		want   []string
	}{
		{"no frontends", func(w *router.World) { w.Frontends, w.Latency.Matrix = nil, nil }, []string{"frontends there is none"}},
		{"no regions", func(w *router.World) {
			w.Regions, w.Latency.Matrix = nil, [][]*float64{{}, {}, {}}
		}, []string{"regions there is none"}},
		{"empty world", func(w *router.World) { *w = router.World{} }, []string{"frontends there is none", "regions there is none"}},
		{"rates", func(w *router.World) { w.Frontends[0].RateHz, w.Frontends[2].RateHz = -1, nan },
			[]string{"frontends[0].rate -1 is not a rate", "frontends[2].rate NaN is not a rate"}},
		{"names", func(w *router.World) { w.Frontends[1].Name, w.Regions[2].Name = "", "r0" },
			[]string{"frontends[1].name is empty", `regions[2].name "r0" is also the name of number 0`}},
		{"places", func(w *router.World) { w.Frontends[0].Lat, w.Regions[0].Lon = 91, nan },
			[]string{"frontends[0].lat 91", "regions[0].lon NaN"}},
		{"services", func(w *router.World) {
			w.Regions[0].Service = router.Service{}
			w.Regions[1].Service.Kind = "erlang"
			w.Regions[2].Service.Mu, w.Regions[2].Service.Kappa = 0, math.Inf(1)
		}, []string{"regions[0].service.kind is missing", `regions[1].service.kind unknown service kind "erlang"`,
			"regions[2].service.mu 0 is not", "regions[2].service.kappa +Inf is not"}},
		{"latency values", func(w *router.World) { w.Latency.Matrix[1][2], w.Latency.Matrix[2][0] = &minus, &nan },
			[]string{"latency.matrix[1][2] -0.5 is not a latency", "latency.matrix[2][0] NaN is not a latency"}},
		{"too few rows", func(w *router.World) { w.Latency.Matrix = w.Latency.Matrix[:2] }, []string{"latency.matrix has 2 rows; write 3 rows"}},
		{"short row", func(w *router.World) { w.Latency.Matrix[1] = w.Latency.Matrix[1][:2] }, []string{"latency.matrix[1] has 2 values; write 3 values"}},
		{"nothing allowed", func(w *router.World) { w.Latency.Matrix[1] = make([]*float64, 3) },
			[]string{"latency.matrix[1] frontend f1 has no allowed region"}},
		{"unknown words", func(w *router.World) {
			w.Latency.Unit, w.Latency.Kind = "us", "half"
			w.Objective = router.Objective{Kind: "p99", Network: "both", Shed: &router.Shed{}}
		}, []string{`latency.unit unknown value "us"; write s or ms`, `latency.kind unknown value "half"; write oneway or rtt`,
			`objective.kind unknown value "p99"; write total`, `objective.network unknown value "both"`, "objective.shed.price 0 is not a price"}},
		{"ttft", func(w *router.World) { w.Objective.Kind = router.ObjectiveTTFT }, []string{"regions[0].prefill is missing", "regions[1].prefill is missing", "regions[2].prefill is missing"}},
		{"too much demand", func(w *router.World) { w.Frontends[0].RateHz = 30 },
			[]string{"frontends f0, f1, f2 need 42 requests/s, which is not below the 35 requests/s that the regions they may use can serve: r0, r1, r2"}},
		{"exactly capacity", func(w *router.World) { w.Frontends[0].RateHz = 23 }, []string{"frontends need 35 requests/s"}},
		{"a cut", func(w *router.World) {
			w.Latency.Matrix[0][1], w.Latency.Matrix[0][2] = nil, nil
		}, []string{"frontends f0 need 12 requests/s, which is not below the 10 requests/s that the regions they may use can serve: r0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := reference32(1)
			c.damage(w)
			wantProblems(t, w.Validate(), c.want...)
		})
	}
}

func TestSheddingMakesEveryDemandFeasible(t *testing.T) {
	w := reference32(1)
	w.Frontends[0].RateHz = 1000
	w.Objective.Shed = &router.Shed{PriceS: 20}
	if err := w.Validate(); err != nil {
		t.Errorf("got %v, want no fault where shedding is configured", err)
	}
}

// The max-flow answer against Hall's condition over every set of frontends.
func TestFeasibilityAgainstEverySubset(t *testing.T) {
	rng := seeded(t, 2)
	feasible := 0
	for range 2000 {
		w := randomWorld(rng, 1+rng.IntN(5), 1+rng.IntN(5), 0.3+0.7*rng.Float64(), 0.6)
		want := everySubsetFits(w)
		if want {
			feasible++
		}
		if got := w.Validate() == nil; got != want {
			t.Fatalf("got feasible %v, want %v: %v", got, want, w.Validate())
		}
	}
	if feasible < 200 || feasible > 1800 {
		t.Errorf("%d of 2000 worlds are feasible: the test does not see both cases", feasible)
	}
}

func everySubsetFits(w *router.World) bool {
	for set := 1; set < 1<<len(w.Frontends); set++ {
		need, have := 0.0, 0.0
		for i, f := range w.Frontends {
			if set>>i&1 == 1 {
				need += f.RateHz
			}
		}
		for j, r := range w.Regions {
			for i := range w.Frontends {
				if _, ok := w.NetworkS(i, j); ok && set>>i&1 == 1 {
					have += r.Service.CapacityHz()
					break
				}
			}
		}
		if need >= have {
			return false
		}
	}
	return true
}

func TestLatencyUnitsAndKinds(t *testing.T) {
	v := 80.0
	for _, c := range []struct {
		unit, kind, network string
		oneWay, cost        float64
	}{
		{"", "", "", 80, 80},
		{"ms", "", "", 0.08, 0.08},
		{"ms", "rtt", "", 0.04, 0.04},
		{"ms", "rtt", "rtt", 0.04, 0.08},
		{"s", "oneway", "rtt", 80, 160},
	} {
		w := world([]float64{1}, [][2]float64{{10, 10}, {10, 10}}, [][]float64{{v, forbidden}})
		w.Latency.Unit, w.Latency.Kind, w.Objective.Network = c.unit, c.kind, c.network
		if got, ok := w.OneWayS(0, 0); got != c.oneWay || !ok {
			t.Errorf("%+v: one-way got %v %v", c, got, ok)
		}
		if got, ok := w.NetworkS(0, 0); got != c.cost || !ok {
			t.Errorf("%+v: network cost got %v %v", c, got, ok)
		}
		if got, ok := w.NetworkS(0, 1); ok {
			t.Errorf("%+v: an arc that is not allowed got %v", c, got)
		}
	}
}
