package simnet

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"
)

// Features is a set of what a random world may have.
type Features uint32

// The features of random worlds. Each world draws its own from those allowed.
const (
	Nested         Features = 1 << iota // diamonds in branches of diamonds
	Meshed                              // links across the branches
	Unequal                             // branches of different length
	Weighted                            // uneven shares
	Spraying                            // balancers that go by packets
	ByDestination                       // balancers that go by source and destination only
	OddFields                           // balancers that hash less, or more, than the five-tuple
	Translated                          // a NAT near the host, IPv4 only
	Labelled                            // MPLS label stacks
	Interfaces                          // an address for each end of each link between routers
	InterfaceNames                      // RFC 5837
	Lossy                               // up to 20 % of the round trips to the target
	Limited                             // ICMP rate limits
	Silences                            // routers that do not answer
	ShortQuotes                         // routers that quote eight octets
	ZeroTTLs                            // routers that forward with TTL 0
	Rewriting                           // a gateway that hides the routers behind it
	Changing                            // a link that goes down, and perhaps up again, within ten seconds
	Noisy                               // links that duplicate and damage up to 1 % of the packets

	AllFeatures Features = 1<<iota - 1
)

// Has reports whether all of o are in f.
func (f Features) Has(o Features) bool { return f&o == o }

// String lists the features by name, joined by commas.
func (f Features) String() string {
	names := [...]string{"nested", "meshed", "unequal", "weighted", "spraying", "by-destination", "odd-fields", "translated", "labelled",
		"interfaces", "interface-names", "lossy", "limited", "silences", "short-quotes", "zero-ttls", "rewriting", "changing", "noisy"}
	text := ""
	for i, name := range names {
		if f&(1<<i) == 0 {
			continue
		}
		if text != "" {
			text += ","
		}
		text += name
	}
	return text
}

// Random says what kind of worlds to draw.
type Random struct {
	Allowed  Features // each is drawn with probability 1/3
	Required Features // these are in every world
	MaxWidth int      // of a balancer; default 96
	Diamonds int      // at most, one after the other; default 3
}

// RandomWorld is a world with one host and one target, several hops apart. Its
// truth is Build(Spec), then Graph and the other methods.
type RandomWorld struct {
	Spec            Spec
	Host            string
	Target, Target6 netip.Addr
	Features        Features
	Loss            float64 // of round trips to the target, on links
}

// World draws a world; the same seed gives the same. It always has a diamond and
// always validates.
//
// All ways from the host to the target are equally far: each node has a place on
// a line, and the metric of a link is how far apart its ends are, so every way
// that never turns back is a shortest one.
func (r Random) World(seed uint64) RandomWorld {
	g := growth{rng: rand.New(rand.NewPCG(seed, 0x5eed)), maxWidth: r.MaxWidth, places: map[string]int{}}
	if g.maxWidth == 0 {
		g.maxWidth = 96
	}
	diamonds := r.Diamonds
	if diamonds == 0 {
		diamonds = 3
	}
	g.features = r.Required
	for f := Nested; f < AllFeatures; f <<= 1 {
		if g.rng.IntN(3) == 0 {
			g.features |= f & r.Allowed
		}
	}
	g.w.Spec = Spec{Name: fmt.Sprint("random ", seed), Seed: g.rng.Uint64()}
	g.w.Host, g.w.Features = "src", g.features
	g.chain(1 + g.rng.IntN(diamonds))
	g.decorate()
	return g.w
}

// growth is a world in the making.
type growth struct {
	rng      *rand.Rand
	features Features
	maxWidth int
	w        RandomWorld
	places   map[string]int // node -> place on the line
	ends     int            // addresses of interfaces given out
	cut      []string       // routers that all packets pass, in order
}

// segment is the length of a diamond, or of a plain hop, on the line. It can be
// halved often.
const segment = 1 << 20

func (g *growth) chance(p float64) bool { return g.rng.Float64() < p }

// node adds a node at a place on the line.
func (g *growth) node(name, kind string, place int) string {
	i := len(g.w.Spec.Nodes) + 1
	g.w.Spec.Nodes = append(g.w.Spec.Nodes, Node{Name: name, Kind: kind,
		Addr:  netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}),
		Addr6: netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 5: 1, 14: byte(i >> 8), 15: byte(i)})})
	g.places[name] = place
	return name
}

func (g *growth) router(place int) string {
	return g.node(fmt.Sprint("r", len(g.w.Spec.Nodes)), KindRouter, place)
}

// link joins two nodes, the nearer to the host first.
func (g *growth) link(a, b string) {
	l := Link{A: a, B: b, Metric: g.places[b] - g.places[a], Delay: time.Duration(50+g.rng.IntN(3000)) * time.Microsecond,
		Jitter: time.Duration(g.rng.IntN(200)) * time.Microsecond}
	g.w.Spec.Links = append(g.w.Spec.Links, l)
}

