package router_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"strandline/router"
)

func BenchmarkSolve(b *testing.B) {
	for _, size := range [][2]int{{3, 3}, {40, 13}, {100, 20}, {1000, 100}} {
		for _, rho := range []float64{0.5, 0.8, 0.95} {
			w := randomWorld(rand.New(rand.NewPCG(1, 2)), size[0], size[1], rho, 0)
			b.Run(fmt.Sprintf("%dx%d/load=%v", size[0], size[1], rho), func(b *testing.B) {
				var p *router.Plan
				for b.Loop() {
					p = solved(b, w)
				}
				b.ReportMetric(p.Gap/1e-12, "gap/1e-12")
				b.ReportMetric(float64(p.Iterations), "iterations")
			})
		}
	}
}

// BenchmarkLookup walks a map of a hundred thousand client networks.
func BenchmarkLookup(b *testing.B) {
	rng := rand.New(rand.NewPCG(3, 4))
	seen := map[netip.Prefix]bool{}
	var clients []router.Client
	var asked []netip.Prefix
	for len(clients) < 100_000 {
		a := netip.AddrFrom4([4]byte{byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32())})
		p := netip.PrefixFrom(a, 12+rng.IntN(13)).Masked()
		if !seen[p] {
			seen[p] = true
			clients = append(clients, router.Client{Prefix: p, Frontend: fmt.Sprint("f", rng.IntN(2))})
			asked = append(asked, netip.PrefixFrom(a, 32))
		}
	}
	tab := table(b, clients)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		tab.Lookup(asked[n])
		if n++; n == len(asked) {
			n = 0
		}
	}
}

func BenchmarkPick(b *testing.B) {
	for _, n := range []int{2, 13} {
		shares := make([]float64, n)
		for j := range shares {
			shares[j] = 1 / float64(n)
		}
		tab := shareTable(b, shares)
		b.Run(fmt.Sprintf("%d regions", n), func(b *testing.B) {
			b.ReportAllocs()
			for k := uint64(0); b.Loop(); k += 0x9e3779b97f4a7c15 {
				tab.Pick(0, k)
			}
		})
	}
}
