package proxy

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// Stats counts what a Proxy has done since New. The gauges are HasTable, Epoch
// and InFlight.
type Stats struct {
	HasTable bool          `json:"has_table"` // whether Epoch means anything
	Epoch    uint64        `json:"epoch"`
	InFlight int64         `json:"in_flight"`
	Refused  uint64        `json:"refused"` // answered without asking a region
	Regions  []RegionStats `json:"regions"` // by name
}

// RegionStats counts what a Proxy did with one region.
type RegionStats struct {
	Region    string `json:"region"`
	InFlight  int64  `json:"in_flight"` // gauge
	Requests  uint64 `json:"requests"`  // decided for the region, re-routed ones included
	Failed    uint64 `json:"failed"`    // no response
	Rerouted  uint64 `json:"rerouted"`  // of those, sent to another region
	Broken    uint64 `json:"broken"`    // the response broke off
	Cancelled uint64 `json:"cancelled"` // the client left before the end
}

type counters struct {
	inFlight                                      atomic.Int64
	requests, failed, rerouted, broken, cancelled atomic.Uint64
}

// Stats reads the counters, each by itself: they are not of one instant.
func (p *Proxy) Stats() Stats {
	s := Stats{InFlight: p.inFlight.Load(), Refused: p.refused.Load()}
	if current := p.current.Load(); current != nil {
		s.HasTable, s.Epoch = true, current.table.Epoch()
	}
	for _, b := range p.backends {
		s.Regions = append(s.Regions, RegionStats{
			Region:    b.region,
			InFlight:  b.inFlight.Load(),
			Requests:  b.requests.Load(),
			Failed:    b.failed.Load(),
			Rerouted:  b.rerouted.Load(),
			Broken:    b.broken.Load(),
			Cancelled: b.cancelled.Load(),
		})
	}
	slices.SortFunc(s.Regions, func(a, b RegionStats) int { return cmp.Compare(a.Region, b.Region) })
	return s
}
