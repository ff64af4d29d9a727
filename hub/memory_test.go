package hub_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/delivery"
	"carillon/delivery/deliverytest"
	"carillon/hub"
	"carillon/payload"
	"carillon/store/pebblestore"
	"carillon/topic"
)

const (
	memoryTopic = "https://source.example/set/change/"
	memoryList  = "https://source.example/set/capabilitylist.xml"
)

// minute is a whole minute of the time that the tests are about.
func minute(n int) time.Time { return time.Date(2026, 5, 1, 12, n, 0, 0, time.UTC) }

func told(t time.Time) string { return payload.FormatDatetime(t) }

// wroteOf is a notification of [from, until), with changes at these times.
func wroteOf(t testing.TB, from, until time.Time, up string, at ...time.Time) delivery.Publication {
	t.Helper()
	body, err := payload.AppendNotificationHead(nil, payload.Interval{From: from, Until: until}, up)
	for i, when := range at {
		if err == nil {
			e := payload.Entry{Loc: fmt.Sprintf("https://source.example/r/%d/%d", when.UnixMicro(), i), Change: payload.Updated, Datetime: when}
			body, err = payload.AppendEntry(body, &e)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return delivery.Publication{
		Topic: topic.Parse(memoryTopic), ContentType: "application/xml", From: told(from), Until: told(until),
		Body: payload.AppendNotificationTail(body),
	}
}

// remembering is a hub that has a memory.
type remembering struct {
	*stage
	t       testing.TB
	log     delivery.Log
	handler http.Handler
	notes   int
}

// newRemembering makes one of a log; nil: that of the embedded engine.
func newRemembering(t testing.TB, memory hub.Memory, change func(*hub.Config)) *remembering {
	t.Helper()
	m := &remembering{t: t}
	if memory == nil {
		db, err := pebblestore.NewMemory()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		m.log = deliverytest.Keyed(t, db.Log())
		memory = m.log
	}
	cfg := hub.Config{URL: hubURL}
	if change != nil {
		change(&cfg)
	}
	nobody := doFunc(func(r *http.Request) (*http.Response, error) { return nil, errors.New("nobody is asked") })
	m.stage = newStageWith(t, cfg, nobody, anywhere{}, func(s *stage) { s.memory = memory })
	m.handler = m.hub.Handler()
	return m
}

// publish appends to the log.
func (m *remembering) publish(p delivery.Publication) {
	m.t.Helper()
	m.notes++
	if _, err := m.log.Append(m.t.Context(), p, uuid.New(), minute(m.notes)); err != nil {
		m.t.Fatal(err)
	}
}

// minutes publishes a notification for each minute, with two changes in each.
func (m *remembering) minutes(from, until int) {
	m.t.Helper()
	for n := from; n < until; n++ {
		p := wroteOf(m.t, minute(n), minute(n+1), "", minute(n).Add(10*time.Second), minute(n).Add(40*time.Second))
		p.Links = []string{fmt.Sprintf("<%s>; rel=%q", memoryList, "resourcesync")}
		m.publish(p)
	}
}

// ask sends a request to the memory.
func (m *remembering) ask(query url.Values, header ...string) *httptest.ResponseRecorder {
	return m.send(http.MethodGet, "/websub/memory?"+query.Encode(), header...)
}

// from is ask, with a client.
func (m *remembering) from(client string, query url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/websub/memory?"+query.Encode(), nil)
	r.RemoteAddr = client
	w := httptest.NewRecorder()
	m.handler.ServeHTTP(w, r)
	return w
}

func (m *remembering) send(method, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	m.handler.ServeHTTP(w, r)
	return w
}

func since(from string) url.Values {
	q := url.Values{"topic": {memoryTopic}}
	if from != "" {
		q.Set("from", from)
	}
	return q
}

// document is one that was read.
type document struct {
	payload.Header
	entries []payload.Entry
}

func readDocument(t testing.TB, body io.Reader) document {
	t.Helper()
	in := payload.NewReader(body, payload.Limits{})
	var d document
	for {
		e, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		d.entries = append(d.entries, e)
	}
	var err error
	if d.Header, err = in.Header(); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d document) up() string {
	for _, l := range d.Links {
		if l.Rel == "up" {
			return l.Href
		}
	}
	return ""
}

// TestMemoryAnswers: the result for each time, with a hole between 12:04 and 12:06, other content in
// between, and 12:00 not kept any more.
func TestMemoryAnswers(t *testing.T) {
	m := newRemembering(t, nil, nil)
	m.minutes(0, 2)
	m.publish(delivery.Publication{Topic: topic.Parse(memoryTopic), ContentType: "text/plain", Body: []byte("something else")})
	m.minutes(2, 4)
	m.minutes(6, 9)
	if _, err := m.log.Trim(t.Context(), memoryTopic, 2, minute(30)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from        time.Time
		until       time.Time // of the answer; zero: 410
		changes     int
		earliest    time.Time
		description string
	}{
		{minute(1), minute(4), 6, time.Time{}, "the beginning of a notification"},
		{minute(2), minute(4), 4, time.Time{}, "the end of one is the beginning of the next"},
		{minute(1).Add(10 * time.Second), minute(4), 6, time.Time{}, "the time of a change"},
		{minute(1).Add(10*time.Second + time.Microsecond), minute(4), 5, time.Time{}, "what was before is left out"},
		{minute(3).Add(50 * time.Second), minute(4), 0, time.Time{}, "no change is left until the hole"},
		{minute(4), time.Time{}, 0, minute(6), "the hole is not bridged"},
		{minute(5), time.Time{}, 0, minute(6), "in the hole"},
		{minute(6), minute(9), 6, time.Time{}, "behind the hole"},
		{minute(9), minute(9), 0, time.Time{}, "nothing newer"},
		{minute(12), minute(12), 0, time.Time{}, "the future"},
		{minute(0), time.Time{}, 0, minute(1), "not kept any more"},
		{minute(-100), time.Time{}, 0, minute(1), "long ago"},
	} {
		t.Run(c.description, func(t *testing.T) {
			w := m.ask(since(told(c.from)))
			if c.until.IsZero() {
				checkAnswer(t, w, http.StatusGone)
				if got := w.Header().Get("X-Hub-Memory-Earliest"); got != told(c.earliest) || !strings.Contains(w.Body.String(), got) {
					t.Errorf("the earliest is %q, want %s: %s", got, told(c.earliest), w.Body)
				}
				return
			}
			if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/xml" {
				t.Fatalf("status %d as %q: %s", w.Code, w.Header().Get("Content-Type"), w.Body)
			}
			d := readDocument(t, w.Body)
			if d.Root != payload.RootURLSet || d.Capability != "changelist" || d.From != told(c.from) || d.Until != told(c.until) || d.up() != memoryList {
				t.Errorf(
					"%s %s from %s until %s up %s, want from %s until %s", d.Root, d.Capability,
					d.From, d.Until, d.up(), told(c.from), told(c.until),
				)
			}
			if len(d.entries) != c.changes {
				t.Errorf("%d changes, want %d", len(d.entries), c.changes)
			}
			for _, e := range d.entries {
				if e.Datetime.Before(c.from) || !e.Datetime.Before(c.until) {
					t.Errorf("a change of %s", e.Datetime)
				}
			}
		})
	}
	if d := readDocument(t, m.ask(since("")).Body); d.From != told(minute(1)) || d.Until != told(minute(4)) || len(d.entries) != 6 {
		t.Errorf("without from: from %s until %s with %d changes", d.From, d.Until, len(d.entries))
	}
}

// A log that keeps nothing knows up to when it had something.
func TestMemoryOfAnEmptyLog(t *testing.T) {
	m := newRemembering(t, nil, nil)
	m.minutes(0, 3)
	if _, err := m.log.Trim(t.Context(), memoryTopic, 100, minute(30)); err != nil {
		t.Fatal(err)
	}
	for _, from := range []time.Time{minute(3), minute(4)} {
		w := m.ask(since(told(from)))
		if d := readDocument(t, w.Body); w.Code != 200 || d.From != told(from) || d.Until != told(from) || len(d.entries) != 0 || d.up() != "" {
			t.Errorf("from %s: status %d, from %s until %s", from, w.Code, d.From, d.Until)
		}
	}
	w := m.ask(since(told(minute(2))))
	if earliest := w.Header().Get("X-Hub-Memory-Earliest"); w.Code != http.StatusGone || earliest != told(minute(3)) {
		t.Errorf("status %d, earliest %q", w.Code, earliest)
	}
}

// A notification may cover a moment only, at the end of the one before (core §7 counts both ends as
// covered). A client that asks from that moment gets it.
func TestMemoryOfAMoment(t *testing.T) {
	m := newRemembering(t, nil, nil)
	m.minutes(0, 1)
	p := wroteOf(t, minute(1), minute(2), "", minute(1))
	p.Until = p.From
	m.publish(p)
	for documents, want := range []int{1, 3} {
		if d := readDocument(t, m.ask(since(told(minute(1)))).Body); len(d.entries) != want || d.Until != told(minute(1+documents)) {
			t.Errorf("%d changes until %s, want %d", len(d.entries), d.Until, want)
		}
		m.minutes(1, 2)
	}
}

// An interval has both of its ends (core §7): a change exactly at the end of a notification is
// returned to a client that asks from there, and nothing else of that notification.
func TestMemoryAtTheSeam(t *testing.T) {
	noTime := payload.Entry{Loc: "https://source.example/r/undated", Change: payload.Updated}
	log := &fakeLog{}
	add := func(from, until int, at ...time.Time) {
		p := wroteOf(t, minute(from), minute(until), memoryList, at...)
		undated, err := payload.AppendTold(nil, &noTime)
		if err != nil {
			t.Fatal(err)
		}
		p.Body = bytes.Replace(p.Body, []byte("</urlset>"), append(undated, "</urlset>"...), 1)
		log.add(delivery.Seq(len(log.notes)+1), p, 500)
	}
	m := newRemembering(t, log, nil)
	for _, step := range []struct {
		add  func()
		want string // minutes, and - for what has no datetime
	}{
		{func() { add(0, 1, minute(0), minute(1)) }, "1"},
		{func() { add(1, 2, minute(1).Add(time.Second)) }, "1 1 -"},
		{func() { add(2, 3, minute(2), minute(3)) }, "1 1 - 2 3 -"},
	} {
		step.add()
		w := m.ask(since(told(minute(1))))
		d := readDocument(t, w.Body)
		var got []string
		for _, e := range d.entries {
			if e.Datetime.IsZero() {
				got = append(got, "-")
			} else {
				got = append(got, strconv.Itoa(e.Datetime.Minute()))
			}
		}
		if got := strings.Join(got, " "); got != step.want || d.From != told(minute(1)) || d.Until != told(minute(len(log.notes))) {
			t.Errorf("%d notifications: %q from %s until %s, want %q", len(log.notes), got, d.From, d.Until, step.want)
		}
	}
}

// An entry that is too long to stand beside the next one in a document is left out, so that the reader
// gets on. A client that asks before a hole gets an error that names it.
func TestMemoryAtALongSeam(t *testing.T) {
	log := &fakeLog{}
	log.add(1, wroteOf(t, minute(0), minute(1), memoryList, minute(1)), 2_000_000)
	log.add(2, wroteOf(t, minute(1), minute(2), memoryList, minute(1).Add(time.Second)), 500_000)
	log.add(3, wroteOf(t, minute(4), minute(5), memoryList, minute(4)), 500)
	m := newRemembering(t, log, nil)
	if d := readDocument(t, m.ask(since(told(minute(1)))).Body); len(d.entries) != 1 || d.Until != told(minute(2)) {
		t.Errorf("%d changes until %s", len(d.entries), d.Until)
	}
	if w := m.ask(since(told(minute(2)))); w.Code != http.StatusGone || w.Header().Get("X-Hub-Memory-Earliest") != told(minute(4)) {
		t.Errorf("before the hole: %d %s", w.Code, w.Body)
	}
}

// A Source that sends old notifications again does not have the memory say that there is nothing
// newer than those.
func TestMemoryWhereOldOnesCameAgain(t *testing.T) {
	log := &fakeLog{}
	for _, n := range []int{0, 1, 2, 0, 1} {
		log.add(delivery.Seq(len(log.notes)+1), wroteOf(t, minute(n), minute(n+1), memoryList, minute(n)), 500)
	}
	m := newRemembering(t, log, nil)
	for _, tt := range []struct{ from, until, changes int }{{2, 3, 1}, {3, 3, 0}, {4, 4, 0}} {
		d := readDocument(t, m.ask(since(told(minute(tt.from)))).Body)
		if d.Until != told(minute(tt.until)) || len(d.entries) != tt.changes {
			t.Errorf("from %d: until %s, %d changes", tt.from, d.Until, len(d.entries))
		}
	}
	for n := range 3000 { // more than is looked at
		log.add(delivery.Seq(100+n), wroteOf(t, minute(0), minute(1), memoryList), 500)
	}
	log.calls = 0
	if w := m.ask(since(told(minute(4)))); w.Code != http.StatusOK || log.calls > 10 {
		t.Errorf("%d calls, status %d", log.calls, w.Code)
	}
}

func TestMemoryRefusals(t *testing.T) {
	m := newRemembering(t, nil, nil)
	m.minutes(0, 1)
	m.publish(delivery.Publication{Topic: topic.Parse("https://source.example/text"), ContentType: "text/plain", Body: []byte("text")})
	at := "from=2026-05-01T12:00:00Z"
	topic := "topic=" + url.QueryEscape(memoryTopic)
	for _, c := range []struct {
		query  string
		status int
		says   string
	}{
		{at, 400, "topic is missing"},
		{"topic=&" + at, 400, "topic is missing"},
		{topic + "&topic=x&" + at, 400, "topic is given more than once"},
		{"topic=" + strings.Repeat("x", 2049), 400, "topic is longer than 2048 bytes"},
		{topic + "&from=", 400, "from must be a W3C Datetime"},
		{topic + "&from=yesterday", 400, "from must be a W3C Datetime"},
		{topic + "&from=0001-01-01T00:00:00Z", 400, "from must be a W3C Datetime"},
		{topic + "&from=2026-05-01&" + at, 400, "from is given more than once"},
		{topic + "&form=2026-05-01", 400, "neither topic nor from"},
		{topic + ";" + at, 400, "not form-encoded"},
		{"topic=https://source.example/unknown&" + at, 404, "no change notification of this topic"},
		{"topic=https://source.example/text&" + at, 404, "no change notification of this topic"},
		{"topic=nonsense&" + at, 404, "no change notification of this topic"},
	} {
		w := m.send(http.MethodGet, "/websub/memory?"+c.query)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%.80s: %d %s", c.query, w.Code, w.Body)
		}
		checkAnswer(t, w, c.status)
	}
	if w := m.send(http.MethodPost, "/websub/memory?"+topic); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
	for spelling, want := range map[string]int{"https://source.example/%73et/change/": 200, "https://source.example/set/change": 404} {
		if w := m.ask(url.Values{"topic": {spelling}}); w.Code != want {
			t.Errorf("%s: %d, want %d", spelling, w.Code, want)
		}
	}
}

