package telemetry

import (
	"math"
	"math/bits"
	"time"
)

// steps divide each power of ten: each is at most a seventh above the one before, so
// that a quantile read from buckets is right to a seventh.
var steps = [...]uint64{100, 110, 125, 140, 160, 180, 200, 225, 250, 280, 320, 360, 400, 450, 500, 560, 630, 710, 800, 900}

const (
	// shortest is the upper bound of the first bucket in nanoseconds.
	shortest = 100_000
	decades  = 6
	// bucketCount is the number of buckets; the last has no upper bound.
	bucketCount = len(steps)*decades + 2
)

// bounds are the upper bounds of all buckets but the last in nanoseconds, from 100 µs
// to 100 s. Minutes are stored by the indices of buckets: another layout needs
// another packedVersion.
var bounds = func() [bucketCount - 1]uint64 {
	var b [bucketCount - 1]uint64
	unit := uint64(shortest)
	for decade := range decades {
		for i, s := range steps {
			b[decade*len(steps)+i] = unit * s / 100
		}
		unit *= 10
	}
	b[len(b)-1] = unit
	return b
}()

// firstBucket is the first bucket that may hold a number of so many bits.
var firstBucket = func() [65]uint8 {
	var first [65]uint8
	for n := 1; n < len(first); n++ {
		i := 0
		for i < len(bounds) && bounds[i] < 1<<(n-1) {
			i++
		}
		first[n] = uint8(i)
	}
	return first
}()

// bucketOf is the index of the bucket that d falls into.
func bucketOf(d time.Duration) int {
	n := uint64(max(d, 0))
	i := int(firstBucket[bits.Len64(n)])
	for i < len(bounds) && bounds[i] < n {
		i++
	}
	return i
}

// Histogram counts durations by bucket.
type Histogram [bucketCount]uint64

// Count is the number of durations in it.
func (h *Histogram) Count() uint64 {
	var n uint64
	for _, c := range h {
		n += c
	}
	return n
}

// Add adds the durations of another.
func (h *Histogram) Add(other *Histogram) {
	for i, c := range other {
		h[i] += c
	}
}

// Quantile estimates the duration that a share q of all, 0 to 1, do not exceed; 0
// without any. Durations above 100 s count as 100 s.
func (h *Histogram) Quantile(q float64) time.Duration {
	all := h.Count()
	if all == 0 {
		return 0
	}
	rank := max(1, math.Ceil(q*float64(all)))
	below := 0.0
	for i, c := range h {
		if below+float64(c) < rank {
			below += float64(c)
			continue
		}
		if i == len(bounds) {
			break
		}
		low := 0.0
		if i > 0 {
			low = float64(bounds[i-1])
		}
		return time.Duration(low + (float64(bounds[i])-low)*(rank-below-.5)/float64(c))
	}
	return time.Duration(bounds[len(bounds)-1])
}
