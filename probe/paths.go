package probe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"strandline/analysis"
	"strandline/datasets"
	"strandline/probe/wire"
)

// PathsOptions say how all paths to a target are sought. A zero field takes its
// default.
type PathsOptions struct {
	Proto      datasets.Proto // ProtoUDP (default) or ProtoICMP
	Confidence float64        // percent that the whole graph is complete; analysis.DefaultGraphConfidence
	MinShare   float64        // smallest share of a branch that must not be missed; default: branches are equally likely
	FirstTTL   int            // 1
	MaxTTL     int            // DefaultMaxTTL
	GapLimit   int            // silent hops in a row that end the paths; DefaultGapLimit
	MaxProbes  int            // to one target; analysis.DefaultMaxProbes
	TOS        uint8
	Dport      uint16 // UDP; DefaultUDPPort
	NoFields   bool   // do not test which header fields the balancers hash
}

func (o PathsOptions) withDefaults() PathsOptions {
	setDefault(&o.Proto, datasets.ProtoUDP)
	setDefault(&o.Confidence, analysis.DefaultGraphConfidence)
	setDefault(&o.FirstTTL, 1)
	setDefault(&o.MaxTTL, DefaultMaxTTL)
	setDefault(&o.GapLimit, DefaultGapLimit)
	setDefault(&o.MaxProbes, analysis.DefaultMaxProbes)
	setDefault(&o.Dport, DefaultUDPPort)
	return o
}

func (o PathsOptions) validate() error {
	var faults []error
	trace := TraceOptions{Proto: o.Proto, FirstTTL: o.FirstTTL, MaxTTL: o.MaxTTL, GapLimit: o.GapLimit}
	faults = append(faults, trace.validate())
	if !(o.Confidence > 0 && o.Confidence < 100) {
		faults = append(faults, fmt.Errorf("confidence %v: must be a percentage above 0 and below 100", o.Confidence))
	}
	if !(o.MinShare >= 0 && o.MinShare <= 0.5) {
		faults = append(faults, fmt.Errorf("smallest share %v: must be above 0 and at most 0.5", o.MinShare))
	}
	if o.MaxProbes < 0 {
		faults = append(faults, fmt.Errorf("at most %d probes: must not be negative", o.MaxProbes))
	}
	return errors.Join(faults...)
}

// fields are the header fields that the flows of a protocol and family differ
// in, and those that are tested by themselves.
func (o *PathsOptions) fields(v6 bool) (vary datasets.Field, test []datasets.Field) {
	vary, test = datasets.FieldSport, []datasets.Field{datasets.FieldDport}
	if o.Proto == datasets.ProtoICMP {
		vary, test = datasets.FieldICMPSum, []datasets.Field{datasets.FieldICMPID}
	}
	test = append(test, datasets.FieldTOS)
	if v6 {
		test = append(test, datasets.FieldFlowLabel)
	}
	if o.NoFields {
		test = nil
	}
	return vary, test
}

// Paths finds every path to each target, the balancers on it, their class and the
// header fields that they hash. What is sent is decided by analysis.Paths; the
// flows differ in the UDP source port or the ICMP checksum only, as for Trace.
// Probes to one target leave in random order, so that no router sees a burst.
//
// It calls emit once per probe as Ping does, with Seq over all probes to a target,
// and done once per target, also for those that ctx has cut short. The errors are
// those of Ping, and those of done.
func (e *Engine) Paths(ctx context.Context, targets []datasets.Target, o PathsOptions, emit func(datasets.Sample) error, done func(analysis.Graph) error) error {
	o = o.withDefaults()
	admitted, err := e.begin(targets, o.validate())
	if err != nil {
		return fmt.Errorf("paths: %w", err)
	}
	e.spread = &spread{ports: e.Rand.Perm(lastPort - firstPort + 1), used: map[uint16]bool{}}
	defer func() { e.spread = nil }()
	tasks := make([]task, len(admitted))
	for i, t := range admitted {
		tasks[i] = newPathsTask(e, t, &o, emit, done)
	}
	err = e.measure(ctx, tasks)
	for _, t := range tasks {
		if err := t.(*pathsTask).end(); err != nil {
			return err
		}
	}
	return err
}

