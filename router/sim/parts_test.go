package sim_test

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"math"
	"slices"
	"testing"

	"strandline/router/sim"
)

// A quantile of the sketch is the sorted one to 1 %, whatever the values, and merging
// is adding.
func TestSketchQuantiles(t *testing.T) {
	rng := seeded(t, 91)
	var all sim.Sketch
	var values []float64
	for part := range 5 {
		var s sim.Sketch
		for range 4000 {
			v := math.Exp(float64(part) + 2*rng.NormFloat64())
			s.Add(v)
			values = append(values, v)
		}
		all.Merge(&s)
	}
	slices.Sort(values)
	if got := all.Count(); got != 20_000 {
		t.Errorf("got %d values, want 20000", got)
	}
	for _, q := range []float64{0, 0.001, 0.5, 0.9, 0.99, 0.9999, 1} {
		rank := max(1, int(math.Ceil(q*20_000)))
		near(t, fmt.Sprint("quantile ", q), all.Quantile(q), values[rank-1], 0.01)
	}
	var odd sim.Sketch
	if got := odd.Quantile(0.5); !math.IsNaN(got) {
		t.Errorf("nothing: got %v", got)
	}
	for _, v := range []float64{0, -1, 1e-300, 1e300, math.Inf(1), math.NaN()} {
		odd.Add(v)
	}
	if got := odd.Quantile(0.3); got != 0 {
		t.Errorf("two of six are not positive: got %v for the quantile 0.3", got)
	}
}

// A result comes back from gob as it went.
func TestResultSurvivesGob(t *testing.T) {
	want := run(t, sim.Config{World: reference32(1), Policy: "jsq", DurationS: 100, Seed: 1})
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(want); err != nil {
		t.Fatal(err)
	}
	var got sim.Result
	if err := gob.NewDecoder(&b).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprintf("%+v", &got) != fmt.Sprintf("%+v", want) { // NaN is not equal to itself
		t.Errorf("got %+v\nwant %+v", &got, want)
	}
}

func FuzzSketch(f *testing.F) {
	var s sim.Sketch
	s.Add(1)
	s.Add(100)
	b, _ := s.MarshalBinary()
	f.Add(b)
	f.Add([]byte{0, 1, 0, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		var s sim.Sketch
		if s.UnmarshalBinary(data) != nil {
			if s != (sim.Sketch{}) {
				t.Fatal("an error changed the sketch")
			}
			return
		}
		out, err := s.MarshalBinary()
		var again sim.Sketch
		if err != nil || again.UnmarshalBinary(out) != nil || again != s {
			t.Fatalf("%x does not come back", data)
		}
	})
}

// gapsOf draws inter-arrival times at rate 1.
func gapsOf(t *testing.T, g sim.Gaps, n int) (mean, cv float64) {
	s, err := sim.Process{Rates: []sim.RateStep{{RateHz: 1}}, Gaps: g}.Source()
	if err != nil {
		t.Fatal(err)
	}
	rng, last, sum, sq := seeded(t, 92), 0.0, 0.0, 0.0
	for range n {
		a, ok := s.Next(rng)
		if !ok {
			t.Fatal("the process ends")
		}
		gap := a.AtS - last
		last = a.AtS
		sum += gap
		sq += gap * gap
	}
	mean = sum / float64(n)
	return mean, math.Sqrt(sq/float64(n)-mean*mean) / mean
}

func TestGapsHaveTheirMoments(t *testing.T) {
	for _, g := range []sim.Gaps{{Kind: sim.GapPoisson, CV: 1}, {Kind: sim.GapGamma, CV: 0.3}, {Kind: sim.GapGamma, CV: 1}, {Kind: sim.GapGamma, CV: 2.5},
		{Kind: sim.GapWeibull, CV: 0.3}, {Kind: sim.GapWeibull, CV: 1}, {Kind: sim.GapWeibull, CV: 2.5}} {
		mean, cv := gapsOf(t, g, 400_000)
		near(t, fmt.Sprint(g, " mean"), mean, 1, 0.03)
		near(t, fmt.Sprint(g, " variation"), cv, g.CV, 0.05)
	}
	if mean, cv := gapsOf(t, sim.Gaps{Kind: sim.GapFixed}, 100); math.Abs(mean-1) > 1e-12 || cv > 1e-6 {
		t.Errorf("fixed: mean %v, variation %v", mean, cv)
	}
}

func TestSizesHaveMeanOne(t *testing.T) {
	for _, z := range []sim.Sizes{{}, {Kind: sim.SizeDeterministic}, {Kind: sim.SizeLogNormal, CV: 2}, {Kind: sim.SizePareto, Tail: 3}} {
		s, err := sim.Process{Rates: []sim.RateStep{{RateHz: 1}}, Sizes: z}.Source()
		if err != nil {
			t.Fatal(err)
		}
		rng, sum := seeded(t, 93), 0.0
		for range 400_000 {
			a, _ := s.Next(rng)
			sum += a.Work
		}
		near(t, fmt.Sprint(z), sum/400_000, 1, 0.02)
	}
}

// Changing rates are followed at once, also through silence, and repeat.
func TestRatesChange(t *testing.T) {
	p := sim.Process{Rates: []sim.RateStep{{FromS: 0, RateHz: 10}, {FromS: 100, RateHz: 0}, {FromS: 200, RateHz: 30}}, PeriodS: 300}
	s, err := p.Source()
	if err != nil {
		t.Fatal(err)
	}
	rng, count, last := seeded(t, 94), make([]float64, 3), 0.0
	const rounds = 20
	for {
		a, ok := s.Next(rng)
		if !ok || a.AtS < last {
			t.Fatalf("arrival at %v after %v, %v", a.AtS, last, ok)
		}
		if last = a.AtS; a.AtS >= rounds*300 {
			break
		}
		count[int(math.Mod(a.AtS, 300)/100)]++
	}
	for k, want := range []float64{10 * 100 * rounds, 0, 30 * 100 * rounds} {
		if math.Abs(count[k]-want) > 5*math.Sqrt(want) {
			t.Errorf("part %d: got %v arrivals, want %v", k, count[k], want)
		}
	}
	p.Rates, p.PeriodS = []sim.RateStep{{RateHz: 1}, {FromS: 10, RateHz: 0}}, 0
	if s, err = p.Source(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, ok := s.Next(rng); ok; _, ok = s.Next(rng) {
		n++
	}
	if n > 40 {
		t.Errorf("%d arrivals in 10 s of rate 1 and silence for ever", n)
	}
	p.Rates, p.PeriodS = []sim.RateStep{{RateHz: 0}}, 10
	if s, err = p.Source(); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Next(rng); ok {
		t.Error("a silent process has an arrival")
	}
}

// Student's interval against the table: two values have t = 12.706.
func TestInterval(t *testing.T) {
	mean, half := sim.Interval([]float64{1, 3})
	near(t, "mean", mean, 2, 1e-12)
	near(t, "half-width", half, 12.706, 1e-4) // sd 1.41421 over the root of 2
	_, half = sim.Interval([]float64{1, 2, 3, 4, 5})
	near(t, "half-width of five", half, 2.77645*math.Sqrt(2.5/5), 1e-5)
	if _, half := sim.Interval([]float64{1}); !math.IsNaN(half) {
		t.Errorf("one value: got %v", half)
	}
}
