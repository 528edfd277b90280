package router_test

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"strandline/datasets"
	"strandline/router"
)

func latencyRow(vantage, frontend, region string, ms float64) datasets.Latency {
	return datasets.Latency{Vantage: vantage, Frontend: frontend, Region: region, P50MS: datasets.Millis(ms), Sent: 10, Received: 10}
}

func regions(names ...string) []router.Region {
	var out []router.Region
	for _, n := range names {
		out = append(out, router.Region{Name: n, Service: router.Service{Kind: router.KindHyperbolic, Mu: 10, Kappa: 10}})
	}
	return out
}

func TestWorldFrom(t *testing.T) {
	rows := []datasets.Latency{
		latencyRow("v1", "fra", "a", 10), latencyRow("v2", "fra", "a", 14), latencyRow("v3", "fra", "a", 500), // the median
		latencyRow("v1", "fra", "b", 30), latencyRow("v2", "fra", "b", 40), // between the two
		latencyRow("nyc", "", "b", 80),                                  // a vantage named like its frontend
		latencyRow("v9", "nyc", "a", math.NaN()),                        // nothing received
		latencyRow("v9", "sin", "a", 1), latencyRow("v9", "fra", "", 1), // not in the world
	}
	frontends := []datasets.Frontend{{Name: "fra", RateHz: 5, Lat: 50, Lon: 8}, {Name: "nyc", RateHz: 2}}
	w, notes, err := router.WorldFrom(rows, frontends, regions("a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	want := [][]float64{{14, 35}, {forbidden, 80}}
	for i, row := range w.Latency.Matrix {
		for j, got := range row {
			if got == nil && want[i][j] != forbidden || got != nil && *got != want[i][j] {
				t.Errorf("latency %d %d: got %v, want %v", i, j, got, want[i][j])
			}
		}
	}
	if w.Latency.Unit != "ms" || w.Latency.Kind != "rtt" || w.Objective.Network != "rtt" || w.Objective.Kind != "total" {
		t.Errorf("got latency %s %s, objective %+v", w.Latency.Unit, w.Latency.Kind, w.Objective)
	}
	if got, _ := w.NetworkS(0, 0); got != 0.014 {
		t.Errorf("network cost: got %v, want the round trip 0.014 s", got)
	}
	if f := w.Frontends[0]; f.RateHz != 5 || f.Lat != 50 || f.Lon != 8 {
		t.Errorf("frontend: got %+v", f)
	}
	text := strings.Join(notes, "\n")
	for _, part := range []string{"no round trip from frontend nyc to region a", `1 latency rows of frontend "sin" and region "a"`, `1 latency rows of frontend "fra" and region ""`} {
		if !strings.Contains(text, part) {
			t.Errorf("notes lack %q:\n%s", part, text)
		}
	}
	if len(notes) != 3 {
		t.Errorf("got %d notes, want 3:\n%s", len(notes), text)
	}
}

func TestWorldFromReportsFaults(t *testing.T) {
	frontends := []datasets.Frontend{{Name: "fra", RateHz: 5}, {Name: "nyc", RateHz: -2}}
	w, notes, err := router.WorldFrom([]datasets.Latency{latencyRow("v", "fra", "a", 10)}, frontends, regions("a"))
	if w != nil || len(notes) != 1 {
		t.Errorf("got world %v, notes %q", w, notes)
	}
	for _, part := range []string{"frontends[1].rate", "latency.matrix[1]: frontend nyc has no allowed region"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error lacks %q: %v", part, err)
		}
	}
}

func TestRegionsFileOverridesMeasuredFrontends(t *testing.T) {
	f := router.RegionsFile{
		Regions:   regions("a"),
		Frontends: []router.Frontend{{Name: "nyc", RateHz: 3}, {Name: "lon", RateHz: 1, Lat: 51, Lon: -0.1}},
		Objective: router.Objective{Shed: &router.Shed{PriceS: 9}},
	}
	rows := []datasets.Latency{latencyRow("v", "nyc", "a", 20), latencyRow("v", "lon", "a", 7)}
	w, notes, err := f.World(rows, []datasets.Frontend{{Name: "nyc", RateHz: 1, Lat: 40, Lon: -74}})
	if err != nil || len(notes) != 0 {
		t.Fatalf("error %v, notes %q", err, notes)
	}
	want := []router.Frontend{{Name: "nyc", RateHz: 3, Lat: 40, Lon: -74}, {Name: "lon", RateHz: 1, Lat: 51, Lon: -0.1}}
	if !reflect.DeepEqual(w.Frontends, want) {
		t.Errorf("frontends: got %+v, want %+v", w.Frontends, want)
	}
	if w.Objective.Network != "rtt" || w.Objective.Shed.PriceS != 9 {
		t.Errorf("objective: got %+v", w.Objective)
	}
}
