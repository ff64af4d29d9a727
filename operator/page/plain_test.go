package page_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/internal/browsertest"
	"carillon/operator/api"
	"carillon/operator/page"
)

// watched is a handler whose answers are noted.
type watched struct {
	http.Handler
	mu       sync.Mutex
	statuses map[string][]int // by path. Owned by mu.
}

func (h *watched) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.Handler.ServeHTTP(&recorded{ResponseWriter: w, note: func(status int) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.statuses[r.URL.Path] = append(h.statuses[r.URL.Path], status)
	}}, r)
}

// of returns the statuses of a path so far, and forgets them.
func (h *watched) of(path string) []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.statuses[path]
	delete(h.statuses, path)
	return all
}

type recorded struct {
	http.ResponseWriter
	note func(int)
	once sync.Once
}

func (n *recorded) WriteHeader(status int) {
	n.once.Do(func() { n.note(status) })
	n.ResponseWriter.WriteHeader(status)
}

func (n *recorded) Unwrap() http.ResponseWriter { return n.ResponseWriter }

// On a network without TLS browsers do not say who asks but by Origin and Referer. There an
// operator signs in, listens, changes something and signs out; and a page at another port of the
// same host, which has his cookie sent, starts nothing.
func TestPlainHTTPOnANetwork(t *testing.T) {
	const good = "0123456789abcdef"
	quiet := slog.New(slog.DiscardHandler)
	auth := api.NewAuth(func() string { return good }, quiet)
	d := newFixture()
	hub := &watched{statuses: map[string][]int{}, Handler: api.Handler(api.Config{
		Auth: auth, Metrics: prometheus.NewRegistry(), Logger: quiet, Service: d, Profiles: true,
		Pages: page.New(page.Config{Service: d, Auth: auth, Level: &level{name: "info"}, Every: 50 * time.Millisecond, Logger: quiet}),
	})}
	origin := onNetwork(t, hub)
	tab := browsertest.Start(t).Tab(t, origin)

	tab.Open("/topics")
	tab.Do(chromedp.SendKeys(chromedp.ID("token"), good))
	tab.Follow(chromedp.Submit(chromedp.ID("token")))
	tab.See("Sign out")
	listen := "/listen/live?topic=" + url.QueryEscape(d.topics[0].Topic)
	got := chromedp.Evaluate[int64](`fetch("`+listen+`").then(r => r.status)`, chromedp.EvalAwaitPromise)
	if status := browsertest.Ask(tab, got); status != http.StatusOK {
		t.Errorf("a page of ours that listens gets %d", status)
	}
	tab.Open("/sources/library/revoke")
	tab.Follow(chromedp.Click("//button[normalize-space()='Revoke it']"))
	if said := hub.of("/sources/library/revoke"); len(said) < 2 || said[1] != http.StatusSeeOther {
		t.Errorf("revoking a Source: %v; want 200 and 303", said)
	}

	paths := []string{listen, "/live", "/api/v1/events", "/api/v1/overview", "/debug/pprof/cmdline"}
	neighbour := onNetwork(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Referrer-Policy", "no-referrer")
		_, _ = w.Write([]byte("a neighbour's page"))
	}))
	for _, path := range paths {
		hub.of(strings.SplitN(path, "?", 2)[0])
	}
	tab.Do(chromedp.Navigate(neighbour + "/"))
	for _, path := range paths {
		browsertest.Ask(tab, chromedp.Evaluate[bool](
			`fetch("`+origin+path+`", {mode: "no-cors", credentials: "include", referrerPolicy: "no-referrer"}).then(() => true, () => true)`, chromedp.EvalAwaitPromise))
		bare := strings.SplitN(path, "?", 2)[0]
		if said := hub.of(bare); len(said) != 1 || said[0] != http.StatusForbidden {
			t.Errorf("a page at another port asks for %s: %v; want 403", bare, said)
		}
	}
	tab.Errors() // that it asked another server, and was refused

	tab.Open("/topics")
	tab.Follow(chromedp.Click("//button[text()='Sign out']"))
	tab.Open("/")
	tab.See("The operator's token")
}

// onNetwork serves a handler where the browser takes it for one on a network, and returns its origin.
func onNetwork(t *testing.T, h http.Handler) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return "http://" + browsertest.Network + s.URL[strings.LastIndex(s.URL, ":"):]
}
