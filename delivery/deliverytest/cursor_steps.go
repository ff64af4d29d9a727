package deliverytest

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"carillon/delivery"
	"carillon/subscription"
)

// owing is a position with everything in it.
func owing(settled delivery.Seq) delivery.Position {
	return delivery.Position{
		Settled: settled, Failures: 3, NextAttempt: start.Add(time.Minute),
		LastFailure: delivery.ClassServerError, LastStatus: 503,
	}
}

// replaying is a position at settled with a replay of next to last.
func replaying(settled, next, last delivery.Seq) delivery.Position {
	return delivery.Position{Settled: settled, ReplayNext: next, ReplayLast: last}
}

func gap(id subscription.ID, first, last delivery.Seq) delivery.Gap {
	return delivery.Gap{
		Subscription: id, First: first, Last: last, Reason: delivery.GapGivenUp,
		Failure: delivery.ClassTimeout, At: start.Add(time.Duration(first) * time.Second),
	}
}

// batch is of the subscription's shard and moves it to the position.
func (o *owner) batch(id subscription.ID, p delivery.Position, gaps ...delivery.Gap) delivery.Batch {
	return delivery.Batch{
		Tenure:   o.tenures[subscription.ShardOf(id)],
		Advances: []delivery.Advance{{Subscription: id, Position: p}},
		Gaps:     gaps,
	}
}

func save(t *testing.T, c delivery.Cursors, batches ...delivery.Batch) {
	t.Helper()
	must(t, c.Save(t.Context(), batches))
}

// members lists a shard.
func members(t *testing.T, c delivery.Cursors, s subscription.Shard) []delivery.Member {
	t.Helper()
	var all []delivery.Member
	for m, err := range c.Members(t.Context(), s) {
		must(t, err)
		all = append(all, m)
	}
	return all
}

// member finds the subscription in its shard.
func member(t *testing.T, c delivery.Cursors, id subscription.ID) delivery.Member {
	t.Helper()
	for _, m := range members(t, c, subscription.ShardOf(id)) {
		if m.ID == id {
			return m
		}
	}
	t.Fatalf("subscription %s is not a member of its shard", id)
	return delivery.Member{}
}

func wantPosition(t *testing.T, c delivery.Cursors, id subscription.ID, want delivery.Position) {
	t.Helper()
	got := member(t, c, id).Position
	if !got.NextAttempt.Equal(want.NextAttempt) || got.NextAttempt.IsZero() != want.NextAttempt.IsZero() {
		t.Fatalf("next attempt at %v, want %v", got.NextAttempt, want.NextAttempt)
	}
	got.NextAttempt = want.NextAttempt
	if got != want {
		t.Fatalf("position %+v, want %+v", got, want)
	}
}

func wantGaps(t *testing.T, c delivery.Cursors, id subscription.ID, limit int, want ...delivery.Gap) {
	t.Helper()
	got, err := c.Gaps(t.Context(), id, limit)
	must(t, err)
	for i := range got {
		got[i].At, got[i].Replayed = got[i].At.UTC(), got[i].Replayed.UTC()
	}
	if len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
		t.Fatalf("gaps:\n got %+v\nwant %+v", got, want)
	}
}

// wantFenced checks that the error names exactly the shards.
func wantFenced(t *testing.T, err error, want ...subscription.Shard) {
	t.Helper()
	wantError(t, err, delivery.ErrFenced)
	var fenced *delivery.FencedError
	if !errors.As(err, &fenced) || !slices.Equal(fenced.Shards, want) {
		t.Fatalf("got %#v, want a FencedError for %v", err, want)
	}
}

// replayed is the gap after it was delivered again.
func replayed(g delivery.Gap) delivery.Gap {
	g.Replayed = start.Add(time.Hour + time.Nanosecond)
	return g
}

// wantGapped checks who has gaps, over all shards.
func wantGapped(t *testing.T, c delivery.Cursors, want ...subscription.Subscription) {
	t.Helper()
	left := make(map[subscription.ID]bool)
	for _, sub := range want {
		left[sub.ID] = true
	}
	for s := range subscription.Shard(subscription.Shards) {
		for id, err := range c.Gapped(t.Context(), s) {
			must(t, err)
			if !left[id] || subscription.ShardOf(id) != s {
				t.Fatalf("shard %d gives %s, again or without a gap", s, id)
			}
			delete(left, id)
		}
	}
	if len(left) > 0 {
		t.Fatalf("not given: %v", left)
	}
}
