package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"carillon/admin"
	"carillon/cmd/internal/program"
	"carillon/delivery"
	"carillon/hub"
	"carillon/internal/egress"
	"carillon/subscription"
)

// drainWithin is what each of the two long stages of the end may take, the
// intake and the deliveries. With the few seconds for the last positions the end
// stays within program.StopWithin; the operator's listener, closed last, holds
// it up only for an answer that is being read.
const drainWithin = program.DrainWithin

// house is a hub with all its rooms joined.
type house struct {
	url        string
	logger     *slog.Logger
	metrics    *prometheus.Registry
	public     net.Listener
	operator   net.Listener
	store      *engine
	dispatcher *delivery.Dispatcher
	service    *subscription.Service
	hub        *hub.Hub
	stopping   atomic.Bool // it was told to end
}

// open opens listeners and store and joins the rooms. On an error nothing stays
// open.
func open(ctx context.Context, f serveCommand, logger *slog.Logger) (*house, error) {
	h := &house{url: f.URL, logger: logger, metrics: newRegistry()}
	if err := h.open(ctx, f); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

func (h *house) open(ctx context.Context, f serveCommand) (err error) {
	if h.public, err = program.Listen(ctx, "listen", f.Listen); err != nil {
		return err
	}
	if h.operator, err = program.Listen(ctx, "admin", f.Admin); err != nil {
		return err
	}
	if h.url == "" {
		if h.url, err = program.BaseURL(h.public, "/websub/"); err != nil {
			return err
		}
	}
	if err := (hub.Config{URL: h.url}).Validate(); err != nil {
		return fmt.Errorf("--url: %w", err)
	}
	if h.store, err = openEngine(f.storeFlags, h.logger, h.metrics); err != nil {
		return err
	}
	return h.join(f)
}

func newRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsGC)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return reg
}

// join makes the rooms, from the ground floor up.
func (h *house) join(f serveCommand) error {
	asking, err := egress.New(egress.Config{AllowNets: f.AllowNet, AllowLoopback: egress.LoopbackURL(h.url)})
	if err != nil {
		return fmt.Errorf("--allow-net: %w", err)
	}
	if err := h.joinDelivery(f); err != nil {
		return err
	}
	return h.joinHub(f, asking)
}

// Bounds on deliveries (delivery.Config).
const (
	maxInFlight = 512
	maxPerHost  = 64
)

func (h *house) joinDelivery(f serveCommand) error {
	cfg := delivery.Config{
		MaxInFlight: maxInFlight, MaxPerHost: maxPerHost,
		RetryFirst: f.RetryFirst, RetryMax: f.RetryMax, RetryFor: f.RetryFor,
		DrainTimeout: drainWithin,
	}
	// Deliveries come in bursts to the same hosts: keep a connection for each
	// that is not slow.
	sending, err := egress.New(egress.Config{
		AllowNets: f.AllowNet, AllowLoopback: egress.LoopbackURL(h.url),
		MaxConnsPerHost: cfg.ConnsPerHost(), IdlePerHost: maxPerHost, IdleConns: 4 * maxInFlight,
	})
	if err != nil {
		return fmt.Errorf("--allow-net: %w", err)
	}
	sender, err := delivery.NewHTTPSender(delivery.SenderConfig{
		Hub: h.url, Version: program.Version, Signature: f.Signature, DeliveryTimeout: f.DeliveryTimeout,
	}, sending.Transport())
	if err != nil {
		return err
	}
	h.dispatcher, err = delivery.New(cfg, delivery.Stores{Log: h.store.Log, Cursors: h.store.Cursors}, ender{h}, sender, h.logger, h.metrics)
	return err
}

// ender ends subscriptions for the dispatcher, which is made before the service
// and runs after it is made.
type ender struct{ *house }

func (e ender) Remove(ctx context.Context, sub subscription.Subscription) (bool, error) {
	return e.service.Remove(ctx, sub)
}

