package probe

import (
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"time"

	"strandline/datasets"
)

// The defaults of an Engine. The rates are what a network notices no more than
// it does a person's traceroute; who owns the path may go higher.
const (
	DefaultRateHz       = 100
	DefaultPrefixRateHz = 20
	DefaultTimeout      = 3 * time.Second
	DefaultIdentity     = "strandline network measurement; to object, write to the abuse contact of this source address"
)

const (
	progressEvery = time.Second
	defaultTTL    = 64
	// Source ports are drawn from above the range that Linux gives to sockets by
	// itself (32768 to 60999).
	firstPort = 61000
	lastPort  = 65535
)

// Engine runs measurements over one Conn. The zero value of every field but Conn
// is usable. An Engine belongs to one goroutine, and so do its callbacks.
type Engine struct {
	Conn    Conn
	Vantage string // in every row

	RateHz       float64       // most packets per second; 0 = DefaultRateHz, +Inf = no limit
	PrefixRateHz float64       // the same for each /24 and /48; 0 = DefaultPrefixRateHz, +Inf = no limit
	Timeout      time.Duration // how long an answer is waited for; 0 = DefaultTimeout
	Identity     string        // payload text: who probes and how to object; "" = DefaultIdentity
	Exclude      *Exclusions   // never probed

	// Rand decides the order of targets and the probes' identity. Engines whose
	// packets meet need different seeds. nil = seeded by the operating system.
	Rand *rand.Rand

	// Progress, if set, hears about once a second of Conn.Now how far a
	// measurement is, and once at its end.
	Progress func(Progress)
	// OnExcluded, if set, hears of each target that Exclude holds, once.
	OnExcluded func(datasets.Target)

	stats    Stats
	pacers   *pacers
	id       uint16  // ICMP identifier of this instance
	port     uint16  // UDP source port of this instance
	sport    uint16  // UDP source port of the current measurement
	spread   *spread // set while the flows of a measurement differ
	excluded map[netip.Addr]bool
}

// Stats counts what an Engine did over its life.
type Stats struct {
	Sent       uint64 // probes that left
	SendErrors uint64 // probes that our own host refused to send
	Received   uint64 // probes that were answered, by whomever
	Timeouts   uint64 // probes that were not answered in time
	Duplicates uint64 // answers to probes that were answered already
	Late       uint64 // answers to probes that had timed out
	Spoofed    uint64 // answers that name this instance but not a probe that it sent: forged, rewritten, or from a wrong address
	Foreign    uint64 // packets that have nothing to do with this instance
	Excluded   uint64 // targets not probed because of Exclude
	Repeated   uint64 // targets not probed because the list had them already
}

// Stats returns the counts up to now. Probes still under way when a measurement
// was cut short are in Sent only.
func (e *Engine) Stats() Stats { return e.stats }

// Progress says how far a measurement is.
type Progress struct {
	Targets int // that are probed
	Done    int // of which all is known
	Stats   Stats
}

