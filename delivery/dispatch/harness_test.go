package dispatch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/delivery/send"
	"carillon/subscription"
	"carillon/topic"
)

const topicURL = "https://example.com/change/"

// engine is a Log, Cursors and Ender in memory for tests whose time is
// synctest's; the real engine has goroutines of its own, outside of the bubble.
type engine struct {
	mu        sync.Mutex
	logs      map[string][]*delivery.Notification // trimmed ones are nil
	gave      map[string]delivery.Seq             // the last number of each log, kept or lost
	headCalls []int                               // how many heads each call was asked for
	marks     map[subscription.Shard]shardMark
	lowests   int // how often Lowest was asked
	subs      map[subscription.ID]subscription.Subscription
	positions map[subscription.ID]delivery.Position
	gaps      []delivery.Gap
	epochs    [subscription.Shards]uint64
	saves     int
	reads     int
	// The calls that fail, as long as they are set.
	readErr, saveErr, removeErr, appendErr, headErr, trimErr error
	ended                                                    func(subscription.ID)           // called for each removed subscription
	removed                                                  func()                          // called after that, mu held
	lost                                                     bool                            // appended although appendErr says no, or removed although removeErr does
	headless                                                 string                          // begins the keys of the topics that headErr and trimErr are about
	deaf                                                     bool                            // appends without a look at the context
	slowSave                                                 func(ctx context.Context) error // called when a save begins
	slowRead                                                 chan struct{}
	readTime                                                 time.Duration // what each read takes
	slowAppend                                               chan struct{} // taken when an append begins, and again when it may go on
}

var (
	_ delivery.Log     = (*engine)(nil)
	_ delivery.Cursors = (*engine)(nil)
	_ dispatch.Ender   = (*engine)(nil)
)

func newEngine() *engine {
	return &engine{
		logs: map[string][]*delivery.Notification{}, gave: map[string]delivery.Seq{},
		marks: map[subscription.Shard]shardMark{}, subs: map[subscription.ID]subscription.Subscription{},
		positions: map[subscription.ID]delivery.Position{},
	}
}

func (e *engine) stores() dispatch.Stores { return dispatch.Stores{Log: e, Cursors: e} }

// with changes the engine while others use it.
func (e *engine) with(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
}

// readsSoFar is how often a log was read.
func (e *engine) readsSoFar() (n int) {
	e.with(func() { n = e.reads })
	return n
}