// chain grows the world from the host to the target: plain hops, and diamonds.
func (g *growth) chain(diamonds int) {
	last := g.node("src", KindHost, 0)
	place := 0
	hop := func() {
		place += segment
		next := g.router(place)
		g.link(last, next)
		last = next
		g.cut = append(g.cut, next)
	}
	for range 1 + g.rng.IntN(3) {
		hop()
	}
	for range diamonds {
		last = g.diamond(last, place, segment, g.width(g.maxWidth), true)
		place += segment
		g.cut = append(g.cut, last)
		for range g.rng.IntN(3) {
			hop()
		}
	}
	place += segment
	g.node("dst", KindHost, place)
	g.link(last, "dst")
	dst := &g.w.Spec.Nodes[len(g.w.Spec.Nodes)-1]
	dst.TCP = []uint16{80, 443}
	g.w.Target, g.w.Target6 = dst.Addr, dst.Addr6
}

// width draws from 2 to most, each doubling equally likely.
func (g *growth) width(most int) int {
	w := math.Exp2(1 + g.rng.Float64()*math.Log2(float64(most)/2))
	return min(most, max(2, int(math.Round(w))))
}

// diamond grows a diamond from a router at a place and returns its last router.
func (g *growth) diamond(first string, place, length, width int, outer bool) string {
	if g.features.Has(Meshed) && g.chance(0.6) {
		return g.mesh(first, place, length, width)
	}
	last := g.router(place + length)
	depth := 1 + g.rng.IntN(2)
	nests := 0
	for range width {
		k := depth
		if g.features.Has(Unequal) {
			k += g.rng.IntN(3)
		}
		at := first
		for i := range k {
			step := length / (k + 1)
			here := place + (i+1)*step
			if outer && g.features.Has(Nested) && nests < 3 && g.chance(0.4) {
				nests++
				next := g.router(here - step/2)
				g.link(at, next)
				at = g.diamond(next, here-step/2, step/4, g.width(min(8, g.maxWidth)), false)
				continue
			}
			next := g.router(here)
			g.link(at, next)
			at = next
		}
		g.link(at, last)
	}
	return last
}

// mesh grows layers of routers with links across. Its layers have at most 12
// routers, because telling all links of a mesh apart takes a probe for each pair.
func (g *growth) mesh(first string, place, length, width int) string {
	layers := 2 + g.rng.IntN(2)
	width = min(width, 12)
	before := []string{first}
	for i := range layers {
		var layer []string
		for range max(2, width-g.rng.IntN(width)) {
			layer = append(layer, g.router(place+(i+1)*length/(layers+1)))
		}
		g.join(before, layer)
		before = layer
	}
	last := g.router(place + length)
	g.join(before, []string{last})
	return last
}

// join links two layers: each router with at least one of the other layer, and
// all from or to a single one.
func (g *growth) join(near, far []string) {
	dense := g.rng.Float64() * 0.6
	reached := make([]bool, len(far))
	for i, a := range near {
		sure := g.rng.IntN(len(far))
		for j, b := range far {
			missing := i == len(near)-1 && !reached[j]
			if len(near) == 1 || j == sure || missing || g.chance(dense) {
				g.link(a, b)
				reached[j] = true
			}
		}
	}
}

// decorate gives the grown world its features.
func (g *growth) decorate() {
	s := &g.w.Spec
	next := map[string][]string{}
	for i := range s.Links {
		next[s.Links[i].A] = append(next[s.Links[i].A], s.Links[i].B)
	}
	for i := range s.Nodes {
		if nd := &s.Nodes[i]; nd.Kind == KindRouter {
			g.balancing(nd, next[nd.Name])
			g.manners(nd)
		}
	}
	for i := range s.Links {
		g.wire(&s.Links[i])
	}
	if g.features.Has(Lossy) {
		g.lose()
	}
	if g.features.Has(Translated) {
		g.gateway(0).NAT = NAT{Inside: []netip.Prefix{netip.PrefixFrom(s.Nodes[0].Addr, 32)}, Ports: g.chance(0.5),
			Quote: []string{QuoteAddress, QuoteFull, QuoteNone}[g.rng.IntN(3)]}
	}
	if g.features.Has(Rewriting) {
		g.hide(g.gateway(g.rng.IntN(len(g.cut))))
	}
	if g.features.Has(Changing) {
		g.change(next)
	}
}

// gateway returns a router that all packets pass.
func (g *growth) gateway(i int) *Node {
	return &g.w.Spec.Nodes[slices.IndexFunc(g.w.Spec.Nodes, func(n Node) bool { return n.Name == g.cut[i] })]
}

