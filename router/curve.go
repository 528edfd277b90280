package router

import "math"

// Curve is a service-rate function l ready for use, perhaps with a limit on the
// rate (Region.MaxRateHz). It is increasing and concave with l(0) = 0, so the
// workload N(r), its inverse, is convex. Its methods allocate nothing, and any
// number of goroutines may call them.
type Curve struct {
	family
	limitHz     float64 // no rate above is allowed
	attained    bool    // the limit itself is
	idlePriceS  float64
	limitPriceS float64 // from here on the rate stays at the limit
}

// family is one kind of service-rate function without a limit of ours.
type family interface {
	rate(workload float64) float64                 // l(N)
	workload(rateHz float64) float64               // N(r) below the capacity
	price(rateHz float64) float64                  // dN/dr, from the left at a corner
	priceSlope(rateHz float64) float64             // d2N/dr2
	rateAt(priceS float64) (rateHz, slope float64) // r(p) and dr/dp from the right, at or above the price of rate 0
	capacity() (rateHz float64, attained bool)     // the supremum of l, and whether l reaches it
}

func newCurve(f family) Curve {
	limit, attained := f.capacity()
	c := Curve{family: f, limitHz: limit, attained: attained, idlePriceS: f.price(0), limitPriceS: math.Inf(1)}
	if attained {
		c.limitPriceS = f.price(limit)
	}
	return c
}

// limited is the curve with no rate above limitHz.
func (c Curve) limited(limitHz float64) Curve {
	if limitHz < c.limitHz {
		c.limitHz, c.attained, c.limitPriceS = limitHz, true, c.price(limitHz)
	}
	return c
}

// RateHz is l(N), the requests per second completed at the given workload. A
// limit on the rate does not lower it, for that is a rule and not a property.
func (c Curve) RateHz(workload float64) float64 { return c.rate(workload) }

// CapacityHz is the supremum of the rates that an allocation may use.
func (c Curve) CapacityHz() float64 { return c.limitHz }

// Workload is N(r), the inverse of RateHz. It is +Inf above the capacity, and at
// it where no finite workload reaches it.
func (c Curve) Workload(rateHz float64) float64 {
	if c.isBeyond(rateHz) {
		return math.Inf(1)
	}
	return c.workload(rateHz)
}

// PriceS is the marginal cost dN/dr = 1/l'(N) at the given rate, in seconds. It
// is +Inf where Workload is.
func (c Curve) PriceS(rateHz float64) float64 {
	if c.isBeyond(rateHz) {
		return math.Inf(1)
	}
	return c.price(rateHz)
}

// isBeyond allows rounding above a limit that is attained.
func (c Curve) isBeyond(rateHz float64) bool {
	if c.attained {
		return rateHz > c.limitHz*(1+1e-12)
	}
	return rateHz >= c.limitHz
}

// IdlePriceS is the price at rate 0, below which RateAtHz is 0.
func (c Curve) IdlePriceS() float64 { return c.idlePriceS }

// RateAtHz is the rate at which the price is priceS: the inverse of PriceS, 0
// below IdlePriceS and the capacity above the price that it has there.
func (c Curve) RateAtHz(priceS float64) float64 {
	r, _ := c.at(priceS)
	return r
}

// RateSlope is the derivative of RateAtHz with respect to the price, from the
// right at IdlePriceS, in requests/s per second of price. It may be +Inf there.
func (c Curve) RateSlope(priceS float64) float64 {
	_, slope := c.at(priceS)
	return slope
}

func (c Curve) at(priceS float64) (rateHz, slope float64) {
	switch {
	case priceS < c.idlePriceS:
		return 0, 0
	case priceS >= c.limitPriceS:
		return c.limitHz, 0
	}
	rateHz, slope = c.rateAt(priceS)
	if priceS == c.idlePriceS {
		return 0, slope // the inverse is 0 to rounding only
	}
	return min(max(rateHz, 0), c.limitHz), slope
}

// Conjugate is N*(p) = p r(p) - N(r(p)), the convex conjugate of Workload at the
// price p, in requests.
func (c Curve) Conjugate(priceS float64) float64 {
	r, _ := c.at(priceS)
	return c.conjugateAt(priceS, r)
}

func (c Curve) conjugateAt(priceS, rateHz float64) float64 {
	return max(0, priceS*rateHz-c.Workload(rateHz)) // below 0 is rounding
}

// Slope is a = l'(N), in 1/s, at the given rate.
func (c Curve) Slope(rateHz float64) float64 { return 1 / c.PriceS(rateHz) }

// Stiffness is h = d(1/l')/dN = -l”/(l')^2 at the given rate: how fast the price
// rises with the workload, in seconds per request. From the capacity on it is +Inf.
func (c Curve) Stiffness(rateHz float64) float64 {
	if c.isBeyond(rateHz) {
		return math.Inf(1)
	}
	return c.priceSlope(rateHz) / c.price(rateHz)
}

// root solves f(x) = want for increasing f in [low, high]. It takes Newton's steps
// from the value and the slope that f returns, and halves the bracket instead
// where a step leaves it or is not half the one before.
func root(f func(x float64) (value, slope float64), want, low, high float64) float64 {
	x, last := (low+high)/2, high-low
	for range 200 {
		v, slope := f(x)
		step := (v - want) / slope
		if math.Abs(step) <= 2e-16*math.Abs(x) {
			return x
		}
		if v < want {
			low = x
		} else {
			high = x
		}
		if next := x - step; !(next > low && next < high) || math.Abs(step) > last/2 {
			step = x - (low+high)/2
		}
		if x-step == x {
			return x
		}
		x, last = x-step, math.Abs(step)
	}
	return x
}
