package check

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"carillon/internal/fetch"
	"carillon/internal/weblink"
	"carillon/payload"
)

// document is what the walk remembers of what was at an address or in a file.
type document struct {
	uri    string   // as it was asked for, or the name of the file
	base   *url.URL // after redirects; nil of a file
	local  bool
	status int
	header http.Header
	err    error // why the request failed
	roles  uint  // a bit for each role that led here

	// known: it is a urlset or a sitemapindex of the sitemap namespace, and whole: it was
	// read to its end without a fault.
	known, whole bool
	head         payload.Header
	entries      []listed        // of documents that list others
	cut          bool            // there are more entries, which are not remembered
	listedAt     map[string]bool // see addresses
	count        int             // of entries
	sum          string          // SHA-256 of its bytes
	length       int64           // of its bytes
	gzipped      bool            // it was served as a gzip file, and sum and length are of its content
	other        bool            // it is something that ResourceSync does not know
	links        []weblink.Link
	pack         *packaged // of a package
	channelOf    *document // the Capability List of which it is a topic
	set          string    // the address of its Capability List, empty for none
	// live: listings has what it lists, for the comparison with other capabilities.
	live     bool
	listings []listing
	broken   bool // not everything in it was read
	// kept and compared are its shares of those of the walk.
	kept, compared int
}

// listed is an entry of a document that lists others.
type listed struct {
	payload.Entry
	n int // from 1 on
}

// isIndex reports whether the document is an index.
func (d *document) isIndex() bool { return d.head.Root == payload.RootSitemapIndex }

// is reports whether the document has the capability.
func (d *document) is(capability string) bool { return d.known && d.head.Capability == capability }

// led reports whether a lead of the role has led here.
func (d *document) led(r role) bool { return d.roles>>r&1 == 1 }

// link returns the first link of the document itself with a relation.
func (d *document) link(rel string) *payload.Link {
	for i := range d.head.Links {
		if d.head.Links[i].Rel == rel && d.head.Links[i].Href != "" {
			return &d.head.Links[i]
		}
	}
	return nil
}

// resolve returns the absolute address of ref in the document, or nil if it is not http or https.
func (d *document) resolve(ref string) *url.URL {
	base := d.base
	if base == nil {
		base = &url.URL{}
	}
	u, err := base.Parse(strings.TrimSpace(ref))
	if err != nil || !fetch.Web(u) {
		return nil
	}
	return plain(u)
}

// addresses are those that the entries of a document that lists others lead to. They are worked
// out once, as many ask.
func (d *document) addresses() map[string]bool {
	if d.listedAt == nil {
		d.listedAt = make(map[string]bool, len(d.entries))
		for i := range d.entries {
			if to := d.resolve(d.entries[i].Loc); to != nil {
				d.listedAt[to.String()] = true
			}
		}
	}
	return d.listedAt
}

// place is the document as a whole, or an element of its head.
func (d *document) place(element string) place { return place{d.uri, 0, element} }

// of is an element of an entry.
func (d *document) of(e *listed, element string) place {
	return place{d.uri, e.Line, nth(d.isIndex(), e.n) + element}
}

// readDocument reads a document, judges what it shows by itself, and remembers what it lists.
// Everything else is a page, whose links are remembered.
func (w *walk) readDocument(d *document, a *answer, l *lead) {
	body, err := w.unpacked(a)
	if err != nil {
		w.report(ruleXML, d.place(""), d, "", "it looks like gzip, and is not: %s", reason(err))
		return
	}
	d.gzipped = body != io.Reader(a.body)
	digest, start := sha256.New(), &beginning{}
	body = &counted{body, &d.length, math.MaxInt64, nil}
	r := payload.NewReader(io.TeeReader(body, io.MultiWriter(digest, start)), payload.Limits{})
	if d.head, err = r.Header(); err != nil {
		d.broken = true
		w.notADocument(d, l, err, io.MultiReader(start, body))
		return
	}
	w.sum.Documents++
	d.known = true
	d.set = setOf(d, l)
	odd := payload.NewInspector("")
	var newest time.Time
	err = w.readEntries(d, l, r, odd, func(e *payload.Entry) { newest = later(newest, e.Datetime) })
	d.sum = hex.EncodeToString(digest.Sum(nil))
	if isPlainSitemap(d, l) {
		return
	}
	w.inspected(d, odd.Violations())
	switch {
	case err == nil:
		d.whole = true
		w.judgeMediaType(d)
		w.judgeFuture(d, newest)
	case !w.limited(err, d.place(""), d.base):
		w.unreadable(d, err)
	}
}

