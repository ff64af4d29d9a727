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
	"strings"
	"time"

	"carillon/internal/weblink"
	"carillon/payload"
)

// reader reads documents, and remembers what they list.
type reader struct {
	*visitor
	samples  *samples
	kept     int // bytes of listed entries that are remembered
	compared int // bytes of URIs that are remembered
}

// readDocument reads a document, judges what it shows by itself, and remembers what it lists.
// Everything else is a page, whose links are remembered.
func (rd *reader) readDocument(d *document, a *answer, l *lead) {
	body, err := rd.unpacked(a)
	if err != nil {
		rd.report(ruleXML, d.place(""), d, "", "it looks like gzip, and is not: %s", reason(err))
		return
	}
	d.gzipped = body != io.Reader(a.body)
	digest, start := sha256.New(), &beginning{}
	body = &counted{body, &d.length, math.MaxInt64, nil}
	r := payload.NewReader(io.TeeReader(body, io.MultiWriter(digest, start)), payload.Limits{})
	if d.head, err = r.Header(); err != nil {
		d.broken = true
		rd.notADocument(d, l, err, io.MultiReader(start, body))
		return
	}
	rd.sum.Documents++
	d.known = true
	d.set = setOf(d, l)
	odd := payload.NewInspector("")
	var newest time.Time
	err = rd.readEntries(d, l, r, odd, func(e *payload.Entry) { newest = later(newest, e.Datetime) })
	d.sum = hex.EncodeToString(digest.Sum(nil))
	if isPlainSitemap(d, l) {
		return
	}
	rd.inspected(d, odd.Violations())
	switch {
	case err == nil:
		d.whole = true
		rd.judgeMediaType(d)
		rd.judgeFuture(d, newest)
	case !rd.limited(err, d.place(""), d.base):
		rd.unreadable(d, err)
	}
}

// readEntries reads a document to its end, and calls also with each entry. The listed addresses are
// remembered.
func (rd *reader) readEntries(d *document, l *lead, r *payload.Reader, odd *payload.Inspector,
	also func(*payload.Entry),
) error {
	odd.Head(d.head)
	take := rd.gatherer(d, l)
	if payload.ListsDocuments(d.head.Capability, d.isIndex()) {
		take = func(e *payload.Entry) { rd.keep(d, e) }
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
func (rd *reader) keep(d *document, e *payload.Entry) {
	if rd.kept > rd.cfg.Limits.Memory {
		d.cut, rd.cut = true, true
		rd.leftOut(
			"kept", d.place(""),
			"not everything was looked at: the documents list more than is remembered",
			"check the parts one by one",
		)
		return
	}
	const each = 1000 // of the structure itself, and of what is noted of where it leads
	cost := each + 3*len(e.Loc) + len(e.LastMod) + len(e.Hash)
	for i := range e.Links {
		cost += each + 3*len(e.Links[i].Href)
	}
	rd.kept, d.kept = rd.kept+cost, d.kept+cost
	d.entries = append(d.entries, listed{*cloned(e), d.count})
}

// notADocument reports anything else in the place of a document. A named place, or a site's first
// page, may be a page: its links are remembered.
func (rd *reader) notADocument(d *document, l *lead, err error, body io.Reader) {
	if rd.limited(err, d.place(""), d.base) {
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
			rd.unreadable(d, err)
			return
		}
		rd.report(ruleNowhere, d.place(""), d,
			"begin at a document of ResourceSync, or at what links to one",
			"it is no document of ResourceSync (%s), and has no link with rel=resourcesync",
			strings.TrimPrefix(reason(err), payload.ErrNotResourceSync.Error()+": "))
		return
	}
	rd.unreadable(d, err)
}

// judgeMediaType judges the Content-Type of a document.
func (rd *reader) judgeMediaType(d *document) {
	if d.local || d.pack != nil {
		return
	}
	told := d.header.Get("Content-Type")
	switch mediaType, _, err := mime.ParseMediaType(told); {
	case err == nil && (isXML(told) || mediaType == "application/gzip" ||
		mediaType == "application/x-gzip"):
	case d.isTopic() && d.is(payload.ChangeNotification): // judged by what topics must have
	default:
		rd.report(ruleMediaType, d.place(""), d, "serve it as application/xml",
			"its Content-Type is %s", quote(told))
	}
}

// judgeFuture: a document says nothing of times that have not been yet (core 7).
func (rd *reader) judgeFuture(d *document, newest time.Time) {
	now := time.Now()
	if at, err := http.ParseTime(d.header.Get("Date")); err == nil {
		now = later(now, at)
	}
	own := d.span()
	for _, t := range [...]struct {
		element string
		time.Time
	}{
		{"rs:md/@at", own.at},
		{"rs:md/@completed", own.completed},
		{"rs:md/@from", own.from},
		{"rs:md/@until", own.until},
		{"url/rs:md/@datetime", newest},
	} {
		if t.After(now.Add(maxSkew)) {
			rd.report(ruleFuture, d.place(t.element), d,
				"write a time that has passed, and correct the clock",
				"%s is in the future (it was served at %s)", written(t.Time), written(now))
			return
		}
	}
}

// maxSkew is how far the clock that dates documents may be ahead of the server's.
const maxSkew = time.Minute

// gatherer returns what remembers the entries of a document that lists resources or changes.
// Archived documents describe other times, and are left out.
func (rd *reader) gatherer(d *document, l *lead) func(*payload.Entry) {
	if d.set == "" || l.archived || new(set).of(d.head.Capability) == nil {
		return func(*payload.Entry) {}
	}
	d.live = true
	return func(e *payload.Entry) {
		rd.samples.offer(d, e)
		if d.broken {
			return
		}
		const each = 220 // of the structures themselves
		d.listings = append(d.listings,
			listing{strings.Clone(e.Loc), d.count, e.Line, e.Datetime, e.Change})
		cost := each + len(e.Loc)
		rd.compared, d.compared = rd.compared+cost, d.compared+cost
		if rd.compared > rd.cfg.Limits.Memory {
			d.broken, d.listings, rd.cut = true, nil, true
			rd.leftOut("compared", d.place(""),
				"whether all capabilities cover the same resources was not looked at: there are too many resources", "")
		}
	}
}

// beginning keeps the first bytes of what is read.
type beginning struct{ bytes.Buffer }

func (b *beginning) Write(p []byte) (int, error) {
	_, _ = b.Buffer.Write(p[:min(len(p), weblink.MaxDocument-b.Len())])
	return len(p), nil
}
