package report

import "carillon/delivery"

// Totals are counts since the Dispatcher was made, and some of the moment: two of them
// tell what happened between.
type Totals struct {
	Attempts  [delivery.Classes]uint64 // by Class
	Latency   Latency                  // of the same attempts
	Published uint64                   // accepted, repeated ones not included
	Behind    int                      // subscriptions that have something to get
	Failing   int                      // of which the last attempt failed
	// HeldBytes are those of the bodies that attempts under way hold, of those that
	// count for Config.MaxBytes, which is MaxHeldBytes.
	HeldBytes, MaxHeldBytes int64
}

// TopicCount is how things stand with the subscriptions to a topic.
type TopicCount struct {
	Topic         string // its key (topic.Key)
	Subscriptions int    // in the shards that this process owns
	Behind        int    // have something to get
	Failing       int    // whose last attempt failed
	// Breaks are the continuity breaks in what this process accepted since it began.
	Breaks int
}

// Stats is the state of a Dispatcher in counts.
type Stats struct {
	Shards        int // owned and read
	Loading       int // owned and being read: their deliveries are still to begin
	Topics, Hosts int // with subscriptions in those shards
	Subscriptions int
	Ready         int // have something to send and wait for their turn
	Waiting       int // back off after a failure
	InFlight      int // attempts under way, slow ones included
	Slow          int
	Unsaved       int  // outcomes whose positions are not saved yet
	Away          int  // shards of which no attempts start, as their part of the engine is away
	Paused        bool // no attempts start, as the engine is away
	Unsure        bool // no attempts start, as another process may own the shards by now
}
