package analysis

import (
	"slices"

	"strandline/datasets"
)

// The defaults of PathsOptions.
const (
	DefaultGraphConfidence = 95 // percent
	DefaultMaxProbes       = 5000
	defaultPathsAttempts   = 3
	defaultPathsWindow     = 64
)

// PathsOptions say what Paths looks for and how hard it tries. A field of zero,
// or less, takes its default.
type PathsOptions struct {
	Confidence float64  // percent, below 100, that the whole graph is complete; default 95
	Branching  int      // routers that may balance, for the bound on the graph; default: those found, and one more. 1 makes Confidence that of each router
	MinShare   float64  // smallest share of a next hop that must not be missed, however uneven the others; default: they are equally likely
	Rule       StopRule // default StopSequential
	FirstTTL   int      // TTL of the nearest hop asked; default 1
	MaxTTL     int      // largest TTL asked; default 30, at most 255
	Attempts   int      // probes of a flow to one TTL before it counts as silent there; default 3, twice that where others were answered
	GapLimit   int      // silent TTLs in a row, after the last answered one, that end the paths; default 5
	Window     int      // probes that may be outstanding at once; default 64
	MaxProbes  int      // when to give up; default 5000

	// Vary is the field in which the flows differ, for the balancers' Fields. Test
	// are the fields tried by themselves afterwards; none, no such tests.
	Vary datasets.Field
	Test []datasets.Field
}

// withDefaults returns o with its unset fields filled.
func (o PathsOptions) withDefaults() PathsOptions {
	t := TraceOptions{FirstTTL: o.FirstTTL, MaxTTL: o.MaxTTL, GapLimit: o.GapLimit}.withDefaults()
	o.FirstTTL, o.MaxTTL, o.GapLimit = t.FirstTTL, t.MaxTTL, t.GapLimit
	if !(o.Confidence > 0 && o.Confidence < 100) {
		o.Confidence = DefaultGraphConfidence
	}
	fill := func(v *int, def int) {
		if *v <= 0 {
			*v = def
		}
	}
	fill(&o.Attempts, defaultPathsAttempts)
	fill(&o.Window, defaultPathsWindow)
	fill(&o.MaxProbes, DefaultMaxProbes)
	return o
}

// alpha is the probability with which the graph may be incomplete.
func (o *PathsOptions) alpha() float64 { return 1 - o.Confidence/100 }

// Flow is the identity of a flow: what its header fields are is the caller's
// affair. Flows with different Index and no Field differ in PathsOptions.Vary.
// With a Field, a flow is like the one of the same Index but for that field, of
// which it has the Value-th other value, from 1.
type Flow struct {
	Index uint32
	Field datasets.Field
	Value uint32
}

// PathProbe is one probe that Paths asks for. The sample that reports its outcome
// carries the same TTL and Seq.
type PathProbe struct {
	Seq  uint32 // from 0, over all probes
	Flow Flow
	TTL  uint8
}

// PathCounts counts probes by what they were for: finding hops and links,
// classing balancers, testing fields.
type PathCounts struct {
	Discovery, Class, Fields int
}

// Total is all probes.
func (c PathCounts) Total() int { return c.Discovery + c.Class + c.Fields }

// Paths decides which probes are needed to find every path to one target, and
// what its balancers are: the multipath detection algorithm (Augustin, Friedman,
// Teixeira, "Measuring load-balanced paths in the Internet", IMC 2007) with node
// control, for a failure probability of the whole graph. How probes look and when
// they time out is the caller's affair.
//
// A router is done when n_k flows, known to pass it, have shown k next hops.
// Three things make that cheaper than tracing router by router. A flow that is
// known somewhere is asked next to where it is known, so that one answer both
// ends a link and begins another. A router that is reached at several TTLs is one
// router: all flows through it count together, since a balancer does not hash the
// TTL. And missing flows for all routers of one TTL are sought together.
//
// The bound on the graph adapts. With b balancers found, a router with one next
// hop must be certain up to 1-(1-alpha)^(1/(b+1)), because it would be one more,
// and the others up to 1-(1-alpha)^(1/b). If the graph has B balancers and m of
// them were missed, each had at most alpha/(B-m+1); the sum over all sets is alpha
// for m = 1 and less than alpha^m beyond.
//
// Where packets of one flow take different ways, links between what they pass
// cannot be told: from such a per-packet balancer on, up to where the ways meet
// again, only the sets of hops are known, and no link is drawn.
//
// A Paths belongs to one goroutine.
type Paths struct {
	opt         PathsOptions
	flows       []*flowCells // the first are those of the discovery
	variants    map[Flow]*flowCells
	probes      []sentProbe
	levels      []level // by TTL
	highest     int     // the highest answered TTL; FirstTTL-1 before the first answer
	outstanding int
	heard       int // outcomes since the last survey
	counts      PathCounts
	stops       map[int]*Stops // by the number of balancers
	decided     map[place]*decision
	tests       map[fieldTest]*fieldResult
	branching   int
	sole        map[place]place // routers that are certain to have one next hop, and that
	unique      []place         // by TTL, the router that every flow passes there
	dark        []bool          // by TTL, whether nobody answers there
	changes     int             // of routes
	starved     bool
	silent      bool            // what is behind some silent router rests on few flows
	subject     datasets.Sample // any one: whose paths these are
	exhausted   bool            // MaxProbes were sent
	done        bool
}

