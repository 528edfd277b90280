package dnsserver_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"strandline/dnsserver"
)

// message builds a query by hand, faults included.
type message struct {
	id, flags          uint16
	qd, an, ns, ar     uint16
	question, tail     []byte
	truncateTo         int
	typ, class         uint16
	name               string
	opts               [][]byte
	optSize            uint16
	optVersion         byte
	optFlags           uint16
	optCount           int
	rdlengthCut        int // how much shorter than its options the OPT record claims to be
	noQuestion, twoQDs bool
}

func (m message) pack() []byte {
	if m.question == nil && !m.noQuestion {
		m.question = append(wireName(m.name), be16(m.typ)...)
		m.question = append(m.question, be16(m.class)...)
	}
	if !m.noQuestion {
		m.qd++
	}
	if m.twoQDs {
		m.qd++
		m.question = append(m.question, m.question...)
	}
	var opt []byte
	for range m.optCount {
		rdata := bytes.Join(m.opts, nil)
		opt = append(opt, 0, 0, 41)
		opt = append(opt, be16(m.optSize)...)
		opt = append(opt, 0, m.optVersion)
		opt = append(opt, be16(m.optFlags)...)
		opt = append(opt, be16(uint16(len(rdata)-m.rdlengthCut))...)
		opt = append(opt, rdata[:len(rdata)-m.rdlengthCut]...)
		m.ar++
	}
	var b []byte
	for _, v := range []uint16{m.id, m.flags, m.qd, m.an, m.ns, m.ar} {
		b = append(b, be16(v)...)
	}
	b = append(append(append(b, m.question...), opt...), m.tail...)
	if m.truncateTo > 0 {
		b = b[:m.truncateTo]
	}
	return b
}

func be16(v uint16) []byte { return binary.BigEndian.AppendUint16(nil, v) }

func wireName(s string) []byte {
	var b []byte
	for label := range strings.SplitSeq(strings.TrimSuffix(s, "."), ".") {
		if label != "" {
			b = append(append(b, byte(len(label))), label...)
		}
	}
	return append(b, 0)
}

func option(code uint16, data ...byte) []byte {
	return append(append(be16(code), be16(uint16(len(data)))...), data...)
}

// query is the well-formed start of most cases.
func query(name string, typ uint16, change func(*message)) message {
	m := message{id: 0xbeef, flags: 0x0100, name: name, typ: typ, class: 1, optSize: 1232}
	if change != nil {
		change(&m)
	}
	return m
}

func withOpt(opts ...[]byte) func(*message) {
	return func(m *message) { m.optCount, m.opts = 1, opts }
}

// server is one without sockets of its own in use.
func server(t testing.TB, s *dnsserver.Snapshot) *dnsserver.Server {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	srv, err := dnsserver.New(dnsserver.Options{PacketConns: []net.PacketConn{c}, ID: "ns1.fra", Version: "strandline"})
	if err != nil {
		t.Fatal(err)
	}
	if s != nil {
		srv.Publish(s)
	}
	return srv
}

