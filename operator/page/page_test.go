package page_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon/delivery"
	"carillon/operator"
	"carillon/operator/page"
)

// level is that of log lines.
type level struct {
	mu   sync.Mutex
	name string
}

func (l *level) Get() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.name
}

func (l *level) Set(name string) error {
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, name) {
		return errors.New("the log level must be debug, info, warn or error")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.name = name
	return nil
}

func pages(d *fakeService) http.Handler {
	return page.New(page.Config{Service: d, Version: "0.6.0", Level: &level{name: "info"}, Logger: slog.New(slog.DiscardHandler)})
}

// get asks for a page, and post posts a form to it.
func get(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return rec
}

func post(t *testing.T, h http.Handler, path string, form url.Values, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	return rec
}

// Each change is asked about first, is done by a POST, and leads on to a page that says so.
func TestChanges(t *testing.T) {
	d := newFixture()
	h := pages(d)
	id := d.subs[0].ID.String()
	topic := d.topics[9].Topic
	for _, test := range []struct {
		path string
		form url.Values
		did  string
		to   string // "": the answer is a page
	}{
		{"/subscription/" + id + "/retry", nil, "retry " + id, "/subscription/" + id + "?done=retry"},
		{"/subscription/" + id + "/replay", url.Values{
			"from_seq": {"140"}, "last_seq": {"1\u202f143"},
		}, "replay " + id + " 140 1143", "/subscription/" + id + "?done=replay"},
		{"/subscription/" + id + "/replay", url.Values{"from_seq": {"140"}, "last_seq": {""}}, "replay " + id + " 140 0", "/subscription/" + id + "?done=replay"},
		{"/subscription/" + id + "/remove", url.Values{"reason": {" it fails "}}, "remove " + id + " it fails", "/subscriptions?done=remove"},
		{"/topic/trim", url.Values{"topic": {topic}, "before_seq": {"110"}}, "trim " + topic + " 110", "/topic?topic=" + url.QueryEscape(topic) + "&done=trim&n=12&bytes=34567"},
		{"/sources", url.Values{
			"name": {"new"}, "prefixes": {"https://a.example/\r\n\r\nhttps://b.example/x\r\n"},
		}, `add new ["https://a.example/" "https://b.example/x"]`, ""},
		{"/sources/library/rotate", nil, "rotate library", ""},
		{"/sources/library/revoke", nil, "revoke library", "/sources?done=revoke"},
	} {
		if rec := get(t, h, test.path+"?topic="+url.QueryEscape(topic)); rec.Code != 200 || !strings.Contains(rec.Body.String(), "<form") {
			t.Errorf("GET %s: %d", test.path, rec.Code)
		}
		if did := d.done(); did != "" {
			t.Errorf("looking at %s did %q", test.path, did)
		}
		rec := post(t, h, test.path, test.form)
		if did := d.done(); did != test.did {
			t.Errorf("POST %s did %q; want %q", test.path, did, test.did)
		}
		if test.to == "" {
			if rec.Code != 200 || !strings.Contains(rec.Body.String(), `id="made">`) {
				t.Errorf("POST %s: %d and no token", test.path, rec.Code)
			}
			continue
		}
		if rec.Code != http.StatusSeeOther || rec.Header().Get("Location") != test.to {
			t.Errorf("POST %s: %d to %q; want 303 to %q", test.path, rec.Code, rec.Header().Get("Location"), test.to)
		}
		if rec := get(t, h, test.to); !strings.Contains(rec.Body.String(), `class="box good"`) {
			t.Errorf("%s does not say what was done", test.to)
		}
	}
}

// A wrong entry is explained beside the form, which keeps it, and nothing is done.
func TestChangesRefused(t *testing.T) {
	d := newFixture()
	h := pages(d)
	id, topic := d.subs[0].ID.String(), d.topics[9].Topic
	for _, test := range []struct {
		path   string
		form   url.Values
		status int
		says   string
	}{
		{"/subscription/" + id + "/replay", url.Values{"from_seq": {"x<y"}}, 400, "must be a whole number, not &#34;x&lt;y&#34;"},
		{"/subscription/" + id + "/replay", url.Values{}, 400, "must be 1 or more"},
		{"/subscription/" + id + "/replay", url.Values{"from_seq": {"7"}}, 409, "the log begins with 100"},
		{"/subscription/" + id + "/remove", url.Values{"reason": {strings.Repeat("é", operator.MaxReason/2+1)}}, 400, "the reason is too long"},
		{"/topic/trim", url.Values{"topic": {topic}}, 400, "say before which number"},
		{"/topic/trim", url.Values{"topic": {topic}, "before_seq": {fmt.Sprint(d.topics[9].Head + 2)}}, 400, "at most"},
		{"/topic/trim", url.Values{"topic": {"https://nowhere.example/"}}, 404, "There is no such thing"},
		{"/sources", url.Values{"name": {"<b>"}, "prefixes": {"https://kept.example/"}}, 400, "https://kept.example/</textarea>"},
		{"/sources/nobody/revoke", nil, 404, "there is no Source"},
		{"/log-level", url.Values{"level": {"loud"}}, 400, "must be debug, info, warn or error"},
		{"/subscription/17/retry", nil, 400, "is not the ID of a subscription"},
		{"/sources", url.Values{"name": {strings.Repeat("x", 300<<10)}}, 400, "larger than"},
	} {
		rec := post(t, h, test.path, test.form)
		if rec.Code != test.status || !strings.Contains(rec.Body.String(), test.says) {
			t.Errorf("POST %s %.60v: %d without %q", test.path, test.form, rec.Code, test.says)
		}
		if did := d.done(); did != "" {
			t.Errorf("POST %s %.60v did %q", test.path, test.form, did)
		}
	}
}