// The Capability List is the one that the publication's Link names, or else the one that the
// notification names itself; a value that is no URI is left out.
func TestMemoryNamesTheCapabilityList(t *testing.T) {
	for name, c := range map[string]struct {
		links []string
		up    string
		want  string
	}{
		"by the link": {[]string{
			`<https://x.example/other>; rel="describedby"`, `<https://x.example/list>; rel="resourcesync"`,
		}, memoryList, "https://x.example/list"},
		"by the notification": {nil, memoryList, memoryList},
		"by nobody":           {nil, "", ""},
		"by a broken link":    {[]string{`<no URI>; rel="resourcesync"`}, "", ""},
	} {
		m := newRemembering(t, nil, nil)
		p := wroteOf(t, minute(0), minute(1), c.up, minute(0))
		p.Links = c.links
		m.publish(p)
		for _, from := range []int{0, 1} {
			if d := readDocument(t, m.ask(since(told(minute(from)))).Body); d.up() != c.want {
				t.Errorf("%s, from %d: %q, want %q", name, from, d.up(), c.want)
			}
		}
	}
}

// Entries are returned as the Source wrote them, in our one form.
func TestMemoryTellsEntriesAsTheyWere(t *testing.T) {
	m := newRemembering(t, nil, nil)
	body := `<?xml version="1.0"?><s:urlset xmlns:s="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:r="http://www.openarchives.org/rs/terms/" xmlns:o="urn:other">
<r:ln rel="up" href="` + memoryList + `"/><r:md capability="change-notification" from="2026-05-01T12:00:00Z" until="2026-05-01T14:01:00+02:00"/>
<s:url><s:loc>https://source.example/a?x=1&amp;y=<![CDATA[<>]]></s:loc><s:lastmod>2026-04-30</s:lastmod><r:md change="created" datetime="2026-05-01T12:00:01+00:00" hash="md5:d41d8cd98f00b204e9800998ecf8427e" length="0" type="text/html; charset=utf-8"/>
<r:ln rel="duplicate" href="https://mirror.example/a" pri="1"/><o:more/></s:url>
<s:url><s:loc>https://source.example/b</s:loc><r:md change="deleted"/></s:url>
</s:urlset>`
	p := wroteOf(t, minute(0), minute(1), "")
	p.Body, p.From, p.Until = []byte(body), "2026-05-01T12:00:00Z", "2026-05-01T14:01:00+02:00"
	m.publish(p)
	want := readDocument(t, strings.NewReader(body)).entries
	got := readDocument(t, m.ask(since(told(minute(0)))).Body)
	if got.Until != told(minute(1)) || len(got.entries) != len(want) {
		t.Fatalf("until %s, %d entries", got.Until, len(got.entries))
	}
	for i := range want {
		got.entries[i].Line = want[i].Line
		if fmt.Sprintf("%+v", got.entries[i]) != fmt.Sprintf("%+v", want[i]) {
			t.Errorf("entry %d:\n%+v, want\n%+v", i, got.entries[i], want[i])
		}
	}
	// One without a time may be of any in the notification.
	if later := readDocument(
		t, m.ask(since(told(minute(0).Add(30*time.Second)))).Body,
	); len(later.entries) != 1 || later.entries[0].Loc != want[1].Loc {
		t.Errorf("from the middle: %+v", later.entries)
	}
}

