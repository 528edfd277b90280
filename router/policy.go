package router

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Policy chooses a region for each request of one frontend. The caller gives it
// what it may see, time and chance; so the same code runs in the simulators and
// in a router. A Policy keeps state: it belongs to one frontend and is not safe
// for concurrent use.
type Policy interface {
	// Pick returns a usable region for r, or -1 where there is none. It keeps
	// nothing of v.
	Pick(r Request, v *View, rng *rand.Rand) int
	// Observe takes the outcome of an earlier pick.
	Observe(o Outcome)
}

// Request is what a policy knows of a request when it picks.
type Request struct {
	Seq  uint64  // counts the picks of the frontend; Outcome repeats it
	Key  uint64  // hash of the session; 0 = none
	Work float64 // expected work in units of a mean request; 0 = not known
}

// View is what a frontend knows when it picks. Slices are by region. Those that
// the policy's Sight does not include are nil.
type View struct {
	NowS     float64
	Usable   []bool    // allowed, and not known to be down; always there
	Own      []float64 // requests of this frontend that are in flight (SeesOwn)
	OwnWork  []float64 // and their expected work, in units of a mean request (SeesOwn)
	Workload []float64 // requests inside, as last heard (SeesWorkload)
	AgeS     []float64 // age of Workload (SeesWorkload)
}

// Outcome is the end of one request, as its frontend saw it.
type Outcome struct {
	Seq      uint64
	Region   int
	NowS     float64
	LatencyS float64 // from the pick to the answer, network both ways included
	Work     float64 // units of a mean request
	OK       bool    // false = the region failed it
}

// IdleObserver is a Policy that hears of free capacity, as join-idle-queue does.
type IdleObserver interface {
	// ObserveIdle says that the region had a free slot; valid until expiresS.
	ObserveIdle(region int, expiresS float64)
}

// PlanObserver is a Policy that follows new plans.
type PlanObserver interface {
	// SetPlan replaces the plan, which must not change any more.
	SetPlan(p *Plan)
}

// Sight is a set of things that a policy is allowed to see.
type Sight uint16

// What a policy may see besides which regions are usable and the outcomes of its
// own requests.
const (
	SeesNetwork  Sight = 1 << iota // one-way delays from its frontend
	SeesCapacity                   // the greatest rate of each region
	SeesService                    // the whole service-rate function of each region
	SeesDemand                     // arrival rates
	SeesPlan                       // the optimal shares for the planned demand
	SeesOwn                        // its own requests in flight
	SeesWorkload                   // requests inside each region, late
	SeesIdle                       // tokens of free slots
)

var sightNames = [...]string{"network", "capacity", "service", "demand", "plan", "own", "workload", "idle"}