// isPlainSitemap reports whether a document is a sitemap of a site that knows nothing of
// ResourceSync.
func isPlainSitemap(d *document, l *lead) bool {
	return l.role == roleSitemap && d.head.Capability == ""
}

// readEntries reads a document to its end, and calls also with each entry. What it lists is
// remembered.
func (w *walk) readEntries(d *document, l *lead, r *payload.Reader, odd *payload.Inspector,
	also func(*payload.Entry),
) error {
	odd.Head(d.head)
	take := w.gatherer(d, l)
	if payload.ListsDocuments(d.head.Capability, d.isIndex()) {
		take = func(e *payload.Entry) { w.keep(d, e) }
	}
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		d.count++
		odd.Entry(&e)
		take(&e)
		also(&e)
	}
	var err error
	if d.head, err = r.Header(); err == nil {
		odd.End(d.head)
	}
	return err
}

// keep remembers an entry of a document that lists others.
func (w *walk) keep(d *document, e *payload.Entry) {
	if w.kept > w.cfg.Limits.Memory {
		d.cut, w.cut = true, true
		w.leftOut("kept", d.place(""), "not everything was looked at: the documents list more than is remembered", "check the parts one by one")
		return
	}
	const each = 1000 // of the structure itself, and of what is noted of where it leads
	cost := each + 3*len(e.Loc) + len(e.LastMod) + len(e.Hash)
	for i := range e.Links {
		cost += each + 3*len(e.Links[i].Href)
	}
	w.kept, d.kept = w.kept+cost, d.kept+cost
	d.entries = append(d.entries, listed{*cloned(e), d.count})
}

// inspected reports what the document shows by itself.
func (w *walk) inspected(d *document, violations []payload.Violation) {
	for i := range violations {
		v := &violations[i]
		f := Finding{
			Level: Level(v.Level.String()), Clause: payload.PlainClause(v.Clause), URI: d.uri,
			Line: v.Line, Element: v.Element, What: plainMessage(v), Mend: v.Mend,
		}
		w.tell(f)
	}
}

// plainMessage is the message without its clause, and without the number of the entry where
// Element has it.
func plainMessage(v *payload.Violation) string {
	text := strings.Replace(v.Message, " ("+v.Clause+")", "", 1)
	entry, rest, is := strings.Cut(text, ": ")
	if is && v.Element != "" && strings.HasPrefix(entry, "entry ") {
		return rest
	}
	return text
}

// unreadable reports why a document could not be read to its end.
func (w *walk) unreadable(d *document, err error) {
	switch {
	case errors.Is(err, payload.ErrTooLarge), errors.Is(err, payload.ErrTooManyEntries):
		w.report(ruleLimits, d.place(""), d, "split it, and list the parts in an index",
			"it is over a limit: %s", reason(err))
	default:
		w.report(ruleXML, d.place(""), d, "write well-formed XML in UTF-8, without a document type declaration", "it cannot be read: %s", reason(err))
	}
}

// notADocument reports what should be a document and is none. What was named as a place, or as
// a site's first page, may be a page: its links are remembered.
func (w *walk) notADocument(d *document, l *lead, err error, body io.Reader) {
	if w.limited(err, d.place(""), d.base) {
		return
	}
	if (l.role == roleStart || l.role == rolePage) && !d.local {
		links, _ := weblink.FromDocument(d.header.Get("Content-Type"), d.base.String(), body)
		d.links = append(d.links, links...)
		d.other = errors.Is(err, payload.ErrNotResourceSync) || !isXML(d.header.Get("Content-Type"))
		switch {
		case l.role == rolePage || len(weblink.Find(d.links, relResourceSync)) > 0 ||
			d.other && d.isTopic():
			return
		case !d.other:
			w.unreadable(d, err)
			return
		}
		w.report(ruleNowhere, d.place(""), d,
			"begin at a document of ResourceSync, or at what links to one",
			"it is no document of ResourceSync (%s), and has no link with rel=resourcesync",
			strings.TrimPrefix(reason(err), payload.ErrNotResourceSync.Error()+": "))
		return
	}
	w.unreadable(d, err)
}

