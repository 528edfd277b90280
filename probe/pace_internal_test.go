package probe

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// Whatever the rate and however late each packet leaves, no window of one second
// holds more than cap+1 packets.
func TestPacerKeepsTheCapInEveryWindow(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		rate := math.Exp(r.Float64()*12 - 2) // 0.14 to 22,000 Hz
		if r.IntN(2) == 0 {
			rate = math.Ceil(rate) // the usual case, and the tightest
		}
		late := time.Duration(r.Int64N(int64(3 * catchUp)))
		p := newPacer(rate)
		now := time.Unix(1e9, 0)
		var sent []time.Time
		for range min(int(4*rate)+4, 60000) {
			now = p.next(now)
			if late > 0 && r.IntN(3) == 0 {
				now = now.Add(time.Duration(r.Int64N(int64(late))))
			}
			if r.IntN(1000) == 0 {
				now = now.Add(time.Duration(r.Int64N(int64(2 * time.Second)))) // idle for a while
			}
			p.take(now)
			sent = append(sent, now)
		}
		most := int(math.Floor(rate)) + 1
		for i := most; i < len(sent); i++ {
			if window := sent[i].Sub(sent[i-most]); window <= time.Second {
				t.Fatalf("seed %d: at %v Hz %d packets within %v", seed, rate, most+1, window)
			}
		}
	}
}

// A pacer that is asked in time, or up to catchUp late, gives the rate to 1 %.
func TestPacerGivesTheRate(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for _, rate := range []float64{0.3, 1, 7, 20, 99.5, 100, 999, 1000, 12345, 100000} {
		for _, late := range []time.Duration{0, catchUp} {
			p := newPacer(rate)
			start := time.Unix(1e9, 0)
			now := start
			n := max(1000, int(2*rate))
			for i := range n {
				if at := p.next(now); at.After(now) { // we wait, and wake up late
					now = at
					if late > 0 && i < n-1 {
						now = now.Add(time.Duration(r.Int64N(int64(late))))
					}
				}
				p.take(now)
			}
			got := float64(n-1) / now.Sub(start).Seconds()
			if math.Abs(got/rate-1) > 0.01 {
				t.Errorf("seed %d: rate %v Hz, lateness up to %v: got %v Hz", seed, rate, late, got)
			}
		}
	}
}

func TestPacerWithoutLimit(t *testing.T) {
	p := newPacer(math.Inf(1))
	now := time.Unix(1e9, 0)
	for range 10 {
		p.take(now)
		if got := p.next(now); !got.Equal(now) {
			t.Fatalf("next = %v, want %v", got, now)
		}
	}
}
