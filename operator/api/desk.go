package api

import (
	"context"
	"iter"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/operator"
	"carillon/source"
	"carillon/subscription"
)

// Service answers operators' questions, and carries out their orders. operator.Desk is one; errors are
// those of package operator. Its methods may be called from any goroutine. Each change is logged, with
// its object.
type Service interface {
	HubService
	TopicService
	SubscriptionService
	SourceService
}

// HubService is about the hub as a whole, and about what a Source and a topic do at this moment.
type HubService interface {
	Overview(ctx context.Context) (operator.Overview, error)
	// Listen subscribes the hub itself to the topic and yields what it hears, until ctx
	// ends or the loop does; then the subscription is gone.
	Listen(ctx context.Context, topic string) iter.Seq2[operator.TestEvent, error]
	// Check looks at what a Source serves, from these URLs on, and yields what is wrong with
	// it, and at last a summary.
	Check(ctx context.Context, places []string) iter.Seq2[operator.Checked, error]
}

// TopicService is about topics and their notifications.
type TopicService interface {
	Topics(ctx context.Context, q operator.TopicQuery) (operator.TopicPage, error)
	Topic(ctx context.Context, topic string) (operator.Topic, error)
	// Notifications gives those of a topic with numbers below before, 0: the newest.
	Notifications(ctx context.Context, topic string, before delivery.Seq, limit int) (operator.NotificationPage, error)
	// Notification finds one by its ID. Where topic is empty all logs are looked through.
	Notification(ctx context.Context, topic string, id uuid.UUID) (operator.NotificationDetail, error)
	// Trim removes the notifications of a topic before a number, also those that a subscription waits for,
	// which then has a gap.
	Trim(ctx context.Context, topic string, before delivery.Seq) (operator.TrimResult, error)
}

// SubscriptionService is about subscriptions.
type SubscriptionService interface {
	Subscriptions(ctx context.Context, q operator.SubscriptionQuery) (operator.SubscriptionPage, error)
	Subscription(ctx context.Context, id subscription.ID) (operator.SubscriptionDetail, error)
	// Retry makes the next attempt of a subscription now.
	Retry(ctx context.Context, id subscription.ID) error
	// Replay delivers from..last once more; last 0: up to the head.
	Replay(ctx context.Context, id subscription.ID, from, last delivery.Seq) (operator.Replay, error)
	// Remove ends a subscription and sends its callback hub.mode=denied with the reason (WebSub §5.2).
	Remove(ctx context.Context, id subscription.ID, reason string) error
}

// SourceService is about who may publish.
type SourceService interface {
	Sources(ctx context.Context) ([]operator.Source, error)
	// AddSource registers a Source. Where hash is zero a token is made and returned.
	AddSource(ctx context.Context, name string, prefixes []string, hash source.Hash) (operator.NewSource, error)
	RotateSource(ctx context.Context, name string, hash source.Hash) (operator.NewSource, error)
	RevokeSource(ctx context.Context, name string) error
}
