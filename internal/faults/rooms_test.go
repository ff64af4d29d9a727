package faults_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/delivery/send"
	"carillon/internal/faults"
	"carillon/subscription"
	"carillon/topic"
)

const topicURL = "https://source.example/change/"

// settling is long enough for all effects of a request or a notification, with a call that fails: the
// longest pause is that of a subscription whose log could not be read.
const settling = 8 * time.Second

// rooms are those of a hub that use an engine, on one behind a plan.
type rooms struct {
	t *testing.T
	*disk
	service    *subscription.Service
	dispatcher *dispatch.Dispatcher
	stop       func()

	mu       sync.Mutex
	got      map[string][]string // bodies by callback, in order; guarded by mu
	secrets  map[string]subscription.Secret
	accepted []string
}

// refusing is a callback that confirms nothing. All others confirm everything.
const refusing = "https://refusing.example/"

// Confirm implements subscription.Confirmer.
func (r *rooms) Confirm(_ context.Context, q subscription.Request, _ string) error {
	if q.Callback == refusing {
		return subscription.ErrNoIntent
	}
	return nil
}

// Validate and Deny are a world that agrees.
func (r *rooms) Validate(context.Context, string) error             { return nil }
func (r *rooms) Deny(context.Context, string, string, string) error { return nil }

// gone is a callback that ends its subscription at the first delivery.
const gone = "https://gone.example/"

