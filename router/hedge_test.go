package router_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"strandline/router"
)

func hedged(draw func(*rand.Rand) float64, rng *rand.Rand) *router.Hedge {
	h := &router.Hedge{}
	for range 1000 {
		h.Observe(draw(rng), false)
	}
	return h
}

// A heavy tail hedges, and not before the 95th percentile; times of little variance
// never do, nor do few samples.
func TestHedgePaysForHeavyTails(t *testing.T) {
	rng := seeded(t, 81)
	pareto := func(r *rand.Rand) float64 { return math.Exp(r.ExpFloat64() / 1.5) } // mean 3, 95th percentile 7.4
	if got := hedged(pareto, rng).WaitS(3); !(got > 6 && got < 15) {
		t.Errorf("Pareto tail: got a wait of %v, want soon after 7.4", got)
	}
	even := func(r *rand.Rand) float64 { return 3 + 0.2*r.Float64() }
	if got := hedged(even, rng).WaitS(3); !math.IsInf(got, 1) {
		t.Errorf("even times: got a wait of %v, want none", got)
	}
	if got := (&router.Hedge{}).WaitS(0); !math.IsInf(got, 1) {
		t.Errorf("no samples: got %v", got)
	}
	// An alternative that is much better makes any tail worth leaving.
	exponential := (*rand.Rand).ExpFloat64
	h := hedged(exponential, rng)
	if got := h.WaitS(0.1); !(got > 2.5 && got < 3.6) {
		t.Errorf("exponential with a fast alternative: got %v, want about the 95th percentile of 3.0", got)
	}
	if got := h.WaitS(2); !math.IsInf(got, 1) {
		t.Errorf("exponential with a slower alternative: got %v", got)
	}
}

// The rule against its definition, by brute force on all waits.
func TestHedgeIsTheMeanResidualLife(t *testing.T) {
	rng := seeded(t, 82)
	for range 100 {
		var s []float64
		h := &router.Hedge{}
		for range 50 + rng.IntN(100) {
			s = append(s, math.Exp(1.5*rng.NormFloat64()))
			h.Observe(s[len(s)-1], false)
		}
		alternative := rng.ExpFloat64()
		want := math.Inf(1)
		for _, t := range s {
			longer, sum, atMost := 0.0, 0.0, 0.0
			for _, v := range s {
				if v > t {
					longer++
					sum += v - t
				} else {
					atMost++
				}
			}
			if longer > 0 && atMost >= 0.95*float64(len(s))-1e-9 && sum/longer > 1.1*alternative {
				want = min(want, t)
			}
		}
		got := h.WaitS(alternative)
		if got != want && !(math.Abs(got-want) < 1e-9) {
			t.Fatalf("%d samples, alternative %v: got %v, want %v", len(s), alternative, got, want)
		}
	}
}

// Without the censored ones, the tail that hedging cuts off would not be seen, and
// hedging would stop itself.
func TestHedgeCountsCancelledRequests(t *testing.T) {
	rng := seeded(t, 83)
	naive, fair := &router.Hedge{}, &router.Hedge{}
	for range 1000 {
		v := math.Exp(rng.ExpFloat64() / 1.5)
		naive.Observe(min(v, 12), false)
		fair.Observe(min(v, 12), v > 12)
	}
	for range 5 {
		fair.Observe(60, false)
		naive.Observe(12, false)
	}
	if a, b := fair.WaitS(4), naive.WaitS(4); math.IsInf(a, 1) || !math.IsInf(b, 1) {
		t.Errorf("with censoring a wait of %v, without %v; want one and none", a, b)
	}
}

func TestHedgeBudget(t *testing.T) {
	h := &router.Hedge{}
	for range 19 {
		h.Primary()
	}
	if h.Take(0.5) {
		t.Error("a duplicate after 19 requests")
	}
	h.Primary()
	h.Primary()
	if h.Take(0.81) {
		t.Error("a duplicate under load")
	}
	if !h.Take(0.5) || h.Take(0.5) {
		t.Error("21 requests must buy one duplicate")
	}
	for range 10_000 {
		h.Primary()
	}
	n := 0
	for h.Take(0) {
		n++
	}
	if n != 50 {
		t.Errorf("%d duplicates in a row, want 50", n)
	}
}
