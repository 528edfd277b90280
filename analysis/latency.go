package analysis

import (
	"cmp"
	"iter"
	"math"
	"net/netip"
	"slices"
	"strings"

	"strandline/datasets"
)

// DefaultConfidence, in percent, is what the interval of a median holds with
// unless something else is asked for. A campaign estimates hundreds of pairs at
// once: at 99.9 a set of a hundred intervals is right throughout with at least
// 90 percent, at 95 almost never. It takes 11 replies.
const DefaultConfidence = 99.9

// LatencyOf sums up the samples of one vantage, target and protocol. Their order
// does not matter. Confidence is in percent, between 0 and 100.
//
// A probe is received when the target replied; an ICMP error on the way is a
// loss. Not counted as sent is what our own kernel refused, and what could not
// arrive: a probe with a smaller TTL than any that the target answered asked a
// hop, not the target. So traces and pings may be mixed.
//
// All times are of replies and have no estimate without one. P50MS and P99MS are
// nearest ranks, so each is a round trip that was measured. P50LoMS to P50HiMS is
// the distribution-free interval of the median between two order statistics (see
// medianRanks); it has no estimate when there are too few replies for the
// confidence. JitterMS is the mean absolute difference between one reply's round
// trip and the next one's in the order of sending: inter-packet delay variation
// (RFC 5481 section 4.1), taken over the replies alone, without the smoothing of
// RFC 3550. Stamp is that of the least exact reply.
func LatencyOf(samples []datasets.Sample, confidence float64) datasets.Latency {
	if len(samples) == 0 {
		return new(series).latency(seriesKey{}, confidence)
	}
	var s series
	for _, sample := range samples {
		s.add(sample)
	}
	return s.latency(keyOf(samples[0]), confidence)
}

// Latencies sums up samples of any origin, as LatencyOf does, per vantage, target
// and protocol, and returns the rows in the order of these. frontends gives the
// frontend by the vantage's name (see FrontendsOf), regions the region by the
// target's address (see RegionsOf); either may be nil.
func Latencies(samples iter.Seq[datasets.Sample], frontends map[string]string, regions map[netip.Addr]string, confidence float64) []datasets.Latency {
	all := make(map[seriesKey]*series)
	for sample := range samples {
		key := keyOf(sample)
		s := all[key]
		if s == nil {
			s = new(series)
			all[key] = s
		}
		s.add(sample)
	}
	rows := make([]datasets.Latency, 0, len(all))
	for key, s := range all {
		row := s.latency(key, confidence)
		row.Frontend, row.Region = frontends[key.vantage], regions[key.target]
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b datasets.Latency) int {
		return cmp.Or(strings.Compare(a.Vantage, b.Vantage), a.Target.Compare(b.Target), cmp.Compare(a.Proto, b.Proto))
	})
	return rows
}

// FrontendsOf returns the frontend that each vantage measures for, by the
// vantage's name: its label "frontend".
func FrontendsOf(vantages []datasets.Vantage) map[string]string {
	m := make(map[string]string)
	for _, v := range vantages {
		if f := v.Labels["frontend"]; f != "" {
			m[v.Name] = f
		}
	}
	return m
}

// RegionsOf returns the region that each target's address stands for.
func RegionsOf(targets []datasets.Target) map[netip.Addr]string {
	m := make(map[netip.Addr]string)
	for _, t := range targets {
		if t.Region != "" {
			m[t.Addr] = t.Region
		}
	}
	return m
}

// seriesKey is what the samples of one latency have in common.
type seriesKey struct {
	vantage string
	target  netip.Addr
	proto   datasets.Proto
}

func keyOf(s datasets.Sample) seriesKey { return seriesKey{s.Vantage, s.Target, s.Proto} }

// series is what a latency needs of its samples.
type series struct {
	probes []outcome
	stamp  datasets.Stamp // of the least exact reply; empty without one
}

// outcome is one probe that was sent.
type outcome struct {
	txNS, rttNS int64
	seq         uint32
	ttl         uint8
	received    bool
}

// add takes in one sample.
func (s *series) add(x datasets.Sample) {
	if x.Outcome == datasets.OutcomeSendError {
		return
	}
	o := outcome{txNS: x.TxNS, seq: x.Seq, ttl: x.TTL}
	if x.Outcome == datasets.OutcomeReply {
		o.received, o.rttNS = true, x.RTTNS
		if s.stamp == "" || inexactness(x.Stamp) > inexactness(s.stamp) {
			s.stamp = x.Stamp
		}
	}
	s.probes = append(s.probes, o)
}

// inexactness orders the sources of time stamps, the most exact first.
func inexactness(s datasets.Stamp) int {
	return slices.Index([]datasets.Stamp{datasets.StampSim, datasets.StampHardware, datasets.StampKernel, datasets.StampUser}, s)
}

