package sim

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"strandline/router"
)

// StateKind says how frontends learn how many requests are inside a region.
type StateKind string

// The ways in which workloads reach frontends.
const (
	StateDelayed StateKind = "delayed" // as it was one network delay ago, always (arXiv 2504.10693)
	StateReports StateKind = "reports" // the latest of the reports that regions send every ReportS, one network delay later
)

// Window is a span of simulated time.
type Window struct{ FromS, ToS float64 }

// Outage is a window in which a region is dead: what is inside is lost, what
// reaches it is refused.
type Outage struct {
	Region int
	Window
}

// Epoch is what a planner may know at the beginning of an epoch.
type Epoch struct {
	Index  int
	StartS float64
	SeenHz []float64 // arrivals by frontend in the epoch before; nil in the first
	Down   []bool    // by region, as detected

	// By region, of the requests that were done in the epoch before: their mean
	// latency, NaN where there were none, and the part of all picks that it got.
	LatencyS []float64
	Share    []float64
}

// Config describes one run of the event simulator. The zero values of what is
// optional are usable.
type Config struct {
	World   *router.World
	Plan    *router.Plan // what policies that see the plan start with; nil = the optimum of World
	Policy  string       // as router.LookupPolicy reads it
	Sources []Source     // used up by the run; nil = Poisson arrivals and exponential work by World
	Seed    uint64

	DurationS float64 // of simulated time, warm-up included
	WarmupS   float64 // not measured
	Exclude   []Window
	Batches   int // of the measured time, for confidence intervals; 0 means 20

	State   StateKind // empty = StateDelayed
	ReportS float64   // 0 means 1

	// Truth is the rate at which a region completes work with that many requests
	// inside, where it is another than the one of World, which policies go by; nil =
	// the same.
	Truth func(region, inside int) float64

	Outages []Outage
	DetectS float64 // from the beginning or end of an outage until frontends know
	Retries int     // further regions that a failed request is sent to

	DNS *DNS // clients are steered by names; nil = each request is routed

	// Planner makes a plan at the beginning of each epoch for policies that follow
	// plans; a nil plan keeps the old one. nil = none.
	Planner func(Epoch) (*router.Plan, error)
	EpochS  float64 // 0 means 10

	// Continue is asked at the beginning of each epoch; false stops the run, which
	// returns ErrStopped. nil = always.
	Continue func(nowS float64) bool
}

// ErrStopped is returned by a run that Config.Continue has stopped.
var ErrStopped = errors.New("sim: stopped")

// Run simulates requests one by one. The same configuration gives the same bits.
// It works in memory that depends on the number of requests in the system, not on
// DurationS.
//
// Latency is counted when a region has done the request: from its entry at the
// frontend, with the network one way or both as the objective of World says.
func Run(c Config) (*Result, error) {
	s, err := newSimulator(c)
	if err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	if err := s.run(); err != nil {
		return nil, err
	}
	return s.result(), nil
}

// tokenS is what a token of a free slot is valid for, beyond two round trips; a
// region renews those that have expired as often.
const tokenS = 0.1

// sampleS is the time between two samples of the workloads, seconds.
const sampleS = 1

// frontend is one policy with what it knows.
type frontend struct {
	policy  router.Policy
	idle    router.IdleObserver // nil where it does not listen
	rng     *rand.Rand
	view    router.View
	usable  []bool
	own     []float64
	ownWork []float64
	tauS    []float64 // +Inf where not allowed
	names   *resolvers
	seq     uint64
	arrived uint64    // in this epoch
	recent  float64   // arrivals, halved every epoch: who gets tokens
	sent    []float64 // by region in this epoch
	before  []float64 // and in the last
}

// job is a request in the system.
type job struct {
	bornS, sentS  float64
	work, prefill float64
	seq, key      uint64
	frontend      int32
	region        int32
	failed        int32 // the region that failed it last; -1 = none
	resolver      int32
	tries         int32
	ok            bool
}

type simulator struct {
	Config
	kind      router.PolicyKind
	nowS      float64
	queue     eventHeap
	ends      *tournament
	regions   []region
	frontends []frontend
	streams   []*rand.Rand // of the sources
	next      []Arrival    // of the sources
	jobs      []job
	free      []int32
	tokens    *rand.Rand
	oldestS   float64 // how far back workloads are asked for
	rtt       bool    // latency counts the way back
	down      []bool  // as detected
	epoch     int
	totals    totals
}

