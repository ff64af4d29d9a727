package subscription_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon/subscription"
)

// heads of the topic: when a callback is first asked, and after 11 publications.
const (
	headBefore = 7 // newRoster's
	headAfter  = 18
)

// firstly makes the callback answer its first challenge by first, and every other with its
// confirmation. Before the first answer reaches the hub, 11 notifications are published.
func (h *town) firstly(first func() error) {
	var asked atomic.Bool
	h.confirm = func(context.Context, subscription.Request, string) error {
		if asked.Swap(true) {
			return nil
		}
		h.roster.set(headAfter, nil)
		return first()
	}
}

// mustStart checks after which notification the subscription's deliveries begin.
func (h *town) mustStart(want uint64) {
	h.t.Helper()
	if sub := h.mustBeActive(callback); sub.Start != want {
		h.t.Errorf("deliveries begin after %d, want %d: %d are lost", sub.Start, want, int64(sub.Start)-int64(want))
	}
}

// A subscriber that answered a challenge gets all that is published from then on, though
// its request is replaced before the hub has read the answer (decision 5).
func TestReplacedAfterItsAnswer(t *testing.T) {
	for name, requests := range map[string][]subscription.Wish{
		"the same request":          {subscribe(callback, "one")},
		"another secret":            {subscribe(callback, "two")},
		"twice":                     {subscribe(callback, "two"), subscribe(callback, "three")},
		"an unsubscription between": {unsubscribe(callback), subscribe(callback, "two")},
	} {
		t.Run(name, func(t *testing.T) {
			inTown(t, func(t *testing.T, h *town) {
				h.firstly(func() error {
					for _, w := range requests {
						h.submit(w)
					}
					return nil
				})
				h.run()
				h.submit(subscribe(callback, "one"))
				pass(time.Minute)
				h.mustStart(headBefore)
				h.mustBeSettled()
			})
		})
	}
}

// The answer may also be lost on its way to the hub, which then asks once more.
func TestAnswerLost(t *testing.T) {
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprintf("asked again by the subscriber %v", again), func(t *testing.T) {
			inTown(t, func(t *testing.T, h *town) {
				h.firstly(func() error { return errAway })
				h.run()
				h.submit(subscribe(callback, "one"))
				pass(time.Second)
				if again {
					h.submit(subscribe(callback, "two"))
				}
				pass(time.Minute)
				h.mustStart(headBefore)
			})
		})
	}
}

// The process dies when the callback has answered and the subscription is not stored yet.
func TestCrashAfterTheAnswer(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		t.Run(fmt.Sprintf("replaced %v", replaced), func(t *testing.T) {
			inTown(t, func(t *testing.T, h *town) {
				h.firstly(func() error {
					if replaced {
						h.submit(subscribe(callback, "two"))
					}
					h.memory.setDown(true)
					return nil
				})
				h.run()
				h.submit(subscribe(callback, "one"))
				pass(time.Second)
				h.crash()
				h.roster.set(headAfter, nil)
				h.run()
				pass(time.Minute)
				h.mustStart(headBefore)
			})
		})
	}
}

// The shard moves to another process after the answer; the request may have been replaced
// by way of that one before.
func TestMovedAfterTheAnswer(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		t.Run(fmt.Sprintf("replaced %v", replaced), func(t *testing.T) {
			inTowns(t, func(t *testing.T, store *shared, a, b *town) {
				store.setDeaf(true) // a does not hear of the replacement
				a.firstly(func() error {
					b.roster.set(headAfter, nil)
					if replaced {
						b.submit(subscribe(callback, "two"))
					}
					<-time.After(10 * time.Second)
					return nil
				})
				a.take(shardOf(callback))
				a.submit(subscribe(callback, "one"))
				pass(time.Second)
				a.leave(shardOf(callback))
				b.take(shardOf(callback))
				pass(time.Minute)
				b.mustStart(headBefore)
			})
		})
	}
}

// A renewal that was asked for in time and whose callback was asked stays a renewal when a
// request replaces it that came after the end of the lease: the position is kept.
func TestRenewalReplacedTooLate(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.only = []subscription.Shard{shardOf(callback)}
		h.run()
		h.submit(subscribe(callback, "old"))
		synctest.Wait()
		first := h.mustBeActive(callback)
		pass(subscription.DefaultLease - time.Second)
		h.firstly(func() error {
			<-time.After(2 * time.Second)
			h.submit(subscribe(callback, "new"))
			return nil
		})
		h.submit(subscribe(callback, "renewed"))
		pass(time.Minute)
		if sub := h.mustBeActive(callback); sub.Secret != "new" || sub.Start != first.Start || !sub.Created.Equal(first.Created) {
			t.Errorf("got %+v, want a renewal of %+v", sub, first)
		}
		h.mustCount("renewed", 1)
	})
}

// A request that has come to its end leaves its start to none that comes after it.
func TestSettledRequestLeavesNoStart(t *testing.T) {
	for name, test := range map[string]struct {
		first   error
		between []subscription.Wish
	}{
		"did not confirm": {first: subscription.ErrNoIntent},
		"unsubscribed":    {between: []subscription.Wish{unsubscribe(callback)}},
	} {
		t.Run(name, func(t *testing.T) {
			inTown(t, func(t *testing.T, h *town) {
				h.firstly(func() error { return test.first })
				h.run()
				for _, w := range append([]subscription.Wish{subscribe(callback, "one")}, test.between...) {
					h.submit(w)
					pass(time.Minute)
				}
				h.submit(subscribe(callback, "two"))
				pass(time.Minute)
				h.mustStart(headAfter)
			})
		})
	}
}
