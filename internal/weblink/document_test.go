package weblink_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"carillon/internal/weblink"
)

const atom = `<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom">
  <title>News &nbsp; of the day</title>
  <link rel="self" type="application/atom+xml" href="http://example.com/feed"/>
  <link rel="hub" href="/websub/"/>
  <entry><link rel="hub" href="http://evil.example/"/></entry>
  <x:link xmlns:x="http://other.example/" rel="hub" href="http://evil.example/"/>
</feed>`

const rss = `<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel>
  <link>http://example.com/</link>
  <atom:link rel="self" href="http://example.com/feed"/><atom:link rel="hub" href="http://example.com/websub/"/>
  <item><atom:link rel="hub" href="http://evil.example/"/></item>
</channel></rss>`

const page = `<!DOCTYPE html><html><head><meta charset=utf-8>
  <title><link rel=hub href=http://evil.example/></title>
  <script>"<link rel=hub href=http://evil.example/>"</script>
  <template><template></template><link rel=hub href=http://evil.example/></template>
  <!-- <link rel=hub href=http://evil.example/> -->
  <LINK REL="self" HREF="http://example.com/feed"><link rel=hub href=/websub/>
  </head><body><link rel="hub" href="http://evil.example/"></body></html>`

const xhtml = `<html xmlns="http://www.w3.org/1999/xhtml"><head><title/>
  <link rel="self" href="http://example.com/feed"/><link rel="hub" href="/websub/"/></head>
  <body><link rel="hub" href="http://evil.example/"/></body></html>`

func summary(links []weblink.Link) string {
	var s []string
	for _, l := range links {
		s = append(s, strings.Join(l.Rel, "+")+"="+l.URI)
	}
	return strings.Join(s, " ")
}

