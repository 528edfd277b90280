package router_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"strandline/router"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// twoFrontends is a world in which f0 splits over two equal regions and f1 may
// use r1 only, with r2 idle by distance.
func twoFrontends(t testing.TB) (*router.World, *router.Plan) {
	w := world([]float64{10, 1}, [][2]float64{{10, 10}, {10, 10}, {10, 10}},
		[][]float64{{0, 0, 100}, {forbidden, 0.01, 100}})
	return w, solved(t, w)
}

func table(t testing.TB, clients []router.Client, down ...string) *router.Table {
	t.Helper()
	w, p := twoFrontends(t)
	tab, err := router.NewTable(7, w, p, clients, "f0", down)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func TestLookup(t *testing.T) {
	tab := table(t, []router.Client{
		{prefix("10.0.0.0/8"), "f1"},
		{prefix("10.1.2.0/23"), "f0"},
		{prefix("10.1.3.128/25"), "f1"},
		{prefix("192.0.2.0/25"), "f1"},
		{prefix("192.0.2.128/25"), "f1"}, // with the line before, one /24
		{prefix("2001:db8::/32"), "f1"},
		{prefix("2001:db8:5::/48"), "f0"},
	})
	for _, c := range []struct {
		client, frontend, entry string
		scope                   int
		key                     string
	}{
		{"10.9.9.9/32", "f1", "10.0.0.0/8", 13, "10.9.9.0/24"}, // 10.0.0.0/13 holds 10.1.2.0/23
		{"10.200.0.0/24", "f1", "10.0.0.0/8", 9, "10.200.0.0/24"},
		{"10.1.2.77/32", "f0", "10.1.2.0/23", 24, "10.1.2.0/24"},
		{"10.1.3.1/32", "f0", "10.1.2.0/23", 25, "10.1.3.0/24"},
		{"10.1.3.200/32", "f1", "10.1.3.128/25", 25, "10.1.3.0/24"},
		{"10.0.0.0/8", "f1", "10.0.0.0/8", 16, "10.0.0.0/8"}, // shorter than we would like: answered as given
		{"10.1.0.0/16", "f1", "10.0.0.0/8", 23, "10.1.0.0/16"},
		{"8.0.0.0/6", "f0", "", 24, "8.0.0.0/6"}, // around 10/8, of which it is not inside
		{"192.0.2.1/32", "f1", "192.0.2.0/25", 24, "192.0.2.0/24"},
		{"203.0.113.9/32", "f0", "", 24, "203.0.113.0/24"},
		{"0.0.0.0/0", "f0", "", 0, "0.0.0.0/0"},
		{"::/0", "f0", "", 0, "::/0"},
		{"2001:db8:4::1/128", "f1", "2001:db8::/32", 48, "2001:db8:4::/48"},
		{"2001:db8:5:1::/56", "f0", "2001:db8:5::/48", 48, "2001:db8:5::/48"},
		{"2001:db8:ffff::/48", "f1", "2001:db8::/32", 33, "2001:db8:ffff::/48"},
		{"2001:db9::/48", "f0", "", 48, "2001:db9::/48"},
		{"::ffff:10.1.3.200/128", "f1", "10.1.3.128/25", 25, "10.1.3.0/24"},
	} {
		m := tab.Lookup(prefix(c.client))
		entry := ""
		if m.Entry.IsValid() {
			entry = m.Entry.String()
		}
		if tab.FrontendName(m.Frontend) != c.frontend || entry != c.entry || m.Scope != c.scope || m.Key.String() != c.key {
			t.Errorf("%s: got %s %q scope %d key %v, want %s %q scope %d key %s", c.client,
				tab.FrontendName(m.Frontend), entry, m.Scope, m.Key, c.frontend, c.entry, c.scope, c.key)
		}
	}
	if m := tab.Lookup(netip.Prefix{}); m.Frontend != 0 || m.Scope != 0 || m.Key.IsValid() {
		t.Errorf("no prefix: got %+v, want the default frontend", m)
	}
}

func TestScopeWithoutClients(t *testing.T) {
	w, p := twoFrontends(t)
	for _, c := range []struct {
		fallback string
		scope    int
	}{{"f0", 24}, {"f1", 0}} {
		tab, err := router.NewTable(1, w, p, nil, c.fallback, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := tab.Lookup(prefix("192.0.2.1/32")).Scope; got != c.scope {
			t.Errorf("default %s: got scope %d, want %d", c.fallback, got, c.scope)
		}
	}
	if got := table(t, nil, "r1").Lookup(prefix("192.0.2.1/32")).Scope; got != 0 {
		t.Errorf("one usable region with a share: got scope %d, want 0", got)
	}
}

// randomClients draws nested and touching prefixes from few bits, so that they collide.
func randomClients(rng *rand.Rand, n int) []router.Client {
	var clients []router.Client
	seen := map[netip.Prefix]bool{}
	for range n {
		p := randomPrefix(rng).Masked()
		if !seen[p] {
			seen[p] = true
			clients = append(clients, router.Client{Prefix: p, Frontend: fmt.Sprint("f", rng.IntN(2))})
		}
	}
	return clients
}

// randomPrefix varies only the 6 bits around a /24 (IPv4), the top 3 bits too, or
// the corresponding ones around a /62 (IPv6), across the two words of an address.
func randomPrefix(rng *rand.Rand) netip.Prefix {
	v, top := rng.Uint64N(64), rng.Uint64N(8)
	if rng.IntN(2) == 0 {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(top<<29|v<<5))
		return netip.PrefixFrom(netip.AddrFrom4(b), pickLength(rng, 3, 21, 32))
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], top<<61|v>>3)
	binary.BigEndian.PutUint64(b[8:], v<<61)
	return netip.PrefixFrom(netip.AddrFrom16(b), pickLength(rng, 3, 60, 128))
}

