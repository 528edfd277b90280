package sim

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"strandline/router"
)

// Clairvoyant is the policy of Comparison that follows the optimum of the true
// rates of every epoch, known before the epoch begins, outages included. No policy
// that can exist has it; it is what the others are measured by.
const Clairvoyant = "clairvoyant"

// ReplanSuffix after a policy that follows plans gives it a planner: at the
// beginning of each epoch the optimum for the smoothed rates that were seen and the
// regions that are known to be up.
const ReplanSuffix = "+replan"

// KnapsackPolicy is a policy of Comparison that is central: every frontend follows the
// shares of one router.KnapsackLB, which sees the mean latency of each region in the
// last epoch and no rate function.
const KnapsackPolicy = "knapsack"

// Comparison runs policies side by side on the same requests.
type Comparison struct {
	// Config is what all runs share. Policy, Sources, Seed, Plan and Planner are set by
	// the comparison.
	Config
	Policies []string // as Config.Policy, with ReplanSuffix where wanted
	Seeds    []uint64

	// Demand makes the sources of a run; nil = Poisson arrivals and exponential work
	// by World. It must give the same sources each time.
	Demand func() ([]Source, error)
}

// Row is one policy of a comparison. Means and half-widths of 95 % confidence
// intervals are over the seeds, quantiles over all requests of all seeds; a
// half-width is NaN with one seed.
type Row struct {
	Policy string
	Sees   router.Sight

	MeanLatencyS, HalfWidthS float64
	P50S, P90S, P99S         float64
	MeanTTFTS, P99TTFTS      float64

	// Excess is the mean latency over that of Clairvoyant with the same seed, less 1.
	Excess, ExcessHalfWidth float64

	ThroughputHz, ShedHz, FailedHz, RetriedHz float64
	Moves                                     float64 // as Result.Moves
	Oscillation                               float64 // as Result.Oscillation
	Events                                    uint64
}

// ComparePolicies lists every policy, and after each one that follows plans the same
// with a planner.
func ComparePolicies() []string {
	var names []string
	for _, k := range router.Policies() {
		names = append(names, k.Name)
		if k.Sees&router.SeesPlan != 0 {
			names = append(names, k.Name+ReplanSuffix)
		}
	}
	return append(names, KnapsackPolicy)
}

// MarshalJSON writes the keys of `route compare`; what is not finite is null.
func (row Row) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Policy          string     `json:"policy"`
		Sees            string     `json:"sees"`
		MeanLatencyS    numberJSON `json:"mean_latency_s"`
		HalfWidthS      numberJSON `json:"half_width_s"`
		P50S            numberJSON `json:"p50_s"`
		P90S            numberJSON `json:"p90_s"`
		P99S            numberJSON `json:"p99_s"`
		MeanTTFTS       numberJSON `json:"mean_ttft_s"`
		P99TTFTS        numberJSON `json:"p99_ttft_s"`
		Excess          numberJSON `json:"excess"`
		ExcessHalfWidth numberJSON `json:"excess_half_width"`
		ThroughputHz    numberJSON `json:"throughput"`
		ShedHz          numberJSON `json:"shed"`
		FailedHz        numberJSON `json:"failed"`
		RetriedHz       numberJSON `json:"retried"`
		Moves           numberJSON `json:"moves"`
		Oscillation     numberJSON `json:"oscillation"`
		Events          uint64     `json:"events"`
	}{row.Policy, row.Sees.String(), numberJSON(row.MeanLatencyS), numberJSON(row.HalfWidthS), numberJSON(row.P50S), numberJSON(row.P90S),
		numberJSON(row.P99S), numberJSON(row.MeanTTFTS), numberJSON(row.P99TTFTS), numberJSON(row.Excess), numberJSON(row.ExcessHalfWidth),
		numberJSON(row.ThroughputHz), numberJSON(row.ShedHz), numberJSON(row.FailedHz), numberJSON(row.RetriedHz), numberJSON(row.Moves),
		numberJSON(row.Oscillation), row.Events})
}

// numberJSON is a float64 whose JSON is null where it is not finite.
type numberJSON float64

