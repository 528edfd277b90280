package router

import (
	"encoding/json"
	"math"
	"slices"

	"strandline/datasets"
)

// Plan is an allocation with its cost and the certificate of how good it is.
// Regions and Frontends are in the order of the World it was made for.
type Plan struct {
	MeanLatencyS float64 // of the served requests, network part as the objective counts it; 0 where nothing is served
	MeanTTFTS    float64 // the part of it up to the first token; for ObjectiveTTFT only
	MoneyPerS    float64 // what the regions charge, dollars per second
	Cost         float64 // what was minimised: requests in the system, weighted and with the money where the objective says so, plus the price of what is shed
	Gap          float64 // (Cost - lower bound)/Cost; NaN where Overloaded
	Iterations   int     // Newton steps
	ElapsedMS    float64 // set by the caller; this package reads no clock
	Overloaded   bool    // demand exceeds capacity and nothing may be shed: shares only, no optimum (Replan)
	Regions      []RegionPlan
	Frontends    []FrontendPlan
	Classes      []ClassPlan // in the order of the World; nil where it has none
}

// ClassPlan is what a plan does with one class of requests. The Frontends of the
// Plan itself hold all classes together.
type ClassPlan struct {
	Name      string
	RateHz    float64 // arriving, shed ones included
	ShedHz    float64 // refused
	Frontends []FrontendPlan
}

// RegionPlan is what a plan does to one region.
type RegionPlan struct {
	Name        string
	RateHz      float64 // arriving; in units of work where classes have work factors
	Workload    float64 // requests inside; +Inf where Overloaded and the rate is at capacity
	PriceS      float64 // marginal cost, above the curve's own at Region.MaxRateHz; these prices give the plan's lower bound
	Utilisation float64 // RateHz over what the service can do
}

// FrontendPlan is what one frontend does with its requests.
type FrontendPlan struct {
	Name   string
	RateHz float64   // arriving, shed ones included
	ShedHz float64   // refused
	Shares []float64 // per region, fractions of RateHz; they and ShedHz/RateHz sum to 1

	// EtaMax is the largest gradient step of DGD known to be locally stable, in
	// shares per second and second of price: the function EtaMax without delays but
	// those of the network. A control loop has more (Loop), and noise: take a
	// quarter. +Inf where no delay limits it.
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
	MeanTTFTS    number         `json:"mean_ttft_s,omitempty"`
	MoneyPerS    number         `json:"dollars_per_s,omitempty"`
	Cost         number         `json:"cost"`
	Gap          number         `json:"gap"`
	Iterations   int            `json:"iterations"`
	ElapsedMS    number         `json:"elapsed_ms"`
	Overloaded   bool           `json:"overloaded,omitempty"`
	Regions      []regionJSON   `json:"regions"`
	Frontends    []frontendJSON `json:"frontends"`
	Classes      []classJSON    `json:"classes,omitempty"`
}

type classJSON struct {
	Name      string         `json:"name"`
	RateHz    number         `json:"rate"`
	ShedHz    number         `json:"shed"`
	Frontends []frontendJSON `json:"frontends"`
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
		MeanLatencyS: number(p.MeanLatencyS), MeanTTFTS: number(p.MeanTTFTS), MoneyPerS: number(p.MoneyPerS),
		Cost: number(p.Cost), Gap: number(p.Gap),
		Iterations: p.Iterations, ElapsedMS: number(p.ElapsedMS), Overloaded: p.Overloaded,
		Regions: []regionJSON{}, Frontends: p.frontendsJSON(p.Frontends),
	}
	for _, r := range p.Regions {
		out.Regions = append(out.Regions, regionJSON{r.Name, number(r.RateHz), number(r.Workload), number(r.PriceS), number(r.Utilisation)})
	}
	for _, c := range p.Classes {
		out.Classes = append(out.Classes, classJSON{c.Name, number(c.RateHz), number(c.ShedHz), p.frontendsJSON(c.Frontends)})
	}
	return json.Marshal(out)
}

func (p *Plan) frontendsJSON(frontends []FrontendPlan) []frontendJSON {
	out := []frontendJSON{}
	for _, f := range frontends {
		shares := map[string]number{}
		for j, share := range f.Shares {
			if share > 0 {
				shares[p.Regions[j].Name] = number(share)
			}
		}
		out = append(out, frontendJSON{f.Name, number(f.RateHz), number(f.ShedHz), shares, number(f.EtaMax)})
	}
	return out
}

