package deliverytest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"carillon/delivery"
	"carillon/subscription"
)

// RunSharing runs the suite of delivery.Shards for an engine that several processes share: each has
// its fair part, no process works on shards that can be another's, and the shards of a silent one are
// taken over.
func RunSharing(t *testing.T, open func(t *testing.T) SharingHarness) {
	for name, test := range map[string]func(t *testing.T, w *town){
		"one that is alone has all":                             testAlone,
		"a second gets half, and a third a third":               testFairParts,
		"several that start at once share":                      testStartTogether,
		"what is handed back in order goes to the other":        testEndInOrder,
		"nothing is taken from who is still losing it":          testSlowLost,
		"what a silent one had is taken over, and it is fenced": testSilence,
		"one that was silent for a moment keeps its part":       testShortSilence,
		"one that returns from a silence while alone":           testSilenceAlone,
		"Gained that fails for now is tried again":              testGainedFailsForNow,
		"Gained that fails for good ends Run":                   testGainedFailsForGood,
		"Gained ends with Run":                                  testGainedEnds,
		"an engine that is away at the start is waited for":     testAwayAtStart,
		"epochs are never given twice":                          testEpochsShared,
	} {
		t.Run(name, func(t *testing.T) { test(t, newTown(t, open(t))) })
	}
}

func testAlone(_ *testing.T, w *town) {
	r := w.move().run()
	w.waitParts(map[*resident]int{r: subscription.Shards})
	r.end()
}

func testFairParts(_ *testing.T, w *town) {
	a := w.move().run()
	w.waitParts(map[*resident]int{a: subscription.Shards})
	b := w.move().run()
	w.waitParts(map[*resident]int{a: 32, b: 32})
	c := w.move().run()
	w.wait("three have a third each", func() bool {
		least := min(len(a.held), len(b.held), len(c.held))
		return least == 21 && len(a.held)+len(b.held)+len(c.held) == subscription.Shards
	})
	// Processes that need not move stay: no more is lost than the newcomers get.
	w.mu.Lock()
	defer w.mu.Unlock()
	if lost := a.lost + b.lost; lost > 32+22 {
		w.t.Errorf("%d shards were lost, for 32 and then 21 that had to be", lost)
	}
}

func testStartTogether(_ *testing.T, w *town) {
	residents := []*resident{w.move(), w.move(), w.move(), w.move()}
	for _, r := range residents {
		r.Process = w.process(w.t)
	}
	parts := make(map[*resident]int)
	for _, r := range residents {
		parts[r.start()] = 16
	}
	w.waitParts(parts)
}

func testEndInOrder(_ *testing.T, w *town) {
	a, b := w.move().run(), w.move().run()
	w.waitParts(map[*resident]int{a: 32, b: 32})
	kept := b.tenures()
	a.end()
	w.waitParts(map[*resident]int{a: 0, b: subscription.Shards})
	now := b.tenures()
	for s, tenure := range kept {
		if now[s] != tenure {
			w.t.Errorf("shard %d went from %+v to %+v, though nobody wanted it", s, tenure, now[s])
		}
	}
	b.end()
}

// A process that takes its time to finish keeps the shard until it has, also beyond
// the takeover time.
func testSlowLost(t *testing.T, w *town) {
	begun, finish := make(chan struct{}), make(chan struct{})
	finished := sync.OnceFunc(func() { close(finish) })
	defer finished()
	a := w.move()
	a.lose = func(subscription.Shard) {
		select {
		case begun <- struct{}{}:
		case <-finish:
		}
		<-finish
	}
	a.run()
	w.waitParts(map[*resident]int{a: subscription.Shards})
	b := w.move().run()
	<-begun
	select {
	case <-time.After(w.takeover * 3 / 2): // for as long as others would wait for a silent one
	case <-t.Context().Done():
	}
	if n := len(b.tenures()); n > 0 {
		t.Errorf("%d shards were taken from a process that has not lost them yet", n)
	}
	finished()
	w.waitParts(map[*resident]int{a: 32, b: 32})
}

func testSilence(t *testing.T, w *town) {
	a, b := w.move().run(), w.move().run()
	w.waitParts(map[*resident]int{a: 32, b: 32})
	before := a.tenures()
	var moved subscription.Subscription
	for n := 0; ; n++ { // one in a shard of the process that falls silent
		if moved = granted(n, 0); before[subscription.ShardOf(moved.ID)].Epoch > 0 {
			must(t, activate(t, b.Subscriptions, n, 0))
			break
		}
	}
	stale := (&owner{tenures: before}).batch(moved.ID, owing(9), gap(moved.ID, 9, 9))
	must(t, a.Cursors.Save(t.Context(), []delivery.Batch{(&owner{tenures: before}).batch(moved.ID, owing(5))}))

	a.silence()
	w.waitParts(map[*resident]int{b: subscription.Shards})
	must(t, b.Cursors.Save(t.Context(), []delivery.Batch{(&owner{tenures: b.tenures()}).batch(moved.ID, owing(6))}))

	a.Return()
	wantFenced(t, saveSoon(t, a.Cursors, stale), subscription.ShardOf(moved.ID))
	w.wait("the process that was silent is told what it lost, and rejoins", func() bool {
		for s, tenure := range before {
			if a.held[s] == tenure {
				return false
			}
		}
		return a.lost >= len(before) && len(a.held) == 32 && len(b.held) == 32
	})
	wantPosition(t, b.Cursors, moved.ID, owing(6))
	wantGaps(t, b.Cursors, moved.ID, 10)
	a.end()
	b.end()
}