func TestFromDocument(t *testing.T) {
	const both = "self=http://example.com/feed hub=http://example.com/websub/"
	tests := []struct{ name, contentType, body, want string }{
		{"atom", "application/atom+xml", atom, both},
		{"atom by root", "text/xml; charset=utf-8", atom, both},
		{"rss", "application/rss+xml", rss, both},
		{"rss by root", "Application/XML", rss, both},
		{"rss 1.0", "application/xml", `<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">
			<channel><a:link xmlns:a="http://www.w3.org/2005/Atom" rel="hub" href="http://h/"/></channel></rdf:RDF>`, "hub=http://h/"},
		{"html", "text/html", page, both},
		{"html with broken parameters", "text/html; charset", page, both},
		{"xhtml", "application/xhtml+xml", xhtml, both},
		{"html base", "text/html", `<base href="//cdn.example/a/"><base href=http://second.example/><link rel=hub href=b>`, "hub=http://cdn.example/a/b"},
		{
			"xml base", "application/atom+xml", `<feed xmlns="http://www.w3.org/2005/Atom" xml:base="http://cdn.example/a/"><link rel="hub" href="b"/><link xml:base="c/" rel="self" href="d"/></feed>`,
			"hub=http://cdn.example/a/b self=http://cdn.example/a/c/d",
		},
		{"head without tags", "text/html", `<title>x</title><link rel=hub href=http://h/><p><link rel=hub href=http://evil.example/>`, "hub=http://h/"},
		{"text ends the head", "text/html", `<link rel=hub href=http://h/> text <link rel=hub href=http://evil.example/>`, "hub=http://h/"},
		{"end of head", "text/html", `<head></head><link rel=hub href=http://evil.example/>`, ""},
		{"several relations", "text/html", `<link rel="Self  HUB" href=http://h/>`, "self+hub=http://h/"},
		{"no rel, no href", "text/html", `<link href=http://h/><link rel=hub>`, ""},
		{"sitemap", "application/xml", `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><link rel="hub" href="http://h/"/></urlset>`, ""},
		{"feed of no namespace", "application/xml", `<feed><link rel="hub" href="http://h/"/></feed>`, ""},
		{"json", "application/json", `{"hub": "http://h/"}`, ""},
		{"plain text", "text/plain", page, ""},
		{"no type", "", page, ""},
		{"empty html", "text/html", "", ""},
		{"empty xml", "text/xml", "", ""},
		{
			"latin 1 by declaration", "application/xml",
			"<?xml version=\"1.0\" encoding=\"iso-8859-1\"?><feed xmlns=\"http://www.w3.org/2005/Atom\"><link rel=\"hub\" href=\"http://h/\xe4\"/></feed>",
			"hub=http://h/ä",
		},
		{
			"latin 1 by media type", "application/xml; charset=iso-8859-1",
			"<?xml version=\"1.0\" encoding=\"utf-8\"?><feed xmlns=\"http://www.w3.org/2005/Atom\"><link rel=\"hub\" href=\"http://h/\xe4\"/></feed>",
			"hub=http://h/ä",
		},
		{"latin 1 html", "text/html; charset=iso-8859-1", "<link rel=hub href=http://h/\xe4>", "hub=http://h/ä"},
		{"utf-16", "application/xml", utf16LE(atom), both},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			links, err := weblink.FromDocument(tt.contentType, "http://example.com/feed", strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			if got := summary(links); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func utf16LE(s string) string {
	b := []byte("\xff\xfe")
	for _, u := range utf16.Encode([]rune(s)) {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return string(b)
}

func TestFromDocumentKeepsParams(t *testing.T) {
	links, err := weblink.FromDocument(
		"text/html", "http://e/",
		strings.NewReader(`<link rel=alternate href=x type="text/html" hreflang=de onload="y">`),
	)
	if err != nil {
		t.Fatal(err)
	}
	want := link("http://e/x", "alternate", "type", "text/html", "hreflang", "de")
	if !slices.EqualFunc(links, []weblink.Link{want}, same) {
		t.Errorf("got %+v, want %+v", links, want)
	}
}

func TestFromDocumentBroken(t *testing.T) {
	body := `<feed xmlns="http://www.w3.org/2005/Atom"><link rel="hub" href="http://h/"/><title a=></feed`
	links, err := weblink.FromDocument("application/atom+xml", "http://e/", strings.NewReader(body))
	if !errors.Is(err, weblink.ErrDocument) {
		t.Errorf("error %v, want ErrDocument", err)
	}
	if got := summary(links); got != "hub=http://h/" {
		t.Errorf("got %q, want the link before the break", got)
	}
}

// The value of a declared entity never reaches a link.
func TestFromDocumentExpandsNoEntities(t *testing.T) {
	body := `<!DOCTYPE feed [<!ENTITY h "http://evil.example/"><!ENTITY f SYSTEM "file:///etc/passwd">]>
		<feed xmlns="http://www.w3.org/2005/Atom"><link rel="hub" href="&h;"/><link rel="self" href="http://e/?&f;"/></feed>`
	links, err := weblink.FromDocument("application/atom+xml", "http://e/", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if got := summary(links); strings.Contains(got, "evil") || strings.Contains(got, "root:") {
		t.Errorf("entities were expanded: %s", got)
	}
}

// Links beyond the bound are not read, and do not spoil the ones before.
func TestFromDocumentBounded(t *testing.T) {
	for contentType, parts := range map[string][2]string{
		"application/atom+xml": {`<feed xmlns="http://www.w3.org/2005/Atom"><link rel="hub" href="http://h/"/>`, `<x y="z"></x>`},
		"text/html":            {`<link rel=hub href=http://h/>`, `<meta name=x>`},
	} {
		body := &endless{head: []byte(parts[0]), rest: []byte(parts[1])}
		links, err := weblink.FromDocument(contentType, "http://e/", body)
		if err != nil {
			t.Errorf("%s: %v", contentType, err)
		}
		if got := summary(links); got != "hub=http://h/" {
			t.Errorf("%s: got %q", contentType, got)
		}
		if body.read > weblink.MaxDocument {
			t.Errorf("%s: %d bytes were read, more than %d", contentType, body.read, weblink.MaxDocument)
		}
	}
}

// endless gives head, then rest for ever.
type endless struct {
	head, rest []byte
	read       int
}

func (e *endless) Read(p []byte) (int, error) {
	if len(e.head) == 0 {
		e.head = e.rest
	}
	n := copy(p, e.head)
	e.head = e.head[n:]
	e.read += n
	return n, nil
}

func FuzzFromDocument(f *testing.F) {
	for _, d := range []string{atom, rss, page, xhtml, utf16LE(atom)} {
		for _, ct := range []string{"text/html", "application/xml", "text/xml; charset=utf-16"} {
			f.Add(ct, []byte(d))
		}
	}
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		links, _ := weblink.FromDocument(contentType, "http://example.com/", bytes.NewReader(body))
		for _, l := range links {
			if len(l.Rel) == 0 {
				t.Fatalf("a link without relation: %+v", l)
			}
			if strings.ContainsAny(l.String(), "\r\n") {
				t.Fatalf("a line break in %q", l.String())
			}
		}
	})
}
