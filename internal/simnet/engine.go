package simnet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"strandline/datasets"
	"strandline/probe"
)

// engine moves packets over a Net in the order in which they are due; the
// drivers differ only in what moves its clock. Times are since the driver's
// epoch. It is not safe for concurrent use.
type engine struct {
	net   *Net    // as it is now
	later []epoch // what it will be
	state state
	now   time.Duration
	seq   uint64
	due   []event // a binary heap by event.before
	free  []*packet
	conns [][]*endpoint // by node
}

// event is a packet that arrives at a node, or leaves it (packet.origin).
type event struct {
	at  time.Duration
	seq uint64 // breaks ties: first come, first served
	p   *packet
}

func (e *event) before(o *event) bool {
	return e.at < o.at || e.at == o.at && e.seq < o.seq
}

// endpoint is the part of a Conn that the engine knows: where it is and what has
// arrived there. The arrivals keep their buffers.
type endpoint struct {
	node     int
	arrivals []arrival
	next     int           // the first arrival that nobody has taken
	wake     chan struct{} // of one element; gets one after each arrival; nil for Virtual
	closed   atomic.Bool   // nothing arrives any more; the one field that any goroutine may touch
}

type arrival struct {
	data []byte
	at   time.Duration
}

func newEngine(n *Net, seed uint64) engine {
	rng := rand.New(rand.NewPCG(seed, n.spec.Seed))
	return engine{net: n, later: n.later, state: newState(rng), conns: make([][]*endpoint, len(n.nodes))}
}

// push schedules p at a node.
func (e *engine) push(at time.Duration, node int, origin bool, p *packet) {
	e.seq++
	p.node, p.origin = int32(node), origin
	ev := event{at: at, seq: e.seq, p: p}
	e.due = append(e.due, ev)
	i := len(e.due) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !ev.before(&e.due[parent]) {
			break
		}
		e.due[i] = e.due[parent]
		i = parent
	}
	e.due[i] = ev
}

// pop removes the event that is due first.
func (e *engine) pop() event {
	first, size := e.due[0], len(e.due)-1
	last := e.due[size]
	e.due = e.due[:size]
	i := 0
	for child := 1; child < size; child = 2*i + 1 {
		if child+1 < size && e.due[child+1].before(&e.due[child]) {
			child++
		}
		if !e.due[child].before(&last) {
			break
		}
		e.due[i] = e.due[child]
		i = child
	}
	if size > 0 {
		e.due[i] = last
	}
	return first
}

// turn moves the clock to the next event and lets it happen, if it is due by
// the time limit. It reports whether there was one.
func (e *engine) turn(limit time.Duration) bool {
	if len(e.due) == 0 || e.due[0].at > limit {
		return false
	}
	ev := e.pop()
	e.now = max(e.now, ev.at)
	for len(e.later) > 0 && e.later[0].from <= ev.at {
		e.net, e.later = e.later[0].net, e.later[1:]
	}
	e.state.now = ev.at
	act, to := e.net.step(int(ev.p.node), ev.p, ev.p.origin, &e.state)
	if act == forward {
		e.cross(ev, to)
		return true
	}
	if act == deliver {
		for _, c := range e.conns[ev.p.node] {
			c.arrive(ev.p.data, ev.at)
		}
	}
	e.answer(ev, act)
	e.free = append(e.free, ev.p)
	return true
}

// answer schedules what the node says to the packet that ended there.
func (e *engine) answer(ev event, act action) {
	reply := e.packet()
	reply.data = e.net.answer(reply.data[:0], int(ev.p.node), ev.p, act, &e.state)
	if len(reply.data) == 0 || e.net.ready(reply) != nil {
		e.free = append(e.free, reply)
		return
	}
	e.push(ev.at, int(ev.p.node), true, reply)
}

// cross sends the packet of ev over an edge, on which it may be lost.
func (e *engine) cross(ev event, to edge) {
	l := &e.net.links[to.link]
	if l.loss > 0 && e.state.rng.Float64() < l.loss {
		e.free = append(e.free, ev.p)
		return
	}
	if l.noise != nil {
		e.disturb(ev, to, l)
	}
	ev.p.in = int32(to.link)
	e.push(ev.at+e.delay(l), to.to, false, ev.p)
}

// delay is how long a packet takes over a link.
func (e *engine) delay(l *link) time.Duration {
	if l.jitter > 0 {
		return l.delay + time.Duration(e.state.rng.Int64N(int64(l.jitter)))
	}
	return l.delay
}

