// Package follow keeps a Destination in step with a Source: it takes pushed notifications, sees what
// is missing, catches up on it, and hands every change on, in order.
//
//	push ──▶ Inbox (durable) ──▶ ┌───────────┐
//	                             │ in order? │── yes ──▶ Taker ──▶ Position (durable)
//	hub's memory, ◀── a gap ──── │           │               ▲
//	Change Lists  ───────────────┴───────────┴── changes ────┘
//	   ▲
//	   └── polled, where push is silent or the hub is gone
//
// Guarantees: changes are handed on in the order of their datetimes, each once, with two exceptions.
// The last ones before a crash may be handed on again under the same Key, and so may those that two
// ways describe in different words. A notification is acknowledged to the hub only when it is in the
// Inbox. Changes that neither the hub's memory nor the Source's lists have are never passed over in
// silence (ErrGap, and Config decides what happens then).
//
// Intervals are half-open. A notification [from, until) whose from is the position, or earlier, is
// handed on from the position on; one that begins later shows a gap. A gap is believed when nothing
// else came for Config.Settle, and filled from the hub's memory, then from the Source's Change Lists,
// up to where that notification begins. An open Change List fills it only if it has something at or
// after the end of the gap; else it is asked again. A change that a list lacked is handed on late when
// its notification comes, but never after a later one of its resource, as far as this process knows.
// Notifications that come meanwhile wait in the Inbox, which is bounded: the hub is then asked to come
// again later.
//
// A Source that breaks the rules of core §12 and CN §3 is followed as far as that goes. Changes out of
// order within a notification are put in order. Those without a datetime are handed on where they
// stand, and recognized by their content in one list. A notification without an interval and a
// datetime stands behind everything that came before it.
package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon/destination/lists"
	"carillon/internal/legible"
	"carillon/payload"
)

// Via says by what way a change came.
type Via string

// The ways.
const (
	Push         Via = "push"
	ChangeMemory Via = "memory"       // the hub's
	ChangeList   Via = "changelist"   // the Source's
	ResourceList Via = "resourcelist" // the Source's state, as a baseline
)

// Change is one change that is handed on.
type Change struct {
	payload.Entry
	// Key is the same whenever this change is handed on again, and no other
	// change of the Source has it: an idempotency key.
	Key string
	Via Via
	// Notification is the ID of the notification that it came by; empty if by none.
	Notification string
}

// Taker gets the changes.
type Handler interface {
	// Handle is given changes in order, at least one, and returns how many of them, from the first, are
	// done with for good. The rest is given again, after a pause where there is an error. It is called by
	// one goroutine.
	Handle(ctx context.Context, changes []Change) (done int, err error)
}

// Position is how far changes have been handed on.
type Position struct {
	// At: every change before it was handed on; zero while no position is known.
	At time.Time
	// Keys are those with a datetime of At or later that were, and those without one
	// that may be read again.
	Keys []string
	// Assumed: nothing was handed on yet, and At is when following began, by the Destination's clock and
	// somewhat before. The Source's first time takes its place.
	Assumed bool
}

// Pushed is a notification that was acknowledged and is not handed on yet.
type Pushed struct {
	// ID is the hub's X-Hub-Notification-Id, or a digest.
	ID string
	// From and Until are the covered interval (CN §3). Where it is unknown, Until is zero, and From is
	// behind all earlier ones.
	From, Until time.Time
	Body        []byte
}

// Store is the durable memory of a Follower. A method's changes are durable when it returns nil, and
// whole or not there. Its methods may be called from any goroutine; Advance by one.
type Store interface {
	// Position is zero at first.
	Position(ctx context.Context) (Position, error)
	// Keep puts a notification into the inbox; one with the same ID is kept once.
	Keep(ctx context.Context, p Pushed) error
	// First returns the kept one with the earliest From, and of those the earliest Until; ErrNothing
	// without one. One that can never be read back is a *DamagedError, until Advance has dropped it.
	First(ctx context.Context) (Pushed, error)
	// Kept is how many there are, and how many bytes they take.
	Kept(ctx context.Context) (n int, bytes int64, err error)
	// Advance moves the position and drops the notifications with the IDs, in
	// one step.
	Advance(ctx context.Context, to Position, drop ...string) error
}

// Errors of following.
var (
	// ErrUnavailable: the Store cannot be read or written now; trying again may help.
	ErrUnavailable = errors.New("the store is unavailable")
	// ErrNothing: the inbox is empty.
	ErrNothing = errors.New("the inbox is empty")
	// ErrGap: changes are missing, and are kept nowhere any more.
	ErrGap = errors.New("changes are missing, and neither the hub's memory nor the Source's lists have them")
)

// DamagedError says of a notification in the inbox that it cannot be read back.
type DamagedError struct {
	ID  string
	Err error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("the notification %q in the inbox is damaged: %v", legible.Cut(e.ID), e.Err)
}

func (e *DamagedError) Unwrap() error { return e.Err }

// Lists reads documents of changes: *lists.Client does.
type Lists interface {
	// Changes visits every change with a datetime of since or later that the Change List at uri has, or
	// the index there leads to, in order; entries without a datetime are visited too. It returns
	// lists.ErrGone where the list begins later than since. It calls lists.Begins with the list of the
	// changes that come next.
	Changes(ctx context.Context, uri string, since time.Time, visit func(payload.Entry) error) (lists.Covered, error)
}
