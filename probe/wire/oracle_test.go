package wire_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"strandline/probe/wire"
)

var (
	src4 = netip.MustParseAddr("192.0.2.1")
	dst4 = netip.MustParseAddr("198.51.100.7")
	src6 = netip.MustParseAddr("2001:db8::1")
	dst6 = netip.MustParseAddr("2001:db8:7::7")
)

// unhex reads hexadecimal with any white space in it.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// newRand returns a source whose seed is printed when the test fails.
func newRand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func randBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// capture returns the IP packets of a capture, without their Ethernet headers,
// and skips the test when there is no such file here.
func capture(t testing.TB, name string) [][]byte {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "..", "shared", "data", "pcap", name))
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("no captures beside the checkout: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	pr, err := pcapgo.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var pkts [][]byte
	for {
		frame, _, err := pr.ReadPacketData()
		if err != nil {
			return pkts
		}
		pkts = append(pkts, frame[14:])
	}
}

// oracle is a packet as gopacket sees it.
type oracle struct {
	header   wire.Header
	fragment bool // nothing is said about the transport header then
}

// consult decodes b by gopacket; ok is false when gopacket does not accept it. The
// mark that gopacket sets on cut packets is not used: a guess about the payload
// of some port sets it too.
func consult(b []byte) (o oracle, ok bool) {
	if len(b) == 0 {
		return o, false
	}
	version := gopacket.LayerType(layers.LayerTypeIPv4)
	if b[0]>>4 == 6 {
		version = layers.LayerTypeIPv6
	}
	p := gopacket.NewPacket(b, version, gopacket.NoCopy)
	var first *layers.IPv6HopByHop
	var segment []byte // what the layer before carries
	for _, l := range p.Layers() {
		switch l := l.(type) {
		case *gopacket.DecodeFailure:
			return o, false
		case *layers.IPv4:
			if l.Version != 4 || int(l.Length) > len(b) {
				return o, false
			}
			o.ipv4(l)
		case *layers.IPv6:
			if l.Version != 6 || 40+int(l.Length) > len(b) {
				return o, false
			}
			o.ipv6(l)
			first = l.HopByHop
		case *layers.IPv6HopByHop:
			if l != first { // the first one is part of the IPv6 layer
				o.extension(uint8(l.NextHeader), l.ActualLength)
			}
		case *layers.IPv6Destination:
			o.extension(uint8(l.NextHeader), len(l.Contents))
		case *layers.IPv6Routing:
			o.extension(uint8(l.NextHeader), len(l.Contents))
		case *layers.IPv6Fragment:
			o.extension(uint8(l.NextHeader), len(l.Contents))
			o.fragment6(l)
		case gopacket.DecodingLayer:
			// gopacket lists a layer even when it cannot decode it.
			if l.DecodeFromBytes(segment, gopacket.NilDecodeFeedback) != nil {
				return o, false
			}
			o.transport(l.(gopacket.Layer))
		}
		if o.header.HasL4 {
			break
		}
		segment = l.LayerPayload()
	}
	return o, o.header.Version != 0 && int(o.header.UDPLen) <= len(segment)
}

func (o *oracle) ipv4(l *layers.IPv4) {
	o.header = wire.Header{
		Version: 4, TOS: l.TOS, TTL: l.TTL, ID: l.Id, Proto: uint8(l.Protocol),
		DF: l.Flags&layers.IPv4DontFragment != 0, MF: l.Flags&layers.IPv4MoreFragments != 0,
		FragOffset: l.FragOffset * 8, TotalLen: int(l.Length), HeaderLen: int(l.IHL) * 4,
	}
	o.header.Src, _ = netip.AddrFromSlice(l.SrcIP)
	o.header.Dst, _ = netip.AddrFromSlice(l.DstIP)
	o.fragment = o.header.MF || o.header.FragOffset > 0
}

func (o *oracle) ipv6(l *layers.IPv6) {
	o.header = wire.Header{
		Version: 6, TOS: l.TrafficClass, TTL: l.HopLimit, FlowLabel: l.FlowLabel,
		Proto: uint8(l.NextHeader), TotalLen: 40 + int(l.Length), HeaderLen: 40,
	}
	o.header.Src, _ = netip.AddrFromSlice(l.SrcIP)
	o.header.Dst, _ = netip.AddrFromSlice(l.DstIP)
	if l.HopByHop != nil {
		o.extension(uint8(l.HopByHop.NextHeader), l.HopByHop.ActualLength)
	}
}

// extension follows an extension header; gopacket reads them in IPv4 too, where
// there are none.
func (o *oracle) extension(next uint8, n int) {
	if o.header.Version != 6 {
		return
	}
	o.header.Proto = next
	o.header.HeaderLen += n
}

// fragment6 ends the comparison: gopacket does not look behind a fragment header,
// not even one of a whole packet.
func (o *oracle) fragment6(l *layers.IPv6Fragment) {
	if o.header.Version != 6 {
		return
	}
	o.header.FragOffset, o.header.MF = l.FragmentOffset*8, l.MoreFragments
	o.fragment = true
}

