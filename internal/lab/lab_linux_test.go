package lab_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"strandline/datasets"
	"strandline/internal/lab"
	"strandline/internal/leak"
	"strandline/probe"
	"strandline/probe/rawsock"
)

// name is a lab name that no other test process has.
func name(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("t%d-%s", os.Getpid(), strings.ToLower(strings.TrimPrefix(t.Name(), "TestKernel")))
}

// up builds a lab for the test, and skips where that is not allowed.
func up(t *testing.T, topo lab.Topology) *lab.Lab {
	t.Helper()
	l, err := lab.Up(topo)
	if errors.Is(err, os.ErrPermission) || errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Down(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// measure runs f with an engine inside the node src.
func measure(t *testing.T, do func(string, func() error) error, f func(*probe.Engine) error) {
	t.Helper()
	seed := rand.Uint64()
	err := do("src", func() error {
		c, err := rawsock.Open(rawsock.Options{})
		if err != nil {
			return err
		}
		defer c.Close()
		return f(&probe.Engine{
			Conn: c, Vantage: "src", RateHz: math.Inf(1), PrefixRateHz: math.Inf(1), Timeout: time.Second,
			Rand: rand.New(rand.NewPCG(seed, 0)),
		})
	})
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
}

// regions are the hosts of Three, with what their round trip is.
func regions(l *lab.Lab, delays map[string]time.Duration) (targets []datasets.Target, rtt map[netip.Addr]time.Duration) {
	rtt = map[netip.Addr]time.Duration{}
	for _, node := range []string{"a", "b", "c"} {
		for _, v6 := range []bool{false, true} {
			addr := l.Topology().Host(node, v6)
			targets = append(targets, datasets.Target{Addr: addr, Region: node})
			rtt[addr] = 2 * delays[node]
		}
	}
	return targets, rtt
}

// checkRTT pings the targets and compares with the truth. No sample may be
// faster than the cable. How much slower is up to the machine's load, so the
// fastest of twenty is judged, and the median loosely.
func checkRTT(t *testing.T, e *probe.Engine, targets []datasets.Target, want map[netip.Addr]time.Duration) error {
	t.Helper()
	got := map[netip.Addr][]time.Duration{}
	const count = 20
	o := probe.PingOptions{Count: count, Interval: 10 * time.Millisecond}
	err := e.Ping(t.Context(), targets, o, func(s datasets.Sample) error {
		if s.Outcome == datasets.OutcomeReply {
			got[s.Target] = append(got[s.Target], time.Duration(s.RTTNS))
		}
		return nil
	})
	for _, target := range targets {
		rtts, truth := got[target.Addr], want[target.Addr]
		slices.Sort(rtts)
		if len(rtts) != count {
			t.Errorf("%s: %d replies, want %d", target.Addr, len(rtts), count)
			continue
		}
		best, median := rtts[0]-truth, rtts[count/2]-truth
		t.Logf("%s: truth %v, min +%v, median +%v, max +%v", target.Addr, truth, best, median, rtts[count-1]-truth)
		if best < 0 || best > time.Millisecond || median > 10*time.Millisecond {
			t.Errorf("%s: min %v, median %v; want %v to %v", target.Addr, rtts[0], rtts[count/2], truth, truth+time.Millisecond)
		}
	}
	return err
}

func TestKernelThree(t *testing.T) {
	leak.Check(t)
	delays := map[string]time.Duration{"a": lab.DefaultDelayA, "b": lab.DefaultDelayB, "c": lab.DefaultDelayC}
	l, err := lab.Up(lab.Three(name(t), delays["a"], delays["b"], delays["c"]))
	if errors.Is(err, os.ErrPermission) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Down(); err != nil {
			t.Error(err)
		}
	}()
	measure(t, l.Do, func(e *probe.Engine) error {
		targets, want := regions(l, delays)
		return checkRTT(t, e, targets, want)
	})
	// a and c change places.
	delays["a"], delays["c"] = delays["c"], delays["a"]
	for node, d := range delays {
		if err := l.SetCable("rtr", node, lab.Cable{Delay: d}); err != nil {
			t.Fatal(err)
		}
	}
	measure(t, l.Do, func(e *probe.Engine) error {
		targets, want := regions(l, delays)
		return checkRTT(t, e, targets, want)
	})
}

// Loss and jitter: of n probes over a cable with loss p each way (1-p)² come
// back; the count must lie within five standard deviations.
func TestKernelCableLosesAndJitters(t *testing.T) {
	l := up(t, lab.Three(name(t), 0, 0, 0))
	c := lab.Cable{Delay: 2 * time.Millisecond, Jitter: 4 * time.Millisecond, Loss: 0.2}
	if err := l.SetCable("a", "rtr", c); err != nil {
		t.Fatal(err)
	}
	const n = 1000
	replies, sum := 0, time.Duration(0)
	measure(t, l.Do, func(e *probe.Engine) error {
		e.Timeout = 200 * time.Millisecond
		targets := []datasets.Target{{Addr: l.Topology().Host("a", false)}}
		return e.Ping(t.Context(), targets, probe.PingOptions{Count: n, Interval: time.Millisecond}, func(s datasets.Sample) error {
			if s.Outcome == datasets.OutcomeReply {
				replies++
				sum += time.Duration(s.RTTNS)
				if s.RTTNS < int64(2*c.Delay) {
					t.Errorf("RTT %v, less than the cable's %v", time.Duration(s.RTTNS), 2*c.Delay)
				}
			}
			return nil
		})
	})
	p := (1 - c.Loss) * (1 - c.Loss)
	if dev := math.Abs(float64(replies) - n*p); dev > 5*math.Sqrt(n*p*(1-p)) {
		t.Errorf("%d replies of %d, want %.0f", replies, n, n*p)
	}
	// The order of frames is kept, which raises the mean above delay + jitter/2.
	if mean := sum / time.Duration(max(replies, 1)); mean < 2*c.Delay+c.Jitter/2 || mean > 2*(c.Delay+c.Jitter)+3*time.Millisecond {
		t.Errorf("mean RTT %v outside what %+v can give", mean, c)
	}
}

func TestKernelTraceThroughChain(t *testing.T) {
	const width = 4
	l := up(t, lab.Chain(name(t), width))
	topo := l.Topology()
	for _, v6 := range []bool{false, true} {
		for _, proto := range []datasets.Proto{datasets.ProtoICMP, datasets.ProtoUDP} {
			t.Run(fmt.Sprintf("%s v6=%v", proto, v6), func(t *testing.T) {
				dst := topo.Host("dst", v6)
				for flow := range 8 {
					hops := trace(t, l, dst, probe.TraceOptions{Proto: proto, Sport: uint16(40000 + flow)})
					var truths [][]netip.Addr
					for k := range width {
						p := fmt.Sprintf("p%d", k+1)
						truths = append(truths, []netip.Addr{
							topo.Addr("r1", "src", v6), topo.Addr(p, "r1", v6), topo.Addr("r2", p, v6), dst,
						})
					}
					if !slices.ContainsFunc(truths, func(p []netip.Addr) bool { return slices.Equal(p, hops) }) {
						t.Errorf("flow %d: path %v, want one of %v", flow, hops, truths)
					}
				}
			})
		}
	}
}

// trace returns the addresses that answered, by TTL.
func trace(t *testing.T, l *lab.Lab, dst netip.Addr, o probe.TraceOptions) (hops []netip.Addr) {
	t.Helper()
	measure(t, l.Do, func(e *probe.Engine) error {
		err := e.Trace(t.Context(), []datasets.Target{{Addr: dst}}, o, func(s datasets.Sample) error {
			if err := s.Validate(); err != nil {
				t.Error(err)
			}
			for len(hops) < int(s.TTL) {
				hops = append(hops, netip.Addr{})
			}
			hops[s.TTL-1] = s.From
			return nil
		})
		if i := slices.Index(hops, dst); i >= 0 {
			hops = hops[:i+1] // probes that were under way beyond it
		}
		return err
	})
	return hops
}

// 400 flows over 2 and 4 equal paths of the kernel: the chi-square statistic must
// stay under its 99.9 % quantile; and a flow must keep its path.
func TestKernelSplitsFlowsEvenly(t *testing.T) {
	const flows = 400
	for _, c := range []struct {
		width int
		limit float64 // chi-square with width-1 degrees of freedom, 99.9 %
	}{{2, 10.83}, {4, 16.27}} {
		t.Run(fmt.Sprint(c.width), func(t *testing.T) {
			l := up(t, lab.Chain(strings.ReplaceAll(name(t), "/", "-"), c.width))
			for _, v6 := range []bool{false, true} {
				first, again := secondHops(t, l, v6, flows), secondHops(t, l, v6, flows)
				counts := map[netip.Addr]int{}
				for port, addr := range first {
					counts[addr]++
					if again[port] != addr {
						t.Errorf("port %d: %s, then %s", port, addr, again[port])
					}
				}
				mean, chi := float64(flows)/float64(c.width), 0.0
				for _, n := range counts {
					chi += (float64(n) - mean) * (float64(n) - mean) / mean
				}
				t.Logf("v6=%v: %v, chi-square %.2f", v6, counts, chi)
				if len(counts) != c.width || len(first) != flows || chi > c.limit {
					t.Errorf("v6=%v: %d flows over %v, chi-square %.2f; want %d flows over %d paths, at most %.2f",
						v6, len(first), counts, chi, flows, c.width, c.limit)
				}
			}
		})
	}
}

// secondHops returns who answers at TTL 2, by source port.
func secondHops(t *testing.T, l *lab.Lab, v6 bool, flows int) map[uint16]netip.Addr {
	t.Helper()
	hops := map[uint16]netip.Addr{}
	targets := []datasets.Target{{Addr: l.Topology().Host("dst", v6)}}
	measure(t, l.Do, func(e *probe.Engine) error {
		for i := range flows {
			o := probe.TraceOptions{Proto: datasets.ProtoUDP, FirstTTL: 2, MaxTTL: 2, Sport: uint16(20000 + 7*i)}
			err := e.Trace(t.Context(), targets, o, func(s datasets.Sample) error {
				if s.Outcome == datasets.OutcomeTTLExceeded {
					hops[s.Sport] = s.From
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return hops
}

func TestKernelExecRunsInsideNamespace(t *testing.T) {
	l := up(t, lab.Chain(name(t), 1))
	out, err := l.Exec(t.Context(), "r1", "cat", "/proc/self/net/dev")
	if err != nil {
		t.Fatal(err)
	}
	for _, dev := range []string{"src:", "p1:"} {
		if !strings.Contains(string(out), dev) {
			t.Errorf("r1 has no interface %s\n%s", dev, out)
		}
	}
	if _, err := l.Exec(t.Context(), "r1", "sh", "-c", "echo why >&2; exit 3"); err == nil || !strings.Contains(err.Error(), "why") {
		t.Errorf("failing command: error %v, want its standard error", err)
	}
	if _, err := l.Exec(t.Context(), "nowhere", "true"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("unknown node: error %v, want %v", err, os.ErrNotExist)
	}
}

func TestKernelRunIsControlledFromOutside(t *testing.T) {
	leak.Check(t)
	topo := lab.Three(name(t), 0, 0, 0)
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- lab.Run(t.Context(), topo, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-done:
		if errors.Is(err, os.ErrPermission) {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	if err := lab.Run(t.Context(), topo, nil); !errors.Is(err, os.ErrExist) {
		t.Errorf("second Run: %v, want %v", err, os.ErrExist)
	}
	if names, err := lab.List(); err != nil || !slices.Contains(names, topo.Name) {
		t.Errorf("List = %v, %v; want %s among them", names, err, topo.Name)
	}
	if err := lab.SetCable(topo.Name, "rtr", "b", lab.Cable{Delay: 3 * time.Millisecond}); err != nil {
		t.Error(err)
	}
	if err := lab.SetCable(topo.Name, "src", "rtr", lab.Cable{}); err == nil {
		t.Error("SetCable on a link without cable succeeded")
	}
	do := func(node string, f func() error) error { return lab.Do(topo.Namespace(node), f) }
	measure(t, do, func(e *probe.Engine) error {
		addr := topo.Host("b", false)
		return checkRTT(t, e, []datasets.Target{{Addr: addr}}, map[netip.Addr]time.Duration{addr: 6 * time.Millisecond})
	})
	if err := lab.Down(topo.Name); err != nil {
		t.Fatal(err)
	}
	if err := lab.Down(topo.Name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("second Down: %v, want %v", err, os.ErrNotExist)
	}
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
	if _, err := os.Stat("/run/netns/" + topo.Namespace("src")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("namespace after Down: %v, want %v", err, os.ErrNotExist)
	}
}

func TestKernelRunEndsWithContext(t *testing.T) {
	topo := lab.Three(name(t), 0, 0, 0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := lab.Run(ctx, topo, cancel); errors.Is(err, os.ErrPermission) {
		t.Skip(err)
	} else if err != nil {
		t.Error(err)
	}
	if err := lab.Down(topo.Name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Down after Run: %v, want %v", err, os.ErrNotExist)
	}
}

func TestKernelUpRefusesWhatIsThere(t *testing.T) {
	l := up(t, lab.Chain(name(t), 1))
	if _, err := lab.Up(*l.Topology()); !errors.Is(err, os.ErrExist) {
		t.Fatalf("second Up: %v, want %v", err, os.ErrExist)
	}
	if _, err := l.Exec(t.Context(), "src", "true"); err != nil {
		t.Errorf("the first lab is broken: %v", err)
	}
}

func TestUpNamesFaults(t *testing.T) {
	_, err := lab.Up(lab.Topology{
		Name:  "a/b",
		Hosts: []lab.Host{{Name: "x"}, {Name: "x"}, {Name: "y", Routes: []lab.Route{{Dst: netip.MustParsePrefix("0.0.0.0/0"), Via: []string{"x"}}}}},
		Links: []lab.Link{{A: "x", B: "z", Cable: &lab.Cable{Delay: -1}}},
	})
	if err == nil {
		t.Fatal("Up accepted it")
	}
	for _, want := range []string{`lab name "a/b"`, `node "x"`, "link x-z: ends", "link x-z: cable", "node y: route to 0.0.0.0/0 via x"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %v\ndoes not say %s", err, want)
		}
	}
}
