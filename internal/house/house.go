// Package house joins the rooms of a hub: the store, who may publish, subscriptions, deliveries, the
// hub's HTTP face and the operator's. The root package is its face for Go programs, command hub
// among them; the order of its life:
//
//	Open ── the store is opened (Redis is not asked yet), every room is built, nothing runs
//	Run ─── the store is reached ── Listen, Serve ── shards are taken ── requests, deliveries
//	  ctx ends: no requests ── deliveries end, positions are saved ── shards are given up ── closed
package house

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/delivery/send"
	"carillon/hub"
	"carillon/internal/egress"
	"carillon/internal/engine"
	"carillon/internal/machine"
	"carillon/internal/release"
	"carillon/internal/tracing"
	"carillon/operator"
	"carillon/operator/api"
	"carillon/operator/page"
	"carillon/operator/socket"
	"carillon/source"
	"carillon/store/measured"
	"carillon/store/pebblestore"
	"carillon/subscription"
)

// House is a hub with all its rooms joined.
type House struct {
	cfg             Config
	logger          *slog.Logger
	metrics         *prometheus.Registry // all of the hub's
	registered      bool                 // and Config.Registerer has them
	store           *attachment
	control         *socket.Listener // nil: no socket
	traces          *tracing.Tracer  // nil: no traces
	outbound        outbound
	environment     *environment
	publishers      publishers
	dispatcher      *dispatch.Dispatcher
	service         *subscription.Service
	hub             *hub.Hub
	holder          *holder
	surety          *subscription.Surety
	operatorService *operator.Service
	testCallbacks   *operator.TestCallbacks // the hub's own test callbacks
	selfCheck       *selfCheck              // nil: the check is off
	readiness       *readiness
	gate            publicGate
	public          *inFlightRequests // Handler
	operators       *inFlightRequests // Operator

	lifecycle
}

// lifecycle is how far a House has come.
type lifecycle struct {
	retire   sync.Once
	stopping chan struct{} // closed by Retire
	ready    chan struct{} // closed when Run takes requests
	phase    atomic.Int32  // idle, ran, closed
}

// The phases of a House: Run and Close each begin with idle.
const (
	idle int32 = iota
	ran
	closed
)

var (
	// ErrRan is returned by a second Run.
	ErrRan = errors.New("Run was called before: a hub runs once; Open another")
	// ErrClosed is returned by Run after Close.
	ErrClosed = errors.New("the hub is closed")
)

// Hooks are for tests; the zero value has none.
type Hooks struct {
	// Engine gets the engine before it is used.
	Engine func(*engine.Engine)
	// Rooms gets the rooms that know secrets, once they are joined.
	Components func(Components)
	// Pebble changes what the embedded engine gets.
	Pebble func(*pebblestore.Config)
	// OpenWithin is when Config.Listen is called without the store; default 5 s.
	OpenWithin time.Duration
}

// Rooms are parts of a House, for tests.
type Components struct {
	Dispatcher *dispatch.Dispatcher
	Service    *subscription.Service
	Holder     delivery.Holder
	Sources    *source.Registry // nil: everybody may publish
}

