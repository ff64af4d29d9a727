package lists_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/destination/lists"
	"carillon/payload"
)

func filesIn(t testing.TB, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// endless gives the same over and over.
type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.text[e.at:])
	e.at = (e.at + n) % len(e.text)
	return n, nil
}

// A stranger's documents are bounded, and broken ones hand on nothing.
func TestBadDocuments(t *testing.T) {
	begin := "<urlset " + spaces + ">" + changed("10:00", "")
	small := lists.Limits{Bytes: 4000, Entries: 5, Parts: 3, Documents: 4}
	for name, tt := range map[string]struct {
		pages map[string]page
		want  error
		words string
	}{
		"a list that never ends": {map[string]page{
			"/l": {reader: io.MultiReader(strings.NewReader(begin), &endless{text: change("a", "10:10")})},
		}, payload.ErrTooManyEntries, "5"},
		"white space that never ends": {map[string]page{
			"/l": {reader: io.MultiReader(strings.NewReader(begin), &endless{text: "\n"})},
		}, payload.ErrTooLarge, "4000"},
		"too many entries": {map[string]page{
			"/l": {body: urlset(changed("10:00", ""), strings.Repeat(change("a", "10:10"), 6))},
		}, payload.ErrTooManyEntries, "5"},
		"too many parts": {map[string]page{
			"/l": {body: sitemapindex(changed("10:00", ""), strings.Repeat(listed("/x", "", ""), 4))},
		}, payload.ErrTooManyEntries, "3"},
		"too deep": {map[string]page{"/l": {body: urlset(strings.Repeat("<x>", 50))}}, payload.ErrTooDeep, ""},
		"a doctype": {map[string]page{
			"/l": {body: `<!DOCTYPE urlset [<!ENTITY a "b">]>` + urlset()},
		}, payload.ErrDoctype, ""},
		"broken off": {map[string]page{"/l": {body: begin + change("a", "10:10")}}, payload.ErrSyntax, ""},
		"the connection breaks": {map[string]page{
			"/l": {reader: io.MultiReader(strings.NewReader(begin+change("a", "10:10")), failing{})},
		}, errBroken, ""},
		"a page":  {map[string]page{"/l": {body: "<html><body>not found</body></html>"}}, payload.ErrNotResourceSync, ""},
		"nothing": {map[string]page{"/l": {}}, payload.ErrSyntax, ""},
		"a Capability List": {map[string]page{
			"/l": {body: urlset(up, md(`capability="capabilitylist"`))},
		}, lists.ErrAnswer, "capabilitylist"},
		"a Resource List": {map[string]page{
			"/l": {body: urlset(taken("10:00", ""), resource("a"))},
		}, lists.ErrAnswer, "resourcelist"},
		"a bomb": {
			map[string]page{"/l": {body: packed(t, begin+strings.Repeat(" ", 1<<18)), header: map[string]string{"Content-Encoding": "gzip"}}},
			payload.ErrTooLarge, "4000",
		},
		"a bomb in a file": {map[string]page{
			"/l": {body: packed(t, begin+strings.Repeat(" ", 1<<18))},
		}, payload.ErrTooLarge, "4000"},
		"a bomb in a bomb": {
			map[string]page{
				"/l": {body: packed(t, packed(t, begin+strings.Repeat(" ", 1<<18))), header: map[string]string{"Content-Encoding": "gzip"}},
			},
			payload.ErrTooLarge, "4000",
		},
		"packed nothing, for ever": {map[string]page{
			"/l": {reader: &endless{text: packed(t, "")}, header: map[string]string{"Content-Encoding": "gzip"}},
		}, payload.ErrTooLarge, "4000"},
		"packed nothing, packed": {
			map[string]page{"/l": {body: packed(t, strings.Repeat(packed(t, ""), 500)), header: map[string]string{"Content-Encoding": "gzip"}}},
			payload.ErrTooLarge, "4000",
		},
		"not packed as it says": {map[string]page{
			"/l": {body: urlset(), header: map[string]string{"Content-Encoding": "gzip"}},
		}, lists.ErrAnswer, "gzip"},
		"an unknown coding": {map[string]page{
			"/l": {body: urlset(), header: map[string]string{"Content-Encoding": "br"}},
		}, lists.ErrAnswer, `"br"`},
		"404":                       {nil, lists.ErrAnswer, "404"},
		"401":                       {map[string]page{"/l": {status: 401}}, lists.ErrAnswer, "401"},
		"304 that nobody asked for": {map[string]page{"/l": {status: 304}}, lists.ErrAnswer, "304"},
		"an index that points to itself": {map[string]page{
			"/l": {body: sitemapindex(changed("10:00", ""), listed(site+"/l", "10:00", ""))},
		}, lists.ErrLoop, "itself"},
		"an index within an index": {
			map[string]page{
				"/l": {body: sitemapindex(changed("10:00", ""), listed("/m", "10:00", ""))},
				"/m": {body: sitemapindex(changed("10:00", ""), listed("/l", "10:00", ""))},
			},
			lists.ErrLoop, "within",
		},
		"a list that redirects to its index": {map[string]page{
			"/l": {body: sitemapindex(changed("10:00", ""), listed("/m", "10:00", ""))}, "/m": redirect("/l"),
		}, lists.ErrLoop, "within"},
		"an index to another host": {
			map[string]page{"/l": {body: sitemapindex(changed("10:00", ""), listed("https://elsewhere.example/1", "10:00", ""))}},
			lists.ErrOtherHost, "elsewhere.example",
		},
		"an index to another port": {map[string]page{
			"/l": {body: sitemapindex(changed("10:00", ""), listed("https://source.example:8443/1", "10:00", ""))},
		}, lists.ErrOtherHost, "8443"},
		"an index to a file": {map[string]page{
			"/l": {body: sitemapindex(changed("10:00", ""), listed("file:///etc/passwd", "10:00", ""))},
		}, lists.ErrAnswer, "file"},
		"an index to a user": {map[string]page{
			"/l": {body: sitemapindex(changed("10:00", ""), listed("https://a:b@source.example/", "10:00", ""))},
		}, lists.ErrAnswer, "user"},
		"a redirect to another host": {map[string]page{
			"/l": redirect("https://elsewhere.example/l"),
		}, lists.ErrOtherHost, "elsewhere.example"},
		"redirects without end": {map[string]page{"/l": redirect("/l")}, lists.ErrLoop, ""},
		"more documents than the limit": {map[string]page{
			"/l": {body: sitemapindex(changed("10:00", ""), listed("/1", "", ""), listed("/2", "", ""), listed("/3", "", ""))},
			"/1": redirect("/1a"), "/1a": {body: urlset(changed("10:00", "11:00"))}, "/2": redirect("/2a"), "/2a": {body: urlset(changed("11:00", ""))},
		}, lists.ErrLoop, "4"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNetwork(t, tt.pages)
			got, _, err := visits(t, w.client(lists.Config{Limits: small}), site+"/l", "")
			if !errors.Is(err, tt.want) || !strings.Contains(fmt.Sprint(err), tt.words) {
				t.Errorf("error %v, want %v about %q", err, tt.want, tt.words)
			}
			if got != "" {
				t.Errorf("%q was visited", got)
			}
			if n := filesIn(t, w.dir); n > 0 {
				t.Errorf("%d files are left behind", n)
			}
		})
	}
}

