package hub_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/delivery/send"
	"carillon/hub"
	"carillon/internal/egress"
	"carillon/store/pebblestore"
	"carillon/subscription"
)

// roster signals a test when a subscription has become active or ended.
type roster struct {
	*dispatch.Dispatcher
	activated chan subscription.Subscription
	ended     chan subscription.ID
}

func (r roster) Activated(s subscription.Subscription) {
	r.Dispatcher.Activated(s)
	r.activated <- s
}

func (r roster) Ended(id subscription.ID) {
	r.Dispatcher.Ended(id)
	r.ended <- id
}

// house is a hub with its real rooms over the real engine, on a real server.
type house struct {
	hubURL, topicURL string
	roster           roster
}

// newHouse starts a house. The logger may be nil.
func newHouse(t *testing.T, logger *slog.Logger) *house {
	t.Helper()
	return newHouseTrusting(t, logger, nil)
}

// newHouseTrusting starts a house that trusts the certificates of others than the system does.
func newHouseTrusting(t *testing.T, logger *slog.Logger, roots *x509.CertPool) *house {
	t.Helper()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dialer, err := egress.New(egress.Config{
		AllowLoopback: true, AllowPorts: []egress.PortRange{{First: 1, Last: 65535}},
		TLS: &tls.Config{RootCAs: roots},
	})
	ok(err)
	db, err := pebblestore.NewMemory()
	ok(err)
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	cfg := hub.Config{URL: server.URL + "/websub/"}
	sender, err := send.NewHTTPSender(send.Config{Hub: cfg.URL}, dialer)
	ok(err)
	transport := sender.Transport()
	surety := &subscription.Surety{}
	dispatcher, err := dispatch.New(
		dispatch.Config{Surety: surety}, dispatch.Stores{Log: db.Log(), Cursors: db.Cursors()},
		db.Subscriptions(), sender, nil, nil,
	)
	ok(err)
	checker, err := hub.NewChecker(cfg, transport, logger, nil)
	ok(err)
	verifier, err := hub.NewVerifier(cfg, transport, nil)
	ok(err)
	r := roster{dispatcher, make(chan subscription.Subscription, 10), make(chan subscription.ID, 10)}
	service, err := subscription.NewService(subscription.Config{Surety: surety}, db.Subscriptions(), checker, verifier, r, logger, nil)
	ok(err)
	h, err := hub.New(cfg, hub.Parts{
		Requests: service, Publisher: dispatcher, Audience: dispatcher, Pings: db.Pings(),
		Checker: checker, Transport: transport, Addresses: dialer, Surety: surety,
	}, logger, nil)
	ok(err)
	handler = h.Handler()

	ctx, cancel := context.WithCancel(context.Background())
	var g errgroup.Group
	g.Go(func() error { return h.Run(ctx) })
	g.Go(func() error { return service.Run(ctx) })
	g.Go(func() error { return dispatcher.Run(ctx) })
	g.Go(func() error { return db.Shards().Run(ctx, holder{surety, dispatcher, service, h}) })
	t.Cleanup(func() {
		server.Close()
		cancel()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return &house{hubURL: cfg.URL, topicURL: topicServer(t, cfg.URL).URL, roster: r}
}

// holder has the rooms take and leave shards in order, as cmd/hub does.
type holder struct {
	*subscription.Surety
	dispatcher *dispatch.Dispatcher
	service    *subscription.Service
	hub        *hub.Hub
}

func (h holder) Gained(ctx context.Context, t delivery.Tenure) error {
	if err := h.service.Gained(ctx, t.Shard); err != nil {
		return err
	}
	if err := h.dispatcher.Gained(ctx, t); err != nil {
		return err
	}
	return h.hub.Gained(ctx, t.Shard)
}

func (h holder) Lost(s subscription.Shard) {
	h.hub.Lost(s)
	h.service.Lost(s) // which hands the dispatcher the rest that it still settles
	h.dispatcher.Lost(s)
}

func (h *house) post(t *testing.T, want int, contentType, body, link string) string {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, h.hubURL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	if link != "" {
		req.Header.Set("Link", link)
	}
	status, _, answer := do(t, req)
	if status != want {
		t.Fatalf("%d %s, want %d", status, answer, want)
	}
	return answer
}

// subscriber confirms everything, and shows what it was asked and what it got.
type subscriber struct {
	url   string
	asked chan url.Values
	got   chan received
}

type received struct {
	query  string
	header http.Header
	body   string
}

func newSubscriber(t *testing.T) *subscriber {
	s := &subscriber{asked: make(chan url.Values, 10), got: make(chan received, 10)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			s.asked <- r.URL.Query()
			_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
			return
		}
		body, _ := io.ReadAll(r.Body)
		s.got <- received{r.URL.RawQuery, r.Header, string(body)}
	}))
	t.Cleanup(server.Close)
	s.url = server.URL + "/cb?id=%7e1"
	return s
}

