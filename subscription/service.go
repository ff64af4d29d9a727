package subscription

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/internal/standing"
	"carillon/internal/wallclock"
)

// ErrBusy: as many requests wait to be settled as Config.MaxPending allows, or a
// Store does. Handlers answer 503 with Retry-After.
var ErrBusy = errors.New("too many requests wait to be verified")

// Errors of Submit that concern one host or one client alone. Each is within a *Later.
// Handlers answer 429 with Retry-After.
var (
	// ErrHostBusy: too many requests wait for one site, that of the callback or of the
	// topic; or fewer where it is in bad standing (Config.BadAfter).
	ErrHostBusy = errors.New("too many requests wait for one host")
	// ErrClientBusy: too many requests of one client wait.
	ErrClientBusy = errors.New("too many requests of one client wait")
)

// Errors that a Confirmer returns, wrapped.
var (
	// ErrNoIntent: the callback answered, but not with 2xx and exactly the
	// challenge (WebSub §5.3.1).
	ErrNoIntent = errors.New("the callback did not confirm")
	// ErrNoAnswer: nothing that counts as an answer came from the callback.
	ErrNoAnswer = errors.New("the callback did not answer")
)

// Refusal is a Validator's definitive no. Reason goes to the subscriber as
// hub.reason.
type Refusal struct{ Reason string }

// Error returns the reason.
func (r *Refusal) Error() string { return r.Reason }

// Validator checks topics before anyone may subscribe to them (WebSub §5.2).
// It is called from several goroutines and gives up when ctx ends.
type Validator interface {
	// Validate returns nil if the topic names this hub and a *Refusal if it
	// definitely does not. ErrBusy says that it had no time to ask. Any other
	// error says that it could not tell. In both cases it is asked again.
	Validate(ctx context.Context, topic string) error
}

// Confirmer speaks to callbacks. It is called from several goroutines, but by one
// process for one topic and callback never twice at once, and gives up when ctx ends.
type Confirmer interface {
	// Confirm asks the callback whether it intends what r says (WebSub §5.3).
	// It returns nil for 2xx with exactly the challenge, ErrNoIntent for any
	// other answer, and ErrNoAnswer where there was none.
	Confirm(ctx context.Context, r Request, challenge string) error
	// Deny tells the callback hub.mode=denied (WebSub §5.2). It returns nil
	// for any answer, and ErrNoAnswer where there was none.
	Deny(ctx context.Context, topic, callback, reason string) error
}

// Roster is who delivers: it is told of every subscription that begins or ends.
// It is told in the order in which the store changed; its methods must not call
// back into the Service.
type Roster interface {
	// Head returns the sequence number of the topic's last notification. An
	// error counts as trouble with the store.
	Head(ctx context.Context, topic string) (uint64, error)
	// Activated is told of a subscription that is new, renewed, or to be
	// looked at again; it may be told of the same one twice.
	Activated(Subscription)
	// Ended is told of a subscription that is gone; it may be one it never
	// heard of.
	Ended(ID)
}

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

// Service carries requests through their lives and ends subscriptions whose
// lease is over, in the shards that it is told are this process's (Gained, Lost).
// Its methods may be called from any goroutine, at any time, but for Gained and
// Lost one at a time; what they began is carried on while Run runs.
type Service struct {
	cfg       Config
	validator Validator
	confirmer Confirmer
	books     *books
	logger    *slog.Logger
	metrics   *metrics
	clock     *wallclock.Clock // by which leases begin and end

	// These hold one token each. wake tells Run that the queue or running changed,
	// news that heard did, and stale that everything is to be read again.
	wake, news, stale chan struct{}

	mu sync.Mutex
	// shards holds those that are this process's, nil for the others. Owned by mu.
	shards [Shards]*tenancy
	sure   Surety // what Sure told. Owned by mu.
	// heard holds the IDs whose request is to be read. Owned by mu.
	heard map[ID]struct{}
	// jobs holds, for each ID, the job that counts: a request of a shard of this
	// process, or a notice. Owned by mu.
	jobs map[ID]*job
	// running holds the jobs that a goroutine works on, one for each ID at
	// most; it is not the job in jobs where that replaced it. Owned by mu.
	running map[ID]*job
	// reserved counts the Submits whose job is not in jobs yet. Owned by mu.
	reserved int
	// waits counts the jobs, and the Submits under way, by whom they concern. Owned by mu.
	waits waits
	// young holds the running jobs that have a place of Config.Concurrency, the one that began
	// first leading; slow counts the others, and beside those of them that never had one.
	// Owned by mu.
	young        list.List
	slow, beside int
	// queue holds the jobs that are not running. Owned by mu.
	queue *queue

	// storeTrouble: the last call of the store failed.
	storeTrouble atomic.Bool
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
	s := &Service{
		cfg:       cfg,
		validator: validator,
		confirmer: confirmer,
		books:     newBooks(store, roster),
		logger:    logger,
		clock:     wallclock.New(wallclock.Config{Wall: cfg.Clock, DoubtFor: doubtFor}),
		wake:      make(chan struct{}, 1),
		news:      make(chan struct{}, 1),
		stale:     make(chan struct{}, 1),
		heard:     make(map[ID]struct{}),
		jobs:      make(map[ID]*job),
		running:   make(map[ID]*job),
		waits:     newWaits(),
		queue:     newQueue(cfg.PerHost, standing.Config{Failures: cfg.BadAfter, Every: cfg.BadEvery, Sites: cfg.BadSites}),
	}
	m, err := newMetrics(reg, s.pending)
	if err != nil {
		return nil, fmt.Errorf("subscription: %w", err)
	}
	s.metrics = m
	return s, nil
}

