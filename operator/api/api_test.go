package api_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon/operator"
	"carillon/operator/api"
)

// do sends a request and reads the answer.
func (h *fixture) do(t *testing.T, req *http.Request) (*http.Response, string) {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

// send sends what a line like "GET /topics?limit=3" says, with a body where it has one.
func (h *fixture) send(t *testing.T, line, body string, header ...string) (*http.Response, string) {
	t.Helper()
	method, path, _ := strings.Cut(line, " ")
	req, err := http.NewRequestWithContext(t.Context(), method, h.address+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return h.do(t, req)
}

// Questions reach the desk as they were meant.
func TestQuestionsReachTheDesk(t *testing.T) {
	h := newFixture(t, nil)
	id := someID.String()
	for line, want := range map[string]string{
		"GET /topics": "topics {Contains: Failing:false After: Limit:0}",
		"GET /topics?contains=a%20b&failing=true&after=k&limit=7":                                          "topics {Contains:a b Failing:true After:k Limit:7}",
		"GET /topic?topic=https://a.test/%3Fx=1":                                                           "topic https://a.test/?x=1",
		"GET /notifications?topic=https://a.test/&before=9&limit=1000":                                     "notifications https://a.test/ 9 1000",
		"GET /notifications/" + id:                                                                         "notification  " + id,
		"GET /subscriptions?lag_over=90&lease_under=1h30m&state=behind&gapped=true":                        "subscriptions {Topic: Contains: Host: State:behind Gapped:true LagOver:1m30s LeaseUnder:1h30m0s After:00000000-0000-0000-0000-000000000000 Limit:0}",
		"POST /subscriptions/" + id + "/retry":                                                             "retry " + id,
		`POST /subscriptions/` + id + `/replay {"from_seq":2}`:                                             "replay " + id + " 2 0",
		"DELETE /subscriptions/" + id + "?reason=it%20moved":                                               "remove " + id + ` "it moved"`,
		`POST /topic/trim {"topic":"https://a.test/","before_seq":18446744073}`:                            "trim https://a.test/ 18446744073",
		`POST /sources {"name":"a","topic_prefixes":["https://a.test/"]}`:                                  `add a ["https://a.test/"] true`,
		`POST /sources {"name":"a","topic_prefixes":[],"token_sha256":"` + strings.Repeat("ab", 32) + `"}`: `add a [] false`,
		"POST /sources/a.b-c/rotate":                                                                       "rotate a.b-c true",
		"DELETE /sources/a":                                                                                "revoke a",
	} {
		method, rest, _ := strings.Cut(line, " ")
		path, body, _ := strings.Cut(rest, " ")
		if resp, text := h.send(t, method+" /api/v1"+path, body); resp.StatusCode >= 300 {
			t.Errorf("%s: %d %s", line, resp.StatusCode, text)
		}
		if h.service.was() != want {
			t.Errorf("%s asks the service %q; want %q", line, h.service.was(), want)
		}
	}
}

// An error names the wrong part of a request, and the desk is not asked.
func TestRequestsAreReadStrictly(t *testing.T) {
	h := newFixture(t, nil)
	id, long := someID.String(), strings.Repeat("x", 3000)
	for _, test := range []struct {
		line   string
		status int
		wrong  string // the parameter
	}{
		{"GET /topics?limit=0", 400, "limit"},
		{"GET /topics?limit=-1", 400, "limit"},
		{"GET /topics?limit=1001", 400, "limit"},
		{"GET /topics?limit=1e3", 400, "limit"},
		{"GET /topics?limit=", 400, "limit"},
		{"GET /topics?limit=5&limit=6", 400, "limit"},
		{"GET /topics?failing=1", 400, "failing"},
		{"GET /topics?Limit=5", 400, `"Limit"`},
		{"GET /topics?contains=" + long, 400, "contains"},
		{"GET /topics?a=%zz", 400, ""},
		{"GET /topics?a;b", 400, ""},
		{"GET /overview?x=1", 400, `"x"`},
		{"GET /topic", 400, "topic"},
		{"GET /topic?topic=", 400, "topic"},
		{"GET /topic?topic=/a", 400, "topic"},
		{"GET /topic?topic=ftp://a.test/", 400, "topic"},
		{"GET /topic?topic=https://a.test/" + long, 400, "topic"},
		{"GET /notifications?topic=https://a.test/&before=-1", 400, "before"},
		{"GET /notifications?topic=https://a.test/&before=99999999999999999999", 400, "before"},
		{"GET /notifications/" + strings.ToUpper("urn:uuid:"+id), 400, "id"},
		{"GET /subscriptions/x", 400, "id"},
		{"GET /subscriptions/" + id[:35], 400, "id"},
		{"GET /subscriptions?after=x", 400, "after"},
		{"GET /subscriptions?state=sleeping", 400, "state"},
		{"GET /subscriptions?lag_over=0", 400, "lag_over"},
		{"GET /subscriptions?lease_under=soon", 400, "lease_under"},
		{"DELETE /subscriptions/" + id + "?reason=a%0Ab", 400, "reason"},
		{"DELETE /subscriptions/" + id + "?reason=" + long[:600], 400, "reason"},
		{"DELETE /sources/a%2Fb", 400, "name"},
		{"GET /topics/a", 404, "path"},
		{"GET /", 404, "path"},
		{`POST /subscriptions/` + id + `/replay {}`, 400, "from_seq"},
		{`POST /subscriptions/` + id + `/replay {"from_seq":-1}`, 400, "from_seq"},
		{`POST /subscriptions/` + id + `/replay {"from_seq":5,"last_seq":4}`, 400, "last_seq"},
		{`POST /subscriptions/` + id + `/replay {"from_seq":5,"to":6}`, 400, "to"},
		{`POST /subscriptions/` + id + `/replay {"from_seq":"5"}`, 400, "from_seq"},
		{`POST /subscriptions/` + id + `/replay {"from_seq":5}{}`, 400, ""},
		{`POST /subscriptions/` + id + `/replay [`, 400, ""},
		{`POST /subscriptions/` + id + `/replay`, 415, ""},
		{`POST /topic/trim {"topic":"https://a.test/"}`, 400, "before_seq"},
		{`POST /topic/trim {"topic":"a","before_seq":2}`, 400, "topic"},
		{`POST /sources {"name":"a/b","topic_prefixes":["https://a.test/"]}`, 400, "name"},
		{`POST /sources {"name":"a","topic_prefixes":[],"token_sha256":"ab"}`, 400, ""},
		{`POST /sources {"name":"a","x":"` + strings.Repeat("x", api.MaxRequest) + `"}`, 413, ""},
		{`PUT /log-level {"level":"loud"}`, 400, "level"},
		{"POST /backup", 404, ""},
	} {
		method, rest, _ := strings.Cut(test.line, " ")
		path, body, _ := strings.Cut(rest, " ")
		resp, text := h.send(t, method+" /api/v1"+path, body)
		var p api.Problem
		if err := json.Unmarshal([]byte(text), &p); err != nil || resp.StatusCode != test.status || p.Status != test.status || p.Parameter != test.wrong || p.Detail == "" {
			t.Errorf("%.120s: %d %.300s; want %d that names %q", test.line, resp.StatusCode, text, test.status, test.wrong)
		}
	}
	if h.service.was() != "" {
		t.Errorf("the service was asked %s", h.service.was())
	}
}

// A method that a path does not take is 405 with those that it takes; HEAD is GET without a body.
func TestMethods(t *testing.T) {
	h := newFixture(t, nil)
	allowed := map[string][]string{}
	for _, r := range api.Routes() {
		allowed[r.Path] = append(allowed[r.Path], r.Method)
		if r.Method == http.MethodGet {
			allowed[r.Path] = append(allowed[r.Path], http.MethodHead)
		}
	}
	for path, methods := range allowed {
		slices.Sort(methods)
		at := "/api/v1" + strings.NewReplacer("{id}", someID.String(), "{name}", "a").Replace(path)
		resp, text := h.send(t, "PATCH "+at, "")
		if got := resp.Header.Get("Allow"); resp.StatusCode != 405 || got != strings.Join(methods, ", ") || !strings.Contains(text, got) {
			t.Errorf("PATCH %s: %d, Allow %q %s; want %q", path, resp.StatusCode, got, text, methods)
		}
		if !slices.Contains(methods, http.MethodHead) || strings.Contains("/topic/notifications/listen/check", path) {
			continue
		}
		if resp, text := h.send(t, "HEAD "+at, ""); resp.StatusCode != 200 || text != "" || resp.Header.Get("Content-Type") == "" {
			t.Errorf("HEAD %s: %d %q", path, resp.StatusCode, text)
		}
	}
	for path := range map[string]bool{"/healthz": true, "/metrics": true} {
		if resp, _ := h.send(t, "POST "+path, ""); resp.StatusCode != 405 || resp.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("POST %s: %d", path, resp.StatusCode)
		}
	}
}

// Pages of other origins cannot have a browser ask.
func TestForeignPages(t *testing.T) {
	h := newFixture(t, nil)
	for site, want := range map[string]int{"cross-site": 403, "same-site": 403, "same-origin": 200, "none": 200, "": 200} {
		if resp, text := h.send(t, "GET /api/v1/overview", "", "Sec-Fetch-Site", site); resp.StatusCode != want {
			t.Errorf("from %q: %d %s; want %d", site, resp.StatusCode, text, want)
		}
	}
}

// A store that hangs does not hold who asks.
func TestAnswersComeInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := httptest.NewRecorder()
		service := &hanging{fakeService: newFakeService()}
		cfg := bareConfig()
		cfg.Service = service
		api.API(cfg).ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), "GET", "/api/v1/sources", nil))
		if rec.Code != 503 || rec.Header().Get("Retry-After") == "" || !strings.Contains(rec.Body.String(), "no answer within") {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
	})
}

