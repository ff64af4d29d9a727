package deliverytest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/subscription"
)

// Parts are the interfaces of one engine.
type Parts struct {
	Log     delivery.Log
	Pings   delivery.Pings
	Cursors delivery.Cursors
	Shards  delivery.Shards
	// Marks is nil where one process has the engine to itself.
	Marks delivery.Marks
	// Subscriptions is the store in which the cursors' subscriptions are.
	Subscriptions subscription.Store
}

// Harness is an engine under test, empty at first.
type Harness struct {
	Parts
	// Reopen ends the engine in good order and opens it again.
	Reopen func(t *testing.T) Parts
	// Crash ends the engine without warning, so that only what is durable is
	// left, and opens it again.
	Crash func(t *testing.T) Parts
	// Stop makes the engine unavailable for the rest of the test.
	Stop func(t *testing.T)
	// Another opens the engine as one more process beside the others. It is nil
	// where one process has the engine to itself.
	Another func(t *testing.T) Parts
}

// Open makes a Harness of an empty engine.
type Open func(t *testing.T) Harness

// cases runs tests that need an engine each.
func cases(t *testing.T, open Open, tests map[string]func(t *testing.T, h Harness)) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// endings are the two ways in which an engine ends and comes back.
func endings() map[string]func(t *testing.T, h Harness) Parts {
	return map[string]func(t *testing.T, h Harness) Parts{
		"reopened": func(t *testing.T, h Harness) Parts { return h.Reopen(t) },
		"crashed":  func(t *testing.T, h Harness) Parts { return h.Crash(t) },
	}
}

// start is when the tests begin: not a round time, so that cut-off parts show.
var start = time.Date(2026, 3, 1, 10, 20, 30, 123456789, time.UTC)

const (
	topicA = "https://source.example/a/change/"
	topicB = "https://source.example/b/change/"
	// topicA2 is another spelling of topicA (WebSub §5.1.1).
	topicA2 = "https://source.example/%61/change/"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

// refused makes each call with a context that is done, and then with the engine
// stopped.
func refused(t *testing.T, open Open, calls func(h Harness) map[string]func(ctx context.Context) error) {
	t.Helper()
	t.Run("a context that is done comes back as its error", func(t *testing.T) {
		for name, call := range calls(open(t)) {
			if err := call(done(t)); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: got error %v, want %v", name, err, context.Canceled)
			}
		}
	})
	t.Run("an engine that is away is ErrUnavailable", func(t *testing.T) {
		h := open(t)
		h.Stop(t)
		for name, call := range calls(h) {
			if err := call(t.Context()); !errors.Is(err, delivery.ErrUnavailable) {
				t.Errorf("%s: got error %v, want %v", name, err, delivery.ErrUnavailable)
			}
		}
	})
}

// faults is one table of the fault table: it runs test with the call failing
// unpersisted and persisted.
func faults(t *testing.T, name string, open Open, test func(t *testing.T, h Harness, f *Fault)) {
	t.Helper()
	for _, persisted := range []bool{false, true} {
		t.Run(fmt.Sprintf("%s fails, persisted %v", name, persisted), func(t *testing.T) {
			test(t, open(t), &Fault{At: 1, Persisted: persisted})
		})
	}
}

// done is a context that has ended.
func done(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// together calls f for 0 to n-1 at once and joins the errors.
func together(n int, f func(i int) error) error {
	errs := make([]error, n)
	gate := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-gate
			errs[i] = f(i)
		})
	}
	close(gate)
	wg.Wait()
	return errors.Join(errs...)
}

// subscribe activates the n-th subscription, with the start given.
func subscribe(t *testing.T, s subscription.Store, n int, from delivery.Seq) subscription.Subscription {
	t.Helper()
	must(t, activate(t, s, n, from))
	return granted(n, from)
}

// granted is the n-th subscription.
func granted(n int, from delivery.Seq) subscription.Subscription {
	callback := fmt.Sprintf("https://destination.example/%d", n)
	const lease = 24 * time.Hour
	return subscription.Subscription{
		ID: subscription.NewID(topicA, callback), Topic: topicA, Callback: callback, Secret: "secret",
		Start: uint64(from), Lease: lease, Expires: start.Add(lease), Created: start,
	}
}

// activate is subscribe for any goroutine.
func activate(t *testing.T, s subscription.Store, n int, from delivery.Seq) error {
	sub := granted(n, from)
	r := subscription.Request{
		ID: sub.ID, Token: uuid.New(), Mode: subscription.ModeSubscribe,
		Topic: topicA, Callback: sub.Callback, Lease: sub.Lease, Received: start,
	}
	if err := s.Submit(t.Context(), r); err != nil {
		return err
	}
	return s.Activate(t.Context(), r, sub)
}

// unsubscribe ends the subscription by request.
func unsubscribe(t *testing.T, s subscription.Store, sub subscription.Subscription) {
	t.Helper()
	r := subscription.Request{
		ID: sub.ID, Token: uuid.New(), Mode: subscription.ModeUnsubscribe,
		Topic: sub.Topic, Callback: sub.Callback, Received: start,
	}
	must(t, s.Submit(t.Context(), r))
	must(t, s.Unsubscribe(t.Context(), r))
}

// holder is a delivery.Holder made of functions; a nil one does nothing.
type holder struct {
	gained func(ctx context.Context, tenure delivery.Tenure) error
	lost   func(s subscription.Shard)
	sure   func(until time.Time)
}

// Gained implements delivery.Holder.
func (h holder) Gained(ctx context.Context, tenure delivery.Tenure) error {
	if h.gained == nil {
		return nil
	}
	return h.gained(ctx, tenure)
}

// Lost implements delivery.Holder.
func (h holder) Lost(s subscription.Shard) {
	if h.lost != nil {
		h.lost(s)
	}
}

// Sure implements delivery.Holder.
func (h holder) Sure(until time.Time, _ ...subscription.Shard) {
	if h.sure != nil {
		h.sure(until)
	}
}

// owner is a running Shards.
type owner struct {
	tenures map[subscription.Shard]delivery.Tenure // complete, and never changed
	stop    context.CancelFunc
	ended   chan error
}

// own takes every shard until the test or stop ends it.
func own(t *testing.T, shards delivery.Shards) *owner {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	o := &owner{tenures: make(map[subscription.Shard]delivery.Tenure), stop: stop, ended: make(chan error, 1)}
	all := make(chan struct{})
	go func() {
		o.ended <- shards.Run(ctx, holder{gained: func(_ context.Context, tenure delivery.Tenure) error {
			if len(o.tenures) == subscription.Shards {
				return nil // again, under a later epoch
			}
			o.tenures[tenure.Shard] = tenure
			if len(o.tenures) == subscription.Shards {
				close(all)
			}
			return nil
		}})
	}()
	select {
	case <-all:
	case err := <-o.ended:
		t.Fatalf("Run ended with %v before it had every shard", err)
	}
	t.Cleanup(func() { o.end(t) })
	return o
}

// end hands the shards back.
func (o *owner) end(t *testing.T) {
	t.Helper()
	o.stop()
	if err := <-o.ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	o.ended <- nil
}