func (h *house) joinHub(f serveCommand, asking *egress.Dialer) error {
	cfg := hub.Config{URL: h.url, Version: program.Version, MaxBody: f.MaxBody, TopicCheckTTL: f.TopicCheckTTL}
	transport := asking.Transport()
	checker, err := hub.NewChecker(cfg, transport, h.logger, h.metrics)
	if err != nil {
		return err
	}
	verifier, err := hub.NewVerifier(cfg, transport, h.metrics)
	if err != nil {
		return err
	}
	h.service, err = subscription.NewService(subscription.Config{
		Lease:        subscription.LeaseRules{Min: f.LeaseMin, Default: f.LeaseDefault, Max: f.LeaseMax},
		DrainTimeout: drainWithin,
	}, h.store.Subscriptions, checker, verifier, h.dispatcher, h.logger, h.metrics)
	if err != nil {
		return err
	}
	h.hub, err = hub.New(cfg, hub.Parts{
		Requests: h.service, Publisher: h.dispatcher, Audience: h.dispatcher, Pings: h.store.Pings,
		Checker: checker, Transport: transport, Addresses: asking,
	}, h.logger, h.metrics)
	return err
}

// run serves until ctx ends or a part fails, then ends in order: first what
// takes in, then what delivers, then the shards are handed back. The operator
// can look on until then.
func (h *house) run(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() {
		h.stopping.Store(true)
		h.logger.Info("stopping: what is under way is finished first")
	})()
	operator, closeOperator := context.WithCancel(context.WithoutCancel(ctx))
	defer closeOperator()
	shards, releaseShards := context.WithCancel(context.WithoutCancel(ctx))
	defer releaseShards()
	deliveries, stopDeliveries := context.WithCancel(shards)
	defer stopDeliveries()

	intake, intakeCtx := errgroup.WithContext(ctx)
	var lower errgroup.Group // what ends after the intake; a failure there stops the intake
	failed := make(chan error, 3)
	lower.Go(func() error {
		defer releaseShards()
		err := h.dispatcher.Run(deliveries)
		failed <- err
		return err
	})
	lower.Go(func() error {
		err := h.store.Shards.Run(shards, h.dispatcher)
		failed <- err
		return err
	})
	var looking errgroup.Group
	looking.Go(func() error {
		err := program.Serve(operator, h.operator, h.admin(), h.logger)
		failed <- err
		return err
	})
	intake.Go(func() error { return program.Serve(intakeCtx, program.Limited(h.public), h.hub.Handler(), h.logger) })
	intake.Go(func() error { return h.hub.Run(intakeCtx) })
	intake.Go(func() error { return h.service.Run(intakeCtx) })
	intake.Go(func() error {
		select {
		case <-intakeCtx.Done():
			return nil
		case err := <-failed:
			return fmt.Errorf("a part of the hub ended: %w", err)
		}
	})
	err := intake.Wait()
	stopDeliveries()
	err = errors.Join(err, lower.Wait())
	closeOperator()
	return errors.Join(err, looking.Wait())
}

// admin is the operator's listener.
func (h *house) admin() http.Handler {
	return admin.Handler(admin.Config{
		Checks: []admin.Check{
			{Name: "hub", Ready: h.notStopping},
			{Name: "store", Ready: h.storeReady},
			{Name: "deliveries", Ready: h.deliveriesReady},
		},
		Metrics: h.metrics,
		Logger:  h.logger,
	})
}

func (h *house) notStopping(context.Context) error {
	if h.stopping.Load() {
		return errors.New("it is stopping")
	}
	return nil
}

// storeReady reads a subscription that does not exist.
func (h *house) storeReady(ctx context.Context) error {
	_, err := h.store.Subscriptions.Get(ctx, subscription.ID{})
	if errors.Is(err, subscription.ErrNotFound) {
		return nil
	}
	return err
}

func (h *house) deliveriesReady(context.Context) error {
	switch stats := h.dispatcher.Stats(); {
	case stats.Shards < subscription.Shards:
		return fmt.Errorf("subscriptions are being loaded: %d of %d shards", stats.Shards, subscription.Shards)
	case stats.Paused:
		return errors.New("deliveries pause because the store fails; they go on by themselves")
	}
	return nil
}

// close closes what is open. It may be called on a house that is half open.
func (h *house) close() {
	for _, ln := range []net.Listener{h.public, h.operator} {
		if ln != nil {
			_ = ln.Close() // served listeners are closed already
		}
	}
	if h.store != nil {
		if err := h.store.Close(); err != nil {
			h.logger.Error("closing the store", "error", err)
		}
	}
}
