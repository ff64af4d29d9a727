package lists

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"time"

	"carillon/payload"
)

// index reads the lists of an index that end after what was read before (core §12.2).
// If the last was closed meanwhile, the index is read once more: there is a new one.
func (w *walk) index(ctx context.Context, ix *list) error {
	for {
		began := w.end
		stale, err := w.parts(ctx, ix)
		if err != nil || !stale || w.ahead || !w.end.After(began) {
			return err
		}
		again, err := w.fetch(ctx, ix.at, part{})
		if err != nil {
			return err
		}
		again.close()
		if !again.index {
			return nil
		}
		ix = again
	}
}

// parts reads the lists of an index once. stale: the last one was closed since the
// index was made.
func (w *walk) parts(ctx context.Context, ix *list) (stale bool, err error) {
	parts := chronological(ix.parts)
	if len(parts) == 0 {
		joined, err := w.bridge(ctx, ix)
		if err == nil && !joined {
			err = w.hole(ix)
		}
		return false, err
	}
	read := map[string]bool{}
	for i, p := range parts {
		if w.past(parts, i) {
			continue
		}
		at, err := w.partAt(ix.document, ix.at, p)
		if err != nil {
			return false, err
		}
		end, closed := w.ends[at.String()]
		if read[at.String()] || closed && !end.After(w.end) {
			continue
		}
		read[at.String()] = true
		last := i+1 == len(parts)
		if !last && p.until.IsZero() {
			p.until = parts[i+1].from // the order says so, if nothing else does
		}
		next, err := w.onePart(ctx, at, p, last)
		if err != nil || next == stop {
			return false, err
		}
		stale = last && parts[i].until.IsZero() && next == ended
	}
	return stale, nil
}

// progress says how the reading of an index goes on after a part.
type progress int

const (
	goOn  progress = iota
	ended          // the part is closed
	stop           // there is a hole before it
)

func (w *walk) onePart(ctx context.Context, at *url.URL, p part, last bool) (progress, error) {
	l, err := w.fetch(ctx, at, p)
	if err != nil {
		return stop, err
	}
	defer l.close()
	if l.index {
		return stop, fmt.Errorf("%w: %s is an index within an index", ErrLoop, l.uri)
	}
	switch joined, err := w.bridge(ctx, l); {
	case err != nil:
		return stop, err
	case !joined:
		return stop, w.hole(l)
	}
	if last && !l.closed {
		l.until = time.Time{} // the list itself knows better than its index
	}
	if err := w.read(ctx, l); err != nil {
		return stop, err
	}
	if l.until.IsZero() {
		return goOn, nil
	}
	return ended, nil
}

// past reports whether the part of an index ends before what is still to be read, as
// the index has it. One that ends exactly there may have a change of that moment (core §7:
// from and until are both of the interval).
func (w *walk) past(parts []part, i int) bool {
	until := parts[i].until
	if until.IsZero() && i+1 < len(parts) {
		until = parts[i+1].from
	}
	return !w.end.IsZero() && !until.IsZero() && until.Before(w.end)
}

// partAt returns the address of a part, which must not be the index itself.
func (r *reading) partAt(ix *document, asked *url.URL, p part) (*url.URL, error) {
	at, err := r.lead(ix.uri, p.loc)
	if err != nil {
		return nil, err
	}
	if s := at.String(); s == ix.uri.String() || s == asked.String() {
		return nil, fmt.Errorf("%w: the index %s points to itself", ErrLoop, ix.uri)
	}
	return at, nil
}

// chronological returns the parts that have a loc, in the order of their beginnings, where they have
// one; a part without it has that of the one before.
func chronological(parts []part) []part {
	type indexed struct {
		from time.Time
		part
	}
	var all []indexed
	var last time.Time
	for _, p := range parts {
		if p.loc == "" {
			continue
		}
		if !p.from.IsZero() {
			last = p.from
		}
		all = append(all, indexed{last, p})
	}
	slices.SortStableFunc(all, func(a, b indexed) int { return a.from.Compare(b.from) })
	ordered := make([]part, len(all))
	for i, p := range all {
		ordered[i] = p.part
	}
	return ordered
}

// isChangeMemory recognizes the change memory of a hub by its name.
func isChangeMemory(u *url.URL) bool { return path.Base(u.Path) == "memory" && u.Query().Has("topic") }

// changeMemory reads the change memory of a hub, which gives so much at a time and says how far
// that goes.
func (w *walk) changeMemory(ctx context.Context, at *url.URL) error {
	for {
		asked := *at
		if !w.end.IsZero() {
			q := at.Query()
			q.Set("from", payload.FormatDatetime(w.end))
			asked.RawQuery = q.Encode()
		}
		before := w.end
		on, err := w.page(ctx, &asked)
		if errors.Is(err, ErrGone) && w.lists > 0 {
			return nil // up to there; the next reading from there returns the hole
		}
		if err != nil || !on || w.ahead || !w.end.After(before) {
			return err
		}
	}
}

// page reads one answer of a memory. on: there may be more.
func (w *walk) page(ctx context.Context, at *url.URL) (on bool, err error) {
	l, err := w.fetch(ctx, at, part{})
	if err != nil {
		return false, err
	}
	defer l.close()
	if l.index {
		return false, fmt.Errorf("%w: %s is an index, not the change memory of a hub", ErrAnswer,
			l.uri)
	}
	if !w.joins(l) {
		return false, w.hole(l)
	}
	if err := w.read(ctx, l); err != nil {
		return false, err
	}
	return !l.until.IsZero(), nil
}
