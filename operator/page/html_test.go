package page_test

import (
	"io"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// void are the elements that have no end; those of SVG end themselves.
var void = []string{"meta", "link", "input", "img", "br", "hr"}

// balanced reports where the tags of a page do not match.
func balanced(t *testing.T, name, page string) {
	t.Helper()
	var open []string
	z := html.NewTokenizer(strings.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			if z.Err() != io.EOF || len(open) > 0 {
				t.Errorf("%s: %v, open: %v", name, z.Err(), open)
			}
			return
		case html.StartTagToken:
			if tag, _ := z.TagName(); !slices.Contains(void, string(tag)) {
				open = append(open, string(tag))
			}
		case html.EndTagToken:
			tag, _ := z.TagName()
			if len(open) == 0 || open[len(open)-1] != string(tag) {
				t.Errorf("%s: </%s> ends nothing: %v", name, tag, open)
				return
			}
			open = open[:len(open)-1]
		}
	}
}

// attributes of an element.
func attributes(n *html.Node) map[string]string {
	all := map[string]string{}
	for _, a := range n.Attr {
		all[a.Key] = a.Val
	}
	return all
}

// inspector collects what a page must have, and complains of what it must not.
type inspector struct {
	t      *testing.T
	name   string
	ids    map[string]int
	counts map[string]int
	labels map[string]bool
	fields []string
	refs   []string // ids that others name
}

func (i *inspector) element(n *html.Node) {
	at := attributes(n)
	i.counts[n.Data]++
	if id, ok := at["id"]; ok {
		i.ids[id]++
	}
	for name := range at {
		if name == "style" || strings.HasPrefix(name, "on") {
			i.t.Errorf("%s: <%s> has %s=%q", i.name, n.Data, name, at[name])
		}
	}
	for _, ref := range []string{"aria-labelledby", "aria-describedby"} {
		i.refs = append(i.refs, strings.Fields(at[ref])...)
	}
	switch n.Data {
	case "script":
		if !strings.HasPrefix(at["src"], "/static/page.js?") || n.FirstChild != nil {
			i.t.Errorf("%s: a script that is not the page's own", i.name)
		}
	case "img":
		if !strings.HasPrefix(at["src"], "/static/") {
			i.t.Errorf("%s: an image from %q", i.name, at["src"])
		}
	case "style", "iframe", "object", "embed", "base":
		i.t.Errorf("%s: there is a <%s>", i.name, n.Data)
	case "a":
		i.link(at)
	case "label":
		i.labels[at["for"]] = true
	case "input", "select", "textarea":
		if at["type"] != "hidden" {
			i.fields = append(i.fields, at["id"])
		}
	case "form":
		if !strings.HasPrefix(at["action"], "/") && at["action"] != "" || at["method"] != "" && at["method"] != "post" {
			i.t.Errorf("%s: a form to %q by %q", i.name, at["action"], at["method"])
		}
	}
}

func (i *inspector) link(at map[string]string) {
	to := at["href"]
	u, err := url.Parse(to)
	switch {
	case err != nil || to == "":
		i.t.Errorf("%s: a link to %q: %v", i.name, to, err)
	case u.Scheme == "http" || u.Scheme == "https":
		if at["rel"] != "noreferrer noopener" {
			i.t.Errorf("%s: a link to %q has rel %q", i.name, to, at["rel"])
		}
	case u.Scheme != "" || u.Host != "":
		i.t.Errorf("%s: a link to %q", i.name, to)
	}
}

func inspect(t *testing.T, name string, rec *httptest.ResponseRecorder) {
	t.Helper()
	page := rec.Body.String()
	want := map[string]string{
		"Content-Type": "text/html; charset=utf-8", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store",
		"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
			"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
	}
	for header, value := range want {
		if rec.Header().Get(header) != value {
			t.Errorf("%s: %s is %q", name, header, rec.Header().Get(header))
		}
	}
	balanced(t, name, page)
	if strings.Contains(page, "ZgotmplZ") {
		t.Errorf("%s: a value stands where it may not", name)
	}
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	i := &inspector{t: t, name: name, ids: map[string]int{}, counts: map[string]int{}, labels: map[string]bool{}}
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			i.element(n)
		}
	}
	for _, one := range []string{"h1", "main", "script"} {
		if i.counts[one] != 1 {
			t.Errorf("%s: %d <%s>", name, i.counts[one], one)
		}
	}
	for id, n := range i.ids {
		if n > 1 {
			t.Errorf("%s: %d elements are %q", name, n, id)
		}
	}
	for _, id := range i.fields {
		if id == "" || !i.labels[id] {
			t.Errorf("%s: the field %q has no label", name, id)
		}
	}
	for _, ref := range i.refs {
		if i.ids[ref] == 0 {
			t.Errorf("%s: there is no %q, which is named", name, ref)
		}
	}
}

// Every page is HTML that a browser need not mend, has a label for each field, and lets
// nothing of what strangers wrote be more than text.
func TestEveryPageIsSound(t *testing.T) {
	full := newFixture()
	fullViews := views(full)
	for prefix, d := range map[string]*fakeService{"full": full, "troubled": newTroubled(), "empty": newEmpty()} {
		h := pages(d)
		for name, path := range fullViews {
			inspect(t, prefix+" "+name, get(t, h, path))
		}
	}
	h := pages(full)
	inspect(t, "a new Source", post(t, h, "/sources", url.Values{"name": {"x"}, "prefixes": {"https://x.example/" + hostile}}))
	inspect(t, "a wrong Source", post(t, h, "/sources", url.Values{"name": {hostile}, "prefixes": {hostile}}))
	inspect(t, "a search", get(t, h, "/topics?contains="+url.QueryEscape(hostile)))
	inspect(
		t, "filters",
		get(t, h, "/subscriptions?contains="+url.QueryEscape(hostile)+"&host="+url.QueryEscape(hostile)+"&topic="+url.QueryEscape(hostile)),
	)
	inspect(t, "an ID", get(t, h, "/notification?id="+url.QueryEscape(hostile)+"&topic="+url.QueryEscape(hostile)))
	inspect(t, "next", get(t, h, "/login?next="+url.QueryEscape(hostile)))
	inspect(t, "nowhere", get(t, h, "/"+url.PathEscape(hostile)))
}

// A stranger's name is on the page, as text.
func TestHostileTextIsShown(t *testing.T) {
	rec := get(t, pages(newFixture()), "/topic?topic="+url.QueryEscape(hostileTopic))
	root, err := html.Parse(rec.Body)
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && n.Data == "h1" {
			if got := n.FirstChild.Data; got != hostileTopic {
				t.Errorf("the heading is %q", got)
			}
		}
	}
}
