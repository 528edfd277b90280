package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"strandline/probe/wire"
)

// TestExtensionOfCapture reads the label stack that a real router sent; its
// dissection lies beside the capture. The router states a quote of 68 octets and
// puts the extension after 128.
func TestExtensionOfCapture(t *testing.T) {
	pkts := capture(t, "icmp-icmp-ttl-exceeded-mpls.pcap")
	var r wire.Reply
	if err := r.Decode(pkts[1]); err != nil {
		t.Fatal(err)
	}
	var e wire.Extensions
	if err := e.Decode(r.Extension); err != nil {
		t.Fatal(err)
	}
	want := []wire.MPLS{{Label: 29657, TTL: 1}, {Label: 25437, Bottom: true, TTL: 1}}
	if !slices.Equal(e.MPLS, want) || len(e.Interfaces) != 0 || e.Others != 0 {
		t.Errorf("got %+v, want the stack %+v", e, want)
	}
	if got := wire.AppendExtensions(nil, &e); !bytes.Equal(got, r.Extension) {
		t.Errorf("encoded again: %x, want %x", got, r.Extension)
	}
}

// randExtensions returns objects as golang.org/x/net/icmp can say them too: at
// most one address, of the family of the message.
func randExtensions(r *rand.Rand, v6 bool) wire.Extensions {
	var e wire.Extensions
	for n := r.IntN(4); len(e.MPLS) < n; {
		e.MPLS = append(e.MPLS, wire.MPLS{Label: r.Uint32N(1 << 20), TC: uint8(r.Uint32N(8)), TTL: uint8(r.Uint32()), Bottom: len(e.MPLS) == n-1})
	}
	for range r.IntN(3) {
		i := wire.Interface{Role: wire.Role(r.Uint32N(4))}
		if r.IntN(2) == 0 {
			i.Index = 1 + r.Uint32N(1<<31-1)
			i.Name = bytes.Repeat([]byte("x"), r.IntN(64))
			i.MTU = r.Uint32N(1 << 31)
		}
		if r.IntN(2) == 0 {
			i.Addr = netip.AddrFrom4([4]byte(randBytes(r, 4)))
			if v6 {
				a := randBytes(r, 16)
				a[0] = 0x20
				i.Addr = netip.AddrFrom16([16]byte(a))
			}
		}
		e.Interfaces = append(e.Interfaces, i)
	}
	return e
}

// toNet says the same in the words of golang.org/x/net/icmp.
func toNet(e *wire.Extensions) []icmp.Extension {
	var out []icmp.Extension
	if len(e.MPLS) > 0 {
		s := &icmp.MPLSLabelStack{Class: 1, Type: 1}
		for _, m := range e.MPLS {
			s.Labels = append(s.Labels, icmp.MPLSLabel{Label: int(m.Label), TC: int(m.TC), S: m.Bottom, TTL: int(m.TTL)})
		}
		out = append(out, s)
	}
	for _, i := range e.Interfaces {
		x := &icmp.InterfaceInfo{Class: 2, Type: int(i.Role) << 6}
		if i.Index != 0 {
			x.Interface = &net.Interface{Index: int(i.Index), Name: string(i.Name), MTU: int(i.MTU)}
			x.Type |= 8
			if len(i.Name) > 0 {
				x.Type |= 2
			}
			if i.MTU > 0 {
				x.Type |= 1
			}
		}
		if i.Addr.IsValid() {
			x.Addr = &net.IPAddr{IP: i.Addr.AsSlice()}
			x.Type |= 4
		}
		out = append(out, x)
	}
	return out
}

