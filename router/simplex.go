package router

import "math"

// ProjectSimplex writes into dst the point nearest to y whose coordinates are not
// negative and sum to 1. Coordinates of y may be -Inf, which gives 0, but not all.
// dst and y may be the same slice; nothing is allocated.
func ProjectSimplex(dst, y []float64) {
	first := 0
	for j, v := range y {
		if v > y[first] {
			first = j
		}
	}
	most := y[first]
	cut(dst, y, threshold(y, most-1))
	if math.Abs(most) > farAway {
		scale(dst, first)
	}
}

// farAway is the size of coordinates from which projections lose digits of their
// sum.
const farAway = 1000

// scale makes coordinates that are not negative sum to 1, of which the first takes
// all where they are 0.
func scale(x []float64, first int) {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	if sum == 0 {
		x[first], sum = 1, 1
	}
	for j := range x {
		x[j] /= sum
	}
}

// threshold is the t at which sum_j max(0, y_j - t) is 1, from a start that is not
// above it. That sum is convex and piecewise linear in t, so Newton's method
// climbs to its root in finitely many passes, few from a good start.
func threshold(y []float64, t float64) float64 {
	for {
		sum, n := -1.0, 0.0
		for _, v := range y {
			if v > t {
				sum += v
				n++
			}
		}
		next := sum / n
		if !(next > t) { // also where rounding has left nothing above t
			return t
		}
		t = next
	}
}

func cut(dst, y []float64, t float64) {
	for j, v := range y {
		if v -= t; v > 0 {
			dst[j] = v
		} else {
			dst[j] = 0
		}
	}
}

// ProjectTangent writes into dst the projection of v on the tangent cone of the
// simplex at x: the direction nearest to v in which x can move without leaving the
// simplex. With A the coordinates where x is above 0, and Z the others, it is
//
//	d_j = v_j - t on A,  d_j = max(0, v_j - t) on Z,  t such that sum_j d_j = 0
//
// (derived from the optimality conditions; by Moreau's decomposition v - d is
// orthogonal to d). A must not be empty, and v finite on it. dst and v may be the
// same slice; nothing is allocated.
func ProjectTangent(dst, x, v []float64) {
	t := math.Inf(1) // so that the first pass takes A alone
	for first := true; ; first = false {
		sum, n := 0.0, 0.0
		for j, u := range v {
			if x[j] > 0 || u > t {
				sum += u
				n++
			}
		}
		if next := sum / n; first || next > t {
			t = next
		} else {
			break
		}
	}
	for j, u := range v {
		if u -= t; x[j] > 0 || u > 0 {
			dst[j] = u
		} else {
			dst[j] = 0
		}
	}
}

// projectBox writes into x the point nearest to y between low and high whose
// coordinates sum to 1. The sums of low and high must lie on both sides of 1. The
// sum of the clamped y_j - t falls with t; Newton's steps, kept inside a bracket
// that shrinks, find the t at which it is 1. It overwrites y.
func projectBox(x, y, low, high []float64) {
	below, above := math.Inf(1), math.Inf(-1) // bracket of t
	for j, v := range y {
		if low[j] == high[j] {
			continue // whatever v is
		}
		below, above = min(below, v-high[j]), max(above, v-low[j])
	}
	const most = 200 // passes; each halves the bracket or is a Newton step inside it
	for t, k := (below+above)/2, 0; k < most; k++ {
		excess, free := -1.0, 0.0
		for j, v := range y {
			x[j] = v - t
			switch {
			case !(x[j] > low[j]):
				x[j] = low[j]
			case x[j] >= high[j]:
				x[j] = high[j]
			default:
				free++
			}
			excess += x[j]
		}
		if excess > 0 {
			below = t
		} else {
			above = t
		}
		last := t
		if t += excess / free; !(t > below && t < above) {
			t = (below + above) / 2
		}
		if math.Abs(excess) < 1e-14 || t == last {
			if math.Abs(t) > farAway {
				copy(y, x)
				projectBox(x, y, low, high)
			}
			return
		}
	}
}
