package dispatch_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/delivery/send"
	"carillon/internal/egress"
	"carillon/subscription"
	"carillon/topic"
)

// A retry that leaves the last slot of its host to a fresh one is not forgotten
// when that one ends in the queue.
func TestRetryBehindOneThatEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		const retried, ends, holds = "https://h.example/retried", "https://h.example/ends", "https://other.example/"
		release := make(chan struct{})
		s.setAnswer(func(_ context.Context, a *send.Attempt) send.Outcome {
			switch {
			case a.Callback == holds:
				<-release
			case a.Callback == retried && a.Number < 3:
				return send.Outcome{Class: delivery.ClassServerError, Status: 503, RetryAfter: time.Minute}
			}
			return delivered
		})
		d := start(t, e, dispatch.Config{MaxInFlight: 1, MaxSlow: -1}, s)
		publishTo := func(callback string) subscription.ID {
			sub := subscriptionOf(topicURL+callback, callback)
			d.Activated(sub)
			if _, err := d.Publish(t.Context(), delivery.Publication{Topic: topic.Parse(sub.Topic)}); err != nil {
				t.Fatal(err)
			}
			return sub.ID
		}
		id := publishTo(retried)
		time.Sleep(90 * time.Second) // two failures: the host's latest attempt was a retry
		publishTo(holds)
		synctest.Wait()
		ended := publishTo(ends)
		time.Sleep(time.Minute) // the third attempt is due
		synctest.Wait()
		equal(t, "waiting for the slot", d.Stats().Ready, 2)
		d.Ended(ended)
		close(release)
		synctest.Wait()
		p, _ := d.Position(id)
		equal(t, "settled", p.Settled, 1)
	})
}

// A host stays known while attempts to it are under way, so that the next subscription does not start
// with a limit of its own.
func TestHostIsKeptWhileBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		release := make(chan struct{})
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { <-release; return delivered })
		d := start(t, e, dispatch.Config{MaxPerHost: 1, MaxSlow: -1}, s)
		first := d.subscribe(e, "https://h.example/1")
		d.publish("x")
		synctest.Wait()
		d.Ended(first.ID)
		equal(t, "hosts while an attempt is under way", d.Stats().Hosts, 1)
		second := subscriptionOf(topicURL, "https://h.example/2")
		d.Activated(second)
		synctest.Wait()
		equal(t, "attempts at once", len(s.take()), 1)
		d.Ended(second.ID)
		close(release)
		synctest.Wait()
		equal(t, "hosts with nobody", d.Stats().Hosts, 0)
	})
}

// A host whose callbacks hang has connections left for a healthy one, with as
// many as ConnsPerHost says.
func TestConnsPerHost(t *testing.T) {
	for _, c := range []struct {
		cfg  dispatch.Config
		want int
	}{
		{dispatch.Config{}, 64 + 512},
		{dispatch.Config{MaxSlow: -1}, 64},
		{dispatch.Config{MaxInFlight: 10, MaxSlow: 2}, 10 + 1},
	} {
		equal(t, fmt.Sprintf("%+v", c.cfg), c.cfg.ConnsPerHost(), c.want)
	}

	const deadline = 10 * time.Second
	cfg := dispatch.Config{MaxPerHost: 4, MaxSlow: 16, SlowAfter: time.Millisecond}
	hanging, healthy, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthy" {
			close(healthy)
			return
		}
		hanging <- struct{}{}
		<-release
	}))
	defer server.Close()
	dialer, err := egress.New(egress.Config{AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	sender, err := send.NewHTTPSender(send.Config{
		Hub: "http://hub.example/", DeliveryTimeout: deadline,
		Limits: send.Limits{MaxConnsPerHost: cfg.ConnsPerHost()},
	}, dialer)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	e := newEngine()
	d := start(t, e, cfg, sender)
	for i := range cfg.MaxPerHost {
		d.subscribe(e, fmt.Sprint(server.URL, "/", i))
	}
	d.publish("x")
	for range cfg.MaxPerHost {
		<-hanging
	}
	d.Activated(subscriptionOf(topicURL, server.URL+"/healthy"))
	<-healthy
	if time.Since(begun) >= deadline {
		t.Error("the healthy callback had to wait until the others were given up")
	}
	close(release)
	d.stop()
}
