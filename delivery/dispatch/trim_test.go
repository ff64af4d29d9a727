package dispatch_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/delivery/send"
	"carillon/subscription"
)

// Processes that share an engine trim by what the slowest of all needs; as long as
// one is not heard of, nothing goes.
func TestTrimTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		stores := dispatch.Stores{Log: e, Cursors: e, Marks: sharedEngine{e}}
		s := &attempts{}
		trimmer := startOwning(t, e, stores, dispatch.Config{}, s, 0, 32)
		other := startOwning(t, e, stores, dispatch.Config{}, s, 32, subscription.Shards)
		fast, slow := callbackIn(1, 0), callbackIn(40, 0)
		s.setAnswer(func(_ context.Context, a *send.Attempt) send.Outcome {
			if a.Callback == slow && a.Notification.Seq > 2 {
				return broken
			}
			return delivered
		})
		trimmer.subscribe(e, fast)
		sub := other.subscribe(e, slow)
		for range 4 {
			other.Published(topicURL, trimmer.publish("x").Seq)
		}
		kept := func() (seqs []delivery.Seq) {
			e.with(func() {
				for _, n := range e.logs[topicURL] {
					if n != nil {
						seqs = append(seqs, n.Seq)
					}
				}
			})
			return seqs
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		sameSeqs(t, "younger than KeepAtLeast", kept(), 1, 2, 3, 4)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		sameSeqs(t, "what the slow one of the other process needs", kept(), 3, 4)

		e.with(func() { equal(t, "one of them trims, each minute", e.lowests, 8) })
		other.stop() // it marks no more: its marks count for three intervals
		for s := subscription.Shard(32); s < subscription.Shards; s++ {
			other.Lost(s)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		sameSeqs(t, "with the other one away", kept(), 3, 4)

		s.setAnswer(nil)
		for s := subscription.Shard(32); s < subscription.Shards; s++ {
			e.with(func() { e.epochs[s]++ })
			if err := trimmer.Gained(t.Context(), delivery.Tenure{Shard: s, Epoch: e.epochs[s]}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		p, _ := trimmer.Position(sub.ID)
		equal(t, "settled", p.Settled, 4)
		sameSeqs(t, "with all of it here", kept())
	})
}

// Only what is saved is marked, and only by the owner: a mark that is refused
// drops nothing.
func TestMarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		stores := dispatch.Stores{Log: e, Cursors: e, Marks: sharedEngine{e}}
		d := startOwning(t, e, stores, dispatch.Config{FlushInterval: time.Hour}, &attempts{}, 0, subscription.Shards)
		sub := d.subscribe(e, callback)
		shard := subscription.ShardOf(sub.ID)
		d.publish("1")
		synctest.Wait()
		e.with(func() { equal(t, "saves before", e.saves, 0) })
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "saved", e.positions[sub.ID].Settled, 1)
		equal(t, "marked", e.marks[shard].lowest[topicURL], 1)
		equal(t, "shards marked", len(e.marks), subscription.Shards)

		e.with(func() { e.saveErr = errAway })
		d.publish("2")
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "marked without having been saved", e.marks[shard].lowest[topicURL], 1)
		e.with(func() { e.saveErr = nil; e.epochs[9]++ })
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "marked beside one that is refused", e.marks[shard].lowest[topicURL], 2)
		equal(t, "shards", d.Stats().Shards, subscription.Shards)
		d.stop()
		equal(t, "warnings of the refused one", strings.Count(d.logs.String(), "another owner"), 0)
	})
}

// Marks of other processes are up to three intervals old.
func TestKeepAtLeastWhereShared(t *testing.T) {
	e := newEngine()
	for _, c := range []struct {
		cfg    dispatch.Config
		shared bool
		ok     bool
	}{
		{dispatch.Config{}, true, true},
		{dispatch.Config{TrimInterval: time.Minute, KeepAtLeast: 4 * time.Minute}, true, true},
		{dispatch.Config{TrimInterval: time.Minute, KeepAtLeast: 4*time.Minute - 1}, true, false},
		{dispatch.Config{TrimInterval: time.Hour, KeepAtLeast: time.Minute}, false, true},
	} {
		stores := dispatch.Stores{Log: e, Cursors: e}
		if c.shared {
			stores.Marks = sharedEngine{e}
		}
		_, err := dispatch.New(c.cfg, stores, e, &attempts{}, nil, nil)
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "KeepAtLeast") {
			t.Errorf("%+v, shared %v: got %v", c.cfg, c.shared, err)
		}
	}
}
