package check_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"carillon/check"
)

// named gives the site a name with the default port: every name leads to it.
func named(name string) func(*site) {
	return func(s *site) {
		for file := range s.files {
			s.files[file] = strings.ReplaceAll(s.files[file], "{base}", name)
		}
		s.name = name
	}
}

// redirected answers a redirect at a path that no file has.
func redirected(from, to string) func(*site) {
	return func(s *site) {
		s.handlers[from] = func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
	}
}

// behind writes the Change List as it was before the last notification: it is open, and is
// published now and then.
func behind(s *site) {
	list := s.files["a/changelist-2.xml"]
	start, end := strings.Index(list, "<url>"), strings.Index(list, "</url>")+len("</url>")
	s.files["a/changelist-2.xml"] = list[:start] + list[end:]
	s.header("a/changelist-2.xml", "Last-Modified", "Tue, 06 Jan 2026 00:00:00 GMT")
}

// encoded has a resource whose representation depends on what the client takes.
func encoded(s *site) {
	s.edit("a/resourcelist-2.xml", `length="{length r/3.txt}"`, `length="{length r/3.txt}" encoding="br"`)
	text := s.files["r/3.txt"]
	s.handlers["r/3.txt"] = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept-Encoding")
		if r.Header.Get("Accept-Encoding") != "br" {
			_, _ = io.WriteString(w, "the same without packing")
			return
		}
		w.Header().Set("Content-Encoding", "br")
		_, _ = io.WriteString(w, text)
	}
}

// tagged has another ETag in each answer, as behind servers that do not agree on them.
func tagged(s *site) {
	var n atomic.Int64
	s.before = func(*http.Request) { n.Add(1) }
	list := s.files["a/changelist-1.xml"]
	s.handlers["a/changelist-1.xml"] = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, n.Load()))
		_, _ = io.WriteString(w, strings.NewReplacer("{base}", s.base,
			"{sha256 r/1.txt}", sha256Of(s.files["r/1.txt"]), "{length r/1.txt}", fmt.Sprint(len(s.files["r/1.txt"]))).Replace(list))
	}
}

// A practice that the standards allow, though our own notifier lacks it, is not wrong.
func TestConformingVariants(t *testing.T) {
	const own = "http://source.test"
	for _, tt := range []struct {
		name   string
		place  string
		change func(*site)
	}{
		{"a Capability List with two addresses", "/a/capabilitylist.xml", both(redirected("a/list", "capabilitylist.xml"),
			edited("a/changedump.xml", "/a/capabilitylist.xml", "/a/list"), edited("a/resourcelist-1.xml", "/a/capabilitylist.xml", "/a/list"))},
		{"a manifest that names the other address", "/", both(redirected("a/list", "capabilitylist.xml"),
			edited("a/cd-1-manifest.xml", "/a/capabilitylist.xml", "/a/list"))},
		{"an index that lists other addresses of its parts", "/a/changelist-2.xml", both(redirected("a/part", "changelist-2.xml"),
			edited("a/changelist.xml", "/a/changelist-2.xml", "/a/part"))},
		{"a Source Description that lists another address", "/a/change/", both(redirected("a/list", "capabilitylist.xml"),
			edited(".well-known/resourcesync", "/a/capabilitylist.xml", "/a/list"))},
		{"a topic that is listed by another address", "/a/change/", both(redirected("a/topic", "/a/change/"),
			edited("a/capabilitylist.xml", "/a/change/", "/a/topic"))},
		{"addresses with a default port", "/", both(
			edited("a/changelist.xml", "{base}/a/changelist-1.xml", own+":80/a/changelist-1.xml"), named(own),
		)},
		{"addresses in upper case", "/a/change/", both(
			edited("a/capabilitylist.xml", "{base}/a/change/", "HTTP://SOURCE.test/a/change/"), named(own),
		)},
		{"a hub without the slash at its end", "/", both(edited("a/capabilitylist.xml", `href="{base}/hub"`, `href="http://hub.test"`),
			headed("a/change/index", "Link", `<{base}/a/change/>; rel=self, <HTTP://Hub.test:80/>; REL=HUB`), named(own))},
		{"two hubs, one of which the Capability List names", "/", headed("a/change/index", "Link",
			`<{base}/a/change/>; rel="self", <{base}/hub?2>; rel="hub", <{base}/hub>; rel="hub"`)},
		{"two hubs, one of which the topic names", "/", edited("a/capabilitylist.xml", `<rs:ln rel="hub" href="{base}/hub"/>`,
			`<rs:ln rel="hub" href="{base}/hub"/><rs:ln rel="hub" href="{base}/hub?2"/>`)},
		{"a hub that takes POST only", "/", func(s *site) { s.status["hub"] = http.StatusMethodNotAllowed }},
		{"a hub that knows GET not at all", "/", func(s *site) { s.status["hub"] = http.StatusNotImplemented }},
		{"a hub that redirects", "/", redirected("hub", "http://elsewhere.test/")},
		{"notifications that are ahead of the open Change List", "/", behind},
		{"a resource that is packed for who takes it so", "/", encoded},
		{"a closed Change List with changing ETags", "/", tagged},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			tt.change(s)
			found, sum := s.look(check.Config{Sample: 100}, tt.place)
			if !sum.Complete || sum.Documents < 28 || len(found) > 0 {
				t.Errorf("%+v\n%s", sum, strings.Join(s.lines(found), "\n"))
			}
		})
	}
}

