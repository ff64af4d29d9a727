package subscription_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/subscription"
)

// wish is a subscribe request of a client for a topic.
func wish(client, topic, callback string) subscription.Wish {
	w := subscribe(callback, "")
	w.Topic, w.Client = topic, client
	return w
}

// slowly has the topics of a stranger answer, well, after nine seconds.
func (h *town) slowly() {
	h.validate = func(ctx context.Context, topic string) error {
		if !strings.Contains(topic, "stranger.com") {
			return nil
		}
		select {
		case <-time.After(9 * time.Second):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A stranger's topics answer slowly, so that they are in good standing. For an hour, and from any
// number of addresses, they fill neither the places of another site nor those of the hub: subscribers
// there renew, and new ones subscribe.
func TestSlowTopicsOfAStranger(t *testing.T) {
	for clients, site := range map[int]string{5: "victim.com", 50: "stranger.com"} {
		t.Run(fmt.Sprintf("%d clients", clients), func(t *testing.T) {
			inTown(t, func(t *testing.T, h *town) {
				h.slowly()
				h.run()
				const honest = "http://honest.victim.com/"
				h.submit(subscribe(honest, "old"))
				synctest.Wait()
				n := 0
				send := func(client int) error {
					n++
					return h.service.Submit(t.Context(), wish(fmt.Sprint("stranger", client),
						fmt.Sprintf("http://stranger.com/%d", n), fmt.Sprintf("http://x.%s/%d", site, n)))
				}
				taken := 0
				for client := range clients {
					for range 2000 {
						if send(client) == nil {
							taken++
						}
					}
				}
				if taken != 2000 {
					t.Errorf("%d requests are taken, want as many as topics of one site may wait", taken)
				}
				for round := range 120 {
					for i := range 300 {
						_ = send(i % 3)
					}
					if err := h.service.Submit(t.Context(), wish("subscriber", topic, honest)); err != nil {
						t.Errorf("round %d: a renewal: %v", round, err)
					}
					if err := h.service.Submit(t.Context(), wish("newcomer", topic, fmt.Sprintf("%s%d", honest, round))); err != nil {
						t.Errorf("round %d: a new subscriber: %v", round, err)
					}
					pass(30 * time.Second)
					h.mustBeActive(fmt.Sprintf("%s%d", honest, round))
				}
			})
		})
	}
}

// A site takes so many topics that wait for their check, however many requests are for one
// of them, and not more requests in all than a callback's site does.
func TestPendingTopics(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.cfg.MaxPendingTopics, h.cfg.MaxPendingPerHost = 2, 5
		h.slowly()
		h.run()
		n := 0
		next := func(topic string) subscription.Wish {
			n++
			return wish("", topic, fmt.Sprintf("http://d%d.example/", n))
		}
		for range 3 {
			h.submit(next("http://a.stranger.com/1"))
		}
		h.submit(next("http://b.stranger.com/2"))
		h.mustWait(next("http://c.stranger.com/3"), subscription.ErrHostBusy)
		h.submit(next("http://b.stranger.com/2"))
		h.mustWait(next("http://b.stranger.com/2"), subscription.ErrHostBusy)
		h.submit(next("http://elsewhere.com/"))
		pass(time.Minute)
		h.mustBeSettled()
		for i := range 2 {
			h.submit(next(fmt.Sprintf("http://a.stranger.com/%d", i)))
		}
		h.mustWait(next("http://a.stranger.com/3"), subscription.ErrHostBusy)
	})
}

// Ten thousand callbacks subscribe to one topic as fast as they can, from one machine,
// while that is checked for the first time.
func TestTenThousandCallbacksOfOneTopic(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.slowly()
		h.run()
		for i := range 10_000 {
			h.submit(wish("", "http://stranger.com/", fmt.Sprintf("http://d%d.example/", i)))
		}
	})
}

// A subscription that stands is renewed although all places are taken that there are for
// others: those of the site, of the client, and nine tenths of the hub's.
func TestRenewalsHavePlaces(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.cfg.MaxPending, h.cfg.MaxPendingPerClient = 20, 18
		hangs := false
		h.confirm = func(ctx context.Context, r subscription.Request, challenge string) error {
			if hangs {
				return hang(ctx, r, challenge)
			}
			return nil
		}
		h.run()
		for i := range 3 {
			h.submit(wish("a", topic, fmt.Sprintf("http://old%d.example/", i)))
		}
		synctest.Wait()
		hangs = true
		for i := range 18 {
			h.submit(wish("a", topic, fmt.Sprintf("http://d%d.example/", i)))
		}
		if err := h.service.Submit(t.Context(), wish("b", topic, "http://new.example/")); !errors.Is(err, subscription.ErrBusy) {
			t.Errorf("a new one: %v", err)
		}
		for i := range 2 {
			h.submit(wish("a", topic, fmt.Sprintf("http://old%d.example/", i)))
		}
		if err := h.service.Submit(t.Context(), wish("b", topic, "http://old2.example/")); !errors.Is(err, subscription.ErrBusy) {
			t.Errorf("the bound on all: %v", err)
		}
		pass(5 * time.Minute)
		h.mustBeSettled()
	})
}

// A /48 network of IPv6 may have what four of its /64 networks may.
func TestPendingOfANetwork(t *testing.T) {
	inTown(t, func(t *testing.T, h *town) {
		h.cfg.MaxPendingPerClient = 2
		h.confirm = hang
		h.run()
		n := 0
		next := func(client string) subscription.Wish {
			n++
			return wish(client, topic, fmt.Sprintf("http://d%d.example/", n))
		}
		for i := range 4 {
			for range 2 {
				h.submit(next(fmt.Sprintf("2001:db8:1:%d::/64", i)))
			}
		}
		h.mustWait(next("2001:db8:1:9::/64"), subscription.ErrClientBusy)
		h.submit(next("2001:db8:2:1::/64"))
		h.submit(next("192.0.2.1"))
		pass(5 * time.Minute)
		h.submit(next("2001:db8:1:9::/64"))
	})
}
