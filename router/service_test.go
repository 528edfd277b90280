package router_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"strandline/router"
)

// randomService draws a service of the kind.
func randomService(rng *rand.Rand, kind string) router.Service {
	s := router.Service{Kind: kind, Mu: 1 + 50*rng.Float64(), Kappa: 0.1 + 80*rng.Float64()}
	switch kind {
	case router.KindGeneralised:
		s.Q = 0.4 + 4*rng.Float64()
	case router.KindMMC:
		s.Servers = 1 + rng.IntN(40)
	case router.KindPiecewise:
		s.Smoothing = 0.001 + 0.9*rng.Float64()
		s.Points = concavePoints(rng)
	case router.KindTable:
		s.Points = concavePoints(rng)
		for k := range s.Points { // measured with noise, so not concave
			s.Points[k].RateHz *= 1 + 0.1*rng.Float64()
		}
	}
	return s
}

func concavePoints(rng *rand.Rand) []router.Point {
	var points []router.Point
	n, r, slope := 0.0, 0.0, 5*rng.Float64()
	for range 1 + rng.IntN(9) {
		step := 0.5 + 20*rng.Float64()
		n, r = n+step, r+slope*step
		slope *= 0.2 + 0.7*rng.Float64()
		points = append(points, router.Point{Workload: n, RateHz: r})
	}
	return points
}

func everyKind() []string {
	return []string{router.KindHyperbolic, router.KindGeneralised, router.KindExponential, router.KindMM1,
		router.KindMMC, router.KindPiecewise, router.KindTable}
}

// The functions of a curve must be each other's inverses, derivatives and
// conjugates, whatever the kind.
func TestCurvesAreConsistent(t *testing.T) {
	for _, kind := range everyKind() {
		t.Run(kind, func(t *testing.T) {
			rng := seeded(t, 1)
			for range 200 {
				s := randomService(rng, kind)
				c := s.Curve()
				checkCurve(t, c, c.CapacityHz()*(0.01+0.97*rng.Float64()))
				if t.Failed() {
					t.Fatalf("%+v", s)
				}
			}
		})
	}
}

func checkCurve(t *testing.T, c router.Curve, r float64) {
	t.Helper()
	n, p, d := c.Workload(r), c.PriceS(r), 1e-5*min(r, c.CapacityHz()-r)
	near(t, "l(N(r))", c.RateHz(n), r, 1e-10)
	jump := c.PriceS(r+d)/c.PriceS(r-d) > 1.1 // a corner of a piecewise linear curve is near
	back, around := c.RateAtHz(p), 1e-8*p/(c.Stiffness(r)*p*r)
	if !(math.Abs(back-r) <= (1e-9+around)*r) {
		t.Errorf("r(p(r)): got %.12g, want %.12g", back, r)
	}
	if !jump {
		near(t, "p = dN/dr", (c.Workload(r+d)-c.Workload(r-d))/(2*d), p, 1e-4)
		near(t, "a = l'(N)", c.Slope(r), 1/p, 1e-12)
	}
	// The conjugate is the maximum of pr - N(r), and attained.
	if p >= c.IdlePriceS() {
		if got := c.Conjugate(p); math.Abs(got-(p*r-n)) > 1e-9*n {
			t.Errorf("N* = pr - N: got %v, want %v", got, p*r-n)
		}
	}
	for _, f := range []float64{0.1, 0.7, 0.99, 1.01, 1.3} {
		if other := f * r; other < c.CapacityHz() && p*other-c.Workload(other) > c.Conjugate(p)+1e-12*n {
			t.Errorf("conjugate at %v: %v is not the maximum, %v is more", p, c.Conjugate(p), p*other-c.Workload(other))
		}
	}
	checkSecondDerivative(t, c, r, d)
}

// checkSecondDerivative compares Stiffness and RateSlope with differences of the
// first derivative, except where a knot lies between.
func checkSecondDerivative(t *testing.T, c router.Curve, r, d float64) {
	t.Helper()
	p := c.PriceS(r)
	left, right := (p-c.PriceS(r-d))/d, (c.PriceS(r+d)-p)/d
	if math.Abs(right-left) > 1e-3*(left+right) {
		return
	}
	slope := (c.PriceS(r+d) - c.PriceS(r-d)) / (2 * d)
	if slope < 1e-4*p/r {
		return // too flat for differences
	}
	near(t, "h = dp/dN", c.Stiffness(r), slope/p, 1e-3)
	near(t, "dr/dp", c.RateSlope(p), 1/slope, 1e-3)
}

