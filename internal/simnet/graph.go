package simnet

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"strandline/datasets"
	"strandline/probe/wire"
)

// Graph is the truth about all paths that some packets from a host to a target
// take.
type Graph struct {
	Hops      []Hop
	Links     []datasets.Link // between addresses that traces see; Flows is zero
	Balancers []Balancer
}

// Hop is a node that packets reach at a TTL, in the order of TTL, address and name.
type Hop struct {
	TTL   uint8
	Node  string
	Addr  netip.Addr // that its answer comes from, as the sender sees it; invalid when there is no answer of its own
	Share float64    // probability that a packet passes here, when balancers choose independently, in (0, 1]
	// Rewritten says that a gateway puts its own address, Addr, in the place of the
	// node's. ZeroTTL says that the node answers nothing itself: it forwards what
	// it should report, and the next node answers in its place.
	Rewritten, ZeroTTL bool
}

// Balancer is a node with several next hops on the way, at one TTL.
type Balancer struct {
	TTL  uint8 // 0: the host itself
	Node string
	Addr netip.Addr // as Hop.Addr
	// Class is what the packets can find out: per-destination is a recipe of which
	// they have source, destination and protocol at most.
	Class  datasets.Class
	Fields []string     // that its recipe and the packets have in common, in the order of the constants; none for per-packet
	Width  int          // next hops
	Next   []netip.Addr // of the next hops, sorted; of those that do not answer themselves it is invalid
	Shares []float64    // of the packets that pass the balancer, in the order of Next; their sum is 1
}

// MinShare is the share of the rarest next hop.
func (b *Balancer) MinShare() float64 { return slices.Min(b.Shares) }

// Graph follows the packets that are like the one given but for the header fields
// vary, which take all values; without any, all fields take all values that the
// packet has, except for source, destination and protocol. A balancer whose recipe
// has none of the varying fields sends them all one way, but its Balancer lists
// all its next hops. Balancers are taken to choose independently, so where two
// share an explicit seed the graph may hold paths that no packet takes.
//
// Links join addresses of neighbours only: hops that are silent, rewritten or
// forward with TTL 0 are in none. The error says that the host is unknown or
// cannot send such a packet, or names an unknown field.
func (n *Net) Graph(host string, data []byte, vary ...string) (Graph, error) {
	from, err := n.host(host)
	if err != nil {
		return Graph{}, err
	}
	x := explorer{net: n, host: host, from: from}
	for _, f := range vary {
		i := slices.Index(fieldNames(), f)
		if i < 0 {
			return Graph{}, fmt.Errorf("simnet: graph from %s: unknown header field %q, known are %s", host, f, strings.Join(fieldNames(), ", "))
		}
		x.vary |= 1 << i
	}
	if len(vary) == 0 {
		x.vary = ^(bitSrc | bitDst | bitProto)
	}
	return x.explore(data)
}

// Links returns the true links that traces from a host to dst can see, over all
// flows of all protocols: pairs of answering addresses next to each other, with
// the TTL of the first, ordered by TTL and addresses. Flows is zero. Hops that are
// silent, rewritten or forward with TTL 0 are in no link. A balancer whose recipe
// sees no difference between the flows of some protocol makes those flows pass
// fewer of the links; see Graph.
func (n *Net) Links(host string, dst netip.Addr) ([]datasets.Link, error) {
	from, _, err := n.pairing(host, dst)
	if err != nil {
		return nil, err
	}
	src, err := n.local(from, dst)
	if err != nil {
		return nil, err
	}
	const firstTraceroutePort = 33434
	data, err := wire.AppendUDP(nil, wire.IP{Src: src, Dst: dst, TTL: 255}, wire.UDP{SrcPort: 49152, DstPort: firstTraceroutePort})
	if err != nil {
		return nil, fmt.Errorf("simnet: links from %s: %w", host, err)
	}
	x := explorer{net: n, host: host, from: from, everywhere: true}
	g, err := x.explore(data)
	return g.Links, err
}

// explorer walks the packets' graph breadth first, one level a TTL.
type explorer struct {
	net        *Net
	host       string
	from       int
	vary       fields
	everywhere bool // follow every next hop of every balancer
	st         state
	target     netip.Addr
	graph      Graph
}

// vertex is a node as packets reach it; in tells ways apart that the node's
// answers tell apart, and is -1 where they do not.
type vertex struct {
	key
	p     packet
	share float64
	hop   Hop
}

type key struct{ node, in int }

func (x *explorer) explore(data []byte) (Graph, error) {
	start := &vertex{key: key{x.from, -1}, share: 1, hop: Hop{Node: x.host}}
	if err := x.net.load(&start.p, data); err != nil {
		return Graph{}, fmt.Errorf("simnet: graph from %s: %w", x.host, err)
	}
	start.p.origin = true
	x.target = start.p.h.Dst
	const lastTTL = 255
	level := []*vertex{start}
	for ttl := uint8(0); len(level) > 0; ttl++ {
		if ttl > 0 {
			for _, v := range level {
				v.hop.Share = v.share
				x.graph.Hops = append(x.graph.Hops, v.hop)
			}
		}
		if ttl == lastTTL {
			break
		}
		level = x.beyond(level, ttl)
	}
	x.tidy()
	return x.graph, nil
}

// beyond returns what the packets of one level reach next.
func (x *explorer) beyond(level []*vertex, ttl uint8) []*vertex {
	var next []*vertex
	known := map[key]*vertex{}
	for _, v := range level {
		children, taken := x.children(v, ttl+1)
		for i, c := range children {
			if taken[i] == 0 {
				continue
			}
			if ttl > 0 && v.hop.plain() && c.hop.plain() {
				x.graph.Links = append(x.graph.Links, datasets.Link{Vantage: x.host, Target: x.target, From: v.hop.Addr, To: c.hop.Addr, TTL: ttl})
			}
			if k := known[c.key]; k != nil {
				k.share += v.share * taken[i]
				continue
			}
			c.share = v.share * taken[i]
			known[c.key] = c
			next = append(next, c)
		}
	}
	return next
}

