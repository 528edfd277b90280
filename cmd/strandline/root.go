package main

import (
	"strings"

	"github.com/spf13/cobra"
)

func newRootCmd(a *app) *cobra.Command {
	root := group("strandline", "Measure how the Internet carries traffic, and route requests by it",
		newDemoCmd(a), newProbeCmd(a), newDatasetCmd(a), newRouteCmd(a), newServeCmd(a),
		newConfigCmd(a), newLabCmd(a), newReportCmd(a), newVersionCmd(a))
	root.Long = `strandline measures paths, anycast catchments and latencies, turns them into an
optimal allocation of requests to regions, and serves that allocation as an
authoritative DNS server and as an HTTP router.`
	root.Example = "  strandline demo\n  strandline probe ping --sim earth --vantage nbo regions"
	root.SilenceUsage, root.SilenceErrors = true, true
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		switch a.format {
		case "table", "json", "csv":
			return nil
		}
		return usagef("--format %q: write table, json or csv", a.format)
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetUsageTemplate(usageTemplate)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagError(err) })
	root.SetHelpCommand(newHelpCmd())
	root.CompletionOptions.HiddenDefaultCmd = true
	f := root.PersistentFlags()
	f.StringVar(&a.format, "format", "table", "output `FORMAT`: table, json (one object a line) or csv")
	f.Uint64Var(&a.seed, "seed", 0, "`SEED` of every random choice (0: draw one and print it)")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "say more on standard error")
	checkArguments(root)
	return root
}

func newHelpCmd() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND...]", Short: "Show the help of a command",
		Example: "  strandline help probe ping",
		RunE: func(c *cobra.Command, args []string) error {
			found, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("help: there is no command %q", strings.Join(args, " "))
			}
			return found.Help()
		},
	}
}