// prepare reports what is wrong with the engine's settings, and draws the
// instance's identity the first time.
func (e *Engine) prepare() error {
	var faults []error
	if e.Conn == nil {
		faults = append(faults, errors.New("engine has no conn"))
	}
	for name, rate := range map[string]float64{"rate": e.RateHz, "prefix rate": e.PrefixRateHz} {
		if !(rate >= 0) || rate > 0 && rate < 1e-6 {
			faults = append(faults, fmt.Errorf("%s of %v packets/s: must be at least 1e-6, or 0 for the default", name, rate))
		}
	}
	if e.Timeout < 0 {
		faults = append(faults, fmt.Errorf("timeout %v: must not be negative", e.Timeout))
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	if e.Rand == nil {
		var seed [16]byte
		crand.Read(seed[:]) // never fails (documented)
		e.Rand = rand.New(rand.NewPCG(binary.LittleEndian.Uint64(seed[:8]), binary.LittleEndian.Uint64(seed[8:])))
	}
	if e.pacers == nil {
		e.pacers = newPacers(e.rate(), e.prefixRate())
		e.id = uint16(e.Rand.Uint32())
		e.port = firstPort + uint16(e.Rand.UintN(lastPort-firstPort+1))
	}
	return nil
}

func (e *Engine) rate() float64 {
	if e.RateHz == 0 {
		return DefaultRateHz
	}
	return e.RateHz
}

func (e *Engine) prefixRate() float64 {
	if e.PrefixRateHz == 0 {
		return DefaultPrefixRateHz
	}
	return e.PrefixRateHz
}

func (e *Engine) timeout() time.Duration {
	if e.Timeout == 0 {
		return DefaultTimeout
	}
	return e.Timeout
}

func (e *Engine) identity() string {
	if e.Identity == "" {
		return DefaultIdentity
	}
	return e.Identity
}

// sift returns the targets that may be probed, each address once and without
// its mapped form or zone, in the order given. Faulty targets are an error, all
// of them at once.
func (e *Engine) sift(targets []datasets.Target) (admitted []datasets.Target, excluded []datasets.Target, repeated int, err error) {
	seen := make(map[netip.Addr]bool, len(targets))
	var faults []error
	for i, t := range targets {
		t.Addr = t.Addr.Unmap().WithZone("")
		switch {
		case !t.Addr.IsValid() || t.Addr.IsUnspecified():
			faults = append(faults, fmt.Errorf("target %d %s: no address to probe", i+1, t.Name))
		case seen[t.Addr]:
			repeated++
		case e.Exclude.Contains(t.Addr):
			excluded = append(excluded, t)
		default:
			admitted = append(admitted, t)
		}
		seen[t.Addr] = true
	}
	return admitted, excluded, repeated, errors.Join(faults...)
}

// admit sifts the targets, counts and reports what is left out, and shuffles the
// rest.
func (e *Engine) admit(targets []datasets.Target) ([]datasets.Target, error) {
	admitted, excluded, repeated, err := e.sift(targets)
	if err != nil {
		return nil, err
	}
	if e.excluded == nil {
		e.excluded = map[netip.Addr]bool{}
	}
	for _, t := range excluded {
		if e.excluded[t.Addr] {
			continue
		}
		e.excluded[t.Addr] = true
		e.stats.Excluded++
		if e.OnExcluded != nil {
			e.OnExcluded(t)
		}
	}
	e.stats.Repeated += uint64(repeated)
	e.Rand.Shuffle(len(admitted), func(i, j int) { admitted[i], admitted[j] = admitted[j], admitted[i] })
	return admitted, nil
}

// Plan is what a measurement would send.
type Plan struct {
	Targets  int           // to be probed
	Excluded int           // targets left out because of Engine.Exclude
	Repeated int           // targets left out because the list has them already
	Prefixes int           // /24 and /48 networks among the targets
	Packets  int           // at most
	Duration time.Duration // at most about, with the last timeout
}

// plan counts without sending. Each target gets at most perTarget packets, which
// take no less than least.
func (e *Engine) plan(targets []datasets.Target, perTarget int, least time.Duration) (Plan, error) {
	admitted, excluded, repeated, err := e.sift(targets)
	if err != nil {
		return Plan{}, err
	}
	prefixes, busiest := map[netip.Prefix]int{}, 0
	for _, t := range admitted {
		prefix := pacedPrefix(t.Addr)
		prefixes[prefix]++
		busiest = max(busiest, prefixes[prefix])
	}
	p := Plan{
		Targets: len(admitted), Excluded: len(excluded), Repeated: repeated,
		Prefixes: len(prefixes), Packets: len(admitted) * perTarget,
	}
	if p.Packets > 0 {
		p.Duration = e.timeout() + max(least,
			pacing(p.Packets, e.rate()), pacing(busiest*perTarget, e.prefixRate()))
	}
	return p, nil
}

// pacing is how long n packets take at a rate.
func pacing(n int, rateHz float64) time.Duration {
	one := newPacer(rateHz)
	if total := float64(n-1) * float64(one.interval); total < math.MaxInt64/4 {
		return time.Duration(total)
	}
	return math.MaxInt64 / 4
}