func redirect(to string) page {
	return page{status: http.StatusFound, header: map[string]string{"Location": to}}
}

var errBroken = errors.New("connection reset")

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errBroken }

func TestHosts(t *testing.T) {
	list := page{body: urlset(changed("10:00", ""), change("a", "10:10"))}
	for _, tt := range []struct {
		start, leads string
		hosts        []string
		asked        string // the requested address; empty if it is refused
	}{
		{"https://a.example/l", "https://a.example/m", nil, "https://a.example/m"},
		{"https://a.example/l", "https://A.EXAMPLE.:443/m", nil, "https://A.EXAMPLE.:443/m"},
		{"http://a.example/l", "https://a.example/m", nil, "https://a.example/m"},
		{"https://a.example/l", "http://a.example/m", nil, "https://a.example/m"},
		{"https://a.example:8443/l", "http://a.example:8443/m", nil, ""},
		{"http://a.example:8080/l", "https://a.example/m", nil, ""},
		{"http://a.example:8080/l", "http://a.example:8080/m", nil, "http://a.example:8080/m"},
		{"https://a.example/l", "https://b.example/m", nil, ""},
		{"https://a.example/l", "https://b.example/m", []string{"b.example"}, "https://b.example/m"},
		{"https://a.example/l", "https://b.example:8443/m", []string{"b.example"}, "https://b.example:8443/m"},
		{"https://a.example/l", "https://b.example:8443/m", []string{"b.example:8443"}, "https://b.example:8443/m"},
		{"https://a.example/l", "https://b.example/m", []string{"b.example:8443"}, ""},
		{"https://a.example/l", "https://sub.b.example/m", []string{"b.example"}, ""},
		{"https://a.example/l", "https://b.example.evil.example/m", []string{"b.example"}, ""},
		{"https://a.example/l", "//b.example/m", nil, ""},
		{"http://[::1]:80/l", "http://[::1]/m", nil, "http://[::1]/m"},
		{"http://127.0.0.1:8090/l", "http://127.0.0.1:8091/m", nil, ""},
	} {
		w := newNetwork(t, map[string]page{
			tt.start: {body: sitemapindex(changed("10:00", ""), listed(tt.leads, "", ""))},
			tt.asked: list,
		})
		c := w.client(lists.Config{Hosts: tt.hosts})
		_, _, err := visits(t, c, tt.start, "")
		if refused := errors.Is(err, lists.ErrOtherHost); refused != (tt.asked == "") || !refused && err != nil {
			t.Errorf("%s to %s: %v", tt.start, tt.leads, err)
		}
	}
}

