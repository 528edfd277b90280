package config

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

func TestReadClients(t *testing.T) {
	src := "\ufeffprefix,frontend\r\n# a comment\r\n198.51.100.0/24,fra\r\n\r\n2001:db8::/32, nyc\r\n"
	got, err := readClients("c.csv", []byte(src), []string{"fra", "nyc"})
	if err != nil {
		t.Fatal(err)
	}
	want := []Client{{netip.MustParsePrefix("198.51.100.0/24"), "fra"}, {netip.MustParsePrefix("2001:db8::/32"), "nyc"}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// FuzzReadClients: no input panics; what is accepted is masked, known and unique,
// and every complaint names the file.
func FuzzReadClients(f *testing.F) {
	f.Add("prefix,frontend\n198.51.100.0/24,fra\n")
	f.Add("prefix,frontend\nx,fra\n10.0.0.1/8,fra,1\n\"")
	f.Add("# c\nprefix,frontend\n::ffff:1.2.3.0/120,nyc\n")
	f.Fuzz(func(t *testing.T, src string) {
		clients, err := readClients("c.csv", []byte(src), []string{"fra", "nyc"})
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !strings.HasPrefix(line, "c.csv:") {
					t.Errorf("%q does not begin with the file", line)
				}
			}
			return
		}
		seen := map[netip.Prefix]bool{}
		for _, c := range clients {
			if c.Prefix != c.Prefix.Masked() || seen[c.Prefix] || c.Frontend != "fra" && c.Frontend != "nyc" {
				t.Errorf("%v was accepted", c)
			}
			seen[c.Prefix] = true
		}
	})
}

func BenchmarkReadClients(b *testing.B) {
	var text strings.Builder
	text.WriteString(clientsHeader + "\n")
	const rows = 100_000
	for i := range rows {
		fmt.Fprintf(&text, "%d.%d.%d.0/24,fra\n", 1+i>>16, i>>8&255, i&255)
	}
	for b.Loop() {
		if _, err := readClients("c.csv", []byte(text.String()), []string{"fra"}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
}
