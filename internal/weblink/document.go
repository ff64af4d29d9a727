package weblink

import (
	"bufio"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"mime"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"
)

// MaxDocument is how much of a document FromDocument reads, bytes. Links belong at its beginning; the
// part behind is not looked at.
const MaxDocument = 1 << 20

// ErrDocument: the body is not what its media type says.
var ErrDocument = errors.New("unreadable document")

const (
	atomNamespace  = "http://www.w3.org/2005/Atom"
	xhtmlNamespace = "http://www.w3.org/1999/xhtml"
	xmlNamespace   = "http://www.w3.org/XML/1998/namespace"
)

// FromDocument returns the links that a document embeds for itself (WebSub §4): the link elements of
// an Atom feed, the atom:link elements of an RSS channel, the link elements in the head of an HTML
// page. Those of entries, items and page bodies are not its own, and are passed over: strangers write
// there.
//
// The media type decides which of them are read; for application/xml and text/xml the root element
// does. Other media types embed none. Relative URIs are resolved against base, the URL of the
// document, or against the document's own base (xml:base, HTML's base).
//
// At most MaxDocument bytes are read, and entities are not expanded. If the document breaks
// (ErrDocument) the links up to there are returned with the error.
func FromDocument(contentType, base string, body io.Reader) ([]Link, error) {
	body = io.LimitReader(body, MaxDocument)
	switch mediaType(contentType) {
	case "text/html":
		return fromHTML(contentType, base, body)
	case "application/atom+xml", "application/rss+xml", "application/rdf+xml",
		"application/xhtml+xml", "application/xml", "text/xml":
		return fromXML(contentType, base, body)
	}
	return nil, nil
}

// mediaType reads the media type also where its parameters are broken.
func mediaType(contentType string) string {
	t, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(t))
}

// fromHTML reads tokens up to the end of the head. A tree is not needed, and the
// head ends where the HTML standard lets it end: at its end tag, or at
// anything that cannot stand in a head.
func fromHTML(contentType, base string, body io.Reader) ([]Link, error) {
	utf8, err := charset.NewReader(body, contentType)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDocument, err)
	}
	z := html.NewTokenizer(utf8)
	z.SetMaxBuf(MaxDocument)
	head := htmlHead{base: base}
	for !head.ended {
		if z.Next() == html.ErrorToken {
			err := z.Err()
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return Resolve(head.base, head.links), wrapDocument(err)
		}
		head.token(z.Token())
	}
	return Resolve(head.base, head.links), nil
}

func wrapDocument(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrDocument, err)
}

// htmlHead is what was seen of a head so far.
type htmlHead struct {
	links   []Link
	base    string
	hasBase bool
	ended   bool
	// inside is the element whose content is not the head's own, "" if none.
	inside string
	depth  int // of templates within each other
}

// headElements may stand in a head (HTML §4.2) or around it.
var headElements = []string{
	"html", "head", "title", "base", "link", "meta", "style", "script", "noscript", "template",
	"basefont", "bgsound", "noframes",
}

func (h *htmlHead) token(t html.Token) {
	switch t.Type {
	case html.StartTagToken, html.SelfClosingTagToken:
		h.start(t)
	case html.EndTagToken:
		h.end(t)
	case html.TextToken:
		if h.inside == "" && strings.Trim(t.Data, " \t\r\n\f\ufeff") != "" {
			h.ended = true
		}
	}
}

func (h *htmlHead) start(t html.Token) {
	if h.inside != "" {
		if h.inside == "template" && t.Data == "template" {
			h.depth++
		}
		return
	}
	if !slices.Contains(headElements, t.Data) {
		h.ended = true
		return
	}
	switch t.Data {
	case "title", "style", "script", "template", "noframes":
		h.inside, h.depth = t.Data, 1
	case "base":
		if href := htmlAttr(t, "href"); href != "" && !h.hasBase {
			h.hasBase = true
			if r := Resolve(h.base, []Link{{URI: href}}); len(r) == 1 {
				h.base = r[0].URI
			}
		}
	case "link":
		attrs := make([]Param, 0, len(t.Attr))
		for _, a := range t.Attr {
			attrs = append(attrs, Param{a.Key, a.Val})
		}
		if l, ok := fromAttrs(attrs); ok {
			h.links = append(h.links, l)
		}
	}
}

func (h *htmlHead) end(t html.Token) {
	switch {
	case h.inside == t.Data && h.inside != "":
		if h.depth--; h.depth == 0 {
			h.inside = ""
		}
	case h.inside == "" && (t.Data == "head" || t.Data == "body" || t.Data == "html"):
		h.ended = true
	}
}

func htmlAttr(t html.Token, name string) string {
	for _, a := range t.Attr {
		if a.Key == name {
			return strings.Trim(a.Val, spaces+"\f")
		}
	}
	return ""
}

