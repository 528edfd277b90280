package probe

import (
	"math"
	"time"
)

// catchUp is how far a pacer that was called late may fall behind its schedule
// and still make up for it. A kernel wakes us up to a few milliseconds late;
// without catching up, 1000 packets/s would become 600.
const catchUp = 5 * time.Millisecond

// A pacer spaces packets out in time. It is pure: it reads no clock.
//
// The rule is the virtual scheduling algorithm (GCRA, ITU-T I.371, annex A):
// packet i+1 is due one interval after packet i was, and lateness up to catchUp
// is forgiven. Hence N packets take at least (N-1)·interval - catchUp, and the
// interval is chosen so that cap+2 packets never fit into one second:
//
//	interval = max(1/rate, (1 s + catchUp + 1 ns) / (floor(rate)+1))
//
// The second term costs at most 0.5 % of the rate, and only above 200 packets/s.
type pacer struct {
	interval time.Duration // 0 = no limit
	due      time.Time     // when the next packet is due
}

// newPacer returns a pacer of rateHz packets per second; +Inf is no limit.
func newPacer(rateHz float64) pacer {
	if math.IsInf(rateHz, 1) {
		return pacer{}
	}
	window := (time.Second + catchUp + time.Nanosecond).Seconds() / (math.Floor(rateHz) + 1)
	return pacer{interval: time.Duration(math.Ceil(max(1/rateHz, window) * 1e9))}
}

// next returns the earliest time, not before now, at which a packet may leave.
func (p *pacer) next(now time.Time) time.Time {
	if p.due.After(now) {
		return p.due
	}
	return now
}

// take records that a packet left at the given time.
func (p *pacer) take(at time.Time) {
	if p.interval == 0 {
		return
	}
	if late := at.Add(-catchUp); late.After(p.due) {
		p.due = late
	}
	p.due = p.due.Add(p.interval)
}
