package sim

import "math"

// event is something that happens at a moment. It is 16 bytes, since moving them
// is what the simulator does most.
type event struct {
	at   float64 // seconds; work received, for the jobs of a region
	what uint32  // kind in the top byte, below it a source, frontend or region
	job  int32
}

func newEvent(at float64, kind eventKind, a int, job int32) event {
	return event{at, uint32(kind)<<24 | uint32(a), job}
}

func (e event) kind() eventKind { return eventKind(e.what >> 24) }
func (e event) index() int      { return int(e.what & 0xffffff) }

// mostIndex bounds the number of sources, frontends and regions.
const mostIndex = 1 << 24

type eventKind uint8

// The kinds of events.
const (
	onArrival    eventKind = iota // a request enters; a = source
	onReach                       // a request reaches its region; job
	onReply                       // an answer reaches its frontend; job
	onToken                       // a token of a free slot reaches a frontend; a = frontend, job = region
	onDown                        // a region fails; a = region
	onUp                          // a region is back; a = region
	onDetectDown                  // frontends learn that it failed
	onDetectUp                    // frontends learn that it is back
	onReport                      // regions report their workloads
	onEpoch                       // a new plan, and the statistics of moves
	onSample                      // workloads are sampled for the oscillation
	onRenew                       // regions offer again what expired tokens offered
	onMeasure                     // statistics begin (job = 1) or pause (0)
	onBatch                       // a batch of the statistics is full
	onFirstToken                  // a job's first token leaves; in a region's heap only
	onEnd                         // a job is done; in a region's heap only
)

// eventHeap is a heap, earliest first, with four children: fewer cache misses than two.
type eventHeap []event

func (q *eventHeap) push(e event) {
	h := append(*q, e)
	k := len(h) - 1
	for k > 0 {
		parent := (k - 1) / 4
		if h[parent].at <= e.at {
			break
		}
		h[k] = h[parent]
		k = parent
	}
	h[k] = e
	*q = h
}

func (q *eventHeap) pop() event {
	h := *q
	top, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	*q = h
	if len(h) == 0 {
		return top
	}
	k := 0
	for {
		first := 4*k + 1
		if first >= len(h) {
			break
		}
		least, at := first, h[first].at
		for c := first + 1; c < min(first+4, len(h)); c++ {
			if h[c].at < at {
				least, at = c, h[c].at
			}
		}
		if last.at <= at {
			break
		}
		h[k] = h[least]
		k = least
	}
	h[k] = last
	return top
}

// tournament keeps the least of a fixed number of times under changes, in
// logarithmic time: the inner places of a binary tree hold winners.
type tournament struct {
	times  []float64
	winner []int32 // place 1 is the root; leaf j is place len(times)+j
}

func newTournament(n int) *tournament {
	size := 1
	for size < n {
		size *= 2
	}
	t := &tournament{times: make([]float64, size), winner: make([]int32, 2*size)}
	for j := range t.times {
		t.times[j] = math.Inf(1)
		t.winner[size+j] = int32(j)
	}
	for p := size - 1; p > 0; p-- {
		t.winner[p] = t.winner[2*p]
	}
	return t
}

func (t *tournament) set(j int, at float64) {
	t.times[j] = at
	for p := (len(t.times) + j) / 2; p > 0; p /= 2 {
		a, b := t.winner[2*p], t.winner[2*p+1]
		if t.times[b] < t.times[a] {
			a = b
		}
		t.winner[p] = a
	}
}

// least is the index of the earliest time, and that time.
func (t *tournament) least() (int, float64) {
	j := t.winner[1]
	return int(j), t.times[j]
}
