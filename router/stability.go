package router

import (
	"math"
	"math/cmplx"
)

// Loop is what a control loop adds to the delays of the network. The zero value is
// the algorithm itself: continuous steps on the state of one network delay ago.
type Loop struct {
	StateAgeS  float64 // age of a region's state when it leaves the region
	AveragingS float64 // length of the window over which prices are averaged
	IntervalS  float64 // between two steps
	ActuatorS  float64 // until a new share is obeyed

	Exact bool // sweep whatever it costs; else large worlds get the sufficient bound
}

// ExtraS is the delay that counts in addition to the round trip: a window and an
// interval delay by half their length, as slow loops see them.
func (l Loop) ExtraS() float64 {
	return l.StateAgeS + l.AveragingS/2 + l.IntervalS/2 + l.ActuatorS
}

// CriticalGain is the gain K = eta Lam h at which equal regions with the slope
// a = l'(N) in 1/s and the loop delay D in seconds just oscillate, whatever the
// numbers of frontends and regions:
//
//	K = (a/D) theta/sin(theta),  theta tan(theta) = a D,  0 < theta < pi/2
//
// and the period 2 pi D/theta of that oscillation. Both follow from the loop gain
// K e^(-sD)/(s (s+a)) of every mode. Without delay K is +Inf and the period 0.
func CriticalGain(slopeHz, delayS float64) (gain, periodS float64) {
	if delayS == 0 {
		return math.Inf(1), 0
	}
	low, high := 0.0, math.Pi/2
	for range 60 {
		if t := (low + high) / 2; t*math.Tan(t) < slopeHz*delayS {
			low = t
		} else {
			high = t
		}
	}
	theta := (low + high) / 2
	return slopeHz / delayS * theta / math.Sin(theta), 2 * math.Pi * delayS / theta
}

// EtaMax is, by frontend, the largest step of DGD known to be locally stable at the
// plan p of w, in shares per second and second of price, when all frontends take
// theirs. +Inf: no delay limits it; 0: a region is at its capacity.
//
// The dynamics are linearised about the plan, with the arcs in use fixed. With
// a_j = l_j'(N_j), h_j = dp_j/dN_j (p_j = 1/l_j' in the usual objective), E_i = diag(e^(-s t_ij)), where 2 t_ij is the
// loop delay of the arc, and P_i the projection on vectors over i's arcs that sum to
// zero, the closed loop is stable where
//
//	det(diag((s+a_j)/h_j) + sum_i (eta_i lam_i/s) E_i P_i E_i)
//
// has no zero with Re s >= 0. First, a bound that is sufficient for any delays: the
// Hermitian part of that matrix on the imaginary axis is positive where for all j
//
//	sum over i that use j of eta_i lam_i (T_i + t_ij^2/T_i) < a_j/h_j,  any T_i > 0
//
// (|2 Re u*P v| <= |u|^2/(w T) + w T |v|^2 with u = sin(w t) y, v = cos(w t) y). Each
// frontend gets its part lam_i/Lam_j of the right-hand side, Lam_j being the rate of
// all frontends that split between j and others, with the best T_i. With equal
// delays t that is a/(2 t Lam h). Then all steps that meet in one connected part of
// the world are scaled by the same factor up to the edge of stability: in the
// symmetric case theta/sin(theta) of CriticalGain, else found by counting the zeros
// along the imaginary axis. Where that would cost too much, and Exact is false, the
// factor stays 1.
//
// A frontend with all its traffic on one arc, or all refused, has no local dynamics;
// it gets what it would get if it split.
func EtaMax(w *World, p *Plan, loop Loop) []float64 {
	l := linearise(w, p, loop.ExtraS()/2)
	eta := l.sufficient()
	for _, part := range l.parts(eta) {
		factor := part.symmetric()
		if factor == 0 && (loop.Exact || part.affordable()) {
			factor = part.critical()
		}
		if factor == 0 {
			factor = 1
		}
		for _, i := range part.frontends {
			eta[i] *= factor
		}
	}
	return eta
}

// linear is the closed loop about a plan.
type linear struct {
	slope, stiffness []float64 // a_j and h_j
	split            []float64 // Lam_j
	rows             []linearRow
}

