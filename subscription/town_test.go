package subscription_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"carillon/subscription"
)

// memory is a Store for bubbles of synctest, where an engine with goroutines of
// its own would keep time from passing. It keeps the contract and nothing more.
type memory struct {
	mu       sync.Mutex
	requests map[subscription.ID]subscription.Request
	// subs are by shard, as in an engine: every sweep looks into each.
	subs map[subscription.Shard]map[subscription.ID]subscription.Subscription
	down bool // every call fails
}

func newMemory() *memory {
	m := &memory{
		requests: make(map[subscription.ID]subscription.Request),
		subs:     make(map[subscription.Shard]map[subscription.ID]subscription.Subscription),
	}
	for shard := range subscription.Shard(subscription.Shards) {
		m.subs[shard] = make(map[subscription.ID]subscription.Subscription)
	}
	return m
}

func (m *memory) change(ctx context.Context, f func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.down {
		return fmt.Errorf("memory: %w", subscription.ErrUnavailable)
	}
	return f()
}

func (m *memory) setDown(down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = down
}

// settle takes the request away, or is ErrSuperseded.
func (m *memory) settle(r subscription.Request) error {
	if m.requests[r.ID].Token != r.Token {
		return subscription.ErrSuperseded
	}
	delete(m.requests, r.ID)
	return nil
}

func (m *memory) Submit(ctx context.Context, r subscription.Request) error {
	return m.change(ctx, func() error { m.requests[r.ID] = r.Replacing(m.requests[r.ID]); return nil })
}

func (m *memory) KeepStart(ctx context.Context, r subscription.Request, start uint64) (kept subscription.Request, err error) {
	err = m.change(ctx, func() error {
		if m.requests[r.ID].Token != r.Token {
			return subscription.ErrSuperseded
		}
		kept = m.requests[r.ID].StartingAt(start)
		m.requests[r.ID] = kept
		return nil
	})
	return kept, err
}

func (m *memory) Requests(ctx context.Context, shard subscription.Shard) iter.Seq2[subscription.Request, error] {
	return func(yield func(subscription.Request, error) bool) {
		var all []subscription.Request
		err := m.change(ctx, func() error { all = slices.Collect(maps.Values(m.requests)); return nil })
		for _, r := range all {
			if subscription.ShardOf(r.ID) == shard && !yield(r, nil) {
				return
			}
		}
		if err != nil {
			yield(subscription.Request{}, err)
		}
	}
}

func (m *memory) Request(ctx context.Context, id subscription.ID) (r subscription.Request, err error) {
	err = m.change(ctx, func() error {
		var found bool
		if r, found = m.requests[id]; !found {
			return subscription.ErrNotFound
		}
		return nil
	})
	return r, err
}

func (m *memory) Activate(ctx context.Context, r subscription.Request, sub subscription.Subscription) error {
	return m.change(ctx, func() error {
		err := m.settle(r)
		if err == nil {
			m.subs[subscription.ShardOf(r.ID)][r.ID] = sub
		}
		return err
	})
}

func (m *memory) Drop(ctx context.Context, r subscription.Request) error {
	return m.change(ctx, func() error { _ = m.settle(r); return nil })
}

func (m *memory) Unsubscribe(ctx context.Context, r subscription.Request) error {
	return m.change(ctx, func() error {
		err := m.settle(r)
		if err == nil {
			delete(m.subs[subscription.ShardOf(r.ID)], r.ID)
		}
		return err
	})
}

func (m *memory) Remove(ctx context.Context, sub subscription.Subscription) (removed bool, err error) {
	err = m.change(ctx, func() error {
		stored, found := m.subs[subscription.ShardOf(sub.ID)][sub.ID]
		if removed = found && stored.Expires.Equal(sub.Expires); removed {
			delete(m.subs[subscription.ShardOf(sub.ID)], sub.ID)
		}
		return nil
	})
	return removed, err
}

func (m *memory) Get(ctx context.Context, id subscription.ID) (sub subscription.Subscription, err error) {
	err = m.change(ctx, func() error {
		var found bool
		if sub, found = m.subs[subscription.ShardOf(id)][id]; !found {
			return subscription.ErrNotFound
		}
		return nil
	})
	return sub, err
}

func (m *memory) Expired(
	ctx context.Context, shard subscription.Shard, now time.Time, limit int,
) (subs []subscription.Subscription, err error) {
	err = m.change(ctx, func() error {
		for _, sub := range m.subs[shard] {
			if !sub.Expires.After(now) {
				subs = append(subs, sub)
			}
		}
		slices.SortFunc(subs, func(a, b subscription.Subscription) int { return a.Expires.Compare(b.Expires) })
		subs = subs[:min(limit, len(subs))]
		return nil
	})
	return subs, err
}

