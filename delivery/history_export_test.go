package delivery

import "time"

// ErrorText says why an attempt had no answer.
var ErrorText = errorText

// LatencyBuckets is how many there are, LatencyBucket the one of a time, and LatencyBound
// where one ends.
const LatencyBuckets = latencyBuckets

var (
	LatencyBucket = latencyBucket
	LatencyBound  = latencyBound
)

// Note counts an attempt.
func (l *Latency) Note(took time.Duration) { l.note(took) }
