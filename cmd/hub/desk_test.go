package main

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/hub"
	"carillon/internal/redistest"
	"carillon/operator"
	"carillon/operator/ask"
	"carillon/subscription"
	"carillon/topic"
)

// TestListenToARealHub hears publications by the API of either of two hubs, and leaves nothing behind.
// No subscriber outside can have such a callback.
func TestListenToARealHub(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := newSink(t)
	const hub = "http://127.0.0.1:9/websub/"
	s.setHub(hub, 0)
	for range 2 {
		p := startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--url", hub, "--store", redis.URL())
		eventually(t, "readiness", p.isReady)
		door := "http://" + p.ready["listen"] + "/websub/"
		heard, end := listenAt(t, p, s.topicURL("t"))
		heard(operator.TestWaiting)
		if h := heard(operator.TestVerified); !strings.Contains(h.Text, "5m0s") {
			t.Errorf("%+v", h)
		}
		if status, said, err := publishAt(door, hub, s.topicURL("t"), "text/plain", "news"); err != nil || status != http.StatusOK {
			t.Fatalf("publishing: %d %q %v", status, said, err)
		}
		h := heard(operator.TestNotification)
		if h.Body != "news" || !strings.HasSuffix(h.Signature, ": good") || h.ContentType != "text/plain" || len(h.Links) != 1 {
			t.Errorf("%+v", h)
		}
		var page operator.SubscriptionPage
		askJSON(t, p, "/api/v1/subscriptions", &page)
		if page.Matching != 1 || !page.Subscriptions[0].TestCallback || !page.Subscriptions[0].Signed {
			t.Errorf("%+v", page)
		}
		end()
		eventually(t, "the end of the subscription", func() bool {
			askJSON(t, p, "/api/v1/subscriptions", &page)
			return page.Matching == 0
		})
		for _, callback := range []string{"http://listen.invalid/x", "http://LISTEN.invalid./x", "https://listen.invalid:8443/x"} {
			if status, said, err := subscribe(door, s.topicURL("t"), callback, nil); err != nil || status != http.StatusForbidden {
				t.Errorf("a stranger's request for %s: %d %q %v", callback, status, said, err)
			}
		}
		heard, end = listenAt(t, p, s.URL+"/elsewhere")
		heard(operator.TestWaiting)
		heard(operator.TestDenied)
		end()
	}
}

// listenAt listens by the API of a process. heard returns the next notification, and names the kind
// that it must be of.
func listenAt(t *testing.T, p *process, topic string) (heard func(kind string) operator.TestEvent, end func()) {
	t.Helper()
	resp, err := http.Get("http://" + p.ready["admin"] + "/api/v1/listen?topic=" + url.QueryEscape(topic))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("listening: %v %v", resp, err)
	}
	lines := bufio.NewScanner(resp.Body)
	return func(kind string) (h operator.TestEvent) {
		t.Helper()
		limit := time.AfterFunc(time.Minute, func() { _ = resp.Body.Close() })
		defer limit.Stop()
		for lines.Scan() {
			data, is := strings.CutPrefix(lines.Text(), "data: ")
			if !is || !strings.HasPrefix(data, "{") {
				continue
			}
			if err := json.Unmarshal([]byte(data), &h); err != nil {
				t.Fatal(err)
			}
			if h.Kind != kind {
				t.Fatalf("heard %+v, not %s", h, kind)
			}
			return h
		}
		t.Fatalf("nothing is heard any more: %v", lines.Err())
		return h
	}, func() { _ = resp.Body.Close() }
}

