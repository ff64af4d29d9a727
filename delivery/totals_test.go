package delivery_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"carillon/delivery"
)

// A bucket holds what is below its bound and not below that of the one before, and is no
// wider than a quarter of where it begins.
func TestLatencyBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		took := time.Duration(rapid.Int64Range(-1, math.MaxInt64).Draw(t, "took"))
		b := delivery.LatencyBucket(took)
		if b < 0 || b >= delivery.LatencyBuckets {
			t.Fatalf("%s is in bucket %d", took, b)
		}
		if b < delivery.LatencyBuckets-1 && took >= delivery.LatencyBound(b) || b > 0 && took < delivery.LatencyBound(b-1) {
			t.Fatalf("%s is in bucket %d", took, b)
		}
	})
	equal(t, "the last bucket begins after two minutes", delivery.LatencyBound(delivery.LatencyBuckets-2) > 2*time.Minute, true)
	for b := 5; b < delivery.LatencyBuckets; b++ {
		if first, end := delivery.LatencyBound(b-1), delivery.LatencyBound(b); end <= first || end-first > first/4 {
			t.Errorf("bucket %d is from %s to %s", b, first, end)
		}
	}
}

func TestLatencyQuantile(t *testing.T) {
	var l delivery.Latency
	equal(t, "of none", l.Quantile(.5), 0)
	for i := range 1000 {
		l.Note(time.Duration(i) * time.Millisecond)
	}
	for q, want := range map[float64]time.Duration{.5: 500 * time.Millisecond, .9: 900 * time.Millisecond, .99: 990 * time.Millisecond, 1: time.Second} {
		if got := l.Quantile(q); got < want*4/5 || got > want*5/4 {
			t.Errorf("quantile %v is %s, want about %s", q, got, want)
		}
	}
	before := l
	l.Note(time.Minute)
	if got := l.Minus(before).Quantile(.5); got < 48*time.Second || got > 75*time.Second {
		t.Errorf("since then half took at most %s, want about a minute", got)
	}
	twice := l.Plus(l)
	equal(t, "half of twice as many", twice.Quantile(.5), l.Quantile(.5))
}

func TestTotals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, delivery.Config{RetryFirst: time.Hour, MaxBytes: 1 << 20}, s)
		dead := d.subscribe(e, callbackIn(0, 0))
		d.subscribe(e, callbackIn(1, 0))
		s.setAnswer(func(_ context.Context, a *delivery.Attempt) delivery.Outcome {
			time.Sleep(time.Second)
			if a.Callback == dead.Callback {
				return broken
			}
			return delivered
		})
		p := delivery.Publication{Topic: topicURL, From: "a", Until: "b", Body: make([]byte, 100<<10)}
		for range 2 { // the second time it is repeated
			if _, err := d.Publish(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		equal(t, "bytes held", d.Totals().HeldBytes, 100<<10)
		time.Sleep(2 * time.Second)
		got := d.Totals()
		equal(t, "published", got.Published, 1)
		equal(t, "delivered", got.Attempts[delivery.ClassDelivered], 1)
		equal(t, "failed", got.Attempts[delivery.ClassServerError], 1)
		equal(t, "behind", got.Behind, 1)
		equal(t, "failing", got.Failing, 1)
		equal(t, "bytes held", got.HeldBytes, 0)
		equal(t, "bytes that may be held", got.MaxHeldBytes, 1<<20)
		if q := got.Latency.Quantile(.5); q < 800*time.Millisecond || q > 1300*time.Millisecond {
			t.Errorf("half took at most %s, want about a second", q)
		}
		d.Ended(dead.ID)
		equal(t, "failing when it has ended", d.Totals().Failing, 0)
		equal(t, "behind when it has ended", d.Totals().Behind, 0)
	})
}

func TestTopicCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, delivery.Config{RetryFirst: time.Hour}, s)
		for i := range 3 {
			d.subscribe(e, fmt.Sprintf("https://h%d.example/", i))
		}
		s.setAnswer(func(_ context.Context, a *delivery.Attempt) delivery.Outcome {
			if a.Callback == "https://h0.example/" {
				return broken
			}
			return delivered
		})
		for _, from := range []string{"a", "x"} { // the second does not begin where the first ended
			for _, topic := range []string{topicURL, topicURL + "unheard"} {
				p := delivery.Publication{Topic: topic, From: from, Until: from + "b", Body: []byte("x")}
				if _, err := d.Publish(t.Context(), p); err != nil {
					t.Fatal(err)
				}
			}
		}
		synctest.Wait()
		got, err := d.TopicCounts(t.Context())
		if err != nil || len(got) != 2 {
			t.Fatalf("got %+v %v", got, err)
		}
		equal(t, "heard", got[0], delivery.TopicCount{Topic: topicURL, Subscriptions: 3, Behind: 1, Failing: 1, Breaks: 1})
		equal(t, "unheard", got[1], delivery.TopicCount{Topic: topicURL + "unheard", Breaks: 1})
		equal(t, "one", d.TopicCount(topicURL), got[0])
		equal(t, "the other", d.TopicCount(topicURL+"unheard"), got[1])
	})
}
