package main

import (
	"fmt"
	"slices"
	"strings"

	"strandline/router"
)

// frontendColumns print one frontend a line: its largest shares first.
func frontendColumns(p *router.Plan) []column[router.FrontendPlan] {
	return []column[router.FrontendPlan]{
		{"frontend", func(f router.FrontendPlan) string { return f.Name }},
		{">rate/s", func(f router.FrontendPlan) string { return fmt.Sprintf("%.3f", f.RateHz) }},
		{">shed/s", func(f router.FrontendPlan) string { return fmt.Sprintf("%.3f", f.ShedHz) }},
		{">eta max", func(f router.FrontendPlan) string { return fmt.Sprintf("%.4g", f.EtaMax) }},
		{"shares", func(f router.FrontendPlan) string { return shareText(p, f) }},
	}
}

// shareText lists the regions of a frontend by falling share.
func shareText(p *router.Plan, f router.FrontendPlan) string {
	order := make([]int, 0, len(f.Shares))
	for j, share := range f.Shares {
		if share > 0 {
			order = append(order, j)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case f.Shares[a] > f.Shares[b]:
			return -1
		case f.Shares[a] < f.Shares[b]:
			return 1
		}
		return 0
	})
	var parts []string
	for _, j := range order {
		parts = append(parts, fmt.Sprintf("%s %.1f%%", p.Regions[j].Name, 100*f.Shares[j]))
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
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
