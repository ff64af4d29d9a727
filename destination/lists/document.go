package lists

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"carillon/internal/legible"
	"carillon/payload"
)

// document is a document that was read to its end and is well-formed.
type document struct {
	uri    *url.URL // after redirects
	header http.Header
	index  bool
	head   payload.Header
	// unchanged: it is as it was when it was read before, and has no entries here.
	unchanged bool
	// table: its entries are documents or packages, and are in parts: an index, a dump, an archive.
	table bool
	parts []part

	lim     payload.Limits
	spool   spool
	entries int
	// The datetimes of the entries: whether they are in order, the earliest, the latest.
	ordered        bool
	oldest, newest time.Time
	// before is how many entries, from the first, are proven to lie before since, by a datetime
	// of their own or of a later one.
	before int
	first  string // what the first entry says
}

// name separates a Change List from others that are, or were, at its address: its beginning (core
// §12.1), else its first entry.
func (d *document) name() string {
	if !d.head.FromTime.IsZero() {
		return payload.FormatDatetime(d.head.FromTime)
	}
	return d.first
}

func (d *document) close() { d.spool.close() }

// part is one document of an index or of an archive, or one package of a dump.
type part struct {
	loc, lastMod string
	// The description of a package, and where a copy of its manifest is (rel=contents, core §11.1).
	mediaType, hash, length, contents string
	// The times in its description; zero for absent ones.
	from, until, at, completed time.Time
}

// listsDocuments reports whether the entries of such a document are packages or archived documents.
func listsDocuments(capability string) bool {
	return capability != payload.CapDescription && capability != payload.CapCapabilityList &&
		payload.ListsDocuments(capability, false)
}

func partOf(e *payload.Entry) part {
	p := part{
		loc: e.Loc, lastMod: e.LastMod, mediaType: e.Type, hash: e.Hash, length: e.Length,
		from: datetime(e.From), until: datetime(e.Until), at: datetime(e.At),
		completed: datetime(e.Completed),
	}
	p.contents = linkOf(e.Links, payload.RelContents)
	return p
}

// datetime reads a W3C Datetime. It returns the zero time for anything else.
func datetime(listed string) time.Time {
	at, _ := payload.ParseDatetime(listed)
	return at
}

// open reads a document and puts it down. since is from when on its entries are
// of interest, want the capability that it should have, and k what was read of it
// before, nil for nothing.
func (r *reading) open(ctx context.Context, at *url.URL, want string, since time.Time,
	k *known,
) (*document, error) {
	a, err := r.get(ctx, at, k)
	if err != nil {
		return nil, err
	}
	defer a.close()
	r.seen[at.String()], r.seen[a.uri.String()] = true, true
	if a.unchanged {
		return &document{uri: a.uri, header: a.header, unchanged: true}, nil
	}
	d := &document{uri: a.uri, header: a.header, spool: spool{dir: r.c.cfg.Dir}, ordered: true}
	if err := r.survey(d, a.body, want, since); err != nil {
		d.close()
		return nil, fmt.Errorf("reading %s: %w", a.uri, err)
	}
	return d, nil
}

// survey reads d to its end: its kind, its oddities, its datetimes.
func (r *reading) survey(d *document, body io.Reader, want string, since time.Time) error {
	d.lim = payload.Limits{
		Bytes:   r.c.cfg.Limits.Bytes,
		Entries: max(r.c.cfg.Limits.Entries, r.c.cfg.Limits.Parts),
	}
	xml := payload.NewReader(io.TeeReader(body, &d.spool), d.lim)
	head, err := xml.Header()
	if err != nil {
		return err
	}
	d.head, d.index = head, head.Root == payload.RootSitemapIndex
	d.table = d.index || listsDocuments(want)
	if err := d.is(want); err != nil {
		return err
	}
	limit := r.c.cfg.Limits.Entries
	if d.index {
		limit = r.c.cfg.Limits.Parts
	}
	odd := payload.NewInspector(want)
	odd.Head(head)
	for {
		e, err := xml.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if d.entries++; d.entries > limit {
			return fmt.Errorf("%w: more than %d", payload.ErrTooManyEntries, limit)
		}
		odd.Entry(&e)
		d.record(&e, since)
	}
	if d.head, err = xml.Header(); err != nil {
		return err
	}
	odd.End(d.head)
	if err := d.is(want); err != nil {
		return err
	}
	r.c.warn(d.uri, odd.Violations()...)
	if d.table {
		d.spool.close() // its parts are in memory
	}
	return nil
}

// record keeps what is needed of an entry before all are read.
func (d *document) record(e *payload.Entry, since time.Time) {
	if d.table {
		d.parts = append(d.parts, partOf(e))
		return
	}
	if d.first == "" {
		d.first = strings.Join([]string{
			e.Loc, string(e.Change), e.DatetimeTold, e.LastMod, e.Hash,
			e.Length,
		}, " ")
	}
	if e.Datetime.IsZero() {
		return
	}
	if e.Datetime.Before(d.newest) {
		d.ordered = false
	}
	if Latest(e).Before(since) {
		d.before = d.entries
	}
	if d.oldest.IsZero() || e.Datetime.Before(d.oldest) {
		d.oldest = e.Datetime
	}
	if e.Datetime.After(d.newest) {
		d.newest = e.Datetime
	}
}

