package probe

import (
	"container/heap"
	"net/netip"
	"time"
)

// pacedPrefix is the network whose probes share one pacer: the smallest that is
// announced on the Internet, a /24 or a /48.
func pacedPrefix(addr netip.Addr) netip.Prefix {
	bits := 48
	if addr.Is4() {
		bits = 24
	}
	p, err := addr.Prefix(bits)
	if err != nil {
		panic("probe: internal error: prefix of " + addr.String())
	}
	return p
}

// turn is one task's wish to send its next probe.
type turn struct {
	task  task
	due   time.Time // not before this
	order uint64    // among equals the one that has waited longest
}

// turns is a heap of the turns of one prefix.
type turns []turn

func (t turns) Len() int { return len(t) }
func (t turns) Less(i, j int) bool {
	return earlier(t[i].due, t[i].order, t[j].due, t[j].order)
}
func (t turns) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t *turns) Push(x any)   { *t = append(*t, x.(turn)) }
func (t *turns) Pop() any {
	old := *t
	last := old[len(old)-1]
	*t = old[:len(old)-1]
	return last
}

func earlier(a time.Time, aOrder uint64, b time.Time, bOrder uint64) bool {
	if c := a.Compare(b); c != 0 {
		return c < 0
	}
	return aOrder < bOrder
}

// lane holds the turns of one prefix and its pacer.
type lane struct {
	turns turns
	pacer *pacer
	index int // in the queue's heap; -1 when it has no turns
}

// ready is when the lane's first turn may be taken.
func (l *lane) ready() time.Time { return l.pacer.next(l.turns[0].due) }

// queue orders what is to be sent. Two levels, because a prefix that must wait
// may hold thousands of turns that are due: only its first one is looked at.
type queue struct {
	lanes  map[netip.Prefix]*lane
	heap   laneHeap
	orders uint64
	pacers *pacers
}

type laneHeap []*lane

func (h laneHeap) Len() int { return len(h) }
func (h laneHeap) Less(i, j int) bool {
	return earlier(h[i].ready(), h[i].turns[0].order, h[j].ready(), h[j].turns[0].order)
}
func (h laneHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *laneHeap) Push(x any) {
	l := x.(*lane)
	l.index = len(*h)
	*h = append(*h, l)
}
func (h *laneHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	last.index = -1
	*h = old[:len(old)-1]
	return last
}

func newQueue(p *pacers) *queue {
	return &queue{lanes: map[netip.Prefix]*lane{}, pacers: p}
}

// push queues a turn of the task.
func (q *queue) push(t task, target netip.Addr, due time.Time) {
	prefix := pacedPrefix(target)
	l := q.lanes[prefix]
	if l == nil {
		l = &lane{pacer: q.pacers.of(prefix), index: -1}
		q.lanes[prefix] = l
	}
	q.orders++
	heap.Push(&l.turns, turn{t, due, q.orders})
	if l.index < 0 {
		heap.Push(&q.heap, l)
	} else {
		heap.Fix(&q.heap, l.index)
	}
}

// next returns when the next packet may leave, not before now; ok is false when
// nothing is queued.
func (q *queue) next(now time.Time) (at time.Time, ok bool) {
	if len(q.heap) == 0 {
		return at, false
	}
	at = q.heap[0].ready()
	if global := q.pacers.global.next(now); global.After(at) {
		at = global
	}
	return at, true
}

// pop takes the first turn off the queue; next has said that it is due.
func (q *queue) pop() task {
	l := q.heap[0]
	t := heap.Pop(&l.turns).(turn)
	if len(l.turns) == 0 {
		heap.Remove(&q.heap, l.index)
	} else {
		heap.Fix(&q.heap, l.index)
	}
	return t.task
}

// charge counts one packet to target, sent at the given time.
func (q *queue) charge(target netip.Addr, at time.Time) {
	q.pacers.global.take(at)
	l := q.lanes[pacedPrefix(target)]
	l.pacer.take(at)
	if l.index >= 0 {
		heap.Fix(&q.heap, l.index)
	}
}

// pacers are an engine's limits; they outlive one measurement, so that two
// measurements one after the other keep them too.
type pacers struct {
	global     pacer
	prefixRate float64
	prefixes   map[netip.Prefix]*pacer
}

func newPacers(rateHz, prefixRateHz float64) *pacers {
	return &pacers{newPacer(rateHz), prefixRateHz, map[netip.Prefix]*pacer{}}
}

func (p *pacers) of(prefix netip.Prefix) *pacer {
	one := p.prefixes[prefix]
	if one == nil {
		fresh := newPacer(p.prefixRate)
		one = &fresh
		p.prefixes[prefix] = one
	}
	return one
}

// forget drops the pacers that hold nothing back any more.
func (p *pacers) forget(now time.Time) {
	for prefix, one := range p.prefixes {
		if !one.due.Add(catchUp).After(now) {
			delete(p.prefixes, prefix)
		}
	}
}
