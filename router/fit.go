package router

import (
	"fmt"
	"math"
)

// FitCurve fits the family of the kind (KindHyperbolic, KindExponential or
// KindGeneralised) to measured points by least squares on the relative error of
// the rate, and returns the root mean square of that error. A table of points
// needs no fit: it is a Service itself. The points must rise in workload; at least
// two are needed, three for KindGeneralised.
func FitCurve(kind string, points []Point) (s Service, relativeRMS float64, err error) {
	need := 2
	switch kind {
	case KindHyperbolic, KindExponential:
	case KindGeneralised:
		need = 3
	default:
		return Service{}, 0, fmt.Errorf("fit: there is nothing to fit in kind %q", kind)
	}
	var faults problems
	checkPoints(&faults, "fit", Service{Kind: KindTable, Points: points})
	if len(faults) > 0 {
		return Service{}, 0, faults[0]
	}
	if len(points) < need {
		return Service{}, 0, fmt.Errorf("fit: %d points for kind %s, which needs %d", len(points), kind, need)
	}
	s, relativeRMS = fitWeighted(kind, points, nil)
	return s, relativeRMS, nil
}

// fitWeighted is FitCurve with weights; nil weighs all alike.
func fitWeighted(kind string, points []Point, weights []float64) (Service, float64) {
	scale := shapeFit{kind: kind, points: points, weights: weights, q: 1}
	if kind != KindGeneralised {
		return scale.best()
	}
	q := minimum(func(logQ float64) float64 {
		at := scale
		at.q = math.Exp(logQ)
		_, rms := at.best()
		return rms
	}, math.Log(0.1), math.Log(20), 24)
	scale.q = math.Exp(q)
	return scale.best()
}

// shapeFit is the fit of mu and kappa at a given q.
type shapeFit struct {
	kind    string
	points  []Point
	weights []float64
	q       float64
}

func (f *shapeFit) best() (Service, float64) {
	low := math.Log(1e-3 * f.points[0].Workload)
	high := math.Log(1e3 * f.points[len(f.points)-1].Workload)
	kappa := minimum(func(logKappa float64) float64 {
		_, rms := f.scaled(math.Exp(logKappa))
		return rms
	}, low, high, 32)
	return f.scaled(math.Exp(kappa))
}

// scaled is the best mu for kappa, which is linear: the relative error is
// mu a - 1 with a the rate at mu = 1 over the measured one.
func (f *shapeFit) scaled(kappa float64) (Service, float64) {
	s := Service{Kind: f.kind, Mu: 1, Kappa: kappa}
	if f.kind == KindGeneralised {
		s.Q = f.q
	}
	law := s.family()
	all, linear, square := 0.0, 0.0, 0.0
	for k, p := range f.points {
		w := 1.0
		if f.weights != nil {
			w = f.weights[k]
		}
		a := law.rate(p.Workload) / p.RateHz
		all, linear, square = all+w, linear+w*a, square+w*a*a
	}
	s.Mu = linear / square
	return s, math.Sqrt(max(0, 1-linear*linear/(square*all)))
}

// minimum of f over [low, high]: the best of so many intervals, then golden
// sections around it.
func minimum(f func(float64) float64, low, high float64, intervals int) float64 {
	const golden = 0.6180339887498949
	step := (high - low) / float64(intervals)
	best, least := low, math.Inf(1)
	for k := range intervals + 1 {
		if x := low + float64(k)*step; f(x) < least {
			best, least = x, f(x)
		}
	}
	low, high = max(low, best-step), min(high, best+step)
	a, b := high-golden*(high-low), low+golden*(high-low)
	fa, fb := f(a), f(b)
	for range 40 {
		if fa < fb {
			high, b, fb = b, a, fa
			a = high - golden*(high-low)
			fa = f(a)
		} else {
			low, a, fa = a, b, fb
			b = low + golden*(high-low)
			fb = f(b)
		}
	}
	return (low + high) / 2
}

