package hub_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"carillon/hub"
	registered "carillon/source"
)

// shelf keeps Sources in memory: a registered.Store of which only List is asked.
type shelf struct {
	registered.Store
	mu  sync.Mutex
	all []registered.Source // guarded by mu
	err error               // guarded by mu
}

func (s *shelf) List(context.Context) ([]registered.Source, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all, s.err
}

func (s *shelf) set(err error, all ...registered.Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all, s.err = all, err
}

// guarded is a town whose hub lets registered Sources publish alone, and what it logs.
type guarded struct {
	*town
	shelf *shelf
	known *registered.Registry
	token registered.Token // for what is below /good and /set/ of the topics
	log   *logText
}

type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	g := &guarded{shelf: &shelf{}, log: &logText{}}
	var err error
	if g.known, err = registered.NewRegistry(g.shelf, registered.Config{}, nil, nil); err != nil {
		t.Fatal(err)
	}
	g.town = newTownWith(t, nil, func(s *stage) {
		s.sources, s.logger = g.known, slog.New(slog.NewTextHandler(g.log, nil))
	})
	one, token, err := registered.New("bell-tower", []string{g.topicURL + "/good", g.topicURL + "/set/"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	g.token = token
	g.shelf.set(nil, one)
	g.refresh(t)
	return g
}

func (g *guarded) refresh(t *testing.T) {
	t.Helper()
	if err := g.known.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func bearer(token registered.Token) string { return "Authorization: Bearer " + string(token) }

// link is the Link header of a publication to a topic of the town.
func (g *guarded) link(path string) string {
	return fmt.Sprintf(`Link: <%s%s>;rel=self, <%s>;rel=hub`, g.topicURL, path, g.hubURL)
}

func (g *guarded) pingOf(paths ...string) string {
	form := url.Values{"hub.mode": {"publish"}}
	for i, path := range paths {
		form.Add([]string{"hub.url", "hub.topic"}[i%2], g.topicURL+path)
	}
	return form.Encode()
}

// TestWhoMayPublish: the answers to a publication and a ping, by their tokens.
func TestWhoMayPublish(t *testing.T) {
	g := newGuarded(t)
	const plain = `Bearer realm="carillon"`
	for name, row := range map[string]struct {
		header    []string
		path      string
		publish   int
		ping      int
		challenge string
	}{
		"the Source":                {[]string{bearer(g.token)}, "/good", 200, 204, ""},
		"the Source, elsewhere":     {[]string{bearer(g.token)}, "/set/change/", 200, 204, ""},
		"in small letters":          {[]string{"Authorization: bearer " + string(g.token)}, "/good", 200, 204, ""},
		"nobody":                    {nil, "/good", 401, 401, plain},
		"another scheme":            {[]string{"Authorization: Basic YTpi"}, "/good", 401, 401, plain},
		"a wrong token":             {[]string{bearer("carillon_wrong")}, "/good", 401, 401, plain + `, error="invalid_token"`},
		"a token and more":          {[]string{bearer(g.token + "a")}, "/good", 401, 401, plain + `, error="invalid_token"`},
		"two tokens":                {[]string{bearer(g.token), bearer(g.token)}, "/good", 400, 400, plain + `, error="invalid_request"`},
		"no token by its syntax":    {[]string{bearer(g.token + " b")}, "/good", 400, 400, plain + `, error="invalid_request"`},
		"another topic":             {[]string{bearer(g.token)}, "/get-only", 403, 403, plain + `, error="insufficient_scope"`},
		"a topic beside the path":   {[]string{bearer(g.token)}, "/goodness", 403, 403, plain + `, error="insufficient_scope"`},
		"a topic that is elsewhere": {[]string{bearer(g.token)}, "/good/%2e%2e/get-only", 403, 403, plain + `, error="insufficient_scope"`},
		"its topic that refuses":    {[]string{bearer(g.token)}, "/good/none", 403, 204, ""}, // the topic check stays
	} {
		t.Run(name, func(t *testing.T) {
			status, header, body := g.post(t, "text/plain", "news", append(row.header, g.link(row.path))...)
			if status != row.publish || header.Get("WWW-Authenticate") != row.challenge {
				t.Errorf("publishing: %d, %q, %s; want %d, %q", status, header.Get("WWW-Authenticate"), body, row.publish, row.challenge)
			}
			leaks(t, g, body)
			status, header, body = g.post(t, formType, g.pingOf(row.path), row.header...)
			if status != row.ping || header.Get("WWW-Authenticate") != row.challenge {
				t.Errorf("a ping: %d, %q, %s; want %d, %q", status, header.Get("WWW-Authenticate"), body, row.ping, row.challenge)
			}
			leaks(t, g, body)
		})
	}
	if n := len(g.publisher.all()); n != 3 {
		t.Errorf("%d were published", n)
	}
	leaks(t, g, g.log.String())
	if !strings.Contains(g.log.String(), "source=bell-tower") {
		t.Errorf("the log does not tell the Source: %s", g.log)
	}
}

// leaks fails if the text has the token in it.
func leaks(t *testing.T, g *guarded, text string) {
	t.Helper()
	if strings.Contains(text, string(g.token)) {
		t.Errorf("the token is told: %s", text)
	}
}

// A token decides how to read a value that may be a list of topics, or one topic with commas in it.
func TestListOfARegisteredSource(t *testing.T) {
	for name, row := range map[string]struct {
		value string // T is the topics' server
		want  int
		pings int
	}{
		"a list":                           {"T/good,T/set/a", 204, 2},
		"a list, or a topic":               {"T/set/a,T/set/b", 204, 3},
		"a topic with a foreign URL in it": {"T/set/of?u=T/get-only,http://elsewhere.example/", 204, 1},
		"a list with a foreign topic":      {"T/good,T/get-only", 403, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuarded(t)
			form := url.Values{"hub.mode": {"publish"}, "hub.url": {strings.ReplaceAll(row.value, "T/", g.topicURL+"/")}}
			status, _, body := g.post(t, formType, form.Encode(), bearer(g.token))
			if pings := g.pings.waiting(); status != row.want || pings != row.pings {
				t.Errorf("%d %s, %d topics; want %d, %d", status, body, pings, row.want, row.pings)
			}
		})
	}
}

// A ping is taken whole or refused whole.
func TestAPingOfSeveralTopics(t *testing.T) {
	g := newGuarded(t)
	for status, paths := range map[int][]string{
		204: {"/good", "/set/a"},
		403: {"/good", "/get-only", "/set/a"},
	} {
		before := g.pings.waiting()
		if got, _, body := g.post(t, formType, g.pingOf(paths...), bearer(g.token)); got != status {
			t.Errorf("%v: %d %s; want %d", paths, got, body, status)
		}
		if status == 403 && g.pings.waiting() != before {
			t.Error("a part of a refused ping was noted")
		}
	}
}

// A client that may not publish may subscribe.
func TestEverybodyMaySubscribe(t *testing.T) {
	g := newGuarded(t)
	form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {g.topicURL + "/get-only"}, "hub.callback": {g.topicURL + "/callback"}}
	for _, header := range [][]string{nil, {bearer("carillon_wrong")}, {"Authorization: Basic YTpi"}} {
		if status, _, body := g.post(t, formType, form.Encode(), header...); status != 202 {
			t.Errorf("%v: %d %s", header, status, body)
		}
	}
}

