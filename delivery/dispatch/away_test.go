package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/delivery/send"
	"carillon/subscription"
	"carillon/topic"
)

// parted is an engine of two parts: while one is away, what it keeps cannot be had.
type parted struct {
	*engine
	shard func(subscription.Shard) bool // reports the shards that are away; nil: none
	topic func(string) bool
}

func (p *parted) Save(ctx context.Context, batches []delivery.Batch) error {
	var there []delivery.Batch
	var away []subscription.Shard
	var isAway func(subscription.Shard) bool
	p.with(func() { isAway = p.shard })
	for _, b := range batches {
		if isAway != nil && isAway(b.Tenure.Shard) {
			away = append(away, b.Tenure.Shard)
		} else {
			there = append(there, b)
		}
	}
	if err := p.engine.Save(ctx, there); err != nil || len(away) == 0 {
		return err
	}
	return &delivery.SaveError{Shards: away, Err: errAway}
}

// isAway reports whether the topic is of the part that is away.
func (p *parted) isAway(topic string) (away bool) {
	p.with(func() { away = p.topic != nil && p.topic(topic) })
	return away
}

func (p *parted) Read(ctx context.Context, topic string, from delivery.Seq) (*delivery.Notification, error) {
	if p.isAway(topic) {
		return nil, fmt.Errorf("%w: %w", delivery.ErrPartAway, errAway)
	}
	return p.engine.Read(ctx, topic, from)
}

func (p *parted) Heads(ctx context.Context, topics []string) ([]delivery.Seq, error) {
	heads, err := p.engine.Heads(ctx, topics)
	away := &delivery.HeadsError{Err: errAway}
	for i, topic := range topics {
		if p.isAway(topic) {
			heads[i] = 0
			away.Unread = append(away.Unread, i)
		}
	}
	if err == nil && len(away.Unread) > 0 {
		return heads, away
	}
	return heads, err
}

func (p *parted) stores() dispatch.Stores { return dispatch.Stores{Log: p, Cursors: p} }

// callbacksOf returns two callbacks of subscriptions to the topic, in different shards.
func callbacksOf(topic string) (one, other string, away subscription.Shard) {
	one = callback
	away = subscription.ShardOf(subscription.NewID(topic, one))
	for i := 0; ; i++ {
		other = fmt.Sprintf("https://h%d.example/", i)
		if subscription.ShardOf(subscription.NewID(topic, other)) != away {
			return one, other, away
		}
	}
}

// The deliveries of a shard that cannot be saved pause, and no others.
func TestAShardThatCannotBeSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		p := &parted{engine: e}
		d := startOwning(t, e, p.stores(), dispatch.Config{FlushCount: 4}, s, 0, subscription.Shards)
		one, other, away := callbacksOf(topicURL)
		d.subscribe(e, one)
		d.subscribe(e, other)
		e.with(func() { p.shard = func(s subscription.Shard) bool { return s == away } })
		publish := func(body string) map[string]int {
			d.publish(body)
			time.Sleep(5 * time.Second)
			synctest.Wait()
			got := map[string]int{}
			for _, a := range s.take() {
				got[a.callback]++
			}
			return got
		}
		publish("1")
		equal(t, "shards that are away", d.Stats().Away, 1)
		equal(t, "paused", d.Stats().Paused, false)
		for i := range 10 {
			got := publish(fmt.Sprint(i))
			equal(t, "to the one whose shard is away", got[one], 0)
			equal(t, "to the other", got[other], 1)
		}
		equal(t, "saved of the other", e.positions[subscription.NewID(topicURL, other)].Settled, 11)
		e.with(func() { p.shard = nil })
		time.Sleep(5 * time.Second)
		synctest.Wait()
		got := map[string]int{}
		for _, a := range s.take() {
			got[a.callback]++
		}
		equal(t, "to the one, when its shard is back", got[one], 10)
		equal(t, "shards that are away", d.Stats().Away, 0)
		equal(t, "unsaved", d.Stats().Unsaved, 0)
		equal(t, "saved", e.positions[subscription.NewID(topicURL, one)].Settled, 11)
		for _, line := range []string{"positions of some shards could not be saved", "positions of all shards are saved again"} {
			if n := strings.Count(d.logs.String(), line); n != 1 {
				t.Errorf("%q is in the log %d times, want once", line, n)
			}
		}
	})
}

// A shard that is lost while it cannot be saved, and gained again, is as any other.
func TestAShardIsLostWhileItCannotBeSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		p := &parted{engine: e}
		d := startOwning(t, e, p.stores(), dispatch.Config{}, s, 0, subscription.Shards)
		one, _, away := callbacksOf(topicURL)
		d.subscribe(e, one)
		e.with(func() { p.shard = func(s subscription.Shard) bool { return s == away } })
		d.publish("1")
		time.Sleep(time.Second)
		synctest.Wait()
		d.Lost(away)
		equal(t, "unsaved", d.Stats().Unsaved, 0)
		e.with(func() { p.shard = nil; e.epochs[away]++ })
		if err := d.Gained(t.Context(), delivery.Tenure{Shard: away, Epoch: e.epochs[away]}); err != nil {
			t.Fatal(err)
		}
		d.publish("2")
		time.Sleep(time.Second)
		synctest.Wait()
		sameSeqs(t, "what was not saved comes twice", s.seqs(), 1, 1, 2)
		equal(t, "saved", e.positions[subscription.NewID(topicURL, one)].Settled, 2)
	})
}

