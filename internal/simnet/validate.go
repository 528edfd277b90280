package simnet

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"strandline/datasets"
)

// Validate reports every fault of the spec at once, as joined
// *datasets.Problem whose Key is the path of the value at fault
// (links[3].a). It does not read the files that meshes name; Build does.
func (s *Spec) Validate() error {
	c := checker{spec: s, nodes: map[string]int{}, addrs: map[netip.Addr]string{}}
	c.fibre()
	for i := range s.Nodes {
		c.node(i)
	}
	c.places()
	c.weights()
	for i := range s.Links {
		c.link(i)
	}
	for i := range s.Meshes {
		c.mesh(i)
	}
	for i := range s.Anycast {
		c.anycast(i)
	}
	for i := range s.Overrides {
		c.override(i)
	}
	for i := range s.Changes {
		c.change(i)
	}
	if len(c.problems) == 0 {
		c.connected()
	}
	return errors.Join(c.problems...)
}

// checker gathers the problems of one spec.
type checker struct {
	spec     *Spec
	nodes    map[string]int        // name -> index
	addrs    map[netip.Addr]string // address -> key of who has it
	problems []error
}

func (c *checker) fail(key, fix, format string, args ...any) {
	c.problems = append(c.problems, &datasets.Problem{Key: key, Msg: fmt.Sprintf(format, args...), Fix: fix})
}

func (c *checker) fibre() {
	f := c.spec.Fibre
	if !(f.KmPerMS >= 0) || f.KmPerMS > 299.8 {
		c.fail("fibre.km_per_ms", "glass has about 200", "a speed of %v km/ms is not between 0 and that of light", f.KmPerMS)
	}
	if f.Factor != 0 && !(f.Factor >= 1) {
		c.fail("fibre.factor", "cables are 1.2 to 2 times as long", "a factor of %v is below 1", f.Factor)
	}
	c.notNegative("fibre.floor", f.Floor)
}

func (c *checker) notNegative(key string, d time.Duration) {
	if d < 0 {
		c.fail(key, "write a time such as 5ms", "%v is negative", d)
	}
}

func (c *checker) loss(key string, p float64) {
	c.probability(key, "loss", p)
}

func (c *checker) probability(key, what string, p float64) {
	if !(p >= 0 && p < 1) {
		c.fail(key, "write a fraction, such as 0.02 for 2 %", "a %s of %v is not in [0, 1)", what, p)
	}
}

func (c *checker) metric(key string, m int) {
	if m < 0 || m > 1<<30 {
		c.fail(key, "write a whole number up to 2^30, or leave the metric out", "metric %d is out of range", m)
	}
}

func (c *checker) node(i int) {
	n, key := &c.spec.Nodes[i], fmt.Sprintf("nodes[%d]", i)
	if n.Name == "" {
		c.fail(key+".name", "name it", "a node has no name")
	} else if j, dup := c.nodes[n.Name]; dup {
		c.fail(key+".name", "names must differ", "%q is the name of nodes[%d] already", n.Name, j)
	} else {
		c.nodes[n.Name] = i
	}
	if n.Kind != "" && n.Kind != KindRouter && n.Kind != KindHost {
		c.fail(key+".kind", "write router or host", "unknown kind %q", n.Kind)
	}
	if n.Kind == KindHost && !n.Addr.IsValid() && !n.Addr6.IsValid() {
		c.fail(key+".addr", "give it addr, addr6 or both", "host %q has no address", n.Name)
	}
	c.family(key+".addr", n.Addr, true)
	c.family(key+".addr6", n.Addr6, false)
	c.claim(key+".addr", n.Addr)
	c.claim(key+".addr6", n.Addr6)
	if !(n.Lat >= -90 && n.Lat <= 90) {
		c.fail(key+".lat", "write degrees, north positive", "latitude %v is not in [-90, 90]", n.Lat)
	}
	if !(n.Lon >= -180 && n.Lon <= 180) {
		c.fail(key+".lon", "write degrees, east positive", "longitude %v is not in [-180, 180]", n.Lon)
	}
	c.hash(n, key+".hash")
	c.faults(n, key)
}

func (c *checker) hash(n *Node, key string) {
	for j, f := range n.Hash.Fields {
		if known := fieldNames(); !slices.Contains(known, f) {
			c.fail(fmt.Sprintf("%s.fields[%d]", key, j), "known are "+strings.Join(known, ", "), "unknown header field %q", f)
		}
	}
	c.oneOf(key+".spread", n.Hash.Spread, SpreadFlow, SpreadPacket, SpreadRoundRobin)
	if spread := n.Hash.Spread; len(n.Hash.Fields) > 0 && spread != "" && spread != SpreadFlow {
		c.fail(key+".fields", "leave fields out, or write spread: flow", "spread %s looks at no field", spread)
	}
	for _, name := range slices.Sorted(maps.Keys(n.Hash.Weights)) {
		if w := n.Hash.Weights[name]; w < 1 || w > maxWeight {
			c.fail(key+".weights."+name, "write a whole number from 1 to 1000000", "weight %d is out of range", w)
		}
	}
}

