// Package wire is the bytes of probing: it builds the IP packets that probes
// and their answers are, and decodes what comes back.
//
// # Model
//
// A packet is a byte slice that starts at the IP header; link layers are not
// known here. Encoders append a complete packet to the caller's slice and
// allocate nothing when it has room. Decoders fill a value that the caller
// reuses, and the slices in it alias the input. Both families, IPv4 and IPv6,
// go through the same types: the addresses say which it is.
//
//	ip := wire.IP{Src: src, Dst: dst, TTL: 7}
//	pkt, err := wire.AppendEcho(buf[:0], ip, wire.Echo{ID: 24000, Seq: 1, Checksum: 0xbeef, Payload: text})
//	...
//	var r wire.Reply
//	if err := r.Decode(received); err == nil && r.Kind == wire.KindTimeExceeded && r.HasQuote {
//		fmt.Println(r.Src, "dropped our probe", r.Quoted.ICMPID, r.Quoted.ICMPSeq)
//	}
//
// # Flows that stay together
//
// A router that balances load hashes header fields, among them the first four
// octets after the IP header: the ports, or for ICMP the type, code and
// checksum. The probes of one path must agree in them (Augustin et al., "Avoiding
// traceroute anomalies with Paris traceroute", IMC 2006). So [Echo] and [UDP]
// take the checksum as an input and compensate for it in the first two octets
// of the payload.
//
// # What it does not do
//
// No sockets, no clock, no matching of replies to probes, no reassembly of
// fragments, no TCP options. Decoding checks structure and leaves checksums to
// [VerifyChecksums]. Errors are sentinels and never formatted, because hostile
// input must not cost more than good input.
package wire

import "errors"

// What can be wrong with bytes, or with the fields that bytes are made from.
var (
	// ErrShort says that the bytes end before the packet does.
	ErrShort = errors.New("wire: packet too short")
	// ErrMalformed says that a length or version field contradicts the packet.
	ErrMalformed = errors.New("wire: malformed packet")
	// ErrChecksum says that a checksum is wrong.
	ErrChecksum = errors.New("wire: bad checksum")
	// ErrFamily says that source and destination are missing or not of one address family.
	ErrFamily = errors.New("wire: source and destination are not of one address family")
	// ErrTooLong says that a packet would exceed what its length fields can say.
	ErrTooLong = errors.New("wire: packet too long")
	// ErrNoRoom says that a payload has no two octets with which to choose a checksum.
	ErrNoRoom = errors.New("wire: a chosen checksum needs two octets of payload")
	// ErrName says that a domain name, or a text in a DNS message, does not fit its encoding.
	ErrName = errors.New("wire: bad domain name or text")
)

// The protocol numbers of IPv4's protocol and IPv6's next header field that
// this package reads (IANA, "Assigned Internet Protocol Numbers").
const (
	ProtoICMP   = 1
	ProtoTCP    = 6
	ProtoUDP    = 17
	ProtoICMPv6 = 58
)
