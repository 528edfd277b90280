package wire

import (
	"encoding/binary"
	"net/netip"
)

// SetSource writes the source address of the packet b in place and, unless port
// is 0, the source port of UDP and TCP or the identifier of an echo, as address
// translators do. Checksums stay as right as they were (RFC 1624). b may be a
// quote that ends after eight octets of transport header. The errors are those
// of decoding and ErrFamily; b is unchanged then.
func SetSource(b []byte, a netip.Addr, port uint16) error {
	return rewrite(b, a, port, v4Src, v6Src, portSrc)
}

// SetDestination is SetSource for the destination address and port. An echo has
// the same identifier both ways.
func SetDestination(b []byte, a netip.Addr, port uint16) error {
	return rewrite(b, a, port, v4Dst, v6Dst, portDst)
}

func rewrite(b []byte, a netip.Addr, port uint16, at4, at6, portAt int) error {
	var h Header
	if _, err := h.decode(b, true); err != nil {
		return err
	}
	if a.Is4() != (h.Version == 4) || !a.IsValid() {
		return ErrFamily
	}
	var l4 []byte
	if h.HasL4 {
		l4 = b[h.HeaderLen:]
	}
	field := b[at4:v4Len]
	if h.Version == 6 {
		field = b[at6:v6Len]
	}
	field = field[:a.BitLen()/8]
	old := Sum(field, 0)
	if h.Version == 4 {
		v := a.As4()
		copy(field, v[:])
		repair(b[v4Sum:], old, Sum(field, 0))
	} else {
		v := a.As16()
		copy(field, v[:])
	}
	sum := h.checksumField(l4)
	if sum != nil && h.Proto != ProtoICMP {
		h.repairL4(sum, old, Sum(field, 0))
	}
	if at := h.portField(portAt); port != 0 && l4 != nil && at > 0 {
		old := binary.BigEndian.Uint16(l4[at-1:])
		binary.BigEndian.PutUint16(l4[at-1:], port)
		if sum != nil {
			h.repairL4(sum, old, port)
		}
	}
	return nil
}

// checksumField returns the octets of l4's checksum, or nil when it has none.
func (h *Header) checksumField(l4 []byte) []byte {
	at := icmpSum
	switch {
	case l4 == nil || h.Proto == ProtoUDP && h.Checksum == 0:
		return nil
	case h.Proto == ProtoUDP:
		at = udpSum
	case h.Proto == ProtoTCP:
		at = tcpSum
	}
	if len(l4) < at+2 {
		return nil
	}
	return l4[at:]
}

// portField returns one more than the offset of the port at portAt, or of an
// echo's identifier, and 0 when there is none.
func (h *Header) portField(portAt int) int {
	if !h.isICMP() {
		return portAt + 1
	}
	if k := h.kind(); k == KindEchoRequest || k == KindEchoReply {
		return icmpID + 1
	}
	return 0
}

func (h *Header) repairL4(sum []byte, old, new uint16) {
	repair(sum, old, new)
	if h.Proto == ProtoUDP && sum[0] == 0 && sum[1] == 0 {
		sum[0], sum[1] = 0xff, 0xff
	}
}

func repair(sum []byte, old, new uint16) {
	binary.BigEndian.PutUint16(sum, UpdateChecksum(binary.BigEndian.Uint16(sum), old, new))
}