// disturb may damage the packet of ev, and may send a second one like it.
func (e *engine) disturb(ev event, to edge, l *link) {
	if e.state.rng.Float64() < l.noise.corrupt {
		ev.p.damage(e.state.rng)
	}
	if e.state.rng.Float64() < l.noise.duplicate {
		twin := e.packet()
		data := append(twin.data[:0], ev.p.data...)
		*twin = *ev.p
		twin.data, twin.in = data, int32(to.link)
		e.push(ev.at+e.delay(l), to.to, false, twin)
	}
}

// damage flips one bit after the IP header. Routers go by what they read then.
func (p *packet) damage(rng *rand.Rand) {
	size := len(p.data) - p.h.HeaderLen
	if size <= 0 {
		return
	}
	bit := rng.IntN(8 * size)
	p.data[p.h.HeaderLen+bit/8] ^= 1 << (bit % 8)
	p.damaged = true
	was := p.h
	if p.h.Decode(p.data) != nil {
		p.h = was
	}
}

// packet returns an unused packet, whose buffer has seen use.
func (e *engine) packet() *packet {
	if k := len(e.free) - 1; k >= 0 {
		p := e.free[k]
		e.free = e.free[:k]
		p.damaged = false
		return p
	}
	return new(packet)
}

func (c *endpoint) arrive(data []byte, at time.Duration) {
	if c.closed.Load() {
		return
	}
	if k := len(c.arrivals); k < cap(c.arrivals) {
		c.arrivals = c.arrivals[:k+1]
	} else {
		c.arrivals = append(c.arrivals, arrival{})
	}
	a := &c.arrivals[len(c.arrivals)-1]
	a.data, a.at = append(a.data[:0], data...), at
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// take moves arrivals into pkts and returns how many.
func (c *endpoint) take(pkts []probe.Packet, epoch time.Time) int {
	k := 0
	for ; k < len(pkts) && c.next < len(c.arrivals); k++ {
		a := &c.arrivals[c.next]
		pkts[k].Data = append(pkts[k].Data[:0], a.data...)
		pkts[k].Time, pkts[k].Stamp = epoch.Add(a.at), datasets.StampSim
		c.next++
	}
	if c.next == len(c.arrivals) {
		c.arrivals, c.next = c.arrivals[:0], 0
	}
	return k
}

// attach makes the packets for an endpoint's host arrive there.
func (e *engine) attach(c *endpoint) { e.conns[c.node] = append(e.conns[c.node], c) }

// detach removes an endpoint; nothing arrives at it any more.
func (e *engine) detach(c *endpoint) {
	e.conns[c.node] = slices.DeleteFunc(e.conns[c.node], func(o *endpoint) bool { return o == c })
}

// send lets packets leave a host now; see probe.Conn.
func (e *engine) send(node int, pkts []probe.Packet, epoch time.Time) (int, error) {
	for i := range pkts {
		p := e.packet()
		if err := e.accept(node, p, pkts[i].Data); err != nil {
			e.free = append(e.free, p)
			return i, err
		}
		e.push(e.now, node, true, p)
		pkts[i].Time, pkts[i].Stamp = epoch.Add(e.now), datasets.StampSim
	}
	return len(pkts), nil
}

// accept loads p with a packet that the host may send: one from its own
// address, or from an anycast address that it serves.
func (e *engine) accept(node int, p *packet, data []byte) error {
	nd := &e.net.nodes[node]
	if err := e.net.load(p, data); err != nil {
		return fmt.Errorf("simnet: send from %s: %w", nd.name, err)
	}
	if src := p.h.Src; src != nd.own(src) && !nd.serves(e.net.destination(src)) {
		return fmt.Errorf("simnet: send from %s: %v is not its address", nd.name, src)
	}
	return nil
}

// local returns the address of a host that packets to dst leave from; see probe.Conn.
func (n *Net) local(node int, dst netip.Addr) (netip.Addr, error) {
	nd := &n.nodes[node]
	if a := nd.own(dst.Unmap()); a.IsValid() {
		return a, nil
	}
	return netip.Addr{}, fmt.Errorf("simnet: %s has no address of the family of %v: %w", nd.name, dst, errors.ErrUnsupported)
}

// closedError is what a Conn returns after its Close.
func (n *Net) closedError(op string, node int) error {
	return fmt.Errorf("simnet: %s at %s: %w", op, n.nodes[node].name, net.ErrClosed)
}

// ended returns why ctx has ended, or nil.
func ended(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
