package notifier

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// Errors that the engines return, wrapped.
var (
	// ErrUnavailable: the journal cannot take or give anything at the moment;
	// the same call may succeed later. Intake answers 503 with Retry-After.
	ErrUnavailable = errors.New("the journal is not available")
	// ErrNoSet: an event names a set that has no channel; nothing was appended.
	ErrNoSet = errors.New("no such set")
	// ErrOutOfOrder: the notification is not the next one, or not the one
	// that is outstanding; nothing was changed.
	ErrOutOfOrder = errors.New("the notification is out of order")
	// ErrGone: the bytes of that notification are not kept (any more).
	ErrGone = errors.New("the notification is not kept any more")
)

// Notification is a sealed change notification of one set, without its bytes.
type Notification struct {
	Set string
	// From and Until are the interval that it covers (CN §3), in whole
	// microseconds.
	From, Until time.Time
	Entries     int
	// Size is how many bytes it has.
	Size int64
}

// Channel is how far the notifications of one set have come.
type Channel struct {
	Set string
	// Next is the From of the next notification to be sealed: the Until of the
	// one sealed last, or the time when the channel was made. Events
	// with a datetime of Next or later are in no notification yet.
	Next time.Time
	// Sealed is the notification that is sealed and not accepted, or nil. There is never more than one.
	Sealed *Notification
	// Accepted is the notification that the hub accepted last; nil before the first.
	Accepted *Notification
}

// Journal keeps events in the order of their acceptance, and the notifications made of them. All
// datetimes are whole microseconds.
//
// A method's changes are durable when it returns nil, and every change is made whole or not at all.
// When a method returns an error the change may or may not have been made: Open shows which. Append,
// Events and Body may be called from any goroutine; Seal and Accept of one set by one goroutine at a
// time. Trouble with the engine itself is wrapped as ErrUnavailable. No method keeps its arguments
// after it returned.
//
// The caller passes the time: now may step back and forth between calls, the datetimes of the journal
// only rise.
type Journal interface {
	// Open returns the channel of a set, made at the time now (or just after
	// the journal's last datetime, if that is later) where it is new.
	Open(ctx context.Context, set string, now time.Time) (Channel, error)

	// Append adds the events, in their order, to each of the sets that they
	// name; all or none. Each event gets a datetime greater than every
	// datetime before it, in whichever set: the one it brings (Entry.Datetime)
	// where that lies after the journal's last and not after now; else now, or
	// just after the journal's last datetime if that is later. Events with
	// smaller datetimes are visible to Events before greater ones. Appends
	// that run at the same time share what durability costs. ErrNoSet if
	// a set has no channel.
	Append(ctx context.Context, events []Event, now time.Time) error

	// Last returns the datetime of the newest event, in whichever set, or a later
	// one that no event to come will have or be before. Every event dated so or
	// before is durable when it returns.
	Last(ctx context.Context) (time.Time, error)

	// Events gives the events of a set with a datetime of from or later, with
	// their datetimes and without their Sets, oldest first. Breaking off
	// early costs nothing.
	Events(ctx context.Context, set string, from time.Time) iter.Seq2[Event, error]

	// Seal stores the next notification of n.Set with its bytes. ErrOutOfOrder
	// unless n.From is the channel's Next, n.Until is later, and no other is outstanding.
	Seal(ctx context.Context, n Notification, body []byte) error

	// Body reads the bytes of the outstanding notification, or of the last accepted one; ErrGone for any
	// other. An opened body can be read to its end, whatever happens meanwhile. Its Close may be called
	// twice, and while Read is running.
	Body(ctx context.Context, n Notification) (io.ReadCloser, error)

	// Accept records that the hub took the outstanding notification, which
	// becomes the channel's Accepted; the bytes of the one before may go. Events
	// of the set that are dated before keepFrom may go, too, if they are in
	// accepted notifications and in no list of Lists. No error if n is the one accepted last;
	// ErrOutOfOrder if it is neither.
	Accept(ctx context.Context, n Notification, keepFrom time.Time) error
}

// errChanged: the journal gave other events than before, which it must not.
var errChanged = errors.New("the events of the notification changed while it was made")