func newSimulator(c Config) (*simulator, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	kind, err := router.LookupPolicy(c.Policy)
	if err != nil {
		return nil, err
	}
	if c.Sources == nil {
		if c.Sources, err = Sources(Poisson(c.World)); err != nil {
			return nil, err
		}
	}
	if c.Plan == nil && kind.Sees&router.SeesPlan != 0 {
		if c.Plan, err = router.Replan(c.World, nil); err != nil {
			return nil, err
		}
	}
	c.Plan = kind.Prepare(c.World, c.Plan, c.stateAgeS())
	s := &simulator{Config: c, kind: kind, ends: newTournament(len(c.World.Regions)), down: make([]bool, len(c.World.Regions)),
		rtt: c.World.Objective.Network == router.KindRTT, tokens: stream(c.Seed, streamTokens, 0)}
	s.setRegions()
	if err := s.setFrontends(); err != nil {
		return nil, err
	}
	s.totals = newTotals(len(s.regions), c.Batches)
	s.schedule()
	return s, nil
}

// Streams of chance, each with its own numbers below.
const (
	streamSource = iota + 1
	streamPolicy
	streamNames
	streamTokens
)

func stream(seed uint64, kind, n int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(kind)<<32|uint64(n)))
}

func (c *Config) check() error {
	if c.World == nil {
		return errors.New("there is no world")
	}
	if err := c.World.Validate(); err != nil {
		return err
	}
	if c.Batches == 0 {
		c.Batches = 20
	}
	if c.EpochS == 0 {
		c.EpochS = 10
	}
	if c.ReportS == 0 {
		c.ReportS = 1
	}
	if c.State == "" {
		c.State = StateDelayed
	}
	positive := func(v float64) bool { return v > 0 && !math.IsInf(v, 1) }
	switch {
	case !positive(c.DurationS):
		return fmt.Errorf("a duration of %v seconds; write one above 0", c.DurationS)
	case !(c.WarmupS >= 0 && c.WarmupS < c.DurationS):
		return fmt.Errorf("a warm-up of %v seconds; write one from 0 to below the duration of %v", c.WarmupS, c.DurationS)
	case !positive(c.EpochS) || c.DurationS/c.EpochS > 1e9:
		return fmt.Errorf("epochs of %v seconds", c.EpochS)
	case !positive(c.ReportS) || c.DurationS/c.ReportS > 1e9:
		return fmt.Errorf("reports every %v seconds", c.ReportS)
	case !(c.DetectS >= 0) || math.IsInf(c.DetectS, 1):
		return fmt.Errorf("detection after %v seconds", c.DetectS)
	case c.Batches < 2 || c.Batches > 10_000:
		return fmt.Errorf("%d batches; write 2 to 10000", c.Batches)
	case c.Retries < 0:
		return fmt.Errorf("%d retries", c.Retries)
	case c.State != StateDelayed && c.State != StateReports:
		return fmt.Errorf("unknown state %q; write delayed or reports", c.State)
	case len(c.Sources) >= mostIndex || len(c.World.Frontends) >= mostIndex || len(c.World.Regions) >= mostIndex:
		return fmt.Errorf("more than %d sources, frontends or regions", mostIndex)
	}
	for k, o := range c.Outages {
		if o.Region < 0 || o.Region >= len(c.World.Regions) || !(o.FromS >= 0 && o.ToS > o.FromS) {
			return fmt.Errorf("outage %d: region %d from %v to %v", k, o.Region, o.FromS, o.ToS)
		}
	}
	for k, w := range c.Exclude {
		if !(w.ToS > w.FromS) {
			return fmt.Errorf("excluded window %d: from %v to %v", k, w.FromS, w.ToS)
		}
	}
	if len(measured(*c)) == 0 {
		return errors.New("the excluded windows leave nothing to measure")
	}
	if c.DNS != nil {
		return c.DNS.check()
	}
	return nil
}

