package operator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/delivery/deliverytest"
	"carillon/delivery/report"
	"carillon/operator"
	"carillon/store/pebblestore"
	"carillon/subscription"
	"carillon/topic"
)

const topicURL = "https://a.example/topic"

// openStore opens an engine in memory.
func openStore(t *testing.T) *pebblestore.DB {
	t.Helper()
	db, err := pebblestore.Open(pebblestore.Config{Dir: "hub", FS: vfs.NewMem(), MemTableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// idAt is an ID of a notification that was made at a time.
func idAt(at time.Time) uuid.UUID {
	id := uuid.Must(uuid.NewV7())
	ms := at.UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	return id
}

// publish appends a notification that was accepted at a time.
func publish(t *testing.T, db *pebblestore.DB, topicURL, from, until string, at time.Time) delivery.Receipt {
	t.Helper()
	r, err := db.Log().Append(t.Context(), delivery.Publication{
		Topic: topic.Parse(topicURL), ContentType: "application/xml", Body: []byte("<a/>" + from + until), From: from, Until: until,
	}, idAt(at), at)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// fake are the deliveries of one process, as the test says.
type fake struct {
	mu      sync.Mutex
	stands  map[subscription.ID]report.Standing
	held    []delivery.Tenure
	loading []delivery.Tenure
	unsure  bool
	totals  report.Totals
	retried []subscription.ID
	ended   []subscription.ID
	trimmed []string
	oldest  time.Time
	asked   int    // questions for the shards
	onHeld  func() // is called, without the mutex, by Held
}

// newFake holds the shards that pick picks.
func newFake(epoch uint64, pick func(subscription.Shard) bool) *fake {
	f := &fake{stands: map[subscription.ID]report.Standing{}}
	for s := range subscription.Shard(subscription.Shards) {
		if pick(s) {
			f.held = append(f.held, delivery.Tenure{Shard: s, Epoch: epoch})
		}
	}
	return f
}

func all(subscription.Shard) bool    { return true }
func even(s subscription.Shard) bool { return s%2 == 0 }
func odd(s subscription.Shard) bool  { return s%2 == 1 }

func (f *fake) holds(id subscription.ID) bool {
	return slices.ContainsFunc(f.held, func(t delivery.Tenure) bool { return t.Shard == subscription.ShardOf(id) })
}

// subscribe adds a subscription, of which state and place are as given, if its shard is held.
func (f *fake) subscribe(topic, callback string, settled, head delivery.Seq, state report.State) subscription.ID {
	id := subscription.NewID(topic, callback)
	if !f.holds(id) {
		return id
	}
	s := report.Standing{
		Subscription: subscription.Subscription{
			ID: id, Topic: topic, Callback: callback, Created: time.Now(), Expires: time.Now().Add(time.Hour), Lease: time.Hour,
		},
		State: state, Position: delivery.Position{Settled: settled}, Head: head,
	}
	if state == report.StateFailing {
		s.Position.Failures, s.Position.LastFailure, s.Position.NextAttempt = 3, delivery.ClassRefused, time.Now().Add(time.Minute)
	}
	f.stands[id] = s
	return id
}

func (f *fake) Each(_ context.Context, key string, visit func(report.Standing) bool) error {
	for _, s := range f.stands {
		if (key == "" || topic.Key(s.Subscription.Topic) == key) && !visit(s) {
			break
		}
	}
	return nil
}

func (f *fake) Standing(id subscription.ID) (report.Standing, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.stands[id]
	return s, ok
}

func (f *fake) Tally(_ context.Context, key string, seqs []delivery.Seq) ([]report.Tally, error) {
	tallies := make([]report.Tally, len(seqs))
	for i, seq := range seqs {
		t := &tallies[i]
		for _, s := range f.stands {
			switch {
			case topic.Key(s.Subscription.Topic) != key:
				continue
			case s.Position.Settled >= seq:
				t.Delivered++
			default:
				t.Pending++
				if s.State == report.StateFailing {
					t.Failing++
				}
			}
			t.Subscribers++
		}
	}
	return tallies, nil
}

func (f *fake) Undelivered(_ context.Context, key string, seq delivery.Seq, visit func(report.Standing, report.Fate) bool) error {
	for _, s := range f.stands {
		if topic.Key(s.Subscription.Topic) != key || s.Position.Settled >= seq {
			continue
		}
		fate := report.FatePending
		if s.State == report.StateFailing {
			fate = report.FateFailing
		}
		if !visit(s, fate) {
			break
		}
	}
	return nil
}

func (f *fake) Attempts(subscription.ID) []report.Attempt {
	return []report.Attempt{{At: time.Now(), Took: time.Second, Seq: 1, Number: 2, Class: delivery.ClassServerError, Status: 503}}
}

func (f *fake) Held() (held, loading []delivery.Tenure) {
	if f.onHeld != nil {
		f.onHeld()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	return slices.Clone(f.held), f.loading
}

func (f *fake) Stats() report.Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return report.Stats{Subscriptions: len(f.stands), Topics: 1, Shards: len(f.held), Loading: len(f.loading), Unsure: f.unsure}
}

func (f *fake) Totals() report.Totals {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.totals
	for _, s := range f.stands {
		if s.State != report.StateIdle {
			t.Behind++
		}
		if s.State == report.StateFailing {
			t.Failing++
		}
	}
	return t
}

func (f *fake) TopicCounts(context.Context) ([]report.TopicCount, error) {
	counts := map[string]report.TopicCount{}
	for _, s := range f.stands {
		key := topic.Key(s.Subscription.Topic)
		c := counts[key]
		c.Topic = key
		c.Subscriptions++
		if s.State != report.StateIdle {
			c.Behind++
		}
		if s.State == report.StateFailing {
			c.Failing++
		}
		counts[key] = c
	}
	var list []report.TopicCount
	for _, c := range counts {
		list = append(list, c)
	}
	return list, nil
}

func (f *fake) RetryNow(_ context.Context, id subscription.ID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stands[id].State == report.StateIdle {
		return fmt.Errorf("%w: it has got everything", delivery.ErrNothingToDo)
	}
	f.retried = append(f.retried, id)
	return nil
}

func (f *fake) Replay(_ context.Context, _ subscription.ID, from, last delivery.Seq) (first, end delivery.Seq, err error) {
	if from < 2 {
		return 0, 0, &delivery.NotKeptError{First: 2}
	}
	return from, last, nil
}

func (f *fake) Ended(id subscription.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = append(f.ended, id)
}

func (f *fake) Trimmed(topic string, before delivery.Seq) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trimmed = append(f.trimmed, fmt.Sprint(topic, " ", before))
}

func (f *fake) OldestWaiting(context.Context) time.Time { return f.oldest }

// fakePeers is where processes ask each other.
type fakePeers struct {
	mu   sync.Mutex
	live map[string]func(ctx context.Context, question []byte) []byte
}

// fakePeer is one process in it.
type fakePeer struct {
	*fakePeers
	name string
}

func (n fakePeer) Self() string { return n.name }

func (n fakePeer) Ask(ctx context.Context, question []byte, heard func(string, []byte, error)) error {
	n.mu.Lock()
	others := map[string]func(context.Context, []byte) []byte{}
	for name, answer := range n.live {
		if name != n.name {
			others[name] = answer
		}
	}
	n.mu.Unlock()
	for name, answer := range others {
		if text := answer(ctx, question); text == nil {
			heard(name, nil, errors.New("no answer in time"))
		} else {
			heard(name, text, nil)
		}
	}
	return nil
}

func (n fakePeer) Serve(ctx context.Context, answer func(context.Context, []byte) []byte) error {
	n.put(answer)
	<-ctx.Done()
	return nil
}

func (n fakePeer) put(answer func(context.Context, []byte) []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.live[n.name] = answer
}

// newService makes a desk, by itself or as one of a street.
func newService(t *testing.T, db *pebblestore.DB, f *fake, change func(*operator.Config)) *operator.Service {
	t.Helper()
	cfg := operator.Config{
		URL: "https://hub.example/", Engine: "pebble", Version: "1.2.3", Started: time.Now(),
		Log: deliverytest.Keyed(t, db.Log()), Cursors: db.Cursors(), Subscriptions: db.Subscriptions(), Sources: db.Sources(),
	}
	if f != nil {
		cfg.Deliveries = f
	}
	if change != nil {
		change(&cfg)
	}
	d, err := operator.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// newFakePeers makes a desk for each process, all of which answer each other.
func newFakePeers(t *testing.T, db *pebblestore.DB, processes map[string]*fake) (map[string]*operator.Service, *fakePeers) {
	t.Helper()
	s := &fakePeers{live: map[string]func(context.Context, []byte) []byte{}}
	services := map[string]*operator.Service{}
	for name, f := range processes {
		services[name] = newService(t, db, f, func(c *operator.Config) { c.Peers = fakePeer{s, name} })
		s.live[name] = services[name].AnswerTo
	}
	return services, s
}
