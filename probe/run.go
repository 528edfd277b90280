package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"strandline/datasets"
	"strandline/probe/wire"
)

const (
	batch      = 64   // packets received, and probes sent, at once
	packetSize = 2048 // room for a received packet
)

// aim is what all probes to one target have in common.
type aim struct {
	target datasets.Target
	src    netip.Addr // set by the first probe
	sum    uint16     // ICMP checksum of all probes: the flow of Paris traceroute
	base   uint16     // where the numbers in the UDP checksum start
	count  int        // probes made
	last   time.Time  // when the last one left
	queued bool       // has a turn in the queue
	done   bool       // counted as done
}

// shot is one probe to be sent.
type shot struct {
	proto        datasets.Proto
	ttl, tos     uint8
	seq          uint32 // of the row
	sport, dport uint16 // UDP and DNS
	label        uint32 // IPv6 flow label
	sum          uint16 // ICMP checksum; 0 = the aim's
	idOffset     uint16 // ICMP: added to the instance's identifier
	size         int    // payload octets, ICMP and UDP
	query        string // DNS: the name asked for
}

// task is the measurement of one target.
type task interface {
	aimed() *aim
	// due says when the next probe may leave; ok is false while there is none.
	due() (at time.Time, ok bool)
	// take returns the probe that due spoke of.
	take() shot
	// observe hears what became of a probe. The reply is nil unless something
	// arrived, and valid only during the call.
	observe(s datasets.Sample, reply *wire.Reply) error
	// finished reports whether no probe will follow.
	finished() bool
}

// echoed says by which number of the probe an answer finds it.
type echoed uint8

const (
	bySeq      echoed = iota // ICMP sequence
	byChecksum               // UDP checksum, in a quote
	byDNSID                  // DNS identifier, in an answer
)

// flightKey is what an answer says about its probe, besides the instance.
type flightKey struct {
	target netip.Addr
	by     echoed
	number uint16
}

type flightState uint8

const (
	waiting flightState = iota
	answered
	expired
)

// flight is a probe that was sent. It is remembered for a while after its
// outcome is known, to tell late and duplicate answers from foreign ones.
type flight struct {
	task   task
	sample datasets.Sample
	sent   time.Time
	ipID   uint16
	tag    uint64 // in the payload of ICMP and UDP
	query  wire.DNSQuery
	keys   []flightKey
	state  flightState
}

// run is one measurement under way.
type run struct {
	*Engine
	queue    *queue
	flights  map[flightKey]*flight
	open     []*flight // in the order sent; the timed-out and answered ones up to the first waiting one are gone
	resolved []*flight // in the order sent; remembered
	tasks    int
	done     int
	reported time.Time

	out   [1]Packet
	in    []Packet
	reply wire.Reply
	dns   wire.DNSMessage
	buf   []byte // payload under construction
}

// measure runs the tasks to their end.
func (e *Engine) measure(ctx context.Context, tasks []task) error {
	r := &run{
		Engine: e, queue: newQueue(e.pacers), flights: map[flightKey]*flight{},
		tasks: len(tasks), in: make([]Packet, batch),
	}
	for i := range r.in {
		r.in[i].Data = make([]byte, 0, packetSize)
	}
	now := e.Conn.Now()
	r.reported = now
	for _, t := range tasks {
		a := t.aimed()
		a.sum, a.base = 1+uint16(e.Rand.UintN(0xfffe)), uint16(e.Rand.UintN(0xfffe))
		r.schedule(t, now)
	}
	err := r.loop(ctx)
	if e.Progress != nil {
		e.Progress(r.progress())
	}
	e.pacers.forget(e.Conn.Now())
	return err
}

// loop sends, receives and expires until nothing is left to do.
func (r *run) loop(ctx context.Context) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		now := r.Conn.Now()
		if err := r.sendDue(now); err != nil {
			return err
		}
		deadline, ok := r.deadline(now)
		if !ok {
			return nil
		}
		n, err := r.Conn.Recv(ctx, r.in, deadline)
		if err != nil {
			return err
		}
		for i := range r.in[:n] {
			if err := r.receive(&r.in[i]); err != nil {
				return err
			}
		}
		if err := r.expire(r.seen(n, now, deadline)); err != nil {
			return err
		}
		r.report(now)
	}
}

