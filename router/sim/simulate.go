package sim

import (
	"encoding/json"
	"fmt"
	"math"

	"strandline/router"
)

// Model says how requests are simulated.
type Model string

// The two models. Each checks the other.
const (
	ModelFluid  Model = "fluid"  // RunFluid
	ModelEvents Model = "events" // Run
)

// Simulation is one run of either model with everything else by default: constant
// demand (Poisson arrivals in the event model), one network delay of state age, no
// outage. The last three quarters are measured by the event model, and the last
// quarter by the fluid model, where nothing is left to average out.
type Simulation struct {
	World     *router.World
	Policy    string // one of FluidPolicies in the fluid model, else as router.LookupPolicy reads it
	Model     Model
	DurationS float64
	Seed      uint64                  // of the event model
	Continue  func(nowS float64) bool // false stops the run, which returns ErrStopped; nil = always
}

// Summary is one run in a line. Times are seconds. What was not observed is NaN,
// and null in JSON.
type Summary struct {
	Policy       string
	Model        Model
	MeanLatencyS float64
	P50S         float64
	P99S         float64

	// Excess is what the run cost above the optimum, as a fraction: in the fluid model
	// by the objective, in the event model by the mean latency of what was served, of
	// which chance is a part.
	Excess       float64
	ThroughputHz float64
	ShedHz       float64

	// Oscillates: workloads swing for ever. In the event model, half as much again as
	// chance alone would make them.
	Oscillates bool
}

// Simulate runs s.
func Simulate(s Simulation) (*Summary, error) {
	switch s.Model {
	case ModelFluid:
		r, err := RunFluid(Fluid{World: s.World, Policy: s.Policy, DurationS: s.DurationS, Continue: s.Continue})
		if err != nil {
			return nil, err
		}
		return &Summary{r.Policy, s.Model, r.MeanLatencyS, r.P50S, r.P99S, r.Excess, r.ThroughputHz, r.ShedHz, r.Oscillates}, nil
	case ModelEvents:
		return s.events()
	}
	return nil, fmt.Errorf("simulate: there is no model %q; choose %s or %s", s.Model, ModelFluid, ModelEvents)
}

func (s *Simulation) events() (*Summary, error) {
	if s.World == nil {
		return nil, fmt.Errorf("simulate: no world")
	}
	exact := Integer(s.World)
	p, err := router.Solve(exact, router.SolveOptions{})
	if err != nil {
		return nil, err
	}
	r, err := Run(Config{World: s.World, Plan: p, Policy: s.Policy, Seed: s.Seed, DurationS: s.DurationS, WarmupS: s.DurationS / 4, Continue: s.Continue})
	if err != nil {
		return nil, err
	}
	return &Summary{r.Policy, s.Model, r.MeanLatencyS, r.P50S, r.P99S, r.MeanLatencyS/p.MeanLatencyS - 1,
		r.ThroughputHz, r.ShedHz, r.Oscillation > 1.5*chanceSwing(p)}, nil
}

// chanceSwing is Result.Oscillation where the plan's rates arrive at random: in a
// region of rate mu n/(kappa+n) the number of requests has a negative binomial law
// with the variance N/(1-rho) (derived; for kappa 0 it is M/M/1).
func chanceSwing(p *router.Plan) float64 {
	spread, inside := 0.0, 0.0
	for _, r := range p.Regions {
		spread += math.Sqrt(r.Workload / (1 - r.Utilisation))
		inside += r.Workload
	}
	return spread / inside
}

// MarshalJSON writes the keys of `route simulate`.
func (s Summary) MarshalJSON() ([]byte, error) {
	known := func(v float64) *float64 {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
		return &v
	}
	return json.Marshal(struct {
		Policy       string   `json:"policy"`
		Model        Model    `json:"model"`
		MeanLatencyS *float64 `json:"mean_latency_s"`
		P50S         *float64 `json:"p50_s"`
		P99S         *float64 `json:"p99_s"`
		Excess       *float64 `json:"excess"`
		ThroughputHz *float64 `json:"throughput"`
		ShedHz       *float64 `json:"shed"`
		Oscillates   bool     `json:"oscillates"`
	}{s.Policy, s.Model, known(s.MeanLatencyS), known(s.P50S), known(s.P99S), known(s.Excess), known(s.ThroughputHz), known(s.ShedHz), s.Oscillates})
}