// balancing gives a router its recipe.
func (g *growth) balancing(nd *Node, next []string) {
	h := &nd.Hash
	switch {
	case g.features.Has(Spraying) && g.chance(0.3):
		h.Spread = []string{SpreadPacket, SpreadRoundRobin}[g.rng.IntN(2)]
	case g.features.Has(ByDestination) && g.chance(0.3):
		h.Fields = []string{FieldSrc, FieldDst}
	case g.features.Has(OddFields) && g.chance(0.5):
		odd := [][]string{{FieldSport}, {FieldDport}, {FieldSrc, FieldDst, FieldSport}, {FieldSrc, FieldDst, FieldProto, FieldDport},
			{FieldSrc, FieldDst, FieldProto, FieldSport, FieldDport, FieldTOS}, {FieldSrc, FieldDst, FieldSport, FieldDport, FieldFlowLabel},
			{FieldSrc, FieldDst, FieldFlowLabel, FieldTOS}, {FieldSport, FieldDport, FieldICMPChecksum}, {FieldSrc, FieldDst, FieldProto, FieldICMPID, FieldICMPChecksum}}
		h.Fields = odd[g.rng.IntN(len(odd))]
	}
	if g.features.Has(Weighted) && len(next) > 1 && g.chance(0.5) {
		h.Weights = map[string]int{}
		for _, name := range next {
			h.Weights[name] = 1 + g.rng.IntN(5)
		}
	}
}

// manners is how a router answers.
func (g *growth) manners(nd *Node) {
	nd.Silent = g.features.Has(Silences) && g.chance(0.08)
	nd.ZeroTTL = g.features.Has(ZeroTTLs) && g.chance(0.08)
	nd.InterfaceInfo = g.features.Has(InterfaceNames) && g.chance(0.5)
	if g.features.Has(ShortQuotes) && g.chance(0.4) {
		nd.Quote = 8
	}
	if g.features.Has(Limited) && g.chance(0.3) {
		nd.ICMPLimit = ICMPLimit{RateHz: float64(20 + g.rng.IntN(480)), Burst: 5 + g.rng.IntN(45)}
	}
}

// wire gives a link between routers its addresses and labels.
func (g *growth) wire(l *Link) {
	if g.features.Has(Noisy) && g.chance(0.3) {
		l.Duplicate, l.Corrupt = 0.01*g.rng.Float64(), 0.01*g.rng.Float64()
	}
	if l.A == "src" || l.B == "dst" {
		return
	}
	if g.features.Has(Interfaces) {
		l.AddrA, l.Addr6A = g.interfaceAddr()
		l.AddrB, l.Addr6B = g.interfaceAddr()
	}
	if g.features.Has(Labelled) && g.chance(0.5) {
		for range 1 + g.rng.IntN(2) {
			l.MPLS = append(l.MPLS, 16+g.rng.Uint32N(1<<20-16))
		}
	}
}

func (g *growth) interfaceAddr() (netip.Addr, netip.Addr) {
	g.ends++
	return netip.AddrFrom4([4]byte{198, 19, byte(g.ends >> 8), byte(g.ends)}),
		netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 5: 2, 14: byte(g.ends >> 8), 15: byte(g.ends)})
}

// lose spreads a loss of up to 20 % of the round trips over the links to the
// target, evenly over the line, so that all ways lose alike.
func (g *growth) lose() {
	g.w.Loss = 0.2 * g.rng.Float64()
	whole := float64(g.places["dst"])
	for i := range g.w.Spec.Links {
		l := &g.w.Spec.Links[i]
		l.Loss = 1 - math.Pow(1-g.w.Loss, float64(l.Metric)/whole/2)
	}
}

// hide makes a gateway put its address in the place of all routers behind it.
func (g *growth) hide(gw *Node) {
	for _, n := range g.w.Spec.Nodes {
		if n.Kind == KindRouter && g.places[n.Name] > g.places[gw.Name] {
			gw.Rewrites = append(gw.Rewrites, netip.PrefixFrom(n.Addr, 32), netip.PrefixFrom(n.Addr6, 128))
		}
	}
	for _, l := range g.w.Spec.Links {
		if l.AddrB.IsValid() && g.places[l.B] > g.places[gw.Name] {
			gw.Rewrites = append(gw.Rewrites, netip.PrefixFrom(l.AddrB, 32), netip.PrefixFrom(l.Addr6B, 128))
		}
	}
}

// change takes one next hop of a balancer away.
func (g *growth) change(next map[string][]string) {
	var balancers []string
	for _, n := range g.w.Spec.Nodes {
		if len(next[n.Name]) > 1 {
			balancers = append(balancers, n.Name)
		}
	}
	a := balancers[g.rng.IntN(len(balancers))]
	b := next[a][g.rng.IntN(len(next[a]))]
	down := time.Duration(100+g.rng.IntN(5000)) * time.Millisecond
	g.w.Spec.Changes = []Change{{At: down, A: a, B: b, Down: true}}
	if g.chance(0.5) {
		up := down + time.Duration(100+g.rng.IntN(4900))*time.Millisecond
		g.w.Spec.Changes = append(g.w.Spec.Changes, Change{At: up, A: a, B: b})
	}
}
