package sim

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"strandline/router"
)

// FluidPolicies are the policies of the fluid model, by the names that they have in
// the event simulator.
func FluidPolicies() []string {
	return []string{"dgd", "gmsr", "marginal", "jsq", "latency", "plan", "replicas", "nearest", "random"}
}

// fluidPolicy moves the shares of all frontends.
type fluidPolicy interface {
	// signal is what a region with that workload reports.
	signal(region int, workload float64) float64
	// move sets the shares of frontend i after one step, from the signals that it
	// has; +Inf where it knows the region to be down.
	move(i int, signals []float64)
}

// setPolicy makes the policy and the first shares.
func (f *fluid) setPolicy() error {
	n := len(f.World.Frontends)
	f.shares = make([][]float64, n)
	for i := range f.shares {
		f.shares[i] = f.firstShares(i)
	}
	base := fluidBase{f}
	switch f.Policy {
	case "dgd":
		p := &fluidDGD{fluidBase: base}
		for i := range n {
			planned := f.Plan.Frontends[i].EtaMax
			eta := f.Eta
			if eta == 0 && f.EtaFraction > 0 {
				eta = f.EtaFraction * planned
			}
			d := router.NewDGD(f.World, i, router.DGDOptions{Eta: eta})
			d.SetPlan(f.Plan, i, planned)
			d.DropPlan()
			if eta := d.Eta(); eta == 0 || math.IsInf(eta, 1) {
				return fmt.Errorf("frontend %s: no delay bounds the step of dgd, so it must be given", f.World.Frontends[i].Name)
			}
			d.SetShares(f.shares[i])
			f.shares[i] = d.Shares()
			p.all = append(p.all, d)
		}
		for j := range f.World.Regions {
			p.price = append(p.price, f.World.Curve(j))
		}
		f.policy = p
	case "gmsr":
		f.policy = &fluidGreedy{fluidBase: base, cost: fluidMarginalS}
	case "marginal":
		f.policy = &fluidGreedy{fluidBase: base, cost: fluidMarginalS, network: true}
	case "jsq":
		f.policy = &fluidGreedy{fluidBase: base, cost: func(_ router.Curve, n float64) float64 { return n }}
	case "latency":
		f.policy = &fluidGreedy{fluidBase: base, cost: fluidLatencyS, network: true}
	case "plan", "replicas", "nearest", "random":
		p := &fluidStatic{fluidBase: base}
		for i := range n {
			p.wanted = append(p.wanted, f.staticShares(i))
			copy(f.shares[i], p.wanted[i])
		}
		f.policy = p
	default:
		return fmt.Errorf("there is no policy %q in the fluid model; choose %s", f.Policy, strings.Join(FluidPolicies(), ", "))
	}
	return nil
}

func (f *fluid) firstShares(i int) []float64 {
	if f.Shares != nil {
		return slices.Clone(f.Shares[i])
	}
	return f.proportional(i, func(j int) float64 { return f.World.Curve(j).CapacityHz() })
}

// proportional are shares of frontend i in proportion to the weights of the regions
// that it may use.
func (f *fluid) proportional(i int, weight func(j int) float64) []float64 {
	x, total := make([]float64, len(f.World.Regions)), 0.0
	for j := range x {
		if _, ok := f.World.OneWayS(i, j); ok {
			x[j] = weight(j)
			total += x[j]
		}
	}
	for j := range x {
		x[j] /= total
	}
	return x
}

func (f *fluid) staticShares(i int) []float64 {
	switch f.Policy {
	case "plan":
		return slices.Clone(f.Plan.Frontends[i].Shares)
	case "replicas":
		return f.proportional(i, func(j int) float64 { return f.World.Curve(j).CapacityHz() })
	case "random":
		return f.proportional(i, func(int) float64 { return 1 })
	}
	least := slices.Min(f.arcs[i].networkS)
	first := slices.Index(f.arcs[i].networkS, least)
	return f.proportional(i, func(j int) float64 {
		if j == first {
			return 1
		}
		return 0
	})
}

// fluidMarginalS is 1/l'(N), and +Inf where more requests inside do not speed the
// region up any more.
func fluidMarginalS(c router.Curve, workload float64) float64 { return c.PriceS(c.RateHz(workload)) }

// fluidLatencyS is N/l(N): how long an arrival stays when the workload does.
func fluidLatencyS(c router.Curve, workload float64) float64 {
	if workload == 0 {
		return c.IdlePriceS()
	}
	return workload / c.RateHz(workload)
}

// fluidBase is what every policy needs of the run.
type fluidBase struct{ f *fluid }

func (p fluidBase) signal(int, float64) float64 { return 0 }

// fluidDGD is distributed gradient descent: the signal is the price.
type fluidDGD struct {
	fluidBase
	all   []*router.DGD
	price []router.Curve
}

func (p *fluidDGD) signal(j int, workload float64) float64 {
	// Rounding may take a rate to its supremum, where the price has no number; the
	// largest one is above every cap.
	return min(p.price[j].PriceS(p.f.curves[j].RateHz(workload)), math.MaxFloat64/4)
}

func (p *fluidDGD) move(i int, signals []float64) { p.all[i].Descend(p.f.StepS, signals) }

// fluidGreedy sends everything to the region with the least cost as last seen; the
// first of equals.
type fluidGreedy struct {
	fluidBase
	cost    func(c router.Curve, workload float64) float64
	network bool // the arc counts too
}

func (p *fluidGreedy) signal(j int, workload float64) float64 {
	return min(p.cost(p.f.curves[j], workload), math.MaxFloat64/4)
}

func (p *fluidGreedy) move(i int, signals []float64) {
	best, least := -1, math.Inf(1)
	for j, arc := range p.f.arcs[i].costS {
		s := signals[j]
		if math.IsInf(arc, 1) {
			continue
		}
		if p.network {
			s += arc
		}
		if s < least {
			best, least = j, s
		}
	}
	clear(p.f.shares[i])
	if best >= 0 {
		p.f.shares[i][best] = 1
	}
}

// fluidStatic keeps its shares, less those of regions that are down, whose traffic
// goes to the others in proportion.
type fluidStatic struct {
	fluidBase
	wanted [][]float64
}

func (p *fluidStatic) move(i int, signals []float64) {
	if len(p.f.outages) == 0 {
		return
	}
	x, kept, all := p.f.shares[i], 0.0, 0.0
	for j, share := range p.wanted[i] {
		all += share
		if math.IsInf(signals[j], 1) {
			share = 0
		}
		x[j] = share
		kept += share
	}
	for j := range x {
		if kept > 0 {
			x[j] *= all / kept
		}
	}
}
