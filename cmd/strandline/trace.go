package main

import (
	"github.com/spf13/cobra"

	"strandline/datasets"
	"strandline/probe"
	"strandline/probe/campaign"
)

func newTraceCmd(a *app) *cobra.Command {
	m := &measurement{app: a}
	var o probe.TraceOptions
	var proto string
	c := &cobra.Command{
		Use: "trace TARGET...", Short: "Find the path that one flow takes (Paris traceroute)",
		Long: `Find the path that one flow takes to each target. All probes of a trace agree in every
field that a load balancer may hash, so what is printed is one real path.`,
		Example: `  strandline probe trace --sim earth --vantage nbo tok
  sudo strandline probe trace --proto udp 192.0.2.1`,
		RunE: func(c *cobra.Command, args []string) error {
			p, targets, err := m.plan(c, args)
			if err != nil {
				return err
			}
			o.Proto = datasets.Proto(proto)
			p.Trace, p.TraceOptions = targets, o
			extent, err := p.Engine.PlanTrace(targets, o)
			if err != nil {
				return usageError{err}
			}
			return m.run(c.Context(), "trace", p, extent, func(r campaign.Rows) error {
				return renderTraces(a, r, targets)
			})
		},
	}
	m.flags(c)
	c.Flags().StringVar(&proto, "proto", "icmp", "`PROTO` of the probes: icmp or udp")
	c.Flags().IntVar(&o.FirstTTL, "first-ttl", 1, "`TTL` of the nearest hop asked")
	c.Flags().IntVar(&o.MaxTTL, "max-ttl", probe.DefaultMaxTTL, "largest `TTL` asked")
	c.Flags().IntVar(&o.Attempts, "attempts", probe.DefaultAttempts, "`PROBES` to a hop that stays silent")
	c.Flags().IntVar(&o.GapLimit, "gap-limit", probe.DefaultGapLimit, "silent `HOPS` in a row that end the trace")
	c.Flags().Uint16Var(&o.Sport, "sport", 0, "UDP source `PORT` (default: drawn at random)")
	c.Flags().Uint16Var(&o.Dport, "dport", probe.DefaultUDPPort, "UDP destination `PORT`")
	return c
}
