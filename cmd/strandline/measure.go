package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"strandline/datasets"
	"strandline/internal/config"
	"strandline/internal/simnet"
	"strandline/probe"
	"strandline/probe/campaign"
	"strandline/probe/rawsock"
)

// measurement is what the probe commands share: where from, where to, how fast,
// what never, and where the rows go.
type measurement struct {
	app *app

	targetsFile, excludeFile, sim, vantage, frontend, out, identity string
	rate, prefixRate                                                float64
	timeout                                                         time.Duration
	only4, only6, dryRun                                            bool

	world *simnet.Net // with --sim
}

// flags registers the common flags on a command.
func (m *measurement) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&m.targetsFile, "targets", "", "`FILE` of targets: one address or REGION=ADDRESS a line, or target rows in .csv or .jsonl; - reads lines from standard input")
	f.StringVar(&m.excludeFile, "exclude", "", "`FILE` of networks that are never probed, one prefix or address a line")
	f.StringVar(&m.sim, "sim", "", "measure a simulated `WORLD` instead of the network: earth, or a YAML file")
	f.StringVar(&m.vantage, "vantage", "", "`NAME` of this vantage in the rows (default: this host's); with --sim, the host to measure from")
	f.StringVar(&m.frontend, "frontend", "", "`NAME` of the frontend that this vantage measures for (default: the one named like the vantage)")
	f.StringVarP(&m.out, "output", "o", "", "write the rows as a data set into this `DIR`, which must not exist or be empty")
	f.StringVar(&m.identity, "identity", "", "`TEXT` in each probe that says who probes and how to object")
	f.Float64Var(&m.rate, "rate", probe.DefaultRateHz, "most `PACKETS` per second, all counted")
	f.Float64Var(&m.prefixRate, "prefix-rate", probe.DefaultPrefixRateHz, "most `PACKETS` per second to one /24 or /48")
	f.DurationVar(&m.timeout, "timeout", probe.DefaultTimeout, "longest `TIME` that an answer is waited for")
	f.BoolVarP(&m.only4, "ipv4", "4", false, "IPv4 targets only")
	f.BoolVarP(&m.only6, "ipv6", "6", false, "IPv6 targets only")
	f.BoolVar(&m.dryRun, "dry-run", false, "say what would be sent, and send nothing")
}

// positive refuses flags for which zero would mean their default.
func positive(c *cobra.Command) error {
	for _, name := range []string{"rate", "prefix-rate", "timeout", "count", "interval", "attempts", "first-ttl", "max-ttl", "gap-limit", "dport", "max-probes", "confidence"} {
		if f := c.Flags().Lookup(name); f != nil {
			if v := f.Value.String(); v == "0" || v == "0s" || v == "NaN" || strings.HasPrefix(v, "-") {
				return usagef("--%s %s: must be above 0", name, v)
			}
		}
	}
	return nil
}

// plan turns the flags and targets of a command into a campaign from one vantage.
func (m *measurement) plan(c *cobra.Command, args []string) (campaign.Plan, []datasets.Target, error) {
	var p campaign.Plan
	if m.only4 && m.only6 {
		return p, nil, usagef("-4 and -6: give one of them, or neither for both")
	}
	if err := errors.Join(positive(c), m.loadWorld()); err != nil {
		return p, nil, err
	}
	targets, err := m.targets(c.Context(), args)
	if err != nil {
		return p, nil, err
	}
	p.Engine = probe.Engine{RateHz: m.rate, PrefixRateHz: m.prefixRate, Timeout: m.timeout, Identity: m.identity}
	p.Engine.OnExcluded = func(t datasets.Target) { m.app.talk("excluded: %s", t.Addr) }
	if p.Engine.Exclude, err = m.exclusions(); err != nil {
		return p, nil, err
	}
	v, err := m.place()
	p.Vantages = []datasets.Vantage{v}
	return p, targets, err
}

