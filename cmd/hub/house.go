package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/cmd/internal/program"
	"carillon/delivery/dispatch"
	"carillon/delivery/send"
	"carillon/hub"
	"carillon/internal/egress"
	"carillon/internal/tracing"
	"carillon/operator"
	"carillon/operator/api"
	"carillon/operator/socket"
	"carillon/source"
	"carillon/subscription"
)

// forPositions is the part of program.StopWithin for the last positions. The operator's
// listener, closed last, holds the end up only for an answer that is being read.
const forPositions = 3 * time.Second

// stageWithin is the bound of each of the two long stages of the end, the intake and the
// deliveries. With the drain before them the end stays within program.StopWithin.
func (f *serveCommand) stageWithin() time.Duration {
	return min(program.DrainWithin, (program.StopWithin-forPositions-f.Drain)/2)
}

// house is a hub with all its rooms joined.
type house struct {
	url        string
	drain      time.Duration // how long the public port serves after SIGTERM
	openWithin time.Duration // when the public port opens without the store
	logger     *slog.Logger
	level      *program.LogLevel // of the log lines; operators and reloads change it
	reloads    *program.Reloader // nil: there are none
	around     *surroundings
	chosen     []string        // warnings of what the operator chose
	back       *wayBack        // nil without a --url
	screen     *program.Screen // nil: nobody looks on
	metrics    *prometheus.Registry
	public     *program.Listener
	operator   *program.Listener
	traces     *tracing.Tracer // nil: there are none
	token      *api.Token      // nil: nobody is asked for one
	auth       *api.Auth       // nil likewise
	profiles   bool            // they can be seen
	store      *engine
	control    *socket.Listener // nil: there is none
	proxy      *egress.Proxy    // nil: there is none
	dispatcher *dispatch.Dispatcher
	service    *subscription.Service
	hub        *hub.Hub
	holder     *holder
	surety     *subscription.Surety
	desk       *operator.Desk
	// connections are those to callbacks and topics, as the operator is shown them.
	connections func() send.Connections
	heard       *operator.Listeners   // the hub's own test callbacks
	dialer      *egress.Dialer        // the way out to topics and callbacks
	transport   http.RoundTripper     // of verifications, topic checks and fetches: with deliveries' connections
	sources     *source.Registry      // nil: everybody may publish
	missing     atomic.Pointer[error] // why the store is waited for; nil once it was there
	asked       api.Recent            // whether the store answers, for all that ask
	stopping    atomic.Bool           // it was told to end
	loaded      atomic.Bool           // its part of the subscriptions was loaded once
}

