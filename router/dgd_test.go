package router_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"strandline/router"
)

// Moreau's decomposition on random inputs: d is in the tangent cone, v - d in its
// polar, and they are orthogonal; that makes d the projection.
func TestProjectTangent(t *testing.T) {
	rng := seeded(t, 31)
	for range 3000 {
		x, v := randomShares(rng, 1+rng.IntN(12)), []float64{}
		for range x {
			v = append(v, rng.NormFloat64()*math.Exp(3*rng.NormFloat64()))
		}
		d := make([]float64, len(v))
		router.ProjectTangent(d, x, v)
		sum, product, size, used := 0.0, 0.0, 0.0, 0.0
		for j := range d {
			sum += d[j]
			product += (v[j] - d[j]) * d[j]
			size = max(size, math.Abs(v[j]))
			if x[j] == 0 && d[j] < 0 {
				t.Fatalf("share %d is 0 and would fall: x %v, v %v, d %v", j, x, v, d)
			}
			if x[j] > 0 {
				used = v[j] - d[j]
			}
		}
		if math.Abs(sum) > 1e-12*size || math.Abs(product) > 1e-11*size*size {
			t.Fatalf("sum %g, product %g: x %v, v %v, d %v", sum, product, x, v, d)
		}
		for j := range d { // the polar cone: v - d is one number on A, and at most that on Z
			if left := v[j] - d[j] - used; x[j] > 0 && math.Abs(left) > 1e-12*size || left > 1e-12*size {
				t.Fatalf("v - d has %g more at %d than on A: x %v, v %v, d %v", left, j, x, v, d)
			}
		}
	}
}

// randomShares is a point of the simplex, often on its boundary.
func randomShares(rng *rand.Rand, n int) []float64 {
	x, sum := make([]float64, n), 0.0
	for sum == 0 {
		for j := range x {
			x[j] = max(0, rng.NormFloat64())
			sum += x[j]
		}
	}
	for j := range x {
		x[j] /= sum
	}
	return x
}

// sortedSimplex is the textbook projection: sort, running mean.
func sortedSimplex(y []float64) []float64 {
	u := slices.Clone(y)
	slices.SortFunc(u, func(a, b float64) int { return int(math.Copysign(1, b-a)) })
	sum, threshold := 0.0, 0.0
	for k, v := range u {
		sum += v
		if t := (sum - 1) / float64(k+1); v > t {
			threshold = t
		}
	}
	x := make([]float64, len(y))
	for j, v := range y {
		x[j] = max(0, v-threshold)
	}
	return x
}

func TestProjectSimplex(t *testing.T) {
	rng := seeded(t, 32)
	for range 3000 {
		y := make([]float64, 1+rng.IntN(20))
		for j := range y {
			y[j] = rng.NormFloat64() * math.Exp(2*rng.NormFloat64())
		}
		want, got := sortedSimplex(y), make([]float64, len(y))
		closed := slices.Clone(y)
		if len(y) > 1 {
			closed[0] = math.Inf(-1)
			want = append([]float64{0}, sortedSimplex(y[1:])...)
		}
		router.ProjectSimplex(got, closed)
		for j := range got {
			if math.Abs(got[j]-want[j]) > 1e-12*(1+math.Abs(y[j])) {
				t.Fatalf("y %v: got %v, want %v", closed, got, want)
			}
		}
	}
}

// The projected step and the projected derivative agree as the step goes to 0: the
// difference of the quotient is of first order while the support stays, and 0 when
// the step is short enough.
func TestStepsAgreeInTheLimit(t *testing.T) {
	rng := seeded(t, 33)
	for range 500 {
		x := randomShares(rng, 2+rng.IntN(8))
		v, d := make([]float64, len(x)), make([]float64, len(x))
		smallest := 1.0
		for j := range v {
			v[j] = rng.NormFloat64()
			if x[j] > 0 {
				smallest = min(smallest, x[j])
			}
		}
		router.ProjectTangent(d, x, v)
		y, got := make([]float64, len(x)), make([]float64, len(x))
		for _, dt := range []float64{1e-3, 1e-4, 1e-5, 1e-6} {
			for j := range y {
				y[j] = x[j] + dt*v[j]
			}
			router.ProjectSimplex(got, y)
			worst := 0.0
			for j := range got {
				worst = max(worst, math.Abs((got[j]-x[j])/dt-d[j]))
			}
			if dt*20 < smallest && worst > 1e-8 {
				t.Fatalf("dt %g: the derivatives differ by %g: x %v, v %v", dt, worst, x, v)
			}
		}
	}
}

