package sim

import (
	"fmt"
	"math"
	"math/rand/v2"

	"strandline/router"
)

// Arrival is one request that enters at a frontend.
type Arrival struct {
	AtS      float64
	Frontend int
	Work     float64 // in units of a mean request, so that regions complete l(N) units per second; above 0
	Prefill  float64 // the part of Work that is done when the first token leaves, in [0, 1]
	Key      uint64  // hash of the session
}

// Source yields arrivals in the order of time. It is given its own stream of
// chance, which no policy touches: with the same seed every policy meets the same
// requests.
type Source interface {
	// Next returns the next arrival; ok is false where there are no more.
	Next(rng *rand.Rand) (a Arrival, ok bool)
}

// RateStep is a rate that holds from a moment on.
type RateStep struct {
	FromS  float64
	RateHz float64
}

// Process is a renewal process of one frontend whose rate may change. Gaps are
// drawn at rate 1 and stretched by the rate in force, so a change takes effect at
// once, in the middle of a gap.
type Process struct {
	Frontend int
	Rates    []RateStep // in the order of time, the first from 0
	PeriodS  float64    // after which the rates repeat; 0 = never
	Gaps     Gaps
	Sizes    Sizes
	Prefill  float64 // Arrival.Prefill of every request
	Sessions int     // number of sessions that requests belong to at random; 0 means 1000
}

// Source checks the process and starts it at time 0.
func (p Process) Source() (Source, error) {
	gaps, err := p.Gaps.sampler()
	if err != nil {
		return nil, err
	}
	sizes, err := p.Sizes.sampler()
	if err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	if p.Sessions == 0 {
		p.Sessions = 1000
	}
	return &process{Process: p, gaps: gaps, sizes: sizes}, nil
}

func (p Process) check() error {
	if len(p.Rates) == 0 || p.Rates[0].FromS != 0 {
		return fmt.Errorf("process of frontend %d: the first rate must hold from 0", p.Frontend)
	}
	for k, r := range p.Rates {
		if !(r.RateHz >= 0) || math.IsInf(r.RateHz, 1) {
			return fmt.Errorf("process of frontend %d: %v is not a rate", p.Frontend, r.RateHz)
		}
		if k > 0 && !(r.FromS > p.Rates[k-1].FromS) {
			return fmt.Errorf("process of frontend %d: rates are not in the order of time at %v", p.Frontend, r.FromS)
		}
	}
	if last := p.Rates[len(p.Rates)-1].FromS; p.PeriodS != 0 && !(p.PeriodS > last && !math.IsInf(p.PeriodS, 1)) {
		return fmt.Errorf("process of frontend %d: the period %v ends before the last rate from %v", p.Frontend, p.PeriodS, last)
	}
	if !(p.Prefill >= 0 && p.Prefill <= 1) {
		return fmt.Errorf("process of frontend %d: %v is not a part of the work", p.Frontend, p.Prefill)
	}
	if p.Sessions < 0 {
		return fmt.Errorf("process of frontend %d: %d sessions", p.Frontend, p.Sessions)
	}
	return nil
}

type process struct {
	Process
	gaps, sizes sampler
	nowS        float64
	startS      float64 // of the present period
	step        int     // the rate in force
	idle        int     // steps of rate 0 in a row
}

func (p *process) Next(rng *rand.Rand) (Arrival, bool) {
	if !p.walk(p.gaps(rng)) {
		return Arrival{}, false
	}
	key := router.SessionKey(p.Frontend, rng.IntN(p.Sessions))
	return Arrival{AtS: p.nowS, Frontend: p.Frontend, Work: p.sizes(rng), Prefill: p.Prefill, Key: key}, true
}

// walk moves on until the integral of the rate has grown by the gap.
func (p *process) walk(gap float64) bool {
	for {
		rate, end := p.Rates[p.step].RateHz, p.stepEndS()
		if rate > 0 {
			p.idle = 0
			if at := p.nowS + gap/rate; at <= end {
				p.nowS = at
				return true
			}
			gap -= (end - p.nowS) * rate
		} else if p.idle++; p.idle > len(p.Rates) {
			return false // all rates are 0
		}
		if math.IsInf(end, 1) {
			return false
		}
		p.nowS = end
		if p.step++; p.step == len(p.Rates) {
			p.step, p.startS = 0, p.startS+p.PeriodS
		}
	}
}

func (p *process) stepEndS() float64 {
	if p.step+1 < len(p.Rates) {
		return p.startS + p.Rates[p.step+1].FromS
	}
	if p.PeriodS > 0 {
		return p.startS + p.PeriodS
	}
	return math.Inf(1)
}

// Poisson is a source per frontend of w with its rate and exponential work: the
// plainest demand.
func Poisson(w *router.World) []Process {
	var list []Process
	for i, f := range w.Frontends {
		list = append(list, Process{Frontend: i, Rates: []RateStep{{0, f.RateHz}}})
	}
	return list
}

// Sources starts every process.
func Sources(list []Process) ([]Source, error) {
	out := make([]Source, len(list))
	for k, p := range list {
		s, err := p.Source()
		if err != nil {
			return nil, err
		}
		out[k] = s
	}
	return out, nil
}
