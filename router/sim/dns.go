package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"strandline/router"
)

// DNS describes clients that are steered by names: they ask their resolver, which
// keeps an answer for its lifetime. A part of the resolvers keeps answers for a
// random exponential time instead. Where resolvers are busy the part of the
// traffic that obeys a new answer after t is then
//
//	F(t) = (1-q) min(1, t/T) + q (1 - exp(-t/T_tail))
type DNS struct {
	TTLS      float64 // T, lifetime of an answer; above 0
	Tail      float64 // q, part of the resolvers that do not heed it, in [0, 1]
	TailS     float64 // T_tail, their mean time with an answer; above 0 where Tail is
	Resolvers int     // per frontend; 0 means 200
	Skew      float64 // resolver k carries traffic in proportion to k^-Skew; 0 = equal
}

// Obeyed is F(t).
func (d DNS) Obeyed(t float64) float64 {
	f := (1 - d.Tail) * min(1, t/d.TTLS)
	if d.Tail > 0 {
		f += d.Tail * (1 - math.Exp(-t/d.TailS))
	}
	return f
}

func (d DNS) check() error {
	switch {
	case !(d.TTLS > 0) || math.IsInf(d.TTLS, 1):
		return fmt.Errorf("dns: %v is not a lifetime in seconds", d.TTLS)
	case !(d.Tail >= 0 && d.Tail <= 1):
		return fmt.Errorf("dns: %v is not a part of the resolvers", d.Tail)
	case d.Tail > 0 && !(d.TailS > 0 && !math.IsInf(d.TailS, 1)):
		return fmt.Errorf("dns: %v is not the mean time that an answer is kept too long", d.TailS)
	case d.Resolvers < 0 || d.Resolvers > 1<<20:
		return fmt.Errorf("dns: %d resolvers; write at most %d", d.Resolvers, 1<<20)
	case !(d.Skew >= 0 && d.Skew <= 10):
		return fmt.Errorf("dns: skew %v; write 0 to 10", d.Skew)
	}
	return nil
}

// resolvers are those of one frontend.
type resolvers struct {
	dns     DNS
	rng     *rand.Rand
	upTo    []float64 // cumulative weights
	region  []int32   // the answer held; -1 = none
	expires []float64
	key     []uint64
}

func newResolvers(d DNS, frontend int, rng *rand.Rand) *resolvers {
	n := d.Resolvers
	if n == 0 {
		n = 200
	}
	r := &resolvers{dns: d, rng: rng, upTo: make([]float64, n), region: make([]int32, n), expires: make([]float64, n), key: make([]uint64, n)}
	sum := 0.0
	for k := range n {
		sum += math.Pow(float64(k+1), -d.Skew)
		r.upTo[k], r.region[k], r.key[k] = sum, -1, router.SessionKey(frontend, k)
	}
	return r
}

// choose is the resolver that the next request comes through.
func (r *resolvers) choose() int {
	u := r.rng.Float64() * r.upTo[len(r.upTo)-1]
	k, _ := slices.BinarySearch(r.upTo, u)
	return min(k, len(r.upTo)-1)
}

// isSticky says which resolvers do not heed lifetimes: Tail of them, spread over
// light and heavy ones.
func (r *resolvers) isSticky(k int) bool {
	return math.Floor(float64(k+1)*r.dns.Tail) > math.Floor(float64(k)*r.dns.Tail)
}

// hold stores an answer. The first of a resolver is part of the way through its
// life, as at a random moment it would be.
func (r *resolvers) hold(k, region int, nowS float64) {
	life := r.dns.TTLS
	switch {
	case r.isSticky(k):
		life = r.dns.TailS * r.rng.ExpFloat64()
	case r.region[k] < 0:
		life *= r.rng.Float64()
	}
	r.region[k], r.expires[k] = int32(region), nowS+life
}
