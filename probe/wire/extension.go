package wire

import (
	"encoding/binary"
	"net/netip"
)

// ICMP extensions (RFC 4884 section 7): a header and objects, each with a header
// of its own. The length of an object counts its header.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------+-----------------------+-------------------------------+
//	|   2   |       reserved        |           checksum            |
//	+-------+-------+---------------+---------------+---------------+
//	|            length             |     class     |    c-type     |
//	+-------------------------------+---------------+---------------+
//	|  data ...
//
// Class 1, c-type 1 is an MPLS label stack (RFC 4950), four octets an entry:
//
//	+---------------------------------------+-----+-+---------------+
//	|                 label                 | TC  |S|      TTL      |
//	+---------------------------------------+-----+-+---------------+
//
// Class 2 tells of an interface (RFC 5837): its c-type says of which and what
// follows, in this order.
//
//	+-------+-------+-------+-------+-------+-------+-------+-------+
//	| role          | reserved      | index | addr  | name  |  MTU  |
//	+-------+-------+-------+-------+-------+-------+-------+-------+
const (
	extVersion = 2 << 4
	extHeader  = 4
	extSum     = 2
	objHeader  = 4
	objClass   = 2
	objType    = 3

	classMPLS      = 1
	classInterface = 2
	typeMPLS       = 1
	entryLen       = 4 // of the label stack

	hasIndex = 0x08
	hasAddr  = 0x04
	hasName  = 0x02
	hasMTU   = 0x01

	afiIPv4   = 1
	afiIPv6   = 2
	maxIfName = 64  // with its length octet, a multiple of four (RFC 5837 section 4.3)
	paddedTo  = 128 // octets of quote before an extension, at least (RFC 4884 section 3)
)

// MPLS is one entry of the label stack that a packet had when its TTL ran out
// (RFC 4950), top first.
type MPLS struct {
	Label  uint32 // the low 20 bits
	TC     uint8  // traffic class, the low 3 bits
	Bottom bool   // set on the last entry
	TTL    uint8
}

// Role says which interface of the router an Interface is (RFC 5837 section 4.1).
type Role uint8

// The roles of interfaces.
const (
	Incoming    Role = iota // over which the packet came
	SubIncoming             // the layer 2 part of that
	Outgoing                // over which it would have gone
	NextHop                 // of the next router
)

const roleShift = 6

// Interface is what a router tells of one of its interfaces (RFC 5837). A field
// that was not sent is zero.
type Interface struct {
	Role  Role
	Index uint32 // as SNMP numbers them, never 0
	Addr  netip.Addr
	Name  []byte // aliases the input, at most 63 octets
	MTU   uint32 // octets
}

// Extensions are the objects of an ICMP extension that this package knows. One
// value is reused for packet after packet, by one goroutine.
type Extensions struct {
	MPLS       []MPLS
	Interfaces []Interface
	Others     int // objects of other classes, skipped
}

// Decode reads what Reply.Extension holds, which may be empty. It reuses the
// slices and keeps their room. The error is ErrMalformed, and e is empty then;
// checksum and version were Reply.Decode's business.
func (e *Extensions) Decode(b []byte) error {
	e.reset()
	if len(b) == 0 {
		return nil
	}
	if len(b) < extHeader {
		return ErrMalformed
	}
	for b = b[extHeader:]; len(b) > 0; {
		if len(b) < objHeader {
			e.reset()
			return ErrMalformed
		}
		n := int(binary.BigEndian.Uint16(b))
		if n < objHeader || n > len(b) || !e.object(b[objClass], b[objType], b[objHeader:n]) {
			e.reset()
			return ErrMalformed
		}
		b = b[n:]
	}
	return nil
}

func (e *Extensions) reset() {
	e.MPLS, e.Interfaces, e.Others = e.MPLS[:0], e.Interfaces[:0], 0
}

