package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"carillon/cmd/internal/program"
	"carillon/internal/redistest"
)

// round is a hub on Redis with a topic and a callback.
type round struct {
	sink  *sink
	hub   string
	args  []string
	topic string
}

func newRound(t *testing.T, store string, more ...string) *round {
	r := &round{sink: newSink(t)}
	listen := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	r.hub = "http://" + listen + "/websub/"
	r.topic = r.sink.topicURL("topic")
	r.sink.setHub(r.hub, 0)
	r.args = append([]string{
		"--listen", listen, "--admin", "127.0.0.1:0", "--store", store, "--retry-first", "20ms", "--retry-max", "200ms",
	}, more...)
	return r
}

// subscribe subscribes the callback and waits until it is asked.
func (r *round) subscribe(t *testing.T, callback string) {
	t.Helper()
	if status, body, err := subscribe(r.hub, r.topic, r.sink.callbackURL(callback), nil); err != nil || status != http.StatusAccepted {
		t.Fatalf("subscribing: %d %q %v", status, body, err)
	}
	r.sink.await(t, "the verification of "+callback, func() bool { return r.sink.verified[callback] > 0 })
}

// publish publishes a body and waits until the callbacks have it.
func (r *round) publish(t *testing.T, body string, callbacks ...string) {
	t.Helper()
	if status, text, err := publish(r.hub, r.topic, "text/plain", body); err != nil || status != http.StatusOK {
		t.Fatalf("publishing %q: %d %q %v", body, status, text, err)
	}
	r.await(t, body, callbacks...)
}

func (r *round) await(t *testing.T, body string, callbacks ...string) {
	t.Helper()
	for _, callback := range callbacks {
		r.sink.await(t, body+" at "+callback, func() bool { return r.sink.has(callback, body) })
	}
}

// A hub on Redis does the whole work of a hub, and goes on after a restart: it delivers the
// publications of between, and fetches for a ping.
func TestRedisWholeRound(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	r := newRound(t, redis.URL())
	p := startHub(t, r.args...)
	r.subscribe(t, "one")
	r.publish(t, "first", "one")
	if err := p.stop(t); err != nil {
		t.Fatalf("the hub ended with %v\n%s", err, p.log)
	}
	p = startHub(t, r.args...)
	r.subscribe(t, "two")
	r.publish(t, "second", "one", "two")
	if status, body, err := answer(
		http.PostForm(r.hub, map[string][]string{"hub.mode": {"publish"}, "hub.url": {r.topic}}),
	); err != nil || status != http.StatusNoContent {
		t.Fatalf("ping: %d %q %v", status, body, err)
	}
	r.await(t, "the content of topic", "one", "two")
	if err := p.stop(t); err != nil {
		t.Fatalf("the hub ended with %v\n%s", err, p.log)
	}
	r.sink.mu.Lock()
	defer r.sink.mu.Unlock()
	var bodies []string
	for _, a := range r.sink.got["one"] {
		bodies = append(bodies, a.body)
	}
	if got := strings.Join(bodies, ", "); got != "first, second, the content of topic" {
		t.Errorf("the first callback got %s", got)
	}
}

// While Redis has no memory left, publishing is answered 503 with Retry-After and
// nothing of it is kept; it goes on by itself when there is room.
func TestRedisMemoryFull(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	r := newRound(t, redis.URL())
	p := startHub(t, r.args...)
	r.subscribe(t, "one")
	r.publish(t, "before", "one")

	redis.Set(t, "maxmemory", "1")
	resp := r.post(t, "refused")
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("publishing while the memory is full: %s, Retry-After %q", resp.Status, resp.Header.Get("Retry-After"))
	}
	redis.Set(t, "maxmemory", "0")
	r.publish(t, "after", "one")
	if err := p.stop(t); err != nil {
		t.Errorf("the hub ended with %v\n%s", err, p.log)
	}
	r.sink.mu.Lock()
	defer r.sink.mu.Unlock()
	if r.sink.has("one", "refused") {
		t.Error("what was refused was delivered")
	}
}

