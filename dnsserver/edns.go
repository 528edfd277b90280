package dnsserver

import (
	"encoding/binary"
	"net/netip"
)

// Option codes of EDNS.
const (
	optNSID = 3 // RFC 5001
	optECS  = 8 // RFC 7871
)

// flagDO is the DNSSEC OK bit in the low half of the OPT record's TTL.
const flagDO = 1 << 15

// edns is what the OPT record of a message says (RFC 6891 section 6.1): the
// class holds the sender's UDP size, the TTL the extended rcode, the version and
// the flags, the data the options.
type edns struct {
	present bool
	version uint8
	size    uint16
	do      bool   // copied into the reply (RFC 3225 section 3)
	nsid    bool   // asked for
	subnet  []byte // the client subnet option as sent, to be echoed; aliases the message
}

// parse reads the OPT record: the ten octets after its owner, and its data. A
// version that we do not know leaves the options unread.
func (e *edns) parse(head, data []byte, q *Query) bool {
	be := binary.BigEndian
	e.present = true
	e.size, e.version, e.do = be.Uint16(head[2:]), head[5], be.Uint16(head[6:])&flagDO != 0
	if e.version > 0 {
		return true
	}
	for len(data) > 0 {
		if len(data) < 4 {
			return false
		}
		code, n := be.Uint16(data), int(be.Uint16(data[2:]))
		if n > len(data)-4 {
			return false
		}
		if !e.option(code, data[4:4+n], q) {
			return false
		}
		data = data[4+n:]
	}
	return true
}

// option takes in one option. Unknown ones are ignored (RFC 6891 section 6.1.2).
func (e *edns) option(code uint16, data []byte, q *Query) (ok bool) {
	switch code {
	case optNSID:
		e.nsid = true
	case optECS:
		if q.HasSubnet {
			return false // two subnets: whose answer should it be?
		}
		if q.Subnet, ok = parseSubnet(data); !ok {
			return false
		}
		q.HasSubnet, e.subnet = true, data
	}
	return true
}

// parseSubnet reads a client subnet option (RFC 7871 section 6):
//
//	|        FAMILY         | SOURCE LEN | SCOPE LEN | ADDRESS ...
//	0                       2            3           4
//
// In a query the scope must be 0, the address has exactly the octets that the
// source length needs, and no bit beyond it. Family 0 with length 0 and no
// address is how some clients say "do not locate me": the zero Prefix.
func parseSubnet(data []byte) (netip.Prefix, bool) {
	if len(data) < 4 || data[3] != 0 {
		return netip.Prefix{}, false
	}
	bits, octets := int(data[2]), data[4:]
	if len(octets) != (bits+7)/8 {
		return netip.Prefix{}, false
	}
	var addr netip.Addr
	switch family := binary.BigEndian.Uint16(data); {
	case family == 0 && bits == 0:
		return netip.Prefix{}, true
	case family == 1 && bits <= 32:
		var b [4]byte
		copy(b[:], octets)
		addr = netip.AddrFrom4(b)
	case family == 2 && bits <= 128:
		var b [16]byte
		copy(b[:], octets)
		addr = netip.AddrFrom16(b)
	default:
		return netip.Prefix{}, false
	}
	p := netip.PrefixFrom(addr, bits)
	return p, p.Masked().Addr() == addr
}

// udpLimit is how long a reply over UDP may be. A size below 512 counts as 512
// (RFC 6891 section 6.2.3).
func (e *edns) udpLimit() int {
	if !e.present {
		return noEDNSSize
	}
	return min(max(int(e.size), noEDNSSize), maxUDPSize)
}

// appendReply appends the OPT record of the reply: none when the query had none.
func (e *edns) appendReply(b []byte, a *Answer, id string) []byte {
	if !e.present {
		return b
	}
	be := binary.BigEndian
	b = append(b, 0) // the root
	b = be.AppendUint16(b, uint16(TypeOPT))
	b = be.AppendUint16(b, maxUDPSize)
	b = append(b, byte(a.Rcode>>4), 0) // extended rcode, our version
	flags := uint16(0)
	if e.do {
		flags = flagDO
	}
	b = be.AppendUint16(b, flags)
	length := len(b)
	b = append(b, 0, 0)
	if e.nsid && id != "" {
		b = be.AppendUint16(b, optNSID)
		b = be.AppendUint16(b, uint16(len(id)))
		b = append(b, id...)
	}
	if e.subnet != nil && a.Rcode != FormErr {
		b = be.AppendUint16(b, optECS)
		b = be.AppendUint16(b, uint16(len(e.subnet)))
		scope := len(b) + 3
		b = append(b, e.subnet...)
		b[scope] = byte(a.Scope)
	}
	be.PutUint16(b[length:], uint16(len(b)-length-2))
	return b
}
