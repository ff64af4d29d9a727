package operator

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"carillon/check"
	"carillon/delivery"
	"carillon/delivery/report"
	"carillon/delivery/send"
	"carillon/source"
	"carillon/subscription"
)

// Peers are the other hub processes that share the engine.
type Peers interface {
	// Self names this process as the others know it.
	Self() string
	// Ask puts a question to every other hub process that lives, and calls heard once for each, one at a
	// time: with its answer, or with an error in its place (no answer before ctx ends, or too large an
	// answer). It returns when all were heard. A process without shards (a command) can ask, too.
	Ask(ctx context.Context, question []byte, heard func(process string, answer []byte, err error)) error
	// Serve answers the others until ctx ends.
	Serve(ctx context.Context, answer func(ctx context.Context, question []byte) []byte) error
}

// Deliveries knows the subscriptions of the shards that this process holds, and delivers to
// them: all that a Desk asks of it, by what it is about. dispatch.Dispatcher is one, and says what
// its methods do.
type Deliveries interface {
	Statuses
	Fates
	Repairs
	Figures
}

// Standings say where subscriptions stand.
type Statuses interface {
	Each(ctx context.Context, key string, visit func(report.Standing) bool) error
	Standing(id subscription.ID) (report.Standing, bool)
	Attempts(id subscription.ID) []report.Attempt
	Held() (held, loading []delivery.Tenure)
}

// Fates gives the outcome of notifications.
type Fates interface {
	Tally(ctx context.Context, key string, seqs []delivery.Seq) ([]report.Tally, error)
	Undelivered(ctx context.Context, key string, seq delivery.Seq, visit func(report.Standing, report.Fate) bool) error
}

// Repairs are what an operator has done.
type Repairs interface {
	RetryNow(ctx context.Context, id subscription.ID) error
	Replay(ctx context.Context, id subscription.ID, from, last delivery.Seq) (first, final delivery.Seq, err error)
	Ended(id subscription.ID)
	Trimmed(key string, before delivery.Seq)
}

// Figures count over all subscriptions.
type Figures interface {
	Stats() report.Stats
	Totals() report.Totals
	TopicCounts(ctx context.Context) ([]report.TopicCount, error)
	OldestWaiting(ctx context.Context) time.Time
}

// Requests carries requests of subscribers through, and ends subscriptions
// (subscription.Service).
type Requests interface {
	Submit(ctx context.Context, w subscription.Wish) error
	Deny(ctx context.Context, sub subscription.Subscription, reason string) error
	Remove(ctx context.Context, sub subscription.Subscription) (removed bool, err error)
}

// Registry knows who may publish (source.Registry).
type Registry interface {
	Refresh(ctx context.Context) error
}

// Config is what a Desk works with. Fields must be set unless they may be nil.
type Config struct {
	// URL is the hub's, Engine is pebble or redis, Version that of the program, and Started
	// when this process began.
	URL, Engine, Version string
	Started              time.Time

	// Deliveries is nil where this process holds no shards: a command that asks others, or one
	// that has no questions about subscriptions.
	Deliveries    Deliveries
	Log           delivery.Log
	Cursors       delivery.Cursors
	Subscriptions subscription.Store
	Sources       source.Store

	// Peers are the other processes; nil: this one has the engine to itself.
	Peers Peers
	// Requests is nil where no hub runs in this process: a command then only removes a subscription from
	// the store, and the callback gets no denial.
	Requests Requests
	// Registry is nil where this process does not check publishers.
	Registry Registry
	// TestCallbacks are the hub's own test callbacks; nil: listening is not possible.
	TestCallbacks *TestCallbacks
	// CheckTopic reports the faults of the URL of a topic to listen to; nil: nothing is.
	CheckTopic func(topic string) error
	// Check checks the documents of a Source, as check.Run does; nil: checks are not possible.
	Check func(ctx context.Context, places []string, found func(check.Finding)) (check.Summary, error)
	// Checks and Warnings are those of /readyz; nil without one.
	Checks   func(ctx context.Context) []Check
	Warnings func() []string
	// Connections returns how the connections to callbacks and topics stand; nil without one.
	Connections func() send.Connections
	// Waiting counts the requests that wait to be verified; nil without one.
	Waiting func() int

	// Logger logs every change that an operator makes; nil: none are logged.
	Logger *slog.Logger
}

// local is what this process knows and does by itself.
type local struct {
	cfg       Config
	self      string // this process, as the others know it
	log       *slog.Logger
	samples   sampler
	answering chan struct{} // one for each question of another that is being answered
}

// Desk answers what operators ask, and does what they say. Its methods may be called from
// any goroutine.
type Service struct {
	*local
	hubService
	topicService
	subscriptionService
	sourceService
}

// hubService reports how the hub is doing, listens to topics and checks Sources.
type hubService struct {
	*local
	topics  topicNumber
	checks  chan struct{} // has an element for each check that runs
	stopped chan struct{} // closed when Run ends
}

// topicService reports topics and their notifications, and trims logs.
type topicService struct{ *local }

// subscriptionService reports subscriptions, and repairs and ends them.
type subscriptionService struct{ *local }

// sourceService changes who may publish.
type sourceService struct{ *local }

// New returns a Desk.
func New(cfg Config) (*Service, error) {
	if cfg.Log == nil || cfg.Cursors == nil || cfg.Subscriptions == nil || cfg.Sources == nil {
		return nil, errors.New("operator: the Config has no Log, Cursors, Subscriptions or Sources")
	}
	h := &local{
		cfg: cfg, self: Alone, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)),
		answering: make(chan struct{}, maxAnswering),
	}
	if cfg.Peers != nil {
		h.self = cfg.Peers.Self()
	}
	return &Service{
		local:        h,
		hubService:   hubService{local: h, checks: make(chan struct{}, MaxChecks), stopped: make(chan struct{})},
		topicService: topicService{h}, subscriptionService: subscriptionService{h}, sourceService: sourceService{h},
	}, nil
}
