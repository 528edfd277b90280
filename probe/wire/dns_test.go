package wire_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"strandline/probe/wire"
)

// chaos is the question that asks an anycast site who it is (RFC 4892).
func chaos(id uint16) wire.DNSQuery {
	return wire.DNSQuery{ID: id, Name: "id.server", Type: wire.DNSTypeTXT, Class: wire.DNSClassCHAOS}
}

func TestAppendDNSQuery(t *testing.T) {
	q := chaos(0x1234)
	got := must(t)(wire.AppendDNSQuery(nil, q))
	want := unhex(t, "1234 0000 0001 0000 0000 0000 02 6964 06 736572766572 00 0010 0003")
	if !bytes.Equal(got, want) {
		t.Errorf("query\n got %x\nwant %x", got, want)
	}
	q.NSID, q.Name = true, "id.server."
	got = must(t)(wire.AppendDNSQuery(nil, q))
	want = unhex(t, "1234 0000 0001 0000 0000 0001 02 6964 06 736572766572 00 0010 0003 00 0029 04d0 00000000 0004 0003 0000")
	if !bytes.Equal(got, want) {
		t.Errorf("query with NSID\n got %x\nwant %x", got, want)
	}
	q = wire.DNSQuery{Name: ".", Type: 2, Class: wire.DNSClassIN}
	got = must(t)(wire.AppendDNSQuery(nil, q))
	if want = unhex(t, "0000 0000 0001 0000 0000 0000 00 0002 0001"); !bytes.Equal(got, want) {
		t.Errorf("query for the root\n got %x\nwant %x", got, want)
	}
}

func TestAppendDNSQueryNames(t *testing.T) {
	label63 := strings.Repeat("a", 63)
	longest := strings.Join([]string{label63, label63, label63, strings.Repeat("b", 61)}, ".") // 255 octets encoded
	for name, want := range map[string]error{
		"": nil, "a": nil, "a.": nil, label63: nil, longest: nil, longest + ".": nil,
		label63 + "a": wire.ErrName, longest + "b": wire.ErrName, "..": wire.ErrName, ".a": wire.ErrName, "a..b": wire.ErrName, "a..": wire.ErrName,
	} {
		got, err := wire.AppendDNSQuery([]byte("before"), wire.DNSQuery{Name: name, Type: 1, Class: 1})
		if !errors.Is(err, want) || err != nil && string(got) != "before" {
			t.Errorf("%q: %q, %v; want %v", name, got, err, want)
		}
		if err != nil {
			continue
		}
		var m wire.DNSMessage
		if err := m.Decode(got[6:]); err != nil || !m.Asks(name, 1, 1) || !m.Asks(strings.ToUpper(name), 1, 1) {
			t.Errorf("%q: decoded with %v, not the question that was asked", name, err)
		}
	}
}

func TestAnswerRoundTrip(t *testing.T) {
	for _, nsid := range []bool{false, true} {
		q := chaos(77)
		q.NSID = nsid
		var asked, got wire.DNSMessage
		if err := asked.Decode(must(t)(wire.AppendDNSQuery(nil, q))); err != nil {
			t.Fatal(err)
		}
		if asked.Response || asked.HasNSID != nsid || asked.TXT != nil || !asked.Asks("id.server", 16, 3) {
			t.Errorf("query = %+v", asked)
		}
		if asked.Answers(q) {
			t.Error("a query answers itself")
		}
		answer := must(t)(wire.AppendDNSAnswer(nil, &asked, wire.DNSAnswer{TTLS: 5, TXT: "fra1", NSID: "fra1.example"}))
		if err := got.Decode(answer); err != nil {
			t.Fatal(err)
		}
		if !got.Answers(q) || !got.Authoritative || got.Rcode != 0 || string(got.TXT) != "fra1" || string(got.AppendTXT(nil)) != "fra1" {
			t.Errorf("answer = %+v", got)
		}
		if got.HasNSID != nsid || nsid && string(got.NSID) != "fra1.example" {
			t.Errorf("NSID = %v, %q", got.HasNSID, got.NSID)
		}
		for _, other := range []wire.DNSQuery{
			chaos(78),
			{ID: 77, Name: "id.servers", Type: 16, Class: 3},
			{ID: 77, Name: "id.serve", Type: 16, Class: 3},
			{ID: 77, Name: "id", Type: 16, Class: 3},
			{ID: 77, Name: "", Type: 16, Class: 3},
			{ID: 77, Name: "id.server.x", Type: 16, Class: 3},
			{ID: 77, Name: "id.server", Type: 1, Class: 3},
			{ID: 77, Name: "id.server", Type: 16, Class: 1},
		} {
			if got.Answers(other) {
				t.Errorf("answers %+v too", other)
			}
		}
	}
}