// maxWeight keeps the sum over all next hops within 32 bits.
const maxWeight = 1_000_000

// weights checks that the nodes with weights are neighbours.
func (c *checker) weights() {
	var neighbours map[string][]string
	for i, n := range c.spec.Nodes {
		for _, name := range slices.Sorted(maps.Keys(n.Hash.Weights)) {
			key := fmt.Sprintf("nodes[%d].hash.weights.%s", i, name)
			if !c.known(key, name) {
				continue
			}
			if neighbours == nil {
				neighbours = c.neighbours()
			}
			if !slices.Contains(neighbours[n.Name], name) {
				c.fail(key, "name a node that a link leads to", "no link joins %q and %q", n.Name, name)
			}
		}
	}
}

func (c *checker) oneOf(key, got string, known ...string) {
	if got != "" && !slices.Contains(known, got) {
		c.fail(key, "write "+strings.Join(known, ", ")+" or nothing", "unknown value %q", got)
	}
}

// faults checks what a node may do otherwise than it should.
func (c *checker) faults(n *Node, key string) {
	if n.Quote != 0 && (n.Quote < 8 || n.Quote > 1232) {
		c.fail(key+".quote", "write 8 to 1232, or leave it out", "cannot quote %d octets", n.Quote)
	}
	if r := n.ICMPLimit.RateHz; !(r >= 0 && r <= 1e9) {
		c.fail(key+".icmp_limit.rate_hz", "write errors per second, or leave icmp_limit out", "a rate of %v is not between 0 and 1e9", r)
	}
	if b := n.ICMPLimit.Burst; b < 0 || b > 1e6 || b > 0 && n.ICMPLimit.RateHz == 0 {
		c.fail(key+".icmp_limit.burst", "write up to 1000000, together with rate_hz", "burst %d has no meaning", b)
	}
	for _, f := range []struct {
		key  string
		used bool
	}{{".zero_ttl", n.ZeroTTL}, {".nat", len(n.NAT.Inside) > 0}, {".rewrites", len(n.Rewrites) > 0}} {
		if f.used && n.Kind == KindHost {
			c.fail(key+f.key, "give it to a router", "host %q does not forward", n.Name)
		}
	}
	c.oneOf(key+".nat.quote", n.NAT.Quote, QuoteAddress, QuoteFull, QuoteNone)
	c.owned(n, key+".nat.inside", n.NAT.Inside)
	c.owned(n, key+".rewrites", n.Rewrites)
}

// owned checks the prefixes whose packets leave with the node's own address.
func (c *checker) owned(n *Node, key string, prefixes []netip.Prefix) {
	for j, p := range prefixes {
		at := fmt.Sprintf("%s[%d]", key, j)
		if !p.IsValid() || p.Masked() != p {
			c.fail(at, "write a prefix such as 10.0.0.0/8", "%v is not a prefix", p)
			continue
		}
		own := n.Addr
		if p.Addr().Is6() {
			own = n.Addr6
		}
		if !own.IsValid() {
			c.fail(at, "give the node addr or addr6", "node %q has no address of the family of %v", n.Name, p)
		} else if p.Contains(own) {
			c.fail(at, "choose an address outside", "%v holds the node's own address %v", p, own)
		}
	}
}

// family checks that an address that is there is a plain unicast one of its family.
func (c *checker) family(key string, a netip.Addr, v4 bool) {
	if !a.IsValid() {
		return
	}
	if a.Is4() != v4 || a.Is4In6() {
		c.fail(key, "addr is for IPv4, addr6 for IPv6", "%v is of the other family", a)
	} else if a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() || a.Zone() != "" {
		c.fail(key, "write a unicast address", "%v cannot be the address of a node", a)
	}
}

// claim notes who has an address and reports a second owner.
func (c *checker) claim(key string, a netip.Addr) {
	if !a.IsValid() {
		return
	}
	if owner, taken := c.addrs[a]; taken {
		c.fail(key, "addresses must differ", "%v is %s already", a, owner)
		return
	}
	c.addrs[a] = key
}

// places checks the at references, which may point forwards but not on to another.
func (c *checker) places() {
	for i, n := range c.spec.Nodes {
		key := fmt.Sprintf("nodes[%d].at", i)
		if n.At == "" || !c.known(key, n.At) {
			continue
		}
		if c.spec.Nodes[c.nodes[n.At]].At != "" {
			c.fail(key, "name the node that has the coordinates", "node %q itself is at another", n.At)
		}
		if n.Lat != 0 || n.Lon != 0 {
			c.fail(key, "write at, or lat and lon", "node %q has two places", n.Name)
		}
	}
}

