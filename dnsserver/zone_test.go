package dnsserver_test

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/miekg/dns"

	"strandline/datasets"
	"strandline/dnsserver"
)

const apex = "$TTL 60\n@ IN SOA ns.x. h.x. 1 2 3 4 5\n@ IN NS ns.x.\n" // three lines

// problems splits a joined error.
func problems(t *testing.T, err error) []*datasets.Problem {
	t.Helper()
	if err == nil {
		return nil
	}
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	}
	var out []*datasets.Problem
	for _, e := range list {
		var p *datasets.Problem
		if !errors.As(e, &p) {
			t.Fatalf("%v is not a Problem", e)
		}
		if p.Fix == "" {
			t.Errorf("%v names no fix", p)
		}
		out = append(out, p)
	}
	return out
}

func TestZoneProblems(t *testing.T) {
	for _, c := range []struct {
		title string
		zone  string
		want  []string // the beginning of each message
		bind  bool     // BIND's checker rejects it too
	}{
		{"no SOA", "$TTL 60\n@ IN NS ns.x.\n", []string{"z.zone: t.test. SOA: the zone has no SOA record"}, true},
		{"no NS", "$TTL 60\n@ IN SOA ns.x. h.x. 1 2 3 4 5\n", []string{"z.zone: t.test. NS: the zone has no NS record"}, true},
		{"empty", "", []string{"z.zone: t.test. SOA: the zone has no SOA record", "z.zone: t.test. NS: the zone has no NS record"}, true},
		{"two SOA", apex + "@ IN SOA ns.x. h.x. 2 2 3 4 5\n", []string{"z.zone:2: t.test. SOA: the zone has more than one SOA record"}, true},
		{"SOA below", apex + "a IN SOA ns.x. h.x. 2 2 3 4 5\n", []string{"z.zone:4: a.t.test. SOA: an SOA record belongs to the apex t.test. only"}, true},
		{"outside", apex + "www.other.test. IN A 192.0.2.1\n", []string{"z.zone:4: www.other.test. A: the name is outside the zone t.test."}, false},
		{"dot forgotten", apex + "@ IN A 192.0.2.1\n\n; comment\nwww IN CNAME (\n  t.test )\nwww IN A 192.0.2.1\n",
			[]string{"z.zone:7: www.t.test. CNAME: a name with a CNAME can have nothing else"}, true},
		{"two CNAME", apex + "w IN CNAME a\nw IN CNAME b\n", []string{"z.zone:4: w.t.test. CNAME: a name can have one CNAME only"}, true},
		{"twice", apex + "w IN A 192.0.2.1\nW.T.test. IN A 192.0.2.1\n", []string{"z.zone:5: w.t.test. A: the record is there twice"}, false},
		{"two TTLs", apex + "w 60 IN A 192.0.2.1\nw 61 IN A 192.0.2.2\n", []string{"z.zone:5: w.t.test. A: the TTL 61 differs from 60"}, false},
		{"TTL over 2^31-1", apex + "w 2147483648 IN A 192.0.2.1\n", []string{"z.zone:4: w.t.test. A: the TTL 2147483648 is over 2147483647 s"}, false},
		{"negative TTL", apex + "w -1 IN A 192.0.2.1\n", []string{"z.zone:4:"}, true},
		{"class", apex + "w CH A 192.0.2.1\n", []string{"z.zone:4: w.t.test. A: class CH is not served"}, true},
		{"no data", apex + "w IN A\n", []string{"z.zone:4: w.t.test. A: the record has no data"}, true},
		{"bad address", apex + "w IN A 192.0.2.256\n", []string{"z.zone:4:"}, true},
		{"unknown type", apex + "w IN NONSENSE x\n", []string{"z.zone:4:"}, true},
		{"include", apex + "$INCLUDE /etc/passwd\n", []string{"z.zone:4:20: $INCLUDE: "}, true},
		{"unclosed parenthesis", apex + "w IN TXT ( \"a\"\n", []string{"z.zone:4:"}, true},
		{"DNAME", apex + "d IN DNAME e.test.\n", []string{"z.zone:4: d.t.test. DNAME: records of this type are not served"}, false},
		{"signed", apex + "a IN NSEC b.t.test. A\n", []string{"z.zone:4: a.t.test. NSEC: records of this type are not served"}, false},
		{"wildcard cut", apex + "*.w IN NS ns.x.\n", []string{"z.zone:4: *.w.t.test. NS: a wildcard cannot be a delegation"}, true},
		{"no glue", apex + "s IN NS ns.s\n", []string{"z.zone:4: s.t.test. NS: the server ns.s.t.test. lies inside the delegated zone"}, false},
		{"occluded", apex + "s IN NS ns.x.\nw.s IN TXT \"x\"\ns IN MX 1 m.x.\n",
			[]string{"z.zone:5: w.s.t.test. TXT: the record is hidden by the delegation of s.t.test.", "z.zone:6: s.t.test. MX: the record is hidden"}, false},
		{"all at once", apex + "w IN CNAME a\nw IN TXT \"; no (comment\" ; but (this is\nx.other. IN A 192.0.2.1\n\n\ny 4000000000 IN A 192.0.2.1\n",
			[]string{"z.zone:4: w.t.test. CNAME", "z.zone:6: x.other. A", "z.zone:9: y.t.test. A"}, true},
	} {
		t.Run(c.title, func(t *testing.T) {
			_, err := dnsserver.ParseZone("t.test", "z.zone", strings.NewReader(c.zone))
			got := problems(t, err)
			if len(got) != len(c.want) {
				t.Fatalf("got %d problems, want %d:\n%v", len(got), len(c.want), err)
			}
			for i, p := range got {
				if !strings.HasPrefix(p.Error(), c.want[i]) {
					t.Errorf("got  %v\nwant %s…", p, c.want[i])
				}
			}
			if accepted, known := namedAccepts(t, c.zone); known && accepted == c.bind {
				t.Errorf("named-checkzone accepts: %v", accepted)
			}
		})
	}
}

