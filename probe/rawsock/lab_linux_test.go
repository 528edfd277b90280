package rawsock_test

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"strandline/analysis"
	"strandline/datasets"
	"strandline/internal/lab"
	"strandline/internal/leak"
	"strandline/probe"
	"strandline/probe/rawsock"
	"strandline/probe/wire"
)

// chain brings up src - r1 - p1 - r2 - dst.
func chain(t *testing.T) *lab.Lab {
	t.Helper()
	skipUnlessRaw(t).Close()
	l, err := lab.Up(lab.Chain(fmt.Sprintf("r%d-%s", os.Getpid(), t.Name()), 1))
	if errors.Is(err, os.ErrPermission) {
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

// within runs f with a Conn inside a node of the lab.
func within(l *lab.Lab, node string, f func(probe.Conn) error) error {
	return l.Do(node, func() error {
		c, err := rawsock.Open(rawsock.Options{})
		if err != nil {
			return err
		}
		return errors.Join(f(c), c.Close())
	})
}

// The path of every protocol and family is the one that was built, to several
// targets at once; so are the links, and the TTL in the quotes is what is left at
// the hop.
func TestKernelTraceChain(t *testing.T) {
	l := chain(t)
	topo := l.Topology()
	path := func(v6 bool) []netip.Addr {
		return []netip.Addr{topo.Addr("r1", "src", v6), topo.Addr("p1", "r1", v6), topo.Addr("r2", "p1", v6), topo.Host("dst", v6)}
	}
	targets := []datasets.Target{{Addr: topo.Host("dst", false)}, {Addr: topo.Host("dst", true)}}
	for _, proto := range []datasets.Proto{datasets.ProtoICMP, datasets.ProtoUDP} {
		err := within(l, "src", func(c probe.Conn) error {
			rows := map[netip.Addr][]datasets.Sample{}
			err := engine(t, c).Trace(t.Context(), targets, probe.TraceOptions{Proto: proto}, func(s datasets.Sample) error {
				rows[s.Target] = append(rows[s.Target], s)
				return s.Validate()
			})
			for _, target := range targets {
				want := path(target.Addr.Is6())
				got := make([]netip.Addr, len(want))
				for _, s := range rows[target.Addr] {
					if int(s.TTL) <= len(want) {
						got[s.TTL-1] = s.From
					}
					if s.Outcome == datasets.OutcomeTTLExceeded && (s.QuotedTTL != 1 || s.ReplyTTL != 64-(s.TTL-1)) {
						t.Errorf("%s to %s: TTLs of %+v", proto, target.Addr, s)
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s to %s: path %v, want %v", proto, target.Addr, got, want)
				}
				for i, link := range analysis.Links(rows[target.Addr]) {
					if link.From != want[i] || link.To != want[i+1] {
						t.Errorf("%s to %s: link %+v, want %s-%s", proto, target.Addr, link, want[i], want[i+1])
					}
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// DNS answers arrive, and our kernel does not tell the server that their port is
// closed.
func TestKernelDNSAnswersAreTakenAndNotRefused(t *testing.T) {
	l := chain(t)
	for _, v6 := range []bool{false, true} {
		service := l.Topology().Host("dst", v6)
		stop := serveDNS(t, l, service)
		err := within(l, "dst", func(watcher probe.Conn) error {
			err := within(l, "src", func(c probe.Conn) error {
				e := engine(t, c)
				rows := 0
				err := e.Catchment(t.Context(), []datasets.Target{{Addr: service}}, probe.CatchmentOptions{}, func(r datasets.Catchment) error {
					rows++
					if r.Site != "lab1" || !(r.RTTMS > 0 && r.RTTMS < 1000) {
						t.Errorf("row %+v, want site lab1", r)
					}
					return nil
				})
				if got := e.Stats(); rows != 1 || got.Sent != 1 || got.Received != 1 || got.Spoofed != 0 {
					t.Errorf("%d rows, stats %+v; want 1 and one answer", rows, got)
				}
				return err
			})
			if err != nil {
				return err
			}
			pkts := make([]probe.Packet, 8)
			n, err := watcher.Recv(t.Context(), pkts, watcher.Now().Add(50*time.Millisecond))
			for _, p := range pkts[:n] {
				var r wire.Reply
				if err := r.Decode(p.Data); err == nil && r.Kind == wire.KindUnreachable {
					t.Errorf("the server was told that the port is closed: %+v", r)
				}
			}
			return err
		})
		stop()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// serveDNS answers CHAOS questions at addr inside dst with the site lab1.
func serveDNS(t *testing.T, l *lab.Lab, addr netip.Addr) (stop func()) {
	t.Helper()
	var conn *net.UDPConn
	err := l.Do("dst", func() (err error) {
		conn, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, wire.DNSPort)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 512)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			var q wire.DNSMessage
			if q.Decode(buf[:n]) != nil {
				continue
			}
			if out, err := wire.AppendDNSAnswer(nil, &q, wire.DNSAnswer{TXT: "lab1"}); err == nil {
				conn.WriteToUDPAddrPort(out, from)
			}
		}
	}()
	return func() {
		conn.Close()
		<-done
	}
}

// What the kernel strips is rebuilt: the packet of a UDP answer decodes, with
// right checksums and the TTL that it arrived with.
func TestKernelRebuiltPackets(t *testing.T) {
	l := chain(t)
	for _, v6 := range []bool{false, true} {
		service := l.Topology().Host("dst", v6)
		stop := serveDNS(t, l, service)
		err := within(l, "src", func(c probe.Conn) error {
			src, err := c.Local(service)
			if err != nil {
				return err
			}
			query, err := wire.AppendDNSQuery(nil, wire.DNSQuery{ID: 77, Name: "id.server", Type: wire.DNSTypeTXT, Class: wire.DNSClassCHAOS})
			if err != nil {
				return err
			}
			udp, err := wire.AppendUDP(nil, wire.IP{Src: src, Dst: service, TTL: 64}, wire.UDP{SrcPort: 61234, DstPort: wire.DNSPort, Payload: query})
			if err != nil {
				return err
			}
			echo, err := wire.AppendEcho(nil, wire.IP{Src: src, Dst: service, TTL: 64, TOS: 0x20}, wire.Echo{ID: 5, Seq: 6, Payload: []byte("odd")})
			if err != nil {
				return err
			}
			sent := []probe.Packet{{Data: udp}, {Data: echo}}
			if n, err := c.Send(sent); n != 2 {
				return err
			}
			kinds := map[wire.Kind]bool{}
			pkts := make([]probe.Packet, 4) // without room: Recv must make it
			for attempt := 0; len(kinds) < 2; {
				n, err := c.Recv(t.Context(), pkts, c.Now().Add(time.Second))
				if err != nil || attempt == 10 {
					return fmt.Errorf("answers %v only, after %d attempts: %v", kinds, attempt, err)
				}
				if n == 0 { // a busy machine
					attempt++
					if sent, err := c.Send(sent); sent != 2 {
						return err
					}
				}
				for _, p := range pkts[:n] {
					var r wire.Reply
					if err := errors.Join(r.Decode(p.Data), wire.VerifyChecksums(p.Data)); err != nil {
						t.Errorf("% x: %v", p.Data, err)
					}
					if r.Src != service || r.Dst != src || r.TTL != 61 || p.Stamp != datasets.StampKernel || !p.Time.After(sent[0].Time) {
						t.Errorf("%+v at %v by %s, sent at %v", r.Header, p.Time, p.Stamp, sent[0].Time)
					}
					if r.Kind == wire.KindUDP && (r.SrcPort != wire.DNSPort || r.DstPort != 61234) {
						t.Errorf("ports of %+v", r.Header)
					}
					if r.Kind == wire.KindEchoReply && (r.TOS != 0x20 || r.ICMPID != 5 || r.ICMPSeq != 6 || string(r.Payload) != "odd") {
						t.Errorf("echo reply %+v", r)
					}
					kinds[r.Kind] = true
				}
			}
			return nil
		})
		stop()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A source port that another process has is refused, since its answers would not
// come here alone.
func TestKernelSendRefusesTakenPort(t *testing.T) {
	c := skipUnlessRaw(t)
	other, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	local := netip.MustParseAddr("127.0.0.1")
	pkt, err := wire.AppendUDP(nil, wire.IP{Src: local, Dst: local, TTL: 64},
		wire.UDP{SrcPort: other.LocalAddr().(*net.UDPAddr).AddrPort().Port(), DstPort: 9})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := c.Send([]probe.Packet{{Data: pkt}}); n != 0 || !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("Send = %d, %v; want 0, %v", n, err, unix.EADDRINUSE)
	}
}

func TestKernelLocalWithoutRoute(t *testing.T) {
	l := chain(t)
	err := l.Do("dst", func() error {
		c, err := rawsock.Open(rawsock.Options{})
		if err != nil {
			return err
		}
		defer c.Close()
		// A namespace of its own without any route.
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		for _, dst := range []string{"192.0.2.1", "2001:db8::1"} {
			if got, err := c.Local(netip.MustParseAddr(dst)); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("Local(%s) = %s, %v; want %v", dst, got, err, errors.ErrUnsupported)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// On the real clock, too, no second has more than cap+1 packets. How near the
// rate comes to its cap is up to the machine, so only half is demanded.
func TestKernelPace(t *testing.T) {
	leak.Check(t)
	c := skipUnlessRaw(t)
	defer c.Close()
	const rateHz = 400
	e := engine(t, c)
	e.RateHz = rateHz
	var sent []int64
	err := e.Ping(t.Context(), loopback()[:1], probe.PingOptions{Count: 2 * rateHz, Interval: time.Microsecond}, func(s datasets.Sample) error {
		sent = append(sent, s.TxNS)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(sent)
	for i := rateHz + 1; i < len(sent); i++ {
		if window := sent[i] - sent[i-rateHz-1]; window <= int64(time.Second) {
			t.Fatalf("%d packets within %v", rateHz+2, time.Duration(window))
		}
	}
	took := time.Duration(sent[len(sent)-1] - sent[0])
	got := float64(len(sent)-1) / took.Seconds()
	t.Logf("%.1f packets/s of %d", got, rateHz)
	if got < rateHz/2 || math.IsInf(got, 0) {
		t.Errorf("%.1f packets/s, want about %d", got, rateHz)
	}
}
