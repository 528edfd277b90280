package main

import (
	"strings"

	"github.com/spf13/cobra"

	"strandline/internal/config"
	"strandline/router"
	"strandline/router/sim"
)

// compareOptions say what is compared under which conditions.
type compareOptions struct {
	policies         []string
	seeds            int
	duration, warmup seconds
	state            string
	outage           string
}

func newRouteCompareCmd(a *app) *cobra.Command {
	o := compareOptions{seeds: 3, duration: 1000, warmup: 100, policies: []string{"dgd+replan", "dgd", "plan", "marginal", "gmsr", "jsq", "sed", "pd(2)", "lc", "latency", "swrr", "waterfall", "nearest"}}
	c := &cobra.Command{
		Use: "compare WORLD", Short: "Run policies side by side on the same requests", Args: cobra.ExactArgs(1),
		Long: `Run policies side by side in the event simulator. Every policy meets the same requests with
the same work, seed by seed, and sees only the information it is allowed to see. The first
row, clairvoyant, splits by the fluid optimum of the true rates, known before each epoch, and
is what the others are measured by. It does not look at single requests: where regions are
small, a policy that does may beat it. Ctrl-C ends it with the rows that are complete.`,
		Example: `  strandline route compare demo/world.yaml --policies dgd,jsq,nearest --seeds 2
  strandline route compare demo/world.yaml --outage mum=300..900 --duration 1800`,
		RunE: func(c *cobra.Command, args []string) error {
			w, err := config.LoadWorld(args[0])
			if err != nil {
				return err
			}
			k, err := o.comparison(w)
			if err != nil {
				return err
			}
			k.Continue = func(float64) bool { return c.Context().Err() == nil }
			seed, drawn := a.drawSeed()
			if drawn {
				a.talk("seed %d", seed)
			}
			rows, err := runComparison(a, k, seed, o.seeds)
			if err != nil {
				return err
			}
			return renderComparison(a, rows)
		},
	}
	f := c.Flags()
	f.StringSliceVar(&o.policies, "policies", o.policies, "`POLICIES` of "+strings.Join(sim.ComparePolicies(), " "))
	f.IntVar(&o.seeds, "seeds", o.seeds, "`NUMBER` of paired runs; with two or more there are confidence intervals")
	f.Var(&o.duration, "duration", "simulated `TIME` of each run, such as 1000 (seconds) or 1h")
	f.Var(&o.warmup, "warmup", "simulated `TIME` that is not measured")
	f.StringVar(&o.state, "state", string(sim.StateDelayed), "`HOW` frontends see regions: "+string(sim.StateDelayed)+" (by the network) or "+string(sim.StateReports)+" (every second)")
	f.StringVar(&o.outage, "outage", "", "`REGION=FROM..TO` (seconds): the region is dead in this window")
	return c
}

// comparison checks the options and turns them into a comparison on w.
func (o *compareOptions) comparison(w *router.World) (sim.Comparison, error) {
	k := sim.Comparison{Policies: o.policies, Config: sim.Config{
		World: w, DurationS: float64(o.duration), WarmupS: float64(o.warmup), State: sim.StateKind(o.state), Retries: 1, DetectS: 1,
	}}
	if o.seeds < 1 {
		return k, usagef("--seeds %d: must be at least 1", o.seeds)
	}
	if o.warmup >= o.duration {
		return k, usagef("--warmup %v: must be below --duration %v", &o.warmup, &o.duration)
	}
	if o.outage == "" {
		return k, nil
	}
	out, err := parseOutage(w, o.outage)
	k.Outages = []sim.Outage{out}
	return k, err
}
