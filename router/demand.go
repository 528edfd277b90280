package router

import (
	"math"
	"strings"
)

// capacityMargin keeps demand below capacity by more than rounding: at capacity
// no workload is finite.
const capacityMargin = 1e-9

// checkDemand reports the demand that no allocation can serve, as the set of
// frontends whose requests together exceed the capacity of all regions that they
// may use: the cut that the max-flow theorem promises.
func (w *World) checkDemand(p *problems) {
	if w.fitsByCapacity() {
		return
	}
	n := newNetwork(w)
	demand := w.DemandHz()
	if n.maxFlow() >= demand*(1-capacityMargin/2) {
		return
	}
	frontends, regions, need, have := n.cut(w)
	p.add("frontends", "lower the rates, allow them more regions in latency.matrix, or set objective.shed",
		"%s need %.6g requests/s, which is not below the %.6g requests/s that the regions they may use can serve: %s",
		nameList(frontends), need, have, nameList(regions))
}

// fitsByCapacity is a quick sufficient test: each frontend spreads by capacity.
func (w *World) fitsByCapacity() bool {
	x := w.byCapacity()
	load := make([]float64, len(w.Regions))
	for i, f := range w.Frontends {
		for j, share := range x[i] {
			load[j] += share * f.RateHz
		}
	}
	for j, r := range w.Regions {
		if load[j] > r.Service.CapacityHz()*(1-capacityMargin) {
			return false
		}
	}
	return true
}

// byCapacity gives each frontend shares in proportion to the capacity of its
// allowed regions; none where it has none.
func (w *World) byCapacity() [][]float64 {
	x := make([][]float64, len(w.Frontends))
	for i := range x {
		x[i] = make([]float64, len(w.Regions))
		sum := 0.0
		for j, r := range w.Regions {
			if _, ok := w.NetworkS(i, j); ok {
				x[i][j] = r.Service.CapacityHz()
				sum += x[i][j]
			}
		}
		if sum == 0 {
			continue
		}
		for j := range x[i] {
			x[i][j] /= sum
		}
	}
	return x
}

func nameList(names []string) string {
	const most = 8
	if len(names) > most {
		names = append(names[:most:most], "and more")
	}
	return strings.Join(names, ", ")
}

// network is the flow problem source -> frontends -> regions -> sink, with
// residual capacities. Vertex 0 is the source, 1 the sink, then frontends, then
// regions.
type network struct {
	edges     []edge // edge e and its reverse e^1 are next to each other
	out       [][]int
	level     []int
	next      []int
	frontends int
	tiny      float64 // flows below are rounding
}

type edge struct {
	to   int
	left float64
}

func newNetwork(w *World) *network {
	f, b := len(w.Frontends), len(w.Regions)
	n := &network{out: make([][]int, 2+f+b), frontends: f, tiny: 1e-13 * w.DemandHz()}
	for i, fe := range w.Frontends {
		n.add(0, 2+i, fe.RateHz)
		for j := range w.Regions {
			if _, ok := w.NetworkS(i, j); ok {
				n.add(2+i, 2+f+j, math.Inf(1))
			}
		}
	}
	for j, r := range w.Regions {
		n.add(2+f+j, 1, r.Service.CapacityHz()*(1-capacityMargin))
	}
	return n
}

func (n *network) add(from, to int, capacity float64) {
	n.out[from] = append(n.out[from], len(n.edges))
	n.out[to] = append(n.out[to], len(n.edges)+1)
	n.edges = append(n.edges, edge{to, capacity}, edge{from, 0})
}

// maxFlow is Dinic's algorithm: blocking flows along shortest paths, whose
// length grows with each round.
func (n *network) maxFlow() float64 {
	total := 0.0
	for n.findLevels() {
		n.next = make([]int, len(n.out))
		for {
			pushed := n.push(0, math.Inf(1))
			if pushed <= n.tiny {
				break
			}
			total += pushed
		}
	}
	return total
}

func (n *network) findLevels() bool {
	n.level = make([]int, len(n.out))
	n.level[0] = 1
	for queue := []int{0}; len(queue) > 0; queue = queue[1:] {
		for _, e := range n.out[queue[0]] {
			if to := n.edges[e].to; n.level[to] == 0 && n.edges[e].left > n.tiny {
				n.level[to] = n.level[queue[0]] + 1
				queue = append(queue, to)
			}
		}
	}
	return n.level[1] > 0
}

func (n *network) push(v int, limit float64) float64 {
	if v == 1 {
		return limit
	}
	for ; n.next[v] < len(n.out[v]); n.next[v]++ {
		e := n.out[v][n.next[v]]
		to := n.edges[e].to
		if n.level[to] != n.level[v]+1 || n.edges[e].left <= n.tiny {
			continue
		}
		if pushed := n.push(to, min(limit, n.edges[e].left)); pushed > n.tiny {
			n.edges[e].left -= pushed
			n.edges[e^1].left += pushed
			return pushed
		}
	}
	return 0
}

// cut names the frontends that still have demand to place, or that share regions
// with such ones, and the regions that hold them up: what the last search from
// the source reached.
func (n *network) cut(w *World) (frontends, regions []string, need, have float64) {
	for i, f := range w.Frontends {
		if n.level[2+i] > 0 && f.RateHz > 0 {
			frontends, need = append(frontends, f.Name), need+f.RateHz
		}
	}
	for j, r := range w.Regions {
		if n.level[2+n.frontends+j] > 0 {
			regions, have = append(regions, r.Name), have+r.Service.CapacityHz()
		}
	}
	return frontends, regions, need, have
}
