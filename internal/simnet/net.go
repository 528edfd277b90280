package simnet

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"math"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

// Net is a world ready to forward packets. It is immutable, but for routes that it
// computes when they are first needed, and safe for concurrent use.
type Net struct {
	spec     Spec
	nodes    []node
	links    []link
	ends     [][2]end   // of a and of b of each link
	labels   [][]uint32 // of each link
	byName   map[string]int
	byAddr   map[netip.Addr]int // IPv6 address -> destination
	byAddr4  map[uint32]int     // the same for IPv4: a smaller key is found sooner
	prefixes []prefixRoute
	sources  [][]source              // destination -> where it is reached
	routes   []atomic.Pointer[table] // by destination; see toward
	gateways [][]edge                // node -> where it sends what it has no route for: one edge or none
	gaps     []pair                  // the round trips that meshes were given
	later    []epoch                 // what the world's changes make of it, in the order of time
}

// A destination is a node (its index) or an anycast service (number of nodes +
// its index).
type prefixRoute struct {
	prefix netip.Prefix
	dest   int
}

// noRoute is the destination of packets to an address that nobody has.
const noRoute = -1

// node has first what is looked at for every packet.
type node struct {
	host    bool
	silent  bool
	zeroTTL bool
	site    map[int]string // anycast destination -> what this site calls itself
	edit    *edit          // what it changes in packets; nil for most
	hash    recipe
	edges   []edge

	addr, addr6 netip.Addr
	name        string
	weights     map[string]int // of next nodes, 1 where there is none; nil when all are 1
	limit       ICMPLimit
	quote       int
	tells       bool // InterfaceInfo
	tcp         []uint16
}

// edge is one end of a link, seen from the other.
type edge struct {
	to   int // node
	link int
}

type link struct {
	delay  time.Duration
	jitter time.Duration
	loss   float64
	noise  *noise // nil for most
	metric int64
	a, b   int
	down   bool
}

// noise is the probabilities of what else a link does to a packet.
type noise struct{ duplicate, corrupt float64 }

// Build validates spec and reads the files that its meshes name from fsys. fsys may be nil when there is no mesh. Faults of the
// spec and of the files are joined *datasets.Problem.
func Build(spec Spec, fsys fs.FS) (*Net, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	n := &Net{spec: spec, byName: map[string]int{}, byAddr: map[netip.Addr]int{}, byAddr4: map[uint32]int{}}
	for i := range spec.Nodes {
		n.addNode(i)
	}
	for _, l := range spec.Links {
		n.addLink(l)
	}
	for _, m := range spec.Meshes {
		if err := n.addMesh(m, fsys); err != nil {
			return nil, err
		}
	}
	for _, o := range spec.Overrides {
		n.override(o)
	}
	for i := range n.nodes {
		n.sources = append(n.sources, []source{{node: i}})
	}
	for i := range spec.Anycast {
		n.addAnycast(i)
	}
	n.describeEnds()
	n.reroute()
	n.addChanges()
	return n, nil
}

// table is every node's equally near next hops to one destination.
type table [][]edge

// toward returns the table of a destination. It is computed when the first packet
// needs it, because few destinations of a large world are ever asked for; who
// computes it at the same time gets the same.
func (n *Net) toward(dest int) table {
	if t := n.routes[dest].Load(); t != nil {
		return *t
	}
	t := n.route(n.sources[dest])
	n.routes[dest].Store(&t)
	return t
}

// reroute forgets all routes, so that they go over the links that are up.
func (n *Net) reroute() {
	n.routes = make([]atomic.Pointer[table], len(n.sources))
	n.gateways = make([][]edge, len(n.nodes))
	for at := range n.nodes {
		n.gateways[at] = n.gateway(at)
	}
}

func (n *Net) addNode(i int) {
	s := &n.spec.Nodes[i]
	nd := node{name: s.Name, host: s.Kind == KindHost, silent: s.Silent, addr: s.Addr, addr6: s.Addr6,
		weights: s.Hash.Weights, zeroTTL: s.ZeroTTL, limit: s.ICMPLimit, quote: s.Quote, tells: s.InterfaceInfo, tcp: s.TCP}
	nd.hash = newRecipe(s.Hash, n.spec.Seed, s.Name)
	if len(s.NAT.Inside) > 0 || len(s.Rewrites) > 0 {
		nd.edit = &edit{nat: s.NAT, rewrites: s.Rewrites}
	}
	n.byName[s.Name] = i
	n.own(s.Addr, i)
	n.own(s.Addr6, i)
	n.nodes = append(n.nodes, nd)
}

