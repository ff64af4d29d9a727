package subscription

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Errors that a Store returns, wrapped.
var (
	// ErrNotFound: there is no such subscription.
	ErrNotFound = errors.New("no such subscription")
	// ErrSuperseded: a later request for the same topic and callback has
	// taken the place of the one being settled; nothing was changed.
	ErrSuperseded = errors.New("a later request took its place")
	// ErrUnavailable: the store cannot take or give anything at the moment;
	// the same call may succeed later. Handlers answer 503 with Retry-After.
	ErrUnavailable = errors.New("the store is not available")
)

// Store keeps subscriptions and the requests that are not settled yet.
//
// Every method that changes something is atomic, and what it changed is
// durable when it returns nil. When it returns an error the change may or may
// not have been made: each is safe to repeat. All methods may be called from any
// goroutine. Trouble with the engine itself is wrapped as ErrUnavailable. A
// context that is done already changes nothing and comes back as its error.
// Strings come back byte for byte and times as the same instant.
type Store interface {
	Requests
	Subscriptions
}

// Requests keeps the requests that are not settled yet, as a Store does. Settling one changes
// its subscription too.
type Requests interface {
	// Submit keeps a request until it is settled. An earlier request with
	// the same ID is replaced: r.Replacing(earlier) is stored. The subscription
	// itself is not touched.
	// ErrBusy where the engine bounds what waits, and it is full.
	Submit(ctx context.Context, r Request) error

	// KeepStart stores start with the pending request, before its callback is asked:
	// stored.StartingAt(start). It returns the request as it is stored then.
	// ErrSuperseded if the stored request has another token or is gone.
	KeepStart(ctx context.Context, r Request, start uint64) (Request, error)

	// Requests gives every request of the shard that is not settled, in no particular order, for its owner
	// to carry on.
	Requests(ctx context.Context, shard Shard) iter.Seq2[Request, error]

	// Request returns the request with the ID that is not settled, or ErrNotFound.
	Request(ctx context.Context, id ID) (Request, error)

	// Activate settles a subscribe request: sub replaces the record under its ID (the caller keeps Created
	// and Start on a renewal), and the request is gone. It is ErrSuperseded if the stored request has
	// another token or is gone. The latter also holds when this very call was made before: Get then finds
	// its result.
	Activate(ctx context.Context, r Request, sub Subscription) error

	// Drop settles a request without touching the subscription.
	// No error if the stored request has another token or is gone.
	Drop(ctx context.Context, r Request) error

	// Unsubscribe settles an unsubscribe request: the subscription and what
	// delivery keeps of it are gone, with the request. No error if there
	// was no such subscription.
	// ErrSuperseded if the stored request has another token or is gone, as it
	// is when this very call was made before.
	Unsubscribe(ctx context.Context, r Request) error
}

// Subscriptions keeps the subscriptions, as a Store does.
type Subscriptions interface {
	// Get returns one subscription, or ErrNotFound.
	Get(ctx context.Context, id ID) (Subscription, error)

	// Remove ends a subscription without a request: its lease is over, its callback answered 410, or its
	// topic left the hub. Only a subscription that still expires at sub.Expires is removed, so that a
	// renewal in between stands; removed reports which. A request that is under way stays.
	Remove(ctx context.Context, sub Subscription) (removed bool, err error)

	// Expired returns up to limit subscriptions of the shard with Expires <=
	// now, those that ended first leading.
	Expired(ctx context.Context, shard Shard, now time.Time, limit int) ([]Subscription, error)
}