func pickLength(rng *rand.Rand, coarse, fine, all int) int {
	switch rng.IntN(8) {
	case 0:
		return rng.IntN(coarse + 1)
	case 1:
		return all
	}
	return fine + rng.IntN(7)
}

// frontendOf is the linear scan: the longest line around the whole prefix.
func frontendOf(clients []router.Client, p netip.Prefix) (string, netip.Prefix) {
	best := router.Client{Frontend: "f0"}
	for _, c := range clients {
		if c.Prefix.Bits() <= p.Bits() && c.Prefix.Contains(p.Addr()) && (!best.Prefix.IsValid() || c.Prefix.Bits() > best.Prefix.Bits()) {
			best = c
		}
	}
	return best.Frontend, best.Prefix
}

// uniform says whether every address of p has one frontend: the answer can only
// change where a line starts or ends.
func uniform(clients []router.Client, p netip.Prefix, want string) bool {
	all := p.Addr().BitLen()
	if f, _ := frontendOf(clients, netip.PrefixFrom(p.Addr(), all)); f != want {
		return false
	}
	for _, c := range clients {
		if !p.Overlaps(c.Prefix) {
			continue
		}
		for _, a := range []netip.Addr{c.Prefix.Addr(), lastOf(c.Prefix).Next()} {
			if a.IsValid() && p.Contains(a) {
				if f, _ := frontendOf(clients, netip.PrefixFrom(a, all)); f != want {
					return false
				}
			}
		}
	}
	return true
}

func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

func checkLookup(t *testing.T, tab *router.Table, clients []router.Client, q netip.Prefix) {
	t.Helper()
	m := tab.Lookup(q)
	wantFrontend, wantEntry := frontendOf(clients, q.Masked())
	alone, aloneEntry := frontendOf(clients, netip.PrefixFrom(q.Masked().Addr(), q.Addr().BitLen()))
	if alone != wantFrontend && uniform(clients, q.Masked(), alone) { // longer lines cover it all and agree
		wantFrontend, wantEntry = alone, aloneEntry
	}
	if got := tab.FrontendName(m.Frontend); got != wantFrontend || m.Entry != wantEntry {
		t.Fatalf("%v of %v: got %s %v, want %s %v", q, clients, got, m.Entry, wantFrontend, wantEntry)
	}
	first, all := q.Masked().Addr(), q.Addr().BitLen()
	f, _ := frontendOf(clients, netip.PrefixFrom(first, all))
	want := 0
	for !uniform(clients, netip.PrefixFrom(first, want).Masked(), f) {
		want++
	}
	if wantFrontend == "f0" { // f0 splits
		want = max(want, map[int]int{32: router.SplitBits4, 128: router.SplitBits6}[all])
	}
	if q.Bits() == 0 {
		want = 0
	}
	if m.Scope != want {
		t.Fatalf("%v of %v: got scope %d, want %d", q, clients, m.Scope, want)
	}
}

