package router

import (
	"fmt"
	"math"
	"slices"
)

// overloadUtilisation caps the utilisation at which an overloaded region is
// priced, since at capacity the price is infinite.
const overloadUtilisation = 0.99

// Replan solves w without the named regions, whose shares become 0. A frontend
// that has no region left is planned with no shares and all its requests shed.
// Where what is left cannot serve the demand and nothing may be shed, it returns
// a plan with Overloaded set instead of an error: each frontend's shares are in
// proportion to the capacity that it may still use, and cost, mean latency and
// gap are not finite. The error is that of World.Validate for w itself, or names
// an unknown region.
func Replan(w *World, down []string) (*Plan, error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	rest, err := w.without(down)
	if err != nil {
		return nil, err
	}
	q := newProblem(rest)
	q.strand()
	return q.plan(), nil
}

// strand gives up the demand of rows that have no region and may not shed.
func (q *problem) strand() {
	for k := range q.rows {
		r := &q.rows[k]
		if least, _ := q.workRange(k); math.IsInf(least, 1) && math.IsInf(r.shedS, 1) {
			r.rateHz, r.lostHz = 0, r.rateHz
		}
	}
}

func (q *problem) plan() *Plan {
	var faults problems
	if !q.mayShed() {
		q.checkDemand(&faults)
	}
	if len(faults) == 0 {
		if p, err := solve(q, SolveOptions{}); err == nil {
			return p
		}
	}
	return overloaded(q)
}

// without is w in which no frontend may use the named regions. What does not
// change is shared.
func (w *World) without(down []string) (*World, error) {
	gone := make([]bool, len(w.Regions))
	for _, name := range down {
		j := slices.IndexFunc(w.Regions, func(r Region) bool { return r.Name == name })
		if j < 0 {
			return nil, fmt.Errorf("replan: there is no region %q", name)
		}
		gone[j] = true
	}
	rest := *w
	rest.Latency.Matrix = make([][]*float64, len(w.Latency.Matrix))
	for i, row := range w.Latency.Matrix {
		left := slices.Clone(row)
		for j := range left {
			if gone[j] {
				left[j] = nil
			}
		}
		rest.Latency.Matrix[i] = left
	}
	return &rest, nil
}

func overloaded(q *problem) *Plan {
	b := len(q.curves)
	capacity := make([]float64, b)
	for j, c := range q.curves {
		capacity[j] = c.CapacityHz()
	}
	p := newPlan(q, q.spread(capacity), make([]float64, b))
	for j, c := range q.curves {
		p.Regions[j].PriceS = c.PriceS(min(p.Regions[j].RateHz, overloadUtilisation*capacity[j]))
	}
	p.Overloaded, p.Gap, p.Cost, p.MeanLatencyS, p.MeanTTFTS = true, math.NaN(), math.Inf(1), math.Inf(1), 0
	return p
}
