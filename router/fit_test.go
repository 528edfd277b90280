package router_test

import (
	"math"
	"testing"

	"strandline/router"
)

// pairs reads n, rate, n, rate, ...
func pairs(v ...float64) []router.Point {
	var points []router.Point
	for k := 0; k+1 < len(v); k += 2 {
		points = append(points, router.Point{Workload: v[k], RateHz: v[k+1]})
	}
	return points
}

// measuredCurve is a published throughput by concurrency, in tokens/s, with the
// relative errors of the best fits in percent.
type measuredCurve struct {
	name                                string
	points                              []router.Point
	hyperbolic, exponential, general, q float64
	mu, kappa                           float64 // of the hyperbolic fit; 0 = not stated
}

// Reference document, section 2.2. The last is from dstackai/benchmarks
// (Apache-2.0), amd/tgi_vs_vllm/vllm/data/result_vllm_short.csv; it dips at 64.
func measuredCurves() []measuredCurve {
	return []measuredCurve{
		{"Nemotron Nano 30B, 2xB200", pairs(1, 277, 8, 1881, 16, 3455, 64, 8120, 128, 11556, 256, 15552, 512, 18746, 1024, 18829), 6.2, 13.4, 3.5, 0.76, 19755, 76},
		{"Nemotron Super 49B, B200, rising part", pairs(1, 73, 8, 570, 16, 1054, 32, 2120, 64, 3816), 2.1, 2.2, 1.9, 0, 0, 0},
		{"Llama 405B 2048/2048, 8xH100", pairs(4, 224, 8, 416, 16, 782, 32, 911, 64, 999, 128, 1105, 256, 1196), 8.9, 6.8, 5.4, 1.95, 1306, 17.1},
		{"Llama 405B 128/2048, 8xH100", pairs(4, 122, 8, 232, 16, 459, 32, 889, 64, 1131), 7.3, 6.6, 2.3, 0, 0, 0}, // the reference stops at q = 4.3; the least error is at 5.2
		{"Mistral 7B, RTX 4090", pairs(4, 210, 8, 377, 16, 644, 32, 975, 48, 1190), 0.5, 1.7, 0.5, 1.01, 2058, 35.3},
		{"short prompts, AMD", pairs(1, 18.75, 2, 27.28, 4, 53.18, 8, 85.64, 16, 142.52, 32, 218.64, 64, 195.93, 128, 273.89, 256, 345.83, 512, 402.21, 1024, 434.89, 2048, 438.42), 15, 22, 10, 0, 0, 0},
	}
}

func TestFitMeasuredCurves(t *testing.T) {
	for _, c := range measuredCurves() {
		t.Run(c.name, func(t *testing.T) {
			for _, f := range []struct {
				kind    string
				percent float64
			}{{router.KindHyperbolic, c.hyperbolic}, {router.KindExponential, c.exponential}, {router.KindGeneralised, c.general}} {
				s, rms, err := router.FitCurve(f.kind, c.points)
				if err != nil {
					t.Fatal(err)
				}
				digit := 0.1 // of a figure printed with one decimal
				if f.percent >= 10 && f.percent == math.Round(f.percent) {
					digit = 0.51
				}
				better := digit
				if f.kind == router.KindGeneralised {
					better = 0.35 // the reference need not have found the least error over q
				}
				if d := 100*rms - f.percent; d > digit || d < -better {
					t.Errorf("%s: got %.2f %%, want %v %%", f.kind, 100*rms, f.percent)
				}
				if f.kind == router.KindHyperbolic && c.mu > 0 {
					near(t, "mu", s.Mu, c.mu, 5e-3)
					near(t, "kappa", s.Kappa, c.kappa, 2e-2)
				}
				if f.kind == router.KindGeneralised && c.q > 0 {
					near(t, "q", s.Q, c.q, 5e-2)
				}
			}
		})
	}
}

// The measured curve as a table: through the points on the envelope, concave, and
// no further than the peak.
func TestMeasuredTables(t *testing.T) {
	decline := append(measuredCurves()[1].points, router.Point{Workload: 256, RateHz: 1586})
	for _, points := range [][]router.Point{measuredCurves()[0].points, measuredCurves()[5].points, decline} {
		c := router.Service{Kind: router.KindTable, Points: points}.Curve()
		peak := 0.0
		for _, p := range points {
			peak = max(peak, p.RateHz)
			if p.Workload < 256 && c.RateHz(p.Workload) < p.RateHz*(1-1e-9) {
				t.Errorf("at %v: got %v, below the measured %v", p.Workload, c.RateHz(p.Workload), p.RateHz)
			}
		}
		near(t, "capacity", c.CapacityHz(), peak, 1e-12)
		last := 0.0
		for k := 1; k < 1000; k++ {
			price := c.PriceS(peak * float64(k) / 1000)
			if price < last*(1-1e-9) {
				t.Fatalf("the price falls from %v to %v at %d/1000 of the peak", last, price, k)
			}
			last = price
		}
	}
}

// feed lets the fit see bins of one second at workloads drawn between low and high.
func feed(t *testing.T, f *router.Fit, s router.Service, bins int, low, high, noise float64) {
	rng := seeded(t, 31)
	for range bins {
		n := low * math.Pow(high/low, rng.Float64())
		f.Observe(1, 1, n, s.RateHz(n)*math.Exp(noise*rng.NormFloat64()))
	}
}

