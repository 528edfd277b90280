package dnsserver_test

import (
	"strconv"
	"strings"
	"testing"

	"strandline/dnsserver"
)

const (
	negative = "example.org. 300 IN SOA ns1.example.org. hostmaster.example.org. 2026010101 7200 3600 1209600 300"
	cutNS    = "sub.example.org. 3600 IN NS ns.sub.example.org.\nsub.example.org. 3600 IN NS ns.other.test."
	cutGlue  = "ns.sub.example.org. 3600 IN A 192.0.2.9\nns.sub.example.org. 3600 IN AAAA 2001:db8::9"
)

func TestResolve(t *testing.T) {
	s := example(t)
	for _, c := range []struct {
		question   string
		rcode      dnsserver.Rcode
		referral   bool // AA clear
		answer     string
		authority  string
		additional string
	}{
		{question: "www.example.org. A", answer: "www.example.org. 60 IN A 192.0.2.1"},
		{question: "wWw.eXample.ORG. A", answer: "wWw.eXample.ORG. 60 IN A 192.0.2.1"},
		{question: "mixed.case.example.org. A", answer: "mixed.case.example.org. 3600 IN A 192.0.2.6"},
		{question: "www.example.org. AAAA", authority: negative},
		{question: "example.org. MX", answer: "example.org. 3600 IN MX 10 www.example.org."},
		{question: "example.org. SOA", answer: strings.Replace(negative, " 300 IN", " 3600 IN", 1)},
		{question: "example.org. NS", answer: "example.org. 3600 IN NS ns1.example.org.\nexample.org. 3600 IN NS ns2.elsewhere.test."},
		{question: "example.org. A", authority: negative},
		{question: "nothing.example.org. A", rcode: dnsserver.NXDomain, authority: negative},
		{question: "a.www.example.org. A", rcode: dnsserver.NXDomain, authority: negative},
		{question: "odd.example.org. TYPE65280", answer: `odd.example.org. 3600 CLASS1 TYPE65280 \# 3 010203`},
		{question: "www.example.org. TYPE65280", authority: negative},

		// Empty non-terminals exist, also under and above a wildcard label.
		{question: "ent.example.org. A", authority: negative},
		{question: "b.ent.example.org. TXT", authority: negative},
		{question: "x.ent.example.org. A", rcode: dnsserver.NXDomain, authority: negative},
		{question: "wild.example.org. A", authority: negative},
		{question: "e.example.org. A", authority: negative},
		{question: "a.e.example.org. A", authority: negative},
		{question: "f.a.e.example.org. A", authority: negative}, // *.e stands in for a.e and for all below it
		{question: "*.e.example.org. A", authority: negative},
		{question: "f.*.e.example.org. A", answer: "f.*.e.example.org. 3600 IN A 192.0.2.5"},

		// Wildcards: any depth, no further than the closest encloser.
		{question: "a.wild.example.org. A", answer: "a.wild.example.org. 3600 IN A 192.0.2.3"},
		{question: "c.b.a.wild.example.org. A", answer: "c.b.a.wild.example.org. 3600 IN A 192.0.2.3"},
		{question: "a.wild.example.org. MX", authority: negative},
		{question: "*.wild.example.org. TXT", answer: `*.wild.example.org. 3600 IN TXT "w"`},
		{question: "a.*.wild.example.org. A", rcode: dnsserver.NXDomain, authority: negative},
		{question: "y.ent.wild.example.org. A", rcode: dnsserver.NXDomain, authority: negative},
		{question: "ent.wild.example.org. A", authority: negative},
		{question: "k.cwild.example.org. A", answer: "k.cwild.example.org. 3600 IN CNAME www.example.org.\nwww.example.org. 60 IN A 192.0.2.1"},

		// Aliases: the rcode is that of the end (RFC 6604).
		{question: "alias.example.org. A", answer: "alias.example.org. 3600 IN CNAME www.example.org.\nwww.example.org. 60 IN A 192.0.2.1"},
		{question: "alias.example.org. CNAME", answer: "alias.example.org. 3600 IN CNAME www.example.org."},
		{question: "alias.example.org. ANY", answer: "alias.example.org. 3600 IN CNAME www.example.org."},
		{question: "alias2.example.org. TXT", answer: "alias2.example.org. 3600 IN CNAME alias.example.org.\nalias.example.org. 3600 IN CNAME www.example.org.", authority: negative},
		{question: "dangling.example.org. A", rcode: dnsserver.NXDomain, answer: "dangling.example.org. 3600 IN CNAME nothing.example.org.", authority: negative},
		{question: "outside.example.org. A", answer: "outside.example.org. 3600 IN CNAME www.elsewhere.test."},
		{question: "loop1.example.org. A", answer: "loop1.example.org. 3600 IN CNAME loop2.example.org.\nloop2.example.org. 3600 IN CNAME loop1.example.org."},
		{question: "tocut.example.org. A", answer: "tocut.example.org. 3600 IN CNAME a.sub.example.org.", authority: cutNS, additional: cutGlue},

		// Delegations: at and below, but for DS.
		{question: "sub.example.org. A", referral: true, authority: cutNS, additional: cutGlue},
		{question: "sub.example.org. NS", referral: true, authority: cutNS, additional: cutGlue},
		{question: "ns.sub.example.org. A", referral: true, authority: cutNS, additional: cutGlue},
		{question: "x.y.sub.example.org. ANY", referral: true, authority: cutNS, additional: cutGlue},
		{question: "x.sub.example.org. DS", referral: true, authority: cutNS, additional: cutGlue},
		{question: "sub.example.org. DS", answer: "sub.example.org. 3600 IN DS 1 13 2 0102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F20"},
		{question: "www.example.org. DS", authority: negative},

		{question: "www.example.org. ANY", answer: `www.example.org. 300 IN HINFO "RFC8482" ""`},
		{question: "ent.example.org. ANY", authority: negative},
		{question: "api.example.org. ANY", answer: `api.example.org. 300 IN HINFO "RFC8482" ""`},
		{question: "api.example.org. TXT", answer: `api.example.org. 3600 IN TXT "beside the steered addresses"`},
		{question: "api.example.org. MX", authority: negative},
		{question: "www.elsewhere.test. A", rcode: dnsserver.Refused, referral: true},
		{question: "org. A", rcode: dnsserver.Refused, referral: true},
		{question: ". NS", rcode: dnsserver.Refused, referral: true},
		{question: "example.org. AXFR", rcode: dnsserver.Refused, referral: true},
		{question: "example.org. IXFR", rcode: dnsserver.Refused, referral: true},
		{question: "example.org. OPT", rcode: dnsserver.FormErr, referral: true},
		{question: "example.org. TSIG", rcode: dnsserver.FormErr, referral: true},
		{question: "example.org. NXNAME", rcode: dnsserver.FormErr, referral: true},
		{question: "example.org. MAILA", rcode: dnsserver.NotImp, referral: true},
	} {
		t.Run(c.question, func(t *testing.T) {
			a := ask(t, s, c.question, "")
			if a.Rcode != c.rcode {
				t.Errorf("rcode = %v, want %v", a.Rcode, c.rcode)
			}
			if a.Authoritative == c.referral {
				t.Errorf("authoritative = %v, want %v", a.Authoritative, !c.referral)
			}
			for _, section := range []struct {
				name      string
				got, want string
			}{
				{"answer", text(a.Answer), c.answer},
				{"authority", text(a.Authority), c.authority},
				{"additional", text(a.Additional), c.additional},
			} {
				if want := zoneText(t, section.want); section.got != want {
					t.Errorf("%s:\n%s\nwant\n%s", section.name, section.got, want)
				}
			}
			if a.Scope != 0 || a.Decision != nil {
				t.Errorf("scope %d and decision %v for static data", a.Scope, a.Decision)
			}
		})
	}
}

