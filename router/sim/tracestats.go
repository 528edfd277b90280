package sim

import (
	"math"
	"slices"
)

// TraceStats describes a trace.
type TraceStats struct {
	Requests int
	SpanS    float64 // from the first to the last request
	RateHz   float64 // Requests over SpanS
	Input    TokenStats
	Output   TokenStats
	GapCV    float64 // coefficient of variation of the times between requests

	// Dispersion10 and Dispersion60 are variance over mean of the number of requests
	// in windows of 10 and 60 seconds from the start, the last part of a window left
	// out; 1 for a Poisson process.
	Dispersion10, Dispersion60 float64
	Peak10Hz                   float64 // greatest rate in a window of 10 seconds
}

// TokenStats describes token counts. A quantile q is the least count that more
// than the part q of the requests does not exceed.
type TokenStats struct {
	Mean, P50, P90, P99 float64
}

// Stats describes the trace.
func (t *Trace) Stats() TraceStats {
	n := len(t.Requests)
	s := TraceStats{Requests: n}
	if n == 0 {
		return s
	}
	input, output, gaps := make([]float64, n), make([]float64, n), make([]float64, 0, n)
	for k, q := range t.Requests {
		input[k], output[k] = float64(q.Input), float64(q.Output)
		if k > 0 {
			gaps = append(gaps, q.AtS-t.Requests[k-1].AtS)
		}
	}
	s.SpanS = t.Requests[n-1].AtS
	s.RateHz = float64(n) / s.SpanS
	s.Input, s.Output = tokenStats(input), tokenStats(output)
	mean, variance := moments(gaps)
	s.GapCV = math.Sqrt(variance) / mean
	s.Dispersion10, s.Peak10Hz = t.dispersion(10)
	s.Dispersion60, _ = t.dispersion(60)
	return s
}

func tokenStats(v []float64) TokenStats {
	slices.Sort(v)
	mean, _ := moments(v)
	at := func(q float64) float64 {
		return v[min(int(q*float64(len(v))), len(v)-1)]
	}
	return TokenStats{mean, at(0.5), at(0.9), at(0.99)}
}

func moments(v []float64) (mean, variance float64) {
	mean = sum(v) / float64(len(v))
	for _, x := range v {
		variance += (x - mean) * (x - mean) / float64(len(v))
	}
	return mean, variance
}

// dispersion counts requests by window.
func (t *Trace) dispersion(windowS float64) (ratio, peakHz float64) {
	counts := make([]float64, int(t.Requests[len(t.Requests)-1].AtS/windowS))
	for _, q := range t.Requests {
		if k := int(q.AtS / windowS); k < len(counts) {
			counts[k]++
		}
	}
	if len(counts) == 0 {
		return math.NaN(), math.NaN()
	}
	mean, variance := moments(counts)
	return variance / mean, slices.Max(counts) / windowS
}
