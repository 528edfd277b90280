package sim

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Result is what a run of the event simulator measured. Times are seconds. What
// was not observed is NaN. It survives encoding/gob, so sweeps can be resumed.
type Result struct {
	Policy       string
	MeanLatencyS float64
	HalfWidthS   float64 // of the 95 % confidence interval of the mean, by batch means
	P50S         float64
	P90S         float64
	P99S         float64

	MeanTTFTS float64 // of requests with a prefill
	P50TTFTS  float64
	P99TTFTS  float64

	ArrivedHz    float64
	ThroughputHz float64
	ShedHz       float64 // no region was usable
	FailedHz     float64 // a region failed it and no retry was left
	RetriedHz    float64

	// Moves is the mean part of a frontend's requests that went elsewhere than in
	// the epoch before: half the sum of changes of its shares, weighted by requests.
	// Drawing at random moves some too.
	Moves float64

	// Oscillation is how much workloads swing: the standard deviations of the
	// regions' workloads, sampled every second, over their means, both summed. Chance
	// alone gives some.
	Oscillation float64

	Events    uint64
	MeasuredS float64
	Regions   []RegionResult

	Latency, TTFT Sketch // all of them, so that the quantiles of several runs can be taken together
}

// RegionResult is what a run measured of one region.
type RegionResult struct {
	Name           string
	RateHz         float64 // requests that reached it
	Workload       float64 // mean requests inside
	HalfWidth      float64 // of the 95 % confidence interval of Workload
	PeakWorkload   int     // warm-up included
	CoefficientVar float64 // standard deviation of the sampled workload over its mean
}

// totals collects statistics in fixed memory.
type totals struct {
	measuring bool
	events    uint64

	latency, ttft       Sketch
	latencySum, ttftSum float64
	arrived, shed       uint64
	failed, retried     uint64

	batch       int
	batchSum    []float64 // of latencies
	batchCount  []float64
	batchArea   [][]float64 // by batch and region
	areaAtBatch []float64   // by region, at the beginning of the batch
	areaAtPause []float64

	samples             float64
	sampleSum, sampleSq []float64 // by region

	moved, movable float64
}

func newTotals(regions, batches int) totals {
	t := totals{batchSum: make([]float64, batches), batchCount: make([]float64, batches), batchArea: make([][]float64, batches),
		areaAtBatch: make([]float64, regions), areaAtPause: make([]float64, regions),
		sampleSum: make([]float64, regions), sampleSq: make([]float64, regions)}
	for k := range t.batchArea {
		t.batchArea[k] = make([]float64, regions)
	}
	return t
}

func (t *totals) measure(on bool, regions []region) {
	for j := range regions {
		if on {
			regions[j].area = t.areaAtPause[j]
		} else {
			t.areaAtPause[j] = regions[j].area
		}
	}
	t.measuring = on
}

func (t *totals) endBatch(regions []region) {
	if t.batch >= len(t.batchArea) {
		return
	}
	for j := range regions {
		t.batchArea[t.batch][j] = regions[j].area - t.areaAtBatch[j]
		t.areaAtBatch[j] = regions[j].area
	}
	t.batch++
}

func (t *totals) done(latencyS float64) {
	if !t.measuring {
		return
	}
	t.latency.Add(latencyS)
	t.latencySum += latencyS
	if t.batch < len(t.batchSum) {
		t.batchSum[t.batch] += latencyS
		t.batchCount[t.batch]++
	}
}

func (t *totals) firstToken(latencyS float64) {
	if t.measuring {
		t.ttft.Add(latencyS)
		t.ttftSum += latencyS
	}
}

func (t *totals) sample(regions []region) {
	t.samples++
	for j := range regions {
		n := float64(regions[j].inside)
		t.sampleSum[j] += n
		t.sampleSq[j] += n * n
	}
}

// move adds the change of one frontend's shares from one epoch to the next.
func (t *totals) move(before, now []float64) {
	a, b := sum(before), sum(now)
	if a == 0 || b == 0 {
		return
	}
	half := 0.0
	for j := range now {
		half += math.Abs(now[j]/b-before[j]/a) / 2
	}
	t.moved += half * b
	t.movable += b
}

func sum(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x
	}
	return s
}

