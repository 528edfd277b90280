package dnsserver_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"strandline/dnsserver"
	"strandline/router"
)

const exampleZone = `
$TTL 3600
@          IN SOA ns1 hostmaster 2026010101 7200 3600 1209600 300
@          IN NS  ns1
@          IN NS  ns2.elsewhere.test.
@          IN TXT "apex"
@          IN MX  10 www
ns1        IN A   192.0.2.53
www    60  IN A   192.0.2.1
c.b.ent    IN A   192.0.2.2
*.wild     IN A   192.0.2.3
*.wild     IN TXT "w"
x.ent.wild IN A   192.0.2.4
f.*.e      IN A   192.0.2.5
alias      IN CNAME www
alias2     IN CNAME alias
dangling   IN CNAME nothing
outside    IN CNAME www.elsewhere.test.
loop1      IN CNAME loop2
loop2      IN CNAME loop1
tocut      IN CNAME a.sub
toapi      IN CNAME api
*.cwild    IN CNAME www
sub        IN NS  ns.sub
sub        IN NS  ns.other.test.
sub        IN DS  1 13 2 0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20
ns.sub     IN A   192.0.2.9
ns.sub     IN AAAA 2001:db8::9
api        IN TXT "beside the steered addresses"
odd        IN TYPE65280 \# 3 010203
Mixed.Case IN A   192.0.2.6
`

// tableOf makes a table with the given shares, a row per frontend f0, f1, …, a
// column per region r0, r1, …; the network delay grows with the column.
func tableOf(t testing.TB, epoch uint64, shares [][]float64, clients []router.Client, down ...string) *router.Table {
	t.Helper()
	w, p := &router.World{}, &router.Plan{}
	for j := range shares[0] {
		name := "r" + string(rune('0'+j))
		w.Regions = append(w.Regions, router.Region{Name: name, Service: router.Service{Kind: "hyperbolic", Mu: 10, Kappa: 10}})
		p.Regions = append(p.Regions, router.RegionPlan{Name: name, PriceS: 1})
	}
	for i, row := range shares {
		name := "f" + string(rune('0'+i))
		w.Frontends = append(w.Frontends, router.Frontend{Name: name, RateHz: 1})
		p.Frontends = append(p.Frontends, router.FrontendPlan{Name: name, RateHz: 1, Shares: row})
		var delays []*float64
		for j := range row {
			delays = append(delays, new(0.01*float64(j+1)))
		}
		w.Latency.Matrix = append(w.Latency.Matrix, delays)
	}
	table, err := router.NewTable(epoch, w, p, clients, "f0", down)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func parseZone(t testing.TB, name, text string) *dnsserver.Zone {
	t.Helper()
	z, err := dnsserver.ParseZone(name, name+".zone", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func name(t testing.TB, s string) dnsserver.Name {
	t.Helper()
	n, err := dnsserver.ParseName(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func addrs(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

// apiSteer is api.example.org over three regions: r0 and r1 of both families (r1
// with two addresses), r2 of IPv4 only.
func apiSteer(allDown dnsserver.AllDown) dnsserver.Steer {
	return dnsserver.Steer{Name: "api.example.org", TTL: 20 * time.Second, AllDown: allDown, Regions: []dnsserver.SteerRegion{
		{Name: "r0", Addrs: addrs("198.51.100.10", "2001:db8:a::10")},
		{Name: "r1", Addrs: addrs("198.51.100.20", "198.51.100.21", "2001:db8:a::20")},
		{Name: "r2", Addrs: addrs("198.51.100.30")},
	}}
}

// apiTable sends 203.0.113.0/24 to r1, 203.0.112.0/24 to r2, 2001:db8:1::/48 to
// r1 and everybody else to r0.
func apiTable(t testing.TB, epoch uint64, down ...string) *router.Table {
	t.Helper()
	return tableOf(t, epoch, [][]float64{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, []router.Client{
		{Prefix: netip.MustParsePrefix("203.0.113.0/24"), Frontend: "f1"},
		{Prefix: netip.MustParsePrefix("203.0.112.0/24"), Frontend: "f2"},
		{Prefix: netip.MustParsePrefix("2001:db8:1::/48"), Frontend: "f1"},
	}, down...)
}

func compile(t testing.TB, zones []*dnsserver.Zone, steer []dnsserver.Steer, table *router.Table) *dnsserver.Snapshot {
	t.Helper()
	s, err := dnsserver.Compile(zones, steer, table)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// example is the example zone with api steered by apiTable.
func example(t testing.TB) *dnsserver.Snapshot {
	t.Helper()
	return compile(t, []*dnsserver.Zone{parseZone(t, "example.org", exampleZone)},
		[]dnsserver.Steer{apiSteer(dnsserver.LastGood)}, apiTable(t, 7))
}

// ask resolves a question of the form "www.example.org. A"; the resolver is
// 203.0.113.5 and subnet may be empty.
func ask(t testing.TB, s *dnsserver.Snapshot, question, subnet string) dnsserver.Answer {
	t.Helper()
	owner, typ, _ := strings.Cut(question, " ")
	q := dnsserver.Query{Name: name(t, owner), Type: dnsserver.Type(dns.StringToType[typ]), Class: dnsserver.ClassIN,
		Resolver: netip.MustParseAddr("203.0.113.5")}
	if n, ok := strings.CutPrefix(typ, "TYPE"); ok {
		for _, c := range n {
			q.Type = q.Type*10 + dnsserver.Type(c-'0')
		}
	}
	if subnet != "" {
		q.Subnet, q.HasSubnet = netip.MustParsePrefix(subnet), true
	}
	return dnsserver.Resolve(s, q)
}

// text returns the records as sorted lines with single blanks.
func text(records []dnsserver.Record) string {
	var lines []string
	for _, r := range records {
		lines = append(lines, strings.Join(strings.Fields(r.String()), " "))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// zoneText normalises expected records given as zone text.
func zoneText(t testing.TB, s string) string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		rr, err := dns.NewRR(line)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.Join(strings.Fields(rr.String()), " "))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func parsed(t testing.TB, name, text string) []*dnsserver.Zone {
	return []*dnsserver.Zone{parseZone(t, name, text)}
}
