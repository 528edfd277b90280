package dnsserver_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"strandline/dnsserver"
	"strandline/router"
)

const (
	api0   = "api.example.org. 20 IN A 198.51.100.10"
	api1   = "api.example.org. 20 IN A 198.51.100.20\napi.example.org. 20 IN A 198.51.100.21"
	api2   = "api.example.org. 20 IN A 198.51.100.30"
	api0v6 = "api.example.org. 20 IN AAAA 2001:db8:a::10"
	api1v6 = "api.example.org. 20 IN AAAA 2001:db8:a::20"
)

func TestSteer(t *testing.T) {
	s := example(t)
	for _, c := range []struct {
		question, subnet string
		answer           string
		authority        string
		scope            int
		region           string
		frontend         string
	}{
		// 203.0.113.0/24 is f1's and its neighbour 203.0.112.0/24 f2's.
		{question: "api.example.org. A", subnet: "203.0.113.0/24", answer: api1, scope: 24, region: "r1", frontend: "f1"},
		{question: "api.example.org. A", subnet: "203.0.113.77/32", answer: api1, scope: 24, region: "r1", frontend: "f1"},
		{question: "api.example.org. AAAA", subnet: "203.0.113.0/24", answer: api1v6, scope: 24, region: "r1", frontend: "f1"},
		{question: "api.example.org. A", subnet: "2001:db8:1:2::/64", answer: api1, scope: 48, region: "r1", frontend: "f1"},
		{question: "api.example.org. A", subnet: "203.0.114.0/24", answer: api0, scope: 23, region: "r0", frontend: "f0"},
		{question: "api.example.org. A", subnet: "8.0.0.0/8", answer: api0, scope: 1, region: "r0", frontend: "f0"},
		// A shorter source than the scope: the answer for what was given, and what we would like.
		{question: "api.example.org. A", subnet: "203.0.0.0/16", answer: api0, scope: 18, region: "r0", frontend: "f0"},
		// r2 has no IPv6 address: the next region that has one.
		{question: "api.example.org. A", subnet: "203.0.112.0/24", answer: api2, scope: 24, region: "r2", frontend: "f2"},
		{question: "api.example.org. AAAA", subnet: "203.0.112.0/24", answer: api0v6, scope: 24, region: "r0", frontend: "f2"},
		// Length 0, or no subnet at all: the resolver, 203.0.113.5.
		{question: "api.example.org. A", subnet: "0.0.0.0/0", answer: api1, region: "r1", frontend: "f1"},
		{question: "api.example.org. A", subnet: "::/0", answer: api1, region: "r1", frontend: "f1"},
		{question: "api.example.org. A", answer: api1, region: "r1", frontend: "f1"},
		// Private addresses say nothing about a place: the resolver, for the whole range.
		{question: "api.example.org. A", subnet: "10.1.2.0/24", answer: api1, scope: 8, region: "r1", frontend: "f1"},
		{question: "api.example.org. A", subnet: "fd00:1::/56", answer: api1, scope: 7, region: "r1", frontend: "f1"},
		// Through an alias the scope and the decision are the steered name's.
		{question: "toapi.example.org. A", subnet: "203.0.112.0/24", answer: "toapi.example.org. 3600 IN CNAME api.example.org.\n" + api2,
			scope: 24, region: "r2", frontend: "f2"},
	} {
		t.Run(c.question+c.subnet, func(t *testing.T) {
			a := ask(t, s, c.question, c.subnet)
			if got, want := text(a.Answer), zoneText(t, c.answer); got != want {
				t.Errorf("answer:\n%s\nwant\n%s", got, want)
			}
			if a.Scope != c.scope {
				t.Errorf("scope = %d, want %d", a.Scope, c.scope)
			}
			d := a.Decision
			if d == nil {
				t.Fatal("no decision")
			}
			if d.Region != c.region || d.Frontend != c.frontend || d.Epoch != 7 || d.Source != dnsserver.FromTable || d.Name != "api.example.org" {
				t.Errorf("decision = %+v", *d)
			}
		})
	}
}

// What the server answers is what the table explains.
func TestSteerAgreesWithExplain(t *testing.T) {
	table := tableOf(t, 3, [][]float64{{0.2, 0.5, 0.3}}, nil)
	s := compile(t, []*dnsserver.Zone{parseZone(t, "example.org", exampleZone)}, []dnsserver.Steer{apiSteer("")}, table)
	seen := map[string]int{}
	for i := range 200 {
		subnet := netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(i), 0}), 24)
		a := ask(t, s, "API.example.org. A", subnet.String())
		e := table.Explain("api.example.org", subnet)
		if a.Decision.Region != e.Region || a.Scope != e.Scope || a.Decision.Key != e.Key {
			t.Fatalf("%v: answered %+v, explained %+v", subnet, *a.Decision, e)
		}
		seen[e.Region]++
	}
	if len(seen) != 3 {
		t.Errorf("regions answered: %v, want all three", seen)
	}
}