// TestPackets sends 39 hand-made messages that real servers disagree on, and some
// more. The wanted cell is rcode, /aa, answers/authority, +opt and the option
// codes in the reply; - is silence.
func TestPackets(t *testing.T) {
	srv := server(t, example(t))
	resolver := netip.MustParseAddr("203.0.113.5")
	www := "www.example.org"
	for _, c := range []struct {
		probe string
		msg   message
		want  string
	}{
		{"plain A", query(www, 1, nil), "NOERROR/aa 1/0"},
		{"0x20 case", query("wWw.ExAmPlE.oRg", 1, nil), "NOERROR/aa 1/0"},
		{"NODATA AAAA", query(www, 28, nil), "NOERROR/aa 0/1"},
		{"NXDOMAIN", query("nx.example.org", 1, nil), "NXDOMAIN/aa 0/1"},
		{"ENT", query("ent.example.org", 1, nil), "NOERROR/aa 0/1"},
		{"ENT wildcard's parent", query("wild.example.org", 1, nil), "NOERROR/aa 0/1"},
		{"wildcard", query("x.wild.example.org", 1, nil), "NOERROR/aa 1/0"},
		{"CNAME", query("alias.example.org", 1, nil), "NOERROR/aa 2/0"},
		{"delegation", query("a.sub.example.org", 1, nil), "NOERROR 0/2"},
		{"out of zone", query("www.example.com", 1, nil), "REFUSED 0/0"},
		{"ANY", query(www, 255, nil), "NOERROR/aa 1/0"},
		{"unknown type", query(www, 65280, nil), "NOERROR/aa 0/1"},
		{"class CH", query("id.server", 16, func(m *message) { m.class = 3 }), "NOERROR 1/0"},
		{"class CH version", query("version.bind", 16, func(m *message) { m.class = 3 }), "NOERROR 1/0"},
		{"class CH other name", query("www.server", 16, func(m *message) { m.class = 3 }), "REFUSED 0/0"},
		{"class CH other type", query("id.server", 1, func(m *message) { m.class = 3 }), "REFUSED 0/0"},
		{"class ANY", query(www, 1, func(m *message) { m.class = 255 }), "REFUSED 0/0"},
		{"class 5", query(www, 1, func(m *message) { m.class = 5 }), "REFUSED 0/0"},
		{"QDCOUNT=0", query(www, 1, func(m *message) { m.noQuestion = true }), "FORMERR 0/0"},
		{"QDCOUNT=0 with OPT", query(www, 1, func(m *message) { m.noQuestion, m.optCount = true, 1 }), "FORMERR 0/0+opt"},
		{"QDCOUNT=2", query(www, 1, func(m *message) { m.twoQDs = true }), "FORMERR 0/0"},
		{"QDCOUNT=65535", query(www, 1, func(m *message) { m.qd = 0xfffe }), "FORMERR 0/0"},
		{"opcode 15", query(www, 1, func(m *message) { m.flags = 15 << 11 }), "NOTIMP 0/0"},
		{"opcode 15, all flags", query(www, 1, func(m *message) { m.flags = 0x7fff }), "NOTIMP 0/0"},
		{"opcode IQUERY", query(www, 1, func(m *message) { m.flags = 1 << 11 }), "NOTIMP 0/0"},
		{"opcode NOTIFY", query("example.org", 6, func(m *message) { m.flags = 4 << 11 }), "NOTIMP 0/0"},
		{"QR=1", query(www, 1, func(m *message) { m.flags |= 0x8000 }), "-"},
		{"AN=1 in query", query(www, 1, func(m *message) {
			m.an, m.tail = 1, append(wireName(www), 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4)
		}), "NOERROR/aa 1/0"},
		{"AN=1 that is not there", query(www, 1, func(m *message) { m.an = 1 }), "FORMERR 0/0"},
		{"trailing junk", query(www, 1, func(m *message) { m.tail = []byte("junk") }), "FORMERR 0/0"},
		{"compressed qname", query("", 1, func(m *message) { m.question = []byte{0xc0, 12, 0, 1, 0, 1} }), "FORMERR 0/0"},
		{"label of 64", query("", 1, func(m *message) { m.question = append([]byte{64}, make([]byte, 80)...) }), "FORMERR 0/0"},
		{"name of 256", query(strings.Repeat("abc.", 63)+"de", 1, nil), "FORMERR 0/0"},
		{"truncated q", query(www, 1, func(m *message) { m.truncateTo = 20 }), "FORMERR 0/0"},
		{"header only", query(www, 1, func(m *message) { m.truncateTo = 12 }), "FORMERR 0/0"},
		{"11 octets", query(www, 1, func(m *message) { m.truncateTo = 11 }), "-"},
		{"BADVERS v1", query(www, 1, func(m *message) { m.optCount, m.optVersion = 1, 1 }), "BADVERS 0/0+opt"},
		{"BADVERS v1 with bad options", query(www, 1, func(m *message) {
			m.optCount, m.optVersion, m.opts = 1, 1, [][]byte{option(8, 0, 9, 200, 7)}
		}), "BADVERS 0/0+opt"},
		{"two OPT", query(www, 1, func(m *message) { m.optCount = 2 }), "FORMERR 0/0+opt"},
		{"OPT not at the root", query(www, 1, func(m *message) {
			m.ar, m.tail = 1, append(wireName("a"), 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 0)
		}), "FORMERR 0/0"},
		{"unk ednsopt", query(www, 1, withOpt(option(65001, 1, 2, 3))), "NOERROR/aa 1/0+opt"},
		{"unk edns flags", query(www, 1, func(m *message) { m.optCount, m.optFlags = 1, 0x7fff }), "NOERROR/aa 1/0+opt"},
		{"opt size 0", query(www, 1, func(m *message) { m.optCount, m.optSize = 1, 0 }), "NOERROR/aa 1/0+opt"},
		{"ECS /24", query(www, 1, withOpt(option(8, 0, 1, 24, 0, 198, 51, 100))), "NOERROR/aa 1/0+opt,8(scope0)"},
		{"ECS /0", query(www, 1, withOpt(option(8, 0, 1, 0, 0))), "NOERROR/aa 1/0+opt,8(scope0)"},
		{"ECS family 0", query(www, 1, withOpt(option(8, 0, 0, 0, 0))), "NOERROR/aa 1/0+opt,8(scope0)"},
		{"ECS family 0 /8", query(www, 1, withOpt(option(8, 0, 0, 8, 0, 10))), "FORMERR 0/0+opt"},
		{"ECS scope!=0", query(www, 1, withOpt(option(8, 0, 1, 24, 24, 198, 51, 100))), "FORMERR 0/0+opt"},
		{"ECS long addr", query(www, 1, withOpt(option(8, 0, 1, 24, 0, 198, 51, 100, 0))), "FORMERR 0/0+opt"},
		{"ECS short addr", query(www, 1, withOpt(option(8, 0, 1, 24, 0, 198, 51))), "FORMERR 0/0+opt"},
		{"ECS stray bits", query(www, 1, withOpt(option(8, 0, 1, 20, 0, 198, 51, 0x6f))), "FORMERR 0/0+opt"},
		{"ECS fam 9", query(www, 1, withOpt(option(8, 0, 9, 24, 0, 198, 51, 100))), "FORMERR 0/0+opt"},
		{"ECS /33", query(www, 1, withOpt(option(8, 0, 1, 33, 0, 198, 51, 100, 1, 0))), "FORMERR 0/0+opt"},
		{"ECS v6 /129", query(www, 1, withOpt(option(8, append([]byte{0, 2, 129, 0}, make([]byte, 17)...)...))), "FORMERR 0/0+opt"},
		{"ECS of 3 octets", query(www, 1, withOpt(option(8, 0, 1, 0))), "FORMERR 0/0+opt"},
		{"ECS twice", query(www, 1, withOpt(option(8, 0, 1, 0, 0), option(8, 0, 1, 0, 0))), "FORMERR 0/0+opt"},
		{"ECS on a steered name", query("api.example.org", 1, withOpt(option(8, 0, 1, 24, 0, 203, 0, 113))), "NOERROR/aa 2/0+opt,8(scope24)"},
		{"ECS v6 on a steered name", query("api.example.org", 28, withOpt(option(8, 0, 2, 56, 0, 0x20, 1, 0xd, 0xb8, 0, 1, 0))), "NOERROR/aa 1/0+opt,8(scope48)"},
		{"ECS refused", query("www.example.com", 1, withOpt(option(8, 0, 1, 24, 0, 198, 51, 100))), "REFUSED 0/0+opt,8(scope0)"},
		{"ECS on NXDOMAIN", query("nx.example.org", 1, withOpt(option(8, 0, 1, 24, 0, 198, 51, 100))), "NXDOMAIN/aa 0/1+opt,8(scope0)"},
		{"cookie 4B", query(www, 1, withOpt(option(10, 1, 2, 3, 4))), "NOERROR/aa 1/0+opt"},
		{"cookie 8B", query(www, 1, withOpt(option(10, 1, 2, 3, 4, 5, 6, 7, 8))), "NOERROR/aa 1/0+opt"},
		{"NSID", query(www, 1, withOpt(option(3))), "NOERROR/aa 1/0+opt,3"},
		{"opt len overrun", query(www, 1, func(m *message) { withOpt(option(65001, 1, 2, 3))(m); m.rdlengthCut = 1 }), "FORMERR 0/0+opt"},
		{"RDLENGTH overrun", query(www, 1, func(m *message) { withOpt(option(65001, 1, 2, 3))(m); m.truncateTo = 12 + 21 + 14 }), "FORMERR 0/0"},
		{"AXFR", query("example.org", 252, nil), "REFUSED 0/0"},
	} {
		t.Run(c.probe, func(t *testing.T) {
			msg := c.msg.pack()
			reply := srv.ReplyUDP(msg, resolver)
			if got := cell(t, reply); got != c.want {
				t.Errorf("got %s, want %s\nquery %x\nreply %x", got, c.want, msg, reply)
			}
			if reply != nil {
				checkEcho(t, msg, reply)
			}
		})
	}
}