// open opens listeners and store and joins the rooms. On an error nothing stays
// open.
func open(ctx context.Context, f serveCommand, logger *slog.Logger) (*house, error) {
	h := &house{
		url: f.URL, drain: f.Drain, openWithin: openWithin, logger: logger, level: f.again.Level, metrics: newRegistry(),
		around: around(f), chosen: f.clientFlags.warnings(),
	}
	if h.level == nil {
		h.level = program.NewLogLevel("")
	}
	if f.again.Read != nil {
		h.reloads = program.NewReloader(f.again)
		h.reloads.Prepare = h.prepare
	}
	h.missing.Store(&errNotReached)
	if err := h.open(ctx, f); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

func (h *house) open(ctx context.Context, f serveCommand) (err error) {
	if err := checkFiles(program.OpenFiles()); err != nil {
		return err
	}
	if h.public, err = program.Prepare(ctx, f.publicEndpoint(h.logger)); err != nil {
		return err
	}
	if h.operator, err = program.Listen(ctx, f.adminEndpoint(h.logger)); err != nil {
		return err
	}
	h.profiles = f.AdminPprof
	if err := h.guardOperator(f); err != nil {
		return err
	}
	h.metrics.MustRegister(h.listeners())
	if h.url == "" {
		if h.url, err = h.public.BaseURL("/websub/"); err != nil {
			return err
		}
	}
	if err := (hub.Config{URL: h.url}).Validate(); err != nil {
		return fmt.Errorf("--url: %w", err)
	}
	h.public.ToldAs(h.url, h.logger)
	h.public.AnswerTo(h.url, f.Host, h.logger)
	held := f.shares()
	held.tell(h.logger, memoryLimit(), int64(f.MaxBody), int64(f.ConnectionBytes))
	f.takeover, f.maxBody = f.Takeover, int64(f.MaxBody)
	f.pebble.CacheBytes, f.pebble.MemTableBytes = held.blocks, uint64(held.table)
	if err := h.openTraces(ctx, f.traceFlags); err != nil {
		return err
	}
	if h.store, err = openEngine(f.storeFlags, h.logger, h.metrics); err != nil {
		return err
	}
	if f.disturb != nil {
		f.disturb(h.store)
	}
	if err := h.measure(f.storeFlags); err != nil {
		return err
	}
	h.tellAround()
	h.openControlSocket()
	g := gate{h}
	h.store.Subscriptions = gatedRequests{h.store.Subscriptions, g}
	h.store.Log = gatedLog{h.store.Log, g}
	h.store.Pings = gatedPings{h.store.Pings, g}
	return h.join(f, held)
}

// listeners are the hub's listeners by the names that metrics and /readyz have for them.
func (h *house) listeners() program.Listeners {
	return program.Listeners{"public": h.public, "admin": h.operator}
}

// join makes the rooms, from the ground floor up.
func (h *house) join(f serveCommand, held shares) error {
	out := partsOf(program.OpenFiles())
	out.tell(h.logger, program.OpenFiles())
	way, err := f.wayOut(h.url, egress.NamesConfig{TTL: f.DNSTTL, MaxQuestions: out.questions}, h.logger, h.metrics)
	if err != nil {
		return err
	}
	h.proxy = way.Proxy
	h.heard, h.surety = operator.NewListeners(), &subscription.Surety{}
	if err := h.joinDelivery(f, way, out.outgoing, held); err != nil {
		return err
	}
	if err := h.joinSources(f.publisherFlags); err != nil {
		return err
	}
	if err := h.joinHub(f, held, out.outgoing); err != nil {
		return err
	}
	h.holder = &holder{workers: h.workers(), Surety: h.surety}
	return h.joinDesk()
}

// Bounds on deliveries (dispatch.Config).
const (
	maxInFlight = 512
	maxPerHost  = 64
)

// asksPerHost is how many connections one host may have beside those of its deliveries: for
// verifications, topic checks and fetches.
const asksPerHost = 64

// deliveryConfig is what the flags say of deliveries.
func deliveryConfig(f serveCommand) dispatch.Config {
	cfg := dispatch.Config{
		MaxPerHost: maxPerHost,
		RetryFirst: f.RetryFirst, RetryMax: f.RetryMax, RetryFor: f.RetryFor,
		DrainTimeout: f.stageWithin(),
		KeepAtLeast:  f.KeepAtLeast, KeepBytes: cmp.Or(int64(f.KeepBytes), -1), // 0 is no bound
	}
	if f.KeepFor != nil {
		cfg.KeepFor = cmp.Or(*f.KeepFor, -1) // likewise
	}
	f.remember(&cfg)
	return cfg
}

func (h *house) joinDelivery(f serveCommand, way egress.Config, out outgoing, held shares) (err error) {
	cfg := deliveryConfig(f)
	cfg.MaxInFlight, cfg.MaxSlow = out.inFlight, out.slow
	cfg.MaxBytes, cfg.CacheBytes = held.sending, held.latest
	cfg.Surety = h.surety
	// Deliveries come in bursts to the same hosts: keep a connection for each
	// that is not slow.
	way.MaxConnsPerHost, way.IdlePerHost, way.MaxConns = cfg.ConnsPerHost()+asksPerHost, maxPerHost, out.conns
	way.IdleTimeout, way.IdleBytes, way.SessionBytes = out.idleTimeout(), held.idle, held.sessions
	if h.dialer, err = egress.New(way); err != nil {
		return fmt.Errorf("--allow-net: %w", err)
	}
	sender, err := send.NewHTTPSender(send.Config{
		Hub: h.url, Version: program.Version, Signature: f.Signature, SignatureFor: f.signatureFor(), DeliveryTimeout: f.DeliveryTimeout, Inside: h.heard.Deliver,
	}, h.dialer)
	if err != nil {
		return err
	}
	if err := h.metrics.Register(sender); err != nil {
		return err
	}
	h.connections, h.transport = sender.Connections, sender.Transport()
	h.dispatcher, err = dispatch.New(cfg, dispatch.Stores{Log: h.store.Log, Cursors: h.store.Cursors, Marks: h.store.Marks}, ender{h}, h.traces.Sender(sender, f.TraceCallbacks), h.logger, h.metrics)
	return err
}

// ender ends subscriptions for the dispatcher, which is made before the service
// and runs after it is made.
type ender struct{ *house }

func (e ender) Remove(ctx context.Context, sub subscription.Subscription) (bool, error) {
	return e.service.Remove(ctx, sub)
}

func (h *house) joinHub(f serveCommand, held shares, out outgoing) error {
	cfg := hub.Config{URL: h.url, Version: program.Version, MaxBody: int64(f.MaxBody), TopicCheckTTL: f.TopicCheckTTL, TrustedProxies: f.TrustedProxy, OwnCallbacks: operator.ListenOrigin}
	cfg.MaxBodiesBytes, cfg.MaxFetchBytes = held.taking, held.fetching
	cfg.Fetches = out.fetching
	checker, err := hub.NewChecker(cfg, h.transport, h.logger, h.metrics)
	if err != nil {
		return err
	}
	verifier, err := hub.NewVerifier(cfg, h.transport, h.metrics)
	if err != nil {
		return err
	}
	h.service, err = subscription.NewService(subscription.Config{
		Lease:        subscription.LeaseRules{Min: f.LeaseMin, Default: f.LeaseDefault, Max: f.LeaseMax},
		DrainTimeout: f.stageWithin(),
		Concurrency:  out.verifying, MaxSlow: out.slowVerifying,
		Surety: h.surety,
	}, h.store.Subscriptions, checker, h.traces.Confirmer(confirmer{h.heard, verifier}), h.dispatcher, h.logger, h.metrics)
	if err != nil {
		return err
	}
	h.hub, err = hub.New(cfg, hub.Parts{
		Requests: h.service, Publisher: h.traces.Publisher(h.dispatcher), Audience: h.dispatcher, Pings: h.store.Pings,
		Checker: checker, Transport: h.transport, Addresses: h.dialer, Sources: h.publishers(), Answers: sourceAnswers{h},
		Memory: h.memory(f), Surety: h.surety,
	}, h.logger, h.metrics)
	if err == nil && f.URL != "" {
		err = h.lookBack(f)
	}
	return err
}

// lookBack prepares asking whether --url leads back to this hub.
func (h *house) lookBack(f serveCommand) error {
	client, err := backClient(f.TLS.Cert)
	if err != nil {
		return fmt.Errorf("--tls-cert: %w", err)
	}
	h.back = &wayBack{ask: func(ctx context.Context) error {
		return askBack(ctx, client, h.hub.SelfAddress(), h.url, h.store.Listen != nil)
	}}
	return nil
}

// close closes what is open. It may be called on a house that is half open.
func (h *house) close() {
	for _, ln := range []*program.Listener{h.public, h.operator} {
		if ln != nil {
			_ = ln.Close() // served listeners are closed already
		}
	}
	if h.control != nil {
		h.control.Remove()
	}
	if h.store != nil {
		if err := h.store.Close(); err != nil {
			h.logger.Error("closing the store", "error", err)
		}
	}
	h.closeTraces()
}
