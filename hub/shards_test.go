package hub_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery"
	"carillon/hub"
	"carillon/subscription"
	"carillon/topic"
)

// neighbour is a hub of another process over the same store.
func (s *stage) neighbour(t *testing.T, transport http.RoundTripper) *stage {
	t.Helper()
	other := *s
	other.rebuild(t, hub.Config{URL: hubURL}, transport, anywhere{})
	return &other
}

// lose takes all shards from the hub but those.
func (s *stage) lose(but ...subscription.Shard) {
	keep := map[subscription.Shard]bool{}
	for _, shard := range but {
		keep[shard] = true
	}
	for shard := range subscription.Shard(subscription.Shards) {
		if !keep[shard] {
			s.hub.Lost(shard)
		}
	}
}

func (s *stage) gain(t *testing.T, shard subscription.Shard) {
	t.Helper()
	if err := s.hub.Gained(t.Context(), shard); err != nil {
		t.Fatal(err)
	}
}

// counting answers every fetch after a while, and counts them.
func counting(asked *atomic.Int64, after time.Duration) doFunc {
	return func(r *http.Request) (*http.Response, error) {
		asked.Add(1)
		select {
		case <-time.After(after):
			return content(r, "news"), nil
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

// TestPingOfAnother expects a ping to be fetched by the process that owns its topic's shard, and by no
// other. That process hears of it, refreshes, or gains the shard.
func TestPingOfAnother(t *testing.T) {
	for _, how := range []string{"told", "refreshed", "gained"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var here, there atomic.Int64
				a := newStage(t, hub.Config{URL: hubURL}, counting(&here, 0), anywhere{})
				b := a.neighbour(t, counting(&there, 0))
				shard := subscription.TopicShard(topic.Parse(topicURL))
				a.lose()
				b.lose(shard)
				if how == "gained" {
					b.lose()
				}
				defer a.running(t)()
				defer b.running(t)()
				synctest.Wait()
				a.ping(t, topicURL)
				synctest.Wait()
				if here.Load()+there.Load() != 0 || a.pings.waiting() != 1 {
					t.Fatalf("%d and %d fetches, %d wait", here.Load(), there.Load(), a.pings.waiting())
				}
				noted := delivery.Ping{Topic: topic.Parse(topicURL), Count: a.pings.count}
				switch how {
				case "told":
					a.hub.Pinged(noted)
					b.hub.Pinged(noted)
				case "refreshed":
					a.hub.Refresh()
					b.hub.Refresh()
				case "gained":
					b.gain(t, shard)
				}
				synctest.Wait()
				if here.Load() != 0 || there.Load() != 1 || a.pings.waiting() != 0 {
					t.Errorf("%d and %d fetches, %d wait", here.Load(), there.Load(), a.pings.waiting())
				}
			})
		})
	}
}

// TestPingTold expects one fetch from the process that records a ping and also gets the report of it,
// before the fetch or after. A later ping is fetched again.
func TestPingTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		s := newStage(t, hub.Config{URL: hubURL}, counting(&asked, time.Second), anywhere{})
		defer s.running(t)()
		for round := range 2 {
			s.ping(t, topicURL)
			noted := delivery.Ping{Topic: topic.Parse(topicURL), Count: s.pings.count}
			for range 5 {
				s.hub.Pinged(noted)
				time.Sleep(600 * time.Millisecond)
			}
			if n := asked.Load(); n != int64(round)+1 || s.pings.waiting() != 0 {
				t.Errorf("%d fetches after %d pings, %d wait", n, round+1, s.pings.waiting())
			}
		}
	})
}

// TestFetchHandedOver loses a shard: fetches that wait, fail or run are left to the next owner, and
// their room is given back.
func TestFetchHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var here, there atomic.Int64
		a := newStage(t, hub.Config{URL: hubURL, FetchesPerHost: 1, MaxPings: 3}, counting(&here, time.Second), anywhere{})
		b := a.neighbour(t, counting(&there, time.Second))
		b.lose()
		defer a.running(t)()
		defer b.running(t)()
		topics := []string{topicURL, topicURL + "2", topicURL + "3"}
		a.ping(t, topics...)
		synctest.Wait() // one is being fetched, two wait for their host
		a.lose()
		time.Sleep(10 * time.Second)
		if n := len(a.publisher.all()); here.Load() != 1 || n != 0 || a.pings.waiting() != 3 {
			t.Errorf("%d fetches and %d publications after the shards were lost, %d wait", here.Load(), n, a.pings.waiting())
		}
		for i := range 5 {
			a.ping(t, fmt.Sprintf("%s?%d", topicURL, i)) // nothing of them waits here
		}
		for shard := range subscription.Shard(subscription.Shards) {
			b.gain(t, shard)
		}
		time.Sleep(10 * time.Second)
		if here.Load() != 1 || there.Load() != 8 || a.pings.waiting() != 0 {
			t.Errorf("%d and %d fetches, %d wait", here.Load(), there.Load(), a.pings.waiting())
		}
	})
}

