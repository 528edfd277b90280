package router

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Objective says what is minimised, and within which rules.
type Objective struct {
	Kind     string   `yaml:"kind,omitempty" json:"kind,omitempty"`           // ObjectiveTotal (default) or ObjectiveTTFT
	Network  string   `yaml:"network,omitempty" json:"network,omitempty"`     // KindOneWay (default, arXiv 2504.10693) or KindRTT (what a client sees)
	Weights  *Weights `yaml:"weights,omitempty" json:"weights,omitempty"`     // of ObjectiveTTFT; nil = the defaults
	Gamma    float64  `yaml:"gamma,omitempty" json:"gamma,omitempty"`         // what a dollar counts, in seconds; 0 = money does not matter
	Tokens   float64  `yaml:"tokens,omitempty" json:"tokens,omitempty"`       // of a request, for prices per token
	MinShare float64  `yaml:"min_share,omitempty" json:"min_share,omitempty"` // the least share on every allowed arc: traffic that keeps the measurements fresh
	Limit    *Limit   `yaml:"limit,omitempty" json:"limit,omitempty"`         // nil = none
	Shed     *Shed    `yaml:"shed,omitempty" json:"shed,omitempty"`           // nil = every request must be served
}

// Weights are what a second of each part of a request counts in ObjectiveTTFT.
type Weights struct {
	Network float64 `yaml:"network,omitempty" json:"network"` // on the network; 0 means 1
	Prefill float64 `yaml:"prefill,omitempty" json:"prefill"` // in queue and prefill, hence before the first token; 0 means 1

	// Service counts the whole time in the region once more, which keeps it away
	// from its capacity, where requests pile up behind their first token; 0 means
	// DefaultServiceWeight.
	Service float64 `yaml:"service,omitempty" json:"service"`
}

// DefaultServiceWeight is small: the first token is what counts.
const DefaultServiceWeight = 0.01

// Price is what a region costs, in dollars.
type Price struct {
	Request float64 `yaml:"request,omitempty" json:"request,omitempty"` // each request
	Token   float64 `yaml:"token,omitempty" json:"token,omitempty"`     // each token, as many as Tokens says
}

// Limit takes away the arcs that cannot keep a promise, in seconds; 0 = no limit.
type Limit struct {
	NetworkS float64 `yaml:"network,omitempty" json:"network,omitempty"` // of the network time, as the objective counts it
	TTFTS    float64 `yaml:"ttft,omitempty" json:"ttft,omitempty"`       // of the network time and a prefill in the idle region
}

// Shed allows frontends to refuse requests.
type Shed struct {
	PriceS float64 `yaml:"price" json:"price"` // what a refused request costs, in seconds of latency
}

// Class is a kind of requests with its own demand: a model, a length class, a
// priority.
type Class struct {
	Name      string             `yaml:"name" json:"name"`
	Rates     map[string]float64 `yaml:"rates" json:"rates"`                             // requests/s by frontend; none = 0
	Work      map[string]float64 `yaml:"work,omitempty" json:"work,omitempty"`           // of one request by region, in units of what its service counts; none = 1
	Hosts     []string           `yaml:"hosts,omitempty" json:"hosts,omitempty"`         // the regions that can serve it; none = all
	Residency []string           `yaml:"residency,omitempty" json:"residency,omitempty"` // as of a frontend; both rules hold
	Tokens    float64            `yaml:"tokens,omitempty" json:"tokens,omitempty"`       // as of the objective, which it overrides
	Limit     *Limit             `yaml:"limit,omitempty" json:"limit,omitempty"`         // as of the objective; both rules hold
	Shed      *Shed              `yaml:"shed,omitempty" json:"shed,omitempty"`           // as of the objective, which it overrides: the lower the price, the sooner refused
}

// workAt is the work of one request at the named region.
func (c *Class) workAt(region string) float64 {
	if v, ok := c.Work[region]; ok {
		return v
	}
	return 1
}

// weights fills in the defaults.
func (o *Objective) weights() Weights {
	v := Weights{1, 1, DefaultServiceWeight}
	if o.Weights != nil {
		v.Network, v.Prefill, v.Service = cmp.Or(o.Weights.Network, v.Network), cmp.Or(o.Weights.Prefill, v.Prefill), cmp.Or(o.Weights.Service, v.Service)
	}
	return v
}

// OneWayS is the one-way network delay from frontend i to region j in seconds,
// and whether i may use j.
func (w *World) OneWayS(i, j int) (float64, bool) {
	if w.isExcluded(i, j) {
		return math.Inf(1), false
	}
	return w.oneWayS(i, j), true
}

// NetworkS is the network part of the objective from frontend i to region j in
// seconds, one-way or round trip as Objective.Network says, and whether i may
// use j.
func (w *World) NetworkS(i, j int) (float64, bool) {
	if w.isExcluded(i, j) {
		return math.Inf(1), false
	}
	return w.networkS(i, j), true
}

func (w *World) oneWayS(i, j int) float64 { return *w.Latency.Matrix[i][j] * w.oneWayUnitS() }

func (w *World) networkS(i, j int) float64 { return *w.Latency.Matrix[i][j] * w.networkUnitS() }

// oneWayUnitS is what a unit of the latency matrix is one way, in seconds.
func (w *World) oneWayUnitS() float64 {
	unit := 1.0
	if w.Latency.Unit == UnitMillis {
		unit = 1e-3
	}
	if w.Latency.Kind == KindRTT {
		unit /= 2
	}
	return unit
}

