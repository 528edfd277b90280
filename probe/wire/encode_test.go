package wire_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"strandline/probe/wire"
)

func TestAppendEchoAgreesWithGopacket(t *testing.T) {
	r := newRand(t)
	for range 3000 {
		ip := randIP(r)
		e := wire.Echo{Reply: r.IntN(2) == 0, ID: uint16(r.Uint32()), Seq: uint16(r.Uint32()), Payload: randBytes(r, r.IntN(80))}
		prefix := randBytes(r, r.IntN(4))
		got, err := wire.AppendEcho(bytes.Clone(prefix), ip, e)
		if err != nil {
			t.Fatal(err)
		}
		if want := append(prefix, gopacketEcho(t, ip, e)...); !bytes.Equal(got, want) {
			t.Fatalf("AppendEcho(%+v, %+v)\n got %x\nwant %x", ip, e, got, want)
		}
	}
}

func gopacketEcho(t testing.TB, ip wire.IP, e wire.Echo) []byte {
	if !ip.Dst.Is6() {
		typ := uint8(layers.ICMPv4TypeEchoRequest)
		if e.Reply {
			typ = layers.ICMPv4TypeEchoReply
		}
		return serialize(t, gopacketIP(ip, layers.IPProtocolICMPv4),
			&layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(typ, 0), Id: e.ID, Seq: e.Seq}, gopacket.Payload(e.Payload))
	}
	typ := uint8(layers.ICMPv6TypeEchoRequest)
	if e.Reply {
		typ = layers.ICMPv6TypeEchoReply
	}
	network := gopacketIP(ip, layers.IPProtocolICMPv6)
	icmp := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(typ, 0)}
	if err := icmp.SetNetworkLayerForChecksum(network); err != nil {
		t.Fatal(err)
	}
	return serialize(t, network, icmp, &layers.ICMPv6Echo{Identifier: e.ID, SeqNumber: e.Seq}, gopacket.Payload(e.Payload))
}

func gopacketUDP(t testing.TB, ip wire.IP, u wire.UDP) []byte {
	network := gopacketIP(ip, layers.IPProtocolUDP)
	udp := &layers.UDP{SrcPort: layers.UDPPort(u.SrcPort), DstPort: layers.UDPPort(u.DstPort)}
	if err := udp.SetNetworkLayerForChecksum(network); err != nil {
		t.Fatal(err)
	}
	b := serialize(t, network, udp, gopacket.Payload(u.Payload))
	at := len(b) - len(u.Payload) - 2
	if b[at] == 0 && b[at+1] == 0 { // gopacket sends a checksum of 0 as it is
		b[at], b[at+1] = 0xff, 0xff
	}
	return b
}

func TestAppendUDPAgreesWithGopacket(t *testing.T) {
	r := newRand(t)
	for range 3000 {
		ip := randIP(r)
		u := wire.UDP{SrcPort: uint16(r.Uint32()), DstPort: uint16(r.Uint32()), Payload: randBytes(r, r.IntN(80))}
		got, err := wire.AppendUDP(nil, ip, u)
		if err != nil {
			t.Fatal(err)
		}
		if want := gopacketUDP(t, ip, u); !bytes.Equal(got, want) {
			t.Fatalf("AppendUDP(%+v, %+v)\n got %x\nwant %x", ip, u, got, want)
		}
	}
}

// A checksum that comes to zero must leave as ffff (RFC 768): the payload is
// chosen here so that it does.
func TestUDPChecksumZeroIsSentAsOnes(t *testing.T) {
	for _, ip := range []wire.IP{{Src: src4, Dst: dst4, TTL: 9}, {Src: src6, Dst: dst6, TTL: 9}} {
		u := wire.UDP{SrcPort: 4000, DstPort: 53, Payload: []byte{0, 0}}
		pinned, err := wire.AppendUDP(nil, ip, wire.UDP{SrcPort: 4000, DstPort: 53, Checksum: 0xffff, Payload: []byte{0, 0}})
		if err != nil {
			t.Fatal(err)
		}
		u.Payload = pinned[len(pinned)-2:]
		got, err := wire.AppendUDP(nil, ip, u)
		if err != nil {
			t.Fatal(err)
		}
		sum := got[len(got)-4 : len(got)-2]
		if !bytes.Equal(sum, []byte{0xff, 0xff}) {
			t.Errorf("%v: checksum = %x, want ffff", ip.Dst, sum)
		}
		if err := wire.VerifyChecksums(got); err != nil {
			t.Errorf("%v: %v", ip.Dst, err)
		}
	}
}

