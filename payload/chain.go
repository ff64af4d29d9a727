package payload

import (
	"time"
)

// Joint is how a document of changes follows on the one before it (core §12.2).
type Joint int

// The joints.
const (
	Joined  Joint = iota // no fault, as far as the times are known
	Early                // it begins before the other begins
	NoEnd                // the other has no end
	Overlap              // it begins before the other ends: changes may be in both
	Gap                  // it begins after the other ends: changes may be in neither
)

// Join returns how a document that begins at next follows on one that covers the interval. A zero
// time is unknown. open: the interval has no end.
func (iv Interval) Join(next time.Time, open bool) Joint {
	switch {
	case next.IsZero():
		return Joined
	case next.Before(iv.From):
		return Early
	case open:
		return NoEnd
	case iv.Until.IsZero():
		return Joined
	case next.Before(iv.Until):
		return Overlap
	case next.After(iv.Until):
		return Gap
	}
	return Joined
}