// freeDGD is a controller without plan at the given shares.
func freeDGD(w *router.World, shares []float64, opts router.DGDOptions) *router.DGD {
	d := router.NewDGD(w, 0, opts)
	d.SetShares(shares)
	return d
}

func onSimplex(t testing.TB, d *router.DGD) {
	t.Helper()
	sum := 0.0
	for j, x := range d.Shares() {
		if !(x >= 0) {
			t.Fatalf("share %d: got %g", j, x)
		}
		sum += x
	}
	if math.Abs(sum-1) > 1e-12 {
		t.Fatalf("shares sum to %g: %v", sum, d.Shares())
	}
}

func fourRegions() *router.World {
	return world([]float64{10}, [][2]float64{{10, 10}, {20, 40}, {10, 5}, {30, 30}}, [][]float64{{0.01, 0.08, 0.02, forbidden}})
}

// One step moves the shares by the projected gradient.
func TestDGDStep(t *testing.T) {
	w := fourRegions()
	d := freeDGD(w, []float64{0.5, 0.3, 0.2, 0}, router.DGDOptions{Eta: 0.1})
	signals := []router.Signal{{Workload: 5}, {Workload: 20}, {Workload: 2}, {Workload: 0}}
	d.Step(0, signals)
	want := []float64{0, 0, 0, 0}
	mean := 0.0
	price := func(j int) float64 {
		c, _ := w.NetworkS(0, j)
		s := w.Regions[j].Service
		n := signals[j].Workload
		return (s.Kappa+n)*(s.Kappa+n)/(s.Mu*s.Kappa) + c
	}
	for j := range 3 {
		mean += price(j) / 3
	}
	for j, x := range []float64{0.5, 0.3, 0.2} {
		want[j] = x - 0.1*0.25*(price(j)-mean)
	}
	got := d.Step(0.25, signals)
	for j := range want {
		if math.Abs(got[j]-want[j]) > 1e-13 {
			t.Errorf("share %d: got %.15g, want %.15g", j, got[j], want[j])
		}
	}
	onSimplex(t, d)
}

// A frontend that may shed does so where the price of shedding is the least, and no
// gradient is greater.
func TestDGDShedsAndClips(t *testing.T) {
	w := fourRegions()
	w.Objective.Shed = &router.Shed{PriceS: 8}
	d := freeDGD(w, []float64{1, 0, 0, 0}, router.DGDOptions{Eta: 0.5})
	overload := []router.Signal{{Workload: 1e9}, {Workload: 1e9}, {Workload: 1e9}, {}}
	d.Step(0, overload)
	one := slices.Clone(d.Step(0.01, overload))
	// All regions are at the cap, plus the network; shedding costs the cap alone. The
	// first step is of the size that the cap allows, not of that of the price.
	if moved := 1 - one[0]; !(moved > 0) || moved > 0.5*0.01*8 {
		t.Errorf("the share moved by %g", moved)
	}
	for k := range 6000 {
		for j := range overload {
			overload[j].AtS = 0.1 * float64(k)
		}
		d.Step(0.1*float64(k+1), overload)
	}
	if got := slices.Max(d.Shares()); got != 0 {
		t.Errorf("in endless overload: got shares %v, want none", d.Shares())
	}
}

