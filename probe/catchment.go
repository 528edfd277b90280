package probe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"strandline/datasets"
	"strandline/probe/wire"
)

// CatchmentOptions say how a catchment is asked for. A zero field takes its default.
type CatchmentOptions struct {
	Attempts int // queries for each of the two names; DefaultAttempts
	TOS      uint8
	Sport    uint16 // the flow's source port; default: drawn at random for the Engine
}

func (o CatchmentOptions) withDefaults() CatchmentOptions {
	setDefault(&o.Attempts, DefaultAttempts)
	return o
}

func (o CatchmentOptions) validate() error {
	if o.Attempts < 0 {
		return fmt.Errorf("attempts %d: must not be negative", o.Attempts)
	}
	return nil
}

// siteNames are the names whose TXT record in class CHAOS names a server: the
// standard one and BIND's own, which more servers know (RFC 4892 section 3.1).
func siteNames() []string { return []string{"id.server", "hostname.bind"} }

// Catchment asks each target, an address of an anycast DNS service, which of its
// sites our flow lands at (direction forward), by DNS over UDP. It calls emit
// once per target: with the site's name and the round trip of the answer that
// gave it, with a round trip only when the answers named nothing, or with
// neither. The errors are those of Ping.
func (e *Engine) Catchment(ctx context.Context, targets []datasets.Target, o CatchmentOptions, emit func(datasets.Catchment) error) error {
	o = o.withDefaults()
	admitted, err := e.begin(targets, o.validate())
	if err != nil {
		return fmt.Errorf("catchment: %w", err)
	}
	setDefault(&o.Sport, e.port)
	e.sport = o.Sport
	tasks := make([]task, len(admitted))
	for i, t := range admitted {
		tasks[i] = &catchmentTask{
			aim: aim{target: t}, options: &o, emit: emit, ready: true,
			row: datasets.Catchment{Vantage: e.Vantage, Target: t.Addr, Direction: datasets.Forward, RTTMS: datasets.NoEstimate()},
		}
	}
	return e.measure(ctx, tasks)
}

// PlanCatchment says what Catchment would send at most, without sending it.
func (e *Engine) PlanCatchment(targets []datasets.Target, o CatchmentOptions) (Plan, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return Plan{}, fmt.Errorf("catchment: %w", err)
	}
	queries := o.Attempts * len(siteNames())
	return e.plan(targets, queries, time.Duration(queries-1)*e.timeout())
}

// catchmentTask asks one target: one query at a time, the next when the last
// gave no name.
type catchmentTask struct {
	aim
	options *CatchmentOptions
	emit    func(datasets.Catchment) error
	row     datasets.Catchment
	name    int // index of the name asked for
	tried   int // queries for that name
	ready   bool
	over    bool
}

func (t *catchmentTask) aimed() *aim { return &t.aim }

func (t *catchmentTask) finished() bool { return t.over }

func (t *catchmentTask) due() (time.Time, bool) { return time.Time{}, t.ready }

func (t *catchmentTask) take() shot {
	t.ready = false
	t.tried++
	return shot{
		proto: datasets.ProtoDNS, ttl: defaultTTL, tos: t.options.TOS, seq: uint32(t.count),
		sport: t.options.Sport, dport: wire.DNSPort, query: siteNames()[t.name],
	}
}

func (t *catchmentTask) observe(s datasets.Sample, reply *wire.Reply) error {
	refused := false
	if reply != nil && reply.Kind == wire.KindUDP {
		site, err := siteOf(reply.Payload)
		refused = err != nil
		t.row.Site = site
		t.row.RTTMS = datasets.Millis(float64(s.RTTNS) / 1e6)
	}
	if t.row.Site == "" && t.again(refused) {
		t.ready = true
		return nil
	}
	t.over = true
	return t.emit(t.row)
}

// again reports whether another query is worth while, and moves on to the next
// name when this one was refused or asked often enough.
func (t *catchmentTask) again(refused bool) bool {
	if refused || t.tried >= t.options.Attempts {
		t.name, t.tried = t.name+1, 0
	}
	return t.name < len(siteNames())
}

var errNoSite = errors.New("answer names no site")

// siteOf returns the name in a DNS answer.
func siteOf(answer []byte) (string, error) {
	var m wire.DNSMessage
	if err := m.Decode(answer); err != nil {
		return "", err
	}
	if m.Rcode != 0 || len(m.TXT) == 0 {
		return "", errNoSite
	}
	return string(m.AppendTXT(nil)), nil
}
