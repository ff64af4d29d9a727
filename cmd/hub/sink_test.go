package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// sink is topics and callbacks at once: /topic/NAME is a topic of its hub,
// /callback/NAME confirms everything and keeps what it gets.
type sink struct {
	*httptest.Server

	mu       sync.Mutex
	cond     *sync.Cond
	hub      string
	got      map[string][]arrival // by callback, in the order of arrival
	verified map[string]int
	// fail is the share of deliveries that are refused with 503.
	fail float64
	// broken are the callbacks that refuse everything with 503.
	broken map[string]bool
}

// arrival is one POST that a callback answered with 2xx.
type arrival struct {
	id, topic, body string
	header          http.Header
	at              time.Time
}

func newSink(t *testing.T) *sink {
	s := &sink{got: map[string][]arrival{}, verified: map[string]int{}, broken: map[string]bool{}}
	s.cond = sync.NewCond(&s.mu)
	mux := http.NewServeMux()
	mux.HandleFunc("/topic/{name}", s.topic)
	mux.HandleFunc("GET /callback/{name}", s.confirm)
	mux.HandleFunc("POST /callback/{name}", s.accept)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *sink) setHub(hub string, fail float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hub, s.fail = hub, fail
}

// setBroken has a callback refuse everything, or nothing any more.
func (s *sink) setBroken(callback string, broken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken[callback] = broken
}

func (s *sink) topicURL(name string) string    { return s.URL + "/topic/" + name }
func (s *sink) callbackURL(name string) string { return s.URL + "/callback/" + name }

func (s *sink) topic(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Link", fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, s.URL+r.URL.Path, s.hub))
	w.Header().Set("Content-Type", "text/plain")
	io.WriteString(w, "the content of "+r.PathValue("name"))
}

func (s *sink) confirm(w http.ResponseWriter, r *http.Request) {
	io.WriteString(w, r.URL.Query().Get("hub.challenge"))
	s.verify(r.PathValue("name"))
}

// verify counts that a callback was asked for its intent.
func (s *sink) verify(callback string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verified[callback]++
	s.cond.Broadcast()
}

func (s *sink) accept(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the hub died in the middle
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if rand.Float64() < s.fail || s.broken[r.PathValue("name")] {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	_, topic, _ := strings.Cut(r.Header.Get("Link"), `rel="hub", <`)
	topic, _, _ = strings.Cut(topic, ">")
	name := r.PathValue("name")
	s.got[name] = append(s.got[name], arrival{r.Header.Get("X-Hub-Notification-Id"), topic, string(body), r.Header, time.Now()})
	s.cond.Broadcast()
}

// record keeps what a callback got otherwise.
func (s *sink) record(callback string, a arrival) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got[callback] = append(s.got[callback], a)
	s.cond.Broadcast()
}

// await returns when done says so, which it is asked after each event; it fails
// the test after a minute.
func (s *sink) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	expired := false
	timer := time.AfterFunc(time.Minute, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		expired = true
		s.cond.Broadcast()
	})
	defer timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !done() {
		if expired {
			t.Fatalf("waited a minute in vain for %s", what)
		}
		s.cond.Wait()
	}
}

// has reports whether the callback got the body. The caller holds s.mu.
func (s *sink) has(callback, body string) bool {
	for i := len(s.got[callback]) - 1; i >= 0; i-- {
		if s.got[callback][i].body == body {
			return true
		}
	}
	return false
}

func (s *sink) count(callback string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.got[callback])
}
