package dispatch_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/delivery/send"
	"carillon/topic"
)

// On the real engine, whatever fails and ends in between: a replay comes whole and in
// order, and then what was published meanwhile; nothing else comes twice, but after a
// crash what was not saved yet.
func TestReplayInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const flushCount = 4
		var (
			before    = rapid.IntRange(1, 12).Draw(t, "published before")
			from      = rapid.IntRange(1, before).Draw(t, "from")
			last      = rapid.IntRange(from, before).Draw(t, "last")
			meanwhile = rapid.IntRange(0, 3).Draw(t, "published meanwhile")
			crash     = rapid.Bool().Draw(t, "crash")
			stopAt    = rapid.IntRange(1, last-from+1+meanwhile).Draw(t, "stop after")
			cfg       = dispatch.Config{
				FlushCount: flushCount, RetryFirst: 50 * time.Microsecond, RetryMax: time.Millisecond, FlushInterval: time.Millisecond,
				CacheBytes: rapid.SampledFrom([]int64{-1, 0}).Draw(t, "cache"), DrainTimeout: time.Millisecond,
			}
			f = &follower{failing: rapid.IntRange(0, 20).Draw(t, "percent that fail")}
		)
		db := openStore(t, vfs.NewMem())
		defer db.Close()
		cursors := &severed{Cursors: db.Cursors()}
		d, stop := startOn(t, db, cursors, cfg, f)
		publish := func(n int) {
			for range n {
				if _, err := d.Publish(context.Background(), delivery.Publication{Topic: topic.Parse(topicURL), Body: []byte("x")}); err != nil {
					t.Fatal(err)
				}
			}
		}
		sub := subscriptionOf(topicURL, callback)
		if err := addSubscription(context.Background(), db, sub); err != nil {
			t.Fatal(err)
		}
		d.Activated(sub)
		all := f.after(before)
		publish(before)
		<-all
		stop() // saves all
		f.got = nil

		d, stop = startOn(t, db, cursors, cfg, f)
		some := f.after(stopAt)
		if _, _, err := d.Replay(context.Background(), sub.ID, delivery.Seq(from), delivery.Seq(last)); err != nil {
			t.Fatal(err)
		}
		publish(meanwhile)
		<-some
		cursors.cutOff(crash)
		stop()
		cursors.cutOff(false)
		first := len(f.got)

		end := f.upTo(delivery.Seq(before + meanwhile + 1))
		d, stop = startOn(t, db, cursors, cfg, f)
		publish(1)
		<-end
		stop()
		var want []delivery.Seq
		for seq := from; seq <= before+meanwhile+1; seq++ {
			if seq <= last || seq > before {
				want = append(want, delivery.Seq(seq))
			}
		}
		again := len(f.got) - len(want)
		if again < 0 || again > first || !crash && again > 0 || again > flushCount+1 {
			t.Fatalf("got %v and %v, want %v", f.got[:first], f.got[first:], want)
		}
		if !slices.Equal(f.got[:first], want[:first]) || !slices.Equal(f.got[first:], want[first-again:]) {
			t.Fatalf("got %v and %v, want %v", f.got[:first], f.got[first:], want)
		}
	})
}

// cutOff cuts the Cursors off, or no longer.
func (s *severed) cutOff(cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = cut
}

// follower is a Sender that fails at random, and notes what it has delivered.
type follower struct {
	failing int

	mu   sync.Mutex
	got  []delivery.Seq
	left int          // calls until the done signal
	last delivery.Seq // likewise, with this one
	told chan struct{}
}

// after is closed when so many more were delivered, and upTo when one is.
func (f *follower) after(n int) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left, f.told = n, make(chan struct{})
	return f.told
}

func (f *follower) upTo(last delivery.Seq) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last, f.told = last, make(chan struct{})
	return f.told
}

func (f *follower) Send(_ context.Context, a *send.Attempt) send.Outcome {
	f.mu.Lock()
	defer f.mu.Unlock()
	if rand.N(100) < f.failing {
		return broken
	}
	seq := a.Notification.Seq
	f.got = append(f.got, seq)
	if f.left--; f.left == 0 || seq == f.last {
		close(f.told)
		f.last = 0
	}
	return delivered
}
