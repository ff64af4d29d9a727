package hub_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/hub"
	registered "carillon/source"
	"carillon/subscription"
)

// TestClientAddress: whose limits a request counts against. X-Forwarded-For is
// believed from configured proxies alone, and from its end.
func TestClientAddress(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("fd00::/8")}
	type lines = []string
	for _, tt := range []struct {
		name, peer string
		forwarded  lines
		want       string
	}{
		{"nobody between", "192.0.2.1:1234", nil, "192.0.2.1"},
		{"IPv6 counts by its network", "[2001:db8:1:2:3:4:5:6]:1", nil, "2001:db8:1:2::/64"},
		{"with a zone", "[fe80::1%eth0]:1", nil, "fe80::/64"},
		{"mapped", "[::ffff:192.0.2.1]:1", nil, "192.0.2.1"},
		{"a stranger's header", "192.0.2.1:1", lines{"198.51.100.7"}, "192.0.2.1"},
		{"a stranger who says he is this machine", "192.0.2.1:1", lines{"127.0.0.1"}, "192.0.2.1"},
		{"this machine", "127.0.0.2:1", nil, ""},
		{"this machine, IPv6", "[::1]:1", nil, ""},
		{"this machine is no proxy", "127.0.0.2:1", lines{"198.51.100.7"}, ""},
		{"a proxy", "10.1.1.1:1", lines{"198.51.100.7"}, "198.51.100.7"},
		{"a proxy on this machine", "127.0.0.1:1", lines{"198.51.100.7"}, "198.51.100.7"},
		{"it names nobody", "127.0.0.1:1", nil, ""},
		{"it names this machine", "10.1.1.1:1", lines{"127.0.0.2"}, "127.0.0.2"},
		{"it names this machine, as IPv6", "10.1.1.1:1", lines{"::1"}, "::/64"},
		{"a proxy on this machine names it", "127.0.0.1:1", lines{"127.0.0.1"}, "127.0.0.1"},
		{"a proxy on this machine sends a header with nobody in it", "127.0.0.1:1", lines{" ,"}, ""},
		{"a mapped proxy", "[::ffff:10.1.1.1]:1", lines{"198.51.100.7"}, "198.51.100.7"},
		{"what the client wrote does not count", "10.1.1.1:1", lines{"127.0.0.1, 203.0.113.9, 198.51.100.7"}, "198.51.100.7"},
		{"several proxies", "10.1.1.1:1", lines{"203.0.113.9, 198.51.100.7, 10.2.2.2,10.3.3.3"}, "198.51.100.7"},
		{"several lines", "10.1.1.1:1", lines{"203.0.113.9", "198.51.100.7", "10.2.2.2"}, "198.51.100.7"},
		{"all are proxies", "10.1.1.1:1", lines{"10.3.3.3, 10.2.2.2"}, "10.3.3.3"},
		{"a port", "10.1.1.1:1", lines{"198.51.100.7:4711"}, "198.51.100.7"},
		{"IPv6", "10.1.1.1:1", lines{"2001:db8::1"}, "2001:db8::/64"},
		{"IPv6 in brackets", "10.1.1.1:1", lines{"[2001:db8::1]"}, "2001:db8::/64"},
		{"IPv6 with a port", "10.1.1.1:1", lines{"[2001:db8::1]:4711"}, "2001:db8::/64"},
		{"IPv6 of a proxy", "[fd00::1]:1", lines{"2001:db8::1, fd00:2::1"}, "2001:db8::/64"},
		{"mapped in the header", "10.1.1.1:1", lines{"::ffff:198.51.100.7"}, "198.51.100.7"},
		{"empty elements", "10.1.1.1:1", lines{"198.51.100.7, ,", ""}, "198.51.100.7"},
		{"garbage", "10.1.1.1:1", lines{"198.51.100.7, garbage"}, "10.1.1.1"},
		{"garbage before the client does not matter", "10.1.1.1:1", lines{"garbage, 198.51.100.7"}, "198.51.100.7"},
		{"garbage on this machine", "127.0.0.1:1", lines{"unknown"}, "127.0.0.1"},
		{"half a bracket", "10.1.1.1:1", lines{"[2001:db8::1"}, "10.1.1.1"},
		{"IPv4 in brackets", "10.1.1.1:1", lines{"[198.51.100.7]"}, "10.1.1.1"},
		{"no peer", "@", nil, "unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, hubURL, nil)
			r.RemoteAddr = tt.peer
			r.Header["X-Forwarded-For"] = tt.forwarded
			if got := hub.ClientOf(hub.Config{URL: hubURL, TrustedProxies: proxies}, r); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// TestHintsOfProxies expects one log line when a trusted proxy names no client, and one when an
// untrusted peer names many.
func TestHintsOfProxies(t *testing.T) {
	var log strings.Builder
	c := &clerk{}
	c.good()
	s := newStageWith(t, hub.Config{URL: hubURL, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, c, anywhere{}, func(s *stage) {
		s.logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	subscribe := form("hub.mode", "subscribe", "hub.topic", aTopic, "hub.callback", aCallback)
	const silent, untrusted = "sent no X-Forwarded-For", "no trusted proxies"
	for i := range 300 {
		s.send("192.0.2.1", formType, subscribe, "X-Forwarded-For: 198.51.100.7")
		s.send("10.0.0.1", formType, subscribe, "X-Forwarded-For: 198.51.100.7")
		s.send("192.0.2.3", formType, subscribe)
		if got := strings.Contains(log.String(), untrusted); got != (i >= 99) {
			t.Fatalf("after %d: %s", i+1, log.String())
		}
	}
	if strings.Contains(log.String(), silent) || !strings.Contains(log.String(), "192.0.2.1") {
		t.Error(log.String())
	}
	for range 3 {
		s.send("10.0.0.2", formType, subscribe)
	}
	if text := log.String(); strings.Count(text, silent) != 1 || strings.Count(text, untrusted) != 1 || !strings.Contains(text, "10.0.0.2") {
		t.Error(text)
	}
}

// FuzzClientAddress: whatever is in the header, a client is an address or a network, and a peer
// that is no proxy is not believed.
func FuzzClientAddress(f *testing.F) {
	f.Add("198.51.100.7, 10.0.0.1", "[2001:db8::1]:80")
	f.Add(",,[::1]", "unknown, \"_x\":1")
	cfg := hub.Config{URL: hubURL, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	f.Fuzz(func(t *testing.T, first, second string) {
		r := httptest.NewRequest(http.MethodPost, hubURL, nil)
		r.Header["X-Forwarded-For"] = []string{first, second}
		r.RemoteAddr = "192.0.2.1:1"
		if got := hub.ClientOf(cfg, r); got != "192.0.2.1" {
			t.Errorf("%q", got)
		}
		r.RemoteAddr = "10.0.0.1:1"
		got := hub.ClientOf(cfg, r)
		_, noAddr := netip.ParseAddr(got)
		_, noNetwork := netip.ParsePrefix(got)
		if got != "" && noAddr != nil && noNetwork != nil {
			t.Errorf("%q", got)
		}
	})
}

// sent is what a request got.
type sent struct {
	status int
	retry  string
}

// send sends a form from an address.
func (s *stage) send(from, contentType, body string, header ...string) sent {
	r := httptest.NewRequest(http.MethodPost, hubURL, strings.NewReader(body))
	r.RemoteAddr = from + ":1234"
	r.Header.Set("Content-Type", contentType)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	s.hub.Handler().ServeHTTP(w, r)
	return sent{w.Code, w.Header().Get("Retry-After")}
}

// limited is how many requests have met a limit.
func (s *stage) limited(t *testing.T, limit string) float64 {
	t.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "carillon_hub_limited_total" && m.GetLabel()[0].GetValue() == limit {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no metric of %s", limit)
	return 0
}

// TestClientRate sends too much of all the requests that make the hub ask other servers: 429, with the
// time after which there is room. Other clients, and those on this machine, do not notice. Requests
// for remembered topics are not limited.
func TestClientRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clerk{}
		c.good()
		s := newStage(t, hub.Config{URL: hubURL, ClientRate: 1, ClientBurst: 10, MaxPingTopics: 5, Clients: 100}, c, anywhere{})
		stranger, other := "192.0.2.1", "192.0.2.2"
		subscribe := form("hub.mode", "subscribe", "hub.topic", aTopic, "hub.callback", aCallback)
		link := func(topic string) string { return good(topic) }
		for i := range 4 {
			if got := s.send(stranger, formType, subscribe); got.status != 202 {
				t.Fatalf("%d: %+v", i, got)
			}
		}
		if got := s.send(stranger, formType, form("hub.mode", "publish", "hub.url", aTopic, "hub.url", aTopic+"2")); got.status != 204 {
			t.Errorf("ping: %+v", got)
		}
		if got := s.send(stranger, formType, form("hub.mode", "unsubscribe", "hub.topic", aTopic, "hub.callback", aCallback)); got.status != 202 {
			t.Errorf("unsubscribe: %+v", got)
		}
		for i := range 3 {
			topic := fmt.Sprintf("https://source.example/%d", i)
			for range 20 { // after the first it is remembered
				if got := s.send(stranger, "text/plain", "x", link(topic)); got.status != 200 {
					t.Fatalf("publish %d: %+v", i, got)
				}
			}
		}
		for name, got := range map[string]sent{
			"subscribe":   s.send(stranger, formType, subscribe),
			"unsubscribe": s.send(stranger, formType, strings.Replace(subscribe, "=sub", "=unsub", 1)),
			"ping":        s.send(stranger, formType, form("hub.mode", "publish", "hub.url", aTopic)),
			"publish":     s.send(stranger, "text/plain", "x", link("https://source.example/new")),
		} {
			if got != (sent{429, "1"}) {
				t.Errorf("%s: %+v", name, got)
			}
		}
		// A ping of five topics waits for five.
		five := "hub.mode=publish"
		for i := range 5 {
			five += "&" + form("hub.url", fmt.Sprint(aTopic, i))
		}
		if got := s.send(stranger, formType, five); got != (sent{429, "5"}) {
			t.Errorf("ping of five: %+v", got)
		}
		if got := s.send(stranger, "text/plain", "x", link("https://source.example/0")); got.status != 200 {
			t.Errorf("a topic that is remembered: %+v", got)
		}
		for range 30 {
			if got := s.send("127.0.0.1", formType, subscribe); got.status != 202 {
				t.Fatalf("this machine: %+v", got)
			}
		}
		if got := s.send(other, formType, subscribe); got.status != 202 {
			t.Errorf("another: %+v", got)
		}
		time.Sleep(time.Second)
		if first, second := s.send(stranger, formType, subscribe), s.send(stranger, formType, subscribe); first.status != 202 || second.status != 429 {
			t.Errorf("a second later: %+v, %+v", first, second)
		}
		if got := s.requests.last(t).Client; got != stranger {
			t.Errorf("the client is %q", got)
		}
		if n := s.limited(t, "client_rate"); n != 6 {
			t.Errorf("%v requests are counted as limited", n)
		}
		// However many clients there are, the memory of them is bounded.
		for i := range 1000 {
			s.send(fmt.Sprintf("198.51.%d.%d", i/250, i%250), formType, subscribe)
		}
		if n := s.hub.Clients(); n != 100 {
			t.Errorf("%d clients are remembered", n)
		}
	})
}

// TestLimitsOfRequests: a request that package subscription refuses for now is 429 with its time.
func TestLimitsOfRequests(t *testing.T) {
	w := newTown(t, nil)
	for err, limit := range map[error]string{subscription.ErrHostBusy: "host_pending", subscription.ErrClientBusy: "client_pending"} {
		w.requests.fail(fmt.Errorf("not taken: %w", &subscription.Later{Err: err, After: 25*time.Second + 1}))
		status, header, body := w.post(t, formType, form("hub.mode", "subscribe", "hub.topic", aTopic, "hub.callback", aCallback))
		wantRefusal(t, status, header, body, 429, "Try again later")
		if got := header.Get("Retry-After"); got != "26" {
			t.Errorf("Retry-After %q", got)
		}
		if n := w.limited(t, limit); n != 1 {
			t.Errorf("%s was counted %v times", limit, n)
		}
	}
}

// TestTopicPace has the topics of a site refuse twenty times in a row: then the site is asked once a
// second, for whatever client, topic and name. That holds for the checks of publications and
// subscriptions, and for fetches. A topic that names this hub is asked all the same.
func TestTopicPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clerk{}
		c.answer.Store(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Host, "victim.com") && !strings.Contains(r.URL.RequestURI(), "good") {
				return respond(r, 404, ""), nil
			}
			return respond(r, 200, "content", good(address(r))), nil
		})
		s := newStage(t, hub.Config{URL: hubURL}, c, anywhere{})
		defer s.running(t)()
		publish := func(topic string) sent { return s.send("192.0.2.1", "text/plain", "x", good(topic)) }
		if got := publish("https://victim.com/good"); got.status != 200 {
			t.Errorf("%+v", got)
		}
		for i := range 20 {
			if got := publish(fmt.Sprintf("https://n%d.victim.com/?%d", i, i)); got.status != 403 {
				t.Fatalf("%d: %+v", i, got)
			}
		}
		at := c.asked.Load()
		statuses := map[int]int{}
		for i := range 300 {
			got := publish(fmt.Sprintf("https://victim.com/?again%d", i))
			if statuses[got.status]++; got.status == 429 && got.retry != "1" {
				t.Fatalf("Retry-After %q", got.retry)
			}
			s.ping(t, fmt.Sprintf("https://victim.com/?pinged%d", i%50))
			time.Sleep(100 * time.Millisecond)
		}
		// HEAD and GET for each check, GET for each fetch.
		if n := c.asked.Load() - at; n < 20 || n > 2*31 || statuses[429] < 200 {
			t.Errorf("asked %d times within 30 s; statuses %v", n, statuses)
		}
		if got := publish("https://victim.com/good"); got.status != 200 {
			t.Errorf("what is remembered: %+v", got)
		}
		if got := publish("https://other.com/"); got.status != 200 {
			t.Errorf("another: %+v", got)
		}
		time.Sleep(2 * time.Minute)
		if got := publish("https://victim.com/good2"); got.status != 200 {
			t.Errorf("a good one: %+v", got)
		}
		for i := range 5 {
			if got := publish("https://victim.com/?" + strconv.Itoa(i)); got.status != 403 {
				t.Errorf("after a good one: %+v", got)
			}
		}
	})
}

