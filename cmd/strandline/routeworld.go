package main

import (
	"github.com/spf13/cobra"

	"strandline/datasets"
	"strandline/internal/config"
)

func newRouteWorldCmd(a *app) *cobra.Command {
	var regionsFile, out string
	c := &cobra.Command{
		Use: "world DATASET...", Short: "Turn measured latencies into a world file", Args: cobra.MinimumNArgs(1),
		Long: `Turn the latency rows of one or more data sets into a routing problem. The regions file says
what was not measured: the service rates of the regions and the demand of the frontends.
A vantage counts for the frontend in its labels, or for the one of its name.`,
		Example: "  strandline route world demo/dataset --regions demo/regions.yaml -o world.yaml",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := require("regions", regionsFile, "the YAML file of regions and frontends"); err != nil {
				return err
			}
			regions, err := config.LoadRegions(regionsFile)
			if err != nil {
				return err
			}
			latencies, frontends, err := measuredRows(args)
			if err != nil {
				return err
			}
			w, notes, err := regions.World(latencies, frontends)
			if err != nil {
				return err
			}
			for _, n := range notes {
				a.talk("note: %s", n)
			}
			text, err := config.EncodeWorld(w)
			if err != nil {
				return err
			}
			return writeOut(a, out, text)
		},
	}
	c.Flags().StringVar(&regionsFile, "regions", "", "YAML `FILE` of regions with their service, and of frontends with their rates")
	c.Flags().StringVarP(&out, "output", "o", "", "world `FILE` to write (default: standard output)")
	return c
}

// measuredRows reads what routing needs from data sets, one after the other.
func measuredRows(dirs []string) (latencies []datasets.Latency, frontends []datasets.Frontend, err error) {
	for _, dir := range dirs {
		set, err := openDataset(dir)
		if err != nil {
			return nil, nil, err
		}
		l, err := datasets.All[datasets.Latency](set)
		if err != nil {
			return nil, nil, err
		}
		f, err := datasets.All[datasets.Frontend](set)
		if err != nil {
			return nil, nil, err
		}
		latencies, frontends = append(latencies, l...), append(frontends, f...)
	}
	return latencies, frontends, nil
}