// The answers must say to gopacket what they say to us.
func TestAnswerAgreesWithGopacket(t *testing.T) {
	q := chaos(77)
	q.NSID = true
	var asked wire.DNSMessage
	if err := asked.Decode(must(t)(wire.AppendDNSQuery(nil, q))); err != nil {
		t.Fatal(err)
	}
	answer := must(t)(wire.AppendDNSAnswer(nil, &asked, wire.DNSAnswer{TTLS: 5, TXT: "fra1", NSID: "n"}))
	var d layers.DNS
	if err := d.DecodeFromBytes(answer, gopacket.NilDecodeFeedback); err != nil {
		t.Fatal(err)
	}
	if !d.QR || !d.AA || d.RD || d.ID != 77 || d.ResponseCode != 0 || len(d.Questions) != 1 || len(d.Answers) != 1 || len(d.Additionals) != 1 {
		t.Fatalf("message = %+v", d)
	}
	if d := d.Questions[0]; string(d.Name) != "id.server" || d.Type != layers.DNSTypeTXT || d.Class != layers.DNSClassCH {
		t.Errorf("question = %+v", d)
	}
	if d := d.Answers[0]; string(d.Name) != "id.server" || d.TTL != 5 || d.Class != layers.DNSClassCH || len(d.TXTs) != 1 || string(d.TXTs[0]) != "fra1" {
		t.Errorf("answer = %+v", d)
	}
	if d := d.Additionals[0]; d.Type != layers.DNSTypeOPT || d.Class != 1232 || len(d.OPT) != 1 ||
		d.OPT[0].Code != layers.DNSOptionCodeNSID || string(d.OPT[0].Data) != "n" {
		t.Errorf("additional = %+v", d)
	}
}

func TestAppendDNSAnswerRefuses(t *testing.T) {
	var q wire.DNSMessage
	if err := q.Decode(must(t)(wire.AppendDNSQuery(nil, chaos(1)))); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 256)
	for _, c := range []struct {
		q    *wire.DNSMessage
		a    wire.DNSAnswer
		want error
	}{
		{&q, wire.DNSAnswer{TXT: long[:255]}, nil},
		{&q, wire.DNSAnswer{TXT: long}, wire.ErrName},
		{&q, wire.DNSAnswer{NSID: long}, wire.ErrName},
		{&wire.DNSMessage{}, wire.DNSAnswer{}, wire.ErrMalformed},
	} {
		got, err := wire.AppendDNSAnswer([]byte("before"), c.q, c.a)
		if !errors.Is(err, c.want) || err != nil && string(got) != "before" {
			t.Errorf("got %d octets, %v; want %v", len(got), err, c.want)
		}
	}
	refused := must(t)(wire.AppendDNSAnswer(nil, &q, wire.DNSAnswer{Rcode: 5}))
	var m wire.DNSMessage
	if err := m.Decode(refused); err != nil || m.Rcode != 5 || m.TXT != nil || !m.Answers(chaos(1)) {
		t.Errorf("refusal = %+v, %v", m, err)
	}
}