// A foreign page can neither post nor listen.
func TestPagesOfOthersDoNothing(t *testing.T) {
	d := newFixture()
	h := pages(d)
	rec := post(t, h, "/subscription/"+d.subs[0].ID.String()+"/retry", nil, "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example")
	if rec.Code != 403 || rec.Header().Get("Content-Security-Policy") == "" {
		t.Errorf("a foreign POST: %d", rec.Code)
	}
	for _, path := range []string{
		"/live", "/listen/live?topic=" + url.QueryEscape(hostileTopic),
		"/check/live?url=" + url.QueryEscape(hostileTopic),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // for one that is let in
		defer cancel()
		req := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
		req.Header.Set("Sec-Fetch-Site", "cross-site")
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req)
		if rec.Code != 403 {
			t.Errorf("%s for a foreign page: %d", path, rec.Code)
		}
	}
	if did := d.done(); did != "" {
		t.Errorf("foreign pages did %q", did)
	}
}

// An error of the Desk has its status and its advice on the page where it happens, and an unforeseen
// one shows nothing from inside.
func TestErrorsOfTheDesk(t *testing.T) {
	d := newFixture()
	h := pages(d)
	for _, test := range []struct {
		err    error
		status int
		says   string
	}{
		{fmt.Errorf("%w: the log of <it> is away", operator.ErrUnavailable), 503, "the log of &lt;it&gt; is away"},
		{fmt.Errorf("%w: shard 3 moves", operator.ErrConflict), 409, "shard 3 moves"},
		{fmt.Errorf("%w: after", operator.ErrInvalid), 400, "Mend what was entered"},
		{errors.New("pebble: /secret/path"), 500, "The hub&#39;s log says what"},
	} {
		d.fail(test.err)
		for _, path := range []string{"/", "/topics", "/subscriptions", "/sources", "/subscription/" + d.subs[0].ID.String()} {
			rec := get(t, h, path)
			body := rec.Body.String()
			if rec.Code != test.status || !strings.Contains(body, test.says) || strings.Contains(body, "/secret/") || strings.Contains(body, "yet.") {
				t.Errorf("%s for %q: %d\n%s", path, test.err, rec.Code, body)
			}
			if retry := rec.Header().Get("Retry-After"); (retry != "") != (test.status == 503) {
				t.Errorf("%s for %q: Retry-After %q", path, test.err, retry)
			}
		}
	}
	d.fail(nil)
	for path, status := range map[string]int{
		"/nowhere": 404, "/topic?topic=x": 404, "/subscription/x": 400, "/static/none.css": 404, "/subscriptions?lag_over=-3m": 400,
		"/subscriptions?after=x": 400, "/notification?id=17": 400, "/listen?topic=ftp://x/": 400, "/listen/live?topic=javascript:1": 400,
		"/check?url=ftp://x/": 400, "/check/live?url=javascript:1": 400,
	} {
		if rec := get(t, h, path); rec.Code != status || !strings.Contains(rec.Body.String(), `role="alert"`) {
			t.Errorf("%s: %d; want %d and an alert", path, rec.Code, status)
		}
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodDelete, "/topics", nil))
	if rec.Code != 405 || rec.Header().Get("Allow") == "" {
		t.Errorf("DELETE: %d, Allow %q", rec.Code, rec.Header().Get("Allow"))
	}
}

// The pages lead through all topics and all subscriptions, each once.
func TestPagesOfLists(t *testing.T) {
	d := newFixture()
	h := pages(d)
	walk := func(path, cell string) (n int) {
		for at, pages := path, 0; at != "" && pages < 100; pages++ {
			body := get(t, h, at).Body.String()
			n += strings.Count(body, cell)
			_, next, _ := strings.Cut(body, `rel="next" href="`)
			next, _, _ = strings.Cut(next, `"`)
			if at = ""; next != "" {
				at = strings.SplitN(path, "?", 2)[0] + strings.ReplaceAll(next, "&amp;", "&")
			}
		}
		return n
	}
	if n := walk("/topics", `<th scope="row">`); n != worldTopics {
		t.Errorf("%d topics; want %d", n, worldTopics)
	}
	want := 0
	for _, s := range d.subs {
		if s.State == operator.StateFailing {
			want++
		}
	}
	if n := walk("/subscriptions?state=failing&gapped=true", `<th scope="row">`); n != want || n < 2*operator.DefaultLimit {
		t.Errorf("%d failing subscriptions; want %d, more than two pages", n, want)
	}
}