// The Paris property: whatever sequence, TTL, IP identification and payload, the
// first four octets after the IP header stay, and the checksum is right.
func TestChosenChecksumHoldsAndVerifies(t *testing.T) {
	r := newRand(t)
	for range 5000 {
		ip, want := randIP(r), uint16(1+r.IntN(0xffff))
		payload := randBytes(r, 2+r.IntN(30))
		keep := bytes.Clone(payload)
		pkt, err := build(r, ip, want, payload)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(payload, keep) {
			t.Fatal("the caller's payload was written to")
		}
		var got wire.Reply
		if err := got.Decode(pkt); err != nil {
			t.Fatal(err)
		}
		if got.Checksum != want {
			t.Fatalf("checksum = %#x, want %#x", got.Checksum, want)
		}
		if !bytes.Equal(got.Payload[2:], payload[2:]) || len(got.Payload) != len(payload) {
			t.Fatalf("payload = %x, want %x but for two octets", got.Payload, payload)
		}
		if err := wire.VerifyChecksums(pkt); err != nil {
			t.Fatalf("%v: %x", err, pkt)
		}
	}
}

func build(r *rand.Rand, ip wire.IP, sum uint16, payload []byte) ([]byte, error) {
	if r.IntN(2) == 0 {
		return wire.AppendUDP(nil, ip, wire.UDP{SrcPort: 24000, DstPort: 33434, Checksum: sum, Payload: payload})
	}
	return wire.AppendEcho(nil, ip, wire.Echo{ID: 7, Seq: uint16(r.Uint32()), Reply: r.IntN(2) == 0, Checksum: sum, Payload: payload})
}

// Choosing the checksum that a packet has anyway changes nothing in it.
func TestChosenChecksumOfItself(t *testing.T) {
	r := newRand(t)
	for range 2000 {
		ip, payload := randIP(r), []byte{0, 0, byte(r.Uint32()), 7}
		u := wire.UDP{SrcPort: uint16(r.Uint32()), DstPort: 53, Payload: payload}
		want := must(t)(wire.AppendUDP(nil, ip, u))
		var h wire.Header
		if err := h.Decode(want); err != nil {
			t.Fatal(err)
		}
		u.Checksum = h.Checksum
		if got := must(t)(wire.AppendUDP(nil, ip, u)); !bytes.Equal(got, want) {
			t.Fatalf("with checksum %#x\n got %x\nwant %x", u.Checksum, got, want)
		}
	}
}

// A flow label has 20 bits; what a caller has above them must not reach the
// traffic class and version.
func TestFlowLabelIsCut(t *testing.T) {
	b := must(t)(wire.AppendIP(nil, wire.IP{Src: src6, Dst: dst6, TOS: 0x0a, FlowLabel: 0xfff12345}, wire.ProtoUDP, 0))
	if want := unhex(t, "60a12345"); !bytes.Equal(b[:4], want) {
		t.Errorf("first word = %x, want %x", b[:4], want)
	}
}

