package sim

import "math"

// region is one processor-sharing server: with n jobs inside it completes l(n)
// units of work per second, and each job gets an equal part. Jobs are ordered by
// the work that a job present all the time has received (virtual time), at which
// each will be done: an arrival or an end costs one heap operation and never looks
// at the other jobs.
type region struct {
	rateHz   func(inside int) float64 // l(n)
	received float64                  // work that each job present has received since the region was last empty
	atS      float64                  // when received was right
	jobs     eventHeap
	inside   int
	perJob   []float64 // l(n)/n by n, filled as needed
	up       bool
	slots    int       // workload below which tokens of free slots are sent; 0 = none are
	offered  []float64 // when the live ones expire, oldest first

	area float64 // integral of inside, within the measured time
	peak int

	epochS, epochDone float64 // latencies of this epoch, and how many

	reached uint64 // requests that reached it, within the measured time
	history history
	reports history
}

// rate is l(n)/n, the units of work per second that each of n jobs gets.
func (r *region) rate() float64 {
	for n := len(r.perJob); n <= r.inside; n++ {
		v := 0.0
		if n > 0 {
			v = r.rateHz(n) / float64(n)
		}
		r.perJob = append(r.perJob, v)
	}
	return r.perJob[r.inside]
}

// advance brings the work received up to now.
func (r *region) advance(nowS float64) {
	if r.inside > 0 {
		r.received += (nowS - r.atS) * r.rate()
		r.area += (nowS - r.atS) * float64(r.inside)
	}
	r.atS = nowS
}

// nextS is when the first job reaches its milestone.
func (r *region) nextS() float64 {
	if r.inside == 0 {
		return math.Inf(1)
	}
	return r.atS + max(0, r.jobs[0].at-r.received)/r.rate()
}

// enter adds a job with the given milestone ahead, in units of work.
func (r *region) enter(job int32, ahead float64, kind eventKind) {
	if r.inside == 0 {
		r.received = 0 // so that rounding does not grow with the age of the simulation
	}
	r.inside++
	r.peak = max(r.peak, r.inside)
	r.jobs.push(newEvent(r.received+ahead, kind, 0, job))
}

// history is a ring of the latest values of a workload with the moment of each.
type history struct {
	atS  []float64
	n    []float64
	head int // the oldest
	size int
}

// add appends a value and drops what no look at horizonS or later needs.
func (h *history) add(atS, n, horizonS float64) {
	for h.size > 1 && h.at(1) <= horizonS {
		h.head = (h.head + 1) & (len(h.atS) - 1)
		h.size--
	}
	if h.size == len(h.atS) {
		h.grow()
	}
	k := (h.head + h.size) & (len(h.atS) - 1)
	h.atS[k], h.n[k] = atS, n
	h.size++
}

func (h *history) at(k int) float64 { return h.atS[(h.head+k)&(len(h.atS)-1)] }

func (h *history) grow() {
	atS, n := make([]float64, max(16, 2*len(h.atS))), make([]float64, max(16, 2*len(h.atS)))
	for k := range h.size {
		from := (h.head + k) & (len(h.atS) - 1)
		atS[k], n[k] = h.atS[from], h.n[from]
	}
	h.atS, h.n, h.head = atS, n, 0
}

// look returns the value in force at a moment and when it was set; 0 and -Inf
// before the first.
func (h *history) look(atS float64) (n, setS float64) {
	low, high := -1, h.size // at(low) <= atS < at(high)
	for high-low > 1 {
		mid := (low + high) / 2
		if h.at(mid) <= atS {
			low = mid
		} else {
			high = mid
		}
	}
	if low < 0 {
		return 0, math.Inf(-1)
	}
	k := (h.head + low) & (len(h.atS) - 1)
	return h.n[k], h.atS[k]
}
