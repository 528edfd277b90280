package simnet_test

import (
	"encoding/csv"
	"errors"
	"io/fs"
	"maps"
	"math"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"strandline/datasets"
	"strandline/internal/simnet"
	"strandline/probe/wire"
)

// TestBadSpecs makes one fault at a time in a good spec.
func TestBadSpecs(t *testing.T) {
	tests := []struct {
		key, msg string
		spoil    func(*simnet.Spec)
	}{
		{"fibre.km_per_ms", "between 0 and that of light", func(s *simnet.Spec) { s.Fibre.KmPerMS = 300 }},
		{"fibre.km_per_ms", "between 0 and that of light", func(s *simnet.Spec) { s.Fibre.KmPerMS = math.NaN() }},
		{"fibre.factor", "below 1", func(s *simnet.Spec) { s.Fibre.Factor = 0.9 }},
		{"fibre.floor", "negative", func(s *simnet.Spec) { s.Fibre.Floor = -1 }},
		{"nodes", "empty", func(s *simnet.Spec) { *s = simnet.Spec{} }},
		{"nodes[1].name", "no name", func(s *simnet.Spec) { s.Nodes[1].Name = "" }},
		{"nodes[5].name", `"r1" is the name of nodes[2] already`, func(s *simnet.Spec) { s.Nodes[5].Name = "r1" }},
		{"nodes[1].kind", "unknown kind", func(s *simnet.Spec) { s.Nodes[1].Kind = "server" }},
		{"nodes[1].addr", "no address", func(s *simnet.Spec) { s.Nodes[1].Addr, s.Nodes[1].Addr6 = netip.Addr{}, netip.Addr{} }},
		{"nodes[1].addr", "other family", func(s *simnet.Spec) { s.Nodes[1].Addr = addr6(77) }},
		{"nodes[1].addr6", "other family", func(s *simnet.Spec) { s.Nodes[1].Addr6 = netip.MustParseAddr("::ffff:192.0.2.1") }},
		{"nodes[1].addr", "cannot be the address", func(s *simnet.Spec) { s.Nodes[1].Addr = netip.MustParseAddr("224.0.0.1") }},
		{"nodes[3].addr", "is nodes[2].addr already", func(s *simnet.Spec) { s.Nodes[3].Addr = s.Nodes[2].Addr }},
		{"nodes[1].lat", "not in [-90, 90]", func(s *simnet.Spec) { s.Nodes[1].Lat = 91 }},
		{"nodes[1].lon", "not in [-180, 180]", func(s *simnet.Spec) { s.Nodes[1].Lon = math.Inf(1) }},
		{"nodes[1].at", `no node "nowhere"`, func(s *simnet.Spec) { s.Nodes[1].At = "nowhere" }},
		{"nodes[1].at", "itself is at another", func(s *simnet.Spec) { s.Nodes[1].At, s.Nodes[2].At = "r1", "r2" }},
		{"nodes[1].at", "two places", func(s *simnet.Spec) { s.Nodes[1].At, s.Nodes[1].Lat = "r1", 3 }},
		{"nodes[2].hash.fields[1]", `unknown header field "port"`, func(s *simnet.Spec) { s.Nodes[2].Hash.Fields = []string{"src", "port"} }},
		{"links[1].a", `no node "x"`, func(s *simnet.Spec) { s.Links[1].A = "x" }},
		{"links[1].b", "missing", func(s *simnet.Spec) { s.Links[1].B = "" }},
		{"links[1].b", "both ends", func(s *simnet.Spec) { s.Links[1].B = s.Links[1].A }},
		{"links[1].delay", "negative", func(s *simnet.Spec) { s.Links[1].Delay = -time.Millisecond }},
		{"links[1].jitter", "negative", func(s *simnet.Spec) { s.Links[1].Jitter = -1 }},
		{"links[1].loss", "not in [0, 1)", func(s *simnet.Spec) { s.Links[1].Loss = 1 }},
		{"links[1].loss", "not in [0, 1)", func(s *simnet.Spec) { s.Links[1].Loss = math.NaN() }},
		{"links[1].metric", "out of range", func(s *simnet.Spec) { s.Links[1].Metric = -1 }},
		{"nodes[1]", "cannot be reached", func(s *simnet.Spec) { s.Links = slices.Delete(s.Links, 1, 2) }},
		{"meshes[0].rtt_csv", "missing", func(s *simnet.Spec) {
			s.Meshes = []simnet.Mesh{{Nodes: map[string]string{"A": "r1", "B": "r2"}}}
		}},
		{"meshes[0].nodes", "has no link", func(s *simnet.Spec) {
			s.Meshes = []simnet.Mesh{{RTTCSV: "f", Nodes: map[string]string{"A": "r1"}}}
		}},
		{"meshes[0].nodes.B", `no node "r9"`, func(s *simnet.Spec) {
			s.Meshes = []simnet.Mesh{{RTTCSV: "f", Nodes: map[string]string{"A": "r1", "B": "r9"}}}
		}},
		{"meshes[0].nodes.B", `stands for "A" already`, func(s *simnet.Spec) {
			s.Meshes = []simnet.Mesh{{RTTCSV: "f", Nodes: map[string]string{"A": "r1", "B": "r1"}}}
		}},
		{"meshes[0].metric", "out of range", func(s *simnet.Spec) {
			s.Meshes = []simnet.Mesh{{RTTCSV: "f", Metric: -1, Nodes: map[string]string{"A": "r1", "B": "r2"}}}
		}},
		{"anycast[0].name", "no name", func(s *simnet.Spec) { s.Anycast[0].Name = "" }},
		{"anycast[1].name", "already", func(s *simnet.Spec) { s.Anycast = append(s.Anycast, s.Anycast[0]) }},
		{"anycast[1].prefix", "overlaps", func(s *simnet.Spec) { s.Anycast = append(s.Anycast, s.Anycast[0]) }},
		{"anycast[0].prefix", "no prefix", func(s *simnet.Spec) { s.Anycast[0].Prefix, s.Anycast[0].Prefix6 = netip.Prefix{}, netip.Prefix{} }},
		{"anycast[0].prefix", "other family", func(s *simnet.Spec) { s.Anycast[0].Prefix = netip.MustParsePrefix("2001:db8:b::/48") }},
		{"anycast[0].prefix", "bits set", func(s *simnet.Spec) { s.Anycast[0].Prefix = netip.MustParsePrefix("192.0.2.1/24") }},
		{"anycast[0].prefix", "holds 198.18.0.1", func(s *simnet.Spec) { s.Anycast[0].Prefix = netip.MustParsePrefix("198.18.0.0/24") }},
		{"anycast[0].addr", "is not in", func(s *simnet.Spec) { s.Anycast[0].Addr = addr4(9) }},
		{"anycast[0].sites", "no site", func(s *simnet.Spec) { s.Anycast[0].Sites = nil }},
		{"anycast[0].sites[0].name", "0 bytes", func(s *simnet.Spec) { s.Anycast[0].Sites[0].Name = "" }},
		{"anycast[0].sites[0].node", "it is a router", func(s *simnet.Spec) { s.Anycast[0].Sites[0].Node = "r1" }},
		{"anycast[0].sites[0].metric", "out of range", func(s *simnet.Spec) { s.Anycast[0].Sites[0].Metric = -5 }},
		{"anycast[0].sites[1].name", "already", func(s *simnet.Spec) {
			s.Anycast[0].Sites = append(s.Anycast[0].Sites, simnet.Site{Name: "site-b", Node: "a"})
		}},
		{"anycast[0].sites[1].node", "already", func(s *simnet.Spec) {
			s.Anycast[0].Sites = append(s.Anycast[0].Sites, simnet.Site{Name: "other", Node: "b"})
		}},
		{"overrides[0].b", `no node "z"`, func(s *simnet.Spec) { s.Overrides = []simnet.Override{{A: "a", B: "z"}} }},
		{"overrides[0]", "no link joins", func(s *simnet.Spec) { s.Overrides = []simnet.Override{{A: "a", B: "b"}} }},
		{"overrides[0].inflate", "cannot inflate", func(s *simnet.Spec) { s.Overrides = []simnet.Override{{A: "a", B: "r1", Inflate: -2}} }},
		{"overrides[0].jitter", "negative", func(s *simnet.Spec) { s.Overrides = []simnet.Override{{A: "a", B: "r1", Jitter: -2}} }},
		{"overrides[0].loss", "not in [0, 1)", func(s *simnet.Spec) { s.Overrides = []simnet.Override{{A: "a", B: "r1", Loss: 2}} }},
		{"nodes[2].hash.spread", "unknown value", func(s *simnet.Spec) { s.Nodes[2].Hash.Spread = "random" }},
		{"nodes[2].hash.fields", "looks at no field", func(s *simnet.Spec) {
			s.Nodes[2].Hash = simnet.Hash{Spread: simnet.SpreadPacket, Fields: []string{simnet.FieldSport}}
		}},
		{"nodes[2].hash.weights.m1", "out of range", func(s *simnet.Spec) { s.Nodes[2].Hash.Weights = map[string]int{"m1": 0} }},
		{"nodes[2].hash.weights.m1", "out of range", func(s *simnet.Spec) { s.Nodes[2].Hash.Weights = map[string]int{"m1": 1_000_001} }},
		{"nodes[2].hash.weights.m9", `no node "m9"`, func(s *simnet.Spec) { s.Nodes[2].Hash.Weights = map[string]int{"m9": 1} }},
		{"nodes[2].hash.weights.b", "no link joins", func(s *simnet.Spec) { s.Nodes[2].Hash.Weights = map[string]int{"b": 1} }},
		{"nodes[2].quote", "cannot quote 7 octets", func(s *simnet.Spec) { s.Nodes[2].Quote = 7 }},
		{"nodes[2].quote", "cannot quote 1233 octets", func(s *simnet.Spec) { s.Nodes[2].Quote = 1233 }},
		{"nodes[2].icmp_limit.rate_hz", "between 0 and 1e9", func(s *simnet.Spec) { s.Nodes[2].ICMPLimit.RateHz = -1 }},
		{"nodes[2].icmp_limit.rate_hz", "between 0 and 1e9", func(s *simnet.Spec) { s.Nodes[2].ICMPLimit.RateHz = math.NaN() }},
		{"nodes[2].icmp_limit.burst", "no meaning", func(s *simnet.Spec) { s.Nodes[2].ICMPLimit.Burst = 5 }},
		{"nodes[2].icmp_limit.burst", "no meaning", func(s *simnet.Spec) { s.Nodes[2].ICMPLimit = simnet.ICMPLimit{RateHz: 1, Burst: -5} }},
		{"nodes[0].zero_ttl", "does not forward", func(s *simnet.Spec) { s.Nodes[0].ZeroTTL = true }},
		{"nodes[0].nat", "does not forward", func(s *simnet.Spec) { s.Nodes[0].NAT.Inside = prefixes("10.0.0.0/8") }},
		{"nodes[0].rewrites", "does not forward", func(s *simnet.Spec) { s.Nodes[0].Rewrites = prefixes("10.0.0.0/8") }},
		{"nodes[2].nat.quote", "unknown value", func(s *simnet.Spec) { s.Nodes[2].NAT = simnet.NAT{Inside: prefixes("10.0.0.0/8"), Quote: "all"} }},
		{"nodes[2].nat.inside[0]", "is not a prefix", func(s *simnet.Spec) { s.Nodes[2].NAT.Inside = prefixes("10.0.0.1/8") }},
		{"nodes[2].nat.inside[0]", "own address", func(s *simnet.Spec) { s.Nodes[2].NAT.Inside = prefixes("198.18.0.0/24") }},
		{"nodes[2].nat.inside[1]", "no address of the family", func(s *simnet.Spec) {
			s.Nodes[2].NAT.Inside, s.Nodes[2].Addr6 = prefixes("10.0.0.0/8", "2001:db8:1::/48"), netip.Addr{}
		}},
		{"nodes[2].rewrites[0]", "is not a prefix", func(s *simnet.Spec) { s.Nodes[2].Rewrites = []netip.Prefix{{}} }},
		{"links[2].addr_a", "other family", func(s *simnet.Spec) { s.Links[2].AddrA = addr6(90) }},
		{"links[2].addr_b", "is nodes[2].addr already", func(s *simnet.Spec) { s.Links[2].AddrB = addr4(3) }},
		{"links[2].addr6_a", "cannot be the address", func(s *simnet.Spec) { s.Links[2].Addr6A = netip.MustParseAddr("ff02::1") }},
		{"links[2].addr6_b", "is links[2].addr6_a already", func(s *simnet.Spec) { s.Links[2].Addr6A, s.Links[2].Addr6B = addr6(91), addr6(91) }},
		{"links[2].duplicate", "not in [0, 1)", func(s *simnet.Spec) { s.Links[2].Duplicate = 1 }},
		{"links[2].corrupt", "not in [0, 1)", func(s *simnet.Spec) { s.Links[2].Corrupt = -0.1 }},
		{"links[2].mpls[1]", "exceeds 1048575", func(s *simnet.Spec) { s.Links[2].MPLS = []uint32{3, 1 << 20} }},
		{"links[2].mpls", "stack of 17", func(s *simnet.Spec) { s.Links[2].MPLS = make([]uint32, 17) }},
		{"changes[0].at", "no change", func(s *simnet.Spec) { s.Changes = []simnet.Change{{A: "a", B: "r1"}} }},
		{"changes[0].a", "missing", func(s *simnet.Spec) { s.Changes = []simnet.Change{{At: 1, B: "r1"}} }},
		{"changes[0]", "no link joins", func(s *simnet.Spec) { s.Changes = []simnet.Change{{At: 1, A: "a", B: "b"}} }},
	}
	for _, tt := range tests {
		s := diamond(2, simnet.Hash{})
		tt.spoil(&s)
		if !hasProblem(s.Validate(), tt.key, tt.msg) {
			t.Errorf("%s: got %v, want a problem with %q", tt.key, s.Validate(), tt.msg)
		}
		if _, err := simnet.Build(s, nil); err == nil {
			t.Errorf("%s: Build took it", tt.key)
		}
	}
	s := diamond(2, simnet.Hash{})
	s.Links[0].Loss, s.Links[1].Delay = 2, -1
	if err := s.Validate(); !hasProblem(err, "links[0].loss", "") || !hasProblem(err, "links[1].delay", "") {
		t.Errorf("two faults: got %v, want both", err)
	}
}

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

