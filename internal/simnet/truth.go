package simnet

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"strandline/datasets"
	"strandline/probe/wire"
)

// Walk is what becomes of one packet and of the answer to it, as the forwarding
// core decides it: the truth that a probe's sample is scored against.
//
// The round trip is the sum of the delays of all links passed, both ways, plus
// one uniform [0, J) for each jittered traversal. Such a sum is symmetric about
// its mean, so half the jitters over the minimum is exactly its median. Times are
// zero when nothing comes back even if nothing is lost.
type Walk struct {
	Forward  []string         // the nodes passed, from the sender to where the packet ended
	Return   []string         // the nodes that the answer passed, from where it was made; empty without one
	Site     string           // the anycast site that took the packet; empty elsewhere
	Outcome  datasets.Outcome // of a probe that is not lost
	From     netip.Addr       // source of the answer
	ReplyTTL uint8            // TTL with which the answer arrives
	Min      time.Duration    // no jitter
	Median   time.Duration
	Max      time.Duration // all jitters at their ends, which are never quite reached
	Delivery float64       // probability that the answer arrives, in [0, 1], before any ICMP limit and damage

	Sprayed bool // a balancer that goes by packets is on the way: another packet may go elsewhere; here each took its first next hop
	Limited bool // the answer is an error of a router with an ICMP limit, which may be silent
}

// Truth follows the packet that a host sends, and the answer to it back, before
// any change of routes; see At for other times. It is exact for this very packet,
// header fields and TTL included, but for Sprayed and for translators whose ports
// other flows have taken. The error says that the host is unknown or cannot send
// such a packet.
func (n *Net) Truth(host string, data []byte) (Walk, error) {
	from, err := n.host(host)
	if err != nil {
		return Walk{}, err
	}
	return n.walk(from, data)
}

// Trace is Truth for the TTLs 1, 2, ... up to the one at which the packet's
// destination answers, or the last. The packet keeps everything else that it has.
func (n *Net) Trace(host string, data []byte, last uint8) ([]Walk, error) {
	probe := slices.Clone(data)
	var walks []Walk
	for ttl := uint8(1); ttl <= last && ttl != 0; ttl++ {
		if err := wire.SetTTL(probe, ttl); err != nil {
			return nil, fmt.Errorf("simnet: trace from %s: %w", host, err)
		}
		w, err := n.Truth(host, probe)
		if err != nil {
			return nil, err
		}
		walks = append(walks, w)
		if w.Outcome == datasets.OutcomeReply || w.Outcome == datasets.OutcomeUnreachable {
			break
		}
	}
	return walks, nil
}

func (n *Net) walk(from int, data []byte) (Walk, error) {
	var p, reply packet
	var st state
	if err := n.load(&p, data); err != nil {
		return Walk{}, fmt.Errorf("simnet: truth from %s: %w", n.nodes[from].name, err)
	}
	dst := p.h.Dst
	w := Walk{Outcome: datasets.OutcomeTimeout}
	there := n.follow(from, &p, &st)
	w.Forward = n.names(there.nodes)
	if there.act == deliver {
		w.Site = n.nodes[there.end()].site[p.dest]
	}
	reply.data = n.answer(nil, there.end(), &p, there.act, &st)
	w.Sprayed, w.Limited = st.sprayed, st.limited
	if len(reply.data) == 0 || n.ready(&reply) != nil {
		return w, nil
	}
	back := n.follow(there.end(), &reply, &st)
	w.Sprayed = st.sprayed
	w.Return = n.names(back.nodes)
	if back.act != deliver || back.end() != from {
		return w, nil
	}
	w.Outcome, w.From, w.ReplyTTL = outcome(reply.data, dst), reply.h.Src, reply.h.TTL
	w.Min = there.delay + back.delay
	w.Median = w.Min + (there.jitter+back.jitter)/2
	w.Max = w.Min + there.jitter + back.jitter
	w.Delivery = there.delivery * back.delivery
	return w, nil
}