// object reads one object and reports whether it is well formed.
func (e *Extensions) object(class, typ uint8, b []byte) bool {
	switch {
	case class == classMPLS && typ == typeMPLS:
		return e.labels(b)
	case class == classInterface:
		return e.iface(typ, b)
	}
	e.Others++
	return true
}

func (e *Extensions) labels(b []byte) bool {
	if len(b) == 0 || len(b)%entryLen != 0 {
		return false
	}
	for ; len(b) > 0; b = b[entryLen:] {
		w := binary.BigEndian.Uint32(b)
		e.MPLS = append(e.MPLS, MPLS{Label: w >> 12, TC: uint8(w>>9) & 7, Bottom: w&0x100 != 0, TTL: uint8(w)})
	}
	return true
}

func (e *Extensions) iface(typ uint8, b []byte) bool {
	i := Interface{Role: Role(typ >> roleShift)}
	ok := true
	if typ&hasIndex != 0 {
		i.Index, b, ok = word(b)
	}
	if ok && typ&hasAddr != 0 {
		i.Addr, b, ok = ifAddr(b)
	}
	if ok && typ&hasName != 0 {
		i.Name, b, ok = ifName(b)
	}
	if ok && typ&hasMTU != 0 {
		i.MTU, b, ok = word(b)
	}
	if !ok || len(b) > 0 {
		return false
	}
	e.Interfaces = append(e.Interfaces, i)
	return true
}

func word(b []byte) (uint32, []byte, bool) {
	if len(b) < 4 {
		return 0, nil, false
	}
	return binary.BigEndian.Uint32(b), b[4:], true
}

// ifAddr reads an address family number, two reserved octets and the address.
func ifAddr(b []byte) (netip.Addr, []byte, bool) {
	if len(b) < 4 {
		return netip.Addr{}, nil, false
	}
	switch afi := binary.BigEndian.Uint16(b); {
	case afi == afiIPv4 && len(b) >= 8:
		return netip.AddrFrom4([4]byte(b[4:])), b[8:], true
	case afi == afiIPv6 && len(b) >= 20:
		return netip.AddrFrom16([16]byte(b[4:])), b[20:], true
	}
	return netip.Addr{}, nil, false
}

// ifName reads a name: its first octet is the length with itself and with the
// zeros that fill it up.
func ifName(b []byte) ([]byte, []byte, bool) {
	if len(b) == 0 || b[0]%4 != 0 || b[0] == 0 || b[0] > maxIfName || int(b[0]) > len(b) {
		return nil, nil, false
	}
	n := int(b[0])
	name := b[1:n]
	for len(name) > 0 && name[len(name)-1] == 0 {
		name = name[:len(name)-1]
	}
	return name, b[n:], true
}

// AppendExtensions appends an extension with its checksum: the label stack as
// one object, when there is one, then the interfaces. A name is cut at 63
// octets. Without any object it appends nothing.
func AppendExtensions(b []byte, e *Extensions) []byte {
	if len(e.MPLS) == 0 && len(e.Interfaces) == 0 {
		return b
	}
	start := len(b)
	b = append(b, extVersion, 0, 0, 0)
	if len(e.MPLS) > 0 {
		b = binary.BigEndian.AppendUint16(b, uint16(objHeader+entryLen*len(e.MPLS)))
		b = append(b, classMPLS, typeMPLS)
		for _, m := range e.MPLS {
			w := m.Label<<12 | uint32(m.TC&7)<<9 | uint32(m.TTL)
			if m.Bottom {
				w |= 0x100
			}
			b = binary.BigEndian.AppendUint32(b, w)
		}
	}
	for i := range e.Interfaces {
		b = appendInterface(b, &e.Interfaces[i])
	}
	binary.BigEndian.PutUint16(b[start+extSum:], Checksum(b[start:], 0))
	return b
}