// hasProblem looks for a problem with that key and a fix.
func hasProblem(err error, key, msg string) bool {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return false
	}
	return slices.ContainsFunc(joined.Unwrap(), func(err error) bool {
		p, ok := errors.AsType[*datasets.Problem](err)
		return ok && p.Key == key && strings.Contains(p.Msg, msg) && p.Fix != ""
	})
}

func meshed() simnet.Spec {
	s := diamond(1, simnet.Hash{})
	s.Meshes = []simnet.Mesh{{RTTCSV: "m.csv", Nodes: map[string]string{"A": "r1", "B": "r2"}}}
	return s
}

func TestMeshFile(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"good", "# a comment\nfrom,to,rtt_ms\nA,B,10\nB,A,12\nA,C,7\n", ""},
		{"header", "a,b,c\n", `m.csv:1: the header is ["a" "b" "c"]`},
		{"empty", "", "m.csv:1: the header is []"},
		{"fields", "from,to,rtt_ms\nA,B\n", "m.csv:2: wrong number of fields"},
		{"number", "from,to,rtt_ms\nA,B,10\nB,A,ten\n", `m.csv:3: rtt_ms: "ten" is not a round trip`},
		{"negative", "from,to,rtt_ms\nA,B,-1\n", `m.csv:2: rtt_ms: "-1" is not a round trip`},
		{"NaN", "from,to,rtt_ms\nA,B,NaN\n", `m.csv:2: rtt_ms: "NaN" is not a round trip`},
		{"twice", "from,to,rtt_ms\nA,B,1\nA,B,1\n", "m.csv:3: from: A,B is there already"},
		{"missing", "from,to,rtt_ms\nA,B,1\n", "m.csv: B,A: the mesh needs this pair"},
	}
	for _, tt := range tests {
		_, err := simnet.Build(meshed(), fstest.MapFS{"m.csv": {Data: []byte(tt.text)}})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	if _, err := simnet.Build(meshed(), fstest.MapFS{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v, want fs.ErrNotExist", err)
	}
	if _, err := simnet.Build(meshed(), nil); err == nil {
		t.Error("no folder: no error")
	}
}

func FuzzMesh(f *testing.F) {
	f.Add("from,to,rtt_ms\nA,B,10\nB,A,12.5\n")
	f.Add("# x\nfrom,to,rtt_ms\n\"A\",B,1e3\nB,A,0x1p4\n")
	f.Add("from,to,rtt_ms\nA,B,10\nA,B,\"1\n")
	f.Fuzz(func(t *testing.T, text string) {
		n, err := simnet.Build(meshed(), fstest.MapFS{"m.csv": {Data: []byte(text)}})
		if (n == nil) != (err != nil) {
			t.Fatalf("net %v and error %v", n != nil, err)
		}
		if err != nil {
			return
		}
		for _, r := range n.Residuals() {
			if r.MatrixMS <= 0 || r.PathMS <= 0 || !r.Direct && r.PathMS > 4 {
				t.Fatalf("%+v", r)
			}
		}
	})
}

// TestOverride: the bad link is worse, and traffic stays on it although a better
// way exists.
func TestOverride(t *testing.T) {
	spec := diamond(1, simnet.Hash{})
	spec.Nodes = append(spec.Nodes, router("detour", 30))
	spec.Links = append(spec.Links, simnet.Link{A: "r1", B: "detour", Delay: 2 * time.Millisecond}, simnet.Link{A: "detour", B: "r2", Delay: 2 * time.Millisecond})
	spec.Overrides = []simnet.Override{{A: "m1", B: "r1", Inflate: 20, Jitter: 2 * time.Millisecond, Loss: 0.5}}
	w, err := build(t, spec, nil).Truth("a", echo(t, between(false), 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	if w.Min != 46*time.Millisecond || w.Median != 48*time.Millisecond || w.Delivery != 0.25 || !slices.Contains(w.Forward, "m1") {
		t.Errorf("%+v, want 46 ms over m1, 48 ms median, delivery 0.25", w)
	}
}

// TestGreatCircle checks default delays: a quarter of the Earth is 10007.6 km on
// the mean sphere.
func TestGreatCircle(t *testing.T) {
	for _, tt := range []struct {
		fibre simnet.Fibre
		want  time.Duration
	}{
		{simnet.Fibre{}, 50037782},
		{simnet.Fibre{KmPerMS: 100, Factor: 2}, 200151127},
		{simnet.Fibre{Floor: time.Second}, time.Second},
	} {
		spec := diamond(1, simnet.Hash{})
		spec.Fibre = tt.fibre
		spec.Links[0].Delay = 0
		spec.Nodes[0].Lat, spec.Nodes[0].Lon = 90, 77
		spec.Nodes[2].Lat, spec.Nodes[2].Lon = 0, -120
		w, err := build(t, spec, nil).Truth("a", echo(t, wire.IP{Src: addr4(1), Dst: addr4(3), TTL: 9}, 1, 1))
		if err != nil {
			t.Fatal(err)
		}
		if d := w.Min/2 - tt.want; d < -time.Microsecond || d > time.Microsecond {
			t.Errorf("%+v: %v, want %v", tt.fibre, w.Min/2, tt.want)
		}
	}
}

// TestEarth checks the world against its sources and prints the residuals.
func TestEarth(t *testing.T) {
	n := earth(t)
	if v, r, x := len(n.Vantages()), len(n.Regions()), len(n.Targets()); v != 40 || r != 13 || x != 26 {
		t.Fatalf("%d vantages, %d regions, %d targets, want 40, 13 and 26", v, r, x)
	}
	for _, v := range n.Vantages() {
		if v.Labels["frontend"] != v.Name || v.City == "" || len(v.Country) != 2 || !v.Addr.Is4() || !v.Addr6.Is6() {
			t.Errorf("incomplete vantage %+v", v)
		}
	}
	rows := n.Residuals()
	worst, sum := 0.0, 0.0
	for _, r := range rows {
		if !r.Direct {
			t.Errorf("%s to %s does not take the direct link", r.From, r.To)
		}
		worst, sum = max(worst, math.Abs(r.ResidualMS)), sum+math.Abs(r.ResidualMS)
	}
	t.Logf("%d matrix residuals: mean %.3f ms, worst %.1f ms", len(rows), sum/float64(len(rows)), worst)
	if len(rows) != 156 || worst > 5 {
		t.Errorf("%d residuals, worst %v ms, want 156 and 5 at most", len(rows), worst)
	}
	back := map[string]float64{}
	for _, r := range rows {
		back[r.To+">"+r.From] = r.MatrixMS
	}
	for _, r := range rows {
		if want := (back[r.From+">"+r.To] - r.MatrixMS) / 2; math.Abs(r.ResidualMS-want) > 1e-5 {
			t.Errorf("%s to %s: residual %v, want half the asymmetry, %v", r.From, r.To, r.ResidualMS, want)
		}
	}
}

// TestEarthMatrix compares the file in the repository with where it came from.
func TestEarthMatrix(t *testing.T) {
	const source = "../../../shared/data/latency/ibm-cloud-regions-2026.csv"
	f, err := os.Open(source)
	if err != nil {
		t.Skipf("the source data is not here: %v", err)
	}
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	newest, want := all[1][0], map[string]float64{}
	for _, row := range all[1:] {
		if row[0] == newest {
			want[row[1]+">"+row[2]], err = strconv.ParseFloat(row[3], 64)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	rows := earth(t).Residuals()
	if len(rows) != len(want) || !strings.Contains(newest, "Aug 2026") {
		t.Errorf("%d pairs, the source has %d of %q", len(rows), len(want), newest)
	}
	for _, r := range rows {
		if got := want[r.From+">"+r.To]; got != r.MatrixMS {
			t.Errorf("%s to %s: %v ms, the source says %v", r.From, r.To, r.MatrixMS, got)
		}
	}
}

// TestEarthCatchments: every city lands at one site, and Singapore at a farther
// one than Mumbai.
func TestEarthCatchments(t *testing.T) {
	n := earth(t)
	got := map[string]string{}
	for _, v := range n.Vantages() {
		for _, a := range n.AnycastTargets() {
			sites, err := n.Catchment(v.Name, a.Addr)
			if err != nil || len(sites) != 1 {
				t.Fatalf("%s: %v, %v, want one site", v.Name, sites, err)
			}
			if got[v.Name] != "" && got[v.Name] != sites[0] {
				t.Errorf("%s: %s and %s by family", v.Name, got[v.Name], sites[0])
			}
			got[v.Name] = sites[0]
		}
	}
	size := map[string]int{}
	for _, site := range got {
		size[site]++
	}
	t.Logf("catchments %v", size)
	if len(size) != 6 {
		t.Errorf("sites %v, want six in use", size)
	}
	for city, want := range map[string]string{"lhr": "lhr1", "gru": "gru1", "nrt": "nrt1", "mel": "syd1", "dxb": "bom1", "nyc": "iad1", "sin": "nrt1"} {
		if got[city] != want {
			t.Errorf("%s lands at %s, want %s", city, got[city], want)
		}
	}
}

// TestEarthFaults: what the world's comments promise is there.
func TestEarthFaults(t *testing.T) {
	n := earth(t)
	walk := func(from, to string) simnet.Walk {
		dst := target(t, n, to, false)
		i := slices.IndexFunc(n.Vantages(), func(v datasets.Vantage) bool { return v.Name == from })
		w, err := n.Truth(from, echo(t, wire.IP{Src: n.Vantages()[i].Addr, Dst: dst, TTL: 64}, 1, 1))
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	if inflated, plain := walk("los", "mad").Min, walk("dkr", "mad").Min; inflated < 3*plain {
		t.Errorf("Lagos to Madrid takes %v, Dakar %v: not inflated", inflated, plain)
	}
	if near, far := walk("sin", "mum").Min, walk("sin", "tok").Min; far < near*3/2 {
		t.Errorf("Singapore to Mumbai takes %v, to Tokyo %v: its catchment is the nearest site", near, far)
	}
	if w := walk("bog", "wdc"); w.Max-w.Min != 40*time.Millisecond {
		t.Errorf("Bogota's jitter is %v, want 40 ms", w.Max-w.Min)
	}
	if w := walk("dkr", "mad"); math.Abs(w.Delivery-0.95*0.95) > 1e-9 {
		t.Errorf("Dakar's delivery is %v, want 0.9025", w.Delivery)
	}
	for pair, want := range map[[2]string]int{{"fra", "dal"}: 2, {"fra", "tok"}: 3, {"fra", "lon"}: 4, {"nbo", "mum"}: 2, {"icn", "osa"}: 4, {"akl", "syd"}: 3, {"eze", "sao"}: 2} {
		links, err := n.Links(pair[0], target(t, n, pair[1], true))
		if err != nil {
			t.Fatal(err)
		}
		width := map[uint8]int{}
		for _, l := range links {
			width[l.TTL]++
		}
		if got := slices.Max(slices.Collect(maps.Values(width))); got != want {
			t.Errorf("%s to %s is %d wide, want %d", pair[0], pair[1], got, want)
		}
	}
}
