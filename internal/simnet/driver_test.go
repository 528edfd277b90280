package simnet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"strandline/datasets"
	"strandline/internal/leak"
	"strandline/internal/simnet"
	"strandline/probe"
	"strandline/probe/wire"
)

// noisy is the diamond with jitter and loss on the first link.
func noisy(jitter time.Duration, loss float64) simnet.Spec {
	s := diamond(1, simnet.Hash{})
	s.Links[0].Jitter, s.Links[0].Loss = jitter, loss
	return s
}

func TestLossAndJitter(t *testing.T) {
	const probes, jitter, loss = 20000, 6 * time.Millisecond, 0.03
	n := build(t, noisy(jitter, loss), nil)
	c := conn(t, n.Virtual(9), "a")
	var rtts []time.Duration
	for i := range probes {
		if _, rtt, ok := exchange(t, c, echo(t, between(false), 1, uint16(i))); ok {
			rtts = append(rtts, rtt)
		}
	}
	w, err := n.Truth("a", echo(t, between(false), 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(rtts)
	if p, sd := w.Delivery, math.Sqrt(w.Delivery*(1-w.Delivery)/probes); math.Abs(float64(len(rtts))/probes-p) > 4*sd {
		t.Errorf("%d of %d answered, want %.4f of them", len(rtts), probes, p)
	}
	if want := (1 - loss) * (1 - loss); math.Abs(w.Delivery-want) > 1e-12 {
		t.Errorf("delivery %v, want %v", w.Delivery, want)
	}
	if w.Min != 8*time.Millisecond || w.Median != 14*time.Millisecond || w.Max != 20*time.Millisecond {
		t.Errorf("truth %v, %v, %v, want 8, 14 and 20 ms", w.Min, w.Median, w.Max)
	}
	if lo, hi := rtts[0], rtts[len(rtts)-1]; lo < w.Min || hi >= w.Max || lo > w.Min+jitter/20 || hi < w.Max-jitter/20 {
		t.Errorf("RTT from %v to %v, want nearly all of %v to %v", lo, hi, w.Min, w.Max)
	}
	// The sum of two uniforms is triangular: its density at the median is 1/J, so
	// the sample median has the standard deviation J/(2 sqrt n).
	sd := float64(jitter) / (2 * math.Sqrt(float64(len(rtts))))
	median := rtts[len(rtts)/2]
	if math.Abs(float64(median-w.Median)) > 4*sd {
		t.Errorf("median %v, want %v +- %v", median, w.Median, time.Duration(sd))
	}
	// P(below min + J/2) is 1/8 under that density: the shape is right, not only its middle.
	low, _ := slices.BinarySearch(rtts, w.Min+jitter/2)
	if p := float64(low) / float64(len(rtts)); math.Abs(p-0.125) > 4*math.Sqrt(0.125*0.875/float64(len(rtts))) {
		t.Errorf("%.4f of the RTTs in the lowest quarter, want 0.125", p)
	}
}

// record runs a mixed campaign and writes down every byte and time.
func record(t *testing.T, n *simnet.Net, seed uint64) []byte {
	t.Helper()
	v := n.Virtual(seed)
	var log bytes.Buffer
	conns := map[string]probe.Conn{"mnl": conn(t, v, "mnl"), "bog": conn(t, v, "bog")}
	for i := range uint16(200) {
		for _, name := range []string{"mnl", "bog"} {
			c, dst := conns[name], n.Targets()[int(i)%26].Addr
			ip := wire.IP{Src: local(t, c, dst), Dst: dst, TTL: uint8(1 + i%9)}
			batch := []probe.Packet{{Data: echo(t, ip, 3, i)}, {Data: udp(t, ip, i, 33434)}}
			if k, err := c.Send(batch); k != 2 || err != nil {
				t.Fatal(k, err)
			}
		}
		for _, name := range []string{"bog", "mnl"} {
			for p, ok := recv(t, conns[name], 40*time.Millisecond); ok; p, ok = recv(t, conns[name], 40*time.Millisecond) {
				fmt.Fprintf(&log, "%s %d %s %x\n", name, p.Time.UnixNano(), p.Stamp, p.Data)
			}
		}
	}
	return log.Bytes()
}

func TestSameSeedSameBytes(t *testing.T) {
	a, b, other := record(t, earth(t), 7), record(t, earth(t), 7), record(t, earth(t), 8)
	if len(a) < 100_000 {
		t.Fatalf("only %d bytes came back", len(a))
	}
	if !bytes.Equal(a, b) {
		t.Error("two runs with one seed differ")
	}
	if bytes.Equal(a, other) {
		t.Error("two seeds gave the same run")
	}
}

func TestVirtualClock(t *testing.T) {
	n := build(t, diamond(2, simnet.Hash{}), nil)
	v := n.Virtual(1)
	c := conn(t, v, "a")
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if got := c.Now(); !got.Equal(start) {
		t.Fatalf("clock starts at %v, want %v", got, start)
	}
	if _, ok := recv(t, c, time.Hour); ok || !c.Now().Equal(start.Add(time.Hour)) {
		t.Fatalf("after an idle hour it is %v (%v)", c.Now(), ok)
	}
	sent := send(t, c, echo(t, between(false), 1, 1))
	if p, ok := recv(t, c, 7*time.Millisecond); ok {
		t.Fatalf("answered too soon: %+v", p)
	}
	p, ok := recv(t, c, time.Millisecond) // due exactly at the deadline
	if !ok || p.Time.Sub(sent) != 8*time.Millisecond || p.Stamp != datasets.StampSim {
		t.Fatalf("got %v after %v, stamp %q, want 8 ms by the simulator", ok, p.Time.Sub(sent), p.Stamp)
	}
	now := c.Now()
	if k, err := c.Recv(t.Context(), make([]probe.Packet, 1), time.Time{}); k != 0 || err != nil || !c.Now().Equal(now) {
		t.Errorf("a deadline in the past: %d, %v, clock moved by %v", k, err, c.Now().Sub(now))
	}
}

// TestConnsShareTheNetwork: packets queue for the host that does not look, two
// Conns at one host both get them, and batches come in order.
func TestConnsShareTheNetwork(t *testing.T) {
	n := build(t, diamond(2, simnet.Hash{}), nil)
	v := n.Virtual(1)
	a, b, b2 := conn(t, v, "a"), conn(t, v, "b"), conn(t, v, "b")
	for i := range uint16(5) {
		send(t, a, echo(t, between(false), 1, i))
	}
	if _, ok := recv(t, a, time.Second); !ok {
		t.Fatal("no echo reply")
	}
	for _, c := range []probe.Conn{b, b2} {
		batch := make([]probe.Packet, 9)
		k, err := c.Recv(t.Context(), batch, c.Now())
		if k != 5 || err != nil {
			t.Fatalf("Recv = %d, %v, want the 5 requests", k, err)
		}
		for i := range batch[:k] {
			var r wire.Reply
			if err := r.Decode(batch[i].Data); err != nil || r.Kind != wire.KindEchoRequest || int(r.ICMPSeq) != i {
				t.Errorf("packet %d is %v seq %d, %v", i, r.Kind, r.ICMPSeq, err)
			}
		}
	}
}

// driver is what both drivers are.
type driver interface {
	Conn(string) (probe.Conn, error)
}

func TestContextAndClose(t *testing.T) {
	n := build(t, diamond(2, simnet.Hash{}), nil)
	for name, d := range map[string]driver{"virtual": n.Virtual(1), "real": n.Real(1)} {
		c := conn(t, d, "a")
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		send(t, c, echo(t, between(false), 1, 1))
		if k, err := c.Recv(ctx, make([]probe.Packet, 1), c.Now().Add(time.Hour)); k != 0 || !errors.Is(err, cause) {
			t.Errorf("%s: Recv with an ended context = %d, %v, want the cause", name, k, err)
		}
		for range 2 {
			if err := c.Close(); err != nil {
				t.Errorf("%s: Close: %v", name, err)
			}
		}
		if _, err := c.Recv(t.Context(), make([]probe.Packet, 1), c.Now().Add(time.Hour)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: Recv after Close: %v, want net.ErrClosed", name, err)
		}
		if _, err := c.Send([]probe.Packet{{}}); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: Send after Close: %v, want net.ErrClosed", name, err)
		}
	}
}

// TestRealAsVirtual: in a bubble the real driver gives every answer at the same
// time after its probe as the virtual one, byte for byte.
func TestRealAsVirtual(t *testing.T) {
	spec, dir := earthSpec(t)
	for i := range spec.Links {
		spec.Links[i].Loss, spec.Links[i].Jitter = 0, 0
	}
	n := build(t, spec, dir)
	run := func(t *testing.T, d driver) string {
		var log bytes.Buffer
		for _, from := range []string{"nbo", "lax", "akl"} {
			c := conn(t, d, from)
			for i, dst := range slices.Concat(n.Targets(), n.AnycastTargets()) {
				ip := wire.IP{Src: local(t, c, dst.Addr), Dst: dst.Addr, TTL: uint8(1 + i%8)}
				sent := send(t, c, udp(t, ip, uint16(i), 33434))
				p, ok := recv(t, c, time.Second)
				fmt.Fprintln(&log, from, dst.Addr, ok, p.Time.Sub(sent), p.Data)
				if c.Now().Before(p.Time) {
					t.Errorf("received at %v what came at %v", c.Now(), p.Time)
				}
			}
			c.Close()
		}
		return log.String()
	}
	virtual := run(t, n.Virtual(1))
	synctest.Test(t, func(t *testing.T) {
		if real := run(t, n.Real(1)); real != virtual {
			t.Errorf("the drivers differ:\n%s\n%s", real, virtual)
		}
	})
}

// TestRealSideBySide runs two vantages at once, each in its goroutine.
func TestRealSideBySide(t *testing.T) {
	n := earth(t)
	synctest.Test(t, func(t *testing.T) {
		d := n.Real(3)
		var wg sync.WaitGroup
		for _, from := range []string{"fra", "gru"} {
			wg.Go(func() {
				c, err := d.Conn(from)
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				for i, dst := range n.Targets() {
					data := echo(t, wire.IP{Src: local(t, c, dst.Addr), Dst: dst.Addr, TTL: 64}, 1, uint16(i))
					w, err := n.Truth(from, data)
					if err != nil {
						t.Error(err)
						return
					}
					if r, rtt, ok := exchange(t, c, data); !ok || r.Src != dst.Addr || rtt != w.Min {
						t.Errorf("%s to %v: %v %v %v, want %v", from, dst.Addr, r.Src, rtt, ok, w.Min)
					}
				}
			})
		}
		wg.Wait()
	})
}

// TestRealLeavesNothing closes while a Recv waits and packets are on their way.
func TestRealLeavesNothing(t *testing.T) {
	leak.Check(t)
	n := earth(t)
	d := n.Real(1)
	c, err := d.Conn("akl")
	if err != nil {
		t.Fatal(err)
	}
	dst := netip.MustParseAddr("198.18.6.1")
	for i := range uint16(50) {
		send(t, c, echo(t, wire.IP{Src: local(t, c, dst), Dst: dst, TTL: 64}, 1, i))
	}
	returned := make(chan error)
	go func() {
		_, err := c.Recv(context.Background(), make([]probe.Packet, 1), c.Now().Add(time.Hour))
		for err == nil {
			_, err = c.Recv(context.Background(), make([]probe.Packet, 1), c.Now().Add(time.Hour))
		}
		returned <- err
	}()
	c.Close()
	if err := <-returned; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Recv returned %v, want net.ErrClosed", err)
	}
}