func TestAppendErrorQuotes(t *testing.T) {
	probe := func(from, to netip.Addr, n int) []byte {
		b, err := wire.AppendUDP(nil, wire.IP{Src: from, Dst: to, TTL: 1}, wire.UDP{SrcPort: 24000, DstPort: 33434, Payload: make([]byte, n)})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, c := range []struct {
		name      string
		src, dst  netip.Addr
		payload   int
		quote     int
		reason    wire.Reason
		typ, code uint8
		want      int // octets quoted
	}{
		{"v4 whole", src4, dst4, 12, 0, wire.TimeExceeded, 11, 0, 40},
		{"v4 header and eight", src4, dst4, 12, wire.MinimalQuote, wire.TimeExceeded, 11, 0, 28},
		{"v4 given limit", src4, dst4, 12, 30, wire.NetUnreachable, 3, 0, 30},
		{"v4 576 in all", src4, dst4, 1000, 0, wire.HostUnreachable, 3, 1, 576 - 28},
		{"v4 limit above the standard", src4, dst4, 1000, 900, wire.PortUnreachable, 3, 3, 576 - 28},
		{"v6 whole", src6, dst6, 12, 0, wire.TimeExceeded, 3, 0, 60},
		{"v6 header and eight", src6, dst6, 12, wire.MinimalQuote, wire.NetUnreachable, 1, 0, 48},
		{"v6 1280 in all", src6, dst6, 2000, 0, wire.PortUnreachable, 1, 4, 1280 - 48},
		{"v6 prohibited", src6, dst6, 0, 0, wire.Prohibited, 1, 1, 48},
		{"v4 prohibited", src4, dst4, 0, 0, wire.Prohibited, 3, 13, 28},
		{"v6 host", src6, dst6, 0, 0, wire.HostUnreachable, 1, 3, 48},
	} {
		t.Run(c.name, func(t *testing.T) {
			packet := probe(c.src, c.dst, c.payload)
			padded := append(bytes.Clone(packet), 0, 0, 0) // as an Ethernet frame has
			got, err := wire.AppendError(nil, wire.IP{Src: c.dst, Dst: c.src, TTL: 64}, c.reason, padded, c.quote)
			if err != nil {
				t.Fatal(err)
			}
			var r wire.Reply
			if err := r.Decode(got); err != nil {
				t.Fatal(err)
			}
			if r.ICMPType != c.typ || r.ICMPCode != c.code {
				t.Errorf("type and code = %d/%d, want %d/%d", r.ICMPType, r.ICMPCode, c.typ, c.code)
			}
			if !bytes.Equal(r.Payload, packet[:c.want]) {
				t.Errorf("quote of %d octets, want %d: %x", len(r.Payload), c.want, r.Payload)
			}
			if !r.HasQuote || r.Quoted.SrcPort != 24000 || r.Quoted.DstPort != 33434 || r.Quoted.Dst != c.dst {
				t.Errorf("quoted = %+v", r.Quoted)
			}
			if err := errors.Join(wire.VerifyChecksums(got), agree(got)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A router that answers says the same bytes as gopacket would.
func TestAppendErrorAgreesWithGopacket(t *testing.T) {
	packet, err := wire.AppendEcho(nil, wire.IP{Src: src4, Dst: dst4, TTL: 1}, wire.Echo{ID: 1, Seq: 2, Payload: []byte("0123456789")})
	if err != nil {
		t.Fatal(err)
	}
	ip := wire.IP{Src: netip.MustParseAddr("203.0.113.9"), Dst: src4, TTL: 255, TOS: 0xc0}
	got, err := wire.AppendError(nil, ip, wire.TimeExceeded, packet, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := serialize(t, gopacketIP(ip, layers.IPProtocolICMPv4),
		&layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(11, 0)}, gopacket.Payload(packet))
	if !bytes.Equal(got, want) {
		t.Errorf("AppendError\n got %x\nwant %x", got, want)
	}
}

func TestEncodersRefuse(t *testing.T) {
	v4, v6 := wire.IP{Src: src4, Dst: dst4}, wire.IP{Src: src6, Dst: dst6}
	udp := func(ip wire.IP, u wire.UDP) func([]byte) ([]byte, error) {
		return func(b []byte) ([]byte, error) { return wire.AppendUDP(b, ip, u) }
	}
	echo := func(ip wire.IP, e wire.Echo) func([]byte) ([]byte, error) {
		return func(b []byte) ([]byte, error) { return wire.AppendEcho(b, ip, e) }
	}
	icmpError := func(ip wire.IP, packet []byte) func([]byte) ([]byte, error) {
		return func(b []byte) ([]byte, error) { return wire.AppendError(b, ip, wire.TimeExceeded, packet, 0) }
	}
	probe4, err := wire.AppendUDP(nil, v4, wire.UDP{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		call func([]byte) ([]byte, error)
		want error
	}{
		{"no addresses", udp(wire.IP{}, wire.UDP{}), wire.ErrFamily},
		{"no source", echo(wire.IP{Dst: dst6}, wire.Echo{}), wire.ErrFamily},
		{"mixed families", echo(wire.IP{Src: src4, Dst: dst6}, wire.Echo{}), wire.ErrFamily},
		{"chosen checksum, no payload", udp(v4, wire.UDP{Checksum: 1}), wire.ErrNoRoom},
		{"chosen checksum, one octet", echo(v6, wire.Echo{Checksum: 1, Payload: []byte{1}}), wire.ErrNoRoom},
		{"v4 one octet too long", udp(v4, wire.UDP{Payload: make([]byte, 65535-28+1)}), wire.ErrTooLong},
		{"v6 one octet too long", echo(v6, wire.Echo{Payload: make([]byte, 65535-8+1)}), wire.ErrTooLong},
		{"error about nothing", icmpError(v4, nil), wire.ErrShort},
		{"error about half a header", icmpError(v4, probe4[:19]), wire.ErrShort},
		{"error of the other family", icmpError(v6, probe4), wire.ErrFamily},
	} {
		got, err := c.call([]byte("before"))
		if !errors.Is(err, c.want) || string(got) != "before" {
			t.Errorf("%s: got %q, %v; want %q, %v", c.name, got, err, "before", c.want)
		}
	}
	for name, call := range map[string]func([]byte) ([]byte, error){
		"v4": udp(v4, wire.UDP{Payload: make([]byte, 65535-28)}),
		"v6": echo(v6, wire.Echo{Payload: make([]byte, 65535-8)}),
	} {
		if _, err := call(nil); err != nil {
			t.Errorf("longest %s packet: %v", name, err)
		}
	}
}

func TestSetTTLKeepsTheChecksum(t *testing.T) {
	r := newRand(t)
	for range 2000 {
		ip := randIP(r)
		got, err := wire.AppendUDP(nil, ip, wire.UDP{SrcPort: 1, DstPort: 2})
		if err != nil {
			t.Fatal(err)
		}
		ip.TTL = uint8(r.Uint32())
		if err := wire.SetTTL(got, ip.TTL); err != nil {
			t.Fatal(err)
		}
		want, err := wire.AppendUDP(nil, ip, wire.UDP{SrcPort: 1, DstPort: 2})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("SetTTL\n got %x\nwant %x", got, want)
		}
	}
	for in, want := range map[string]error{"": wire.ErrShort, "45": wire.ErrShort, "60": wire.ErrShort, "51": wire.ErrMalformed} {
		if err := wire.SetTTL(unhex(t, in), 3); !errors.Is(err, want) {
			t.Errorf("SetTTL(%q) = %v, want %v", in, err, want)
		}
	}
}

func TestAppendIdentity(t *testing.T) {
	for _, c := range []struct {
		text string
		room int
		want string
	}{
		{"strandline; ops@example.org", 100, "strandline; ops@example.org"},
		{"strandline; ops@example.org", 10, "strandline"},
		{"strandline", 0, ""},
		{"strandline", -3, ""},
		{"a\nb\x00c\x7f", 100, "a?b?c?"},
	} {
		if got := wire.AppendIdentity([]byte("x"), c.text, c.room); string(got) != "x"+c.want {
			t.Errorf("AppendIdentity(%q, %d) = %q, want %q", c.text, c.room, got, "x"+c.want)
		}
	}
}
