package destination_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon/destination"
)

const (
	topicURL = "http://source.example/set/change/"
	hubURL   = "https://hub.example/websub/"
	baseURL  = "http://destination.example/"
)

// fixture is the topic and the hub that a Destination meets, without a network: its
// requests are served where they arise, so that time can be synctest's.
type fixture struct {
	t     testing.TB
	topic http.HandlerFunc // answers every host but the hub's
	hub   http.HandlerFunc
	asked chan ask // the requests that the hub got

	d      *destination.Destination
	out    *buffer
	logs   *buffer
	ran    chan error
	cancel context.CancelFunc
}

// ask is a request that the hub got.
type ask struct {
	url  string
	form url.Values
}

func (a ask) callback() string { return a.form.Get("hub.callback") }
func (a ask) secret() string   { return a.form.Get("hub.secret") }

// newFixture is a topic with its links and a hub that accepts.
func newFixture(t testing.TB) *fixture {
	w := &fixture{t: t, asked: make(chan ask, 100), out: new(buffer), logs: new(buffer)}
	w.topic = withLinks(fmt.Sprintf("<%s>; rel=self, <%s>; rel=hub", topicURL, hubURL))
	w.hub = answer(http.StatusAccepted, "")
	return w
}

func withLinks(link string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Link", link) }
}

func answer(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

func (w *fixture) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	rec := httptest.NewRecorder()
	if !strings.HasPrefix(r.URL.Hostname(), "hub") {
		w.topic(rec, r)
	} else {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		form, err := url.ParseQuery(string(body))
		if err != nil || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" || r.Method != http.MethodPost {
			w.t.Errorf("not a form that a hub takes: %s %s: %v", r.Method, body, err)
		}
		w.asked <- ask{r.URL.String(), form}
		w.hub(rec, r)
	}
	resp := rec.Result()
	resp.Request = r
	return resp, nil
}

func (w *fixture) config(dir string) destination.Config {
	return destination.Config{
		Topic: topicURL, URL: baseURL, Data: dir, Transport: w,
		Sink:   destination.NewPrinter(w.out, false),
		Logger: slog.New(slog.NewTextHandler(w.logs, nil)),
	}
}

// start runs a Destination until the test ends it.
func (w *fixture) start(cfg destination.Config) {
	w.t.Helper()
	d, err := destination.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.d, w.ran = d, make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	ran := w.ran
	go func() { ran <- d.Run(ctx) }()
}

// end waits for Run and closes.
func (w *fixture) end() error {
	err := <-w.ran
	w.cancel()
	return errors.Join(err, w.d.Close())
}

// stop cancels Run and lets the hub verify the unsubscription.
func (w *fixture) stop() {
	w.t.Helper()
	w.cancel()
	if a := <-w.asked; a.form.Get("hub.mode") != "unsubscribe" {
		w.t.Errorf("at the stop the hub is asked %v, want unsubscribe", a.form)
	} else if rec := w.verify(a, nil); rec.Code != http.StatusOK {
		w.t.Errorf("the unsubscription is answered %d", rec.Code)
	}
	if err := w.end(); err != nil {
		w.t.Errorf("Run: %v", err)
	}
}

// subscribed takes the request that comes next and verifies it for the lease.
func (w *fixture) subscribed(lease time.Duration) ask {
	w.t.Helper()
	a := <-w.asked
	if mode := a.form.Get("hub.mode"); mode != "subscribe" {
		w.t.Fatalf("the hub is asked %s, want subscribe", mode)
	}
	if rec := w.verify(a, url.Values{"hub.lease_seconds": {fmt.Sprint(int(lease.Seconds()))}}); rec.Code != http.StatusOK {
		w.t.Fatalf("the verification is answered %d", rec.Code)
	}
	synctest.Wait()
	return a
}

const challenge = "c0cc4630-5116-11e3-8f96-0800200c9a66"

// verify is the hub's GET for a request; more are parameters that differ, and
// those with no value are left out.
func (w *fixture) verify(a ask, more url.Values) *httptest.ResponseRecorder {
	q := url.Values{"hub.mode": {a.form.Get("hub.mode")}, "hub.topic": {a.form.Get("hub.topic")}, "hub.challenge": {challenge}}
	for name, values := range more {
		q[name] = values
	}
	return w.get(a.callback() + "?" + q.Encode())
}

func (w *fixture) get(target string) *httptest.ResponseRecorder {
	return w.serve(httptest.NewRequest(http.MethodGet, target, nil))
}

func (w *fixture) serve(r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	w.d.ServeHTTP(rec, r)
	return rec
}

// deliver is the hub's POST of a body, signed by the secret.
func (w *fixture) deliver(a ask, secret, id, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, a.callback(), strings.NewReader(body))
	r.Header.Set("Content-Type", "application/xml")
	if id != "" {
		r.Header.Set("X-Hub-Notification-Id", id)
	}
	if secret != "" {
		mac := hmac.New(sha256.New, []byte(secret))
		_, _ = io.WriteString(mac, body)
		r.Header.Set("X-Hub-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	}
	return w.serve(r)
}

// minute is a change notification of one change, made in the minute of an hour.
func minute(m int) string {
	return fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
  <rs:md capability="change-notification" from="2026-01-02T03:%02d:00Z" until="2026-01-02T03:%02d:00Z"/>
  <url><loc>http://source.example/res%d</loc>
    <rs:md change="updated" datetime="2026-01-02T03:%02d:30Z" length="%d" type="text/plain"/></url>
</urlset>`, m, m+1, m, m, m)
}

func minuteLine(m int) string {
	return fmt.Sprintf("2026-01-02T03:%02d:30.000000Z updated http://source.example/res%d length=%d type=text/plain\n", m, m, m)
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
