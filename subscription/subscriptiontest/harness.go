package subscriptiontest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/subscription"
)

// Harness is a store under test, empty at first.
type Harness struct {
	Store subscription.Store
	// Reopen ends the store in good order and opens it again.
	Reopen func(t *testing.T) subscription.Store
	// Crash ends the store without warning, so that only what is durable is
	// left, and opens it again.
	Crash func(t *testing.T) subscription.Store
	// Stop makes the engine unavailable for the rest of the test.
	Stop func(t *testing.T)
}

// start is when the tests begin: not a round time, so that cut-off parts show.
var start = time.Date(2026, 3, 1, 10, 20, 30, 123456789, time.UTC)

// subscribe is a request of the n-th subscriber. Two of the same n differ by token.
func subscribe(n int) subscription.Request {
	topic, callback := topicOf(n), callbackOf(n)
	return subscription.Request{
		ID:       subscription.NewID(topic, callback),
		Token:    uuid.New(),
		Mode:     subscription.ModeSubscribe,
		Topic:    topic,
		Callback: callback,
		Secret:   subscription.Secret(fmt.Sprintf("secret %d", n)),
		Lease:    10 * 24 * time.Hour,
		Received: start.Add(time.Duration(n) * time.Second),
	}
}

func unsubscribe(n int) subscription.Request {
	r := subscribe(n)
	r.Mode, r.Secret, r.Lease = subscription.ModeUnsubscribe, "", 0
	return r
}

func topicOf(n int) string    { return fmt.Sprintf("https://source.example/%d/change/", n%3) }
func callbackOf(n int) string { return fmt.Sprintf("https://destination.example/callback?n=%d", n) }

// neighbours are so many numbers of subscribers that share a shard, and one of
// another shard.
func neighbours(count int) (same []int, other int) {
	shard := subscription.ShardOf(subscribe(0).ID)
	for n := 0; len(same) < count || other == 0; n++ {
		if subscription.ShardOf(subscribe(n).ID) == shard {
			same = append(same, n)
		} else {
			other = n
		}
	}
	return same[:count], other
}

// granted is the subscription that r leads to.
func granted(r subscription.Request) subscription.Subscription {
	return subscription.Subscription{
		ID: r.ID, Topic: r.Topic, Callback: r.Callback, Secret: r.Secret,
		Start: 7, Lease: r.Lease, Expires: r.Received.Add(r.Lease), Created: r.Received,
	}
}

// activate brings the n-th subscription into being.
func activate(t *testing.T, s subscription.Store, n int) subscription.Subscription {
	t.Helper()
	r := subscribe(n)
	submit(t, s, r)
	sub := granted(r)
	must(t, s.Activate(t.Context(), r, sub))
	return sub
}

func submit(t *testing.T, s subscription.Store, r subscription.Request) {
	t.Helper()
	must(t, s.Submit(t.Context(), r))
}

func keepStart(t *testing.T, s subscription.Store, r subscription.Request, at uint64) subscription.Request {
	t.Helper()
	kept, err := s.KeepStart(t.Context(), r, at)
	must(t, err)
	return kept
}

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

// requests gives what is unsettled in all shards, each of which has its own only.
func requests(t *testing.T, s subscription.Store) (all []subscription.Request) {
	t.Helper()
	for shard := range subscription.Shard(subscription.Shards) {
		for r, err := range s.Requests(t.Context(), shard) {
			must(t, err)
			if subscription.ShardOf(r.ID) != shard {
				t.Fatalf("shard %d gives a request of shard %d", shard, subscription.ShardOf(r.ID))
			}
			r.Received = r.Received.UTC()
			all = append(all, r)
		}
	}
	return all
}

// wantRequest checks that the request is unsettled, and found under its ID.
func wantRequest(t *testing.T, s subscription.Store, want subscription.Request) {
	t.Helper()
	got, err := s.Request(t.Context(), want.ID)
	must(t, err)
	got.Received = got.Received.UTC()
	if got != want {
		t.Fatalf("unsettled request:\n got %+v\nwant %+v", got, want)
	}
}

// wantNoRequest checks that no request with the ID is unsettled.
func wantNoRequest(t *testing.T, s subscription.Store, id subscription.ID) {
	t.Helper()
	_, err := s.Request(t.Context(), id)
	wantError(t, err, subscription.ErrNotFound)
}

// wantRequests checks that exactly these are unsettled.
func wantRequests(t *testing.T, s subscription.Store, want ...subscription.Request) {
	t.Helper()
	got := requests(t, s)
	byID := func(a, b subscription.Request) int { return slices.Compare(a.ID[:], b.ID[:]) }
	slices.SortFunc(got, byID)
	slices.SortFunc(want, byID)
	if len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
		t.Fatalf("unsettled requests:\n got %+v\nwant %+v", got, want)
	}
}

func wantStored(t *testing.T, s subscription.Store, want subscription.Subscription) {
	t.Helper()
	got, err := s.Get(t.Context(), want.ID)
	must(t, err)
	if !same(got, want) {
		t.Fatalf("subscription:\n got %#v\nwant %#v", got, want)
	}
}

func same(a, b subscription.Subscription) bool {
	if !a.Expires.Equal(b.Expires) || !a.Created.Equal(b.Created) {
		return false
	}
	a.Expires, a.Created = b.Expires, b.Created
	return a == b
}

func wantGone(t *testing.T, s subscription.Store, id subscription.ID) {
	t.Helper()
	_, err := s.Get(t.Context(), id)
	wantError(t, err, subscription.ErrNotFound)
}

// expired gives what has expired in all shards at the time, each of which has its
// own only, in order.
func expired(t *testing.T, s subscription.Store, now time.Time) (all []subscription.Subscription) {
	t.Helper()
	byEnd := func(a, b subscription.Subscription) int { return a.Expires.Compare(b.Expires) }
	for shard := range subscription.Shard(subscription.Shards) {
		some, err := s.Expired(t.Context(), shard, now, 1000)
		must(t, err)
		if !slices.IsSortedFunc(some, byEnd) {
			t.Fatalf("shard %d does not begin with those that ended first: %+v", shard, some)
		}
		for _, sub := range some {
			if subscription.ShardOf(sub.ID) != shard {
				t.Fatalf("shard %d gives a subscription of shard %d", shard, subscription.ShardOf(sub.ID))
			}
		}
		all = append(all, some...)
	}
	return inOrder(all...)
}

// wantExpired checks what has expired at the time.
func wantExpired(t *testing.T, s subscription.Store, now time.Time, want ...subscription.Subscription) {
	t.Helper()
	got := expired(t, s, now)
	if !slices.EqualFunc(got, want, same) {
		t.Fatalf("expired:\n got %+v\nwant %+v", got, want)
	}
}

// inOrder sorts subscriptions by their ends.
func inOrder(subs ...subscription.Subscription) []subscription.Subscription {
	slices.SortFunc(subs, func(a, b subscription.Subscription) int { return a.Expires.Compare(b.Expires) })
	return subs
}

func wantRemoved(t *testing.T, s subscription.Store, sub subscription.Subscription, want bool) {
	t.Helper()
	removed, err := s.Remove(t.Context(), sub)
	must(t, err)
	if removed != want {
		t.Fatalf("removed is %v, want %v", removed, want)
	}
}

// done is a context that has ended.
func done(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
