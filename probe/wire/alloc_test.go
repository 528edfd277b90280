package wire_test

import (
	"errors"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"strandline/probe/wire"
)

// hot lists every encoder and decoder, as a call that repeats.
func hot(t testing.TB) map[string]func() error {
	ip4, ip6 := wire.IP{Src: src4, Dst: dst4, TTL: 5}, wire.IP{Src: src6, Dst: dst6, TTL: 5}
	payload := []byte("\x00\x00strandline; ops@example.org")
	echo := wire.Echo{ID: 1, Seq: 2, Checksum: 0xbeef, Payload: payload}
	udp := wire.UDP{SrcPort: 1, DstPort: 2, Checksum: 0xbeef, Payload: payload}
	query := wire.DNSQuery{ID: 7, Name: "id.server", Type: wire.DNSTypeTXT, Class: wire.DNSClassCHAOS, NSID: true}
	probe4 := must(t)(wire.AppendUDP(nil, ip4, udp))
	probe6 := must(t)(wire.AppendEcho(nil, ip6, echo))
	error4 := must(t)(wire.AppendError(nil, wire.IP{Src: dst4, Dst: src4}, wire.TimeExceeded, probe4, 0))
	error6 := must(t)(wire.AppendError(nil, wire.IP{Src: dst6, Dst: src6}, wire.TimeExceeded, probe6, 0))
	asked := must(t)(wire.AppendDNSQuery(nil, query))
	var q, m wire.DNSMessage
	if err := q.Decode(asked); err != nil {
		t.Fatal(err)
	}
	answered := must(t)(wire.AppendDNSAnswer(nil, &q, wire.DNSAnswer{TXT: "fra1", NSID: "fra1.example"}))
	buf := make([]byte, 0, 2048)
	text := make([]byte, 0, 300)
	tcp := wire.TCP{SrcPort: 1, DstPort: 2, Seq: 3, Flags: wire.TCPSyn}
	objects := wire.Extensions{MPLS: []wire.MPLS{{Label: 5}, {Label: 6, Bottom: true}},
		Interfaces: []wire.Interface{{Index: 1, Addr: dst4, Name: []byte("eth0"), MTU: 1500}}}
	extension := wire.AppendExtensions(nil, &objects)
	extended := must(t)(wire.AppendExtendedError(nil, wire.IP{Src: dst4, Dst: src4}, wire.TimeExceeded, probe4, 0, extension))
	moved := must(t)(wire.AppendTCP(nil, ip4, tcp))
	var e wire.Extensions
	var r wire.Reply
	var h wire.Header
	return map[string]func() error{
		"AppendEcho v4": func() error { _, err := wire.AppendEcho(buf, ip4, echo); return err },
		"AppendEcho v6": func() error { _, err := wire.AppendEcho(buf, ip6, echo); return err },
		"AppendUDP v4":  func() error { _, err := wire.AppendUDP(buf, ip4, udp); return err },
		"AppendUDP v6":  func() error { _, err := wire.AppendUDP(buf, ip6, udp); return err },
		"AppendTCP v4":  func() error { _, err := wire.AppendTCP(buf, ip4, tcp); return err },
		"AppendTCP v6":  func() error { _, err := wire.AppendTCP(buf, ip6, tcp); return err },
		"SetSource":     func() error { return wire.SetSource(moved, dst4, 9) },
		"Extensions":    func() error { wire.AppendExtensions(buf, &objects); return nil },
		"Extended error": func() error {
			_, err := wire.AppendExtendedError(buf, ip4, wire.TimeExceeded, probe4, 0, extension)
			return err
		},
		"Decode extended":  func() error { return errors.Join(r.Decode(extended), e.Decode(r.Extension)) },
		"AppendIP v4":      func() error { _, err := wire.AppendIP(buf, ip4, wire.ProtoTCP, 20); return err },
		"AppendIP v6":      func() error { _, err := wire.AppendIP(buf, ip6, wire.ProtoTCP, 20); return err },
		"AppendError v4":   func() error { _, err := wire.AppendError(buf, ip4, wire.TimeExceeded, probe4, 0); return err },
		"AppendError v6":   func() error { _, err := wire.AppendError(buf, ip6, wire.PortUnreachable, probe6, 0); return err },
		"AppendIdentity":   func() error { wire.AppendIdentity(buf, "strandline; ops@example.org", 20); return nil },
		"SetTTL":           func() error { return wire.SetTTL(probe4, 9) },
		"Decode error v4":  func() error { return r.Decode(error4) },
		"Decode error v6":  func() error { return r.Decode(error6) },
		"Decode probe":     func() error { return r.Decode(probe6) },
		"Header.Decode":    func() error { return h.Decode(probe4) },
		"VerifyChecksums":  func() error { return wire.VerifyChecksums(error6) },
		"AppendDNSQuery":   func() error { _, err := wire.AppendDNSQuery(buf, query); return err },
		"AppendDNSAnswer":  func() error { _, err := wire.AppendDNSAnswer(buf, &q, wire.DNSAnswer{TXT: "fra1"}); return err },
		"DNSMessage":       func() error { return m.Decode(answered) },
		"Answers, TXT":     func() error { m.Answers(query); m.AppendTXT(text); return nil },
		"Decode of rubble": func() error { _ = r.Decode(error4[:30]); return nil },
	}
}

func must(t testing.TB) func([]byte, error) []byte {
	return func(b []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

func TestNoAllocations(t *testing.T) {
	for name, call := range hot(t) {
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := testing.AllocsPerRun(100, func() { _ = call() }); got != 0 {
			t.Errorf("%s: %v allocations, want 0", name, got)
		}
	}
}

func BenchmarkHot(b *testing.B) {
	for name, call := range hot(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := call(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkDecode reads an ICMP time-exceeded that quotes a UDP probe, by this
// package and by gopacket's fastest way, which needs one parser for the packet
// and one for the quote.
func BenchmarkDecode(b *testing.B) {
	ip := wire.IP{Src: src4, Dst: dst4, TTL: 1}
	probe := must(b)(wire.AppendUDP(nil, ip, wire.UDP{SrcPort: 24000, DstPort: 33434, Payload: make([]byte, 12)}))
	pkt := must(b)(wire.AppendError(nil, wire.IP{Src: dst4, Dst: src4, TTL: 64}, wire.TimeExceeded, probe, 0))
	b.Run("wire", func(b *testing.B) {
		b.ReportAllocs()
		var r wire.Reply
		for b.Loop() {
			if r.Decode(pkt) != nil || r.Quoted.SrcPort != 24000 {
				b.Fatal("not decoded")
			}
		}
	})
	b.Run("gopacket", func(b *testing.B) {
		b.ReportAllocs()
		var outer, inner layers.IPv4
		var icmp layers.ICMPv4
		var udp layers.UDP
		var payload gopacket.Payload
		first := gopacket.NewDecodingLayerParser(layers.LayerTypeIPv4, &outer, &icmp, &payload)
		second := gopacket.NewDecodingLayerParser(layers.LayerTypeIPv4, &inner, &udp, &payload)
		decoded := make([]gopacket.LayerType, 0, 4)
		for b.Loop() {
			if first.DecodeLayers(pkt, &decoded) != nil || second.DecodeLayers(icmp.Payload, &decoded) != nil || udp.SrcPort != 24000 {
				b.Fatal("not decoded")
			}
		}
	})
}
