package lists

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"time"

	"carillon/internal/legible"
	"carillon/payload"
)

// Changes visits every change with a datetime of since or later that the Source announces at uri: a
// Change List, or an index of them (core §12), or the change memory of a hub. Where one list ends the
// next is looked for (core §12.1): in the index, else by the Capability List. Of an index only the
// lists are read that end at since or later.
//
// Entries come in the order of their datetimes, whatever order they stand in. Those that have no
// datetime come with a zero one, where they stand, unless a later entry shows that they lie before
// since. Nothing else of an entry is judged: change may be empty or anything, loc any text but an
// empty one. A zero since asks for every change.
//
// An entry for which visit returned nil counts as taken. If since shows that all of a list was taken,
// the list is requested again only conditionally (ETag, Last-Modified); see Forget. An error of visit
// ends the reading, and is returned.
//
// Where the lists begin later than the rest to be read, the Change List Archive is read for the part
// between, if a list links to one (rel=archives) or the Capability List names one.
//
// The error is ErrGone, as a *GoneError, where also the archive begins later than since, and where
// there is a hole behind since: a hole is never passed over. A *BusyError has the time to ask again.
// Covered is the visited part, also beside an error.
func (c *Client) Changes(ctx context.Context, uri string, since time.Time,
	visit func(payload.Entry) error,
) (Covered, error) {
	w, at, err := c.walk(uri, payload.CapChangeList, since)
	if err != nil {
		return Covered{}, err
	}
	w.visitAll = w.entriesTo(visit)
	if isChangeMemory(at) {
		err = w.changeMemory(ctx, at)
	} else {
		err = w.begin(ctx, at)
	}
	return w.covered(), err
}

// ChangeMemory is Changes for the change memory of a hub, wherever it is: it is asked page after page,
// each from where the one before ended. Changes recognizes one by its name, memory?topic=URI.
func (c *Client) ChangeMemory(ctx context.Context, uri string, since time.Time,
	visit func(payload.Entry) error,
) (Covered, error) {
	w, at, err := c.walk(uri, payload.CapChangeList, since)
	if err != nil {
		return Covered{}, err
	}
	w.visitAll = w.entriesTo(visit)
	err = w.changeMemory(ctx, at)
	return w.covered(), err
}

// walk is one reading of changes, from list to list: of Change Lists, or of Change Dumps.
type walk struct {
	*reading
	want string // the capability of the lists
	// visitAll visits what a list has from end on.
	visitAll func(context.Context, *list) error
	since    time.Time

	// end is how far what was read is complete; at first it is since.
	end  time.Time
	from time.Time // where the first list begins, if since is zero
	open bool      // the last list that was read is
	// ahead: a list claims to cover what is still to come, and was not believed.
	ahead bool
	// ends are the ends of the closed lists that were read, by their addresses.
	ends map[string]time.Time
	// The visited entries, the lists that were read, and how many of them were as before.
	entries, lists, same int
	archives
}

// walk begins to read changes at an address.
func (c *Client) walk(uri, want string, since time.Time) (*walk, *url.URL, error) {
	r, at, err := c.begin(uri)
	if err != nil {
		return nil, nil, err
	}
	return &walk{reading: r, want: want, since: since, end: since, ends: map[string]time.Time{}},
		at, nil
}

func (w *walk) covered() Covered {
	from := w.since
	if from.IsZero() {
		from = w.from
	}
	return Covered{
		From: from, Until: w.end, Open: w.open, Entries: w.entries, Documents: w.documents,
		Unchanged: w.lists > 0 && w.same == w.lists,
	}
}

// list is a Change List and what is known of it, from itself or from an index.
type list struct {
	*document
	at *url.URL // as it was asked for
	// from and until are the covered interval; until is zero for an open list. from is zero where it is
	// unknown. closed: the list itself has until, not only its index. guessed: from is missing, and is
	// that of the first entry.
	from, until            time.Time
	closed, guessed        bool
	indexURI, up, archives string
}

