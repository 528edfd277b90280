package router

import (
	"math"
	"sort"
)

// The families behind the kinds of a Service. All are in closed form but erlang,
// whose inverses are roots.

type hyperbolic struct{ mu, kappa float64 }

func (h hyperbolic) rate(n float64) float64     { return h.mu * n / (h.kappa + n) }
func (h hyperbolic) workload(r float64) float64 { return h.kappa * r / (h.mu - r) }
func (h hyperbolic) price(r float64) float64 {
	return h.mu * h.kappa / ((h.mu - r) * (h.mu - r))
}
func (h hyperbolic) priceSlope(r float64) float64 { return 2 * h.price(r) / (h.mu - r) }
func (h hyperbolic) rateAt(p float64) (float64, float64) {
	free := math.Sqrt(h.kappa * h.mu / p) // mu - r
	return h.mu - free, 0.5 * free / p
}
func (h hyperbolic) capacity() (float64, bool) { return h.mu, false }

type exponential struct{ mu, kappa float64 }

func (e exponential) rate(n float64) float64       { return -e.mu * math.Expm1(-n/e.kappa) }
func (e exponential) workload(r float64) float64   { return -e.kappa * math.Log1p(-r/e.mu) }
func (e exponential) price(r float64) float64      { return e.kappa / (e.mu - r) }
func (e exponential) priceSlope(r float64) float64 { return e.price(r) / (e.mu - r) }
func (e exponential) rateAt(p float64) (float64, float64) {
	free := e.kappa / p
	return e.mu - free, free / p
}
func (e exponential) capacity() (float64, bool) { return e.mu, false }

type generalised struct{ mu, kappa, q float64 }

func (g generalised) rate(n float64) float64 {
	if n == 0 {
		return 0
	}
	return g.mu * math.Pow(1+math.Pow(g.kappa/n, g.q), -1/g.q)
}

func (g generalised) workload(r float64) float64 {
	rho := r / g.mu
	return g.kappa * rho * math.Pow(1-math.Pow(rho, g.q), -1/g.q)
}

func (g generalised) price(r float64) float64 {
	return g.kappa / g.mu * math.Pow(1-math.Pow(r/g.mu, g.q), -(1+1/g.q))
}

func (g generalised) priceSlope(r float64) float64 {
	rho := r / g.mu
	return g.kappa / (g.mu * g.mu) * (g.q + 1) * math.Pow(rho, g.q-1) * math.Pow(1-math.Pow(rho, g.q), -(2+1/g.q))
}

func (g generalised) rateAt(p float64) (float64, float64) {
	// rho^q = 1 - (p/idle)^(-q/(q+1)), without cancellation near the idle price
	z := -math.Expm1(-g.q / (g.q + 1) * math.Log(p*g.mu/g.kappa))
	r := g.mu * math.Pow(max(z, 0), 1/g.q)
	return r, 1 / g.priceSlope(r)
}

func (g generalised) capacity() (float64, bool) { return g.mu, false }

// erlang is the queue M/M/c: c servers of rate mu/c each.
type erlang struct {
	mu      float64
	servers int
}

// queue is the number in the system and its first two derivatives with respect
// to the offered load a = c r/mu. Erlang's loss formula B comes by its recursion,
// its derivative from d ln B/da = c/a - 1 + B; the number waiting is
// rho B/((1-rho)(1-rho+rho B)).
func (e erlang) queue(a float64) (n, d1, d2 float64) {
	c := float64(e.servers)
	b := 1.0
	for k := 1; k <= e.servers; k++ {
		b = a * b / (float64(k) + a*b)
	}
	b1, b2 := 0.0, 0.0 // B', B''
	switch {
	case a > 0:
		g := c/a - 1 + b
		b1 = b * g
		b2 = b1*g + b*(b1-c/(a*a))
	case e.servers == 1:
		b1, b2 = 1, -2
	case e.servers == 2:
		b2 = 1
	}
	rho, free := a/c, 1-a/c
	x, x1, x2 := rho*b, b/c+rho*b1, 2*b1/c+rho*b2 // rho B
	s, s1, s2 := free+x, x1-1/c, x2               // 1 - rho + rho B
	v, v1, v2 := free*s, free*s1-s/c, free*s2-2*s1/c
	n = a + x/v
	d1 = 1 + x1/v - x*v1/(v*v)
	d2 = x2/v - (2*x1*v1+x*v2)/(v*v) + 2*x*v1*v1/(v*v*v)
	return n, d1, d2
}

