package probe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"strandline/analysis"
	"strandline/datasets"
	"strandline/probe/wire"
)

// The defaults of TraceOptions.
const (
	DefaultMaxTTL   = 30
	DefaultAttempts = 2
	DefaultGapLimit = 5
	traceWindow     = 8 // probes to one target under way at once
)

// TraceOptions say how a trace is made. A zero field takes its default.
type TraceOptions struct {
	Proto    datasets.Proto // ProtoICMP (default) or ProtoUDP
	FirstTTL int            // 1
	MaxTTL   int            // DefaultMaxTTL
	Attempts int            // probes to a hop that stays silent; DefaultAttempts
	GapLimit int            // silent hops in a row that end the trace; DefaultGapLimit
	TOS      uint8
	Sport    uint16 // UDP; default: drawn at random for the Engine
	Dport    uint16 // UDP; DefaultUDPPort
}

func (o TraceOptions) withDefaults() TraceOptions {
	setDefault(&o.Proto, datasets.ProtoICMP)
	setDefault(&o.FirstTTL, 1)
	setDefault(&o.MaxTTL, DefaultMaxTTL)
	setDefault(&o.Attempts, DefaultAttempts)
	setDefault(&o.GapLimit, DefaultGapLimit)
	setDefault(&o.Dport, DefaultUDPPort)
	return o
}

func (o TraceOptions) validate() error {
	var faults []error
	if o.Proto != datasets.ProtoICMP && o.Proto != datasets.ProtoUDP {
		faults = append(faults, fmt.Errorf("protocol %q: must be icmp or udp", o.Proto))
	}
	if o.FirstTTL < 1 || o.MaxTTL < o.FirstTTL || o.MaxTTL > math.MaxUint8 {
		faults = append(faults, fmt.Errorf("TTLs %d to %d: must rise within 1 to %d", o.FirstTTL, o.MaxTTL, math.MaxUint8))
	}
	if o.Attempts < 0 {
		faults = append(faults, fmt.Errorf("attempts %d: must not be negative", o.Attempts))
	}
	if o.GapLimit < 0 {
		faults = append(faults, fmt.Errorf("gap limit %d: must not be negative", o.GapLimit))
	}
	return errors.Join(faults...)
}

// Trace finds the path that one flow takes to each target (Paris traceroute): all
// probes to a target agree in every field that a balancer may hash, the ports or
// the ICMP identifier and checksum. Which TTLs are asked, how often and when the
// trace ends is decided by analysis.Tracer.
//
// It calls emit once per probe as Ping does; Seq is the attempt, from 0 per TTL.
// The errors are those of Ping.
func (e *Engine) Trace(ctx context.Context, targets []datasets.Target, o TraceOptions, emit func(datasets.Sample) error) error {
	o = o.withDefaults()
	admitted, err := e.begin(targets, o.validate())
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	setDefault(&o.Sport, e.port)
	e.sport = o.Sport
	tasks := make([]task, len(admitted))
	for i, t := range admitted {
		tasks[i] = newTraceTask(t, &o, emit)
	}
	return e.measure(ctx, tasks)
}

// PlanTrace says what Trace would send at most, without sending it: a trace that
// meets its target, or silence, ends sooner.
func (e *Engine) PlanTrace(targets []datasets.Target, o TraceOptions) (Plan, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return Plan{}, fmt.Errorf("trace: %w", err)
	}
	probes := (o.MaxTTL - o.FirstTTL + 1) * o.Attempts
	rounds := (probes - 1) / traceWindow
	return e.plan(targets, probes, time.Duration(rounds)*e.timeout())
}

// traceTask is the trace to one target.
type traceTask struct {
	aim
	options *TraceOptions
	tracer  *analysis.Tracer
	todo    []analysis.TraceProbe // asked for by the tracer and not sent yet
	emit    func(datasets.Sample) error
}

func newTraceTask(target datasets.Target, o *TraceOptions, emit func(datasets.Sample) error) *traceTask {
	tracer := analysis.NewTracer(analysis.TraceOptions{
		FirstTTL: o.FirstTTL, MaxTTL: o.MaxTTL, Attempts: o.Attempts, GapLimit: o.GapLimit, Window: traceWindow,
	})
	t := &traceTask{aim: aim{target: target}, options: o, tracer: tracer, emit: emit}
	t.todo = tracer.Next(nil)
	return t
}

func (t *traceTask) aimed() *aim { return &t.aim }

func (t *traceTask) finished() bool { return t.tracer.Done() }

func (t *traceTask) due() (time.Time, bool) { return time.Time{}, len(t.todo) > 0 }

func (t *traceTask) take() shot {
	p, o := t.todo[0], t.options
	t.todo = t.todo[1:]
	return shot{
		proto: o.Proto, ttl: p.TTL, tos: o.TOS, seq: p.Attempt, sport: o.Sport, dport: o.Dport,
	}
}

func (t *traceTask) observe(s datasets.Sample, _ *wire.Reply) error {
	t.tracer.Observe(s)
	switch {
	case t.tracer.Done():
		t.todo = nil
	case s.Outcome == datasets.OutcomeReply || s.Outcome == datasets.OutcomeUnreachable:
		t.drop(s.TTL) // beyond the end of the path there is nothing to see
	}
	t.todo = t.tracer.Next(t.todo)
	return t.emit(s)
}

// drop removes the unsent probes beyond ttl. The tracer counts them as under
// way for ever, which leaves at least one place in its window: that of the probe
// that ended the path.
func (t *traceTask) drop(ttl uint8) {
	kept := t.todo[:0]
	for _, p := range t.todo {
		if p.TTL <= ttl {
			kept = append(kept, p)
		}
	}
	t.todo = kept
}