// FitOptions tune a Fit; the zero value takes the defaults and has no prior.
type FitOptions struct {
	HalfLifeS float64 // of an observation's weight; 0 means 300

	// Prior is what a load test said, of KindHyperbolic. It counts as so many
	// completed requests around its kappa, which do not age; 0 means 100.
	Prior       *Service
	PriorWeight float64

	// MinSpread is the least standard deviation of the workload, over its mean, at
	// which the slope of the line moves; 0 means 0.15. Below it the data are one point
	// with noise, and tell one number, not two.
	MinSpread float64
}

// Fit estimates the service-rate function of one region from what it does. It
// fits the hyperbolic family in its straight form
//
//	n/X = kappa/mu + n/mu
//
// by recursive least squares with forgetting. A bin with X completions per second
// over its length has a relative error of about 1/sqrt(X length), so its weight is
// the number of completions over (n/X)^2. Beside that it keeps mean rates by
// workload, from which come the generalised family and the shape-free table.
type Fit struct {
	opts    FitOptions
	sums    lineSums
	prior   lineSums
	muInv   float64 // the last slope that the data told, or the prior's; 0 = none
	buckets [fitBuckets]bucket
}

// Buckets of the workload are quarters of an octave wide, from 1/4 to 2^20.
const (
	fitBuckets      = 88
	bucketsPerPower = 4
	lowestPower     = -2
)

type bucket struct{ completions, workload, seconds float64 } // all weighted, workload by seconds

// lineSums are the moments of a weighted straight line y over n.
type lineSums struct{ w, n, y, nn, ny, completions float64 }

func (s *lineSums) add(weight, n, y float64) {
	s.w, s.n, s.y = s.w+weight, s.n+weight*n, s.y+weight*y
	s.nn, s.ny = s.nn+weight*n*n, s.ny+weight*n*y
}

func (s *lineSums) fade(f float64) {
	s.w, s.n, s.y, s.nn, s.ny, s.completions = f*s.w, f*s.n, f*s.y, f*s.nn, f*s.ny, f*s.completions
}

func (s lineSums) plus(o lineSums) lineSums {
	return lineSums{s.w + o.w, s.n + o.n, s.y + o.y, s.nn + o.nn, s.ny + o.ny, s.completions + o.completions}
}

// NewFit starts a fit. The error says what is wrong with the options.
func NewFit(o FitOptions) (*Fit, error) {
	if o.HalfLifeS == 0 {
		o.HalfLifeS = 300
	}
	if o.MinSpread == 0 {
		o.MinSpread = 0.15
	}
	if o.PriorWeight == 0 {
		o.PriorWeight = 100
	}
	for _, v := range []float64{o.HalfLifeS, o.MinSpread, o.PriorWeight} {
		if !finite(v) || v < 0 {
			return nil, fmt.Errorf("fit: option %v, want a number above 0", v)
		}
	}
	f := &Fit{opts: o}
	if o.Prior == nil {
		return f, nil
	}
	var faults problems
	if checkService(&faults, "prior", *o.Prior); len(faults) > 0 || o.Prior.Kind != KindHyperbolic {
		return nil, fmt.Errorf("fit: the prior must be a valid service of kind %s", KindHyperbolic)
	}
	f.muInv = 1 / o.Prior.Mu
	for _, part := range []float64{1.0 / 3, 1, 3} {
		n := part * o.Prior.Kappa
		y := (o.Prior.Kappa + n) / o.Prior.Mu
		f.prior.add(o.PriorWeight/3/(y*y), n, y)
	}
	return f, nil
}

// Observe takes one bin of binS seconds that ended elapsedS seconds after the one
// before: the mean requests inside, waiting ones included, and the requests
// completed per second. Bins without completions or requests say nothing about the
// curve, and only let the others age.
func (f *Fit) Observe(elapsedS, binS, workload, rateHz float64) {
	fade := math.Exp2(-max(0, elapsedS) / f.opts.HalfLifeS)
	f.sums.fade(fade)
	for k := range f.buckets {
		b := &f.buckets[k]
		b.completions, b.workload, b.seconds = fade*b.completions, fade*b.workload, fade*b.seconds
	}
	if !(workload > 0 && rateHz > 0 && binS > 0) || math.IsInf(workload+rateHz+binS, 1) {
		return
	}
	y, completions := workload/rateHz, rateHz*binS
	f.sums.add(completions/(y*y), workload, y)
	f.sums.completions += completions
	b := &f.buckets[bucketOf(workload)]
	b.completions, b.workload, b.seconds = b.completions+completions, b.workload+workload*binS, b.seconds+binS
}

