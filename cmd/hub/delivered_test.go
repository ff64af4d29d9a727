package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/internal/redistest"
	"carillon/operator"
	"carillon/subscription"
)

// TestWasItDeliveredToAll asks a hub with 50,000 subscriptions to one topic, of which the
// callbacks of 37 refuse, the outcome of a notification: by the API, the page and the
// command. Under the race detector there are a tenth as many.
func TestWasItDeliveredToAll(t *testing.T) {
	t.Parallel()
	subscribers := 50_000
	if slowness > 1 {
		subscribers /= 10
	}
	w := newLoad(t, "pebble:"+t.TempDir(), subscribers, 37)
	p := w.hub(t)
	id := w.publish(t, p)
	w.settled(t, p, id)
	w.ask(t, p, id)
}

// TestWasItDeliveredToAllOfTwoHubs asks each of two that share a Redis, and then the one that
// is left when the other is stopped in the middle of its work.
func TestWasItDeliveredToAllOfTwoHubs(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	w := newLoad(t, redis.URL(), 2000, 37)
	w.url = "http://127.0.0.1:9/websub/" // as behind a load balancer
	w.sink.setHub(w.url, 0)
	a, b := w.hub(t), w.hub(t)
	both := func() bool {
		var o operator.Overview
		return tryJSON(t, a, "/api/v1/overview", &o) && o.MissingShards == 0 && len(o.Processes) == 2 && min(
			len(o.Processes[0].Shards), len(o.Processes[1].Shards),
		) == 32
	}
	eventually(t, "both to have half of the shards", both)
	id := w.publish(t, a)
	for _, p := range []*process{a, b} {
		w.settled(t, p, id)
		w.ask(t, p, id)
	}
	o, other := overviewOf(t, a), overviewOf(t, b)
	if o.Counts.Subscriptions != w.all || other.Counts.Subscriptions != w.all || o.Counts.Topics != 1 || o.Counts.Failing != w.failing {
		t.Errorf("one says %+v, the other %+v", o.Counts, other.Counts)
	}
	w.repair(t, a, b, id)
	b.kill()
	var n operator.NotificationDetail
	eventually(t, "word of the shards that nobody answers for", func() bool {
		n = operator.NotificationDetail{}
		return tryJSON(t, a, w.notificationPath(id), &n) && n.MissingShards > 0
	})
	t.Logf("one of two was killed: %+v %+v", n.Tally, n.Coverage)
	if n.MissingShards != 32 || len(n.Trouble) == 0 || n.Tally.Subscribers >= w.all {
		t.Errorf("%+v %+v", n.Tally, n.Coverage)
	}
	eventually(t, "the other to take the shards over", func() bool {
		n = operator.NotificationDetail{}
		return tryJSON(t, a, w.notificationPath(id), &n) && n.MissingShards == 0
	})
	if n.Tally.Subscribers != w.all || len(n.Trouble) != 0 {
		t.Errorf("after that: %+v %+v", n.Tally, n.Coverage)
	}
}

// load is a topic with many subscriptions, the callbacks of some of which refuse.
type load struct {
	store, url   string
	sink         *sink
	all, failing int
	topic        string
	refused      []subscription.ID
}

