package rawsock_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"testing"

	"strandline/analysis"
	"strandline/datasets"
	"strandline/internal/lab"
	"strandline/probe"
)

// The kernel's own balancer, hashing the five-tuple: every path over both
// families, its class and its fields; and that ICMP echoes all go one way.
func TestKernelPaths(t *testing.T) {
	for _, width := range []int{2, 4} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			skipUnlessRaw(t).Close()
			l, err := lab.Up(lab.Chain(fmt.Sprintf("m%d-%d", os.Getpid(), width), width))
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
			for _, v6 := range []bool{false, true} {
				checkKernelPaths(t, l, v6, width)
			}
		})
	}
}

func checkKernelPaths(t *testing.T, l *lab.Lab, v6 bool, width int) {
	topo := l.Topology()
	dst, r1 := topo.Host("dst", v6), topo.Addr("r1", "src", v6)
	want := []datasets.Field{datasets.FieldSport, datasets.FieldDport}
	udp := kernelPaths(t, l, dst, datasets.ProtoUDP)
	if !udp.Reached || len(udp.Balancers) != 1 || udp.Confidence != 99.9 {
		t.Fatalf("%s: %+v", dst, udp)
	}
	if b := udp.Balancers[0]; b.Addr != r1 || b.Class != datasets.PerFlow || int(b.Width) != width || !slices.Equal(b.Fields, want) {
		t.Errorf("%s: balancer %+v, want %s over %d by %v", dst, b, r1, width, want)
	}
	truth := map[[2]netip.Addr]bool{}
	for k := range width {
		p := fmt.Sprintf("p%d", k+1)
		truth[[2]netip.Addr{r1, topo.Addr(p, "r1", v6)}] = true
		truth[[2]netip.Addr{topo.Addr(p, "r1", v6), topo.Addr("r2", p, v6)}] = true
		truth[[2]netip.Addr{topo.Addr("r2", p, v6), dst}] = true
	}
	if len(udp.Links) != len(truth) {
		t.Errorf("%s: %d links, want %d: %+v", dst, len(udp.Links), len(truth), udp.Links)
	}
	for _, link := range udp.Links {
		if !truth[[2]netip.Addr{link.From, link.To}] {
			t.Errorf("%s: false link %+v", dst, link)
		}
	}
	t.Logf("%s: %+v probes", dst, udp.Probes)
	if icmp := kernelPaths(t, l, dst, datasets.ProtoICMP); !icmp.Reached || len(icmp.Balancers) > 0 || len(icmp.Links) != 3 {
		t.Errorf("%s by ICMP: %+v, want one path", dst, icmp)
	}
}

func kernelPaths(t *testing.T, l *lab.Lab, dst netip.Addr, proto datasets.Proto) (out analysis.Graph) {
	t.Helper()
	err := within(l, "src", func(c probe.Conn) error {
		e := &probe.Engine{Conn: c, Vantage: "src", RateHz: 2000, PrefixRateHz: math.Inf(1), Rand: rand.New(rand.NewPCG(1, 7))} // fixed: at 99.9 % one draw in a thousand misses a path
		o := probe.PathsOptions{Proto: proto, Confidence: 99.9}
		return e.Paths(t.Context(), []datasets.Target{{Addr: dst}}, o, func(s datasets.Sample) error { return s.Validate() },
			func(g analysis.Graph) error {
				out = g
				return nil
			})
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
