package hub_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon/hub"
	"carillon/internal/egress"
	"carillon/subscription"
)

const topicURL = "https://source.example/topic"

// TestTopicCheck: the result for each kind of topic, and the requests made for it.
func TestTopicCheck(t *testing.T) {
	links := strings.TrimPrefix(good(topicURL), "Link: ")
	atom := `<feed xmlns="http://www.w3.org/2005/Atom"><link rel="self" href="/topic"/><link rel="hub" href="` + hubURL + `"/>`
	html := `<!doctype html><head><link rel=hub href="` + hubURL + `"><link rel=self href="` + topicURL + `"></head><body>`
	type reply struct {
		status int
		header []string
		body   string
	}
	link := func(status int, value string) reply { return reply{status: status, header: []string{"Link: " + value}} }
	refused, away := &subscription.Refusal{}, hub.ErrTopicAway
	tests := []struct {
		name      string
		head, get reply
		want      error
		asked     string
		says      string
	}{
		{"HEAD shows it", link(200, links), reply{}, nil, "HEAD", ""},
		{"204 shows it", link(204, links), reply{}, nil, "HEAD", ""},
		{"relative self", link(200, `</topic>; rel=self, <`+hubURL+`>; rel=hub`), reply{}, nil, "HEAD", ""},
		{"self in another spelling", link(
			200, `<https://source.example/%74opic>; rel=self, <HTTPS://HUB.example:443/websub>; rel=hub`,
		), reply{}, nil, "HEAD", ""},
		{"HEAD refused with 405", reply{status: 405}, link(200, links), nil, "HEAD GET", ""},
		{"HEAD refused with 501", reply{status: 501}, link(202, links), nil, "HEAD GET", ""},
		{"HEAD refused with 404", reply{status: 404}, link(200, links), nil, "HEAD GET", ""},
		{"HEAD without links", reply{status: 200}, link(200, links), nil, "HEAD GET", ""},
		{"Atom", reply{status: 200}, reply{200, []string{"Content-Type: application/atom+xml"}, atom}, nil, "HEAD GET", ""},
		{"HTML", reply{status: 200}, reply{200, []string{"Content-Type: text/html"}, html}, nil, "HEAD GET", ""},
		{"hub in the header, self in the page", link(200, `<`+hubURL+`>; rel=hub`), reply{
			200, []string{"Content-Type: text/html", `Link: <` + hubURL + `>; rel=hub`}, html,
		}, nil, "HEAD GET", ""},
		{
			"self in the header goes before that of the page",
			reply{status: 200},
			reply{
				200,
				[]string{"Content-Type: text/html", `Link: <` + topicURL + `>; rel=self`},
				strings.Replace(html, topicURL, "https://x.example/", 1),
			},
			nil, "HEAD GET", "",
		},
		{
			"header goes before the page",
			reply{status: 200},
			reply{200, []string{"Content-Type: text/html", `Link: <https://x.example/>; rel=self, <` + hubURL + `>; rel=hub`}, html},
			refused, "HEAD GET", "another address",
		},
		{"no links at all", reply{status: 200}, reply{status: 200}, refused, "HEAD GET", "no link with rel=self"},
		{
			"another hub", link(200, `<`+topicURL+`>; rel=self, <https://x.example/>; rel=hub`),
			link(200, `<`+topicURL+`>; rel=self, <https://x.example/>; rel=hub`), refused,
			"HEAD GET", "names this hub",
		},
		{"several selves", link(
			200, links+`, <https://x.example/>; rel=self`,
		), link(200, links+`, <https://x.example/>; rel=self`), refused, "HEAD GET", "another address"},
		{"redirect", reply{
			301, []string{"Location: " + topicURL + "2"}, "",
		}, reply{301, []string{"Location: " + topicURL + "2"}, ""}, refused, "HEAD GET", "redirect (301)"},
		{"gone", reply{status: 410}, reply{status: 410}, refused, "HEAD GET", "status 410"},
		{"broken", reply{status: 500}, reply{status: 500}, away, "HEAD GET", "500"},
		{"busy", reply{status: 429}, reply{status: 429}, away, "HEAD", "429"},
		{"overloaded", reply{status: 503}, link(200, links), away, "HEAD", "503"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var asked []string
			c := newChecker(t, hub.Config{URL: hubURL}, func(r *http.Request) (*http.Response, error) {
				asked = append(asked, r.Method)
				a := tt.head
				if r.Method == http.MethodGet {
					a = tt.get
				}
				if ua := r.UserAgent(); ua != "Carillon/dev (+"+hubURL+")" {
					t.Errorf("User-Agent %q", ua)
				}
				return respond(r, a.status, a.body, a.header...), nil
			})
			err := c.Validate(t.Context(), topicURL)
			var refusal *subscription.Refusal
			switch {
			case tt.want == nil && err != nil, tt.want == refused && !errors.As(err, &refusal), tt.want == away && !errors.Is(err, away):
				t.Errorf("got %v", err)
			case err != nil && !strings.Contains(err.Error(), tt.says):
				t.Errorf("%q does not say %q", err, tt.says)
			}
			if got := strings.Join(asked, " "); got != tt.asked {
				t.Errorf("asked %s, want %s", got, tt.asked)
			}
		})
	}
}

