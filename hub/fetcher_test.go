package hub_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"carillon/delivery"
	"carillon/hub"
	"carillon/subscription"
	"carillon/topic"
)

// ping sends a ping for the topics to the handler itself.
func (s *stage) ping(t *testing.T, topics ...string) {
	t.Helper()
	if w := s.postPing(topics...); w.Code != http.StatusNoContent || w.Body.Len() > 0 {
		t.Fatalf("ping: %d %s", w.Code, w.Body)
	}
}

func (s *stage) postPing(topics ...string) *httptest.ResponseRecorder {
	body := "hub.mode=publish"
	for _, topic := range topics {
		body += "&" + form("hub.url", topic)
	}
	r := httptest.NewRequest(http.MethodPost, hubURL, strings.NewReader(body))
	r.Header.Set("Content-Type", formType)
	w := httptest.NewRecorder()
	s.hub.Handler().ServeHTTP(w, r)
	return w
}

// content answers every GET with a body and good links.
func content(r *http.Request, body string, header ...string) *http.Response {
	return respond(r, 200, body, append([]string{good(address(r))}, header...)...)
}

// TestFetched: the outcome of each kind of answer.
func TestFetched(t *testing.T) {
	atom := `<feed xmlns="http://www.w3.org/2005/Atom"><link rel="self" href="` + topicURL + `"/><link rel="hub" href="` + hubURL + `"/></feed>`
	tests := []struct {
		name   string
		answer func(r *http.Request) *http.Response
		result string
		want   *delivery.Publication
	}{
		{
			"text with links",
			func(r *http.Request) *http.Response {
				return content(r, "news", "Content-Type: text/plain;x=y", "Link: </style>; rel=style")
			},
			"published",
			&delivery.Publication{
				Topic: topic.Parse(topicURL), ContentType: "text/plain;x=y", Body: []byte("news"),
				Links: []string{`<https://source.example/style>; rel="style"`},
			},
		},
		{
			"without media type",
			func(r *http.Request) *http.Response { return content(r, "news") },
			"published",
			&delivery.Publication{Topic: topic.Parse(topicURL), ContentType: "application/octet-stream", Body: []byte("news")},
		},
		{
			"a broken media type",
			func(r *http.Request) *http.Response { return content(r, "news", "Content-Type: text/\x00plain") },
			"published",
			&delivery.Publication{Topic: topic.Parse(topicURL), ContentType: "application/octet-stream", Body: []byte("news")},
		},
		{
			"the longest media type that is relayed",
			func(r *http.Request) *http.Response {
				return content(r, "news", "Content-Type: text/"+strings.Repeat("x", 251))
			},
			"published",
			&delivery.Publication{Topic: topic.Parse(topicURL), ContentType: "text/" + strings.Repeat("x", 251), Body: []byte("news")},
		},
		{
			"a longer one",
			func(r *http.Request) *http.Response {
				return content(r, "news", "Content-Type: text/"+strings.Repeat("x", 252))
			},
			"published",
			&delivery.Publication{Topic: topic.Parse(topicURL), ContentType: "application/octet-stream", Body: []byte("news")},
		},
		{
			"embedded links",
			func(r *http.Request) *http.Response {
				return respond(r, 200, atom, "Content-Type: application/atom+xml")
			},
			"published",
			&delivery.Publication{Topic: topic.Parse(topicURL), ContentType: "application/atom+xml", Body: []byte(atom)},
		},
		{
			"notification",
			func(r *http.Request) *http.Response {
				return content(r, notification, "Content-Type: application/xml")
			},
			"published",
			&delivery.Publication{
				Topic: topic.Parse(topicURL), ContentType: "application/xml", Body: []byte(notification),
				From: "2013-01-03T00:00:00Z", Until: "2013-01-03T01:00:00Z",
			},
		},
		{
			"self in another spelling decides",
			func(r *http.Request) *http.Response {
				return respond(r, 200, "news", "Link: <https://source.example/%74opic>; rel=self, <"+hubURL+">; rel=hub")
			},
			"published",
			&delivery.Publication{
				Topic:       topic.Parse("https://source.example/%74opic"),
				ContentType: "application/octet-stream", Body: []byte("news"),
			},
		},
		{"no content", func(r *http.Request) *http.Response { return respond(r, 204, "") }, "empty", nil},
		{"empty content", func(r *http.Request) *http.Response { return content(r, "") }, "empty", nil},
		{"not there", func(r *http.Request) *http.Response { return respond(r, 404, "") }, "refused", nil},
		{"moved", func(r *http.Request) *http.Response { return respond(r, 302, "", "Location: /elsewhere") }, "refused", nil},
		{"a part of it", func(r *http.Request) *http.Response {
			resp := content(r, "ne")
			resp.StatusCode = http.StatusPartialContent
			return resp
		}, "refused", nil},
		{"no links", func(r *http.Request) *http.Response { return respond(r, 200, "news") }, "refused", nil},
		{"another self", func(r *http.Request) *http.Response {
			return respond(r, 200, "news", good("https://source.example/other"))
		}, "refused", nil},
		{"too long, as announced", func(r *http.Request) *http.Response {
			resp := content(r, "")
			resp.Body, resp.ContentLength = io.NopCloser(iotest.ErrReader(errors.New("it was read"))), 1001
			return resp
		}, "refused", nil},
		{"too long, not announced", func(r *http.Request) *http.Response {
			resp := content(r, strings.Repeat("x", 1001))
			resp.ContentLength = -1
			return resp
		}, "refused", nil},
		{"compressed", func(r *http.Request) *http.Response { return content(r, "news", "Content-Encoding: gzip") }, "refused", nil},
		{"notification as text/xml", func(r *http.Request) *http.Response {
			return content(r, notification, "Content-Type: text/xml")
		}, "refused", nil},
		{"broken notification", func(r *http.Request) *http.Response {
			return content(r, strings.Replace(notification, "until=", "til=", 1), "Content-Type: application/xml")
		}, "refused", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, hub.Config{URL: hubURL, MaxBody: 1000}, doFunc(func(r *http.Request) (*http.Response, error) {
					if r.Method != http.MethodGet || r.Header.Get("Accept-Encoding") != "identity" {
						t.Errorf("%s %v", r.Method, r.Header)
					}
					return tt.answer(r), nil
				}), anywhere{})
				defer s.running(t)()
				synctest.Wait() // what waited before the start has been read
				s.ping(t, topicURL)
				synctest.Wait()
				if s.pings.waiting() > 0 {
					t.Error("the ping still waits")
				}
				if n := s.fetches(t, tt.result); n != 1 {
					t.Errorf("%d fetches were %s", n, tt.result)
				}
				got := s.publisher.all()
				switch {
				case tt.want == nil && len(got) > 0:
					t.Errorf("published %#v", got)
				case tt.want != nil && (len(got) != 1 || fmt.Sprintf("%#v", got[0]) != fmt.Sprintf("%#v", *tt.want)):
					t.Errorf("published %#v\nwant %#v", got, *tt.want)
				}
			})
		})
	}
}