// measured lists the spans of time that count, in order.
func measured(c Config) []Window {
	left := []Window{{c.WarmupS, c.DurationS}}
	for _, x := range c.Exclude {
		var next []Window
		for _, w := range left {
			if x.ToS <= w.FromS || x.FromS >= w.ToS {
				next = append(next, w)
				continue
			}
			if x.FromS > w.FromS {
				next = append(next, Window{w.FromS, x.FromS})
			}
			if x.ToS < w.ToS {
				next = append(next, Window{x.ToS, w.ToS})
			}
		}
		left = next
	}
	return left
}

// marks are the events at which statistics begin, pause and change batch.
func marks(c Config) []event {
	var out []event
	windows := measured(c)
	total := 0.0
	for _, w := range windows {
		total += w.ToS - w.FromS
	}
	past, batch := 0.0, 1
	for _, w := range windows {
		out = append(out, newEvent(w.FromS, onMeasure, 0, 1))
		length := w.ToS - w.FromS
		for ; batch < c.Batches && total*float64(batch)/float64(c.Batches) <= past+length; batch++ {
			out = append(out, newEvent(w.FromS+total*float64(batch)/float64(c.Batches)-past, onBatch, 0, 0))
		}
		past += length
		if w.ToS < c.DurationS {
			out = append(out, newEvent(w.ToS, onMeasure, 0, 0))
		}
	}
	return out
}

func (s *simulator) result() *Result {
	t := &s.totals
	s.nowS = s.DurationS
	s.settle()
	if !t.measuring { // the end lies in an excluded window
		for j := range s.regions {
			s.regions[j].area = t.areaAtPause[j]
		}
	}
	t.endBatch(s.regions)
	measuredS := 0.0
	for _, w := range measured(s.Config) {
		measuredS += w.ToS - w.FromS
	}
	done := float64(t.latency.Count())
	r := &Result{
		Policy: s.Policy, MeanLatencyS: t.latencySum / done,
		P50S: t.latency.Quantile(0.5), P90S: t.latency.Quantile(0.9), P99S: t.latency.Quantile(0.99),
		MeanTTFTS: t.ttftSum / float64(t.ttft.Count()), P50TTFTS: t.ttft.Quantile(0.5), P99TTFTS: t.ttft.Quantile(0.99),
		ArrivedHz: float64(t.arrived) / measuredS, ThroughputHz: done / measuredS, ShedHz: float64(t.shed) / measuredS,
		FailedHz: float64(t.failed) / measuredS, RetriedHz: float64(t.retried) / measuredS,
		Events: t.events, MeasuredS: measuredS, Latency: t.latency, TTFT: t.ttft,
	}
	if t.movable > 0 {
		r.Moves = t.moved / t.movable
	}
	var means []float64
	for k, n := range t.batchCount {
		if n > 0 {
			means = append(means, t.batchSum[k]/n)
		}
	}
	_, r.HalfWidthS = Interval(means)
	r.Regions, r.Oscillation = t.regions(s, measuredS)
	return r
}

func (t *totals) regions(s *simulator, measuredS float64) (list []RegionResult, oscillation float64) {
	spread, mean := 0.0, 0.0
	for j := range s.regions {
		batchS := measuredS / float64(len(t.batchArea))
		var means []float64
		for k := range t.batchArea {
			means = append(means, t.batchArea[k][j]/batchS)
		}
		g := &s.regions[j]
		m, half := Interval(means)
		avg := t.sampleSum[j] / t.samples
		sd := math.Sqrt(max(0, t.sampleSq[j]/t.samples-avg*avg))
		list = append(list, RegionResult{Name: s.World.Regions[j].Name, RateHz: float64(g.reached) / measuredS,
			Workload: m, HalfWidth: half, PeakWorkload: g.peak, CoefficientVar: sd / avg})
		if t.samples > 0 {
			spread += sd
			mean += avg
		}
	}
	if mean > 0 {
		oscillation = spread / mean
	}
	return list, oscillation
}

// Interval is the mean of independent values and half the width of its 95 %
// confidence interval by Student's t; NaN with fewer than two values.
func Interval(values []float64) (mean, half float64) {
	n := float64(len(values))
	if n == 0 {
		return math.NaN(), math.NaN()
	}
	mean = sum(values) / n
	if n < 2 {
		return mean, math.NaN()
	}
	sq := 0.0
	for _, v := range values {
		sq += (v - mean) * (v - mean)
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.975)
	return mean, t * math.Sqrt(sq/(n-1)/n)
}