// A topic of WebSub that has nothing to do with ResourceSync is judged by WebSub.
func TestOtherTopics(t *testing.T) {
	const feed = `<feed xmlns="http://www.w3.org/2005/Atom"><link rel="hub" href="{base}/hub"/><link rel="self" href="{base}/feed"/></feed>`
	other := "note WebSub 4 /feed: it is a topic of WebSub"
	for _, tt := range []struct {
		name, content, mediaType, link string
		want                           []string // the beginnings of lines
	}{
		{"a feed", feed, "application/atom+xml", `<{base}/hub>; rel="hub", <{base}/feed>; rel="self"`, []string{other}},
		{"a feed as XML", feed, "application/xml", `<{base}/hub>; rel="hub", <{base}/feed>; rel="self"`, []string{other}},
		{"a feed with links of its own", feed, "application/atom+xml", "", []string{other}},
		{"a page", `<link rel="hub" href="/hub"><link rel="self" href="/feed">`, "text/html", "", []string{other}},
		{"a page of another name", `<link rel="hub" href="/hub"><link rel="self" href="/lasting">`, "text/html", "", []string{other}},
		{"JSON", "{}", "application/json", `<{base}/hub>; rel="hub", <{base}/feed>; rel="self"`, []string{other}},
		{"nothing", "", "text/plain", `<{base}/hub>; rel="hub", <{base}/feed>; rel="self"`, []string{other}},
		{"a page without links", "<html></html>", "text/html", "", []string{
			`error core 6.3.3 /feed: it is no document of ResourceSync (the root element is "html"`,
		}},
		{"no self", "{}", "application/json", `<{base}/hub>; rel="hub"`, []string{"error WebSub 4 /feed: ", other}},
		{"two selves", "{}", "application/json", `<{base}/hub>; rel="hub", <{base}/a>; rel="self", <{base}/b>; rel="self"`, []string{"warning WebSub 4 /feed: ", other}},
		{"no hub there", "{}", "application/json", `<{base}/nohub>; rel="hub", <{base}/feed>; rel="self"`, []string{"warning WebSub 5 /feed: ", other}},
		{"a broken notification", "<urlset", "application/xml", `<{base}/hub>; rel="hub", <{base}/feed>; rel="self"`, []string{"error core 6.1 /feed: "}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			s.files["feed"] = tt.content
			s.header("feed", "Content-Type", tt.mediaType)
			s.header("feed", "Link", tt.link)
			found, _ := s.look(check.Config{}, "/feed")
			lines := s.lines(found)
			ok := len(lines) == len(tt.want)
			for i := range min(len(lines), len(tt.want)) {
				ok = ok && strings.HasPrefix(lines[i], tt.want[i])
			}
			if !ok {
				t.Errorf("found %q, want %q", lines, tt.want)
			}
		})
	}
}

// The error for a check that begins at a hub says where to begin instead.
func TestHubIsNoPlace(t *testing.T) {
	s := newSite(t)
	s.files["thehub"] = "This is a hub.\n"
	s.header("thehub", "Link", `<{base}/thehub>; rel="hub"`)
	found, sum, err := s.try(check.Config{}, "/thehub")
	if err == nil || !strings.Contains(err.Error(), "it is a hub") || len(found) > 0 || sum.Requests != 1 {
		t.Errorf("%v, %+v, %q", err, sum, s.lines(found))
	}
}

// A hub is asked wherever it is, where AllowHub lets that, and once: neither its redirects nor a
// hundred hubs of one topic lead on.
func TestHubElsewhere(t *testing.T) {
	s := newSite(t)
	s.name = "http://source.test"
	var asked []string
	s.before = func(r *http.Request) {
		if r.Host != "source.test" {
			asked = append(asked, r.Method+" "+r.Host)
		}
	}
	redirected("hub", "http://third.test/")(s)
	links := `<{base}/a/change/>; rel="self", <http://hub.test/hub>; rel="hub"`
	s.edit("a/capabilitylist.xml", "{base}/hub", "http://hub.test/hub")
	s.header("a/change/index", "Link", links)
	cfg := check.Config{
		Allow: func(u *url.URL) error {
			if u.Host != "source.test" {
				return errors.New("it is at another host")
			}
			return nil
		},
		AllowHub: func(u *url.URL) error {
			if u.Host == "private.test" {
				return errors.New("it is private")
			}
			return nil
		},
	}
	found, sum := s.look(cfg, "/a/change/")
	if len(found) > 0 || !sum.Complete || len(asked) != 1 || asked[0] != "GET hub.test" {
		t.Errorf("%+v, asked %q\n%s", sum, asked, strings.Join(s.lines(found), "\n"))
	}

	asked = nil
	for i := range 100 {
		links += fmt.Sprintf(`, <http://h%d.test/>; rel="hub"`, i)
	}
	s.header("a/change/index", "Link", links+`, <http://private.test/>; rel="hub"`)
	found, sum = s.look(cfg, "/a/change/")
	if len(asked) > 20 || sum.Complete || !limited(found, "hubs") {
		t.Errorf("%+v, asked %d\n%s", sum, len(asked), strings.Join(s.lines(found), "\n"))
	}
}

// A line names its clause once.
func TestClauseOnce(t *testing.T) {
	var lines []string
	_, err := check.Run(t.Context(), check.Config{Files: true}, []string{
		"../payload/testdata/examples/core-27-changelist-patch.xml",
	}, func(f check.Finding) {
		lines = append(lines, f.String())
	})
	all := strings.Join(lines, "\n")
	if err != nil || !strings.Contains(all, "not hexadecimal") || strings.Contains(all, "§") {
		t.Errorf("%v\n%s", err, all)
	}
}
