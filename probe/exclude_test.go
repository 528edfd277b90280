package probe_test

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"strandline/probe"
)

func TestParseExclusions(t *testing.T) {
	x, err := probe.ParseExclusions(strings.NewReader(`
# networks that asked not to be probed
192.0.2.0/24
192.0.2.128/25   # inside the first
198.51.100.7
2001:db8:bad::/48
::ffff:203.0.113.0/120
`), "stop.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := x.Len(), 4; got != want {
		t.Errorf("Len = %d, want %d", got, want)
	}
	for addr, want := range map[string]bool{
		"192.0.2.0": true, "192.0.2.255": true, "192.0.3.0": false, "192.0.1.255": false,
		"198.51.100.7": true, "198.51.100.8": false, "::ffff:192.0.2.9": true, "203.0.113.77": true,
		"2001:db8:bad:ffff::1": true, "2001:db8:bae::": false, "::": false,
	} {
		if got := x.Contains(netip.MustParseAddr(addr)); got != want {
			t.Errorf("Contains(%s) = %v, want %v", addr, got, want)
		}
	}
}

func TestParseExclusionsReportsAllFaults(t *testing.T) {
	x, err := probe.ParseExclusions(strings.NewReader("10.0.0.1/8\nexample.org\n10.0.0.0/33\n\nfe80::1%eth0\n"), "stop.txt")
	if x != nil || err == nil {
		t.Fatalf("got %v, %v; want no set and an error", x, err)
	}
	want := []string{
		`stop.txt:1: 10.0.0.1/8 has bits set beyond its length; write 10.0.0.0/8 for the network or 10.0.0.1 for the address`,
		`stop.txt:2: "example.org" is not an address or prefix; write 192.0.2.0/24, 2001:db8::/32 or one address`,
		`stop.txt:3: "10.0.0.0/33" is not a prefix; write 192.0.2.0/24 or 2001:db8::/32`,
		`stop.txt:5: "fe80::1%eth0" is not an address or prefix; write 192.0.2.0/24, 2001:db8::/32 or one address`,
	}
	if got := strings.Split(err.Error(), "\n"); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestParseExclusionsLimits(t *testing.T) {
	_, err := probe.ParseExclusions(strings.NewReader("10.0.0.0/8\n"+strings.Repeat("x", 5000)+"\n"), "stop.txt")
	if err == nil || !strings.Contains(err.Error(), "stop.txt:2: line longer than 4096 bytes") {
		t.Errorf("long line: %v", err)
	}
	_, err = probe.ParseExclusions(strings.NewReader(strings.Repeat("10.0.0.0/8\n", probe.MaxExclusions+1)), "stop.txt")
	if err == nil || !strings.Contains(err.Error(), "stop.txt:1048577: more than 1048576 entries") {
		t.Errorf("long file: %v", err)
	}
	_, err = probe.ParseExclusions(strings.NewReader(strings.Repeat("x\n", 80)), "stop.txt")
	if err == nil || !strings.HasSuffix(err.Error(), "stop.txt: and 30 more problems") {
		t.Errorf("many faults: %v", err)
	}
}

// The set agrees with a scan of the list.
func TestExclusionsAgreeWithScan(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	randomAddr := func() netip.Addr { // few distinct values, so that prefixes nest and meet
		if r.IntN(2) == 0 {
			return netip.AddrFrom4([4]byte{10, byte(r.IntN(3)), byte(r.IntN(3)) << 6, byte(r.IntN(256))})
		}
		return netip.AddrFrom16([16]byte{0x20, 1, 5: byte(r.IntN(3)), 15: byte(r.IntN(256))})
	}
	for range 300 {
		var list []netip.Prefix
		for range r.IntN(20) {
			a := randomAddr()
			list = append(list, netip.PrefixFrom(a, r.IntN(a.BitLen()+1)))
		}
		x := probe.NewExclusions(list...)
		for range 50 {
			a := randomAddr()
			want := false
			for _, p := range list {
				want = want || p.Masked().Contains(a)
			}
			if got := x.Contains(a); got != want {
				t.Fatalf("seed %d: %v: Contains(%s) = %v, want %v", seed, list, a, got, want)
			}
		}
	}
}

func TestNilExclusions(t *testing.T) {
	var x *probe.Exclusions
	if x.Contains(netip.MustParseAddr("192.0.2.1")) || x.Len() != 0 {
		t.Error("nil set is not empty")
	}
}

func FuzzParseExclusions(f *testing.F) {
	for _, s := range []string{"", "10.0.0.0/8\n", "# c\n::1 # d\r\n2001:db8::/32", "::ffff:1.2.3.4/100", "1.2.3.4/", "\x00/1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		x, err := probe.ParseExclusions(strings.NewReader(s), "f")
		if (x == nil) != (err != nil) {
			t.Fatalf("got %v, %v", x, err)
		}
		if err != nil {
			return
		}
		for line := range strings.Lines(s) { // what was accepted is excluded
			text, _, _ := strings.Cut(line, "#")
			addr, _, _ := strings.Cut(strings.TrimSpace(text), "/")
			if a, err := netip.ParseAddr(addr); err == nil && !x.Contains(a) {
				t.Fatalf("%q accepted, but %s is not excluded", line, a)
			}
		}
	})
}