func TestLookupAgainstLinearScan(t *testing.T) {
	rng := seeded(t, 11)
	for range 300 {
		clients := randomClients(rng, rng.IntN(25))
		tab := table(t, clients)
		for range 40 {
			checkLookup(t, tab, clients, randomPrefix(rng))
		}
	}
}

func FuzzLookup(f *testing.F) {
	f.Add([]byte{10, 0, 0, 0, 8, 10, 1, 2, 0, 151, 10, 1, 2, 3, 32})
	f.Add([]byte{0, 0, 0, 0, 128, 255, 255, 255, 255, 32, 255, 255, 255, 255, 31})
	f.Fuzz(func(t *testing.T, b []byte) {
		var clients []router.Client
		seen := map[netip.Prefix]bool{}
		q := prefix("192.0.2.0/24")
		for ; len(b) >= 5; b = b[5:] {
			q = netip.PrefixFrom(netip.AddrFrom4([4]byte(b[:4])), int(b[4]&127)%33)
			if p := q.Masked(); !seen[p] && len(clients) < 40 {
				seen[p] = true
				clients = append(clients, router.Client{Prefix: p, Frontend: fmt.Sprint("f", b[4]>>7)})
			}
		}
		checkLookup(t, table(t, clients), clients, q)
	})
}

func TestNewTableNamesEveryFault(t *testing.T) {
	w, p := twoFrontends(t)
	_, err := router.NewTable(1, w, p, []router.Client{
		{prefix("10.0.0.0/8"), "f1"},
		{netip.Prefix{}, "f1"},
		{prefix("10.0.0.1/8"), "f1"},
		{prefix("::ffff:10.0.0.0/104"), "f1"},
		{prefix("11.0.0.0/8"), "nowhere"},
		{prefix("10.0.0.0/8"), "f0"},
		{prefix("10.0.0.0/8"), "f1"}, // the same again is harmless
	}, "none", []string{"r0", "r9"})
	wantProblems(t, err,
		`down[1] there is no region "r9"`,
		`default_frontend there is no frontend "none"`,
		"clients[1].prefix is not a prefix",
		"clients[2].prefix 10.0.0.1/8 has bits set behind its length; write 10.0.0.0/8",
		"clients[3].prefix IPv4 inside IPv6",
		`clients[4].frontend there is no frontend "nowhere"`,
		"clients[5].prefix 10.0.0.0/8 belongs to f1 already")
	if _, err := router.NewTable(1, reference32(1), p, nil, "f0", nil); err == nil {
		t.Error("a plan of another world: got no error")
	}
}

func TestTableSaysWhatItWasMadeFrom(t *testing.T) {
	tab := table(t, nil, "r2")
	if tab.Epoch() != 7 || tab.Regions() != 3 || tab.RegionName(1) != "r1" || !tab.Down(2) || tab.Down(0) {
		t.Errorf("got epoch %d, %d regions, %s", tab.Epoch(), tab.Regions(), tab.RegionName(1))
	}
	if got := fmt.Sprint(tab.DownNames()); got != "[r2]" {
		t.Errorf("down: got %s", got)
	}
	if tab.AllDown() || !table(t, nil, "r0", "r1", "r2").AllDown() {
		t.Error("AllDown is wrong")
	}
	if _, ok := tab.Frontend("f9"); ok {
		t.Error("found a frontend that does not exist")
	}
	rows := tab.Rows()
	if len(rows) != 3 || rows[2].Epoch != 7 || rows[2].Frontend != "f1" || rows[2].Region != "r1" || rows[2].Share != 1 || rows[2].RateHz != 1 {
		t.Errorf("rows: got %+v", rows)
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	tab := table(t, randomClients(seeded(t, 12), 50))
	client4, client6 := prefix("10.1.2.3/32"), prefix("2001:db8::1/128")
	dst := make([]int, 0, tab.Regions())
	if n := testing.AllocsPerRun(100, func() {
		for _, c := range []netip.Prefix{client4, client6} {
			m := tab.Lookup(c)
			h := router.Hash("api.example.org.", m.Key)
			tab.Pick(m.Frontend, h)
			dst = tab.Order(m.Frontend, h, dst[:0])
		}
	}); n != 0 {
		t.Errorf("got %v allocations per answer, want 0", n)
	}
}