// An open hub does not look at tokens.
func TestAnOpenHubIgnoresTokens(t *testing.T) {
	w := newTown(t, nil)
	link := fmt.Sprintf(`Link: <%s/good>;rel=self, <%s>;rel=hub`, w.topicURL, w.hubURL)
	for _, header := range [][]string{nil, {bearer("carillon_wrong")}, {"Authorization: Basic a", "Authorization: Bearer b c"}} {
		if status, _, body := w.post(t, "text/plain", "news", append(header, link)...); status != 200 {
			t.Errorf("%v: %d %s", header, status, body)
		}
	}
}

// Neither the body nor the topic of a publication is looked at before its token.
func TestATokenIsAskedForFirst(t *testing.T) {
	g := newGuarded(t)
	u, _ := url.Parse(g.hubURL)
	for status, header := range map[int]string{
		401: "Link: <http://topic.invalid/>;rel=self, <" + g.hubURL + ">;rel=hub",
		403: bearer(g.token) + "\r\nLink: <http://127.0.0.1:1/>;rel=self, <" + g.hubURL + ">;rel=hub",
	} {
		conn, err := net.Dial("tcp", u.Host)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		// The body never comes, and the hub never asks for it.
		fmt.Fprintf(
			conn,
			"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n%s\r\n\r\n",
			u.Path, u.Host, header,
		)
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(answer), fmt.Sprintf("HTTP/1.1 %d ", status)) {
			t.Errorf("%v, %s; want %d at once", err, answer, status)
		}
	}
	const none = `
# HELP carillon_hub_topic_checks_total Topics asked whether they name this hub, by result.
# TYPE carillon_hub_topic_checks_total counter
carillon_hub_topic_checks_total{result="away"} 0
carillon_hub_topic_checks_total{result="good"} 0
carillon_hub_topic_checks_total{result="refused"} 0
`
	if err := testutil.GatherAndCompare(g.stage.registry, strings.NewReader(none), "carillon_hub_topic_checks_total"); err != nil {
		t.Errorf("topics were asked: %v", err)
	}
}