// victim makes a stage whose topics at victim.com are there if they are called good, has
// twenty strangers' checks bring the site into bad standing, and then lets time pass.
func victim(t *testing.T, c *clerk, later time.Duration, prepare func(*stage)) *stage {
	t.Helper()
	c.answer.Store(func(r *http.Request) (*http.Response, error) {
		if strings.Contains(r.URL.RequestURI(), "good") {
			return respond(r, 200, "content", good(address(r))), nil
		}
		return respond(r, 404, ""), nil
	})
	s := newStageWith(t, hub.Config{URL: hubURL, ClientRate: 100_000, ClientBurst: 100_000}, c, anywhere{}, prepare)
	if err := s.checker.Validate(t.Context(), "https://victim.com/good-remembered"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(later)
	for i := range 20 {
		if err := s.checker.Validate(t.Context(), fmt.Sprintf("https://victim.com/?%d", i)); err == nil {
			t.Fatal("it names this hub")
		}
	}
	return s
}

// TestPingsOfAHealthyTopic: while a stranger fills the places of a site with pings of what is not
// there, its topics that have subscribers, or are remembered, are taken and fetched at once.
func TestPingsOfAHealthyTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wanted, remembered = "https://victim.com/good-wanted", "https://victim.com/good-remembered"
		s := victim(t, &clerk{}, 0, func(s *stage) {
			s.audience.is(map[string][]subscription.Subscription{wanted: {{Topic: wanted}}})
		})
		defer s.running(t)()
		full := false
		for i := range 200 {
			full = full || s.postPing(fmt.Sprintf("https://victim.com/?p%d", i)).Code == 429
		}
		if !full {
			t.Fatal("the places are not full")
		}
		for _, topic := range []string{wanted, remembered} {
			for range 3 {
				before := len(s.publisher.all())
				s.ping(t, topic)
				time.Sleep(100 * time.Millisecond)
				if all := s.publisher.all(); len(all) != before+1 || all[before].Topic.String() != topic {
					t.Fatalf("%s: %d published", topic, len(all)-before)
				}
				// An unknown topic still has to wait; a good fetch has ended the bad standing, so the test brings it
				// about again.
				for i := range 20 {
					_ = s.checker.Validate(t.Context(), fmt.Sprintf("https://victim.com/?%d-%d", before, i))
				}
				for i := range 200 {
					s.postPing(fmt.Sprintf("https://victim.com/?p%d-%d", before, i))
				}
			}
		}
	})
}

