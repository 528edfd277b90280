package demo

import (
	"fmt"
	"os"

	"strandline/datasets"
	"strandline/internal/web"
	"strandline/router"
)

// writeReport draws the page of everything that was measured and decided.
func (d *demo) writeReport() error {
	f, err := os.Create(d.path("report.html"))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := web.WriteReport(f, d.report()); err != nil {
		return err
	}
	return f.Close()
}

func (d *demo) report() web.Report {
	r := web.Report{
		Title:       "strandline demo: the world \"earth\"",
		Lead:        fmt.Sprintf("%d cities measured %d cloud regions of a simulated Internet built on published round trips; the allocation below follows from these measurements alone.", len(d.plan.Vantages), len(d.net.Regions())),
		Checks:      d.score.checks(),
		Allocations: router.Rows(d.allocation, 1),
		Facts: []web.Fact{
			{Name: "data set", Text: d.path("dataset")},
			{Name: "routing problem", Text: d.path("world.yaml")},
			{Name: "configuration", Text: d.path("strandline.yaml")},
			{Name: "seed", Text: fmt.Sprint(d.Seed)},
			{Name: "mean latency", Text: fmt.Sprintf("%.4f s, optimal within %.1g", d.allocation.MeanLatencyS, d.allocation.Gap)},
		},
	}
	for _, rows := range d.rows {
		r.Latencies = append(r.Latencies, rows.Latencies...)
		r.Catchments = append(r.Catchments, rows.Catchments...)
	}
	for _, p := range d.allocation.Regions {
		r.Regions = append(r.Regions, web.RegionLoad{Name: p.Name, RateHz: p.RateHz, Utilisation: p.Utilisation, PriceS: p.PriceS})
	}
	return r
}

// nearestLatency is the mean latency if every frontend used its nearest region
// alone. The error names the first region that this would overload.
func nearestLatency(w *router.World) (float64, error) {
	rates := make([]float64, len(w.Regions))
	var cost float64
	for i, f := range w.Frontends {
		best, at := 0.0, -1
		for j := range w.Regions {
			if s, ok := w.NetworkS(i, j); ok && (at < 0 || s < best) {
				best, at = s, j
			}
		}
		rates[at] += f.RateHz
		cost += f.RateHz * best
	}
	for j, r := range w.Regions {
		if rates[j] >= r.Service.CapacityHz() {
			return 0, &datasets.Problem{Key: r.Name, Msg: fmt.Sprintf("%.0f requests/s of %.0f", rates[j], r.Service.CapacityHz())}
		}
		cost += r.Service.Workload(rates[j])
	}
	return cost / w.DemandHz(), nil
}