// outcome says what an answer means to the one who probed dst.
func outcome(answer []byte, dst netip.Addr) datasets.Outcome {
	var r wire.Reply
	if err := r.Decode(answer); err != nil {
		return datasets.OutcomeTimeout
	}
	switch {
	case r.Src == dst:
		return datasets.OutcomeReply
	case r.Kind == wire.KindTimeExceeded:
		return datasets.OutcomeTTLExceeded
	}
	return datasets.OutcomeUnreachable
}

// leg is one packet's way from a node to where it ended.
type leg struct {
	nodes    []int
	act      action // what happened at the last one
	delay    time.Duration
	jitter   time.Duration // the largest sum
	delivery float64
}

func (l *leg) end() int { return l.nodes[len(l.nodes)-1] }

// follow moves p, lossless, until it ends.
func (n *Net) follow(from int, p *packet, st *state) leg {
	l := leg{nodes: []int{from}, delivery: 1}
	p.origin = true
	for {
		act, to := n.step(l.end(), p, p.origin, st)
		if act != forward {
			l.act = act
			return l
		}
		l.cross(n, to)
		p.in, p.origin = int32(to.link), false
	}
}

func (l *leg) cross(n *Net, e edge) {
	k := &n.links[e.link]
	l.delay += k.delay
	l.jitter += k.jitter
	l.delivery *= 1 - k.loss
	l.nodes = append(l.nodes, e.to)
}

func (n *Net) names(nodes []int) []string {
	names := make([]string, len(nodes))
	for i, at := range nodes {
		names[i] = n.nodes[at].name
	}
	return names
}

// Catchment returns the names of the sites that a host's flows to an anycast
// address land at, sorted: one, unless a balancer on the way splits the flows.
func (n *Net) Catchment(host string, addr netip.Addr) ([]string, error) {
	from, dest, err := n.pairing(host, addr)
	if err != nil {
		return nil, err
	}
	if dest < len(n.nodes) {
		return nil, fmt.Errorf("simnet: catchment of %v: not an anycast address", addr)
	}
	sites, visited := map[string]bool{}, map[int]bool{from: true}
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		if site, ok := n.nodes[queue[0]].site[dest]; ok {
			sites[site] = true
		}
		for _, e := range n.toward(dest)[queue[0]] {
			if !visited[e.to] {
				visited[e.to] = true
				queue = append(queue, e.to)
			}
		}
	}
	return slices.Sorted(maps.Keys(sites)), nil
}

// pairing finds a host and a destination.
func (n *Net) pairing(host string, dst netip.Addr) (from, dest int, err error) {
	if from, err = n.host(host); err != nil {
		return 0, 0, err
	}
	if dest = n.destination(dst); dest == noRoute {
		return 0, 0, fmt.Errorf("simnet: world %q has no address %v", n.spec.Name, dst)
	}
	return from, dest, nil
}

// Residual compares the round trip between two nodes of a mesh with what the
// mesh's file says. A round trip over one path is the same from either end, so a
// matrix that is not symmetric leaves half its asymmetry, whatever the delays.
type Residual struct {
	From, To   string  // names as in the file
	MatrixMS   float64 // the file's round trip
	PathMS     float64 // the simulator's, without jitter
	ResidualMS float64 // PathMS - MatrixMS
	Direct     bool    // both ways over the mesh's own link
}

// Residuals returns one row for each direction of each pair of each mesh, in the
// order of the names.
func (n *Net) Residuals() []Residual {
	const ms = float64(time.Millisecond)
	rows := make([]Residual, 0, len(n.gaps))
	for _, g := range n.gaps {
		there, back := n.shortest(g.from, g.to), n.shortest(g.to, g.from)
		r := Residual{From: g.fromName, To: g.toName, MatrixMS: float64(g.rtt) / ms,
			PathMS: float64(there.delay+back.delay) / ms, Direct: len(there.nodes) == 2 && len(back.nodes) == 2}
		r.ResidualMS = r.PathMS - r.MatrixMS
		rows = append(rows, r)
	}
	slices.SortStableFunc(rows, func(a, b Residual) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return rows
}

// shortest walks a shortest path to a node: the first, where there are several.
func (n *Net) shortest(from, to int) leg {
	l := leg{nodes: []int{from}, act: deliver, delivery: 1}
	for l.end() != to {
		l.cross(n, n.toward(to)[l.end()][0])
	}
	return l
}