// Submit accepts a request: when it returns nil the request is durable and
// will be carried through, whatever happens to the process, and the subscriber
// is owed a 202 (WebSub §5.1.2). An earlier request for the same topic and
// callback that is not settled yet counts no more. It is carried through by the
// process that owns its shard, which the store tells of it.
//
// It returns ErrBusy where too much is pending, here or in the store, a *Later with
// ErrHostBusy or ErrClientBusy where too much of one host or client is, and
// ErrUnavailable where the store has trouble. What replaces a pending request needs no
// room. What concerns a subscription that stands meets no bound of a host or a client, and
// has a tenth of MaxPending to itself: else a stranger could keep its subscriber from renewing. Of several processes that
// share a store each counts what it has taken, or works on. After all but ErrUnavailable nothing has changed.
// After ErrUnavailable nothing will come of the request where the shard is this
// process's, and an earlier one still counts. Where it is another's, the store may
// hold the request in the place of an earlier one, and its owner then asks
// the callback about it: only what the callback confirms takes effect. Once it has
// begun, the end of ctx does not stop it; Config.StoreTimeout does.
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
			s.disown(r)
		}
		return fmt.Errorf("keeping the request: %w", err)
	}
	s.metrics.requests.WithLabelValues(string(w.Mode)).Inc()
	s.take(r, fresh, w.Client)
	return nil
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

// Deny ends an active subscription and tells its callback so (WebSub §5.2). When
// it returns nil the subscription is gone for good; the callback is told after
// that, and again if it does not answer, but not after a restart. It is not told
// where a request for the same topic and callback is pending, whose own outcome
// says what holds. It may be called for a subscription of any shard; where that is
// lost, so is what of the telling is left (Lost).
//
// It returns ErrNotFound where there is no such subscription, ErrSuperseded where
// it was renewed since sub was read, ErrBusy where too many callbacks wait to
// be told, and ErrUnavailable where the store has trouble, or the time for which
// this process is sure of its shards has passed (Sure). After the last two the call
// may be repeated with the same sub.
func (s *Service) Deny(ctx context.Context, sub Subscription, reason string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.reserve(sub.ID) {
		return ErrBusy
	}
	defer s.release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.StoreTimeout)
	defer cancel()
	unlock, err := s.books.lock(ctx, sub.ID)
	if err != nil {
		return err
	}
	defer unlock()
	if !s.isSure(ShardOf(sub.ID)) { // by now: the lock may have taken long
		return errUnsure
	}
	if err := s.books.remove(ctx, sub); err != nil {
		if !errors.Is(err, ErrSuperseded) && !errors.Is(err, ErrNotFound) {
			s.metrics.storeErrors.Inc()
		}
		return fmt.Errorf("ending the subscription: %w", err)
	}
	s.logger.Info("subscription denied", "subscription", sub, "reason", reason)
	s.notify(ctx, newNotice(sub, reason))
	return nil
}

// notify queues the notice, unless a request for its ID is pending, here or, as
// far as that can be read, in the store. The caller holds the lock of the books
// for it.
func (s *Service) notify(ctx context.Context, notice *job) {
	r, err := s.books.store.Request(ctx, notice.req.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.jobs[notice.req.ID]
	if old != nil && !old.bare || err == nil && (old == nil || !old.knows(r.Token)) {
		return
	}
	if old != nil {
		notice.strays = old.strays
	}
	s.replace(notice)
}

// Pending is how many requests of this process's shards, and denials, wait to be settled.
func (s *Service) Pending() int { return s.pending() }

// pending counts the requests of this process's shards, and the denials, that are
// not settled.
func (s *Service) pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.jobs)
}

// replace makes j the job that counts for its ID. A callback that is being asked is not
// hung up on: it would be asked again while it still works on its answer. The caller holds
// mu, and the lock of the books for it.
func (s *Service) replace(j *job) {
	if old := s.jobs[j.req.ID]; old != nil {
		s.queue.remove(old)
		if !old.bare {
			s.metrics.count(superseded)
		}
	}
	if r := s.running[j.req.ID]; r != nil && r.began == stepValidate {
		r.cancel()
	}
	s.put(j)
}

// forget takes out the job that counts. The caller holds mu.
func (s *Service) forget(j *job) {
	delete(s.jobs, j.req.ID)
	s.waits.remove(j)
}

// put makes j the job that counts, and queues it unless another job of its ID
// is still running: finish does so then. The caller holds mu.
func (s *Service) put(j *job) {
	if old := s.jobs[j.req.ID]; old != nil {
		s.forget(old)
	}
	s.jobs[j.req.ID] = j
	s.waits.add(j)
	if s.running[j.req.ID] == nil {
		s.queue.push(j)
	}
	s.signal()
}

// disown sees to it that nothing comes of a request whose Submit failed, and
// which may be in the store all the same, perhaps in the place of one that was
// accepted. In a shard of another process it does nothing: to take the request out
// there could lose both. The caller holds the lock of the books for it.
func (s *Service) disown(r Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch old := s.jobs[r.ID]; {
	case s.shards[ShardOf(r.ID)] == nil:
	case old != nil:
		old.addStray(r.Token)
	default:
		s.put(newStray(r))
	}
}

// signal wakes Run.
func (s *Service) signal() { ring(s.wake) }
