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

func randTCP(r *rand.Rand) wire.TCP {
	return wire.TCP{SrcPort: uint16(r.Uint32()), DstPort: uint16(r.Uint32()), Seq: r.Uint32(), Ack: r.Uint32(),
		Flags: uint8(r.Uint32()), Window: uint16(r.Uint32()), Payload: randBytes(r, r.IntN(60))}
}

// TestAppendTCPAgreesWithGopacket compares segments with gopacket's and reads
// them back.
func TestAppendTCPAgreesWithGopacket(t *testing.T) {
	r := newRand(t)
	for range 3000 {
		ip, s := randIP(r), randTCP(r)
		prefix := randBytes(r, r.IntN(4))
		got := must(t)(wire.AppendTCP(bytes.Clone(prefix), ip, s))
		network := gopacketIP(ip, layers.IPProtocolTCP)
		tcp := &layers.TCP{SrcPort: layers.TCPPort(s.SrcPort), DstPort: layers.TCPPort(s.DstPort), Seq: s.Seq, Ack: s.Ack, Window: s.Window,
			FIN: s.Flags&wire.TCPFin != 0, SYN: s.Flags&wire.TCPSyn != 0, RST: s.Flags&wire.TCPRst != 0, PSH: s.Flags&wire.TCPPsh != 0,
			ACK: s.Flags&wire.TCPAck != 0, URG: s.Flags&wire.TCPUrg != 0, ECE: s.Flags&wire.TCPEce != 0, CWR: s.Flags&wire.TCPCwr != 0}
		if err := tcp.SetNetworkLayerForChecksum(network); err != nil {
			t.Fatal(err)
		}
		if want := append(prefix, serialize(t, network, tcp, gopacket.Payload(s.Payload))...); !bytes.Equal(got, want) {
			t.Fatalf("AppendTCP(%+v, %+v)\n got %x\nwant %x", ip, s, got, want)
		}
		got = got[len(prefix):]
		var d wire.Reply
		if err := d.Decode(got); err != nil {
			t.Fatal(err)
		}
		if d.Kind != wire.KindTCP || d.SrcPort != s.SrcPort || d.DstPort != s.DstPort || d.TCPSeq != s.Seq || d.TCPAck != s.Ack ||
			d.TCPFlags != s.Flags || !bytes.Equal(d.Payload, s.Payload) || !sameIP(&d.Header, ip) {
			t.Fatalf("%+v %+v decoded to %+v", ip, s, d)
		}
		check(t, got)
	}
	for _, c := range []struct {
		ip   wire.IP
		size int
		want error
	}{
		{wire.IP{Src: src4, Dst: dst6}, 0, wire.ErrFamily},
		{wire.IP{Src: src4, Dst: dst4}, 65535 - 40 + 1, wire.ErrTooLong},
		{wire.IP{Src: src4, Dst: dst4}, 65535 - 40, nil},
	} {
		got, err := wire.AppendTCP([]byte("before"), c.ip, wire.TCP{Payload: make([]byte, c.size)})
		if !errors.Is(err, c.want) || err != nil && string(got) != "before" {
			t.Errorf("%d octets: %v, want %v", c.size, err, c.want)
		}
	}
}

// TestRewriteAgreesWithRebuilding: a packet with new addresses and ports is the
// packet that the encoders make of them, octet for octet.
func TestRewriteAgreesWithRebuilding(t *testing.T) {
	r := newRand(t)
	for range 4000 {
		ip, to, s := randIP(r), randIP(r), randTCP(r)
		for to.Dst.Is4() != ip.Dst.Is4() {
			to = randIP(r)
		}
		to.TTL, to.TOS, to.ID, to.DF, to.FlowLabel = ip.TTL, ip.TOS, ip.ID, ip.DF, ip.FlowLabel
		sport, dport := uint16(1+r.IntN(65535)), uint16(1+r.IntN(65535))
		build := map[string]func(wire.IP, uint16, uint16) []byte{
			"tcp": func(ip wire.IP, sport, dport uint16) []byte {
				x := s
				x.SrcPort, x.DstPort = sport, dport
				return must(t)(wire.AppendTCP(nil, ip, x))
			},
			"udp": func(ip wire.IP, sport, dport uint16) []byte {
				return must(t)(wire.AppendUDP(nil, ip, wire.UDP{SrcPort: sport, DstPort: dport, Payload: s.Payload}))
			},
			"echo": func(ip wire.IP, sport, _ uint16) []byte {
				return must(t)(wire.AppendEcho(nil, ip, wire.Echo{ID: sport, Seq: 7, Payload: s.Payload}))
			},
		}
		for name, of := range build {
			got := of(ip, s.SrcPort, s.DstPort)
			if name == "echo" {
				dport = sport // one identifier both ways
			}
			if err := errors.Join(wire.SetSource(got, to.Src, sport), wire.SetDestination(got, to.Dst, dport)); err != nil {
				t.Fatal(err)
			}
			if want := of(to, sport, dport); !bytes.Equal(got, want) {
				t.Fatalf("%s %+v to %+v\n got %x\nwant %x", name, ip, to, got, want)
			}
			kept := of(ip, s.SrcPort, s.DstPort)
			if err := wire.SetSource(kept, to.Src, 0); err != nil {
				t.Fatal(err)
			}
			if want := of(wire.IP{Src: to.Src, Dst: ip.Dst, TTL: ip.TTL, TOS: ip.TOS, ID: ip.ID, DF: ip.DF, FlowLabel: ip.FlowLabel}, s.SrcPort, s.DstPort); !bytes.Equal(kept, want) {
				t.Fatalf("%s, port kept\n got %x\nwant %x", name, kept, want)
			}
		}
	}
}