// PlanPaths says what Paths would send at most, without sending it: that is
// MaxProbes for each target, and nearly always far less is sent.
func (e *Engine) PlanPaths(targets []datasets.Target, o PathsOptions) (Plan, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return Plan{}, fmt.Errorf("paths: %w", err)
	}
	return e.plan(targets, o.MaxProbes, 0)
}

// spread is what the flows of a measurement differ in.
type spread struct {
	ports []int // offsets from firstPort, in random order: balancers must not see a pattern
	used  map[uint16]bool
}

// port returns the UDP source port of a flow. There are 4536; more flows share.
func (s *spread) port(flow uint32) uint16 {
	p := firstPort + uint16(s.ports[int(flow)%len(s.ports)])
	s.used[p] = true
	return p
}

// maxIDs is how many ICMP identifiers follow the instance's own.
const maxIDs = 256

// pathsTask is the paths to one target.
type pathsTask struct {
	aim
	options *PathsOptions
	spread  *spread
	rand    *rand.Rand
	paths   *analysis.Paths
	todo    []analysis.PathProbe // asked for and not sent yet
	label   uint32               // IPv6 flow label of all flows but those that test it
	emit    func(datasets.Sample) error
	result  func(analysis.Graph) error
	ended   bool
}

func newPathsTask(e *Engine, target datasets.Target, o *PathsOptions, emit func(datasets.Sample) error, done func(analysis.Graph) error) *pathsTask {
	vary, test := o.fields(target.Addr.Is6())
	t := &pathsTask{
		aim: aim{target: target}, options: o, spread: e.spread, rand: e.Rand, emit: emit, result: done,
		paths: analysis.NewPaths(analysis.PathsOptions{
			Confidence: o.Confidence, MinShare: o.MinShare, FirstTTL: o.FirstTTL, MaxTTL: o.MaxTTL,
			GapLimit: o.GapLimit, MaxProbes: o.MaxProbes, Vary: vary, Test: test,
		}),
	}
	if target.Addr.Is6() {
		t.label = e.Rand.Uint32N(1 << 20)
	}
	t.todo = t.paths.Next(nil)
	return t
}

func (t *pathsTask) aimed() *aim { return &t.aim }

func (t *pathsTask) finished() bool { return t.paths.Done() }

func (t *pathsTask) due() (time.Time, bool) { return time.Time{}, len(t.todo) > 0 }

// take returns one of the probes asked for, at random.
func (t *pathsTask) take() shot {
	i, last := t.rand.IntN(len(t.todo)), len(t.todo)-1
	p := t.todo[i]
	t.todo[i], t.todo = t.todo[last], t.todo[:last]
	s := shot{
		proto: t.options.Proto, ttl: p.TTL, tos: t.options.TOS, seq: p.Seq, label: t.label,
		dport: t.options.Dport, sport: t.spread.port(p.Flow.Index), sum: t.checksum(p.Flow.Index),
	}
	switch v := p.Flow.Value; p.Flow.Field {
	case datasets.FieldDport:
		s.dport += uint16(v)
	case datasets.FieldTOS:
		s.tos ^= uint8(v << 2) // the lowest two bits are not ours to set (RFC 3168)
	case datasets.FieldFlowLabel:
		s.label = (s.label + v) % (1 << 20)
	case datasets.FieldICMPID:
		s.idOffset = uint16(v % maxIDs)
	}
	return s
}

// checksum returns the ICMP checksum of a flow, never 0 nor 0xffff, which are one
// in this arithmetic. The stride has no factor in common with their number.
func (t *pathsTask) checksum(flow uint32) uint16 {
	const all, stride = 0xfffe, 40503
	return uint16((uint64(t.sum-1)+uint64(flow)*stride)%all) + 1
}

func (t *pathsTask) observe(s datasets.Sample, _ *wire.Reply) error {
	t.paths.Observe(s)
	if !t.ended {
		t.todo = t.paths.Next(t.todo)
	}
	if err := t.emit(s); err != nil {
		return err
	}
	if t.paths.Done() {
		return t.end()
	}
	return nil
}

// end hands over the result, once.
func (t *pathsTask) end() error {
	if t.ended || t.count == 0 {
		return nil
	}
	t.ended, t.todo = true, nil
	return t.result(t.paths.Graph())
}
