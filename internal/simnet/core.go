package simnet

import (
	"net/netip"

	"strandline/probe/wire"
)

// packet is a packet on its way. The header is decoded once; only the TTL
// changes on the way, in data and h alike.
type packet struct {
	data []byte
	h    wire.Header
	dest int // destination, or noRoute

	node   int  // where the engine has it next
	origin bool // the node made it
}

// load fills p with a copy of data and looks its destination up.
func (n *Net) load(p *packet, data []byte) error {
	p.data = append(p.data[:0], data...)
	return n.ready(p)
}

// ready decodes what p.data holds.
func (n *Net) ready(p *packet) error {
	if err := p.h.Decode(p.data); err != nil {
		return err
	}
	p.dest = n.destination(p.h.Dst)
	return nil
}

// action is what a node does with a packet.
type action uint8

const (
	drop action = iota
	forward
	deliver // the packet is for this node
	expire  // its TTL ran out here
	strand  // there is no way on from here
)

// step is the forwarding core: what node at does with p, which it made itself
// (origin) or received, and over which edge it forwards. It changes nothing but
// p's TTL, and its result depends on nothing but p, so whoever calls it for the
// same packet learns the same path.
func (n *Net) step(at int, p *packet, origin bool) (action, edge) {
	nd := &n.nodes[at]
	if p.dest == at || nd.serves(p.dest) {
		return deliver, edge{}
	}
	if nd.host && !origin {
		return drop, edge{}
	}
	var next []edge
	if p.dest != noRoute {
		next = n.routes[p.dest][at]
	}
	if len(next) == 0 {
		if gw, ok := n.gateway(at); ok && origin {
			return forward, gw
		}
		return strand, edge{}
	}
	if !origin && !p.decrement() {
		return expire, edge{}
	}
	if len(next) == 1 {
		return forward, next[0]
	}
	return forward, next[nd.hash.choose(&p.h, len(next))]
}

// serves reports whether the node is a site of the anycast destination.
func (nd *node) serves(dest int) bool {
	_, ok := nd.site[dest]
	return ok
}

// decrement takes one off the TTL, or reports that nothing may be left of it
// (RFC 1812 section 5.3.1, RFC 8200 section 3).
func (p *packet) decrement() bool {
	if p.h.TTL <= 1 {
		return false
	}
	p.h.TTL--
	return wire.SetTTL(p.data, p.h.TTL) == nil
}

// The TTL that packets start with: of Linux hosts, and of most routers.
const (
	hostTTL   = 64
	routerTTL = 255
)

func (nd *node) ttl() uint8 {
	if nd.host {
		return hostTTL
	}
	return routerTTL
}

// answer appends to buf what node at says to p, which ended there by act. It
// appends nothing when the node has nothing to say, or has no encoding for it
// (the encoders of package wire return their input with an error).
func (n *Net) answer(buf []byte, at int, p *packet, act action) []byte {
	nd := &n.nodes[at]
	if nd.silent {
		return buf
	}
	switch act {
	case expire:
		return n.refuse(buf, nd, nd.own(p.h.Dst), p, wire.TimeExceeded)
	case strand:
		return n.refuse(buf, nd, nd.own(p.h.Dst), p, wire.HostUnreachable)
	case deliver:
		return n.serve(buf, nd, p)
	}
	return buf
}

// serve appends what the owner of p's destination address answers.
func (n *Net) serve(buf []byte, nd *node, p *packet) []byte {
	var r wire.Reply
	if err := r.Decode(p.data); err != nil {
		return buf
	}
	ip := wire.IP{Src: r.Dst, Dst: r.Src, TTL: nd.ttl(), DF: true}
	switch r.Kind {
	case wire.KindEchoRequest:
		ip.TOS = r.TOS
		buf, _ = wire.AppendEcho(buf, ip, wire.Echo{Reply: true, ID: r.ICMPID, Seq: r.ICMPSeq, Payload: r.Payload})
		return buf
	case wire.KindUDP:
		if site, ok := nd.site[p.dest]; ok && r.DstPort == wire.DNSPort {
			return serveDNS(buf, ip, &r, site)
		}
		return n.refuse(buf, nd, r.Dst, p, wire.PortUnreachable)
	}
	return buf
}

// rcodeRefused is RFC 1035's "refuses to perform the operation for policy reasons".
const rcodeRefused = 5

// serveDNS appends a site's answer to the DNS question in r: its name to the
// CHAOS questions of RFC 4892, and REFUSED to any other, with the name as NSID
// (RFC 5001) where that was asked for.
func serveDNS(buf []byte, ip wire.IP, r *wire.Reply, site string) []byte {
	var q wire.DNSMessage
	if err := q.Decode(r.Payload); err != nil || q.Response {
		return buf
	}
	a := wire.DNSAnswer{Rcode: rcodeRefused, NSID: site}
	for _, name := range [...]string{"id.server", "hostname.bind"} {
		if q.Asks(name, wire.DNSTypeTXT, wire.DNSClassCHAOS) {
			a.Rcode, a.TXT = 0, site
		}
	}
	var room [1024]byte
	payload, err := wire.AppendDNSAnswer(room[:0], &q, a)
	if err != nil {
		return buf
	}
	buf, _ = wire.AppendUDP(buf, ip, wire.UDP{SrcPort: r.DstPort, DstPort: r.SrcPort, Payload: payload})
	return buf
}

// precedenceControl is the TOS of ICMP errors (RFC 1812 section 4.3.2.5).
const precedenceControl = 0xc0

// refuse appends an ICMP error about p, unless none may be sent.
func (n *Net) refuse(buf []byte, nd *node, from netip.Addr, p *packet, why wire.Reason) []byte {
	if !from.IsValid() || !mayRefuse(&p.h) {
		return buf
	}
	ip := wire.IP{Src: from, Dst: p.h.Src, TTL: nd.ttl(), DF: true}
	if from.Is4() {
		ip.TOS = precedenceControl
	}
	buf, _ = wire.AppendError(buf, ip, why, p.data, 0)
	return buf
}

// mayRefuse applies the rules against storms of errors (RFC 1122 section 3.2.2,
// RFC 4443 section 2.4 e): none about an ICMP error, about a later fragment, or
// to an address that is not one host's.
func mayRefuse(h *wire.Header) bool {
	if h.FragOffset > 0 || !h.Src.IsValid() || h.Src.IsUnspecified() || h.Src.IsMulticast() {
		return false
	}
	switch h.Proto {
	case wire.ProtoICMP:
		return h.HasL4 && (h.ICMPType == wire.ICMPEchoRequest || h.ICMPType == wire.ICMPEchoReply)
	case wire.ProtoICMPv6:
		return h.HasL4 && h.ICMPType >= wire.ICMPv6EchoRequest
	}
	return true
}
