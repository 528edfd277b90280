package web

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"strandline/datasets"
)

// Report is what the report page shows. Empty parts are left out of the page.
type Report struct {
	Title       string
	Lead        string // one sentence under the title
	Checks      []Check
	Latencies   []datasets.Latency
	Catchments  []datasets.Catchment
	Allocations []datasets.Allocation
	Regions     []RegionLoad
	Facts       []Fact // file names, seeds, figures
}

// Check compares a measured figure with the truth or with a promise.
type Check struct {
	Name string
	Text string
	OK   bool
}

// RegionLoad is one region of a plan: its requests per second, its utilisation
// in [0, 1] and its price in seconds.
type RegionLoad struct {
	Name        string
	RateHz      float64
	Utilisation float64
	PriceS      float64
}

// Fact is a name and what it stands for.
type Fact struct{ Name, Text string }

//go:embed report.html
var reportHTML string

// WriteReport writes the page. It fails only when w does.
func WriteReport(w io.Writer, r Report) error {
	t, err := template.New("report").Parse(reportHTML)
	if err != nil {
		return fmt.Errorf("report template: %w", err)
	}
	return t.Execute(w, map[string]any{
		"Report":  r,
		"Latency": latencyGrid(r.Latencies),
		"Shares":  shareGrid(r.Allocations),
		"Sites":   siteCounts(r.Catchments),
		"Scale":   scale(),
	})
}

// grid is a coloured table.
type grid struct {
	Columns []string
	Rows    []gridRow
}

type gridRow struct {
	Name  string
	Cells []gridCell
}

type gridCell struct {
	Text, Title  string
	Fill, Colour template.CSS
}

// latencyGrid is the matrix of median round trips, one row per vantage and one
// column per region (or target, where a row names no region).
func latencyGrid(rows []datasets.Latency) grid {
	column := func(l datasets.Latency) string { return cmp.Or(l.Region, l.Target.String()) }
	cells := map[[2]string]gridCell{}
	for _, l := range rows {
		cells[[2]string{l.Vantage, column(l)}] = latencyCell(l)
	}
	return newGrid(cells)
}

func latencyCell(l datasets.Latency) gridCell {
	if !l.P50MS.Known() {
		return gridCell{Text: "–", Title: fmt.Sprintf("%d sent, none answered", l.Sent)}
	}
	c := gridCell{Text: shortMS(float64(l.P50MS)), Title: fmt.Sprintf(
		"median %.3f ms; with %.4g %% confidence in [%.3f, %.3f] ms; minimum %.3f ms; %d of %d answered",
		float64(l.P50MS), l.Confidence, float64(l.P50LoMS), float64(l.P50HiMS), float64(l.MinMS), l.Received, l.Sent)}
	c.Fill, c.Colour = shade(latencyLevel(float64(l.P50MS)))
	return c
}

// latencyLevel places a round trip on the colour scale: logarithmic from 3 ms
// to 300 ms, since a millisecond matters near and not far.
func latencyLevel(ms float64) float64 {
	return min(1, max(0, math.Log(max(ms, 1)/3)/math.Log(100)))
}

// shareGrid is the matrix of allocation shares in percent.
func shareGrid(rows []datasets.Allocation) grid {
	cells := map[[2]string]gridCell{}
	for _, a := range rows {
		c := gridCell{Title: fmt.Sprintf("%s to %s: %.2f %% of %.3g requests/s", a.Frontend, a.Region, 100*a.Share, a.RateHz)}
		if a.Share >= 0.0005 {
			c.Text = fmt.Sprintf("%.3g", 100*a.Share)
			c.Fill, c.Colour = shade(a.Share)
		}
		cells[[2]string{a.Frontend, a.Region}] = c
	}
	return newGrid(cells)
}

func newGrid(cells map[[2]string]gridCell) grid {
	rowSet, columnSet := map[string]bool{}, map[string]bool{}
	for k := range cells {
		rowSet[k[0]], columnSet[k[1]] = true, true
	}
	g := grid{Columns: slices.Sorted(maps.Keys(columnSet))}
	for _, name := range slices.Sorted(maps.Keys(rowSet)) {
		r := gridRow{Name: name}
		for _, column := range g.Columns {
			r.Cells = append(r.Cells, cells[[2]string{name, column}])
		}
		g.Rows = append(g.Rows, r)
	}
	return g
}

// shade returns fill and text colour for a level in [0, 1] on a one-hue scale
// from near white to deep blue.
func shade(level float64) (fill, text template.CSS) {
	from, to := [3]float64{239, 246, 252}, [3]float64{8, 64, 129}
	var c [3]int
	for i := range c {
		c[i] = int(math.Round(from[i] + (to[i]-from[i])*level))
	}
	text = "#10222f"
	if level > 0.5 {
		text = "#ffffff"
	}
	return template.CSS(fmt.Sprintf("rgb(%d,%d,%d)", c[0], c[1], c[2])), text
}

// scale is the legend of the latency matrix.
func scale() []gridCell {
	var out []gridCell
	for _, ms := range []float64{3, 10, 30, 100, 300} {
		c := gridCell{Text: fmt.Sprintf("%.0f ms", ms)}
		c.Fill, c.Colour = shade(latencyLevel(ms))
		out = append(out, c)
	}
	return out
}

// siteCount is one site of an anycast service and who lands there.
type siteCount struct {
	Target, Site string
	Count        int
	Vantages     string
	Percent      float64
}

func siteCounts(rows []datasets.Catchment) []siteCount {
	who := map[[2]string][]string{}
	total := map[string]int{}
	for _, c := range rows {
		k := [2]string{c.Target.String(), cmp.Or(c.Site, "(no answer)")}
		who[k] = append(who[k], c.Vantage)
		total[k[0]]++
	}
	var out []siteCount
	for k, names := range who {
		slices.Sort(names)
		out = append(out, siteCount{k[0], k[1], len(names), strings.Join(names, " "), 100 * float64(len(names)) / float64(total[k[0]])})
	}
	slices.SortFunc(out, func(a, b siteCount) int {
		return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Site, b.Site))
	})
	return out
}

// Percent is the utilisation in percent.
func (r RegionLoad) Percent() float64 { return 100 * r.Utilisation }

// shortMS writes a time with the digits that fit a cell.
func shortMS(ms float64) string {
	if ms < 9.95 {
		return fmt.Sprintf("%.1f", ms)
	}
	return fmt.Sprintf("%.0f", ms)
}
