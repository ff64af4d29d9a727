package operator_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"iter"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery/report"
	"carillon/delivery/send"
	"carillon/operator"
	"carillon/store/pebblestore"
	"carillon/subscription"
)

// requests takes requests as a hub would: a submitted one becomes active on the test's command.
type requests struct {
	mu      sync.Mutex
	wishes  []subscription.Wish
	removed []subscription.ID
	err     error
}

func (r *requests) Submit(_ context.Context, w subscription.Wish) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wishes = append(r.wishes, w)
	return r.err
}

func (r *requests) Deny(context.Context, subscription.Subscription, string) error { return nil }

func (r *requests) Remove(_ context.Context, sub subscription.Subscription) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removed = append(r.removed, sub.ID)
	return true, nil
}

func (r *requests) last() subscription.Wish {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wishes[len(r.wishes)-1]
}

func (r *requests) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.wishes)
}

// ear is a desk with a listener.
type ear struct {
	service *operator.Service
	inner   *operator.TestCallbacks
	reqs    *requests
	fake    *fake
}

func newEar(t *testing.T) *ear { return newEarOn(t, openStore(t)) }

func newEarOn(t *testing.T, db *pebblestore.DB) *ear {
	e := &ear{inner: operator.NewTestCallbacks(), reqs: &requests{}, fake: newFake(1, odd)}
	e.service = newService(t, db, e.fake, func(c *operator.Config) {
		c.TestCallbacks, c.Requests, c.Subscriptions = e.inner, e.reqs, noSubscriptions{}
		c.CheckTopic = func(topic string) error {
			if !strings.HasPrefix(topic, "https://") {
				return errors.New("it is no URL")
			}
			return nil
		}
	})
	return e
}

// noSubscriptions is an empty store: confirmed subscriptions are not stored.
type noSubscriptions struct{ subscription.Store }

func (noSubscriptions) Get(context.Context, subscription.ID) (subscription.Subscription, error) {
	return subscription.Subscription{}, subscription.ErrNotFound
}

// confirm verifies the request that was submitted last, as the hub does, for a lease.
func (e *ear) confirm(lease time.Duration) error {
	w := e.reqs.last()
	id := subscription.NewID(w.Topic, w.Callback)
	err := e.inner.Confirm(context.Background(), subscription.Request{
		ID: id, Mode: w.Mode, Topic: w.Topic, Callback: w.Callback, Secret: w.Secret, Lease: lease,
	}, "challenge")
	if err == nil {
		e.fake.mu.Lock()
		defer e.fake.mu.Unlock()
		e.fake.stands[id] = report.Standing{Subscription: subscription.Subscription{ID: id, Topic: w.Topic, Callback: w.Callback}}
	}
	return err
}

func (e *ear) deliver(body, signature string) int {
	w := e.reqs.last()
	h := http.Header{"Content-Type": {"text/plain"}, "X-Hub-Notification-Id": {"the-id"}, "Link": {`<https://hub.example/>; rel="hub"`}}
	if signature == "good" {
		mac := hmac.New(sha256.New, []byte(w.Secret))
		mac.Write([]byte(body))
		signature = "sha256=" + hex.EncodeToString(mac.Sum(nil))
	}
	if signature != "" {
		h.Set("X-Hub-Signature", signature)
	}
	return e.inner.Deliver(context.Background(), send.Inside{Callback: w.Callback, Header: h, Body: []byte(body)})
}

// next returns what is heard next.
func next(t *testing.T, pull func() (operator.TestEvent, error, bool), kind string) operator.TestEvent {
	t.Helper()
	h, err, ok := pull()
	if err != nil || !ok || h.Kind != kind {
		t.Fatalf("heard %+v %v %v, not %s", h, err, ok, kind)
	}
	return h
}

