package wire_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/gopacket/pcapgo"

	"strandline/probe/wire"
)

// seeds adds packets of every kind that the other tests look at.
func seeds(f *testing.F) {
	for _, s := range []string{
		ip4from9 + exceed4 + ip4to7 + "9c40 0050 01020304",
		ip4from9 + "0b00 0000 0020 0000" + "4500 0020 0006 0000 0111 0000 c0000201 c6336407" + udpPorts,
		ip6error + "0300 0000 0700 0000" + ip6probe + udpPorts,
		ip6error + "8100 0000 00010002 aabbcc",
		"4600 0000 0000 0000 ff01 0000 cb007109 c0000201 94040000 0000 0000 00010002",
		"6a512345 0000 00 09 20010db8000900000000000000000009 20010db8000000000000000000000001" +
			"3c00 010400000000 2b00 010c00000000 2c00 0000 00000000 1100 0000 00000007" + udpPorts,
	} {
		f.Add(whole(unhex(f, s)))
	}
	for _, ip := range []wire.IP{{Src: src4, Dst: dst4, TTL: 5, ID: 9, DF: true}, {Src: src6, Dst: dst6, TTL: 5, FlowLabel: 7}} {
		echo, _ := wire.AppendEcho(nil, ip, wire.Echo{ID: 1, Seq: 2, Checksum: 0xbeef, Payload: []byte("0123")})
		udp, _ := wire.AppendUDP(nil, ip, wire.UDP{SrcPort: 1, DstPort: 2, Payload: []byte("0123")})
		f.Add(echo)
		f.Add(udp)
	}
	files, _ := filepath.Glob(filepath.Join("..", "..", "..", "shared", "data", "pcap", "*.pcap"))
	for _, name := range files {
		addCapture(f, name)
	}
}

func addCapture(f *testing.F, name string) {
	r, err := os.Open(name)
	if err != nil {
		return
	}
	defer r.Close()
	pr, err := pcapgo.NewReader(r)
	if err != nil {
		f.Fatal(err)
	}
	for {
		frame, _, err := pr.ReadPacketData()
		if err != nil {
			return
		}
		f.Add(frame[14:])
	}
}

// FuzzDecode: no input makes Decode panic; an error leaves a zero value; the
// slices lie in the input; gopacket agrees where it accepts; and a probe that
// decodes is encoded to the octets it came from.
func FuzzDecode(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		orig := bytes.Clone(b)
		var r wire.Reply
		err := r.Decode(b)
		if err != nil && !reflect.DeepEqual(r, wire.Reply{}) {
			t.Fatalf("%v, but %+v", err, r)
		}
		verified := wire.VerifyChecksums(b) == nil
		if verified && err != nil {
			t.Fatalf("checksums are right, but %v", err)
		}
		if !bytes.Equal(b, orig) {
			t.Fatal("the input was written to")
		}
		if err := agree(b); err != nil {
			t.Fatalf("%x: %v", b, err)
		}
		if err != nil {
			return
		}
		if !within(b[:r.TotalLen], r.Payload) || !within(r.Payload, r.QuotedPayload) {
			t.Fatalf("payloads %x, %x are not slices of %x", r.Payload, r.QuotedPayload, b)
		}
		if n := len(r.Extension); n > 0 && (!bytes.HasSuffix(r.Payload, r.Extension) || !within(r.Payload[:len(r.Payload)-n], r.QuotedPayload)) {
			t.Fatalf("extension %x is not the end of %x, or is quoted payload too", r.Extension, r.Payload)
		}
		if verified {
			reencode(t, b[:r.TotalLen], &r)
		}
	})
}

// within reports whether part is empty or shares whole's octets.
func within(whole, part []byte) bool {
	if len(part) == 0 {
		return true
	}
	for i := range whole {
		if &whole[i] == &part[0] {
			return len(part) <= len(whole)-i
		}
	}
	return false
}

// reencode builds the packet again from what was decoded, with its checksum
// computed and with its checksum chosen.
func reencode(t *testing.T, b []byte, r *wire.Reply) {
	if !plain(b, r) {
		return
	}
	for _, sum := range []uint16{0, r.Checksum} {
		got, err := encode(r, sum)
		if err == wire.ErrNoRoom {
			continue
		}
		if err != nil || !bytes.Equal(got, b) {
			t.Fatalf("encoded with checksum %#x, %v\n got %x\nwant %x", sum, err, got, b)
		}
	}
}

func encode(r *wire.Reply, sum uint16) ([]byte, error) {
	ip := wire.IP{Src: r.Src, Dst: r.Dst, TTL: r.TTL, TOS: r.TOS, ID: r.ID, DF: r.DF, FlowLabel: r.FlowLabel}
	if r.Kind == wire.KindUDP {
		return wire.AppendUDP(nil, ip, wire.UDP{SrcPort: r.SrcPort, DstPort: r.DstPort, Checksum: sum, Payload: r.Payload})
	}
	return wire.AppendEcho(nil, ip, wire.Echo{Reply: r.Kind == wire.KindEchoReply, ID: r.ICMPID, Seq: r.ICMPSeq, Checksum: sum, Payload: r.Payload})
}

// plain reports whether the encoders can say all that b says: an echo or UDP
// without options, fragments and inner padding, and without the two forms of
// zero in one's complement arithmetic, of which they write one.
func plain(b []byte, r *wire.Reply) bool {
	headerLen, zeros := 20, false
	if r.Version == 6 {
		headerLen = 40
	} else {
		zeros = b[10] == 0xff && b[11] == 0xff || b[6]&0x80 != 0
	}
	if len(r.Payload) >= 2 {
		zeros = zeros || r.Payload[0] == 0xff && r.Payload[1] == 0xff
	}
	switch r.Kind {
	case wire.KindUDP:
		zeros = zeros || r.Checksum == 0
	case wire.KindEchoReply, wire.KindEchoRequest:
		zeros = zeros || r.Checksum == 0xffff || r.ICMPCode != 0
	default:
		return false
	}
	return !zeros && !r.MF && r.HeaderLen == headerLen && r.TotalLen == headerLen+8+len(r.Payload)
}

// FuzzSetTTL: the TTL is what was set and the checksums are as right as before.
func FuzzSetTTL(f *testing.F) {
	for _, ip := range []wire.IP{{Src: src4, Dst: dst4, TTL: 5, ID: 9}, {Src: src6, Dst: dst6, TTL: 5}} {
		udp, _ := wire.AppendUDP(nil, ip, wire.UDP{SrcPort: 1, DstPort: 2})
		f.Add(udp, uint8(4))
	}
	f.Fuzz(func(t *testing.T, b []byte, ttl uint8) {
		before := wire.VerifyChecksums(b)
		if err := wire.SetTTL(b, ttl); err != nil {
			return
		}
		if after := wire.VerifyChecksums(b); after != before {
			t.Fatalf("checksums: %v before, %v after", before, after)
		}
		var h wire.Header
		if h.Decode(b) == nil && h.TTL != ttl {
			t.Fatalf("TTL = %d, want %d", h.TTL, ttl)
		}
	})
}
