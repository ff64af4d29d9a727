// Package transfer carries the whole state of a hub from one engine to another, or back into the same,
// as a stream of JSON lines.
//
// # The stream
//
// One JSON object is one line; its kind stands first. The lines come in this order:
//
//	header         format, version, time, hub, engine
//	source         each registered Source with the SHA-256 of its token, by name
//	topic          each topic's log, by topic; and after it, oldest first,
//	  notification     what its log still keeps
//	request        each request that is not settled, by shard and ID
//	ping           each topic that waits for its fetch, by topic
//	subscription   each subscription with its position, by shard and ID; and after it
//	  gap              what it will not get, oldest first
//	end            how many there were of each kind, and the SHA-256 of all lines before
//
// Two exports of the same state are the same, byte for byte, except for the header's time. Times are
// RFC 3339, to the nanosecond, in UTC. A string that is not UTF-8 is {"base64": "…"}. SECRETS ARE IN
// THE STREAM: every reader of it can sign in the hub's name. Tokens of Sources are not.
//
// Lines of earlier versions have fewer fields, and are understood, too.
//
// # Guarantees
//
// After an import every subscription gets the notification next that it would have got from the
// source, and each topic goes on with the memory of its last publications. Lease epochs and the counts
// of pings are the engine's own and are not carried.
//
// Subscriptions come last. A half filled target then lacks subscriptions; it does not have
// subscriptions that pass over their notifications. Such an import is repeated, with Options.Merge.
//
// A stream that was cut off, or in which a byte has changed, is an error (ErrCutOff, ErrDamaged). From
// a stream that can be read twice, Verify finds it before anything is written.
//
// Neither direction holds more than one notification and a few batches in memory, beside the names of
// the topics and one shard's subscriptions.
//
// # Limits
//
// The export of an engine on which hubs are working is not a single moment in time: changes meanwhile
// may be in it or not. No subscription in it has settled more than the topic's log in it has, so
// nothing is lost by that; deliveries made meanwhile may come twice.
package transfer

import (
	"context"

	"carillon/delivery"
	"carillon/source"
	"carillon/subscription"
)

// Source is an engine that is read. Its parts are the ones that a hub works with.
type Source struct {
	Subscriptions subscription.Requests
	Cursors       delivery.Cursors
	Log           delivery.Log
	Pings         delivery.Pings
	Sources       source.Store // nil: it has none
}

// Target is an engine that takes in a stream, beside the interfaces that the hub works with. The
// records of a call are durable when it returns nil, and each call may be repeated: existing records
// are overwritten. Nothing else works on the engine meanwhile.
//
// A topic's notifications are put in order, and all of them before its state.
type Target interface {
	// Empty reports whether nothing at all is kept.
	Empty(ctx context.Context) (bool, error)
	// PutMembers stores subscriptions with their positions.
	PutMembers(ctx context.Context, members []delivery.Member) error
	// PutGaps stores gaps of subscriptions that were put before.
	PutGaps(ctx context.Context, gaps []delivery.Gap) error
	// PutTopics stores the state of topics' logs: Topic, Head and Last.
	PutTopics(ctx context.Context, topics []delivery.TopicState) error
	// PutNotifications stores notifications under the numbers that they have.
	PutNotifications(ctx context.Context, notifications []*delivery.Notification) error
}

// Engine is an engine that is written.
type Engine struct {
	Source
	Target Target
}