// TestCheckAsksNoThirdHost looks at a Source whose documents lead to another host: a Source cannot
// have a hub send requests to whom it likes. The hub that its topic names gets one.
func TestCheckAsksNoThirdHost(t *testing.T) {
	t.Parallel()
	var asked, hubAsked atomic.Int64
	third := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hub" {
			hubAsked.Add(1)
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
			return
		}
		asked.Add(1)
	}))
	t.Cleanup(third.Close)
	var source *httptest.Server
	source = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		switch r.URL.Path {
		case "/topic":
			w.Header().Set("Link", fmt.Sprintf(`<%s/hub>; rel="hub", <%s/topic>; rel="self"`, third.URL, source.URL))
		case "/redirected":
			http.Redirect(w, r, third.URL+"/redirected", http.StatusFound)
		default:
			fmt.Fprintf(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:ln rel="up" href="%[1]s/description"/><rs:md capability="capabilitylist"/>
<url><loc>%[1]s/resourcelist</loc><rs:md capability="resourcelist"/></url><url><loc>%[2]s/redirected</loc><rs:md capability="changelist"/></url>
<url><loc>%[2]s/topic</loc><rs:md capability="change-notification"/><rs:ln rel="hub" href="%[1]s/hub"/></url>
</urlset>`, third.URL, source.URL)
		}
	}))
	t.Cleanup(source.Close)
	p := startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:"+t.TempDir())
	status, text := look(p.ready["admin"], "/api/v1/check?url="+url.QueryEscape(source.URL+"/capabilitylist"))
	if status != http.StatusOK || asked.Load() > 0 || hubAsked.Load() != 1 || strings.Count(text, "it is at another host") != 2 || !strings.Contains(text, `"complete":false`) {
		t.Errorf("%d: %d and %d requests: %s", status, asked.Load(), hubAsked.Load(), text)
	}
}

// TestCheckKeepsPackagesInTheStore checks a package where the system has no directory for temporary
// files. Nothing of it is left, neither of this process nor of one that was killed.
func TestCheckKeepsPackagesInTheStore(t *testing.T) {
	var pack bytes.Buffer
	z := zip.NewWriter(&pack)
	f, err := z.Create("manifest.xml")
	if err == nil {
		_, err = io.WriteString(f, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:md capability="resourcedump-manifest" at="2026-01-01T00:00:00Z"/></urlset>`)
	}
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/zip")
		_, _ = w.Write(pack.Bytes())
	}))
	t.Cleanup(source.Close)
	store := t.TempDir()
	if err := os.Mkdir(filepath.Join(store, "check.1.scratch"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	p := startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:"+store)
	status, text := look(p.ready["admin"], "/api/v1/check?url="+url.QueryEscape(source.URL+"/a.zip"))
	if status != http.StatusOK || !strings.Contains(text, `"packages":1`) {
		t.Errorf("%d: %s", status, text)
	}
	if left, err := filepath.Glob(filepath.Join(store, "*.scratch")); err != nil || len(left) > 0 {
		t.Errorf("left: %q (%v)", left, err)
	}
}

// TestALeftOverListener says 410 to what comes, and so is ended.
func TestALeftOverListener(t *testing.T) {
	t.Parallel()
	s := newSink(t)
	store := "pebble:" + t.TempDir()
	e, err := openStore(t.Context(), storeFlags{Store: store}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	left := subscription.Subscription{
		ID: subscription.NewID(s.topicURL("t"), operator.ListenOrigin+"/left"), Topic: s.topicURL("t"), Callback: operator.ListenOrigin + "/left",
		Created: time.Now(), Lease: time.Hour, Expires: time.Now().Add(time.Hour),
	}
	if err := e.Restore.PutMembers(t.Context(), []delivery.Member{{Subscription: left}}); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	p := startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", store)
	s.setHub(p.ready["url"], 0)
	mustPublish(t, p.ready["listen"], p.ready["url"], s.topicURL("t"), "news")
	eventually(t, "its end", func() bool {
		status, _ := look(p.ready["admin"], "/api/v1/subscriptions/"+left.ID.String())
		return status == http.StatusNotFound
	})
}

// TestASourceAsks asks for the outcome of a publication, at the address in its answer.
func TestASourceAsks(t *testing.T) {
	t.Parallel()
	s := newSink(t)
	store := "pebble:" + t.TempDir()
	p := startHub(
		t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", store, "--publishers",
		"registered", "--retry-first", "1h", "--retry-max", "1h",
	)
	address := p.ready["url"]
	s.setHub(address, 0)
	one, two := addSource(t, store, "one", s.topicURL("a")), addSource(t, store, "two", s.topicURL("b"))
	callbacks := []string{s.callbackURL("x"), s.callbackURL("y")}
	for _, callback := range callbacks {
		if status, said, err := subscribe(address, s.topicURL("a"), callback, nil); err != nil || status != http.StatusAccepted {
			t.Fatalf("subscribing: %d %q %v", status, said, err)
		}
	}
	s.await(t, "the verifications", func() bool { return len(s.verified) == 2 })
	var page operator.SubscriptionPage
	eventually(t, "both to be active", func() bool {
		askJSON(t, p, "/api/v1/subscriptions", &page)
		return page.Matching == 2
	})
	published := request(t, http.MethodPost, address, one, fmt.Sprintf(`<%s>; rel="self", <%s>; rel="hub"`, s.topicURL("a"), address), "news")
	where := published.Header.Get("Location")
	if published.StatusCode != http.StatusOK || !strings.HasPrefix(where, address+"notifications/") {
		t.Fatalf("%d, Location: %s", published.StatusCode, where)
	}
	var a hub.Answer
	eventually(t, "all to have it", func() bool {
		resp := request(t, http.MethodGet, where, one, "", "")
		if err := json.NewDecoder(resp.Body).Decode(&a); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%d %v", resp.StatusCode, err)
		}
		return a.Delivered == 2
	})
	if a.ID.String() != published.Header.Get("X-Hub-Notification-Id") || a.Topic != s.topicURL("a") || a.Subscribers != 2 || a.Pending != 0 ||
		a.MissingShards != 0 || a.Seq == 0 || time.Since(a.Accepted) > time.Hour {
		t.Errorf("%+v", a)
	}
	if resp := request(t, http.MethodHead, where, one, "", ""); resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("HEAD: %d %v", resp.StatusCode, resp.Header)
	}
	at, _, _ := strings.Cut(where, "?")
	for name, c := range map[string]struct {
		method, url, token string
		want               int
	}{
		"no token":        {http.MethodGet, where, "", 401},
		"another's":       {http.MethodGet, where, two, 403},
		"unknown token":   {http.MethodGet, where, "nobody", 401},
		"no topic":        {http.MethodGet, at, one, 400},
		"another topic":   {http.MethodGet, at + "?topic=" + url.QueryEscape(s.topicURL("b")), two, 404},
		"never published": {http.MethodGet, address + "notifications/" + uuid.Must(uuid.NewV7()).String() + "?topic=" + url.QueryEscape(s.topicURL("a")), one, 404},
		"no ID":           {http.MethodGet, address + "notifications/1?topic=" + url.QueryEscape(s.topicURL("a")), one, 404},
		"a method":        {http.MethodDelete, where, one, 405},
	} {
		if resp := request(t, c.method, c.url, c.token, "", ""); resp.StatusCode != c.want {
			t.Errorf("%s: %d, not %d", name, resp.StatusCode, c.want)
		}
	}
	limited := false
	for range 10 * hub.DefaultAnswerBurst {
		if resp := request(t, http.MethodHead, where, one, "", ""); resp.StatusCode == http.StatusTooManyRequests {
			limited = resp.Header.Get("Retry-After") != ""
			break
		}
	}
	if !limited {
		t.Error("a Source may ask as fast as it can")
	}
	if resp := request(t, http.MethodGet, at+"?topic="+url.QueryEscape(s.topicURL("b")), two, "", ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("because of one Source another is answered %d", resp.StatusCode)
	}
}

