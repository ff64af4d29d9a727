package subscription

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/internal/turns"
	"carillon/internal/wallclock"
)

// Wish is a subscribe or unsubscribe request as it was parsed. Topic and
// Callback are byte for byte what the subscriber wrote.
type Wish struct {
	Mode     Mode
	Topic    string
	Callback string
	Secret   Secret
	// VerifyToken is sent back to the callback with the verification; empty: none.
	VerifyToken Secret
	// Lease is the hub.lease_seconds of the request, if LeaseGiven.
	Lease      time.Duration
	LeaseGiven bool
	// Client is who sends the request, as far as limits are concerned: any text that is the
	// same for the same sender. Where it is a network of IPv6 the /48 around it has limits as
	// well. Empty: no limit of a client applies. It is not stored.
	Client string
}

// Service carries requests through their lives and ends subscriptions whose lease is over, in the
// shards of this process (Gained, Lost). Its methods may be called from any goroutine, at any time,
// except Gained and Lost, which are called one at a time. Run carries on what they began.
type Service struct {
	cfg      Config
	books    *books
	docket   *docket
	listener *listener
	asker    *asker
	sweeper  *sweeper
	logger   *slog.Logger
	metrics  *metrics
	clock    *wallclock.Clock // by which leases begin and end
}

// NewService returns a Service over the store. The logger and the registerer
// may be nil.
func NewService(
	cfg Config, store Store, validator Validator, confirmer Confirmer, roster Roster,
	logger *slog.Logger, reg prometheus.Registerer,
) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("subscription: %w", err)
	}
	cfg = cfg.withDefaults()
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	d := newDocket(cfg)
	m, err := newMetrics(reg, d.pending)
	if err != nil {
		return nil, fmt.Errorf("subscription: %w", err)
	}
	d.metrics = m
	b, h := newBooks(store, roster), &health{metrics: m, logger: logger}
	l := newListener(cfg, b, d, h)
	clock := wallclock.New(wallclock.Config{Wall: cfg.Clock, DoubtFor: doubtFor})
	writer := &settler{cfg: cfg, books: b, docket: d, listener: l, health: h, metrics: m, logger: logger}
	return &Service{
		cfg: cfg, books: b, docket: d, listener: l, logger: logger, metrics: m, clock: clock,
		asker: &asker{
			cfg: cfg, validator: validator, confirmer: confirmer, books: b, docket: d,
			settler: writer, health: h, clock: clock, logger: logger,
		},
		sweeper: &sweeper{
			cfg: cfg, books: b, docket: d, sure: cfg.Surety, health: h, clock: clock, metrics: m, logger: logger,
		},
	}, nil
}

// Submit accepts a request. When it returns nil the request is durable and will be carried through,
// even if the process dies, and the subscriber is owed a 202 (WebSub §5.1.2). An earlier request for
// the same topic and callback that is not settled yet counts no more. The process that owns its shard
// carries it through; the store informs that process.
//
// It returns ErrBusy where too much is pending, here or in the store, a *Later with ErrHostBusy or
// ErrClientBusy where too much of one host or client is, and ErrUnavailable where the store has
// trouble. A replacement of a pending request needs no room. A request for an existing subscription
// meets no bound of a host or a client, and has a tenth of MaxPending to itself: else a stranger could
// keep its subscriber from renewing. Of several processes that share a store each counts the requests
// it has taken, or works on.
//
// After all errors but ErrUnavailable nothing has changed. After ErrUnavailable nothing will come of
// the request where the shard is this process's, and an earlier one still counts. Where it is
// another's, the store may hold the request in the place of an earlier one. Its owner then asks the
// callback about it: only a request that the callback confirms takes effect. Once it has begun, the
// end of ctx does not stop it; Config.StoreTimeout does.
func (s *Service) Submit(ctx context.Context, w Wish) error {
	if w.Mode != ModeSubscribe && w.Mode != ModeUnsubscribe {
		return fmt.Errorf("mode %q is neither subscribe nor unsubscribe", w.Mode)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r := s.request(w)
	release, err := s.admit(ctx, r, w.Client)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.StoreTimeout)
	defer cancel()
	unlock, err := s.books.lock(ctx, r.ID)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.books.submit(ctx, r); err != nil {
		if !errors.Is(err, ErrBusy) {
			s.metrics.storeErrors.Inc()
			s.docket.disown(r)
		}
		return fmt.Errorf("keeping the request: %w", err)
	}
	s.metrics.requests.WithLabelValues(string(w.Mode)).Inc()
	s.docket.take(r, turns.Fresh, w.Client)
	return nil
}