// TestListen hears the verification and what is delivered, and ends with the subscription.
func TestListen(t *testing.T) {
	e := newEar(t)
	pull, stop := iter.Pull2(e.service.Listen(t.Context(), topicURL))
	defer stop()
	next(t, pull, operator.TestWaiting)
	w := e.reqs.last()
	if id := subscription.NewID(topicURL, w.Callback); !operator.Owns(w.Callback) || len(w.Secret) < 20 || w.Mode != subscription.ModeSubscribe || !e.fake.holds(id) {
		t.Fatalf("%+v", w)
	}
	// A request without the secret is not the listener's, and cannot end it from outside.
	for _, r := range []subscription.Request{
		{Callback: w.Callback, Mode: subscription.ModeSubscribe, Secret: "another"},
		{Callback: w.Callback, Mode: subscription.ModeUnsubscribe, Secret: w.Secret},
		{Callback: operator.ListenOrigin + "/else", Mode: subscription.ModeSubscribe, Secret: w.Secret},
	} {
		if err := e.inner.Confirm(t.Context(), r, "c"); !errors.Is(err, subscription.ErrNoIntent) {
			t.Errorf("%+v was confirmed: %v", r, err)
		}
	}
	if err := e.confirm(5 * time.Minute); err != nil {
		t.Fatal(err)
	}
	next(t, pull, operator.TestVerified)
	note := `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">` +
		`<rs:md capability="change-notification" from="2026-01-01T00:00:00Z" until="2026-01-01T00:00:05Z"/></urlset>`
	for _, c := range []struct {
		body, signature, want string
		more                  bool
		from                  string
	}{
		{"news", "good", ": good", false, ""},
		{"news", "sha256=00", ": wrong: it is not that of the body", false, ""},
		{"news", "md5=00", ": wrong: the method", false, ""},
		{"news", "", "missing", false, ""},
		{"caf\xe9", "good", ": good", false, ""},
		{strings.Repeat("é", 3000), "good", ": good", true, ""},
		{note, "good", ": good", false, "2026-01-01T00:00:00Z"},
	} {
		if status := e.deliver(c.body, c.signature); status != http.StatusNoContent {
			t.Errorf("a delivery was answered %d", status)
		}
		h := next(t, pull, operator.TestNotification)
		if !strings.HasSuffix(h.Signature, c.want) && !strings.Contains(h.Signature, c.want) || h.BodyMore != c.more || h.From != c.from ||
			h.Bytes != int64(len(c.body)) || h.ID != "the-id" || len(h.Links) != 1 || strings.Contains(h.Body, "\uFFFD") != (c.body == "caf\xe9") {
			t.Errorf("%.20q: %+v", c.body, h)
		}
	}
	stop()
	if status := e.deliver("late", "good"); status != http.StatusGone {
		t.Errorf("where nobody listens a delivery was answered %d", status)
	}
	if err := e.confirm(time.Minute); !errors.Is(err, subscription.ErrNoIntent) {
		t.Errorf("where nobody listens: %v", err)
	}
}

// TestListenDenied ends with the reason.
func TestListenDenied(t *testing.T) {
	e := newEar(t)
	pull, stop := iter.Pull2(e.service.Listen(t.Context(), topicURL))
	defer stop()
	next(t, pull, operator.TestWaiting)
	if err := e.inner.Deny(t.Context(), topicURL, e.reqs.last().Callback, "it does not name this hub"); err != nil {
		t.Fatal(err)
	}
	if h := next(t, pull, operator.TestDenied); !strings.Contains(h.Text, "it does not name this hub") {
		t.Errorf("%+v", h)
	}
	if h, err, ok := pull(); ok {
		t.Errorf("after the denial: %+v %v", h, err)
	}
}

// TestListenSlowly drops who does not read, and says so; deliveries do not wait.
func TestListenSlowly(t *testing.T) {
	e := newEar(t)
	pull, stop := iter.Pull2(e.service.Listen(t.Context(), topicURL))
	defer stop()
	next(t, pull, operator.TestWaiting)
	if err := e.confirm(time.Minute); err != nil {
		t.Fatal(err)
	}
	taken := 0
	for e.deliver("news", "good") == http.StatusNoContent {
		taken++
	}
	next(t, pull, operator.TestVerified)
	for range taken {
		next(t, pull, operator.TestNotification)
	}
	if h := next(t, pull, operator.TestEnded); taken == 0 || !strings.Contains(h.Text, "too slowly") {
		t.Errorf("after %d: %+v", taken, h)
	}
}