func (n numberJSON) MarshalJSON() ([]byte, error) {
	if v := float64(n); math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// All lists what there is to run: Clairvoyant first, then the policies.
func (c Comparison) All() []string { return append([]string{Clairvoyant}, c.Policies...) }

// Run is one cell of the comparison: one policy of All with one seed. Cells do not
// depend on each other, so a caller may run them in any order and at once.
func (c Comparison) Run(policy string, seed uint64) (*Result, error) {
	k := c.Config
	if err := k.check(); err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	k.Seed, k.Policy = seed, policy
	var err error
	if k.Sources, err = c.demand(); err != nil {
		return nil, err
	}
	base, replan := strings.CutSuffix(policy, ReplanSuffix)
	if err := checkReplan(base, replan); err != nil {
		return nil, err
	}
	k.Policy = base
	p := planner{world: Integer(k.World), epochS: k.EpochS}
	if k.Plan, err = p.solve(rates(k.World), make([]bool, len(k.World.Regions))); err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	switch {
	case policy == Clairvoyant:
		k.Policy = "plan"
		truth, err := c.demand()
		if err != nil {
			return nil, err
		}
		k.Planner = p.clairvoyant(newForesight(truth, seed), k.Outages)
	case policy == KnapsackPolicy:
		k.Policy = "plan"
		k.Planner = knapsackPlanner(k.World)
		if k.Plan, err = k.Planner(Epoch{Down: make([]bool, len(k.World.Regions))}); err != nil {
			return nil, err
		}
	case replan:
		k.Planner = p.measured(rates(k.World))
	}
	r, err := Run(k)
	if err != nil {
		return nil, err
	}
	r.Policy = policy
	return r, nil
}

// checkReplan refuses a planner for a policy that would not listen.
func checkReplan(policy string, replan bool) error {
	if !replan {
		return nil
	}
	kind, err := router.LookupPolicy(policy)
	if err == nil && kind.Sees&router.SeesPlan == 0 {
		err = fmt.Errorf("policy %q follows no plan: leave %s away", policy, ReplanSuffix)
	}
	return err
}

func (c Comparison) demand() ([]Source, error) {
	if c.Demand != nil {
		return c.Demand()
	}
	return Sources(Poisson(c.World))
}

// Compare runs every cell one after the other and returns the rows in the order of
// All.
func Compare(c Comparison) ([]Row, error) {
	results := map[string][]*Result{}
	for _, policy := range c.All() {
		for _, seed := range c.Seeds {
			r, err := c.Run(policy, seed)
			if err != nil {
				return nil, fmt.Errorf("compare %s with seed %d: %w", policy, seed, err)
			}
			results[policy] = append(results[policy], r)
		}
	}
	return c.Rows(results)
}

// Rows makes the table from the results of all cells: by policy of All one result
// per seed, in the order of Seeds.
func (c Comparison) Rows(results map[string][]*Result) ([]Row, error) {
	var rows []Row
	for _, policy := range c.All() {
		list := results[policy]
		if len(list) != len(c.Seeds) || len(list) == 0 {
			return nil, fmt.Errorf("sim: compare: %d results of %s for %d seeds", len(list), policy, len(c.Seeds))
		}
		row := Row{Policy: policy}
		switch name, _ := strings.CutSuffix(policy, ReplanSuffix); policy {
		case Clairvoyant:
		case KnapsackPolicy:
			row.Sees = router.SeesNetwork | router.SeesCapacity | router.SeesDemand
		default:
			k, err := router.LookupPolicy(name)
			if err != nil {
				return nil, err
			}
			row.Sees = k.Sees
		}
		row.fill(list, results[Clairvoyant])
		rows = append(rows, row)
	}
	return rows, nil
}

func (row *Row) fill(list, clairvoyant []*Result) {
	var latency, ttft Sketch
	means, excess := make([]float64, len(list)), make([]float64, len(list))
	n := float64(len(list))
	for k, r := range list {
		latency.Merge(&r.Latency)
		ttft.Merge(&r.TTFT)
		means[k], excess[k] = r.MeanLatencyS, r.MeanLatencyS/clairvoyant[k].MeanLatencyS-1
		row.MeanTTFTS += r.MeanTTFTS / n
		row.ThroughputHz += r.ThroughputHz / n
		row.ShedHz += r.ShedHz / n
		row.FailedHz += r.FailedHz / n
		row.RetriedHz += r.RetriedHz / n
		row.Moves += r.Moves / n
		row.Oscillation += r.Oscillation / n
		row.Events += r.Events
	}
	row.MeanLatencyS, row.HalfWidthS = Interval(means)
	row.Excess, row.ExcessHalfWidth = Interval(excess)
	row.P50S, row.P90S, row.P99S = latency.Quantile(0.5), latency.Quantile(0.9), latency.Quantile(0.99)
	row.P99TTFTS = ttft.Quantile(0.99)
}

// planner solves for the rates of an epoch, each time from the prices of the last.
type planner struct {
	world  *router.World
	epochS float64
	prices []float64
}

const (
	planGap = 1e-5

	// planLoad is the part of the capacity that a plan is made for at most: a burst
	// may ask for more for some seconds, and the queue then carries it.
	planLoad = 0.95
)

func rates(w *router.World) []float64 {
	r := make([]float64, len(w.Frontends))
	for i, f := range w.Frontends {
		r[i] = f.RateHz
	}
	return r
}

// solve is the optimum for the rates without the regions that are down.
func (p *planner) solve(rateHz []float64, down []bool) (*router.Plan, error) {
	w := *p.world
	w.Frontends = append([]router.Frontend(nil), w.Frontends...)
	demand, capacity := 0.0, 0.0
	var gone []string
	for j, r := range w.Regions {
		if down[j] {
			gone = append(gone, r.Name)
		} else {
			capacity += w.Curve(j).CapacityHz()
		}
	}
	for _, r := range rateHz {
		demand += r
	}
	scale := 1.0
	if demand > planLoad*capacity {
		scale = planLoad * capacity / demand
	}
	for i := range w.Frontends {
		w.Frontends[i].RateHz = rateHz[i] * scale
	}
	if len(gone) > 0 || demand == 0 {
		return router.Replan(&w, gone)
	}
	plan, err := router.Solve(&w, router.SolveOptions{TargetGap: planGap, StartPricesS: p.prices})
	if err != nil {
		return router.Replan(&w, nil)
	}
	p.prices = p.prices[:0]
	for _, r := range plan.Regions {
		p.prices = append(p.prices, r.PriceS)
	}
	return plan, nil
}

// measuredWeight is the weight of the newest epoch in the smoothed rates: with
// epochs of 10 s a time constant of about half a minute.
const measuredWeight = 0.3

// measured plans from what was seen.
func (p planner) measured(rateHz []float64) func(Epoch) (*router.Plan, error) {
	return func(e Epoch) (*router.Plan, error) {
		for i, seen := range e.SeenHz {
			rateHz[i] += measuredWeight * (seen - rateHz[i])
		}
		return p.solve(rateHz, e.Down)
	}
}

// clairvoyant plans from what will be.
func (p planner) clairvoyant(f foresight, outages []Outage) func(Epoch) (*router.Plan, error) {
	return func(e Epoch) (*router.Plan, error) {
		down := make([]bool, len(p.world.Regions))
		for _, o := range outages {
			if o.FromS < e.StartS+p.epochS && o.ToS > e.StartS {
				down[o.Region] = true
			}
		}
		return p.solve(f.rates(e.StartS+p.epochS, p.epochS, len(p.world.Frontends)), down)
	}
}

// knapsackPlanner gives every frontend the shares of one KnapsackLB.
func knapsackPlanner(w *router.World) func(Epoch) (*router.Plan, error) {
	n := len(w.Regions)
	network, capacity := make([]float64, n), make([]float64, n)
	for j := range w.Regions {
		capacity[j] = w.Curve(j).CapacityHz()
		rate := 0.0
		for i, f := range w.Frontends {
			if t, ok := w.NetworkS(i, j); ok {
				network[j] += f.RateHz * t
				rate += f.RateHz
			}
		}
		if rate > 0 {
			network[j] /= rate
		}
	}
	lb, silent := router.NewKnapsackLB(network, capacity, w.DemandHz()), make([]float64, n)
	for j := range silent {
		silent[j] = math.NaN()
	}
	return func(e Epoch) (*router.Plan, error) {
		usable := make([]bool, n)
		for j := range usable {
			usable[j] = !e.Down[j]
		}
		if e.LatencyS == nil {
			e.LatencyS, e.Share = silent, silent
		}
		shares := lb.Step(e.LatencyS, e.Share, usable)
		p := &router.Plan{Regions: make([]router.RegionPlan, n), Frontends: make([]router.FrontendPlan, len(w.Frontends))}
		for i := range p.Frontends {
			p.Frontends[i].Shares = allowedShares(w, i, shares)
		}
		return p, nil
	}
}

// allowedShares are shares over the regions that frontend i may use.
func allowedShares(w *router.World, i int, shares []float64) []float64 {
	out, sum := make([]float64, len(shares)), 0.0
	for j, x := range shares {
		if _, ok := w.NetworkS(i, j); ok {
			out[j] = x
			sum += x
		}
	}
	for j := range out {
		if sum > 0 {
			out[j] /= sum
		}
	}
	return out
}

// foresight runs through a second copy of the sources ahead of the simulation, in
// memory that does not depend on how long that is.
type foresight []cursor

type cursor struct {
	next   Arrival
	ok     bool
	source func() (Arrival, bool)
}

func newForesight(sources []Source, seed uint64) foresight {
	var f foresight
	for k, s := range sources {
		rng := stream(seed, streamSource, k)
		c := cursor{source: func() (Arrival, bool) { return s.Next(rng) }}
		c.next, c.ok = c.source()
		f = append(f, c)
	}
	return f
}

// rates counts the arrivals by frontend until a moment and divides by the length of
// the epoch.
func (f foresight) rates(untilS, epochS float64, frontends int) []float64 {
	count := make([]float64, frontends)
	for k := range f {
		c := &f[k]
		for c.ok && c.next.AtS < untilS {
			if c.next.Frontend >= 0 && c.next.Frontend < frontends {
				count[c.next.Frontend]++
			}
			c.next, c.ok = c.source()
		}
	}
	for i := range count {
		count[i] = count[i] / epochS
	}
	return count
}
