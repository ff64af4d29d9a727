package dispatch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/delivery/send"
	"carillon/subscription"
)

// trimByHand removes what is before a number, as an operator does.
func trimByHand(t *testing.T, d *running, e *engine, before delivery.Seq) {
	t.Helper()
	if _, err := e.Trim(t.Context(), topicURL, before, time.Now().Add(1000*time.Hour)); err != nil {
		t.Fatal(err)
	}
	d.Trimmed(topicURL, before)
}

// A notification that an operator has trimmed is not delivered to subscriptions that lacked it, from
// memory either: neither at their next attempt, nor once more.
func TestTrimByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{RetryFirst: time.Minute, RetryMax: time.Minute}, s)
		sub := d.subscribe(e, callbackIn(0, 0))
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return broken })
		d.publish("must not be delivered")
		d.publish("may be")
		synctest.Wait()
		s.take()
		s.setAnswer(nil)
		trimByHand(t, d, e, 2)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		got := s.take()
		if len(got) != 1 || got[0].seq != 2 {
			t.Errorf("attempts after the trim: %+v, want one of 2", got)
		}
		gaps := e.latestGaps(sub.ID)
		if len(gaps) != 1 || gaps[0].First != 1 || gaps[0].Last != 1 || gaps[0].Reason != delivery.GapTrimmed {
			t.Errorf("gaps are %+v", gaps)
		}
		if _, _, err := d.Replay(t.Context(), sub.ID, 2, 2); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		equal(t, "delivered once more", len(s.take()), 1)
	})
}

// lateLog has a read find what it finds, and tell it later, while wait is there.
type lateLog struct {
	*engine
	wait atomic.Pointer[chan struct{}]
}

func (l *lateLog) Read(ctx context.Context, topic string, from delivery.Seq) (*delivery.Notification, error) {
	n, err := l.engine.Read(ctx, topic, from)
	if wait := l.wait.Load(); wait != nil {
		<-*wait
	}
	return n, err
}

// A read that began before the trim brings nothing back.
func TestTrimByHandWhileRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		log := &lateLog{engine: e}
		d := startOwning(t, e, dispatch.Stores{Log: log, Cursors: e},
			dispatch.Config{CacheBytes: 1, RetryFirst: time.Minute, RetryMax: time.Minute}, s, 0, subscription.Shards)
		sub := d.subscribe(e, callbackIn(0, 0))
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return broken })
		d.publish("must not be delivered")
		synctest.Wait()
		s.take()
		s.setAnswer(nil)
		late := make(chan struct{})
		log.wait.Store(&late)
		time.Sleep(2 * time.Minute) // it is being read for the next attempt
		synctest.Wait()
		trimByHand(t, d, e, 2)
		close(late)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		equal(t, "attempts after the trim", len(s.take()), 0)
		if gaps := e.latestGaps(sub.ID); len(gaps) != 1 || gaps[0].Last != 1 {
			t.Errorf("gaps are %+v", gaps)
		}
	})
}