// reader reads a stream event by event.
type reader struct{ *bufio.Scanner }

func (h *fixture) open(t *testing.T, path string) (*http.Response, *reader) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp, &reader{bufio.NewScanner(resp.Body)}
}

// next returns the next event; "": the stream has ended.
func (r *reader) next() (event, data string) {
	for r.Scan() {
		switch name, value, _ := strings.Cut(r.Text(), ": "); name {
		case "event":
			event = value
		case "data":
			return event, value
		}
	}
	return "", ""
}

// The overview is sent at once, is the API's answer, and is made once for all who look.
func TestEvents(t *testing.T) {
	stopping := make(chan struct{})
	h := newFixture(t, func(c *api.Config) { c.Stopping = stopping })
	_, want := h.send(t, "GET /api/v1/overview", "")
	var streams []*reader
	for range 5 {
		resp, events := h.open(t, "/api/v1/events")
		if kind := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || kind != "text/event-stream" {
			t.Fatalf("%d %s", resp.StatusCode, kind)
		}
		if event, data := events.next(); event != "overview" || data+"\n" != want {
			t.Errorf("%s %s; want %s", event, data, want)
		}
		streams = append(streams, events)
	}
	close(stopping)
	for _, events := range streams {
		for n := 0; ; n++ { // one may have been under way
			event, data := events.next()
			if event == "" {
				break
			}
			if n > 1 || event == "problem" {
				t.Fatalf("after the end comes %s %s", event, data)
			}
		}
	}
	if resp, _ := h.send(t, "GET /api/v1/events", ""); resp.StatusCode != 503 {
		t.Errorf("a stream of a hub that stops: %d", resp.StatusCode)
	}
	h.service.mu.Lock()
	defer h.service.mu.Unlock()
	if h.service.looked > 4 {
		t.Errorf("the service was asked %d times for 5 streams", h.service.looked)
	}
}