// purpose says what a probe is for.
type purpose uint8

const (
	forDiscovery purpose = iota
	forClass
	forFields
)

// sentProbe is where the outcome of a probe goes; nil once it is known.
type sentProbe struct {
	cell *cell
	ttl  uint8
}

// level counts what is known about one TTL.
type level struct{ answered, failed int }

// flowCells is what happened to one flow, by TTL.
type flowCells struct {
	Flow
	cells []cell
}

// cell is what happened to one flow at one TTL.
type cell struct {
	asked, waiting int
	answers        []answer // in the order sent
}

// answer is a reply or an ICMP error.
type answer struct {
	seq     uint32
	sample  datasets.Sample
	reached bool // from the target
	refused bool // unreachable, from somebody else
	expired bool // quotes a probe whose TTL had run out before: whoever sent it may stand one further
}

// NewPaths returns a Paths at its start.
func NewPaths(o PathsOptions) *Paths {
	o = o.withDefaults()
	return &Paths{
		opt: o, levels: make([]level, o.MaxTTL+2), highest: o.FirstTTL - 1,
		variants: map[Flow]*flowCells{}, stops: map[int]*Stops{},
		decided: map[place]*decision{}, sole: map[place]place{}, unique: make([]place, o.MaxTTL+2), dark: make([]bool, o.MaxTTL+2), tests: map[fieldTest]*fieldResult{},
	}
}

// Next appends to dst the probes that may be sent now and counts them as
// outstanding until Observe hears of them. It may append nothing although more
// are to come when it has heard of few outcomes since it last asked.
func (p *Paths) Next(dst []PathProbe) []PathProbe {
	if p.done || p.outstanding > 0 && p.heard*2 < p.outstanding {
		return dst
	}
	p.heard = 0
	for a := (asker{p, &dst}); ; {
		sent, known := len(p.probes), p.findings()
		if !a.plan() {
			p.done = true
		}
		if p.done || len(p.probes) > sent || p.outstanding > 0 {
			return dst
		}
		// Nothing is under way: unless something was found out, nothing will change.
		p.done = p.findings() == known
	}
}

// findings counts what was decided.
func (p *Paths) findings() int {
	n := len(p.decided) + p.changes + len(p.tests)
	for _, t := range p.tests {
		if t.known {
			n++
		}
	}
	return n
}

// plan asks for what is missing and reports whether anything is.
func (a *asker) plan() bool {
	sent := len(a.probes)
	exploring := a.explore()
	a.base()
	s := a.survey()
	a.demand(s)
	busy := exploring || s.pending > 0 || len(a.probes) > sent
	busy = a.classes(s) || busy
	return busy || a.fields(s)
}

// Observe takes in the outcome of one probe: a reply, an ICMP error, a timeout or
// a refusal to send, the latter two being silence. Outcomes of probes that Next
// never gave, or that were heard of, are ignored.
func (p *Paths) Observe(s datasets.Sample) {
	if int64(s.Seq) >= int64(len(p.probes)) || p.probes[s.Seq].cell == nil || p.probes[s.Seq].ttl != s.TTL {
		return
	}
	c, at := p.probes[s.Seq].cell, &p.levels[s.TTL]
	p.probes[s.Seq].cell, p.subject = nil, s
	c.waiting--
	p.outstanding--
	p.heard++
	if !s.Outcome.Answered() {
		at.failed++
		return
	}
	at.answered++
	p.highest = max(p.highest, int(s.TTL))
	a := answer{seq: s.Seq, sample: s, reached: fromTarget(s)}
	quotes := s.Outcome != datasets.OutcomeReply || s.Proto == datasets.ProtoUDP // an echo reply does not
	a.expired = quotes && s.QuotedTTL == 0
	a.refused = s.Outcome == datasets.OutcomeUnreachable && !a.reached
	i, _ := slices.BinarySearchFunc(c.answers, a, func(x, y answer) int { return int(int64(x.seq) - int64(y.seq)) })
	c.answers = slices.Insert(c.answers, i, a)
}

// Done reports whether everything promised is known, or MaxProbes were sent.
// Probes beyond the ends of paths may still be outstanding; they change nothing.
func (p *Paths) Done() bool { return p.done }

// need returns how many flows must have passed a router with k known next hops.
func (p *Paths) need(k int) int {
	n := p.stop(k).At(max(k, 1))
	if p.opt.MinShare > 0 {
		n = max(n, ShareFlows(p.epsilon(k), p.opt.MinShare))
	}
	return n
}

