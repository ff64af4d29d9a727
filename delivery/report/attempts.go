package report

import (
	"time"

	"carillon/delivery"
)

// Attempt is what is remembered of an attempt that came to an end.
type Attempt struct {
	At     time.Time // its end
	Took   time.Duration
	Seq    delivery.Seq // of its notification
	Number uint32       // as Attempt.Number
	Class  delivery.Class
	Status uint16 // 0: there was no answer
	// Error says why there was none, in our words: never what the callback's server said.
	Error  string
	Replay bool // it was a part of a replay
}
