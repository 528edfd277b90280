package sim_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"strandline/router"
	"strandline/router/sim"
)

type pairMS map[[2]string]float64

// readRTT reads the round trips between 13 cloud regions that the simulated Internet
// ships with.
func readRTT(t testing.TB) (names []string, rtt pairMS) {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "internal", "simnet", "worlds", "ibm-cloud-rtt-2026-08.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comment = '#'
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	rtt = pairMS{}
	for _, row := range rows[1:] {
		ms, err := strconv.ParseFloat(row[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		rtt[[2]string{row[0], row[1]}] = ms
		if !slices.Contains(names, row[0]) {
			names = append(names, row[0])
		}
	}
	slices.Sort(names)
	return names, rtt
}

// earthWorld has a frontend and a region at each of the 13 places, the measured
// round trips between them and 1 ms within. The regions have the fitted curves of
// published engines in turn (an 8-GPU box, a dual-B200, a single consumer card, in
// tokens per second over 211 output tokens per request); demand falls with the rank
// of the place and loads them to rho together.
func earthWorld(t testing.TB, rho float64) *router.World {
	names, rtt := readRTT(t)
	curves := [][2]float64{{19755. / 211, 76}, {2058. / 211 * 4, 35.3 * 4}, {1306. / 211 * 8, 17.1 * 8}}
	w := &router.World{Latency: router.Latency{Unit: router.UnitMillis, Kind: router.KindRTT}, Objective: router.Objective{Network: router.KindRTT}}
	capacity, demand := 0.0, 0.0
	for i, a := range names {
		c := curves[i%len(curves)]
		w.Regions = append(w.Regions, router.Region{Name: a, Service: router.Service{Kind: router.KindHyperbolic, Mu: c[0], Kappa: c[1]}})
		w.Frontends = append(w.Frontends, router.Frontend{Name: a, RateHz: 1 / float64(i+1)})
		capacity += c[0]
		demand += 1 / float64(i+1)
		row := make([]*float64, len(names))
		for j, b := range names {
			ms := 1.0
			if a != b {
				var ok bool
				if ms, ok = rtt[[2]string{a, b}]; !ok {
					ms = rtt[[2]string{b, a}]
				}
			}
			row[j] = &ms
		}
		w.Latency.Matrix = append(w.Latency.Matrix, row)
	}
	for i := range w.Frontends {
		w.Frontends[i].RateHz *= rho * capacity / demand
	}
	return w
}

// azureDemand plays the Azure conversation trace at the demand of w, or Poisson
// arrivals where the trace is not here.
func azureDemand(t testing.TB, w *router.World) func() ([]sim.Source, error) {
	var weights []float64
	for _, f := range w.Frontends {
		weights = append(weights, f.RateHz)
	}
	f, ok := openShared(t, "llm/AzureLLMInferenceTrace_conv.csv")
	if !ok {
		t.Log("the real trace is not here: Poisson arrivals")
		return nil
	}
	trace, err := sim.ReadAzure(f, "conv")
	if err != nil {
		t.Fatal(err)
	}
	return func() ([]sim.Source, error) {
		s, err := trace.Source(sim.TraceDemand{RateHz: w.DemandHz(), Weights: weights, Repeat: true})
		return []sim.Source{s}, err
	}
}

// earthComparison is ten minutes of outage of the first region in 25 minutes of the
// trace. Two minutes from each of its ends are the transient.
func earthComparison(t testing.TB, rho float64) sim.Comparison {
	w := earthWorld(t, rho)
	return sim.Comparison{Demand: azureDemand(t, w), Seeds: []uint64{1, 2},
		Config: sim.Config{World: w, DurationS: 1500, WarmupS: 200, DetectS: 3, Retries: 2,
			Outages: []sim.Outage{{Region: 0, Window: sim.Window{FromS: 400, ToS: 1000}}},
			Exclude: []sim.Window{{FromS: 400, ToS: 520}, {FromS: 1000, ToS: 1120}}}}
}

// Outside the transient of an outage distributed gradient descent costs at most 3 %
// more than the optimum of the true rates of every epoch, known in advance; and the
// policies rank as the theory says: marginal costs, then workloads, then latencies.
func TestEarthWithAnOutage(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute of processor time")
	}
	c := earthComparison(t, 0.7)
	c.Policies = []string{"dgd+replan", "dgd", "marginal", "jsq", "latency"}
	rows, err := sim.Compare(c)
	if err != nil {
		t.Fatal(err)
	}
	excess := map[string]float64{}
	for _, r := range rows {
		t.Log(line(r))
		excess[r.Policy] = r.Excess
		if math.Abs(r.ThroughputHz/rows[0].ThroughputHz-1) > 0.01 {
			t.Errorf("%s served %.2f/s, %s %.2f/s", r.Policy, r.ThroughputHz, rows[0].Policy, rows[0].ThroughputHz)
		}
	}
	if excess[sim.Clairvoyant] != 0 {
		t.Errorf("the yardstick is %v over itself", excess[sim.Clairvoyant])
	}
	for _, p := range []string{"dgd", "dgd+replan"} {
		if excess[p] > 0.03 {
			t.Errorf("%s: %.2f %% over the clairvoyant plan, want at most 3 %%", p, 100*excess[p])
		}
	}
	for _, pair := range [][2]string{{"marginal", "jsq"}, {"jsq", "latency"}} {
		if excess[pair[0]] >= excess[pair[1]] {
			t.Errorf("%s (%.4f) is not better than %s (%.4f)", pair[0], excess[pair[0]], pair[1], excess[pair[1]])
		}
	}
}

func line(r sim.Row) string {
	return fmt.Sprintf("%-14s mean %.3f+-%.3f p50 %.2f p99 %.2f ttft %.2f excess %6.2f%% +- %.2f served %.1f shed %.2f failed %.3f moves %.3f swing %.3f",
		r.Policy, r.MeanLatencyS, r.HalfWidthS, r.P50S, r.P99S, r.MeanTTFTS, 100*r.Excess, 100*r.ExcessHalfWidth, r.ThroughputHz, r.ShedHz, r.FailedHz, r.Moves, r.Oscillation)
}

// Cells do not depend on each other: run alone, in any order, they make the same
// rows.
func TestComparisonCells(t *testing.T) {
	c := sim.Comparison{Policies: []string{"plan+replan", "jsq", "random"}, Seeds: []uint64{3, 4},
		Config: sim.Config{World: reference32(1), DurationS: 400, WarmupS: 100}}
	want, err := sim.Compare(c)
	if err != nil {
		t.Fatal(err)
	}
	results := map[string][]*sim.Result{}
	all := c.All()
	for k := len(all) - 1; k >= 0; k-- {
		list := make([]*sim.Result, 2)
		for n := 1; n >= 0; n-- {
			if list[n], err = c.Run(all[k], c.Seeds[n]); err != nil {
				t.Fatal(err)
			}
		}
		results[all[k]] = list
	}
	got, err := c.Rows(results)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) { // NaN is not equal to itself
		t.Errorf("got %v\nwant %v", got, want)
	}
	names := []string{}
	for _, r := range got {
		names = append(names, r.Policy)
	}
	if !slices.Equal(names, []string{"clairvoyant", "plan+replan", "jsq", "random"}) {
		t.Errorf("rows %v", names)
	}
	delete(results, "jsq")
	if _, err := c.Rows(results); err == nil {
		t.Error("a missing policy makes rows")
	}
	for _, bad := range []string{"best", "best+replan", "jsq+replan"} {
		c.Policies = []string{bad}
		if _, err := sim.Compare(c); err == nil {
			t.Errorf("%s compares", bad)
		}
	}
}

