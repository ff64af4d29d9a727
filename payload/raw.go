package payload

import (
	"bytes"
	"fmt"
	"strings"
)

// field is an attribute of rs:md or rs:ln (core §7, table 3).
type field int

const (
	fCapability field = iota
	fChange
	fDatetime
	fFrom
	fUntil
	fAt
	fCompleted
	fRel
	fHref
	fHash
	fLength
	fType
	fEncoding
	fModified
	fPath
	fPri
	fieldCount
)

// fieldOf returns the field of an attribute's name, or fieldCount.
func fieldOf(name []byte) field {
	switch string(name) {
	case "capability":
		return fCapability
	case "change":
		return fChange
	case "datetime":
		return fDatetime
	case "from":
		return fFrom
	case "until":
		return fUntil
	case "at":
		return fAt
	case "completed":
		return fCompleted
	case "rel":
		return fRel
	case "href":
		return fHref
	case "hash":
		return fHash
	case "length":
		return fLength
	case "type":
		return fType
	case "encoding":
		return fEncoding
	case "modified":
		return fModified
	case "path":
		return fPath
	case "pri":
		return fPri
	}
	return fieldCount
}

// span is a piece of a raw's text.
type span struct{ from, to int }

// fields are the attributes of one rs:md or rs:ln; an absent one is an empty span.
type fields [fieldCount]span

// raw is the content of one entry, or of a document's head, before anything is
// made of it. All text of it is in one buffer that the next entry uses again,
// so that an entry costs one string, and judging one costs none.
type raw struct {
	text    []byte
	line    int // where its start tag begins
	loc     span
	locs    int // how many loc there were: the first with text counts
	lastMod span
	md      fields
	mds     int // how many rs:md there were: the first counts
	links   []fields
	limit   int // of len(text)

	// Deviations from the clauses, beside mds.
	attrs    bool   // the url element had attributes
	mdFirst  bool   // rs:md stood before loc
	prefixed bool   // attributes had a prefix
	stray    string // an attribute of rs:md or rs:ln that is not defined there
	badFreq  string // changefreq had this value
	unknown  string // an element that is not defined
}

func (w *raw) reset() {
	*w = raw{text: w.text[:0], links: w.links[:0], limit: w.limit}
}

func (w *raw) put(b []byte) (span, error) {
	if len(w.text)+len(b) > w.limit {
		return span{}, fmt.Errorf("%w: one entry has more than %d bytes", ErrTooLarge, w.limit)
	}
	from := len(w.text)
	w.text = append(w.text, b...)
	return span{from, len(w.text)}, nil
}

func (w *raw) get(s span) []byte { return w.text[s.from:s.to] }

// take takes the attributes of an rs:md or rs:ln. They should have no prefix
// (core §7); one that stands for the ResourceSync namespace is let pass.
func (w *raw) take(attrs []attr, defined uint32) (fs fields, err error) {
	for _, a := range attrs {
		if a.space != "" && a.space != spaceRS {
			continue
		}
		w.prefixed = w.prefixed || a.space != ""
		f := fieldOf(a.local)
		if defined>>f&1 == 0 && w.stray == "" {
			w.stray = named(a.local)
		}
		if f < fieldCount {
			if fs[f], err = w.put(a.value); err != nil {
				return fs, err
			}
		}
	}
	return fs, nil
}

func (w *raw) takeMD(attrs []attr, defined uint32) (err error) {
	if w.mds++; w.mds == 1 {
		w.mdFirst = w.loc == (span{})
		w.md, err = w.take(attrs, defined)
	}
	return err
}

func (w *raw) takeLink(attrs []attr) error {
	if len(w.links) == MaxLinks {
		return fmt.Errorf("%w: more than %d links in one place", ErrTooLarge, MaxLinks)
	}
	fs, err := w.take(attrs, linkAttrs)
	w.links = append(w.links, fs)
	return err
}

// noteElement records the element whose start tag was read if it is of the namespaces of the
// standards, and none of them defines it.
func (w *raw) noteElement(s *scanner) {
	space, local := s.space(), s.local()
	if w.unknown == "" && (space == spaceRS ||
		space == spaceSitemap && string(local) != "priority") {
		w.unknown = named(local)
	}
}

// entry makes an Entry of w.
func (w *raw) entry() Entry {
	text := string(w.text)
	get := func(f field) string { return text[w.md[f].from:w.md[f].to] }
	e := Entry{
		Loc:        text[w.loc.from:w.loc.to],
		LastMod:    text[w.lastMod.from:w.lastMod.to],
		Change:     Change(get(fChange)),
		Hash:       oneSpaced(get(fHash)),
		Length:     get(fLength),
		Type:       get(fType),
		Encoding:   get(fEncoding),
		Path:       get(fPath),
		Line:       w.line,
		Links:      w.linksFrom(text),
		Capability: get(fCapability),
		From:       get(fFrom),
		Until:      get(fUntil),
		At:         get(fAt),
		Completed:  get(fCompleted),
	}
	if told := get(fDatetime); told != "" {
		d, _ := scanDatetime(told)
		if e.Datetime = d.time; !d.complete() {
			e.DatetimeTold = told
		}
	}
	return e
}

// linksFrom makes Links of w's links; text is w.text.
func (w *raw) linksFrom(text string) []Link {
	if len(w.links) == 0 {
		return nil
	}
	links := make([]Link, len(w.links))
	for i, fs := range w.links {
		get := func(f field) string { return text[fs[f].from:fs[f].to] }
		links[i] = Link{
			Rel: get(fRel), Href: get(fHref), Hash: oneSpaced(get(fHash)), Length: get(fLength),
			Type: get(fType), Encoding: get(fEncoding), Modified: get(fModified),
			Path: get(fPath), Pri: get(fPri),
		}
	}
	return links
}

// link returns where the first link of the relation leads, empty without one.
func (w *raw) link(rel string) string {
	for _, fs := range w.links {
		if string(w.get(fs[fRel])) == rel {
			return string(w.get(fs[fHref]))
		}
	}
	return ""
}

// oneSpaced brings a list that is broken over lines to single spaces.
func oneSpaced(s string) string {
	if strings.Trim(s, space) == s && !strings.ContainsAny(s, "\t\r\n") &&
		!strings.Contains(s, "  ") {
		return s
	}
	return strings.Join(strings.FieldsFunc(s,
		func(r rune) bool { return strings.ContainsRune(space, r) }), " ")
}

// space is the white space of XML 1.0 (§2.3).
const space = " \t\r\n"

// trimmed is s without the white space around it.
func (w *raw) trimmed(s span) span {
	b := w.get(s)
	rest := bytes.TrimLeft(b, space)
	left := s.from + len(b) - len(rest)
	return span{left, left + len(bytes.TrimRight(rest, space))}
}
