package report

// LatencyBuckets is how many there are, LatencyBucket the one of a time, and LatencyBound
// where one ends.
const LatencyBuckets = latencyBuckets

var (
	LatencyBucket = latencyBucket
	LatencyBound  = latencyBound
)
