package main

import (
	"github.com/spf13/cobra"

	"strandline/datasets"
	"strandline/probe"
	"strandline/probe/campaign"
)

func newPathsCmd(a *app) *cobra.Command {
	m := &measurement{app: a}
	var o probe.PathsOptions
	var proto, other string
	var explain bool
	c := &cobra.Command{
		Use: "paths TARGET...", Short: "Find every path, what balances it and by which header fields",
		Long: `Find all paths to each target and the routers that balance over them. The graph is
complete with the confidence asked for, for the whole graph, if next hops are equally
likely; with --min-share, whatever their shares, down to that one. Each balancer has its
class (per-flow, per-packet, per-destination), the header fields that move it, and the
smallest share of a further next hop that would have been found.`,
		Example: `  strandline probe paths --sim earth --vantage nbo lon
  sudo strandline probe paths --confidence 99 --min-share 0.1 192.0.2.1
  strandline probe paths --print-command scamper 192.0.2.1`,
		RunE: func(c *cobra.Command, args []string) error {
			if a.format == "csv" && explain {
				return usagef("--explain is for people and --format json; csv has only links")
			}
			p, targets, err := m.plan(c, args)
			if err != nil {
				return err
			}
			o.Proto = datasets.Proto(proto)
			p.Paths, p.PathsOptions = targets, o
			extent, err := p.Engine.PlanPaths(targets, o)
			if err != nil {
				return usageError{err}
			}
			if other != "" {
				return printCommands(a, other, targets, o)
			}
			return m.run(c.Context(), "paths", p, extent, func(r campaign.Rows) error { return renderPaths(a, r, explain) })
		},
	}
	m.flags(c)
	c.Flags().StringVar(&proto, "proto", "udp", "`PROTO` of the probes: udp or icmp")
	c.Flags().Float64Var(&o.Confidence, "confidence", 95, "`PERCENT` that the whole graph is complete, such as 95 or 99")
	c.Flags().Float64Var(&o.MinShare, "min-share", 0, "smallest `SHARE` of a branch to rule out, such as 0.1 (default: branches are equally likely)")
	c.Flags().IntVar(&o.FirstTTL, "first-ttl", 1, "`TTL` of the nearest hop asked")
	c.Flags().IntVar(&o.MaxTTL, "max-ttl", probe.DefaultMaxTTL, "largest `TTL` asked")
	c.Flags().IntVar(&o.GapLimit, "gap-limit", probe.DefaultGapLimit, "silent `HOPS` in a row that end the paths")
	c.Flags().IntVar(&o.MaxProbes, "max-probes", 5000, "most `PROBES` to one target")
	c.Flags().Uint16Var(&o.Dport, "dport", probe.DefaultUDPPort, "UDP destination `PORT`")
	c.Flags().BoolVar(&o.NoFields, "no-fields", false, "do not test which header fields the balancers hash")
	c.Flags().BoolVar(&explain, "explain", false, "say why: the evidence for each balancer, and what is not known")
	c.Flags().StringVar(&other, "print-command", "", "print the command of another `TOOL` that does the like, and measure nothing: scamper or dublin-traceroute")
	return c
}

// printCommands prints what to type for another tool.
func printCommands(a *app, tool string, targets []datasets.Target, o probe.PathsOptions) error {
	for _, t := range targets {
		line, err := otherCommand(tool, t, o)
		if err != nil {
			return err
		}
		switch a.format {
		case "json":
			err = renderOne(a.stdout, map[string]string{"target": t.Addr.String(), "command": line})
		case "csv":
			err = renderCSV(a.stdout, "target,command", []any{t.Addr, line})
		default:
			_, err = a.stdout.Write([]byte(line + "\n"))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