// fromAttrs makes a link of the attributes of a link element, if it has href and rel.
func fromAttrs(attrs []Param) (Link, bool) {
	var l Link
	hasHref := false
	for _, a := range attrs {
		switch a.Name {
		case "href":
			l.URI, hasHref = strings.Trim(a.Value, spaces+"\f"), true
		case "rel":
			l.Rel = relations(a.Value)
		case "type", "title", "hreflang", "media":
			l.Params = append(l.Params, a)
		}
	}
	return l, hasHref && len(l.Rel) > 0
}

// fromXML reads the links of a feed or an XHTML page.
func fromXML(contentType, base string, body io.Reader) ([]Link, error) {
	in, converted, err := xmlInput(contentType, body)
	if err != nil {
		return nil, wrapDocument(err)
	}
	limited := &io.LimitedReader{R: in, N: MaxDocument}
	d := xml.NewDecoder(limited)
	// Feeds in the wild use HTML's entities undeclared; they stay as they
	// are written. Declared ones are never expanded.
	d.Strict = false
	d.CharsetReader = charset.NewReaderLabel
	if converted {
		d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	}
	w := xmlWalk{bases: []string{base}}
	for {
		t, err := d.Token()
		if err != nil {
			if errors.Is(err, io.EOF) || len(w.path) > 0 && d.InputOffset() >= MaxDocument-1 {
				err = nil
			}
			return w.links, wrapDocument(err)
		}
		switch t := t.(type) {
		case xml.StartElement:
			if !w.start(t) {
				return w.links, nil
			}
		case xml.EndElement:
			w.end()
		}
	}
}

// xmlInput brings the document to UTF-8 where its byte order mark or media type
// says how; else its own declaration is left to say it (RFC 7303 §3).
func xmlInput(contentType string, body io.Reader) (in io.Reader, converted bool, err error) {
	br := bufio.NewReader(body)
	mark, _ := br.Peek(2)
	switch string(mark) {
	case "\xfe\xff":
		in, err = charset.NewReaderLabel("utf-16be", br)
		return in, true, err
	case "\xff\xfe":
		in, err = charset.NewReaderLabel("utf-16le", br)
		return in, true, err
	}
	_, params, _ := mime.ParseMediaType(contentType)
	if label := params["charset"]; label != "" {
		in, err = charset.NewReaderLabel(label, br)
		return in, true, err
	}
	return br, false, nil
}

// xmlWalk follows the elements of a document down to the places where links of
// its own stand.
type xmlWalk struct {
	links []Link
	path  []string // local names of the open elements that matter, nil elsewhere
	bases []string // xml:base at each of them
	depth int      // of open elements below path
}

// ownLinks are the places of a document's own links, by namespace of the
// link element.
var ownLinks = map[string]string{
	"feed":        atomNamespace,
	"rss/channel": atomNamespace,
	"RDF/channel": atomNamespace,
	"html/head":   xhtmlNamespace,
}

// start enters an element; it is false where nothing more will be found.
func (w *xmlWalk) start(t xml.StartElement) bool {
	if w.depth > 0 {
		w.depth++
		return true
	}
	place := strings.Join(w.path, "/")
	if t.Name.Local == "link" && ownLinks[place] != "" && ownLinks[place] == t.Name.Space {
		w.link(t)
		w.depth++
		return true
	}
	switch place {
	case "":
		if !slices.Contains([]string{"feed", "rss", "RDF", "html"}, t.Name.Local) ||
			t.Name.Local == "feed" && t.Name.Space != atomNamespace {
			return false
		}
	case "rss", "RDF":
		if t.Name.Local != "channel" {
			w.depth++
			return true
		}
	case "html":
		if t.Name.Local != "head" {
			return false
		}
	default:
		w.depth++
		return true
	}
	w.path = append(w.path, t.Name.Local)
	w.bases = append(w.bases, w.base(t))
	return true
}

func (w *xmlWalk) end() {
	switch {
	case w.depth > 0:
		w.depth--
	case len(w.path) > 0:
		w.path = w.path[:len(w.path)-1]
		w.bases = w.bases[:len(w.bases)-1]
	}
}

// base returns the base URI within the element (xml:base).
func (w *xmlWalk) base(t xml.StartElement) string {
	outer := w.bases[len(w.bases)-1]
	for _, a := range t.Attr {
		if a.Name.Space == xmlNamespace && a.Name.Local == "base" {
			if r := Resolve(outer, []Link{{URI: a.Value}}); len(r) == 1 {
				return r[0].URI
			}
		}
	}
	return outer
}

func (w *xmlWalk) link(t xml.StartElement) {
	attrs := make([]Param, 0, len(t.Attr))
	for _, a := range t.Attr {
		if a.Name.Space == "" {
			attrs = append(attrs, Param{a.Name.Local, a.Value})
		}
	}
	if l, ok := fromAttrs(attrs); ok {
		w.links = append(w.links, Resolve(w.base(t), []Link{l})...)
	}
}