// cell sums up a reply, decoded by the library.
func cell(t *testing.T, reply []byte) string {
	t.Helper()
	if reply == nil {
		return "-"
	}
	var m dns.Msg
	if err := m.Unpack(reply); err != nil {
		t.Fatalf("the reply does not decode: %v\n%s", err, hex.Dump(reply))
	}
	rcode := dns.RcodeToString[m.Rcode]
	if m.Rcode == dns.RcodeBadVers {
		rcode = "BADVERS"
	}
	var s strings.Builder
	s.WriteString(rcode)
	if m.Authoritative {
		s.WriteString("/aa")
	}
	s.WriteString(fmt.Sprintf(" %d/%d", len(m.Answer), len(m.Ns)))
	if opt := m.IsEdns0(); opt != nil {
		s.WriteString("+opt")
		if opt.Version() != 0 || opt.UDPSize() != 1232 || opt.Hdr.Ttl&0x7fff != 0 {
			t.Errorf("OPT: %v, want version 0, size 1232, no flag but DO", opt)
		}
		for _, o := range opt.Option {
			s.WriteString(fmt.Sprintf(",%d", o.Option()))
			if ecs, ok := o.(*dns.EDNS0_SUBNET); ok {
				s.WriteString(fmt.Sprintf("(scope%d)", ecs.SourceScope))
			}
		}
	}
	return s.String()
}

