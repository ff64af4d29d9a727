package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"carillon"
	"carillon/cmd/internal/program"
	"carillon/internal/await"
	"carillon/operator/api"
)

// openedHub is what the command needs of a *carillon.Hub.
type openedHub interface {
	Handler() http.Handler
	Operator() http.Handler
	Run(ctx context.Context) error
	Close() error
	Ready() <-chan struct{}
	Retire()
	Loading() carillon.Loading
}

// openHub is carillon.Open.
func openHub(cfg carillon.Config) (openedHub, error) {
	h, err := carillon.Open(cfg)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// serving is a hub with its listeners.
type serving struct {
	openedHub
	url      string
	drain    time.Duration // how long the public port serves after SIGTERM
	logger   *slog.Logger
	public   *program.Listener
	operator *program.Listener
	reloads  *program.Reloader // nil without one
	screen   *program.Screen   // nil: no terminal
	metrics  *prometheus.Registry
}

// run serves until ctx ends.
func (f *serveCommand) run(ctx context.Context, logger *slog.Logger, _ io.Reader, stdout, stderr io.Writer) error {
	program.WarnOfVariables(logger, name, &commands{}, passwordVariable, api.TokenVariable)
	s, err := f.start(ctx, logger)
	if err != nil {
		return err
	}
	defer s.close()
	s.screen, _ = stderr.(*program.Screen)
	return s.run(ctx, func() {
		program.Ready(stdout, name,
			program.Address{Name: "listen", Value: s.public.Addr().String()},
			program.Address{Name: "admin", Value: s.operator.Addr().String()},
			program.Address{Name: "url", Value: s.url})
	})
}

// start opens the listeners and the hub. On an error nothing stays open.
func (f *serveCommand) start(ctx context.Context, logger *slog.Logger) (*serving, error) {
	s := &serving{drain: f.Drain, logger: logger}
	if f.again.Read != nil {
		s.reloads = program.NewReloader(f.again)
		s.reloads.Prepare = s.prepare
	}
	if err := s.open(ctx, f); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *serving) open(ctx context.Context, f *serveCommand) (err error) {
	if s.public, err = program.Prepare(ctx, f.publicEndpoint(s.logger)); err != nil {
		return err
	}
	if s.operator, err = program.Listen(ctx, f.adminEndpoint(s.logger)); err != nil {
		return err
	}
	token, err := f.guardOperator(s.operator.Addr(), s.logger)
	if err != nil {
		return err
	}
	cfg, err := f.config(s.logger)
	if err != nil {
		return err
	}
	if cfg.NoSelfCheck = f.URL == ""; cfg.NoSelfCheck {
		if cfg.URL, err = s.public.BaseURL("/websub/"); err != nil {
			return err
		}
	} else if f.TLS.Cert != "" {
		if cfg.SelfTLS, err = program.Trusting(f.TLS.Cert); err != nil {
			return fmt.Errorf("--tls-cert: %w", err)
		}
	}
	s.url = cfg.URL
	s.public.ToldAs(s.url, s.logger)
	s.public.AnswerTo(s.url, f.Host, s.logger)
	if f.again.Level != nil {
		cfg.Level = f.again.Level
	}
	if token != nil {
		cfg.OperatorToken = token.Now
	}
	for _, warning := range f.exposed() {
		s.logger.Warn(warning)
	}
	listeners := program.Listeners{"public": s.public, "admin": s.operator}
	cfg.Warnings = func() []string {
		return append(append(listeners.Warnings(), token.Warnings()...), f.exposed()...)
	}
	s.metrics = newRegistry()
	s.metrics.MustRegister(listeners)
	cfg.Registerer, cfg.Gatherer = s.metrics, s.metrics
	cfg.Listen = s.public.Open
	cfg.Serve = func(ctx context.Context, handler http.Handler) error {
		return program.Serve(ctx, s.public, handler, s.logger)
	}
	s.openedHub, err = f.open(cfg)
	return err
}

// newRegistry is where everything of this process is registered.
func newRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsGC)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return reg
}

// prepare looks at what a reload takes. The file of the operator's token is looked at by
// itself (operatorToken).
func (s *serving) prepare(command any) (c program.Change, err error) {
	f := command.(*serveCommand)
	if err := c.Renew(s.public, f.TLS, ""); err != nil {
		return c, err
	}
	err = c.Renew(s.operator, f.AdminTLS, "admin-")
	return c, err
}

// run serves until ctx ends or a part fails. Requests are accepted until the drain ends. The
// operator can look on until the hub has ended. ready is called when the hub takes requests.
func (s *serving) run(ctx context.Context, ready func()) error {
	accepting, endDrain := program.Drain(ctx, s.drain)
	defer endDrain()
	parts, partsCtx := errgroup.WithContext(accepting)
	defer await.AfterFunc(ctx, func() {
		s.public.CloseEach()
		s.Retire()
		select {
		case <-s.Ready():
		default:
			endDrain() // no balancer sends requests here
		}
	})()
	operator, closeOperator := context.WithCancel(context.WithoutCancel(ctx))
	defer closeOperator()
	looked := make(chan error, 1)
	go func() { looked <- program.Serve(operator, s.operator, s.Operator(), s.logger) }()
	parts.Go(func() error {
		select {
		case err := <-looked:
			looked <- nil // for the end
			return fmt.Errorf("a part of the hub ended: %w", err)
		case <-partsCtx.Done():
			return nil
		}
	})
	parts.Go(func() error { return s.Run(partsCtx) })
	if s.reloads != nil {
		parts.Go(func() error { return s.reloads.Run(partsCtx) })
	}
	parts.Go(func() error {
		select {
		case <-s.Ready():
			ready()
			s.showLoading(partsCtx)
		case <-partsCtx.Done():
		}
		return nil
	})
	err := parts.Wait()
	closeOperator()
	return errors.Join(err, <-looked)
}

// showLoading shows on a terminal how many of the subscriptions are loaded, until this process has
// its part or ctx ends.
func (s *serving) showLoading(ctx context.Context) {
	if s.screen == nil {
		return
	}
	defer s.screen.Show("")
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(program.TellOnScreen):
		}
		now := s.Loading()
		if now.Done {
			return
		}
		s.screen.Show(
			fmt.Sprintf("loading subscriptions: %d in %d of %d shards", now.Subscriptions, now.Shards, now.Of),
		)
	}
}

// close closes what is open. It may be called where start has failed.
func (s *serving) close() {
	for _, ln := range []*program.Listener{s.public, s.operator} {
		if ln != nil {
			_ = ln.Close() // served listeners are closed already
		}
	}
	if s.openedHub != nil {
		if err := s.openedHub.Close(); err != nil {
			s.logger.Error("closing the store", "error", err)
		}
	}
}