// There are only so many streams, and the place of one that ended is free.
func TestStreamsAreBounded(t *testing.T) {
	h := newFixture(t, nil)
	var last *http.Response
	for range api.MaxStreams {
		last, _ = h.open(t, "/api/v1/events")
	}
	resp, text := h.send(t, "GET /api/v1/events", "")
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
		t.Fatalf("one more: %d %s", resp.StatusCode, text)
	}
	if resp, _ := h.send(t, "GET /api/v1/overview", ""); resp.StatusCode != 200 {
		t.Errorf("another question beside the streams: %d", resp.StatusCode)
	}
	last.Body.Close()
	for resp.StatusCode == 503 { // until the server has seen it
		resp, _ = h.open(t, "/api/v1/events")
	}
}

// Heard notifications are streamed as they come; when the client goes, the listening ends.
func TestListening(t *testing.T) {
	h := newFixture(t, nil)
	h.service.heard = make(chan operator.TestEvent)
	resp, events := h.open(t, "/api/v1/listen?topic="+someTopic[:len(someTopic)-8])
	for n := range 3 {
		h.service.heard <- operator.TestEvent{At: noon, Kind: "notification", Text: fmt.Sprint(n), Body: "a\nb"}
		event, data := events.next()
		var got operator.TestEvent
		if err := json.Unmarshal([]byte(data), &got); err != nil || event != "heard" || got.Text != fmt.Sprint(n) || got.Body != "a\nb" {
			t.Errorf("%s %s %v", event, data, err)
		}
	}
	resp.Body.Close()
	<-h.service.stopped
}

