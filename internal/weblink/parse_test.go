package weblink_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"

	"carillon/internal/weblink"
)

func link(uri, rels string, params ...string) weblink.Link {
	l := weblink.Link{URI: uri, Rel: strings.Fields(rels)}
	for i := 0; i+1 < len(params); i += 2 {
		l.Params = append(l.Params, weblink.Param{Name: params[i], Value: params[i+1]})
	}
	return l
}

func same(a, b weblink.Link) bool {
	return a.URI == b.URI && slices.Equal(a.Rel, b.Rel) && slices.Equal(a.Params, b.Params)
}

func TestParse(t *testing.T) {
	self := link("http://example.com/dataset1/change/", "self")
	hub := link("http://hub.example.org/websub/", "hub")
	tests := []struct {
		name   string
		values []string
		want   []weblink.Link
	}{
		{"nothing", nil, nil},
		{"empty", []string{"", " , ,\t"}, nil},
		{"one header", []string{
			`<http://example.com/dataset1/change/> ; rel="self", <http://hub.example.org/websub/>;rel="hub"`,
		}, []weblink.Link{self, hub}},
		{"two headers", []string{
			`<http://example.com/dataset1/change/>; rel="self"`, `<http://hub.example.org/websub/>; rel="hub"`,
		}, []weblink.Link{self, hub}},
		{"folded", []string{
			"<http://example.com/dataset1/change/> ; rel=\"self\",\r\n      <http://hub.example.org/websub/> ;\r\n rel=\"hub\"",
		}, []weblink.Link{self, hub}},
		{"folded inside quotes", []string{
			"<u>; rel=\"self\r\n hub\"; title=\"a\r\n\tb\"; x=\"\"",
		}, []weblink.Link{link("u", "self hub", "title", "a \tb", "x", "")}},
		{"unquoted", []string{`<http://example.com/dataset1/change/>;rel=self, <http://hub.example.org/websub/>;rel=hub`}, []weblink.Link{self, hub}},
		{"any case", []string{
			`<http://example.com/dataset1/change/>; REL=Self,<http://hub.example.org/websub/>; Rel="HUB"`,
		}, []weblink.Link{self, hub}},
		{"several relations", []string{`<u>; rel="self  hub	http://Example.com/X"`}, []weblink.Link{link("u", "self hub http://example.com/x")}},
		{"white space", []string{"\t< http://hub.example.org/websub/ >\t ;\t rel \t=\t \"hub\" ;"}, []weblink.Link{hub}},
		{"separators inside", []string{`<http://e/a;b,c?d=e>; title="x, <y>; \"z\" \\"; rel=self`}, []weblink.Link{
			link("http://e/a;b,c?d=e", "self", "title", `x, <y>; "z" \`),
		}},
		{"first rel counts", []string{`<u>; rel=self; rel=hub`}, []weblink.Link{link("u", "self")}},
		{"first rel counts though empty", []string{`<u>; rel=""; rel=hub`}, []weblink.Link{link("u", "")}},
		{"no relation", []string{`<u>`}, []weblink.Link{link("u", "")}},
		{"parameter without value", []string{`<u>; crossorigin; rel=preload`}, []weblink.Link{link("u", "preload", "crossorigin", "")}},
		{"unquoted media type", []string{`<u>; type=text/html;; rel=alternate`}, []weblink.Link{link("u", "alternate", "type", "text/html")}},
		{"extended value", []string{`<u>; rel=x; title*=UTF-8'de'n%c3%a4chstes`}, []weblink.Link{link("u", "x", "title*", "UTF-8'de'n%c3%a4chstes")}},
		{"empty URI", []string{`<>; rel=self`}, []weblink.Link{link("", "self")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := weblink.Parse(tt.values)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(got, tt.want, same) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestParseGarbage(t *testing.T) {
	hub := link("h", "hub")
	tests := []struct {
		name   string
		values []string
		want   []weblink.Link
		where  string
	}{
		{"no bracket", []string{`<h>; rel=hub, http://example.com; rel=self`}, []weblink.Link{hub}, "value 1, byte 15: a link begins with <"},
		{"open bracket", []string{`<h>;rel=hub,<http://example.com`}, []weblink.Link{hub}, "value 1, byte 13: a link's URI ends with >"},
		{"open quote", []string{`<h>; rel=hub`, `<s>; rel="self`}, []weblink.Link{hub}, "value 2, byte 10: a quoted value ends with a quote"},
		{"open quote at a backslash", []string{`<s>; rel="self\`}, nil, "value 1, byte 10: a quoted value ends with a quote"},
		{"missing comma", []string{`<s>; rel=self <h>; rel=hub`}, nil, "value 1, byte 15: a link's URI and parameters are followed by ; or ,"},
		{"nameless parameter", []string{`<s>; ="self"`}, nil, "value 1, byte 6: a parameter has a name"},
		{"other values are read", []string{`garbage`, `<h>; rel=hub`}, []weblink.Link{hub}, "value 1, byte 1: a link begins with <"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := weblink.Parse(tt.values)
			if !errors.Is(err, weblink.ErrSyntax) || !strings.Contains(err.Error(), tt.where) {
				t.Errorf("error %v, want one that says %q", err, tt.where)
			}
			if !slices.EqualFunc(got, tt.want, same) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestFind(t *testing.T) {
	links, err := weblink.Parse([]string{`<a>; rel="self alternate", <b>; rel=hub, <c>; rel=HUB, <d>; rel=hub; anchor="http://elsewhere.example/"`})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range weblink.Find(links, "Hub") {
		got = append(got, l.URI)
	}
	if want := []string{"b", "c"}; !slices.Equal(got, want) {
		t.Errorf("hubs %q, want %q: the anchored link is about another resource", got, want)
	}
	if !links[0].Has("SELF") || links[0].Has("hub") {
		t.Error("Has does not tell the relations")
	}
}

func TestResolve(t *testing.T) {
	tests := []struct{ base, uri, want string }{
		{"http://example.com/set/change/", "", "http://example.com/set/change/"},
		{"http://example.com/set/change/?a=b#c", "", "http://example.com/set/change/?a=b"},
		{"http://example.com/set/change/", "../capabilitylist.xml", "http://example.com/set/capabilitylist.xml"},
		{"http://example.com/set/", "/websub/", "http://example.com/websub/"},
		{"https://example.com/set/", "//hub.example.org/", "https://hub.example.org/"},
		{"http://example.com/", "HTTP://Example.org:80/%7ea/../b?x y", "HTTP://Example.org:80/%7ea/../b?x y"},
		{"http://example.com/", "http://[::1", ""},
		{"no base", "relative", ""},
		{"no base", "http://example.com/", "http://example.com/"},
	}
	for _, tt := range tests {
		got := ""
		if r := weblink.Resolve(tt.base, []weblink.Link{{URI: tt.uri}}); len(r) == 1 {
			got = r[0].URI
		}
		if got != tt.want {
			t.Errorf("Resolve(%q, %q) = %q, want %q", tt.base, tt.uri, got, tt.want)
		}
	}
}

func TestString(t *testing.T) {
	tests := []struct {
		link weblink.Link
		want string
	}{
		{link("http://e/", "self"), `<http://e/>; rel="self"`},
		{link(
			"http://e/", "self hub", "type", "application/xml", "crossorigin", "",
		), `<http://e/>; rel="self hub"; type="application/xml"; crossorigin`},
		{link("http://e/", "x", "title", `say "no" \`), `<http://e/>; rel="x"; title="say \"no\" \\"`},
		{link("http://e/", "x", "title*", "UTF-8''n%c3%a4"), `<http://e/>; rel="x"; title*=UTF-8''n%c3%a4`},
		{link("http://e/ä b", ""), `<http://e/%C3%A4%20b>`},
		{link("http://e/>; rel=\"hub\"\r\nX: y", ""), `<http://e/%3E;%20rel=%22hub%22%0D%0AX:%20y>`},
		{weblink.Link{URI: "u", Rel: []string{"a\r\nX: y"}}, `<u>; rel="aX: y"`},
		{link("u", "a", "t", "v\r\nX: y", "n\r\nX", "v", "", "v", "e*", "a b", "rel", "hub"), `<u>; rel="a"; t="vX: y"`},
	}
	for _, tt := range tests {
		if got := tt.link.String(); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

// FuzzParse: whatever was read is written as one valid field value, and reads
// back as the same links.
func FuzzParse(f *testing.F) {
	f.Add(`<http://example.com/dataset1/change/> ; rel="self", <http://hub.example.org/websub/>;rel=hub`, "")
	f.Add("<a b>; title=\"x\r\n y\\\"\"; title*=UTF-8''x; rel=\"A b\"; rel=c, <", `;;,`)
	f.Fuzz(func(t *testing.T, a, b string) {
		links, _ := weblink.Parse([]string{a, b})
		if most := strings.Count(a, "<") + strings.Count(b, "<"); len(links) > most {
			t.Fatalf("%d links from %d brackets", len(links), most)
		}
		for _, l := range links {
			value := l.String()
			if !httpguts.ValidHeaderFieldValue(value) {
				t.Fatalf("%+v gives the invalid field value %q", l, value)
			}
			again, err := weblink.Parse([]string{value})
			if err != nil || len(again) != 1 {
				t.Fatalf("%q reads back as %+v: %v", value, again, err)
			}
			if got := again[0].String(); got != value {
				t.Fatalf("%q is written again as %q", value, got)
			}
			if !reflect.DeepEqual(again[0].Rel, l.Rel) && printable(l.Rel) {
				t.Fatalf("relations %q read back as %q", l.Rel, again[0].Rel)
			}
		}
	})
}

func printable(rels []string) bool {
	return len(rels) > 0 && httpguts.ValidHeaderFieldValue(strings.Join(rels, " "))
}
