package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

func renderPlan(a *app, p *router.Plan) error {
	switch a.format {
	case "json":
		return renderOne(a.stdout, p)
	case "csv":
		return renderRows(a, router.Rows(p, 0), nil)
	}
	fmt.Fprintf(a.stdout, "mean latency %.6f s, gap %.2g, %d iterations, %.1f ms\n\n", p.MeanLatencyS, p.Gap, p.Iterations, p.ElapsedMS)
	if err := table(a.stdout, p.Regions, regionColumns()); err != nil {
		return err
	}
	fmt.Fprintln(a.stdout)
	return table(a.stdout, p.Frontends, frontendColumns(p))
}

func regionColumns() []column[router.RegionPlan] {
	return []column[router.RegionPlan]{
		{"region", func(r router.RegionPlan) string { return r.Name }},
		{">rate/s", func(r router.RegionPlan) string { return fmt.Sprintf("%.3f", r.RateHz) }},
		{">workload", func(r router.RegionPlan) string { return fmt.Sprintf("%.3f", r.Workload) }},
		{">price s", func(r router.RegionPlan) string { return fmt.Sprintf("%.4f", r.PriceS) }},
		{">utilisation", func(r router.RegionPlan) string { return fmt.Sprintf("%.1f%%", 100*r.Utilisation) }},
	}
}

// writeOut writes a document to a file, or to standard output when the name is
// empty.
func writeOut(a *app, file, text string) error {
	if file == "" {
		return renderDocument(a, text)
	}
	if err := replaceFile(file, []byte(text)); err != nil {
		return err
	}
	a.talk("written to %s", file)
	return nil
}

// replaceFile writes a file whole or not at all: a reader finds the old content or
// the new one, and a full disk loses neither.
func replaceFile(file string, content []byte) error {
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(file, content, 0o644) // a device or pipe cannot be replaced
	}
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".partial-*")
	var path *os.PathError
	if errors.As(err, &path) {
		return &os.PathError{Op: "create", Path: file, Err: path.Err} // not the temporary name
	}
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("%s is as it was: %w", file, err)
	}
	return nil
}
