package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"strandline/datasets"
	"strandline/probe/campaign"
)

// targets resolves the --targets file and the arguments.
func (m *measurement) targets(ctx context.Context, args []string) ([]datasets.Target, error) {
	out, err := m.readTargets()
	if err != nil {
		return nil, err
	}
	for _, arg := range args {
		rows, err := m.resolve(ctx, arg)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	if len(out) == 0 {
		return nil, usagef("no target: name addresses, hosts or REGION=ADDRESS, or a file by --targets")
	}
	kept := slices.DeleteFunc(out, func(t datasets.Target) bool {
		return m.only4 && !t.Addr.Unmap().Is4() || m.only6 && t.Addr.Unmap().Is4()
	})
	if len(kept) == 0 {
		return nil, usagef("no target is left: -4 or -6 excludes all that were named")
	}
	return kept, nil
}

// readTargets reads the --targets file: target rows, or plain lines.
func (m *measurement) readTargets() ([]datasets.Target, error) {
	switch ext := filepath.Ext(m.targetsFile); {
	case m.targetsFile == "":
		return nil, nil
	case m.targetsFile == "-":
		return readLines(m.app.stdin, "standard input")
	case ext == ".csv" || ext == ".jsonl":
		return datasets.ReadFile[datasets.Target](m.targetsFile)
	}
	f, err := os.Open(m.targetsFile)
	if err != nil {
		return nil, fmt.Errorf("--targets: %w", err)
	}
	defer f.Close()
	return readLines(f, m.targetsFile)
}

// readLines reads ADDRESS or REGION=ADDRESS from each line; # begins a comment.
// The error joins a *datasets.Problem for each faulty line.
func readLines(r io.Reader, name string) (out []datasets.Target, err error) {
	var faults []error
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		region, addr := splitRegion(text)
		a, err := netip.ParseAddr(addr)
		if err != nil {
			faults = append(faults, &datasets.Problem{File: name, Line: n, Msg: fmt.Sprintf("%q is not an address", addr), Fix: "write ADDRESS or REGION=ADDRESS"})
			continue
		}
		out = append(out, datasets.Target{Addr: a, Region: region})
	}
	if err := lines.Err(); err != nil {
		faults = append(faults, fmt.Errorf("%s: %w", name, err))
	}
	return out, errors.Join(faults...)
}

// splitRegion cuts REGION=ADDRESS; the region of a bare address is empty.
func splitRegion(text string) (region, addr string) {
	if region, addr, found := strings.Cut(text, "="); found {
		return region, addr
	}
	return "", text
}

// resolve turns one argument into targets: an address, REGION=ADDRESS, the name
// of a region or service of the simulated world, or a host name.
func (m *measurement) resolve(ctx context.Context, arg string) ([]datasets.Target, error) {
	region, name := splitRegion(arg)
	if a, err := netip.ParseAddr(name); err == nil {
		return []datasets.Target{{Addr: a, Region: region}}, nil
	}
	if m.world != nil {
		return m.simTargets(region, name)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, m.family(), name)
	if err != nil {
		return nil, fmt.Errorf("target %q: %w", arg, err)
	}
	return []datasets.Target{{Addr: addrs[0].Unmap(), Name: name, Region: region}}, nil
}

func (m *measurement) family() string {
	switch {
	case m.only4:
		return "ip4"
	case m.only6:
		return "ip6"
	}
	return "ip"
}

// simTargets finds what a name stands for in the simulated world: a region, an
// anycast service, or "regions" for all of them. IPv4 unless -6 is given.
func (m *measurement) simTargets(region, name string) ([]datasets.Target, error) {
	var out []datasets.Target
	known := []string{"regions"}
	for _, t := range append(m.world.Targets(), m.world.AnycastTargets()...) {
		if !slices.Contains(known, t.Name) {
			known = append(known, t.Name)
		}
		if wanted := t.Name == name || name == "regions" && t.Region != ""; !wanted || t.Addr.Is6() != m.only6 {
			continue
		}
		if region != "" {
			t.Region = region
		}
		out = append(out, t)
	}
	if len(out) == 0 {
		return nil, usagef("target %q: neither an address nor a name in %s; there are %s", name, m.sim, strings.Join(known, " "))
	}
	return out, nil
}

// create begins the data set of --output; nil without it.
func (m *measurement) create(p campaign.Plan) (*datasets.Writer, error) {
	if m.out == "" {
		return nil, nil
	}
	source := "kernel"
	if m.world != nil {
		source = "sim:" + m.sim
	}
	return datasets.Create(m.out, datasets.Manifest{
		Source: source, Seed: p.Seed, CommandLine: os.Args, Created: time.Now(), Tool: "strandline " + version,
	})
}

// save completes the data set of --output.
func (m *measurement) save(w *datasets.Writer, p campaign.Plan, r campaign.Rows) error {
	if w == nil {
		return nil
	}
	if err := datasets.Append(w, slices.Concat(p.Ping, p.Trace, p.Paths, p.Catchment)...); err != nil {
		return err
	}
	if err := r.AppendTo(w); err != nil {
		return err // and nothing is left: the caller aborts
	}
	if err := w.Close(); err != nil {
		return err
	}
	m.app.talk("data set written to %s", m.out)
	return nil
}