// known reports whether there is a node of that name, and a problem if not.
func (c *checker) known(key, name string) bool {
	if _, ok := c.nodes[name]; ok {
		return true
	}
	if name == "" {
		c.fail(key, "name a node", "missing")
	} else {
		c.fail(key, "add it to nodes, or correct the name", "there is no node %q", name)
	}
	return false
}

func (c *checker) ends(key, a, b string) {
	knownA, knownB := c.known(key+".a", a), c.known(key+".b", b)
	if knownA && knownB && a == b {
		c.fail(key+".b", "name two nodes", "both ends are %q", a)
	}
}

func (c *checker) link(i int) {
	l, key := &c.spec.Links[i], fmt.Sprintf("links[%d]", i)
	c.ends(key, l.A, l.B)
	c.notNegative(key+".delay", l.Delay)
	c.notNegative(key+".jitter", l.Jitter)
	c.loss(key+".loss", l.Loss)
	c.probability(key+".duplicate", "probability", l.Duplicate)
	c.probability(key+".corrupt", "probability", l.Corrupt)
	c.metric(key+".metric", l.Metric)
	for _, end := range []struct {
		key  string
		addr netip.Addr
		v4   bool
	}{{".addr_a", l.AddrA, true}, {".addr_b", l.AddrB, true}, {".addr6_a", l.Addr6A, false}, {".addr6_b", l.Addr6B, false}} {
		c.family(key+end.key, end.addr, end.v4)
		c.claim(key+end.key, end.addr)
	}
	for j, label := range l.MPLS {
		if label > 1<<20-1 {
			c.fail(fmt.Sprintf("%s.mpls[%d]", key, j), "write a label of 20 bits", "label %d exceeds 1048575", label)
		}
	}
	if len(l.MPLS) > maxLabels {
		c.fail(key+".mpls", "write 16 labels at most", "a stack of %d labels", len(l.MPLS))
	}
}

// maxLabels bounds a label stack, so that it fits behind any quote.
const maxLabels = 16

func (c *checker) change(i int) {
	ch, key := &c.spec.Changes[i], fmt.Sprintf("changes[%d]", i)
	c.ends(key, ch.A, ch.B)
	if ch.At <= 0 {
		c.fail(key+".at", "write a time such as 30s", "a change at %v is no change", ch.At)
	}
	if !c.linked(ch.A, ch.B) {
		c.fail(key, "name the two ends of a link or of a mesh", "no link joins %q and %q", ch.A, ch.B)
	}
}

func (c *checker) mesh(i int) {
	m, key := &c.spec.Meshes[i], fmt.Sprintf("meshes[%d]", i)
	if m.RTTCSV == "" {
		c.fail(key+".rtt_csv", "name the CSV file with from,to,rtt_ms", "missing")
	}
	if len(m.Nodes) < 2 {
		c.fail(key+".nodes", "map at least two names of the file to nodes", "a mesh of %d nodes has no link", len(m.Nodes))
	}
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(m.Nodes)) {
		at, node := key+".nodes."+name, m.Nodes[name]
		if !c.known(at, node) {
			continue
		}
		if other, dup := seen[node]; dup {
			c.fail(at, "map each name to a node of its own", "node %q stands for %q already", node, other)
		}
		seen[node] = name
	}
	c.metric(key+".metric", m.Metric)
}

func (c *checker) anycast(i int) {
	a, key := &c.spec.Anycast[i], fmt.Sprintf("anycast[%d]", i)
	if a.Name == "" {
		c.fail(key+".name", "name it", "an anycast service has no name")
	}
	for j := range i {
		o := &c.spec.Anycast[j]
		if o.Name == a.Name && a.Name != "" {
			c.fail(key+".name", "names must differ", "%q is the name of anycast[%d] already", a.Name, j)
		}
		c.disjoint(key+".prefix", a.Prefix, o.Prefix, j)
		c.disjoint(key+".prefix6", a.Prefix6, o.Prefix6, j)
	}
	if !a.Prefix.IsValid() && !a.Prefix6.IsValid() {
		c.fail(key+".prefix", "give it prefix, prefix6 or both", "an anycast service has no prefix")
	}
	c.prefix(key+".prefix", key+".addr", a.Prefix, a.Addr, true)
	c.prefix(key+".prefix6", key+".addr6", a.Prefix6, a.Addr6, false)
	if len(a.Sites) == 0 {
		c.fail(key+".sites", "list at least one {name, node}", "an anycast service has no site")
	}
	for j := range a.Sites {
		c.site(a, j, fmt.Sprintf("%s.sites[%d]", key, j))
	}
}