// The closed forms of the reference document, table 2.1.
func TestClosedForms(t *testing.T) {
	const mu, kappa, q, n = 12.0, 30.0, 0.76, 21.0
	rho := math.Pow(math.Pow(kappa/n, q)+1, -1/q)
	for _, c := range []struct {
		what             string
		s                router.Service
		rate, price, sti float64
	}{
		{"hyperbolic", router.Service{Kind: router.KindHyperbolic, Mu: mu, Kappa: kappa}, mu * n / (kappa + n), (kappa + n) * (kappa + n) / (mu * kappa), 2 * (kappa + n) / (mu * kappa)},
		{"mm1", router.Service{Kind: router.KindMM1, Mu: mu}, mu * n / (1 + n), (1 + n) * (1 + n) / mu, 2 * (1 + n) / mu},
		{"exponential", router.Service{Kind: router.KindExponential, Mu: mu, Kappa: kappa}, mu * (1 - math.Exp(-n/kappa)), kappa / mu * math.Exp(n/kappa), math.Exp(n/kappa) / mu},
		{"generalised", router.Service{Kind: router.KindGeneralised, Mu: mu, Kappa: kappa, Q: q}, mu * rho, kappa / mu * math.Pow(1-math.Pow(rho, q), -(1+1/q)), math.NaN()},
		{"q = 1 is hyperbolic", router.Service{Kind: router.KindGeneralised, Mu: mu, Kappa: kappa, Q: 1}, mu * n / (kappa + n), (kappa + n) * (kappa + n) / (mu * kappa), 2 * (kappa + n) / (mu * kappa)},
		{"one server is mm1", router.Service{Kind: router.KindMMC, Mu: mu, Servers: 1}, mu * n / (1 + n), (1 + n) * (1 + n) / mu, 2 * (1 + n) / mu},
	} {
		r := c.s.RateHz(n)
		near(t, c.what+" rate", r, c.rate, 1e-12)
		near(t, c.what+" price", c.s.PriceS(r), c.price, 1e-11)
		if !math.IsNaN(c.sti) {
			near(t, c.what+" stiffness", c.s.Stiffness(r), c.sti, 1e-10)
		}
	}
}

// M/M/c against the stationary distribution of its birth and death process.
func TestErlangAgainstTheBirthDeathProcess(t *testing.T) {
	for _, c := range []struct {
		servers int
		rho     float64
	}{{1, 0.5}, {2, 0.9}, {3, 0.3}, {8, 0.95}, {40, 0.7}} {
		offered, p, sum, mean := float64(c.servers)*c.rho, 1.0, 0.0, 0.0
		for n := range 5000 {
			sum, mean = sum+p, mean+float64(n)*p
			p *= offered / float64(min(n+1, c.servers))
		}
		s := router.Service{Kind: router.KindMMC, Mu: 10, Servers: c.servers}
		near(t, "number in the system", s.Workload(10*c.rho), mean/sum, 1e-10)
	}
}

func TestPiecewiseKeepsItsCorners(t *testing.T) {
	s := router.Service{Kind: router.KindPiecewise, Points: []router.Point{{Workload: 4, RateHz: 8}, {Workload: 10, RateHz: 14}, {Workload: 30, RateHz: 16}}}
	for _, p := range s.Points {
		near(t, "workload at a corner", s.Workload(p.RateHz), p.Workload, 1e-12)
		near(t, "rate at a corner", s.RateHz(p.Workload), p.RateHz, 1e-12)
	}
	near(t, "half way up the second line", s.RateHz(7), 11, 0.01)
	near(t, "rate between the prices of two lines", s.RateAtHz(0.7), 8, 1e-12)
	if got := s.RateSlope(0.7); got != 0 {
		t.Errorf("slope at a corner: got %v, want 0", got)
	}
	if got := s.RateHz(99); got != 16 {
		t.Errorf("rate behind the last corner: got %v, want 16", got)
	}
}

// A table that dips and declines: the peak bounds it, the envelope bridges the dip.
func TestTableTakesTheEnvelope(t *testing.T) {
	s := router.Service{Kind: router.KindTable, Points: []router.Point{{Workload: 16, RateHz: 142}, {Workload: 32, RateHz: 219},
		{Workload: 64, RateHz: 196}, {Workload: 128, RateHz: 274}, {Workload: 256, RateHz: 250}}}
	near(t, "capacity", s.CapacityHz(), 274, 1e-12)
	near(t, "workload at the peak", s.Workload(274), 128, 1e-12)
	near(t, "on the envelope", s.RateHz(32), 219, 1e-12)
	if got := s.RateHz(64); got <= 219 || got >= 274 {
		t.Errorf("at the dip: got %v, want a rate between its neighbours", got)
	}
	if !math.IsInf(s.Workload(275), 1) || s.RateHz(256) != 274 {
		t.Error("behind the peak the curve goes on")
	}
}

