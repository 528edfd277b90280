package probe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"strandline/datasets"
	"strandline/probe/wire"
)

// The defaults of PingOptions.
const (
	DefaultPingCount    = 10
	DefaultPingInterval = time.Second
	DefaultUDPPort      = 33434 // where traceroute has always sent; rarely open
)

// maxPayload keeps a probe within the MTU of an Ethernet over IPv6.
const maxPayload = 1452

// PingOptions say how a ping is made. A zero field takes its default.
type PingOptions struct {
	Proto    datasets.Proto // ProtoICMP (default) or ProtoUDP, to a port that is hoped to be closed
	Count    int            // probes per target; DefaultPingCount
	Interval time.Duration  // between probes to one target; DefaultPingInterval
	Size     int            // payload octets, 10 to 1452; default: as the identity needs
	TTL      uint8          // 64
	TOS      uint8
	Sport    uint16 // UDP; default: drawn at random for the Engine
	Dport    uint16 // UDP; DefaultUDPPort
}

func (o PingOptions) withDefaults() PingOptions {
	setDefault(&o.Proto, datasets.ProtoICMP)
	setDefault(&o.Count, DefaultPingCount)
	setDefault(&o.Interval, DefaultPingInterval)
	setDefault(&o.TTL, defaultTTL)
	setDefault(&o.Dport, DefaultUDPPort)
	return o
}

// setDefault fills a field that was left zero.
func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (o PingOptions) validate() error {
	var faults []error
	if o.Proto != datasets.ProtoICMP && o.Proto != datasets.ProtoUDP {
		faults = append(faults, fmt.Errorf("protocol %q: must be icmp or udp", o.Proto))
	}
	if o.Count < 0 {
		faults = append(faults, fmt.Errorf("count %d: must not be negative", o.Count))
	}
	if o.Interval < 0 {
		faults = append(faults, fmt.Errorf("interval %v: must not be negative", o.Interval))
	}
	if o.Size != textPayload && (o.Size < minPayload || o.Size > maxPayload) {
		faults = append(faults, fmt.Errorf("size %d: must be %d to %d octets of payload", o.Size, minPayload, maxPayload))
	}
	return errors.Join(faults...)
}

// Ping measures the round trip to each target, Count times. It calls emit once
// per probe, when its outcome is known: one row each, timeouts too, with Seq from
// 0 per target. An error of emit ends it, and so does ctx, at once.
//
// The error joins all faults of options and targets, or is emit's, the cause of
// ctx, or that of a Conn that has failed altogether.
func (e *Engine) Ping(ctx context.Context, targets []datasets.Target, o PingOptions, emit func(datasets.Sample) error) error {
	o = o.withDefaults()
	admitted, err := e.begin(targets, o.validate())
	if err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	setDefault(&o.Sport, e.port)
	e.sport = o.Sport
	tasks := make([]task, len(admitted))
	for i, t := range admitted {
		tasks[i] = &pingTask{aim: aim{target: t}, options: &o, emit: emit}
	}
	return e.measure(ctx, tasks)
}

// PlanPing says what Ping would send, without sending it.
func (e *Engine) PlanPing(targets []datasets.Target, o PingOptions) (Plan, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return Plan{}, fmt.Errorf("ping: %w", err)
	}
	return e.plan(targets, o.Count, time.Duration(max(0, o.Count-1))*o.Interval)
}

// begin prepares the engine and the targets for a measurement.
func (e *Engine) begin(targets []datasets.Target, options error) ([]datasets.Target, error) {
	if err := errors.Join(options, e.prepare()); err != nil {
		return nil, err
	}
	return e.admit(targets)
}

// pingTask is the ping of one target.
type pingTask struct {
	aim
	options *PingOptions
	emit    func(datasets.Sample) error
}

func (t *pingTask) aimed() *aim { return &t.aim }

func (t *pingTask) finished() bool { return t.count >= t.options.Count }

func (t *pingTask) due() (time.Time, bool) {
	if t.finished() {
		return time.Time{}, false
	}
	if t.count == 0 {
		return time.Time{}, true
	}
	return t.last.Add(t.options.Interval), true
}

func (t *pingTask) take() shot {
	o := t.options
	return shot{
		proto: o.Proto, ttl: o.TTL, tos: o.TOS, seq: uint32(t.count),
		sport: o.Sport, dport: o.Dport, size: o.Size,
	}
}

func (t *pingTask) observe(s datasets.Sample, _ *wire.Reply) error { return t.emit(s) }
