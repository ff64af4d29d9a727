package dispatch_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/delivery/send"
	"carillon/subscription"
)

// slowMarks takes a while for marks: for each, or for the next one of a shard.
type slowMarks struct {
	sharedEngine
	each time.Duration

	mu    sync.Mutex
	shard subscription.Shard
	begun chan struct{} // not nil: to be closed when the next mark of the shard begins
}

func (m *slowMarks) Mark(ctx context.Context, t delivery.Tenure, lowest map[string]delivery.Seq) error {
	m.mu.Lock()
	begun := m.begun
	if t.Shard == m.shard {
		m.begun = nil
	}
	m.mu.Unlock()
	if t.Shard == m.shard && begun != nil {
		close(begun)
		time.Sleep(2 * time.Second)
	}
	time.Sleep(m.each)
	return m.sharedEngine.Mark(ctx, t, lowest)
}

// next returns what is closed when the next mark of a shard begins, which then takes long.
func (m *slowMarks) next(shard subscription.Shard) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shard, m.begun = shard, make(chan struct{})
	return m.begun
}

// A replay that begins while a round of trimming is between its look and its marks needs what lies
// before the cursor: the round's mark does not take that back.
func TestMarkOfAReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		m := &slowMarks{sharedEngine: sharedEngine{e}}
		d := startOwning(t, e, dispatch.Stores{Log: e, Cursors: e, Marks: m},
			dispatch.Config{RememberFor: 96 * time.Hour}, s, 0, subscription.Shards)
		sub := d.subscribe(e, callback)
		for range 3 {
			d.publish("x")
		}
		time.Sleep(8*time.Minute + 30*time.Second)
		synctest.Wait()
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return broken })
		shard := subscription.ShardOf(sub.ID)
		lowest := func() (seq delivery.Seq) {
			e.with(func() { seq = e.marks[shard].lowest[topicURL] })
			return seq
		}
		for _, at := range []subscription.Shard{shard, shard - 1} { // its own mark has begun, or is to come
			equal(t, "the mark before", lowest(), 3)
			<-m.next(at)
			if _, _, err := d.Replay(t.Context(), sub.ID, 1, 0); err != nil {
				t.Fatal(err)
			}
			equal(t, "the mark after Replay", lowest(), 0)
			time.Sleep(30 * time.Second)
			equal(t, "the mark when the round is over", lowest(), 0)
			s.setAnswer(nil)
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return broken })
		}
	})
}

// The mark of a replay says what is saved of it, not how far it has come since.
func TestMarkOfAReplayIsSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := startOwning(t, e, dispatch.Stores{Log: e, Cursors: e, Marks: sharedEngine{e}},
			dispatch.Config{FlushInterval: time.Hour, TrimInterval: time.Hour, KeepAtLeast: 4 * time.Hour}, s, 0, subscription.Shards)
		sub := d.subscribe(e, callback)
		for range 3 {
			d.publish("x")
		}
		synctest.Wait()
		e.with(func() {
			e.slowSave = func(context.Context) error { time.Sleep(time.Second); return nil }
		})
		if _, _, err := d.Replay(t.Context(), sub.ID, 1, 0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		sameSeqs(t, "delivered, and again while the beginning was saved", s.seqs(), 1, 2, 3, 1, 2, 3)
		e.with(func() {
			equal(t, "saved of the replay", e.positions[sub.ID].ReplayNext, 1)
			equal(t, "marked", e.marks[subscription.ShardOf(sub.ID)].lowest[topicURL], 0)
		})
	})
}

// A mark counts from the moment when its process looked. A subscription may begin between that moment
// and the write: its notifications are not trimmed.
func TestMarksThatTakeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		e.with(func() { e.ended = func(subscription.ID) {} })
		cfg := dispatch.Config{CacheBytes: -1, RetryFirst: time.Hour, RetryMax: time.Hour} // KeepAtLeast 5 min, TrimInterval 1 min
		slow := &slowMarks{sharedEngine: sharedEngine{e}, each: 2500 * time.Millisecond}
		other := startOwning(t, e, dispatch.Stores{Log: e, Cursors: e, Marks: slow}, cfg, s, 1, subscription.Shards)
		time.Sleep(10 * time.Second)
		startOwning(t, e, dispatch.Stores{Log: e, Cursors: e, Marks: sharedEngine{e}}, cfg, s, 0, 1) // it trims
		time.Sleep(51 * time.Second)                                                                 // the other has looked, and marks
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return broken })
		sub := other.subscribe(e, callbackIn(63, 0))
		other.publish("1")
		time.Sleep(3 * time.Hour)
		s.setAnswer(nil)
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		wantGaps(t, "who subscribed meanwhile", e.gapsOf(sub.ID))
		equal(t, "settled", e.positions[sub.ID].Settled, 1)
	})
}
