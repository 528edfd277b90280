// Package sim simulates routing in two independent ways that check each other.
//
// The fluid model (RunFluid) integrates the delay differential equation of arXiv
// 2504.10693, in which requests are a liquid. The event simulator (Run) follows
// single requests: they arrive by a Source (renewal processes with changing rates,
// or a recorded Trace), a router.Policy of their frontend chooses a region, they
// cross the network, share the region's processor and come back.
//
// # The event simulator
//
// A region with n requests inside completes l(n) units of work per second, l being
// its router.Service (or Config.Truth), and each request gets an equal part: a mean
// request is one unit of work. With Poisson arrivals and l(n) = mu n/(kappa+n) the
// mean number inside is (kappa+1) rho/(1-rho) for work of any distribution, which
// the tests hold it to; the fluid has kappa in place of kappa+1 (see Integer).
//
// Each policy sees what its router.Sight says and nothing else: workloads reach a
// frontend one network delay late or as periodic reports, an outage only after its
// detection. Chance is split into streams by purpose, so that all policies with the
// same seed meet the same requests with the same work, and a Comparison is paired.
//
//	rows, err := sim.Compare(sim.Comparison{
//		Policies: []string{"dgd+replan", "jsq", "nearest"},
//		Seeds:    []uint64{1, 2, 3},
//		Config:   sim.Config{World: w, DurationS: 1000, WarmupS: 100},
//	})
//
// # Units
//
// Times are simulated seconds (...S), rates are per second (...Hz), workloads are
// requests.
//
// # What it does not do
//
// The package is pure: it reads no clock, starts no goroutine, opens no file; chance
// comes from seeds. It does not model batches, key-value caches or queues inside a
// region: those are in l(n), as far as they are in any model of one curve.
package sim
