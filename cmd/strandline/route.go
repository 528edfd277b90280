package main

import (
	"time"

	"github.com/spf13/cobra"

	"strandline/internal/config"
	"strandline/router"
)

func newRouteCmd(a *app) *cobra.Command {
	return group("route", "Turn measured rows into an allocation, and explain answers",
		newRouteWorldCmd(a), newRouteSolveCmd(a), newRouteSimulateCmd(a), newRouteCompareCmd(a), newRouteExplainCmd(a))
}

func newRouteSolveCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "solve WORLD", Short: "Find the optimal allocation of a world file, with its certificate", Args: cobra.ExactArgs(1),
		Long: `Find the shares of each frontend's requests that minimise network latency plus serving
latency when service rates depend on load. The gap is the certificate: no allocation costs
less than (1 - gap) times this one.`,
		Example: "  strandline route solve demo/world.yaml",
		RunE: func(_ *cobra.Command, args []string) error {
			w, err := config.LoadWorld(args[0])
			if err != nil {
				return err
			}
			for _, n := range w.Notes() {
				a.talk("note: %s", n)
			}
			start := time.Now()
			p, err := router.Solve(w, router.SolveOptions{})
			if err != nil {
				return err
			}
			if p.Gap > 1e-6 {
				a.talk("warning: the plan is only certified to a gap of %.2g", p.Gap)
			}
			p.ElapsedMS = float64(time.Since(start).Microseconds()) / 1000
			return renderPlan(a, p)
		},
	}
}
