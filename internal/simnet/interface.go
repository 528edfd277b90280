package simnet

import (
	"net/netip"
	"strconv"

	"strandline/probe/wire"
)

// end is a node's interface on a link. The extensions are what its errors about
// packets that came in by it carry, IPv4 and IPv6.
type end struct {
	addr, addr6 netip.Addr
	ext, ext6   []byte
}

// end returns the interface of node at on a link.
func (n *Net) end(link, at int) *end {
	if n.links[link].a == at {
		return &n.ends[link][0]
	}
	return &n.ends[link][1]
}

// reporter is the address that node at reports the end of p from: that of the
// interface which p came in by, if it has one, or the node's.
func (n *Net) reporter(at int, p *packet) netip.Addr {
	nd := &n.nodes[at]
	if p.origin {
		return nd.own(p.h.Dst)
	}
	e := n.end(int(p.in), at)
	switch {
	case p.h.Dst.Is4() && e.addr.IsValid():
		return e.addr
	case p.h.Dst.Is6() && e.addr6.IsValid():
		return e.addr6
	}
	return nd.own(p.h.Dst)
}

// extension is what node at adds to an error about p; often nothing.
func (n *Net) extension(at int, p *packet, why wire.Reason) []byte {
	if p.origin || why == wire.PortUnreachable {
		return nil
	}
	e := n.end(int(p.in), at)
	if p.h.Dst.Is4() {
		return e.ext
	}
	return e.ext6
}

// describeEnds prepares the ICMP extensions of all routers' interfaces.
func (n *Net) describeEnds() {
	for at := range n.nodes {
		for i, e := range n.nodes[at].edges {
			d, labels := n.end(e.link, at), n.labels[e.link]
			d.ext = n.describe(at, i, labels, d.addr, n.nodes[at].addr)
			d.ext6 = n.describe(at, i, labels, d.addr6, n.nodes[at].addr6)
		}
	}
}

// describe is the extension about interface i of a node: the labels of packets
// that come in by it, and who it is.
func (n *Net) describe(at, i int, labels []uint32, addr, own netip.Addr) []byte {
	var e wire.Extensions
	for k, label := range labels {
		e.MPLS = append(e.MPLS, wire.MPLS{Label: label, TTL: 1, Bottom: k == len(labels)-1})
	}
	if n.nodes[at].tells {
		if !addr.IsValid() {
			addr = own
		}
		const mtu = 1500 // Ethernet's
		name := "eth" + strconv.Itoa(i)
		e.Interfaces = []wire.Interface{{Role: wire.Incoming, Index: uint32(i + 1), Addr: addr, Name: []byte(name), MTU: mtu}}
	}
	return wire.AppendExtensions(nil, &e)
}
