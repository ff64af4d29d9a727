package hub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"carillon/internal/turns"
	"carillon/subscription"
	"carillon/topic"
)

// renewals is how many topics may wait to be asked again in the background; one
// more is asked when it is wanted next.
const renewals = 1024

// Checker asks topics whether they name this hub: by HEAD, then by GET where HEAD is refused or does
// not show it. A topic does if it answers with 2xx, rel=self equal to the topic, and a rel=hub equal
// to this hub (DESIGN "Topic check"; WebSub §4, CN §4.1).
//
// A good answer counts for Config.TopicCheckTTL, and requests for the topic do not wait meanwhile.
// Past half of that time the topic is asked again in the background. A topic whose server is away
// keeps its good answer to the end of that time and no longer. A refusal counts for
// Config.TopicRefusalTTL; a server that is away is not remembered. Callers that ask at the same time
// share one check.
//
// Its methods may be called from any goroutine. The background work runs while Hub.Run runs.
type Checker struct {
	cfg     Config
	asker   *asker
	known   *verdicts
	flights singleflight.Group
	paced   singleflight.Group
	gate    *turns.Gate
	pace    *pace
	renew   chan topic.Address
	logger  *slog.Logger
	metrics *checkMetrics
}

var _ subscription.Validator = (*Checker)(nil)

// NewChecker returns a Checker, or an error that reports the faults of the
// Config. The logger and the registerer may be nil.
func NewChecker(
	cfg Config, transport http.RoundTripper, logger *slog.Logger, reg prometheus.Registerer,
) (*Checker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("hub: topic check: %w", err)
	}
	if transport == nil {
		return nil, errors.New("hub: topic check: no transport")
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	cfg = cfg.withDefaults()
	c := &Checker{
		cfg:   cfg,
		asker: newAsker(cfg, transport),
		known: newVerdicts(cfg.TopicCheckEntries),
		gate: turns.NewGate(turns.GateConfig{Config: turns.Config[string]{
			Slots: cfg.TopicChecks, PerPeer: cfg.TopicChecksPerHost,
			SlowAfter: cfg.TopicCheckSlowAfter, SlowSlots: cfg.SlowTopicChecks,
		}}),
		pace:   newPace(),
		renew:  make(chan topic.Address, renewals),
		logger: logger,
	}
	var err error
	if c.metrics, err = newCheckMetrics(reg, c.known.len); err != nil {
		return nil, fmt.Errorf("hub: topic check: metrics: %w", err)
	}
	return c, nil
}

// Validate returns nil if the topic names this hub, a *subscription.Refusal if it
// does not, ErrTopicAway if its server could not tell, and subscription.ErrBusy if
// there was no room to ask it, or it is not its time: a site whose topics have refused, or
// not answered, many times in a row is asked once a second.
func (c *Checker) Validate(ctx context.Context, topicURL string) error {
	at := topic.Parse(topicURL)
	if said, ok := c.remembered(at); ok {
		return said
	}
	return c.check(ctx, at, true)
}

// remembered returns what Validate would without asking the topic, if it is remembered.
func (c *Checker) remembered(at topic.Address) (said error, ok bool) {
	found, stale, ok := c.known.get(at.Key(), time.Now())
	c.metrics.cached.WithLabelValues(yesNo(ok)).Inc()
	if stale {
		select {
		case c.renew <- at:
		default: // as many wait as may; this one keeps its answer to its end
		}
	}
	return found.refusal, ok
}

// check asks the topic, whatever is remembered. Those who ask at the same time
// share the answer, so one who gives up does not break it off. Paced: it may be a
// stranger who wants to know, of a topic that does not name this hub; he shares with his
// like, as the answer may be that it is not his turn.
func (c *Checker) check(ctx context.Context, at topic.Address, paced bool) error {
	flights := &c.flights
	if paced {
		flights = &c.paced
	}
	flight := flights.DoChan(at.Key(), func() (any, error) {
		if paced {
			if err := c.pace.turn(at); err != nil {
				return nil, err
			}
		}
		return nil, c.askInTurn(context.WithoutCancel(ctx), at)
	})
	select {
	case <-ctx.Done():
		return ctx.Err()
	case result := <-flight:
		return result.Err
	}
}

// askInTurn asks the topic when there is a place for it. That it waited is not held
// against the topic: it has its own time from then on, and where there is no place in
// as long a time the error is errBusy.
func (c *Checker) askInTurn(ctx context.Context, at topic.Address) error {
	waiting, cancel := context.WithTimeout(ctx, c.cfg.TopicCheckTimeout)
	defer cancel()
	pass, err := c.gate.Enter(waiting, topic.Site(at.String()))
	if err != nil {
		return fmt.Errorf("%w: %w", errBusy, err)
	}
	defer pass.Leave()
	return c.ask(ctx, at)
}

// ask asks the topic and remembers what it said.
func (c *Checker) ask(ctx context.Context, at topic.Address) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.TopicCheckTimeout)
	defer cancel()
	err := c.asker.ask(ctx, at)
	c.pace.note(at, err)
	said := verdict{key: at.Key(), refusal: err}
	now := time.Now()
	var refusal *subscription.Refusal
	switch {
	case err == nil:
		said.renew, said.expires = now.Add(c.cfg.TopicCheckTTL/2), now.Add(c.cfg.TopicCheckTTL)
		c.metrics.checks.WithLabelValues(checkGood).Inc()
	case errors.As(err, &refusal):
		said.expires = now.Add(c.cfg.TopicRefusalTTL)
		said.renew = said.expires
		c.metrics.checks.WithLabelValues(checkRefused).Inc()
	default:
		c.metrics.checks.WithLabelValues(checkAway).Inc()
		return err
	}
	c.known.put(said)
	return err
}

// run asks topics again whose good answer is past half of its time.
func (c *Checker) run(ctx context.Context) error {
	var g errgroup.Group
	g.SetLimit(c.cfg.TopicChecks)
	for {
		select {
		case <-ctx.Done():
			_ = g.Wait()
			return nil
		case at := <-c.renew:
			g.Go(func() error {
				if err := c.check(ctx, at, false); err != nil && ctx.Err() == nil {
					c.logger.Info("topic check not renewed", "topic", at.String(), "error", err)
				}
				return nil
			})
		}
	}
}
