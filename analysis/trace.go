package analysis

import "strandline/datasets"

// The defaults of TraceOptions.
const (
	defaultFirstTTL = 1
	defaultMaxTTL   = 30 // the customary limit of traceroute
	defaultAttempts = 2
	defaultGapLimit = 5 // as scamper's trace
	defaultWindow   = 8
	largestTTL      = 255 // the field has 8 bits (RFC 791 section 3.1, RFC 8200 section 3)
)

// TraceOptions say how far and how hard a trace tries. A field of zero or less
// takes its default.
type TraceOptions struct {
	FirstTTL int // TTL of the nearest hop asked; default 1
	MaxTTL   int // largest TTL asked; default 30, at most 255
	Attempts int // probes to one TTL before it counts as silent; default 2
	GapLimit int // silent TTLs in a row, after the last answered one, that end the trace; default 5
	Window   int // probes that may be outstanding at once; default 8
}

// withDefaults returns o with its unset fields filled.
func (o TraceOptions) withDefaults() TraceOptions {
	fill := func(v *int, def int) {
		if *v <= 0 {
			*v = def
		}
	}
	fill(&o.FirstTTL, defaultFirstTTL)
	fill(&o.MaxTTL, defaultMaxTTL)
	fill(&o.Attempts, defaultAttempts)
	fill(&o.GapLimit, defaultGapLimit)
	fill(&o.Window, defaultWindow)
	o.MaxTTL = min(o.MaxTTL, largestTTL)
	o.GapLimit = min(o.GapLimit, largestTTL)
	return o
}

// TraceProbe is one probe that a trace asks for. The sample that reports its
// outcome carries the same TTL, and Attempt as its Seq.
type TraceProbe struct {
	TTL     uint8
	Attempt uint32 // from 0, counted per TTL
}

// Tracer decides which probes a trace of one flow needs: the state machine
// behind Paris traceroute (Augustin et al., "Avoiding traceroute anomalies with
// Paris traceroute", IMC 2006), whose probes keep every field that a balancer
// may hash. How the probes look and when they time out is the caller's affair.
//
// The trace ends at the lowest TTL at which the target replied or anybody said
// "unreachable" (no larger TTL gets further), after GapLimit TTLs in a row that
// stayed silent, or at MaxTTL. No TTL beyond the highest answered one plus
// GapLimit is ever asked, so the end does not depend on Window: a wider window
// is only faster, at the price of probes that may overshoot the target.
//
// A Tracer belongs to one goroutine.
type Tracer struct {
	opt         TraceOptions
	ttls        []ttlState // by TTL; entries below FirstTTL stay unused
	fresh       int        // the lowest TTL that was not asked yet
	highest     int        // the highest answered TTL; FirstTTL-1 before the first answer
	reachedAt   int        // the lowest TTL the target replied at; past every TTL when it did not
	refusedAt   int        // the lowest TTL at which somebody else said unreachable; likewise
	outstanding int
}

// ttlState is what happened at one TTL.
type ttlState struct {
	pending  []bool // by attempt: sent and not observed yet
	waiting  int    // how many of them are true
	answered bool
}

// NewTracer returns a Tracer at the start of its trace.
func NewTracer(o TraceOptions) *Tracer {
	o = o.withDefaults()
	return &Tracer{
		opt:       o,
		ttls:      make([]ttlState, o.MaxTTL+1),
		fresh:     o.FirstTTL,
		highest:   o.FirstTTL - 1,
		reachedAt: largestTTL + 1,
		refusedAt: largestTTL + 1,
	}
}

// Next appends to dst the probes that may be sent now, the retries of silent
// TTLs first, then further TTLs in ascending order, and counts them as
// outstanding until Observe hears of them. It appends nothing while the window
// is full and after the trace is done.
func (t *Tracer) Next(dst []TraceProbe) []TraceProbe {
	last := t.last()
	for ttl := t.opt.FirstTTL; ttl < min(t.fresh, last+1); ttl++ {
		if t.outstanding < t.opt.Window && t.wantsRetry(ttl) {
			dst = append(dst, t.send(ttl))
		}
	}
	for t.outstanding < t.opt.Window && t.fresh <= last {
		dst = append(dst, t.send(t.fresh))
		t.fresh++
	}
	return dst
}

// Observe takes in the outcome of one probe: a reply, an ICMP error, a timeout
// or a refusal to send, the latter two being silence. It uses TTL, Seq (the
// Attempt), Outcome, From and Target. Outcomes of probes that Next never gave
// are ignored; an answer that comes after its probe was given up still counts.
func (t *Tracer) Observe(s datasets.Sample) {
	ttl, attempt := int(s.TTL), int64(s.Seq)
	if ttl >= len(t.ttls) || attempt >= int64(len(t.ttls[ttl].pending)) {
		return
	}
	st := &t.ttls[ttl]
	if st.pending[attempt] {
		st.pending[attempt] = false
		st.waiting--
		t.outstanding--
	}
	if s.Outcome.Answered() {
		st.answered = true
		t.highest = max(t.highest, ttl)
	}
	switch {
	case fromTarget(s):
		t.reachedAt = min(t.reachedAt, ttl)
	case s.Outcome == datasets.OutcomeUnreachable:
		t.refusedAt = min(t.refusedAt, ttl)
	}
}

// Done reports whether the trace has ended: every TTL up to its end was
// answered, or asked Attempts times in vain. Probes beyond the end may still be
// outstanding; their outcomes change nothing.
func (t *Tracer) Done() bool {
	for ttl := t.opt.FirstTTL; ttl <= t.last(); ttl++ {
		if !t.settled(ttl) {
			return false
		}
	}
	return true
}

// Reached reports whether the trace ended, or will end, at a reply of the target.
func (t *Tracer) Reached() bool {
	return t.reachedAt <= min(t.refusedAt, t.opt.MaxTTL)
}

// last is the largest TTL worth asking, as far as is known by now.
func (t *Tracer) last() int {
	return min(t.reachedAt, t.refusedAt, t.highest+t.opt.GapLimit, t.opt.MaxTTL)
}

// settled reports whether nothing more is to be learnt about ttl.
func (t *Tracer) settled(ttl int) bool {
	st := &t.ttls[ttl]
	return st.answered || (st.waiting == 0 && len(st.pending) == t.opt.Attempts)
}

// wantsRetry reports whether ttl was asked, stayed silent and has attempts left.
func (t *Tracer) wantsRetry(ttl int) bool {
	return t.ttls[ttl].waiting == 0 && !t.settled(ttl)
}

// send books the next attempt to ttl.
func (t *Tracer) send(ttl int) TraceProbe {
	st := &t.ttls[ttl]
	p := TraceProbe{TTL: uint8(ttl), Attempt: uint32(len(st.pending))}
	st.pending = append(st.pending, true)
	st.waiting++
	t.outstanding++
	return p
}

// fromTarget reports whether s is an answer of the target itself.
func fromTarget(s datasets.Sample) bool {
	return s.Outcome == datasets.OutcomeReply ||
		s.Outcome == datasets.OutcomeUnreachable && s.From == s.Target
}