// linearRow is one frontend.
type linearRow struct {
	rateHz float64
	n      float64 // arcs in use, shedding included
	arcs   []linearArc
}

type linearArc struct {
	region int
	delayS float64 // half the loop delay
}

func linearise(w *World, p *Plan, extraS float64) *linear {
	b := len(w.Regions)
	l := &linear{make([]float64, b), make([]float64, b), make([]float64, b), make([]linearRow, len(w.Frontends))}
	for j, r := range w.Regions {
		l.slope[j], l.stiffness[j] = lineariseRegion(r.Service.Curve(), w.Curve(j), p.Regions[j].RateHz)
	}
	for i, f := range p.Frontends {
		row := &l.rows[i]
		row.rateHz = f.RateHz
		for j, share := range f.Shares {
			if share > 0 {
				t, _ := w.OneWayS(i, j)
				row.arcs = append(row.arcs, linearArc{j, t + extraS})
			}
		}
		if row.n = float64(len(row.arcs)); row.n == 0 {
			for j := range w.Regions {
				if t, ok := w.OneWayS(i, j); ok {
					row.arcs = append(row.arcs, linearArc{j, t + extraS})
				}
			}
			continue
		}
		if f.ShedHz > 0 {
			row.n++
		}
		if row.n < 2 {
			continue
		}
		for _, a := range row.arcs {
			l.split[a.region] += f.RateHz
		}
	}
	return l
}

// lineariseRegion is a = l' and h = dp/dN of a region that works as service says
// and costs as curve says; zeros where it is at its capacity.
func lineariseRegion(service, curve Curve, rateHz float64) (slope, stiffness float64) {
	price := curve.PriceS(rateHz)
	if math.IsInf(price, 1) {
		return 0, 0
	}
	slope = service.Slope(rateHz)
	return slope, price * curve.Stiffness(rateHz) * slope // dp/dr dr/dN
}

// sufficient is the bound of EtaMax that needs no sweep.
func (l *linear) sufficient() []float64 {
	eta := make([]float64, len(l.rows))
	for i := range l.rows {
		row := &l.rows[i]
		best, delayed := 0.0, false
		for _, candidate := range row.arcs {
			if t := candidate.delayS; t > 0 {
				delayed = true
				best = max(best, l.share(row, t))
			}
		}
		if eta[i] = best; !delayed {
			eta[i] = math.Inf(1)
		}
	}
	return eta
}

// share is what the constraints of all regions leave to the row with T_i = t.
func (l *linear) share(row *linearRow, t float64) float64 {
	bound := math.Inf(1)
	for _, a := range row.arcs {
		split := l.split[a.region]
		if row.n < 2 {
			split += row.rateHz
		}
		if l.slope[a.region] == 0 {
			return 0 // at capacity
		}
		if load := split * l.stiffness[a.region] * (t + a.delayS*a.delayS/t); load > 0 {
			bound = min(bound, l.slope[a.region]/load)
		}
	}
	return bound
}

// part is a connected part of the world: frontends that split, and the regions that
// they split between.
type part struct {
	frontends        []int
	rows             []partRow
	slope, stiffness []float64 // by region of the part
	matrix           []complex128
	phi              []complex128
	phase            []complex128
	samples          int // taken
}

type partRow struct {
	gain float64 // eta_i lam_i
	n    float64
	arcs []linearArc // with regions of the part

	most    float64 // gain times the greatest stiffness
	longest float64 // loop delay
}

