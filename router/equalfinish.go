package router

import (
	"errors"
	"fmt"
	"math"
)

// EqualFinish splits the load X over regions whose cost is the straight line a_j +
// b_j x so that all used ones cost the same and no unused one costs less: the
// selfish (Wardrop) split. It returns the loads and that common cost
//
//	T = (X + sum a_j/b_j)/(sum 1/b_j),  x_j = (T - a_j)/b_j
//
// over the used regions. A region of constant cost (b_j = 0) takes whatever the
// others leave at T = a_j; of several of the same cost the first does. The split of
// least mean cost is EqualFinish with 2 b_j in place of b_j, and T is then the
// marginal cost.
func EqualFinish(a, b []float64, load float64) (x []float64, cost float64, err error) {
	if len(a) == 0 || len(a) != len(b) || !finite(load) || load < 0 {
		return nil, 0, fmt.Errorf("equal finish: %d intercepts, %d slopes, load %v", len(a), len(b), load)
	}
	ceiling, flat := math.Inf(1), -1 // the cheapest region of constant cost
	for j := range a {
		if !finite(a[j]) || !finite(b[j]) || b[j] < 0 {
			return nil, 0, errors.New("equal finish: costs must be finite and must not fall with the load")
		}
		if b[j] == 0 && a[j] < ceiling {
			ceiling, flat = a[j], j
		}
	}
	x = make([]float64, len(a))
	cost = min(equalCost(a, b, load), ceiling)
	left := load
	for j := range a {
		if b[j] > 0 && a[j] < cost {
			x[j] = (cost - a[j]) / b[j]
			left -= x[j]
		}
	}
	if flat >= 0 && cost == ceiling {
		x[flat] = max(0, left)
	}
	return x, cost, nil
}

// equalCost is T over the regions with a slope, dropping those that cost more even
// when empty; +Inf where there are none.
func equalCost(a, b []float64, load float64) float64 {
	cost := math.Inf(1)
	for {
		num, den, used := load, 0.0, false
		for j := range a {
			if b[j] > 0 && a[j] < cost {
				num += a[j] / b[j]
				den += 1 / b[j]
				used = true
			}
		}
		if !used {
			return cost
		}
		if next := num / den; next < cost {
			cost = next
		} else {
			return cost
		}
	}
}

// TrendShares changes fair shares by the trend of load: a flagged region gets the
// part 1-alpha of its share, and the others get what that frees in proportion to
// theirs. With equal shares that is 1 + alpha N/(P-N) for N of P flagged (arXiv
// 1909.07168). Where more than half are flagged all load grows, which is no
// imbalance, and the shares stay. It writes to dst, which may be fair.
func TrendShares(dst, fair []float64, flagged []bool, alpha float64) {
	n, rising, steady := 0, 0.0, 0.0
	for j, f := range flagged {
		if f {
			n++
			rising += fair[j]
		} else {
			steady += fair[j]
		}
	}
	copy(dst, fair)
	if n == 0 || 2*n > len(flagged) || steady == 0 {
		return
	}
	for j, f := range flagged {
		if f {
			dst[j] = (1 - alpha) * fair[j]
		} else {
			dst[j] = fair[j] * (1 + alpha*rising/steady)
		}
	}
}

// Diffuse lets load flow along the edges of a graph of regions, one round: over edge
// (j,k) the amount alpha min(C_j, C_k) (u_j - u_k) of load, u being load over
// capacity and alpha = 1/(1 + greatest degree), which converges on every connected
// graph. It returns the flow from the first to the second region of each edge; the
// caller moves what can be moved (queued requests only) and the total stays.
func Diffuse(load, capacity []float64, edges [][2]int) []float64 {
	degree, most := make([]int, len(load)), 0
	for _, e := range edges {
		for _, j := range e {
			degree[j]++
			most = max(most, degree[j])
		}
	}
	alpha := 1 / (1 + float64(most))
	flow := make([]float64, len(edges))
	for n, e := range edges {
		j, k := e[0], e[1]
		flow[n] = alpha * min(capacity[j], capacity[k]) * (load[j]/capacity[j] - load[k]/capacity[k])
	}
	return flow
}