// In equilibrium the correction for own requests is nothing; a burst of own requests
// that the report does not show counts in full.
func TestDGDCorrectsForItsOwnRequests(t *testing.T) {
	w := fourRegions()
	step := func(s router.Signal) []float64 {
		d := freeDGD(w, []float64{0.5, 0.3, 0.2, 0}, router.DGDOptions{Eta: 0.1})
		signals := []router.Signal{s, {Workload: 20, AtS: 10}, {Workload: 2, AtS: 10}, {}}
		d.Step(10, signals)
		return slices.Clone(d.Step(10.1, signals))
	}
	plain := step(router.Signal{Workload: 5, AtS: 10})
	// now + one-way - AtS = 0.11 s at 4 requests/s.
	if got := step(router.Signal{Workload: 5, AtS: 10, Sent: 0.44, AnsweredHz: 4}); math.Abs(got[0]-plain[0]) > 1e-14 {
		t.Errorf("equilibrium: got %v, without correction %v", got, plain)
	}
	if got, want := step(router.Signal{Workload: 5, AtS: 10, Sent: 3.44, AnsweredHz: 4}), step(router.Signal{Workload: 8, AtS: 10}); math.Abs(got[0]-want[0]) > 1e-14 || got[0] >= plain[0] {
		t.Errorf("three unseen requests: got %v, want %v", got, want)
	}
}

func TestDGDTrustRegion(t *testing.T) {
	rng := seeded(t, 34)
	for range 200 {
		w := randomWorld(rng, 1, 2+rng.IntN(6), 0.6, 0)
		p := solved(t, w)
		opts := router.DGDOptions{Eta: 0.5, TrustArc: 0.05 + 0.3*rng.Float64(), TrustTotal: 0.02 + 0.4*rng.Float64()}
		d := router.NewDGD(w, 0, opts)
		d.SetPlan(p, 0, 1)
		signals := make([]router.Signal, len(w.Regions))
		for k := range 30 {
			total, free := 0.0, 0
			for j := range signals {
				signals[j] = router.Signal{Workload: 100 * rng.Float64(), AtS: float64(k)}
			}
			d.Step(float64(k), signals)
			onSimplex(t, d)
			for j, x := range d.Shares() {
				off := math.Abs(x - p.Frontends[0].Shares[j])
				total += off / 2
				if off > opts.TrustArc+1e-12 {
					t.Fatalf("share %d is %g from the plan, trusted are %g", j, off, opts.TrustArc)
				}
				if off > 0 {
					free++
				}
			}
			if total > opts.TrustTotal+1e-12 || k > 5 && free == 0 {
				t.Fatalf("total variation %g, trusted are %g", total, opts.TrustTotal)
			}
		}
		d.DropPlan()
		far := 0.0
		for k := range 400 {
			for j := range signals {
				signals[j] = router.Signal{Workload: 1000, AtS: float64(30 + k)}
			}
			signals[0].Workload = 0
			d.Step(float64(30+k), signals)
			far = d.Shares()[0]
		}
		if far < 1-1e-12 {
			t.Fatalf("without a plan the idle region gets %g", far)
		}
	}
}

// A late report is believed less and less; a very old one not at all.
func TestDGDStaleSignals(t *testing.T) {
	w := fourRegions()
	p := solved(t, w)
	signals := func(age float64) []router.Signal {
		s := make([]router.Signal, 4)
		for j := range s {
			s[j] = router.Signal{Workload: p.Regions[j].Workload, AtS: 100}
		}
		s[0] = router.Signal{Workload: 0, AtS: 100 - age} // an idle region, it says
		return s
	}
	gain := func(age float64) float64 {
		d := router.NewDGD(w, 0, router.DGDOptions{Eta: 0.1})
		d.SetPlan(p, 0, 1)
		before := d.Shares()[0]
		d.Step(99.9, signals(age))
		return d.Step(100, signals(age))[0] - before
	}
	fresh, edge, half, late := gain(0), gain(3), gain(16.5), gain(29.999)
	if fresh <= 0 || edge != fresh || math.Abs(half/fresh-0.5) > 1e-6 || late > 1e-3*fresh {
		t.Errorf("gains: fresh %g, at three intervals %g, half way %g, at the end %g", fresh, edge, half, late)
	}
	// Unknown: the lesser of the last share and the part of the capacity.
	d := router.NewDGD(w, 0, router.DGDOptions{Eta: 0.1})
	d.SetShares([]float64{0.6, 0.3, 0.1, 0})
	d.Step(99.9, signals(31))
	if got := d.Step(100, signals(31)); got[0] != 0.25 { // 10 of 40 requests/s
		t.Errorf("unknown: got share %g, want 0.25", got[0])
	}
	onSimplex(t, d)
	d.SetShares([]float64{0.1, 0.5, 0.4, 0})
	fresher := signals(0)
	d.Step(100.1, fresher)
	d.SetShares([]float64{0.1, 0.5, 0.4, 0})
	if got := d.Step(100.2, signals(31)); got[0] != 0.1 {
		t.Errorf("unknown with a small share: got %g, want 0.1", got[0])
	}
	// All unknown: still shares, in those proportions.
	d = router.NewDGD(w, 0, router.DGDOptions{Eta: 0.1})
	d.SetShares([]float64{0.6, 0.3, 0.1, 0})
	d.Step(0, make([]router.Signal, 4))
	got := d.Step(100, make([]router.Signal, 4))
	for j, want := range []float64{0.25 / 0.65, 0.3 / 0.65, 0.1 / 0.65, 0} {
		if math.Abs(got[j]-want) > 1e-12 {
			t.Errorf("all unknown: share %d: got %g, want %g", j, got[j], want)
		}
	}
}