func newChecker(t *testing.T, cfg hub.Config, do doFunc) *hub.Checker {
	t.Helper()
	c, err := hub.NewChecker(cfg, do, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTopicCheckWithoutAnswer(t *testing.T) {
	asked := 0
	answer := fmt.Errorf("dial: %w", egress.ErrForbidden)
	c := newChecker(t, hub.Config{URL: hubURL}, func(*http.Request) (*http.Response, error) {
		asked++
		return nil, answer
	})
	var refusal *subscription.Refusal
	err := c.Validate(t.Context(), topicURL)
	if !errors.As(err, &refusal) {
		t.Errorf("a forbidden address: %v, want a refusal", err)
	}
	// Strangers do not learn the addresses that a name resolves to.
	for _, word := range []string{"network", "private", "forbidden"} {
		if strings.Contains(err.Error(), word) {
			t.Errorf("the refusal says %q: %v", word, err)
		}
	}
	answer, asked = errors.New("connection refused"), 0
	if err := c.Validate(t.Context(), topicURL+"2"); !errors.Is(err, hub.ErrTopicAway) || asked != 1 {
		t.Errorf("no connection: %v after %d requests", err, asked)
	}
	// That a server is away is not remembered.
	if _ = c.Validate(t.Context(), topicURL+"2"); asked != 2 {
		t.Error("an outage is remembered")
	}
}

// TestTopicCheckReadsLittle: a topic that never ends is not read to its end.
func TestTopicCheckReadsLittle(t *testing.T) {
	read := &endless{}
	c := newChecker(t, hub.Config{URL: hubURL}, func(r *http.Request) (*http.Response, error) {
		resp := respond(r, 200, "", "Content-Type: text/html")
		resp.Body = io.NopCloser(read)
		return resp, nil
	})
	if err := c.Validate(t.Context(), topicURL); err == nil {
		t.Error("no refusal")
	}
	if read.n > 2<<20 {
		t.Errorf("%d bytes were read", read.n)
	}
}

// endless is an HTML head without an end.
type endless struct{ n int }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = "<meta>"[(e.n+i)%6]
	}
	e.n += len(b)
	return len(b), nil
}

// clerk answers topic checks as the test sets it, and counts them.
type clerk struct {
	asked  atomic.Int64
	answer atomic.Value // func(*http.Request) (*http.Response, error)
}

func (c *clerk) RoundTrip(r *http.Request) (*http.Response, error) {
	c.asked.Add(1)
	return c.answer.Load().(func(*http.Request) (*http.Response, error))(r)
}

func (c *clerk) good() {
	c.answer.Store(func(r *http.Request) (*http.Response, error) {
		return respond(r, 200, "", good(address(r))), nil
	})
}

func (c *clerk) refuse() {
	c.answer.Store(func(r *http.Request) (*http.Response, error) { return respond(r, 404, ""), nil })
}

func (c *clerk) away() {
	c.answer.Store(func(*http.Request) (*http.Response, error) { return nil, errors.New("no connection") })
}

// running runs the hub of a stage in a bubble, to the end of the test.
func (s *stage) running(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.hub.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func TestTopicCheckRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clerk{}
		c.good()
		s := newStage(t, hub.Config{URL: hubURL, TopicCheckTTL: 10 * time.Minute}, c, anywhere{})
		defer s.running(t)()
		check := func(what string, good bool, asked int64) {
			t.Helper()
			if err := s.checker.Validate(t.Context(), topicURL); (err == nil) != good {
				t.Errorf("%s: %v", what, err)
			}
			synctest.Wait()
			if n := c.asked.Swap(0); n != asked {
				t.Errorf("%s: asked %d times, want %d", what, n, asked)
			}
		}
		check("first", true, 1)
		time.Sleep(5*time.Minute - time.Second)
		check("before half of the time", true, 0)
		time.Sleep(time.Second)
		check("at half of the time, in the background", true, 1)
		time.Sleep(5 * time.Minute)
		c.away()
		check("at half of the next, away", true, 1)
		check("is asked once in the second half", true, 0)
		time.Sleep(5*time.Minute - time.Nanosecond)
		check("at the end of its time", true, 0)
		time.Sleep(time.Nanosecond)
		check("after its time", false, 1)
		c.good()
		check("is back", true, 1)
		time.Sleep(6 * time.Minute)
		c.refuse()
		check("no longer names the hub, in the background", true, 2)
		check("refusal is remembered", false, 0)
		time.Sleep(5 * time.Second)
		c.good()
		check("refusal is not remembered for long", true, 1)
	})
}

