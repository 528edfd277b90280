package simnet_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"strandline/internal/simnet"
	"strandline/probe/wire"
)

// branch returns the node at place i of a packet's way.
func branch(t *testing.T, n *simnet.Net, data []byte, i int) string {
	t.Helper()
	w, err := n.Truth("a", data)
	if err != nil {
		t.Fatal(err)
	}
	return w.Forward[i]
}

// chiSquare is Pearson's statistic of counts against even shares.
func chiSquare(counts map[string]int, cells int) float64 {
	total := 0
	for _, c := range counts {
		total += c
	}
	even := float64(total) / float64(cells)
	sum := even * float64(cells-len(counts)) // of the empty cells
	for _, c := range counts {
		sum += (float64(c) - even) * (float64(c) - even) / even
	}
	return sum
}

// critical is the 99.99 % quantile of chi-square with cells-1 degrees of freedom.
func critical(cells int) float64 {
	return map[int]float64{2: 15.14, 3: 18.42, 4: 21.11, 8: 29.88, 16: 44.26}[cells]
}

// TestSplit varies one field at a time: a balancer splits evenly by the fields of
// its recipe, whether the values are consecutive or random, and by no other.
func TestSplit(t *testing.T) {
	rng := seeded(t, 5)
	vary := map[string]func(i uint32, v6 bool) []byte{
		simnet.FieldSport: func(i uint32, v6 bool) []byte { return udp(t, between(v6), uint16(i), 9) },
		simnet.FieldDport: func(i uint32, v6 bool) []byte { return udp(t, between(v6), 9, uint16(i)) },
		simnet.FieldTOS: func(i uint32, v6 bool) []byte {
			ip := between(v6)
			ip.TOS = uint8(i)
			return udp(t, ip, 9, 9)
		},
		simnet.FieldFlowLabel: func(i uint32, v6 bool) []byte {
			ip := between(v6)
			ip.FlowLabel = i
			return udp(t, ip, 9, 9)
		},
		simnet.FieldICMPID: func(i uint32, v6 bool) []byte {
			return must(t)(wire.AppendEcho(nil, between(v6), wire.Echo{ID: uint16(i), Checksum: 77, Payload: []byte("xx")}))
		},
		simnet.FieldICMPChecksum: func(i uint32, v6 bool) []byte {
			return must(t)(wire.AppendEcho(nil, between(v6), wire.Echo{ID: 7, Checksum: uint16(i) | 1<<15, Payload: []byte("xx")}))
		},
	}
	for _, width := range []int{2, 3, 4, 8, 16} {
		for _, recipe := range slices.Sorted(maps.Keys(vary)) {
			n := build(t, diamond(width, simnet.Hash{Fields: []string{recipe}}), nil)
			for field, packet := range vary {
				for _, v6 := range []bool{false, true} {
					if field == simnet.FieldFlowLabel && !v6 {
						continue
					}
					start := rng.Uint32() & 0x3fff
					counts := map[string]int{}
					packets := uint32(2000)
					if field != recipe {
						packets = 60
					}
					for i := range packets {
						if field == simnet.FieldTOS {
							i %= 256
						}
						counts[branch(t, n, packet(start+i, v6), 2)]++
					}
					if field != recipe {
						if len(counts) != 1 {
							t.Errorf("recipe %s: %s moves the path: %v", recipe, field, counts)
						}
						continue
					}
					stat := chiSquare(counts, width)
					if field == simnet.FieldTOS {
						stat /= 2000.0 / 256 // each value counted so often
					}
					if stat > critical(width) {
						t.Errorf("recipe %s, width %d, IPv6 %v: chi-square %.1f, want below %.1f: %v", recipe, width, v6, stat, critical(width), counts)
					}
				}
			}
		}
	}
}

func between(v6 bool) wire.IP {
	if v6 {
		return wire.IP{Src: addr6(1), Dst: addr6(2), TTL: 64}
	}
	return wire.IP{Src: addr4(1), Dst: addr4(2), TTL: 64}
}

// TestDefaultRecipe: the five-tuple sees ports, and one flow in all echoes.
func TestDefaultRecipe(t *testing.T) {
	n := build(t, diamond(4, simnet.Hash{}), nil)
	ports, ids := map[string]int{}, map[string]int{}
	for i := range uint16(2000) {
		ports[branch(t, n, udp(t, between(false), i, 33434), 2)]++
		ids[branch(t, n, echo(t, between(false), i, i*3), 2)]++
	}
	if got := chiSquare(ports, 4); got > critical(4) {
		t.Errorf("ports: chi-square %.1f: %v", got, ports)
	}
	if len(ids) != 1 {
		t.Errorf("echoes take several paths: %v", ids)
	}
}

// cascade is a - r1 = {m1, m2}, each of which = {x, y} - r2 - b: two balancers in a row.
func cascade(first, second simnet.Hash) simnet.Spec {
	s := diamond(2, first)
	s.Links = s.Links[:2]
	s.Nodes[4].Hash, s.Nodes[5].Hash = second, second
	s.Nodes = append(s.Nodes, router("x", 21), router("y", 22))
	for _, l := range [][2]string{{"r1", "m1"}, {"r1", "m2"}, {"m1", "x"}, {"m1", "y"}, {"m2", "x"}, {"m2", "y"}, {"x", "r2"}, {"y", "r2"}} {
		s.Links = append(s.Links, simnet.Link{A: l[0], B: l[1], Delay: time.Millisecond})
	}
	return s
}

// TestPolarisation: balancers in a row choose independently, unless they were
// given one seed.
func TestPolarisation(t *testing.T) {
	split := func(first, second simnet.Hash) map[string]int {
		n := build(t, cascade(first, second), nil)
		counts := map[string]int{}
		for i := range uint16(4000) {
			w, err := n.Truth("a", udp(t, between(false), i, 33434))
			if err != nil {
				t.Fatal(err)
			}
			counts[fmt.Sprint(w.Forward[2:4])]++
		}
		return counts
	}
	for _, h := range []simnet.Hash{{}, {Seed: 5}} {
		counts := split(h, simnet.Hash{})
		if got := chiSquare(counts, 4); got > critical(4) {
			t.Errorf("seed %d, then a drawn one: chi-square %.1f: %v", h.Seed, got, counts)
		}
	}
	if counts := split(simnet.Hash{Seed: 5}, simnet.Hash{Seed: 5}); len(counts) != 2 {
		t.Errorf("equal seeds do not polarise: %v", counts)
	}
	fields := []string{simnet.FieldSport, simnet.FieldDst}
	shuffled := []string{simnet.FieldDst, simnet.FieldSport, simnet.FieldDst}
	if counts := split(simnet.Hash{Seed: 5, Fields: fields}, simnet.Hash{Seed: 5, Fields: shuffled}); len(counts) != 2 {
		t.Errorf("the order of the fields matters: %v", counts)
	}
}

// TestWorldSeed: another world seed, other choices.
func TestWorldSeed(t *testing.T) {
	spec := diamond(2, simnet.Hash{})
	n := build(t, spec, nil)
	spec.Seed++
	other := build(t, spec, nil)
	same := 0
	for i := range uint16(1000) {
		data := udp(t, between(false), i, 33434)
		if branch(t, n, data, 2) == branch(t, other, data, 2) {
			same++
		}
	}
	if same < 430 || same > 570 {
		t.Errorf("%d of 1000 flows agree under two seeds, want about 500", same)
	}
}
