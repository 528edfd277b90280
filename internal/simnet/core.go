package simnet

import (
	"net/netip"
	"slices"

	"strandline/probe/wire"
)

// packet is a packet on its way. The header is decoded once; only the TTL
// changes on the way, in data and h alike, unless a gateway edits more. Its size
// is kept to 160 octets, a size class of the allocator.
type packet struct {
	data    []byte
	dest    int   // destination, or noRoute
	node    int32 // where the engine has it next
	in      int32 // the link that it came over; not valid at its origin
	origin  bool  // the node made it
	damaged bool  // a bit was flipped on the way
	h       wire.Header
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
// p and st, and where no balancer goes by packets and no translator is on the
// way, the result depends on nothing but p, so whoever calls it for the same
// packet learns the same path.
func (n *Net) step(at int, p *packet, origin bool, st *state) (action, edge) {
	nd := &n.nodes[at]
	act, next := n.options(at, p, origin)
	if act == deliver && nd.edit != nil && !origin && n.inward(at, p, st) {
		act, next = n.options(at, p, origin)
	}
	if act != forward {
		return act, edge{}
	}
	if !origin && !p.decrement() && !nd.zeroTTLs(p) {
		return expire, edge{}
	}
	to := next[0]
	if len(next) > 1 {
		to = n.choose(at, p, next, st)
	}
	if nd.edit != nil && !origin && !n.outward(at, p, st) {
		return drop, edge{}
	}
	return forward, to
}

// choose picks one of several next hops.
func (n *Net) choose(at int, p *packet, next []edge, st *state) edge {
	nd := &n.nodes[at]
	switch {
	case nd.hash.spread != spreadFlow:
		return st.spray(n, at, next)
	case nd.weights == nil:
		return next[nd.hash.choose(&p.h, uint32(len(next)))]
	}
	return n.pick(nd, next, nd.hash.choose(&p.h, n.total(nd, next)))
}

// options says whether node at forwards p and lists the next hops to choose from.
func (n *Net) options(at int, p *packet, origin bool) (action, []edge) {
	nd := &n.nodes[at]
	if p.dest == at || nd.serves(p.dest) {
		return deliver, nil
	}
	if nd.host && !origin {
		return drop, nil
	}
	if p.dest != noRoute {
		if next := n.toward(p.dest)[at]; len(next) > 0 {
			return forward, next
		}
	}
	if gw := n.gateways[at]; origin && gw != nil {
		return forward, gw
	}
	return strand, nil
}

// zeroTTLs reports whether a faulty node forwards what it should not, and makes
// the TTL 0 then.
func (nd *node) zeroTTLs(p *packet) bool {
	if !nd.zeroTTL || p.h.TTL != 1 {
		return false
	}
	p.h.TTL = 0
	return wire.SetTTL(p.data, 0) == nil
}

// serves reports whether the node is a site of the anycast destination.
func (nd *node) serves(dest int) bool {
	if nd.site == nil { // asked at every hop, and true at few
		return false
	}
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
// appends nothing when the node has nothing to say, may not say it now, or has
// no encoding for it (the encoders of package wire return their input with an
// error).
func (n *Net) answer(buf []byte, at int, p *packet, act action, st *state) []byte {
	if n.nodes[at].silent {
		return buf
	}
	switch act {
	case expire:
		return n.refuse(buf, at, n.reporter(at, p), p, wire.TimeExceeded, st)
	case strand:
		return n.refuse(buf, at, n.reporter(at, p), p, wire.HostUnreachable, st)
	case deliver:
		return n.serve(buf, at, p, st)
	}
	return buf
}

// serve appends what the owner of p's destination address answers.
func (n *Net) serve(buf []byte, at int, p *packet, st *state) []byte {
	nd := &n.nodes[at]
	var r wire.Reply
	if err := r.Decode(p.data); err != nil || p.damaged && wire.VerifyChecksums(p.data) != nil {
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
		return n.refuse(buf, at, r.Dst, p, wire.PortUnreachable, st)
	case wire.KindTCP:
		return nd.serveTCP(buf, ip, &r, p.data)
	}
	return buf
}

// serveTCP appends what a machine with no connection answers to the segment r
// (RFC 9293 section 3.10.7): SYN and ACK to a SYN for an open port, a reset to
// anything else, nothing to a reset or to damage.
func (nd *node) serveTCP(buf []byte, ip wire.IP, r *wire.Reply, data []byte) []byte {
	if r.TCPFlags&wire.TCPRst != 0 || wire.VerifyChecksums(data) != nil {
		return buf
	}
	s := wire.TCP{SrcPort: r.DstPort, DstPort: r.SrcPort, Flags: wire.TCPRst | wire.TCPAck, Ack: r.TCPSeq + uint32(len(r.Payload))}
	if r.TCPFlags&(wire.TCPSyn|wire.TCPFin) != 0 {
		s.Ack++
	}
	switch {
	case r.TCPFlags&wire.TCPAck != 0:
		s.Flags, s.Seq, s.Ack = wire.TCPRst, r.TCPAck, 0
	case r.TCPFlags&wire.TCPSyn != 0 && slices.Contains(nd.tcp, r.DstPort):
		s.Flags, s.Ack, s.Window = wire.TCPSyn|wire.TCPAck, r.TCPSeq+1, 0xffff
		s.Seq = uint32(mix(uint64(r.TCPSeq), uint64(r.SrcPort)))
	}
	buf, _ = wire.AppendTCP(buf, ip, s)
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
func (n *Net) refuse(buf []byte, at int, from netip.Addr, p *packet, why wire.Reason, st *state) []byte {
	nd := &n.nodes[at]
	if !from.IsValid() || !mayRefuse(&p.h) || !st.allow(at, nd) {
		return buf
	}
	ip := wire.IP{Src: from, Dst: p.h.Src, TTL: nd.ttl(), DF: true}
	if from.Is4() {
		ip.TOS = precedenceControl
	}
	quote := 0
	if nd.quote > 0 {
		quote = p.h.HeaderLen + nd.quote
	}
	buf, _ = wire.AppendExtendedError(buf, ip, why, p.data, quote, n.extension(at, p, why))
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
