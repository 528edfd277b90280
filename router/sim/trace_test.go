package sim_test

import (
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"strandline/datasets"
	"strandline/router/sim"
)

// openShared opens a file of the real data beside the repository.
func openShared(t testing.TB, name string) (f *os.File, ok bool) {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if f, err := os.Open(filepath.Join(dir, "shared", "data", name)); err == nil {
			t.Cleanup(func() { f.Close() })
			return f, true
		}
		if dir == filepath.Dir(dir) {
			return nil, false
		}
	}
}

// shared is openShared or a skipped test.
func shared(t testing.TB, name string) *os.File {
	t.Helper()
	f, ok := openShared(t, name)
	if !ok {
		t.Skip("the real data is not here: " + name)
	}
	return f
}

type reader func(io.Reader, string) (*sim.Trace, error)

func readTrace(t testing.TB, read reader, name string) *sim.Trace {
	t.Helper()
	trace, err := read(shared(t, name), name)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// The published statistics of the traces, to the digits given.
func TestTraceStatistics(t *testing.T) {
	for _, c := range []struct {
		name          string
		read          reader
		input, output sim.TokenStats
		cv, d10, d60  float64
		peak          float64
		requests      int
	}{
		{"llm/AzureLLMInferenceTrace_conv.csv", sim.ReadAzure, sim.TokenStats{1154.7, 1020, 2735, 4142}, sim.TokenStats{211.1, 129, 424, 601}, 1.09, 3.86, 16.1, 9.8, 19366},
		{"llm/AzureLLMInferenceTrace_code.csv", sim.ReadAzure, sim.TokenStats{2047.8, 1469, 5194, 7436}, sim.TokenStats{27.9, 13, 55, 252}, 13.15, 71.6, 164, 32.7, 8819},
		{"llm/mooncake_synthetic_trace.jsonl", sim.ReadMooncake, sim.TokenStats{15325, 11587, 38615, 66458}, sim.TokenStats{149.1, 69, 389, 769}, 1.01, 1.18, 1.19, 5.5, 3993},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := readTrace(t, c.read, c.name).Stats()
			if s.Requests != c.requests {
				t.Errorf("got %d requests, want %d", s.Requests, c.requests)
			}
			for k, p := range [][2]sim.TokenStats{{s.Input, c.input}, {s.Output, c.output}} {
				got, want := p[0], p[1]
				unit := 0.1 // means are given to a tenth, or to one
				if want.Mean == math.Trunc(want.Mean) {
					unit = 1
				}
				if math.Abs(got.Mean-want.Mean) > unit/2+1e-9 || math.Abs(got.P50-want.P50) > 0 || math.Abs(got.P90-want.P90) > 0 || math.Abs(got.P99-want.P99) > 0 {
					t.Errorf("tokens %d: got %+v, want %+v", k, got, want)
				}
			}
			near(t, "gap cv", s.GapCV, c.cv, 0.005)
			near(t, "dispersion at 10 s", s.Dispersion10, c.d10, 0.005)
			near(t, "dispersion at 60 s", s.Dispersion60, c.d60, 0.005)
			near(t, "peak", s.Peak10Hz, c.peak, 0.005)
		})
	}
}

// Every chunk reads, and its windows tile 14 days.
func TestServeGen(t *testing.T) {
	for _, n := range []string{"0", "7", "23"} {
		name := "llm/servegen-m-large/chunk-" + n + "-trace.csv"
		c, err := sim.ReadServeGen(shared(t, name), name)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Windows) != 2016 || c.WindowS != 600 {
			t.Errorf("%s: got %d windows of %v s, want 2016 of 600", name, len(c.Windows), c.WindowS)
		}
		p := c.Process(0, 50, 0)
		total := 0.0
		for _, r := range p.Rates {
			total += r.RateHz
		}
		near(t, name+" mean rate", total/2016, 50, 1e-9)
		shifted := c.Process(0, 50, 3600)
		if shifted.Rates[0].RateHz != p.Rates[6].RateHz || shifted.Rates[2015].RateHz != p.Rates[5].RateHz {
			t.Errorf("%s: an hour ahead does not begin six windows later", name)
		}
	}
}