// members is what the store holds active.
func (m *memory) members() map[subscription.ID]subscription.Subscription {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[subscription.ID]subscription.Subscription)
	for _, subs := range m.subs {
		maps.Copy(all, subs)
	}
	return all
}

// unsettled counts the requests that the store holds.
func (m *memory) unsettled() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.requests)
}

// roster records its calls, and heads.
type roster struct {
	mu     sync.Mutex
	active map[subscription.ID]subscription.Subscription
	told   []string // "activated" and "ended", in order
	head   uint64
	err    error
}

func newRoster() *roster {
	return &roster{active: make(map[subscription.ID]subscription.Subscription), head: 7}
}

func (r *roster) Head(context.Context, string) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.head, r.err
}

func (r *roster) set(head uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.head, r.err = head, err
}

func (r *roster) Activated(sub subscription.Subscription) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active[sub.ID] = sub
	r.told = append(r.told, "activated")
}

func (r *roster) Ended(id subscription.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.active, id)
	r.told = append(r.told, "ended")
}

func (r *roster) members() map[subscription.ID]subscription.Subscription {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.active)
}

func (r *roster) history() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.told)
}

// denial is one hub.mode=denied that a callback got.
type denial struct{ Topic, Callback, Reason string }

// world is the topic servers and the callbacks. The functions may be replaced
// before anything runs; unless they are, everyone says yes.
type world struct {
	validate func(ctx context.Context, topic string) error
	confirm  func(ctx context.Context, r subscription.Request, challenge string) error
	deny     func(ctx context.Context, callback string) error

	mu         sync.Mutex
	checks     []string
	asked      []subscription.Request
	askedAt    []time.Time
	challenges []string
	denials    []denial
	now        map[subscription.ID]int // verifications in flight
	most       int                     // of now
	nowAll     int
	mostAll    int
}

func (w *world) Validate(ctx context.Context, topic string) error {
	w.mu.Lock()
	w.checks = append(w.checks, topic)
	w.mu.Unlock()
	if w.validate == nil {
		return nil
	}
	return w.validate(ctx, topic)
}

func (w *world) Confirm(ctx context.Context, r subscription.Request, challenge string) error {
	w.mu.Lock()
	if w.now == nil {
		w.now = make(map[subscription.ID]int)
	}
	w.asked = append(w.asked, r)
	w.askedAt = append(w.askedAt, time.Now())
	w.challenges = append(w.challenges, challenge)
	w.now[r.ID]++
	w.most = max(w.most, w.now[r.ID])
	w.nowAll++
	w.mostAll = max(w.mostAll, w.nowAll)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.now[r.ID]--
		w.nowAll--
	}()
	if w.confirm == nil {
		return nil
	}
	return w.confirm(ctx, r, challenge)
}

func (w *world) Deny(ctx context.Context, topic, callback, reason string) error {
	w.mu.Lock()
	w.denials = append(w.denials, denial{topic, callback, reason})
	w.mu.Unlock()
	if w.deny == nil {
		return nil
	}
	return w.deny(ctx, callback)
}

func (w *world) timesChecked() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.checks)
}

func (w *world) timesAsked() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.asked)
}

// atOnce gives the number of verifications in flight, and its peak.
func (w *world) atOnce() (now, most int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nowAll, w.mostAll
}

func (w *world) timesTold() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.denials)
}

// hang answers only when the asker gives up.
func hang(ctx context.Context, _ subscription.Request, _ string) error {
	<-ctx.Done()
	return fmt.Errorf("%w: %w", subscription.ErrNoAnswer, ctx.Err())
}

var errAway = fmt.Errorf("connection refused: %w", subscription.ErrNoAnswer)

// town is a Service with all that it speaks to. Its fields may be changed
// before run.
type town struct {
	*world
	t       *testing.T
	cfg     subscription.Config
	store   subscription.Store
	memory  *memory
	roster  *roster
	metrics *prometheus.Registry
	log     slog.Handler
	// only these shards are gained, if any are named. Tests in which leases of
	// days pass do with few: every sweep looks into each.
	only []subscription.Shard

	service *subscription.Service
	surety  *subscription.Surety
	cancel  context.CancelFunc
	ended   chan error
}

// inTown runs the test in a bubble.
func inTown(t *testing.T, test func(t *testing.T, h *town)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := &town{t: t, world: &world{}, store: m, memory: m, roster: newRoster(), log: slog.DiscardHandler}
		test(t, h)
		h.stop()
	})
}