// Names below the apex that only lead to a steered name exist.
func TestSteerEmptyNonTerminal(t *testing.T) {
	st := apiSteer("")
	st.Name = "api.deep.new.example.org"
	s := compile(t, []*dnsserver.Zone{parseZone(t, "example.org", exampleZone)}, []dnsserver.Steer{st}, apiTable(t, 1))
	if a := ask(t, s, "deep.new.example.org. A", ""); a.Rcode != dnsserver.Success || len(a.Authority) != 1 {
		t.Errorf("empty non-terminal: %v %s", a.Rcode, text(a.Authority))
	}
	if a := ask(t, s, "x.deep.new.example.org. A", ""); a.Rcode != dnsserver.NXDomain {
		t.Errorf("beside the steered name: %v, want NXDOMAIN", a.Rcode)
	}
	if a := ask(t, s, "api.deep.new.example.org. TXT", ""); a.Rcode != dnsserver.Success || len(a.Authority) != 1 {
		t.Errorf("other type: %v %s", a.Rcode, text(a.Authority))
	}
	if a := ask(t, s, "api.deep.new.example.org. A", ""); len(a.Answer) != 2 {
		t.Errorf("steered name: %s", text(a.Answer))
	}
}

func TestSteerDown(t *testing.T) {
	zones := []*dnsserver.Zone{parseZone(t, "example.org", exampleZone)}
	snapshot := func(allDown dnsserver.AllDown, epoch uint64, down ...string) *dnsserver.Snapshot {
		return compile(t, zones, []dnsserver.Steer{apiSteer(allDown)}, apiTable(t, epoch, down...))
	}
	all := []string{"r0", "r1", "r2"}
	good := snapshot(dnsserver.LastGood, 1, "r1") // f1 is moved to r0
	for _, c := range []struct {
		title  string
		s      *dnsserver.Snapshot
		answer string
		source dnsserver.Source
		epoch  uint64
	}{
		{"one down", good, api0, dnsserver.FromTable, 1},
		{"last good", snapshot(dnsserver.LastGood, 2, all...).After(good), api0, dnsserver.FromLastGood, 1},
		{"last good, again down", snapshot(dnsserver.LastGood, 3, all...).After(snapshot(dnsserver.LastGood, 2, all...).After(good)), api0, dnsserver.FromLastGood, 1},
		{"back", snapshot(dnsserver.LastGood, 4).After(snapshot(dnsserver.LastGood, 2, all...).After(good)), api1, dnsserver.FromTable, 4},
		{"down from the start", snapshot(dnsserver.LastGood, 2, all...).After(nil), api1, dnsserver.FromDown, 2},
		{"nodata", snapshot(dnsserver.NoData, 2, all...).After(good), "", dnsserver.FromTable, 2},
	} {
		t.Run(c.title, func(t *testing.T) {
			a := ask(t, c.s, "api.example.org. A", "203.0.113.0/24")
			if got, want := text(a.Answer), zoneText(t, c.answer); got != want {
				t.Errorf("answer:\n%s\nwant\n%s", got, want)
			}
			if a.Decision.Source != c.source || a.Decision.Epoch != c.epoch {
				t.Errorf("decision = %+v, want from %s of epoch %d", *a.Decision, c.source, c.epoch)
			}
			if wantSOA := c.answer == ""; (len(a.Authority) == 1) != wantSOA || a.Rcode != dnsserver.Success {
				t.Errorf("rcode %v, authority %s", a.Rcode, text(a.Authority))
			}
			if a.Scope != 24 {
				t.Errorf("scope = %d, want 24 whatever the state", a.Scope)
			}
		})
	}
}

// A name that uses some regions only: while those are down the others do not
// help, and the static default answers when there is nothing else.
func TestSteerOwnRegionsDown(t *testing.T) {
	st := apiSteer("")
	st.Regions = st.Regions[2:]
	s := compile(t, []*dnsserver.Zone{parseZone(t, "example.org", exampleZone)}, []dnsserver.Steer{st}, apiTable(t, 1, "r2"))
	a := ask(t, s, "api.example.org. A", "203.0.113.0/24")
	if a.Decision.Source != dnsserver.FromDefault || text(a.Answer) != zoneText(t, api2) || a.Scope != 0 {
		t.Errorf("%+v\n%s", *a.Decision, text(a.Answer))
	}
	if a := ask(t, s, "api.example.org. AAAA", "203.0.113.0/24"); len(a.Answer) != 0 || a.Scope != 0 || len(a.Authority) != 1 {
		t.Errorf("a family that no region has: %+v", a)
	}
}

