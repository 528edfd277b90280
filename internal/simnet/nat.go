package simnet

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"strandline/probe/wire"
)

// edit is what a gateway changes in the packets that it forwards.
type edit struct {
	nat      NAT
	rewrites []netip.Prefix
}

// flowEnd is an inside end of a conversation. Of echoes the port is the identifier.
type flowEnd struct {
	proto uint8
	addr  netip.Addr
	port  uint16
}

// outsideEnd is what stands for it outside.
type outsideEnd struct {
	proto uint8
	v6    bool
	port  uint16
}

// mappings are those of one translator, both ways.
type mappings struct {
	out map[flowEnd]uint16
	in  map[outsideEnd]flowEnd
}

func holds(prefixes []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// outward changes what leaves through node at: it translates the source of what
// the inside starts, and rewrites that of errors. It reports false when the
// translator has no port left.
func (n *Net) outward(at int, p *packet, st *state) bool {
	nd := &n.nodes[at]
	h, own := &p.h, nd.own(p.h.Src)
	switch {
	case holds(nd.edit.nat.Inside, h.Src) && !holds(nd.edit.nat.Inside, h.Dst) && starts(h):
		port, ok := st.mapped(at, nd, flowEnd{h.Proto, h.Src, portOf(h)}, n.spec.Seed)
		return ok && p.set(wire.SetSource, own, port)
	case holds(nd.edit.rewrites, h.Src) && !mayRefuse(h):
		return p.set(wire.SetSource, own, 0)
	}
	return true
}

// inward translates what came to node at's own address for the inside, and
// reports whether it was that.
func (n *Net) inward(at int, p *packet, st *state) bool {
	nd := &n.nodes[at]
	m := st.mappings[at]
	if m == nil || len(nd.edit.nat.Inside) == 0 {
		return false
	}
	var r wire.Reply
	if err := r.Decode(p.data); err != nil {
		return false
	}
	about := outsideEnd{r.Proto, r.Version == 6, r.DstPort}
	switch {
	case r.HasQuote && r.Quoted.Src == r.Dst:
		about = outsideEnd{r.Quoted.Proto, r.Version == 6, portOf(&r.Quoted)}
	case r.Kind == wire.KindEchoReply:
		about.port = r.ICMPID
	case r.Kind != wire.KindUDP && r.Kind != wire.KindTCP:
		return false
	}
	to, ok := m.in[about]
	if !ok {
		return false
	}
	if r.HasQuote {
		return p.set(wire.SetDestination, to.addr, 0) && p.restore(nd.edit.nat.Quote, to) && n.ready(p) == nil
	}
	return p.set(wire.SetDestination, to.addr, to.port) && n.ready(p) == nil
}

// starts reports whether a packet begins or continues a conversation that a
// translator keeps track of.
func starts(h *wire.Header) bool {
	switch {
	case !h.HasL4:
		return false
	case h.Version == 4 && h.Proto == wire.ProtoICMP:
		return h.ICMPType == wire.ICMPEchoRequest
	case h.Version == 6 && h.Proto == wire.ProtoICMPv6:
		return h.ICMPType == wire.ICMPv6EchoRequest
	}
	return true
}

// portOf is the source port, or the identifier of an echo.
func portOf(h *wire.Header) uint16 {
	if h.Proto == wire.ProtoUDP || h.Proto == wire.ProtoTCP {
		return h.SrcPort
	}
	return h.ICMPID
}

// mapped returns the port that stands outside for an inside end. With new ports
// the search begins at a hash of it, so that most flows get the same port in
// every run, whatever went before them.
func (st *state) mapped(at int, nd *node, from flowEnd, seed uint64) (uint16, bool) {
	m := st.mappings[at]
	if m == nil {
		m = &mappings{out: map[flowEnd]uint16{}, in: map[outsideEnd]flowEnd{}}
		if st.mappings == nil {
			st.mappings = map[int]*mappings{}
		}
		st.mappings[at] = m
	}
	if port, ok := m.out[from]; ok {
		return port, true
	}
	const first, count = 1024, 1<<16 - 1024
	port := from.port
	if nd.edit.nat.Ports || port == 0 {
		port = uint16(first + mix(mixAddr(mix(seed, uint64(from.proto)), from.addr), uint64(from.port))%count)
	}
	for range count {
		if _, taken := m.in[outsideEnd{from.proto, from.addr.Is6(), port}]; !taken {
			m.out[from], m.in[outsideEnd{from.proto, from.addr.Is6(), port}] = port, from
			return port, true
		}
		if port++; port < first {
			port = first
		}
	}
	return 0, false
}

// set changes an address of p.
func (p *packet) set(change func([]byte, netip.Addr, uint16) error, a netip.Addr, port uint16) bool {
	return change(p.data, a, port) == nil && p.h.Decode(p.data) == nil
}

// restore undoes the translation in the packet that the error p quotes, as far
// as how says, and makes the error's checksum right.
func (p *packet) restore(how string, to flowEnd) bool {
	if how == QuoteNone {
		return true
	}
	m := p.data[p.h.HeaderLen:p.h.TotalLen]
	quote := m[8:]
	before := slices.Clone(quote)
	if wire.SetSource(quote, to.addr, to.port) != nil {
		return false
	}
	if how != QuoteFull {
		keepChecksum(quote, before)
	}
	pseudo := uint16(0)
	if p.h.Version == 6 {
		pseudo = wire.PseudoSum(p.h.Src, p.h.Dst, wire.ProtoICMPv6, len(m))
	}
	m[2], m[3] = 0, 0
	binary.BigEndian.PutUint16(m[2:], wire.Checksum(m, pseudo))
	return true
}

// keepChecksum copies the transport checksum of a quote as it was before.
func keepChecksum(quote, before []byte) {
	l4, at := 20, 2
	proto := before[9]
	if before[0]>>4 == 6 {
		l4, proto = 40, before[6]
	} else {
		l4 = int(before[0]&0xf) * 4
	}
	switch proto {
	case wire.ProtoUDP:
		at = 6
	case wire.ProtoTCP:
		at = 16
	}
	if at += l4; at+2 <= len(quote) {
		copy(quote[at:at+2], before[at:])
	}
}
