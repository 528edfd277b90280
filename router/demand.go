package router

import (
	"math"
	"slices"
	"strings"
)

// capacityMargin keeps demand below capacity by more than rounding: at capacity
// no workload is finite.
const capacityMargin = 1e-9

// checkDemand reports the demand that no allocation can serve, as the set of
// frontends (and classes) whose requests together exceed the capacity of all
// regions that they may use: the cut that the max-flow theorem promises.
func (q *problem) checkDemand(p *problems) {
	room := q.room(p)
	if len(*p) > 0 || q.fitsByCapacity(room) {
		return
	}
	if !q.isPlain() {
		q.checkByPrices(p, room)
		return
	}
	n, demand := newNetwork(q, room)
	if n.maxFlow() >= demand*(1-capacityMargin/2) {
		return
	}
	rows, regions, need, have := n.cut(q, room)
	p.add("frontends", q.relief(), "%s need %.6g %s, which is not below the %.6g %s that the regions they may use can serve: %s",
		nameList(rows), need, q.unit(), have, q.unit(), nameList(regions))
}

// relief is what helps against too much demand.
func (q *problem) relief() string {
	fix := "lower the rates, allow them more regions in latency.matrix, or set objective.shed"
	for _, r := range q.world.Regions {
		if r.MaxRateHz > 0 {
			return "lower the rates, raise max_rate, allow them more regions in latency.matrix, or set objective.shed"
		}
	}
	return fix
}

// unit is what rates count.
func (q *problem) unit() string {
	for _, work := range q.work {
		if slices.ContainsFunc(work, func(v float64) bool { return v != 1 }) {
			return "units of work/s"
		}
	}
	return "requests/s"
}

// isPlain reports whether the work of a row's requests is the same in every region
// that it may use, so that the question is one of flow.
func (q *problem) isPlain() bool {
	for k := range q.rows {
		if least, most := q.workRange(k); least < most {
			return false
		}
	}
	return true
}

// workRange is the least and the most work of a request of row k; +Inf and 0
// where it has no region.
func (q *problem) workRange(k int) (least, most float64) {
	b := len(q.curves)
	least = math.Inf(1)
	for j, c := range q.arcS[k*b : k*b+b] {
		if !math.IsInf(c, 1) {
			least, most = min(least, q.workOf(k)[j]), max(most, q.workOf(k)[j])
		}
	}
	return least, most
}

// firmHz is the rate of row k that must be served and may be served anywhere.
func (r row) firmHz() float64 {
	if !math.IsInf(r.shedS, 1) {
		return 0
	}
	return r.rateHz * r.free
}

// room is the capacity of each region that the least shares leave.
func (q *problem) room(p *problems) []float64 {
	b := len(q.curves)
	room := make([]float64, b)
	for j, c := range q.curves {
		room[j] = c.CapacityHz() * (1 - capacityMargin)
	}
	for k, r := range q.rows {
		for j, c := range q.arcS[k*b : k*b+b] {
			if r.base > 0 && !math.IsInf(c, 1) {
				room[j] -= r.rateHz * r.base * q.workOf(k)[j]
			}
		}
	}
	for j, left := range room {
		if left < 0 {
			p.add("objective.min_share", "lower it", "gives region %s more than the %.6g %s that it can serve",
				q.world.Regions[j].Name, q.curves[j].CapacityHz(), q.unit())
		}
	}
	return room
}

// fitsByCapacity is a quick sufficient test: each row spreads by the room.
func (q *problem) fitsByCapacity(room []float64) bool {
	b := len(room)
	load := make([]float64, b)
	for k, r := range q.rows {
		arcs, sum := q.arcS[k*b:k*b+b], 0.0
		for j, c := range arcs {
			if !math.IsInf(c, 1) {
				sum += room[j]
			}
		}
		for j, c := range arcs {
			if sum > 0 && !math.IsInf(c, 1) {
				load[j] += room[j] / sum * r.firmHz() * q.workOf(k)[j]
			}
		}
	}
	for j, l := range load {
		if l > room[j] {
			return false
		}
	}
	return true
}

// spread gives each row shares in proportion to the room of its regions; none
// where it has none.
func (q *problem) spread(room []float64) []float64 {
	b := len(room)
	x := make([]float64, len(q.rows)*b)
	for k := range q.rows {
		row, sum := x[k*b:k*b+b], 0.0
		for j, c := range q.arcS[k*b : k*b+b] {
			if !math.IsInf(c, 1) {
				row[j] = room[j]
				sum += room[j]
			}
		}
		for j := range row {
			if sum > 0 {
				row[j] /= sum
			}
		}
	}
	return x
}

