package wire

import (
	"encoding/binary"
	"net/netip"
)

// Header is the decoded IP and transport header of a packet or of a quote. It
// is comparable; fields that are not valid are zero.
type Header struct {
	Version    uint8      // 4 or 6
	Src, Dst   netip.Addr // never with a zone
	Proto      uint8      // IPv6: of the first header that is no skipped extension
	TTL        uint8      // IPv6: hop limit
	TOS        uint8      // IPv6: traffic class
	ID         uint16     // IPv4 only
	FlowLabel  uint32     // IPv6 only
	DF         bool       // IPv4 only
	MF         bool       // more fragments follow
	FragOffset uint16     // in octets; above 0 there is no transport header
	TotalLen   int        // as the header states it; a quote's may be wrong, see Decode
	HeaderLen  int        // with IPv4 options and IPv6 extension headers

	HasL4    bool   // at least eight octets of ICMP, UDP or TCP were there; guards all below
	TCPFlags uint8  // TCP, when 20 octets were there
	SrcPort  uint16 // UDP and TCP
	DstPort  uint16 // UDP and TCP
	UDPLen   uint16 // UDP
	TCPSeq   uint32 // TCP
	TCPAck   uint32 // TCP, when 20 octets were there
	ICMPType uint8  // ICMP and ICMPv6
	ICMPCode uint8  // ICMP and ICMPv6
	ICMPID   uint16 // echo request and reply
	ICMPSeq  uint16 // echo request and reply
	Checksum uint16 // of the transport header as on the wire; TCP: when 20 octets were there
}

// Decode reads the headers of the packet b, which must be whole: octets after
// the length that its header states are padding and ignored. The errors are
// ErrShort and ErrMalformed; h is zero then.
func (h *Header) Decode(b []byte) error {
	*h = Header{}
	_, err := h.decode(b, false)
	return err
}

// L4Word returns the first four octets after the IP header, which many
// balancers hash without asking what they are: the ports, or the type, code and
// checksum of ICMP. It is 0 without HasL4.
func (h *Header) L4Word() uint32 {
	if h.isICMP() {
		return uint32(h.ICMPType)<<24 | uint32(h.ICMPCode)<<16 | uint32(h.Checksum)
	}
	return uint32(h.SrcPort)<<16 | uint32(h.DstPort)
}

// decode reads the headers of b into h, which is zero, and returns what follows
// them. A quote may end anywhere after its IP header.
func (h *Header) decode(b []byte, quoted bool) ([]byte, error) {
	l4, err := h.ip(b, quoted)
	if err == nil {
		l4, err = h.transport(l4, quoted)
	}
	if err != nil {
		*h = Header{}
		return nil, err
	}
	return l4, nil
}

// ip reads the IP header and returns what follows it.
func (h *Header) ip(b []byte, quoted bool) ([]byte, error) {
	if len(b) == 0 {
		return nil, ErrShort
	}
	switch h.Version = b[0] >> 4; h.Version {
	case 4:
		return h.ipv4(b, quoted)
	case 6:
		return h.ipv6(b, quoted)
	}
	return nil, ErrMalformed
}

func (h *Header) ipv4(b []byte, quoted bool) ([]byte, error) {
	if len(b) < v4Len {
		return nil, ErrShort
	}
	frag := binary.BigEndian.Uint16(b[v4Frag:])
	h.HeaderLen = int(b[0]&0xf) * 4
	h.TOS = b[v4TOS]
	h.TotalLen = int(binary.BigEndian.Uint16(b[v4Total:]))
	h.ID = binary.BigEndian.Uint16(b[v4ID:])
	h.DF, h.MF = frag&flagDF != 0, frag&flagMF != 0
	h.FragOffset = frag & fragMask * 8
	h.TTL, h.Proto = b[v4TTL], b[v4Proto]
	h.Src = netip.AddrFrom4([4]byte(b[v4Src:]))
	h.Dst = netip.AddrFrom4([4]byte(b[v4Dst:]))
	switch {
	case h.HeaderLen < v4Len:
		return nil, ErrMalformed
	case h.HeaderLen > len(b):
		return nil, ErrShort
	}
	b, err := h.trim(b, quoted)
	if err != nil {
		return nil, err
	}
	return b[h.HeaderLen:], nil
}

func (h *Header) ipv6(b []byte, quoted bool) ([]byte, error) {
	if len(b) < v6Len {
		return nil, ErrShort
	}
	word := binary.BigEndian.Uint32(b)
	h.TOS, h.FlowLabel = uint8(word>>20), word&labelMask
	h.HeaderLen = v6Len
	h.TotalLen = v6Len + int(binary.BigEndian.Uint16(b[v6Payload:]))
	h.Proto, h.TTL = b[v6Next], b[v6Hop]
	h.Src = netip.AddrFrom16([16]byte(b[v6Src:]))
	h.Dst = netip.AddrFrom16([16]byte(b[v6Dst:]))
	b, err := h.trim(b, quoted)
	if err != nil {
		return nil, err
	}
	return h.extensions(b, quoted)
}