// TestTopicCheckShared: those who ask at once are one, and one who gives up does
// not spoil it for the others.
func TestTopicCheckShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clerk{}
		c.answer.Store(func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			if err := r.Context().Err(); err != nil {
				return nil, err
			}
			return respond(r, 200, "", good(address(r))), nil
		})
		s := newStage(t, hub.Config{URL: hubURL}, c, anywhere{})
		impatient, giveUp := context.WithCancel(t.Context())
		results := make(chan error, 10)
		go func() { results <- s.checker.Validate(impatient, topicURL) }()
		synctest.Wait()
		for range 9 {
			go func() { results <- s.checker.Validate(t.Context(), topicURL) }()
		}
		synctest.Wait()
		giveUp()
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("who gave up got %v", err)
		}
		for range 9 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		if n := c.asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

// TestTopicCheckHangingHost: a host that hangs holds up its own topics, and not
// those of another host.
func TestTopicCheckHangingHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clerk{}
		c.answer.Store(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "hangs.example" {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return respond(r, 200, "", good(address(r))), nil
		})
		s := newStage(t, hub.Config{URL: hubURL, TopicChecks: 4, TopicChecksPerHost: 2, TopicCheckTimeout: 10 * time.Second}, c, anywhere{})
		results := make(chan error, 10)
		for i := range 10 {
			go func() { results <- s.checker.Validate(t.Context(), fmt.Sprintf("http://hangs.example/%d", i)) }()
		}
		synctest.Wait()
		if n := c.asked.Load(); n != 2 {
			t.Errorf("%d requests at once to one host", n)
		}
		if err := s.checker.Validate(t.Context(), topicURL); err != nil {
			t.Errorf("the other host: %v", err)
		}
		start := time.Now()
		busy := 0
		for range 10 {
			switch err := <-results; {
			case errors.Is(err, subscription.ErrBusy) && !errors.Is(err, hub.ErrTopicAway):
				busy++
			case !errors.Is(err, hub.ErrTopicAway):
				t.Errorf("from a host that hangs: %v", err)
			}
		}
		if took := time.Since(start); took > 20*time.Second || busy < 6 {
			t.Errorf("it took %v; %d were told that the hub is busy", took, busy)
		}
	})
}

// TestTopicCheckWaitIsNoFault: a topic whose check had to wait has all its time to answer.
func TestTopicCheckWaitIsNoFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clerk{}
		c.answer.Store(func(r *http.Request) (*http.Response, error) {
			select {
			case <-r.Context().Done():
				return nil, r.Context().Err()
			case <-time.After(8 * time.Second):
				return respond(r, 200, "", good(address(r))), nil
			}
		})
		s := newStage(t, hub.Config{URL: hubURL, TopicChecks: 1, TopicCheckTimeout: 10 * time.Second, TopicCheckSlowAfter: time.Hour}, c, anywhere{})
		results := make(chan error, 3)
		for i := range 3 {
			go func() { results <- s.checker.Validate(t.Context(), fmt.Sprintf("http://h%d.example/", i)) }()
		}
		good, busy := 0, 0
		for range 3 {
			switch err := <-results; {
			case err == nil:
				good++
			case errors.Is(err, subscription.ErrBusy):
				busy++
			}
		}
		if good != 2 || busy != 1 {
			t.Errorf("%d were checked, %d told that the hub is busy; want 2 and 1", good, busy)
		}
	})
}

func TestTopicCheckForgetsTheOldest(t *testing.T) {
	c := &clerk{}
	c.good()
	s := newStage(t, hub.Config{URL: hubURL, TopicCheckEntries: 2}, c, anywhere{})
	for _, step := range []struct {
		topic string
		asked int64
	}{{"a", 1}, {"b", 1}, {"a", 0}, {"c", 1}, {"a", 0}, {"b", 1}} {
		if err := s.checker.Validate(t.Context(), "https://source.example/"+step.topic); err != nil {
			t.Fatal(err)
		}
		if n := c.asked.Swap(0); n != step.asked {
			t.Errorf("%s: asked %d times, want %d", step.topic, n, step.asked)
		}
	}
}
