// Package transfer carries the whole state of a hub from one engine to another, or
// back into the same, as a stream of JSON lines.
package transfer

import (
	"context"

	"carillon/delivery"
	"carillon/subscription"
)

// Source is an engine that is read. Its parts are the ones that a hub works with.
type Source struct {
	Subscriptions subscription.Store
	Cursors       delivery.Cursors
	Log           delivery.Log
	Pings         delivery.Pings
}

// Target is an engine that takes in what a stream holds, beside what the hub works
// with. What a call has put is durable when it returns nil, and each call may
// be repeated: records that are there already are overwritten. Nothing else
// works on the engine meanwhile.
type Target interface {
	// Empty tells whether nothing at all is kept.
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