// newPlan works out everything about the shares x (row by row of q, shed requests
// being what a row lacks to 1) at the given prices, except the gap.
func newPlan(q *problem, x []float64, pricesS []float64) *Plan {
	w, b := q.world, len(q.curves)
	p := &Plan{Regions: make([]RegionPlan, b), Frontends: make([]FrontendPlan, len(w.Frontends))}
	for _, c := range w.Classes {
		p.Classes = append(p.Classes, ClassPlan{Name: c.Name, Frontends: make([]FrontendPlan, len(w.Frontends))})
	}
	network := 0.0
	for k := range q.rows {
		network += p.addRow(q, k, x[k*b:k*b+b])
	}
	served := 0.0
	for i := range p.Frontends {
		served += p.Frontends[i].RateHz - p.Frontends[i].ShedHz
	}
	load, inside, early := q.arrivingHz(x), 0.0, 0.0
	for j, r := range w.Regions {
		p.Regions[j] = newRegionPlan(r, load[j], pricesS[j])
		inside += p.Regions[j].Workload
		p.Cost += q.curves[j].Workload(load[j])
		if w.Objective.Kind == ObjectiveTTFT {
			early += r.Prefill.Workload(load[j])
		}
	}
	if served > 0 {
		p.MeanLatencyS = (network + inside) / served
	}
	if served > 0 && w.Objective.Kind == ObjectiveTTFT {
		p.MeanTTFTS = (network + early) / served
	}
	for i, eta := range EtaMax(w, p, Loop{}) {
		p.Frontends[i].EtaMax = eta
		for c := range p.Classes {
			p.Classes[c].Frontends[i].EtaMax = eta
		}
	}
	return p
}

// addRow enters what row k of q does, and its part of the cost but for what it
// costs inside the regions. It returns the requests on the network.
func (p *Plan) addRow(q *problem, k int, x []float64) (network float64) {
	r, w := q.rows[k], q.world
	row := FrontendPlan{Name: w.Frontends[r.frontend].Name, RateHz: r.rateHz + r.lostHz, ShedHz: r.lostHz, Shares: x}
	kept := 0.0
	for j, share := range x {
		if share == 0 {
			continue
		}
		kept += share
		network += r.rateHz * share * w.networkS(r.frontend, j)
		p.Cost += r.rateHz * share * q.arcS[k*len(x)+j]
		p.MoneyPerS += r.rateHz * share * w.dollars(j, r.tokens)
	}
	if !math.IsInf(r.shedS, 1) {
		row.ShedHz = max(0, r.rateHz*(1-kept))
		p.Cost += row.ShedHz * r.shedS
	}
	if r.class < 0 {
		p.Frontends[r.frontend] = row
		return network
	}
	c := &p.Classes[r.class]
	c.RateHz, c.ShedHz = c.RateHz+row.RateHz, c.ShedHz+row.ShedHz
	c.Frontends[r.frontend] = row
	p.Frontends[r.frontend].join(row)
	return network
}

// join adds the requests of one class to f. Shares are weighted by the rates; those
// of a frontend without demand are the first class's.
func (f *FrontendPlan) join(row FrontendPlan) {
	if f.Shares == nil {
		f.Name, f.Shares = row.Name, slices.Clone(row.Shares)
	} else if all := f.RateHz + row.RateHz; all > 0 {
		for j := range f.Shares {
			f.Shares[j] = (f.RateHz*f.Shares[j] + row.RateHz*row.Shares[j]) / all
		}
	}
	f.RateHz, f.ShedHz = f.RateHz+row.RateHz, f.ShedHz+row.ShedHz
}

func newRegionPlan(r Region, rateHz, priceS float64) RegionPlan {
	c := r.Service.Curve()
	return RegionPlan{Name: r.Name, RateHz: rateHz, PriceS: priceS, Workload: c.Workload(rateHz), Utilisation: rateHz / c.CapacityHz()}
}

// fits reports whether the plan is for the frontends, classes and regions of w.
func (p *Plan) fits(w *World) bool {
	if len(p.Frontends) != len(w.Frontends) || len(p.Regions) != len(w.Regions) || len(p.Classes) != len(w.Classes) {
		return false
	}
	for i, f := range w.Frontends {
		if p.Frontends[i].Name != f.Name {
			return false
		}
	}
	for j, r := range w.Regions {
		if p.Regions[j].Name != r.Name {
			return false
		}
	}
	for c, k := range w.Classes {
		if p.Classes[c].Name != k.Name {
			return false
		}
	}
	return true
}