func TestRewriteRefuses(t *testing.T) {
	udp := must(t)(wire.AppendUDP(nil, wire.IP{Src: src4, Dst: dst4, TTL: 5}, wire.UDP{SrcPort: 1, DstPort: 2}))
	for name, c := range map[string]struct {
		packet []byte
		addr   netip.Addr
		want   error
	}{
		"other family": {udp, src6, wire.ErrFamily},
		"no address":   {udp, netip.Addr{}, wire.ErrFamily},
		"half":         {udp[:10], src4, wire.ErrShort},
		"not IP":       {[]byte{0x10}, src4, wire.ErrMalformed},
	} {
		b := bytes.Clone(c.packet)
		for _, call := range []func([]byte, netip.Addr, uint16) error{wire.SetSource, wire.SetDestination} {
			if err := call(b, c.addr, 9); !errors.Is(err, c.want) || !bytes.Equal(b, c.packet) {
				t.Errorf("%s: %v, %x; want %v and no change", name, err, b, c.want)
			}
		}
	}
	// A checksum that is not there stays away.
	none := bytes.Clone(udp)
	none[26], none[27] = 0, 0
	if err := wire.SetSource(none, dst4, 9); err != nil || none[26] != 0 || none[27] != 0 || wire.VerifyChecksums(none) != nil {
		t.Errorf("UDP without a checksum: %v, %x", err, none)
	}
}

// FuzzRewrite: checksums are as right as before, and the fields are what was set.
func FuzzRewrite(f *testing.F) {
	for _, ip := range []wire.IP{{Src: src4, Dst: dst4, TTL: 5, ID: 9}, {Src: src6, Dst: dst6, TTL: 5}} {
		udp, _ := wire.AppendUDP(nil, ip, wire.UDP{SrcPort: 1, DstPort: 2})
		tcp, _ := wire.AppendTCP(nil, ip, wire.TCP{SrcPort: 1, DstPort: 2, Flags: wire.TCPSyn})
		echo, _ := wire.AppendEcho(nil, ip, wire.Echo{ID: 7})
		for _, b := range [][]byte{udp, tcp, echo} {
			f.Add(b, uint16(4), uint64(0x0a00000100000001))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, port uint16, addr uint64) {
		var before, after wire.Header
		whole := before.Decode(b) == nil
		right := wire.VerifyChecksums(b) == nil
		a := netip.AddrFrom4([4]byte{byte(addr >> 24), byte(addr >> 16), byte(addr >> 8), byte(addr)})
		if before.Version == 6 {
			a = netip.AddrFrom16([16]byte{byte(addr >> 56), byte(addr >> 48), 14: byte(addr >> 8), 15: byte(addr)})
		}
		if err := wire.SetDestination(b, a, port); err != nil {
			return
		}
		if whole && right && wire.VerifyChecksums(b) != nil {
			t.Fatalf("% x: the checksums were right", b)
		}
		if whole && (after.Decode(b) != nil || after.Dst != a || port != 0 && after.HasL4 && (before.Proto == wire.ProtoUDP || before.Proto == wire.ProtoTCP) && after.DstPort != port) {
			t.Fatalf("% x: %+v, want %v port %d", b, after, a, port)
		}
	})
}
