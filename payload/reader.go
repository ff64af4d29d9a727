package payload

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// ErrNotResourceSync: the root element is neither urlset nor sitemapindex of
// the sitemap namespace.
var ErrNotResourceSync = errors.New("not a ResourceSync document")

// The root elements of ResourceSync documents (core §7).
const (
	RootURLSet       = "urlset"
	RootSitemapIndex = "sitemapindex"
)

// Header is a document's description of itself: its root element, and the rs:md and rs:ln directly
// under it. A missing part is empty.
type Header struct {
	Root       string // RootURLSet or RootSitemapIndex
	Capability string
	// From, Until, At and Completed stand as in the document.
	From, Until, At, Completed string
	// FromTime and the others are the same as times; zero for what is not a W3C
	// Datetime.
	FromTime, UntilTime, AtTime, CompletedTime time.Time
	Links                                      []Link
	// Line is the line where the root element begins, from 1 on.
	Line int

	shape shape
}

// Reader reads one ResourceSync document of any kind, entry by entry, and takes the oddities of real
// Sources: entries in any order, with any field missing, foreign elements and attributes (passed
// over), namespaces under any prefix, datetimes with offsets or without a time, digests in any
// notation. Fields are unchanged, except for white space: around loc and lastmod it is left out, in
// lists of hashes it becomes one space. It judges nothing but well-formedness and the Limits;
// ValidateNotification judges.
//
// It is for one goroutine. Errors are final, and are ErrSyntax, ErrDoctype, ErrEncoding, ErrTooLarge,
// ErrTooDeep, ErrTooManyEntries, ErrNotResourceSync, or those of the underlying reader, all wrapped.
type Reader struct {
	scan    *scanner
	lim     Limits
	root    string
	line    int // where the root begins
	head    raw
	cur     raw
	entries int
	shape   shape
	inEntry bool // the start tag of the next entry was read
	err     error
}

// NewReader returns a Reader of the document that r gives.
func NewReader(r io.Reader, limits Limits) *Reader {
	lim := limits.withDefaults()
	return newReader(newScanner(r, lim), lim)
}

func newReader(scan *scanner, lim Limits) *Reader {
	return &Reader{
		scan: scan, lim: lim,
		head: raw{limit: lim.EntryBytes}, cur: raw{limit: lim.EntryBytes},
	}
}

// Header reads up to the first entry and returns the document's head. Parts of
// the head that come after an entry are in it from when Next has passed them:
// after io.EOF it is complete. Where rs:md is repeated the first counts.
func (r *Reader) Header() (Header, error) {
	if err := r.begin(); err != nil && !errors.Is(err, io.EOF) {
		return Header{}, err
	}
	text := string(r.head.text)
	get := func(f field) string { return text[r.head.md[f].from:r.head.md[f].to] }
	h := Header{
		Root: r.root, Line: r.line,
		Capability: get(fCapability),
		From:       get(fFrom), Until: get(fUntil), At: get(fAt), Completed: get(fCompleted),
		Links: r.head.linksFrom(text),
		shape: r.shape,
	}
	h.shape.entry(inHead, &r.head)
	h.FromTime, h.UntilTime = timeOf(h.From), timeOf(h.Until)
	h.AtTime, h.CompletedTime = timeOf(h.At), timeOf(h.Completed)
	return h, nil
}

// timeOf reads a W3C Datetime; an invalid one is the zero time.
func timeOf(told string) time.Time {
	w, _ := scanDatetime(told)
	return w.time
}

// Next returns the next entry: a url element, or a sitemap element of an index.
// It returns io.EOF when the document has ended and was well-formed.
func (r *Reader) Next() (Entry, error) {
	if err := r.next(); err != nil {
		return Entry{}, err
	}
	return r.cur.entry(), nil
}

// begin reads up to the first entry, once.
func (r *Reader) begin() error {
	if r.root != "" || r.err != nil {
		return r.err
	}
	r.err = r.open()
	if r.err == nil {
		r.err = r.advance()
	}
	return r.err
}

// next reads the next entry into cur.
func (r *Reader) next() error {
	if err := r.begin(); err != nil {
		return err
	}
	if !r.inEntry {
		if r.err = r.advance(); r.err != nil {
			return r.err
		}
	}
	if r.entries == r.lim.Entries {
		r.err = fmt.Errorf("%w: more than %d", ErrTooManyEntries, r.lim.Entries)
		return r.err
	}
	r.entries++
	r.inEntry = false
	if r.err = r.entry(); r.err == nil && r.cur.odd() {
		r.shape.entry(r.entries, &r.cur)
	}
	return r.err
}

