package simnet

import (
	"math/rand/v2"
	"time"
)

// state is what changes while packets move: chance, the turns of balancers that
// go by packets, the tokens of ICMP limits, the mappings of translators. The zero
// state is that of a truth walk: no chance and no limit.
type state struct {
	rng      *rand.Rand // nil: balancers that go by packets take the first next hop
	now      time.Duration
	turns    map[int]uint32
	buckets  map[int]*bucket
	mappings map[int]*mappings
	sprayed  bool // a balancer that goes by packets chose
	limited  bool // a router with an ICMP limit answered
}

// bucket is the token bucket of one router.
type bucket struct {
	tokens float64
	at     time.Duration // when tokens was right
}

func newState(rng *rand.Rand) state {
	return state{rng: rng, turns: map[int]uint32{}, buckets: map[int]*bucket{}}
}

// spray picks one of several next hops of a balancer that goes by packets.
func (st *state) spray(n *Net, at int, next []edge) edge {
	st.sprayed = true
	if st.rng == nil {
		return next[0]
	}
	nd := &n.nodes[at]
	if nd.hash.spread == spreadTurns {
		turn := st.turns[at]
		st.turns[at]++
		return n.pick(nd, next, turn%n.total(nd, next))
	}
	return n.pick(nd, next, st.rng.Uint32N(n.total(nd, next)))
}

// allow takes a token for one ICMP error of a node, or reports that there is none.
func (st *state) allow(at int, nd *node) bool {
	if nd.limit.RateHz == 0 {
		return true
	}
	st.limited = true
	if st.rng == nil {
		return true
	}
	most := float64(max(1, nd.limit.Burst))
	b := st.buckets[at]
	if b == nil {
		b = &bucket{tokens: most, at: st.now}
		st.buckets[at] = b
	}
	b.tokens = min(most, b.tokens+(st.now-b.at).Seconds()*nd.limit.RateHz)
	b.at = st.now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