// The scope tells the truth: whoever lies inside it gets the same answer. The
// oracle is asking.
func TestScopeTruth(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 1))
	zones := []*dnsserver.Zone{parseZone(t, "example.org", exampleZone)}
	outside := 0
	for range 60 {
		table := randomTable(t, rng)
		s := compile(t, zones, []dnsserver.Steer{apiSteer(dnsserver.NoData)}, table)
		for range 100 {
			client, question := randomClient(rng), "api.example.org. A"
			if rng.IntN(2) == 0 {
				question += "AAA"
			}
			a := ask(t, s, question, client.String())
			if a.Scope > client.Bits() {
				outside++ // the answer is for the prefix as given, which is all the resolver may cache
				continue
			}
			scope := netip.PrefixFrom(client.Addr(), a.Scope).Masked()
			for range 10 {
				other := randomInside(rng, scope)
				if placeless(other) {
					continue
				}
				b := ask(t, s, question, other.String())
				if !same(a.Answer, b.Answer) || a.Scope != b.Scope {
					t.Fatalf("seed %d: %v gets %s /%d, but %v inside it gets %s /%d", seed,
						client, a.Decision.Region, a.Scope, other, b.Decision.Region, b.Scope)
				}
			}
		}
	}
	if outside > 5000 {
		t.Errorf("seed %d: %d of 6000 clients were not tested", seed, outside)
	}
}

func same(a, b []dnsserver.Record) bool {
	return slices.EqualFunc(a, b, func(a, b dnsserver.Record) bool {
		return a.Type == b.Type && a.TTL == b.TTL && bytes.Equal(a.Data, b.Data)
	})
}

// randomTable has two frontends or three, split or not, some regions down, and
// entries that nest and touch.
func randomTable(t *testing.T, rng *rand.Rand) *router.Table {
	shares := make([][]float64, 2+rng.IntN(2))
	for i := range shares {
		shares[i] = make([]float64, 3)
		shares[i][rng.IntN(3)] = 0.5
		shares[i][rng.IntN(3)] += 0.5
	}
	var clients []router.Client
	seen := map[netip.Prefix]bool{}
	for range rng.IntN(12) {
		p := randomClient(rng)
		if !seen[p] {
			seen[p] = true
			clients = append(clients, router.Client{Prefix: p, Frontend: fmt.Sprintf("f%d", rng.IntN(len(shares)))})
		}
	}
	var down []string
	for j := range 3 {
		if rng.IntN(3) == 0 {
			down = append(down, fmt.Sprintf("r%d", j))
		}
	}
	return tableOf(t, 1, shares, clients, down...)
}

// randomClient is a prefix of 1 bit or more out of a small part of the address
// space, so that prefixes nest.
func randomClient(rng *rand.Rand) netip.Prefix {
	if rng.IntN(2) == 0 {
		addr := netip.AddrFrom4([4]byte{203, 0, byte(rng.IntN(4)), byte(rng.IntN(256))})
		return netip.PrefixFrom(addr, 8+rng.IntN(25)).Masked()
	}
	addr := netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, 0, byte(rng.IntN(4)), byte(rng.IntN(4)), byte(rng.IntN(256))})
	return netip.PrefixFrom(addr, 24+rng.IntN(41)).Masked()
}

// randomInside is a whole address, or a prefix at least as long as p, inside p.
func randomInside(rng *rand.Rand, p netip.Prefix) netip.Prefix {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < 8*len(b); i++ {
		if rng.IntN(2) == 0 {
			b[i/8] |= 0x80 >> (i % 8)
		}
	}
	addr, _ := netip.AddrFromSlice(b)
	bits := p.Bits() + rng.IntN(addr.BitLen()-p.Bits()+1)
	return netip.PrefixFrom(addr, max(1, bits)).Masked()
}

// placeless prefixes are answered for the resolver.
func placeless(p netip.Prefix) bool {
	a := p.Addr()
	return a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || netip.MustParsePrefix("100.64.0.0/10").Contains(a) ||
		netip.MustParsePrefix("127.0.0.0/8").Contains(a)
}