// The deliveries of a topic whose log is on a part that is away rest, and no others.
func TestATopicThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const gone = "https://example.com/gone"
		e, s := newEngine(), &attempts{}
		p := &parted{engine: e}
		d := startOwning(t, e, p.stores(), dispatch.Config{CacheBytes: 1}, s, 0, subscription.Shards)
		lost := subscriptionOf(gone, callback)
		d.Activated(lost)
		d.Activated(subscriptionOf(topicURL, callback))
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome {
			return send.Outcome{Class: delivery.ClassServerError, Status: 503}
		})
		if _, err := d.Publish(t.Context(), delivery.Publication{Topic: topic.Parse(gone)}); err != nil {
			t.Fatal(err)
		}
		d.publish("1")
		synctest.Wait()
		s.setAnswer(nil)
		e.with(func() { p.topic = func(topic string) bool { return topic == gone } })
		d.Refresh()
		time.Sleep(time.Minute)
		synctest.Wait()
		before := len(s.take())
		for i := range 20 {
			d.publish(fmt.Sprint(i))
			synctest.Wait()
		}
		equal(t, "deliveries of the topic that is there, at once", len(s.take()), 20)
		if before == 0 {
			t.Error("the retry of the topic that is there was not made")
		}
		equal(t, "paused", d.Stats().Paused, false)
		if n := strings.Count(d.logs.String(), "could not be read"); n != 1 {
			t.Errorf("the log has %d lines of it, want one:\n%s", n, d.logs)
		}
		e.with(func() { p.topic = nil })
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "deliveries of the topic that was away", len(s.take()), 1)
	})
}

// A shard that may be another's has no attempts, while others have.
func TestDoubtedShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{}, s)
		one, other, doubted := callbacksOf(topicURL)
		d.subscribe(e, one)
		d.subscribe(e, other)
		d.surety.Sure(time.Now().Add(10 * time.Second))
		time.Sleep(8 * time.Second)
		d.surety.Sure(time.Now().Add(10*time.Second), doubted)
		d.publish("while both are sure")
		synctest.Wait()
		equal(t, "attempts", len(s.take()), 2)
		time.Sleep(5 * time.Second)
		d.publish("while one is doubted")
		synctest.Wait()
		got := s.take()
		equal(t, "attempts", len(got), 1)
		equal(t, "to", got[0].callback, other)
		equal(t, "unsure", d.Stats().Unsure, false)
		d.surety.Sure(time.Now().Add(10 * time.Second))
		synctest.Wait()
		got = s.take()
		equal(t, "attempts", len(got), 1)
		equal(t, "to", got[0].callback, one)
	})
}

// A replay that cannot be saved, because the store of its shard is away, is not reported as begun.
func TestReplayThatCannotBeSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		p := &parted{engine: e}
		d := startOwning(t, e, p.stores(), dispatch.Config{}, s, 0, subscription.Shards)
		sub := d.subscribe(e, callback)
		d.publish("1")
		time.Sleep(time.Second)
		synctest.Wait()
		e.with(func() { p.shard = func(s subscription.Shard) bool { return s == subscription.ShardOf(sub.ID) } })
		for range 2 { // it begins; and while its shard is known to be away
			if _, _, err := d.Replay(t.Context(), sub.ID, 1, 0); !errors.Is(err, delivery.ErrUnavailable) {
				t.Errorf("replay of what cannot be saved: %v", err)
			}
		}
	})
}

// Logs are not trimmed by positions that could not be saved: after a crash they would be wanted again.
func TestTrimWhilePositionsCannotBeSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		p := &parted{engine: e}
		d := startOwning(t, e, dispatch.Stores{Log: p, Cursors: p, Marks: sharedEngine{e}}, dispatch.Config{}, s, 0, subscription.Shards)
		sub := d.subscribe(e, callback)
		kept := func() (n int) {
			e.with(func() {
				for _, n1 := range e.logs[topicURL] {
					if n1 != nil {
						n++
					}
				}
			})
			return n
		}
		e.with(func() { p.shard = func(s subscription.Shard) bool { return s == subscription.ShardOf(sub.ID) } })
		d.publish("1")
		time.Sleep(time.Hour)
		synctest.Wait()
		sameSeqs(t, "delivered", s.seqs(), 1)
		equal(t, "kept, as that is not saved", kept(), 1)
		e.with(func() { p.shard = nil })
		time.Sleep(time.Hour)
		synctest.Wait()
		equal(t, "kept when it is", kept(), 0)
	})
}

// A topic that rests, and comes back with its shard after the clock was set back, rests no longer.
func TestATopicComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s, clock := newEngine(), &attempts{}, &wallClock{}
		p := &parted{engine: e}
		d := startOwning(t, e, p.stores(), clock.config(), s, 0, subscription.Shards)
		shard := subscription.ShardOf(d.subscribe(e, callback).ID)
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return broken })
		d.publish("1")
		synctest.Wait()
		e.with(func() { p.topic = func(string) bool { return true } })
		time.Sleep(time.Minute)
		synctest.Wait()
		d.Lost(shard)
		clock.step(-24 * time.Hour)
		e.with(func() { p.topic = nil; e.epochs[shard]++ })
		s.setAnswer(nil)
		s.take()
		time.Sleep(time.Second)
		if err := d.Gained(t.Context(), delivery.Tenure{Shard: shard, Epoch: e.epochs[shard]}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		sameSeqs(t, "delivered", s.seqs(), 1)
	})
}
