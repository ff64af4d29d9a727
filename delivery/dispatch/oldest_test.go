package dispatch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"carillon/delivery/dispatch"
	"carillon/delivery/send"
	"carillon/subscription"
)

// The longest wait is reported by its age while it lasts, and not after it.
func TestOldestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{}, s)
		var broke atomic.Bool
		s.setAnswer(func(_ context.Context, a *send.Attempt) send.Outcome {
			if broke.Load() && a.Callback == "https://a.example/" {
				return broken
			}
			return delivered
		})
		d.subscribe(e, "https://a.example/")
		d.subscribe(e, "https://b.example/")
		d.publish("1")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		equal(t, "where nobody waits", d.metric("oldest_waiting_seconds", ""), 0)
		d.publish("1, too young to be trimmed")
		time.Sleep(2 * time.Minute)
		broke.Store(true)
		d.publish("2")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		equal(t, "the second waits, the one before does not", d.metric("oldest_waiting_seconds", ""), 2*60)
		time.Sleep(8 * time.Minute)
		d.publish("3")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		equal(t, "the second waits", d.metric("oldest_waiting_seconds", ""), 15*60)
		equal(t, "behind", d.metric("behind", ""), 1)
		broke.Store(false)
		time.Sleep(2 * time.Hour) // its next attempt, and a sweep
		synctest.Wait()
		equal(t, "when it has got them", d.metric("oldest_waiting_seconds", ""), 0)
		equal(t, "behind at the end", d.metric("behind", ""), 0)
	})
}

// Each attempt is observed once, each delivery with the time since its publication, and each
// shard that is lost is counted.
func TestObservations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{}, s)
		s.setAnswer(func(_ context.Context, a *send.Attempt) send.Outcome {
			time.Sleep(2 * time.Second)
			if a.Number < 3 {
				return broken
			}
			return delivered
		})
		d.subscribe(e, "https://a.example/")
		d.publish("1")
		time.Sleep(time.Hour)
		synctest.Wait()
		took, delay := histogramOf(t, d, "attempt_duration_seconds"), histogramOf(t, d, "delay_seconds")
		equal(t, "attempts", took.GetSampleCount(), 3)
		equal(t, "their time", took.GetSampleSum(), 6)
		equal(t, "deliveries", delay.GetSampleCount(), 1)
		if took.Schema == nil || len(took.GetPositiveSpan()) == 0 || len(took.GetBucket()) == 0 {
			t.Error("the histogram is not both native and classic")
		}
		if sum := delay.GetSampleSum(); sum < 6 || sum > 60 {
			t.Errorf("it came %v s after it was accepted", sum)
		}
		equal(t, "publications", histogramOf(t, d, "publish_duration_seconds").GetSampleCount(), 1)
		for shard := range subscription.Shard(3) {
			d.Lost(shard)
		}
		equal(t, "handed over", d.metric("shards_lost_total", "handed_over"), 3)
		equal(t, "fenced", d.metric("shards_lost_total", "fenced"), 0)
	})
}

func histogramOf(t *testing.T, d *running, name string) *dto.Histogram {
	t.Helper()
	families, err := d.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "carillon_delivery_"+name {
			return f.GetMetric()[0].GetHistogram()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return nil
}
