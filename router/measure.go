package router

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"strandline/datasets"
)

// RegionsFile is what a world needs beyond what was measured: the regions with
// their service rates, the demand of frontends, and the objective. Its keys are
// those of a world file without the latency matrix.
type RegionsFile struct {
	Frontends []Frontend `yaml:"frontends,omitempty"` // override the rates and places of measured ones
	Regions   []Region   `yaml:"regions"`
	Classes   []Class    `yaml:"classes,omitempty"` // their rates replace those of the frontends
	Objective Objective  `yaml:"objective,omitempty"`
}

// World is WorldFrom with the frontends of rows, those of the file overriding
// them by name and adding to them, and the file's objective (its network part is
// the round trip unless the file says otherwise).
func (f RegionsFile) World(latencies []datasets.Latency, rows []datasets.Frontend) (*World, []string, error) {
	frontends := slices.Clone(rows)
	for _, o := range f.Frontends {
		row := datasets.Frontend{Name: o.Name, Lat: o.Lat, Lon: o.Lon, RateHz: o.RateHz}
		i := slices.IndexFunc(frontends, func(r datasets.Frontend) bool { return r.Name == o.Name })
		if i < 0 {
			frontends = append(frontends, row)
			continue
		}
		if o.Lat == 0 && o.Lon == 0 {
			row.Lat, row.Lon = frontends[i].Lat, frontends[i].Lon
		}
		frontends[i] = row
	}
	w, notes := measured(latencies, frontends, f.Regions)
	if f.Objective.Network == "" {
		f.Objective.Network = KindRTT
	}
	w.Objective, w.Classes = f.Objective, f.Classes
	for i := range w.Frontends {
		if len(f.Classes) > 0 {
			w.Frontends[i].RateHz = 0
		}
	}
	return checked(w, notes)
}

// WorldFrom turns measured latency rows into a routing problem. The latency of a
// pair is the median of the P50 round trips of its rows (every vantage that
// measures for the frontend, every address of the region, every protocol): one
// vantage on a bad line moves it little, and none is chosen for being lucky. A
// row without a frontend counts for the frontend named like its vantage. A pair
// without an estimate is null in the matrix, hence not allowed.
//
// The notes say what was left out. The world counts the network as the round
// trip. The error is that of World.Validate, and the world is then nil.
func WorldFrom(latencies []datasets.Latency, frontends []datasets.Frontend, regions []Region) (*World, []string, error) {
	w, notes := measured(latencies, frontends, regions)
	return checked(w, notes)
}

func checked(w *World, notes []string) (*World, []string, error) {
	if err := w.Validate(); err != nil {
		return nil, notes, errors.Join(errors.New("world from measured rows"), err)
	}
	return w, notes, nil
}

// pair is an arc by name.
type pair struct{ frontend, region string }

func measured(latencies []datasets.Latency, frontends []datasets.Frontend, regions []Region) (*World, []string) {
	w := &World{
		Regions:   regions,
		Latency:   Latency{Unit: UnitMillis, Kind: KindRTT},
		Objective: Objective{Kind: ObjectiveTotal, Network: KindRTT},
	}
	times := make(map[pair][]float64)
	for _, l := range latencies {
		if k := (pair{cmp.Or(l.Frontend, l.Vantage), l.Region}); l.P50MS.Known() {
			times[k] = append(times[k], float64(l.P50MS))
		}
	}
	var notes []string
	for _, f := range frontends {
		w.Frontends = append(w.Frontends, Frontend{Name: f.Name, RateHz: f.RateHz, Lat: f.Lat, Lon: f.Lon})
		row := make([]*float64, len(regions))
		for j, r := range regions {
			if k := (pair{f.Name, r.Name}); len(times[k]) > 0 {
				ms := median(times[k])
				row[j] = &ms
			} else {
				notes = append(notes, fmt.Sprintf("no round trip from frontend %s to region %s: not allowed", f.Name, r.Name))
			}
			delete(times, pair{f.Name, r.Name})
		}
		w.Latency.Matrix = append(w.Latency.Matrix, row)
	}
	return w, append(notes, unused(times)...)
}

// unused notes the rows that belong to no pair, in order.
func unused(times map[pair][]float64) []string {
	var notes []string
	for k, ms := range times {
		notes = append(notes, fmt.Sprintf("%d latency rows of frontend %q and region %q left out: not both are in the world", len(ms), k.frontend, k.region))
	}
	slices.Sort(notes)
	return notes
}

func median(v []float64) float64 {
	slices.Sort(v)
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}
