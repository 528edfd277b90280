package router

import (
	"encoding/json"
	"math"

	"strandline/datasets"
)

// Plan is an allocation with its cost and the certificate of how good it is.
// Regions and Frontends are in the order of the World it was made for.
type Plan struct {
	MeanLatencyS float64 // of the served requests, network part as the objective counts it; 0 where nothing is served
	Cost         float64 // requests in the system, plus the price of what is shed: what was minimised
	Gap          float64 // (Cost - lower bound)/Cost; NaN where Overloaded
	Iterations   int     // Newton steps
	ElapsedMS    float64 // set by the caller; this package reads no clock
	Overloaded   bool    // demand exceeds capacity and nothing may be shed: shares only, no optimum (Replan)
	Regions      []RegionPlan
	Frontends    []FrontendPlan
}

// RegionPlan is what a plan does to one region.
type RegionPlan struct {
	Name        string
	RateHz      float64 // arriving
	Workload    float64 // requests inside; +Inf where Overloaded and the rate is at capacity
	PriceS      float64 // marginal cost; these prices give the plan's lower bound
	Utilisation float64 // RateHz over capacity
}

// FrontendPlan is what one frontend does with its requests.
type FrontendPlan struct {
	Name   string
	RateHz float64   // arriving, shed ones included
	ShedHz float64   // refused
	Shares []float64 // per region, fractions of RateHz; they and ShedHz/RateHz sum to 1

	// EtaMax is the simple bound of the gradient step, in shares per second and
	// second of price: a/(2 tau Lam h), the least over the regions used, where Lam
	// is the rate of all frontends that use the region. It is sufficient for local
	// stability when delays and regions are equal (where it is at most a factor
	// pi/2 below the critical step) and a rule of thumb otherwise: unequal
	// instances with a critical step of 0.37 times it are known, so take a quarter
	// and watch for oscillation. +Inf where no delay limits it.
	EtaMax float64
}

// Rows are the arcs of the plan that carry traffic, frontend by frontend.
func Rows(p *Plan, epoch uint64) []datasets.Allocation {
	var rows []datasets.Allocation
	for _, f := range p.Frontends {
		for j, share := range f.Shares {
			if share == 0 {
				continue
			}
			rows = append(rows, datasets.Allocation{
				Epoch: epoch, Frontend: f.Name, Region: p.Regions[j].Name,
				Share: share, RateHz: share * f.RateHz, PriceS: p.Regions[j].PriceS,
			})
		}
	}
	return rows
}

// number is a float64 whose JSON is null where it is not finite.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	if !finite(float64(n)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

type planJSON struct {
	MeanLatencyS number         `json:"mean_latency_s"`
	Cost         number         `json:"cost"`
	Gap          number         `json:"gap"`
	Iterations   int            `json:"iterations"`
	ElapsedMS    number         `json:"elapsed_ms"`
	Overloaded   bool           `json:"overloaded,omitempty"`
	Regions      []regionJSON   `json:"regions"`
	Frontends    []frontendJSON `json:"frontends"`
}

type regionJSON struct {
	Name        string `json:"name"`
	RateHz      number `json:"rate"`
	Workload    number `json:"workload"`
	PriceS      number `json:"price"`
	Utilisation number `json:"utilisation"`
}

type frontendJSON struct {
	Name   string            `json:"name"`
	RateHz number            `json:"rate"`
	ShedHz number            `json:"shed"`
	Shares map[string]number `json:"shares"`
	EtaMax number            `json:"eta_max"`
}

// MarshalJSON writes the keys of `route solve`. Shares are an object from region
// name to share, without the regions that get nothing; what is not finite is null.
func (p *Plan) MarshalJSON() ([]byte, error) {
	out := planJSON{
		MeanLatencyS: number(p.MeanLatencyS), Cost: number(p.Cost), Gap: number(p.Gap),
		Iterations: p.Iterations, ElapsedMS: number(p.ElapsedMS), Overloaded: p.Overloaded,
		Regions: []regionJSON{}, Frontends: []frontendJSON{},
	}
	for _, r := range p.Regions {
		out.Regions = append(out.Regions, regionJSON{r.Name, number(r.RateHz), number(r.Workload), number(r.PriceS), number(r.Utilisation)})
	}
	for _, f := range p.Frontends {
		shares := map[string]number{}
		for j, share := range f.Shares {
			if share > 0 {
				shares[p.Regions[j].Name] = number(share)
			}
		}
		out.Frontends = append(out.Frontends, frontendJSON{f.Name, number(f.RateHz), number(f.ShedHz), shares, number(f.EtaMax)})
	}
	return json.Marshal(out)
}

// newPlan works out everything about the shares x (row by row, shed requests
// being what a row lacks to 1) at the given prices, except the gap.
func newPlan(w *World, x [][]float64, pricesS []float64) *Plan {
	p := &Plan{Regions: make([]RegionPlan, len(w.Regions)), Frontends: make([]FrontendPlan, len(w.Frontends))}
	users := make([]float64, len(w.Regions)) // the rate of all frontends that use a region
	network, served := 0.0, 0.0
	for i, f := range w.Frontends {
		kept := 0.0
		for j, share := range x[i] {
			if share == 0 {
				continue
			}
			c, _ := w.NetworkS(i, j)
			kept += share
			network += f.RateHz * share * c
			p.Regions[j].RateHz += f.RateHz * share
			users[j] += f.RateHz
		}
		shed := 0.0
		if w.Objective.Shed != nil {
			shed = max(0, f.RateHz*(1-kept))
		}
		served += f.RateHz - shed
		p.Frontends[i] = FrontendPlan{Name: f.Name, RateHz: f.RateHz, ShedHz: shed, Shares: x[i]}
	}
	inside := 0.0
	for j := range p.Regions {
		p.setRegion(j, w.Regions[j], pricesS[j])
		inside += p.Regions[j].Workload
	}
	p.Cost = network + inside
	if served > 0 {
		p.MeanLatencyS = p.Cost / served
	}
	if s := w.Objective.Shed; s != nil {
		p.Cost += s.PriceS * (w.DemandHz() - served)
	}
	for i := range p.Frontends {
		p.Frontends[i].EtaMax = p.etaMax(w, i, users)
	}
	return p
}

func (p *Plan) setRegion(j int, r Region, priceS float64) {
	rp := &p.Regions[j]
	rp.Name, rp.PriceS = r.Name, priceS
	rp.Workload = r.Service.Workload(rp.RateHz)
	rp.Utilisation = rp.RateHz / r.Service.CapacityHz()
}

// etaMax is documented at FrontendPlan.EtaMax. The delay that counts is the
// one-way tau, since the loop delay of an arc is 2 tau whatever the objective.
func (p *Plan) etaMax(w *World, i int, users []float64) float64 {
	bound := math.Inf(1)
	for j, share := range p.Frontends[i].Shares {
		tau, _ := w.OneWayS(i, j)
		if share == 0 || tau == 0 || users[j] == 0 {
			continue
		}
		rate, s := p.Regions[j].RateHz, w.Regions[j].Service
		if rate >= s.CapacityHz() {
			return 0
		}
		bound = min(bound, s.Slope(rate)/(2*tau*users[j]*s.Stiffness(rate)))
	}
	return bound
}
