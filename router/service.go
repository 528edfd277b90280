package router

// Kinds of a Service. With rho = r/mu, the rate l(N), its inverse N(r) and the
// price dN/dr are:
//
//	hyperbolic             l = mu N/(kappa+N)               N = kappa r/(mu-r)               p = mu kappa/(mu-r)^2
//	generalised_hyperbolic l = mu N/(kappa^q+N^q)^(1/q)     N = kappa rho/(1-rho^q)^(1/q)    p = (kappa/mu)(1-rho^q)^-(1+1/q)
//	exponential            l = mu(1 - exp(-N/kappa))        N = -kappa ln(1-rho)             p = kappa/(mu-r)
//	mm1                    hyperbolic with kappa = 1
//	mmc                    N = c rho + C(c,rho) rho/(1-rho), C being Erlang's delay formula
//	piecewise_linear       straight lines through (0,0) and the points, concave, flat after the last
//	table                  a smooth concave curve through measured points
//
// Hyperbolic is the server whose batch latency grows linearly with the batch,
// alpha + beta N, with mu = 1/beta and kappa = alpha/beta.
const (
	KindHyperbolic  = "hyperbolic"
	KindGeneralised = "generalised_hyperbolic"
	KindExponential = "exponential"
	KindMM1         = "mm1"
	KindMMC         = "mmc"
	KindPiecewise   = "piecewise_linear"
	KindTable       = "table"
)

// DefaultLineSmoothing is the Smoothing of a Service of KindPiecewise that
// does not set it.
const DefaultLineSmoothing = 0.01

// Service is the service-rate function l of a region as a world file writes it:
// how many requests per second it completes with N requests inside. Kind says
// which other fields count. Its methods build the Curve anew on each call; what
// asks often keeps the Curve.
type Service struct {
	Kind    string  `yaml:"kind" json:"kind"`
	Mu      float64 `yaml:"mu,omitempty" json:"mu,omitempty"`           // the supremum of l, requests/s, all servers together; above 0
	Kappa   float64 `yaml:"kappa,omitempty" json:"kappa,omitempty"`     // the workload that sets the scale, requests (hyperbolic: where l is mu/2); above 0
	Q       float64 `yaml:"q,omitempty" json:"q,omitempty"`             // generalised_hyperbolic: the sharpness of the knee; 1 is hyperbolic
	Servers int     `yaml:"servers,omitempty" json:"servers,omitempty"` // mmc: how many servers of rate mu/servers

	// Points are measured rates (table) or the corners of the lines
	// (piecewise_linear) by rising workload; the origin goes without saying. Of a
	// table only what is on the concave envelope up to the greatest rate counts: a
	// dip or a decline behind the peak is nothing that an allocation should aim at.
	Points []Point `yaml:"points,omitempty" json:"points,omitempty"`

	// Smoothing is how much of its slope a line of piecewise_linear gains and
	// loses between its ends, a fraction in (0, 1]; 0 means DefaultLineSmoothing.
	// Without it the price would be a step function, which names no rate.
	Smoothing float64 `yaml:"smoothing,omitempty" json:"smoothing,omitempty"`
}

// Point is one point of a service-rate function.
type Point struct {
	Workload float64 `yaml:"n" json:"n"`       // requests inside
	RateHz   float64 `yaml:"rate" json:"rate"` // completed, requests/s
}

// Curve is the service-rate function ready for use. A service that passes
// World.Validate has one; for others the result means nothing.
func (s Service) Curve() Curve { return newCurve(s.family()) }

func (s Service) family() family {
	switch s.Kind {
	case KindGeneralised:
		return generalised{mu: s.Mu, kappa: s.Kappa, q: s.Q}
	case KindExponential:
		return exponential{mu: s.Mu, kappa: s.Kappa}
	case KindMM1:
		return hyperbolic{mu: s.Mu, kappa: 1}
	case KindMMC:
		return erlang{mu: s.Mu, servers: s.Servers}
	case KindPiecewise:
		return newLines(s.Points, s.Smoothing)
	case KindTable:
		return newTableCurve(s.Points)
	}
	return hyperbolic{mu: s.Mu, kappa: s.Kappa}
}

// RateHz is Curve.RateHz.
func (s Service) RateHz(workload float64) float64 { return s.Curve().RateHz(workload) }

// CapacityHz is Curve.CapacityHz.
func (s Service) CapacityHz() float64 { return s.Curve().CapacityHz() }

// Workload is Curve.Workload.
func (s Service) Workload(rateHz float64) float64 { return s.Curve().Workload(rateHz) }

// PriceS is Curve.PriceS.
func (s Service) PriceS(rateHz float64) float64 { return s.Curve().PriceS(rateHz) }

// IdlePriceS is Curve.IdlePriceS.
func (s Service) IdlePriceS() float64 { return s.Curve().IdlePriceS() }

// RateAtHz is Curve.RateAtHz.
func (s Service) RateAtHz(priceS float64) float64 { return s.Curve().RateAtHz(priceS) }

// RateSlope is Curve.RateSlope.
func (s Service) RateSlope(priceS float64) float64 { return s.Curve().RateSlope(priceS) }

// Conjugate is Curve.Conjugate.
func (s Service) Conjugate(priceS float64) float64 { return s.Curve().Conjugate(priceS) }

// Slope is Curve.Slope.
func (s Service) Slope(rateHz float64) float64 { return s.Curve().Slope(rateHz) }

// Stiffness is Curve.Stiffness.
func (s Service) Stiffness(rateHz float64) float64 { return s.Curve().Stiffness(rateHz) }
