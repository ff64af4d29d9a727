package subscription

import (
	"context"
	"errors"
	"time"
)

// ErrBusy: as many requests wait to be settled as Config.MaxPending allows, or a
// Store does. Handlers answer 503 with Retry-After.
var ErrBusy = errors.New("too many requests wait to be verified")

// Errors of Submit that concern one host or one client alone. Each is within a *Later.
// Handlers answer 429 with Retry-After.
var (
	// ErrHostBusy: too many requests wait for one site, that of the callback or of the
	// topic; or fewer where it is in bad standing (Config.BadAfter).
	ErrHostBusy = errors.New("too many requests wait for one host")
	// ErrClientBusy: too many requests of one client wait.
	ErrClientBusy = errors.New("too many requests of one client wait")
)

// Later says that the same call may succeed after a while.
type Later struct {
	Err   error
	After time.Duration
}

// Error reports what is in the way.
func (l *Later) Error() string { return l.Err.Error() }

// Unwrap returns Err.
func (l *Later) Unwrap() error { return l.Err }

// later returns how long an error says to wait, or the pause where it does not say.
func later(err error, pause time.Duration) time.Duration {
	if l := (*Later)(nil); errors.As(err, &l) && l.After > 0 {
		return l.After
	}
	return pause
}

// Refusal is a Validator's definitive no. Reason goes to the subscriber as
// hub.reason.
type Refusal struct{ Reason string }

// Error returns the reason.
func (r *Refusal) Error() string { return r.Reason }

// Validator checks topics before anyone may subscribe to them (WebSub §5.2).
// It is called from several goroutines and gives up when ctx ends.
type Validator interface {
	// Validate returns nil if the topic names this hub and a *Refusal if it
	// definitely does not. ErrBusy says that it had no time to ask. Any other
	// error says that it could not tell. In both cases it is asked again.
	Validate(ctx context.Context, topic string) error
}

// Errors that a Confirmer returns, wrapped.
var (
	// ErrNoIntent: the callback answered, but not with 2xx and exactly the
	// challenge (WebSub §5.3.1).
	ErrNoIntent = errors.New("the callback did not confirm")
	// ErrNoAnswer: nothing that counts as an answer came from the callback.
	ErrNoAnswer = errors.New("the callback did not answer")
)

// Confirmer speaks to callbacks. It is called from several goroutines, but by one
// process for one topic and callback never twice at once, and gives up when ctx ends.
type Confirmer interface {
	// Confirm asks the callback whether it intends what r says (WebSub §5.3). It returns nil for 2xx with
	// exactly the challenge, ErrNoIntent for any other answer, and ErrNoAnswer without one.
	Confirm(ctx context.Context, r Request, challenge string) error
	// Deny sends the callback hub.mode=denied (WebSub §5.2). It returns nil for any answer, and
	// ErrNoAnswer without one.
	Deny(ctx context.Context, topic, callback, reason string) error
}

// Roster follows the subscriptions that begin and end, for delivery. Its methods are called in the
// order in which the store changed; they must not call back into the Service.
type Roster interface {
	// Head returns the sequence number of the topic's last notification. An
	// error counts as trouble with the store.
	Head(ctx context.Context, topic string) (uint64, error)
	// Activated adds a subscription that is new, renewed, or to be looked at again; it may be called twice
	// for the same one.
	Activated(Subscription)
	// Ended removes a subscription that is gone; it may be one that the Roster does not have.
	Ended(ID)
}
