package notifier_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/notifier"
)

func TestTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{}
		w := newWorld(t, notifier.Config{Sets: []string{"a", "b"}}, h)
		public := w.Public()
		links := `<http://source.example/a/change/>; rel="self", <http://hub.example/websub/>; rel="hub", ` +
			`<http://source.example/a/capabilitylist.xml>; rel="resourcesync"`
		check := func(method, length string, body []byte) string {
			t.Helper()
			got := ask(public, method, "/a/change/", "")
			if got.Code != 200 || got.Header().Get("Content-Type") != "application/xml" || got.Header().Get("Link") != links {
				t.Errorf("%s: %d %v", method, got.Code, got.Header())
			}
			if got.Header().Get("Content-Length") != length || !bytes.Equal(got.Body.Bytes(), body) {
				t.Errorf(
					"%s: Content-Length %q and %d bytes, want %s and %d", method,
					got.Header().Get("Content-Length"), got.Body.Len(), length, len(body),
				)
			}
			return got.Header().Get("ETag")
		}
		check("GET", "0", nil)
		check("HEAD", "0", nil)
		w.add([]string{"a"}, "1")
		w.drain()
		first := h.received()[0].body
		length := ask(public, "HEAD", "/a/change/", "").Header().Get("Content-Length")
		tag := check("GET", length, first)
		check("HEAD", length, nil)
		if got := ask(
			public, "GET", "/a/change/", "", `If-None-Match: "x", `+tag,
		); got.Code != 304 || got.Body.Len() > 0 || got.Header().Get("Link") != links {
			t.Errorf("with its ETag: %d %v", got.Code, got.Header())
		}
		if got := ask(public, "GET", "/b/change/", ""); got.Code != 200 || got.Header().Get("Content-Length") != "0" {
			t.Errorf("the other topic: %d %v", got.Code, got.Header())
		}
		// While the next is under way the topic has what the hub accepted.
		h.set(slowly(30 * time.Second))
		w.add([]string{"a"}, "2")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(h.received()) != 2 {
			t.Fatal("the second POST is not under way")
		}
		check("GET", length, first)
		w.restart()
		public = w.Public()
		check("GET", length, first)
		h.set(nil)
		w.drain()
		if got := ask(
			public, "GET", "/a/change/", "", "If-None-Match: "+tag,
		); got.Code != 200 || !bytes.Equal(got.Body.Bytes(), h.received()[1].body) {
			t.Errorf("after the second: %d", got.Code)
		}
	})
}

// held is a journal in which a test can stop a call at a moment of its choice.
type held struct {
	notifier.Store
	accepted func() // Accept has changed the journal, and is not durable yet
	body     func() // Body is about to look
}

func (h *held) Accept(ctx context.Context, n notifier.Notification, keepFrom time.Time) error {
	err := h.Store.Accept(ctx, n, keepFrom)
	h.accepted()
	return err
}

func (h *held) Body(ctx context.Context, n notifier.Notification) (io.ReadCloser, error) {
	h.body()
	return h.Store.Body(ctx, n)
}

// TestTopicWhileAnAcceptanceIsNoted: the topic URI has the latest notification at
// every moment, also while the journal waits for the disk, and also for a
// request that looked just before.
func TestTopicWhileAnAcceptanceIsNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &held{accepted: func() {}, body: func() {}}
		w := &world{t: t, hub: &hub{}, fs: newMem(), cfg: notifier.Config{URL: base, Hub: hubURL}}
		w.cfg.Transport = w.hub
		w.wrap = func(j notifier.Store) notifier.Store { h.Store = j; return h }
		w.start()
		defer w.stop()
		w.add(inDefault, "1")
		w.drain()
		check := func(when string) {
			t.Helper()
			got := ask(w.Public(), "GET", "/default/change/", "")
			posts := w.hub.received()
			if got.Code != 200 || !bytes.Equal(got.Body.Bytes(), posts[len(posts)-1].body) {
				t.Errorf("%s: %d %s", when, got.Code, got.Body)
			}
		}
		synced := make(chan struct{})
		h.accepted = func() { <-synced }
		w.add(inDefault, "2")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := len(w.hub.received()); got != 2 {
			t.Fatalf("%d POSTs, want 2", got)
		}
		check("before Accept is durable")
		close(synced)
		synctest.Wait()
		h.body = func() {
			h.body = func() {}
			w.add(inDefault, "3")
			w.drain()
		}
		check("accepted between the look and the opening")
	})
}