func (h *Hop) plain() bool { return h.Addr.IsValid() && !h.Rewritten && !h.ZeroTTL }

// children returns the next hops of a vertex and the share of its packets that
// takes each: 0 where none of these does.
func (x *explorer) children(v *vertex, ttl uint8) ([]*vertex, []float64) {
	act, next := x.net.options(v.node, &v.p, v.p.origin)
	if act != forward {
		return nil, nil
	}
	nd := &x.net.nodes[v.node]
	seen := nd.hash.fields & fieldsOf(&v.p.h)
	whole := nd.hash.spread != spreadFlow || x.everywhere || seen&x.vary != 0
	only := edge{}
	if !whole {
		only = x.net.choose(v.node, &v.p, next, &x.st)
	}
	var children []*vertex
	var taken, shares []float64
	for _, e := range next {
		share := float64(x.net.weight(nd, e)) / float64(x.net.total(nd, next))
		took := share
		if !whole {
			took = 0
			if e == only {
				took = 1
			}
		}
		c := x.child(v, e, ttl)
		if i := slices.IndexFunc(children, func(o *vertex) bool { return o.key == c.key }); i >= 0 {
			shares[i] += share
			taken[i] += took
			continue
		}
		children, shares, taken = append(children, c), append(shares, share), append(taken, took)
	}
	if len(children) > 1 {
		x.balancer(v, ttl-1, seen, children, shares)
	}
	return children, taken
}

// child moves a copy of the packet over an edge and asks the node there.
func (x *explorer) child(v *vertex, e edge, ttl uint8) *vertex {
	n := x.net
	c := &vertex{key: key{e.to, -1}, hop: Hop{TTL: ttl, Node: n.nodes[e.to].name}}
	c.p = v.p
	c.p.data = slices.Clone(v.p.data)
	if n.nodes[v.node].edit != nil && !v.p.origin {
		n.outward(v.node, &c.p, &x.st)
	}
	c.p.in, c.p.origin = int32(e.link), false
	if d := n.end(e.link, e.to); d.addr.IsValid() || d.addr6.IsValid() || d.ext != nil || d.ext6 != nil {
		c.in = e.link
	}
	x.ask(c)
	return c
}

// ask notes by which address the sender sees a node that its packet ends at.
func (x *explorer) ask(c *vertex) {
	n := x.net
	act, _ := n.options(c.node, &c.p, false)
	own := c.p.h.Dst
	if act == forward {
		act, own = expire, n.reporter(c.node, &c.p)
		if n.nodes[c.node].zeroTTL {
			c.hop.ZeroTTL = true
			return
		}
	}
	asked := packet{data: slices.Clone(c.p.data), h: c.p.h, dest: c.p.dest, in: c.p.in}
	var reply packet
	reply.data = n.answer(nil, c.node, &asked, act, &x.st)
	if len(reply.data) == 0 || n.ready(&reply) != nil {
		return
	}
	if back := n.follow(c.node, &reply, &x.st); back.act == deliver && back.end() == x.from {
		c.hop.Addr, c.hop.Rewritten = reply.h.Src, reply.h.Src != own
	}
}

func (x *explorer) balancer(v *vertex, ttl uint8, seen fields, children []*vertex, shares []float64) {
	nd := &x.net.nodes[v.node]
	b := Balancer{TTL: ttl, Node: nd.name, Addr: v.hop.Addr, Class: datasets.PerFlow, Fields: seen.names(), Width: len(children)}
	switch {
	case nd.hash.spread != spreadFlow:
		b.Class, b.Fields = datasets.PerPacket, nil
	case seen&^(bitSrc|bitDst|bitProto) == 0:
		b.Class = datasets.PerDestination
	}
	order := make([]int, len(children))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return children[i].hop.Addr.Compare(children[j].hop.Addr) })
	for _, i := range order {
		b.Next, b.Shares = append(b.Next, children[i].hop.Addr), append(b.Shares, shares[i])
	}
	x.graph.Balancers = append(x.graph.Balancers, b)
}

// tidy sorts the graph, and makes one of the hops and links that differ only by
// the way in which packets came.
func (x *explorer) tidy() {
	g := &x.graph
	slices.SortStableFunc(g.Links, func(a, b datasets.Link) int {
		return cmp.Or(cmp.Compare(a.TTL, b.TTL), a.From.Compare(b.From), a.To.Compare(b.To))
	})
	g.Links = slices.Compact(g.Links)
	slices.SortStableFunc(g.Hops, func(a, b Hop) int {
		return cmp.Or(cmp.Compare(a.TTL, b.TTL), a.Addr.Compare(b.Addr), cmp.Compare(a.Node, b.Node))
	})
	merged := g.Hops[:0]
	for _, h := range g.Hops {
		if k := len(merged) - 1; k >= 0 && merged[k].TTL == h.TTL && merged[k].Addr == h.Addr && merged[k].Node == h.Node {
			merged[k].Share += h.Share
			continue
		}
		merged = append(merged, h)
	}
	g.Hops = merged
	slices.SortStableFunc(g.Balancers, func(a, b Balancer) int {
		return cmp.Or(cmp.Compare(a.TTL, b.TTL), a.Addr.Compare(b.Addr), cmp.Compare(a.Node, b.Node))
	})
	g.Balancers = slices.CompactFunc(g.Balancers, func(a, b Balancer) bool { return a.TTL == b.TTL && a.Node == b.Node && a.Addr == b.Addr })
}