// networkUnitS is what a unit of the latency matrix is for the objective.
func (w *World) networkUnitS() float64 {
	if w.Objective.Network == KindRTT {
		return 2 * w.oneWayUnitS()
	}
	return w.oneWayUnitS()
}

// networkWeight is what a second on the network counts.
func (w *World) networkWeight() float64 {
	if w.Objective.Kind == ObjectiveTTFT {
		return w.Objective.weights().Network
	}
	return 1
}

// ArcS is what sending a request from frontend i to region j costs beside the
// price of the region, in seconds as the objective counts them: the weighted
// network time and the money. It is +Inf where i may not use j.
func (w *World) ArcS(i, j int) float64 {
	t, ok := w.NetworkS(i, j)
	if !ok {
		return t
	}
	return w.networkWeight()*t + w.Objective.Gamma*w.dollars(j, w.Objective.Tokens)
}

// dollars is what one request of so many tokens costs at region j.
func (w *World) dollars(j int, tokens float64) float64 {
	p := w.Regions[j].Price
	if p == nil {
		return 0
	}
	return p.Request + p.Token*tokens
}

// Curve is the cost of region j by its rate, as the objective counts it: the
// workload of its service, or the weighted sum of prefill and service for
// ObjectiveTTFT, within Region.MaxRateHz. Its price is the one that plans carry.
func (w *World) Curve(j int) Curve {
	r := w.Regions[j]
	c := r.Service.Curve()
	if w.Objective.Kind == ObjectiveTTFT && r.Prefill != nil {
		v := w.Objective.weights()
		c = newCurve(weightedSum{[2]float64{v.Prefill, v.Service}, [2]Curve{r.Prefill.Curve(), c}})
	}
	if r.MaxRateHz > 0 {
		c = c.limited(r.MaxRateHz)
	}
	return c
}

// weightedSum is the cost of two stages with the same rate.
type weightedSum struct {
	weight [2]float64
	stage  [2]Curve
}

func (s weightedSum) capacity() (float64, bool) {
	a, b := s.stage[0], s.stage[1]
	if a.limitHz > b.limitHz {
		a, b = b, a
	}
	return a.limitHz, a.attained && (b.attained || b.limitHz > a.limitHz)
}

func (s weightedSum) workload(r float64) float64 {
	return s.weight[0]*s.stage[0].workload(r) + s.weight[1]*s.stage[1].workload(r)
}

func (s weightedSum) price(r float64) float64 {
	return s.weight[0]*s.stage[0].price(r) + s.weight[1]*s.stage[1].price(r)
}

func (s weightedSum) priceSlope(r float64) float64 {
	return s.weight[0]*s.stage[0].priceSlope(r) + s.weight[1]*s.stage[1].priceSlope(r)
}

func (s weightedSum) rate(n float64) float64 {
	high, _ := s.capacity()
	return root(func(r float64) (float64, float64) { return s.workload(r), s.price(r) }, n, 0, high)
}

func (s weightedSum) rateAt(p float64) (float64, float64) {
	high, _ := s.capacity()
	r := root(func(r float64) (float64, float64) { return s.price(r), s.priceSlope(r) }, p, 0, high)
	return r, 1 / s.priceSlope(r)
}

// Excluded says why frontend i may not use region j, and "" where it may.
func (w *World) Excluded(i, j int) string {
	switch f, r := w.Frontends[i], w.Regions[j]; {
	case w.Latency.Matrix[i][j] == nil:
		return "not allowed by the latency matrix"
	case !w.mayReside(f.Residency, j):
		return fmt.Sprintf("zone %q is not one that frontend %s may use: %s", r.Zone, f.Name, strings.Join(f.Residency, ", "))
	}
	return w.overLimit(w.Objective.Limit, i, j)
}

// ExcludedClass says why requests of class c at frontend i may not use region j,
// and "" where they may.
func (w *World) ExcludedClass(c, i, j int) string {
	if reason := w.Excluded(i, j); reason != "" {
		return reason
	}
	switch k, r := &w.Classes[c], w.Regions[j]; {
	case len(k.Hosts) > 0 && !slices.Contains(k.Hosts, r.Name):
		return fmt.Sprintf("does not host class %s", k.Name)
	case !w.mayReside(k.Residency, j):
		return fmt.Sprintf("zone %q is not one that class %s may use: %s", r.Zone, k.Name, strings.Join(k.Residency, ", "))
	default:
		return w.overLimit(k.Limit, i, j)
	}
}

// isExcluded is Excluded without the words.
func (w *World) isExcluded(i, j int) bool {
	if w.Latency.Matrix[i][j] == nil || !w.mayReside(w.Frontends[i].Residency, j) {
		return true
	}
	return w.Objective.Limit != nil && w.overLimit(w.Objective.Limit, i, j) != ""
}

func (w *World) mayReside(zones []string, j int) bool {
	return len(zones) == 0 || slices.Contains(zones, w.Regions[j].Zone)
}

func (w *World) overLimit(l *Limit, i, j int) string {
	if l == nil {
		return ""
	}
	network := w.networkS(i, j)
	if l.NetworkS > 0 && network > l.NetworkS {
		return fmt.Sprintf("network time %.4g s is above the limit of %.4g s", network, l.NetworkS)
	}
	if p := w.Regions[j].Prefill; l.TTFTS > 0 && p != nil {
		if first := network + p.IdlePriceS(); first > l.TTFTS {
			return fmt.Sprintf("time to first token %.4g s, even when idle, is above the limit of %.4g s", first, l.TTFTS)
		}
	}
	return ""
}