// post publishes and returns the answer without its body.
func (r *round) post(t *testing.T, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.hub, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "text/plain")
	req.Header.Set("Link", fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, r.topic, r.hub))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

// The user that docs/redis.md proposes may do all that a hub does, and no more is asked.
func TestRedisUserOfTheDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rule, found := strings.Cut(string(text), "<!-- acl -->\n```\n")
	rule, _, _ = strings.Cut(rule, "\n")
	if !found || !strings.HasPrefix(rule, "user carillon ") || !strings.Contains(rule, ">PASSWORD") {
		t.Fatalf("docs/redis.md has no ACL rule: %q", rule)
	}
	redis := redistest.Start(t, rule)
	r := newRound(t, strings.Replace(redis.URL(), "://", "://carillon:PASSWORD@", 1))
	for _, callback := range []string{"one", "two"} {
		p := startHub(t, r.args...)
		eventually(t, "readiness", p.isReady)
		r.subscribe(t, callback)
		r.publish(t, "for "+callback, callback)
		if _, body := look(p.ready["admin"], "/readyz"); strings.Contains(body, "warning") {
			t.Errorf("/readyz warns: %q", body)
		}
		if err := p.stop(t); err != nil {
			t.Fatalf("the hub ended with %v\n%s", err, p.log)
		}
	}
	for _, refused := range redis.Do(t, "ACL", "LOG").([]any) {
		if text := fmt.Sprint(refused); !strings.Contains(text, "config|get") {
			t.Errorf("Redis refused the user: %s", text)
		}
	}
	redis.As("carillon", "PASSWORD")
	for _, command := range [][]string{
		{"CONFIG", "GET", "masterauth"},
		{"FUNCTION", "FLUSH"},
		{"FUNCTION", "LOAD", "x"},
		{"SCRIPT", "FLUSH"},
		{"FLUSHALL"},
		{"KEYS", "*"},
		{"GET", "other"},
		{"ACL", "LIST"},
	} {
		if _, err := redis.Try(command...); err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("the user may %q: %v", command, err)
		}
	}
}

// SIGTERM ends a hub within its bound and with status 0 also while Redis hangs,
// with a publication on its way.
func TestStopWhileRedisHangs(t *testing.T) {
	t.Parallel() // it waits, mostly
	redis := redistest.Start(t)
	r := newRound(t, redis.URL())
	p := startHub(t, r.args...)
	r.subscribe(t, "one")
	r.publish(t, "first", "one")
	redis.Pause(t)
	t.Cleanup(func() { redis.Resume(t) })
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		status, body, err := publish(r.hub, r.topic, "text/plain", "second")
		if err == nil && status == http.StatusOK {
			t.Errorf("publishing while Redis hangs: %d %q", status, body)
		}
	}()
	t.Cleanup(func() { <-answered })
	begun := time.Now()
	if err := p.stop(t); err != nil {
		t.Errorf("the hub ended with %v; want status 0\n%s", err, p.log)
	}
	if took := time.Since(begun); took > program.StopWithin+2*time.Second {
		t.Errorf("it took %s; want at most %s", took, program.StopWithin)
	}
	t.Logf("it took %s", time.Since(begun).Round(time.Millisecond))
}

// Redis goes away for a while in the middle: publishing is answered 503, the hub
// is not ready, and all goes on by itself.
func TestRedisAwayInTheMiddle(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	r := newRound(t, redis.URL())
	p := startHub(t, r.args...)
	r.subscribe(t, "one")
	r.publish(t, "before", "one")
	redis.Kill(t)
	if resp := r.post(t, "refused"); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("publishing while Redis is away: %s, Retry-After %q", resp.Status, resp.Header.Get("Retry-After"))
	}
	if status, body := look(p.ready["admin"], "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "store: ") {
		t.Errorf("/readyz while Redis is away: %d %q", status, body)
	}
	redis.Restart(t)
	eventually(t, "readiness", p.isReady)
	r.publish(t, "after", "one")
	if err := p.stop(t); err != nil {
		t.Errorf("the hub ended with %v\n%s", err, p.log)
	}
}
