package hub

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	registered "carillon/source"
	"carillon/subscription"
)

// Parts are what a Hub works with. Three may be missing. Without Sources every client may publish, and
// a token that is sent is not looked at. Without Answers no Source can ask for the outcome of its
// publications. Without Memory the hub has no change memory.
//
// Transport makes the requests to topics and callbacks, which are GET and HEAD. It asks for no
// compression and refuses forbidden addresses with egress.ErrForbidden, as that of a send.HTTPSender
// does. It is not an http.Client, which would read the Location of a redirect that is never followed,
// and put the address into every error.
type Parts struct {
	Requests  Requests
	Publisher Publisher
	Audience  Audience
	Pings     delivery.Pings
	Checker   *Checker
	Transport http.RoundTripper
	Addresses Addresses
	Sources   Sources
	Answers   Answers
	Memory    Memory
	// Surety says until when each shard is surely this process's. After that no fetch of it
	// begins, and what was fetched is not published. Nil: for ever.
	Surety *subscription.Surety
}

func (p Parts) validate() error {
	if p.Requests == nil || p.Publisher == nil || p.Audience == nil || p.Pings == nil ||
		p.Checker == nil || p.Transport == nil || p.Addresses == nil {
		return errors.New("a part is missing")
	}
	return nil
}

// Requests takes the subscribe and unsubscribe requests, and ends subscriptions.
// subscription.Service is one.
type Requests interface {
	// Submit accepts a request: it is durable when Submit returns nil.
	Submit(ctx context.Context, w subscription.Wish) error
	// Deny ends an active subscription and sends its callback the reason.
	Deny(ctx context.Context, sub subscription.Subscription, reason string) error
}

// Publisher takes what was published. dispatch.Dispatcher is one.
type Publisher interface {
	// Publish appends a publication to its topic's log: it is durable when
	// Publish returns nil. The body is not changed afterwards by either side.
	Publish(ctx context.Context, p delivery.Publication) (delivery.Receipt, error)
}

// Audience knows who subscribes to what in this process. dispatch.Dispatcher is one.
type Audience interface {
	// Topics returns the keys of the topics that have subscribers.
	Topics() []string
	// Spelling returns a topic as one of its subscriptions spells it, by its key; ok is false for a topic
	// without one.
	Spelling(key string) (spelling string, ok bool)
	// Subscribers returns the subscriptions to a topic, by its key.
	Subscribers(key string) []subscription.Subscription
}

// Addresses refuses, without the network, URLs that may not be requested: with
// egress.ErrForbidden or egress.ErrBadURL. egress.Dialer is one.
type Addresses interface {
	CheckURL(raw string) error
}

// Sources knows who may publish. source.Registry is one.
type Sources interface {
	// Authenticate returns the grant of a token: source.ErrUnknownToken for a token of no Source,
	// source.ErrUnavailable where the Sources cannot be read.
	Authenticate(ctx context.Context, token registered.Token) (*registered.Grant, error)
}

// Answers reports the outcome of notifications.
type Answers interface {
	// Answer returns ErrNoNotification where the topic's log has no notification of the ID, and
	// delivery.ErrUnavailable where the log cannot be read.
	Answer(ctx context.Context, topic string, id uuid.UUID) (Answer, error)
}

// Answer is the outcome of a notification, over the subscriptions that there are now and
// that began before it. Subscribers = Delivered + Pending + GivenUp + Trimmed.
type Answer struct {
	ID          uuid.UUID    `json:"id"`
	Topic       string       `json:"topic"`
	Seq         delivery.Seq `json:"seq"`
	Accepted    time.Time    `json:"accepted"`
	Subscribers int          `json:"subscribers"`
	Delivered   int          `json:"delivered"`
	Pending     int          `json:"pending"`
	Failing     int          `json:"failing"` // of those pending, whose last attempt failed
	GivenUp     int          `json:"given_up"`
	Trimmed     int          `json:"trimmed"`
	// MissingShards is how many of the 64 parts of the subscriptions could not be counted; 0: the answer
	// is whole.
	MissingShards int `json:"missing_shards"`
}

// ErrNoNotification: the log of the topic has no such notification, or no more.
var ErrNoNotification = errors.New("no such notification")

// Memory is what the change memory is read from. A delivery.Log is one.
type Memory interface {
	State(ctx context.Context, key string) (delivery.TopicState, error)
	Summaries(ctx context.Context, key string, before delivery.Seq, limit int) ([]delivery.Summary, error)
	Summary(ctx context.Context, key string, from delivery.Seq) (delivery.Summary, error)
	Read(ctx context.Context, key string, from delivery.Seq) (*delivery.Notification, error)
}
