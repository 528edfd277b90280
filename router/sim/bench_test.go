package sim_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"syscall"
	"testing"

	"strandline/router"
	"strandline/router/sim"
)

// cpuS is the processor time that this process has used, so that a busy machine
// does not count.
func cpuS() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return math.NaN()
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// planet is frontends by regions at random places, at load rho.
func planet(frontends, regions int, rho float64) *router.World {
	rng := rand.New(rand.NewPCG(31, 0))
	services, rates, tau := make([][2]float64, regions), make([]float64, frontends), make([][]float64, frontends)
	capacity, demand := 0.0, 0.0
	for j := range services {
		mu := 5 + 45*rng.Float64()
		services[j] = [2]float64{mu, mu * (1 + 3*rng.Float64())}
		capacity += mu
	}
	for i := range rates {
		rates[i] = math.Exp(rng.NormFloat64())
		demand += rates[i]
	}
	for i := range rates {
		rates[i] *= rho * capacity / demand
		tau[i] = make([]float64, regions)
		for j := range tau[i] {
			tau[i][j] = 0.005 + 0.145*rng.Float64()
		}
	}
	return world(rates, services, tau)
}

func BenchmarkEvents(b *testing.B) {
	for _, size := range [][2]int{{3, 3}, {40, 13}} {
		w := planet(size[0], size[1], 0.8)
		plan, err := router.Solve(sim.Integer(w), router.SolveOptions{TargetGap: 1e-6})
		if err != nil {
			b.Fatal(err)
		}
		for _, policy := range []string{"random", "split", "plan", "lc", "pd", "gmsr", "dgd"} {
			b.Run(fmt.Sprintf("%dx%d/%s", size[0], size[1], policy), func(b *testing.B) {
				b.ReportAllocs()
				events, start := uint64(0), cpuS()
				for b.Loop() {
					r := run(b, sim.Config{World: w, Plan: plan, Policy: policy, DurationS: 200_000 / w.DemandHz(), Seed: 1})
					events += r.Events
				}
				b.ReportMetric(float64(events)/(cpuS()-start)/1e6, "Mevents/cpu-s")
			})
		}
	}
}
