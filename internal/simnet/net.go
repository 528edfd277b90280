package simnet

import (
	"fmt"
	"io/fs"
	"math"
	"net/netip"
	"slices"
	"time"
)

// Net is a world ready to forward packets. It is immutable and safe for
// concurrent use.
type Net struct {
	spec     Spec
	nodes    []node
	links    []link
	byName   map[string]int
	byAddr   map[netip.Addr]int // address -> destination
	prefixes []prefixRoute
	routes   [][][]edge // destination -> node -> equally near next hops
	gaps     []pair     // the round trips that meshes were given
}

// A destination is a node (its index) or an anycast service (number of nodes +
// its index).
type prefixRoute struct {
	prefix netip.Prefix
	dest   int
}

// noRoute is the destination of packets to an address that nobody has.
const noRoute = -1

type node struct {
	name        string
	host        bool
	silent      bool
	addr, addr6 netip.Addr
	hash        recipe
	edges       []edge
	site        map[int]string // anycast destination -> what this site calls itself
}

// edge is one end of a link, seen from the other.
type edge struct {
	to   int // node
	link int
}

type link struct {
	a, b   int
	delay  time.Duration
	jitter time.Duration
	loss   float64
	metric int64
}

// Build validates spec, reads the files that its meshes name from fsys and
// computes the routes. fsys may be nil when there is no mesh. Faults of the
// spec and of the files are joined *datasets.Problem.
func Build(spec Spec, fsys fs.FS) (*Net, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	n := &Net{spec: spec, byName: map[string]int{}, byAddr: map[netip.Addr]int{}}
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
		n.routes = append(n.routes, n.route([]source{{node: i}}))
	}
	for i := range spec.Anycast {
		n.addAnycast(i)
	}
	return n, nil
}

func (n *Net) addNode(i int) {
	s := &n.spec.Nodes[i]
	nd := node{name: s.Name, host: s.Kind == KindHost, silent: s.Silent, addr: s.Addr, addr6: s.Addr6}
	nd.hash = newRecipe(s.Hash, n.spec.Seed, s.Name)
	n.byName[s.Name] = i
	for _, a := range []netip.Addr{s.Addr, s.Addr6} {
		if a.IsValid() {
			n.byAddr[a] = i
		}
	}
	n.nodes = append(n.nodes, nd)
}

func (n *Net) addLink(s Link) {
	a, b := n.byName[s.A], n.byName[s.B]
	l := link{a: a, b: b, delay: s.Delay, jitter: s.Jitter, loss: s.Loss, metric: int64(s.Metric)}
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
	a, dest := &n.spec.Anycast[i], len(n.routes)
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
	n.routes = append(n.routes, n.route(sources))
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
func (n *Net) route(sources []source) [][]edge {
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
			if d := dist[u] + n.links[e.link].metric; d < dist[e.to] && !final[e.to] {
				dist[e.to] = d
				queue = append(queue, e.to)
			}
		}
	}
	return n.nextHops(dist, final)
}

// nextHops lists, for every node, the edges that lie on a shortest path, in the
// order of the links.
func (n *Net) nextHops(dist []int64, final []bool) [][]edge {
	next := make([][]edge, len(n.nodes))
	for u := range n.nodes {
		if final[u] {
			continue
		}
		for _, e := range n.nodes[u].edges {
			passes := final[e.to] || !n.nodes[e.to].host
			if passes && dist[e.to] != math.MaxInt64 && dist[e.to]+n.links[e.link].metric == dist[u] {
				next[u] = append(next[u], e)
			}
		}
	}
	return next
}

// destination finds who has an address, or noRoute.
func (n *Net) destination(a netip.Addr) int {
	if dest, ok := n.byAddr[a]; ok {
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
func (n *Net) gateway(at int) (edge, bool) {
	best, found := edge{}, false
	for _, e := range n.nodes[at].edges {
		if !found || n.links[e.link].metric < n.links[best.link].metric {
			best, found = e, true
		}
	}
	return best, found
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
