package analysis_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"strandline/analysis"
	"strandline/datasets"
)

// network answers the probes of one flow; what it does with a TTL and attempt is
// fixed before the trace.
type network map[analysis.TraceProbe]datasets.Outcome

// answer makes the sample of a probe. The target is known by its address.
func (n network) answer(p analysis.TraceProbe) datasets.Sample {
	s := datasets.Sample{Target: target, TTL: p.TTL, Seq: p.Attempt, Outcome: n[p]}
	switch s.Outcome {
	case "":
		s.Outcome = datasets.OutcomeTimeout
	case datasets.OutcomeReply:
		s.From = target
	case datasets.OutcomeTTLExceeded, datasets.OutcomeUnreachable:
		s.From = netip.AddrFrom4([4]byte{10, 0, 0, p.TTL})
	}
	return s
}

// randomNetwork puts the target, or a refusal, at a distance that may lie beyond
// the trace; some TTLs are always silent, others answer with some probability.
func randomNetwork(r *rand.Rand) network {
	distance, end := 1+r.IntN(20), datasets.OutcomeReply
	if r.IntN(4) == 0 {
		end = datasets.OutcomeUnreachable
	}
	n := make(network)
	for ttl := 1; ttl <= 255; ttl++ {
		chance := []float64{0, 0.5, 1, 1}[r.IntN(4)]
		for attempt := range uint32(4) {
			if r.Float64() >= chance {
				continue
			}
			n[analysis.TraceProbe{TTL: uint8(ttl), Attempt: attempt}] = datasets.OutcomeTTLExceeded
			if ttl >= distance {
				n[analysis.TraceProbe{TTL: uint8(ttl), Attempt: attempt}] = end
			}
		}
	}
	return n
}

// oneByOne is the plainest trace there is: one probe at a time. It is the oracle:
// the probes of every other trace up to its end must be these.
func oneByOne(n network, o analysis.TraceOptions) (probes []analysis.TraceProbe, reached bool) {
	silent := 0
	for ttl := o.FirstTTL; ttl <= o.MaxTTL && silent < o.GapLimit; ttl++ {
		silent++
		for attempt := range o.Attempts {
			p := analysis.TraceProbe{TTL: uint8(ttl), Attempt: uint32(attempt)}
			probes = append(probes, p)
			switch n[p] {
			case datasets.OutcomeReply:
				return probes, true
			case datasets.OutcomeUnreachable:
				return probes, false
			}
			if n[p] != "" {
				silent = 0
				break
			}
		}
	}
	return probes, false
}

// run drives a Tracer to its end, answering the outstanding probes in random
// order, and returns what it asked.
func run(t *testing.T, r *rand.Rand, n network, o analysis.TraceOptions) (probes []analysis.TraceProbe, reached bool) {
	t.Helper()
	tr := analysis.NewTracer(o)
	var outstanding []analysis.TraceProbe
	highest := o.FirstTTL - 1
	for !tr.Done() {
		before := len(outstanding)
		outstanding = tr.Next(outstanding)
		probes = append(probes, outstanding[before:]...)
		for _, p := range outstanding[before:] {
			if int(p.TTL) > highest+o.GapLimit {
				t.Fatalf("asked TTL %d, %d was the highest to answer", p.TTL, highest)
			}
		}
		if len(outstanding) > o.Window {
			t.Fatalf("%d outstanding, window %d", len(outstanding), o.Window)
		}
		if len(outstanding) == 0 {
			t.Fatal("not done, but nothing to do")
		}
		i := r.IntN(len(outstanding))
		s := n.answer(outstanding[i])
		if s.Outcome.Answered() {
			highest = max(highest, int(s.TTL))
		}
		tr.Observe(s)
		outstanding = slices.Delete(outstanding, i, i+1)
	}
	if more := tr.Next(nil); len(more) > 0 {
		t.Fatalf("done, but asks %v", more)
	}
	reached = tr.Reached()
	for _, p := range outstanding { // beyond the end
		tr.Observe(n.answer(p))
	}
	if !tr.Done() || tr.Reached() != reached {
		t.Fatalf("what came after the end changed it: done %t, reached %t", tr.Done(), tr.Reached())
	}
	return probes, reached
}

// TestTraceAgainstOneByOne compares traces of any window with the oracle.
func TestTraceAgainstOneByOne(t *testing.T) {
	r := seeded(t)
	for range 3000 {
		n := randomNetwork(r)
		o := analysis.TraceOptions{FirstTTL: 1 + r.IntN(3), MaxTTL: 5 + r.IntN(20), Attempts: 1 + r.IntN(3), GapLimit: 1 + r.IntN(6),
			Window: 1 + r.IntN(30)}
		want, wantReached := oneByOne(n, o)
		got, reached := run(t, r, n, o)
		last := want[len(want)-1].TTL
		beyond := 0
		got = slices.DeleteFunc(got, func(p analysis.TraceProbe) bool {
			if p.TTL > last {
				beyond++
			}
			return p.TTL > last
		})
		slices.SortFunc(got, func(a, b analysis.TraceProbe) int {
			return int(a.TTL)*1000 + int(a.Attempt) - int(b.TTL)*1000 - int(b.Attempt)
		})
		if reached != wantReached || !slices.Equal(got, want) {
			t.Fatalf("%+v: got %v, reached %t, want %v, %t", o, got, reached, want, wantReached)
		}
		if o.Window == 1 && beyond > 0 {
			t.Fatalf("%+v: %d probes beyond the end", o, beyond)
		}
	}
}