// checkByPrices is checkDemand where the work of a request depends on the region.
// It places as much as it can: at the least cost with regions that cost about a
// second for each unit of work up to their room, and requests refused at a price
// far above. If the prices p of work that come out, as parts of that price, have
// sum_k rate_k min(1, min_j work_kj p_j) > sum_j p_j room_j, they are a certificate
// that the demand does not fit (Farkas' lemma), and say who is in each other's way.
func (q *problem) checkByPrices(p *problems, room []float64) {
	const refusedS, small = 1e6, 1e-3
	s := newSolver(q.placing(room, refusedS), SolveOptions{TargetGap: 1e-9, MaxIterations: 1000})
	s.run()
	var short, full []string
	need, have, b := 0.0, 0.0, len(room)
	for k, r := range s.rows {
		least := 1.0
		for j, c := range s.arcS[k*b : k*b+b] {
			if !math.IsInf(c, 1) {
				least = min(least, s.workOf(k)[j]*s.bestPricesS[j]/refusedS)
			}
		}
		if need += r.rateHz * least; r.rateHz > 0 && least > small {
			short = append(short, q.rowName(k))
		}
	}
	for j, price := range s.bestPricesS {
		if have += price / refusedS * room[j]; price > small*refusedS {
			full = append(full, q.world.Regions[j].Name)
		}
	}
	if need <= have {
		return
	}
	p.add("frontends", q.relief(), "%s need %.6g requests/s, which is not below the %.6g requests/s that the regions they may use can serve, however the work is placed: %s",
		nameList(short), need, have, nameList(full))
}

// placing is the problem of checkByPrices.
func (q *problem) placing(room []float64, refusedS float64) *problem {
	t := &problem{world: q.world, work: q.work, arcS: slices.Clone(q.arcS)}
	for k, c := range t.arcS {
		if !math.IsInf(c, 1) {
			t.arcS[k] = 0
		}
	}
	for _, r := range q.rows {
		r.rateHz, r.shedS, r.base, r.free = r.firmHz(), refusedS, 0, 1
		t.rows = append(t.rows, r)
	}
	for _, left := range room {
		t.curves = append(t.curves, newCurve(newLines([]Point{{max(left, 1e-300), max(left, 1e-300)}}, 1)))
	}
	return t
}

// rowName is the frontend of row k, and its class where there are any.
func (q *problem) rowName(k int) string {
	r := q.rows[k]
	name := q.world.Frontends[r.frontend].Name
	if r.class >= 0 {
		name += " (" + q.world.Classes[r.class].Name + ")"
	}
	return name
}

func nameList(names []string) string {
	const most = 8
	if len(names) > most {
		names = append(names[:most:most], "and more")
	}
	return strings.Join(names, ", ")
}

// network is the flow problem source -> rows -> regions -> sink, with
// residual capacities. Vertex 0 is the source, 1 the sink, then rows, then regions.
type network struct {
	edges []edge // edge e and its reverse e^1 are next to each other
	out   [][]int
	level []int
	next  []int
	rows  int
	tiny  float64 // flows below are rounding
}

type edge struct {
	to   int
	left float64
}

// newNetwork also returns the demand, in units of work.
func newNetwork(q *problem, room []float64) (*network, float64) {
	f, b := len(q.rows), len(room)
	n, demand := &network{out: make([][]int, 2+f+b), rows: f}, 0.0
	for k, r := range q.rows {
		work, _ := q.workRange(k)
		if r.firmHz() == 0 {
			continue
		}
		n.add(0, 2+k, r.firmHz()*work)
		demand += r.firmHz() * work
		for j, c := range q.arcS[k*b : k*b+b] {
			if !math.IsInf(c, 1) {
				n.add(2+k, 2+f+j, math.Inf(1))
			}
		}
	}
	for j, left := range room {
		n.add(2+f+j, 1, left)
	}
	n.tiny = 1e-13 * demand
	return n, demand
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

// cut names the rows that still have demand to place, or that share regions with
// such ones, and the regions that hold them up: what the last search from the
// source reached.
func (n *network) cut(q *problem, room []float64) (rows, regions []string, need, have float64) {
	for k, r := range q.rows {
		if n.level[2+k] > 0 && r.firmHz() > 0 {
			work, _ := q.workRange(k)
			rows, need = append(rows, q.rowName(k)), need+r.firmHz()*work
		}
	}
	for j, left := range room {
		if n.level[2+n.rows+j] > 0 {
			regions, have = append(regions, q.world.Regions[j].Name), have+left/(1-capacityMargin)
		}
	}
	return rows, regions, need, have
}