func appendInterface(b []byte, i *Interface) []byte {
	start := len(b)
	b = append(b, 0, 0, classInterface, uint8(i.Role)<<roleShift)
	if i.Index != 0 {
		b[start+objType] |= hasIndex
		b = binary.BigEndian.AppendUint32(b, i.Index)
	}
	if i.Addr.Is4() {
		b[start+objType] |= hasAddr
		a := i.Addr.As4()
		b = append(append(b, 0, afiIPv4, 0, 0), a[:]...)
	} else if i.Addr.Is6() {
		b[start+objType] |= hasAddr
		a := i.Addr.As16()
		b = append(append(b, 0, afiIPv6, 0, 0), a[:]...)
	}
	if len(i.Name) > 0 {
		b[start+objType] |= hasName
		name := i.Name[:min(len(i.Name), maxIfName-1)]
		size := (len(name) + 4) &^ 3
		b = append(append(b, uint8(size)), name...)
		for range size - 1 - len(name) {
			b = append(b, 0)
		}
	}
	if i.MTU != 0 {
		b[start+objType] |= hasMTU
		b = binary.BigEndian.AppendUint32(b, i.MTU)
	}
	binary.BigEndian.PutUint16(b[start:], uint16(len(b)-start))
	return b
}

// AppendExtendedError is AppendError with an extension after the quote, as
// AppendExtensions made it: the quote is filled up with zeros to at least 128
// octets, its length is stated, and it is cut so that all fits into what
// AppendError's packets may measure (RFC 4884). An extension that leaves no room
// for 128 octets is ErrTooLong. Without an extension it is AppendError.
func AppendExtendedError(b []byte, ip IP, r Reason, packet []byte, quote int, extension []byte) ([]byte, error) {
	if len(extension) == 0 {
		return AppendError(b, ip, r, packet, quote)
	}
	quoted, err := clipQuote(&ip, packet, quote)
	if err != nil {
		return b, err
	}
	proto, unit, most, at := uint8(ProtoICMP), 4, maxErrorLen-v4Len-icmpLen, v4QuoteSz
	if ip.Dst.Is6() {
		proto, unit, most, at = ProtoICMPv6, 8, maxErrorLenV6-v6Len-icmpLen, v6QuoteSz
	}
	most = (most - len(extension)) / unit * unit
	if most < paddedTo {
		return b, ErrTooLong
	}
	quoted = quoted[:min(len(quoted), most)]
	size := max(paddedTo, (len(quoted)+unit-1)/unit*unit)
	b, err = AppendIP(b, ip, proto, icmpLen+size+len(extension))
	if err != nil {
		return b, err
	}
	var zeros [paddedTo]byte
	start := len(b)
	typ, code := r.TypeCode(ip.Dst.Is6())
	b = append(b, typ, code, 0, 0, 0, 0, 0, 0)
	b[start+at] = uint8(size / unit)
	b = append(b, quoted...)
	b = append(b, zeros[:size-len(quoted)]...)
	b = append(b, extension...)
	seal(b[start:], icmpSum, icmpPseudo(&ip, len(b)-start), 0)
	return b, nil
}

// findExtension returns where in the payload of an ICMP error, whose stated quote
// length is stated octets or 0, an extension begins, or 0. Not every router
// states the length: those older than RFC 4884 put the extension after 128
// octets and say nothing, and some say something else. So a place counts when
// the version is right and so is the checksum. Only where the length points may
// the checksum be missing (RFC 4884 section 7).
func findExtension(payload []byte, stated int) int {
	if stated > 0 && isExtension(payload, stated, true) {
		return stated
	}
	if stated != paddedTo && isExtension(payload, paddedTo, false) {
		return paddedTo
	}
	return 0
}

func isExtension(payload []byte, at int, unsummed bool) bool {
	if len(payload) < at+extHeader || payload[at]&0xf0 != extVersion {
		return false
	}
	b := payload[at:]
	if b[extSum] == 0 && b[extSum+1] == 0 {
		return unsummed
	}
	return Checksum(b, 0) == 0
}