// namedAccepts asks BIND's checker where it is installed.
func namedAccepts(t *testing.T, zone string) (accepted, known bool) {
	t.Helper()
	checker, err := exec.LookPath("named-checkzone")
	if err != nil {
		return false, false
	}
	file := filepath.Join(t.TempDir(), "zone")
	if err := os.WriteFile(file, []byte(zone), 0o600); err != nil {
		t.Fatal(err)
	}
	return exec.Command(checker, "-i", "local", "t.test", file).Run() == nil, true
}

func TestZoneGood(t *testing.T) {
	z := parseZone(t, "Example.ORG.", exampleZone)
	if got, want := z.Name().String(), "example.org."; got != want {
		t.Errorf("name %s, want %s", got, want)
	}
	if got, want := z.Serial(), uint32(2026010101); got != want {
		t.Errorf("serial %d, want %d", got, want)
	}
	if got, want := z.Records(), 29; got != want {
		t.Errorf("%d records, want %d", got, want)
	}
}

// Every record of the zone is served as it stands there.
func TestZoneServedAsWritten(t *testing.T) {
	s := compile(t, []*dnsserver.Zone{parseZone(t, "t.test", manyTypes)}, nil, nil)
	sets := map[string][]string{}
	zp := dns.NewZoneParser(strings.NewReader(manyTypes), "t.test.", "")
	for rr, ok := zp.Next(); ok; rr, ok = zp.Next() {
		question := rr.Header().Name + " " + dns.TypeToString[rr.Header().Rrtype]
		sets[question] = append(sets[question], rr.String())
	}
	if len(sets) < 10 || zp.Err() != nil {
		t.Fatalf("%d sets, %v", len(sets), zp.Err())
	}
	for question, want := range sets {
		a := ask(t, s, question, "")
		if got, want := text(a.Answer), zoneText(t, strings.Join(want, "\n")); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", question, got, want)
		}
	}
}

const manyTypes = `$ORIGIN t.test.
$TTL 1h
@ SOA ns.x. h.x. ( 1 ; serial
	2h 1h 2w ; and more
	5m )
	NS ns.x.
	MX 10 mail
	MX 20 mail.x.
	CAA 0 issue "ca.x"
mail A 192.0.2.1
	A 192.0.2.2
	AAAA 2001:db8::1
text TXT "one" "two;three" "\"quoted\" (not" three
_sip._udp SRV 1 2 5060 mail
svc HTTPS 1 . alpn=h2 ipv4hint=192.0.2.1
sshfp SSHFP 1 1 0123456789abcdef0123456789abcdef01234567
_443._tcp TLSA 3 1 1 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
ptr PTR mail
naptr NAPTR 100 10 "u" "E2U+sip" "!^.*$!sip:a@b!" .
we\.ird\032name TXT x
$GENERATE 1-3 h$ A 192.0.2.$
`