// A region that goes down loses its share at once, most of it to the cheapest.
func TestDGDRegionDown(t *testing.T) {
	w := fourRegions()
	d := freeDGD(w, []float64{0.5, 0.3, 0.2, 0}, router.DGDOptions{Eta: 1e-9})
	signals := []router.Signal{{Workload: 5}, {Workload: 100}, {Workload: 1}, {}}
	d.Step(0, signals)
	signals[0].Down = true
	got := d.Step(0.1, signals)
	if got[0] != 0 || !(got[2] > 0.69) || got[3] != 0 {
		t.Errorf("got %v, want the share of region 0 at region 2", got)
	}
	onSimplex(t, d)
	signals[1].Down, signals[2].Down = true, true
	d.Step(0.2, signals)
	onSimplex(t, d)
	for j := range signals {
		signals[j].Down = false
	}
	d = freeDGD(w, []float64{0, 0.5, 0.5, 0}, router.DGDOptions{Eta: 0.1})
	d.Step(0.3, signals)
	if got := d.Step(0.4, signals); !(got[0] > 0 && got[0] < 0.5) {
		t.Errorf("a region that is back: got %v, want a slow start", got)
	}
}

// Whatever regions report, and however late, the shares are shares.
func TestDGDSurvivesNonsense(t *testing.T) {
	rng := seeded(t, 38)
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 1e-300, 1e300, 10}
	for range 300 {
		w := randomWorld(rng, 2, 1+rng.IntN(6), 0.6, 0.3*rng.Float64())
		if w.Validate() != nil {
			continue // more demand than the allowed regions can serve
		}
		p := solved(t, w)
		d := router.NewDGD(w, 0, router.DGDOptions{Eta: math.Exp(4 * rng.NormFloat64()), AveragingS: float64(rng.IntN(2))})
		signals, now := make([]router.Signal, len(w.Regions)), 0.0
		for range 60 {
			now += math.Exp(3 * rng.NormFloat64())
			for j := range signals {
				signals[j] = router.Signal{Workload: odd[rng.IntN(len(odd))], AtS: now - math.Exp(4*rng.NormFloat64()), Down: rng.IntN(4) == 0,
					Sent: float64(rng.IntN(3)), AnsweredHz: float64(rng.IntN(3))}
			}
			switch rng.IntN(8) {
			case 0:
				d.SetPlan(p, 0, p.Frontends[0].EtaMax)
			case 1:
				d.DropPlan()
			}
			d.Step(now, signals)
			onSimplex(t, d)
			for j, x := range d.Shares() {
				if _, ok := w.OneWayS(0, j); !ok && x != 0 {
					t.Fatalf("a forbidden region gets %g", x)
				}
			}
		}
	}
}

// loop is one frontend with two equal regions and a DGD, integrated by Euler's method.
type loop struct {
	eta     float64
	noise   float64 // standard deviation of reported workloads
	rng     *rand.Rand
	correct bool // for own requests in flight
}