func TestDNSDecode(t *testing.T) {
	const (
		head     = "004d 8400 0001 0001 0000 0000 "
		question = "02 6964 06 736572766572 00 0010 0003 "
		record   = "c00c 0010 0003 00000000 "
	)
	for _, c := range []struct {
		name, message string
		want          error
		txt, all      string
	}{
		{"one string", head + question + record + "0005 04 66726131", nil, "fra1", "fra1"},
		{"two strings", head + question + record + "0008 04 66726131 02 6162", nil, "fra1", "fra1ab"},
		{"second string cut", head + question + record + "0007 04 66726131 02 61", nil, "fra1", "fra1"},
		{"empty string", head + question + record + "0001 00", nil, "", ""},
		{"no string", head + question + record + "0000", wire.ErrMalformed, "", ""},
		{"string beyond its record", head + question + record + "0005 05 66726131", wire.ErrMalformed, "", ""},
		{"record beyond the message", head + question + record + "0006 04 66726131", wire.ErrShort, "", ""},
		{"record missing", head + question, wire.ErrShort, "", ""},
		{"record of another class", head + question + "c00c 0010 0001 00000000 0005 04 66726131", nil, "", ""},
		{"record of another type", head + question + "c00c 0001 0003 00000000 0004 7f000001", nil, "", ""},
		{"alias before the text", "004d 8400 0001 0002 0000 0000" + question + "c00c 0005 0003 00000000 0002 c00c" + record + "0005 04 66726131", nil, "fra1", "fra1"},
		{"first of two", "004d 8400 0001 0002 0000 0000" + question + record + "0002 01 61" + record + "0002 01 62", nil, "a", "a"},
		{"owner points at itself", head + question + "c01b 0010 0003 00000000 0005 04 66726131", nil, "fra1", "fra1"},
		{"question points at itself", head + "c00c 0010 0003", wire.ErrMalformed, "", ""},
		{"question name runs out", head + "02 6964 06 7365", wire.ErrShort, "", ""},
		{"question without type", head + "02 6964 00 0010", wire.ErrShort, "", ""},
		{"reserved label type", head + "80 00 0010 0003", wire.ErrMalformed, "", ""},
		{"name of 256 octets", head + strings.Repeat("01 61", 128) + "00 0010 0003", wire.ErrMalformed, "", ""},
		{"pointer cut", head + question + "c0", wire.ErrShort, "", ""},
		{"half a header", "004d 8400 0001", wire.ErrShort, "", ""},
		{"text in the wrong section", "004d 8400 0001 0000 0001 0000" + question + record + "0005 04 66726131", nil, "", ""},
	} {
		m := wire.DNSMessage{ID: 1, TXT: []byte("x")}
		if err := m.Decode(unhex(t, c.message)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if c.want != nil && !reflect.DeepEqual(m, wire.DNSMessage{}) {
			t.Errorf("%s: not zero after an error: %+v", c.name, m)
		}
		if got := string(m.TXT); got != c.txt {
			t.Errorf("%s: TXT = %q, want %q", c.name, got, c.txt)
		}
		if got := string(m.AppendTXT(nil)); got != c.all {
			t.Errorf("%s: AppendTXT = %q, want %q", c.name, got, c.all)
		}
	}
}

func TestDNSExtendedRcodeAndOptions(t *testing.T) {
	const message = "004d 8203 0001 0000 0000 0001 00 0010 0003 00 0029 04d0 01000000 "
	var m wire.DNSMessage
	if err := m.Decode(unhex(t, message+"000d 000a 0002 aabb 0003 0003 6c6f6e")); err != nil {
		t.Fatal(err)
	}
	if m.Rcode != 0x13 || !m.Truncated || m.Authoritative || string(m.NSID) != "lon" {
		t.Errorf("message = %+v", m)
	}
	for _, options := range []string{"0003 000300", "0006 0003 0003 6c6f"} {
		if err := m.Decode(unhex(t, message+options)); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("options %s: %v, want %v", options, err, wire.ErrMalformed)
		}
	}
}