// Open opens the store and builds the rooms. On an error nothing stays open.
func Open(cfg Config, hooks Hooks) (*House, error) {
	cfg = cfg.WithDefaults()
	if err := errors.Join(cfg.Validate(), cfg.validateURL(), checkFiles(machine.OpenFiles())); err != nil {
		return nil, err
	}
	h := &House{
		cfg: cfg, logger: cfg.Logger, metrics: prometheus.NewRegistry(), environment: cfg.environment(),
		gate: newPublicGate(cmp.Or(hooks.OpenWithin, openWithin)), lifecycle: lifecycle{
			stopping: make(chan struct{}), ready: make(chan struct{}),
		},
	}
	if err := h.open(hooks); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// validateURL refuses a URL that no hub can have.
func (c Config) validateURL() error {
	if err := (hub.Config{URL: c.URL}).Validate(); err != nil {
		return fmt.Errorf("%s: %w", c.name("URL"), err)
	}
	return nil
}

func (h *House) open(hooks Hooks) (err error) {
	h.cfg.warn()
	held := h.cfg.budgets()
	held.logLimit(h.logger, machine.MemoryLimit(), h.cfg.MaxBody, h.cfg.ConnectionBytes)
	if h.traces, err = h.cfg.openTraces(h.metrics); err != nil {
		return err
	}
	cfg := h.cfg.Engine()
	cfg.Registerer, cfg.CacheBytes, cfg.TableBytes = h.metrics, held.blocks, held.table
	cfg.Pebble = hooks.Pebble
	e, err := engine.Open(cfg)
	if err != nil {
		return err
	}
	if hooks.Engine != nil {
		hooks.Engine(e)
	}
	h.store = newAttachment(e, h.logger)
	if err := h.measure(); err != nil {
		return err
	}
	h.environment.logWarnings(h.logger)
	h.openControl()
	h.store.gate()
	if err := h.join(held); err != nil {
		return err
	}
	if hooks.Components != nil {
		hooks.Components(Components{h.dispatcher, h.service, h.holder, h.publishers.registry})
	}
	h.forget()
	return h.register()
}

// forget drops passwords, which nothing needs any more: a look at a House must not show them.
func (h *House) forget() {
	h.cfg.Store, h.cfg.RedisPassword, h.cfg.Proxy = h.cfg.Engine().Shown(), "", ""
}

// register adds the hub's metrics to those of the program, all or none.
func (h *House) register() error {
	if h.cfg.Registerer == nil {
		return nil
	}
	if err := h.cfg.Registerer.Register(h.metrics); err != nil {
		return fmt.Errorf(
			"%s: another hub has its metrics there, give each its own labels (prometheus.WrapRegistererWith): %w",
			h.cfg.name("Registerer"), err,
		)
	}
	h.registered = true
	return nil
}

// measure has the calls of the engine timed, and shows what this hub is.
func (h *House) measure() error {
	calls, err := measured.NewCalls(h.metrics)
	if err != nil {
		return err
	}
	s := h.store
	s.Subscriptions, s.Sources = calls.Subscriptions(s.Subscriptions), calls.Sources(s.Sources)
	s.Log, s.Pings, s.Cursors, s.Marks = calls.Log(s.Log), calls.Pings(s.Pings), calls.Cursors(s.Cursors), calls.Marks(s.Marks)
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "carillon", Name: "build_info", Help: "1, with the version of this hub and the engine of its store as labels.",
	}, []string{"version", "engine"})
	info.WithLabelValues(release.Version, s.Name()).Set(1)
	return h.metrics.Register(info)
}

// openControl makes the control socket. Without it the hub does all but answer commands.
func (h *House) openControl() {
	if h.store.Directory == "" {
		return
	}
	made, err := engine.Socket(h.store.Directory).Listen()
	if err != nil {
		h.logger.Warn("there is no control socket: commands that need the running hub (backup, topics, source, …) are not available",
			"directory", h.store.Directory, "error", err)
		return
	}
	h.control = made
}

// join makes the rooms, from the ground floor up.
func (h *House) join(held budgets) error {
	out := partsOf(machine.OpenFiles())
	out.logLimit(h.logger, machine.OpenFiles())
	h.testCallbacks, h.surety = operator.NewTestCallbacks(), &subscription.Surety{}
	if err := h.joinDelivery(out, held); err != nil {
		return err
	}
	if err := h.joinPublishers(); err != nil {
		return err
	}
	if err := h.joinHub(out.outgoing, held); err != nil {
		return err
	}
	h.holder = &holder{workers: h.workers(), Surety: h.surety}
	h.readiness = &readiness{
		store: h.store, holder: h.holder, dispatcher: h.dispatcher, warnings: h.warnings, stopping: h.stopping,
	}
	if err := h.metrics.Register(h.readiness); err != nil {
		return err
	}
	if err := h.joinOperator(); err != nil {
		return err
	}
	h.public, h.operators = newInFlightRequests(h.traces.Handler(h.hub.Handler())), newInFlightRequests(h.admin())
	return nil
}

