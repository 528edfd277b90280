package analysis_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"strandline/analysis"
	"strandline/datasets"
)

var (
	src    = netip.MustParseAddr("192.0.2.1")
	target = netip.MustParseAddr("198.51.100.1")
)

// seeded returns a random source whose seed the test shows when it fails.
func seeded(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// ping is the sample of one echo, lost when the round trip is negative.
func ping(seq int, rttNS int64) datasets.Sample {
	s := datasets.Sample{Vantage: "v", Target: target, Proto: datasets.ProtoICMP, Src: src, TTL: 64, Seq: uint32(seq),
		TxNS: int64(seq) * 1e9, Outcome: datasets.OutcomeTimeout}
	if rttNS >= 0 {
		s.Outcome, s.From, s.Stamp, s.RTTNS, s.RxNS = datasets.OutcomeReply, target, datasets.StampSim, rttNS, s.TxNS+rttNS
	}
	return s
}

// pings are echoes with the given round trips in milliseconds, in this order.
func pings(ms ...float64) []datasets.Sample {
	var out []datasets.Sample
	for i, v := range ms {
		out = append(out, ping(i, int64(v*1e6)))
	}
	return out
}

// ranks are echoes whose round trips are 1, 2, ... n ms, so that a time tells its rank.
func ranks(n int) []datasets.Sample {
	var out []datasets.Sample
	for i := range n {
		out = append(out, ping(i, int64(i+1)*1e6))
	}
	return out
}

// show makes rows comparable, NaN included.
func show(v any) string { return fmt.Sprintf("%+v", v) }

func TestLatencyOf(t *testing.T) {
	none := datasets.NoEstimate()
	base := datasets.Latency{Vantage: "v", Target: target, Proto: datasets.ProtoICMP, Confidence: 50, Stamp: datasets.StampSim}
	for _, tc := range []struct {
		name    string
		samples []datasets.Sample
		want    datasets.Latency
	}{
		{"one reply", pings(5),
			datasets.Latency{Sent: 1, Received: 1, MinMS: 5, P50MS: 5, P50LoMS: none, P50HiMS: none, P99MS: 5, MeanMS: 5, JitterMS: none}},
		{"two replies", pings(5, 2),
			datasets.Latency{Sent: 2, Received: 2, MinMS: 2, P50MS: 2, P50LoMS: 2, P50HiMS: 5, P99MS: 5, MeanMS: 3.5, JitterMS: 3}},
		{"a loss between", pings(5, -1, 2, 8),
			datasets.Latency{Sent: 4, Received: 3, Loss: 0.25, MinMS: 2, P50MS: 5, P50LoMS: 2, P50HiMS: 8, P99MS: 8, MeanMS: 5, JitterMS: 4.5}},
		{"all lost", pings(-1, -1),
			datasets.Latency{Sent: 2, Loss: 1, MinMS: none, P50MS: none, P50LoMS: none, P50HiMS: none, P99MS: none, MeanMS: none, JitterMS: none}},
	} {
		want := tc.want
		want.Vantage, want.Target, want.Proto, want.Confidence = base.Vantage, base.Target, base.Proto, base.Confidence
		if want.Received > 0 {
			want.Stamp = base.Stamp
		}
		got := analysis.LatencyOf(tc.samples, 50)
		if show(got) != show(want) {
			t.Errorf("%s: got\n%+v, want\n%+v", tc.name, got, want)
		}
		if err := got.Validate(); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	if got := analysis.LatencyOf(nil, 99); got.Sent != 0 || got.P50MS.Known() || got.MinMS.Known() {
		t.Errorf("no samples: %+v", got)
	}
}

func TestWhatCountsAsSent(t *testing.T) {
	refused := ping(7, -1)
	refused.Outcome = datasets.OutcomeSendError
	loop := ping(8, 3e6)
	loop.Outcome, loop.From = datasets.OutcomeTTLExceeded, src
	samples := append(pings(5, 6, -1), refused, loop)
	if got := analysis.LatencyOf(samples, 99); got.Sent != 4 || got.Received != 2 || got.Loss != 0.5 || got.P99MS != 6 {
		t.Errorf("got %+v, want 4 sent, 2 received", got)
	}
	// A trace to the same target: TTL 1 to 3 ask hops, 4 is the target.
	without := analysis.LatencyOf(append(samples, at(ping(20, 7e6), 4)), 99)
	for ttl := range uint8(3) {
		hop := at(loop, ttl+1)
		samples = append(samples, hop, at(ping(9, -1), ttl+1))
	}
	samples = append(samples, at(ping(20, 7e6), 4))
	if got := analysis.LatencyOf(samples, 99); show(got) != show(without) {
		t.Errorf("with a trace got\n%+v, want\n%+v", got, without)
	}
}

func at(s datasets.Sample, ttl uint8) datasets.Sample { s.TTL = ttl; return s }

func TestStampIsTheLeastExact(t *testing.T) {
	samples := pings(1, 2, 3, -1)
	samples[0].Stamp, samples[1].Stamp, samples[2].Stamp = datasets.StampKernel, datasets.StampUser, datasets.StampHardware
	if got := analysis.LatencyOf(samples, 99).Stamp; got != datasets.StampUser {
		t.Errorf("got %s, want user", got)
	}
	if got := analysis.LatencyOf(samples[2:], 99).Stamp; got != datasets.StampHardware {
		t.Errorf("got %s, want hardware", got)
	}
}

// TestMedianIntervalTable holds the interval to figures from tables of the
// binomial distribution: for 20 values ranks 3 to 18 cover with 0.99960 and 4 to
// 17 with 0.99742.
func TestMedianIntervalTable(t *testing.T) {
	for _, tc := range []struct {
		n          int
		confidence float64
		lo, hi     datasets.Millis // 0: no interval
	}{
		{20, 99.9, 3, 18}, {20, 99.959, 3, 18}, {20, 99.961, 2, 19}, {20, 99.741, 4, 17}, {20, 99.743, 3, 18},
		{10, 99.9, 0, 0}, {11, 99.9, 1, 11}, {5, 95, 0, 0}, {6, 95, 1, 6}, {8, 95, 1, 8}, {9, 95, 2, 8},
		{100, 95, 40, 61}, {1, 0, 1, 1}, {2, 0, 1, 2}, {3, 0, 2, 2}, {3, 1, 1, 3}, {3, 75, 1, 3}, {5, 62.5, 2, 4}, {5, 62.6, 1, 5}, {1, 50, 0, 0}, {1000, 100, 0, 0},
	} {
		got := analysis.LatencyOf(ranks(tc.n), tc.confidence)
		if known := got.P50LoMS.Known(); known != (tc.lo > 0) || known && (got.P50LoMS != tc.lo || got.P50HiMS != tc.hi) {
			t.Errorf("%d at %v: got %v to %v, want %v to %v", tc.n, tc.confidence, got.P50LoMS, got.P50HiMS, tc.lo, tc.hi)
		}
	}
}

// exactRank is the lower rank by exact integers: the largest r with
// 2 (C(n,0) + ... + C(n,r-1)) <= (1 - confidence/100) 2^n, no more than the middle.
func exactRank(n int, confidence float64) int {
	fraction, exponent := math.Frexp(1 - confidence/100) // = mantissa 2^(exponent-53), exactly
	mantissa := big.NewInt(int64(math.Ldexp(fraction, 53)))
	limit := mantissa.Lsh(mantissa, uint(n))
	sum, term := new(big.Int), big.NewInt(1) // term = C(n, r)
	r := 0
	for ; r < (n+1)/2; r++ {
		sum.Add(sum, term)
		if new(big.Int).Lsh(sum, uint(1+53-exponent)).Cmp(limit) > 0 {
			break
		}
		term.Mul(term, big.NewInt(int64(n-r)))
		term.Quo(term, big.NewInt(int64(r+1)))
	}
	return r
}

func TestMedianIntervalAgainstExactIntegers(t *testing.T) {
	sizes := []int{333, 400, 401, 402, 777, 1000, 1074, 1075, 1100, 1600, 2000, 5000}
	for n := range 130 {
		sizes = append(sizes, n+1)
	}
	for _, n := range sizes {
		for _, confidence := range []float64{50, 90, 95, 99, 99.9, 99.99, 99.999999} {
			got := analysis.LatencyOf(ranks(n), confidence)
			want := exactRank(n, confidence)
			if want == 0 {
				if got.P50LoMS.Known() || got.P50HiMS.Known() {
					t.Errorf("%d at %v: got %v to %v, want no interval", n, confidence, got.P50LoMS, got.P50HiMS)
				}
				continue
			}
			if got.P50LoMS != datasets.Millis(want) || got.P50HiMS != datasets.Millis(n+1-want) {
				t.Errorf("%d at %v: got ranks %v to %v, want %d to %d", n, confidence, got.P50LoMS, got.P50HiMS, want, n+1-want)
			}
		}
	}
}

// TestMedianIntervalCovers draws from distributions of known medians: heavy
// tails, two modes, and one with atoms.
func TestMedianIntervalCovers(t *testing.T) {
	r := seeded(t)
	for name, dist := range map[string]struct {
		draw   func() float64 // ms
		median float64
	}{
		"exponential": {r.ExpFloat64, math.Ln2},
		"pareto":      {func() float64 { return math.Pow(1-r.Float64(), -2) }, 4},
		"two modes":   {func() float64 { return 10 + r.Float64() + 40*float64(r.IntN(2)) }, 11},
		"atoms":       {func() float64 { return float64(r.IntN(3)) }, 1},
	} {
		const trials, n, confidence = 4000, 25, 95.0
		covered := 0
		for range trials {
			ms := make([]float64, n)
			for i := range ms {
				ms[i] = dist.draw()
			}
			l := analysis.LatencyOf(pings(ms...), confidence)
			// Round trips are whole nanoseconds.
			if float64(l.P50LoMS) <= dist.median+1e-6 && dist.median-1e-6 <= float64(l.P50HiMS) {
				covered++
			}
		}
		// Ranks 8 to 18 cover with 0.9567; six standard deviations of the count below 0.95.
		if least := trials*0.95 - 6*math.Sqrt(trials*0.95*0.05); float64(covered) < least {
			t.Errorf("%s: %d of %d intervals cover the median, want at least %.0f", name, covered, trials, least)
		}
	}
}

// percentile is nearest rank by its definition.
func percentile(sorted []int64, share float64) int64 {
	for _, v := range sorted {
		below := 0
		for _, w := range sorted {
			if w <= v {
				below++
			}
		}
		if float64(below) >= share*float64(len(sorted))-1e-9 {
			return v
		}
	}
	panic("no values")
}

// randomPings are pings of random round trips, a fifth of them lost.
func randomPings(r *rand.Rand) (samples []datasets.Sample, rttNS []int64) {
	for i := range 1 + r.IntN(250) {
		s := ping(i, 1+r.Int64N(1e8))
		if r.IntN(5) == 0 {
			s = ping(i, -1)
		} else {
			rttNS = append(rttNS, s.RTTNS)
		}
		samples = append(samples, s)
	}
	return samples, rttNS
}

func TestLatencyAgainstDefinitions(t *testing.T) {
	r := seeded(t)
	for range 300 {
		samples, rttNS := randomPings(r)
		got := analysis.LatencyOf(samples, analysis.DefaultConfidence)
		if err := got.Validate(); err != nil {
			t.Fatal(err)
		}
		if len(rttNS) == 0 {
			continue
		}
		var sum, steps big.Int
		for i, v := range rttNS {
			sum.Add(&sum, big.NewInt(v))
			if i > 0 {
				steps.Add(&steps, new(big.Int).Abs(big.NewInt(v-rttNS[i-1])))
			}
		}
		n := int64(len(rttNS))
		mean, _ := new(big.Rat).SetFrac(&sum, big.NewInt(n*1e6)).Float64()
		sorted := slices.Sorted(slices.Values(rttNS))
		for _, c := range []struct {
			what string
			got  datasets.Millis
			want float64
		}{
			{"min", got.MinMS, float64(sorted[0]) / 1e6},
			{"p50", got.P50MS, float64(percentile(sorted, 0.5)) / 1e6},
			{"p99", got.P99MS, float64(percentile(sorted, 0.99)) / 1e6},
		} {
			if float64(c.got) != c.want {
				t.Fatalf("%d replies: %s got %v, want %v", n, c.what, c.got, c.want)
			}
		}
		if math.Abs(float64(got.MeanMS)-mean) > 1e-9 {
			t.Fatalf("mean got %v, want %v", got.MeanMS, mean)
		}
		if n > 1 {
			jitter, _ := new(big.Rat).SetFrac(&steps, big.NewInt((n-1)*1e6)).Float64()
			if math.Abs(float64(got.JitterMS)-jitter) > 1e-9 {
				t.Fatalf("jitter got %v, want %v", got.JitterMS, jitter)
			}
		}
	}
}

func TestLatencyScales(t *testing.T) {
	r := seeded(t)
	for range 100 {
		samples, _ := randomPings(r)
		doubled := slices.Clone(samples)
		for i := range doubled {
			doubled[i].RTTNS *= 2
		}
		got, want := analysis.LatencyOf(doubled, 99), analysis.LatencyOf(samples, 99)
		for _, m := range []*datasets.Millis{&want.MinMS, &want.P50MS, &want.P50LoMS, &want.P50HiMS, &want.P99MS, &want.MeanMS, &want.JitterMS} {
			*m *= 2
		}
		if show(got) != show(want) {
			t.Fatalf("got\n%+v, want\n%+v", got, want)
		}
	}
}

func TestLatencies(t *testing.T) {
	r := seeded(t)
	other := netip.MustParseAddr("2001:db8::9")
	var all []datasets.Sample
	var want []datasets.Latency
	for _, vantage := range []string{"a", "b"} {
		for _, to := range []netip.Addr{target, other} {
			for _, proto := range []datasets.Proto{datasets.ProtoICMP, datasets.ProtoUDP} {
				samples, _ := randomPings(r)
				for i := range samples {
					samples[i].Vantage, samples[i].Target, samples[i].Proto = vantage, to, proto
				}
				all = append(all, samples...)
				row := analysis.LatencyOf(samples, 99)
				row.Frontend = map[string]string{"a": "fra"}[vantage]
				row.Region = map[netip.Addr]string{other: "eu"}[to]
				want = append(want, row)
			}
		}
	}
	frontends := analysis.FrontendsOf([]datasets.Vantage{{Name: "a", Labels: map[string]string{"frontend": "fra"}}, {Name: "b"}})
	regions := analysis.RegionsOf([]datasets.Target{{Addr: other, Region: "eu"}, {Addr: target}})
	for range 3 {
		got := analysis.Latencies(slices.Values(all), frontends, regions, 99)
		if show(got) != show(want) {
			t.Fatalf("got\n%+v, want\n%+v", got, want)
		}
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] }) // the order does not matter
	}
	if got := analysis.Latencies(slices.Values(all[:0]), nil, nil, 99); len(got) != 0 {
		t.Errorf("no samples: %+v", got)
	}
}

func BenchmarkLatencyOf(b *testing.B) {
	samples := ranks(1000)
	for b.Loop() {
		analysis.LatencyOf(samples, analysis.DefaultConfidence)
	}
}
