package report

import (
	"math/bits"
	"time"
)

const (
	// latencyUnit is what the first buckets are apart, as a power of two of
	// nanoseconds: 16 microseconds.
	latencyUnit = 14
	// latencyBuckets reach beyond two minutes. The last one takes all that is longer.
	latencyBuckets = 88
)

// Latency counts attempts by how long they took, in buckets of which each is a quarter
// wider than the one before or less.
type Latency [latencyBuckets]uint64

// Note counts an attempt.
func (l *Latency) Note(took time.Duration) { l[latencyBucket(took)]++ }

// latencyBucket is the bucket of a time: four to each power of two.
func latencyBucket(took time.Duration) int {
	units := uint64(max(took, 0)) >> latencyUnit
	if units < 4 {
		return int(units)
	}
	octave := bits.Len64(units) - 3
	return min(4*octave+int(units>>octave), latencyBuckets-1)
}

// latencyBound is where a bucket ends.
func latencyBound(bucket int) time.Duration {
	if bucket < 4 {
		return time.Duration(bucket+1) << latencyUnit
	}
	octave := bucket/4 - 1
	return time.Duration(bucket-4*octave+1) << (octave + latencyUnit)
}

// Minus returns what came since an earlier one of the same Dispatcher.
func (l Latency) Minus(earlier Latency) Latency {
	for i := range l {
		l[i] -= min(l[i], earlier[i])
	}
	return l
}

// Quantile returns the time that a part q, from 0 to 1, of the attempts took at most. The attempts are
// spread over the bucket, which makes it a quarter too much or too little at worst. It is 0 without
// attempts.
func (l Latency) Quantile(q float64) time.Duration {
	var all uint64
	for _, n := range l {
		all += n
	}
	rank, below := q*float64(all), 0.0
	for i, n := range l {
		if n == 0 {
			continue
		}
		if here := float64(n); below+here < rank && below+here < float64(all) {
			below += here
			continue
		}
		first := time.Duration(0)
		if i > 0 {
			first = latencyBound(i - 1)
		}
		return first + time.Duration((rank-below)/float64(n)*float64(latencyBound(i)-first))
	}
	return 0
}
