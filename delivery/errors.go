package delivery

import (
	"errors"
	"fmt"

	"carillon/subscription"
)

// Errors that the engines return, wrapped.
var (
	// ErrUnavailable: the engine cannot take or give anything at the moment;
	// the same call may succeed later. Handlers answer 503 with Retry-After.
	ErrUnavailable = subscription.ErrUnavailable
	// ErrEndOfLog: the log has no notification at or after the place asked for.
	ErrEndOfLog = errors.New("end of the topic's log")
	// ErrFenced: the shard belongs to another process by now; nothing of the
	// batch for that shard was written.
	ErrFenced = errors.New("the shard has another owner")
)

// FencedError names the shards whose batches were refused. It is ErrFenced.
type FencedError struct {
	Shards []subscription.Shard
}

// Error says how many shards were lost.
func (e *FencedError) Error() string { return ErrFenced.Error() }

// Unwrap makes errors.Is(err, ErrFenced) true.
func (e *FencedError) Unwrap() error { return ErrFenced }

// ErrPartAway is ErrUnavailable for what one part of the engine keeps. The other
// parts may work.
var ErrPartAway = partAway{}

type partAway struct{}

func (partAway) Error() string { return "a part of the store is away" }

// Unwrap makes errors.Is(err, ErrUnavailable) true.
func (partAway) Unwrap() error { return ErrUnavailable }

// HeadsError names the topics whose heads were not read, as the part of the engine that keeps
// them is away. It is ErrPartAway.
type HeadsError struct {
	Unread []int // indexes of those topics, as they were asked for
	Err    error // of one of them
}

// Error gives the reason why.
func (e *HeadsError) Error() string { return e.Err.Error() }

// Unwrap makes errors.Is(err, ErrPartAway) true.
func (e *HeadsError) Unwrap() []error { return []error{ErrPartAway, e.Err} }

// SaveError names the shards whose batches may not be written, as the part of the engine that
// keeps them is away. It is ErrPartAway.
type SaveError struct {
	Shards []subscription.Shard
	Err    error // of one of them
}

// Error gives the reason why.
func (e *SaveError) Error() string { return e.Err.Error() }

// Unwrap makes errors.Is(err, ErrPartAway) true.
func (e *SaveError) Unwrap() []error { return []error{ErrPartAway, e.Err} }

// An operator's action on one subscription fails with one of these, wrapped with the reason; or with
// ErrUnavailable.
var (
	// ErrNotHeld: this process does not own the shard of the subscription, is not sure
	// that it does, or is about to hand it over.
	ErrNotHeld = errors.New("another process delivers to the subscription")
	// ErrNoSubscription: no subscription has this ID.
	ErrNoSubscription = errors.New("there is no such subscription")
	// ErrNothingToDo: there is nothing that the subscription is to get.
	ErrNothingToDo = errors.New("there is nothing to deliver")
	// ErrUnderWay: it happens at this very moment.
	ErrUnderWay = errors.New("it is under way")
)

// NotKeptError says that a replay was to begin before what the log still has.
type NotKeptError struct {
	First Seq // the oldest number that is kept; above the head where nothing is
}

// Error says what is kept.
func (e *NotKeptError) Error() string {
	return fmt.Sprintf("the log no longer has it: the oldest notification that is kept has number %d", e.First)
}