func TestMemoryConditionally(t *testing.T) {
	m := newRemembering(t, nil, nil)
	m.minutes(0, 2)
	q := since(told(minute(0)))
	plain, zipped := m.ask(q), m.ask(q, "Accept-Encoding: deflate, gzip;q=0.5")
	tag, tagZipped := plain.Header().Get("ETag"), zipped.Header().Get("ETag")
	if len(tag) < 10 || !strings.HasPrefix(tag, `"`) || tag == tagZipped || plain.Header().Get("Vary") != "Accept-Encoding" {
		t.Errorf("ETag %s and %s, Vary %s", tag, tagZipped, plain.Header().Get("Vary"))
	}
	if zipped.Header().Get("Content-Encoding") != "gzip" || plain.Header().Get("Content-Encoding") != "" {
		t.Errorf("codings %q and %q", plain.Header().Get("Content-Encoding"), zipped.Header().Get("Content-Encoding"))
	}
	unzipped, err := gzip.NewReader(zipped.Body)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(unzipped); err != nil || !bytes.Equal(text, plain.Body.Bytes()) {
		t.Errorf("compressed it is %q, %v", text, err)
	}
	for accept, coding := range map[string]string{
		"gzip;q=0": "", "*": "gzip", "*;q=0": "", "gzip;q=0, *": "", "*, gzip;q=0": "", "br": "", "identity": "", "x-gzip": "gzip",
	} {
		if got := m.ask(q, "Accept-Encoding: "+accept).Header().Get("Content-Encoding"); got != coding {
			t.Errorf("Accept-Encoding %s: %q", accept, got)
		}
	}
	for _, c := range []struct {
		sent   string
		header []string
		status int
	}{
		{tag, nil, 304},
		{"W/" + tag, nil, 304},
		{`"x", ` + tag, nil, 304},
		{"*", nil, 304},
		{`"x"`, nil, 200},
		{tag, []string{"Accept-Encoding: gzip"}, 200},
		{tagZipped, []string{"Accept-Encoding: gzip"}, 304},
	} {
		w := m.ask(q, append(c.header, "If-None-Match: "+c.sent)...)
		if w.Code != c.status || c.status == 304 && (w.Body.Len() > 0 || w.Header().Get("ETag") == "") {
			t.Errorf("If-None-Match %s %v: %d with %d bytes", c.sent, c.header, w.Code, w.Body.Len())
		}
	}
	if w := m.send(http.MethodHead, "/websub/memory?"+q.Encode()); w.Code != 200 || w.Body.Len() > 0 || w.Header().Get("ETag") != tag {
		t.Errorf("HEAD: %d with %d bytes, ETag %s", w.Code, w.Body.Len(), w.Header().Get("ETag"))
	}
	m.minutes(2, 3)
	if w := m.ask(q, "If-None-Match: "+tag); w.Code != 200 {
		t.Errorf("when there is more: %d", w.Code)
	}
	nothing := m.ask(since(told(minute(3))))
	if w := m.ask(since(told(minute(3))), "If-None-Match: "+nothing.Header().Get("ETag")); w.Code != 304 {
		t.Errorf("nothing newer, again: %d", w.Code)
	}
	m.minutes(3, 4)
	if w := m.ask(since(told(minute(3))), "If-None-Match: "+nothing.Header().Get("ETag")); w.Code != 200 {
		t.Errorf("something newer: %d", w.Code)
	}
}

