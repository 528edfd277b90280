package router_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"strandline/router"
)

// The keys are a contract with whoever reads `route solve --format json`.
func TestPlanJSON(t *testing.T) {
	p := &router.Plan{
		MeanLatencyS: 2.5, Cost: 25, Gap: 1e-9, Iterations: 12, ElapsedMS: 0.5,
		Regions:   []router.RegionPlan{{Name: "a", RateHz: 8, Workload: 20, PriceS: 3, Utilisation: 0.8}, {Name: "b"}},
		Frontends: []router.FrontendPlan{{Name: "fra", RateHz: 10, ShedHz: 2, Shares: []float64{0.8, 0}, EtaMax: math.Inf(1)}},
	}
	got, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"mean_latency_s":2.5,"cost":25,"gap":1e-9,"iterations":12,"elapsed_ms":0.5,` +
		`"regions":[{"name":"a","rate":8,"workload":20,"price":3,"utilisation":0.8},{"name":"b","rate":0,"workload":0,"price":0,"utilisation":0}],` +
		`"frontends":[{"name":"fra","rate":10,"shed":2,"shares":{"a":0.8},"eta_max":null}]}`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRows(t *testing.T) {
	w, p := twoFrontends(t)
	rows := router.Rows(p, 3)
	rate := 0.0
	for _, r := range rows {
		rate += r.RateHz
		if r.Epoch != 3 || r.Share <= 0 || r.PriceS <= 0 {
			t.Errorf("got %+v", r)
		}
	}
	near(t, "rates of all arcs", rate, w.DemandHz(), 1e-12)
	if len(rows) != 3 {
		t.Errorf("got %d rows, want the three arcs that are used", len(rows))
	}
}

func TestReplanSolvesTheRest(t *testing.T) {
	w := world([]float64{4, 2}, [][2]float64{{10, 10}, {10, 10}, {10, 20}}, [][]float64{{.01, .02, .3}, {.02, .01, .2}})
	p, err := router.Replan(w, []string{"r0"})
	if err != nil {
		t.Fatal(err)
	}
	smaller := world([]float64{4, 2}, [][2]float64{{10, 10}, {10, 20}}, [][]float64{{.02, .3}, {.01, .2}})
	near(t, "cost", p.Cost, solved(t, smaller).Cost, 1e-9)
	if p.Overloaded || p.Gap > 1e-8 || p.Regions[0].RateHz != 0 || p.Frontends[0].Shares[0] != 0 {
		t.Errorf("got %+v", p)
	}
	if same, err := router.Replan(w, nil); err != nil || same.Cost != solved(t, w).Cost {
		t.Errorf("nothing down: got %v, want the plan of Solve", err)
	}
}

// One frontend may use the failed region only; the others keep their optimum.
func TestReplanWithAStrandedFrontend(t *testing.T) {
	w := world([]float64{4, 2}, [][2]float64{{10, 10}, {10, 10}}, [][]float64{{.01, forbidden}, {.02, .01}})
	p, err := router.Replan(w, []string{"r0"})
	if err != nil {
		t.Fatal(err)
	}
	f := p.Frontends[0]
	if p.Overloaded || f.RateHz != 4 || f.ShedHz != 4 || f.Shares[0] != 0 || f.Shares[1] != 0 {
		t.Errorf("the stranded frontend: got %+v, overloaded %v", f, p.Overloaded)
	}
	near(t, "rate of r1", p.Regions[1].RateHz, 2, 1e-12)
	tab, err := router.NewTable(1, w, p, nil, "f0", []string{"r0"})
	if err != nil {
		t.Fatal(err)
	}
	if j, ok := tab.Pick(0, 1); j != 0 || ok {
		t.Errorf("the stranded frontend picks %d, usable %v; want 0, not usable", j, ok)
	}
	if j, ok := tab.Pick(1, 1); j != 1 || !ok || tab.ShedShare(0) != 1 || tab.ShedShare(1) != 0 {
		t.Errorf("the other picks %d %v", j, ok)
	}
}

func TestReplanInOverload(t *testing.T) {
	w := world([]float64{15, 3}, [][2]float64{{10, 10}, {10, 10}, {5, 10}}, [][]float64{{.01, .02, .3}, {.02, forbidden, .2}})
	p, err := router.Replan(w, []string{"r0"})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%.3f %v", p.Frontends[0].Shares, p.Frontends[1].Shares); !p.Overloaded || got != "[0.000 0.667 0.333] [0 0 1]" {
		t.Errorf("got overloaded %v, shares %s", p.Overloaded, got)
	}
	if !math.IsNaN(p.Gap) || !math.IsInf(p.MeanLatencyS, 1) {
		t.Errorf("gap %v, mean %v", p.Gap, p.MeanLatencyS)
	}
	near(t, "price at 10 of 10 requests/s, capped at 99 %", p.Regions[1].PriceS, 10*10/(0.1*0.1), 1e-9)
	b, err := json.Marshal(p)
	if err != nil || !strings.Contains(string(b), `"gap":null`) || !strings.Contains(string(b), `"overloaded":true`) {
		t.Errorf("JSON: %s %v", b, err)
	}
	w.Objective.Shed = &router.Shed{PriceS: 20}
	if p, err := router.Replan(w, []string{"r0"}); err != nil || p.Overloaded || p.Gap > 1e-8 {
		t.Errorf("with shedding: got %+v, %v", p, err)
	}
	if _, err := router.Replan(w, []string{"nowhere"}); err == nil {
		t.Error("an unknown region: got no error")
	}
}

func TestExplain(t *testing.T) {
	tab := table(t, []router.Client{{prefix("10.0.0.0/8"), "f1"}})
	for _, c := range []struct {
		client, frontend, region, why string
		tab                           *router.Table
	}{
		{"10.1.2.3/32", "f1", "r1", "10.0.0.0/8 belongs to frontend f1; all that it sends goes to r1", tab},
		{"192.0.2.7/32", "f0", "", "no line of the client map covers the client, so it belongs to the default frontend f0; its shares are r0 55.0 %, r1 45.0 %, and the hash of 192.0.2.0/24 falls to r", tab},
		{"192.0.2.7/32", "f0", "r2", "the regions with a share are down, and r2 is the cheapest of the others", table(t, nil, "r0", "r1")},
		{"192.0.2.7/32", "f0", "r0", "every region that it may use is down", table(t, nil, "r0", "r1", "r2")},
	} {
		e := c.tab.Explain("api.example.org.", prefix(c.client))
		m := c.tab.Lookup(prefix(c.client))
		j, ok := c.tab.Pick(m.Frontend, router.Hash("api.example.org.", m.Key))
		if e.Frontend != c.frontend || e.Region != c.tab.RegionName(j) || e.Usable != ok || c.region != "" && e.Region != c.region {
			t.Errorf("%s: got %s -> %s usable %v, the table says %s", c.client, e.Frontend, e.Region, e.Usable, c.tab.RegionName(j))
		}
		if !strings.Contains(e.Why, c.why) {
			t.Errorf("%s: why: got %q, want %q", c.client, e.Why, c.why)
		}
		if e.Candidates[0] != e.Region || e.Scope != m.Scope || e.Key != m.Key || e.Epoch != 7 || e.Gap == nil {
			t.Errorf("%s: got %+v", c.client, e)
		}
	}
}

// A frontend that is too far away to be worth serving still gets the cheapest
// region where an answer must be given.
func TestExplainARefusedFrontend(t *testing.T) {
	w := world([]float64{1, 0}, [][2]float64{{10, 10}, {10, 10}}, [][]float64{{50, 40}, {1, 2}})
	w.Objective.Shed = &router.Shed{PriceS: 20}
	p := solved(t, w)
	tab, err := router.NewTable(1, w, p, nil, "f0", nil)
	if err != nil {
		t.Fatal(err)
	}
	e := tab.Explain("x.", prefix("192.0.2.1/32"))
	if e.Region != "r1" || !e.Usable || e.ShedShare != 1 || !strings.Contains(e.Why, "the plan refuses all its requests") {
		t.Errorf("got %+v", e)
	}
	if tab.World() != w || tab.Plan() != p || tab.ShedShare(1) != 0 {
		t.Error("the table does not hold what it was made from")
	}
}

func TestExplanationJSON(t *testing.T) {
	e := table(t, []router.Client{{prefix("10.0.0.0/8"), "f1"}}, "r2").Explain("api.example.org.", prefix("10.1.2.3/32"))
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"name", "client", "matched", "frontend", "scope", "key", "hash", "regions", "candidates", "region", "usable", "why", "epoch", "gap", "shed_share", "down"} {
		if _, ok := got[key]; !ok {
			t.Errorf("no key %s in %s", key, b)
		}
	}
	region := got["regions"].([]any)[0].(map[string]any)
	for _, key := range []string{"name", "share", "price_s", "latency_ms", "cost_ms"} {
		if _, ok := region[key]; !ok {
			t.Errorf("no key regions[].%s in %s", key, b)
		}
	}
	if region["latency_ms"] != 10.0 || fmt.Sprint(got["down"]) != "[r2]" || got["matched"] != "10.0.0.0/8" {
		t.Errorf("got %s", b)
	}
}
