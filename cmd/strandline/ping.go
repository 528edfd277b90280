package main

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"strandline/datasets"
	"strandline/probe"
	"strandline/probe/campaign"
)

func newPingCmd(a *app) *cobra.Command {
	m := &measurement{app: a}
	var o probe.PingOptions
	var proto string
	c := &cobra.Command{
		Use: "ping TARGET...", Short: "Measure round trips, with an interval for each median",
		Long: `Measure the round trip to each target. The median comes with the interval that covers
it with 99.9 % confidence, whatever the distribution; a lossy target has a wider one.
A TARGET is an address, a host name or REGION=ADDRESS (the address stands for a region).`,
		Example: `  strandline probe ping --sim earth --vantage nbo regions
  sudo strandline probe ping --count 20 192.0.2.1
  sudo strandline probe ping --vantage fra -o fra eu=192.0.2.10 us=198.51.100.10`,
		RunE: func(c *cobra.Command, args []string) error {
			p, targets, err := m.plan(c, args)
			if err != nil {
				return err
			}
			o.Proto = datasets.Proto(proto)
			p.Ping, p.PingOptions = targets, o
			extent, err := p.Engine.PlanPing(targets, o)
			if err != nil {
				return usageError{err}
			}
			return m.run(c.Context(), "ping", p, extent, func(r campaign.Rows) error {
				return renderRows(a, inOrder(r.Latencies, targets, func(l datasets.Latency) netip.Addr { return l.Target }), latencyColumns())
			})
		},
	}
	m.flags(c)
	c.Flags().StringVar(&proto, "proto", "icmp", "`PROTO` of the probes: icmp or udp")
	c.Flags().IntVar(&o.Count, "count", 20, "`PROBES` per target")
	c.Flags().DurationVar(&o.Interval, "interval", 200*time.Millisecond, "`TIME` between two probes to one target")
	return c
}

func latencyColumns() []column[datasets.Latency] {
	return []column[datasets.Latency]{
		{"target", func(l datasets.Latency) string { return l.Target.String() }},
		{"region", func(l datasets.Latency) string { return orDash(l.Region) }},
		{">sent", func(l datasets.Latency) string { return fmt.Sprint(l.Sent) }},
		{">received", func(l datasets.Latency) string { return fmt.Sprint(l.Received) }},
		{">loss", func(l datasets.Latency) string { return fmt.Sprintf("%.1f%%", 100*l.Loss) }},
		{">min ms", func(l datasets.Latency) string { return ms(l.MinMS) }},
		{">p50 ms", func(l datasets.Latency) string { return ms(l.P50MS) }},
		{"interval of p50", func(l datasets.Latency) string { return interval(l.P50LoMS, l.P50HiMS) }},
		{">p99 ms", func(l datasets.Latency) string { return ms(l.P99MS) }},
		{">jitter ms", func(l datasets.Latency) string { return ms(l.JitterMS) }},
	}
}
