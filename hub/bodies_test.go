package hub_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf16"

	"carillon/hub"
)

// bodies are the notifications of testdata, with the outcome of each that is not simply taken: the
// status, and a part of the hint for the Source, in the answer's body or in X-Hub-Warning.
var bodies = map[string]struct {
	status int
	told   string
	metric string // of carillon_hub_lookalikes_total
}{
	"00-spec_example_1.xml":              {},
	"01-no_rel-up.xml":                   {},
	"02-prefixed_root.xml":               {},
	"03-no_entry_datetime.xml":           {},
	"04-rs-md_after_urls.xml":            {told: "no rs:md (of the namespace http://www.openarchives.org/rs/terms/) stands before its first entry", metric: "head"},
	"05-BOM.xml":                         {},
	"06-comment-PI.xml":                  {},
	"07-foreign_ns_elem.xml":             {},
	"08-single_quotes.xml":               {},
	"09-text_xml-_ct.xml":                {status: 415, told: "must come as application/xml (CN 4.1)"},
	"10-priority_changefreq.xml":         {},
	"11-until_with_offset.xml":           {},
	"12-UTF-16.xml":                      {told: "it is in UTF-16, and only UTF-8 is read", metric: "encoding"},
	"13-ISO-8859-1_ascii_only.xml":       {told: "only UTF-8 is accepted, line 1: the XML declaration names another encoding", metric: "encoding"},
	"14-US-ASCII_decl.xml":               {},
	"15-no_xml_decl.xml":                 {},
	"16-leading_newline_before_decl.xml": {told: "but it is not well-formed XML, line 2: an XML declaration that is not at the very start", metric: "syntax"},
	"17-internal_DOCTYPE_no_entity.xml":  {told: "line 2: remove <!DOCTYPE", metric: "doctype"},
	"18-no_from.xml":                     {status: 400, told: "CN §3: from is missing"},
	"19-no_until.xml":                    {status: 400, told: "CN §3: until is missing"},
	"20-from_until.xml":                  {status: 400, told: `CN §3: until "2001-01-01T00:00:00Z" is before from "2013-01-03T00:00:00Z"`},
	"21-change-modified.xml":             {status: 400, told: `change must be created, updated or deleted, not "modified"`},
	"22-no_change.xml":                   {status: 400, told: "CN §3: entry 1: change is missing"},
	"23-no_loc.xml":                      {status: 400, told: "CN §3: entry 1: loc is missing"},
	"24-two_locs.xml":                    {status: 400, told: "core §7: entry 1: loc must not be repeated"},
	"25-relative_loc.xml":                {status: 400, told: `CN §3: entry 1: loc must be an absolute URI, not "/res"`},
	"26-sitemapindex.xml":                {status: 400, told: "CN §3: the root element must be urlset; change notifications do not use sitemapindex"},
	"27-url_attribute.xml":               {status: 400, told: "CN §3: entry 1: url must not have attributes"},
	"28-datetime_after_until.xml":        {status: 400, told: "core §7: entry 1: its datetime is after until"},
	"29-datetime_before_from.xml":        {status: 400, told: "core §7: entry 1: its datetime is before from"},
	"30-order_reversed.xml":              {status: 400, told: "the oldest change comes first"},
	"31-bad_lastmod.xml":                 {},
	"32-negative_length.xml":             {},
	"33-bad_hash_form.xml":               {},
	"34-bad_type.xml":                    {},
	"35-truncated.xml":                   {status: 400, told: "line 20: the document ends too early"},
	"36-no_rs_ns_decl.xml":               {told: "line 3: an element with an undeclared prefix", metric: "syntax"},
	"37-wrong_rs_ns.xml":                 {told: "no rs:md (of the namespace http://www.openarchives.org/rs/terms/) stands before its first entry", metric: "head"},
	"38-wrong_sitemap_ns.xml":            {told: `the root element is "urlset" in the namespace "http://www.sitemaps.org/schemas/sitemap/0.84"`, metric: "root"},
	"39-capability-changelist.xml":       {told: `its capability is "changelist", not change-notification`, metric: "capability"},
	"40-ln_without_href.xml":             {},
	"41-rel-up_elsewhere_relative.xml":   {},
	"42-entity_doctype.xml":              {status: 400, told: "remove <!ENTITY"},
}