// checkEcho wants the id, opcode and RD of the query, QR set and RA, Z, AD and CD
// clear, the question octet by octet or not at all, and of a client subnet all
// but the scope.
func checkEcho(t *testing.T, msg, reply []byte) {
	t.Helper()
	flags := binary.BigEndian.Uint16(reply[2:])
	if want := binary.BigEndian.Uint16(msg[2:])&0x7900 | 0x8000; flags&0xf9f0 != want {
		t.Errorf("flags %04x, want %04x but for AA, TC and the rcode", flags, want)
	}
	if !bytes.Equal(reply[:2], msg[:2]) {
		t.Errorf("id %x, want %x", reply[:2], msg[:2])
	}
	if binary.BigEndian.Uint16(reply[4:]) == 0 {
		return
	}
	end := 12
	for reply[end] != 0 {
		end += 1 + int(reply[end])
	}
	if question := reply[12 : end+5]; !bytes.HasPrefix(msg[12:], question) {
		t.Errorf("question %x is not that of the query", question)
	}
}

func TestSubnetEcho(t *testing.T) {
	srv := server(t, example(t))
	msg := query("api.example.org", 1, withOpt(option(8, 0, 1, 20, 0, 203, 0, 0x70))).pack()
	reply := srv.ReplyUDP(msg, netip.MustParseAddr("192.0.2.99"))
	if want := option(8, 0, 1, 20, 24, 203, 0, 0x70); !bytes.HasSuffix(reply, want) {
		t.Errorf("reply %x does not end in %x", reply, want)
	}
}

func TestDOCopied(t *testing.T) {
	srv := server(t, example(t))
	for _, flags := range []uint16{0, 0x8000} {
		msg := query("www.example.org", 1, func(m *message) { m.optCount, m.optFlags = 1, flags }).pack()
		var m dns.Msg
		if err := m.Unpack(srv.ReplyUDP(msg, netip.MustParseAddr("192.0.2.99"))); err != nil {
			t.Fatal(err)
		}
		if got, want := m.IsEdns0().Do(), flags != 0; got != want {
			t.Errorf("DO = %v, want %v", got, want)
		}
	}
}