// TestRealClock: on the running clock the stamped round trip is the path's, and
// the answer is not handed out before it.
func TestRealClock(t *testing.T) {
	n := build(t, diamond(2, simnet.Hash{}), nil)
	c := conn(t, n.Real(1), "a")
	start := time.Now()
	_, rtt, ok := exchange(t, c, echo(t, between(false), 1, 1))
	if took := time.Since(start); !ok || rtt != 8*time.Millisecond || took < rtt {
		t.Errorf("stamped %v (%v), really %v, want 8 ms stamped and no less really", rtt, ok, took)
	}
}

// BenchmarkPing is one echo across "earth" and back: 16 links passed.
func BenchmarkPing(b *testing.B) {
	n := earth(b)
	c := conn(b, n.Virtual(1), "nbo")
	dst := netip.MustParseAddr("198.18.6.1")
	out := make([]probe.Packet, 64)
	for i := range out {
		out[i].Data = echo(b, wire.IP{Src: local(b, c, dst), Dst: dst, TTL: 64}, 1, uint16(i))
	}
	in := make([]probe.Packet, 64)
	b.ReportAllocs()
	got := 0
	for b.Loop() {
		if _, err := c.Send(out); err != nil {
			b.Fatal(err)
		}
		k, err := c.Recv(b.Context(), in, c.Now().Add(time.Second))
		if err != nil {
			b.Fatal(err)
		}
		for got += k; k > 0; got += k {
			k, _ = c.Recv(b.Context(), in, c.Now().Add(time.Millisecond))
		}
	}
	if got != 64*b.N {
		b.Fatalf("%d answers of %d", got, 64*b.N)
	}
	b.ReportMetric(float64(got)/b.Elapsed().Seconds(), "probes/s")
}

func BenchmarkBuildEarth(b *testing.B) {
	spec, dir := earthSpec(b)
	for b.Loop() {
		build(b, spec, dir)
	}
}
