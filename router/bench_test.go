//go:build unix

package router_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"strandline/router"
)

// BenchmarkSolve is the time to a certified gap from nothing (cold), and from the
// prices of a plan before every demand moved by up to 2 % and all by 1 % (warm).
func BenchmarkSolve(b *testing.B) {
	for _, size := range [][2]int{{3, 3}, {40, 13}, {100, 20}, {1000, 100}, {10000, 100}} {
		for _, rho := range []float64{0.5, 0.8, 0.95} {
			b.Run(fmt.Sprintf("%dx%d/load=%v", size[0], size[1], rho), func(b *testing.B) {
				w := randomWorld(rand.New(rand.NewPCG(1, 2)), size[0], size[1], rho, 0)
				moved := drifted(rand.New(rand.NewPCG(5, 5)), w, 0.02, 0.01)
				for _, target := range []float64{1e-4, 1e-6, 1e-12} {
					before := benchmarkSolve(b, fmt.Sprintf("gap=%v/cold", target), w, router.SolveOptions{TargetGap: target})
					benchmarkSolve(b, fmt.Sprintf("gap=%v/warm", target), moved, router.SolveOptions{TargetGap: target, StartPricesS: pricesOf(before)})
				}
			})
		}
	}
}

func benchmarkSolve(b *testing.B, name string, w *router.World, opts router.SolveOptions) *router.Plan {
	p, err := router.Solve(w, opts)
	if err != nil {
		b.Fatal(err)
	}
	b.Run(name, func(b *testing.B) {
		start := cpuTime(b)
		for b.Loop() {
			router.Solve(w, opts)
		}
		b.ReportMetric((cpuTime(b)-start).Seconds()*1000/float64(b.N), "cpu-ms/op")
		b.ReportMetric(p.Gap/opts.TargetGap, "gap/target")
		b.ReportMetric(float64(p.Iterations), "iterations")
	})
	return p
}

// cpuTime is what the process has used, garbage collection included: on a shared
// machine the time on the wall says little.
func cpuTime(tb testing.TB) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkSolveAgainst is the time to a gap at 1000 x 100 over ours in the same run,
// with the gap that the peer had when it gave up.
func BenchmarkSolveAgainst(b *testing.B) {
	for _, rho := range []float64{0.5, 0.8, 0.95} {
		w := randomWorld(rand.New(rand.NewPCG(1, 2)), 1000, 100, rho, 0)
		f, optimum := flatten(w), solved(b, w)
		for _, target := range []float64{1e-3, 1e-4, 1e-6} {
			ours := timed(b, func() {
				for range 3 {
					router.Solve(w, router.SolveOptions{TargetGap: target})
				}
			}) / 3
			b.Run(fmt.Sprintf("load=%v/gap=%v/frank-wolfe", rho, target), func(b *testing.B) {
				compare(b, ours, func() float64 { return f.frankWolfe(target, 10_000) })
			})
			b.Run(fmt.Sprintf("load=%v/gap=%v/l-bfgs", rho, target), func(b *testing.B) {
				compare(b, ours, func() float64 { return f.lbfgs(0.3*target*optimum.MeanLatencyS, target, 1000) })
			})
		}
	}
}

// compare runs a peer and reports its time over ours, and the gap that it reached.
func compare(b *testing.B, ours time.Duration, peer func() float64) {
	var gap float64
	var total time.Duration
	for b.Loop() {
		total += timed(b, func() { gap = peer() })
	}
	b.ReportMetric(total.Seconds()/float64(b.N)/ours.Seconds(), "times-ours")
	b.ReportMetric(ours.Seconds()*1000, "ours-cpu-ms")
	b.ReportMetric(gap, "gap")
}

func timed(b *testing.B, f func()) time.Duration {
	start := cpuTime(b)
	f()
	return cpuTime(b) - start
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
