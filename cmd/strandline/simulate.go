package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"strandline/internal/config"
	"strandline/router/sim"
)

func newRouteSimulateCmd(a *app) *cobra.Command {
	s := sim.Simulation{Model: sim.ModelFluid, DurationS: 2000}
	c := &cobra.Command{
		Use: "simulate WORLD", Short: "Run a policy on a world file: mean, tail, excess over the optimum", Args: cobra.ExactArgs(1),
		Long: `Run one policy on a routing problem. The fluid model integrates the delay differential
equation and measures the last quarter of the time; the event model runs requests one by
one, Poisson arrivals and exponential work, and measures the last three quarters.`,
		Example: `  strandline route simulate demo/world.yaml --policy dgd --duration 2000
  strandline route simulate demo/world.yaml --policy jsq --model events --seed 1`,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if s.World, err = config.LoadWorld(args[0]); err != nil {
				return err
			}
			var drawn bool
			if s.Seed, drawn = a.drawSeed(); drawn && s.Model == sim.ModelEvents {
				a.talk("seed %d", s.Seed)
			}
			s.Continue = func(float64) bool { return c.Context().Err() == nil }
			r, err := sim.Simulate(s)
			if err != nil {
				return err
			}
			return renderSummary(a, r)
		},
	}
	c.Flags().StringVar(&s.Policy, "policy", "dgd", "`POLICY`: in the fluid model "+strings.Join(sim.FluidPolicies(), ", "))
	c.Flags().StringVar((*string)(&s.Model), "model", string(s.Model), "`MODEL`: fluid or events")
	c.Flags().Var((*seconds)(&s.DurationS), "duration", "simulated `TIME`, such as 2000 (seconds) or 1h")
	return c
}

func renderSummary(a *app, r *sim.Summary) error {
	switch a.format {
	case "json":
		return renderOne(a.stdout, r)
	case "csv":
		return renderCSV(a.stdout, "policy,model,mean_latency_s,p50_s,p99_s,excess,throughput,shed,oscillates",
			[]any{r.Policy, r.Model, r.MeanLatencyS, r.P50S, r.P99S, r.Excess, r.ThroughputHz, r.ShedHz, r.Oscillates})
	}
	number := func(head string, v func(*sim.Summary) float64) column[*sim.Summary] {
		return column[*sim.Summary]{">" + head, func(r *sim.Summary) string { return fmt.Sprintf("%.4f", v(r)) }}
	}
	return table(a.stdout, []*sim.Summary{r}, []column[*sim.Summary]{
		{"policy", func(r *sim.Summary) string { return r.Policy }},
		number("mean s", func(r *sim.Summary) float64 { return r.MeanLatencyS }),
		number("p50 s", func(r *sim.Summary) float64 { return r.P50S }),
		number("p99 s", func(r *sim.Summary) float64 { return r.P99S }),
		{">excess", func(r *sim.Summary) string { return fmt.Sprintf("%.2f%%", 100*r.Excess) }},
		number("served/s", func(r *sim.Summary) float64 { return r.ThroughputHz }),
		number("shed/s", func(r *sim.Summary) float64 { return r.ShedHz }),
		{"oscillates", func(r *sim.Summary) string { return strconv.FormatBool(r.Oscillates) }},
	})
}
