package router

import (
	"math"
	"slices"
)

// Hedge decides when a duplicate of a request against a straggler pays. It keeps
// the newest times to the first token of one region and class, and says after how
// long a wait the expected rest of the wait exceeds what the best alternative would
// take. It is not safe for concurrent use.
//
// Low variance of service makes duplicates useless, since waiting longer then means
// being nearer to the end; service that is more variable than exponential makes
// them pay.
type Hedge struct {
	samples []hedgeSample // the newest, a ring
	next    int
	sorted  []hedgeSample
	stale   bool
	tokens  float64
}

// hedgeSample is a time to the first token; a cancelled request took longer.
type hedgeSample struct {
	timeS    float64
	censored bool
}

// The constants of Hedge.
const (
	hedgeSamples = 1000
	hedgeLeast   = 50   // fewer samples: no hedging
	hedgeCost    = 0.1  // what a duplicate costs, as a part of the alternative's time
	hedgeFloor   = 0.95 // the quantile before which no duplicate leaves
	hedgeRefill  = 0.05 // duplicates per primary request
	hedgeBurst   = 50   // duplicates in a row
	hedgeLoad    = 0.8  // utilisation above which duplicates would create the load they flee
)

// Observe adds a time to the first token. A request that was cancelled after timeS,
// since its duplicate won, is censored: it would have taken longer.
func (h *Hedge) Observe(timeS float64, censored bool) {
	s := hedgeSample{timeS, censored}
	if len(h.samples) < hedgeSamples {
		h.samples = append(h.samples, s)
	} else {
		h.samples[h.next] = s
		h.next = (h.next + 1) % hedgeSamples
	}
	h.stale = true
}

// Primary counts a primary request, which buys a twentieth of a duplicate.
func (h *Hedge) Primary() { h.tokens = min(h.tokens+hedgeRefill, hedgeBurst) }

// Take reports whether a duplicate may be sent now, with the greatest utilisation
// of the candidates, and pays for it.
func (h *Hedge) Take(utilisation float64) bool {
	if h.tokens < 1 || utilisation > hedgeLoad {
		return false
	}
	h.tokens--
	return true
}

// WaitS is the wait after which to send a duplicate to an alternative with that
// expected time to the first token: the least t, not below the 95th percentile, at
// which the mean residual life E[S-t | S>t] exceeds the alternative and its cost.
// +Inf = never. Censored samples count by the estimate of Kaplan and Meier: the
// chance of each is handed to the longer ones.
func (h *Hedge) WaitS(alternativeS float64) float64 {
	if len(h.samples) < hedgeLeast {
		return math.Inf(1)
	}
	h.sort()
	limit := alternativeS * (1 + hedgeCost)
	n := len(h.sorted)
	// mass[k] is the chance of sample k, tail sums run over the later ones.
	mass, left := make([]float64, n), 1.0
	for k, s := range h.sorted {
		if !s.censored || k == n-1 { // the longest is taken as it is
			mass[k] = left / float64(n-k)
			left -= mass[k]
		}
	}
	floorS, below := h.sorted[n-1].timeS, 0.0
	for k, s := range h.sorted {
		if below += mass[k]; below >= hedgeFloor-1e-9 { // which rounding must not miss
			floorS = s.timeS
			break
		}
	}
	wait, tail, sum := math.Inf(1), 0.0, 0.0
	for k := n - 1; k >= 0; k-- {
		t := h.sorted[k].timeS
		if t < floorS {
			break
		}
		// Just after t, what is left are the samples behind k.
		if tail > 0 && sum/tail-t > limit {
			wait = t
		}
		tail += mass[k]
		sum += mass[k] * t
	}
	return wait
}

func (h *Hedge) sort() {
	if !h.stale {
		return
	}
	h.sorted = append(h.sorted[:0], h.samples...)
	slices.SortFunc(h.sorted, func(a, b hedgeSample) int {
		switch {
		case a.timeS < b.timeS:
			return -1
		case a.timeS > b.timeS:
			return 1
		}
		return 0
	})
	h.stale = false
}