// fetches returns how many fetches had the result.
func (s *stage) fetches(t *testing.T, result string) int {
	t.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "carillon_hub_fetches_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == result {
				return int(m.GetCounter().GetValue())
			}
		}
	}
	return 0
}

// TestFetchRetried has fetches fail: they are retried with growing pauses, to an end, and seldom where
// the topic is not known to be wanted.
func TestFetchRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clerk{}
		c.answer.Store(func(r *http.Request) (*http.Response, error) { return respond(r, 503, ""), nil })
		s := newStage(t, hub.Config{URL: hubURL, FetchRetryFirst: 5 * time.Second, FetchRetryFor: time.Hour}, c, anywhere{})
		defer s.running(t)()
		s.ping(t, topicURL)
		time.Sleep(time.Minute)
		if n := c.asked.Load(); n < 3 || n > 8 {
			t.Errorf("%d attempts in the first minute", n)
		}
		c.answer.Store(func(r *http.Request) (*http.Response, error) { return content(r, "news"), nil })
		time.Sleep(10 * time.Minute)
		if len(s.publisher.all()) != 1 || s.pings.waiting() > 0 {
			t.Errorf("published %d, %d pings wait", len(s.publisher.all()), s.pings.waiting())
		}

		c.away()
		for i, subs := range []map[string][]subscription.Subscription{nil, {topicURL: {{Topic: topicURL}}}} {
			s.audience.is(subs)
			c.asked.Store(0)
			s.ping(t, topicURL)
			time.Sleep(90 * time.Minute)
			synctest.Wait()
			if n := c.asked.Load(); subs != nil && (n < 10 || n > 40) || subs == nil && n != 5 {
				t.Errorf("%d attempts before giving up, with %d subscriptions", n, len(subs))
			}
			if s.pings.waiting() > 0 || s.fetches(t, "given_up") != i+1 {
				t.Error("the ping was not given up")
			}
		}
	})
}

