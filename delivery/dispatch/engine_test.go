package dispatch_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/delivery/send"
	"carillon/store/pebblestore"
	"carillon/subscription"
	"carillon/topic"
)

// The tests below run on the real engine, in memory.

func openStore(t interface {
	Fatal(args ...any)
	Cleanup(f func())
}, fs vfs.FS,
) *pebblestore.DB {
	db, err := pebblestore.Open(pebblestore.Config{Dir: "hub", FS: fs, MemTableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// addSubscription stores a subscription as a verified request does.
func addSubscription(ctx context.Context, db *pebblestore.DB, sub subscription.Subscription) error {
	r := subscription.Request{
		ID: sub.ID, Token: uuid.New(), Mode: subscription.ModeSubscribe,
		Topic: sub.Topic, Callback: sub.Callback, Lease: sub.Lease, Received: time.Now(),
	}
	if err := db.Subscriptions().Submit(ctx, r); err != nil {
		return err
	}
	return db.Subscriptions().Activate(ctx, r, sub)
}

// counting is a Dispatcher that reports when it owns every shard.
type counting struct {
	*dispatch.Dispatcher
	*subscription.Surety
	owned chan struct{}
	count int
}

func (c *counting) Gained(ctx context.Context, t delivery.Tenure) error {
	err := c.Dispatcher.Gained(ctx, t)
	if c.count++; c.count == subscription.Shards {
		close(c.owned)
	}
	return err
}

// startOn runs a Dispatcher on a store, and returns what ends it.
func startOn(
	t interface{ Fatal(args ...any) }, db *pebblestore.DB, cursors delivery.Cursors,
	cfg dispatch.Config, s send.Sender,
) (*dispatch.Dispatcher, func()) {
	cfg.Surety = &subscription.Surety{}
	d, err := dispatch.New(cfg, dispatch.Stores{Log: db.Log(), Cursors: cursors}, nil, s, nil, nil) // no callback answers 410 here
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	owning, handBack := context.WithCancel(context.Background())
	var parts errgroup.Group
	owned := make(chan struct{})
	parts.Go(func() error {
		return db.Shards().Run(owning, &counting{Dispatcher: d, Surety: cfg.Surety, owned: owned})
	})
	<-owned
	parts.Go(func() error {
		defer handBack()
		return d.Run(ctx)
	})
	return d, func() {
		cancel()
		if err := parts.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever fails in between: each callback sees the log in order, without
// loss, and one at a time.
func TestOrderWithoutLoss(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var (
			callbacks = rapid.IntRange(1, 12).Draw(t, "callbacks")
			hosts     = rapid.IntRange(1, 3).Draw(t, "hosts")
			topics    = rapid.IntRange(1, 2).Draw(t, "topics")
			publishes = rapid.IntRange(1, 25).Draw(t, "publishes")
			failing   = rapid.IntRange(0, 60).Draw(t, "percent that fail")
			restarts  = rapid.IntRange(0, 2).Draw(t, "restarts")
			cfg       = dispatch.Config{
				MaxInFlight: rapid.IntRange(1, 8).Draw(t, "in flight"),
				MaxSlow:     rapid.SampledFrom([]int{-1, 1, 8}).Draw(t, "slow"),
				SlowAfter:   rapid.SampledFrom([]time.Duration{time.Microsecond, time.Second}).Draw(t, "slow after"),
				FlushCount:  rapid.IntRange(2, 20).Draw(t, "flush count"),
				RetryFirst:  50 * time.Microsecond, RetryMax: time.Millisecond, FlushInterval: time.Millisecond,
				CacheBytes: rapid.SampledFrom([]int64{-1, 0}).Draw(t, "cache"),
			}
		)
		w := &witness{
			want: callbacks * publishes, last: map[string]delivery.Seq{}, busy: map[string]bool{},
			failing: failing, complete: make(chan struct{}),
		}
		db := openStore(t, vfs.NewMem())
		defer db.Close()
		d, stop := startOn(t, db, db.Cursors(), cfg, w)
		for i := range callbacks {
			sub := subscriptionOf(fmt.Sprint(topicURL, i%topics), fmt.Sprintf("https://h%d.example/%d", i%hosts, i))
			if err := addSubscription(context.Background(), db, sub); err != nil {
				t.Fatal(err)
			}
			d.Activated(sub)
		}
		for i := range publishes {
			if restarts > 0 && i == publishes/2 {
				for range restarts {
					stop()
					d, stop = startOn(t, db, db.Cursors(), cfg, w)
				}
			}
			var all errgroup.Group
			for n := range topics {
				all.Go(func() error {
					_, err := d.Publish(context.Background(), delivery.Publication{Topic: topic.Parse(fmt.Sprint(topicURL, n)), Body: []byte("x")})
					return err
				})
			}
			if err := all.Wait(); err != nil {
				t.Fatal(err)
			}
		}
		<-w.complete
		stop()
		if w.wrong != "" {
			t.Fatal(w.wrong)
		}
		for i := range callbacks {
			id := subscription.NewID(fmt.Sprint(topicURL, i%topics), fmt.Sprintf("https://h%d.example/%d", i%hosts, i))
			if gaps, err := db.Cursors().Gaps(context.Background(), id, 1); err != nil || len(gaps) > 0 {
				t.Fatalf("gaps: %v %v", gaps, err)
			}
		}
	})
}

// witness is a Sender that fails at random and notes what is out of order.
type witness struct {
	failing, want int
	complete      chan struct{}

	mu    sync.Mutex
	last  map[string]delivery.Seq
	busy  map[string]bool
	wrong string
}

func (w *witness) Send(_ context.Context, a *send.Attempt) send.Outcome {
	w.mu.Lock()
	key := a.Callback
	if w.busy[key] {
		w.wrong = key + ": two deliveries at a time"
	}
	if a.Notification.Seq != w.last[key]+1 {
		w.wrong = fmt.Sprintf("%s: %d after %d", key, a.Notification.Seq, w.last[key])
	}
	w.busy[key] = true
	w.mu.Unlock()
	if a.Notification.Seq%2 == 0 {
		for range rand.N(100) { // a callback that takes its time: others come in between
			runtime.Gosched()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy[key] = false
	if rand.N(100) < w.failing {
		return broken
	}
	w.last[key] = a.Notification.Seq
	if w.want--; w.want == 0 {
		close(w.complete)
	}
	return delivered
}

// severed are Cursors that a crash cuts off: from then on nothing is written.
type severed struct {
	delivery.Cursors
	mu  sync.Mutex
	cut bool
}

func (s *severed) Save(ctx context.Context, b []delivery.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut {
		return errAway
	}
	return s.Cursors.Save(ctx, b)
}

// After an abrupt stop nothing is lost, and what comes twice is bounded by the
// deliveries in flight plus those settled and not saved, at most FlushCount.
func TestDuplicatesAfterAbruptStop(t *testing.T) {
	const (
		callbacks, publishes = 40, 20
		flushCount, inFlight = 32, 8
	)
	cfg := dispatch.Config{
		FlushCount: flushCount, MaxInFlight: inFlight, MaxSlow: -1,
		FlushInterval: time.Hour, DrainTimeout: time.Millisecond,
	}
	for _, stopAt := range []int{1, 15, 16, 40, 333, 780} {
		t.Run(fmt.Sprint(stopAt), func(t *testing.T) {
			db := openStore(t, vfs.NewMem())
			defer db.Close()
			cursors := &severed{Cursors: db.Cursors()}
			var mu sync.Mutex
			settled, times := 0, map[string]int{}
			crashed := make(chan struct{})
			count := func(a *send.Attempt) int {
				mu.Lock()
				defer mu.Unlock()
				times[fmt.Sprint(a.Callback, " ", a.Notification.Seq)]++
				settled++
				return settled
			}
			d, stop := startOn(t, db, cursors, cfg, sendFunc(func(ctx context.Context, a *send.Attempt) send.Outcome {
				n := count(a)
				if n == stopAt {
					cursors.mu.Lock()
					cursors.cut = true
					cursors.mu.Unlock()
					close(crashed)
				}
				if n >= stopAt {
					<-ctx.Done() // it has arrived; the hub never hears of it
					return send.Outcome{Err: ctx.Err()}
				}
				return delivered
			}))
			for i := range callbacks {
				sub := subscriptionOf(topicURL, fmt.Sprintf("https://h%d.example/", i))
				if err := addSubscription(t.Context(), db, sub); err != nil {
					t.Fatal(err)
				}
				d.Activated(sub)
			}
			for range publishes {
				if _, err := d.Publish(t.Context(), delivery.Publication{Topic: topic.Parse(topicURL), Body: []byte("x")}); err != nil {
					t.Fatal(err)
				}
			}
			<-crashed
			stop()
			mu.Lock()
			before := maps.Clone(times)
			mu.Unlock()

			done := make(chan struct{})
			again := 0
			left := map[string]bool{}
			for i := range callbacks {
				for seq := range publishes {
					left[fmt.Sprintf("https://h%d.example/ %d", i, seq+1)] = true
				}
			}
			for key := range before {
				delete(left, key)
			}
			missing := len(left)
			_, stop = startOn(t, db, db.Cursors(), dispatch.Config{}, sendFunc(func(_ context.Context, a *send.Attempt) send.Outcome {
				key := fmt.Sprint(a.Callback, " ", a.Notification.Seq)
				mu.Lock()
				defer mu.Unlock()
				if before[key] > 0 {
					again++
				}
				if left[key] {
					delete(left, key)
					if missing--; missing == 0 {
						close(done)
					}
				}
				return delivered
			}))
			<-done
			stop()
			t.Logf("stopped at %d of %d: %d came twice", stopAt, callbacks*publishes, again)
			if again > flushCount+inFlight {
				t.Errorf("%d came twice, at most %d may", again, flushCount+inFlight)
			}
		})
	}
}

// A graceful end saves all: nothing comes twice.
func TestNoDuplicatesAfterGracefulStop(t *testing.T) {
	db := openStore(t, vfs.NewMem())
	defer db.Close()
	w := &witness{want: 300, last: map[string]delivery.Seq{}, busy: map[string]bool{}, complete: make(chan struct{})}
	d, stop := startOn(t, db, db.Cursors(), dispatch.Config{FlushInterval: time.Hour}, w)
	for i := range 10 {
		sub := subscriptionOf(topicURL, fmt.Sprintf("https://h%d.example/", i))
		if err := addSubscription(t.Context(), db, sub); err != nil {
			t.Fatal(err)
		}
		d.Activated(sub)
	}
	for i := range 30 {
		if i == 15 {
			stop()
			d, stop = startOn(t, db, db.Cursors(), dispatch.Config{}, w)
		}
		if _, err := d.Publish(t.Context(), delivery.Publication{Topic: topic.Parse(topicURL), Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	<-w.complete
	stop()
	if w.wrong != "" {
		t.Error(w.wrong)
	}
}
