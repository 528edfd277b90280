package router_test

import (
	"fmt"
	"math"
	"testing"

	"strandline/router"
)

// Reference document, section 1.5: the table of the symmetric case, and the critical
// gain under the delay of a DNS answer.
func TestCriticalStepSymmetric(t *testing.T) {
	for _, c := range []struct{ mu, kappa, rate, tau, theta, critical, simple float64 }{
		{10, 10, 10, 0.05, 0.1575, 0.627590, 0.625000},
		{10, 10, 16, 0.2, 0.1262, 0.006267, 0.006250},
		{10, 2, 10, 0.5, 0.9308, 0.362638, 0.312500},
	} {
		w := world([]float64{c.rate}, [][2]float64{{c.mu, c.kappa}, {c.mu, c.kappa}}, [][]float64{{c.tau, c.tau}})
		got := solved(t, w).Frontends[0].EtaMax
		if math.Abs(got-c.critical) > 0.5000001e-6 {
			t.Errorf("eta_c: got %.7f, want %.6f", got, c.critical)
		}
		s := w.Regions[0].Service
		gain, period := router.CriticalGain(s.Slope(c.rate/2), 2*c.tau)
		if theta := 2 * math.Pi * 2 * c.tau / period; math.Abs(theta-c.theta) > 0.00005 {
			t.Errorf("theta: got %.5f, want %.4f", theta, c.theta)
		}
		near(t, "gain", gain, got*c.rate*s.Stiffness(c.rate/2), 1e-6)
		if r := c.rate / 2; math.Abs(math.Pow(c.mu-r, 3)/(4*c.tau*c.rate*c.mu*c.kappa)-c.simple) > 1e-9 || got < c.simple || got > math.Pi/2*c.simple {
			t.Errorf("got %g, the simple bound is %g", got, c.simple)
		}
	}
	for _, c := range []struct{ delay, gain, gainError, period, periodError float64 }{
		{0.1, 2.5104, 0.5e-4, 4, 0.05}, {30.1, 0.01173, 0.5e-5, 136, 0.5},
	} {
		gain, period := router.CriticalGain(0.25, c.delay)
		if math.Abs(gain-c.gain) > c.gainError || math.Abs(period-c.period) > c.periodError {
			t.Errorf("delay %g: got gain %.6f, period %.3f; want %g, %g", c.delay, gain, period, c.gain, c.period)
		}
	}
	if gain, _ := router.CriticalGain(0.25, 0); !math.IsInf(gain, 1) {
		t.Errorf("no delay: got gain %g", gain)
	}
}

// The sweep must find what the closed form says, with any numbers of frontends and
// regions; a delay that differs in the fifth digit keeps the closed form from being
// used.
func TestSweepAgreesWithTheClosedForm(t *testing.T) {
	rng := seeded(t, 21)
	for n := range 12 {
		f, b := 1+rng.IntN(4), 2+rng.IntN(4)
		mu, kappa, tau := 5+20*rng.Float64(), 1+20*rng.Float64(), math.Exp(rng.NormFloat64()-2)
		demand := (0.3 + 0.6*rng.Float64()) * mu * float64(b)
		rates, services, taus := make([]float64, f), make([][2]float64, b), make([][]float64, f)
		for j := range services {
			services[j] = [2]float64{mu, kappa}
		}
		for i := range taus {
			rates[i] = demand * float64(1+i) / float64(f*(f+1)/2)
			for range services {
				taus[i] = append(taus[i], tau)
			}
		}
		w := world(rates, services, taus)
		p := &router.Plan{Regions: make([]router.RegionPlan, b), Frontends: make([]router.FrontendPlan, f)}
		for i := range p.Frontends {
			p.Frontends[i].RateHz = rates[i]
			for j := range services {
				p.Regions[j].RateHz = demand / float64(b)
				p.Frontends[i].Shares = append(p.Frontends[i].Shares, 1/float64(b))
			}
		}
		s, rate := w.Regions[0].Service, demand/float64(b)
		loop := router.Loop{StateAgeS: 0.1 * rng.Float64(), AveragingS: tau * rng.Float64(), IntervalS: tau * rng.Float64(), ActuatorS: 0.1 * rng.Float64()}
		gain, _ := router.CriticalGain(s.Slope(rate), 2*tau+loop.StateAgeS+loop.AveragingS/2+loop.IntervalS/2+loop.ActuatorS)
		want := gain / (demand * s.Stiffness(rate))
		name := fmt.Sprintf("%d: %d x %d", n, f, b)
		near(t, name+" closed form", router.EtaMax(w, p, loop)[0], want, 1e-9)
		*w.Latency.Matrix[0][0] *= 1 + 1e-5
		near(t, name+" sweep", router.EtaMax(w, p, loop)[0], want, 1.1e-3)
	}
}

// Absurd worlds get an answer that is not above the truth, and in time.
func TestEtaMaxOfAbsurdWorlds(t *testing.T) {
	for _, tau := range [][]float64{{1e-12, 1e6}, {1e9, 1e9 + 1}, {0, 1}, {1e-300, 1e-300}, {0.1, 1e4}} {
		w := world([]float64{8, 8}, [][2]float64{{10, 1e-6}, {10, 1e9}}, [][]float64{tau, {tau[1], tau[0]}})
		p := &router.Plan{
			Regions:   []router.RegionPlan{{RateHz: 8}, {RateHz: 8}},
			Frontends: []router.FrontendPlan{{RateHz: 8, Shares: []float64{0.5, 0.5}}, {RateHz: 8, Shares: []float64{0.5, 0.5}}},
		}
		for i, eta := range router.EtaMax(w, p, router.Loop{}) {
			if !(eta > 0) || math.IsInf(eta, 1) {
				t.Errorf("delays %v: frontend %d: got %g", tau, i, eta)
			}
		}
	}
}

// No delay, no demand, no capacity left: no panic, and the documented values.
func TestEtaMaxAtTheEdges(t *testing.T) {
	w := world([]float64{6, 6}, [][2]float64{{10, 10}, {10, 10}}, [][]float64{{0, 0}, {0.1, forbidden}})
	if eta := router.EtaMax(w, solved(t, w), router.Loop{}); !math.IsInf(eta[0], 1) || math.IsInf(eta[1], 1) {
		t.Errorf("no delay: got %v", eta)
	}
	if eta := router.EtaMax(w, solved(t, w), router.Loop{ActuatorS: 1}); math.IsInf(eta[0], 1) {
		t.Errorf("a slow actuator: got %v", eta)
	}
	p := solved(t, w)
	p.Regions[1].RateHz = 10
	if eta := router.EtaMax(w, p, router.Loop{ActuatorS: 1}); eta[0] != 0 {
		t.Errorf("a region at its capacity: got %v", eta)
	}
	for i := range w.Frontends {
		w.Frontends[i].RateHz = 0
	}
	for _, eta := range router.EtaMax(w, solved(t, w), router.Loop{ActuatorS: 1}) {
		if !math.IsInf(eta, 1) {
			t.Errorf("no demand: got %v", eta)
		}
	}
}

func BenchmarkEtaMax(b *testing.B) {
	for _, size := range [][2]int{{3, 3}, {40, 13}, {100, 20}, {1000, 100}} {
		w := randomWorld(seeded(b, 1), size[0], size[1], 0.8, 0)
		p := solved(b, w)
		for _, exact := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dx%d/exact=%v", size[0], size[1], exact), func(b *testing.B) {
				var eta []float64
				for b.Loop() {
					eta = router.EtaMax(w, p, router.Loop{Exact: exact})
				}
				b.ReportMetric(eta[0], "eta0")
			})
		}
	}
}