// TestBodies publishes each body of testdata/notifications. The answer warns the Source of everything
// that it may not expect.
func TestBodies(t *testing.T) {
	files, err := filepath.Glob("testdata/notifications/*.xml")
	if err != nil || len(files) != len(bodies) {
		t.Fatalf("%d files for %d bodies, %v", len(files), len(bodies), err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			want, ok := bodies[name]
			if !ok {
				t.Fatal("nobody says what becomes of it")
			}
			body, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			w := newTown(t, nil)
			media := "application/xml"
			if name == "09-text_xml-_ct.xml" {
				media = "text/xml"
			}
			status, header, answer := w.post(t, media, string(body), linkOf(w, "/good"))
			hint := header.Get("X-Hub-Warning")
			t.Logf("| %s | %d | %s |", name, status, cmp.Or(strings.TrimSpace(hint), taken(status, answer)))
			if status != cmp.Or(want.status, http.StatusOK) {
				t.Errorf("got %d: %s", status, answer)
			}
			switch said := w.publisher.all(); {
			case status != http.StatusOK:
				if !strings.Contains(answer, want.told) || hint != "" || len(said) != 0 {
					t.Errorf("got %q with hint %q, published %d", answer, hint, len(said))
				}
			case answer != theID.String()+"\n" || len(said) != 1 || !bytes.Equal(said[0].Body, body):
				t.Errorf("got %q, published %d", answer, len(said))
			case !strings.Contains(hint, want.told) || (hint == "") != (want.told == "") || (said[0].From == "") != (hint != ""):
				t.Errorf("hint %q, from %q", hint, said[0].From)
			}
			for _, why := range []string{"encoding", "doctype", "syntax", "root", "head", "capability"} {
				if got := value(t, w.registry, "carillon_hub_lookalikes_total", why); (got == 1) != (why == want.metric) || got > 1 {
					t.Errorf("carillon_hub_lookalikes_total{why=%q} is %v", why, got)
				}
			}
		})
	}
}

func taken(status int, answer string) string {
	if status == http.StatusOK {
		return "-"
	}
	return strings.TrimSpace(answer)
}

// linkOf is the Link header of a publication of a topic of the town.
func linkOf(w *town, path string) string {
	return fmt.Sprintf("Link: <%s%s>; rel=self, <%s>; rel=hub", w.topicURL, path, w.hubURL)
}

// TestLookalikeIsFetched: content fetched for a ping is counted and logged too, once an hour for each
// topic, and not in more than 20 lines a minute, for any pings.
func TestLookalikeIsFetched(t *testing.T) {
	body, err := os.ReadFile("testdata/notifications/04-rs-md_after_urls.xml")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var log lines
		s := newStageWith(t, hub.Config{URL: hubURL}, doFunc(func(r *http.Request) (*http.Response, error) {
			return respond(r, 200, string(body), "Content-Type: application/xml", good(address(r))), nil
		}), anywhere{}, func(s *stage) { s.logger = slog.New(slog.NewTextHandler(&log, nil)) })
		defer s.running(t)()
		const message = "what looks like a ResourceSync notification was relayed as plain content"
		for range 3 {
			s.ping(t, topicURL)
			synctest.Wait()
		}
		if got := log.with(message); len(got) != 1 || !strings.Contains(got[0], "topic="+topicURL) || !strings.Contains(got[0], "stands before its first entry") {
			t.Errorf("logged %q", got)
		}
		time.Sleep(time.Hour)
		s.ping(t, topicURL)
		synctest.Wait()
		if got := log.with(message); len(got) != 2 || !strings.Contains(got[1], "untold=2") {
			t.Errorf("an hour later: %q", got)
		}
		if n := value(t, s.registry, "carillon_hub_lookalikes_total", "head"); n != 4 {
			t.Errorf("%v were counted", n)
		}
		for i := range 50 {
			s.ping(t, fmt.Sprintf("%s?%d", topicURL, i))
		}
		time.Sleep(30 * time.Second)
		if got := log.with(message); len(got) != 21 || len(s.publisher.all()) != 54 {
			t.Errorf("%d lines about 54 publications: %d", len(got), len(s.publisher.all()))
		}
	})
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder // owned by mu
}

// Write adds to the log.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// with returns the lines that contain what.
func (l *lines) with(what string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, what) {
			found = append(found, line)
		}
	}
	return found
}

