package hub_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/delivery"
	"carillon/hub"
	"carillon/internal/egress"
	"carillon/subscription"
	"carillon/topic"
)

// requests stands for the subscription.Service.
type requests struct {
	mu     sync.Mutex
	err    error
	wishes []subscription.Wish
	denied []string // callback and reason
}

func (r *requests) Submit(_ context.Context, w subscription.Wish) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.wishes = append(r.wishes, w)
	}
	return r.err
}

func (r *requests) Deny(_ context.Context, sub subscription.Subscription, reason string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.denied = append(r.denied, sub.Callback+": "+reason)
	}
	return r.err
}

func (r *requests) last(t *testing.T) subscription.Wish {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.wishes) == 0 {
		t.Fatal("nothing was submitted")
	}
	return r.wishes[len(r.wishes)-1]
}

func (r *requests) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

// publisher stands for the dispatch.Dispatcher.
type publisher struct {
	mu        sync.Mutex
	err       error
	published []delivery.Publication
	did       chan struct{} // has room for every publication of a test
}

var theID = uuid.MustParse("00000000-0000-4000-8000-000000000001")

func (p *publisher) Publish(_ context.Context, pub delivery.Publication) (delivery.Receipt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return delivery.Receipt{}, p.err
	}
	p.published = append(p.published, pub)
	p.did <- struct{}{}
	return delivery.Receipt{ID: theID, Seq: delivery.Seq(len(p.published))}, nil
}

func (p *publisher) all() []delivery.Publication {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]delivery.Publication(nil), p.published...)
}

func (p *publisher) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

// pings is delivery.Pings in memory. It outlives the hub that uses it.
type pings struct {
	mu    sync.Mutex
	err   error
	count uint64
	kept  map[string]delivery.Ping
	// read, if not nil, is waited for by Waiting after it has read.
	read chan struct{}
}

func (p *pings) Ping(_ context.Context, topics []topic.Address) ([]delivery.Ping, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return nil, p.err
	}
	var noted []delivery.Ping
	for _, at := range topics {
		p.count++
		one := delivery.Ping{Topic: at, Count: p.count}
		p.kept[at.Key()] = one
		noted = append(noted, one)
	}
	return noted, nil
}

func (p *pings) Fetched(_ context.Context, one delivery.Ping) (*delivery.Ping, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return nil, p.err
	}
	kept, ok := p.kept[one.Topic.Key()]
	if ok && kept.Count != one.Count {
		return &kept, nil
	}
	delete(p.kept, one.Topic.Key())
	return nil, nil
}

func (p *pings) Waiting(context.Context) iter.Seq2[delivery.Ping, error] {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []delivery.Ping
	for _, one := range p.kept {
		all = append(all, one)
	}
	err := p.err
	return func(yield func(delivery.Ping, error) bool) {
		if p.read != nil {
			<-p.read
		}
		if err != nil {
			yield(delivery.Ping{}, err)
			return
		}
		for _, one := range all {
			if !yield(one, nil) {
				return
			}
		}
	}
}

func (p *pings) waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.kept)
}

func (p *pings) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

// audience is who subscribes, by topic.
type audience struct {
	mu   sync.Mutex
	subs map[string][]subscription.Subscription
}

func (a *audience) Topics() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.subs))
}

func (a *audience) Subscribers(topic string) []subscription.Subscription {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.subs[topic]
}

func (a *audience) Spelling(topic string) (string, bool) {
	subs := a.Subscribers(topic)
	if len(subs) == 0 {
		return "", false
	}
	return subs[0].Topic, true
}

// is sets who subscribes.
func (a *audience) is(subs map[string][]subscription.Subscription) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.subs = subs
}

// doFunc is a transport made of a function.
type doFunc func(*http.Request) (*http.Response, error)

