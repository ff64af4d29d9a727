package hub

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"carillon/delivery"
	"carillon/internal/await"
	"carillon/internal/bodies"
	"carillon/internal/readings"
	"carillon/subscription"
)

// New returns a Hub, or an error that reports the faults of the Config. The
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
		logger:  logger,
		nonce:   rand.Text(),

		failures: &failures{logger: logger},
	}
	remembering := max(cfg.MaxBody, cfg.MaxBodiesBytes/memoryShare)
	under := readings.New(readings.Config{
		All: cfg.MemoryReadings, PerClient: cfg.MemoryReadingsPerClient, Undisturbed: undisturbed,
		Rooms: []*bodies.Room{bodies.NewRoom(remembering, cfg.MaxBody, errBusy), h.bodies},
		Share: remembering / readingsShare, Full: errBusy, ClientFull: errReadsBusy,
	})
	var err error
	if h.page, err = newPage(cfg, parts.Sources != nil); err != nil {
		return nil, fmt.Errorf("hub: the page: %w", err)
	}
	h.fetcher = newFetcher(cfg, parts, logger)
	parts.Surety.Watch(h.fetcher.signal)
	if h.metrics, err = newMetrics(reg, h.fetcher.waitingCount, under.Count); err != nil {
		return nil, fmt.Errorf("hub: metrics: %w", err)
	}
	h.fetcher.metrics = h.metrics
	h.lookalikes = &lookalikes{notices: &notices{}, counts: h.metrics.lookalikes, logger: logger}
	h.fetcher.source.lookalikes = h.lookalikes
	if h.keeper, err = newGatekeeper(parts.Sources, h.clients.of, logger, reg); err != nil {
		return nil, fmt.Errorf("hub: metrics: %w", err)
	}
	h.answers = newSourceAnswers(cfg, parts, h.keeper, logger)
	h.memory = &memory{
		cfg: cfg, log: parts.Memory, clients: h.clients, readings: under, closing: &h.closing,
		readers: newClients(
			Config{ClientRate: cfg.MemoryRate, ClientBurst: cfg.MemoryBurst, Clients: cfg.Clients}, logger,
		),
		failures: h.failures, metrics: h.metrics,
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

// Lost ends the work on a shard, without waiting. The result of a fetch under way is not published any
// more, so that it cannot follow something newer; its ping, and those that wait, are left to the next
// owner.
func (h *Hub) Lost(shard subscription.Shard) {
	if shard < subscription.Shards {
		h.fetcher.lost(shard)
	}
}

// Pinged reports a ping that was noted, perhaps by another process. It is fetched
// where the shard of its topic is this process's. It does not block.
func (h *Hub) Pinged(p delivery.Ping) { h.fetcher.add(p) }

// Refresh has waiting pings read again soon: a report of new ones may have been missed. It does not
// block.
func (h *Hub) Refresh() { h.fetcher.refresh() }

// Run fetches for pings, watches the topics that have subscribers, and renews topic checks, until ctx
// ends; from then on every POST is answered with 503. Then it finishes the publications it has begun,
// and returns nil; internal failures are logged and tried again.
func (h *Hub) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	defer await.AfterFunc(ctx, func() { h.closing.Store(true) })()
	g.Go(func() error { return h.fetcher.run(ctx) })
	g.Go(func() error { return h.parts.Checker.run(ctx) })
	g.Go(func() error { return newWatch(h.cfg, h.parts, h.logger, h.metrics).run(ctx) })
	return g.Wait()
}

// SelfAddress returns an address below the hub URI that only this Hub answers with 204: a client that
// gets it has reached this one and no other. It is a secret of the process.
func (h *Hub) SelfAddress() string {
	return h.cfg.belowHub(selfPath + h.nonce)
}
