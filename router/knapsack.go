package router

import (
	"fmt"
	"math"
	"slices"
)

// CurvePoint is one measurement of a region: at this share of the traffic, this mean
// latency.
type CurvePoint struct {
	Share    float64
	LatencyS float64
}

// ConvexLatency fits measured points by values that do not fall and are convex, at
// the shares k/units for k = 0..units. It interpolates the points, replaces the
// slopes between them by their pool-adjacent-violators fit (weighted by the widths),
// and goes on with the last slope. The error says what is not a point; two points of
// different shares are needed.
func ConvexLatency(points []CurvePoint, units int) ([]float64, error) {
	p := slices.Clone(points)
	slices.SortFunc(p, func(a, b CurvePoint) int {
		switch {
		case a.Share < b.Share:
			return -1
		case a.Share > b.Share:
			return 1
		}
		return 0
	})
	for _, q := range p {
		if !finite(q.Share) || q.Share < 0 || q.Share > 1 || !finite(q.LatencyS) || q.LatencyS < 0 {
			return nil, fmt.Errorf("latency curve: %v s at share %v is not a measurement", q.LatencyS, q.Share)
		}
	}
	p = joinPoints(p)
	if len(p) < 2 || units < 1 {
		return nil, fmt.Errorf("latency curve: %d different shares and %d units; two and one are needed", len(p), units)
	}
	slopes := risingSlopes(p)
	level := fittedLevel(p, slopes)
	out := make([]float64, units+1)
	for k := range out {
		out[k] = curveAt(p, slopes, level, float64(k)/float64(units))
	}
	return out, nil
}

// joinPoints averages the points of one share.
func joinPoints(p []CurvePoint) []CurvePoint {
	var out []CurvePoint
	for k := 0; k < len(p); {
		n, sum := 0.0, 0.0
		first := k
		for ; k < len(p) && p[k].Share == p[first].Share; k++ {
			n++
			sum += p[k].LatencyS
		}
		out = append(out, CurvePoint{p[first].Share, sum / n})
	}
	return out
}

// risingSlopes are slopes between neighbouring points, at least 0 and never falling.
func risingSlopes(p []CurvePoint) []float64 {
	type block struct {
		width, rise float64
		n           int
	}
	var blocks []block
	for k := 1; k < len(p); k++ {
		blocks = append(blocks, block{p[k].Share - p[k-1].Share, p[k].LatencyS - p[k-1].LatencyS, 1})
		for n := len(blocks); n > 1 && blocks[n-2].rise/blocks[n-2].width > blocks[n-1].rise/blocks[n-1].width; n = len(blocks) {
			a, b := blocks[n-2], blocks[n-1]
			blocks = append(blocks[:n-2], block{a.width + b.width, a.rise + b.rise, a.n + b.n})
		}
	}
	var slopes []float64
	for _, b := range blocks {
		for range b.n {
			slopes = append(slopes, max(0, b.rise/b.width))
		}
	}
	return slopes
}

// fittedLevel is the latency at the first point that makes the mean error 0.
func fittedLevel(p []CurvePoint, slopes []float64) float64 {
	at, sum := 0.0, p[0].LatencyS
	for k, s := range slopes {
		at += s * (p[k+1].Share - p[k].Share)
		sum += p[k+1].LatencyS - at
	}
	return max(0, sum/float64(len(p)))
}

func curveAt(p []CurvePoint, slopes []float64, level, share float64) float64 {
	if share <= p[0].Share {
		return level // not measured below: no less than there
	}
	for k, s := range slopes {
		end := p[k+1].Share
		if share <= end || k == len(slopes)-1 {
			return level + s*(share-p[k].Share)
		}
		level += s * (end - p[k].Share)
	}
	return level
}

// Knapsack splits a number of units of traffic over regions: one latency curve per
// region, curves[j][k] being its mean latency with k units, +Inf where it cannot
// take as many. It minimises the traffic-weighted mean latency, sum over j of n_j
// curves[j][n_j]. Where n l(n) is convex, as from ConvexLatency, giving the next unit
// to the region whose total rises least is exact. What does not fit is the excess.
func Knapsack(curves [][]float64, units int) (split []int, excess int) {
	split = make([]int, len(curves))
	for n := range units {
		best, least := -1, math.Inf(1)
		for j, c := range curves {
			if split[j]+1 >= len(c) {
				continue
			}
			k := float64(split[j])
			total := 0.0
			if k > 0 {
				total = k * c[split[j]]
			}
			if rise := (k+1)*c[split[j]+1] - total; rise < least {
				best, least = j, rise
			}
		}
		if best < 0 {
			return split, units - n
		}
		split[best]++
	}
	return split, 0
}