// The owner of an answer keeps the case that was asked, and is a pointer to it.
func TestCasePreserved(t *testing.T) {
	srv := server(t, example(t))
	msg := query("wWw.ExAmPlE.oRg", 1, nil).pack()
	reply := srv.ReplyUDP(msg, netip.MustParseAddr("192.0.2.99"))
	if got, want := len(reply), len(msg)+16; got != want {
		t.Errorf("reply of %d octets, want %d: question and a record behind a pointer", got, want)
	}
	var m dns.Msg
	if err := m.Unpack(reply); err != nil {
		t.Fatal(err)
	}
	if got, want := m.Answer[0].Header().Name, "wWw.ExAmPlE.oRg."; got != want {
		t.Errorf("owner %s, want %s", got, want)
	}
}

// Whatever Resolve returns is what arrives, compression or not.
func TestReplyEqualsResolve(t *testing.T) {
	s := example(t)
	srv := server(t, s)
	for _, name := range []string{"www", "alias2", "sub", "x.sub", "tocut", "a.wild", "nx", "api", "toapi", "loop1", "odd", "mixed.case"} {
		for _, typ := range []string{"A", "AAAA", "TXT", "NS", "CNAME", "ANY", "DS"} {
			question := name + ".example.org. " + typ
			a := ask(t, s, question, "")
			msg := query(name+".example.org", dns.StringToType[typ], nil).pack()
			var m dns.Msg
			if err := m.Unpack(srv.ReplyTCP(msg, netip.MustParseAddr("203.0.113.5"))); err != nil {
				t.Fatalf("%s: %v", question, err)
			}
			for _, c := range []struct {
				got  []dns.RR
				want []dnsserver.Record
			}{{m.Answer, a.Answer}, {m.Ns, a.Authority}, {m.Extra, a.Additional}} {
				var lines strings.Builder
				for _, rr := range c.got {
					lines.WriteString(rr.String() + "\n")
				}
				if got, want := zoneText(t, lines.String()), text(c.want); got != want {
					t.Errorf("%s: on the wire\n%s\nwant\n%s", question, got, want)
				}
			}
		}
	}
}

// A fault while a table decides gives the static default, and is counted.
func TestPanicFallsBack(t *testing.T) {
	srv := server(t, example(t).Break())
	var m dns.Msg
	if err := m.Unpack(srv.ReplyUDP(query("api.example.org", 1, nil).pack(), netip.MustParseAddr("203.0.113.5"))); err != nil {
		t.Fatal(err)
	}
	if len(m.Answer) != 1 || m.Answer[0].(*dns.A).A.String() != "198.51.100.10" {
		t.Errorf("got %v, want the address of r0", m.Answer)
	}
	if got := srv.Stats(); got.Panics != 1 || got.Steered[dnsserver.FromDefault] != 1 {
		t.Errorf("stats %+v, want one panic and one default", got)
	}
}

