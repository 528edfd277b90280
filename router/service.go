package router

import "math"

// KindHyperbolic names the service family l(N) = mu N/(kappa+N): the rate of a
// server whose batch latency grows linearly with the batch, alpha + beta N, with
// mu = 1/beta and kappa = alpha/beta. With kappa = 1 it is the M/M/1 queue as a
// fluid.
const KindHyperbolic = "hyperbolic"

// Service is the service-rate function l of a region: how many requests per
// second it completes with N requests inside. Only Kind KindHyperbolic exists;
// the methods are all that the rest of the package knows of a family.
type Service struct {
	Kind  string  `yaml:"kind" json:"kind"`
	Mu    float64 `yaml:"mu" json:"mu"`       // the supremum of l, requests/s; above 0
	Kappa float64 `yaml:"kappa" json:"kappa"` // the workload at which l is mu/2, requests; above 0
}

// RateHz is l(N), the requests per second completed at the given workload.
func (s Service) RateHz(workload float64) float64 {
	return s.Mu * workload / (s.Kappa + workload)
}

// CapacityHz is the supremum of RateHz; no finite workload reaches it.
func (s Service) CapacityHz() float64 { return s.Mu }

// Workload is N(r), the inverse of RateHz. It is +Inf from CapacityHz on.
func (s Service) Workload(rateHz float64) float64 {
	if rateHz >= s.Mu {
		return math.Inf(1)
	}
	return s.Kappa * rateHz / (s.Mu - rateHz)
}

// PriceS is the marginal cost dN/dr = 1/l'(N) at the given rate, in seconds. It
// is +Inf from CapacityHz on.
func (s Service) PriceS(rateHz float64) float64 {
	if rateHz >= s.Mu {
		return math.Inf(1)
	}
	return s.Mu * s.Kappa / ((s.Mu - rateHz) * (s.Mu - rateHz))
}

// IdlePriceS is the price at rate 0, below which RateAtHz is 0.
func (s Service) IdlePriceS() float64 { return s.Kappa / s.Mu }

// RateAtHz is the rate at which the price is priceS: the inverse of PriceS, and
// 0 below IdlePriceS.
func (s Service) RateAtHz(priceS float64) float64 {
	if priceS <= s.IdlePriceS() {
		return 0
	}
	return s.Mu - math.Sqrt(s.Kappa*s.Mu/priceS)
}

// RateSlope is the derivative of RateAtHz with respect to the price, from the
// right at IdlePriceS, in requests/s per second of price.
func (s Service) RateSlope(priceS float64) float64 {
	if priceS < s.IdlePriceS() {
		return 0
	}
	return 0.5 * math.Sqrt(s.Kappa*s.Mu) * math.Pow(priceS, -1.5)
}

// Conjugate is N*(p) = p r(p) - N(r(p)), the convex conjugate of Workload at the
// price p, in requests.
func (s Service) Conjugate(priceS float64) float64 {
	r := s.RateAtHz(priceS)
	return priceS*r - s.Workload(r)
}

// Slope is a = l'(N), in 1/s, at the given rate.
func (s Service) Slope(rateHz float64) float64 { return 1 / s.PriceS(rateHz) }

// Stiffness is h = d(1/l')/dN = -l”/(l')^2 at the given rate: how fast the price
// rises with the workload, in seconds per request.
func (s Service) Stiffness(rateHz float64) float64 {
	return 2 / (s.Mu - rateHz) // 2(kappa+N)/(mu kappa) with kappa+N = mu kappa/(mu-r)
}
