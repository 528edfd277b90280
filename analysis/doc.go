// Package analysis turns rows into rows: samples into latencies with their
// intervals, and into the hops and links of paths; and it decides which probe a
// trace of one flow ([Tracer]), or of all of them ([Paths]), needs next.
//
// # Model
//
// Everything here is a function of its arguments. What decides about probes is a
// state machine that is told outcomes and asked for the next probe, so a
// measuring loop, a simulator and a file of recorded samples drive the same
// rules. Nothing here assumes a distribution of round-trip times: estimates are
// order statistics.
//
//	t := analysis.NewTracer(analysis.TraceOptions{})
//	for !t.Done() {
//		probes = t.Next(probes[:0]) // send them
//		t.Observe(sample)           // whatever came back, or the timeout
//	}
//
// All paths are found with a stated probability: [Stops] has the numbers of flows
// that it takes, and [Graph] says what was found, the balancers' classes and
// fields included, and whether the promise was kept.
//
// # What it does not do
//
// It reads no clock, draws no random number, opens no file or socket and starts
// no goroutine. It does not correct clocks, and takes the time stamps of the
// samples as they are.
package analysis
