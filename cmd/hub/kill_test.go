package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

const (
	killTopics     = 2
	killPublishers = 2 // of each topic
	killCallbacks  = 4 // of each topic
	kills          = 6
	// publishPause keeps a publisher's count bounded.
	publishPause = 3 * time.Millisecond
	// flushInterval is how long a settled delivery may wait to be recorded
	// (delivery.Config.FlushInterval), and diskSlack what a busy disk may add.
	flushInterval = 250 * time.Millisecond
	diskSlack     = 1500 * time.Millisecond
)

// TestKilledHubLosesNothing kills a hub without warning, several times, while publications and
// subscriptions go on. Every notification that was answered 200 reaches every subscriber, and all
// subscribers of a topic see the same order. A second delivery had its first just before a kill. A
// subscription that was answered 202 just before a kill is verified after it.
func TestKilledHubLosesNothing(t *testing.T) {
	t.Parallel()
	s := newSink(t)
	port := freePort(t)
	hub := fmt.Sprintf("http://127.0.0.1:%d/websub/", port)
	s.setHub(hub, 0.05)
	args := []string{
		"--listen", fmt.Sprintf("127.0.0.1:%d", port), "--admin", "127.0.0.1:0", "--url", hub,
		"--store", "pebble:" + t.TempDir(), "--retry-first", "20ms", "--retry-max", "200ms",
	}
	p := startHub(t, args...)
	subscribeAll(t, s, hub)

	stop := make(chan struct{})
	var publishers sync.WaitGroup
	acked := make([][][]string, killTopics)
	for topic := range acked {
		acked[topic] = make([][]string, killPublishers)
		for i := range acked[topic] {
			publishers.Go(func() { acked[topic][i] = publishUntil(stop, hub, s.topicURL(fmt.Sprint(topic)), i) })
		}
	}
	var killed []time.Time
	for i := range kills {
		<-time.After(time.Duration(300+rand.IntN(900)) * time.Millisecond)
		late := fmt.Sprintf("late-%d", i)
		if status, body, err := subscribe(hub, s.topicURL("0"), s.callbackURL(late), nil); err != nil || status != http.StatusAccepted {
			t.Fatalf("subscribing: %d %s %v", status, body, err)
		}
		p.kill()
		killed = append(killed, time.Now())
		p = startHub(t, args...)
		s.await(t, "the verification of "+late, func() bool { return s.verified[late] > 0 })
	}
	close(stop)
	publishers.Wait()
	publishEnd(t, s, hub)
	checkDeliveries(t, s, acked, killed)
	if err := p.stop(t); err != nil {
		t.Errorf("the hub ended with %v after SIGTERM; want status 0\n%s", err, p.log)
	}
}

func callbackName(topic, i int) string { return fmt.Sprintf("t%d-c%d", topic, i) }

// subscribeAll makes the subscriptions and waits until each has got a first
// notification, so that all are active.
func subscribeAll(t *testing.T, s *sink, hub string) {
	t.Helper()
	for topic := range killTopics {
		for i := range killCallbacks {
			status, body, err := subscribe(hub, s.topicURL(fmt.Sprint(topic)), s.callbackURL(callbackName(topic, i)), nil)
			if err != nil || status != http.StatusAccepted {
				t.Fatalf("subscribing: %d %s %v", status, body, err)
			}
		}
	}
	s.await(t, "the verifications", func() bool { return len(s.verified) == killTopics*killCallbacks })
	publishMarker(t, s, hub, "begin")
}

func publishEnd(t *testing.T, s *sink, hub string) {
	t.Helper()
	publishMarker(t, s, hub, "end")
}

// publishMarker publishes one notification to each topic and waits until every
// callback has it.
func publishMarker(t *testing.T, s *sink, hub, marker string) {
	t.Helper()
	for topic := range killTopics {
		if status, body, err := publish(hub, s.topicURL(fmt.Sprint(topic)), "text/plain", marker); err != nil || status != http.StatusOK {
			t.Fatalf("publishing %s: %d %s %v", marker, status, body, err)
		}
	}
	s.await(t, marker, func() bool {
		for topic := range killTopics {
			for i := range killCallbacks {
				if !s.has(callbackName(topic, i), marker) {
					return false
				}
			}
		}
		return true
	})
}

// publishUntil publishes one notification after the other and returns those that were answered 200.
// One without an answer is not repeated: it may arrive or not.
func publishUntil(stop <-chan struct{}, hub, topic string, publisher int) (acked []string) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return acked
		case <-time.After(publishPause):
		}
		body := fmt.Sprintf("%d/%d", publisher, n)
		if status, _, err := publish(hub, topic, "text/plain", body); err == nil && status == http.StatusOK {
			acked = append(acked, body)
		}
	}
}

func checkDeliveries(t *testing.T, s *sink, acked [][][]string, killed []time.Time) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	total, twice := 0, 0
	for topic := range acked {
		var order []string
		for i := range killCallbacks {
			name := callbackName(topic, i)
			first, duplicates := firstDeliveries(t, name, s.got[name], killed)
			total, twice = total+len(first), twice+duplicates
			checkAcked(t, name, first, acked[topic])
			if order == nil {
				order = first
			} else if !slices.Equal(order, first) {
				t.Errorf("%s saw another order than the first callback of its topic", name)
			}
		}
	}
	t.Logf("%d deliveries, %d of them twice, over %d kills", total, twice, len(killed))
	if total < 100 {
		t.Errorf("only %d deliveries: the test did not test anything", total)
	}
}

// firstDeliveries returns the bodies in the order in which they came first, and
// checks that each that came again had come shortly before a kill.
func firstDeliveries(t *testing.T, name string, got []arrival, killed []time.Time) (first []string, duplicates int) {
	t.Helper()
	seen := map[string]arrival{}
	for _, d := range got {
		before, again := seen[d.body]
		seen[d.body] = d
		if !again {
			first = append(first, d.body)
			continue
		}
		duplicates++
		if before.id != d.id {
			t.Errorf("%s: %q came again under another X-Hub-Notification-Id", name, d.body)
		}
		if !slices.ContainsFunc(killed, func(k time.Time) bool {
			// Bytes that the dead hub had sent may be read after its death.
			since := k.Sub(before.at)
			return k.Before(d.at) && -diskSlack < since && since < flushInterval+diskSlack
		}) {
			t.Errorf("%s: %q came again although it was settled long before any kill", name, d.body)
		}
	}
	return first, duplicates
}

// checkAcked checks that everything that was acknowledged came, and that what
// one publisher published in turn came in that order.
func checkAcked(t *testing.T, name string, first []string, acked [][]string) {
	t.Helper()
	place := make(map[string]int, len(first))
	for i, body := range first {
		place[body] = i
	}
	for _, bodies := range acked {
		last := -1
		for _, body := range bodies {
			at, ok := place[body]
			switch {
			case !ok:
				t.Errorf("%s: %q was answered 200 and never came", name, body)
			case at < last:
				t.Errorf("%s: %q came out of order", name, body)
			default:
				last = at
			}
		}
	}
}