// TestFetchFailuresInTheLog: that a ping came to nothing is one line an hour for each topic, whatever
// it was that the topic lacks, and not more than twenty in a minute.
func TestFetchFailuresInTheLog(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func(r *http.Request) *http.Response
		want   string
	}{
		"no links": {func(r *http.Request) *http.Response { return respond(r, 200, "x") }, "it shows no link with rel=self"},
		"another hub": {func(r *http.Request) *http.Response {
			return respond(r, 200, "x", "Link: <"+topicURL+">;rel=self, <http://other.example/>;rel=hub")
		}, "none of its links with rel=hub names this hub"},
		"another self": {func(r *http.Request) *http.Response {
			return respond(r, 200, "x", good(topicURL+"2"))
		}, "its link with rel=self names another address"},
		"a redirect": {func(r *http.Request) *http.Response {
			return respond(r, 301, "", "Location: "+topicURL+"2")
		}, "it answers with a redirect (301), which the hub does not follow"},
		"not found": {func(r *http.Request) *http.Response { return respond(r, 404, "") }, "it answers with status 404"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log lines
				s := newStageWith(t, hub.Config{URL: hubURL}, doFunc(func(r *http.Request) (*http.Response, error) {
					return tt.answer(r), nil
				}), anywhere{}, func(s *stage) { s.logger = slog.New(slog.NewTextHandler(&log, nil)) })
				defer s.running(t)()
				for range 3 {
					s.ping(t, topicURL)
					time.Sleep(time.Minute)
				}
				got := log.with("pinged topic not distributed")
				if len(got) != 1 || !strings.Contains(got[0], "level=INFO") || !strings.Contains(got[0], "topic="+topicURL) || !strings.Contains(got[0], tt.want) {
					t.Errorf("logged %q", got)
				}
				for i := range 50 {
					s.ping(t, fmt.Sprintf("http://%d.example/", i))
				}
				synctest.Wait()
				if n := len(log.with("")); n != 21 {
					t.Errorf("%d lines", n)
				}
			})
		})
	}
}

// TestFetchTroubleIsQuiet: that a topic's server is away is no line before it is given up.
func TestFetchTroubleIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		c := &clerk{}
		c.away()
		s := newStageWith(t, hub.Config{URL: hubURL}, c, anywhere{}, func(s *stage) { s.logger = slog.New(slog.NewTextHandler(&log, nil)) })
		defer s.running(t)()
		s.ping(t, topicURL)
		time.Sleep(20 * time.Minute)
		if got := log.with(""); len(got) > 0 {
			t.Errorf("logged: %q", got)
		}
		time.Sleep(2 * time.Hour)
		if got := log.with("fetching a pinged topic was given up"); len(got) != 1 {
			t.Errorf("logged: %q", log.with(""))
		}
	})
}

// TestFetchTimeout: one time limit spans a fetch, from the request to the last byte.
func TestFetchTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ended := make(chan time.Duration, 10)
		s := newStage(t, hub.Config{URL: hubURL, FetchTimeout: 2 * time.Minute}, doFunc(func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Minute)
			resp := content(r, "")
			resp.ContentLength = -1
			resp.Body = io.NopCloser(readFunc(func(b []byte) (int, error) {
				select {
				case <-time.After(time.Second):
					return copy(b, "x"), nil
				case <-r.Context().Done():
					ended <- time.Since(start)
					return 0, r.Context().Err()
				}
			}))
			return resp, nil
		}), anywhere{})
		defer s.running(t)()
		s.ping(t, topicURL)
		if took := <-ended; took != 2*time.Minute {
			t.Errorf("a topic that drips was given up after %v", took)
		}
	})
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(b []byte) (int, error) { return f(b) }