// request makes a request; its answer's body is closed with the test.
func request(t *testing.T, method, address, token, link, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequest(method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "text/plain")
		req.Header.Set("Link", link)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// TestDeskOfAStoppedHub looks at a store without a running hub: the answers are the same as before,
// and orders are carried out when a hub runs again.
func TestDeskOfAStoppedHub(t *testing.T) {
	t.Parallel()
	w := newLoad(t, "pebble:"+t.TempDir(), 200, 3)
	p := w.hub(t)
	id := w.publish(t, p)
	w.settled(t, p, id)
	before := w.notification(t, p, id)
	if err := p.stop(t); err != nil {
		t.Fatal(err)
	}
	e, err := openStore(t.Context(), storeFlags{Store: w.store}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	// One more, which everybody is still to get.
	more := delivery.Publication{Topic: topic.Parse(w.topic), ContentType: "text/plain", Body: []byte("more")}
	if _, err := e.Log.Append(t.Context(), more, uuid.Must(uuid.NewV7()), time.Now()); err != nil {
		t.Fatal(err)
	}
	desk, end, err := serviceOf(t.Context(), e, ask.Everything, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	n, err := desk.Notification(t.Context(), "", id)
	if err != nil || n.Tally != before.Tally || len(n.Missing) != 3 || n.MissingShards != 0 {
		t.Errorf("%+v %+v %v; the hub said %+v", n.Tally, n.Coverage, err, before.Tally)
	}
	one, err := desk.Topic(t.Context(), w.topic)
	if err != nil || one.Subscriptions != 200 || one.Behind != 200 || one.Failing != 3 {
		t.Errorf("%+v %v", one, err)
	}
	o, err := desk.Overview(t.Context())
	if err != nil || o.Counts.Behind != 200 || o.Counts.Failing != 3 || o.Counts.Subscriptions != 200 {
		t.Errorf("%+v %v", o.Counts, err)
	}
	retried, removed := n.Missing[0], n.Missing[1]
	if err := desk.Retry(t.Context(), retried.ID); err != nil {
		t.Error(err)
	}
	if err := desk.Remove(t.Context(), removed.ID, "test"); err != nil {
		t.Error(err)
	}
	page, err := desk.Subscriptions(t.Context(), operator.SubscriptionQuery{State: operator.StateReady, Limit: 1})
	if err != nil || page.Matching != 197 {
		t.Fatalf("%d %v", page.Matching, err)
	}
	again := page.Subscriptions[0]
	if r, err := desk.Replay(t.Context(), again.ID, n.Seq, 0); err != nil || r.Last != n.Seq {
		t.Errorf("%+v %v", r, err)
	}
	if d, err := desk.Subscription(t.Context(), again.ID); err != nil || d.Replay == nil || d.State != operator.StateReady {
		t.Errorf("%+v %v", d.Subscription, err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	p = w.hub(t)
	eventually(t, "what was told to be done", func() bool {
		var tried, replayed operator.SubscriptionDetail
		askJSON(t, p, "/api/v1/subscriptions/"+retried.ID.String(), &tried)
		askJSON(t, p, "/api/v1/subscriptions/"+again.ID.String(), &replayed)
		attempts := replayed.Attempts
		return len(tried.Attempts) > 0 && // of this process: one by hand counts as no failure more
			replayed.Replay == nil && len(attempts) == 2 && attempts[1].Replay && !attempts[0].Replay
	})
	if status, _ := look(p.ready["admin"], "/api/v1/subscriptions/"+removed.ID.String()); status != http.StatusNotFound {
		t.Errorf("what was removed is %d", status)
	}
}