func (e erlang) perRate() float64 { return float64(e.servers) / e.mu } // da/dr

func (e erlang) workload(r float64) float64 {
	n, _, _ := e.queue(r * e.perRate())
	return n
}

func (e erlang) price(r float64) float64 {
	_, d, _ := e.queue(r * e.perRate())
	return d * e.perRate()
}

func (e erlang) priceSlope(r float64) float64 {
	_, _, d := e.queue(r * e.perRate())
	return d * e.perRate() * e.perRate()
}

func (e erlang) rate(n float64) float64 {
	if n <= 0 {
		return 0
	}
	c := float64(e.servers)
	a := root(func(a float64) (float64, float64) { n, d, _ := e.queue(a); return n, d }, n, 0, min(n, c))
	return min(a/e.perRate(), e.mu)
}

func (e erlang) rateAt(p float64) (float64, float64) {
	scale := e.perRate()
	a := root(func(a float64) (float64, float64) { _, d, d2 := e.queue(a); return d, d2 }, p/scale, 0, float64(e.servers))
	_, _, d2 := e.queue(a)
	return a / scale, 1 / (d2 * scale * scale)
}

func (e erlang) capacity() (float64, bool) { return e.mu, false }

// spline is a concave function in quadratic pieces: l' falls linearly along each,
// and may fall at once between two.
type spline struct {
	pieces []piece
	end    Point
}

// piece is l(N) = rate + slope x - bend x^2/2 with x = N - workload.
type piece struct{ workload, rate, slope, bend float64 }

// add appends the piece from the end to the point to, along which l' falls from
// first to last; their mean must be the slope between the two points.
func (s *spline) add(to Point, first, last float64) {
	bend := (first - last) / (to.Workload - s.end.Workload)
	s.pieces = append(s.pieces, piece{s.end.Workload, s.end.RateHz, first, bend})
	s.end = to
}

// newLines keeps the corners where they are and tilts each line about its middle,
// by no more than keeps l' falling.
func newLines(corners []Point, smoothing float64) *spline {
	if smoothing == 0 {
		smoothing = DefaultLineSmoothing
	}
	slopes := secants(corners)
	s := &spline{}
	for k, at := range corners {
		tilt := smoothing * slopes[k] / 2
		if k > 0 {
			tilt = min(tilt, (slopes[k-1]-slopes[k])/2)
		}
		if k+1 < len(slopes) {
			tilt = min(tilt, (slopes[k]-slopes[k+1])/2)
		}
		s.add(at, slopes[k]+tilt, slopes[k]-tilt)
	}
	return s
}

// newTableCurve runs through the concave envelope of the points with the slopes of
// the monotone cubic of Fritsch and Butland (SIAM J. Sci. Stat. Comput. 5, 1984).
// Those lie strictly between the secants, but the cubic pieces between them need
// not be concave, and the price must rise; so each piece is two parabolas that
// meet with the secant's slope (Schumaker, SIAM J. Numer. Anal. 20, 1983), which
// always are.
func newTableCurve(points []Point) *spline {
	points = envelope(points)
	secant := secants(points)
	slopes := knotSlopes(points, secant)
	s := &spline{}
	for k, to := range points {
		from, first, last := s.end, slopes[k], slopes[k+1]
		part := (secant[k] - last) / (first - last)
		middle := from.Workload + part*(to.Workload-from.Workload)
		rate := from.RateHz + (first+secant[k])/2*(middle-from.Workload)
		s.add(Point{middle, rate}, first, secant[k])
		s.add(to, secant[k], last)
	}
	return s
}