// TestWholeLife: with the real rooms, from subscribing to the end.
func TestWholeLife(t *testing.T) {
	h, s := newHouse(t, nil), newSubscriber(t)
	topic := h.topicURL + "/good"
	link := fmt.Sprintf("<%s>; rel=self, <%s>; rel=hub", topic, h.hubURL)
	h.post(
		t, 202, formType,
		form(
			"hub.mode", "subscribe", "hub.topic", topic, "hub.callback", s.url, "hub.secret", "key",
			"hub.lease_seconds", "86400", "hub.verify_token", "a b&c",
		),
		"",
	)
	q := <-s.asked
	if q.Get("hub.verify_token") != "a b&c" || q.Get("hub.mode") != "subscribe" || q.Get("hub.topic") != topic || q.Get("hub.lease_seconds") != "86400" || q.Get("id") != "~1" || len(q.Get("hub.challenge")) < 16 {
		t.Errorf("asked %v", q)
	}
	<-h.roster.activated

	id := strings.TrimSpace(h.post(t, 200, "text/plain", "Hello", link))
	got := <-s.got
	mac := hmac.New(sha256.New, []byte("key"))
	_, _ = mac.Write([]byte("Hello"))
	if got.body != "Hello" || got.query != "id=%7e1" || got.header.Get("Content-Type") != "text/plain" ||
		got.header.Get("X-Hub-Notification-Id") != id || got.header.Get("X-Hub-Signature") != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
		t.Errorf("delivered %+v, id %s", got, id)
	}
	h.post(t, 204, formType, form("hub.mode", "publish", "hub.url", topic), "")
	if got := <-s.got; got.body != "the content" || !strings.Contains(got.header.Get("Link"), "<"+topic+`>; rel="self"`) {
		t.Errorf("after the ping %+v", got)
	}
	// A Source that got no answer repeats itself. It gets the same answer, and nothing is delivered twice:
	// the next delivery is the publication after it.
	first := h.post(t, 200, "application/xml", notification, link)
	if again := h.post(t, 200, "application/xml", notification, link); again != first {
		t.Errorf("repeated: %s, then %s", first, again)
	}
	h.post(t, 200, "text/plain", "after", link)
	if one, two := <-s.got, <-s.got; one.body != notification || two.body != "after" {
		t.Errorf("delivered %q, then %q", one.body, two.body)
	}

	h.post(t, 202, formType, form("hub.mode", "unsubscribe", "hub.topic", topic, "hub.callback", s.url, "hub.verify_token", "bye"), "")
	if q := <-s.asked; q.Get("hub.mode") != "unsubscribe" || q.Get("hub.topic") != topic || q.Get("hub.verify_token") != "bye" {
		t.Errorf("asked %v", q)
	}
	if id := <-h.roster.ended; id != subscription.NewID(topic, s.url) {
		t.Errorf("ended %v", id)
	}
}