// hypotheses is the number of balancers that the bound for a router with k known
// next hops must hold for.
func (p *Paths) hypotheses(k int) int {
	switch {
	case p.opt.Branching > 0:
		return p.opt.Branching
	case k < 2:
		return p.branching + 1
	}
	return max(p.branching, 1)
}

// epsilon is the failure probability of one router with k known next hops.
func (p *Paths) epsilon(k int) float64 { return GraphEpsilon(p.opt.alpha(), p.hypotheses(k)) }

func (p *Paths) stop(k int) *Stops {
	b := p.hypotheses(k)
	if p.stops[b] == nil {
		p.stops[b] = NewStops(p.opt.Rule, p.epsilon(k))
	}
	return p.stops[b]
}

// flow returns the i-th flow of the discovery, which may be new.
func (p *Paths) flow(i int) *flowCells {
	for len(p.flows) <= i {
		p.flows = append(p.flows, p.newFlow(Flow{Index: uint32(len(p.flows))}))
	}
	return p.flows[i]
}

func (p *Paths) newFlow(f Flow) *flowCells {
	return &flowCells{Flow: f, cells: make([]cell, p.opt.MaxTTL+2)}
}

// mute reports whether nobody answers at a TTL, so that asking more flows there
// is pointless.
func (p *Paths) mute(ttl int) bool {
	const enough = 6
	return p.levels[ttl].answered == 0 && p.levels[ttl].failed >= enough
}

// knowledge is what is known about a flow at a TTL.
type knowledge uint8

const (
	unasked  knowledge = iota
	awaited            // a probe is under way
	lost               // unanswered, but to be tried again
	silent             // nobody answers
	answered           // somebody did
)

// know returns what is known about a flow at a TTL.
func (p *Paths) know(f *flowCells, ttl int) knowledge {
	c := &f.cells[ttl]
	switch {
	case len(c.answers) > 0:
		return answered
	case c.waiting > 0:
		return awaited
	case p.mute(ttl):
		return silent
	case c.asked == 0:
		return unasked
	case c.asked < p.attempts(ttl):
		return lost
	}
	return silent
}

// attempts is how often a flow is tried at a TTL: more often where others were
// answered, since loss is likelier there than a silent router.
func (p *Paths) attempts(ttl int) int {
	if p.levels[ttl].answered > 0 {
		return 2 * p.opt.Attempts
	}
	return p.opt.Attempts
}

// ends reports whether a flow's path ends at a TTL.
func (f *flowCells) ends(ttl int) bool {
	c := &f.cells[ttl]
	return len(c.answers) > 0 && !c.answers[0].expired && (c.answers[0].reached || c.answers[0].refused)
}

// asker appends probes to a list.
type asker struct {
	*Paths
	dst *[]PathProbe
}

// ask books a probe; it reports false when no more may be sent now.
func (a *asker) ask(f *flowCells, ttl int, why purpose) bool {
	if len(a.probes) >= a.opt.MaxProbes {
		a.exhausted = true
		return false
	}
	if a.outstanding >= a.opt.Window {
		return false
	}
	c := &f.cells[ttl]
	c.asked++
	c.waiting++
	a.outstanding++
	*a.dst = append(*a.dst, PathProbe{Seq: uint32(len(a.probes)), Flow: f.Flow, TTL: uint8(ttl)})
	a.probes = append(a.probes, sentProbe{c, uint8(ttl)})
	switch why {
	case forDiscovery:
		a.counts.Discovery++
	case forClass:
		a.counts.Class++
	case forFields:
		a.counts.Fields++
	}
	return true
}

// explore sends the first flow ahead of the others, to learn how long the paths
// are, and reports whether it is still under way.
func (a *asker) explore() bool {
	const ahead = 3 // more would overshoot near targets for nothing
	f := a.flow(0)
	top := max(a.highest, a.opt.FirstTTL-1)
	for ttl := a.opt.FirstTTL; ttl <= top; ttl++ {
		if f.ends(ttl) {
			return false
		}
	}
	reach := ahead
	for ttl := top + 1; ttl <= a.opt.MaxTTL && reach < a.opt.GapLimit && a.know(f, ttl) == silent; ttl++ {
		reach++
	}
	busy := false
	for ttl := a.opt.FirstTTL; ttl <= min(top+min(reach, a.opt.GapLimit), a.opt.MaxTTL); ttl++ {
		k := a.know(f, ttl)
		if k == unasked || k == lost {
			a.ask(f, ttl, forDiscovery)
		}
		busy = busy || k < silent
	}
	return busy
}

// base sends as many flows as every router needs at least to every TTL at which
// the first one was answered.
func (a *asker) base() {
	first := a.flow(0)
	for i := range a.need(1) {
		f := a.flow(i)
		for ttl := a.opt.FirstTTL; ttl <= a.highest && !f.ends(ttl-1); ttl++ {
			if a.know(f, ttl) == unasked && (a.know(first, ttl) == answered || a.know(first, ttl) == silent) {
				a.ask(f, ttl, forDiscovery)
			}
		}
	}
}