func (n *Net) addLink(s Link) {
	a, b := n.byName[s.A], n.byName[s.B]
	l := link{a: a, b: b, delay: s.Delay, jitter: s.Jitter, loss: s.Loss, metric: int64(s.Metric)}
	if s.Duplicate > 0 || s.Corrupt > 0 {
		l.noise = &noise{s.Duplicate, s.Corrupt}
	}
	ends := [2]end{{addr: s.AddrA, addr6: s.Addr6A}, {addr: s.AddrB, addr6: s.Addr6B}}
	for i, at := range [...]int{a, b} {
		n.own(ends[i].addr, at)
		n.own(ends[i].addr6, at)
	}
	n.ends, n.labels = append(n.ends, ends), append(n.labels, s.MPLS)
	if l.delay == 0 {
		l.delay = n.spec.Fibre.delay(n.spec.distanceKm(a, b))
	}
	if l.metric == 0 {
		l.metric = max(1, l.delay.Microseconds())
	}
	n.nodes[a].edges = append(n.nodes[a].edges, edge{to: b, link: len(n.links)})
	n.nodes[b].edges = append(n.nodes[b].edges, edge{to: a, link: len(n.links)})
	n.links = append(n.links, l)
}

func (n *Net) override(o Override) {
	a, b := n.byName[o.A], n.byName[o.B]
	for i := range n.links {
		l := &n.links[i]
		if (l.a != a || l.b != b) && (l.a != b || l.b != a) {
			continue
		}
		if o.Inflate != 0 {
			l.delay = time.Duration(float64(l.delay) * o.Inflate)
		}
		if o.Jitter != 0 {
			l.jitter = o.Jitter
		}
		if o.Loss != 0 {
			l.loss = o.Loss
		}
	}
}

func (n *Net) addAnycast(i int) {
	a, dest := &n.spec.Anycast[i], len(n.sources)
	var sources []source
	for _, s := range a.Sites {
		nd := &n.nodes[n.byName[s.Node]]
		if nd.site == nil {
			nd.site = map[int]string{}
		}
		nd.site[dest] = s.Name
		sources = append(sources, source{node: n.byName[s.Node], metric: int64(s.Metric)})
	}
	for _, p := range []netip.Prefix{a.Prefix, a.Prefix6} {
		if p.IsValid() {
			n.prefixes = append(n.prefixes, prefixRoute{prefix: p, dest: dest})
		}
	}
	n.sources = append(n.sources, sources)
}

// source is a node that a destination is reached at, and what is added to the
// distance there.
type source struct {
	node   int
	metric int64
}

// route computes, for one destination, every node's equally near next hops:
// Bellman-Ford with a queue, outwards from the sources. Metrics are positive, so
// each next hop is strictly nearer and no packet can loop. A source keeps its
// own distance (it delivers, whatever is nearer), and a host that is not one
// passes nothing on.
func (n *Net) route(sources []source) table {
	dist := make([]int64, len(n.nodes))
	for i := range dist {
		dist[i] = math.MaxInt64
	}
	final := make([]bool, len(n.nodes))
	var queue []int
	for _, s := range sources {
		dist[s.node], final[s.node] = s.metric, true
		queue = append(queue, s.node)
	}
	for ; len(queue) > 0; queue = queue[1:] {
		u := queue[0]
		if n.nodes[u].host && !final[u] {
			continue
		}
		for _, e := range n.nodes[u].edges {
			if d := dist[u] + n.links[e.link].metric; d < dist[e.to] && !final[e.to] && !n.links[e.link].down {
				dist[e.to] = d
				queue = append(queue, e.to)
			}
		}
	}
	return n.nextHops(dist, final)
}