// TestExtendedErrorAgreesWithNet compares whole ICMP messages, octet by octet,
// with those of golang.org/x/net/icmp, and decodes them.
func TestExtendedErrorAgreesWithNet(t *testing.T) {
	r := newRand(t)
	var e wire.Extensions
	for range 3000 {
		ip := randIP(r)
		v6 := ip.Dst.Is6()
		probe := must(t)(wire.AppendUDP(nil, wire.IP{Src: ip.Dst, Dst: ip.Src, TTL: 1}, wire.UDP{SrcPort: 7, DstPort: 9, Payload: randBytes(r, r.IntN(90)*4)}))
		want := randExtensions(r, v6)
		got := must(t)(wire.AppendExtendedError([]byte("x"), ip, wire.TimeExceeded, probe, 0, wire.AppendExtensions(nil, &want)))[1:]
		if err := wire.VerifyChecksums(got); err != nil {
			t.Fatal(err)
		}
		if want.MPLS == nil && want.Interfaces == nil {
			if same := must(t)(wire.AppendError(nil, ip, wire.TimeExceeded, probe, 0)); !bytes.Equal(got, same) {
				t.Fatalf("without an extension: %x, want %x", got, same)
			}
			continue
		}
		if oracle := netMessage(t, ip, probe, &want); oracle != nil {
			if h := len(got) - len(oracle); h < 20 || !bytes.Equal(got[h:], oracle) {
				t.Fatalf("%+v\n got %x\nwant %x", want, got, oracle)
			}
		}
		var reply wire.Reply
		if err := errors.Join(reply.Decode(got), e.Decode(reply.Extension)); err != nil {
			t.Fatal(err)
		}
		if !reply.HasQuote || reply.Quoted.DstPort != 9 || !sameExtensions(&e, &want) {
			t.Fatalf("decoded %+v, want %+v", e, want)
		}
	}
}

func sameExtensions(a, b *wire.Extensions) bool {
	return slices.Equal(a.MPLS, b.MPLS) && a.Others == b.Others && slices.EqualFunc(a.Interfaces, b.Interfaces, func(x, y wire.Interface) bool {
		return x.Role == y.Role && x.Index == y.Index && x.Addr == y.Addr && x.MTU == y.MTU && bytes.Equal(x.Name, y.Name)
	})
}

// netMessage is the ICMP message by golang.org/x/net/icmp, or nil where that
// package writes an object without all that it was told.
func netMessage(t *testing.T, ip wire.IP, probe []byte, e *wire.Extensions) []byte {
	t.Helper()
	m := icmp.Message{Type: ipv4.ICMPTypeTimeExceeded, Body: &icmp.TimeExceeded{Data: probe, Extensions: toNet(e)}}
	most := 576 - 28
	var pseudo []byte
	if ip.Dst.Is6() {
		m.Type, most = ipv6.ICMPTypeTimeExceeded, 1280-48
		pseudo = icmp.IPv6PseudoHeader(ip.Src.AsSlice(), ip.Dst.AsSlice())
	}
	b, err := m.Marshal(pseudo)
	if err != nil {
		t.Fatal(err)
	}
	if len(b)-8 > most {
		return nil
	}
	return b
}