// The chain is cut at 16 aliases, with what was found so far.
func TestResolveLongChain(t *testing.T) {
	var zone strings.Builder
	zone.WriteString("@ 60 IN SOA ns.x. h.x. 1 2 3 4 5\n@ 60 IN NS ns.x.\n")
	for i := range 40 {
		zone.WriteString("c" + strconv.Itoa(i) + " 60 IN CNAME c" + strconv.Itoa(i+1) + "\n")
	}
	s := compile(t, []*dnsserver.Zone{parseZone(t, "chain.test", zone.String())}, nil, nil)
	a := ask(t, s, "c0.chain.test. A", "")
	if got, want := len(a.Answer), 16; got != want || a.Rcode != dnsserver.Success {
		t.Errorf("got %d aliases and %v, want %d and NOERROR", got, a.Rcode, want)
	}
}

// A child zone that is served too answers for itself; its DS is the parent's.
func TestResolveParentAndChild(t *testing.T) {
	child := parseZone(t, "sub.example.org", "@ 60 IN SOA ns h 1 2 3 4 5\n@ 60 IN NS ns\nns 60 IN A 192.0.2.9\n")
	s := compile(t, []*dnsserver.Zone{parseZone(t, "example.org", exampleZone), child}, nil, nil)
	if a := ask(t, s, "ns.sub.example.org. A", ""); len(a.Answer) != 1 || !a.Authoritative {
		t.Errorf("child's data: %+v", a)
	}
	if a := ask(t, s, "sub.example.org. DS", ""); len(a.Answer) != 1 || !a.Authoritative {
		t.Errorf("DS at the cut: %+v", a)
	}
}
