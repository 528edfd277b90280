package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Gaps is a family of inter-arrival times of mean 1.
type Gaps struct {
	Kind GapKind
	CV   float64 // standard deviation over mean; above 0; GapPoisson ignores it
}

// GapKind names a renewal process.
type GapKind string

// The renewal processes. ServeGen (arXiv 2505.09999) found clients of language
// models to be Gamma or Weibull.
const (
	GapPoisson GapKind = "poisson"
	GapGamma   GapKind = "gamma"
	GapWeibull GapKind = "weibull"
	GapFixed   GapKind = "fixed"
)

// sampler draws from a distribution of mean 1.
type sampler func(rng *rand.Rand) float64

func (g Gaps) sampler() (sampler, error) {
	switch g.Kind {
	case GapPoisson, "":
		return (*rand.Rand).ExpFloat64, nil
	case GapFixed:
		return func(*rand.Rand) float64 { return 1 }, nil
	case GapGamma, GapWeibull:
		if !(g.CV > 0) || g.CV > 1e3 {
			return nil, fmt.Errorf("gaps: %v is not a coefficient of variation of a %s process; write one above 0, at most 1000", g.CV, g.Kind)
		}
		if g.Kind == GapGamma {
			shape := 1 / (g.CV * g.CV)
			return func(rng *rand.Rand) float64 { return gamma(rng, shape) / shape }, nil
		}
		k := weibullShape(g.CV)
		scale := 1 / math.Gamma(1+1/k)
		return func(rng *rand.Rand) float64 { return scale * math.Pow(rng.ExpFloat64(), 1/k) }, nil
	}
	return nil, fmt.Errorf("gaps: unknown kind %q; write poisson, gamma, weibull or fixed", g.Kind)
}

// gamma draws from the Gamma distribution of the given shape and scale 1
// (Marsaglia and Tsang 2000; shapes below 1 by the power of a uniform).
func gamma(rng *rand.Rand, shape float64) float64 {
	if shape < 1 {
		u := 1 - rng.Float64()
		return gamma(rng, shape+1) * math.Exp(math.Log(u)/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rng.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		u := 1 - rng.Float64()
		if math.Log(u) < 0.5*x*x+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

// weibullShape solves CV^2 = Gamma(1+2/k)/Gamma(1+1/k)^2 - 1, which falls with k.
func weibullShape(cv float64) float64 {
	low, high := 0.05, 1e3
	for range 200 {
		k := math.Sqrt(low * high)
		a, _ := math.Lgamma(1 + 2/k)
		b, _ := math.Lgamma(1 + 1/k)
		if math.Exp(a-2*b)-1 > cv*cv {
			low = k
		} else {
			high = k
		}
	}
	return math.Sqrt(low * high)
}

// Sizes is a family of work per request, of mean 1.
type Sizes struct {
	Kind SizeKind
	CV   float64 // of SizeLogNormal; above 0
	Tail float64 // exponent of SizePareto; above 1. At 2 and below the variance is infinite
}

// SizeKind names a distribution of work.
type SizeKind string

// The distributions of work.
const (
	SizeExponential   SizeKind = "exponential"
	SizeDeterministic SizeKind = "deterministic"
	SizeLogNormal     SizeKind = "lognormal"
	SizePareto        SizeKind = "pareto"
)

func (s Sizes) sampler() (sampler, error) {
	switch s.Kind {
	case SizeExponential, "":
		return (*rand.Rand).ExpFloat64, nil
	case SizeDeterministic:
		return func(*rand.Rand) float64 { return 1 }, nil
	case SizeLogNormal:
		if !(s.CV > 0) || s.CV > 1e3 {
			return nil, fmt.Errorf("sizes: %v is not a coefficient of variation; write one above 0, at most 1000", s.CV)
		}
		v := math.Log1p(s.CV * s.CV)
		sd := math.Sqrt(v)
		return func(rng *rand.Rand) float64 { return math.Exp(sd*rng.NormFloat64() - v/2) }, nil
	case SizePareto:
		if !(s.Tail > 1) || s.Tail > 1e3 {
			return nil, fmt.Errorf("sizes: %v is not the exponent of a Pareto tail with a mean; write one above 1, at most 1000", s.Tail)
		}
		least := (s.Tail - 1) / s.Tail
		return func(rng *rand.Rand) float64 { return least * math.Exp(rng.ExpFloat64()/s.Tail) }, nil
	}
	return nil, fmt.Errorf("sizes: unknown kind %q; write exponential, deterministic, lognormal or pareto", s.Kind)
}