// nextHops lists, for every node, the edges that lie on a shortest path, in the
// order of the links.
func (n *Net) nextHops(dist []int64, final []bool) table {
	next := make(table, len(n.nodes))
	for u := range n.nodes {
		if final[u] {
			continue
		}
		for _, e := range n.nodes[u].edges {
			passes := (final[e.to] || !n.nodes[e.to].host) && !n.links[e.link].down
			if passes && dist[e.to] != math.MaxInt64 && dist[e.to]+n.links[e.link].metric == dist[u] {
				next[u] = append(next[u], e)
			}
		}
	}
	return next
}

// weight is the part of its packets that a node gives to a next hop, in units of
// total.
func (n *Net) weight(nd *node, e edge) uint32 {
	if w, ok := nd.weights[n.nodes[e.to].name]; ok {
		return uint32(w)
	}
	return 1
}

// total is the sum of the weights of a node's next hops.
func (n *Net) total(nd *node, next []edge) uint32 {
	if nd.weights == nil {
		return uint32(len(next))
	}
	sum := uint32(0)
	for _, e := range next {
		sum += n.weight(nd, e)
	}
	return sum
}

// pick returns the next hop whose part of [0, total) holds x.
func (n *Net) pick(nd *node, next []edge, x uint32) edge {
	if nd.weights == nil {
		return next[x]
	}
	i := 0
	for w := n.weight(nd, next[0]); x >= w; w = n.weight(nd, next[i]) {
		x -= w
		i++
	}
	return next[i]
}

// own notes whose an address is, if there is one.
func (n *Net) own(a netip.Addr, at int) {
	switch {
	case a.Is4():
		n.byAddr4[key4(a)] = at
	case a.Is6():
		n.byAddr[a] = at
	}
}

func key4(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

// destination finds who has an address, or noRoute.
func (n *Net) destination(a netip.Addr) int {
	if a.Is4() {
		if dest, ok := n.byAddr4[key4(a)]; ok {
			return dest
		}
	} else if dest, ok := n.byAddr[a]; ok {
		return dest
	}
	for _, p := range n.prefixes {
		if p.prefix.Contains(a) {
			return p.dest
		}
	}
	return noRoute
}

// host finds a host by name.
func (n *Net) host(name string) (int, error) {
	if i, ok := n.byName[name]; ok && n.nodes[i].host {
		return i, nil
	}
	return 0, fmt.Errorf("simnet: world %q has no host %q", n.spec.Name, name)
}

// own returns the node's address of a's family; it may be invalid.
func (nd *node) own(a netip.Addr) netip.Addr {
	if a.Is4() {
		return nd.addr
	}
	return nd.addr6
}

// gateway is where a node sends what it has no route for: over its nearest
// link, as by a default route.
func (n *Net) gateway(at int) []edge {
	var best []edge
	for _, e := range n.nodes[at].edges {
		l := &n.links[e.link]
		if !l.down && (best == nil || l.metric < n.links[best[0].link].metric) {
			best = []edge{e}
		}
	}
	return best
}

// place returns the node whose coordinates node i has.
func (s *Spec) place(i int) *Node {
	at := s.Nodes[i].At
	if at == "" {
		return &s.Nodes[i]
	}
	return &s.Nodes[slices.IndexFunc(s.Nodes, func(n Node) bool { return n.Name == at })]
}

// earthRadiusKm is the mean radius of the Earth (IUGG R1).
const earthRadiusKm = 6371.0088

// distanceKm is the great-circle distance between two nodes, by the haversine
// formula on a sphere.
func (s *Spec) distanceKm(a, b int) float64 {
	const rad = math.Pi / 180
	p, q := s.place(a), s.place(b)
	sinLat, sinLon := math.Sin((q.Lat-p.Lat)*rad/2), math.Sin((q.Lon-p.Lon)*rad/2)
	h := sinLat*sinLat + math.Cos(p.Lat*rad)*math.Cos(q.Lat*rad)*sinLon*sinLon
	return 2 * earthRadiusKm * math.Asin(math.Sqrt(min(1, h)))
}

// delay is the time that light takes over a great-circle distance, one way.
func (f Fibre) delay(km float64) time.Duration {
	speed, factor := f.KmPerMS, f.Factor
	if speed == 0 {
		speed = 200
	}
	if factor == 0 {
		factor = 1
	}
	ms := km * factor / speed
	return max(f.Floor, time.Duration(ms*float64(time.Millisecond)))
}
