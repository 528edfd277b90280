package sim_test

import (
	"encoding/json"
	"math"
	"testing"

	"strandline/router/sim"
)

// Static splits cost in both models the same, the event model having a request more
// to wait for in each region (kappa+1); DGD costs what the plan does; and who ignores
// the margin pays for it in both.
func TestSimulateBothModels(t *testing.T) {
	w := reference32(1)
	run := func(policy string) (fluid, events *sim.Summary) {
		fluid, err := sim.Simulate(sim.Simulation{World: sim.Integer(w), Policy: policy, Model: sim.ModelFluid, DurationS: 2000})
		if err != nil {
			t.Fatal(err)
		}
		events, err = sim.Simulate(sim.Simulation{World: w, Policy: policy, Model: sim.ModelEvents, DurationS: 20000, Seed: 7})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%-8s fluid %.4f s, events %.4f s, excess %.4f and %.4f", policy, fluid.MeanLatencyS, events.MeanLatencyS, fluid.Excess, events.Excess)
		for _, s := range []*sim.Summary{fluid, events} {
			if s.Policy != policy || !(s.P50S < s.P99S) || math.Abs(s.ThroughputHz-24) > 0.1 || s.ShedHz != 0 {
				t.Errorf("got %+v", *s)
			}
		}
		return fluid, events
	}
	_, plan := run("plan")
	for _, policy := range []string{"replicas", "dgd"} {
		fluid, events := run(policy)
		near(t, policy+" in both models", events.MeanLatencyS, fluid.MeanLatencyS, 0.03)
		if fluid.Oscillates || events.Oscillates {
			t.Errorf("%s oscillates: %v and %v", policy, fluid.Oscillates, events.Oscillates)
		}
	}
	for _, policy := range []string{"jsq", "latency"} {
		if fluid, events := run(policy); fluid.Excess < 0.05 || events.MeanLatencyS < 1.02*plan.MeanLatencyS {
			t.Errorf("%s: excess %g, events %g of %g", policy, fluid.Excess, events.MeanLatencyS, plan.MeanLatencyS)
		}
	}
}

func TestSummaryJSON(t *testing.T) {
	b, err := json.Marshal(&sim.Summary{Policy: "dgd", Model: sim.ModelFluid, MeanLatencyS: 2.5, P50S: 2, P99S: 3, Excess: math.NaN(), ThroughputHz: 24, Oscillates: true})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"policy":"dgd","model":"fluid","mean_latency_s":2.5,"p50_s":2,"p99_s":3,"excess":null,"throughput":24,"shed":0,"oscillates":true}`
	if string(b) != want {
		t.Errorf("got\n%s\nwant\n%s", b, want)
	}
}

func TestSimulateRefuses(t *testing.T) {
	for _, s := range []sim.Simulation{
		{World: reference32(1), Policy: "dgd", Model: "both", DurationS: 1},
		{World: reference32(1), Policy: "magic", Model: sim.ModelFluid, DurationS: 1},
		{World: reference32(1), Policy: "magic", Model: sim.ModelEvents, DurationS: 1},
		{Policy: "dgd", Model: sim.ModelFluid, DurationS: 1},
		{Policy: "dgd", Model: sim.ModelEvents, DurationS: 1},
	} {
		if _, err := sim.Simulate(s); err == nil {
			t.Errorf("%q %q: got no error", s.Policy, s.Model)
		}
	}
}
