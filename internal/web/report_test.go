package web_test

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"strandline/datasets"
	"strandline/internal/web"
)

func example() web.Report {
	far := datasets.Latency{Vantage: "nbo", Region: "tok", Target: netip.MustParseAddr("198.18.9.1"), Sent: 20, Received: 19,
		MinMS: 250, P50MS: 251.5, P50LoMS: 251, P50HiMS: 252, P99MS: 260, MeanMS: 252, JitterMS: 1, Confidence: 99.9}
	silent := far
	silent.Region, silent.Received, silent.P50MS = "dal", 0, datasets.NoEstimate()
	return web.Report{
		Title:       `A <script>alert("x")</script> title`,
		Lead:        "one line",
		Checks:      []web.Check{{Name: "intervals", Text: "520 of 520", OK: true}, {Name: "catchments", Text: "39 of 40"}},
		Latencies:   []datasets.Latency{far, silent},
		Catchments:  []datasets.Catchment{{Vantage: "nbo", Target: netip.MustParseAddr("192.0.2.1"), Site: "mum"}, {Vantage: "fra", Target: netip.MustParseAddr("192.0.2.1")}},
		Allocations: []datasets.Allocation{{Frontend: "nbo", Region: "tok", Share: 0.25, RateHz: 3}, {Frontend: "nbo", Region: "dal", Share: 0}},
		Regions:     []web.RegionLoad{{Name: "tok", RateHz: 12.5, Utilisation: 0.8, PriceS: 1.5}},
		Facts:       []web.Fact{{Name: "data set", Text: "demo-out/dataset"}},
	}
}

func TestReportShowsItsRows(t *testing.T) {
	var b bytes.Buffer
	if err := web.WriteReport(&b, example()); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{
		">252<", "in [251.000, 252.000] ms", "19 of 20 answered", // latency cell and its title
		"20 sent, none answered", // loss is shown, not hidden
		">25<",                   // share in percent
		"12.5", "80 %", "1.500",  // region load
		"(no answer)", "mum",
		"✓ holds", "✗ fails", "demo-out/dataset",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("page lacks %q", want)
		}
	}
}

// TestReportIsSelfContained: nothing is loaded from elsewhere, nothing a row
// says becomes markup, and equal rows give equal bytes.
func TestReportIsSelfContained(t *testing.T) {
	var a, b bytes.Buffer
	if err := web.WriteReport(&a, example()); err != nil {
		t.Fatal(err)
	}
	if err := web.WriteReport(&b, example()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("the same rows gave two pages")
	}
	for _, bad := range []string{"<script", "src=", "http:", "https:", "@import", "url("} {
		if strings.Contains(a.String(), bad) {
			t.Errorf("page contains %q", bad)
		}
	}
}
