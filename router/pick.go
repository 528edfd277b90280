package router

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
)

// choice is how one frontend chooses a region.
type choice struct {
	weighted []candidate // with a share, usable: chosen by hash
	spare    []int       // the other usable regions, cheapest first
	down     []int       // allowed but down: those with a share first, then cheapest first
}

type candidate struct {
	region int
	seed   uint64
	weight float64
}

// isSplit reports whether clients of the frontend get different answers.
func (c *choice) isSplit() bool { return len(c.weighted) > 1 }

func (t *Table) setChoices() {
	t.seeds = make([]uint64, len(t.world.Regions))
	for j, r := range t.world.Regions {
		t.seeds[j] = mix(fnv(fnvOffset, r.Name))
	}
	t.choices = make([]choice, len(t.world.Frontends))
	for i := range t.choices {
		t.choices[i] = t.newChoice(i)
	}
}

func (t *Table) newChoice(i int) choice {
	var c choice
	shares := t.plan.Frontends[i].Shares
	for j := range t.world.Regions {
		_, allowed := t.world.NetworkS(i, j)
		switch {
		case !allowed:
		case t.down[j]:
			c.down = append(c.down, j)
		case shares[j] > 0:
			c.weighted = append(c.weighted, candidate{j, t.seeds[j], shares[j]})
		default:
			c.spare = append(c.spare, j)
		}
	}
	byCost := func(a, b int) int { return cmp.Compare(t.costS(i, a), t.costS(i, b)) }
	slices.SortStableFunc(c.spare, byCost)
	slices.SortStableFunc(c.down, func(a, b int) int {
		if d := cmp.Compare(shares[b], shares[a]); d != 0 {
			return d
		}
		return byCost(a, b)
	})
	return c
}

// score is the weighted rendezvous score of a candidate for a key, as a cost: the
// least wins. It is -ln(U)/w with U uniform in (0, 1) from key and region, an
// exponential time of rate w, so the first of several is each with probability
// w/sum w, and a change of one weight moves keys to or from that region only
// (reference: Thaler and Ravishankar 1998; Schindelhauer and Schomaker 2005).
func (c candidate) score(hash uint64) float64 {
	u := (float64(mix(hash^c.seed)>>11) + 0.5) / (1 << 53)
	return -math.Log(u) / c.weight
}

// Pick chooses the region for a key of frontend i, and reports whether it is
// usable. The choice is sticky: it depends on the hash, the shares and what is
// down, not on the epoch. Where regions with a share are all down, it is the
// cheapest usable one. Where every allowed region is down, it is the best of
// those, for a server that would rather answer something, and ok is false.
//
// It misses the least possible disruption by a little when one share falls and
// another rises at once, for then some keys also move between other regions. It
// allocates nothing.
func (t *Table) Pick(frontend int, hash uint64) (region int, ok bool) {
	c := &t.choices[frontend]
	switch {
	case len(c.weighted) > 0:
		best, least := 0, math.Inf(1)
		for k := range c.weighted {
			if s := c.weighted[k].score(hash); s < least {
				best, least = k, s
			}
		}
		return c.weighted[best].region, true
	case len(c.spare) > 0:
		return c.spare[0], true
	}
	return c.down[0], false
}

// Order appends to dst the regions for a key of frontend i, best first: those
// with a share in the order in which Pick would choose them were the earlier ones
// down, then the other usable ones, cheapest first. Regions that are down appear
// only where nothing else is left. It allocates nothing when dst has room for
// all regions.
func (t *Table) Order(frontend int, hash uint64, dst []int) []int {
	c := &t.choices[frontend]
	var buf [64]float64
	scores, first := buf[:0], len(dst)
	for k := range c.weighted {
		s := c.weighted[k].score(hash)
		at := len(scores)
		scores, dst = append(scores, s), append(dst, c.weighted[k].region)
		for ; at > 0 && s < scores[at-1]; at-- {
			scores[at], dst[first+at] = scores[at-1], dst[first+at-1]
		}
		scores[at], dst[first+at] = s, c.weighted[k].region
	}
	dst = append(dst, c.spare...)
	if len(dst) == first {
		dst = append(dst, c.down...)
	}
	return dst
}

// FNV-1a, 64 bit (RFC 9923).
const (
	fnvOffset = 0xcbf29ce484222325
	fnvPrime  = 0x100000001b3
)

func fnv(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	return h
}

// mix is the finaliser of SplitMix64 (Steele, Lea, Flood 2014): every input bit
// reaches every output bit, which FNV alone does not do.
func mix(h uint64) uint64 {
	h += 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// Hash is the key of one client for one name (lower case, for names are
// case-blind): FNV-1a over the name, a zero octet, the 4 or 16 octets of the
// masked address and the prefix length, then the finaliser of SplitMix64. It is
// the same in every process and version, since answers depend on it. It
// allocates nothing.
func Hash(name string, key netip.Prefix) uint64 {
	h := fnv(fnvOffset, name)
	h *= fnvPrime // the zero octet
	if a := key.Masked().Addr(); a.Is4() {
		b := a.As4()
		h = fnvBytes(h, b[:])
	} else if a.IsValid() {
		b := a.As16()
		h = fnvBytes(h, b[:])
	}
	return mix((h ^ uint64(uint8(key.Bits()))) * fnvPrime)
}

func fnvBytes(h uint64, b []byte) uint64 {
	for _, c := range b {
		h = (h ^ uint64(c)) * fnvPrime
	}
	return h
}
