package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"carillon/internal/redistest"
)

// slowCallback holds every verification until release is closed, also those that the hub has
// hung up on, and counts how many it works on at once.
type slowCallback struct {
	release chan struct{}

	mu        sync.Mutex
	now, most int
	delivered int
}

func (c *slowCallback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.delivered++
		return
	}
	c.mu.Lock()
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	<-c.release
	c.mu.Lock()
	c.now--
	c.mu.Unlock()
	io.WriteString(w, r.URL.Query().Get("hub.challenge"))
}

// 500 requests at once for one topic and callback, by any process: while the callback works
// on its answer it is asked once more at most, and the last request counts.
func TestVerificationsOfOneCallback(t *testing.T) {
	t.Run("pebble", func(t *testing.T) { t.Parallel(); verificationsOfOneCallback(t, "pebble:"+t.TempDir(), 1) })
	t.Run("redis", func(t *testing.T) { t.Parallel(); verificationsOfOneCallback(t, redistest.Start(t).URL(), 2) })
}

func verificationsOfOneCallback(t *testing.T, store string, hubs int) {
	const hub = "http://127.0.0.1:9/websub/" // as behind a load balancer
	s := newSink(t)
	s.setHub(hub, 0)
	c := &slowCallback{release: make(chan struct{})}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	release := sync.OnceFunc(func() { close(c.release) })
	t.Cleanup(release)
	var running []*process
	for range hubs {
		p := startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--url", hub, "--store", store)
		eventually(t, "readiness", p.isReady)
		running = append(running, p)
	}
	ask := func(i int, mode, secret string) {
		form := url.Values{
			"hub.mode": {mode}, "hub.topic": {s.topicURL("t")}, "hub.callback": {server.URL + "/cb"}, "hub.secret": {secret},
		}
		door := "http://" + running[i%hubs].ready["listen"] + "/websub/"
		if status, body, err := answer(http.PostForm(door, form)); err != nil || status != http.StatusAccepted {
			t.Errorf("request %d: %d %q %v", i, status, body, err)
		}
	}
	const requests, atOnce = 500, 50
	var all sync.WaitGroup
	for worker := range atOnce {
		all.Go(func() {
			for i := worker; i < requests; i += atOnce {
				switch {
				case i%10 == 9:
					ask(i, "unsubscribe", "")
				case i%5 == 4:
					ask(i, "subscribe", fmt.Sprint("secret ", i))
				default: // all the same
					ask(i, "subscribe", "secret")
				}
			}
		})
	}
	all.Wait()
	ask(requests, "subscribe", "last")
	release()
	eventually(t, "the last request to be settled, and a delivery", func() bool {
		status, text, err := publishAt("http://"+running[0].ready["listen"]+"/websub/", hub, s.topicURL("t"), "text/plain", "hello")
		if err != nil || status != http.StatusOK {
			t.Errorf("publishing: %d %q %v", status, text, err)
		}
		for _, p := range running {
			if _, metrics := look(p.ready["admin"], "/metrics"); !strings.Contains(metrics, "\ncarillon_subscription_pending 0\n") {
				return false
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.delivered > 0
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.most > 2 || c.most == 0 {
		t.Errorf("the callback worked on %d verifications at once, want 1 or 2", c.most)
	}
}
