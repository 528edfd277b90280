package rawsock_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"strandline/datasets"
	"strandline/internal/leak"
	"strandline/probe"
	"strandline/probe/rawsock"
)

// skipUnlessRaw opens a Conn, and skips the test where raw sockets are not
// allowed or not there.
func skipUnlessRaw(t *testing.T) probe.Conn {
	t.Helper()
	c, err := rawsock.Open(rawsock.Options{})
	if errors.Is(err, os.ErrPermission) || errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func engine(t *testing.T, c probe.Conn) *probe.Engine {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return &probe.Engine{
		Conn: c, Vantage: "here", RateHz: math.Inf(1), PrefixRateHz: math.Inf(1), Timeout: time.Second,
		Rand: rand.New(rand.NewPCG(seed, 0)),
	}
}

func loopback() []datasets.Target {
	return []datasets.Target{{Addr: netip.MustParseAddr("127.0.0.1")}, {Addr: netip.MustParseAddr("::1")}}
}

func TestKernelPingLoopback(t *testing.T) {
	for _, proto := range []datasets.Proto{datasets.ProtoICMP, datasets.ProtoUDP} {
		t.Run(string(proto), func(t *testing.T) {
			leak.Check(t)
			c := skipUnlessRaw(t)
			defer c.Close()
			e := engine(t, c)
			received := map[netip.Addr]int{}
			const count = 5
			err := e.Ping(t.Context(), loopback(), probe.PingOptions{Proto: proto, Count: count, Interval: time.Millisecond}, func(s datasets.Sample) error {
				if err := s.Validate(); err != nil {
					t.Error(err)
				}
				if s.Outcome == datasets.OutcomeReply {
					received[s.Target]++
				}
				if s.Outcome == datasets.OutcomeReply && (s.From != s.Target || s.Src != s.Target || s.Stamp != datasets.StampKernel || s.ReplyTTL != 64 || s.RTTNS <= 0) {
					t.Errorf("sample %+v", s)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, target := range loopback() {
				if got := received[target.Addr]; got != count {
					t.Errorf("%s: %d replies, want %d", target.Addr, got, count)
				}
			}
			if got := e.Stats(); got.Spoofed+got.Duplicates+got.Late != 0 {
				t.Errorf("stats %+v", got)
			}
		})
	}
}

// Two engines at work on one host at the same time take only their own answers.
func TestKernelTwoEnginesOnOneHost(t *testing.T) {
	leak.Check(t)
	for _, proto := range []datasets.Proto{datasets.ProtoICMP, datasets.ProtoUDP} {
		var wg sync.WaitGroup
		for i := range 2 {
			c := skipUnlessRaw(t)
			e := engine(t, c)
			wg.Go(func() {
				defer c.Close()
				const count = 100
				err := e.Ping(t.Context(), loopback(), probe.PingOptions{Proto: proto, Count: count, Interval: time.Millisecond}, func(s datasets.Sample) error {
					if s.Outcome != datasets.OutcomeReply {
						t.Errorf("engine %d: %+v", i, s)
					}
					return nil
				})
				if got := e.Stats(); err != nil || got.Received != 2*count || got.Foreign == 0 || got.Spoofed+got.Duplicates+got.Late != 0 {
					t.Errorf("engine %d: %v, stats %+v; want %d answers and the other's foreign", i, err, got, 2*count)
				}
			})
		}
		wg.Wait()
	}
}

func TestKernelTraceLoopback(t *testing.T) {
	for _, proto := range []datasets.Proto{datasets.ProtoICMP, datasets.ProtoUDP} {
		t.Run(string(proto), func(t *testing.T) {
			e := engine(t, skipUnlessRaw(t))
			reached := map[netip.Addr]bool{}
			err := e.Trace(t.Context(), loopback(), probe.TraceOptions{Proto: proto, MaxTTL: 3}, func(s datasets.Sample) error {
				if s.TTL == 1 {
					reached[s.Target] = s.Outcome == datasets.OutcomeReply && s.From == s.Target
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, target := range loopback() {
				if !reached[target.Addr] {
					t.Errorf("%s not reached at TTL 1", target.Addr)
				}
			}
		})
	}
}

func TestKernelRecvEndsAtOnceWithContext(t *testing.T) {
	leak.Check(t)
	c := skipUnlessRaw(t)
	defer c.Close()
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(20*time.Millisecond, func() { cancel(cause) })
	start := time.Now()
	n, err := c.Recv(ctx, make([]probe.Packet, 1), c.Now().Add(time.Minute))
	if took := time.Since(start); n != 0 || !errors.Is(err, cause) || took > 5*time.Second {
		t.Errorf("Recv = %d, %v after %v; want 0, %v at once", n, err, took, cause)
	}
	// The next Recv has a context and a deadline of its own.
	start = time.Now()
	if n, err := c.Recv(t.Context(), make([]probe.Packet, 1), c.Now().Add(30*time.Millisecond)); n != 0 || err != nil {
		t.Errorf("Recv = %d, %v; want 0, nil at the deadline", n, err)
	}
	if took := time.Since(start); took < 30*time.Millisecond {
		t.Errorf("Recv returned after %v, before its deadline", took)
	}
}

func TestKernelCloseEndsRecv(t *testing.T) {
	leak.Check(t)
	c := skipUnlessRaw(t)
	time.AfterFunc(20*time.Millisecond, func() { c.Close() })
	if n, err := c.Recv(t.Context(), make([]probe.Packet, 1), c.Now().Add(time.Minute)); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("Recv = %d, %v; want 0, %v", n, err, net.ErrClosed)
	}
	if _, err := c.Send([]probe.Packet{{Data: make([]byte, 20)}}); err == nil {
		t.Error("Send on a closed conn succeeded")
	}
	if err := c.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestKernelLocal(t *testing.T) {
	c := skipUnlessRaw(t)
	for _, addr := range loopback() {
		if got, err := c.Local(addr.Addr); err != nil || got != addr.Addr {
			t.Errorf("Local(%s) = %s, %v; want the same", addr.Addr, got, err)
		}
	}
}
