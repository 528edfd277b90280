package wire

// Kind says what a received packet is to a prober.
type Kind uint8

// The kinds of packets.
const (
	KindOther        Kind = iota // nothing below; a later fragment too
	KindEchoRequest              // ICMP or ICMPv6
	KindEchoReply                // ICMP or ICMPv6
	KindTimeExceeded             // the TTL ran out (code 0) or reassembly took too long (code 1)
	KindUnreachable              // destination unreachable, or ICMPv6's packet too big, which ICMP sends as one
	KindUDP
	KindTCP
)

// String returns the name of k.
func (k Kind) String() string {
	switch k {
	case KindEchoRequest:
		return "echo request"
	case KindEchoReply:
		return "echo reply"
	case KindTimeExceeded:
		return "time exceeded"
	case KindUnreachable:
		return "unreachable"
	case KindUDP:
		return "udp"
	case KindTCP:
		return "tcp"
	}
	return "other"
}

// Reply is a received packet with the packet that it quotes, if it is an ICMP
// error. One value is reused for packet after packet, by one goroutine.
type Reply struct {
	Header
	Kind     Kind
	HasQuote bool   // Quoted and QuotedPayload are valid: an ICMP error with a readable quote
	Quoted   Header // the quoted packet as the router had it; TTL is often 1 or 0 then

	// Payload aliases the input and is what follows the headers: the data of an
	// echo, of UDP or of TCP, and all of the quote and extensions of an ICMP error.
	Payload []byte
	// QuotedPayload aliases the input and is what follows the headers of the
	// quoted packet, often nothing. An ICMP extension is never part of it.
	QuotedPayload []byte
	// Extension aliases the input and is the ICMP extension after the quote (RFC
	// 4884), its header with it, for Extensions.Decode; nil when there is none with
	// a right version and checksum.
	Extension []byte
}

// Decode reads the packet b, which must be whole; it may have octets of padding
// after it. The slices in r alias b. The errors are ErrShort and ErrMalformed,
// and r is zero then; an error about the quote is none about the packet, but
// leaves HasQuote unset. Checksums are not checked: VerifyChecksums does.
func (r *Reply) Decode(b []byte) error {
	*r = Reply{}
	payload, err := r.Header.decode(b, false)
	if err != nil {
		return err
	}
	r.Payload = payload
	r.Kind = r.kind()
	if r.quotes() {
		r.quote(b[r.HeaderLen:])
	}
	return nil
}

func (h *Header) kind() Kind {
	switch {
	case !h.HasL4:
		return KindOther
	case h.Proto == ProtoUDP:
		return KindUDP
	case h.Proto == ProtoICMP && h.Version == 4:
		return kindV4(h.ICMPType)
	case h.Proto == ProtoICMPv6 && h.Version == 6:
		return kindV6(h.ICMPType)
	case h.Proto == ProtoTCP:
		return KindTCP
	}
	return KindOther
}

func kindV4(typ uint8) Kind {
	switch typ {
	case ICMPEchoReply:
		return KindEchoReply
	case ICMPUnreachable:
		return KindUnreachable
	case ICMPEchoRequest:
		return KindEchoRequest
	case ICMPTimeExceeded:
		return KindTimeExceeded
	}
	return KindOther
}

func kindV6(typ uint8) Kind {
	switch typ {
	case ICMPv6Unreachable, ICMPv6PacketTooBig:
		return KindUnreachable
	case ICMPv6TimeExceeded:
		return KindTimeExceeded
	case ICMPv6EchoRequest:
		return KindEchoRequest
	case ICMPv6EchoReply:
		return KindEchoReply
	}
	return KindOther
}

// quotes reports whether the packet is an ICMP error, which quotes another.
func (r *Reply) quotes() bool {
	switch {
	case !r.HasL4 || !r.isICMP():
		return false
	case r.Kind == KindTimeExceeded || r.Kind == KindUnreachable:
		return true
	case r.Version == 4:
		return r.ICMPType == ICMPParameter
	}
	return r.ICMPType == ICMPv6Parameter
}

// quote decodes the packet that the ICMP error m quotes.
func (r *Reply) quote(m []byte) {
	q := r.Payload
	n := r.quoteLen(m)
	if r.mayExtend() {
		if at := findExtension(q, n); at > 0 {
			r.Extension = q[at:]
			if n == 0 || n > at {
				n = at
			}
		}
	}
	if n > 0 && n <= len(q) {
		q = q[:n]
	}
	if len(q) == 0 || q[0]>>4 != r.Version {
		return
	}
	payload, err := r.Quoted.decode(q, true)
	if err != nil {
		return
	}
	r.QuotedPayload, r.HasQuote = payload, true
}

// mayExtend reports whether errors of this type have extensions (RFC 4884
// section 4): all but ICMPv6's packet too big and parameter problem.
func (r *Reply) mayExtend() bool {
	return r.Version == 4 || r.ICMPType == ICMPv6Unreachable || r.ICMPType == ICMPv6TimeExceeded
}

// quoteLen returns RFC 4884's length of the quote in octets, or 0 when the
// message type has none or it cannot be right, being shorter than an IP header:
// older systems left other values in these octets.
func (r *Reply) quoteLen(m []byte) int {
	n, least := int(m[v4QuoteSz])*4, v4Len
	if r.Version == 6 {
		if !r.mayExtend() {
			return 0
		}
		n, least = int(m[v6QuoteSz])*8, v6Len
	}
	if n < least {
		return 0
	}
	return n
}

// VerifyChecksums checks the checksums of the whole packet b: the IPv4 header,
// ICMP, ICMPv6, UDP and TCP, as far as they are there. UDP over IPv4 may have
// none (RFC 768), UDP over IPv6 must (RFC 8200 section 8.1). Of a fragment only
// the IPv4 header can be checked. An IPv6 packet with routing segments left is
// checked against the destination that it has now, hence fails. The errors are
// ErrChecksum and those of decoding.
func VerifyChecksums(b []byte) error {
	var h Header
	if err := h.Decode(b); err != nil {
		return err
	}
	if h.Version == 4 && Checksum(b[:h.HeaderLen], 0) != 0 {
		return ErrChecksum
	}
	if !h.HasL4 || h.MF {
		return nil
	}
	m := b[h.HeaderLen:h.TotalLen]
	switch {
	case h.Proto == ProtoICMP:
		return verify(m, 0)
	case h.Proto == ProtoUDP && h.Checksum == 0:
		if h.Version == 6 {
			return ErrChecksum
		}
		return nil
	case h.Proto == ProtoUDP:
		m = m[:h.UDPLen]
	}
	return verify(m, PseudoSum(h.Src, h.Dst, h.Proto, len(m)))
}

func verify(m []byte, pseudo uint16) error {
	if Checksum(m, pseudo) != 0 {
		return ErrChecksum
	}
	return nil
}