// admit takes a place among the pending for a request, until release is called.
func (s *Service) admit(ctx context.Context, r Request, client string) (release func(), err error) {
	release, err = s.docket.enter(r, client, false)
	if err == nil {
		return release, nil
	}
	// Only where a bound is met, as it costs a look at the store.
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StoreTimeout)
	defer cancel()
	if sub, lookErr := s.books.store.Get(ctx, r.ID); lookErr == nil && renews(r, sub) {
		return s.docket.enter(r, client, true)
	}
	return nil, err
}

// request makes the request that a wish is kept as.
func (s *Service) request(w Wish) Request {
	r := Request{
		ID:          NewID(w.Topic, w.Callback),
		Token:       uuid.New(),
		Mode:        w.Mode,
		Topic:       w.Topic,
		Callback:    w.Callback,
		VerifyToken: w.VerifyToken,
		Received:    storable(s.clock.Now()), // the lease that it may renew goes by that
	}
	if w.Mode == ModeSubscribe {
		r.Secret = w.Secret
		r.Lease = s.cfg.Lease.Grant(w.Lease, w.LeaseGiven)
	}
	return r
}

// errUnsure: whether a subscription is to end is for its owner to say.
var errUnsure = fmt.Errorf("%w: another process may own the shard by now", ErrUnavailable)

// Deny ends an active subscription and sends its callback the denial (WebSub §5.2). When it returns
// nil the subscription is gone for good. The callback gets the denial after that, and again if it does
// not answer, but not after a restart. It gets none where a request for the same topic and callback is
// pending, whose own outcome decides. Deny may be called for a subscription of any shard; where that
// is lost, so is a denial that was not sent yet (Lost).
//
// It returns ErrNotFound where the subscription does not exist, ErrSuperseded where it was renewed
// since sub was read, ErrBusy where too many callbacks wait for a denial, and ErrUnavailable where the
// store has trouble, or the time for which this process is sure of its shards has passed
// (Config.Surety). After the last two the call may be repeated with the same sub.
func (s *Service) Deny(ctx context.Context, sub Subscription, reason string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.docket.reserve(sub.ID) {
		return ErrBusy
	}
	defer s.docket.release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.StoreTimeout)
	defer cancel()
	unlock, err := s.books.lock(ctx, sub.ID)
	if err != nil {
		return err
	}
	defer unlock()
	if !s.cfg.Surety.Of(ShardOf(sub.ID), time.Now()) { // by now: the lock may have taken long
		return errUnsure
	}
	if err := s.books.remove(ctx, sub); err != nil {
		if !errors.Is(err, ErrSuperseded) && !errors.Is(err, ErrNotFound) {
			s.metrics.storeErrors.Inc()
		}
		return fmt.Errorf("ending the subscription: %w", err)
	}
	s.logger.Info("subscription denied", "subscription", sub, "reason", reason)
	// The callback gets no denial where a request is pending, as far as that can be read.
	var stored *Request
	if r, err := s.books.store.Request(ctx, sub.ID); err == nil {
		stored = &r
	}
	s.docket.takeNotice(newNotice(sub, reason), stored)
	return nil
}

// Remove ends a subscription whose callback answered 410 (WebSub §7); the callback gets no denial.
// When it returns without an error the Roster has the present state: Ended, or Activated with the
// subscription that stands because it was renewed since sub was read. removed reports whether this
// call, or one before it that seemed to fail, ended it.
//
// After an error it is not known whether the subscription is gone, and the call may be repeated with
// the same sub. If it is not repeated, Run finds out and informs the Roster. The error is
// ErrUnavailable where the time for which this process is sure of its shards has passed
// (Config.Surety).
func (s *Service) Remove(ctx context.Context, sub Subscription) (removed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StoreTimeout)
	defer cancel()
	unlock, err := s.books.lock(ctx, sub.ID)
	if err != nil {
		return false, err
	}
	defer unlock()
	if !s.cfg.Surety.Of(ShardOf(sub.ID), time.Now()) { // by now: the lock may have taken long
		return false, errUnsure
	}
	switch err := s.books.remove(ctx, sub); {
	case err == nil:
		return true, nil
	case errors.Is(err, ErrSuperseded), errors.Is(err, ErrNotFound):
		return false, nil
	default:
		s.metrics.storeErrors.Inc()
		return false, fmt.Errorf("ending the subscription: %w", err)
	}
}

// Pending is how many requests of this process's shards, and denials, wait to be settled.
func (s *Service) Pending() int { return s.docket.pending() }