func TestTraceDefaults(t *testing.T) {
	tr := analysis.NewTracer(analysis.TraceOptions{})
	if got, want := fmt.Sprint(tr.Next(nil)), "[{1 0} {2 0} {3 0} {4 0} {5 0}]"; got != want { // the gap limit
		t.Errorf("first probes %s, want %s", got, want)
	}
	if tr.Next(nil) != nil || tr.Done() || tr.Reached() {
		t.Error("asks again, or is done, before anything came back")
	}
	// Nothing ever answers: two attempts each, then it gives up.
	probes, reached := run(t, rand.New(rand.NewPCG(1, 1)), network{},
		analysis.TraceOptions{FirstTTL: 1, MaxTTL: 30, Attempts: 2, GapLimit: 5, Window: 8})
	if len(probes) != 10 || reached {
		t.Errorf("%d probes, reached %t, want 10, false", len(probes), reached)
	}
}

func TestTraceOptionsOutOfRange(t *testing.T) {
	huge := int(^uint(0) >> 1)
	tr := analysis.NewTracer(analysis.TraceOptions{FirstTTL: 250, MaxTTL: huge, Attempts: huge, GapLimit: huge, Window: huge})
	if got := tr.Next(nil); len(got) != 6 || got[5].TTL != 255 {
		t.Errorf("got %v, want TTL 250 to 255", got)
	}
	for _, first := range []int{31, huge} {
		tr = analysis.NewTracer(analysis.TraceOptions{FirstTTL: first})
		if got := tr.Next(nil); len(got) != 0 || !tr.Done() || tr.Reached() {
			t.Errorf("first TTL %d beyond the largest: asks %v, done %t", first, got, tr.Done())
		}
	}
}

// TestTraceLateAnswer has the answer come after the probe was given up.
func TestTraceLateAnswer(t *testing.T) {
	tr := analysis.NewTracer(analysis.TraceOptions{Attempts: 3, Window: 1})
	lost := network{}.answer(analysis.TraceProbe{TTL: 1})
	tr.Next(nil)
	tr.Observe(lost)
	if got, want := fmt.Sprint(tr.Next(nil)), "[{1 1}]"; got != want {
		t.Fatalf("after a loss asks %s, want %s", got, want)
	}
	tr.Observe(network{{TTL: 1}: datasets.OutcomeReply}.answer(analysis.TraceProbe{TTL: 1}))
	if !tr.Done() || !tr.Reached() {
		t.Errorf("done %t, reached %t after the late answer, want both", tr.Done(), tr.Reached())
	}
}

// TestTraceUnreachableFromTarget takes an ICMP unreachable of the target itself
// for its reply.
func TestTraceUnreachableFromTarget(t *testing.T) {
	for _, from := range []netip.Addr{target, src} {
		tr := analysis.NewTracer(analysis.TraceOptions{Window: 1})
		tr.Next(nil)
		tr.Observe(datasets.Sample{Target: target, TTL: 1, Outcome: datasets.OutcomeUnreachable, From: from})
		if !tr.Done() || tr.Reached() != (from == target) {
			t.Errorf("from %v: done %t, reached %t", from, tr.Done(), tr.Reached())
		}
	}
}

// TestTraceIgnoresWhatItNeverSent feeds random samples between the right ones.
func TestTraceIgnoresWhatItNeverSent(t *testing.T) {
	r := seeded(t)
	outcomes := []datasets.Outcome{datasets.OutcomeReply, datasets.OutcomeTimeout, datasets.OutcomeTTLExceeded, datasets.OutcomeUnreachable, ""}
	for range 200 {
		tr := analysis.NewTracer(analysis.TraceOptions{FirstTTL: 3, MaxTTL: 20})
		for range 50 {
			tr.Observe(datasets.Sample{Target: target, From: target, TTL: uint8(r.Uint32()), Seq: r.Uint32(), Outcome: outcomes[r.IntN(5)]})
			tr.Observe(datasets.Sample{Target: target, From: target, TTL: uint8(r.IntN(30)), Seq: uint32(r.IntN(3)), Outcome: outcomes[r.IntN(5)]})
		}
		if got, want := fmt.Sprint(tr.Next(nil)), "[{3 0} {4 0} {5 0} {6 0} {7 0}]"; got != want {
			t.Fatalf("asks %s, want %s", got, want)
		}
		sent := datasets.Sample{Target: target, TTL: 3, Outcome: datasets.OutcomeTimeout}
		for range 5 { // told five times, given up once
			tr.Observe(sent)
		}
		if got, want := fmt.Sprint(tr.Next(nil)), "[{3 1}]"; got != want {
			t.Fatalf("asks %s, want %s", got, want)
		}
	}
}
