package main

import (
	"net/netip"

	"github.com/spf13/cobra"

	"strandline/datasets"
	"strandline/probe"
	"strandline/probe/campaign"
)

func newCatchmentCmd(a *app) *cobra.Command {
	m := &measurement{app: a}
	var o probe.CatchmentOptions
	c := &cobra.Command{
		Use: "catchment TARGET...", Short: "Ask which site of an anycast address this vantage reaches",
		Long: `Ask an anycast DNS address which of its sites our traffic lands at (direction forward),
by the server's own name (CHAOS TXT id.server, then hostname.bind).`,
		Example: "  strandline probe catchment --sim earth --vantage nbo any",
		RunE: func(c *cobra.Command, args []string) error {
			p, targets, err := m.plan(c, args)
			if err != nil {
				return err
			}
			p.Catchment, p.CatchmentOptions = targets, o
			extent, err := p.Engine.PlanCatchment(targets, o)
			if err != nil {
				return usageError{err}
			}
			return m.run(c.Context(), "catchment", p, extent, func(r campaign.Rows) error {
				return renderRows(a, inOrder(r.Catchments, targets, func(c datasets.Catchment) netip.Addr { return c.Target }), catchmentColumns())
			})
		},
	}
	m.flags(c)
	c.Flags().IntVar(&o.Attempts, "attempts", probe.DefaultAttempts, "`QUESTIONS` for each of the two names")
	return c
}

func catchmentColumns() []column[datasets.Catchment] {
	return []column[datasets.Catchment]{
		{"vantage", func(r datasets.Catchment) string { return r.Vantage }},
		{"target", func(r datasets.Catchment) string { return r.Target.String() }},
		{"direction", func(r datasets.Catchment) string { return string(r.Direction) }},
		{"site", func(r datasets.Catchment) string { return orDash(r.Site) }},
		{">rtt ms", func(r datasets.Catchment) string { return ms(r.RTTMS) }},
	}
}