// TestOneConnectionForAll: the check of a topic, the verification of a callback on the same
// host, the fetch of the topic and the deliveries use one connection, with one handshake.
func TestOneConnectionForAll(t *testing.T) {
	var h *house
	var requests, handshakes, topic string
	var mu sync.Mutex // guards these strings
	note := func(to *string, what string) {
		mu.Lock()
		defer mu.Unlock()
		*to += what + " "
	}
	delivered := make(chan string, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note(&requests, r.Method+r.URL.Path)
		switch {
		case r.Method == http.MethodPost:
			body, _ := io.ReadAll(r.Body)
			delivered <- string(body)
		case r.URL.Path == "/cb":
			_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
		default:
			w.Header().Set("Link", fmt.Sprintf("<%s>;rel=self, <%s>;rel=hub", topic, h.hubURL))
			_, _ = io.WriteString(w, "the content")
		}
	}))
	server.TLS = &tls.Config{VerifyConnection: func(s tls.ConnectionState) error {
		note(&handshakes, fmt.Sprintf("resumed:%t", s.DidResume))
		return nil
	}}
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	h, topic = newHouseTrusting(t, nil, roots), server.URL+"/topic"

	h.post(t, 202, formType, form("hub.mode", "subscribe", "hub.topic", topic, "hub.callback", server.URL+"/cb"), "")
	<-h.roster.activated
	for _, link := range []string{"", fmt.Sprintf("<%s>; rel=self, <%s>; rel=hub", topic, h.hubURL)} {
		if link == "" {
			h.post(t, 204, formType, form("hub.mode", "publish", "hub.url", topic), "")
		} else {
			h.post(t, 200, "text/plain", "the content", link)
		}
		if got := <-delivered; got != "the content" {
			t.Errorf("delivered %q", got)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if want := "HEAD/topic GET/cb GET/topic POST/cb POST/cb "; requests != want {
		t.Errorf("requests %s, want %s", requests, want)
	}
	if want := "resumed:false "; handshakes != want {
		t.Errorf("handshakes %s, want %s", handshakes, want)
	}
}

// TestDeniedSubscription: a topic that does not name the hub is 202 and then denied.
func TestDeniedSubscription(t *testing.T) {
	h, s := newHouse(t, nil), newSubscriber(t)
	topic := h.topicURL + "/other"
	h.post(t, 202, formType, form("hub.mode", "subscribe", "hub.topic", topic, "hub.callback", s.url), "")
	q := <-s.asked
	if q.Get("hub.mode") != "denied" || q.Get("hub.topic") != topic || q.Has("hub.challenge") ||
		q.Get("hub.reason") != "none of its links with rel=hub names this hub" {
		t.Errorf("told %v", q)
	}
}

// logged gives each line of a log.
type logged chan string

func (l logged) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// TestLogKeepsSecrets: the address of a callback is a secret of the subscriber (WebSub §8.2), and a
// challenge one of the callback. Neither is in the log, at any level.
func TestLogKeepsSecrets(t *testing.T) {
	lines := make(logged, 1000)
	h := newHouse(t, slog.New(slog.NewTextHandler(lines, &slog.HandlerOptions{Level: slog.LevelDebug})))
	silent, requests := listen(t, "")
	notThere := "http://127.0.0.1:1/s3cret-path?token=s3cret"
	for _, callback := range []string{silent + "/s3cret-path?token=s3cret", notThere} {
		h.post(t, 202, formType, form("hub.mode", "unsubscribe", "hub.topic", h.topicURL+"/good", "hub.callback", callback), "")
	}
	_, challenge, _ := strings.Cut((<-requests)[0], "hub.challenge=")
	challenge = challenge[:16]
	for failed := 0; failed < 2; {
		line := <-lines
		if strings.Contains(line, "s3cret") || strings.Contains(line, challenge) || strings.Contains(line, "hub.challenge") {
			t.Errorf("logged: %s", line)
		}
		if strings.Contains(line, "callback did not answer") {
			failed++
		}
	}
}
