package dispatch_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/delivery/report"
	"carillon/delivery/send"
	"carillon/topic"
)

func TestTotals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{RetryFirst: time.Hour, MaxBytes: 1 << 20}, s)
		dead := d.subscribe(e, callbackIn(0, 0))
		d.subscribe(e, callbackIn(1, 0))
		s.setAnswer(func(_ context.Context, a *send.Attempt) send.Outcome {
			time.Sleep(time.Second)
			if a.Callback == dead.Callback {
				return broken
			}
			return delivered
		})
		p := delivery.Publication{Topic: topic.Parse(topicURL), From: "a", Until: "b", Body: make([]byte, 100<<10)}
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
		d := start(t, e, dispatch.Config{RetryFirst: time.Hour}, s)
		for i := range 3 {
			d.subscribe(e, fmt.Sprintf("https://h%d.example/", i))
		}
		s.setAnswer(func(_ context.Context, a *send.Attempt) send.Outcome {
			if a.Callback == "https://h0.example/" {
				return broken
			}
			return delivered
		})
		for _, from := range []string{"a", "x"} { // the second does not begin where the first ended
			for _, topicURL := range []string{topicURL, topicURL + "unheard"} {
				p := delivery.Publication{Topic: topic.Parse(topicURL), From: from, Until: from + "b", Body: []byte("x")}
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
		equal(t, "heard", got[0], report.TopicCount{Topic: topicURL, Subscriptions: 3, Behind: 1, Failing: 1, Breaks: 1})
		equal(t, "unheard", got[1], report.TopicCount{Topic: topicURL + "unheard", Breaks: 1})
	})
}