// TestPublishingBesideABadSite: while strangers have brought the site of a topic into bad standing and
// take each of its turns, a publication of a registered Source, or to a topic that has
// subscribers, is taken at once; that of a stranger waits for a turn.
func TestPublishingBesideABadSite(t *testing.T) {
	const topic = "https://victim.com/good-remembered" // and forgotten since
	sources, token := sourceOf(t, "https://victim.com/")
	for name, row := range map[string]struct {
		prepare func(*stage)
		header  []string
		want    int
	}{
		"a stranger": {func(*stage) {}, nil, 429},
		"a Source":   {func(s *stage) { s.sources = sources }, []string{bearer(token)}, 200},
		"a topic with subscribers": {func(s *stage) {
			s.audience.is(map[string][]subscription.Subscription{topic: {{Topic: topic}}})
		}, nil, 200},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := victim(t, &clerk{}, hub.DefaultTopicCheckTTL+time.Second, row.prepare)
				for range 2 { // the first may take what turn there is
					_ = s.checker.Validate(t.Context(), "https://victim.com/?turn")
				}
				got := s.send("192.0.2.1", "text/plain", "x", append([]string{good(topic)}, row.header...)...)
				if got.status != row.want {
					t.Errorf("%+v, want %d", got, row.want)
				}
			})
		})
	}
}

