package simbackend

import (
	"container/heap"
	"math"
	"sync"
	"time"
)

// engine shares one processor equally between the running jobs. Every running
// job receives work at the same pace, so one number tells how far all have come:
// work, the work each job would have received that was there since the engine
// was last empty. A job's next event is a fixed value of work; arrivals and
// departures change only how fast work grows, never the order of events. So one
// heap and one timer do, and nothing polls.
type engine struct {
	muHz  float64
	kappa float64
	limit int // most running jobs; 0 = no limit

	mu      sync.Mutex
	running eventHeap
	waiting []*job    // in order of arrival
	work    float64   // in requests
	at      time.Time // when work was brought up to date
	timer   *time.Timer
	stats   Stats
}

// job is one request in the engine. Only wake may be used without the engine's mutex.
type job struct {
	first, step float64 // work until the first event, and from each event to the next
	batch       int     // tokens per event
	tokens      int     // tokens in all

	next  float64 // engine work at which the next event is due
	done  int     // tokens worked out
	index int     // place in the heap; -1 when not running
	wake  chan struct{}
}

// add lets j in: it runs, or waits when the engine is at its limit.
func (e *engine) add(j *job) {
	j.index, j.wake = -1, make(chan struct{}, 1)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stats.Requests++
	e.advanceLocked(time.Now())
	e.waiting = append(e.waiting, j)
	e.admitLocked()
	e.armLocked()
}

// remove takes j out before its end and counts it as cancelled; it does nothing
// to a job that has finished.
func (e *engine) remove(j *job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if j.done == j.tokens {
		return
	}
	e.stats.Cancelled++
	e.advanceLocked(time.Now())
	if j.index >= 0 {
		heap.Remove(&e.running, j.index)
	}
	for i, w := range e.waiting {
		if w == j {
			e.waiting = append(e.waiting[:i], e.waiting[i+1:]...)
			break
		}
	}
	e.admitLocked()
	e.armLocked()
}

// progress returns how many tokens of j are worked out.
func (e *engine) progress(j *job) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return j.done
}

// tick is the timer: it hands out the events that are due.
func (e *engine) tick() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.advanceLocked(time.Now())
	for len(e.running) > 0 && e.running[0].next <= e.work+roundingWork {
		e.eventLocked(e.running[0])
	}
	e.admitLocked()
	e.armLocked()
}

// roundingWork is the work by which an event may come early. It covers the
// rounding of sums near 1e6 requests and is far below one token.
const roundingWork = 1e-9

// eventLocked gives j its next batch of tokens.
func (e *engine) eventLocked(j *job) {
	n := min(j.batch, j.tokens-j.done)
	j.done += n
	e.stats.OutputTokens += uint64(n)
	j.next += j.step
	if j.done == j.tokens {
		heap.Remove(&e.running, j.index)
		e.stats.Finished++
	} else {
		heap.Fix(&e.running, j.index)
	}
	select {
	case j.wake <- struct{}{}:
	default: // it has not yet looked since the last event
	}
}

// admitLocked moves waiting jobs to running while there is room.
func (e *engine) admitLocked() {
	for len(e.waiting) > 0 && (e.limit == 0 || len(e.running) < e.limit) {
		j := e.waiting[0]
		e.waiting = e.waiting[1:]
		j.next = e.work + j.first
		heap.Push(&e.running, j)
	}
}

// advanceLocked brings work up to now. Work starts again from 0 when nobody
// runs, which keeps the rounding error small for ever.
func (e *engine) advanceLocked(now time.Time) {
	if len(e.running) == 0 {
		e.work = 0
	} else {
		e.work += e.paceHz() * now.Sub(e.at).Seconds()
	}
	e.at = now
}

// paceHz is l(N)/N, the work per second that each running job receives.
func (e *engine) paceHz() float64 { return e.muHz / (e.kappa + float64(len(e.running))) }

// armLocked sets the timer to the next event.
func (e *engine) armLocked() {
	if e.timer != nil {
		e.timer.Stop()
	}
	if len(e.running) == 0 {
		return
	}
	ns := math.Ceil((e.running[0].next - e.work) / e.paceHz() * float64(time.Second))
	wait := time.Duration(min(max(ns, 1), math.MaxInt64/2))
	if e.timer == nil {
		e.timer = time.AfterFunc(wait, e.tick)
	} else {
		e.timer.Reset(wait)
	}
}

// snapshot returns the counters and gauges.
func (e *engine) snapshot() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.Running, s.Waiting = len(e.running), len(e.waiting)
	return s
}

// eventHeap orders jobs by when their next event is due.
type eventHeap []*job

func (h eventHeap) Len() int           { return len(h) }
func (h eventHeap) Less(i, j int) bool { return h[i].next < h[j].next }
func (h eventHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push is for package heap.
func (h *eventHeap) Push(x any) {
	j := x.(*job)
	j.index = len(*h)
	*h = append(*h, j)
}

// Pop is for package heap.
func (h *eventHeap) Pop() any {
	j := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	j.index = -1
	return j
}