func (h *House) joinDelivery(out parts, held budgets) error {
	way, err := h.cfg.egress(out.questions, h.metrics)
	if err != nil {
		return err
	}
	logProxy(way.Proxy, h.logger)
	cfg := h.cfg.Delivery()
	cfg.MaxInFlight, cfg.MaxSlow = out.inFlight, out.slow
	cfg.MaxBytes, cfg.CacheBytes = held.sending, held.latest
	cfg.Surety = h.surety
	dialer, err := egress.New(way)
	if err != nil {
		return fmt.Errorf("%s: %w", h.cfg.name("AllowNet"), err)
	}
	sender, err := send.NewHTTPSender(send.Config{
		Hub: h.cfg.URL, Version: release.Version, Signature: h.cfg.Signature, SignatureFor: h.cfg.SignatureFor,
		DeliveryTimeout: h.cfg.DeliveryTimeout, Inside: h.testCallbacks.Deliver,
		// Deliveries come in bursts to the same hosts: keep a connection for each that is not slow.
		Limits: send.Limits{
			MaxConnsPerHost: cfg.ConnsPerHost() + checksPerHost, IdlePerHost: maxPerHost, MaxConns: out.conns,
			IdleTimeout: out.idleTimeout(), IdleBytes: held.idle, SessionBytes: held.sessions,
		},
	}, dialer)
	if err != nil {
		return err
	}
	if err := h.metrics.Register(sender); err != nil {
		return err
	}
	h.outbound = outbound{dialer: dialer, proxy: way.Proxy, transport: sender.Transport(), connections: sender.Connections}
	stores := dispatch.Stores{Log: h.store.Log, Cursors: h.store.Cursors, Marks: h.store.Marks}
	h.dispatcher, err = dispatch.New(
		cfg, stores, ender{h}, h.traces.Sender(sender, h.cfg.TraceCallbacks), h.logger, h.metrics,
	)
	return err
}

// joinPublishers makes the registry of Sources, where only those may publish.
func (h *House) joinPublishers() (err error) {
	h.publishers = publishers{url: h.cfg.URL, logger: h.logger}
	if h.cfg.Publishers == api.Registered {
		h.publishers.registry, err = source.NewRegistry(h.store.Sources, source.Config{}, h.logger, h.metrics)
	}
	return err
}

func (h *House) joinHub(out outgoing, held budgets) error {
	cfg := hub.Config{
		URL: h.cfg.URL, Version: release.Version, MaxBody: h.cfg.MaxBody, TopicCheckTTL: h.cfg.TopicCheckTTL,
		TrustedProxies: h.cfg.TrustedProxy, OwnCallbacks: operator.ListenOrigin,
		MaxBodiesBytes: held.taking, MaxFetchBytes: held.fetching, Fetches: out.fetching,
	}
	checker, err := hub.NewChecker(cfg, h.outbound.transport, h.logger, h.metrics)
	if err != nil {
		return err
	}
	verifier, err := hub.NewVerifier(cfg, h.outbound.transport, h.metrics)
	if err != nil {
		return err
	}
	h.service, err = subscription.NewService(subscription.Config{
		Lease:        subscription.LeaseRules{Min: h.cfg.LeaseMin, Default: h.cfg.LeaseDefault, Max: h.cfg.LeaseMax},
		DrainTimeout: h.cfg.stageWithin(),
		Concurrency:  out.verifying, MaxSlow: out.slowVerifying,
		Surety: h.surety,
	}, h.store.Subscriptions, checker, h.traces.Confirmer(confirmer{h.testCallbacks, verifier}), h.dispatcher, h.logger, h.metrics)
	if err != nil {
		return err
	}
	parts := hub.Parts{
		Requests: h.service, Publisher: h.traces.Publisher(h.dispatcher), Audience: h.dispatcher, Pings: h.store.Pings,
		Checker: checker, Transport: h.outbound.transport, Addresses: h.outbound.dialer, Sources: h.publishers.sources(), Answers: fates{h}, Surety: h.surety,
	}
	if !h.cfg.NoChangeMemory {
		parts.Memory = gatedChangeMemory{h.store.Log, h.store}
	}
	if h.hub, err = hub.New(cfg, parts, h.logger, h.metrics); err != nil || h.cfg.NoSelfCheck {
		return err
	}
	client := selfCheckClient(h.cfg.SelfTLS)
	h.selfCheck = &selfCheck{name: h.cfg.name("URL"), check: func(ctx context.Context) error {
		return checkAddress(ctx, client, h.hub.SelfAddress(), h.cfg.URL, h.store.shared())
	}}
	return nil
}

