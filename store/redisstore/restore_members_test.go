package redisstore_test

import (
	"reflect"
	"testing"
	"time"

	"carillon/delivery"
	"carillon/subscription"
	"carillon/topic"
)

func TestRestoreMembers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.db.Restore()
	wantEmpty := func(want bool) {
		t.Helper()
		if empty, err := r.Empty(t.Context()); err != nil || empty != want {
			t.Errorf("Empty is %v, %v, want %v", empty, err, want)
		}
	}
	wantEmpty(true)
	var members []delivery.Member
	for n := range 1200 {
		members = append(members, delivery.Member{
			Subscription: granted(request(n)),
			Position: delivery.Position{
				Settled: delivery.Seq(7 + n), Failures: 3, NextAttempt: time.Date(2026, 3, 1, 1, 2, 3, 4, time.UTC),
				LastFailure: 1, LastStatus: 503,
			},
		})
	}
	old := members[0]
	old.Expires, old.Settled = old.Expires.Add(time.Hour), 99999
	must(t, r.PutMembers(t.Context(), []delivery.Member{old})) // the present record is overwritten
	for range 2 {
		must(t, r.PutMembers(t.Context(), members))
	}
	wantEmpty(false)
	found := 0
	want := make(map[subscription.ID]delivery.Member)
	for _, m := range members {
		want[m.ID] = m
	}
	for s := range subscription.Shard(subscription.Shards) {
		for m, err := range w.db.Cursors().Members(t.Context(), s) {
			if must(t, err); m != want[m.ID] {
				t.Errorf("got %+v, want %+v", m, want[m.ID])
			}
			found++
		}
	}
	if found != len(members) {
		t.Errorf("%d members came back, want %d", found, len(members))
	}
	expired, err := w.db.Subscriptions().Expired(t.Context(), subscription.ShardOf(old.ID), old.Expires, 2000)
	must(t, err)
	for _, sub := range expired {
		if sub != want[sub.ID].Subscription {
			t.Errorf("got the expired %+v, want %+v", sub, want[sub.ID])
		}
	}
}

func TestRestoreGaps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := request(1).ID
	must(t, w.db.Restore().PutMembers(t.Context(), []delivery.Member{{Subscription: granted(request(1))}}))
	at := time.Date(2026, 3, 1, 1, 2, 3, 4, time.UTC)
	gap := func(first, last delivery.Seq) delivery.Gap {
		return delivery.Gap{Subscription: id, First: first, Last: last, Reason: delivery.GapGivenUp, Failure: 1, At: at}
	}
	must(t, w.db.Restore().PutGaps(t.Context(), []delivery.Gap{gap(3, 3), gap(5, 6)}))
	must(t, w.db.Restore().PutGaps(t.Context(), []delivery.Gap{gap(5, 9), gap(3, 3)}))
	gaps, err := w.db.Cursors().Gaps(t.Context(), id, 10)
	if must(t, err); !reflect.DeepEqual(gaps, []delivery.Gap{gap(5, 9), gap(3, 3)}) {
		t.Errorf("got the gaps %+v", gaps)
	}
}

func TestAnyStateIsNotEmpty(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(t *testing.T, w *world) error{
		"a request": func(t *testing.T, w *world) error { return submit(t, w.db) },
		"a ping": func(t *testing.T, w *world) error {
			_, err := w.db.Pings().Ping(t.Context(), []topic.Address{topic.Parse("https://source.example/")})
			return err
		},
		"a topic": func(t *testing.T, w *world) error {
			return w.db.Restore().PutTopics(t.Context(), []delivery.TopicState{{Topic: "https://source.example/", Head: 4}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			must(t, put(t, w))
			if empty, err := w.db.Restore().Empty(t.Context()); err != nil || empty {
				t.Errorf("Empty is %v, %v", empty, err)
			}
		})
	}
}