func TestServiceAtTheEnds(t *testing.T) {
	s := router.Service{Kind: router.KindHyperbolic, Mu: 10, Kappa: 10}
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"workload at rate 0", s.Workload(0), 0},
		{"workload at capacity", s.Workload(10), math.Inf(1)},
		{"price at capacity", s.PriceS(10), math.Inf(1)},
		{"price at rate 0", s.PriceS(0), s.IdlePriceS()},
		{"rate at the idle price", s.RateAtHz(s.IdlePriceS()), 0},
		{"rate below the idle price", s.RateAtHz(0.5 * s.IdlePriceS()), 0},
		{"conjugate below the idle price", s.Conjugate(0.5 * s.IdlePriceS()), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", c.what, c.got, c.want)
		}
	}
	for _, kind := range everyKind() {
		c := randomService(seeded(t, 2), kind).Curve()
		if c.Workload(0) != 0 || c.RateHz(0) != 0 || c.RateAtHz(c.IdlePriceS()) != 0 || c.Conjugate(c.IdlePriceS()) != 0 {
			t.Errorf("%s: does not start at the origin", kind)
		}
		if got := c.RateAtHz(1e12 * c.IdlePriceS()); !(got > 0.9*c.CapacityHz() && got <= c.CapacityHz()) {
			t.Errorf("%s: rate at an enormous price: got %v of %v", kind, got, c.CapacityHz())
		}
		if !math.IsInf(c.Workload(1.001*c.CapacityHz()), 1) || !math.IsInf(c.PriceS(1.001*c.CapacityHz()), 1) {
			t.Errorf("%s: a finite workload above capacity", kind)
		}
	}
}

func TestCurvesDoNotAllocate(t *testing.T) {
	for _, kind := range everyKind() {
		c := randomService(seeded(t, 3), kind).Curve()
		r, sum := 0.6*c.CapacityHz(), 0.0
		allocs := testing.AllocsPerRun(10, func() {
			p := c.PriceS(r)
			sum += c.RateHz(c.Workload(r)) + c.RateAtHz(p) + c.RateSlope(p) + c.Conjugate(p) + c.Slope(r) + c.Stiffness(r)
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations", kind, allocs)
		}
	}
}

// FuzzService: what passes Validate gives finite, monotone curves and a plan.
func FuzzService(f *testing.F) {
	for k := range everyKind() {
		f.Add(uint8(k), 10.0, 8.0, 1.5, 4, 3.0, 2.0, 9.0, 3.0, 0.5)
	}
	f.Fuzz(func(t *testing.T, kind uint8, mu, kappa, q float64, servers int, n1, r1, n2, r2, load float64) {
		kinds := everyKind()
		s := router.Service{Kind: kinds[int(kind)%len(kinds)], Mu: mu, Kappa: kappa}
		switch s.Kind {
		case router.KindGeneralised:
			s.Q = q
		case router.KindMMC:
			s.Servers = servers % 500
		case router.KindPiecewise, router.KindTable:
			s.Points = []router.Point{{Workload: n1, RateHz: r1}, {Workload: n2, RateHz: r2}}
		}
		s = onlyUsed(s)
		w := world([]float64{0}, [][2]float64{{1, 1}, {10, 10}}, [][]float64{{0.01, 0.02}})
		w.Regions[0].Service = s
		w.Objective.Shed = &router.Shed{PriceS: 20}
		if w.Validate() != nil {
			return
		}
		c := s.Curve()
		r := c.CapacityHz() * math.Abs(math.Mod(load, 1))
		if math.IsNaN(r) || r > 0.999*c.CapacityHz() {
			return
		}
		for what, v := range map[string]float64{"workload": c.Workload(r), "price": c.PriceS(r), "rate": c.RateAtHz(c.PriceS(r)), "conjugate": c.Conjugate(c.PriceS(r))} {
			if math.IsNaN(v) || v < 0 {
				t.Errorf("%s at %v: got %v", what, r, v)
			}
		}
		if c.PriceS(r) < c.IdlePriceS()*(1-1e-9) {
			t.Errorf("the price %v at %v is below the idle price %v", c.PriceS(r), r, c.IdlePriceS())
		}
		w.Frontends[0].RateHz = r + 1
		if math.IsInf(w.Frontends[0].RateHz, 0) {
			return
		}
		if p, err := router.Solve(w, router.SolveOptions{TargetGap: 1e-6, MaxIterations: 200}); err == nil && (math.IsNaN(p.Cost) || math.IsNaN(p.Gap)) {
			t.Errorf("cost %v, gap %v", p.Cost, p.Gap)
		}
	})
}
