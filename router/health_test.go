package router_test

import (
	"testing"
	"time"

	"strandline/router"
)

// Each letter is one check a second apart: + is a success, - a failure. want is
// the state after each: ? unknown, U up, D down.
func TestHealth(t *testing.T) {
	for _, c := range []struct {
		name       string
		rise, fall int
		checks     string
		want       string
	}{
		{"the first success counts", 2, 3, "+", "U"},
		{"unknown until the fall is complete", 2, 3, "---", "??D"},
		{"a success between starts over", 2, 3, "+--+--+---", "UUUUUUUUUD"},
		{"comes back after rise", 2, 3, "---++", "??DDU"},
		{"a failure between starts over", 2, 2, "--+-++", "?DDDDU"},
		{"no hysteresis", 1, 1, "-+-+", "DUDU"},
		{"defaults", 0, 0, "+---+-++", "UUUDDDDU"},
		{"unknown with a success in between", 3, 3, "--+--", "??UUU"},
		{"long run", 5, 1, "+-+++++", "UDDDDDU"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := router.Health{Rise: c.rise, Fall: c.fall}
			now, since := time.Unix(1000, 0), time.Time{}
			letter := map[router.State]byte{router.Unknown: '?', router.Up: 'U', router.Down: 'D'}
			before := h.State()
			for i := range c.checks {
				now = now.Add(time.Second)
				changed := h.Step(c.checks[i] == '+', now)
				if letter[h.State()] != c.want[i] {
					t.Fatalf("after %s: got %s, want %c", c.checks[:i+1], h.State(), c.want[i])
				}
				if changed != (h.State() != before) {
					t.Errorf("after %s: changed is %v", c.checks[:i+1], changed)
				}
				if changed {
					since = now
				}
				if h.Usable() != (h.State() != router.Down) || !h.Since().Equal(since) || !h.Last().Equal(now) {
					t.Errorf("after %s: usable %v, since %v, last %v", c.checks[:i+1], h.Usable(), h.Since(), h.Last())
				}
				before = h.State()
			}
		})
	}
}

func TestHealthStartsUnknownAndUsable(t *testing.T) {
	var h router.Health
	if h.State() != router.Unknown || !h.Usable() || !h.Since().IsZero() || !h.Last().IsZero() {
		t.Errorf("got %+v", h)
	}
}
