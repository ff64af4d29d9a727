package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/source"
	"carillon/subscription"
)

// Peers are the other hub processes that share the engine.
type Peers interface {
	// Self names this process as the others know it.
	Self() string
	// Ask puts a question to every other hub process that lives, and calls heard once for
	// each, one at a time: with its answer, or with the error for which there is none (no
	// answer before ctx ends, one that is too large). It returns when all were heard. Who
	// holds no shards (a command) can ask, too.
	Ask(ctx context.Context, question []byte, heard func(process string, answer []byte, err error)) error
	// Serve answers the others until ctx ends.
	Serve(ctx context.Context, answer func(ctx context.Context, question []byte) []byte) error
}

// Requests carries requests of subscribers through (subscription.Service).
type Requests interface {
	Submit(ctx context.Context, w subscription.Wish) error
	Deny(ctx context.Context, sub subscription.Subscription, reason string) error
}

// Registry knows who may publish (source.Registry).
type Registry interface {
	Refresh(ctx context.Context) error
}

// Config is what a Desk works with. What is not said to may be nil must be there.
type Config struct {
	// URL is the hub's, Engine is pebble or redis, Version that of the program, and Started
	// when this process began.
	URL, Engine, Version string
	Started              time.Time

	Deliveries    *delivery.Dispatcher
	Log           delivery.Log
	Cursors       delivery.Cursors
	Subscriptions subscription.Store
	Sources       source.Store

	// Peers are the other processes; nil: this one has the engine to itself.
	Peers Peers
	// Requests is nil where no hub runs in this process: nobody is told of what a command does.
	Requests Requests
	// Registry is nil where nobody in this process asks who may publish.
	Registry Registry
	// Checks and Warnings are those of /readyz; nil: there are none.
	Checks   func(ctx context.Context) []Check
	Warnings func() []string
	// Waiting counts the requests that wait to be verified; nil: there are none.
	Waiting func() int

	// Logger is told of every change that an operator makes; nil: nobody is.
	Logger *slog.Logger
}

// Desk answers what operators ask, and does what they say. Its methods may be called from
// any goroutine.
type Desk struct {
	cfg  Config
	self string // this process, as the others know it
	log  *slog.Logger
}

// New returns a Desk.
func New(cfg Config) (*Desk, error) {
	for name, missing := range map[string]bool{
		"Deliveries": cfg.Deliveries == nil, "Log": cfg.Log == nil, "Cursors": cfg.Cursors == nil,
		"Subscriptions": cfg.Subscriptions == nil, "Sources": cfg.Sources == nil,
	} {
		if missing {
			return nil, fmt.Errorf("operator: the Config has no %s", name)
		}
	}
	d := &Desk{cfg: cfg, self: "self", log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))}
	if cfg.Peers != nil {
		d.self = cfg.Peers.Self()
	}
	return d, nil
}

// Run answers the other processes, and counts what happens for Overview.Series, until ctx ends.
func (d *Desk) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

var errNotYet = errors.New("it is not built yet")

func (d *Desk) Overview(ctx context.Context) (Overview, error) { return Overview{}, errNotYet }
func (d *Desk) Topics(ctx context.Context, q TopicQuery) (TopicPage, error) {
	return TopicPage{}, errNotYet
}
func (d *Desk) Topic(ctx context.Context, topic string) (Topic, error) { return Topic{}, errNotYet }
func (d *Desk) Notifications(ctx context.Context, topic string, before delivery.Seq, limit int) (NotificationPage, error) {
	return NotificationPage{}, errNotYet
}

func (d *Desk) Notification(ctx context.Context, topic string, id uuid.UUID) (NotificationDetail, error) {
	return NotificationDetail{}, errNotYet
}

func (d *Desk) Subscriptions(ctx context.Context, q SubscriptionQuery) (SubscriptionPage, error) {
	return SubscriptionPage{}, errNotYet
}

func (d *Desk) Subscription(ctx context.Context, id subscription.ID) (SubscriptionDetail, error) {
	return SubscriptionDetail{}, errNotYet
}
func (d *Desk) Sources(ctx context.Context) ([]Source, error)       { return nil, errNotYet }
func (d *Desk) Retry(ctx context.Context, id subscription.ID) error { return errNotYet }
func (d *Desk) Replay(ctx context.Context, id subscription.ID, from, last delivery.Seq) (Replay, error) {
	return Replay{}, errNotYet
}

func (d *Desk) Remove(ctx context.Context, id subscription.ID, reason string) error {
	return errNotYet
}

func (d *Desk) Trim(ctx context.Context, topic string, before delivery.Seq) (TrimResult, error) {
	return TrimResult{}, errNotYet
}

func (d *Desk) AddSource(ctx context.Context, name string, prefixes []string, hash source.Hash) (NewSource, error) {
	return NewSource{}, errNotYet
}

func (d *Desk) RotateSource(ctx context.Context, name string, hash source.Hash) (NewSource, error) {
	return NewSource{}, errNotYet
}
func (d *Desk) RevokeSource(ctx context.Context, name string) error { return errNotYet }
func (d *Desk) Listen(ctx context.Context, topic string) iter.Seq2[Heard, error] {
	return func(yield func(Heard, error) bool) { yield(Heard{}, errNotYet) }
}