// String lists what is seen, such as "network+own".
func (s Sight) String() string {
	var names []string
	for k, name := range sightNames {
		if s&(1<<k) != 0 {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, "+")
}

// PolicyInput is the standing knowledge that a policy is made with. Slices are by
// region and nil where the policy's Sight does not include them.
type PolicyInput struct {
	Frontend      int
	Regions       int
	OneWayS       []float64 // +Inf where not allowed (SeesNetwork)
	CapacityHz    []float64 // (SeesCapacity)
	Curves        []Curve   // how fast they serve (SeesService)
	Costs         []Curve   // what their service costs, as World.Curve (SeesService)
	RateHz        float64   // of this frontend (SeesDemand)
	DemandHz      float64   // of all frontends (SeesDemand)
	Plan          *Plan     // (SeesPlan)
	ShedPriceS    float64   // what a refused request costs; +Inf where none may be
	NetworkFactor float64   // one-way delays to network cost: 1, or 2 where the objective is the round trip
	Argument      float64   // the number in parentheses, or the default

	world *World // for policies built on what takes one; they read what the Sight includes
}

// PolicyKind is one policy that exists.
type PolicyKind struct {
	Name     string
	Sees     Sight
	Argument float64 // default of the number in parentheses
	Takes    string  // what that number is; empty = the policy takes none
	Doc      string
	make     func(in PolicyInput) (Policy, error)
	loop     func(w *World) Loop // what its control loop adds to the network's delays; nil = it has none
}

// LookupPolicy finds a policy by its name with an optional argument, such as
// "lc" or "pd(3)". The error lists the names.
func LookupPolicy(spec string) (PolicyKind, error) {
	name, rest, has := strings.Cut(spec, "(")
	kinds := Policies()
	i := slices.IndexFunc(kinds, func(k PolicyKind) bool { return k.Name == name })
	if i < 0 {
		names := make([]string, len(kinds))
		for n, k := range kinds {
			names[n] = k.Name
		}
		return PolicyKind{}, fmt.Errorf("policy %q: there is none of that name; write one of %s", spec, strings.Join(names, ", "))
	}
	k := kinds[i]
	if !has {
		return k, nil
	}
	text, closed := strings.CutSuffix(rest, ")")
	v, err := strconv.ParseFloat(text, 64)
	switch {
	case k.Takes == "":
		return PolicyKind{}, fmt.Errorf("policy %q: %s takes no argument", spec, name)
	case !closed || err != nil || !finite(v) || v < 0:
		return PolicyKind{}, fmt.Errorf("policy %q: write %s(%v), where the number is the %s", spec, name, k.Argument, k.Takes)
	}
	k.Argument = v
	return k, nil
}

// New makes the policy for frontend i of w. The plan may be nil where the policy
// does not see it. The policy gets what its Sight includes and nothing else.
func (k PolicyKind) New(w *World, p *Plan, i int) (Policy, error) {
	if k.Sees&SeesPlan != 0 && p == nil {
		return nil, fmt.Errorf("policy %s: needs a plan", k.Name)
	}
	return k.make(k.input(w, p, i))
}

// Prepare returns p with EtaMax for the control loop of the policy, whose state is
// stateAgeS old when it leaves a region. Without a loop it is p itself.
func (k PolicyKind) Prepare(w *World, p *Plan, stateAgeS float64) *Plan {
	if k.loop == nil || p == nil || p.Overloaded {
		return p
	}
	loop := k.loop(w)
	loop.StateAgeS = stateAgeS
	out := *p
	out.Frontends = slices.Clone(p.Frontends)
	for i, eta := range EtaMax(w, p, loop) {
		out.Frontends[i].EtaMax = eta
	}
	return &out
}

func (k PolicyKind) input(w *World, p *Plan, i int) PolicyInput {
	in := PolicyInput{Frontend: i, Regions: len(w.Regions), Argument: k.Argument, NetworkFactor: 1, ShedPriceS: math.Inf(1), world: w}
	if w.Objective.Shed != nil {
		in.ShedPriceS = w.Objective.Shed.PriceS
	}
	if w.Objective.Network == KindRTT {
		in.NetworkFactor = 2
	}
	for j, r := range w.Regions {
		if k.Sees&SeesNetwork != 0 {
			tau, _ := w.OneWayS(i, j)
			in.OneWayS = append(in.OneWayS, tau)
		}
		if k.Sees&SeesCapacity != 0 {
			in.CapacityHz = append(in.CapacityHz, r.Service.CapacityHz())
		}
		if k.Sees&SeesService != 0 {
			in.Curves, in.Costs = append(in.Curves, r.Service.Curve()), append(in.Costs, w.Curve(j))
		}
	}
	if k.Sees&SeesDemand != 0 {
		in.RateHz, in.DemandHz = w.Frontends[i].RateHz, w.DemandHz()
	}
	if k.Sees&SeesPlan != 0 {
		in.Plan = p
	}
	return in
}

// Policies lists every policy that a frontend can run, in the order of a report.
func Policies() []PolicyKind {
	return []PolicyKind{
		{Name: "random", Doc: "uniform over the usable regions", make: newRandom},
		{Name: "rr", Doc: "round robin over the usable regions", make: newRR},
		{Name: "swrr", Sees: SeesCapacity, Doc: "smooth weighted round robin by capacity (the algorithm of nginx)", make: newSWRR},
		{Name: "replicas", Sees: SeesCapacity, Doc: "random in proportion to capacity: the static baseline", make: newProportional},
		{Name: "nearest", Sees: SeesNetwork, Doc: "least network delay", make: newNearest},
		{Name: "waterfall", Sees: SeesNetwork | SeesService | SeesWorkload, Argument: 0.9, Takes: "utilisation at which a region is full", Doc: "nearest region that is not full, then spill", make: newWaterfall},
		{Name: "lc", Sees: SeesCapacity | SeesOwn, Doc: "least own requests in flight per capacity", make: newLC},
		{Name: "lw", Sees: SeesCapacity | SeesOwn, Doc: "least own outstanding work per capacity: lc in units of work", make: newLW},
		{Name: "sed", Sees: SeesNetwork | SeesOwn, Doc: "shortest expected delay: network plus own requests in flight times the observed seconds per unit of work", make: newSED},
		{Name: "pd", Sees: SeesNetwork | SeesCapacity | SeesWorkload, Argument: 2, Takes: "number of regions drawn", Doc: "best of d regions drawn in proportion to capacity", make: newPD},
		{Name: "jsq", Sees: SeesWorkload, Doc: "least requests inside, as last heard", make: newJSQ},
		{Name: "stale-jsq", Sees: SeesWorkload, Argument: 1, Takes: "age of a snapshot in seconds", Doc: "least requests inside in a snapshot that is renewed that often", make: newStaleJSQ},
		{Name: "li", Sees: SeesCapacity | SeesDemand | SeesWorkload, Argument: 0, Takes: "age of a snapshot in seconds", Doc: "load interpretation: fill the regions to a common level with what arrives while the report ages", make: newInterpreted},
		{Name: "jiq", Sees: SeesCapacity | SeesIdle, Doc: "a region whose token of a free slot is held, else random by capacity", make: newJIQ},
		{Name: "headroom", Sees: SeesService | SeesWorkload, Argument: 1, Takes: "seconds between polls", Doc: "random in proportion to spare capacity", make: newHeadroom},
		{Name: "latency", Sees: SeesNetwork | SeesService | SeesWorkload, Doc: "least expected latency: network plus requests inside over their rate; its equilibrium is the selfish (Wardrop) one", make: newLatency},
		{Name: "gmsr", Sees: SeesService | SeesWorkload, Doc: "greatest marginal service rate (arXiv 2411.17103); sees no network", make: newGMSR},
		{Name: "marginal", Sees: SeesNetwork | SeesService | SeesWorkload, Doc: "least marginal cost plus network, greedily", make: newMarginal},
		{Name: "admission", Sees: SeesNetwork | SeesService | SeesWorkload, Takes: "price in seconds above which requests are shed; 0 = that of the objective", Doc: "marginal, but sheds while its least cost is above a price", make: newAdmission},
		{Name: "learner", Argument: 4, Takes: "exponent of the choice", Doc: "own experience only: random in proportion to (smoothed time per unit of work)^-n", make: newLearner},
		{Name: "regret", Argument: 0.02, Takes: "step of the averages", Doc: "own experience only: modified regret matching with constant step", make: newRegret},
		{Name: "bandit", Argument: 0.05, Takes: "part of the requests that explore", Doc: "own experience only: epsilon-greedy on smoothed latency", make: newBandit},
		{Name: "split", Sees: SeesPlan, Doc: "the planned shares, drawn at random", make: newSplit},
		{Name: "plan", Sees: SeesPlan, Doc: "the planned shares, interleaved evenly", make: newPlanned},
		{Name: "dgd", Sees: SeesNetwork | SeesService | SeesWorkload | SeesPlan, Argument: DefaultStepFraction, Takes: "part of the safe step", Doc: "distributed gradient descent around the plan (DGD-LB, arXiv 2504.10693), its shares interleaved evenly", make: newDGDPolicy, loop: dgdLoop},
		{Name: "hash", Sees: SeesPlan, Doc: "the planned shares by weighted rendezvous hashing of the session: sessions stay put", make: newHashed},
	}
}

// base is a policy that learns nothing from outcomes.
type base struct{}

func (base) Observe(Outcome) {}

// leastOf returns the usable region with the least score; among equals it draws,
// since a fixed choice would send all frontends to the same one. NaN never wins.
func leastOf(usable []bool, rng *rand.Rand, score func(j int) float64) int {
	best, least, ties := -1, math.Inf(1), 0
	for j, ok := range usable {
		if !ok {
			continue
		}
		switch s := score(j); {
		case best < 0 || s < least:
			best, least, ties = j, s, 1
		case s == least:
			if ties++; rng.IntN(ties) == 0 {
				best = j
			}
		}
	}
	return best
}

// draw returns a usable region in proportion to the weights, uniform where no
// usable one has weight.
func draw(usable []bool, weights []float64, rng *rand.Rand) int {
	sum := 0.0
	for j, ok := range usable {
		if ok {
			sum += weights[j]
		}
	}
	if !(sum > 0) {
		return uniform(usable, rng)
	}
	last, u := -1, rng.Float64()*sum
	for j, ok := range usable {
		if ok && weights[j] > 0 {
			last = j
			if u -= weights[j]; u < 0 {
				return j
			}
		}
	}
	return last
}

func uniform(usable []bool, rng *rand.Rand) int {
	n := 0
	for _, ok := range usable {
		if ok {
			n++
		}
	}
	if n == 0 {
		return -1
	}
	k := rng.IntN(n)
	for j, ok := range usable {
		if ok {
			if k == 0 {
				return j
			}
			k--
		}
	}
	return -1
}

// SessionKey is the hash of session number n of a frontend, for callers whose
// sessions are numbers.
func SessionKey(frontend, n int) uint64 { return mix(mix(uint64(frontend)+1) ^ uint64(n)) }