func (e *engine) Append(ctx context.Context, p delivery.Publication, id uuid.UUID, at time.Time) (delivery.Receipt, error) {
	if e.slowAppend != nil {
		e.slowAppend <- struct{}{}
		e.slowAppend <- struct{}{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.appendErr != nil && !e.lost {
		return delivery.Receipt{}, e.appendErr
	}
	if err := ctx.Err(); err != nil && !e.deaf {
		return delivery.Receipt{}, err
	}
	key := p.Topic.Key()
	r := delivery.Receipt{ID: id, Seq: e.gave[key] + 1}
	after := e.head(key)
	if log := e.logs[key]; len(log) > 0 {
		if last := log[len(log)-1]; last != nil {
			r.Previous = last.Until
			if p.Until != "" && last.Until == p.Until && bytes.Equal(last.Body, p.Body) {
				return delivery.Receipt{ID: last.ID, Seq: last.Seq, Repeated: true, Previous: r.Previous}, nil
			}
		}
	}
	e.gave[key] = r.Seq
	e.logs[key] = append(e.logs[key], &delivery.Notification{Publication: p, ID: id, Seq: r.Seq, After: after, Accepted: at})
	return r, e.appendErr
}

// head is that of a log, mu held.
func (e *engine) head(key string) delivery.Seq {
	log := e.logs[key]
	if len(log) == 0 {
		return 0
	}
	if last := log[len(log)-1]; last != nil {
		return last.Seq
	}
	return e.gave[key]
}

// lose takes the end of a log away, of so many notifications. The next append has a number far above.
func (e *engine) lose(key string, n int) {
	e.with(func() {
		e.logs[key] = e.logs[key][:len(e.logs[key])-n]
		e.gave[key] += 1000
	})
}

func (e *engine) Read(_ context.Context, key string, from delivery.Seq) (*delivery.Notification, error) {
	e.mu.Lock()
	wait, takes := e.slowRead, e.readTime
	e.mu.Unlock()
	time.Sleep(takes)
	if wait != nil {
		<-wait
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reads++
	if e.readErr != nil {
		return nil, e.readErr
	}
	for _, n := range e.logs[key] {
		if n != nil && n.Seq >= from {
			c := *n
			return &c, nil
		}
	}
	return nil, delivery.ErrEndOfLog
}

func (e *engine) Heads(_ context.Context, keys []string) ([]delivery.Seq, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	heads := make([]delivery.Seq, len(keys))
	e.headCalls = append(e.headCalls, len(keys))
	for i, key := range keys {
		if e.headErr != nil && strings.HasPrefix(key, e.headless) {
			return nil, e.headErr
		}
		heads[i] = e.head(key)
	}
	return heads, nil
}

func (e *engine) Trim(_ context.Context, key string, before delivery.Seq, olderThan time.Time) (delivery.Trimmed, error) {
	return e.trim(key, before, -1, olderThan)
}

func (e *engine) Shrink(_ context.Context, key string, keep int64, before delivery.Seq, olderThan time.Time) (delivery.Trimmed, error) {
	return e.trim(key, before, keep, olderThan)
}

func (e *engine) trim(key string, before delivery.Seq, keep int64, olderThan time.Time) (went delivery.Trimmed, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	log := e.logs[key]
	bytes := bytesOf(log)
	if e.trimErr != nil && strings.HasPrefix(key, e.headless) {
		return went, e.trimErr
	}
	for i, n := range log {
		if n == nil {
			continue
		}
		if n.Seq >= before || !n.Accepted.Before(olderThan) || bytes <= keep {
			break
		}
		bytes -= int64(len(n.Body))
		went.Notifications++
		went.Bytes += int64(len(n.Body))
		log[i] = nil
	}
	return went, nil
}

// bytesOf is what a log takes: its bodies.
func bytesOf(log []*delivery.Notification) (bytes int64) {
	for _, n := range log {
		if n != nil {
			bytes += int64(len(n.Body))
		}
	}
	return bytes
}

func (e *engine) Topics(context.Context) iter.Seq2[delivery.TopicState, error] {
	return func(yield func(delivery.TopicState, error) bool) {
		e.mu.Lock()
		var states []delivery.TopicState
		for key, log := range e.logs {
			state := delivery.TopicState{Topic: key, First: e.head(key) + 1, Head: e.head(key)}
			if first := slices.IndexFunc(log, func(n *delivery.Notification) bool { return n != nil }); first >= 0 {
				state.First, state.Oldest, state.Bytes = log[first].Seq, log[first].Accepted, bytesOf(log)
			}
			states = append(states, state)
		}
		e.mu.Unlock()
		for _, s := range states {
			if !yield(s, nil) {
				return
			}
		}
	}
}

func (e *engine) Members(_ context.Context, s subscription.Shard) iter.Seq2[delivery.Member, error] {
	return func(yield func(delivery.Member, error) bool) {
		e.mu.Lock()
		var members []delivery.Member
		for id, sub := range e.subs {
			if subscription.ShardOf(id) == s {
				p := e.positions[id]
				p.Settled = max(p.Settled, delivery.Seq(sub.Start))
				members = append(members, delivery.Member{Subscription: sub, Position: p})
			}
		}
		err := e.readErr
		e.mu.Unlock()
		if err != nil {
			yield(delivery.Member{}, err)
			return
		}
		for _, m := range members {
			if !yield(m, nil) {
				return
			}
		}
	}
}

func (e *engine) Save(ctx context.Context, batches []delivery.Batch) error {
	e.mu.Lock()
	slow := e.slowSave
	e.mu.Unlock()
	if slow != nil {
		if err := slow(ctx); err != nil {
			return err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.saveErr != nil {
		return e.saveErr
	}
	e.saves++
	var fenced []subscription.Shard
	for _, b := range batches {
		if b.Tenure.Epoch != e.epochs[b.Tenure.Shard] {
			fenced = append(fenced, b.Tenure.Shard)
			continue
		}
		for _, a := range b.Advances {
			e.positions[a.Subscription] = a.Position
		}
		e.gaps = append(e.gaps, b.Gaps...)
	}
	if fenced != nil {
		return fmt.Errorf("save: %w", &delivery.FencedError{Shards: fenced})
	}
	return nil
}

// Gaps gives those of everybody, in the order in which they were noted, for the zero id.
func (e *engine) Gaps(_ context.Context, id subscription.ID, limit int) ([]delivery.Gap, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if id == (subscription.ID{}) {
		return slices.Clone(e.gaps), nil
	}
	gaps := e.latestGaps(id)
	return gaps[:min(len(gaps), limit)], nil
}

// shardMark is what was marked of a shard.
type shardMark struct {
	lowest map[string]delivery.Seq
	at     time.Time
}

// sharedEngine is an engine with Marks.
type sharedEngine struct{ *engine }

func (e sharedEngine) Mark(_ context.Context, t delivery.Tenure, lowest map[string]delivery.Seq) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.saveErr != nil {
		return e.saveErr
	}
	if t.Epoch != e.epochs[t.Shard] {
		return fmt.Errorf("mark: %w", &delivery.FencedError{Shards: []subscription.Shard{t.Shard}})
	}
	e.engine.marks[t.Shard] = shardMark{lowest, time.Now()}
	return nil
}

func (e sharedEngine) Lowest(_ context.Context, since time.Time) (map[string]delivery.Seq, bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lowests++
	all := map[string]delivery.Seq{}
	for s := range subscription.Shard(subscription.Shards) {
		m, marked := e.engine.marks[s]
		if !marked || m.at.Before(since) {
			return nil, false, nil
		}
		for topic, seq := range m.lowest {
			if lowest, found := all[topic]; !found || seq < lowest {
				all[topic] = seq
			}
		}
	}
	return all, true, nil
}

// Remove does what subscription.Service does on a store.
func (e *engine) Remove(_ context.Context, sub subscription.Subscription) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.removeErr != nil && !e.lost {
		return false, e.removeErr
	}
	stored, found := e.subs[sub.ID]
	if found && !stored.Expires.Equal(sub.Expires) {
		return false, nil // renewed, and the Dispatcher was called then
	}
	delete(e.subs, sub.ID)
	delete(e.positions, sub.ID)
	if e.removeErr != nil {
		return false, e.removeErr
	}
	e.ended(sub.ID)
	if e.removed != nil {
		e.removed()
	}
	return found, nil
}

// sendFunc is a Sender made of a function.
type sendFunc func(ctx context.Context, a *send.Attempt) send.Outcome

func (f sendFunc) Send(ctx context.Context, a *send.Attempt) send.Outcome { return f(ctx, a) }

var (
	delivered = send.Outcome{Class: delivery.ClassDelivered, Status: 200}
	broken    = send.Outcome{Class: delivery.ClassServerError, Status: 500}
	gone      = send.Outcome{Class: delivery.ClassGone, Status: 410}
)

// attempts records what a Sender was asked to send, and answers by a script.
type attempts struct {
	mu     sync.Mutex
	all    []attempt
	answer func(ctx context.Context, a *send.Attempt) send.Outcome
}

type attempt struct {
	callback string
	seq      delivery.Seq
	number   uint32
	at       time.Time
	secret   subscription.Secret
	note     *delivery.Notification
}

func (s *attempts) Send(ctx context.Context, a *send.Attempt) send.Outcome {
	s.mu.Lock()
	s.all = append(s.all, attempt{a.Callback, a.Notification.Seq, a.Number, time.Now(), a.Secret, a.Notification})
	answer := s.answer
	s.mu.Unlock()
	if answer == nil {
		return delivered
	}
	return answer(ctx, a)
}

func (s *attempts) setAnswer(f func(ctx context.Context, a *send.Attempt) send.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

// take returns what was sent since the last call.
func (s *attempts) take() []attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.all
	s.all = nil
	return all
}

func (s *attempts) seqs() []delivery.Seq {
	var seqs []delivery.Seq
	for _, a := range s.take() {
		seqs = append(seqs, a.seq)
	}
	return seqs
}

// running is a Dispatcher that runs on an engine and owns every shard.
type running struct {
	*dispatch.Dispatcher
	t    testing.TB
	logs *bytes.Buffer // read it when Run has ended
	reg  *prometheus.Registry
	stop func() // ends Run and waits for it

	surety *subscription.Surety
}

// start runs a Dispatcher on the engine until the test ends or stop is called. It
// owns every shard.
func start(t testing.TB, e *engine, cfg dispatch.Config, s send.Sender) *running {
	t.Helper()
	r := startOwning(t, e, e.stores(), cfg, s, 0, subscription.Shards)
	e.with(func() { e.ended = r.Ended })
	return r
}

// startOwning runs a Dispatcher that owns the shards from first up to end.
func startOwning(
	t testing.TB, e *engine, stores dispatch.Stores, cfg dispatch.Config, s send.Sender, first, end int,
) *running {
	t.Helper()
	r := &running{t: t, logs: new(bytes.Buffer), reg: prometheus.NewRegistry()}
	logger := slog.New(slog.NewTextHandler(r.logs, nil))
	var err error
	r.surety = &subscription.Surety{}
	cfg.Surety = r.surety
	if r.Dispatcher, err = dispatch.New(cfg, stores, e, s, logger, r.reg); err != nil {
		t.Fatal(err)
	}
	for i := first; i < end; i++ {
		e.with(func() { e.epochs[i]++ })
		if err := r.Gained(t.Context(), delivery.Tenure{Shard: subscription.Shard(i), Epoch: e.epochs[i]}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

// publish appends a notification and returns its place.
func (r *running) publish(body string) delivery.Receipt {
	r.t.Helper()
	rec, err := r.Publish(r.t.Context(), delivery.Publication{Topic: topic.Parse(topicURL), ContentType: "text/plain", Body: []byte(body)})
	if err != nil {
		r.t.Fatal(err)
	}
	return rec
}

// subscribe activates a subscription to the topic for a day.
func (r *running) subscribe(e *engine, callback string) subscription.Subscription {
	sub := subscriptionOf(topicURL, callback)
	e.with(func() {
		sub.Start = uint64(e.head(topicURL))
		e.subs[sub.ID] = sub
	})
	r.Activated(sub)
	return sub
}

func subscriptionOf(topic, callback string) subscription.Subscription {
	return subscription.Subscription{
		ID: subscription.NewID(topic, callback), Topic: topic, Callback: callback,
		Lease: 30 * 24 * time.Hour, Expires: time.Now().Add(30 * 24 * time.Hour), Created: time.Now(),
	}
}

// metric returns the value of a counter or gauge by its name and label value.
func (r *running) metric(name, label string) float64 {
	r.t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != "carillon_delivery_"+name || label != "" && m.GetLabel()[0].GetValue() != label {
				continue
			}
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	r.t.Fatalf("no metric %s{%s}", name, label)
	return 0
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func sameSeqs(t testing.TB, what string, got []delivery.Seq, want ...delivery.Seq) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

var (
	errAway = fmt.Errorf("in a test: %w", delivery.ErrUnavailable)
	errOdd  = errors.New("something odd")
)