// TestExtensionBytes: known octets, each object of RFC 5837's kinds and the
// faults of structure.
func TestExtensionBytes(t *testing.T) {
	eth := wire.Interface{Role: wire.Outgoing, Index: 7, Addr: src4, Name: []byte("eth0"), MTU: 1500}
	for _, c := range []struct {
		name, objects string
		want          *wire.Extensions
	}{
		{"no object", "", &wire.Extensions{}},
		{"all of an interface", "001c 02 8f 00000007 00010000 c0000201 08 65746830 000000 000005dc", &wire.Extensions{Interfaces: []wire.Interface{eth}}},
		{"an IPv6 address", "0018 02 04 00020000 20010db8000000000000000000000001", &wire.Extensions{Interfaces: []wire.Interface{{Addr: src6}}}},
		{"nothing of an interface", "0004 02 40", &wire.Extensions{Interfaces: []wire.Interface{{Role: wire.SubIncoming}}}},
		{"reserved bits", "0008 02 f8 00000009", &wire.Extensions{Interfaces: []wire.Interface{{Role: wire.NextHop, Index: 9}}}},
		{"two label stacks and an unknown class", "0008 01 01 00064a05 0008 c8 01 01020304 0008 01 01 00065fff",
			&wire.Extensions{Others: 1, MPLS: []wire.MPLS{{Label: 100, TC: 5, TTL: 5}, {Label: 101, TC: 7, Bottom: true, TTL: 255}}}},
		{"another type of class 1", "0008 01 02 00064105", &wire.Extensions{Others: 1}},
		{"object shorter than its header", "0003 01 01", nil},
		{"object beyond the end", "000c 01 01 00064105", nil},
		{"half an object header", "0008", nil},
		{"empty label stack", "0004 01 01", nil},
		{"label stack of six octets", "000a 01 01 00064105 0000", nil},
		{"index missing", "0006 02 08 0000", nil},
		{"unknown address family", "000c 02 04 00030000 c0000201", nil},
		{"address cut", "000a 02 04 00010000 c000", nil},
		{"name length 0", "0008 02 02 00 000000", nil},
		{"name length 5", "000c 02 02 05 61626364 000000", nil},
		{"name beyond the object", "0008 02 02 08 616263", nil},
		{"octets left over", "000c 02 08 00000007 00000000", nil},
		{"MTU missing", "0004 02 01", nil},
	} {
		b := unhex(t, "20000000"+c.objects)
		e := wire.Extensions{MPLS: make([]wire.MPLS, 3), Others: 2}
		err := e.Decode(b)
		if c.want == nil {
			if !errors.Is(err, wire.ErrMalformed) || !sameExtensions(&e, &wire.Extensions{}) {
				t.Errorf("%s: %+v, %v; want nothing and ErrMalformed", c.name, e, err)
			}
			continue
		}
		if err != nil || !sameExtensions(&e, c.want) {
			t.Errorf("%s: %+v, %v; want %+v", c.name, e, err, c.want)
		}
	}
	var e wire.Extensions
	if err := e.Decode([]byte{0x20, 0}); !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("half a header: %v", err)
	}
	long := wire.Extensions{Interfaces: []wire.Interface{{Name: bytes.Repeat([]byte("n"), 70)}}}
	if err := e.Decode(wire.AppendExtensions(nil, &long)); err != nil || len(e.Interfaces) != 1 || len(e.Interfaces[0].Name) != 63 {
		t.Errorf("a long name: %+v, %v; want 63 octets of it", e, err)
	}
}