func TestPublicDocuments(t *testing.T) {
	w := newWorld(t, notifier.Config{Sets: []string{"a", "b"}}, &hub{})
	for path, want := range map[string][]string{
		"/.well-known/resourcesync": {
			`capability="description"`, "<loc>http://source.example/a/capabilitylist.xml</loc>", "<loc>http://source.example/b/capabilitylist.xml</loc>",
		},
		"/b/capabilitylist.xml": {
			`capability="capabilitylist"`, `rel="up" href="http://source.example/.well-known/resourcesync"`,
			"<loc>http://source.example/b/change/</loc>", `capability="change-notification"`, `rel="hub" href="http://hub.example/websub/"`,
		},
	} {
		got := ask(w.Public(), "GET", path, "")
		if got.Code != 200 || got.Header().Get("Content-Type") != "application/xml" {
			t.Errorf("%s: %d %v", path, got.Code, got.Header())
		}
		for _, text := range want {
			if !strings.Contains(got.Body.String(), text) {
				t.Errorf("%s has no %s:\n%s", path, text, got.Body)
			}
		}
		if head := ask(w.Public(), "HEAD", path, ""); head.Body.Len() > 0 || head.Header().Get("Content-Length") != got.Header().Get("Content-Length") {
			t.Errorf("HEAD %s: %v", path, head.Header())
		}
	}
}

func TestPublicRefusals(t *testing.T) {
	w := newWorld(t, notifier.Config{Sets: []string{"a"}}, &hub{})
	for _, c := range []struct {
		method, path string
		code         int
	}{
		{"POST", "/a/change/", 405},
		{"DELETE", "/a/capabilitylist.xml", 405},
		{"OPTIONS", "/.well-known/resourcesync", 405},
		{"GET", "/", 404},
		{"GET", "/a/change", 404},
		{"GET", "/b/change/", 404},
		{"GET", "//a/change/", 404},
		{"POST", "/events", 404},
		{"POST", "/sets/a/events", 404},
		{"GET", "/metrics", 404},
		{"GET", "/healthz", 404},
	} {
		got := ask(w.Public(), c.method, c.path, "")
		if got.Code != c.code || (c.code == 405) != (got.Header().Get("Allow") == "GET, HEAD") {
			t.Errorf("%s %s: %d, Allow %q; want %d", c.method, c.path, got.Code, got.Header().Get("Allow"), c.code)
		}
	}
}

func TestPublicUnderAPrefix(t *testing.T) {
	w := &world{t: t, hub: &hub{}, fs: newMem(), cfg: notifier.Config{URL: "https://source.example/sync", Hub: hubURL}}
	w.cfg.Transport = w.hub
	w.start()
	defer w.stop()
	for path, code := range map[string]int{
		"/sync/default/change/": 200, "/sync/default/capabilitylist.xml": 200, "/sync/.well-known/resourcesync": 200,
		"/.well-known/resourcesync": 200, "/default/change/": 404,
	} {
		got := ask(w.Public(), "GET", path, "")
		if got.Code != code {
			t.Errorf("%s: %d, want %d", path, got.Code, code)
		}
	}
	if link := ask(w.Public(), "GET", "/sync/default/change/", "").Header().Get("Link"); !strings.HasPrefix(
		link, "<https://source.example/sync/default/change/>;",
	) {
		t.Errorf("Link %s", link)
	}
}