func TestNothingPublished(t *testing.T) {
	srv := server(t, nil)
	if got, want := cell(t, srv.ReplyUDP(query("www.example.org", 1, nil).pack(), netip.MustParseAddr("192.0.2.99"))), "SERVFAIL 0/0"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTruncation(t *testing.T) {
	var zone strings.Builder
	zone.WriteString("@ 60 IN SOA ns.x. h.x. 1 2 3 4 5\n@ 60 IN NS ns.x.\nalias 60 IN CNAME big\n")
	for i := range 100 {
		fmt.Fprintf(&zone, "big 60 IN A 10.0.0.%d\n", i)
		if i < 30 {
			fmt.Fprintf(&zone, "mid 60 IN A 10.0.0.%d\n", i)
			fmt.Fprintf(&zone, "cut 60 IN NS ns%d.cut\nns%d.cut 60 IN A 10.0.0.%d\n", i, i, i)
		}
	}
	srv := server(t, compile(t, []*dnsserver.Zone{parseZone(t, "big.test", zone.String())}, nil, nil))
	resolver := netip.MustParseAddr("192.0.2.99")
	edns := func(size uint16) func(*message) {
		return func(m *message) { m.optCount, m.optSize = 1, size }
	}
	for _, c := range []struct {
		name      string
		change    func(*message)
		tc        bool
		answers   int // of UDP
		authority int
		limit     int
		whole     int // answers over TCP
	}{
		{"big.big.test", nil, true, 0, 0, 512, 100},
		{"big.big.test", edns(512), true, 0, 0, 512, 100},
		{"big.big.test", edns(4096), true, 0, 0, 1232, 100},
		{"alias.big.test", edns(4096), true, 1, 0, 1232, 101}, // the alias is an RRset of its own
		{"mid.big.test", nil, false, 30, 0, 512, 30},          // 510 octets; an OPT record is 11 more
		{"mid.big.test", edns(0), true, 0, 0, 512, 30},
		{"mid.big.test", edns(800), false, 30, 0, 800, 30},
		{"x.cut.big.test", nil, true, 0, 0, 512, 0},          // 30 NS of a delegation
		{"x.cut.big.test", edns(1200), true, 0, 30, 1200, 0}, // the NS fit, but not all of their glue
	} {
		t.Run(c.name, func(t *testing.T) {
			msg := query(c.name, 1, c.change).pack()
			reply := srv.ReplyUDP(msg, resolver)
			var m dns.Msg
			if err := m.Unpack(reply); err != nil {
				t.Fatal(err)
			}
			if m.Truncated != c.tc || len(m.Answer) != c.answers || len(m.Ns) != c.authority || len(reply) > c.limit {
				t.Errorf("TC %v, %d answers, %d authority, %d octets; want %v, %d, %d, at most %d",
					m.Truncated, len(m.Answer), len(m.Ns), len(reply), c.tc, c.answers, c.authority, c.limit)
			}
			if (m.IsEdns0() != nil) != (c.change != nil) {
				t.Errorf("OPT %v", m.IsEdns0())
			}
			if err := m.Unpack(srv.ReplyTCP(msg, resolver)); err != nil {
				t.Fatal(err)
			}
			if m.Truncated || len(m.Answer) != c.whole {
				t.Errorf("over TCP: TC %v, %d answers, want %d", m.Truncated, len(m.Answer), c.whole)
			}
		})
	}
}

// FuzzReply feeds raw messages. Whatever comes in: no panic, silence only for
// responses and for what has no header, and a reply that the library can read,
// with the id and the question of the message, within the size it may have.
func FuzzReply(f *testing.F) {
	for _, m := range []message{
		query("www.example.org", 1, nil),
		query("api.example.org", 28, withOpt(option(8, 0, 2, 56, 0, 0x20, 1, 0xd, 0xb8, 0, 1, 0), option(3), option(10, 1, 2, 3, 4, 5, 6, 7, 8))),
		query("a.sub.example.org", 1, withOpt(option(8, 0, 1, 24, 0, 203, 0, 113))),
		query("id.server", 16, func(m *message) { m.class = 3 }),
		query("toapi.example.org", 255, func(m *message) { m.twoQDs = true }),
		query("", 1, func(m *message) { m.question = []byte{0xc0, 12, 0, 1, 0, 1} }),
		query("example.org", 6, func(m *message) { m.optCount, m.tail = 2, []byte("junk") }),
		query("x.wild.example.org", 1, func(m *message) { m.flags = 0x2800 }),
	} {
		f.Add(m.pack())
	}
	srv := server(f, example(f))
	resolver := netip.MustParseAddr("203.0.113.5")
	f.Fuzz(func(t *testing.T, msg []byte) {
		panics := srv.Stats().Panics
		udp, tcp := srv.ReplyUDP(msg, resolver), srv.ReplyTCP(msg, resolver)
		if srv.Stats().Panics != panics {
			t.Fatalf("a panic while answering %x", msg)
		}
		silent := len(msg) < 12 || msg[2]&0x80 != 0
		if (udp == nil) != silent || (tcp == nil) != silent {
			t.Fatalf("replies %x and %x to %x", udp, tcp, msg)
		}
		if silent {
			return
		}
		for _, reply := range [][]byte{udp, tcp} {
			var m dns.Msg
			if err := m.Unpack(reply); err != nil {
				t.Fatalf("%v in the reply %x to %x", err, reply, msg)
			}
			checkEcho(t, msg, reply)
		}
		if len(udp) > 1232 {
			t.Fatalf("%d octets over UDP", len(udp))
		}
	})
}
