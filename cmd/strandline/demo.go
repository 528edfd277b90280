package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"strandline/internal/demo"
)

func newDemoCmd(a *app) *cobra.Command {
	var dir string
	var serve bool
	c := &cobra.Command{
		Use: "demo", Short: "Run the whole loop on a simulated Internet: no root, no network, under a minute", Args: cobra.NoArgs,
		Long: `Run the whole loop once: measure the simulated Internet "earth" and score the result against
its truth, write the data set, solve the allocation from the measured rows, serve it by DNS
and HTTP on loopback, let a region fail, and write a report. The seed is 1 unless --seed says
another. With --format json or csv, standard output lists the files that were written.`,
		Example: "  strandline demo\n  strandline demo --serve -o demo",
		RunE: func(c *cobra.Command, _ []string) error {
			if dir == "" {
				parent, err := os.MkdirTemp("", "strandline-demo-")
				if err != nil {
					return err
				}
				dir = parent
			}
			if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
				return fmt.Errorf("%s holds something already: name another directory with -o, or remove it", dir)
			}
			opts := demo.Options{Dir: dir, Seed: max(a.seed, 1), Out: a.summary(), CommandLine: os.Args, Version: version, Serve: serve,
				Progress: newProgress(a, "measuring").steps, Logger: slog.New(slog.DiscardHandler)}
			if a.verbose {
				opts.Logger = a.logger()
			}
			err := demo.Run(c.Context(), opts)
			if errors.Is(err, demo.ErrScore) {
				err = checkError{err}
			} else if err != nil {
				return err
			}
			return errors.Join(err, renderFiles(a, dir))
		},
	}
	c.Flags().StringVarP(&dir, "output", "o", "", "`DIR` for the files (default: a new one for temporary files)")
	c.Flags().BoolVar(&serve, "serve", false, "keep DNS, HTTP and the report up until Ctrl-C")
	return c
}
