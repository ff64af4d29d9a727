package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"carillon/destination/lists"
	"carillon/internal/legible"
	"carillon/payload"
)

// maxStates is how many states of a Source before a moment are tried, the newest first: a document
// may be broken, or of another moment than its archive says.
const maxStates = 4

// BaselineAt brings the copies to what a Source had at a moment: the newest listed or archived
// state before it, and the changes up to it, archived ones among them (archives §2). It records
// that the copies are kept at the moment, so that Baseline and Take refuse to move on: see LetGo.
//
// Content comes from the packages of dumps, where Config.Dump says so, else from the resources
// themselves. It is used only if it has a hash that the Source gave for that moment. A resource
// without such content is recorded as Failed, and a copy of another moment stays in its place.
//
// With ErrReach nothing was changed. ErrNotWhole and ErrTooMany mean the same as of Baseline.
func (m *Mirror) BaselineAt(
	ctx context.Context, from Past, set lists.Set, at time.Time,
) (Seen, error) {
	seen, err := m.expectAt(ctx, from, set, at)
	if err != nil {
		return Seen{}, err
	}
	held, err := m.holdBack(ctx, &seen, true)
	if err == nil {
		err = m.keepAt(ctx, at)
	}
	m.counts.total.Add(int64(seen.Entries))
	done := new(seenLocs)
	if err == nil && m.dumps() {
		done, err = m.storeDumped(ctx, from, set, &seen)
	}
	if err == nil {
		err = m.bring(ctx, &seen, held, done.settled)
	}
	if err != nil {
		return Seen{}, err
	}
	return seen, held
}

// expectAt puts what the Source had at a moment into the Ledger.
func (src *source) expectAt(
	ctx context.Context, from Past, set lists.Set, at time.Time,
) (Seen, error) {
	if src.cfg.Ledger == nil {
		return Seen{}, errors.New("there is no ledger")
	}
	if ahead(at) || at.After(time.Now()) {
		return Seen{}, fmt.Errorf("%w: %s lies in the future", ErrReach, payload.FormatDatetime(at))
	}
	all, err := src.statesBefore(ctx, from, set, at)
	if err != nil {
		return Seen{}, err
	}
	var why error
	for _, s := range all.newest {
		seen, err := src.expectFrom(ctx, from, set, s, at)
		if err == nil || !passesOver(err) {
			return seen, err
		}
		src.cfg.Logger.Warn("a state of the Source does not lead to the moment that is asked for",
			"uri", legible.Cut(s.uri), "at", s.at, "moment", at, "reason", legible.Cut(err.Error()))
		why = cmp.Or(why, err)
	}
	if why != nil {
		return Seen{}, why
	}
	return Seen{}, all.tooEarly(at)
}

// states are those that a Source lists.
type states struct {
	newest   []state // before a moment: lists first, then dumps, the newest first of each
	earliest time.Time
	known    bool // there is a state at all
}

// statesBefore returns the states of a Source at or before a moment.
func (src *source) statesBefore(
	ctx context.Context, from Past, set lists.Set, moment time.Time,
) (states, error) {
	var all states
	collect := func(newest *[]state, dump bool) func(uri string, at, completed time.Time) {
		return func(uri string, at, completed time.Time) {
			all.known = true
			if at.IsZero() {
				return
			}
			if all.earliest.IsZero() || at.Before(all.earliest) {
				all.earliest = at
			}
			// A list may have what changed until it was completed (core §10.1).
			if at.After(moment) || completed.After(moment) {
				return
			}
			*newest = append(*newest, state{uri, at, dump})
			slices.SortStableFunc(*newest, func(a, b state) int { return b.at.Compare(a.at) })
			*newest = (*newest)[:min(len(*newest), maxStates)]
		}
	}
	var dumps []state
	err := eachState(ctx, from, set.ResourceList, set.ResourceListArchive,
		payload.CapResourceListArchive, collect(&all.newest, false))
	if err == nil && src.dumps() {
		err = eachState(ctx, from, set.ResourceDump, set.ResourceDumpArchive,
			payload.CapResourceDumpArchive, collect(&dumps, true))
		if len(all.newest) > 0 && passesOver(err) {
			err = nil // it is reported where dumps are used for content
		}
	}
	// A list is read sooner than the manifests in the packages of a dump.
	all.newest = append(all.newest, dumps...)
	return all, err
}

// tooEarly is why there is no state before a moment.
func (s *states) tooEarly(moment time.Time) error {
	switch {
	case !s.known:
		return fmt.Errorf("%w: a Resource List or Resource Dump, or an archive of them", lists.ErrNone)
	case s.earliest.IsZero():
		return fmt.Errorf("%w: none of its Resource Lists and Resource Dumps has its moment: "+
			"it is (core §10.1: at)", ErrReach)
	}
	return fmt.Errorf("%w, %s: the earliest state that it lists or has archived is of %s; "+
		"give that moment or a later one",
		ErrReach, payload.FormatDatetime(moment), payload.FormatDatetime(s.earliest))
}

// expectFrom puts a state into the Ledger, and what changed from then up to a moment.
func (src *source) expectFrom(
	ctx context.Context, from Past, set lists.Set, s state, moment time.Time,
) (Seen, error) {
	if err := src.cfg.Ledger.Clear(ctx); err != nil {
		return Seen{}, err
	}
	forget(from)
	n := recorder{ctx: ctx, m: src}
	var snapshot lists.Snapshot
	var err error
	if s.dump {
		snapshot, err = n.recordDump(from, s.uri)
		err = ofPast(err)
	} else {
		snapshot, err = from.Resources(ctx, s.uri, n.resource)
	}
	if err = errors.Join(err, n.flush()); err != nil {
		return Seen{}, err
	}
	s.at = cmp.Or(snapshot.At, s.at)
	if s.at.After(moment) || snapshot.Completed.After(moment) {
		return Seen{}, fmt.Errorf("%w: %s is of a later moment than its archive says, %s",
			ErrReach, s.uri, payload.FormatDatetime(later(s.at, snapshot.Completed)))
	}
	seen := Seen{
		At: s.at, Position: moment,
		Entries: n.count, Unnamed: snapshot.Unnamed, Overlong: n.overlong,
	}
	c := changesUntil{recorder: recorder{ctx: ctx, m: src}, moment: moment}
	if err := c.read(from, set, s.at); err != nil {
		return Seen{}, err
	}
	seen.Changes, seen.Overlong = c.count, seen.Overlong+c.overlong
	return seen, nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