// exclusions reads the --exclude file; nil without one.
func (m *measurement) exclusions() (*probe.Exclusions, error) {
	if m.excludeFile == "" {
		return nil, nil
	}
	f, err := os.Open(m.excludeFile)
	if err != nil {
		return nil, fmt.Errorf("--exclude: %w", err)
	}
	defer f.Close()
	return probe.ParseExclusions(f, m.excludeFile)
}

func (m *measurement) loadWorld() error {
	if m.sim == "" {
		return nil
	}
	spec, files, err := config.LoadSim(m.sim)
	if err != nil {
		return err
	}
	m.world, err = simnet.Build(spec, files)
	return err
}

// place is the vantage of this measurement.
func (m *measurement) place() (datasets.Vantage, error) {
	v, err := m.self()
	if err != nil {
		return v, err
	}
	if m.frontend != "" {
		labels := map[string]string{"frontend": m.frontend}
		for k, text := range v.Labels {
			if k != "frontend" {
				labels[k] = text
			}
		}
		v.Labels = labels
	}
	if err := v.Validate(); err != nil {
		return v, usagef("--vantage or --frontend: %w", err)
	}
	return v, nil
}

// self is this host, or the host of the simulated world that --vantage names.
func (m *measurement) self() (datasets.Vantage, error) {
	if m.world == nil {
		if m.vantage != "" {
			return datasets.Vantage{Name: m.vantage}, nil
		}
		host, err := os.Hostname()
		if err != nil {
			err = fmt.Errorf("name of this host (set --vantage): %w", err)
		}
		return datasets.Vantage{Name: host}, err
	}
	var names []string
	for _, v := range m.world.Vantages() {
		if m.vantage == "" || v.Name == m.vantage {
			return v, nil
		}
		names = append(names, v.Name)
	}
	if m.vantage == "" {
		return datasets.Vantage{}, usagef("--sim %s: the world has no vantage (a host with a frontend label)", m.sim)
	}
	return datasets.Vantage{}, usagef("--vantage %q: no such vantage in %s; there are %s", m.vantage, m.sim, strings.Join(names, " "))
}

// run measures what extent says, or only prints that. It hands over the rows,
// also those of a measurement that was interrupted, and writes them to --output.
func (m *measurement) run(ctx context.Context, label string, p campaign.Plan, extent probe.Plan, render func(campaign.Rows) error) error {
	if m.dryRun {
		return renderExtent(m.app, extent)
	}
	if extent.Targets == 0 {
		return fmt.Errorf("%s: nothing to probe: --exclude %s holds every target", label, m.excludeFile)
	}
	seed, drawn := m.app.drawSeed()
	p.Seed = seed
	w, err := m.create(p)
	if err != nil {
		return err
	}
	if w != nil {
		defer w.Abort()
	}
	if drawn {
		m.app.talk("seed %d", seed)
	}
	if m.world != nil && m.vantage == "" {
		m.app.talk("measuring from %s; --vantage names another", p.Vantages[0].Name)
	}
	bar := newProgress(m.app, label)
	p.Engine.Progress = bar.probes
	var rows campaign.Rows
	err = campaign.Run(ctx, p, m.open(p.Seed), func(r campaign.Rows) error {
		rows = r
		return nil
	})
	bar.end()
	if len(rows.Samples)+len(rows.Catchments) == 0 {
		return interrupted(err, label, "nothing was measured")
	}
	return errors.Join(render(rows), m.save(w, p, rows), interrupted(err, label, "the rows are what was measured until then"))
}

// interrupted says what became of a measurement that the user ended.
func interrupted(err error, label, result string) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s interrupted: %s", label, result)
	}
	return err
}

// open gives a vantage the kernel's sockets, or the simulated Internet.
func (m *measurement) open(seed uint64) func(datasets.Vantage) (probe.Conn, error) {
	return func(v datasets.Vantage) (probe.Conn, error) {
		if m.world != nil {
			return m.world.Virtual(campaign.VantageSeed(seed, v.Name)).Conn(v.Name)
		}
		conn, err := rawsock.Open(rawsock.Options{})
		if err != nil {
			return nil, socketError{err}
		}
		return conn, nil
	}
}