// stateAgeS is the mean age of a workload when it leaves its region.
func (c *Config) stateAgeS() float64 {
	if c.State == StateReports {
		return c.ReportS / 2
	}
	return 0
}

func (s *simulator) setRegions() {
	s.regions = make([]region, len(s.World.Regions))
	for j, r := range s.World.Regions {
		g := &s.regions[j]
		curve := r.Service.Curve()
		g.rateHz = func(n int) float64 { return curve.RateHz(float64(n)) }
		if s.Truth != nil {
			g.rateHz = func(n int) float64 { return s.Truth(j, n) }
		}
		g.up = true
		if s.kind.Sees&router.SeesIdle != 0 {
			// A region has a free slot while it runs below half its capacity.
			g.slots = max(1, int(math.Ceil(curve.Workload(curve.CapacityHz()/2))))
		}
	}
}

func (s *simulator) setFrontends() error {
	n := len(s.regions)
	s.frontends = make([]frontend, len(s.World.Frontends))
	for i := range s.frontends {
		f := &s.frontends[i]
		p, err := s.kind.New(s.World, s.Plan, i)
		if err != nil {
			return err
		}
		f.policy, f.rng = p, stream(s.Seed, streamPolicy, i)
		f.idle, _ = p.(router.IdleObserver)
		f.usable, f.own, f.ownWork, f.tauS = make([]bool, n), make([]float64, n), make([]float64, n), make([]float64, n)
		f.sent, f.before, f.recent = make([]float64, n), make([]float64, n), 1
		for j := range n {
			f.tauS[j], f.usable[j] = s.World.OneWayS(i, j)
			if f.usable[j] {
				s.oldestS = max(s.oldestS, f.tauS[j])
			}
		}
		f.view.Usable = f.usable
		if s.kind.Sees&router.SeesOwn != 0 {
			f.view.Own, f.view.OwnWork = f.own, f.ownWork
		}
		if s.kind.Sees&router.SeesWorkload != 0 {
			f.view.Workload, f.view.AgeS = make([]float64, n), make([]float64, n)
		}
		if s.DNS != nil {
			f.names = newResolvers(*s.DNS, i, stream(s.Seed, streamNames, i))
		}
	}
	return nil
}

// schedule puts the first events into the queue.
func (s *simulator) schedule() {
	s.next = make([]Arrival, len(s.Sources))
	for k := range s.Sources {
		s.streams = append(s.streams, stream(s.Seed, streamSource, k))
		s.fetch(k)
	}
	for _, o := range s.Outages {
		s.queue.push(newEvent(o.FromS, onDown, o.Region, 0))
		s.queue.push(newEvent(o.FromS+s.DetectS, onDetectDown, o.Region, 0))
		if o.ToS <= s.DurationS {
			s.queue.push(newEvent(o.ToS, onUp, o.Region, 0))
			s.queue.push(newEvent(o.ToS+s.DetectS, onDetectUp, o.Region, 0))
		}
	}
	for _, m := range marks(s.Config) {
		s.queue.push(m)
	}
	s.queue.push(newEvent(0, onEpoch, 0, 0))
	s.queue.push(newEvent(sampleS, onSample, 0, 0))
	if s.State == StateReports && s.kind.Sees&router.SeesWorkload != 0 {
		s.queue.push(newEvent(0, onReport, 0, 0))
	}
	if s.kind.Sees&router.SeesIdle != 0 {
		s.queue.push(newEvent(0, onRenew, 0, 0))
	}
}

// fetch takes the next arrival of source k.
func (s *simulator) fetch(k int) {
	if a, ok := s.Sources[k].Next(s.streams[k]); ok {
		s.next[k] = a
		s.queue.push(newEvent(a.AtS, onArrival, k, 0))
	}
}

func (s *simulator) run() error {
	for {
		j, endS := s.ends.least()
		if len(s.queue) > 0 && s.queue[0].at <= endS {
			if s.queue[0].at > s.DurationS {
				return nil
			}
			e := s.queue.pop()
			s.nowS = e.at
			if err := s.handle(e); err != nil {
				return err
			}
		} else {
			if endS > s.DurationS {
				return nil
			}
			s.nowS = endS
			s.milestone(j)
		}
		s.totals.events++
	}
}

