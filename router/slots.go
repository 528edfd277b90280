package router

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// DefaultSlots is a number of slots at which quotas are within 0.03 % of any
// weights of a few regions.
const DefaultSlots = 4096

// SlotTable maps session keys to regions through a fixed number of slots, each of
// which belongs to a region. It moves the least number of slots that new weights
// allow: half the sum of the changes of the quotas. In return it depends on its
// history (weighted rendezvous hashing, as Table.Pick does it, does not, and moves
// a little more): routers agree where they have the same chain of versions, so one
// process makes the tables and the others are given them.
//
// A table is immutable; any number of goroutines may read it.
type SlotTable struct {
	version uint64
	owner   []int32
	quotas  []int
}

// NewSlotTable makes version 1 for the weights, by region. A weight of 0 means no
// slots. The error says which weight is not one, or that all are 0.
func NewSlotTable(weights []float64, slots int) (*SlotTable, error) {
	quotas, err := slotQuotas(weights, slots)
	if err != nil {
		return nil, err
	}
	t := &SlotTable{version: 1, owner: make([]int32, slots), quotas: quotas}
	s := 0
	for j, n := range quotas {
		for range n {
			t.owner[s] = int32(j)
			s++
		}
	}
	return t, nil
}

// slotQuotas shares the slots by largest remainders; of equal remainders the lower
// region's is served first.
func slotQuotas(weights []float64, slots int) ([]int, error) {
	if slots < 1 || slots > 1<<24 {
		return nil, fmt.Errorf("slot table: %d slots; write 1 to %d", slots, 1<<24)
	}
	total := 0.0
	for j, w := range weights {
		if !finite(w) || w < 0 {
			return nil, fmt.Errorf("slot table: %v is not a weight (region %d)", w, j)
		}
		total += w
	}
	if !(total > 0) || !finite(total) {
		return nil, errors.New("slot table: no region has a weight")
	}
	quotas, order, left := make([]int, len(weights)), make([]int, len(weights)), slots
	remainder := make([]float64, len(weights))
	for j, w := range weights {
		exact := w / total * float64(slots)
		quotas[j] = min(int(exact), left)
		left -= quotas[j]
		remainder[j], order[j] = exact-float64(quotas[j]), j
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case remainder[a] > remainder[b]:
			return -1
		case remainder[a] < remainder[b]:
			return 1
		}
		return 0
	})
	for k := 0; left > 0; k, left = (k+1)%len(order), left-1 {
		quotas[order[k]]++
	}
	return quotas, nil
}

// Next is the table for new weights, of as many regions or more (regions are
// numbered for good; one that is gone has weight 0). Surplus slots of shrinking
// regions go to growing ones and no other slot moves. Of a region's slots those
// that weigh least go first, where load gives the load of each slot; nil = all the
// same. Weights that give the same quotas give the same table, version included.
func (t *SlotTable) Next(weights []float64, load []float64) (*SlotTable, error) {
	if len(weights) < len(t.quotas) || load != nil && len(load) != len(t.owner) {
		return nil, fmt.Errorf("slot table: %d weights for %d regions, %d loads for %d slots", len(weights), len(t.quotas), len(load), len(t.owner))
	}
	quotas, err := slotQuotas(weights, len(t.owner))
	if err != nil {
		return nil, err
	}
	before := append(slices.Clone(t.quotas), make([]int, len(quotas)-len(t.quotas))...)
	if slices.Equal(quotas, before) {
		return t, nil
	}
	next := &SlotTable{version: t.version + 1, owner: slices.Clone(t.owner), quotas: quotas}
	freed := t.surplus(quotas, load)
	for j := range quotas {
		for n := quotas[j] - before[j]; n > 0; n-- {
			next.owner[freed[0]] = int32(j)
			freed = freed[1:]
		}
	}
	return next, nil
}

// surplus lists the slots that shrinking regions give up, spread over the table by
// a hash where nothing else decides.
func (t *SlotTable) surplus(quotas []int, load []float64) []int {
	order := make([]int, len(t.owner))
	for s := range order {
		order[s] = s
	}
	slices.SortFunc(order, func(a, b int) int {
		if load != nil && load[a] != load[b] {
			if load[a] < load[b] {
				return -1
			}
			return 1
		}
		if x, y := mix(uint64(a)), mix(uint64(b)); x < y {
			return -1
		}
		return 1
	})
	give := make([]int, len(t.quotas))
	for j, n := range t.quotas {
		give[j] = n - quotas[j]
	}
	var freed []int
	for _, s := range order {
		if j := t.owner[s]; give[j] > 0 {
			give[j]--
			freed = append(freed, s)
		}
	}
	return freed
}

