package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"strandline/probe"
)

func newProbeCmd(a *app) *cobra.Command {
	return group("probe", "Measure now: round trips, paths, anycast catchments",
		newPingCmd(a), newTraceCmd(a), newPathsCmd(a), newCatchmentCmd(a))
}

// renderExtent prints what a measurement would send.
func renderExtent(a *app, p probe.Plan) error {
	switch a.format {
	case "json":
		return renderOne(a.stdout, map[string]any{"targets": p.Targets, "excluded": p.Excluded, "repeated": p.Repeated,
			"prefixes": p.Prefixes, "packets": p.Packets, "duration_ms": p.Duration.Milliseconds()})
	case "csv":
		return renderCSV(a.stdout, "targets,excluded,repeated,prefixes,packets,duration_ms",
			[]any{p.Targets, p.Excluded, p.Repeated, p.Prefixes, p.Packets, p.Duration.Milliseconds()})
	}
	_, err := fmt.Fprintf(a.stdout, "would send at most %s to %s in %s, in about %s (%d excluded, %d repeated)\n",
		plural(p.Packets, "packet"), plural(p.Targets, "target"), plural(p.Prefixes, "network"), p.Duration.Round(time.Millisecond), p.Excluded, p.Repeated)
	return err
}