// KnapsackLB learns how the latency of each region depends on its share of all
// traffic, and splits anew once per epoch (after KnapsackLB, arXiv 2404.17783; the
// fit and the constants are ours). It is a central solver with one share per region:
// frontends that ran it each on their own against shared regions would chase each
// other. Where a region has too few points it takes the shape of a queue, tau + 1/(C
// - x), through what was measured. It is not safe for concurrent use.
type KnapsackLB struct {
	networkS []float64
	capacity []float64
	rate     float64
	shares   []float64
	points   [][]CurvePoint
}

const (
	knapsackUnits  = 200
	knapsackStep   = 0.1  // most that a share moves in an epoch
	knapsackDamp   = 0.2  // part of the way to the new split that is gone at once
	knapsackPoints = 30   // epochs remembered, which is how drift is followed
	knapsackFloor  = 0.01 // of the shares is spread over all regions, so that recovery is noticed
	knapsackLeast  = 3    // points for a fit
)

// NewKnapsackLB starts with shares in proportion to capacity. The slices are by
// region: the mean network latency in seconds and the greatest rate; rateHz is the
// rate of all traffic.
func NewKnapsackLB(networkS, capacityHz []float64, rateHz float64) *KnapsackLB {
	n := len(capacityHz)
	p := &KnapsackLB{networkS: slices.Clone(networkS), capacity: slices.Clone(capacityHz), rate: rateHz, shares: make([]float64, n), points: make([][]CurvePoint, n)}
	total := 0.0
	for _, c := range capacityHz {
		total += c
	}
	for j, c := range capacityHz {
		p.shares[j] = c / total
	}
	return p
}

// Step takes the mean latency of each region in the epoch that ends and the shares
// that were in force, NaN where nothing was measured, and returns the shares for the
// next one: the same slice each time. Regions that are not usable get none.
func (p *KnapsackLB) Step(latencyS, share []float64, usable []bool) []float64 {
	for j, l := range latencyS {
		if finite(l) && l >= 0 && share[j] >= 0 && share[j] <= 1 {
			p.points[j] = append(p.points[j], CurvePoint{share[j], l})
			if len(p.points[j]) > knapsackPoints {
				p.points[j] = p.points[j][1:]
			}
		}
	}
	curves := make([][]float64, len(p.shares))
	for j := range curves {
		curves[j] = p.curve(j, usable[j])
	}
	split, _ := Knapsack(curves, knapsackUnits)
	p.move(split, usable)
	return p.shares
}

func (p *KnapsackLB) curve(j int, usable bool) []float64 {
	if !usable {
		return []float64{0} // takes nothing
	}
	if len(p.points[j]) >= knapsackLeast {
		if c, err := ConvexLatency(p.points[j], knapsackUnits); err == nil {
			return p.capped(j, c)
		}
	}
	queue := func(share float64) float64 {
		if left := p.capacity[j] - share*p.rate; left > 0 {
			return 1 / left
		}
		return math.Inf(1)
	}
	scale := 1.0
	if n := len(p.points[j]); n > 0 {
		last := p.points[j][n-1]
		if s := (last.LatencyS - p.networkS[j]) / queue(last.Share); s > 0 && finite(s) {
			scale = s
		}
	}
	c := make([]float64, knapsackUnits+1)
	for k := range c {
		c[k] = p.networkS[j] + scale*queue(float64(k)/knapsackUnits)
	}
	return p.capped(j, c)
}

// capped cuts a curve at the capacity, which no line through measured points knows.
func (p *KnapsackLB) capped(j int, c []float64) []float64 {
	if p.rate <= 0 {
		return c
	}
	most := int(p.capacity[j] / p.rate * knapsackUnits)
	return c[:min(len(c), most+1)]
}

// move goes towards the split, a step at most, and keeps the floor.
func (p *KnapsackLB) move(split []int, usable []bool) {
	total, open, sum := 0, 0.0, 0.0
	for j, n := range split {
		total += n
		if usable[j] {
			open++
		}
	}
	if total == 0 {
		return
	}
	for j, n := range split {
		if !usable[j] {
			p.shares[j] = 0
			continue
		}
		want := (1-knapsackFloor)*float64(n)/float64(total) + knapsackFloor/open
		p.shares[j] += max(-knapsackStep, min(knapsackDamp*(want-p.shares[j]), knapsackStep))
		sum += p.shares[j]
	}
	for j := range p.shares {
		p.shares[j] /= sum
	}
}