func (s *simulator) handle(e event) error {
	switch e.kind() {
	case onArrival:
		return s.arrive(e.index())
	case onReach:
		return s.reach(e.job)
	case onReply:
		return s.reply(e.job)
	case onToken:
		if f := &s.frontends[e.index()]; f.idle != nil {
			f.idle.ObserveIdle(int(e.job), s.nowS+3*f.tauS[e.job]+tokenS) // sent one delay ago
		}
	case onDown:
		s.fail(e.index())
	case onUp:
		s.regions[e.index()].up = true
	case onDetectDown:
		s.setDown(e.index(), true)
	case onDetectUp:
		s.setDown(e.index(), false)
	case onReport:
		s.report()
	case onRenew:
		for j := range s.regions {
			s.offerSlots(j)
		}
		s.queue.push(newEvent(s.nowS+tokenS, onRenew, 0, 0))
	case onEpoch:
		return s.startEpoch()
	case onSample:
		s.sample()
	case onMeasure:
		s.settle()
		s.totals.measure(e.job != 0, s.regions)
	case onBatch:
		s.settle()
		s.totals.endBatch(s.regions)
	}
	return nil
}

// settle brings the integrals of all regions up to now.
func (s *simulator) settle() {
	for j := range s.regions {
		s.regions[j].advance(s.nowS)
	}
}

func (s *simulator) arrive(source int) error {
	a := s.next[source]
	s.fetch(source)
	if a.Frontend < 0 || a.Frontend >= len(s.frontends) || !(a.Work > 0) || math.IsInf(a.Work, 1) {
		return fmt.Errorf("sim: source %d: an arrival at frontend %d with work %v", source, a.Frontend, a.Work)
	}
	f := &s.frontends[a.Frontend]
	f.arrived++
	f.recent++
	k := s.newJob()
	s.jobs[k] = job{bornS: s.nowS, work: a.Work, prefill: a.Prefill, key: a.Key, frontend: int32(a.Frontend), failed: -1, resolver: -1}
	if f.names != nil {
		s.jobs[k].resolver = int32(f.names.choose())
	}
	if s.totals.measuring {
		s.totals.arrived++
	}
	return s.send(k)
}

func (s *simulator) newJob() int32 {
	if n := len(s.free); n > 0 {
		k := s.free[n-1]
		s.free = s.free[:n-1]
		return k
	}
	s.jobs = append(s.jobs, job{})
	return int32(len(s.jobs) - 1)
}

// send chooses a region and puts the request on its way; without one it is shed.
func (s *simulator) send(k int32) error {
	b := &s.jobs[k]
	f := &s.frontends[b.frontend]
	j := s.choose(f, b)
	if j < 0 {
		if s.totals.measuring {
			s.totals.shed++
		}
		s.free = append(s.free, k)
		return nil
	}
	if j >= len(f.usable) || math.IsInf(f.tauS[j], 1) {
		return fmt.Errorf("sim: policy %s picked region %d, which frontend %d may not use", s.Policy, j, b.frontend)
	}
	b.region, b.sentS = int32(j), s.nowS
	b.tries++
	f.own[j]++
	f.ownWork[j] += b.work
	f.sent[j]++
	s.queue.push(newEvent(s.nowS+f.tauS[j], onReach, 0, k))
	return nil
}

// choose asks the policy, or the resolver that still holds an answer. A request
// that a region has failed avoids it where another is left.
func (s *simulator) choose(f *frontend, b *job) int {
	key := b.key
	if f.names != nil {
		r := int(b.resolver)
		if held := f.names.region[r]; held >= 0 && s.nowS < f.names.expires[r] && held != b.failed {
			return int(held)
		}
		key = f.names.key[r]
	}
	if b.failed >= 0 && f.usable[b.failed] {
		f.usable[b.failed] = false
		defer func() { f.usable[b.failed] = true }()
		if !slices.Contains(f.usable, true) {
			f.usable[b.failed] = true
		}
	}
	f.seq++
	b.seq = f.seq
	s.look(f)
	j := f.policy.Pick(router.Request{Seq: b.seq, Key: key, Work: b.work}, &f.view, f.rng)
	if f.names != nil && j >= 0 {
		f.names.hold(int(b.resolver), j, s.nowS)
	}
	return j
}

