package lab_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"strandline/datasets"
	"strandline/internal/lab"
	"strandline/internal/simnet"
	"strandline/probe"
)

// TestKernelAndSimulatorSplitFlowsAlike sends the same flows through the
// kernel's multipath hash and through the simulator's five-tuple recipe over the
// same network: the counts per path must look like draws from one distribution.
func TestKernelAndSimulatorSplitFlowsAlike(t *testing.T) {
	const flows = 400
	for _, c := range []struct {
		width int
		limit float64 // chi-square of a 2 x width table, width-1 degrees of freedom, 99.9 %
	}{{2, 10.83}, {4, 16.27}} {
		t.Run(fmt.Sprint(c.width), func(t *testing.T) {
			l := up(t, lab.Chain(strings.ReplaceAll(name(t), "/", "-"), c.width))
			for _, v6 := range []bool{false, true} {
				kernel := perPath(secondHops(t, l, v6, flows))
				simulated := perPath(simulatedHops(t, l.Topology(), c.width, v6, flows))
				var chi float64
				for path, n := range kernel {
					a, b := float64(n), float64(simulated[path])
					chi += (a - b) * (a - b) / (a + b)
				}
				t.Logf("v6=%v: kernel %v, simulator %v, chi-square %.2f", v6, kernel, simulated, chi)
				if len(kernel) != c.width || len(simulated) != c.width || chi > c.limit {
					t.Errorf("v6=%v: kernel %v, simulator %v: chi-square %.2f, want at most %.2f", v6, kernel, simulated, chi, c.limit)
				}
			}
		})
	}
}

// perPath counts the flows that each second hop carries.
func perPath(hops map[uint16]netip.Addr) map[netip.Addr]int {
	counts := map[netip.Addr]int{}
	for _, addr := range hops {
		counts[addr]++
	}
	return counts
}

// simulatedHops is secondHops on the simulated copy of Chain.
func simulatedHops(t *testing.T, topo *lab.Topology, width int, v6 bool, flows int) map[uint16]netip.Addr {
	t.Helper()
	n, err := simnet.Build(chainSpec(topo, width), nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := n.Virtual(1).Conn("src")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	e := &probe.Engine{Conn: conn, Vantage: "src", Rand: rand.New(rand.NewPCG(1, 2))}
	hops := map[uint16]netip.Addr{}
	for i := range flows {
		o := probe.TraceOptions{Proto: datasets.ProtoUDP, FirstTTL: 2, MaxTTL: 2, Sport: uint16(20000 + 7*i)}
		err := e.Trace(t.Context(), []datasets.Target{{Addr: topo.Host("dst", v6)}}, o, func(s datasets.Sample) error {
			if s.Outcome == datasets.OutcomeTTLExceeded {
				hops[s.Sport] = s.From
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return hops
}

// chainSpec is lab.Chain as a world of the simulator, with the addresses that the
// kernel's hosts answer by.
func chainSpec(topo *lab.Topology, width int) simnet.Spec {
	spec := simnet.Spec{Name: "chain", Seed: 20, Nodes: []simnet.Node{
		{Name: "src", Kind: simnet.KindHost, Addr: topo.Addr("src", "r1", false), Addr6: topo.Addr("src", "r1", true)},
		{Name: "r1", Addr: topo.Addr("r1", "src", false), Addr6: topo.Addr("r1", "src", true)},
		{Name: "r2", Addr: topo.Addr("r2", "dst", false), Addr6: topo.Addr("r2", "dst", true)},
		{Name: "dst", Kind: simnet.KindHost, Addr: topo.Host("dst", false), Addr6: topo.Host("dst", true)},
	}, Links: []simnet.Link{{A: "src", B: "r1", Delay: 1}, {A: "r2", B: "dst", Delay: 1}}}
	for k := range width {
		p := fmt.Sprintf("p%d", k+1)
		spec.Nodes = append(spec.Nodes, simnet.Node{Name: p, Addr: topo.Addr(p, "r1", false), Addr6: topo.Addr(p, "r1", true)})
		spec.Links = append(spec.Links, simnet.Link{A: "r1", B: p, Delay: 1}, simnet.Link{A: p, B: "r2", Delay: 1})
	}
	return spec
}
