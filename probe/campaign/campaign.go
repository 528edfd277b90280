// Package campaign runs a plan of measurements from many vantages and returns
// the rows. A plan is data: which vantages, which targets, how. One vantage is
// one unit of work; its randomness comes from the plan's seed and its own name,
// so rows do not depend on which vantages ran before, beside or at all.
//
// It opens no network itself: the caller says how a vantage gets its Conn.
package campaign

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"strandline/analysis"
	"strandline/datasets"
	"strandline/probe"
)

// Plan is what to measure from where. An empty list of targets leaves that
// measurement out.
type Plan struct {
	Vantages []datasets.Vantage
	Seed     uint64

	Ping      []datasets.Target
	Trace     []datasets.Target
	Paths     []datasets.Target
	Catchment []datasets.Target

	PingOptions      probe.PingOptions
	TraceOptions     probe.TraceOptions
	PathsOptions     probe.PathsOptions
	CatchmentOptions probe.CatchmentOptions

	// Confidence, in percent, that each interval of a median covers it; 0 takes
	// analysis.DefaultConfidence.
	Confidence float64

	// Engine holds the limits, exclusions and identity for every vantage. Its
	// Conn, Vantage and Rand are filled in per vantage.
	Engine probe.Engine
}

// Rows is what one vantage measured.
type Rows struct {
	Vantage    datasets.Vantage
	Samples    []datasets.Sample // pings first, then traces, then paths
	Latencies  []datasets.Latency
	Hops       []datasets.Hop
	Links      []datasets.Link
	Balancers  []datasets.Balancer
	Graphs     []analysis.Graph // of the paths; their rows are in Hops, Links and Balancers too
	Catchments []datasets.Catchment
	Stats      probe.Stats
}

// Run measures from each vantage in the order of the plan. It calls emit once
// per vantage, also for one that was cut short: with what it has got. The error
// is that of open, of the engine (ctx ending included) or of emit, and names
// the vantage.
func Run(ctx context.Context, p Plan, open func(datasets.Vantage) (probe.Conn, error), emit func(Rows) error) error {
	for _, v := range p.Vantages {
		rows, err := p.measure(ctx, v, open)
		if emitErr := emit(rows); err == nil {
			err = emitErr
		}
		if err != nil {
			return fmt.Errorf("vantage %s: %w", v.Name, err)
		}
	}
	return nil
}

// measure runs all of the plan's measurements from one vantage.
func (p *Plan) measure(ctx context.Context, v datasets.Vantage, open func(datasets.Vantage) (probe.Conn, error)) (Rows, error) {
	rows := Rows{Vantage: v}
	conn, err := open(v)
	if err != nil {
		return rows, err
	}
	defer conn.Close()
	e := p.Engine
	e.Conn, e.Vantage, e.Rand = conn, v.Name, rand.New(rand.NewPCG(p.Seed, VantageSeed(p.Seed, v.Name)))
	err = p.probe(ctx, &e, &rows)
	rows.Stats = e.Stats()
	return rows, err
}

func (p *Plan) probe(ctx context.Context, e *probe.Engine, rows *Rows) error {
	keep := func(s datasets.Sample) error {
		rows.Samples = append(rows.Samples, s)
		return nil
	}
	if len(p.Ping) > 0 {
		err := e.Ping(ctx, p.Ping, p.PingOptions, keep)
		rows.Latencies = p.latencies(rows.Vantage, rows.Samples)
		if err != nil {
			return err
		}
	}
	if len(p.Trace) > 0 {
		pings := len(rows.Samples)
		err := e.Trace(ctx, p.Trace, p.TraceOptions, keep)
		rows.Hops = analysis.Hops(rows.Samples[pings:])
		rows.Links = analysis.Links(rows.Samples[pings:])
		if err != nil {
			return err
		}
	}
	if len(p.Paths) > 0 {
		err := e.Paths(ctx, p.Paths, p.PathsOptions, keep, func(g analysis.Graph) error {
			rows.Graphs = append(rows.Graphs, g)
			rows.Hops, rows.Links = append(rows.Hops, g.Hops...), append(rows.Links, g.Links...)
			rows.Balancers = append(rows.Balancers, g.Balancers...)
			return nil
		})
		rows.Balancers = append(rows.Balancers, analysis.PerDestination(rows.Graphs)...)
		if err != nil {
			return err
		}
	}
	if len(p.Catchment) > 0 {
		return e.Catchment(ctx, p.Catchment, p.CatchmentOptions, func(c datasets.Catchment) error {
			rows.Catchments = append(rows.Catchments, c)
			return nil
		})
	}
	return nil
}

// VantageSeed is the seed of one vantage's randomness: a hash of the plan's seed
// and the vantage's name.
func VantageSeed(seed uint64, name string) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d/%s", seed, name)
	return h.Sum64()
}

// AppendTo writes the rows to a data set.
func (r Rows) AppendTo(w *datasets.Writer) error {
	for _, write := range []func() error{
		func() error { return datasets.Append(w, r.Vantage) },
		func() error { return datasets.Append(w, r.Samples...) },
		func() error { return datasets.Append(w, r.Latencies...) },
		func() error { return datasets.Append(w, r.Hops...) },
		func() error { return datasets.Append(w, r.Links...) },
		func() error { return datasets.Append(w, r.Balancers...) },
		func() error { return datasets.Append(w, r.Catchments...) },
	} {
		if err := write(); err != nil {
			return err
		}
	}
	return nil
}

// latencies sums the pings up, with the frontend of the vantage and the region
// of each target.
func (p *Plan) latencies(v datasets.Vantage, pings []datasets.Sample) []datasets.Latency {
	confidence := p.Confidence
	if confidence == 0 {
		confidence = analysis.DefaultConfidence
	}
	return analysis.Latencies(slices.Values(pings), analysis.FrontendsOf([]datasets.Vantage{v}), analysis.RegionsOf(p.Ping), confidence)
}