// TestFetchHeedsRetryAfter: a topic's server is not asked before the time that
// it named, and a time beyond FetchRetryMax is cut to that.
func TestFetchHeedsRetryAfter(t *testing.T) {
	for asked, least := range map[string]time.Duration{"120": 2 * time.Minute, "86400": 5 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			c := &clerk{}
			c.answer.Store(func(r *http.Request) (*http.Response, error) {
				return respond(r, 503, "", "Retry-After: "+asked), nil
			})
			s := newStage(t, hub.Config{URL: hubURL, FetchRetryFirst: time.Second, FetchRetryMax: 5 * time.Minute}, c, anywhere{})
			defer s.running(t)()
			s.ping(t, topicURL)
			time.Sleep(least - time.Second)
			if n := c.asked.Load(); n != 1 {
				t.Errorf("Retry-After %s: %d attempts before that time; want 1", asked, n)
			}
			time.Sleep(time.Minute)
			if n := c.asked.Load(); n != 2 {
				t.Errorf("Retry-After %s: %d attempts a minute after it; want 2", asked, n)
			}
		})
	}
}

// TestFetchOneAtATime: pings that come while a fetch runs are one more fetch, as
// the content may have changed after the first one began.
func TestFetchOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most, asked atomic.Int64
		s := newStage(t, hub.Config{URL: hubURL}, doFunc(func(r *http.Request) (*http.Response, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			time.Sleep(time.Second)
			return content(r, fmt.Sprint(asked.Add(1))), nil
		}), anywhere{})
		defer s.running(t)()
		s.ping(t, topicURL, topicURL)
		synctest.Wait()
		for range 5 {
			s.ping(t, topicURL, "https://source.example/%74opic")
		}
		time.Sleep(time.Minute)
		if asked.Load() != 2 || most.Load() != 1 || s.pings.waiting() != 0 {
			t.Errorf("%d fetches, %d at once, %d pings wait", asked.Load(), most.Load(), s.pings.waiting())
		}
	})
}

// TestFetchLimits: so many at once, and so many from one host.
func TestFetchLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, slow, mostRunning, mostSlow, asked atomic.Int64
		s := newStage(t, hub.Config{
			URL: hubURL, Fetches: 4, FetchesPerHost: 2, FetchSlowAfter: time.Hour,
		}, doFunc(func(r *http.Request) (*http.Response, error) {
			asked.Add(1)
			mostRunning.Store(max(mostRunning.Load(), running.Add(1)))
			defer running.Add(-1)
			if r.URL.Host == "slow.example" {
				mostSlow.Store(max(mostSlow.Load(), slow.Add(1)))
				defer slow.Add(-1)
				time.Sleep(time.Minute)
			}
			time.Sleep(time.Second)
			return content(r, "news"), nil
		}), anywhere{})
		defer s.running(t)()
		var topics []string
		for i := range 10 {
			topics = append(topics, fmt.Sprintf("http://slow.example/%d", i))
		}
		for i := range 10 {
			topics = append(topics, fmt.Sprintf("http://h%d.example/", i))
		}
		s.ping(t, topics...)
		time.Sleep(30 * time.Second)
		if n := len(s.publisher.all()); n != 10 {
			t.Errorf("beside a slow host %d of 10 were published", n)
		}
		time.Sleep(10 * time.Minute)
		if asked.Load() != 20 || mostRunning.Load() != 4 || mostSlow.Load() != 2 {
			t.Errorf("%d fetches, at most %d at once, %d from one host", asked.Load(), mostRunning.Load(), mostSlow.Load())
		}
		if err := testutil.GatherAndCompare(s.registry, strings.NewReader(
			"# HELP carillon_hub_pings_waiting Topics of this process's shards that wait to be fetched or are being fetched.\n"+
				"# TYPE carillon_hub_pings_waiting gauge\ncarillon_hub_pings_waiting 0\n"), "carillon_hub_pings_waiting"); err != nil {
			t.Error(err)
		}
	})
}