// parts joins the frontends that split, have demand and are limited by delays.
func (l *linear) parts(eta []float64) []*part {
	root := make([]int, len(l.slope))
	for j := range root {
		root[j] = j
	}
	find := func(j int) int {
		for root[j] != j {
			root[j] = root[root[j]]
			j = root[j]
		}
		return j
	}
	counts := func(i int) bool {
		r := &l.rows[i]
		return r.n >= 2 && r.rateHz > 0 && eta[i] > 0 && !math.IsInf(eta[i], 1)
	}
	for i, r := range l.rows {
		for _, a := range r.arcs {
			if counts(i) {
				root[find(a.region)] = find(r.arcs[0].region)
			}
		}
	}
	var list []*part
	byRoot, local := make([]*part, len(root)), make([]int, len(root))
	for i, r := range l.rows {
		if !counts(i) {
			continue
		}
		at := find(r.arcs[0].region)
		if byRoot[at] == nil {
			byRoot[at] = &part{}
			list = append(list, byRoot[at])
			for j := range root {
				if find(j) == at {
					local[j] = len(byRoot[at].slope)
					byRoot[at].slope = append(byRoot[at].slope, l.slope[j])
					byRoot[at].stiffness = append(byRoot[at].stiffness, l.stiffness[j])
				}
			}
		}
		row := partRow{gain: eta[i] * r.rateHz, n: r.n}
		for _, a := range r.arcs {
			row.arcs = append(row.arcs, linearArc{local[a.region], a.delayS})
			row.most = max(row.most, row.gain*l.stiffness[a.region])
			row.longest = max(row.longest, 2*a.delayS)
		}
		byRoot[at].frontends, byRoot[at].rows = append(byRoot[at].frontends, i), append(byRoot[at].rows, row)
	}
	return list
}

// symmetric is the critical factor where all frontends use all regions with one
// delay and the regions are alike, and 0 elsewhere.
func (p *part) symmetric() float64 {
	const same = 1e-6 // relative: what the solver's rounding makes of equal regions
	a, h := p.slope[0], p.stiffness[0]
	for j := range p.slope {
		if math.Abs(p.slope[j]-a) > same*a || math.Abs(p.stiffness[j]-h) > same*h {
			return 0
		}
	}
	delay, gain := p.rows[0].arcs[0].delayS, 0.0
	for _, r := range p.rows {
		if len(r.arcs) != len(p.slope) || r.n != float64(len(r.arcs)) {
			return 0
		}
		for _, arc := range r.arcs {
			if math.Abs(arc.delayS-delay) > same*delay {
				return 0
			}
		}
		gain += r.gain
	}
	critical, _ := CriticalGain(a, 2*delay)
	return critical / (gain * h)
}

// affordable reports whether a sweep takes a few milliseconds at most.
func (p *part) affordable() bool {
	const most = 2000 // units of about 2 ns in each of some thousand matrices
	n, arcs := len(p.slope), 0
	for _, r := range p.rows {
		arcs += len(r.arcs) * (20 + len(r.arcs))
	}
	return arcs+n*n*n/6+20*n <= most
}

// The limits of a sweep.
const (
	sweepError  = 1e-3
	mostFactor  = 100   // nobody needs to know more
	mostSamples = 50000 // in all sweeps of a part: where delays are thousands of times longer than what they delay
)

