package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"strandline/router"
	"strandline/router/sim"
)

// parseOutage reads REGION=FROM..TO.
func parseOutage(w *router.World, text string) (sim.Outage, error) {
	var out sim.Outage
	name, window, _ := strings.Cut(text, "=")
	from, to, found := strings.Cut(window, "..")
	out.Region = slices.IndexFunc(w.Regions, func(r router.Region) bool { return r.Name == name })
	var errFrom, errTo error
	out.FromS, errFrom = strconv.ParseFloat(from, 64)
	out.ToS, errTo = strconv.ParseFloat(to, 64)
	switch {
	case !found || errFrom != nil || errTo != nil || !(out.FromS >= 0) || !(out.ToS > out.FromS):
		return out, usagef("--outage %q: write REGION=FROM..TO in seconds, such as mum=300..900", text)
	case out.Region < 0:
		return out, usagef("--outage %q: the world has no region %s", text, name)
	}
	return out, nil
}

// runComparison runs all cells. When the user ends it, the policies of which all
// seeds are done are compared.
func runComparison(a *app, k sim.Comparison, seed uint64, seeds int) ([]sim.Row, error) {
	for i := range seeds {
		k.Seeds = append(k.Seeds, seed+uint64(i))
	}
	bar := newProgress(a, "comparing")
	defer bar.end()
	all, done := k.All(), 0
	results := map[string][]*sim.Result{}
	for _, policy := range all {
		for _, s := range k.Seeds {
			r, err := k.Run(policy, s)
			if errors.Is(err, sim.ErrStopped) {
				return completeRows(a, k, results, err)
			}
			if err != nil {
				return nil, err
			}
			results[policy] = append(results[policy], r)
			done++
			bar.step(done, len(all)*seeds, policy)
		}
	}
	return k.Rows(results)
}

// completeRows compares the policies that were complete when the user ended it.
func completeRows(a *app, k sim.Comparison, results map[string][]*sim.Result, err error) ([]sim.Row, error) {
	complete := func(policy string) bool { return len(results[policy]) == len(k.Seeds) }
	if !complete(sim.Clairvoyant) {
		return nil, fmt.Errorf("interrupted before the first policy was complete: %w", err)
	}
	k.Policies = slices.DeleteFunc(slices.Clone(k.Policies), func(p string) bool { return !complete(p) })
	a.talk("interrupted: %d policies were complete", len(k.Policies))
	return k.Rows(results)
}

func renderComparison(a *app, rows []sim.Row) error {
	switch a.format {
	case "json":
		for _, r := range rows {
			if err := renderOne(a.stdout, r); err != nil {
				return err
			}
		}
		return nil
	case "csv":
		var cells [][]any
		for _, r := range rows {
			cells = append(cells, []any{r.Policy, r.Sees.String(), r.MeanLatencyS, r.P50S, r.P99S, r.MeanTTFTS, r.Excess, r.ExcessHalfWidth, r.ThroughputHz, r.ShedHz, r.FailedHz, r.Moves, r.Oscillation})
		}
		return renderCSV(a.stdout, "policy,sees,mean_latency_s,p50_s,p99_s,mean_ttft_s,excess,excess_half_width,throughput,shed,failed,moves,oscillation", cells...)
	}
	number := func(head, format string, v func(sim.Row) float64) column[sim.Row] {
		return column[sim.Row]{">" + head, func(r sim.Row) string {
			if math.IsNaN(v(r)) {
				return "-"
			}
			return fmt.Sprintf(format, v(r))
		}}
	}
	return table(a.stdout, rows, []column[sim.Row]{
		{"policy", func(r sim.Row) string { return r.Policy }},
		number("mean s", "%.4f", func(r sim.Row) float64 { return r.MeanLatencyS }),
		number("p50 s", "%.4f", func(r sim.Row) float64 { return r.P50S }),
		number("p99 s", "%.4f", func(r sim.Row) float64 { return r.P99S }),
		number("ttft s", "%.4f", func(r sim.Row) float64 { return r.MeanTTFTS }),
		{">excess", excessText},
		number("served/s", "%.2f", func(r sim.Row) float64 { return r.ThroughputHz }),
		number("shed/s", "%.2f", func(r sim.Row) float64 { return r.ShedHz }),
		number("failed/s", "%.3f", func(r sim.Row) float64 { return r.FailedHz }),
		number("moves", "%.3f", func(r sim.Row) float64 { return r.Moves }),
		number("oscillation", "%.2f", func(r sim.Row) float64 { return r.Oscillation }),
		{"sees", func(r sim.Row) string { return r.Sees.String() }},
	})
}

// excessText is the excess with its interval, where there is one.
func excessText(r sim.Row) string {
	text := fmt.Sprintf("%.2f%%", 100*r.Excess)
	if !math.IsNaN(r.ExcessHalfWidth) {
		text += fmt.Sprintf(" ± %.2f", 100*r.ExcessHalfWidth)
	}
	return text
}