// TestEntities publishes XML that declares entities: the hub refuses it, by either media type and in
// every encoding that a parser may find, also without anything of ResourceSync. XML without them is
// taken.
func TestEntities(t *testing.T) {
	const root = "<rss version='2.0'/>"
	bomb := `<!DOCTYPE rss [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;">]><rss>&b;</rss>`
	w := newTown(t, nil)
	for _, tt := range []struct {
		name, media, body string
		refused           bool
	}{
		{"entities", "application/xml", bomb, true},
		{"entities in text/xml", "text/xml; charset=utf-8", bomb, true},
		{"behind a declaration and a comment", "application/xml", "<?xml version='1.0'?>\n<!-- <rss> \" ' --><?p <!ENTITY ?>" + bomb, true},
		{"a parameter entity", "application/xml", `<!DOCTYPE rss [<!ENTITY % x SYSTEM "http://h/x">%x;]>` + root, true},
		{"behind a literal that looks like the root", "application/xml", `<!DOCTYPE rss SYSTEM "<rss>]>" [<!ELEMENT rss ANY><!ENTITY a "b">]>` + root, true},
		{"UTF-16", "application/xml", wide(2, binary.LittleEndian, "\ufeff"+bomb), true},
		{"UTF-16 without a mark, behind other characters", "application/xml", wide(2, binary.BigEndian, "<!--\u3c3c\u2d2d\u3e72-->"+bomb), true},
		{"UTF-32", "application/xml", wide(4, binary.BigEndian, "\ufeff"+bomb), true},
		{"byte order mark", "application/xml", "\ufeff" + bomb, true},
		{"a document type alone", "application/xml", `<!DOCTYPE rss SYSTEM "http://h/rss.dtd">` + root, false},
		{"a word in a comment", "application/xml", `<!DOCTYPE rss [<!-- <!ENTITY a "b"> -->]>` + root, false},
		{"a word in the content", "application/xml", `<rss><![CDATA[<!DOCTYPE rss [<!ENTITY a "b">]>]]></rss>`, false},
		{"another media type", "application/rss+xml", bomb, false},
	} {
		status, _, answer := w.post(t, tt.media, tt.body, linkOf(w, "/good"))
		if refused := status == http.StatusBadRequest && strings.Contains(answer, "remove <!ENTITY"); refused != tt.refused || !refused && status != http.StatusOK {
			t.Errorf("%s: %d %s", tt.name, status, answer)
		}
	}
}

// wide writes a text in UTF-16 or UTF-32.
func wide(width int, order binary.ByteOrder, text string) string {
	var b bytes.Buffer
	if width == 4 {
		_ = binary.Write(&b, order, []rune(text))
	} else {
		_ = binary.Write(&b, order, utf16.Encode([]rune(text)))
	}
	return b.String()
}

// TestNoHint publishes bodies that have nothing of a notification, and real notifications: neither get
// a hint.
func TestNoHint(t *testing.T) {
	const sitemap = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`
	w := newTown(t, nil)
	for _, body := range []string{
		sitemap + "<url><loc>http://h/push-notification</loc></url></urlset>",
		sitemap + `<rs:md capability="resourcelist" at="2026-01-01T00:00:00Z"/></urlset>`,
		sitemap + `<rs:md capability="framework-notification" from="2026-01-01T00:00:00Z" until="2026-01-02T00:00:00Z"/></urlset>`,
		`<html><p>capability="change-notification" of a urlset</p></html>`, `{"capability"="change-notification"}`, "<", "<urlset", "\xff\xfe", "<\x00",
	} {
		if status, header, answer := w.post(
			t, "application/xml", body, linkOf(w, "/good"),
		); status != http.StatusOK || header.Get("X-Hub-Warning") != "" {
			t.Errorf("%q: %d %s with hint %q", body, status, answer, header.Get("X-Hub-Warning"))
		}
	}
	for _, tt := range []struct{ body, want string }{
		{sitemap + `<rs:md from="2026-01-01T00:00:00Z" until="2026-01-02T00:00:00Z"/></urlset>`, "its rs:md has no capability"},
		{sitemap + `<rs:md capability="Change-Notificationé"/></urlset>`, `its capability is "Change-Notification?", not change-notification`},
		{"<!--" + strings.Repeat(" ", 70<<10) + "-->" + sitemap + `<rs:md capability='change-notification'/></urlset>`, "no rs:md could be read within its first 65536 bytes"},
	} {
		status, header, _ := w.post(t, "application/xml", tt.body, linkOf(w, "/good"))
		if hint := header.Get("X-Hub-Warning"); status != http.StatusOK || !strings.HasSuffix(hint, "but "+tt.want) {
			t.Errorf("%.200q: %d, hint %q", tt.body, status, hint)
		}
	}
}