// A failure during listening is an event, and the end.
func TestListeningFails(t *testing.T) {
	h := newFixture(t, nil)
	h.service.err = fmt.Errorf("%w: the topic names another hub", operator.ErrConflict)
	_, events := h.open(t, "/api/v1/listen?topic=https://a.test/")
	if event, data := events.next(); event != "problem" || !strings.Contains(data, `"status":409`) || !strings.Contains(data, "names another hub") {
		t.Errorf("%s %s", event, data)
	}
	if event, _ := events.next(); event != "" {
		t.Errorf("after the problem there is %s", event)
	}
}

// The overview is streamed to who may see it: when the token is another nothing more is sent.
func TestEventsEndWithTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := bareConfig()
		var token atomic.Value
		token.Store(goodToken)
		cfg.Service = newFakeService()
		cfg.Auth = api.NewAuth(func() string { return token.Load().(string) }, cfg.Logger)
		rec, ended := httptest.NewRecorder(), make(chan struct{})
		req := httptest.NewRequestWithContext(t.Context(), "GET", "/api/v1/events", nil)
		req.Header.Set("Authorization", "Bearer "+goodToken)
		go func() {
			defer close(ended)
			api.Handler(cfg).ServeHTTP(rec, req)
		}()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		token.Store("another-" + goodToken)
		before := strings.Count(rec.Body.String(), "event: overview")
		<-ended
		if after := strings.Count(rec.Body.String(), "event: overview"); before < 2 || after != before {
			t.Errorf("%d overviews before and %d after", before, after-before)
		}
	})
}

// A stream says that it lives, and ends for who is not let in any more.
func TestStreamsBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := bareConfig()
		var token atomic.Value
		token.Store(goodToken)
		service := newFakeService()
		cfg.Service = service
		cfg.Auth = api.NewAuth(func() string { return token.Load().(string) }, cfg.Logger)
		rec, ended := httptest.NewRecorder(), make(chan struct{})
		req := httptest.NewRequestWithContext(t.Context(), "GET", "/api/v1/listen?topic=https://a.test/", nil)
		req.Header.Set("Authorization", "Bearer "+goodToken)
		go func() {
			defer close(ended)
			api.Handler(cfg).ServeHTTP(rec, req)
		}()
		time.Sleep(api.BeatEvery*3 + time.Second)
		synctest.Wait()
		if beats := strings.Count(rec.Body.String(), ": beat\n"); beats != 3 {
			t.Errorf("%d beats", beats)
		}
		token.Store("another-" + goodToken)
		changed := time.Now()
		<-ended
		if took := time.Since(changed); took > api.BeatEvery {
			t.Errorf("the stream went on for %s", took)
		}
		select {
		case <-service.stopped:
		default:
			t.Error("the listening goes on after the answer has ended")
		}
	})
}
