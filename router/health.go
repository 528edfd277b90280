package router

import "time"

// State is what is known about a region.
type State string

// The states of a region. Unknown is the state before the first check, and
// counts as usable, so that a restart does not take every region away.
const (
	Unknown State = "unknown"
	Up      State = "up"
	Down    State = "down"
)

// The defaults of Health.
const (
	DefaultRise = 2
	DefaultFall = 3
)

// Health turns check results into a state that does not flap: Fall failures in a
// row take a region down, Rise successes in a row bring it back. The first
// success makes an unknown region up at once. The zero value is ready, with the
// defaults. It reads no clock and is not safe for concurrent use.
type Health struct {
	Rise int // successes in a row to come up; below 1 means DefaultRise
	Fall int // failures in a row to go down; below 1 means DefaultFall

	state State
	since time.Time
	last  time.Time
	run   int // results in a row against the state
}

// Step takes the result of one check made at now and reports whether the state
// changed.
func (h *Health) Step(ok bool, now time.Time) (changed bool) {
	h.last = now
	state := h.State()
	if ok && state == Up || !ok && state == Down {
		h.run = 0
		return false
	}
	if ok && state == Unknown {
		return h.become(Up, now)
	}
	h.run++
	switch {
	case ok && h.run >= atLeastOne(h.Rise, DefaultRise):
		return h.become(Up, now)
	case !ok && h.run >= atLeastOne(h.Fall, DefaultFall):
		return h.become(Down, now)
	}
	return false
}

func (h *Health) become(s State, now time.Time) bool {
	h.state, h.since, h.run = s, now, 0
	return true
}

func atLeastOne(n, otherwise int) int {
	if n < 1 {
		return otherwise
	}
	return n
}

// State is the present state.
func (h *Health) State() State {
	if h.state == "" {
		return Unknown
	}
	return h.state
}

// Usable reports whether requests may go to the region: it is not down.
func (h *Health) Usable() bool { return h.State() != Down }

// Since is when the state began; the zero time while unknown.
func (h *Health) Since() time.Time { return h.since }

// Last is when the last check was made; the zero time before the first.
func (h *Health) Last() time.Time { return h.last }