// TestExtensionPlace: where Decode looks for an extension and what it takes for one.
func TestExtensionPlace(t *testing.T) {
	good := wire.AppendExtensions(nil, &wire.Extensions{MPLS: []wire.MPLS{{Label: 5, Bottom: true, TTL: 1}}})
	for _, v6 := range []bool{false, true} {
		ip, back := wire.IP{Src: dst4, Dst: src4}, wire.IP{Src: src4, Dst: dst4, TTL: 1}
		unit, at := 4, 20+5
		if v6 {
			ip, back = wire.IP{Src: dst6, Dst: src6}, wire.IP{Src: src6, Dst: dst6, TTL: 1}
			unit, at = 8, 40+4
		}
		probe := must(t)(wire.AppendUDP(nil, back, wire.UDP{SrcPort: 1, DstPort: 2, Payload: make([]byte, 200)}))
		for _, c := range []struct {
			name   string
			quote  int
			spoil  func(b []byte, ext int)
			want   bool
			quoted int // octets of QuotedPayload, or -1 for not asked
		}{
			{"as it should be", 128, func([]byte, int) {}, true, -1},
			{"long quote", 160, func([]byte, int) {}, true, -1},
			{"no length, after 128", 128, func(b []byte, _ int) { b[at] = 0 }, true, 128 - 28},
			{"no length, after 160", 160, func(b []byte, _ int) { b[at] = 0 }, false, -1},
			{"wrong length, after 128", 128, func(b []byte, _ int) { b[at] = uint8(56 / unit) }, true, -1},
			{"length too long, after 128", 128, func(b []byte, _ int) { b[at] = uint8(136 / unit) }, true, 128 - 28},
			{"no checksum", 160, func(b []byte, ext int) { b[ext+2], b[ext+3] = 0, 0 }, true, -1},
			{"no checksum, no length", 128, func(b []byte, ext int) { b[ext+2], b[ext+3], b[at] = 0, 0, 0 }, false, -1},
			{"bad checksum", 160, func(b []byte, ext int) { b[ext+3] ^= 1 }, false, -1},
			{"damaged object", 128, func(b []byte, ext int) { b[ext+9] ^= 1 }, false, -1},
			{"version 1", 128, func(b []byte, ext int) { b[ext] = 0x10 }, false, -1},
		} {
			b := must(t)(wire.AppendExtendedError(nil, ip, wire.TimeExceeded, probe, c.quote, good))
			c.spoil(b, len(b)-len(good))
			var r wire.Reply
			if err := r.Decode(b); err != nil {
				t.Fatal(err)
			}
			if got := r.Extension != nil; got != c.want || got && len(r.Extension) != len(good) || !r.HasQuote {
				t.Errorf("IPv6 %v, %s: extension %x, want it %v", v6, c.name, r.Extension, c.want)
			}
			if v6 {
				c.quoted -= 20
			}
			if c.quoted > 0 && len(r.QuotedPayload) != c.quoted {
				t.Errorf("IPv6 %v, %s: %d octets of quoted payload, want %d", v6, c.name, len(r.QuotedPayload), c.quoted)
			}
		}
	}
	ip := wire.IP{Src: dst4, Dst: src4}
	probe := must(t)(wire.AppendUDP(nil, wire.IP{Src: src4, Dst: dst4}, wire.UDP{Payload: make([]byte, 900)}))
	if b := must(t)(wire.AppendExtendedError(nil, ip, wire.TimeExceeded, probe, 0, good)); len(b) > 576 || len(b) < 570 {
		t.Errorf("longest error has %d octets, want 576 at most and nearly", len(b))
	}
	if b, err := wire.AppendExtendedError(nil, ip, wire.TimeExceeded, probe, 0, make([]byte, 576-28-127)); !errors.Is(err, wire.ErrTooLong) || len(b) != 0 {
		t.Errorf("no room for 128 octets of quote: %d octets, %v, want ErrTooLong", len(b), err)
	}
	if _, err := wire.AppendExtendedError(nil, wire.IP{Src: dst6, Dst: src6}, wire.TimeExceeded, probe, 0, good); !errors.Is(err, wire.ErrFamily) {
		t.Errorf("of the other family: %v, want ErrFamily", err)
	}
}

// FuzzExtensions: no input makes Decode panic, what aliases lies in the input,
// and objects that are encoded again decode to the same.
func FuzzExtensions(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		e := randExtensions(r, r.IntN(2) == 0)
		f.Add(wire.AppendExtensions(nil, &e))
	}
	f.Add(unhex(f, "2000707d000c0101073d90010635d101"))
	f.Add(unhex(f, "20000000001c028f0000000700010000c00002010865746830000000000005dc"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var e, again wire.Extensions
		if err := e.Decode(b); err != nil {
			if !reflect.DeepEqual(e, wire.Extensions{MPLS: e.MPLS[:0], Interfaces: e.Interfaces[:0]}) {
				t.Fatalf("%v, but %+v", err, e)
			}
			return
		}
		for _, i := range e.Interfaces {
			if !within(b, i.Name) {
				t.Fatalf("name %q is not in %x", i.Name, b)
			}
		}
		encoded := wire.AppendExtensions(nil, &e)
		if err := again.Decode(encoded); err != nil || !slices.Equal(again.MPLS, e.MPLS) || len(again.Interfaces) != len(e.Interfaces) {
			t.Fatalf("%x, encoded %x: %+v, %v; want %+v", b, encoded, again, err, e)
		}
		for i := range e.Interfaces {
			x, y := e.Interfaces[i], again.Interfaces[i]
			if x.Role != y.Role || x.Index != y.Index || x.MTU != y.MTU || x.Addr != y.Addr || !bytes.Equal(x.Name, y.Name) {
				t.Fatalf("interface %+v came back as %+v", x, y)
			}
		}
		if len(encoded) > 0 && wire.Checksum(encoded, 0) != 0 {
			t.Fatalf("checksum of %x is wrong", encoded)
		}
		if len(encoded) > 0 && binary.BigEndian.Uint16(encoded)&0xff00 != 0x2000 {
			t.Fatalf("version of %x", encoded)
		}
	})
}