// TestListenersAreFew refuses more than there may be, and takes another when one has gone.
func TestListenersAreFew(t *testing.T) {
	e := newEar(t)
	var stops []func()
	for range operator.MaxTestCallbacks {
		pull, stop := iter.Pull2(e.service.Listen(t.Context(), topicURL))
		next(t, pull, operator.TestWaiting)
		stops = append(stops, stop)
	}
	for _, err := range e.service.Listen(t.Context(), topicURL) {
		if !errors.Is(err, operator.ErrConflict) {
			t.Errorf("one too many: %v", err)
		}
	}
	stops[0]()
	pull, stop := iter.Pull2(e.service.Listen(t.Context(), topicURL))
	next(t, pull, operator.TestWaiting)
	stop()
	for _, stop := range stops {
		stop()
	}
}

// TestWhoCannotListen expects an answer with the reason.
func TestWhoCannotListen(t *testing.T) {
	e := newEar(t)
	busy := newEar(t)
	busy.reqs.err = subscription.ErrBusy
	none := newEar(t)
	none.fake.held = nil
	for name, c := range map[string]struct {
		service *operator.Service
		topic   string
		want    error
	}{
		"no topic":  {e.service, "", operator.ErrInvalid},
		"no URL":    {e.service, "topic", operator.ErrInvalid},
		"busy":      {busy.service, topicURL, operator.ErrUnavailable},
		"no shards": {none.service, topicURL, operator.ErrUnavailable},
		"no hub":    {newService(t, openStore(t), newFake(1, all), nil), topicURL, operator.ErrConflict},
	} {
		heard := 0
		for _, err := range c.service.Listen(t.Context(), c.topic) {
			if heard++; !errors.Is(err, c.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if heard != 1 {
			t.Errorf("%s: %d events", name, heard)
		}
	}
}

// TestListenOn renews the lease, subscribes again where the shard went to another process, and
// ends where the subscription did.
func TestListenOn(t *testing.T) {
	db := openStore(t)
	synctest.Test(t, func(t *testing.T) {
		e := newEarOn(t, db)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		heard := make(chan operator.TestEvent, 100)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for h, err := range e.service.Listen(ctx, topicURL) {
				if err != nil {
					t.Error(err)
				}
				heard <- h
			}
		}()
		await := func(kind string) operator.TestEvent {
			t.Helper()
			h := <-heard
			if h.Kind != kind {
				t.Fatalf("heard %+v, not %s", h, kind)
			}
			return h
		}
		await(operator.TestWaiting)
		if err := e.confirm(5 * time.Minute); err != nil {
			t.Fatal(err)
		}
		await(operator.TestVerified)
		first, submitted := e.reqs.last(), 1
		for range 20 { // half an hour
			time.Sleep(90 * time.Second)
			synctest.Wait()
			if w := e.reqs.last(); w.Callback != first.Callback || w.Secret != first.Secret {
				t.Fatalf("it is another: %+v", w)
			}
			if n := e.reqs.count(); n > submitted {
				submitted = n
				if err := e.confirm(5 * time.Minute); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n := e.reqs.count(); n < 6 || n > 30 {
			t.Errorf("it was asked for %d times within half an hour", n)
		}
		e.fake.mu.Lock()
		lost := subscription.ShardOf(subscription.NewID(topicURL, first.Callback))
		for i, tenure := range e.fake.held {
			if tenure.Shard == lost {
				e.fake.held = append(e.fake.held[:i], e.fake.held[i+1:]...)
				break
			}
		}
		e.fake.mu.Unlock()
		await(operator.TestWaiting)
		await(operator.TestWaiting)
		second := e.reqs.last()
		if second.Callback == first.Callback {
			t.Fatal("it subscribed with the callback whose shard is another's")
		}
		if err := e.confirm(5 * time.Minute); err != nil {
			t.Fatal(err)
		}
		await(operator.TestVerified)
		time.Sleep(3 * time.Second)
		e.fake.mu.Lock()
		delete(e.fake.stands, subscription.NewID(topicURL, second.Callback))
		e.fake.mu.Unlock()
		await(operator.TestEnded)
		<-ended
	})
}
