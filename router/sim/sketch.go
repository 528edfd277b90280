package sim

import (
	"encoding/binary"
	"errors"
	"math"
)

// Sketch counts positive values in buckets that grow with them, so that its
// memory does not depend on how many there are: 64 buckets per factor of two, from
// a microsecond to 12 days when values are seconds. A quantile is right to one
// part in 128. The zero value is ready.
type Sketch struct {
	counts [sketchBuckets]uint64
	n      uint64
}

const (
	sketchBits    = 6                                      // of the mantissa
	sketchLow     = 1003                                   // biased exponent of 2^-20
	sketchHigh    = 1043                                   // of 2^20
	sketchBuckets = (sketchHigh-sketchLow)<<sketchBits + 2 // one below, one above
	sketchFirst   = sketchLow << sketchBits                // bucket number of 2^-20
	sketchShift   = 52 - sketchBits                        // mantissa bits dropped
	sketchError   = 1.0 / (1 << (sketchBits + 1))          // relative
)

// Add counts v. A NaN counts as above all.
func (s *Sketch) Add(v float64) { s.addMany(v, 1) }

// addMany counts v as often as times says.
func (s *Sketch) addMany(v float64, times uint64) {
	s.n += times
	if v <= 0 {
		s.counts[0] += times
		return
	}
	k := int(math.Float64bits(v)>>sketchShift) - sketchFirst + 1
	s.counts[max(0, min(k, sketchBuckets-1))] += times
}

// Count is how many values were added.
func (s *Sketch) Count() uint64 { return s.n }

// Quantile is the value below which the part q in [0, 1] of the values lies; NaN
// where there are none.
func (s *Sketch) Quantile(q float64) float64 {
	if s.n == 0 {
		return math.NaN()
	}
	rank := uint64(math.Ceil(q * float64(s.n)))
	rank = max(1, min(rank, s.n))
	seen := uint64(0)
	for k, c := range s.counts {
		if seen += c; seen >= rank {
			if k == 0 {
				return 0
			}
			return sketchValue(k)
		}
	}
	return math.Inf(1)
}

// sketchValue is the middle of a bucket.
func sketchValue(k int) float64 {
	low := math.Float64frombits(uint64(k-1+sketchFirst) << sketchShift)
	high := math.Float64frombits(uint64(k+sketchFirst) << sketchShift)
	return (low + high) / 2
}

// Merge adds the values of other.
func (s *Sketch) Merge(other *Sketch) {
	s.n += other.n
	for k, c := range other.counts {
		s.counts[k] += c
	}
}

// MarshalBinary writes the buckets in use: number of the bucket since the last one
// and count, as varints. It never fails.
func (s *Sketch) MarshalBinary() ([]byte, error) {
	var out []byte
	last := 0
	for k, c := range s.counts {
		if c > 0 {
			out = binary.AppendUvarint(out, uint64(k-last))
			out = binary.AppendUvarint(out, c)
			last = k
		}
	}
	return out, nil
}

// UnmarshalBinary reads what MarshalBinary wrote and replaces s. The error says that
// it was not that, and s is then unchanged.
func (s *Sketch) UnmarshalBinary(data []byte) error {
	var out Sketch
	for k := uint64(0); len(data) > 0; {
		step, n := binary.Uvarint(data)
		if n <= 0 || step >= sketchBuckets {
			return errSketch
		}
		count, m := binary.Uvarint(data[n:])
		if k += step; m <= 0 || count == 0 || k >= sketchBuckets || out.counts[k] != 0 || out.n+count < out.n {
			return errSketch
		}
		out.counts[k] = count
		out.n += count
		data = data[n+m:]
	}
	*s = out
	return nil
}

var errSketch = errors.New("sim: not an encoded sketch")
