package demo

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"strandline/datasets"
	"strandline/internal/simnet"
	"strandline/internal/web"
	"strandline/probe"
	"strandline/probe/campaign"
	"strandline/probe/wire"
)

// ErrScore says that a measurement did not hold against the truth.
var ErrScore = errors.New("the measurement does not hold against the truth of the simulated world")

// coverage is the share of intervals that must cover the truth.
const coverage = 0.99

// newPlan is the demo's campaign: a ping mesh of all cities and regions, traces
// to a handful of regions, and the catchment of the anycast service.
func newPlan(n *simnet.Net, seed uint64) campaign.Plan {
	v4 := func(targets []datasets.Target) []datasets.Target {
		return slices.DeleteFunc(targets, func(t datasets.Target) bool { return !t.Addr.Is4() })
	}
	regions := v4(n.Targets())
	return campaign.Plan{
		Vantages:    n.Vantages(),
		Seed:        seed,
		Ping:        regions,
		Trace:       regions[:min(6, len(regions))],
		Catchment:   v4(n.AnycastTargets()),
		PingOptions: probe.PingOptions{Count: 20, Interval: 100 * time.Millisecond},
		Engine:      probe.Engine{RateHz: 1000, PrefixRateHz: 100},
	}
}

// openSim gives every vantage a simulated Internet of its own, with chance from
// the seed and its name.
func openSim(n *simnet.Net, seed uint64) func(datasets.Vantage) (probe.Conn, error) {
	return func(v datasets.Vantage) (probe.Conn, error) {
		return n.Virtual(campaign.VantageSeed(seed, v.Name)).Conn(v.Name)
	}
}

// score compares rows with the truth.
type score struct {
	intervals, covered  int
	catchments, right   int
	links, falseLinks   int
	maxErrorMS          float64 // largest |median - truth|
	lossy, jittered     int     // pairs among the intervals
	lossyOK, jitteredOK int
}

// scoreRows asks the simulator for the truth of every row. The error says that
// the truth could not be told, which is a fault of ours.
func scoreRows(n *simnet.Net, rows []campaign.Rows) (score, error) {
	var s score
	for _, r := range rows {
		flows := map[netip.Addr]datasets.Sample{} // of the pings, which come first
		for _, x := range r.Samples {
			if _, ok := flows[x.Target]; !ok {
				flows[x.Target] = x
			}
		}
		for _, l := range r.Latencies {
			if err := s.latency(n, l, flows[l.Target]); err != nil {
				return s, err
			}
		}
		if err := s.paths(n, r); err != nil {
			return s, err
		}
		for _, c := range r.Catchments {
			sites, err := n.Catchment(c.Vantage, c.Target)
			if err != nil {
				return s, err
			}
			s.catchments++
			if slices.Contains(sites, c.Site) {
				s.right++
			}
		}
	}
	return s, nil
}

// latency checks that the interval of the median covers the true median of the
// path that this flow took.
func (s *score) latency(n *simnet.Net, l datasets.Latency, flow datasets.Sample) error {
	packet, err := wire.AppendEcho(nil, wire.IP{Src: flow.Src, Dst: flow.Target, TTL: 64, TOS: flow.TOS, FlowLabel: flow.FlowLabel},
		wire.Echo{ID: flow.ICMPID, Checksum: flow.ICMPSum, Payload: make([]byte, 16)})
	if err != nil {
		return fmt.Errorf("truth of %s to %s: %w", l.Vantage, l.Target, err)
	}
	walk, err := n.Truth(l.Vantage, packet)
	if err != nil {
		return fmt.Errorf("truth of %s to %s: %w", l.Vantage, l.Target, err)
	}
	truth := datasets.Millis(float64(walk.Median) / 1e6)
	ok := l.P50LoMS.Known() && l.P50LoMS <= truth && truth <= l.P50HiMS
	s.count(walk, ok)
	if l.P50MS.Known() {
		s.maxErrorMS = max(s.maxErrorMS, float64(max(l.P50MS-truth, truth-l.P50MS)))
	}
	return nil
}

func (s *score) count(walk simnet.Walk, ok bool) {
	one := func(when bool, n *int) {
		if when {
			*n++
		}
	}
	s.intervals++
	one(ok, &s.covered)
	one(walk.Delivery < 1, &s.lossy)
	one(walk.Delivery < 1 && ok, &s.lossyOK)
	one(walk.Max > walk.Min, &s.jittered)
	one(walk.Max > walk.Min && ok, &s.jitteredOK)
}

// paths checks that every measured link exists.
func (s *score) paths(n *simnet.Net, r campaign.Rows) error {
	type link struct {
		from, to netip.Addr
		ttl      uint8
	}
	truth := map[netip.Addr]map[link]bool{}
	for _, l := range r.Links {
		if truth[l.Target] == nil {
			links, err := n.Links(l.Vantage, l.Target)
			if err != nil {
				return err
			}
			truth[l.Target] = map[link]bool{}
			for _, t := range links {
				truth[l.Target][link{t.From, t.To, t.TTL}] = true
			}
		}
		s.links++
		if !truth[l.Target][link{l.From, l.To, l.TTL}] {
			s.falseLinks++
		}
	}
	return nil
}

// checks is the score in words.
func (s score) checks() []web.Check {
	return []web.Check{
		{Name: "round trips", OK: s.roundTripsHold(), Text: fmt.Sprintf(
			"%d of %d intervals cover the true median (jittered pairs %d of %d, lossy pairs %d of %d); largest error of a median %.2f ms",
			s.covered, s.intervals, s.jitteredOK, s.jittered, s.lossyOK, s.lossy, s.maxErrorMS)},
		{Name: "paths", OK: s.falseLinks == 0, Text: fmt.Sprintf("%d links, %d false", s.links, s.falseLinks)},
		{Name: "catchments", OK: s.right == s.catchments, Text: fmt.Sprintf("%d of %d right", s.right, s.catchments)},
	}
}

func (s score) roundTripsHold() bool {
	return s.intervals > 0 && float64(s.covered) >= coverage*float64(s.intervals)
}

func (s score) err() error {
	for _, c := range s.checks() {
		if !c.OK {
			return fmt.Errorf("%s: %s: %w", c.Name, c.Text, ErrScore)
		}
	}
	return nil
}