func (f doFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// address is the URL that a request was made to.
func address(r *http.Request) string { return r.URL.Scheme + "://" + r.URL.Host + r.URL.RequestURI() }

// respond makes an answer of a status, header lines and a body.
func respond(r *http.Request, status int, body string, header ...string) *http.Response {
	resp := &http.Response{
		StatusCode: status, Header: http.Header{}, Request: r,
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		resp.Header.Add(name, value)
	}
	return resp
}

// anywhere lets every address be.
type anywhere struct{}

func (anywhere) CheckURL(string) error { return nil }

const hubURL = "https://hub.example/websub/"

// good is the Link header of a topic that names the hub.
func good(topic string) string {
	return fmt.Sprintf(`Link: <%s>; rel="self", <%s>; rel="hub"`, topic, hubURL)
}

// stage is a hub among stand-ins.
type stage struct {
	hub       *hub.Hub
	checker   *hub.Checker
	requests  *requests
	publisher *publisher
	pings     *pings
	audience  *audience
	registry  *prometheus.Registry
	surety    *subscription.Surety
	logger    *slog.Logger // of the hub; rebuild takes it up
	sources   hub.Sources  // likewise
	memory    hub.Memory   // likewise
}

// newStage makes a hub whose requests to the world go through transport.
func newStage(t testing.TB, cfg hub.Config, transport http.RoundTripper, addresses hub.Addresses) *stage {
	t.Helper()
	return newStageWith(t, cfg, transport, addresses, func(*stage) {})
}

// newStageWith lets prepare change what the hub is made with.
func newStageWith(t testing.TB, cfg hub.Config, transport http.RoundTripper, addresses hub.Addresses, prepare func(*stage)) *stage {
	t.Helper()
	s := &stage{
		requests:  &requests{},
		publisher: &publisher{did: make(chan struct{}, 1000)},
		pings:     &pings{kept: map[string]delivery.Ping{}},
		audience:  &audience{},
		registry:  prometheus.NewRegistry(),
	}
	prepare(s)
	s.rebuild(t, cfg, transport, addresses)
	return s
}

// rebuild makes the hub anew over what is kept, as a restart does.
func (s *stage) rebuild(t testing.TB, cfg hub.Config, transport http.RoundTripper, addresses hub.Addresses) {
	t.Helper()
	var err error
	s.registry, s.surety = prometheus.NewRegistry(), &subscription.Surety{}
	if s.checker, err = hub.NewChecker(cfg, transport, nil, s.registry); err != nil {
		t.Fatal(err)
	}
	s.hub, err = hub.New(cfg, hub.Parts{
		Requests: s.requests, Publisher: s.publisher, Audience: s.audience, Pings: s.pings,
		Checker: s.checker, Transport: transport, Addresses: addresses, Sources: s.sources,
		Memory: s.memory, Surety: s.surety,
	}, s.logger, s.registry)
	if err != nil {
		t.Fatal(err)
	}
	for shard := range subscription.Shard(subscription.Shards) {
		if err := s.hub.Gained(t.Context(), shard); err != nil {
			t.Fatal(err)
		}
	}
}

// serve puts a hub in the place of the stage's, whose requests go to another server.
func (s *stage) serve(t testing.TB, cfg hub.Config, requests hub.Requests, transport http.RoundTripper) {
	t.Helper()
	var err error
	s.hub, err = hub.New(cfg, hub.Parts{
		Requests: requests, Publisher: s.publisher, Audience: s.audience, Pings: s.pings,
		Checker: s.checker, Transport: transport, Addresses: anywhere{},
	}, s.logger, nil)
	if err != nil {
		t.Fatal(err)
	}
	for shard := range subscription.Shard(subscription.Shards) {
		if err := s.hub.Gained(t.Context(), shard); err != nil {
			t.Fatal(err)
		}
	}
}

// town is a hub on a real server, which reaches the loopback network only, and a
// topic server beside it.
type town struct {
	*stage
	hubURL   string
	topicURL string
}

// newTown starts both servers. The topic server serves the topics of topicServer.
func newTown(t testing.TB, change func(*hub.Config)) *town {
	t.Helper()
	return newTownWith(t, change, func(*stage) {})
}

// newTownWith lets prepare change what the hub is made with.
func newTownWith(t testing.TB, change func(*hub.Config), prepare func(*stage)) *town {
	t.Helper()
	dialer, err := egress.New(egress.Config{AllowLoopback: true, AllowPorts: []egress.PortRange{{First: 1, Last: 65535}}})
	if err != nil {
		t.Fatal(err)
	}
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	cfg := hub.Config{URL: server.URL + "/websub/"}
	if change != nil {
		change(&cfg)
	}
	topics := topicServer(t, server.URL+"/websub/")
	s := newStageWith(t, cfg, wayOut(t, dialer).Transport(), dialer, prepare)
	handler = s.hub.Handler()
	return &town{stage: s, hubURL: cfg.URL, topicURL: topics.URL}
}

// topicServer serves /good (names the hub), /post-head (refuses HEAD), /204, /other (names
// another hub), /elsewhere (names another self), /bare (no links), /moved (redirects),
// /down (503), and 404 for the rest.
func topicServer(t testing.TB, hubURL string) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	link := func(self, hub string) string {
		return fmt.Sprintf("<%s%s>;rel=self, <%s>;rel=hub", server.URL, self, hub)
	}
	serve := func(path string, status int, link string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			if link != "" {
				w.Header().Set("Link", link)
			}
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(status)
			if status == http.StatusOK {
				_, _ = io.WriteString(w, "the content")
			}
		})
	}
	serve("/good", 200, link("/good", hubURL))
	serve("/set/change/", 200, link("/set/change/", hubURL))
	serve("/204", 204, link("/204", hubURL))
	serve("GET /get-only", 200, link("/get-only", hubURL))
	mux.HandleFunc("HEAD /get-only", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(405) })
	serve("/other", 200, link("/other", "https://another.example/"))
	serve("/elsewhere", 200, link("/somewhere", hubURL))
	serve("/bare", 200, "")
	serve("/down", 503, "")
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/good", http.StatusFound) })
	return server
}

// post sends a POST and returns the status, the header and the body of the answer.
func (w *town) post(t testing.TB, contentType, body string, header ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, w.hubURL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Add(name, value)
	}
	return do(t, req)
}

func do(t testing.TB, req *http.Request) (int, http.Header, string) {
	t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(body)
}

const formType = "application/x-www-form-urlencoded"
