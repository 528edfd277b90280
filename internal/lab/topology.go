package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Topology is a network of namespaces as data. Namespace names are
// Name-node, for instance lab-src.
type Topology struct {
	Name  string
	Hosts []Host
	Links []Link
}

// Host is one namespace.
type Host struct {
	Name     string
	Addrs    []netip.Addr // on the loopback interface: what the node is reached by from afar
	Router   bool         // forwards, without ICMP rate limits; answers errors from the address the packet came in by
	HashSeed uint32       // of the node's multipath hash; different per router, or all balancers choose alike
	Routes   []Route
}

// Route leads to Dst through one neighbour, or through several per flow
// (five-tuple hash).
type Route struct {
	Dst netip.Prefix
	Via []string // names of neighbouring nodes
}

// Link joins two nodes. A has the first address of each prefix, B the second. On
// each node the interface has the name of the node at the other end.
type Link struct {
	A, B  string
	Net4  netip.Prefix
	Net6  netip.Prefix
	Cable *Cable // nil = a veth pair, without delay
}

// Cable says what happens to each frame on a link, in each direction alike.
type Cable struct {
	Delay  time.Duration `json:"delay_ns"`  // one way
	Jitter time.Duration `json:"jitter_ns"` // uniform in [0, Jitter) on top; frames keep their order
	Loss   float64       `json:"loss"`      // probability in [0, 1]
}

func (c Cable) validate() error {
	if c.Delay < 0 || c.Jitter < 0 || !(c.Loss >= 0 && c.Loss <= 1) {
		return fmt.Errorf("cable %+v: delay and jitter must not be negative, loss must be in [0, 1]", c)
	}
	return nil
}

// Namespace returns the name of a node's namespace, as under /run/netns.
func (t *Topology) Namespace(node string) string { return t.Name + "-" + node }

// Addr returns the address that node has on its link to peer; the zero address
// when they are no neighbours.
func (t *Topology) Addr(node, peer string, v6 bool) netip.Addr {
	for _, l := range t.Links {
		if l.A == node && l.B == peer {
			return l.addr(0, v6)
		}
		if l.B == node && l.A == peer {
			return l.addr(1, v6)
		}
	}
	return netip.Addr{}
}

// Host returns the first loopback address of the node in the family, or the zero address.
func (t *Topology) Host(node string, v6 bool) netip.Addr {
	for _, n := range t.Hosts {
		for _, a := range n.Addrs {
			if n.Name == node && a.Is6() == v6 {
				return a
			}
		}
	}
	return netip.Addr{}
}

// addr is the address of one side (0 = A, 1 = B) of the link.
func (l *Link) addr(side int, v6 bool) netip.Addr {
	return l.prefix(side, v6).Addr()
}

func (l *Link) prefix(side int, v6 bool) netip.Prefix {
	net := l.Net4
	if v6 {
		net = l.Net6
	}
	addr := net.Masked().Addr().Next()
	if side == 1 {
		addr = addr.Next()
	}
	return netip.PrefixFrom(addr, net.Bits())
}

// maxName is the longest interface name (IFNAMSIZ less the final zero).
const maxName = 15

// validName accepts what can be a file name and the start of another.
func validName(name string) error {
	for _, c := range name {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return fmt.Errorf("lab name %q: must consist of letters, digits, - and _", name)
		}
	}
	if name == "" {
		return errors.New("lab name is missing")
	}
	return nil
}

// validate finds the faults that the kernel would report without saying where.
func (t *Topology) validate() error {
	var faults []error
	var names []string
	if err := validName(t.Name); err != nil {
		faults = append(faults, err)
	}
	for _, n := range t.Hosts {
		if n.Name == "" || len(n.Name) > maxName || slices.Contains(names, n.Name) {
			faults = append(faults, fmt.Errorf("node %q: name must be unique and have 1 to %d bytes", n.Name, maxName))
		}
		names = append(names, n.Name)
	}
	for _, l := range t.Links {
		if !slices.Contains(names, l.A) || !slices.Contains(names, l.B) || l.A == l.B {
			faults = append(faults, fmt.Errorf("link %s-%s: ends must be two nodes", l.A, l.B))
		}
		if l.Cable != nil {
			if err := l.Cable.validate(); err != nil {
				faults = append(faults, fmt.Errorf("link %s-%s: %w", l.A, l.B, err))
			}
		}
	}
	for _, n := range t.Hosts {
		for _, r := range n.Routes {
			for _, via := range r.Via {
				if !t.Addr(via, n.Name, false).IsValid() {
					faults = append(faults, fmt.Errorf("node %s: route to %s via %s: not a neighbour", n.Name, r.Dst, via))
				}
			}
		}
	}
	return errors.Join(faults...)
}