// build makes the Service without running it.
func (h *town) build() {
	h.t.Helper()
	h.metrics = prometheus.NewRegistry()
	h.surety = &subscription.Surety{}
	h.cfg.Surety = h.surety
	s, err := subscription.NewService(h.cfg, h.store, h.world, h.world, h.roster, slog.New(h.log), h.metrics)
	if err != nil {
		h.t.Fatal(err)
	}
	h.service = s
}

// gain gives the Service all shards, as an engine does that it has to itself.
func (h *town) gain() {
	h.t.Helper()
	for shard := range subscription.Shard(subscription.Shards) {
		if len(h.only) > 0 && !slices.Contains(h.only, shard) {
			continue
		}
		if err := h.service.Gained(context.Background(), shard); err != nil {
			h.t.Errorf("Gained: %v", err)
		}
	}
}

// shardOf is the shard of the callback's subscription to the topic.
func shardOf(callback string) subscription.Shard {
	return subscription.ShardOf(subscription.NewID(topic, callback))
}

// run starts the Service with all shards.
func (h *town) run() {
	h.t.Helper()
	if h.service == nil {
		h.build()
	}
	h.gain()
	h.start()
}

// start starts the Service with the shards that it has.
func (h *town) start() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	h.cancel, h.ended = cancel, ended
	service := h.service
	go func() { ended <- service.Run(ctx) }()
}

// stop ends the Service in good order, and forgets it: the next run starts a new
// one on the same store.
func (h *town) stop() {
	h.t.Helper()
	if h.cancel == nil {
		return
	}
	h.cancel()
	if err := <-h.ended; err != nil {
		h.t.Errorf("Run: %v", err)
	}
	for shard := range subscription.Shard(subscription.Shards) {
		h.service.Lost(shard)
	}
	h.cancel, h.service = nil, nil
}

// crash is a process that dies: nothing that is in memory reaches the store any
// more, and delivery starts from what is stored.
func (h *town) crash() {
	h.t.Helper()
	h.memory.setDown(true)
	h.stop()
	h.memory.setDown(false)
	h.roster = newRoster()
	h.roster.active = h.memory.members()
}

// pass lets time pass, and then waits until everything waits again.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

const (
	topic    = "http://source.example/topic"
	callback = "http://destination.example/callback?key=1"
)

func subscribe(callback string, secret subscription.Secret) subscription.Wish {
	return subscription.Wish{Mode: subscription.ModeSubscribe, Topic: topic, Callback: callback, Secret: secret}
}

func unsubscribe(callback string) subscription.Wish {
	return subscription.Wish{Mode: subscription.ModeUnsubscribe, Topic: topic, Callback: callback}
}

func (h *town) submit(w subscription.Wish) {
	h.t.Helper()
	if err := h.service.Submit(h.t.Context(), w); err != nil {
		h.t.Fatalf("Submit: %v", err)
	}
}

// active returns the stored subscription of the callback, which delivery must
// have heard of in the same form.
func (h *town) active(callback string) (subscription.Subscription, bool) {
	h.t.Helper()
	id := subscription.NewID(topic, callback)
	sub, found := h.memory.members()[id]
	told, known := h.roster.members()[id]
	if found != known || sub != told {
		h.t.Errorf("the store holds %+v (%v), delivery %+v (%v)", sub, found, told, known)
	}
	return sub, found
}

func (h *town) mustBeActive(callback string) subscription.Subscription {
	h.t.Helper()
	sub, found := h.active(callback)
	if !found {
		h.t.Fatalf("%s is not subscribed", callback)
	}
	return sub
}

// mustBeSettled checks that nothing is pending in store or memory.
func (h *town) mustBeSettled() {
	h.t.Helper()
	if n := h.memory.unsettled(); n != 0 {
		h.t.Errorf("the store holds %d unsettled requests", n)
	}
	if n := h.metric("carillon_subscription_pending", ""); n != 0 {
		h.t.Errorf("%v requests are pending", n)
	}
}

// mustCount checks the counter of an outcome.
func (h *town) mustCount(outcome string, want float64) {
	h.t.Helper()
	if got := h.metric("carillon_subscription_outcomes_total", outcome); got != want {
		h.t.Errorf("outcome %s was counted %v times, want %v", outcome, got, want)
	}
}

// metric returns the value of a metric, of the given label's value if it has labels.
func (h *town) metric(name, label string) float64 {
	h.t.Helper()
	families, err := h.metrics.Gather()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	h.t.Fatalf("there is no metric %s of %q", name, label)
	return 0
}

func TestMetricsAreClean(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.run()
		problems, err := testutil.GatherAndLint(h.metrics)
		if err != nil || len(problems) != 0 {
			t.Errorf("%v, %v", problems, err)
		}
	})
}

var errUnknown = errors.New("something unforeseen")