// sourceOf is a Source that may publish what is below a prefix.
func sourceOf(t *testing.T, prefix string) (hub.Sources, registered.Token) {
	t.Helper()
	one, token, err := registered.New("bell-tower", []string{prefix}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s := &shelf{}
	s.set(nil, one)
	known, err := registered.NewRegistry(s, registered.Config{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := known.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return known, token
}

// TestHangingTopicSites: while the topics of a hundred domains hang, and all names of another,
// those of a server that answers are checked at once.
func TestHangingTopicSites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clerk{}
		c.answer.Store(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Host, "hangs") {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return respond(r, 200, "", good(address(r))), nil
		})
		s := newStage(t, hub.Config{URL: hubURL}, c, anywhere{})
		for i := range 100 {
			go func() { _ = s.checker.Validate(t.Context(), fmt.Sprintf("https://hangs%d.example/", i)) }()
			go func() { _ = s.checker.Validate(t.Context(), fmt.Sprintf("https://n%d.hangs.com/", i)) }()
		}
		for range 8 {
			time.Sleep(1500 * time.Millisecond)
			start := time.Now()
			if err := s.checker.Validate(
				t.Context(), fmt.Sprintf("https://%d.example/", start.UnixNano()),
			); err != nil || time.Since(start) > time.Second {
				t.Errorf("%v, after %v", err, time.Since(start))
			}
		}
		time.Sleep(time.Minute)
	})
}

// TestFetchOfWhatIsNoTopic: of an address that does not name this hub no content is
// read, but for the beginning of a document that may embed links.
func TestFetchOfWhatIsNoTopic(t *testing.T) {
	for _, contentType := range []string{"video/mp4", "text/html"} {
		synctest.Test(t, func(t *testing.T) {
			taken := 0
			s := newStage(t, hub.Config{URL: hubURL}, doFunc(func(r *http.Request) (*http.Response, error) {
				resp := respond(r, 200, "", "Content-Type: "+contentType)
				resp.ContentLength = 50_000_000
				resp.Body = io.NopCloser(readFunc(func(b []byte) (int, error) {
					taken += len(b)
					return len(b), nil
				}))
				return resp, nil
			}), anywhere{})
			defer s.running(t)()
			s.ping(t, topicURL)
			time.Sleep(time.Second)
			if s.pings.waiting() != 0 || taken == 0 || taken > 2<<20 || contentType == "video/mp4" && taken > 1024 {
				t.Errorf("%s: %d bytes were read", contentType, taken)
			}
		})
	}
}