// saveSoon saves as soon as the engine is within reach again.
func saveSoon(t *testing.T, c delivery.Cursors, b delivery.Batch) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), sharingLimit)
	defer cancel()
	for {
		err := c.Save(ctx, []delivery.Batch{b})
		if !errors.Is(err, delivery.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func testShortSilence(_ *testing.T, w *town) {
	a, b := w.move().run(), w.move().run()
	w.waitParts(map[*resident]int{a: 32, b: 32})
	w.mu.Lock()
	lost, sure := a.lost+b.lost, a.sure
	w.mu.Unlock()
	before := a.tenures()
	a.silence()
	a.Return()
	w.wait("it is sure of its shards again", func() bool { return a.sure.After(sure.Add(w.takeover / 2)) })
	if !maps.Equal(before, a.tenures()) {
		w.t.Error("its shards have changed")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := a.lost + b.lost; now != lost {
		w.t.Errorf("%d shards were lost", now-lost)
	}
}

// No process took its shards, whether its lease has run out or not: it goes on, sure of them again.
func testSilenceAlone(_ *testing.T, w *town) {
	r := w.move().run()
	w.waitParts(map[*resident]int{r: subscription.Shards})
	r.silence()
	until := func() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return r.sure }()
	<-time.After(time.Until(until) + w.takeover/2)
	r.Return()
	w.wait("it has all, and is sure", func() bool {
		return len(r.held) == subscription.Shards && r.inside == 0 && r.sure.After(until)
	})
	tenures := r.tenures()
	sub := granted(1, 0)
	must(w.t, activateSoon(w.t, r.Subscriptions, 1))
	must(w.t, saveSoon(w.t, r.Cursors, (&owner{tenures: tenures}).batch(sub.ID, owing(3))))
}

// activateSoon is activate as soon as the engine is within reach again.
func activateSoon(t *testing.T, s subscription.Store, n int) error {
	limit := time.Now().Add(sharingLimit)
	for {
		err := activate(t, s, n, 0)
		if !errors.Is(err, delivery.ErrUnavailable) || time.Now().After(limit) {
			return err
		}
		<-time.After(10 * time.Millisecond)
	}
}

func testGainedFailsForNow(_ *testing.T, w *town) {
	for _, trouble := range []error{delivery.ErrUnavailable, delivery.ErrFenced} {
		r, failures := w.move(), 0
		r.reply = func(_ context.Context, tenure delivery.Tenure) error {
			if tenure.Shard != 7 || failures == 2 {
				return nil
			}
			failures++
			return fmt.Errorf("in a test: %w", trouble)
		}
		r.run()
		w.wait("the shard that failed twice is gained", func() bool {
			return len(r.held) == subscription.Shards && r.inside == 0 && r.gained >= subscription.Shards+2
		})
		r.end()
		if failures != 2 || r.gained != subscription.Shards+2 {
			w.t.Errorf("gained %d times, %d of them in vain; want 2", r.gained, failures)
		}
	}
}

func testGainedFailsForGood(t *testing.T, w *town) {
	broken := errors.New("cannot take it")
	r := w.move()
	r.reply = func(context.Context, delivery.Tenure) error {
		if len(r.tenures()) == 3 {
			return broken
		}
		return nil
	}
	r.run()
	<-r.done
	w.mu.Lock()
	wantError(t, r.err, broken)
	r.checkEnd()
	w.mu.Unlock()
	w.waitParts(map[*resident]int{w.move().run(): subscription.Shards})
}

func testGainedEnds(_ *testing.T, w *town) {
	r, begun := w.move(), make(chan struct{})
	r.reply = func(ctx context.Context, _ delivery.Tenure) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}
	r.run()
	<-begun
	r.end()
	w.waitParts(map[*resident]int{w.move().run(): subscription.Shards})
}

func testAwayAtStart(t *testing.T, w *town) {
	r := w.move()
	r.Process = w.process(t)
	r.silence()
	r.start()
	select {
	case <-r.done:
		t.Fatalf("Run ended with %v", r.err)
	case <-time.After(w.takeover / 2):
	}
	if n := len(r.tenures()); n > 0 {
		t.Fatalf("%d shards were gained from an engine that is away", n)
	}
	r.Return()
	w.waitParts(map[*resident]int{r: subscription.Shards})
}

// The town compares each epoch with those before.
func testEpochsShared(_ *testing.T, w *town) {
	for range 3 {
		a, b := w.move().run(), w.move().run()
		w.waitParts(map[*resident]int{a: 32, b: 32})
		a.end()
		b.end()
	}
}