// The reader's lines do not depend on how the file arrives.
func TestZoneLinesByChunks(t *testing.T) {
	zone := strings.Repeat("; a comment that fills the buffer\n", 1000) + apex + "w CH A 192.0.2.1\n"
	for _, wrap := range []func() error{
		func() error {
			_, err := dnsserver.ParseZone("t.test", "f", iotest.OneByteReader(strings.NewReader(zone)))
			return err
		},
		func() error {
			_, err := dnsserver.ParseZone("t.test", "f", iotest.DataErrReader(strings.NewReader(zone)))
			return err
		},
	} {
		if got := problems(t, wrap()); len(got) != 1 || got[0].Line != 1004 {
			t.Errorf("got %v, want one problem on line 1004", got)
		}
	}
}

func TestZoneReadError(t *testing.T) {
	boom := errors.New("disk on fire")
	if _, err := dnsserver.ParseZone("t.test", "f", iotest.ErrReader(boom)); err == nil || !strings.Contains(err.Error(), "disk on fire") {
		t.Errorf("got %v", err)
	}
}

func TestParseName(t *testing.T) {
	long := strings.Repeat("a.", 126)
	for _, c := range []struct {
		in, out string
		ok      bool
	}{
		{"example.org", "example.org.", true},
		{"Example.ORG.", "Example.ORG.", true},
		{".", ".", true},
		{`a\.b.c`, `a\.b.c.`, true},
		{`\000\255.c`, `\000\255.c.`, true},
		{long + "a", long + "a.", true},
		{long + "ab", "", false},
		{strings.Repeat("a", 63) + ".b", strings.Repeat("a", 63) + ".b.", true},
		{strings.Repeat("a", 64) + ".b", "", false},
		{"", "", false},
		{"a..b", "", false},
		{".a", "", false},
	} {
		n, err := dnsserver.ParseName(c.in)
		if (err == nil) != c.ok {
			t.Errorf("ParseName(%q): %v, want ok %v", c.in, err, c.ok)
		}
		if c.ok && n.String() != c.out {
			t.Errorf("ParseName(%q) = %s, want %s", c.in, n, c.out)
		}
	}
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		n, zone string
		want    bool
	}{
		{"a.b", "b", true}, {"b", "b", true}, {"b", "a.b", false}, {"ab", "b", false}, {"b", ".", true}, {".", ".", true},
		{`x\001b`, "b", false}, // the octets end like the name b, the labels do not
	} {
		if got := name(t, c.n).Within(name(t, c.zone)); got != c.want {
			t.Errorf("%s within %s: %v, want %v", c.n, c.zone, got, c.want)
		}
	}
}

