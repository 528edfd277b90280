package demo

import (
	"context"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"strandline/datasets"
	"strandline/internal/config"
	"strandline/internal/simnet"
	"strandline/probe/campaign"
	"strandline/router"
)

//go:embed files
var embedded embed.FS

// Options says how the demo runs.
type Options struct {
	Dir         string // where the files go; made if absent, and the data set's folder must not exist
	Seed        uint64
	Out         io.Writer // the summary
	Progress    func(done, total int, note string)
	CommandLine []string
	Version     string
	Logger      *slog.Logger // of the daemon
	Serve       bool         // stay up until ctx ends
}

// demo is one run: what each step leaves for the next.
type demo struct {
	Options
	started time.Time

	net   *simnet.Net
	plan  campaign.Plan
	rows  []campaign.Rows
	score score

	world      *router.World
	allocation *router.Plan
}

// Run makes one pass through the loop and prints what it did and where the
// files are. The error says which step could not be done. A score below the
// promise is an ErrScore; everything has been written by then.
func Run(ctx context.Context, opts Options) error {
	d := &demo{Options: opts, started: time.Now()}
	for _, step := range []func(context.Context) error{d.prepare, d.measure, d.writeDataset, d.solve, d.serve} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return d.score.err()
}

// path is a file in the demo's directory.
func (d *demo) path(name string) string { return filepath.Join(d.Dir, name) }

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.Out, format+"\n", args...) }

// prepare builds the world and copies the files that a user can play with.
func (d *demo) prepare(context.Context) error {
	spec, files, err := config.LoadSim("earth")
	if err != nil {
		return err
	}
	if d.net, err = simnet.Build(spec, files); err != nil {
		return err
	}
	if err := os.MkdirAll(d.Dir, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"regions.yaml", "example.org.zone"} {
		b, err := fs.ReadFile(embedded, "files/"+name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(d.path(name), b, 0o644); err != nil {
			return err
		}
	}
	d.plan = newPlan(d.net, d.Seed)
	return nil
}

// measure runs the campaign on the virtual clock and scores it.
func (d *demo) measure(ctx context.Context) error {
	start := time.Now()
	err := campaign.Run(ctx, d.plan, openSim(d.net, d.Seed), func(r campaign.Rows) error {
		d.rows = append(d.rows, r)
		if d.Progress != nil {
			d.Progress(len(d.rows), len(d.plan.Vantages), "vantages measured")
		}
		return nil
	})
	if err != nil {
		return err
	}
	d.score, err = scoreRows(d.net, d.rows)
	if err != nil {
		return err
	}
	var sent, answered uint64
	for _, r := range d.rows {
		sent, answered = sent+r.Stats.Sent, answered+r.Stats.Received
	}
	d.say("1. Measured the simulated Internet \"earth\": %d vantages, %d regions, one anycast service (seed %d)",
		len(d.plan.Vantages), len(d.net.Regions()), d.Seed)
	d.say("   %d probes, %d answered, in %.1f s", sent, answered, time.Since(start).Seconds())
	for _, c := range d.score.checks() {
		mark := "ok  "
		if !c.OK {
			mark = "FAIL"
		}
		d.say("   %s %-14s %s", mark, c.Name, c.Text)
	}
	return nil
}

// writeDataset writes all rows with their manifest.
func (d *demo) writeDataset(context.Context) error {
	dir := d.path("dataset")
	w, err := datasets.Create(dir, datasets.Manifest{
		Source: "sim:earth", Seed: d.Seed, CommandLine: d.CommandLine, Created: d.started, Tool: "strandline " + d.Version,
	})
	if err != nil {
		return err
	}
	defer w.Abort()
	if err := datasets.Append(w, d.net.Regions()...); err != nil {
		return err
	}
	if err := datasets.Append(w, d.net.Targets()...); err != nil {
		return err
	}
	for _, r := range d.rows {
		if err := r.AppendTo(w); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := datasets.Validate(dir); err != nil {
		return fmt.Errorf("the data set that was just written: %w", err)
	}
	d.say("2. Wrote and validated the data set %s", dir)
	return nil
}

// solve turns the measured rows into a world and the world into an allocation.
func (d *demo) solve(context.Context) error {
	regions, err := config.LoadRegions(d.path("regions.yaml"))
	if err != nil {
		return err
	}
	var latencies []datasets.Latency
	for _, r := range d.rows {
		latencies = append(latencies, r.Latencies...)
	}
	if d.world, _, err = regions.World(latencies, nil); err != nil {
		return err
	}
	text, err := config.EncodeWorld(d.world)
	if err != nil {
		return err
	}
	if err := os.WriteFile(d.path("world.yaml"), []byte(text), 0o644); err != nil {
		return err
	}
	start := time.Now()
	if d.allocation, err = router.Solve(d.world, router.SolveOptions{}); err != nil {
		return err
	}
	nearest, err := nearestLatency(d.world)
	d.say("3. Solved the allocation from the measured rows: %d frontends, %d regions, %.0f requests/s",
		len(d.world.Frontends), len(d.world.Regions), d.world.DemandHz())
	d.say("   mean latency %.3f s, optimal within %.1g (certified), %d ms", d.allocation.MeanLatencyS, d.allocation.Gap, time.Since(start).Milliseconds())
	switch {
	case err != nil:
		d.say("   sending everybody to the nearest region would overload %v", err)
	default:
		d.say("   sending everybody to the nearest region: %.3f s", nearest)
	}
	return nil
}