// TestFetchBesideHanging: servers that hang, on however many ports, and others with many
// topics waiting, do not hold up the topic of a healthy one.
func TestFetchBesideHanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var most, running atomic.Int64
		s := newStage(t, hub.Config{
			URL: hubURL, Fetches: 4, FetchesPerHost: 2, SlowFetches: 6, FetchTimeout: 2 * time.Minute,
		}, doFunc(func(r *http.Request) (*http.Response, error) {
			if strings.HasPrefix(r.URL.Host, "hangs") {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return content(r, "news"), nil
		}), anywhere{})
		defer s.running(t)()
		var topics []string
		for i := range 100 {
			topics = append(topics, fmt.Sprintf("http://hangs.example:%d/%d", 8000+i%10, i), fmt.Sprintf("http://hangs-too.example/%d", i))
		}
		for len(topics) > 0 {
			s.ping(t, topics[:100]...)
			topics = topics[100:]
		}
		time.Sleep(time.Minute)
		s.ping(t, topicURL)
		time.Sleep(time.Second)
		if n := len(s.publisher.all()); n != 1 || most.Load() != 4 {
			t.Errorf("%d were published; %d requests at once to the hanging hosts", n, most.Load())
		}
		// As many hosts hang as may be slow: the others share the remaining places.
		for i := range 10 {
			s.ping(t, fmt.Sprintf("http://hangs%d.example/", i))
		}
		time.Sleep(10 * time.Second)
		if n := most.Load(); n != 10 {
			t.Errorf("%d at once, want Fetches and SlowFetches together", n)
		}
		s.ping(t, topicURL)
		time.Sleep(2 * time.Minute)
		if n := len(s.publisher.all()); n != 2 {
			t.Errorf("%d were published when the time limit had passed", n)
		}
	})
}

// TestFetchRoom: slow fetches hold no more memory than there is for all; a fetch without room is made
// when there is some.
func TestFetchRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mib = 1 << 20
		var taken atomic.Int64
		open := make(chan struct{})
		s := newStage(t, hub.Config{URL: hubURL, MaxBody: 4 * mib, Fetches: 2}, doFunc(func(r *http.Request) (*http.Response, error) {
			resp := content(r, "")
			resp.ContentLength = -1
			left := 4 * mib
			resp.Body = io.NopCloser(readFunc(func(b []byte) (int, error) {
				if left == 0 {
					select {
					case <-open:
					case <-r.Context().Done():
						return 0, r.Context().Err()
					}
					return 0, io.EOF
				}
				n := min(len(b), left)
				left -= n
				taken.Add(int64(n))
				return n, nil
			}))
			return resp, nil
		}), anywhere{})
		defer s.running(t)()
		for i := range 6 {
			s.ping(t, fmt.Sprintf("http://h%d.example/", i))
		}
		time.Sleep(4 * time.Second)
		if stalled := s.pings.waiting(); stalled != 6 || taken.Load() > 8*mib+6*512 {
			t.Errorf("%d wait, %d bytes were taken in", stalled, taken.Load())
		}
		close(open)
		time.Sleep(time.Minute)
		if n := len(s.publisher.all()); n != 6 {
			t.Errorf("%d of 6 were published", n)
		}
	})
}

// TestFetchInTurn: a host with much to do does not come before one with little.
func TestFetchInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, hub.Config{
			URL: hubURL, Fetches: 1, FetchesPerHost: 1, FetchSlowAfter: time.Hour,
		}, doFunc(func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return content(r, "news"), nil
		}), anywhere{})
		defer s.running(t)()
		var topics []string
		for i := range 100 {
			topics = append(topics, fmt.Sprintf("http://busy.example/%d", i))
		}
		s.ping(t, topics...)
		synctest.Wait()
		s.ping(t, topicURL+"1", topicURL+"2", topicURL+"3")
		time.Sleep(7 * time.Second)
		synctest.Wait()
		var order string
		for _, p := range s.publisher.all() {
			order += map[bool]string{true: "busy ", false: "other "}[strings.HasPrefix(p.Topic.String(), "http://busy")]
		}
		if want := "busy other busy other busy other busy "; order != want {
			t.Errorf("%s, want %s", order, want)
		}
	})
}