// A token that is revoked while the body comes is good for nothing.
func TestRevokedInTheMiddle(t *testing.T) {
	g := newGuarded(t)
	content, body := io.Pipe()
	req, err := http.NewRequest(http.MethodPost, g.hubURL, content)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "text/plain")
	req.Header.Set("Authorization", "Bearer "+string(g.token))
	_, link, _ := strings.Cut(g.link("/good"), ": ")
	req.Header.Set("Link", link)
	go func() {
		_, _ = io.WriteString(body, "the first part")
		g.shelf.set(nil)
		_ = g.known.Refresh(context.Background()) // it does not fail
		_, _ = io.WriteString(body, "the second")
		_ = body.Close()
	}()
	if status, _, answer := do(t, req); status != 401 || len(g.publisher.all()) > 0 {
		t.Errorf("%d %s, %d published", status, answer, len(g.publisher.all()))
	}
}

// While the Sources cannot be read no publisher is refused for good.
func TestSourcesAreAway(t *testing.T) {
	g := newGuarded(t)
	g.shelf.set(fmt.Errorf("%w: away", registered.ErrUnavailable))
	status, header, body := g.post(t, "text/plain", "news", bearer("carillon_wrong"), g.link("/good"))
	if status != 503 || header.Get("Retry-After") == "" || strings.Contains(body, "away") {
		t.Errorf("a token that was not known: %d %v %s", status, header, body)
	}
	if status, _, body := g.post(t, "text/plain", "news", bearer(g.token), g.link("/good")); status != 200 {
		t.Errorf("a token that was known: %d %s", status, body)
	}
}

// Refusals are counted each, and logged now and then.
func TestRefusalsAreCounted(t *testing.T) {
	g := newGuarded(t)
	const times = 20
	for range times {
		g.post(t, "text/plain", "news", g.link("/good"))
		g.post(t, formType, g.pingOf("/good"), bearer("carillon_wrong"))
		g.post(t, "text/plain", "news", bearer(g.token), g.link("/get-only"))
		g.post(t, "text/plain", "news", bearer("a b"), g.link("/get-only"))
	}
	want := fmt.Sprintf(`
# HELP carillon_hub_publishers_refused_total Publications and pings refused as who sent them may not publish, or not to that topic.
# TYPE carillon_hub_publishers_refused_total counter
carillon_hub_publishers_refused_total{kind="answer",reason="malformed"} 0
carillon_hub_publishers_refused_total{kind="answer",reason="no_token"} 0
carillon_hub_publishers_refused_total{kind="answer",reason="outside"} 0
carillon_hub_publishers_refused_total{kind="answer",reason="unknown"} 0
carillon_hub_publishers_refused_total{kind="ping",reason="malformed"} 0
carillon_hub_publishers_refused_total{kind="ping",reason="no_token"} 0
carillon_hub_publishers_refused_total{kind="ping",reason="outside"} 0
carillon_hub_publishers_refused_total{kind="ping",reason="unknown"} %[1]d
carillon_hub_publishers_refused_total{kind="publish",reason="malformed"} %[1]d
carillon_hub_publishers_refused_total{kind="publish",reason="no_token"} %[1]d
carillon_hub_publishers_refused_total{kind="publish",reason="outside"} %[1]d
carillon_hub_publishers_refused_total{kind="publish",reason="unknown"} 0
`, times)
	if err := testutil.GatherAndCompare(g.stage.registry, strings.NewReader(want), "carillon_hub_publishers_refused_total"); err != nil {
		t.Error(err)
	}
	if log := g.log.String(); strings.Count(log, "a publisher was refused") != strings.Count(log, `client="this machine"`) {
		t.Errorf("not every line says who sent it:\n%s", log)
	}
	if n := strings.Count(g.log.String(), "a publisher was refused"); n < 4 || n > 12 {
		t.Errorf("%d lines for %d refusals of four kinds:\n%s", n, 4*times, g.log)
	}
}

// The page says what is needed, and only where it is.
func TestPageTellsOfTokens(t *testing.T) {
	g, open := newGuarded(t), newTown(t, func(*hub.Config) {})
	for _, accept := range []string{"text/html", "text/plain"} {
		_, _, body := g.get(t, http.MethodGet, accept)
		if !strings.Contains(strings.ToLower(body), "only registered sources may publish here") || strings.Count(body, `Bearer $TOKEN`) != 2 {
			t.Errorf("%s: the page of a hub with registered Sources:\n%s", accept, body)
		}
		if _, _, body := open.get(t, http.MethodGet, accept); strings.Contains(body, "TOKEN") {
			t.Errorf("%s: the page of an open hub speaks of tokens", accept)
		}
	}
}
