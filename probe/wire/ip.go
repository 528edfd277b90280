package wire

import (
	"encoding/binary"
	"net/netip"
)

// The IPv4 header (RFC 791 section 3.1).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------+-------+---------------+-------------------------------+
//	|   4   |  IHL  |      TOS      |         total length          |
//	+-------+-------+---------------+-----+-------------------------+
//	|        identification         |flags|  fragment offset (x 8)  |
//	+---------------+---------------+-----+-------------------------+
//	|      TTL      |   protocol    |        header checksum        |
//	+---------------+---------------+-------------------------------+
//	|                            source                             |
//	+---------------------------------------------------------------+
//	|                          destination                          |
//	+---------------------------------------------------------------+
const (
	v4TOS    = 1
	v4Total  = 2
	v4ID     = 4
	v4Frag   = 6
	v4TTL    = 8
	v4Proto  = 9
	v4Sum    = 10
	v4Src    = 12
	v4Dst    = 16
	v4Len    = 20
	flagDF   = 0x4000
	flagMF   = 0x2000
	fragMask = 0x1fff
)

// The IPv6 header (RFC 8200 section 3).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------+---------------+---------------------------------------+
//	|   6   | traffic class |              flow label               |
//	+-------+---------------+-------+---------------+---------------+
//	|        payload length         |  next header  |   hop limit   |
//	+-------------------------------+---------------+---------------+
//	|                      source (16 octets)                       |
//	+---------------------------------------------------------------+
//	|                    destination (16 octets)                    |
//	+---------------------------------------------------------------+
const (
	v6Payload = 4
	v6Next    = 6
	v6Hop     = 7
	v6Src     = 8
	v6Dst     = 24
	v6Len     = 40
	labelMask = 0xfffff
)

const maxLength = 0xffff // of IPv4's total length and IPv6's payload length

// IP is what the sender of a packet chooses of its IP header. The family is
// that of the addresses, which must agree; an IPv4-mapped address is IPv6 here.
type IP struct {
	Src, Dst  netip.Addr
	TTL       uint8  // IPv6: hop limit; sent as it is, 0 too
	TOS       uint8  // IPv6: traffic class
	ID        uint16 // IPv4 only: identification
	DF        bool   // IPv4 only: don't fragment
	FlowLabel uint32 // IPv6 only: the low 20 bits
}

// AppendIP appends the header for a packet with payloadLen octets after it, and
// with a right header checksum for IPv4. The errors are ErrFamily and ErrTooLong.
func AppendIP(b []byte, ip IP, proto uint8, payloadLen int) ([]byte, error) {
	switch {
	case ip.Src.Is4() && ip.Dst.Is4():
		return appendIPv4(b, &ip, proto, payloadLen)
	case ip.Src.Is6() && ip.Dst.Is6():
		return appendIPv6(b, &ip, proto, payloadLen)
	}
	return b, ErrFamily
}

func appendIPv4(b []byte, ip *IP, proto uint8, payloadLen int) ([]byte, error) {
	if v4Len+payloadLen > maxLength {
		return b, ErrTooLong
	}
	var frag uint16
	if ip.DF {
		frag = flagDF
	}
	src, dst := ip.Src.As4(), ip.Dst.As4()
	start := len(b)
	b = append(b, 4<<4|v4Len/4, ip.TOS)
	b = binary.BigEndian.AppendUint16(b, uint16(v4Len+payloadLen))
	b = binary.BigEndian.AppendUint16(b, ip.ID)
	b = binary.BigEndian.AppendUint16(b, frag)
	b = append(b, ip.TTL, proto, 0, 0)
	b = append(b, src[:]...)
	b = append(b, dst[:]...)
	binary.BigEndian.PutUint16(b[start+v4Sum:], Checksum(b[start:], 0))
	return b, nil
}

func appendIPv6(b []byte, ip *IP, proto uint8, payloadLen int) ([]byte, error) {
	if payloadLen > maxLength {
		return b, ErrTooLong
	}
	src, dst := ip.Src.As16(), ip.Dst.As16()
	b = binary.BigEndian.AppendUint32(b, 6<<28|uint32(ip.TOS)<<20|ip.FlowLabel&labelMask)
	b = binary.BigEndian.AppendUint16(b, uint16(payloadLen))
	b = append(b, proto, ip.TTL)
	b = append(b, src[:]...)
	return append(b, dst[:]...), nil
}

// SetTTL writes the TTL (IPv6: hop limit) of the packet b in place and keeps
// IPv4's header checksum right, if it was (RFC 1624). The errors are ErrShort
// and ErrMalformed; b is unchanged then.
func SetTTL(b []byte, ttl uint8) error {
	if len(b) == 0 {
		return ErrShort
	}
	switch b[0] >> 4 {
	case 4:
		if len(b) < v4Len {
			return ErrShort
		}
		old := binary.BigEndian.Uint16(b[v4TTL:])
		b[v4TTL] = ttl
		sum := UpdateChecksum(binary.BigEndian.Uint16(b[v4Sum:]), old, binary.BigEndian.Uint16(b[v4TTL:]))
		binary.BigEndian.PutUint16(b[v4Sum:], sum)
		return nil
	case 6:
		if len(b) < v6Len {
			return ErrShort
		}
		b[v6Hop] = ttl
		return nil
	}
	return ErrMalformed
}