// seen is the time up to which everything that arrived has been received, by a
// Recv that began at a time and returned n packets.
func (r *run) seen(n int, began, deadline time.Time) time.Time {
	switch now := r.Conn.Now(); {
	case n == len(r.in):
		return time.Time{} // there may be more
	case n > 0:
		return began
	case now.Before(deadline):
		return now
	}
	return deadline
}

// deadline is when the loop must wake up; ok is false when all is done.
func (r *run) deadline(now time.Time) (at time.Time, ok bool) {
	at, ok = r.queue.next(now)
	if len(r.open) > 0 {
		if timeout := r.open[0].sent.Add(r.timeout()); !ok || timeout.Before(at) {
			at, ok = timeout, true
		}
	}
	return at, ok
}

// schedule queues the task's next turn, if it wants one and has none.
func (r *run) schedule(t task, now time.Time) {
	a := t.aimed()
	if at, ok := t.due(); ok && !a.queued {
		if at.Before(now) {
			at = now
		}
		a.queued = true
		r.queue.push(t, a.target.Addr, at)
	}
	if !a.done && t.finished() {
		a.done = true
		r.done++
	}
}

// sendDue sends what may leave now, a batch at most, so that receiving gets its
// turn.
func (r *run) sendDue(now time.Time) error {
	for range batch {
		at, ok := r.queue.next(now)
		if !ok || at.After(now) {
			return nil
		}
		t := r.queue.pop()
		t.aimed().queued = false
		if _, ok := t.due(); ok { // an answer may have made the turn pointless
			if err := r.send(t, t.take(), now); err != nil {
				return err
			}
		}
		r.schedule(t, now)
	}
	return nil
}

// send makes and sends one probe.
func (r *run) send(t task, s shot, now time.Time) error {
	a := t.aimed()
	f := &flight{task: t, tag: r.Rand.Uint64(), sample: datasets.Sample{
		Vantage: r.Vantage, Target: a.target.Addr, Proto: s.proto, Seq: s.seq, TTL: s.ttl, TOS: s.tos,
	}}
	if f.ipID = uint16(f.tag); f.ipID == 0 {
		f.ipID = 1 // the kernel would replace 0
	}
	err := r.build(f, a, s)
	if err == nil {
		r.out[0].Time = now
		_, err = r.Conn.Send(r.out[:])
		now = r.out[0].Time
		r.queue.charge(a.target.Addr, now)
	}
	a.count++
	a.last = now
	if errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("probe %s: %w", a.target.Addr, err)
	}
	if err != nil {
		r.stats.SendErrors++
		f.sample.TxNS, f.sample.Stamp, f.sample.Outcome = now.UnixNano(), datasets.StampUser, datasets.OutcomeSendError
		return t.observe(f.sample, nil)
	}
	r.stats.Sent++
	f.sent = now
	f.sample.TxNS, f.sample.Stamp = now.UnixNano(), r.out[0].Stamp
	r.open = append(r.open, f)
	for _, k := range f.keys {
		r.flights[k] = f
	}
	return nil
}