// trim cuts b to the length that its header states. The length in a quote is
// not believed when it leaves no transport header, because some systems change
// it before they quote: old BSDs subtract the header or swap its octets.
func (h *Header) trim(b []byte, quoted bool) ([]byte, error) {
	least := h.HeaderLen
	if quoted {
		least += quotedL4Len
	}
	switch {
	case h.TotalLen >= least && h.TotalLen <= len(b):
		return b[:h.TotalLen], nil
	case quoted:
		return b, nil
	case h.TotalLen < least:
		return nil, ErrMalformed
	}
	return nil, ErrShort
}

// The IPv6 extension headers that are skipped (RFC 8200 section 4): hop-by-hop
// and destination options, routing and fragment. All begin alike, and all but
// the fragment header, which has no length, are 8 x (length + 1) octets long.
//
//	+---------------+---------------+-------------------------+---+-+
//	|  next header  |    length     |  fragment offset (x 8)  |   |M|
//	+---------------+---------------+-------------------------+---+-+
const (
	extHopByHop = 0
	extRouting  = 43
	extFragment = 44
	extDestOpts = 60
	extLength   = 1
	extFrag     = 2
	extUnit     = 8
)

// extensions walks the extension headers of the IPv6 packet b, each at least
// eight octets further on, and returns what follows them.
func (h *Header) extensions(b []byte, quoted bool) ([]byte, error) {
	for rest := b[v6Len:]; ; rest = b[h.HeaderLen:] {
		n := extUnit
		switch h.Proto {
		case extHopByHop, extRouting, extDestOpts:
			if len(rest) > extLength {
				n += int(rest[extLength]) * extUnit
			}
		case extFragment:
		default:
			return rest, nil
		}
		if len(rest) < n {
			if quoted {
				return nil, nil
			}
			return nil, ErrShort
		}
		if h.Proto == extFragment {
			frag := binary.BigEndian.Uint16(rest[extFrag:])
			h.FragOffset, h.MF = frag&^7, frag&1 != 0
		}
		h.Proto = rest[0]
		h.HeaderLen += n
		if h.FragOffset > 0 {
			return b[h.HeaderLen:], nil
		}
	}
}

// transport reads the header at b and returns what follows it.
func (h *Header) transport(b []byte, quoted bool) ([]byte, error) {
	known := h.isICMP() || h.Proto == ProtoUDP || h.Proto == ProtoTCP
	switch {
	case !known || h.FragOffset > 0:
		return b, nil
	case len(b) < quotedL4Len && quoted:
		return nil, nil
	case len(b) < quotedL4Len:
		return nil, ErrShort
	}
	h.HasL4 = true
	switch h.Proto {
	case ProtoUDP:
		return h.udp(b, quoted)
	case ProtoTCP:
		return h.tcp(b, quoted)
	}
	h.icmp(b)
	return b[icmpLen:], nil
}

func (h *Header) icmp(b []byte) {
	h.ICMPType, h.ICMPCode = b[icmpType], b[icmpCode]
	h.Checksum = binary.BigEndian.Uint16(b[icmpSum:])
	if k := h.kind(); k == KindEchoRequest || k == KindEchoReply {
		h.ICMPID = binary.BigEndian.Uint16(b[icmpID:])
		h.ICMPSeq = binary.BigEndian.Uint16(b[icmpSeq:])
	}
}

func (h *Header) udp(b []byte, quoted bool) ([]byte, error) {
	h.SrcPort = binary.BigEndian.Uint16(b[portSrc:])
	h.DstPort = binary.BigEndian.Uint16(b[portDst:])
	h.UDPLen = binary.BigEndian.Uint16(b[udpSize:])
	h.Checksum = binary.BigEndian.Uint16(b[udpSum:])
	n := int(h.UDPLen)
	switch {
	case n >= udpLen && n <= len(b):
		return b[udpLen:n], nil
	case quoted || h.MF && n > len(b):
		return b[udpLen:], nil
	}
	return nil, ErrMalformed
}

func (h *Header) tcp(b []byte, quoted bool) ([]byte, error) {
	h.SrcPort = binary.BigEndian.Uint16(b[portSrc:])
	h.DstPort = binary.BigEndian.Uint16(b[portDst:])
	h.TCPSeq = binary.BigEndian.Uint32(b[tcpSeq:])
	if len(b) < tcpLen {
		if quoted {
			return nil, nil
		}
		return nil, ErrShort
	}
	h.TCPAck = binary.BigEndian.Uint32(b[tcpAck:])
	h.TCPFlags = b[tcpFlags]
	h.Checksum = binary.BigEndian.Uint16(b[tcpSum:])
	n := int(b[tcpOff]>>4) * 4
	switch {
	case n >= tcpLen && n <= len(b):
		return b[n:], nil
	case quoted:
		return nil, nil
	}
	return nil, ErrMalformed
}

func (h *Header) isICMP() bool {
	return h.Version == 4 && h.Proto == ProtoICMP || h.Version == 6 && h.Proto == ProtoICMPv6
}
