package datasets_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"strandline/datasets"
)

var update = flag.Bool("update", false, "rewrite the golden files and the expected messages")

// TestRoundTrip writes and reads random rows of every kind in both formats, with
// encoding/json and encoding/csv as witnesses of what was written.
func TestRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := random{rand.New(rand.NewPCG(seed, 0))}
	const n = 300
	roundTrip(t, append(many(n, r.vantage), vantages...))
	roundTrip(t, append(many(n, r.frontend), frontends...))
	roundTrip(t, append(many(n, r.region), regions...))
	roundTrip(t, append(many(n, r.target), targets...))
	roundTrip(t, append(many(n, r.sample), samples...))
	roundTrip(t, append(many(n, r.hop), hops...))
	roundTrip(t, append(many(n, r.link), links...))
	roundTrip(t, append(many(n, r.catchment), catchments...))
	roundTrip(t, append(many(n, r.latency), latencies...))
	roundTrip(t, append(many(n, r.balancer), balancers...))
	roundTrip(t, append(many(n, r.allocation), allocations...))
}

func roundTrip[R datasets.Row](t *testing.T, rows []R) {
	t.Run(rows[0].Kind(), func(t *testing.T) {
		for _, f := range []datasets.Format{datasets.JSONL, datasets.CSV} {
			s := encode(t, f, rows...)
			sameText(t, string(f)+" read back", texts(decode[R](t, f, s)), texts(rows))
			if again := encode(t, f, decode[R](t, f, s)...); again != s {
				t.Errorf("%s: equal rows were written differently", f)
			}
		}
		jsonl := encode(t, datasets.JSONL, rows...)
		sameText(t, "JSONL against encoding/json", jsonl, stdJSON(t, rows))
		sameText(t, "encoding/json read back", texts(stdRows[R](t, jsonl)), texts(rows))
		viaCSV := stdCSV(t, encode(t, datasets.CSV, rows...))
		sameText(t, "through encoding/csv", texts(decode[R](t, datasets.CSV, viaCSV)), texts(rows))
	})
}

// sameText compares two texts and shows the first line that differs.
func sameText(t *testing.T, what, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Errorf("%s: line %d\ngot  %s\nwant %s", what, i+1, g[i], w[i])
			return
		}
	}
	if len(g) != len(w) {
		t.Errorf("%s: got %d lines, want %d", what, len(g), len(w))
	}
}