// The box at the top leads to what was pasted into it.
func TestFind(t *testing.T) {
	d := newFixture()
	h := pages(d)
	sub, topic := d.subs[5], d.topics[9].Topic
	n := notificationID(topic, 101)
	for q, want := range map[string]string{
		"":                          "/subscriptions",
		" " + sub.ID.String():       "/subscription/" + sub.ID.String(),
		n.String():                  "/notification?id=" + n.String(),
		topic:                       "/topic?topic=" + url.QueryEscape(topic),
		"https://feeds.example.org": "/topics?contains=https%3A%2F%2Ffeeds.example.org",
		"sub003":                    "/subscriptions?contains=sub003",
		"//evil.example":            "/subscriptions?contains=%2F%2Fevil.example",
	} {
		if rec := get(t, h, "/find?q="+url.QueryEscape(q)); rec.Code != 303 || rec.Header().Get("Location") != want {
			t.Errorf("%q leads to %d %q; want %q", q, rec.Code, rec.Header().Get("Location"), want)
		}
	}
}

// "Was it delivered to all?" has one answer.
func TestAnswer(t *testing.T) {
	for _, test := range []struct {
		tally   operator.Tally
		missing int
		want    string
	}{
		{operator.Tally{}, 0, "Nobody waits for it. No subscription that stands now is old enough to get it."},
		{operator.Tally{Subscribers: 1, Delivered: 1}, 0, "Yes. Its one subscriber has got it."},
		{operator.Tally{Subscribers: 50_000, Delivered: 50_000}, 0, "Yes. All 50\u202f000 subscribers have got it."},
		{
			operator.Tally{Subscribers: 50_000, Delivered: 49_963, Pending: 37, Failing: 37},
			0,
			"Not yet. 49\u202f963 of 50\u202f000 subscribers have got it; 37 still to be delivered (37 failing so far).",
		},
		{
			operator.Tally{Subscribers: 9, Delivered: 5, Pending: 1, GivenUp: 2, Trimmed: 1},
			0,
			"No. 5 of 9 subscribers have got it; 1 still to be delivered, 2 given up, 1 lost because the log was trimmed.",
		},
		{operator.Tally{Subscribers: 9, Delivered: 9}, 22, "It is not known of all. Of those that were looked at: All 9 subscribers have got it."},
		{operator.Tally{Subscribers: 9, Delivered: 8, GivenUp: 1}, 22, "No. Of those that were looked at: 8 of 9 subscribers have got it; 1 given up."},
	} {
		if got := page.Answer(test.tally, test.missing); got != test.want {
			t.Errorf("%+v: %q; want %q", test.tally, got, test.want)
		}
	}
	d := newFixture()
	for _, topic := range d.topics {
		if topic.Subscriptions != 50_000 {
			continue
		}
		rec := get(
			t, pages(d),
			"/notification?id="+notificationID(topic.Topic, topic.Head-delivery.Seq(1)).String()+"&topic="+url.QueryEscape(topic.Topic),
		)
		if !strings.Contains(
			rec.Body.String(),
			"<strong>Not yet.</strong> 49\u202f963 of 50\u202f000 subscribers have got it; 37 still to be delivered",
		) {
			t.Errorf("the page of a notification does not answer:\n%s", rec.Body)
		}
	}
}

func ExampleNew() {
	h := page.New(page.Config{Service: newEmpty()})
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/topics", nil))
	fmt.Println(rec.Code, strings.Contains(rec.Body.String(), "There are no topics yet."))
	// Output: 200 true
}

// Assets are sent whole: strangers may ask for them, and many small ranges would cost many times
// the file.
func TestAssetsHaveNoRanges(t *testing.T) {
	h := pages(newFixture())
	whole := get(t, h, "/static/page.css").Body.String()
	r := httptest.NewRequest(http.MethodGet, "/static/page.css", nil)
	r.Header.Set("Range", "bytes=0-0"+strings.Repeat(",2-2", 500))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK || w.Body.String() != whole || whole == "" {
		t.Errorf("501 ranges: %d, %d bytes; the file has %d", w.Code, w.Body.Len(), len(whole))
	}
}

// The list of Sources says what it means: nothing, where everybody may publish.
func TestSourcesOfAnOpenHub(t *testing.T) {
	for open, want := range map[bool][2]string{
		true:  {"<strong>everybody may publish</strong>", "<strong>everybody may publish</strong>"},
		false: {"", "Nobody can publish"},
	} {
		for i, d := range []*fakeService{newFixture(), newEmpty()} {
			said := get(t, page.New(page.Config{Service: d, Open: open}), "/sources").Body.String()
			if !strings.Contains(said, want[i]) || strings.Contains(said, "--publishers open") != open {
				t.Errorf("open %t, service %d: the page is\n%s", open, i, said)
			}
		}
	}
}
