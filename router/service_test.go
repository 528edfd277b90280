package router_test

import (
	"math"
	"testing"

	"strandline/router"
)

// The closed forms must agree with each other and with numeric derivatives.
func TestServiceIsConsistent(t *testing.T) {
	rng := seeded(t, 1)
	for range 200 {
		s := router.Service{Kind: router.KindHyperbolic, Mu: 1 + 50*rng.Float64(), Kappa: 0.1 + 80*rng.Float64()}
		r := s.Mu * (0.01 + 0.97*rng.Float64())
		n, p, d := s.Workload(r), s.PriceS(r), 1e-5*(s.Mu-r)
		near(t, "l(N(r))", s.RateHz(n), r, 1e-12)
		near(t, "r(p(r))", s.RateAtHz(p), r, 1e-10)
		near(t, "p = dN/dr", (s.Workload(r+d)-s.Workload(r-d))/(2*d), p, 1e-7)
		near(t, "a = l'(N)", (s.RateHz(n+d)-s.RateHz(n-d))/(2*d), s.Slope(r), 1e-5)
		near(t, "h = d(1/l')/dN", (s.PriceS(s.RateHz(n+d))-s.PriceS(s.RateHz(n-d)))/(2*d), s.Stiffness(r), 1e-5)
		dp := 1e-5 * p
		near(t, "dr/dp", (s.RateAtHz(p+dp)-s.RateAtHz(p-dp))/(2*dp), s.RateSlope(p), 1e-5)
		near(t, "N* = max of pr - N", s.Conjugate(p), p*r-n, 1e-9)
		if other := p*(r+d) - s.Workload(r+d); other > s.Conjugate(p) {
			t.Errorf("conjugate at %v: %v is not the maximum, %v is more", p, s.Conjugate(p), other)
		}
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
}