// look fills the view of a frontend.
func (s *simulator) look(f *frontend) {
	f.view.NowS = s.nowS
	for j := range f.view.Workload {
		tau := f.tauS[j]
		if math.IsInf(tau, 1) {
			continue
		}
		g := &s.regions[j]
		switch {
		case s.State == StateReports:
			n, setS := g.reports.look(s.nowS - tau)
			f.view.Workload[j], f.view.AgeS[j] = n, s.nowS-max(setS, 0)
		case tau == 0:
			f.view.Workload[j], f.view.AgeS[j] = float64(g.inside), 0
		default:
			n, _ := g.history.look(s.nowS - tau)
			f.view.Workload[j], f.view.AgeS[j] = n, tau
		}
	}
}

// changed notes a new workload of region j, for looks at the past, and when its
// next job is due.
func (s *simulator) changed(j int) {
	g := &s.regions[j]
	s.ends.set(j, g.nextS())
	if s.oldestS > 0 && s.State == StateDelayed && s.kind.Sees&router.SeesWorkload != 0 {
		g.history.add(s.nowS, float64(g.inside), s.nowS-s.oldestS)
	}
}

func (s *simulator) reach(k int32) error {
	b := &s.jobs[k]
	j := int(b.region)
	g := &s.regions[j]
	if !g.up {
		b.ok = false
		s.queue.push(newEvent(s.nowS+s.frontends[b.frontend].tauS[j], onReply, 0, k))
		return nil
	}
	if s.totals.measuring {
		g.reached++
	}
	if len(g.offered) > 0 { // a token has been used
		g.offered = g.offered[1:]
	}
	g.advance(s.nowS)
	if b.prefill > 0 && b.prefill < 1 {
		g.enter(k, b.prefill*b.work, onFirstToken)
	} else {
		g.enter(k, b.work, onEnd)
	}
	s.changed(j)
	return nil
}

// milestone handles the first token or the end of the job that is due in region j.
func (s *simulator) milestone(j int) {
	g := &s.regions[j]
	g.advance(s.nowS)
	e := g.jobs.pop()
	b := &s.jobs[e.job]
	f := &s.frontends[b.frontend]
	latency := s.nowS - b.bornS
	if s.rtt {
		latency += f.tauS[j]
	}
	if e.kind() == onFirstToken {
		s.totals.firstToken(latency)
		g.jobs.push(newEvent(e.at+(1-b.prefill)*b.work, onEnd, 0, e.job))
		s.ends.set(j, g.nextS())
		return
	}
	if b.prefill >= 1 {
		s.totals.firstToken(latency)
	}
	g.inside--
	s.changed(j)
	s.totals.done(latency)
	g.epochS += latency
	g.epochDone++
	b.ok = true
	s.queue.push(newEvent(s.nowS+f.tauS[j], onReply, 0, e.job))
	if g.slots > 0 {
		s.offerSlots(j)
	}
}

func (s *simulator) reply(k int32) error {
	b := &s.jobs[k]
	f := &s.frontends[b.frontend]
	f.own[b.region]--
	f.ownWork[b.region] -= b.work
	if f.own[b.region] == 0 {
		f.ownWork[b.region] = 0 // without what rounding has left
	}
	f.policy.Observe(router.Outcome{Seq: b.seq, Region: int(b.region), NowS: s.nowS, LatencyS: s.nowS - b.sentS, Work: b.work, OK: b.ok})
	if b.ok {
		s.free = append(s.free, k)
		return nil
	}
	if int(b.tries) <= s.Retries {
		if s.totals.measuring {
			s.totals.retried++
		}
		b.failed = b.region
		return s.send(k)
	}
	if s.totals.measuring {
		s.totals.failed++
	}
	s.free = append(s.free, k)
	return nil
}

// fail loses what is inside region j.
func (s *simulator) fail(j int) {
	g := &s.regions[j]
	g.advance(s.nowS)
	for _, e := range g.jobs {
		b := &s.jobs[e.job]
		b.ok = false
		s.queue.push(newEvent(s.nowS+s.frontends[b.frontend].tauS[j], onReply, 0, e.job))
	}
	g.jobs, g.inside, g.up = g.jobs[:0], 0, false
	s.changed(j)
}