// The default one-way delays of Three's cables.
const (
	DefaultDelayA = 5 * time.Millisecond
	DefaultDelayB = 20 * time.Millisecond
	DefaultDelayC = 40 * time.Millisecond
)

// Three is a vantage, a router and three regions behind cables with the given
// one-way delays:
//
//	src - rtr ~~ a    10.88.1.1  fd88:0:1::1
//	          ~~ b    10.88.2.1  fd88:0:2::1
//	          ~~ c    10.88.3.1  fd88:0:3::1
//
// The round trip from src to a region is twice its delay.
func Three(name string, a, b, c time.Duration) Topology {
	t := Topology{Name: name, Hosts: []Host{
		{Name: "src", Routes: anywhere("rtr")},
		{Name: "rtr", Router: true},
	}, Links: []Link{
		{A: "src", B: "rtr", Net4: net4(80, 0), Net6: net6(0x80, 0)},
	}}
	for i, delay := range []time.Duration{a, b, c} {
		node, n := string(rune('a'+i)), i+1
		host := Host{Name: node, Addrs: []netip.Addr{host4(88, n), host6(0x88, n)}, Routes: anywhere("rtr")}
		t.Hosts = append(t.Hosts, host)
		t.Links = append(t.Links, Link{
			A: "rtr", B: node, Net4: net4(80, n), Net6: net6(0x80, n), Cable: &Cable{Delay: delay},
		})
		t.Hosts[1].Routes = append(t.Hosts[1].Routes, to(host, node)...)
	}
	return t
}

// Chain is a path with one diamond of width parallel routers (1 to 9), over which
// r1, and r2 on the way back, balance per flow:
//
//	src - r1 =< p1 ... pN >= r2 - dst    10.89.1.1  fd89:0:1::1
//
// A trace of one flow from src sees Addr(r1, src), Addr(pK, r1), Addr(r2, pK)
// for one K, and the host address of dst.
func Chain(name string, width int) Topology {
	dst := Host{Name: "dst", Addrs: []netip.Addr{host4(89, 1), host6(0x89, 1)}, Routes: anywhere("r2")}
	t := Topology{Name: name, Links: []Link{
		{A: "src", B: "r1", Net4: net4(81, 0), Net6: net6(0x81, 0)},
		{A: "r2", B: "dst", Net4: net4(81, 1), Net6: net6(0x81, 1)},
	}}
	back4, back6 := t.Links[0].Net4, t.Links[0].Net6
	var middle []string
	for k := range width {
		p := fmt.Sprintf("p%d", k+1)
		middle = append(middle, p)
		t.Hosts = append(t.Hosts, Host{Name: p, Router: true, Routes: []Route{
			{back4, []string{"r1"}}, {back6, []string{"r1"}},
			{all4(), []string{"r2"}}, {all6(), []string{"r2"}},
		}})
		in, out := 10+2*k, 11+2*k
		t.Links = append(t.Links,
			Link{A: "r1", B: p, Net4: net4(81, in), Net6: net6(0x81, in)},
			Link{A: p, B: "r2", Net4: net4(81, out), Net6: net6(0x81, out)})
	}
	t.Hosts = append(t.Hosts,
		Host{Name: "src", Routes: anywhere("r1")},
		Host{Name: "r1", Router: true, HashSeed: 0x51c6a3b1, Routes: anywhere(middle...)},
		Host{Name: "r2", Router: true, HashSeed: 0x9e2d4f07, Routes: append(anywhere(middle...), to(dst, "dst")...)},
		dst)
	return t
}

func all4() netip.Prefix { return netip.PrefixFrom(netip.IPv4Unspecified(), 0) }
func all6() netip.Prefix { return netip.PrefixFrom(netip.IPv6Unspecified(), 0) }

// anywhere is the default route of both families.
func anywhere(via ...string) []Route {
	return []Route{{all4(), via}, {all6(), via}}
}

// to is the routes to a node's own addresses.
func to(n Host, via string) (routes []Route) {
	for _, a := range n.Addrs {
		routes = append(routes, Route{netip.PrefixFrom(a, a.BitLen()), []string{via}})
	}
	return routes
}

// net4 and net6 are the addresses of link n; host4 and host6 those of host n.
// Each host has a /24 and a /48 of its own, since a prober paces per prefix.
func net4(block, n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(block), byte(n), 0}), 30)
}

func net6(block, n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, byte(block), 0, 0, byte(n >> 8), byte(n)}), 64)
}

func host4(block, n int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(block), byte(n), 1}) }

func host6(block, n int) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfd, byte(block), 0, 0, byte(n >> 8), byte(n), 15: 1})
}
