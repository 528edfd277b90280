// Command bench runs what strandline is judged by side by side with its peers,
// in one process and one run, and prints one table per area with the ratio to
// each peer. CPU time per operation is what is compared: it is steadier than the
// wall clock on a machine that others use too. `make bench` runs it.
//
// It proves no correctness; tests do. Peers that are other programs are measured
// where they are installed, and named as missing where they are not.
package main

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
)

// row is one contender of an area: what one operation costs.
type row struct {
	name   string
	cpu    time.Duration // per operation; 0 = missing
	allocs float64       // per operation
	note   string
}

// area is one table. The first row is ours; ratios are ours over each peer's.
type area struct {
	name string
	run  func() ([]row, error)
}

func main() {
	fmt.Printf("%s, %d processors, %s/%s\n", runtime.Version(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
	for _, a := range []area{{"decode a time-exceeded that quotes UDP", decode}, {"proxy a request of 1 KB, handler alone", forward}, {"solve 1000 frontends x 100 regions, load 0.8", solve}} {
		rows, err := a.run()
		if err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", a.name, err)
			os.Exit(1)
		}
		print(a.name, rows)
	}
}

// print writes one table.
func print(name string, rows []row) {
	fmt.Printf("\n%s\n  %-36s %14s %10s %8s\n", name, "", "CPU per op", "allocs", "ratio")
	for i, r := range rows {
		if r.cpu == 0 {
			fmt.Printf("  %-36s %s\n", r.name, "missing: "+r.note)
			continue
		}
		ratio := ""
		if i > 0 {
			ratio = fmt.Sprintf("%.2f", float64(rows[0].cpu)/float64(r.cpu))
		}
		fmt.Printf("  %-36s %14s %10.1f %8s  %s\n", r.name, r.cpu, r.allocs, ratio, r.note)
	}
}

// rounds is how often the contenders take turns; the best round of each counts.
const rounds = 5

// compete measures operations in turn, so that noise meets them alike. Each
// round of each runs for at least the time given.
func compete(least time.Duration, names []string, ops []func(n int)) []row {
	rows := make([]row, len(ops))
	for i, op := range ops {
		rows[i].name = names[i]
		op(1) // warm
	}
	for range rounds {
		for i, op := range ops {
			cpu, allocs := measure(least, op)
			if rows[i].cpu == 0 || cpu < rows[i].cpu {
				rows[i].cpu, rows[i].allocs = cpu, allocs
			}
		}
	}
	return rows
}

// measure runs op often enough to fill the time, and returns CPU time and
// allocations per operation.
func measure(least time.Duration, op func(n int)) (cpu time.Duration, allocs float64) {
	for n := 1; ; n *= 2 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := cpuTime()
		op(n)
		used := cpuTime() - start
		runtime.ReadMemStats(&after)
		if used >= least {
			return used / time.Duration(n), float64(after.Mallocs-before.Mallocs) / float64(n)
		}
	}
}

// cpuTime is what this process has used of all processors.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic("bench: getrusage: " + err.Error())
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
