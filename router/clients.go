package router

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"
)

// address is an IP address as a bit string that starts at the top of hi; an IPv4
// address fills the top 32 bits. So prefix lengths count alike in both families.
type address struct{ hi, lo uint64 }

func addressOf(a netip.Addr) address {
	if a.Is4() {
		b := a.As4()
		return address{hi: uint64(binary.BigEndian.Uint32(b[:])) << 32}
	}
	b := a.As16()
	return address{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

func (a address) less(b address) bool { return a.hi < b.hi || a.hi == b.hi && a.lo < b.lo }

// common is the number of leading bits that a and b share.
func (a address) common(b address) int {
	if x := a.hi ^ b.hi; x != 0 {
		return bits.LeadingZeros64(x)
	}
	return 64 + bits.LeadingZeros64(a.lo^b.lo)
}

// after is the address behind the last one of the prefix a/n, and false where
// that prefix ends the address space.
func (a address) after(n int) (address, bool) {
	switch {
	case n == 0:
		return address{}, false
	case n <= 64:
		hi := a.hi + 1<<(64-n)
		return address{hi, 0}, hi != 0
	}
	lo, carry := bits.Add64(a.lo, 1<<(128-n), 0)
	hi, wrapped := bits.Add64(a.hi, 0, carry)
	return address{hi, lo}, wrapped == 0
}

// before is the last address in front of a, which is not the first of all. In
// IPv4 the bits below the 32nd are set too, which changes no prefix of 32 or less.
func (a address) before() address {
	lo, borrow := bits.Sub64(a.lo, 1, 0)
	return address{a.hi - borrow, lo}
}

// clientEntry is one line of the client map.
type clientEntry struct {
	prefix   netip.Prefix
	frontend int
	parent   int // the next shorter entry around this one; -1 = none
}

// clientRange is a run of addresses with the same longest-prefix match. It ends
// where the next one starts.
type clientRange struct {
	start address
	entry int // -1 = the default frontend
	group int
}

// clientGroup is a maximal run of addresses with the same frontend.
type clientGroup struct{ first, last address }

// clientMap answers longest-prefix matches in one address family. The prefixes
// are flattened to the runs of addresses between which the answer changes, so a
// lookup is one binary search, and the largest prefix around an address with one
// answer follows from the two ends of its group. It is immutable.
type clientMap struct {
	entries []clientEntry
	ranges  []clientRange
	groups  []clientGroup

	fallback int // the default frontend
}

// newClientMap takes distinct masked prefixes of one family. What they do not
// cover belongs to the fallback frontend.
func newClientMap(entries []clientEntry, fallback int) clientMap {
	slices.SortFunc(entries, func(a, b clientEntry) int {
		if c := a.prefix.Addr().Compare(b.prefix.Addr()); c != 0 {
			return c
		}
		return a.prefix.Bits() - b.prefix.Bits()
	})
	m := clientMap{entries: entries, fallback: fallback}
	m.mark(address{}, -1)
	open := -1 // the innermost entry around the sweep's position
	for e := range entries {
		open = m.closeUntil(open, addressOf(entries[e].prefix.Addr()))
		entries[e].parent = open
		m.mark(addressOf(entries[e].prefix.Addr()), e)
		open = e
	}
	m.closeUntil(open, address{^uint64(0), ^uint64(0)})
	m.join()
	return m
}

// mark starts a range; a range that would be empty is replaced.
func (m *clientMap) mark(start address, entry int) {
	if n := len(m.ranges); n > 0 && m.ranges[n-1].start == start {
		m.ranges = m.ranges[:n-1]
	}
	m.ranges = append(m.ranges, clientRange{start: start, entry: entry})
}

// closeUntil ends the open entries that end at or before limit, innermost first,
// and returns the one that is then open.
func (m *clientMap) closeUntil(open int, limit address) int {
	for open >= 0 {
		p := m.entries[open].prefix
		end, ok := addressOf(p.Addr()).after(p.Bits())
		if !ok || limit.less(end) {
			return open
		}
		open = m.entries[open].parent
		m.mark(end, open)
	}
	return open
}

// join finds the groups.
func (m *clientMap) join() {
	last := address{^uint64(0), ^uint64(0)}
	previous := -1
	for k := range m.ranges {
		r := &m.ranges[k]
		f := m.frontendOf(r.entry)
		if k == 0 || f != previous {
			if k > 0 {
				m.groups[len(m.groups)-1].last = r.start.before()
			}
			m.groups = append(m.groups, clientGroup{r.start, last})
		}
		previous = f
		r.group = len(m.groups) - 1
	}
}

// find returns the entry that decides for the prefix a/n, -1 for none, and the
// length of the largest prefix around a in which every address has a's frontend.
// What decides is the longest entry around the whole prefix; but where the entries
// inside cover all of it and agree, they do.
func (m *clientMap) find(a address, n int) (entry, uniform int) {
	lo, hi := 0, len(m.ranges) // ranges[lo].start <= a < ranges[hi].start
	for hi-lo > 1 {
		mid := int(uint(lo+hi) / 2)
		if a.less(m.ranges[mid].start) {
			hi = mid
		} else {
			lo = mid
		}
	}
	inside := m.ranges[lo].entry
	entry, uniform = inside, m.groups[m.ranges[lo].group].uniform(a)
	for entry >= 0 && m.entries[entry].prefix.Bits() > n {
		entry = m.entries[entry].parent
	}
	if uniform <= n && m.frontendOf(entry) != m.frontendOf(inside) {
		entry = inside
	}
	return entry, uniform
}

// frontendOf is the frontend of an entry, or of those that have none.
func (m *clientMap) frontendOf(entry int) int {
	if entry < 0 {
		return m.fallback
	}
	return m.entries[entry].frontend
}

// uniform is the length of the largest prefix around a inside the group: one bit
// more than a shares with its neighbours outside, so that they are left out.
func (g clientGroup) uniform(a address) int {
	n := 0
	if first := (address{}); g.first != first {
		n = a.common(g.first.before()) + 1
	}
	if end, ok := g.last.after(128); ok {
		n = max(n, a.common(end)+1)
	}
	return n
}