func TestCompileProblems(t *testing.T) {
	zone := parseZone(t, "example.org", exampleZone)
	good := apiSteer("")
	steer := func(change func(*dnsserver.Steer)) []dnsserver.Steer {
		s := apiSteer("")
		change(&s)
		return []dnsserver.Steer{s}
	}
	for _, c := range []struct {
		title string
		zones []*dnsserver.Zone
		steer []dnsserver.Steer
		want  []string
	}{
		{"zone twice", []*dnsserver.Zone{zone, zone}, nil, []string{"dns.zones[1].name: the zone example.org. is there twice"}},
		{"no such zone", []*dnsserver.Zone{zone}, steer(func(s *dnsserver.Steer) { s.Name = "api.elsewhere.test" }),
			[]string{"dns.steer[0].name: api.elsewhere.test lies in none of the served zones"}},
		{"bad name", []*dnsserver.Zone{zone}, steer(func(s *dnsserver.Steer) { s.Name = "a..b" }),
			[]string{`dns.steer[0].name: "a..b" is not a domain name`}},
		{"twice", []*dnsserver.Zone{zone}, []dnsserver.Steer{good, good}, []string{"dns.steer[1].name: api.example.org is steered twice"}},
		{"has addresses", []*dnsserver.Zone{zone}, steer(func(s *dnsserver.Steer) { s.Name = "www.example.org" }),
			[]string{"example.org.zone:9: www.example.org A: the name is steered"}},
		{"is an alias", []*dnsserver.Zone{zone}, steer(func(s *dnsserver.Steer) { s.Name = "ALIAS.example.org." }),
			[]string{"example.org.zone:15: alias.example.org CNAME: the name is steered"}},
		{"below a cut", []*dnsserver.Zone{zone}, steer(func(s *dnsserver.Steer) { s.Name = "api.sub.example.org" }),
			[]string{"dns.steer[0].name: api.sub.example.org is hidden by the delegation of sub.example.org."}},
		{"ttl", []*dnsserver.Zone{zone}, steer(func(s *dnsserver.Steer) { s.TTL = 1500 * time.Millisecond }),
			[]string{"dns.steer[0].ttl: the TTL 1.5s is not a whole number of seconds"}},
		{"no ttl, bad policy, no regions", []*dnsserver.Zone{zone}, steer(func(s *dnsserver.Steer) { s.TTL, s.AllDown, s.Regions = 0, "panic", nil }),
			[]string{"dns.steer[0].ttl: ", `dns.steer[0].all_down: unknown behaviour "panic"`, "dns.steer[0].regions: api.example.org has no region"}},
		{"regions", []*dnsserver.Zone{zone}, steer(func(s *dnsserver.Steer) {
			s.Regions = []dnsserver.SteerRegion{
				{Name: "r0", Addrs: addrs("192.0.2.1", "192.0.2.1")},
				{Name: "r0", Addrs: addrs("192.0.2.2")},
				{Name: "mars", Addrs: []netip.Addr{{}}},
				{Name: "r1"},
			}
		}), []string{
			"dns.steer[0].regions[0].addresses[1]: the address 192.0.2.1 is there twice",
			`dns.steer[0].regions[1].name: the region "r0" is there twice`,
			`dns.steer[0].regions[2].name: the region "mars" is not in the world`,
			`dns.steer[0].regions[2].addresses[0]: "invalid IP" cannot be an A or AAAA record`,
			`dns.steer[0].regions[3].addresses: the region "r1" has no address`,
		}},
		{"server without address", []*dnsserver.Zone{parseZone(t, "t.test", "@ 60 IN SOA ns h 1 2 3 4 5\n@ 60 IN NS ns\n")}, nil,
			[]string{"t.test.zone:2: t.test. NS: the server ns.t.test. has no address"}},
	} {
		t.Run(c.title, func(t *testing.T) {
			_, err := dnsserver.Compile(c.zones, c.steer, apiTable(t, 1))
			got := problems(t, err)
			if len(got) != len(c.want) {
				t.Fatalf("got %d problems, want %d:\n%v", len(got), len(c.want), err)
			}
			for i, p := range got {
				if !strings.HasPrefix(p.Error(), c.want[i]) {
					t.Errorf("got  %v\nwant %s…", p, c.want[i])
				}
			}
		})
	}
	if _, err := dnsserver.Compile([]*dnsserver.Zone{zone}, []dnsserver.Steer{good}, nil); err == nil || !strings.Contains(err.Error(), "no table to steer by") {
		t.Errorf("steered without a table: %v", err)
	}
}

// FuzzZone: any text is a zone or a list of problems, and a zone can be served.
func FuzzZone(f *testing.F) {
	f.Add(exampleZone)
	f.Add(manyTypes)
	f.Add(apex + "$GENERATE 1-3 a$ CNAME b$\n")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(strings.ToUpper(text), "$GENERATE") && len(text) > 200 {
			t.Skip("may be long")
		}
		z, err := dnsserver.ParseZone("example.org", "f", strings.NewReader(text))
		if err != nil {
			return
		}
		s, err := dnsserver.Compile([]*dnsserver.Zone{z}, nil, nil)
		if err != nil {
			return
		}
		if a := ask(t, s, "example.org. SOA", ""); len(a.Answer) != 1 || !a.Authoritative {
			t.Fatalf("no SOA in the answer: %+v", a)
		}
	})
}
