package wire

import "encoding/binary"

// ICMP (RFC 792) and ICMPv6 (RFC 4443). Echo:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------+---------------+-------------------------------+
//	|     type      |     code      |           checksum            |
//	+---------------+---------------+-------------------------------+
//	|          identifier           |           sequence            |
//	+-------------------------------+-------------------------------+
//	|  data ...
//
// Errors, with the length of the quote in 32-bit words (IPv4) or 64-bit words
// (IPv6) when an extension follows it, and 0 otherwise (RFC 4884 section 4):
//
//	+---------------+---------------+-------------------------------+
//	|     type      |     code      |           checksum            |
//	+---------------+---------------+-------------------------------+
//	| v6 length (3) | v4 length (3) |   unused (next-hop MTU: v4)   |
//	+---------------+---------------+-------------------------------+
//	|  the packet that caused it, cut ...
const (
	icmpType  = 0
	icmpCode  = 1
	icmpSum   = 2
	icmpID    = 4
	icmpSeq   = 6
	icmpLen   = 8
	v6QuoteSz = 4 // offset of RFC 4884's length in ICMPv6
	v4QuoteSz = 5 // and in ICMP
)

// The ICMP types that this package knows by name (RFC 792, RFC 4443).
const (
	ICMPEchoReply      = 0
	ICMPUnreachable    = 3
	ICMPEchoRequest    = 8
	ICMPTimeExceeded   = 11
	ICMPParameter      = 12
	ICMPv6Unreachable  = 1
	ICMPv6PacketTooBig = 2
	ICMPv6TimeExceeded = 3
	ICMPv6Parameter    = 4
	ICMPv6EchoRequest  = 128
	ICMPv6EchoReply    = 129
)

const (
	maxErrorLen   = 576  // of an ICMP error with its IP header (RFC 1812 section 4.3.2.3)
	maxErrorLenV6 = 1280 // the minimum IPv6 MTU (RFC 4443 section 2.4 c)
	quotedL4Len   = 8    // what every quote has of the transport header at least (RFC 792)
)

// Echo is an echo request or reply.
type Echo struct {
	Reply    bool
	ID, Seq  uint16
	Checksum uint16 // the checksum to send; 0 means whatever it comes to
	// Payload is the data. When Checksum is not 0, its first two octets are the
	// ones that compensate: the packet gets other values there.
	Payload []byte
}

// AppendEcho appends a whole packet: ip, the ICMP or ICMPv6 echo and its
// payload, which must not overlap b's spare room. The errors are ErrFamily,
// ErrTooLong and ErrNoRoom; what is returned then is b.
func AppendEcho(b []byte, ip IP, e Echo) ([]byte, error) {
	if e.Checksum != 0 && len(e.Payload) < 2 {
		return b, ErrNoRoom
	}
	proto, typ := uint8(ProtoICMP), uint8(ICMPEchoRequest)
	switch {
	case ip.Dst.Is6() && e.Reply:
		proto, typ = ProtoICMPv6, ICMPv6EchoReply
	case ip.Dst.Is6():
		proto, typ = ProtoICMPv6, ICMPv6EchoRequest
	case e.Reply:
		typ = ICMPEchoReply
	}
	b, err := AppendIP(b, ip, proto, icmpLen+len(e.Payload))
	if err != nil {
		return b, err
	}
	start := len(b)
	b = append(b, typ, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, e.ID)
	b = binary.BigEndian.AppendUint16(b, e.Seq)
	b = append(b, e.Payload...)
	seal(b[start:], icmpSum, icmpPseudo(&ip, len(b)-start), e.Checksum)
	return b, nil
}

// Reason is why an ICMP error is sent, in one word for both families.
type Reason uint8