// Send implements send.Sender.
func (r *rooms) Send(_ context.Context, a *send.Attempt) send.Outcome {
	if a.Callback == gone {
		return send.Outcome{Class: delivery.ClassGone, Status: 410}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got[a.Callback] = append(r.got[a.Callback], string(a.Notification.Body))
	r.secrets[a.Callback] = a.Secret
	return send.Outcome{Class: delivery.ClassDelivered, Status: 200}
}

// holder hands shards to both rooms, in the order of cmd/hub.
type holder struct{ *rooms }

func (h holder) Gained(ctx context.Context, t delivery.Tenure) error {
	if err := h.service.Gained(ctx, t.Shard); err != nil {
		return err
	}
	return h.dispatcher.Gained(ctx, t)
}

func (h holder) Lost(s subscription.Shard) {
	h.dispatcher.Lost(s)
	h.service.Lost(s)
}

func (h holder) Sure(time.Time, ...subscription.Shard) {}

// ender is the service, which is made after the dispatcher.
type ender struct{ *rooms }

func (e ender) Remove(ctx context.Context, sub subscription.Subscription) (bool, error) {
	return e.service.Remove(ctx, sub)
}

// run opens the rooms on what the disk holds.
func (r *rooms) run() {
	r.t.Helper()
	p := r.parts()
	// Every notification is read from its log.
	cfg := dispatch.Config{CacheBytes: -1, KeepAtLeast: 2 * settling}
	var err error
	r.dispatcher, err = dispatch.New(cfg, dispatch.Stores{Log: p.Log, Cursors: p.Cursors}, ender{r}, r, nil, nil)
	must(r.t, err)
	r.service, err = subscription.NewService(
		subscription.Config{Lease: subscription.LeaseRules{Min: time.Minute}}, p.Subscriptions, r, r, r.dispatcher, nil, nil)
	must(r.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var parts errgroup.Group
	parts.Go(func() error { return r.service.Run(ctx) })
	parts.Go(func() error { return r.dispatcher.Run(ctx) })
	parts.Go(func() error { return p.Shards.Run(ctx, holder{r}) })
	r.stop = func() {
		cancel()
		must(r.t, parts.Wait())
	}
	pass(settling)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// pass lets time go by, and everything happen that is due.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// insist repeats a request as a client does that was asked to come again.
func (r *rooms) insist(request func() error) {
	r.t.Helper()
	for range 3 {
		err := request()
		if err == nil {
			return
		}
		if !errors.Is(err, subscription.ErrUnavailable) {
			r.t.Errorf("got error %v", err)
		}
		pass(time.Second)
	}
	r.t.Error("it went on failing")
}

func (r *rooms) ask(mode subscription.Mode, callback, secret string, lease time.Duration) {
	r.t.Helper()
	w := subscription.Wish{
		Mode: mode, Topic: topicURL, Callback: callback, Secret: subscription.Secret(secret), Lease: lease, LeaseGiven: lease > 0,
	}
	r.insist(func() error { return r.service.Submit(r.t.Context(), w) })
	pass(settling)
}

// publish publishes the notifications of these numbers, each until it is taken.
func (r *rooms) publish(numbers ...int) {
	r.t.Helper()
	for _, n := range numbers {
		p := delivery.Publication{
			Topic: topic.Parse(topicURL), ContentType: "application/xml", Body: fmt.Appendf(nil, "change %d", n),
			From: fmt.Sprint(n), Until: fmt.Sprint(n + 1),
		}
		r.insist(func() error {
			_, err := r.dispatcher.Publish(r.t.Context(), p)
			return err
		})
		r.accepted = append(r.accepted, string(p.Body))
	}
	pass(settling)
}

// The callbacks of the story.
const (
	loyal   = "https://loyal.example/"
	leaving = "https://leaving.example/"
	brief   = "https://brief.example/" // its lease ends
)

// live is what happens in the rooms: every call of an engine is made.
func (r *rooms) live() {
	r.run()
	r.ask(subscription.ModeSubscribe, loyal, "old", 0)
	r.ask(subscription.ModeSubscribe, leaving, "", 0)
	r.publish(1, 2)
	r.ask(subscription.ModeSubscribe, brief, "", time.Minute)
	r.ask(subscription.ModeSubscribe, gone, "", 0)
	r.ask(subscription.ModeSubscribe, refusing, "", 0)
	pass(time.Minute + settling)
	r.ask(subscription.ModeSubscribe, loyal, "new", 0)
	r.ask(subscription.ModeUnsubscribe, leaving, "", 0)
	r.publish(3, 4)
	pass(4 * settling) // logs are trimmed
	// The process ends and its store is closed in the middle of a request.
	r.insist(func() error {
		return r.service.Submit(r.t.Context(), subscription.Wish{Mode: subscription.ModeSubscribe, Topic: topicURL, Callback: leaving})
	})
	r.stop()
	r.reopen(r.t)
	r.run()
	r.publish(5, 6)
	pass(4 * settling)
}

// check compares the engine's content, unwrapped, and the deliveries with the accepted requests.
func (r *rooms) check() {
	r.t.Helper()
	if got := r.got[loyal]; !slices.Equal(got, r.accepted) {
		r.t.Errorf("delivered %q of %q", got, r.accepted)
	}
	if got, want := r.got[leaving], slices.Concat(r.accepted[:2], r.accepted[4:]); !slices.Equal(got, want) {
		r.t.Errorf("delivered %q to the one that left and came back, want %q", got, want)
	}
	if r.secrets[loyal] != "new" {
		r.t.Error("deliveries are signed with the old secret")
	}
	ctx, active := r.t.Context(), map[string]delivery.Seq{}
	for shard := range subscription.Shard(subscription.Shards) {
		for q, err := range r.db.Subscriptions().Requests(ctx, shard) {
			must(r.t, err)
			r.t.Errorf("a request is not settled: %s %s", q.Mode, q.Callback)
		}
		for m, err := range r.db.Cursors().Members(ctx, shard) {
			must(r.t, err)
			active[m.Callback] = m.Settled
			gaps, err := r.db.Cursors().Gaps(ctx, m.ID, 10)
			if must(r.t, err); len(gaps) > 0 {
				r.t.Errorf("%s has gaps: %v", m.Callback, gaps)
			}
		}
	}
	heads, err := r.db.Log().Heads(ctx, []string{topicURL})
	must(r.t, err)
	for _, callback := range []string{loyal, leaving} {
		if active[callback] != heads[0] {
			r.t.Errorf("the cursor of %s is at %d of %d", callback, active[callback], heads[0])
		}
	}
	if len(active) != 2 {
		r.t.Errorf("there are %d subscriptions: %v", len(active), active)
	}
}

func live(t *testing.T, plan *faults.Plan) {
	synctest.Test(t, func(t *testing.T) {
		r := &rooms{t: t, disk: newDisk(t, plan), got: map[string][]string{}, secrets: map[string]subscription.Secret{}}
		r.live()
		r.stop()
		r.check()
	})
}

// The fault table: the first calls of every name fail, persisted or not. The result is the same as
// without faults. (Shrink has nothing to do where all keep up; the tests of package delivery have it
// fail.)
func TestFaultTable(t *testing.T) {
	whole := faults.NewPlan(faults.Config{})
	live(t, whole)
	for _, call := range []string{
		"store.Submit", "store.Requests", "store.Request", "store.Activate", "store.Drop", "store.Unsubscribe",
		"store.Remove", "store.Get", "store.Expired",
		"log.Append", "log.Read", "log.Heads", "log.Trim", "log.Topics",
		"cursors.Members", "cursors.Save",
	} {
		t.Run(call, func(t *testing.T) {
			calls := whole.Calls(call)
			if calls == 0 {
				t.Error("it is not made in this story")
			}
			for at := 1; at <= min(calls, callsEach); at++ {
				for _, kind := range []faults.Kind{faults.Before, faults.After} {
					t.Run(fmt.Sprintf("call %d fails %s", at, kind), func(t *testing.T) {
						plan := faults.NewPlan(faults.Config{Single: []faults.Single{{Call: call, At: at, Kind: kind}}})
						live(t, plan)
						if len(plan.Counts()) != 1 {
							t.Error("the call did not fail")
						}
					})
				}
			}
		})
	}
}
