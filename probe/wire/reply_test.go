package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"strandline/probe/wire"
)

// TestCaptures compares real replies with what their dissections beside them say.
func TestCaptures(t *testing.T) {
	var (
		home4   = netip.MustParseAddr("192.168.1.5")
		google4 = netip.MustParseAddr("8.8.8.8")
		hop4    = netip.MustParseAddr("72.14.204.68")
		lip6    = netip.MustParseAddr("132.227.123.8")
		home6   = netip.MustParseAddr("2a04:8ec0:0:164:620c:e59a:daf8:21e9")
		google6 = netip.MustParseAddr("2001:4860:4860::8888")
		hop6    = netip.MustParseAddr("2a04:8ec0:0:a::1:119")
	)
	exceeded4 := wire.Header{Version: 4, Src: hop4, Dst: home4, Proto: 1, TTL: 250, TotalLen: 56, HeaderLen: 20, HasL4: true, ICMPType: 11}
	exceeded6 := wire.Header{Version: 6, Src: hop6, Dst: home6, Proto: 58, TTL: 63, TotalLen: 100, HeaderLen: 40, HasL4: true, ICMPType: 3}
	withSum := func(h wire.Header, sum uint16) wire.Header { h.Checksum = sum; return h }
	for _, c := range []struct {
		file    string
		request wire.Header
		payload string
		want    wire.Reply
	}{
		{
			file: "icmp-icmp-echo-reply.pcap",
			request: wire.Header{Version: 4, Src: home4, Dst: google4, Proto: 1, TTL: 10, ID: 10, TotalLen: 40, HeaderLen: 20,
				HasL4: true, ICMPType: 8, ICMPID: 24000, ICMPSeq: 3398, Checksum: 0x5dc0},
			payload: "2f3900000000000000000000",
			want: wire.Reply{Kind: wire.KindEchoReply, Payload: unhex(t, "2f3900000000000000000000"),
				Header: wire.Header{Version: 4, Src: google4, Dst: home4, Proto: 1, TTL: 117, TotalLen: 40, HeaderLen: 20,
					HasL4: true, ICMPID: 24000, ICMPSeq: 3398, Checksum: 0x65c0}},
		},
		{
			file: "icmp-icmp-ttl-exceeded.pcap",
			request: wire.Header{Version: 4, Src: home4, Dst: google4, Proto: 1, TTL: 6, ID: 6, TotalLen: 36, HeaderLen: 20,
				HasL4: true, ICMPType: 8, ICMPID: 24000, ICMPSeq: 56974, Checksum: 0x5dc0},
			payload: "5df0000000000000",
			want: wire.Reply{Kind: wire.KindTimeExceeded, HasQuote: true, Header: withSum(exceeded4, 0x52f0),
				Quoted: wire.Header{Version: 4, Src: home4, Dst: google4, Proto: 1, TTL: 1, ID: 6, TotalLen: 36, HeaderLen: 20,
					HasL4: true, ICMPType: 8, ICMPID: 24000, ICMPSeq: 56974, Checksum: 0x5dc0}},
		},
		{
			file: "icmp-icmp-ttl-exceeded-mpls.pcap",
			request: wire.Header{Version: 4, Src: lip6, Dst: netip.MustParseAddr("65.83.239.127"), Proto: 1, TTL: 11, ID: 46230,
				TotalLen: 42, HeaderLen: 20, HasL4: true, ICMPType: 8, ICMPID: 24000, ICMPSeq: 48277, Checksum: 0x5dc0},
			payload: "7fe9000000000000000000000000",
			want: wire.Reply{Kind: wire.KindTimeExceeded, HasQuote: true, QuotedPayload: unhex(t, "7fe9000000000000000000000000"),
				Extension: unhex(t, "2000707d 000c0101 073d9001 0635d101"), // after 128 octets, though the length says 68
				Header: wire.Header{Version: 4, Src: netip.MustParseAddr("12.122.28.42"), Dst: lip6, Proto: 1, TTL: 239, ID: 11578,
					TotalLen: 172, HeaderLen: 20, HasL4: true, ICMPType: 11, Checksum: 0xf4ee},
				Quoted: wire.Header{Version: 4, Src: lip6, Dst: netip.MustParseAddr("65.83.239.127"), Proto: 1, TTL: 2, ID: 46230,
					TotalLen: 42, HeaderLen: 20, HasL4: true, ICMPType: 8, ICMPID: 24000, ICMPSeq: 48277, Checksum: 0x5dc0}},
		},
		{
			file: "icmp6-icmp6-echo-reply.pcap",
			request: wire.Header{Version: 6, Src: home6, Dst: google6, Proto: 58, TTL: 8, TotalLen: 58, HeaderLen: 40,
				HasL4: true, ICMPType: 128, ICMPID: 24000, ICMPSeq: 55003, Checksum: 0x5dc0},
			payload: "b55a0000000000000000",
			want: wire.Reply{Kind: wire.KindEchoReply, Payload: unhex(t, "b55a0000000000000000"),
				Header: wire.Header{Version: 6, Src: google6, Dst: home6, Proto: 58, TTL: 118, TOS: 0x80, TotalLen: 58, HeaderLen: 40,
					HasL4: true, ICMPType: 129, ICMPID: 24000, ICMPSeq: 55003, Checksum: 0x5cc0}},
		},
		{
			file: "icmp6-icmp6-ttl-exceeded.pcap",
			request: wire.Header{Version: 6, Src: home6, Dst: google6, Proto: 58, TTL: 2, TotalLen: 52, HeaderLen: 40,
				HasL4: true, ICMPType: 128, ICMPID: 24000, ICMPSeq: 24309, Checksum: 0x5dc0},
			payload: "2d470000",
			want: wire.Reply{Kind: wire.KindTimeExceeded, HasQuote: true, QuotedPayload: unhex(t, "2d470000"), Header: withSum(exceeded6, 0xaa27),
				Quoted: wire.Header{Version: 6, Src: home6, Dst: google6, Proto: 58, TTL: 1, TotalLen: 52, HeaderLen: 40,
					HasL4: true, ICMPType: 128, ICMPID: 24000, ICMPSeq: 24309, Checksum: 0x5dc0}},
		},
		{
			file: "udp-icmp-ttl-exceeded.pcap",
			request: wire.Header{Version: 4, Src: home4, Dst: google4, Proto: 17, TTL: 6, ID: 6, TotalLen: 36, HeaderLen: 20,
				HasL4: true, SrcPort: 24000, DstPort: 33434, UDPLen: 16, Checksum: 0x2162},
			payload: "2c54000000000000",
			want: wire.Reply{Kind: wire.KindTimeExceeded, HasQuote: true, Header: withSum(exceeded4, 0xf332),
				Quoted: wire.Header{Version: 4, Src: home4, Dst: google4, Proto: 17, TTL: 1, ID: 6, TotalLen: 36, HeaderLen: 20,
					HasL4: true, SrcPort: 24000, DstPort: 33434, UDPLen: 16, Checksum: 0x2162}},
		},
		{
			file: "udp-icmp6-ttl-exceeded.pcap",
			request: wire.Header{Version: 6, Src: home6, Dst: google6, Proto: 17, TTL: 2, TotalLen: 52, HeaderLen: 40,
				HasL4: true, SrcPort: 24000, DstPort: 33434, UDPLen: 12, Checksum: 0xb8cb},
			payload: "2eb40000",
			want: wire.Reply{Kind: wire.KindTimeExceeded, HasQuote: true, QuotedPayload: unhex(t, "2eb40000"), Header: withSum(exceeded6, 0xd2fe),
				Quoted: wire.Header{Version: 6, Src: home6, Dst: google6, Proto: 17, TTL: 1, TotalLen: 52, HeaderLen: 40,
					HasL4: true, SrcPort: 24000, DstPort: 33434, UDPLen: 12, Checksum: 0xb8cb}},
		},
	} {
		t.Run(c.file, func(t *testing.T) {
			pkts := capture(t, c.file)
			if len(pkts) != 2 {
				t.Fatalf("%d packets, want 2", len(pkts))
			}
			request := wire.Reply{Header: c.request, Payload: unhex(t, c.payload), Kind: wire.KindUDP}
			if c.request.Proto != wire.ProtoUDP {
				request.Kind = wire.KindEchoRequest
			}
			sameReply(t, pkts[0], request)
			if c.want.HasQuote {
				c.want.Payload = pkts[1][c.want.HeaderLen+8 : c.want.TotalLen]
			}
			sameReply(t, pkts[1], c.want)
			for _, p := range pkts {
				if err := errors.Join(wire.VerifyChecksums(p), agree(p)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// sameReply decodes b and compares, and tries that a flipped bit of every
// covered octet is noticed.
func sameReply(t *testing.T, b []byte, want wire.Reply) {
	t.Helper()
	var got wire.Reply
	if err := got.Decode(b); err != nil {
		t.Fatal(err)
	}
	if got.Header != want.Header {
		t.Errorf("header\n got %+v\nwant %+v", got.Header, want.Header)
	}
	if got.Quoted != want.Quoted || got.HasQuote != want.HasQuote {
		t.Errorf("quoted %v\n got %+v\nwant %v\n %+v", got.HasQuote, got.Quoted, want.HasQuote, want.Quoted)
	}
	if got.Kind != want.Kind {
		t.Errorf("kind = %v, want %v", got.Kind, want.Kind)
	}
	if !bytes.Equal(got.Payload, want.Payload) || !bytes.Equal(got.QuotedPayload, want.QuotedPayload) || !bytes.Equal(got.Extension, want.Extension) {
		t.Errorf("payloads = %x, %x, %x; want %x, %x, %x", got.Payload, got.QuotedPayload, got.Extension, want.Payload, want.QuotedPayload, want.Extension)
	}
}

func TestARPIsNoPacket(t *testing.T) {
	for _, p := range capture(t, "arp.pcap") {
		if err := new(wire.Reply).Decode(p); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("Decode = %v, want %v", err, wire.ErrMalformed)
		}
	}
}

// hex pictures of headers; the checksums in them are not looked at by Decode.
const (
	ip4to7   = "4500 0000 0006 0000 0106 0000 c0000201 c6336407 "                                       // a TCP probe as quoted
	ip4from9 = "4500 0000 0000 0000 ff01 0000 cb007109 c0000201 "                                       // a router's error
	ip6probe = "60000000 0000 11 01 20010db8000000000000000000000001 20010db8000700000000000000000007 " // a UDP probe as quoted
	ip6error = "60000000 0000 3a ff 20010db8000900000000000000000009 20010db8000000000000000000000001 "
	exceed4  = "0b00 0000 00000000 "
	exceed6  = "0300 0000 00000000 "
	udpPorts = "5dc0 829a 000c b8cb "
)

// whole sets the length of the outer IP header to what is there.
func whole(b []byte) []byte {
	if b[0]>>4 == 6 {
		binary.BigEndian.PutUint16(b[4:], uint16(len(b)-40))
	} else {
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	}
	return b
}

func TestQuotes(t *testing.T) {
	udp4 := "4500 0020 0006 0000 0111 0000 c0000201 c6336407 " + udpPorts
	udp6 := "60000000 000c 11 01 20010db8000000000000000000000001 20010db8000700000000000000000007 " + udpPorts
	pad := func(n int) string { return string(bytes.Repeat([]byte("00"), n)) }
	mpls := "2000707d 000c0101 073d9001 0635d101"
	for _, c := range []struct {
		name    string
		packet  string
		has, l4 bool
		payload string
		check   func(q wire.Header) bool
	}{
		{"tcp, header and eight octets", ip4from9 + exceed4 + ip4to7 + "9c40 0050 01020304", true, true, "",
			func(q wire.Header) bool {
				return q.SrcPort == 40000 && q.DstPort == 80 && q.TCPSeq == 0x01020304 && q.TTL == 1 && q.Checksum == 0
			}},
		{"tcp, whole header", ip4from9 + exceed4 + ip4to7 + "9c40 0050 01020304 00000000 5002ffff abcd0000 aa", true, true, "aa",
			func(q wire.Header) bool { return q.Checksum == 0xabcd }},
		{"tcp, header cut in its options", ip4from9 + exceed4 + ip4to7 + "9c40 0050 01020304 00000000 8002ffff abcd0000 aa", true, true, "",
			func(q wire.Header) bool { return q.Checksum == 0xabcd }},
		{"v4 with options quoted", ip4from9 + exceed4 + "4600 0024 0006 0000 0111 0000 c0000201 c6336407 94040000 " + udpPorts, true, true, "",
			func(q wire.Header) bool { return q.HeaderLen == 24 && q.DstPort == 33434 }},
		{"error with options itself", "4600 0000 0000 0000 ff01 0000 cb007109 c0000201 94040000" + exceed4 + udp4, true, true, "",
			func(q wire.Header) bool { return q.DstPort == 33434 }},
		{"v4 header alone", ip4from9 + exceed4 + ip4to7, true, false, "", nil},
		{"v4 seven octets of transport", ip4from9 + exceed4 + ip4to7 + "9c40 0050 010203", true, false, "", nil},
		{"v4 not even a header", ip4from9 + exceed4 + "4500 0020 0006", false, false, "", nil},
		{"nothing quoted", ip4from9 + exceed4, false, false, "", nil},
		{"v6 quoted in v4", ip4from9 + exceed4 + udp6, false, false, "", nil},
		{"not IP", ip4from9 + exceed4 + pad(64), false, false, "", nil},
		{"header length of 4 octets", ip4from9 + exceed4 + "4100" + pad(40), false, false, "", nil},
		{"fragment quoted", ip4from9 + exceed4 + "4500 0020 0006 00b9 0111 0000 c0000201 c6336407" + udpPorts, true, false, "5dc0829a000cb8cb",
			func(q wire.Header) bool { return q.FragOffset == 185*8 }},
		{"total length without the header, as old BSDs quote", ip4from9 + exceed4 +
			"4500 000c 0006 0000 0111 0000 c0000201 c6336407" + udpPorts + "2eb40000", true, true, "2eb40000", nil},
		{"total length without the header, still above one", ip4from9 + exceed4 +
			"4500 0018 0006 0000 0111 0000 c0000201 c6336407" + udpPorts + "2eb40000", true, true, "2eb40000", nil},
		{"total length with octets swapped", ip4from9 + exceed4 +
			"4500 2000 0006 0000 0111 0000 c0000201 c6336407" + udpPorts + "2eb40000", true, true, "2eb40000", nil},
		{"udp length shorter than itself", ip4from9 + exceed4 +
			"4500 0020 0006 0000 0111 0000 c0000201 c6336407 5dc0 829a 0007 b8cb 2eb40000", true, true, "2eb40000", nil},
		{"v4 extension after 128 octets, length 32", ip4from9 + "0b00 0000 00 20 0000" + udp4 + "2eb40000" + pad(96) + mpls, true, true, "2eb40000", nil},
		{"v4 extension after 128 octets, no length", ip4from9 + exceed4 + udp4 + "2eb40000" + pad(96) + mpls, true, true, "2eb40000", nil},
		{"v4 extension after 32 octets, length 8, quote says more", ip4from9 + "0b00 0000 00 08 0000" +
			"4500 05dc 0006 0000 0111 0000 c0000201 c6336407 5dc0 829a 05c8 b8cb 2eb40000" + mpls, true, true, "2eb40000", nil},
		{"v4 length beyond the packet", ip4from9 + "0b00 0000 00 ff 0000" + udp4 + "2eb40000", true, true, "2eb40000", nil},
		{"v4 length below a header", ip4from9 + "0b00 0000 00 01 0000" + udp4 + "2eb40000", true, true, "2eb40000", nil},
		{"v4 unreachable, mtu set", ip4from9 + "0304 0000 0000 05dc" + udp4 + "2eb40000", true, true, "2eb40000", nil},
		{"v4 parameter problem", ip4from9 + "0c00 0000 04000000" + udp4 + "2eb40000", true, true, "2eb40000", nil},
		{"v4 source quench is none", ip4from9 + "0400 0000 00000000" + udp4 + "2eb40000", false, false, "", nil},
		{"v6 time exceeded", ip6error + exceed6 + udp6 + "2eb40000", true, true, "2eb40000",
			func(q wire.Header) bool { return q.DstPort == 33434 && q.TTL == 1 && q.Dst == dst6 }},
		{"v6 cut at header and eight", ip6error + exceed6 + udp6, true, true, "", nil},
		{"v6 header alone", ip6error + exceed6 + ip6probe, true, false, "", nil},
		{"v6 extension after 56 octets, length 7, quote says more", ip6error + "0300 0000 07 000000" +
			"60000000 05dc 11 01 20010db8000000000000000000000001 20010db8000700000000000000000007 5dc0829a05dcb8cb 2eb4000000000000" + mpls,
			true, true, "2eb4000000000000", nil},
		{"v6 length in v4's place is none", ip6error + "0300 0000 00 07 0000" + udp6 + "2eb40000", true, true, "2eb40000", nil},
		{"v6 packet too big: its word is an MTU", ip6error + "0200 0000 00000500" + udp6 + "2eb40000", true, true, "2eb40000", nil},
		{"v6 packet too big: the MTU is no length", ip6error + "0200 0000 06000000" + udp6 + "2eb40000", true, true, "2eb40000", nil},
		{"v6 parameter problem", ip6error + "0401 0000 00000006" + udp6 + "2eb40000", true, true, "2eb40000", nil},
		{"v6 behind a hop-by-hop header", ip6error + exceed6 + "60000000 0014 00 01 20010db8000000000000000000000001 20010db8000700000000000000000007" +
			"1100 010400000000" + udpPorts + "2eb40000", true, true, "2eb40000", func(q wire.Header) bool { return q.Proto == 17 && q.HeaderLen == 48 }},
		{"v6 cut in a hop-by-hop header", ip6error + exceed6 + "60000000 0014 00 01 20010db8000000000000000000000001 20010db8000700000000000000000007" +
			"1100 0104", true, false, "", func(q wire.Header) bool { return q.Proto == 0 && q.HeaderLen == 40 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := whole(unhex(t, c.packet))
			var r wire.Reply
			if err := r.Decode(b); err != nil {
				t.Fatal(err)
			}
			if r.HasQuote != c.has || r.Quoted.HasL4 != c.l4 {
				t.Fatalf("HasQuote, HasL4 = %v, %v; want %v, %v: %+v", r.HasQuote, r.Quoted.HasL4, c.has, c.l4, r.Quoted)
			}
			if !bytes.Equal(r.QuotedPayload, unhex(t, c.payload)) {
				t.Errorf("quoted payload = %x, want %s", r.QuotedPayload, c.payload)
			}
			if !c.has && (r.Quoted != wire.Header{}) {
				t.Errorf("no quote, but %+v", r.Quoted)
			}
			if c.check != nil && !c.check(r.Quoted) {
				t.Errorf("quoted = %+v", r.Quoted)
			}
		})
	}
}

func TestKinds(t *testing.T) {
	for _, c := range []struct {
		packet string
		want   wire.Kind
	}{
		{ip4from9 + "0000 0000 00010002", wire.KindEchoReply},
		{ip4from9 + "0800 0000 00010002", wire.KindEchoRequest},
		{ip4from9 + "0300 0000 00000000", wire.KindUnreachable},
		{ip4from9 + "0b01 0000 00000000", wire.KindTimeExceeded},
		{ip4from9 + "0d00 0000 00000000", wire.KindOther},
		{ip6error + "8100 0000 00010002", wire.KindEchoReply},
		{ip6error + "8000 0000 00010002", wire.KindEchoRequest},
		{ip6error + "0100 0000 00000000", wire.KindUnreachable},
		{ip6error + "0200 0000 00000000", wire.KindUnreachable},
		{ip6error + "0300 0000 00000000", wire.KindTimeExceeded},
		{ip6error + "8700 0000 00000000", wire.KindOther},
		{"4500 0000 0000 0000 ff11 0000 cb007109 c0000201 0035 5dc0 0008 0000", wire.KindUDP},
		{"4500 0000 0000 0000 ff06 0000 cb007109 c0000201 0050 5dc0 00000000 00000000 50140000 00000000", wire.KindTCP},
		{"4500 0000 0000 0000 ff3a 0000 cb007109 c0000201 8100 0000 00010002", wire.KindOther}, // ICMPv6 over IPv4
		{"4500 0000 0000 0001 ff01 0000 cb007109 c0000201 0000 0000 00010002", wire.KindOther}, // a later fragment
		{"4500 0000 0000 2000 ff01 0000 cb007109 c0000201 0000 0000 00010002", wire.KindEchoReply},
	} {
		b := whole(unhex(t, c.packet))
		var r wire.Reply
		if err := r.Decode(b); err != nil {
			t.Errorf("%s: %v", c.packet, err)
			continue
		}
		if r.Kind != c.want {
			t.Errorf("%s: kind = %v, want %v", c.packet, r.Kind, c.want)
		}
		if echo := r.Kind == wire.KindEchoReply || r.Kind == wire.KindEchoRequest; echo != (r.ICMPSeq == 2) {
			t.Errorf("%s: sequence = %d", c.packet, r.ICMPSeq)
		}
		if err := agree(b); err != nil {
			t.Errorf("%s: %v", c.packet, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	v6 := "20010db8000900000000000000000009 20010db8000000000000000000000001 "
	for _, c := range []struct {
		name, packet string
		want         error
	}{
		{"nothing", "", wire.ErrShort},
		{"version 5", "55", wire.ErrMalformed},
		{"half an IPv4 header", "4500 0014 0000", wire.ErrShort},
		{"half an IPv6 header", "6000 0000 0000", wire.ErrShort},
		{"IPv4 header length below 20", "4400 0014 0000 0000 ff01 0000 cb007109 c0000201", wire.ErrMalformed},
		{"IPv4 options beyond the packet", "4f00 0014 0000 0000 ff01 0000 cb007109 c0000201", wire.ErrShort},
		{"IPv4 total below header", "4500 0013 0000 0000 ff01 0000 cb007109 c0000201", wire.ErrMalformed},
		{"IPv4 total beyond the packet", "4500 001d 0000 0000 ff01 0000 cb007109 c0000201 0000 0000 00000000", wire.ErrShort},
		{"IPv6 length beyond the packet", "60000000 0009 3aff" + v6 + "8100 0000 00000000", wire.ErrShort},
		{"ICMP of seven octets", "4500 001b 0000 0000 ff01 0000 cb007109 c0000201 0000 0000 000000", wire.ErrShort},
		{"TCP of 19 octets", "4500 0027 0000 0000 ff06 0000 cb007109 c0000201 0050 5dc0 00000000 00000000 50140000 000000", wire.ErrShort},
		{"TCP offset below 5", "4500 0028 0000 0000 ff06 0000 cb007109 c0000201 0050 5dc0 00000000 00000000 40140000 00000000", wire.ErrMalformed},
		{"TCP options beyond", "4500 0028 0000 0000 ff06 0000 cb007109 c0000201 0050 5dc0 00000000 00000000 60140000 00000000", wire.ErrMalformed},
		{"UDP length below 8", "4500 001c 0000 0000 ff11 0000 cb007109 c0000201 0035 5dc0 0007 0000", wire.ErrMalformed},
		{"UDP length beyond", "4500 001c 0000 0000 ff11 0000 cb007109 c0000201 0035 5dc0 0009 0000", wire.ErrMalformed},
		{"first fragment, UDP length below 8", "4500 001c 0000 2000 ff11 0000 cb007109 c0000201 0035 5dc0 0007 0000", wire.ErrMalformed},
		{"IPv6 extension beyond", "60000000 0008 00ff" + v6 + "3a01 0000 00000000", wire.ErrShort},
		{"IPv6 extension cut", "60000000 0001 2bff" + v6 + "3a", wire.ErrShort},
		{"IPv6 fragment header cut", "60000000 0007 2cff" + v6 + "3a00 0000 000000", wire.ErrShort},
		{"nothing after an IPv6 extension", "60000000 0008 3cff" + v6 + "3a00 0000 00000000", wire.ErrShort},
		{"jumbogram", "60000000 0000 00ff" + v6 + "3a00 c204 00010000", wire.ErrShort},
	} {
		b := unhex(t, c.packet)
		r := wire.Reply{Kind: wire.KindUDP, HasQuote: true, Payload: b, Header: wire.Header{TTL: 1}, Quoted: wire.Header{TTL: 1}}
		if err := r.Decode(b); !errors.Is(err, c.want) {
			t.Errorf("%s: Decode = %v, want %v", c.name, err, c.want)
		}
		if r.Header != (wire.Header{}) || r.Quoted != (wire.Header{}) || r.HasQuote || r.Kind != 0 || r.Payload != nil || r.QuotedPayload != nil {
			t.Errorf("%s: not zero after an error: %+v", c.name, r)
		}
		h := wire.Header{TTL: 1}
		if err := h.Decode(b); !errors.Is(err, c.want) || h != (wire.Header{}) {
			t.Errorf("%s: Header.Decode = %v, want %v; %+v", c.name, err, c.want, h)
		}
		if err := wire.VerifyChecksums(b); !errors.Is(err, c.want) {
			t.Errorf("%s: VerifyChecksums = %v, want %v", c.name, err, c.want)
		}
	}
}

func TestExtensionHeaders(t *testing.T) {
	udp := udpPorts + "2eb40000"
	for _, c := range []struct {
		name, packet string
		header       int
		frag         uint16
		l4           bool
		payload      string
		gopacket     bool // accepts it
	}{
		{"all of them", "6a512345 0000 00 09" + "20010db8000900000000000000000009 20010db8000000000000000000000001" +
			"3c00 010400000000" + "2b01 010c000000000000000000000000" + "2c00 0000 00000000" + "1100 0001 00000007" + udp, 80, 0, true, "2eb40000", true},
		{"twice hop-by-hop, options", "6a512345 0000 00 09" + "20010db8000900000000000000000009 20010db8000000000000000000000001" +
			"0000 010400000000" + "3c00 010400000000" + "1101 010c000000000000000000000000" + udp, 72, 0, true, "2eb40000", true},
		{"later fragment", "6a512345 0000 2c 09" + "20010db8000900000000000000000009 20010db8000000000000000000000001" +
			"1100 0008 00000007" + udp, 48, 8, false, "5dc0829a000cb8cb2eb40000", true},
		{"later fragment of something with options", "6a512345 0000 2c 09" + "20010db8000900000000000000000009 20010db8000000000000000000000001" +
			"3c00 0008 00000007" + "11ff 0000", 48, 8, false, "11ff0000", true},
		{"none of them", "6a512345 0000 11 09" + "20010db8000900000000000000000009 20010db8000000000000000000000001" + udp, 40, 0, true, "2eb40000", true},
		{"one not known", "6a512345 0000 87 09" + "20010db8000900000000000000000009 20010db8000000000000000000000001" + udp, 40, 0, false, "5dc0829a000cb8cb2eb40000", false},
	} {
		b := whole(unhex(t, c.packet))
		var r wire.Reply
		if err := r.Decode(b); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if r.HeaderLen != c.header || r.FragOffset != c.frag || r.HasL4 != c.l4 || r.TOS != 0xa5 || r.FlowLabel != 0x12345 {
			t.Errorf("%s: header = %+v", c.name, r.Header)
		}
		if c.l4 && (r.SrcPort != 24000 || r.Proto != wire.ProtoUDP) {
			t.Errorf("%s: transport = %+v", c.name, r.Header)
		}
		if !bytes.Equal(r.Payload, unhex(t, c.payload)) {
			t.Errorf("%s: payload = %x, want %s", c.name, r.Payload, c.payload)
		}
		if err := agree(b); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, ok := consult(b); ok != c.gopacket {
			t.Errorf("%s: gopacket accepts it: %v, want %v", c.name, ok, c.gopacket)
		}
	}
}

// Octets after the packet, and after a short UDP datagram in it, are padding.
func TestPaddingIsNoPayload(t *testing.T) {
	b := unhex(t, "4500 0020 0000 0000 ff11 0000 cb007109 c0000201 0035 5dc0 000a 0000 aabb cccc dddd")
	var r wire.Reply
	if err := r.Decode(b); err != nil {
		t.Fatal(err)
	}
	if want := unhex(t, "aabb"); !bytes.Equal(r.Payload, want) {
		t.Errorf("payload = %x, want %x", r.Payload, want)
	}
}

// Packets that gopacket builds decode to the fields they were built from.
func TestDecodeAgreesWithGopacket(t *testing.T) {
	r := newRand(t)
	for range 3000 {
		ip, payload := randIP(r), randBytes(r, r.IntN(60))
		u := wire.UDP{SrcPort: uint16(r.Uint32()), DstPort: uint16(r.Uint32()), Payload: payload}
		e := wire.Echo{Reply: r.IntN(2) == 0, ID: uint16(r.Uint32()), Seq: uint16(r.Uint32()), Payload: payload}
		var got wire.Reply
		b := gopacketUDP(t, ip, u)
		if err := got.Decode(b); err != nil {
			t.Fatal(err)
		}
		if got.SrcPort != u.SrcPort || got.DstPort != u.DstPort || int(got.UDPLen) != 8+len(payload) ||
			got.Kind != wire.KindUDP || !sameIP(&got.Header, ip) || !bytes.Equal(got.Payload, payload) {
			t.Fatalf("%+v %+v decoded to %+v", ip, u, got)
		}
		check(t, b)
		b = gopacketEcho(t, ip, e)
		if err := got.Decode(b); err != nil {
			t.Fatal(err)
		}
		if got.ICMPID != e.ID || got.ICMPSeq != e.Seq || (got.Kind == wire.KindEchoReply) != e.Reply ||
			!sameIP(&got.Header, ip) || !bytes.Equal(got.Payload, payload) {
			t.Fatalf("%+v %+v decoded to %+v", ip, e, got)
		}
		check(t, b)
		check(t, gopacketTCP(t, ip, payload))
	}
}

func sameIP(h *wire.Header, ip wire.IP) bool {
	return *h != (wire.Header{}) && ip == wire.IP{Src: h.Src, Dst: h.Dst, TTL: h.TTL, TOS: h.TOS, ID: h.ID, DF: h.DF, FlowLabel: h.FlowLabel}
}

// check demands that b's checksums are right, that gopacket agrees about b, and
// that every single damaged octet which a checksum covers is noticed.
func check(t *testing.T, b []byte) {
	t.Helper()
	if _, ok := consult(b); !ok {
		t.Fatalf("gopacket has no opinion about %x", b)
	}
	if err := errors.Join(wire.VerifyChecksums(b), agree(b)); err != nil {
		t.Fatalf("%v: %x", err, b)
	}
	var h wire.Header
	if err := h.Decode(b); err != nil {
		t.Fatal(err)
	}
	for i := range b {
		if !covered(&h, i) {
			continue
		}
		b[i] ^= 0x10
		err := wire.VerifyChecksums(b)
		none := h.Version == 4 && h.Proto == wire.ProtoUDP && b[h.HeaderLen+6] == 0 && b[h.HeaderLen+7] == 0
		b[i] ^= 0x10
		if err == nil && !none {
			t.Fatalf("octet %d of %x changed unnoticed", i, b)
		}
	}
}

// covered reports whether a changed octet i must show. Nothing covers the first
// eight octets of IPv6 for sure, and a changed length says which octets are
// summed, so that the sum can be right by chance.
func covered(h *wire.Header, i int) bool {
	l4 := i - h.HeaderLen
	udpLength := h.Proto == wire.ProtoUDP && (l4 == 4 || l4 == 5)
	return !udpLength && (h.Version == 4 || i >= 8)
}

func gopacketTCP(t testing.TB, ip wire.IP, payload []byte) []byte {
	network := gopacketIP(ip, layers.IPProtocolTCP)
	tcp := &layers.TCP{SrcPort: 40000, DstPort: 80, Seq: 0x01020304, SYN: true, Window: 1000,
		Options: []layers.TCPOption{{OptionType: layers.TCPOptionKindMSS, OptionLength: 4, OptionData: []byte{5, 180}}}}
	if err := tcp.SetNetworkLayerForChecksum(network); err != nil {
		t.Fatal(err)
	}
	return serialize(t, network, tcp, gopacket.Payload(payload))
}

func TestIPv4OptionsAgreeWithGopacket(t *testing.T) {
	for n := 1; n <= 10; n++ {
		ip := &layers.IPv4{Version: 4, TTL: 3, Protocol: layers.IPProtocolUDP, SrcIP: net.IP(src4.AsSlice()), DstIP: net.IP(dst4.AsSlice())}
		for range n {
			ip.Options = append(ip.Options, layers.IPv4Option{OptionType: 148, OptionLength: 4, OptionData: []byte{0, 0}})
		}
		udp := &layers.UDP{SrcPort: 24000, DstPort: 33434}
		if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
			t.Fatal(err)
		}
		b := serialize(t, ip, udp, gopacket.Payload("hello"))
		var r wire.Reply
		if err := r.Decode(b); err != nil {
			t.Fatal(err)
		}
		if r.HeaderLen != 20+4*n || r.DstPort != 33434 || string(r.Payload) != "hello" {
			t.Errorf("%d options: %+v", n, r)
		}
		check(t, b)
	}
}

func TestVerifyChecksumsOfUDP(t *testing.T) {
	v4 := unhex(t, "4500 001c 0000 0000 ff11 0000 cb007109 c0000201 0035 5dc0 0008 0000")
	binary.BigEndian.PutUint16(v4[10:], wire.Checksum(v4[:20], 0))
	if err := wire.VerifyChecksums(v4); err != nil {
		t.Errorf("UDP over IPv4 without checksum: %v", err)
	}
	padded := whole(unhex(t, ip6probe+"0035 5dc0 0008 0000 abcd"))
	var h wire.Header
	if err := h.Decode(padded); err != nil {
		t.Fatal(err)
	}
	binary.BigEndian.PutUint16(padded[46:], wire.Checksum(padded[40:48], wire.PseudoSum(h.Src, h.Dst, wire.ProtoUDP, 8)))
	if err := wire.VerifyChecksums(padded); err != nil {
		t.Errorf("UDP with padding after it, which its checksum leaves out: %v", err)
	}
	v6 := whole(unhex(t, ip6probe+"0035 5dc0 0008 0000"))
	if err := wire.VerifyChecksums(v6); !errors.Is(err, wire.ErrChecksum) {
		t.Errorf("UDP over IPv6 without checksum: %v, want %v", err, wire.ErrChecksum)
	}
}

func TestL4Word(t *testing.T) {
	for packet, want := range map[string]uint32{
		ip4from9 + "0800 beef 00010002":                                      0x0800beef,
		ip6error + "8000 beef 00010002":                                      0x8000beef,
		ip6probe + "0035 5dc0 0008 1234":                                     0x00355dc0,
		"4500 0000 0000 0001 ff01 0000 cb007109 c0000201 0800 beef 00010002": 0,
	} {
		var h wire.Header
		if err := h.Decode(whole(unhex(t, packet))); err != nil {
			t.Fatal(err)
		}
		if got := h.L4Word(); got != want {
			t.Errorf("%s: L4Word = %#x, want %#x", packet, got, want)
		}
	}
}