// The reasons, with the type and code that they have in ICMP and in ICMPv6.
const (
	TimeExceeded    Reason = iota // 11/0, 3/0: the TTL ran out on the way
	NetUnreachable                // 3/0, 1/0: no route
	HostUnreachable               // 3/1, 1/3: the last router got no answer from the host
	PortUnreachable               // 3/3, 1/4: the host has no socket there
	Prohibited                    // 3/13, 1/1: an administrator forbids it
)

// TypeCode returns the ICMP or, when v6 is set, ICMPv6 type and code of r.
func (r Reason) TypeCode(v6 bool) (typ, code uint8) {
	codes, typ := [...]uint8{0, 0, 1, 3, 13}, uint8(ICMPUnreachable)
	if v6 {
		codes, typ = [...]uint8{0, 0, 3, 4, 1}, ICMPv6Unreachable
	}
	if r == TimeExceeded {
		typ = ICMPTimeExceeded
		if v6 {
			typ = ICMPv6TimeExceeded
		}
	}
	return typ, codes[r]
}

// MinimalQuote is the quote argument of AppendError that asks for the IP header
// of the packet and eight octets, all that RFC 792 promises and many routers send.
const MinimalQuote = -1

// AppendError appends a whole packet: an ICMP or ICMPv6 error about packet,
// quoting at most quote octets of it. A quote of 0 means as many as the
// standards allow, 576 octets of IPv4 packet (RFC 1812) or 1280 of IPv6 (RFC
// 4443), which bound every other value too. ip addresses the error: from the
// router, to the source of packet. The errors are ErrFamily and those of
// decoding packet's header, which must be of the same family; what is returned
// then is b.
func AppendError(b []byte, ip IP, r Reason, packet []byte, quote int) ([]byte, error) {
	quoted, err := clipQuote(&ip, packet, quote)
	if err != nil {
		return b, err
	}
	proto := uint8(ProtoICMP)
	if ip.Dst.Is6() {
		proto = ProtoICMPv6
	}
	b, err = AppendIP(b, ip, proto, icmpLen+len(quoted))
	if err != nil {
		return b, err
	}
	start := len(b)
	typ, code := r.TypeCode(ip.Dst.Is6())
	b = append(b, typ, code, 0, 0, 0, 0, 0, 0)
	b = append(b, quoted...)
	seal(b[start:], icmpSum, icmpPseudo(&ip, len(b)-start), 0)
	return b, nil
}

// clipQuote returns the part of packet that an error sent with ip quotes.
func clipQuote(ip *IP, packet []byte, quote int) ([]byte, error) {
	var h Header
	l4, err := h.ip(packet, false)
	if err != nil {
		return nil, err
	}
	if (h.Version == 6) != ip.Dst.Is6() {
		return nil, ErrFamily
	}
	most := maxErrorLen - v4Len - icmpLen
	if ip.Dst.Is6() {
		most = maxErrorLenV6 - v6Len - icmpLen
	}
	if quote == MinimalQuote {
		quote = h.HeaderLen + quotedL4Len
	}
	if quote > 0 {
		most = min(most, quote)
	}
	return packet[:min(most, h.HeaderLen+len(l4))], nil
}

// icmpPseudo returns what an ICMP checksum begins with: nothing for IPv4.
func icmpPseudo(ip *IP, length int) uint16 {
	if !ip.Dst.Is6() {
		return 0
	}
	return PseudoSum(ip.Src, ip.Dst, ProtoICMPv6, length)
}

// seal writes the checksum at offset at of the message m, whose checksum field
// is zero and which has an eight-octet header: the right one, or the one wanted
// with the two octets after the header set so that it is right.
func seal(m []byte, at int, pseudo, want uint16) {
	if want == 0 {
		binary.BigEndian.PutUint16(m[at:], Checksum(m, pseudo))
		return
	}
	pad := m[8:10]
	pad[0], pad[1] = 0, 0
	binary.BigEndian.PutUint16(pad, compensate(Sum(m, pseudo), want))
	binary.BigEndian.PutUint16(m[at:], want)
}