// run returns the damping and how far the first share swings in the last quarter.
func (l loop) run(t *testing.T) (damping, swing float64) {
	const dt, delay, steps = 0.01, 5, 40000
	w := world([]float64{10}, [][2]float64{{10, 10}, {10, 10}}, [][]float64{{delay * dt, delay * dt}})
	d := freeDGD(w, []float64{0.52, 0.48}, router.DGDOptions{Eta: l.eta, QuietS: 1e9})
	now, low, high := [2]float64{10, 10}, math.Inf(1), math.Inf(-1)
	var inside, sent [][2]float64
	for k := range steps {
		inside = append(inside, now)
		old := inside[max(0, k-delay)]
		signals := make([]router.Signal, 2)
		for j := range signals {
			signals[j] = router.Signal{Workload: old[j] + l.noise*l.rng.NormFloat64(), AtS: float64(k-delay) * dt}
			if l.correct && k > 2*delay {
				for _, x := range sent[k-2*delay:] {
					signals[j].Sent += x[j] * dt
				}
				signals[j].AnsweredHz = w.Regions[j].Service.RateHz(old[j])
			}
		}
		x := d.Step(float64(k)*dt, signals)
		sent = append(sent, [2]float64{10 * x[0], 10 * x[1]})
		for j := range now {
			now[j] += dt * (sent[max(0, k-delay)][j] - w.Regions[j].Service.RateHz(now[j]))
		}
		if k > steps*3/4 {
			low, high = min(low, x[0]), max(high, x[0])
		}
	}
	return d.Damping(), high - low
}

// criticalLoop is the critical step of loop.
const criticalLoop = 0.627590

// A loop that oscillates loses half its step and calms; noise does not.
func TestDGDOscillationDetector(t *testing.T) {
	rng := seeded(t, 35)
	if damping, swing := (loop{eta: 2 * criticalLoop, rng: rng}).run(t); damping > 0.5 || damping < 0.125 || swing > 0.04 {
		t.Errorf("at twice the critical step: damping %g, the share swings by %g", damping, swing)
	}
	for _, noise := range []float64{0, 0.3, 3} {
		if damping, _ := (loop{eta: criticalLoop / 4, noise: noise, rng: rng}).run(t); damping != 1 {
			t.Errorf("at a quarter of the critical step with noise %g: damping %g", noise, damping)
		}
	}
}

// A frontend that knows what it has sent meanwhile need not wait to see it: with the
// correction the loop is stable where it was not.
func TestDGDCorrectionStabilises(t *testing.T) {
	rng := seeded(t, 37)
	if damping, swing := (loop{eta: 2 * criticalLoop, rng: rng, correct: true}).run(t); damping != 1 || swing > 1e-6 {
		t.Errorf("at twice the critical step: damping %g, the share swings by %g", damping, swing)
	}
}

func TestDGDStepDoesNotAllocate(t *testing.T) {
	w := fourRegions()
	p := solved(t, w)
	d := router.NewDGD(w, 0, router.DGDOptions{AveragingS: 1})
	d.SetPlan(p, 0, 0.1)
	signals := make([]router.Signal, 4)
	now := 0.0
	if n := testing.AllocsPerRun(100, func() {
		now += 0.2
		for j := range signals {
			signals[j] = router.Signal{Workload: now, AtS: now - 0.1*float64(j)}
		}
		signals[1].Down = int(now)%3 == 0
		d.Step(now, signals)
	}); n != 0 {
		t.Errorf("a step allocates %g times", n)
	}
}

func BenchmarkDGD(b *testing.B) {
	w := randomWorld(seeded(b, 36), 1, 100, 0.8, 0)
	p := solved(b, w)
	signals, prices := make([]router.Signal, 100), make([]float64, 100)
	for j := range signals {
		signals[j], prices[j] = router.Signal{Workload: p.Regions[j].Workload}, p.Regions[j].PriceS
	}
	b.Run("Step", func(b *testing.B) {
		d := router.NewDGD(w, 0, router.DGDOptions{Eta: 0.01, LostS: 1e12, IntervalS: 1e11})
		d.SetPlan(p, 0, 0.1)
		for now := 0.0; b.Loop(); now += 0.2 {
			d.Step(now, signals)
		}
	})
	b.Run("Descend", func(b *testing.B) {
		d := router.NewDGD(w, 0, router.DGDOptions{Eta: 0.01})
		for b.Loop() {
			d.Descend(0.02, prices)
		}
	})
}