// build puts the packet of f into r.out and completes f's sample and keys.
func (r *run) build(f *flight, a *aim, s shot) (err error) {
	if !a.src.IsValid() {
		if a.src, err = r.Conn.Local(a.target.Addr); err != nil {
			return err
		}
	}
	f.sample.Src = a.src
	f.sample.FlowLabel = s.label
	ip := wire.IP{Src: a.src, Dst: a.target.Addr, TTL: s.ttl, TOS: s.tos, ID: f.ipID, FlowLabel: s.label}
	b := r.out[0].Data[:0]
	switch s.proto {
	case datasets.ProtoICMP:
		seq := uint16(a.count)
		f.sample.ICMPID, f.sample.ICMPSum = r.id+s.idOffset, a.sum
		if s.sum != 0 {
			f.sample.ICMPSum = s.sum
		}
		f.keys = []flightKey{{a.target.Addr, bySeq, seq}}
		b, err = wire.AppendEcho(b, ip, wire.Echo{ID: f.sample.ICMPID, Seq: seq, Checksum: f.sample.ICMPSum, Payload: r.payload(f, s.size)})
	case datasets.ProtoUDP:
		f.sample.Sport, f.sample.Dport = s.sport, s.dport
		number := 1 + uint16((int(a.base)+a.count)%0xfffe) // never 0 nor 0xffff, which are one in this arithmetic
		f.keys = []flightKey{{a.target.Addr, byChecksum, number}}
		b, err = wire.AppendUDP(b, ip, wire.UDP{SrcPort: s.sport, DstPort: s.dport, Checksum: number, Payload: r.payload(f, s.size)})
	case datasets.ProtoDNS:
		f.sample.Sport, f.sample.Dport = s.sport, s.dport
		b, err = r.buildDNS(b, ip, f, s)
	default:
		err = fmt.Errorf("protocol %q: %w", s.proto, errors.ErrUnsupported)
	}
	r.out[0].Data = b
	return err
}

// buildDNS builds a DNS question. It has no room for an identity.
func (r *run) buildDNS(b []byte, ip wire.IP, f *flight, s shot) ([]byte, error) {
	target := f.sample.Target
	f.query = wire.DNSQuery{ID: uint16(f.tag >> 16), Name: s.query, Type: wire.DNSTypeTXT, Class: wire.DNSClassCHAOS}
	for r.flights[flightKey{target, byDNSID, f.query.ID}] != nil {
		f.query.ID++
	}
	var err error
	if r.buf, err = wire.AppendDNSQuery(r.buf[:0], f.query); err != nil {
		return b, err
	}
	if b, err = wire.AppendUDP(b, ip, wire.UDP{SrcPort: s.sport, DstPort: s.dport, Payload: r.buf}); err != nil {
		return b, err
	}
	var h wire.Header
	if err = h.Decode(b); err != nil {
		return b, err
	}
	f.keys = []flightKey{{target, byDNSID, f.query.ID}, {target, byChecksum, h.Checksum}}
	return b, nil
}

// The payload of ICMP and UDP probes: two octets that make the checksum come out
// as wanted, the tag, the identity.
const (
	tagOffset   = 2
	tagEnd      = tagOffset + 8
	minPayload  = tagEnd
	textPayload = 0 // a size that means: as long as the identity needs
)

func (r *run) payload(f *flight, size int) []byte {
	text := r.identity()
	room := len(text)
	if size != textPayload {
		room = max(0, size-minPayload)
	}
	b := append(r.buf[:0], 0, 0)
	b = binary.BigEndian.AppendUint64(b, f.tag)
	b = wire.AppendIdentity(b, text, room)
	for len(b) < size {
		b = append(b, 0)
	}
	r.buf = b
	return b
}

// expire resolves the probes that were not answered by their timeout, as of now,
// and forgets those whose timeout is as long ago again.
func (r *run) expire(now time.Time) error {
	for len(r.open) > 0 {
		f := r.open[0]
		if f.state == waiting {
			if f.sent.Add(r.timeout()).After(now) {
				break
			}
			f.state = expired
			r.stats.Timeouts++
			f.sample.Outcome = datasets.OutcomeTimeout
			if err := f.task.observe(f.sample, nil); err != nil {
				return err
			}
			r.schedule(f.task, now)
		}
		r.open = r.open[1:]
		r.resolved = append(r.resolved, f)
	}
	for len(r.resolved) > 0 && !r.resolved[0].sent.Add(2*r.timeout()).After(now) {
		for _, k := range r.resolved[0].keys {
			if r.flights[k] == r.resolved[0] { // else the number has come round and is another's
				delete(r.flights, k)
			}
		}
		r.resolved = r.resolved[1:]
	}
	return nil
}

func (r *run) report(now time.Time) {
	if r.Progress != nil && now.Sub(r.reported) >= progressEvery {
		r.reported = now
		r.Progress(r.progress())
	}
}

func (r *run) progress() Progress {
	return Progress{Targets: r.tasks, Done: r.done, Stats: r.stats}
}