// A Destination learns of the memory from the answer to its request to subscribe; without a
// memory there is neither.
func TestMemoryIsTold(t *testing.T) {
	topic := "http://127.0.0.1:9/t?a=b&c=d"
	subscribe := func(s *stage, mode string) string {
		r := httptest.NewRequest(
			http.MethodPost, "/websub/",
			strings.NewReader(form("hub.mode", mode, "hub.topic", topic, "hub.callback", aCallback)),
		)
		r.Header.Set("Content-Type", formType)
		w := httptest.NewRecorder()
		s.hub.Handler().ServeHTTP(w, r)
		if w.Code != http.StatusAccepted {
			t.Fatalf("%s: %d %s", mode, w.Code, w.Body)
		}
		return w.Header().Get("Link")
	}
	m := newRemembering(t, nil, nil)
	want := `<https://hub.example/websub/memory?topic=http://127.0.0.1:9/t?a=b%26c=d>; rel="archives"; type="application/xml"`
	if got := subscribe(m.stage, "subscribe"); got != want {
		t.Errorf("Link is %s, want %s", got, want)
	}
	if got := subscribe(m.stage, "unsubscribe"); got != "" {
		t.Errorf("Link of who unsubscribes is %s", got)
	}
	m.memory = nil
	m.rebuild(t, hub.Config{URL: hubURL}, doFunc(nil), anywhere{})
	if got := subscribe(m.stage, "subscribe"); got != "" {
		t.Errorf("without a memory: Link %s", got)
	}
	m.handler = m.hub.Handler()
	if w := m.ask(since("")); w.Code != http.StatusNotFound {
		t.Errorf("without a memory: %d", w.Code)
	}
}

