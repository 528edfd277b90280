package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestHeapSorts(t *testing.T) {
	rng := rand.New(rand.NewPCG(95, 0))
	for range 50 {
		var h eventHeap
		var want, got []float64
		for range 1 + rng.IntN(500) {
			if len(h) > 0 && rng.IntN(3) == 0 {
				least := slices.Min(want)
				k := slices.Index(want, least)
				want = slices.Delete(want, k, k+1)
				if e := h.pop(); e.at != least {
					t.Fatalf("got %v, want %v", e.at, least)
				}
				continue
			}
			at := math.Floor(100 * rng.Float64())
			want = append(want, at)
			h.push(newEvent(at, onReach, 0, 0))
		}
		for len(h) > 0 {
			got = append(got, h.pop().at)
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

func TestTournamentFindsTheLeast(t *testing.T) {
	rng := rand.New(rand.NewPCG(96, 0))
	for n := 1; n < 20; n++ {
		tour, times := newTournament(n), slices.Repeat([]float64{math.Inf(1)}, n)
		for range 300 {
			j := rng.IntN(n)
			times[j] = rng.Float64()
			if rng.IntN(4) == 0 {
				times[j] = math.Inf(1)
			}
			tour.set(j, times[j])
			if k, at := tour.least(); at != slices.Min(times) || k < n && times[k] != at {
				t.Fatalf("got %d at %v, want the least of %v", k, at, times)
			}
		}
	}
}

func TestEventPacksItsParts(t *testing.T) {
	e := newEvent(1.5, onEnd, mostIndex-1, 7)
	if e.kind() != onEnd || e.index() != mostIndex-1 || e.job != 7 || e.at != 1.5 {
		t.Errorf("got %v %d %d %v", e.kind(), e.index(), e.job, e.at)
	}
}

// The history answers as a plain list does, for all looks within its horizon.
func TestHistoryLooksBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(97, 0))
	const horizon = 5.0
	var h history
	var atS, n []float64
	now := 0.0
	for range 5000 {
		now += rng.ExpFloat64() * 0.1
		atS, n = append(atS, now), append(n, rng.Float64())
		h.add(now, n[len(n)-1], now-horizon)
		when := now - horizon*rng.Float64()
		want := 0.0
		for k := len(atS) - 1; k >= 0; k-- {
			if atS[k] <= when {
				want = n[k]
				break
			}
		}
		if got, _ := h.look(when); got != want {
			t.Fatalf("at %v looking at %v: got %v, want %v", now, when, got, want)
		}
	}
	if len(h.atS) > 256 {
		t.Errorf("%d entries kept for about 50", len(h.atS))
	}
}
