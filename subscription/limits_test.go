package subscription_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/subscription"
)

// One host that hangs holds PerHost places and no more: the others do not notice.
func TestHangingHost(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.cfg.Concurrency, h.cfg.PerHost = 8, 3
		h.confirm = func(ctx context.Context, r subscription.Request, challenge string) error {
			if strings.HasPrefix(r.Callback, "http://hanging.example/") {
				return hang(ctx, r, challenge)
			}
			return nil
		}
		h.run()
		for i := range 500 {
			h.submit(subscribe(fmt.Sprintf("http://hanging.example/%d", i), ""))
		}
		synctest.Wait()
		if n, _ := h.atOnce(); n != 3 {
			t.Errorf("%d wait for the host, want 3", n)
		}
		for i := range 100 {
			h.submit(subscribe(fmt.Sprintf("http://d%d.example/", i), ""))
		}
		synctest.Wait() // and no time passes
		if n := len(h.roster.members()); n != 100 {
			t.Errorf("%d of 100 are active", n)
		}
	})
}

// A topic's server that hangs does not hold up those who subscribe to others,
// nor those whose callbacks are on the same host.
func TestHangingTopicServer(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.cfg.Concurrency, h.cfg.PerHost = 4, 2
		h.validate = func(ctx context.Context, topic string) error {
			if strings.HasPrefix(topic, "http://hanging.example/") {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		h.run()
		for i := range 20 {
			w := subscribe(fmt.Sprintf("http://d%d.example/", i), "")
			w.Topic = "http://hanging.example/topic"
			h.submit(w)
		}
		h.submit(subscribe("http://hanging.example/callback", ""))
		synctest.Wait()
		h.mustBeActive("http://hanging.example/callback")
	})
}

// Ten thousand requests at once take no more goroutines than Concurrency and MaxSlow allow,
// and none while they wait to be repeated.
func TestManyRequests(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		const requests, atOnce = 10_000, 50
		before := runtime.NumGoroutine()
		h.cfg.Concurrency, h.cfg.MaxSlow = atOnce, 1
		h.confirm = func(ctx context.Context, r subscription.Request, _ string) error {
			switch n := h.timesAsked(); {
			case n <= atOnce:
				<-time.After(time.Second)
				return errAway
			case n <= requests:
				return errAway
			}
			return nil
		}
		h.run()
		for i := range requests {
			h.submit(subscribe(fmt.Sprintf("http://d%d.example/", i), ""))
		}
		synctest.Wait()
		asking, _ := h.atOnce()
		if n := runtime.NumGoroutine() - before; n > atOnce+10 || asking < atOnce || asking > atOnce+1 {
			t.Errorf("%d goroutines for %d verifications", n, asking)
		}
		pass(2 * time.Second)
		if n := runtime.NumGoroutine() - before; n > 10 {
			t.Errorf("%d goroutines while all requests wait", n)
		}
		if n := h.metric("carillon_subscription_pending", ""); n != requests {
			t.Errorf("%v are pending", n)
		}
		pass(time.Minute)
		if n := len(h.roster.members()); n != requests {
			t.Errorf("%d are active", n)
		}
		if _, most := h.atOnce(); most > atOnce+1 {
			t.Errorf("%d verifications at once, want %d and one that is slow", most, atOnce)
		}
		h.mustBeSettled()
	})
}

// Over MaxPending nothing more is taken, but for what replaces a request.
func TestBusy(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.cfg.MaxPending = 2
		h.build()
		h.gain()
		h.submit(subscribe("http://d1.example/", ""))
		h.submit(subscribe("http://d2.example/", ""))
		if err := h.service.Submit(t.Context(), subscribe("http://d3.example/", "")); !errors.Is(err, subscription.ErrBusy) {
			t.Errorf("Submit: %v", err)
		}
		sub := subscription.Subscription{ID: subscription.NewID(topic, callback), Topic: topic, Callback: callback}
		if err := h.service.Deny(t.Context(), sub, ""); !errors.Is(err, subscription.ErrBusy) {
			t.Errorf("Deny: %v", err)
		}
		if n := h.memory.unsettled(); n != 2 {
			t.Errorf("%d requests are stored", n)
		}
		h.submit(unsubscribe("http://d2.example/"))
		h.start()
		synctest.Wait()
		h.submit(subscribe("http://d3.example/", ""))
	})
}

// A new request has its turn though thousands of requests from before a restart, to hosts that hang,
// come first.
func TestBacklogDoesNotStarveNewRequests(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.cfg.Concurrency, h.cfg.AskTimeout = 4, time.Second
		h.build()
		for i := range 5000 {
			h.submit(subscribe(fmt.Sprintf("http://old%d.example/", i), ""))
		}
		h.service = nil
		h.confirm = func(ctx context.Context, r subscription.Request, challenge string) error {
			if strings.HasPrefix(r.Callback, "http://old") {
				return hang(ctx, r, challenge)
			}
			return nil
		}
		h.run()
		pass(10 * time.Second)
		for i := range 10 {
			h.submit(subscribe(fmt.Sprintf("http://new%d.example/", i), ""))
		}
		pass(10 * time.Second)
		if n := len(h.roster.members()); n != 10 {
			t.Errorf("%d of 10 new requests are settled", n)
		}
	})
}

// Requests from before a restart and new ones share the places of their host.
func TestBacklogSharesPerHost(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.cfg.PerHost = 2
		h.confirm = hang
		h.build()
		for i := range 10 {
			h.submit(unsubscribe(fmt.Sprintf("http://hanging.example/old%d", i)))
		}
		h.build()
		for i := range 10 {
			h.submit(unsubscribe(fmt.Sprintf("http://hanging.example/new%d", i)))
		}
		h.run()
		pass(time.Minute)
		if _, most := h.atOnce(); most != 2 {
			t.Errorf("%d verifications at once for one host, want 2", most)
		}
	})
}

// mute is a Confirmer that keeps nothing.
type mute struct{ subscription.Confirmer }

func (mute) Confirm(context.Context, subscription.Request, string) error {
	return subscription.ErrNoIntent
}

// Nothing is left in memory of hosts and requests that are done.
func TestSettledRequestsLeaveNothing(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		const requests = 5_000
		service, err := subscription.NewService(subscription.Config{BadSites: 100}, h.memory, h.world, mute{}, h.roster, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for shard := range subscription.Shard(subscription.Shards) {
			if err := service.Gained(t.Context(), shard); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		heap := func() int64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		submit := func(name string) {
			for i := range requests {
				if err := service.Submit(ctx, unsubscribe(fmt.Sprintf("http://%s%d.example/", name, i))); err != nil {
					t.Fatal(err)
				}
			}
		}
		settle := func() {
			synctest.Wait()
			if n := h.memory.unsettled(); n != 0 {
				t.Errorf("%d requests are unsettled", n)
			}
		}
		// Maps keep room for what they once held: here all at once, before any is settled.
		submit("a")
		ended := make(chan error)
		go func() { ended <- service.Run(ctx) }()
		settle()
		before := heap()
		for _, name := range []string{"b", "c"} {
			submit(name)
			settle()
		}
		if grown := (heap() - before) / (2 * requests); grown > 100 {
			t.Errorf("%d bytes are left of each request", grown)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}