func (s *simulator) setDown(j int, down bool) {
	s.down[j] = down
	for i := range s.frontends {
		f := &s.frontends[i]
		f.usable[j] = !down && !math.IsInf(f.tauS[j], 1)
	}
}

func (s *simulator) report() {
	for j := range s.regions {
		g := &s.regions[j]
		g.reports.add(s.nowS, float64(g.inside), s.nowS-s.oldestS)
	}
	s.queue.push(newEvent(s.nowS+s.ReportS, onReport, 0, 0))
}

// offerSlot sends a token to a frontend drawn in proportion to its recent
// arrivals, since idle frontends would hoard them (arXiv 1706.01059).
func (s *simulator) offerSlot(j int) {
	if !s.regions[j].up {
		return
	}
	sum := 0.0
	for i := range s.frontends {
		if !math.IsInf(s.frontends[i].tauS[j], 1) {
			sum += s.frontends[i].recent
		}
	}
	u := s.tokens.Float64() * sum
	for i := range s.frontends {
		f := &s.frontends[i]
		if math.IsInf(f.tauS[j], 1) {
			continue
		}
		if u -= f.recent; u < 0 {
			s.queue.push(newEvent(s.nowS+f.tauS[j], onToken, i, int32(j)))
			s.regions[j].offered = append(s.regions[j].offered, s.nowS+4*f.tauS[j]+tokenS)
			return
		}
	}
}

// offerSlots sends a token for each free slot of region j without a live one.
func (s *simulator) offerSlots(j int) {
	g := &s.regions[j]
	live := g.offered[:0]
	for _, expiresS := range g.offered {
		if expiresS > s.nowS {
			live = append(live, expiresS)
		}
	}
	g.offered = live
	for range g.slots - g.inside - len(live) {
		s.offerSlot(j)
	}
}

func (s *simulator) sample() {
	if s.totals.measuring {
		s.totals.sample(s.regions)
	}
	s.queue.push(newEvent(s.nowS+sampleS, onSample, 0, 0))
}

func (s *simulator) startEpoch() error {
	if s.Continue != nil && !s.Continue(s.nowS) {
		return ErrStopped
	}
	if err := s.replan(); err != nil {
		return err
	}
	for i := range s.frontends {
		f := &s.frontends[i]
		if s.totals.measuring {
			s.totals.move(f.before, f.sent)
		}
		f.before, f.sent = f.sent, f.before
		clear(f.sent)
		f.arrived, f.recent = 0, max(1, f.recent/2)
	}
	s.epoch++
	s.queue.push(newEvent(float64(s.epoch)*s.EpochS, onEpoch, 0, 0))
	return nil
}

// epochLatency is Epoch.LatencyS; it starts the next epoch.
func (s *simulator) epochLatency() []float64 {
	mean := make([]float64, len(s.regions))
	for j := range s.regions {
		g := &s.regions[j]
		mean[j] = g.epochS / g.epochDone
		g.epochS, g.epochDone = 0, 0
	}
	return mean
}

func (s *simulator) epochShares() []float64 {
	share, all := make([]float64, len(s.regions)), 0.0
	for i := range s.frontends {
		for j, n := range s.frontends[i].sent {
			share[j] += n
			all += n
		}
	}
	for j := range share {
		share[j] /= max(all, 1)
	}
	return share
}

func (s *simulator) replan() error {
	if s.Planner == nil {
		return nil
	}
	if _, ok := s.frontends[0].policy.(router.PlanObserver); !ok {
		return nil
	}
	e := Epoch{Index: s.epoch, StartS: s.nowS, Down: slices.Clone(s.down), LatencyS: s.epochLatency(), Share: s.epochShares()}
	if s.epoch > 0 {
		for i := range s.frontends {
			e.SeenHz = append(e.SeenHz, float64(s.frontends[i].arrived)/s.EpochS)
		}
	}
	p, err := s.Planner(e)
	if err != nil || p == nil {
		return err
	}
	p = s.kind.Prepare(s.World, p, s.stateAgeS())
	for i := range s.frontends {
		s.frontends[i].policy.(router.PlanObserver).SetPlan(p)
	}
	return nil
}