// critical is the factor on all steps at which the first zero reaches the imaginary
// axis, to a relative error of sweepError, or a lesser one. At factor 1 there is none in
// the right half.
func (p *part) critical() float64 {
	n := len(p.slope)
	p.matrix, p.phi = make([]complex128, n*n), make([]complex128, n)
	p.phase = make([]complex128, n)
	stable := p.turn(1)
	// Each pair of zeros that crosses takes 2 pi off the turn. What is not known is
	// unstable.
	unstable := func(g float64) bool { return !(stable-p.turn(g) <= math.Pi) }
	low, high := 1.0, 2.0
	for ; !unstable(high); high *= 2 {
		if low = high; low > mostFactor {
			return low
		}
	}
	for high > low*(1+sweepError) {
		if mid := math.Sqrt(low * high); unstable(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return low
}

// turn is the change of arg det(I + g L(jw)) in radians from far below to far above
// all frequencies at which the loop can oscillate.
func (p *part) turn(g float64) float64 {
	low, high := p.band(g)
	sum, at := 0.0, p.sample(low, g)
	for at.w < high {
		if p.samples > mostSamples {
			return math.NaN()
		}
		next := p.sample(min(high, at.w+p.stride(at.w, g)), g)
		sum += p.between(at, next, g, 0)
		at = next
	}
	return sum
}

// stride is how far to go from frequency w: a part of w, and no more than a part of
// a turn of the longest delay that matters there.
func (p *part) stride(w, g float64) float64 {
	const matters, turn = 0.03, 0.5 // loop gain of one frontend; radians
	longest := 0.0
	for _, r := range p.rows {
		if g*r.most > matters*w*w {
			longest = max(longest, r.longest)
		}
	}
	stride := w / (4 + float64(len(p.slope))/8)
	if stride*longest > turn {
		return turn / longest
	}
	return stride
}

// sample is log det(I + g L(jw)) and its derivative with respect to log w.
type sample struct {
	w         float64
	direction complex128 // of the determinant, with absolute value 1
	rate      complex128
}

func (p *part) sample(w, g float64) sample {
	const h = 1e-6
	p.samples++
	log, direction := p.determinant(w, g)
	log2, direction2 := p.determinant(w*(1+h), g)
	return sample{w, direction, complex((log2-log)/h, angle(direction2, direction)/h)}
}

// angle is the angle from b to a, within pi.
func angle(a, b complex128) float64 { return cmplx.Phase(a * cmplx.Conj(b)) }

// band is where to look: from well below the frequency at which the slowest region
// and the longest delay can oscillate, to where the loop gain of all modes together
// is small.
func (p *part) band(g float64) (low, high float64) {
	longest, gain := 0.0, 0.0
	used := make([]float64, len(p.slope))
	for _, r := range p.rows {
		longest = max(longest, r.longest)
		for _, a := range r.arcs {
			used[a.region] += r.gain
		}
	}
	low = math.Pi / 2 / longest
	for j, a := range p.slope {
		low = min(low, math.Sqrt(a/longest))
		gain = max(gain, g*used[j]*p.stiffness[j])
	}
	return low / 100, max(low, math.Sqrt(2*float64(len(p.slope))*gain))
}

// between is the turn of the determinant from a to b. Where the derivatives differ
// much, a zero may be near, and it looks closer: near m zeros at the distance r the
// derivative of the logarithm is m/r.
func (p *part) between(a, b sample, g float64, depth int) float64 {
	const deepest, much = 40, 0.5
	step := math.Log(b.w / a.w)
	if cmplx.Abs(b.rate-a.rate)*step < much || depth == deepest {
		expected := imag(a.rate+b.rate) / 2 * step
		return expected + angle(b.direction*cmplx.Rect(1, -expected), a.direction)
	}
	m := p.sample(math.Sqrt(a.w*b.w), g)
	return p.between(a, m, g, depth+1) + p.between(m, b, g, depth+1)
}

// determinant is det(I + g L(jw)): the logarithm of its absolute value, and its
// direction. It is that of the symmetric matrix I + (g/jw) sum_i F_i P_i F_i, with
// F_i = E_i diag(sqrt(h/(jw+a))).
func (p *part) determinant(w, g float64) (log float64, direction complex128) {
	n := len(p.slope)
	clear(p.matrix)
	for j, a := range p.slope {
		p.matrix[j*n+j] = 1
		p.phi[j] = cmplx.Sqrt(complex(p.stiffness[j], 0) / complex(a, w))
	}
	for _, r := range p.rows {
		e := p.phase[:len(r.arcs)]
		for k, arc := range r.arcs {
			sin, cos := math.Sincos(w * arc.delayS)
			e[k] = complex(cos, -sin) * p.phi[arc.region]
		}
		scale := complex(0, -g*r.gain/w)
		for k, arc := range r.arcs {
			row := p.matrix[arc.region*n:]
			row[arc.region] += scale * e[k] * e[k]
			scaled := scale * e[k] * complex(1/r.n, 0)
			for m, other := range r.arcs {
				row[other.region] -= scaled * e[m]
			}
		}
	}
	return determinant(p.matrix, n)
}

// determinant is that of a symmetric matrix, whose upper triangle it overwrites.
func determinant(a []complex128, n int) (log float64, direction complex128) {
	direction = 1
	for k := range n {
		pivot := a[k*n+k]
		abs := cmplx.Abs(pivot)
		direction *= pivot / complex(abs, 0)
		log += math.Log(abs)
		top := a[k*n : k*n+n]
		for i := k + 1; i < n; i++ {
			if top[i] == 0 {
				continue
			}
			f := top[i] / pivot
			row := a[i*n : i*n+n]
			for j := i; j < n; j++ {
				row[j] -= f * top[j]
			}
		}
	}
	return log, direction
}