// open reads the root's start tag.
func (r *Reader) open() error {
	if _, err := r.scan.token(); err != nil {
		return err
	}
	root := string(r.scan.local())
	if r.scan.space() != spaceSitemap || root != RootURLSet && root != RootSitemapIndex {
		return fmt.Errorf("%w: the root element is %.40q in the namespace %.80q, "+
			"not urlset or sitemapindex in %q", ErrNotResourceSync, root, r.scan.space(),
			spaceSitemap)
	}
	r.root, r.line = root, r.scan.tagLine()
	r.head.line = r.line
	return nil
}

// advance reads on to the start tag of the next entry and takes what belongs to
// the head. It returns io.EOF at the document's end.
func (r *Reader) advance() error {
	for {
		k, err := r.scan.token()
		if err != nil {
			return err
		}
		if k != tokenStart {
			continue
		}
		switch r.element() {
		case elemEntry:
			r.inEntry = true
			if isURL := string(r.scan.local()) == "url"; isURL != (r.root == RootURLSet) {
				r.shape.first(shapeMisnamed, r.entries+1, r.scan.tagLine(), "")
			}
			return nil
		case elemMD:
			err = r.head.takeMD(r.scan.attrs, headAttrs)
		case elemLink:
			err = r.head.takeLink(r.scan.attrs)
		default:
			r.head.noteElement(r.scan)
		}
		if err == nil {
			err = r.leave()
		}
		if err != nil {
			return err
		}
	}
}

// entry reads the entry whose start tag was read.
func (r *Reader) entry() error {
	w := &r.cur
	w.reset()
	w.line = r.scan.tagLine()
	w.attrs = len(r.scan.attrs) > 0
	depth := r.scan.depth()
	for {
		k, err := r.scan.token()
		if err != nil {
			return err
		}
		switch {
		case k == tokenEnd && r.scan.depth() == depth:
			return nil
		case k != tokenStart:
			continue
		}
		switch r.element() {
		case elemLoc:
			w.locs++
			err = r.text(&w.loc)
		case elemLastMod:
			err = r.text(&w.lastMod)
		case elemMD:
			if err = w.takeMD(r.scan.attrs, entryAttrs); err == nil {
				err = r.leave()
			}
		case elemLink:
			if err = w.takeLink(r.scan.attrs); err == nil {
				err = r.leave()
			}
		case elemChangeFreq:
			var s span
			if err = r.text(&s); err == nil {
				w.badFreq = undefinedFreq(w.get(s))
			}
		default:
			w.noteElement(r.scan)
			err = r.leave()
		}
		if err != nil {
			return err
		}
	}
}

// element reports what the element is whose start tag was read.
func (r *Reader) element() element {
	switch r.scan.space() {
	case spaceSitemap:
		switch string(r.scan.local()) {
		case "url", "sitemap":
			return elemEntry
		case "loc":
			return elemLoc
		case "lastmod":
			return elemLastMod
		case "changefreq":
			return elemChangeFreq
		}
	case spaceRS:
		switch string(r.scan.local()) {
		case "md":
			return elemMD
		case "ln":
			return elemLink
		}
	}
	return elemOther
}

type element int

const (
	elemOther element = iota
	elemEntry
	elemLoc
	elemLastMod
	elemChangeFreq
	elemMD
	elemLink
)

// leave reads to the end tag of the element whose start tag was read.
func (r *Reader) leave() error {
	for depth := r.scan.depth(); ; {
		k, err := r.scan.token()
		if err != nil || k == tokenEnd && r.scan.depth() == depth {
			return err
		}
	}
}

// text reads the text of the element whose start tag was read, to its end tag;
// text of elements inside it is left out. Where the element is repeated, the
// first that has text counts.
func (r *Reader) text(to *span) error {
	w := &r.cur
	got := span{len(w.text), len(w.text)}
	for depth := r.scan.depth(); ; {
		k, err := r.scan.token()
		switch {
		case err != nil:
			return err
		case k == tokenText && r.scan.depth() == depth:
			s, err := w.put(r.scan.text)
			if err != nil {
				return err
			}
			got.to = s.to
		case k == tokenEnd && r.scan.depth() == depth:
			if to.from == to.to {
				*to = w.trimmed(got)
			}
			return nil
		}
	}
}