// fetch reads the list, or index, at an address, with its description in an index.
func (w *walk) fetch(ctx context.Context, at *url.URL, listed part) (*list, error) {
	k := w.c.recall(at, w.end)
	d, err := w.reading.open(ctx, at, w.want, w.end, k)
	if err != nil {
		return nil, err
	}
	now := known{
		from: d.head.FromTime, until: d.head.UntilTime,
		index: d.link("index"), up: d.link("up"), archives: d.link(payload.RelArchives),
	}
	if d.unchanged {
		now = *k
	}
	l := &list{
		document: d, at: at, closed: !now.until.IsZero(), indexURI: now.index, up: now.up,
		archives: now.archives,
	}
	l.oldest, l.newest = l.extremes()
	w.learn(l)
	l.from = cmp.Or(now.from, listed.from)
	if l.guessed = l.from.IsZero() && !d.oldest.IsZero(); l.guessed {
		l.from = d.oldest
	}
	l.until = cmp.Or(now.until, listed.until)
	return l, nil
}

// joins reports whether the list begins no later than what was read ends: whether there is
// no hole before it.
func (w *walk) joins(l *list) bool {
	return (payload.Interval{Until: w.end}).Join(l.from, false) != payload.Gap
}

// read visits what the list has from end on, and moves end.
func (w *walk) read(ctx context.Context, l *list) error {
	if w.lists++; l.unchanged {
		w.same++
	} else if err := w.visitAll(ctx, l); err != nil {
		return err
	}
	if w.from.IsZero() {
		w.from = l.from
	}
	until := l.until
	if w.open = until.IsZero(); w.open {
		until = later(l.from, l.newest)
	}
	// The future is not known: a wrong datetime must not make everything up to then count as read.
	if now := l.served(); until.After(now.Add(maxSkew)) {
		until, w.ahead = now, true
		w.c.warn(l.uri, payload.Violation{
			Clause:  "core §7",
			Message: "a datetime lies in the future",
		})
	}
	w.end = later(w.end, until)
	if !w.open {
		w.ends[l.at.String()] = l.until
	}
	w.keep(l)
	return nil
}

// maxSkew is how far the clock that dates changes may be ahead of the server's.
const maxSkew = time.Minute

// maxAhead is how far the server's clock may be ahead of ours to be believed.
const maxAhead = 24 * time.Hour

// served is when the list was served, by the clock of its server if the answer has it: ours may be
// wrong, but not by days.
func (l *list) served() time.Time {
	now := time.Now()
	if at, err := http.ParseTime(l.header.Get("Date")); err == nil && at.Before(now.Add(maxAhead)) {
		return at
	}
	return now
}

// keep remembers a list of which everything was taken.
func (w *walk) keep(l *list) {
	if l.unchanged {
		return
	}
	k := known{end: w.end, from: l.from, index: l.indexURI, up: l.up, archives: l.archives}
	if l.closed {
		k.until = l.until
	}
	w.c.remember(l.at, l.header, k)
}

// nameKey is what WithNames keeps its function under.
type nameKey struct{}

// WithNames has Changes call begins before it visits the entries of each list, with a name that
// separates the list from others that are, or were, at its address. A Source may begin its list anew:
// an entry without a datetime is then another change, though it has the same content as one before.
func WithNames(ctx context.Context, begins func(list string)) context.Context {
	return context.WithValue(ctx, nameKey{}, begins)
}

// Begins calls the function of WithNames, if there is one.
func Begins(ctx context.Context, list string) {
	if begins, is := ctx.Value(nameKey{}).(func(string)); is {
		begins(list)
	}
}

// entriesTo returns how the entries of Change Lists are visited.
func (w *walk) entriesTo(visit func(payload.Entry) error) func(context.Context, *list) error {
	return func(ctx context.Context, l *list) error {
		Begins(ctx, l.name())
		return l.changes(ctx, w.end, func(e payload.Entry) error {
			if err := visit(e); err != nil {
				return err
			}
			w.entries++
			return nil
		})
	}
}