func bucketOf(workload float64) int {
	k := int(math.Floor(bucketsPerPower * (math.Log2(workload) - lowestPower)))
	return min(max(k, 0), fitBuckets-1)
}

// FitReport says how far to trust a fitted service.
type FitReport struct {
	RelativeRMS float64 // of the fit about the mean rates by workload; NaN before the first observation
	Completions float64 // what it rests on, aged, the prior left out
	Spread      float64 // standard deviation of the workload over its mean
	Identified  bool    // the spread is enough to tell the slope; false = the slope is an older one, or the prior's
}

// Hyperbolic is the fitted service; ok is false where there are neither data that
// tell both numbers nor a prior.
func (f *Fit) Hyperbolic() (s Service, report FitReport, ok bool) {
	report = f.report()
	all := f.sums.plus(f.prior)
	if all.w == 0 {
		return Service{}, report, false
	}
	n, y := all.n/all.w, all.y/all.w
	variance := all.nn/all.w - n*n
	if report.Identified && variance > 0 {
		if slope := (all.ny/all.w - n*y) / variance; slope > 0 {
			f.muInv = slope
		}
	}
	if f.muInv == 0 {
		return Service{}, report, false
	}
	intercept := max(y-n*f.muInv, 1e-3*y) // a server does nothing in no time
	s = Service{Kind: KindHyperbolic, Mu: 1 / f.muInv, Kappa: intercept / f.muInv}
	report.RelativeRMS = f.errorOf(s)
	return s, report, true
}

// Generalised is the fitted generalised hyperbolic service. It needs a spread that
// tells the slope, in at least three buckets of the workload.
func (f *Fit) Generalised() (s Service, report FitReport, ok bool) {
	report = f.report()
	points, weights := f.points()
	if !report.Identified || len(points) < 3 {
		return Service{}, report, false
	}
	s, report.RelativeRMS = fitWeighted(KindGeneralised, points, weights)
	return s, report, true
}

// Table is the shape-free estimate: the concave envelope of the mean rates by
// workload, with increments pooled until they fall, as far as the greatest rate.
func (f *Fit) Table() (s Service, report FitReport, ok bool) {
	report = f.report()
	points, _ := f.points()
	if len(points) == 0 {
		return Service{}, report, false
	}
	s = Service{Kind: KindTable, Points: envelope(points)}
	report.RelativeRMS = f.errorOf(s)
	return s, report, true
}

func (f *Fit) report() FitReport {
	r := FitReport{RelativeRMS: math.NaN(), Completions: f.sums.completions}
	if f.sums.w > 0 {
		n := f.sums.n / f.sums.w
		r.Spread = math.Sqrt(max(0, f.sums.nn/f.sums.w-n*n)) / n
	}
	r.Identified = r.Spread >= f.opts.MinSpread
	return r
}

// points are the mean rates by workload, where at least one completion counts.
func (f *Fit) points() (points []Point, weights []float64) {
	for _, b := range f.buckets {
		if b.completions >= 1 {
			points = append(points, Point{b.workload / b.seconds, b.completions / b.seconds})
			weights = append(weights, b.completions)
		}
	}
	return points, weights
}

func (f *Fit) errorOf(s Service) float64 {
	points, weights := f.points()
	law, all, square := s.family(), 0.0, 0.0
	for k, p := range points {
		e := law.rate(p.Workload)/p.RateHz - 1
		all, square = all+weights[k], square+weights[k]*e*e
	}
	return math.Sqrt(square / all)
}