// Everything that is listed runs.
func TestComparePolicies(t *testing.T) {
	c := sim.Comparison{Policies: sim.ComparePolicies(), Seeds: []uint64{1}, Config: sim.Config{World: reference32(1), DurationS: 60, WarmupS: 10}}
	rows, err := sim.Compare(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if !(r.ThroughputHz > 15 && r.MeanLatencyS > 0 && r.P99S >= r.P50S) {
			t.Errorf("%+v", r)
		}
	}
	if !slices.Contains(c.Policies, "dgd+replan") || slices.Contains(c.Policies, "jsq+replan") {
		t.Errorf("policies %v", c.Policies)
	}
}

// The rows are JSON, and what is not known is null.
func TestRowJSON(t *testing.T) {
	got, err := json.Marshal(sim.Row{Policy: "pd", Sees: router.SeesNetwork | router.SeesWorkload, MeanLatencyS: 2, HalfWidthS: math.NaN(), ThroughputHz: 24})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"policy":"pd","sees":"network+workload","mean_latency_s":2,"half_width_s":null,"p50_s":0,"p90_s":0,"p99_s":0,"mean_ttft_s":0,"p99_ttft_s":0,"excess":0,"excess_half_width":0,"throughput":24,"shed":0,"failed":0,"retried":0,"moves":0,"oscillation":0,"events":0}`
	if string(got) != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