// stdJSON encodes rows with encoding/json.
func stdJSON[R any](t *testing.T, rows []R) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for _, row := range rows {
		if err := e.Encode(row); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// stdRows decodes JSONL with encoding/json.
func stdRows[R any](t *testing.T, s string) []R {
	var rows []R
	for d := json.NewDecoder(strings.NewReader(s)); d.More(); {
		var row R
		if err := d.Decode(&row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

// stdCSV reads and writes a text with encoding/csv.
func stdCSV(t *testing.T, s string) string {
	records, err := csv.NewReader(strings.NewReader(s)).ReadAll()
	if err != nil {
		t.Fatalf("encoding/csv: %v", err)
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	w.UseCRLF = true // as spreadsheets do
	if err := w.WriteAll(records); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestGolden holds this version of the rows to files that must stay readable.
func TestGolden(t *testing.T) {
	golden(t, vantages)
	golden(t, frontends)
	golden(t, regions)
	golden(t, targets)
	golden(t, samples)
	golden(t, hops)
	golden(t, links)
	golden(t, catchments)
	golden(t, latencies)
	golden(t, balancers)
	golden(t, allocations)
}

func golden[R datasets.Row](t *testing.T, rows []R) {
	for _, f := range []datasets.Format{datasets.JSONL, datasets.CSV} {
		path := filepath.Join("testdata", fmt.Sprintf("v%d", datasets.SchemaVersion), rows[0].Kind()+"."+string(f))
		s := encode(t, f, rows...)
		if *update {
			if err := os.WriteFile(path, []byte(s), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		old, err := datasets.ReadFile[R](path)
		if err != nil {
			t.Errorf("%s is no longer readable: %v", path, err)
		}
		sameText(t, path+" reads as", texts(old), texts(rows))
		b, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		sameText(t, path+" is written now as", s, string(b))
	}
}

// messages reads a text as rows of a kind and returns the errors, each line at a
// fault, and the number of good rows.
func messages(t *testing.T, kind, s, name string, f datasets.Format) string {
	t.Helper()
	switch kind {
	case "vantage":
		return messagesOf(t, read[datasets.Vantage](s, name, f))
	case "frontend":
		return messagesOf(t, read[datasets.Frontend](s, name, f))
	case "region":
		return messagesOf(t, read[datasets.Region](s, name, f))
	case "target":
		return messagesOf(t, read[datasets.Target](s, name, f))
	case "sample":
		return messagesOf(t, read[datasets.Sample](s, name, f))
	case "hop":
		return messagesOf(t, read[datasets.Hop](s, name, f))
	case "link":
		return messagesOf(t, read[datasets.Link](s, name, f))
	case "balancer":
		return messagesOf(t, read[datasets.Balancer](s, name, f))
	case "catchment":
		return messagesOf(t, read[datasets.Catchment](s, name, f))
	case "latency":
		return messagesOf(t, read[datasets.Latency](s, name, f))
	case "allocation":
		return messagesOf(t, read[datasets.Allocation](s, name, f))
	}
	t.Fatalf("no kind %q", kind)
	return ""
}

func messagesOf[R datasets.Row](t *testing.T, rows iter.Seq2[R, error]) string {
	var b strings.Builder
	var zero R
	good := 0
	for row, err := range rows {
		if err == nil {
			good++
			continue
		}
		if text(row) != text(zero) {
			t.Errorf("an error came with the row %+v", row)
		}
		if p, ok := errors.AsType[*datasets.Problem](err); !ok || p.File == "" || p.Line == 0 {
			t.Errorf("no problem with file and line: %#v", err)
		}
		fmt.Fprintln(&b, err)
	}
	fmt.Fprintf(&b, "%d good\n", good)
	return b.String()
}

// TestBad reads the faulty files, whose names start with the kind of row; their
// expected messages stand beside them. Most have a good row after the fault,
// which must still be read.
func TestBad(t *testing.T) {
	jsonl, _ := filepath.Glob("testdata/bad/*.jsonl")
	csv, _ := filepath.Glob("testdata/bad/*.csv")
	if len(jsonl) < 20 || len(csv) < 10 {
		t.Fatalf("%d and %d files in testdata/bad", len(jsonl), len(csv))
	}
	for _, path := range slices.Concat(jsonl, csv) {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			f, err := datasets.FormatOf(path)
			if err != nil {
				t.Fatal(err)
			}
			kind, _, _ := strings.Cut(name, "-")
			got := messages(t, kind, string(b), name, f)
			wantPath := path + ".want"
			if *update {
				if err := os.WriteFile(wantPath, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(wantPath)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%swant\n%s", got, want)
			}
			if !strings.Contains(got, name+":") {
				t.Errorf("no fault was found:\n%s", got)
			}
		})
	}
}

func TestLongLine(t *testing.T) {
	const good = `{"addr":"192.0.2.1"}` + "\n"
	long := `{"addr":"192.0.2.1","name":"` + strings.Repeat("x", 1<<20) + `"}` + "\n"
	got := messages(t, "target", good+long+good, "f", datasets.JSONL)
	want := "f:2:1048577: line of 1048607 bytes; at most 1048576 are read\n2 good\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	fits := long[:len(`{"addr":"192.0.2.1","name":"`)] + strings.Repeat("x", 1<<20-31) + "\"}\n"
	if got := messages(t, "target", fits, "f", datasets.JSONL); got != "1 good\n" {
		t.Errorf("a line of %d bytes: %s", len(fits), got)
	}
}

func TestReadError(t *testing.T) {
	broken := errors.New("broken pipe")
	r := &failing{s: "{\"addr\":\"192.0.2.1\"}\n{\"addr\"", err: broken}
	var got []error
	for _, err := range datasets.Read[datasets.Target](r, "f", datasets.JSONL) {
		got = append(got, err)
	}
	if len(got) != 2 || got[0] != nil || !errors.Is(got[1], broken) {
		t.Errorf("got %v, want one row and then %v", got, broken)
	}
}

// failing is a reader that ends with an error.
type failing struct {
	s   string
	err error
}

func (f *failing) Read(b []byte) (int, error) {
	if f.s == "" {
		return 0, f.err
	}
	n := copy(b, f.s)
	f.s = f.s[n:]
	return n, nil
}

func TestUnknownFormat(t *testing.T) {
	_, err := datasets.Collect(datasets.Read[datasets.Target](strings.NewReader(""), "f", "xml"))
	if err == nil || !strings.Contains(err.Error(), `"xml"`) {
		t.Errorf("read xml: %v", err)
	}
	if err := datasets.Write(&bytes.Buffer{}, "xml", slices.Values(targets)); err == nil {
		t.Error("wrote xml")
	}
	if _, err := datasets.ReadFile[datasets.Target]("rows.xml"); err == nil || !strings.Contains(err.Error(), "rows.xml") {
		t.Errorf("rows.xml: %v", err)
	}
	if _, err := datasets.ReadFile[datasets.Target]("no-such.csv"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no-such.csv: %v", err)
	}
}

func TestWriteRefusesInvalidRows(t *testing.T) {
	var b bytes.Buffer
	err := datasets.Write(&b, datasets.JSONL, slices.Values([]datasets.Target{{Addr: v4}, {}}))
	if err == nil || !strings.HasPrefix(err.Error(), "write target 2: addr: ") {
		t.Errorf("got %v, want an error about row 2", err)
	}
	if got, want := b.String(), "{\"addr\":\"192.0.2.1\"}\n"; got != want {
		t.Errorf("wrote %q, want %q", got, want)
	}
}

func TestCollectCountsFaultsPastTheFiftieth(t *testing.T) {
	_, err := datasets.Collect(read[datasets.Target](strings.Repeat("x\n", 53), "f", datasets.JSONL))
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 51 || lines[50] != "and 3 more" {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

func TestStop(t *testing.T) {
	n := 0
	for range read[datasets.Target]("{\"addr\":\"192.0.2.1\"}\nx\nx\n", "f", datasets.JSONL) {
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d steps, want 2", n)
	}
}

// TestSampleRules breaks a good sample in one place at a time.
func TestSampleRules(t *testing.T) {
	reply, exceeded, timeout, refused := samples[0], samples[1], samples[2], samples[3]
	change := func(s datasets.Sample, f func(*datasets.Sample)) datasets.Sample { f(&s); return s }
	for key, s := range map[string]datasets.Sample{
		"vantage":       change(reply, func(s *datasets.Sample) { s.Vantage = "" }),
		"target":        change(refused, func(s *datasets.Sample) { s.Target = netip.Addr{} }),
		"proto":         change(refused, func(s *datasets.Sample) { s.Proto = "sctp" }),
		"outcome":       change(timeout, func(s *datasets.Sample) { s.Outcome = "lost" }),
		"stamp":         change(reply, func(s *datasets.Sample) { s.Stamp = "" }),
		"src":           change(timeout, func(s *datasets.Sample) { s.Src = netip.Addr{} }),
		"sport":         change(reply, func(s *datasets.Sample) { s.Sport = 1 }),
		"dport":         change(reply, func(s *datasets.Sample) { s.Dport = 1 }),
		"icmp_id":       change(exceeded, func(s *datasets.Sample) { s.ICMPID = 1 }),
		"icmp_checksum": change(exceeded, func(s *datasets.Sample) { s.ICMPSum = 1 }),
		"flow_label":    change(exceeded, func(s *datasets.Sample) { s.FlowLabel = 1 << 20 }),
		"ttl":           change(timeout, func(s *datasets.Sample) { s.TTL = 0 }),
		"tx_ns":         change(timeout, func(s *datasets.Sample) { s.TxNS = -1 }),
		"rtt_ns":        change(reply, func(s *datasets.Sample) { s.RTTNS++ }),
		"from":          change(reply, func(s *datasets.Sample) { s.From = v6 }),
		"quoted_ttl":    change(reply, func(s *datasets.Sample) { s.QuotedTTL = 1 }),
		"rx_ns":         change(timeout, func(s *datasets.Sample) { s.RxNS = 1 }),
		"reply_ttl":     change(timeout, func(s *datasets.Sample) { s.ReplyTTL = 1 }),
		"icmp_type":     change(timeout, func(s *datasets.Sample) { s.ICMPType = 1 }),
		"icmp_code":     change(timeout, func(s *datasets.Sample) { s.ICMPCode = 1 }),
	} {
		p, ok := errors.AsType[*datasets.Problem](s.Validate())
		if !ok || p.Key != key {
			t.Errorf("%s: got %v", key, s.Validate())
		}
	}
}

// TestRules breaks rows of the other kinds in one place at a time.
func TestRules(t *testing.T) {
	lat := latencies[0]
	for _, tc := range []struct {
		key string
		row interface{ Validate() error }
	}{
		{"name", datasets.Vantage{}},
		{"name", datasets.Vantage{Name: "a\nb"}},
		{"name", datasets.Vantage{Name: "a\xff"}},
		{"lat", datasets.Vantage{Name: "a", Lat: 90.5}},
		{"lon", datasets.Vantage{Name: "a", Lon: math.NaN()}},
		{"addr", datasets.Vantage{Name: "a", Addr: netip.MustParseAddr("::ffff:192.0.2.1")}},
		{"addr6", datasets.Vantage{Name: "a", Addr6: v4}},
		{"labels", datasets.Vantage{Name: "a", Labels: map[string]string{"": "x"}}},
		{"labels.k", datasets.Vantage{Name: "a", Labels: map[string]string{"k": "\r"}}},
		{"rate_hz", datasets.Frontend{Name: "a", RateHz: math.Inf(1)}},
		{"addrs[1]", datasets.Region{Name: "a", Addrs: []netip.Addr{v4, {}}}},
		{"addr", datasets.Target{}},
		{"probes", datasets.Hop{Vantage: "a", Target: v4, Proto: "udp", TTL: 1, RTTMS: none}},
		{"replies", datasets.Hop{Vantage: "a", Target: v4, Proto: "udp", TTL: 1, RTTMS: 1, Addr: v4, Probes: 1, Replies: 2}},
		{"addr", datasets.Hop{Vantage: "a", Target: v4, Proto: "udp", TTL: 1, RTTMS: 1, Probes: 1, Replies: 1}},
		{"addr", datasets.Hop{Vantage: "a", Target: v4, Proto: "udp", TTL: 1, RTTMS: none, Addr: v4, Probes: 1}},
		{"rtt_ms", datasets.Hop{Vantage: "a", Target: v4, Proto: "udp", TTL: 1, RTTMS: 0, Probes: 1}},
		{"rtt_ms", datasets.Hop{Vantage: "a", Target: v4, Proto: "udp", TTL: 1, RTTMS: -1, Addr: v4, Probes: 1, Replies: 1}},
		{"to", datasets.Link{Vantage: "a", Target: v4, From: v4, To: v4, TTL: 1, Flows: 1}},
		{"ttl", datasets.Link{Vantage: "a", Target: v4, From: v4, To: v6, Flows: 1}},
		{"flows", datasets.Link{Vantage: "a", Target: v4, From: v4, To: v6, TTL: 1}},
		{"width", datasets.Balancer{Vantage: "a", Target: v4, Proto: "udp", Addr: v4, TTL: 1, Class: "per-flow", Width: 1}},
		{"class", datasets.Balancer{Vantage: "a", Target: v4, Proto: "udp", Addr: v4, TTL: 1, Width: 2}},
		{"fields", datasets.Balancer{Vantage: "a", Target: v4, Proto: "udp", Addr: v4, TTL: 1, Class: "per-packet", Fields: []datasets.Field{"tos"}, Width: 2}},
		{"fields[0]", datasets.Balancer{Vantage: "a", Target: v4, Proto: "udp", Addr: v4, TTL: 1, Class: "per-flow", Fields: []datasets.Field{"src"}, Width: 2}},
		{"fields[1]", datasets.Balancer{Vantage: "a", Target: v4, Proto: "udp", Addr: v4, TTL: 1, Class: "per-flow", Fields: []datasets.Field{"tos", "tos"}, Width: 2}},
		{"direction", datasets.Catchment{Vantage: "a", Target: v4, RTTMS: none}},
		{"rtt_ms", datasets.Catchment{Vantage: "a", Target: v4, Direction: "forward", RTTMS: datasets.Millis(math.Inf(1))}},
		{"received", with(lat, func(l *datasets.Latency) { l.Received, l.Loss = 5, 0 })},
		{"loss", with(lat, func(l *datasets.Latency) { l.Loss = 0.5 })},
		{"loss", with(lat, func(l *datasets.Latency) { l.Sent, l.Received, l.Loss = 0, 0, 1.5 })},
		{"p50_ms", with(lat, func(l *datasets.Latency) { l.P50MS = 11 })},
		{"p50_hi_ms", with(lat, func(l *datasets.Latency) { l.P50HiMS = 12.1 })},
		{"p99_ms", with(lat, func(l *datasets.Latency) { l.P99MS = 12.1 })},
		{"mean_ms", with(lat, func(l *datasets.Latency) { l.MeanMS = 0 })},
		{"jitter_ms", with(lat, func(l *datasets.Latency) { l.JitterMS = -1 })},
		{"confidence", with(lat, func(l *datasets.Latency) { l.Confidence = 100 })},
		{"stamp", with(lat, func(l *datasets.Latency) { l.Stamp = "" })},
		{"share", datasets.Allocation{Frontend: "a", Region: "b", Share: 1.01}},
		{"price_s", datasets.Allocation{Frontend: "a", Region: "b", PriceS: -1}},
	} {
		p, ok := errors.AsType[*datasets.Problem](tc.row.Validate())
		if !ok || p.Key != tc.key {
			t.Errorf("%+v: got %v, want a problem with %s", tc.row, tc.row.Validate(), tc.key)
		}
	}
}

func with(l datasets.Latency, f func(*datasets.Latency)) datasets.Latency { f(&l); return l }

func TestValidateAllocatesNothing(t *testing.T) {
	for _, s := range samples {
		if n := testing.AllocsPerRun(100, func() {
			if s.Validate() != nil {
				t.Fatal(s.Validate())
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations, want 0", s.Outcome, n)
		}
	}
}

// checkAccepted requires that whatever is accepted is written and read back
// equal, and that an error comes with the zero row.
func checkAccepted[R datasets.Row](t *testing.T, s string, f datasets.Format) {
	var zero R
	var rows []R
	for row, err := range read[R](s, "fuzz", f) {
		if err == nil {
			rows = append(rows, row)
		} else if text(row) != text(zero) {
			t.Fatalf("an error came with the row %+v", row)
		}
	}
	for _, f := range []datasets.Format{datasets.JSONL, datasets.CSV} {
		if rows != nil {
			sameText(t, "read back", texts(decode[R](t, f, encode(t, f, rows...))), texts(rows))
		}
	}
}

func fuzzRead(f *testing.F, format datasets.Format) {
	for _, dir := range []string{"v1", "bad"} {
		files, _ := filepath.Glob(filepath.Join("testdata", dir, "*."+string(format)))
		for _, path := range files {
			b, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(b))
		}
	}
	f.Fuzz(func(t *testing.T, s string) {
		checkAccepted[datasets.Vantage](t, s, format)
		checkAccepted[datasets.Region](t, s, format)
		checkAccepted[datasets.Sample](t, s, format)
		checkAccepted[datasets.Latency](t, s, format)
		checkAccepted[datasets.Balancer](t, s, format)
	})
}

func FuzzReadJSONL(f *testing.F) { fuzzRead(f, datasets.JSONL) }
func FuzzReadCSV(f *testing.F)   { fuzzRead(f, datasets.CSV) }

// FuzzScan compares what is accepted with encoding/json, which is laxer: it may
// accept more, but must read the same.
func FuzzScan(f *testing.F) {
	f.Add(`{"name":"a\u00e9\ud83d\ude00\n","lat":-1.5e-3,"lon":0,"labels":{"k":"v"}}`)
	f.Fuzz(func(t *testing.T, s string) {
		for row, err := range read[datasets.Vantage](s+"\n", "fuzz", datasets.JSONL) {
			if err != nil || strings.Contains(s, "\n") {
				continue
			}
			var want datasets.Vantage
			if err := json.Unmarshal([]byte(s), &want); err != nil || text(row) != text(want) {
				t.Fatalf("got %+v, want, by encoding/json, %+v (%v)", row, want, err)
			}
		}
	})
}

func BenchmarkWriteSample(b *testing.B) {
	for _, f := range []datasets.Format{datasets.JSONL, datasets.CSV} {
		b.Run(string(f), func(b *testing.B) {
			b.ReportAllocs()
			datasets.Write(discard{}, f, func(yield func(datasets.Sample) bool) {
				for i := 0; b.Loop(); i++ {
					yield(samples[i%4])
				}
			})
		})
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

func BenchmarkReadSample(b *testing.B) {
	for _, f := range []datasets.Format{datasets.JSONL, datasets.CSV} {
		b.Run(string(f), func(b *testing.B) {
			b.ReportAllocs()
			s := encode(b, f, slices.Repeat(samples, 250)...)
			for b.Loop() {
				decode[datasets.Sample](b, f, s)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/row")
		})
	}
}