func (o *oracle) transport(l gopacket.Layer) {
	h := &o.header
	if h.Version == 4 && h.Proto != wire.ProtoICMP && h.Proto != wire.ProtoTCP && h.Proto != wire.ProtoUDP {
		return // behind an extension header, which gopacket reads in IPv4 too
	}
	switch l := l.(type) {
	case *layers.UDP:
		h.SrcPort, h.DstPort, h.UDPLen, h.Checksum = uint16(l.SrcPort), uint16(l.DstPort), l.Length, l.Checksum
	case *layers.TCP:
		h.SrcPort, h.DstPort, h.TCPSeq, h.Checksum = uint16(l.SrcPort), uint16(l.DstPort), l.Seq, l.Checksum
		h.TCPAck, h.TCPFlags = l.Ack, l.Contents[13]
	case *layers.ICMPv4:
		if h.Version != 4 {
			return
		}
		h.ICMPType, h.ICMPCode, h.Checksum = l.TypeCode.Type(), l.TypeCode.Code(), l.Checksum
		if h.ICMPType == wire.ICMPEchoReply || h.ICMPType == wire.ICMPEchoRequest {
			h.ICMPID, h.ICMPSeq = l.Id, l.Seq
		}
	case *layers.ICMPv6:
		if h.Version != 6 {
			return
		}
		h.ICMPType, h.ICMPCode, h.Checksum = l.TypeCode.Type(), l.TypeCode.Code(), l.Checksum
		if (h.ICMPType == wire.ICMPv6EchoRequest || h.ICMPType == wire.ICMPv6EchoReply) && len(l.Payload) >= 4 {
			h.ICMPID = uint16(l.Payload[0])<<8 | uint16(l.Payload[1])
			h.ICMPSeq = uint16(l.Payload[2])<<8 | uint16(l.Payload[3])
		}
	default:
		return
	}
	h.HasL4 = true
}

// agree reports how the decoder and gopacket differ about b, where gopacket
// accepts it; nil when they agree.
func agree(b []byte) error {
	var h wire.Header
	err := h.Decode(b)
	if err == nil {
		// gopacket counts the hop-by-hop header twice and so reads into the
		// padding after the packet: give it none.
		b = b[:h.TotalLen]
	}
	o, ok := consult(b)
	switch {
	case !ok:
		return nil
	case err != nil && stricter(b, &o):
		return nil
	case err != nil:
		return fmt.Errorf("got error %v, want %+v as gopacket says", err, o.header)
	}
	want := o.header
	if o.fragment {
		h = onlyIP(h)
		want = onlyIP(want)
	}
	if h != want {
		return fmt.Errorf("decoded\n got %+v\nwant %+v", h, want)
	}
	return nil
}

// stricter lists what gopacket accepts and a prober must not: a zero IPv4 length
// (a segmentation offload that no receive path shows), transport headers that
// are cut, and a UDP length of zero outside a jumbogram.
func stricter(b []byte, o *oracle) bool {
	zeroLength := b[0]>>4 == 4 && b[2] == 0 && b[3] == 0
	return zeroLength || !o.header.HasL4 || o.header.Proto == wire.ProtoUDP && o.header.UDPLen == 0 ||
		o.header.TotalLen < o.header.HeaderLen+8
}

// onlyIP clears what a fragment does not say for sure.
func onlyIP(h wire.Header) wire.Header {
	return wire.Header{
		Version: h.Version, Src: h.Src, Dst: h.Dst, TTL: h.TTL, TOS: h.TOS, ID: h.ID,
		FlowLabel: h.FlowLabel, DF: h.DF, MF: h.MF, FragOffset: h.FragOffset, TotalLen: h.TotalLen,
	}
}

// serialize lets gopacket build a packet with lengths and checksums.
func serialize(t testing.TB, l ...gopacket.SerializableLayer) []byte {
	t.Helper()
	buf := gopacket.NewSerializeBuffer()
	opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buf, opts, l...); err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(buf.Bytes())
}

// gopacketIP returns the gopacket layer for what ip says.
func gopacketIP(ip wire.IP, proto layers.IPProtocol) interface {
	gopacket.SerializableLayer
	gopacket.NetworkLayer
} {
	if ip.Dst.Is6() {
		return &layers.IPv6{
			Version: 6, TrafficClass: ip.TOS, FlowLabel: ip.FlowLabel, NextHeader: proto,
			HopLimit: ip.TTL, SrcIP: net.IP(ip.Src.AsSlice()), DstIP: net.IP(ip.Dst.AsSlice()),
		}
	}
	var flags layers.IPv4Flag
	if ip.DF {
		flags = layers.IPv4DontFragment
	}
	return &layers.IPv4{
		Version: 4, IHL: 5, TOS: ip.TOS, Id: ip.ID, Flags: flags, TTL: ip.TTL, Protocol: proto,
		SrcIP: net.IP(ip.Src.AsSlice()), DstIP: net.IP(ip.Dst.AsSlice()),
	}
}

// randIP returns a random header of a random family.
func randIP(r *rand.Rand) wire.IP {
	ip := wire.IP{TTL: uint8(r.Uint32()), TOS: uint8(r.Uint32())}
	if r.IntN(2) == 0 {
		ip.Src = netip.AddrFrom4([4]byte(randBytes(r, 4)))
		ip.Dst = netip.AddrFrom4([4]byte(randBytes(r, 4)))
		ip.ID, ip.DF = uint16(r.Uint32()), r.IntN(2) == 0
		return ip
	}
	ip.Src = netip.AddrFrom16([16]byte(randBytes(r, 16)))
	ip.Dst = netip.AddrFrom16([16]byte(randBytes(r, 16)))
	ip.FlowLabel = r.Uint32() & 0xfffff
	return ip
}