// TestPingsBounded: so many topics wait, in all and of one host; a repetition takes no more room, and
// a finished one gives its room back.
func TestPingsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clerk{}
		c.away()
		s := newStage(t, hub.Config{URL: hubURL, MaxPings: 5, MaxPingsPerHost: 3, FetchRetryFor: time.Minute}, c, anywhere{})
		defer s.running(t)()
		refused := func(want int, topics ...string) {
			t.Helper()
			w := s.postPing(topics...)
			if w.Code != want || w.Header().Get("Retry-After") == "" {
				t.Errorf("%q: %d %s", topics, w.Code, w.Body)
			}
		}
		const one, two = "http://one.example", "http://two.example"
		refused(429, one+"/1", one+":81/2", one+"/3", one+"/4")
		s.ping(t, one+"/1", one+":81/2", one+"/3")
		refused(429, two+"/1", one+"/4")
		s.ping(t, one+"/1", one+"/3", two+"/1", two+"/2")
		refused(503, "http://three.example/")
		s.ping(t, two+"/1")
		time.Sleep(10 * time.Minute) // all were given up
		s.ping(t, one+"/4", one+"/5", one+"/6")
		s.pings.fail(errors.New("disk"))
		for range 5 {
			s.postPing(two+"/1", two+"/2")
		}
		s.pings.fail(nil)
		s.ping(t, two+"/1", two+"/2")
	})
}

// TestFetchAfterRestart: a ping that was answered is carried out by the next
// process, also when the store needs a while.
func TestFetchAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clerk{}
		c.answer.Store(func(r *http.Request) (*http.Response, error) { return content(r, "news"), nil })
		cfg := hub.Config{URL: hubURL}
		s := newStage(t, cfg, c, anywhere{})
		s.ping(t, topicURL) // and dies before Run
		s.rebuild(t, cfg, c, anywhere{})
		s.pings.fail(delivery.ErrUnavailable)
		defer s.running(t)()
		time.Sleep(time.Minute)
		if len(s.publisher.all()) != 0 {
			t.Fatal("published without the store")
		}
		s.pings.fail(nil)
		time.Sleep(time.Minute)
		if len(s.publisher.all()) != 1 || s.pings.waiting() != 0 {
			t.Errorf("%d published, %d pings wait", len(s.publisher.all()), s.pings.waiting())
		}
	})
}

// TestFetchDuringStart: a ping that comes while those of before the start are being
// read is fetched once, though it is read again.
func TestFetchDuringStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clerk{}
		c.answer.Store(func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return content(r, "news"), nil
		})
		s := newStage(t, hub.Config{URL: hubURL}, c, anywhere{})
		s.pings.read = make(chan struct{})
		s.ping(t, topicURL)
		defer s.running(t)()
		time.Sleep(2 * time.Second) // it was read as waiting, and then fetched
		close(s.pings.read)
		time.Sleep(2 * time.Second)
		if n := c.asked.Load(); n != 1 || s.pings.waiting() != 0 {
			t.Errorf("%d fetches, %d pings wait", n, s.pings.waiting())
		}
		s.ping(t, topicURL)
		time.Sleep(2 * time.Second)
		if n := c.asked.Load(); n != 2 {
			t.Errorf("%d fetches after the next ping", n)
		}
	})
}

// TestFetchWithStoreTrouble: the store's trouble never drops a ping, and a
// publication that it took is not published again when the ping cannot be forgotten.
func TestFetchWithStoreTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clerk{}
		c.answer.Store(func(r *http.Request) (*http.Response, error) { return content(r, "news"), nil })
		s := newStage(t, hub.Config{URL: hubURL, FetchRetryFor: time.Minute}, c, anywhere{})
		defer s.running(t)()
		s.publisher.fail(fmt.Errorf("%w: full", delivery.ErrUnavailable))
		s.ping(t, topicURL)
		time.Sleep(time.Hour)
		if s.pings.waiting() != 1 {
			t.Fatal("the ping was dropped")
		}
		s.pings.fail(errors.New("disk"))
		s.publisher.fail(nil)
		time.Sleep(time.Hour)
		s.pings.fail(nil)
		time.Sleep(time.Minute)
		if n := len(s.publisher.all()); n != 1 || s.pings.waiting() != 0 {
			t.Errorf("published %d times, %d pings wait", n, s.pings.waiting())
		}
	})
}