// Version counts the tables of a chain.
func (t *SlotTable) Version() uint64 { return t.version }

// Slots is the number of slots.
func (t *SlotTable) Slots() int { return len(t.owner) }

// Slot is the slot of a key.
func (t *SlotTable) Slot(key uint64) int {
	// The high bits of a product spread evenly over any number of slots.
	return int(uint64(uint32(mix(key)>>32)) * uint64(len(t.owner)) >> 32)
}

// Pick is the region of a key. It allocates nothing.
func (t *SlotTable) Pick(key uint64) int { return int(t.owner[t.Slot(key)]) }

// Sessions keeps active sessions where they are while tables change: it remembers
// the region of each until it has been idle for a while. The map is exact, not a
// digest, so a session is never answered with another's region; and it is bounded,
// so that a flood of new sessions costs stability, not memory. Clients that carry
// their region in a token of their own need no entry here.
//
// It is not safe for concurrent use and reads no clock.
type Sessions struct {
	Most  int     // sessions at a time; 0 means 1,000,000. Further ones move with the table, and Lost counts them
	IdleS float64 // after which a session is over; 0 means 600

	Lost uint64 // picks that were not remembered for lack of room

	table  *SlotTable
	active map[uint64]session

	searchS float64 // when idle sessions may be looked for again
}

type session struct {
	region int32
	lastS  float64
}

// Table replaces the table. Sessions active at nowS stay where they are.
func (s *Sessions) Table(t *SlotTable, nowS float64) {
	s.expire(nowS)
	s.table = t
}

// expire forgets what is idle.
func (s *Sessions) expire(nowS float64) {
	for k, v := range s.active {
		if nowS-v.lastS > s.idleS() {
			delete(s.active, k)
		}
	}
}

// makeRoom looks for idle sessions at most once per tenth of the idle time, since a
// full map of active ones would be searched at every pick.
func (s *Sessions) makeRoom(nowS float64, most int) bool {
	if nowS >= s.searchS {
		s.searchS = nowS + s.idleS()/10
		s.expire(nowS)
	}
	return len(s.active) < most
}

func (s *Sessions) idleS() float64 {
	if s.IdleS == 0 {
		return 600
	}
	return s.IdleS
}

// Pick is the region of a request of session key at nowS: where the session is, or
// for a new session where the table says. A region that is not usable loses its
// sessions at once; usable nil means that all are. Without a usable region it is -1.
func (s *Sessions) Pick(key uint64, nowS float64, usable func(region int) bool) int {
	v, known := s.active[key]
	if known && nowS-v.lastS <= s.idleS() && (usable == nil || usable(int(v.region))) {
		v.lastS = nowS
		s.active[key] = v
		return int(v.region)
	}
	j := s.table.usablePick(key, usable)
	if j < 0 {
		return -1
	}
	if s.active == nil {
		s.active = map[uint64]session{}
	}
	most := s.Most
	if most == 0 {
		most = 1_000_000
	}
	if !known && len(s.active) >= most && !s.makeRoom(nowS, most) {
		s.Lost++
		return j
	}
	s.active[key] = session{int32(j), nowS}
	return j
}

// usablePick walks over the slots from that of the key to one of a usable region.
func (t *SlotTable) usablePick(key uint64, usable func(region int) bool) int {
	first := t.Slot(key)
	for k := range t.owner {
		// A stride by the key spreads the keys of a dead region over the others.
		j := int(t.owner[(first+k*int(1+key%uint64(max(1, len(t.owner)-1))))%len(t.owner)])
		if usable == nil || usable(j) {
			return j
		}
	}
	for j := range t.quotas {
		if t.quotas[j] > 0 && usable(j) {
			return j
		}
	}
	return -1
}

// Disruption is the least part of the keys that must move when weights change: half
// the sum of the absolute changes of the shares.
func Disruption(before, after []float64) float64 {
	a, b := 0.0, 0.0
	for _, w := range before {
		a += w
	}
	for _, w := range after {
		b += w
	}
	half := 0.0
	for j := range max(len(before), len(after)) {
		x, y := 0.0, 0.0
		if j < len(before) {
			x = before[j] / a
		}
		if j < len(after) {
			y = after[j] / b
		}
		half += math.Abs(x-y) / 2
	}
	return half
}