// modified is the answer's Last-Modified, zero where it has none.
func (d *document) modified() time.Time {
	at, _ := http.ParseTime(d.header.Get("Last-Modified"))
	return at
}

// readLinks reads the links of the answer's header.
func (d *document) readLinks() {
	if d.base == nil {
		return
	}
	links, _ := weblink.Parse(d.header.Values("Link"))
	d.links = weblink.Resolve(d.base.String(), links[:min(len(links), maxLinks)])
}

// maxLinks is how many links of an answer's header are remembered.
const maxLinks = 100

// keptHeaders are the fields of answers that are looked at when all documents were read.
var keptHeaders = []string{"Content-Type", "Content-Length", "Last-Modified", "Etag"}

// forget drops the parts of the answer's header that no later rule needs.
func (d *document) forget() {
	kept := http.Header{}
	for _, name := range keptHeaders {
		if value := d.header.Get(name); value != "" {
			kept.Set(name, strings.Clone(value))
		}
	}
	d.header = kept
}

// isTopic reports whether the answer names a hub, as that of a topic does.
func (d *document) isTopic() bool { return len(weblink.Find(d.links, "hub")) > 0 }

// judgeMediaType judges the Content-Type of a document.
func (w *walk) judgeMediaType(d *document) {
	if d.local || d.pack != nil {
		return
	}
	told := d.header.Get("Content-Type")
	switch mediaType, _, err := mime.ParseMediaType(told); {
	case err == nil && (isXML(told) || mediaType == "application/gzip" ||
		mediaType == "application/x-gzip"):
	case d.isTopic() && d.is(payload.ChangeNotification): // judged by what topics must have
	default:
		w.report(ruleMediaType, d.place(""), d, "serve it as application/xml",
			"its Content-Type is %s", quote(told))
	}
}

// isXML reports whether a Content-Type is that of XML.
func isXML(told string) bool {
	mediaType, _, err := mime.ParseMediaType(told)
	return err == nil && (mediaType == "application/xml" || mediaType == "text/xml" ||
		strings.HasSuffix(mediaType, "+xml"))
}

// beginning keeps the first bytes of what is read.
type beginning struct{ bytes.Buffer }

func (b *beginning) Write(p []byte) (int, error) {
	_, _ = b.Buffer.Write(p[:min(len(p), weblink.MaxDocument-b.Len())])
	return len(p), nil
}

// cloned is an entry that holds on to nothing but its own fields.
func cloned(e *payload.Entry) *payload.Entry {
	c := *e
	for _, text := range []*string{
		&c.Loc, &c.LastMod, &c.Hash, &c.Length, &c.Type, &c.Encoding, &c.Capability,
		&c.From, &c.Until, &c.At, &c.Completed, &c.DatetimeTold,
	} {
		*text = strings.Clone(*text)
	}
	c.Links = make([]payload.Link, len(e.Links))
	for i, l := range e.Links {
		for _, text := range []*string{
			&l.Rel, &l.Href, &l.Hash, &l.Length, &l.Type, &l.Encoding,
			&l.Modified, &l.Path, &l.Pri,
		} {
			*text = strings.Clone(*text)
		}
		c.Links[i] = l
	}
	return &c
}

// kindOf names the documents of a capability.
func kindOf(capability string, index bool) string {
	if name := payload.DocumentName(capability, index); name != "" {
		return name
	}
	name := "document without a capability"
	if capability != "" {
		name = "document with the capability " + quote(capability)
	}
	if index {
		name += " (a sitemapindex)"
	}
	return name
}

// clause is where the document is described.
func (d *document) clause() string {
	return payload.PlainClause(payload.ClauseOf(d.head.Capability, d.isIndex()))
}