// begin reads the list or the index at which a reading begins, and goes on from it.
func (w *walk) begin(ctx context.Context, at *url.URL) error {
	l, err := w.fetch(ctx, at, part{})
	if err != nil {
		return err
	}
	defer l.close()
	if l.index {
		return w.index(ctx, l)
	}
	if !w.joins(l) {
		return w.before(ctx, l)
	}
	if !l.until.IsZero() && !w.end.IsZero() && l.until.Before(w.end) {
		w.keep(l) // it has nothing of interest
	} else if err := w.read(ctx, l); err != nil {
		return err
	}
	if l.until.IsZero() {
		return nil // core §12.1: an open list is asked again
	}
	return w.after(ctx, l)
}

// before looks for what lies before a list that begins too late.
func (w *walk) before(ctx context.Context, l *list) error {
	next, err := w.sibling(ctx, l)
	if err != nil && !final(err) {
		return err
	}
	if next != nil {
		defer next.close()
		if next.index {
			return w.index(ctx, next)
		}
		if w.joins(next) {
			if err := w.read(ctx, next); err != nil {
				return err
			}
		}
	}
	return w.follow(ctx, l)
}

// after looks for what comes after a closed list.
func (w *walk) after(ctx context.Context, l *list) error {
	next, err := w.sibling(ctx, l)
	if err != nil || next == nil {
		return orElse(err, nil)
	}
	defer next.close()
	if next.index {
		return w.index(ctx, next)
	}
	return w.follow(ctx, next)
}

// follow takes a list, and before it the archive's lists of the time before.
func (w *walk) follow(ctx context.Context, l *list) error {
	joined, err := w.bridge(ctx, l)
	switch {
	case err != nil:
		return err
	case !joined:
		return w.hole(l)
	}
	return w.read(ctx, l)
}

// orElse is what is returned where no other list was found: err if asking again may
// help, else other.
func orElse(err, other error) error {
	if err != nil && !final(err) {
		return err
	}
	return other
}

// sibling reads what leads on from a list (core §12.1): its index, or what its
// Capability List names; nil if that is the list itself.
func (w *walk) sibling(ctx context.Context, l *list) (*list, error) {
	ref, base := l.indexURI, l.uri
	if ref == "" && l.up != "" {
		up, err := w.lead(l.uri, l.up)
		if err != nil {
			return nil, w.logFinal(err)
		}
		set, err := w.capabilityList(ctx, up)
		if err != nil {
			return nil, w.logFinal(err)
		}
		ref, base = *set.offered(w.want), up
	}
	if ref == "" {
		return nil, nil
	}
	at, err := w.lead(base, ref)
	if err != nil {
		return nil, w.logFinal(err)
	}
	if w.seen[at.String()] {
		return nil, nil
	}
	next, err := w.fetch(ctx, at, part{})
	return next, w.logFinal(err)
}

// logFinal logs an error that will not pass, and returns it: the unread part may not matter.
func (w *walk) logFinal(err error) error {
	if err != nil && final(err) {
		w.c.cfg.Logger.Warn("what follows a Change List cannot be read", "reason", legible.Cut(err.Error()))
	}
	return err
}

// hole is returned where nothing covers what comes after end: nothing if something was
// read before it, so that it counts, and who asks again from there hears of the hole.
func (w *walk) hole(l *list) error {
	if w.end.After(w.since) && w.lists > 0 {
		return nil
	}
	gone := l.gone()
	if begins := w.begins; !begins.IsZero() && begins.Before(gone.Earliest) {
		gone.Earliest, gone.Guessed = begins, false
	}
	return gone
}

// gone is the error for who asks for what was before the list.
func (l *list) gone() *GoneError {
	return &GoneError{URI: l.uri.String(), Earliest: l.from, Guessed: l.guessed}
}
