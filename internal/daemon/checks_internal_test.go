package daemon

import (
	"testing"
	"time"

	"strandline/internal/config"
	"strandline/router"
)

// TestPause: eager while unknown, spread over an interval at first, then within
// a tenth of it.
func TestPause(t *testing.T) {
	const interval = 10 * time.Second
	r := &checker{check: config.Check{Interval: interval}}
	if got := r.pause(router.Unknown, false); got != eagerTime {
		t.Errorf("unknown: %v, want %v", got, eagerTime)
	}
	fast := &checker{check: config.Check{Interval: 10 * time.Millisecond}}
	if got := fast.pause(router.Unknown, false); got != 10*time.Millisecond {
		t.Errorf("unknown: %v, want no more than the interval", got)
	}
	least, most, sum := interval, time.Duration(0), time.Duration(0)
	const n = 2000
	for range n {
		if got := r.pause(router.Up, true); got < 0 || got >= interval {
			t.Fatalf("first: %v, want less than %v", got, interval)
		}
		got := r.pause(router.Down, false)
		least, most, sum = min(least, got), max(most, got), sum+got
	}
	if least < interval*9/10 || most > interval*11/10 || most-least < interval/10 {
		t.Errorf("between %v and %v, want them spread over a tenth around %v", least, most, interval)
	}
	if mean := sum / n; mean < interval*99/100 || mean > interval*101/100 { // 10 standard errors
		t.Errorf("mean %v, want %v", mean, interval)
	}
}