func newFit(t *testing.T, o router.FitOptions) *router.Fit {
	f, err := router.NewFit(o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFitRecoversTheCurve(t *testing.T) {
	truth := router.Service{Kind: router.KindHyperbolic, Mu: 40, Kappa: 25}
	for _, noise := range []float64{0, 0.05} {
		f := newFit(t, router.FitOptions{})
		feed(t, f, truth, 2000, 2, 200, noise)
		s, report, ok := f.Hyperbolic()
		if !ok || !report.Identified {
			t.Fatalf("got %+v", report)
		}
		near(t, "mu", s.Mu, 40, 1e-9+noise)
		near(t, "kappa", s.Kappa, 25, 1e-9+2*noise)
		if report.RelativeRMS > 0.03 || report.Completions < 1000 {
			t.Errorf("noise %v: got %+v", noise, report)
		}
	}
	bent := router.Service{Kind: router.KindGeneralised, Mu: 40, Kappa: 25, Q: 2.5}
	f := newFit(t, router.FitOptions{})
	feed(t, f, bent, 2000, 2, 200, 0)
	s, report, ok := f.Generalised()
	line, lineReport, _ := f.Hyperbolic()
	if !ok || math.Abs(s.Q-2.5) > 0.1 || report.RelativeRMS > 0.01 || lineReport.RelativeRMS < 4*report.RelativeRMS {
		t.Errorf("got %+v %+v, hyperbolic %+v %+v", s, report, line, lineReport)
	}
	shape, report, ok := f.Table()
	if !ok || report.RelativeRMS > 0.02 {
		t.Errorf("table: got %+v", report)
	}
	near(t, "rate of the table", shape.RateHz(60), bent.RateHz(60), 0.02)
}

// At one workload the data tell one number: the slope stays the prior's, and the
// curve goes through the data.
func TestFitGuardsTheSlope(t *testing.T) {
	prior := router.Service{Kind: router.KindHyperbolic, Mu: 40, Kappa: 25}
	truth := router.Service{Kind: router.KindHyperbolic, Mu: 20, Kappa: 25}
	f := newFit(t, router.FitOptions{Prior: &prior})
	feed(t, f, truth, 500, 29, 31, 0.03)
	s, report, ok := f.Hyperbolic()
	if !ok || report.Identified || s.Mu != 40 {
		t.Errorf("got %+v %+v, want the slope of the prior", s, report)
	}
	near(t, "rate where it was observed", s.RateHz(30), truth.RateHz(30), 0.1)
	if _, _, ok := f.Generalised(); ok {
		t.Error("a shape from one workload")
	}
	if _, report, ok := newFit(t, router.FitOptions{}).Hyperbolic(); ok || !math.IsNaN(report.RelativeRMS) {
		t.Error("a service from nothing")
	}
	if s, _, ok := newFit(t, router.FitOptions{Prior: &prior}).Hyperbolic(); !ok || math.Abs(s.Mu-40) > 1e-9 || math.Abs(s.Kappa-25) > 1e-9 {
		t.Errorf("the prior alone: got %+v", s)
	}
}

// After a change the old data are forgotten with the half-life.
func TestFitForgets(t *testing.T) {
	fast, slow := router.Service{Kind: router.KindHyperbolic, Mu: 40, Kappa: 25}, router.Service{Kind: router.KindHyperbolic, Mu: 15, Kappa: 10}
	f := newFit(t, router.FitOptions{HalfLifeS: 60})
	feed(t, f, fast, 1000, 2, 200, 0.02)
	feed(t, f, slow, 900, 2, 200, 0.02)
	s, _, _ := f.Hyperbolic()
	near(t, "mu", s.Mu, 15, 0.02)
	near(t, "kappa", s.Kappa, 10, 0.05)
	f.Observe(1, 1, 0, 0)
	f.Observe(1, 1, math.NaN(), 3)
	f.Observe(1, 1, 5, math.Inf(1))
	if after, _, _ := f.Hyperbolic(); math.Abs(after.Mu-s.Mu) > 1e-9 {
		t.Errorf("empty bins move mu from %v to %v", s.Mu, after.Mu)
	}
}

func TestFitRefusesBadInput(t *testing.T) {
	for _, c := range []struct {
		kind   string
		points []router.Point
	}{
		{router.KindTable, pairs(1, 2, 3, 4)}, {router.KindHyperbolic, pairs(1, 2)}, {router.KindGeneralised, pairs(1, 2, 3, 4)},
		{router.KindHyperbolic, pairs(3, 4, 1, 2)}, {router.KindHyperbolic, pairs(1, 2, 3, math.NaN())}, {router.KindHyperbolic, nil},
	} {
		if s, _, err := router.FitCurve(c.kind, c.points); err == nil {
			t.Errorf("%s %v: got %+v, want an error", c.kind, c.points, s)
		}
	}
	for _, o := range []router.FitOptions{{HalfLifeS: -1}, {MinSpread: math.NaN()}, {Prior: &router.Service{Kind: router.KindMM1, Mu: 3}}} {
		if _, err := router.NewFit(o); err == nil {
			t.Errorf("%+v: got no error", o)
		}
	}
}