func TestBusy(t *testing.T) {
	for _, tt := range []struct {
		status int
		after  string
		want   time.Duration
	}{
		{http.StatusTooManyRequests, "120", 2 * time.Minute},
		{http.StatusServiceUnavailable, "", 0},
		{http.StatusBadGateway, "100000", time.Hour},
		{http.StatusRequestTimeout, "soon", 0},
	} {
		w := newNetwork(t, map[string]page{"/l": {status: tt.status, header: map[string]string{"Retry-After": tt.after}}})
		_, _, err := visits(t, w.client(lists.Config{}), site+"/l", "")
		if busy, ok := errors.AsType[*lists.BusyError](err); !ok || busy.RetryAfter != tt.want || busy.Status != tt.status {
			t.Errorf("%d, Retry-After %q: %v", tt.status, tt.after, err)
		}
	}
}

// Temporary trouble is reported, where it hides the next list.
func TestBusyOnTheWay(t *testing.T) {
	pages := history("/index.xml")
	pages["/2.xml"] = page{status: http.StatusServiceUnavailable}
	w := newNetwork(t, pages)
	got, covered, err := visits(t, w.client(lists.Config{}), site+"/index.xml", "10:15")
	if _, ok := errors.AsType[*lists.BusyError](err); !ok || got != "b" || !covered.Until.Equal(at("11:00")) {
		t.Errorf("visited %q, covered %+v, %v", got, covered, err)
	}
	pages["/index.xml"] = page{status: http.StatusServiceUnavailable}
	for _, uri := range []string{"/1.xml", "/open.xml"} {
		w = newNetwork(t, pages)
		_, _, err := visits(t, w.client(lists.Config{}), site+uri, "10:15")
		if _, ok := errors.AsType[*lists.BusyError](err); !ok {
			t.Errorf("%s: %v", uri, err)
		}
	}
}

// hanging gives nothing until its request ends.
type hanging struct{ done <-chan struct{} }

func (h hanging) Read([]byte) (int, error) { <-h.done; return 0, io.ErrUnexpectedEOF }

// A document that comes too slowly is given up.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNetwork(t, nil)
		slow := roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(hanging{r.Context().Done()}), Request: r}, nil
		})
		c, err := lists.New(lists.Config{Transport: slow, Timeout: time.Minute, Dir: w.dir})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := c.Changes(t.Context(), site+"/l", time.Time{}, nil); err == nil {
			t.Error("no error")
		}
		if took := time.Since(start); took != time.Minute {
			t.Errorf("it took %v", took)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestConfig(t *testing.T) {
	for words, cfg := range map[string]lists.Config{
		"hosts":    {Hosts: []string{"https://a.example"}},
		"a b":      {Hosts: []string{"a b"}},
		"dir":      {Dir: "/does/not/exist"},
		"negative": {Limits: lists.Limits{Parts: -1}},
	} {
		if _, err := lists.New(cfg); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	c, err := lists.New(lists.Config{Hosts: []string{"a.example", "b.example:8443", "[::1]:80"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, uri := range []string{"", "/l", "ftp://a.example/", "https://a:b@source.example/", "http://", "https://a.example/%zz"} {
		if _, err := c.Changes(t.Context(), uri, time.Time{}, nil); err == nil {
			t.Errorf("%q is read", uri)
		}
		if _, err := c.Discover(t.Context(), uri); err == nil {
			t.Errorf("%q is discovered", uri)
		}
	}
}
