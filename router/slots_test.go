package router_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"strandline/router"
)

func slotTable(t testing.TB, weights []float64) *router.SlotTable {
	t.Helper()
	s, err := router.NewSlotTable(weights, router.DefaultSlots)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func nextTable(t testing.TB, s *router.SlotTable, weights []float64) *router.SlotTable {
	t.Helper()
	n, err := s.Next(weights, nil)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// randomWeights are n weights, some of them 0, that are not all 0.
func randomWeights(rng *rand.Rand, n int) []float64 {
	w := make([]float64, n)
	for j := range w {
		if rng.IntN(4) > 0 {
			w[j] = rng.ExpFloat64()
		}
	}
	w[rng.IntN(n)] = 1
	return w
}

// P1: the same weights again, in whatever unit, move nothing and make no version.
func TestSlotsP1NoOp(t *testing.T) {
	rng := seeded(t, 41)
	for range 50 {
		w := randomWeights(rng, 1+rng.IntN(20))
		s := slotTable(t, w)
		twice := slices.Clone(w)
		for j := range twice {
			twice[j] *= 2
		}
		if n := nextTable(t, s, twice); n != s {
			t.Fatalf("weights %v again make version %d", w, n.Version())
		}
	}
}

// P4: over a chain of random weights each step moves the least number of slots:
// half the sum of the changes of the quotas, which are within one slot of exact.
// Keys move like slots.
func TestSlotsP4LeastDisruption(t *testing.T) {
	rng := seeded(t, 42)
	for range 10 {
		n := 2 + rng.IntN(12)
		before := randomWeights(rng, n)
		s := slotTable(t, before)
		all := slotKeys(s)
		for range 10 {
			after := randomWeights(rng, n)
			next := nextTable(t, s, after)
			moved, counts := 0, make([]int, n)
			for _, key := range all {
				counts[next.Pick(key)]++
				if s.Pick(key) != next.Pick(key) {
					moved++
				}
			}
			least := router.Disruption(before, after) * router.DefaultSlots
			if float64(moved) > least+float64(n) || float64(moved) < least-float64(n) {
				t.Fatalf("%v -> %v moved %d slots, want %.1f to rounding", before, after, moved, least)
			}
			total := 0.0
			for _, w := range after {
				total += w
			}
			for j, w := range after {
				if exact := w / total * router.DefaultSlots; math.Abs(float64(counts[j])-exact) >= 1 {
					t.Fatalf("region %d has %d slots, want %.2f to one", j, counts[j], exact)
				}
			}
			s, before = next, after
		}
	}
}

// slotKeys has a key for every slot.
func slotKeys(s *router.SlotTable) []uint64 {
	found, n := make([]uint64, s.Slots()), 0
	seen := make([]bool, s.Slots())
	for key := uint64(1); n < len(found); key++ {
		if k := s.Slot(key); !seen[k] {
			seen[k], found[k] = true, key
			n++
		}
	}
	return found
}

// The documented case in which rendezvous hashing moves 12.9 % where 10 % is the
// least.
func TestSlotsMoveLessThanRendezvous(t *testing.T) {
	s := slotTable(t, []float64{.5, .3, .2})
	next := nextTable(t, s, []float64{.4, .3, .3})
	moved := 0
	for n := range keys {
		if s.Pick(key(n)) != next.Pick(key(n)) {
			moved++
		}
	}
	if got := float64(moved) / keys; math.Abs(got-0.1) > 0.005 {
		t.Errorf("%.2f %% of the keys moved, want 10 %%", 100*got)
	}
}

// P5: two routers that were given the same chain agree on every key.
func TestSlotsP5Agreement(t *testing.T) {
	chain := func() *router.SlotTable {
		rng := seeded(t, 43)
		s := slotTable(t, randomWeights(rng, 9))
		for range 20 {
			s = nextTable(t, s, randomWeights(rng, 9))
		}
		return s
	}
	a, b := chain(), chain()
	if a.Version() != b.Version() {
		t.Fatalf("versions %d and %d", a.Version(), b.Version())
	}
	for n := range keys {
		if a.Pick(key(n)) != b.Pick(key(n)) {
			t.Fatalf("key %d: %d and %d", n, a.Pick(key(n)), b.Pick(key(n)))
		}
	}
}

// P2 and P3: while weights change every epoch, an active session stays in its region
// as long as that is alive, and is answered with its own region only, which a plain
// map as the oracle tells. New sessions follow the table.
func TestSessionsP2StayP3Exact(t *testing.T) {
	rng := seeded(t, 44)
	const regions = 6
	s := router.Sessions{IdleS: 30}
	table := slotTable(t, randomWeights(rng, regions))
	s.Table(table, 0)
	where, last := map[uint64]int{}, map[uint64]float64{}
	dead := -1
	usable := func(j int) bool { return j != dead }
	stayed, fresh := 0, 0
	for step := range 200_000 {
		now := float64(step) * 0.01
		if step%1000 == 999 {
			table = nextTable(t, table, randomWeights(rng, regions))
			s.Table(table, now)
			dead = rng.IntN(2*regions) - regions // often none
		}
		k := rng.Uint64N(5000)
		got := s.Pick(k, now, usable)
		old, known := where[k]
		switch {
		case got == dead || got < 0:
			t.Fatalf("step %d: got %d, which is dead", step, got)
		case known && now-last[k] <= 30 && old != dead:
			if stayed++; got != old {
				t.Fatalf("step %d: session %d moved from %d to %d", step, k, old, got)
			}
		case usable(table.Pick(k)):
			if fresh++; got != table.Pick(k) {
				t.Fatalf("step %d: new session %d got %d, the table says %d", step, k, got, table.Pick(k))
			}
		}
		where[k], last[k] = got, now
	}
	if s.Lost != 0 || stayed < 10_000 || fresh < 10_000 {
		t.Errorf("lost %d, stayed %d, fresh %d: the test tried too little", s.Lost, stayed, fresh)
	}
}

// A full map degrades only the sessions beyond it, and says how many.
func TestSessionsAreBounded(t *testing.T) {
	s := router.Sessions{Most: 100, IdleS: 10}
	a := slotTable(t, []float64{1, 0})
	s.Table(a, 0)
	for k := range uint64(150) {
		s.Pick(k, 0, nil)
	}
	if s.Lost != 50 {
		t.Errorf("lost %d, want 50", s.Lost)
	}
	s.Table(nextTable(t, a, []float64{0, 1}), 1)
	for k := range uint64(150) {
		want := 0
		if k >= 100 {
			want = 1
		}
		if got := s.Pick(k, 1, nil); got != want {
			t.Fatalf("session %d: got %d, want %d", k, got, want)
		}
	}
	if got := s.Pick(7, 100, nil); got != 1 {
		t.Errorf("an idle session stayed in %d", got)
	}
	if got := s.Pick(9, 100, func(int) bool { return false }); got != -1 {
		t.Errorf("got %d where nothing is usable", got)
	}
}

// The slots that move are the lightest.
func TestSlotsMoveQuietOnesFirst(t *testing.T) {
	s := slotTable(t, []float64{1, 1})
	load := make([]float64, s.Slots())
	rng := seeded(t, 45)
	for k := range load {
		load[k] = rng.Float64()
	}
	next, err := s.Next([]float64{0.9, 1.1}, load)
	if err != nil {
		t.Fatal(err)
	}
	heaviest, lightest := 0.0, math.Inf(1)
	for k, key := range slotKeys(s) {
		switch {
		case s.Pick(key) == 0 && next.Pick(key) == 1:
			heaviest = max(heaviest, load[k])
		case s.Pick(key) == 0:
			lightest = min(lightest, load[k])
		}
	}
	if !(heaviest > 0 && heaviest <= lightest) {
		t.Errorf("a slot of load %v moved and one of %v stayed", heaviest, lightest)
	}
}

func TestSlotFaults(t *testing.T) {
	for _, w := range [][]float64{nil, {0, 0}, {-1, 2}, {math.NaN()}, {math.Inf(1)}, {math.MaxFloat64, math.MaxFloat64}} {
		if _, err := router.NewSlotTable(w, 16); err == nil {
			t.Errorf("weights %v: no error", w)
		}
	}
	if _, err := router.NewSlotTable([]float64{1}, 0); err == nil {
		t.Error("no slots: no error")
	}
	if _, err := slotTable(t, []float64{1, 1}).Next([]float64{1}, nil); err == nil {
		t.Error("fewer regions: no error")
	}
}
