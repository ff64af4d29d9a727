package hub

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"carillon/delivery"
	"carillon/internal/bodies"
	registered "carillon/source"
	"carillon/subscription"
)

// Requests takes the subscribe and unsubscribe requests, and ends subscriptions.
// subscription.Service is one.
type Requests interface {
	// Submit accepts a request: it is durable when Submit returns nil.
	Submit(ctx context.Context, w subscription.Wish) error
	// Deny ends an active subscription and tells its callback why.
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
	// Spelling returns a topic as one of its subscriptions spells it, by its
	// key; ok is false where there is none.
	Spelling(topic string) (spelling string, ok bool)
	// Subscribers returns the subscriptions to a topic, by its key.
	Subscribers(topic string) []subscription.Subscription
}

// Addresses refuses, without the network, URLs that may not be requested: with
// egress.ErrForbidden or egress.ErrBadURL. egress.Dialer is one.
type Addresses interface {
	CheckURL(raw string) error
}

// Parts are what a Hub works with. All are needed but Sources, without which everybody may
// publish, and a token that is sent is not looked at; Answers, without which no Source can ask
// what became of what it published; and Memory, without which there is no change memory.
//
// Transport makes the requests to topics and callbacks, which are GET and HEAD. It asks
// for no compression and refuses forbidden addresses with egress.ErrForbidden, as that of
// a send.HTTPSender does. It is not an http.Client, which would read the Location of
// a redirect that nobody follows, and put the address into every error.
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

// Hub answers the requests of Sources and Destinations. Its handler may be used
// before Run, but what pings ask for is fetched while Run runs, by the process that
// owns the topic's shard (Gained, Lost).
type Hub struct {
	cfg      Config
	parts    Parts
	self     string // the hub URL in the form to compare by
	fetcher  *fetcher
	keeper   *gatekeeper
	page     page
	bodies   *bodies.Room
	clients  *clients
	askers   *clients // Sources that ask what became of notifications
	readers  *clients // those who read the memory
	readings *readings
	closing  atomic.Bool
	nonce    string                     // of SelfAddress
	origin   http.CrossOriginProtection // of the hub's own pages only
	outage   outage
	// lookalikes reports publications that look like notifications and are not.
	lookalikes *lookalikes
	logger     *slog.Logger
	metrics    *metrics
}

// New returns a Hub, or an error that says what is wrong with the Config. The
// logger and the registerer may be nil.
func New(cfg Config, parts Parts, logger *slog.Logger, reg prometheus.Registerer) (*Hub, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	if err := parts.validate(); err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	cfg = cfg.withDefaults()
	h := &Hub{
		cfg:     cfg,
		parts:   parts,
		self:    normalHub(cfg.URL),
		bodies:  bodies.NewRoom(cfg.MaxBodiesBytes, cfg.MaxBody, errBusy),
		clients: newClients(cfg, logger),
		askers:  newClients(Config{ClientRate: cfg.AnswerRate, ClientBurst: cfg.AnswerBurst, Clients: registered.MaxSources}, logger),
		logger:  logger,
		nonce:   rand.Text(),

		readers: newClients(Config{ClientRate: cfg.MemoryRate, ClientBurst: cfg.MemoryBurst, Clients: cfg.Clients}, logger),
	}
	remembering := max(cfg.MaxBody, cfg.MaxBodiesBytes/memoryShare)
	h.readings = &readings{
		all: cfg.MemoryReadings, perClient: cfg.MemoryReadingsPerClient, under: map[*reading]struct{}{},
		rooms: []*bodies.Room{bodies.NewRoom(remembering, cfg.MaxBody, errBusy), h.bodies}, share: remembering / readingsShare,
	}
	var err error
	if h.page, err = newPage(cfg, parts.Sources != nil); err != nil {
		return nil, fmt.Errorf("hub: the page: %w", err)
	}
	h.fetcher = newFetcher(cfg, parts, logger)
	parts.Surety.Watch(h.fetcher.signal)
	if h.metrics, err = newMetrics(reg, h.fetcher.waitingCount, h.readings.count); err != nil {
		return nil, fmt.Errorf("hub: metrics: %w", err)
	}
	h.fetcher.metrics = h.metrics
	h.lookalikes = &lookalikes{notices: &notices{}, counts: h.metrics.lookalikes, logger: logger}
	h.fetcher.source.lookalikes = h.lookalikes
	if h.keeper, err = newGatekeeper(parts.Sources, h.clients.of, logger, reg); err != nil {
		return nil, fmt.Errorf("hub: metrics: %w", err)
	}
	return h, nil
}

// Gained takes over the topics whose subscription.TopicShard it is: their pings
// are fetched here from now on, those that wait already once they are read, which
// happens while Run runs, however long the store takes. The error is for a shard
// that there is not.
func (h *Hub) Gained(_ context.Context, shard subscription.Shard) error {
	if shard >= subscription.Shards {
		return fmt.Errorf("hub: shard %d: there are %d", shard, subscription.Shards)
	}
	h.fetcher.gained(shard)
	return nil
}

// Lost ends the work on a shard, without waiting: what a fetch that is under way
// finds is not published any more, so that it cannot follow something newer; its
// ping, and those that wait, are left to the next owner.
func (h *Hub) Lost(shard subscription.Shard) {
	if shard < subscription.Shards {
		h.fetcher.lost(shard)
	}
}

// Pinged tells of a ping that was noted, perhaps by another process. It is fetched
// where the shard of its topic is this process's. It does not block.
func (h *Hub) Pinged(p delivery.Ping) { h.fetcher.add(p) }

// Refresh tells that pings may have been noted that nobody told of: those that wait
// are read again soon. It does not block.
func (h *Hub) Refresh() { h.fetcher.refresh() }

// Run fetches what pings ask for, watches the topics that have subscribers, and
// renews topic checks, until ctx ends; from then on every POST is answered
// with 503. Then it finishes what it has begun to publish, and returns nil; what
// fails inside is logged and tried again.
func (h *Hub) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	stop := context.AfterFunc(ctx, func() { h.closing.Store(true) })
	defer stop()
	g.Go(func() error { return h.fetcher.run(ctx) })
	g.Go(func() error { return h.parts.Checker.run(ctx) })
	g.Go(func() error { return newWatch(h.cfg, h.parts, h.logger, h.metrics).run(ctx) })
	return g.Wait()
}
