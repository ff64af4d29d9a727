package main

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"carillon/internal/redistest"
)

// heardWithin is less than the interval at which a process looks for missed news
// (redisstore.Config.Poll). News within it came by a message.
const heardWithin = 5 * time.Second

// One of two hubs takes in a request, a publication and a ping: each reaches at once the process that
// owns it.
func TestTwoHubsHearEachOther(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := newSink(t)
	const hub = "http://127.0.0.1:9/websub/" // as behind a load balancer
	s.setHub(hub, 0)
	var doors []string
	for range 2 {
		p := startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--url", hub, "--store", redis.URL())
		eventually(t, "readiness", p.isReady)
		doors = append(doors, "http://"+p.ready["listen"]+"/websub/")
	}
	const each = 6
	quickly := func(what string, done func() bool) {
		t.Helper()
		begun := time.Now()
		s.await(t, what, done)
		if took := time.Since(begun); took > heardWithin {
			t.Errorf("%s took %s: nobody was told", what, took)
		}
	}
	var callbacks []string
	for i, door := range doors {
		for n := range each {
			callback := fmt.Sprintf("door%d-%d", i, n)
			callbacks = append(callbacks, callback)
			if status, body, err := subscribe(door, s.topicURL("t"), s.callbackURL(callback), nil); err != nil || status != http.StatusAccepted {
				t.Fatalf("subscribing: %d %q %v", status, body, err)
			}
		}
	}
	quickly("the verifications", func() bool { return len(s.verified) == len(callbacks) })
	everywhere := func(body string) func() bool {
		return func() bool {
			for _, callback := range callbacks {
				if !s.has(callback, body) {
					return false
				}
			}
			return true
		}
	}
	for i, door := range doors {
		body := fmt.Sprintf("by door %d", i)
		if status, text, err := publishAt(door, hub, s.topicURL("t"), "text/plain", body); err != nil || status != http.StatusOK {
			t.Fatalf("publishing: %d %q %v", status, text, err)
		}
		quickly(body, everywhere(body))
	}
	// Each topic is fetched by one of the two, whichever door the ping came by.
	for i := range each {
		topic, callback := fmt.Sprintf("ping%d", i), fmt.Sprintf("ping%d", i)
		door := doors[i%len(doors)]
		if status, body, err := subscribe(door, s.topicURL(topic), s.callbackURL(callback), nil); err != nil || status != http.StatusAccepted {
			t.Fatalf("subscribing: %d %q %v", status, body, err)
		}
		quickly("the verification of "+callback, func() bool { return s.verified[callback] > 0 })
		form := url.Values{"hub.mode": {"publish"}, "hub.url": {s.topicURL(topic)}}
		if status, body, err := answer(http.PostForm(door, form)); err != nil || status != http.StatusNoContent {
			t.Fatalf("ping: %d %q %v", status, body, err)
		}
		quickly("the content of "+topic, func() bool { return s.has(callback, "the content of "+topic) })
	}
}