// latency evaluates the series.
func (s *series) latency(key seriesKey, confidence float64) datasets.Latency {
	none := datasets.NoEstimate()
	row := datasets.Latency{
		Vantage: key.vantage, Target: key.target, Proto: key.proto, Confidence: confidence, Stamp: s.stamp,
		MinMS: none, P50MS: none, P50LoMS: none, P50HiMS: none, P99MS: none, MeanMS: none, JitterMS: none,
	}
	rttNS := s.settle()
	n := len(rttNS)
	row.Sent, row.Received = uint32(len(s.probes)), uint32(n)
	if row.Sent > 0 {
		row.Loss = float64(row.Sent-row.Received) / float64(row.Sent)
	}
	if n == 0 {
		return row
	}
	if n > 1 {
		row.JitterMS = millis(meanStep(rttNS))
	}
	row.MeanMS = millis(mean(rttNS))
	slices.Sort(rttNS)
	at := func(rank int) datasets.Millis { return millis(float64(rttNS[rank-1])) }
	row.MinMS, row.P50MS, row.P99MS = at(1), at(nearestRank(n, 50)), at(nearestRank(n, 99))
	if lo, hi, ok := medianRanks(n, confidence); ok {
		row.P50LoMS, row.P50HiMS = at(lo), at(hi)
	}
	return row
}

// settle drops the probes that could not arrive and returns the round trips of
// the others in the order of sending.
func (s *series) settle() (rttNS []int64) {
	least, received := uint8(math.MaxUint8), 0
	for _, o := range s.probes {
		if o.received {
			least = min(least, o.ttl)
			received++
		}
	}
	if received == 0 {
		return nil
	}
	s.probes = slices.DeleteFunc(s.probes, func(o outcome) bool { return o.ttl < least })
	slices.SortFunc(s.probes, func(a, b outcome) int {
		return cmp.Or(cmp.Compare(a.txNS, b.txNS), cmp.Compare(a.seq, b.seq), cmp.Compare(a.rttNS, b.rttNS))
	})
	rttNS = make([]int64, 0, received)
	for _, o := range s.probes {
		if o.received {
			rttNS = append(rttNS, o.rttNS)
		}
	}
	return rttNS
}

// millis converts nanoseconds.
func millis(ns float64) datasets.Millis { return datasets.Millis(ns / 1e6) }

// mean returns the mean of at least one value.
func mean(ns []int64) float64 {
	var sum float64
	for _, v := range ns {
		sum += float64(v)
	}
	return sum / float64(len(ns))
}

// meanStep returns the mean absolute difference between neighbours in at least
// two values.
func meanStep(ns []int64) float64 {
	var sum float64
	for i, v := range ns[1:] {
		sum += math.Abs(float64(v - ns[i]))
	}
	return sum / float64(len(ns)-1)
}

// nearestRank returns the rank, from 1, of the given percentile among n > 0
// sorted values: the smallest with at least that share at or below it.
func nearestRank(n, percent int) int { return max(1, (n*percent+99)/100) }

// medianRanks returns the ranks lo <= hi, from 1, of the narrowest symmetric pair
// of order statistics of n values between which the median lies with at least the
// given confidence in percent; not ok when even the smallest and the largest value
// are not wide enough.
//
// The median lies outside only if fewer than lo values are on one side of it, so
// the pair covers it with 1 - 2 P(B < lo), B binomial with n and 1/2, whatever
// the distribution (David and Nagaraja, "Order Statistics", 3rd edition, section
// 7.1). It takes for granted that the values are independent and of one distribution;
// where the distribution has atoms it covers with more.
func medianRanks(n int, confidence float64) (lo, hi int, ok bool) {
	if n == 0 || confidence >= 100 {
		return 0, 0, false
	}
	// Twenty standard deviations below the middle the sum is below 1e-86, and
	// beginning at zero would underflow.
	miss := 1 - confidence/100
	lo = max(0, n/2-int(10*math.Sqrt(float64(n))))
	p, below := halfBinomial(n, lo), 0.0 // P(B = lo), P(B < lo)
	for lo < (n+1)/2 && 2*(below+p) <= miss {
		below += p
		p = p * float64(n-lo) / float64(lo+1) // in this order exact as long as C(n, lo) is
		lo++
	}
	return lo, n + 1 - lo, lo > 0
}

// halfBinomial returns the probability of k heads in n tosses.
func halfBinomial(n, k int) float64 {
	if k == 0 {
		return math.Ldexp(1, -n) // exactly
	}
	logFactorial := func(n int) float64 {
		v, _ := math.Lgamma(float64(n) + 1)
		return v
	}
	return math.Exp(logFactorial(n) - logFactorial(k) - logFactorial(n-k) - float64(n)*math.Ln2)
}