// Played at another rate the trace has that rate, the same shape, mean work 1, and
// splits over frontends by weight.
func TestTraceSource(t *testing.T) {
	trace := readTrace(t, sim.ReadAzure, "llm/AzureLLMInferenceTrace_conv.csv")
	const rate = 100
	s, err := trace.Source(sim.TraceDemand{RateHz: rate, Weights: []float64{3, 1}, Repeat: true})
	if err != nil {
		t.Fatal(err)
	}
	rng := seeded(t, 3)
	n, work, first, last := 3*len(trace.Requests), 0.0, 0, 0.0
	for k := range n {
		a, ok := s.Next(rng)
		if !ok || a.AtS < last || a.Work <= 0 || a.Prefill < 0 || a.Prefill > 1 {
			t.Fatalf("arrival %d: %+v, %v", k, a, ok)
		}
		last = a.AtS
		work += a.Work
		if a.Frontend == 0 {
			first++
		}
	}
	near(t, "rate", float64(n)/last, rate, 1e-3)
	near(t, "mean work", work/float64(n), 1, 1e-9)
	near(t, "part of the first frontend", float64(first)/float64(n), 0.75, 0.02)

	once, err := trace.Source(sim.TraceDemand{Weights: []float64{1}})
	if err != nil {
		t.Fatal(err)
	}
	for k, q := range trace.Requests {
		if a, ok := once.Next(rng); !ok || math.Abs(a.AtS-q.AtS) > 1e-9*(1+q.AtS) {
			t.Fatalf("request %d at %v, want %v", k, a.AtS, q.AtS)
		}
	}
	if _, ok := once.Next(rng); ok {
		t.Error("the trace does not end")
	}
}

const azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n"

func TestTraceFaultsNameFileAndLine(t *testing.T) {
	azureReader := func(r io.Reader, n string) error { _, err := sim.ReadAzure(r, n); return err }
	mooncakeReader := func(r io.Reader, n string) error { _, err := sim.ReadMooncake(r, n); return err }
	serveReader := func(r io.Reader, n string) error { _, err := sim.ReadServeGen(r, n); return err }
	const row = "2023-11-16 18:17:03.9799600,4808,10\n"
	const object = `{"timestamp": 5, "input_length": 1, "output_length": 2, "hash_ids": []}` + "\n"
	for _, c := range []struct {
		text string
		read func(io.Reader, string) error
		want string // file:line: key, or "" for no error
	}{
		{azure + row, azureReader, ""},
		{azure + strings.ReplaceAll(row, "\n", "\r\n"), azureReader, ""},
		{"", azureReader, "x:1: the header"},
		{"time,a,b\n" + row, azureReader, "x:1: the header"},
		{azure, azureReader, "x:1: there is no request"},
		{azure + row + "2023-11-16 18:17:03.97,1\n", azureReader, "x:3: 2 cells"},
		{azure + "yesterday,1,2\n", azureReader, "x:2: TIMESTAMP"},
		{azure + row + "2023-11-16 18:17:02.0,1,2\n", azureReader, "x:3: TIMESTAMP: is before"},
		{azure + "2023-11-16 18:17:03.9,-1,2\n", azureReader, "x:2: ContextTokens"},
		{azure + "2023-11-16 18:17:03.9,1,1.5\n", azureReader, "x:2: GeneratedTokens"},
		{object, mooncakeReader, ""},
		{"", mooncakeReader, "x: there is no request"},
		{object + "{}\n", mooncakeReader, "x:2: timestamp"},
		{object + `{"timestamp": 4, "input_length": 1, "output_length": 2, "hash_ids": []}`, mooncakeReader, "x:2: timestamp: is before"},
		{`{"timestamp": 5, "input_length": -1, "output_length": 2}`, mooncakeReader, "x:1: input_length"},
		{`{"timestamp": 5, "input_length": 1}`, mooncakeReader, "x:1: output_length"},
		{`{"timestamp": 5, "input_length": 1, "output_length": 2, "extra": 1}`, mooncakeReader, "x:1: is not one object"},
		{"0,0,0,,0,0\n600,1,1,Gamma,1,1\n", serveReader, ""},
		{"0,0,0,,0,0\n", serveReader, "x:1: 1 windows"},
		{"0,0,0,,0,0\n600,1,1,Gauss,1,1\n", serveReader, "x:2: family"},
		{"0,0,0,,0,0\n600,1,1,,1,1\n", serveReader, "x:2: family: is empty"},
		{"0,0,0,,0,0\n600,1,NaN,Gamma,1,1\n", serveReader, "x:2: cv"},
		{"0,0,0,,0,0\n600,0,0,,0,0\n1300,0,0,,0,0\n", serveReader, "x:3: start"},
	} {
		err := c.read(strings.NewReader(c.text), "x")
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%q: %v", c.text, err)
		case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)):
			t.Errorf("%q: got %v, want %s", c.text, err, c.want)
		}
	}
	err := azureReader(strings.NewReader(azure+strings.Repeat("bad\n", 50)), "x")
	if n := strings.Count(err.Error(), "\n") + 1; n != 21 || !strings.HasSuffix(err.Error(), "x: 30 more faults") {
		t.Errorf("fifty faults became %d lines: %v", n, err)
	}
}