// secants are the slopes of the lines that end at the points.
func secants(points []Point) []float64 {
	slopes := make([]float64, len(points))
	from := Point{}
	for k, to := range points {
		slopes[k] = (to.RateHz - from.RateHz) / (to.Workload - from.Workload)
		from = to
	}
	return slopes
}

// knotSlopes are the slopes at the origin and at the points. At the two ends they
// mirror the inner slope about the secant, but the last stays positive.
func knotSlopes(points []Point, secant []float64) []float64 {
	n := len(points)
	slopes := make([]float64, n+1)
	slopes[0], slopes[n] = 1.5*secant[0], 0.5*secant[n-1]
	last := points[0].Workload
	for k := 1; k < n; k++ {
		width := points[k].Workload - points[k-1].Workload
		w1, w2 := 2*width+last, width+2*last
		slopes[k] = (w1 + w2) / (w1/secant[k-1] + w2/secant[k])
		last = width
	}
	if n > 1 {
		slopes[0] = 2*secant[0] - slopes[1]
		slopes[n] = max(2*secant[n-1]-slopes[n-1], 0.5*secant[n-1])
	}
	return slopes
}

// envelope is the least concave function from the origin above the points, as far
// as the first of the greatest rate, by the points that it runs through. It pools
// adjacent slopes that do not fall (Grenander 1956).
func envelope(points []Point) []Point {
	peak := 0
	for k, p := range points {
		if p.RateHz > points[peak].RateHz {
			peak = k
		}
	}
	var hull []Point
	at := func(k int) Point { // k = 0 is the origin
		if k == 0 {
			return Point{}
		}
		return hull[k-1]
	}
	for _, p := range points[:min(peak+1, len(points))] {
		for n := len(hull); n > 0; n-- {
			a, b := at(n-1), at(n)
			if (b.RateHz-a.RateHz)*(p.Workload-b.Workload) > (p.RateHz-b.RateHz)*(b.Workload-a.Workload)*(1+1e-9) {
				break
			}
			hull = hull[:n-1]
		}
		hull = append(hull, p)
	}
	return hull
}

func (s *spline) rate(n float64) float64 {
	if n >= s.end.Workload {
		return s.end.RateHz
	}
	p := s.pieces[sort.Search(len(s.pieces), func(k int) bool { return s.pieces[k].workload > n })-1]
	x := n - p.workload
	return p.rate + x*(p.slope-p.bend*x/2)
}

// at is the piece of a rate, the left one at a knot, and how far into it, in
// requests.
func (s *spline) at(r float64) (p piece, x float64) {
	k := max(1, sort.Search(len(s.pieces), func(k int) bool { return s.pieces[k].rate >= r }))
	p = s.pieces[k-1]
	d := max(0, r-p.rate)
	return p, 2 * d / (p.slope + math.Sqrt(max(0, p.slope*p.slope-2*p.bend*d)))
}

func (s *spline) workload(r float64) float64 {
	p, x := s.at(r)
	return p.workload + x
}

func (s *spline) price(r float64) float64 {
	p, x := s.at(r)
	return 1 / (p.slope - p.bend*x)
}

func (s *spline) priceSlope(r float64) float64 {
	p, x := s.at(r)
	d := p.slope - p.bend*x
	return p.bend / (d * d * d)
}

func (s *spline) rateAt(price float64) (float64, float64) {
	slope := 1 / price
	k := sort.Search(len(s.pieces), func(k int) bool { return s.pieces[k].slope < slope })
	if k == 0 {
		return 0, 0
	}
	end := s.end
	if k < len(s.pieces) {
		end = Point{s.pieces[k].workload, s.pieces[k].rate}
	}
	p := s.pieces[k-1]
	x := (p.slope - slope) / p.bend
	if x >= end.Workload-p.workload {
		return end.RateHz, 0 // between two pieces the price rises and the rate stays
	}
	return p.rate + x*(p.slope+slope)/2, slope * slope * slope / p.bend
}

func (s *spline) capacity() (float64, bool) { return s.end.RateHz, true }