// A dot in a label is not a border between labels.
func TestDotInLabelIsNoName(t *testing.T) {
	var m wire.DNSMessage
	if err := m.Decode(unhex(t, "004d 8400 0001 0000 0000 0000 09 69642e736572766572 00 0010 0003")); err != nil {
		t.Fatal(err)
	}
	if m.Asks("id.server", 16, 3) {
		t.Error(`label "id.server" passes for the name id.server`)
	}
}

// FuzzDNS: no panic, zero value after an error, slices of the input, and a query
// that is answered is an answer to it.
func FuzzDNS(f *testing.F) {
	q := chaos(9)
	q.NSID = true
	query, _ := wire.AppendDNSQuery(nil, q)
	f.Add(query)
	var m wire.DNSMessage
	if err := m.Decode(query); err != nil {
		f.Fatal(err)
	}
	answer, _ := wire.AppendDNSAnswer(nil, &m, wire.DNSAnswer{TXT: "fra1", NSID: "x"})
	f.Add(answer)
	f.Fuzz(func(t *testing.T, b []byte) {
		var m wire.DNSMessage
		if err := m.Decode(b); err != nil {
			if !reflect.DeepEqual(m, wire.DNSMessage{}) {
				t.Fatalf("%v, but %+v", err, m)
			}
			return
		}
		if !within(b, m.TXT) || !within(b, m.NSID) {
			t.Fatalf("%q, %q are not slices of %x", m.TXT, m.NSID, b)
		}
		if !bytes.HasPrefix(m.AppendTXT(nil), m.TXT) {
			t.Fatalf("the strings %q do not begin with %q", m.AppendTXT(nil), m.TXT)
		}
		m.Asks("id.server", m.Type, m.Class)
		answer, err := wire.AppendDNSAnswer(nil, &m, wire.DNSAnswer{Rcode: 3, TXT: "t", NSID: "n"})
		if err != nil {
			return // no question
		}
		var got wire.DNSMessage
		if err := got.Decode(answer); err != nil {
			t.Fatalf("our answer %x: %v", answer, err)
		}
		if !got.Response || got.ID != m.ID || got.Type != m.Type || got.Class != m.Class || string(got.TXT) != "t" ||
			got.Rcode != 3 || got.HasEDNS != m.HasEDNS || got.HasNSID != m.HasNSID {
			t.Fatalf("our answer %x = %+v to %+v", answer, got, m)
		}
	})
}

// FuzzDNSName: a name that encodes is the name that the question asks.
func FuzzDNSName(f *testing.F) {
	f.Add("id.server", uint16(16), uint16(3))
	f.Add("a.b.c.", uint16(1), uint16(1))
	f.Fuzz(func(t *testing.T, name string, typ, class uint16) {
		b, err := wire.AppendDNSQuery(nil, wire.DNSQuery{ID: 5, Name: name, Type: typ, Class: class, NSID: true})
		if err != nil {
			return
		}
		var m wire.DNSMessage
		if err := m.Decode(b); err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		if !m.Asks(name, typ, class) || !m.HasNSID || m.Response {
			t.Fatalf("%q encodes to another question: %x", name, b)
		}
		if m.Asks(name+"x", typ, class) || m.Asks("x"+name, typ, class) {
			t.Fatalf("%q passes for another name", name)
		}
	})
}

// A query with EDNS gets EDNS back, and no NSID that it did not ask for.
func TestAnswerToEDNSWithoutNSID(t *testing.T) {
	var q wire.DNSMessage
	if err := q.Decode(unhex(t, "004d 0100 0001 0000 0000 0001 00 0010 0003 00 0029 04d0 00000000 0000")); err != nil {
		t.Fatal(err)
	}
	got := must(t)(wire.AppendDNSAnswer(nil, &q, wire.DNSAnswer{NSID: "fra1"}))
	if want := unhex(t, "004d 8500 0001 0000 0000 0001 00 0010 0003 00 0029 04d0 00000000 0000"); !bytes.Equal(got, want) {
		t.Errorf("answer\n got %x\nwant %x", got, want)
	}
}