// newLoad makes the subscriptions in the store, before any hub works on it.
func newLoad(t *testing.T, store string, all, failing int) *load {
	t.Helper()
	w := &load{store: store, sink: newSink(t), all: all, failing: failing}
	w.topic = w.sink.topicURL("load")
	good := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(good.Close)
	refusing := fmt.Sprintf("http://127.0.0.1:%d", freePort(t))
	e, err := openStore(t.Context(), storeFlags{Store: store}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	var members []delivery.Member
	for i := range all {
		callback := fmt.Sprintf("%s/callback/%d", good.URL, i)
		if i < failing {
			callback = fmt.Sprintf("%s/callback/%d", refusing, i)
		}
		sub := subscription.Subscription{
			ID: subscription.NewID(w.topic, callback), Topic: w.topic, Callback: callback,
			Created: now, Lease: 24 * time.Hour, Expires: now.Add(24 * time.Hour),
		}
		if i < failing {
			w.refused = append(w.refused, sub.ID)
		}
		members = append(members, delivery.Member{Subscription: sub})
	}
	for some := range slices.Chunk(members, 5000) {
		if err := e.Restore.PutMembers(t.Context(), some); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *load) hub(t *testing.T) *process {
	t.Helper()
	args := []string{"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", w.store, "--retry-first", "1h", "--retry-max", "1h"}
	if w.url != "" {
		args = append(args, "--url", w.url, "--takeover", "2s")
	}
	p := startHub(t, args...)
	eventually(t, "readiness", p.isReady)
	if w.url == "" {
		w.sink.setHub(p.ready["url"], 0)
	}
	return p
}

func (w *load) publish(t *testing.T, p *process) uuid.UUID {
	t.Helper()
	url := w.url
	if url == "" {
		url = p.ready["url"]
	}
	status, said, err := publishAt("http://"+p.ready["listen"]+"/websub/", url, w.topic, "text/plain", "news")
	if err != nil || status != http.StatusOK {
		t.Fatalf("publishing: %d %s %v", status, said, err)
	}
	id, err := uuid.Parse(strings.TrimSpace(said))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// askJSON asks the API of a process.
func askJSON(t *testing.T, p *process, path string, into any) {
	t.Helper()
	if !tryJSON(t, p, path, into) {
		t.Fatalf("%s: 503", path)
	}
}

// tryJSON is false where the answer is to ask again, as shards are being handed over.
func tryJSON(t *testing.T, p *process, path string, into any) bool {
	t.Helper()
	status, text := look(p.ready["admin"], path)
	switch {
	case status == http.StatusServiceUnavailable:
		t.Logf("%s: %d %s", path, status, text)
		return false
	case status != http.StatusOK:
		t.Fatalf("%s: %d %s", path, status, text)
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return true
}

func overviewOf(t *testing.T, p *process) (o operator.Overview) {
	t.Helper()
	askJSON(t, p, "/api/v1/overview", &o)
	return o
}

func (w *load) notification(t *testing.T, p *process, id uuid.UUID) (n operator.NotificationDetail) {
	t.Helper()
	askJSON(t, p, w.notificationPath(id), &n)
	return n
}

func (w *load) notificationPath(id uuid.UUID) string {
	return "/api/v1/notifications/" + id.String() + "?topic=" + url.QueryEscape(w.topic)
}

// settled waits until everybody was tried once.
func (w *load) settled(t *testing.T, p *process, id uuid.UUID) {
	t.Helper()
	begun := time.Now()
	eventually(t, "all attempts", func() bool {
		tally := w.notification(t, p, id).Tally
		return tally.Delivered == w.all-w.failing && tally.Failing == w.failing
	})
	t.Logf("%d deliveries took %s", w.all, time.Since(begun).Round(time.Millisecond))
}

// sane is how long an answer may take on any machine; the log of the test has the real time.
const sane = 10 * time.Second

// ask asks in every way, and prints what was said and how long it took.
func (w *load) ask(t *testing.T, p *process, id uuid.UUID) {
	t.Helper()
	timed := func(what string, answer func() string) string {
		begun := time.Now()
		said := answer()
		took := time.Since(begun)
		t.Logf("%s, %s: %s", what, took.Round(time.Millisecond/10), said)
		if took > sane {
			t.Errorf("%s took %s", what, took)
		}
		return said
	}
	var n operator.NotificationDetail
	shown := func() string {
		return fmt.Sprintf("%+v, %d named, %d shards missing", n.Tally, len(n.Missing), n.MissingShards)
	}
	timed("API", func() string { n = w.notification(t, p, id); return shown() })
	want := operator.Tally{Subscribers: w.all, Delivered: w.all - w.failing, Pending: w.failing, Failing: w.failing}
	if n.Tally != want || n.MissingShards != 0 || len(n.Missing) != w.failing {
		t.Errorf("the API said %s", shown())
	}
	for _, m := range n.Missing {
		if !slices.Contains(w.refused, m.ID) || m.Outcome != "failing" || m.LastClass != "refused" || m.NextAttempt.IsZero() {
			t.Errorf("missing is %+v", m)
		}
	}
	timed("API, without the topic", func() string {
		askJSON(t, p, "/api/v1/notifications/"+id.String(), &n)
		return shown()
	})
	if n.Tally != want {
		t.Errorf("without the topic it said %s", shown())
	}
	page := timed("page", func() string {
		status, text := look(p.ready["admin"], "/notification?id="+id.String()+"&topic="+url.QueryEscape(w.topic))
		return fmt.Sprint(status, ", ", len(text), " bytes, names ", strings.Count(text, "/subscription/"), " subscriptions")
	})
	if !strings.HasPrefix(page, "200,") {
		t.Errorf("the page said %s", page)
	}
	var rows operator.SubscriptionPage
	timed("API, who fails", func() string {
		askJSON(t, p, "/api/v1/subscriptions?state=failing&limit=100&topic="+url.QueryEscape(w.topic), &rows)
		return fmt.Sprint(rows.Matching, " match")
	})
	if rows.Matching != w.failing || len(rows.Subscriptions) != w.failing {
		t.Errorf("%d fail", rows.Matching)
	}
	var told operator.NotificationDetail
	timed("hub show", func() string {
		text := mustRun(t, "show", id.String(), "--topic", w.topic, "--store", w.store, "--json")
		if err := json.Unmarshal([]byte(text), &told); err != nil {
			t.Fatal(err)
		}
		n = told
		return shown()
	})
	if told.Tally != want || len(told.Missing) != w.failing || told.MissingShards != 0 {
		t.Errorf("the command said %s", shown())
	}
	people := timed("hub show, for people", func() string {
		lines := strings.Split(mustRun(t, "show", id.String(), "--store", w.store), "\n")
		return strings.Join(lines[:min(len(lines), 12)], "\n")
	})
	if !strings.Contains(people, fmt.Sprint(w.all-w.failing)) {
		t.Errorf("the command does not tell people how many have it:\n%s", people)
	}
}

// repair has two hubs retry, replay and remove subscriptions, of which the other holds about half.
func (w *load) repair(t *testing.T, a, b *process, id uuid.UUID) {
	t.Helper()
	n := w.notification(t, a, id)
	for i, m := range n.Missing[:8] {
		p := []*process{a, b}[i%2]
		var before operator.SubscriptionDetail
		askJSON(t, p, "/api/v1/subscriptions/"+m.ID.String(), &before)
		if status, text := callAPI(t, p, http.MethodPost, "/subscriptions/"+m.ID.String()+"/retry"); status >= 300 {
			t.Errorf("retry: %d %s", status, text)
		}
		eventually(t, "another attempt", func() bool {
			var d operator.SubscriptionDetail
			askJSON(t, p, "/api/v1/subscriptions/"+m.ID.String(), &d)
			return len(d.Attempts) > len(before.Attempts)
		})
	}
	for i, gone := range n.Missing[8:12] {
		p, other := a, b
		if i%2 == 1 {
			p, other = b, a
		}
		if status, text := callAPI(t, p, http.MethodDelete, "/subscriptions/"+gone.ID.String()+"?reason=test"); status >= 300 {
			t.Errorf("remove: %d %s", status, text)
		}
		if status, _ := look(other.ready["admin"], "/api/v1/subscriptions/"+gone.ID.String()); status != http.StatusNotFound {
			t.Errorf("what was removed is %d at the other", status)
		}
		w.all--
		w.failing--
	}
	if tally := w.notification(t, b, id).Tally; tally.Subscribers != w.all || tally.Failing != w.failing {
		t.Errorf("after four were removed: %+v", tally)
	}
}

// callAPI has the API of a process do something.
func callAPI(t *testing.T, p *process, method, path string) (status int, said string) {
	t.Helper()
	req, err := http.NewRequest(method, "http://"+p.ready["admin"]+"/api/v1"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if status, said, err = answer(http.DefaultClient.Do(req)); err != nil {
		t.Fatal(err)
	}
	return status, said
}