// Latest is when a change can have been at the latest: a datetime without a time
// of day stands for the whole day, month or year.
func Latest(e *payload.Entry) time.Time {
	if e.DatetimeTold == "" || strings.Contains(e.DatetimeTold, "T") {
		return e.Datetime
	}
	var years, months, days int
	switch strings.Count(e.DatetimeTold, "-") {
	case 0:
		years = 1
	case 1:
		months = 1
	default:
		days = 1
	}
	return e.Datetime.AddDate(years, months, days).Add(-1)
}

// is refuses a document of another kind. One that does not say what it is, such as a plain
// sitemap, is taken for what it should be.
func (d *document) is(want string) error {
	switch got := d.head.Capability; {
	case got == want || got == "":
		return nil
	case want == payload.CapChangeList && got == payload.ChangeNotification:
		return nil // the latest one, as a topic serves it (CN §4.1)
	default:
		return fmt.Errorf("%w: it is a %q, not a %s", ErrAnswer, legible.Cut(got), want)
	}
}

// link returns where the document's first link of the relation leads, empty for none.
func (d *document) link(rel string) string { return linkOf(d.head.Links, rel) }

func linkOf(links []payload.Link, rel string) string {
	for _, l := range links {
		if l.Rel == rel && l.Href != "" {
			return l.Href
		}
	}
	return ""
}

// each visits the entries that have a loc, with their place; the first is 1.
func (d *document) each(ctx context.Context, visit func(n int, e payload.Entry) error) error {
	from, err := d.spool.reader()
	if err != nil {
		return err
	}
	xml := payload.NewReader(from, d.lim)
	for n := 1; ; n++ {
		e, err := xml.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading %s again: %w", d.uri, err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if e.Loc == "" {
			continue
		}
		if err := visit(n, e); err != nil {
			return err
		}
	}
}

// changes visits the entries that do not provably lie before since, in the order of
// their datetimes. One without a datetime stays behind the one before which it stands.
func (d *document) changes(ctx context.Context, since time.Time,
	visit func(payload.Entry) error,
) error {
	if !d.ordered {
		return d.sorted(ctx, since, visit)
	}
	return d.each(ctx, func(n int, e payload.Entry) error {
		if n <= d.before || before(&e, since) {
			return nil
		}
		return visit(e)
	})
}

func before(e *payload.Entry, since time.Time) bool {
	return !e.Datetime.IsZero() && Latest(e).Before(since)
}

// sorted is changes for a document whose entries are not in order. It is read several
// times, if need be: each time as many of its entries are held as heldBytes allows.
func (d *document) sorted(ctx context.Context, since time.Time,
	visit func(payload.Entry) error,
) error {
	order, err := d.inOrder(ctx, since)
	if err != nil {
		return err
	}
	for len(order) > 0 {
		now, size := 0, 0
		for now < len(order) && (now == 0 || size+order[now].size <= heldBytes) {
			size += order[now].size
			now++
		}
		position := make(map[int]int, now) // where each is to stand, by its number in the document
		for i, p := range order[:now] {
			position[p.n] = i
		}
		held := make([]payload.Entry, now)
		if err := d.each(ctx, func(n int, e payload.Entry) error {
			if i, ok := position[n]; ok {
				held[i] = e
			}
			return nil
		}); err != nil {
			return err
		}
		for _, e := range held {
			if err := visit(e); err != nil {
				return err
			}
		}
		order = order[now:]
	}
	return nil
}

// heldBytes bounds what sorted holds of a document, bytes, beyond one entry.
const heldBytes = 32 << 20

// indexed is an entry that is to be sorted.
type indexed struct {
	at      time.Time
	n, size int // its number in the document, and what it takes in memory
}

// inOrder returns which entries are visited, in the order of their datetimes.
func (d *document) inOrder(ctx context.Context, since time.Time) ([]indexed, error) {
	var all []indexed
	var last time.Time
	err := d.each(ctx, func(n int, e payload.Entry) error {
		if !e.Datetime.IsZero() {
			last = e.Datetime
		}
		if !before(&e, since) {
			all = append(all, indexed{last, n, held(&e)})
		}
		return nil
	})
	slices.SortStableFunc(all, func(a, b indexed) int { return a.at.Compare(b.at) })
	return all, err
}

// held is about what an entry takes in memory.
func held(e *payload.Entry) int {
	const entry, link = 400, 150 // of the structs
	n := entry + len(e.Loc) + len(e.LastMod) + len(e.Hash) + len(e.Length) + len(e.Type) + len(e.Encoding)
	for i := range e.Links {
		l := &e.Links[i]
		n += link + len(l.Rel) + len(l.Href) + len(l.Hash) + len(l.Type) + len(l.Path)
	}
	return n
}