func (c *checker) disjoint(key string, p, other netip.Prefix, j int) {
	if p.IsValid() && other.IsValid() && p.Overlaps(other) {
		c.fail(key, "prefixes must not overlap", "%v overlaps %v of anycast[%d]", p, other, j)
	}
}

func (c *checker) prefix(key, addrKey string, p netip.Prefix, a netip.Addr, v4 bool) {
	if p.IsValid() {
		c.family(key, p.Addr(), v4)
		if p.Masked() != p {
			c.fail(key, "write "+p.Masked().String(), "%v has bits set after its length", p)
		}
		for _, owned := range slices.SortedFunc(maps.Keys(c.addrs), netip.Addr.Compare) {
			if p.Contains(owned) {
				c.fail(key, "keep nodes' own addresses out of anycast prefixes", "%v holds %v, which is %s", p, owned, c.addrs[owned])
			}
		}
	}
	if a.IsValid() && !p.Contains(a) {
		c.fail(addrKey, "choose an address of the prefix", "%v is not in %v", a, p)
	}
}

func (c *checker) site(a *Anycast, j int, key string) {
	s := &a.Sites[j]
	if s.Name == "" || len(s.Name) > 255 {
		c.fail(key+".name", "name it in at most 255 bytes", "a site's name has %d bytes", len(s.Name))
	}
	if c.known(key+".node", s.Node) && c.spec.Nodes[c.nodes[s.Node]].Kind != KindHost {
		c.fail(key+".node", "name a node with kind: host", "%q does not answer: it is a router", s.Node)
	}
	c.metric(key+".metric", s.Metric)
	for k := range j {
		if a.Sites[k].Name == s.Name && s.Name != "" {
			c.fail(key+".name", "names must differ", "%q is the name of sites[%d] already", s.Name, k)
		}
		if a.Sites[k].Node == s.Node && s.Node != "" {
			c.fail(key+".node", "one site per host", "%q is the host of sites[%d] already", s.Node, k)
		}
	}
}

func (c *checker) override(i int) {
	o, key := &c.spec.Overrides[i], fmt.Sprintf("overrides[%d]", i)
	c.ends(key, o.A, o.B)
	if o.Inflate != 0 && !(o.Inflate > 0 && o.Inflate <= 1000) {
		c.fail(key+".inflate", "write a factor such as 3", "cannot inflate by %v", o.Inflate)
	}
	c.notNegative(key+".jitter", o.Jitter)
	c.loss(key+".loss", o.Loss)
	if !c.linked(o.A, o.B) {
		c.fail(key, "name the two ends of a link or of a mesh", "no link joins %q and %q", o.A, o.B)
	}
}

// linked reports whether a link or a mesh joins two nodes directly.
func (c *checker) linked(a, b string) bool {
	for _, l := range c.spec.Links {
		if l.A == a && l.B == b || l.A == b && l.B == a {
			return true
		}
	}
	for _, m := range c.spec.Meshes {
		both := 0
		for _, n := range m.Nodes {
			if n == a || n == b {
				both++
			}
		}
		if both == 2 {
			return true
		}
	}
	return false
}

// connected reports the nodes that no packet from the first router can reach.
// Hosts do not forward, so a node behind a host is cut off too.
func (c *checker) connected() {
	if len(c.spec.Nodes) == 0 {
		c.fail("nodes", "list at least one node", "the world is empty")
		return
	}
	neighbours := c.neighbours()
	start := max(0, slices.IndexFunc(c.spec.Nodes, func(n Node) bool { return n.Kind != KindHost }))
	reached := map[string]bool{c.spec.Nodes[start].Name: true}
	queue := []string{c.spec.Nodes[start].Name}
	for ; len(queue) > 0; queue = queue[1:] {
		if name := queue[0]; c.nodes[name] == start || c.spec.Nodes[c.nodes[name]].Kind != KindHost {
			for _, n := range neighbours[name] {
				if !reached[n] {
					reached[n] = true
					queue = append(queue, n)
				}
			}
		}
	}
	for i, n := range c.spec.Nodes {
		if !reached[n.Name] {
			c.fail(fmt.Sprintf("nodes[%d]", i), "link it to a router", "%q cannot be reached from %q", n.Name, c.spec.Nodes[start].Name)
		}
	}
}

func (c *checker) neighbours() map[string][]string {
	next := map[string][]string{}
	for _, l := range c.spec.Links {
		next[l.A] = append(next[l.A], l.B)
		next[l.B] = append(next[l.B], l.A)
	}
	for _, m := range c.spec.Meshes {
		for _, a := range m.Nodes {
			for _, b := range m.Nodes {
				if a != b {
					next[a] = append(next[a], b)
				}
			}
		}
	}
	return next
}
