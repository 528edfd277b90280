package analysis

import "math"

// StopRule says how many flows must have passed a router with k known next hops
// before it is taken for granted that there is no further one: the numbers n_k
// of the multipath detection algorithm (Augustin, Friedman, Teixeira, "Measuring
// load-balanced paths in the Internet", IMC 2007). Each tests "k next hops"
// against "k+1, equally likely", and k is the number of those already seen.
type StopRule string

const (
	// StopSequential counts every way in which the rule itself stops too early, at
	// any earlier n_j (Veitch, Augustin, Friedman, Teixeira, "Failure control in
	// multipath route tracing", INFOCOM 2009). Only this one keeps its promise
	// exactly; it is the default.
	StopSequential StopRule = "sequential"
	// StopFixed asks only whether n flows, their number fixed in advance, would
	// have shown all k+1 (coupon collector). It reproduces scamper's table, and is
	// used where its numbers are wanted: in a sequential test it exceeds its
	// failure probability slightly.
	StopFixed StopRule = "fixed"
	// StopClosed is the union bound n_k = ceil(ln(eps/(k+1)) / ln(k/(k+1))), never
	// below StopFixed.
	StopClosed StopRule = "closed"
)

// Stops yields the n_k of one rule and failure probability, and computes each at
// its first use. It belongs to one goroutine.
type Stops struct {
	rule StopRule
	eps  float64
	n    []int // n[k-1] is n_k
}

// NewStops returns the n_k by which a router with equally likely next hops is
// left with one missing with a probability of at most eps, in (0, 1). The empty
// rule is StopSequential.
func NewStops(rule StopRule, eps float64) *Stops {
	if !(eps > 0 && eps < 1) {
		panic("analysis: failure probability outside (0, 1)")
	}
	if rule == "" {
		rule = StopSequential
	}
	return &Stops{rule: rule, eps: eps}
}

// At returns n_k for k of at least 1.
func (s *Stops) At(k int) int {
	for len(s.n) < k {
		s.n = append(s.n, s.next(len(s.n)+1))
	}
	return s.n[k-1]
}

// next computes n_k from those before it.
func (s *Stops) next(k int) int {
	switch s.rule {
	case StopClosed:
		known, all := float64(k), float64(k+1)
		return int(math.Ceil(math.Log(s.eps/all) / math.Log(known/all)))
	case StopFixed:
		c := newCollector(k + 1)
		for 1-c.p[k+1] > s.eps {
			c.draw()
		}
		return c.drawn
	}
	// P(exactly k seen) is tiny at first too, so the search begins beyond n_(k-1).
	c := newCollector(k + 1)
	stopped, before := 0.0, 0
	if k > 1 {
		before = s.n[k-2]
	}
	for {
		c.draw()
		stopped += c.stop(s.n[:k-1])
		if c.drawn > before && c.drawn >= k && stopped+c.p[k] <= s.eps {
			return c.drawn
		}
	}
}

// Failure returns the probability that s misses at least one of n equally likely
// next hops, and the flows that it takes on average: the chain of how many were
// seen after each flow, which ends at every n_k with k seen.
func (s *Stops) Failure(n int) (probability, meanFlows float64) {
	c := newCollector(n)
	for left := 1.0; left > 1e-12; {
		c.draw()
		for k := 1; k <= min(n, c.drawn); k++ {
			if s.At(k) != c.drawn {
				continue
			}
			if k < n {
				probability += c.p[k]
			}
			meanFlows += c.p[k] * float64(c.drawn)
			left -= c.p[k]
			c.p[k] = 0
		}
	}
	return probability, meanFlows
}

// collector is the distribution of how many of all equally likely next hops were
// seen: p[d] is the probability of d after drawn flows.
type collector struct {
	p     []float64
	drawn int
}

func newCollector(all int) *collector {
	c := &collector{p: make([]float64, all+1)}
	c.p[0] = 1
	return c
}

// draw adds one flow.
func (c *collector) draw() {
	c.drawn++
	all := len(c.p) - 1
	for d := min(all, c.drawn); d > 0; d-- {
		c.p[d] = (c.p[d]*float64(d) + c.p[d-1]*float64(all-d+1)) / float64(all)
	}
	c.p[0] = 0
}

// stop takes out and returns the probability of stopping now, at n[j-1] with j seen.
func (c *collector) stop(n []int) (mass float64) {
	for j, at := range n {
		if at == c.drawn {
			mass += c.p[j+1]
			c.p[j+1] = 0
		}
	}
	return mass
}

// GraphEpsilon returns the failure probability that each of branching routers may
// have so that the whole graph has at most alpha: failures at different routers
// are independent, so 1-(1-alpha)^(1/branching). Below 1 branching counts as 1.
func GraphEpsilon(alpha float64, branching int) float64 {
	return -math.Expm1(math.Log1p(-alpha) / float64(max(branching, 1)))
}

// RuledOutShare returns the smallest share of the flows that a further next hop
// could have without being missed by n flows with more than probability eps:
// 1-eps^(1/n). Without flows it is 1: nothing is ruled out.
func RuledOutShare(eps float64, n int) float64 {
	if n <= 0 {
		return 1
	}
	return -math.Expm1(math.Log(eps) / float64(n))
}

// ShareFlows returns the number of flows after which every next hop that gets at
// least the given share of them, in (0, 1], was seen with probability 1-eps. There
// are at most 1/share such next hops, each missed by n flows with probability
// (1-share)^n or less, so their sum bounds the failure whatever the other shares
// are. The number is fixed in advance, so stopping later for another reason keeps
// the bound.
func ShareFlows(eps, share float64) int {
	if share >= 1 {
		return 1
	}
	most := math.Floor(1/share + 1e-9)
	return int(math.Ceil(math.Log(eps/most) / math.Log1p(-share)))
}

// agreeing returns the smallest n for which n independent choices among next
// hops with the given numbers of flows all agree with a probability of at most
// eps: the sum of the n-th powers of the shares. A lone next hop never disagrees;
// then it is as if there were a second one like it.
func agreeing(eps float64, flows []int) int {
	total := 0
	for _, f := range flows {
		total += f
	}
	if len(flows) < 2 {
		flows, total = []int{1, 1}, 2
	}
	for n := 2; ; n++ {
		sum := 0.0
		for _, f := range flows {
			sum += math.Pow(float64(f)/float64(total), float64(n))
		}
		if sum <= eps {
			return n
		}
	}
}

// repeats returns the smallest r for which r further packets, each of a flow seen
// once, all take the way that its first one took with a probability of at most
// eps, if the balancer chose anew for each packet: (sum of the squared shares)^r.
func repeats(eps float64, flows []int) int {
	total, squares := 0, 0.0
	for _, f := range flows {
		total += f
	}
	for _, f := range flows {
		squares += math.Pow(float64(f)/float64(total), 2)
	}
	return max(1, int(math.Ceil(math.Log(eps)/math.Log(squares))))
}