// joinOperator makes the operator's desk, once all rooms are there.
func (h *House) joinOperator() (err error) {
	cfg := operator.Config{
		URL: h.cfg.URL, Engine: h.store.Name(), Version: release.Version, Started: time.Now(),
		Deliveries: h.dispatcher, Log: h.store.Log, Cursors: h.store.Cursors,
		Subscriptions: h.store.Subscriptions, Sources: h.store.Sources, Peers: h.store.Peers,
		Requests: h.service, Waiting: h.service.Pending, Connections: h.outbound.connections, TestCallbacks: h.testCallbacks,
		CheckTopic: h.outbound.dialer.CheckURL, Check: h.check,
		Checks: h.readiness.checked, Warnings: h.warnings, Logger: h.logger,
	}
	if h.publishers.registry != nil {
		cfg.Registry = h.publishers.registry
	}
	h.operatorService, err = operator.New(cfg)
	return err
}

// warnings are what the operator must know: of the program, the store, files that others can
// read, what was configured, and the ways out and back.
func (h *House) warnings() (all []string) {
	if h.cfg.Warnings != nil {
		all = h.cfg.Warnings()
	}
	all = append(all, h.store.Warnings()...)
	all = append(all, h.environment.warnings()...)
	all = append(all, h.cfg.warnings()...)
	for _, warning := range []string{h.selfCheck.Warning(), h.outbound.proxy.Warning()} {
		if warning != "" {
			all = append(all, warning)
		}
	}
	return all
}

// admin is what operators use. Streams end when the hub stops.
func (h *House) admin() http.Handler {
	var auth *api.Auth
	if h.cfg.OperatorToken != nil {
		auth = api.NewAuth(h.cfg.OperatorToken, h.logger)
		auth.Proxies = h.cfg.TrustedProxy
	}
	var gatherer prometheus.Gatherer = h.metrics
	if h.cfg.Gatherer != nil {
		gatherer = h.cfg.Gatherer
	}
	return api.Handler(api.Config{
		Checks: h.readiness.checks(), Warnings: h.warnings, Metrics: gatherer, Service: h.operatorService,
		Pages: page.New(page.Config{
			Service: h.operatorService, Version: release.Version, Open: h.publishers.registry == nil, Level: h.cfg.Level, Auth: auth, Stopping: h.stopping, Logger: h.logger,
		}),
		Auth: auth, Profiles: h.cfg.OperatorPprof,
		Version: release.Version, Publishers: h.publishers.mode(), Level: h.cfg.Level,
		Stopping: h.stopping, Logger: h.logger,
	})
}

// Handler returns what publishers and subscribers use, below the path of Config.URL.
func (h *House) Handler() http.Handler { return h.public }

// Operator returns what operators use.
func (h *House) Operator() http.Handler { return h.operators }

// Ready returns a channel that is closed when Run takes requests.
func (h *House) Ready() <-chan struct{} { return h.ready }

// Loading returns how many subscriptions are loaded, in how many of the shards that are this
// process's part; done once all were.
func (h *House) Loading() (subscriptions, held, fair int, done bool) {
	_ = h.readiness.deliveriesReady(context.Background())
	fair, _ = h.store.Fair()
	held, _ = h.holder.counts()
	return h.dispatcher.Stats().Subscriptions, held, fair, h.readiness.loaded.Load()
}

// Retire has /readyz answer 503, and ends the operators' streams.
func (h *House) Retire() {
	h.retire.Do(func() {
		close(h.stopping)
		h.logger.Info("stopping: what is under way is finished first")
	})
}

// Close closes a House that does not run. After Run it does nothing.
func (h *House) Close() error {
	if !h.phase.CompareAndSwap(idle, closed) {
		return nil
	}
	at, cancel := context.WithCancel(context.Background())
	cancel()
	h.public.close(at)
	h.operators.close(at)
	return h.close()
}

// close closes what is open. It may be called on a House that is half open.
func (h *House) close() (err error) {
	if h.registered {
		h.cfg.Registerer.Unregister(h.metrics)
	}
	if h.control != nil {
		h.control.Remove()
	}
	if h.store != nil {
		err = h.store.Close()
	}
	closeTraces(h.traces, h.logger)
	return err
}