// brokenLog fails or waits where a test wants it to.
type brokenLog struct {
	delivery.Log
	read func(ctx context.Context, seq delivery.Seq) error
}

// errReplaced has another notification stand where one was.
var errReplaced = errors.New("replaced")

func (b *brokenLog) Read(ctx context.Context, topic string, from delivery.Seq) (*delivery.Notification, error) {
	if err := b.read(ctx, from); errors.Is(err, errReplaced) {
		n, err := b.Log.Read(ctx, topic, from+1)
		if err == nil {
			other := *n
			other.Seq = from
			n = &other
		}
		return n, err
	} else if err != nil {
		return nil, err
	}
	return b.Log.Read(ctx, topic, from)
}

// A log is trimmed, or a store fails, in the middle of a document: the connection is cut, so that no
// client takes the part for the whole. Before the first byte the failure is an answer.
func TestMemoryBreaksOff(t *testing.T) {
	var fail atomic.Pointer[func(seq delivery.Seq) error]
	broken := &brokenLog{read: func(_ context.Context, seq delivery.Seq) error { return (*fail.Load())(seq) }}
	m := newRemembering(t, broken, nil)
	db, err := pebblestore.NewMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	m.log, broken.Log = db.Log(), db.Log()
	m.minutes(0, 3)
	server := httptest.NewServer(m.handler)
	defer server.Close()
	once := &http.Transport{DisableKeepAlives: true} // on a kept connection it would ask again
	for name, c := range map[string]struct {
		at     delivery.Seq
		err    error
		status int // 0: the connection is cut
	}{
		"trimmed in the middle":      {2, delivery.ErrEndOfLog, 0},
		"replaced in the middle":     {2, errReplaced, 0},
		"away in the middle":         {3, delivery.ErrUnavailable, 0},
		"replaced at the beginning":  {1, errReplaced, 503},
		"trimmed from the beginning": {1, delivery.ErrEndOfLog, 503},
		"away from the beginning":    {1, delivery.ErrUnavailable, 503},
		"whole":                      {9, nil, 200},
	} {
		fails := func(seq delivery.Seq) error {
			if seq == c.at {
				return c.err
			}
			return nil
		}
		fail.Store(&fails)
		for _, coding := range []string{"identity", "gzip"} {
			req, err := http.NewRequest(http.MethodGet, server.URL+"/websub/memory?"+since(told(minute(0))).Encode(), nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Accept-Encoding", coding)
			resp, err := once.RoundTrip(req)
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			switch {
			case c.status == 0 && err == nil:
				t.Errorf("%s, %s: it looks whole", name, coding)
			case c.status != 0 && (err != nil || resp.StatusCode != c.status || (c.status == 503) != (resp.Header.Get("Retry-After") != "") || c.status == 503 && resp.Header.Get("Content-Encoding") != ""):
				t.Errorf("%s, %s: %v %v", name, coding, resp, err)
			}
		}
	}
	for result, want := range map[string]float64{"cut_off": 6, "failed": 6, "answered": 2} {
		if got := value(t, m.registry, "carillon_hub_memory_answers_total", result); got != want {
			t.Errorf("%s: %v, want %v", result, got, want)
		}
	}
}

// TestMemoryLimits: one client reads so often, and so much at a time; all read so much at a time.
func TestMemoryLimits(t *testing.T) {
	begun, goOn := make(chan struct{}), make(chan struct{})
	broken := &brokenLog{read: func(ctx context.Context, _ delivery.Seq) error {
		select {
		case begun <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		<-goOn
		return nil
	}}
	m := newRemembering(t, broken, func(c *hub.Config) {
		c.MemoryRate, c.MemoryBurst, c.MemoryReadings, c.MemoryReadingsPerClient = 1, 4, 3, 2
	})
	db, err := pebblestore.NewMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	m.log, broken.Log = db.Log(), db.Log()
	m.minutes(0, 1)
	from := func(client string) *httptest.ResponseRecorder { return m.from(client, since(told(minute(0)))) }
	done := make(chan int)
	read := func(client string) {
		go func() { done <- from(client).Code }()
		<-begun
	}
	read("192.0.2.1:1")
	read("192.0.2.1:2")
	w := from("192.0.2.1:3")
	checkAnswer(t, w, 429)
	if !strings.Contains(w.Body.String(), "under way in your network") {
		t.Errorf("%s", w.Body)
	}
	read("192.0.2.2:1")
	checkAnswer(t, from("192.0.2.3:1"), 503)
	checkAnswer(t, from("127.0.0.1:1"), 503)
	if got := value(t, m.registry, "carillon_hub_memory_readings", ""); got != 3 {
		t.Errorf("%v readings under way", got)
	}
	close(goOn)
	for range 3 {
		if status := <-done; status != 200 {
			t.Errorf("status %d", status)
		}
	}
	broken.read = func(context.Context, delivery.Seq) error { return nil }
	if w := from("192.0.2.1:4"); w.Code != 200 {
		t.Errorf("after that: %d %s", w.Code, w.Body)
	}
	w = from("192.0.2.1:5") // the fifth at once
	checkAnswer(t, w, 429)
	if !strings.Contains(w.Body.String(), "Too many requests") {
		t.Errorf("%s", w.Body)
	}
}

// Bodies that are read have a part of the room for bodies, and no more.
func TestMemoryHasItsRoom(t *testing.T) {
	big := &fakeLog{}
	begun, goOn := make(chan struct{}, 9), make(chan struct{})
	waits := &waitingLog{big, begun, goOn}
	m := newRemembering(t, waits, func(c *hub.Config) { c.MaxBody, c.MaxBodiesBytes = 5_000_000, 40_000_000 })
	p := wroteOf(t, minute(0), minute(1), "", minute(0))
	big.add(10, p, 5_000_000)
	big.add(11, wroteOf(t, minute(1), minute(2), "", minute(1)), 1000)
	done := make(chan int)
	for i := range 2 {
		go func() { done <- m.from(fmt.Sprintf("192.0.2.%d:1", i), since(told(minute(0)))).Code }()
		<-begun
	}
	checkAnswer(t, m.from("192.0.2.3:1", since(told(minute(0)))), 503)
	checkAnswer(t, m.from("192.0.2.1:2", since(told(minute(0)))), 429) // a quarter, or one
	close(goOn)
	for range 2 {
		if status := <-done; status != 200 {
			t.Errorf("status %d", status)
		}
	}
	// One document is made of so much, or of one notification.
	if w := m.ask(since(told(minute(0)))); w.Code != 200 || readDocument(t, w.Body).Until != told(minute(1)) {
		t.Errorf("after that: %d", w.Code)
	}
}

type waitingLog struct {
	*fakeLog
	begun, goOn chan struct{}
}

func (l *waitingLog) Read(ctx context.Context, topic string, from delivery.Seq) (*delivery.Notification, error) {
	l.begun <- struct{}{}
	<-l.goOn
	return l.fakeLog.Read(ctx, topic, from)
}

// fakeLog is one log in memory, with any numbers and lengths.
type fakeLog struct {
	key   string
	notes []delivery.Notification
	sizes []int64
	calls int
}

func (l *fakeLog) add(seq delivery.Seq, p delivery.Publication, size int64) {
	l.notes = append(l.notes, delivery.Notification{Publication: p, Seq: seq, ID: uuid.New()})
	l.sizes = append(l.sizes, size)
	l.key = p.Topic.Key()
}

func (l *fakeLog) State(_ context.Context, topic string) (delivery.TopicState, error) {
	l.calls++
	if len(l.notes) == 0 || topic != l.key {
		return delivery.TopicState{First: 1}, nil
	}
	last := l.notes[len(l.notes)-1]
	return delivery.TopicState{First: l.notes[0].Seq, Head: last.Seq, Last: delivery.Last{ID: last.ID, Until: last.Until}}, nil
}

func (l *fakeLog) summary(i int) delivery.Summary {
	n := l.notes[i]
	return delivery.Summary{Seq: n.Seq, ID: n.ID, From: n.From, Until: n.Until, Bytes: l.sizes[i]}
}

func (l *fakeLog) Summaries(_ context.Context, _ string, before delivery.Seq, limit int) (all []delivery.Summary, _ error) {
	l.calls++
	for i := len(l.notes) - 1; i >= 0 && len(all) < limit; i-- {
		if before == 0 || l.notes[i].Seq < before {
			all = append(all, l.summary(i))
		}
	}
	return all, nil
}

func (l *fakeLog) index(from delivery.Seq) int {
	return slices.IndexFunc(l.notes, func(n delivery.Notification) bool { return n.Seq >= from })
}

func (l *fakeLog) Summary(_ context.Context, _ string, from delivery.Seq) (delivery.Summary, error) {
	l.calls++
	if i := l.index(from); i >= 0 {
		return l.summary(i), nil
	}
	return delivery.Summary{}, delivery.ErrEndOfLog
}

func (l *fakeLog) Read(_ context.Context, _ string, from delivery.Seq) (*delivery.Notification, error) {
	if i := l.index(from); i >= 0 {
		return &l.notes[i], nil
	}
	return nil, delivery.ErrEndOfLog
}

// value is a metric with a label value, empty: the only one of its name.
func value(t testing.TB, from prometheus.Gatherer, name, label string) float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, one := range family.GetMetric() {
			if family.GetName() == name && (label == "" || one.GetLabel()[0].GetValue() == label) {
				return one.GetCounter().GetValue() + one.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("there is no %s of %q", name, label)
	return 0
}
