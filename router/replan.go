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
	p := rest.planRest()
	for i, f := range w.Frontends {
		if rest.Frontends[i].RateHz != f.RateHz {
			p.Frontends[i].RateHz, p.Frontends[i].ShedHz = f.RateHz, f.RateHz
		}
	}
	return p, nil
}

func (w *World) planRest() *Plan {
	var faults problems
	if w.Objective.Shed == nil {
		w.checkDemand(&faults)
	}
	if len(faults) == 0 {
		if p, err := solve(w, SolveOptions{}); err == nil {
			return p
		}
	}
	return overloaded(w)
}

// without is w in which no frontend may use the named regions, and a frontend
// that thereby has none left has no demand. What does not change is shared.
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
	rest.Frontends = slices.Clone(w.Frontends)
	rest.Latency.Matrix = make([][]*float64, len(w.Latency.Matrix))
	for i, row := range w.Latency.Matrix {
		left := slices.Clone(row)
		for j := range left {
			if gone[j] {
				left[j] = nil
			}
		}
		if !slices.ContainsFunc(left, func(v *float64) bool { return v != nil }) {
			rest.Frontends[i].RateHz = 0
		}
		rest.Latency.Matrix[i] = left
	}
	return &rest, nil
}

func overloaded(w *World) *Plan {
	p := newPlan(w, w.byCapacity(), make([]float64, len(w.Regions)))
	for j, r := range w.Regions {
		p.Regions[j].PriceS = r.Service.PriceS(min(p.Regions[j].RateHz, overloadUtilisation*r.Service.CapacityHz()))
	}
	p.Overloaded, p.Gap, p.Cost, p.MeanLatencyS = true, math.NaN(), math.Inf(1), math.Inf(1)
	return p
}
