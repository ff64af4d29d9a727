package deliverytest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"carillon/delivery"
	"carillon/subscription"
)

// RunShards runs the suite of delivery.Shards as one process sees it that is alone:
// it comes to own every shard. RunSharing is for several.
func RunShards(t *testing.T, open func(t *testing.T) Harness) {
	cases(t, open, map[string]func(t *testing.T, h Harness){
		"every shard is gained once, and lost at the end":  testGainAndLose,
		"epochs rise with every owner":                     testEpochs,
		"calls come one at a time":                         testOneAtATime,
		"members can be read and saved from within gained": testGainedReads,
		"lost may still save":                              testLostSaves,
		"an error of gained ends Run":                      testGainedFails,
		"a context that is done":                           testRunDone,
		"an engine that is away":                           testRunStopped,
	})
}

func testGainAndLose(t *testing.T, h Harness) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	gained, lost := make(map[subscription.Shard]int), make(map[subscription.Shard]int)
	err := h.Shards.Run(ctx, holder{gained: func(_ context.Context, tenure delivery.Tenure) error {
		if gained[tenure.Shard]++; len(gained) == subscription.Shards {
			stop()
		}
		return nil
	}, lost: func(s subscription.Shard) { lost[s]++ }})
	must(t, err)
	for s := range subscription.Shard(subscription.Shards) {
		if gained[s] != 1 || lost[s] != 1 {
			t.Fatalf("shard %d was gained %d times and lost %d times, want once each", s, gained[s], lost[s])
		}
	}
}

func testEpochs(t *testing.T, h Harness) {
	p := h.Parts
	last := make(map[subscription.Shard]uint64)
	for round, again := range []func(t *testing.T) Parts{
		func(*testing.T) Parts { return p }, func(*testing.T) Parts { return p }, h.Reopen, h.Crash,
	} {
		p = again(t)
		o := own(t, p.Shards)
		for s, tenure := range o.tenures {
			if tenure.Shard != s || tenure.Epoch <= last[s] {
				t.Fatalf("round %d: shard %d has %+v after epoch %d", round, s, tenure, last[s])
			}
			last[s] = tenure.Epoch
		}
		o.end(t)
	}
}

func testOneAtATime(t *testing.T, h Harness) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var inside, count atomic.Int32
	call := func() {
		if inside.Add(1) != 1 {
			t.Error("two calls at once")
		}
		if count.Add(1) == subscription.Shards {
			stop()
		}
		inside.Add(-1)
	}
	must(t, h.Shards.Run(ctx, holder{
		gained: func(context.Context, delivery.Tenure) error { call(); return nil },
		lost:   func(subscription.Shard) { call() },
		sure:   func(time.Time) {},
	}))
}

func testGainedReads(t *testing.T, h Harness) {
	for n := range 50 {
		subscribe(t, h.Subscriptions, n, 0)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	seen, shards := 0, 0
	must(t, h.Shards.Run(ctx, holder{gained: func(_ context.Context, tenure delivery.Tenure) error {
		for m, err := range h.Cursors.Members(t.Context(), tenure.Shard) {
			if err != nil {
				return err
			}
			seen++
			b := delivery.Batch{
				Tenure:   tenure,
				Advances: []delivery.Advance{{Subscription: m.ID, Position: owing(4)}},
			}
			if err := h.Cursors.Save(t.Context(), []delivery.Batch{b}); err != nil {
				return err
			}
		}
		if shards++; shards == subscription.Shards {
			stop()
		}
		return nil
	}}))
	if seen != 50 {
		t.Fatalf("saw %d members, want 50", seen)
	}
}

func testLostSaves(t *testing.T, h Harness) {
	sub := subscribe(t, h.Subscriptions, 1, 0)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	o := &owner{tenures: make(map[subscription.Shard]delivery.Tenure)}
	var saved error
	must(t, h.Shards.Run(ctx, holder{gained: func(_ context.Context, tenure delivery.Tenure) error {
		if o.tenures[tenure.Shard] = tenure; len(o.tenures) == subscription.Shards {
			stop()
		}
		return nil
	}, lost: func(s subscription.Shard) {
		if s == subscription.ShardOf(sub.ID) {
			saved = h.Cursors.Save(t.Context(), []delivery.Batch{o.batch(sub.ID, owing(8))})
		}
	}}))
	must(t, saved)
	wantPosition(t, h.Cursors, sub.ID, owing(8))
}

func testGainedFails(t *testing.T, h Harness) {
	broken := errors.New("cannot take it")
	gained, lost := 0, 0
	err := h.Shards.Run(t.Context(), holder{gained: func(context.Context, delivery.Tenure) error {
		if gained++; gained == 3 {
			return broken
		}
		return nil
	}, lost: func(subscription.Shard) { lost++ }})
	wantError(t, err, broken)
	if gained != 3 || lost != 3 {
		t.Fatalf("gained %d and lost %d, want 3 each", gained, lost)
	}
	own(t, h.Shards)
}

func testRunDone(t *testing.T, h Harness) {
	gained, lost := 0, 0
	must(t, h.Shards.Run(done(t), holder{
		gained: func(context.Context, delivery.Tenure) error { gained++; return nil },
		lost:   func(subscription.Shard) { lost++ },
	}))
	if gained != lost {
		t.Fatalf("gained %d and lost %d", gained, lost)
	}
}

func testRunStopped(t *testing.T, h Harness) {
	h.Stop(t)
	if h.Another == nil {
		wantError(t, h.Shards.Run(t.Context(), holder{}), delivery.ErrUnavailable)
		return
	}
	// It is waited for where processes share it: only the end of ctx ends Run.
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	must(t, h.Shards.Run(ctx, holder{gained: func(context.Context, delivery.Tenure) error {
		t.Error("a shard of an engine that is away was gained")
		return nil
	}}))
	if ctx.Err() == nil {
		t.Error("Run ended though its context stands")
	}
}