func FuzzTraces(f *testing.F) {
	f.Add(azure + "2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600,3180,8\n")
	f.Add(`{"timestamp": 0, "input_length": 40160, "output_length": 6, "hash_ids": [0, 1]}` + "\n")
	f.Add("0,0,0,,0,0\n600,15.9,1.06,Gamma,0.87,0.07\n1200,3,1.06,Weibull,0.87,0.07\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, read := range []reader{sim.ReadAzure, sim.ReadMooncake} {
			trace, err := read(strings.NewReader(text), "x")
			if (trace == nil) != (err != nil) {
				t.Fatalf("got a trace and %v", err)
			}
			if err != nil {
				var p *datasets.Problem
				if !errors.As(err, &p) || p.File != "x" {
					t.Fatalf("got %v, want a problem of the file", err)
				}
				continue
			}
			last := 0.0
			for _, q := range trace.Requests {
				if !(q.AtS >= last) || q.Input < 0 || q.Output < 0 {
					t.Fatalf("request %+v after %v", q, last)
				}
				last = q.AtS
			}
			play(t, trace)
		}
		if c, err := sim.ReadServeGen(strings.NewReader(text), "x"); err == nil {
			if c.MeanHz() > 0 && c.MeanHz() < 1e6 {
				if _, err := c.Process(0, 1, 900).Source(); err != nil && !strings.Contains(err.Error(), "coefficient") {
					t.Fatalf("a client that reads is no process: %v", err)
				}
			}
		}
	})
}

func play(t *testing.T, trace *sim.Trace) {
	s, err := trace.Source(sim.TraceDemand{Weights: []float64{1}})
	if err != nil {
		return // too short, or free
	}
	rng := seeded(t, 1)
	for a, ok := s.Next(rng); ok; a, ok = s.Next(rng) {
		if !(a.Work > 0) || math.IsInf(a.Work, 1) || !(a.Prefill >= 0 && a.Prefill <= 1) {
			t.Fatalf("arrival %+v", a)
		}
	}
}

// The trace drives a run.
func TestRunOnATrace(t *testing.T) {
	trace := readTrace(t, sim.ReadAzure, "llm/AzureLLMInferenceTrace_conv.csv")
	w := reference32(1)
	s, err := trace.Source(sim.TraceDemand{RateHz: w.DemandHz(), Weights: []float64{12, 8, 4}, Repeat: true})
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, sim.Config{World: w, Policy: "gmsr", Sources: []sim.Source{s}, DurationS: 3000, WarmupS: 500, Seed: 1})
	if !(r.ThroughputHz > 20 && r.P99S > r.P50S && r.MeanTTFTS < r.MeanLatencyS && r.MeanTTFTS > 0) {
		t.Errorf("got %+v", r)
	}
}