// TestLateFetch loses a shard during a fetch: its result is not published after that of the next
// owner, also where the shard has come back meanwhile.
func TestLateFetch(t *testing.T) {
	for _, back := range []bool{false, true} {
		t.Run(fmt.Sprint("back ", back), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				now := "old"
				serve := func(after time.Duration) doFunc {
					return func(r *http.Request) (*http.Response, error) {
						found := now
						time.Sleep(after)
						return content(r, found), nil
					}
				}
				a := newStage(t, hub.Config{URL: hubURL}, serve(5*time.Second), anywhere{})
				b := a.neighbour(t, serve(0))
				shard := subscription.TopicShard(topic.Parse(topicURL))
				b.lose()
				defer a.running(t)()
				defer b.running(t)()
				a.ping(t, topicURL)
				synctest.Wait()
				now = "new"
				a.lose()
				b.gain(t, shard)
				synctest.Wait()
				if back {
					b.lose()
					a.gain(t, shard)
				}
				time.Sleep(time.Minute)
				var last string
				for _, p := range a.publisher.all() {
					last = string(p.Body)
				}
				if last != "new" || a.pings.waiting() != 0 {
					t.Errorf("published last: %q, %d pings wait", last, a.pings.waiting())
				}
			})
		})
	}
}

// TestFetchUnsure runs a process that may have lost its shards without knowing. It publishes no
// fetched content and begins no fetch, until it is sure again.
func TestFetchUnsure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		s := newStage(t, hub.Config{URL: hubURL}, counting(&asked, 2*time.Second), anywhere{})
		defer s.running(t)()
		s.surety.Sure(time.Now().Add(time.Second))
		s.ping(t, topicURL)
		time.Sleep(time.Hour)
		if n := len(s.publisher.all()); asked.Load() != 1 || n != 0 || s.pings.waiting() != 1 {
			t.Errorf("%d fetches, %d publications, %d wait", asked.Load(), n, s.pings.waiting())
		}
		s.surety.Sure(time.Now().Add(time.Minute))
		time.Sleep(10 * time.Second)
		if n := len(s.publisher.all()); asked.Load() != 2 || n != 1 || s.pings.waiting() != 0 {
			t.Errorf("sure again: %d fetches, %d publications, %d wait", asked.Load(), n, s.pings.waiting())
		}
	})
}

// TestFailedFetchHandedOver: a fetch that fails after its shard was lost is not tried
// again, nor one that waited to be; and one whose shard comes back is.
func TestFailedFetchHandedOver(t *testing.T) {
	for _, when := range []string{"while it runs", "while it waits", "lost and back"} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int64
				s := newStage(t, hub.Config{URL: hubURL}, doFunc(func(r *http.Request) (*http.Response, error) {
					asked.Add(1)
					time.Sleep(time.Second)
					return respond(r, 503, ""), nil
				}), anywhere{})
				defer s.running(t)()
				s.ping(t, topicURL)
				synctest.Wait()
				if when == "while it waits" {
					time.Sleep(2 * time.Second)
				}
				s.lose()
				if when == "lost and back" {
					s.gain(t, subscription.TopicShard(topic.Parse(topicURL)))
				}
				time.Sleep(10 * time.Minute)
				if n := asked.Load(); n > 1 != (when == "lost and back") || s.pings.waiting() != 1 {
					t.Errorf("%d fetches, %d wait", n, s.pings.waiting())
				}
			})
		})
	}
}

// TestShardsThereAre: a shard that there is not is an error, or nothing.
func TestShardsThereAre(t *testing.T) {
	s := newStage(t, hub.Config{URL: hubURL}, doFunc(nil), anywhere{})
	if err := s.hub.Gained(t.Context(), subscription.Shards); err == nil {
		t.Error("gained a shard that there is not")
	}
	s.hub.Lost(subscription.Shards)
}
