package check

import (
	"context"
	"net/url"
	"slices"
)

// A Source may make its documents anew while they are read, so that two of them do not belong
// together. A finding that compares documents is therefore confirmed before it is reported:
//
//	read ─▶ judge ─▶ read again what the findings compare ─▶ unchanged: report
//	 ▲                                │
//	 └── what has changed, alone ─────┘
//
// A finding that two rounds have is reported too, and one that a limit keeps from being confirmed.
// What still changes after maxRounds is a note. Where a limit ends a round, the findings of the
// round before count.

// maxRounds is how many times documents that have changed are read again, and judged.
const maxRounds = 4

// maxReread is how many documents a round reads again to confirm findings.
const maxReread = 100

// round is what one walk from the places has shown.
type round struct {
	seen        map[string]*document // by address, before and after redirects
	documents   []*document          // in the order in which they were read
	arrivals    []arrival
	broken      map[string]bool // see breaks
	undescribed []*url.URL      // sites without a Source Description

	sets       map[string]*set // see setAt
	pages      []page          // that link to a Capability List
	judging    bool            // findings are held back
	about      func() []*document
	held       []held
	heldCounts map[countKey]int
}

func newRound() round {
	return round{
		seen: map[string]*document{}, broken: map[string]bool{}, sets: map[string]*set{},
		heldCounts: map[countKey]int{},
	}
}

// arrival is a lead and its target.
type arrival struct {
	lead
	d *document
}

// held is a finding that compares documents. about returns them.
type held struct {
	Finding
	about func() []*document
}

// walkFrom reads all that follows from the places, and returns which of them could not be read.
func (w *walk) walkFrom(ctx context.Context, places []string) (failed []error) {
	for _, place := range places {
		if err := w.start(ctx, place); err != nil {
			w.sum.Complete = false
			failed = append(failed, err)
		}
	}
	return failed
}

// conclude judges what was read, and reports what it has confirmed.
func (w *walk) conclude(ctx context.Context, places []string) {
	w.judge()
	found := map[string]bool{} // in the rounds before
	changed := w.changed(ctx, found)
	for n := 1; len(changed) > 0 && n < maxRounds; n++ {
		before := w.held
		w.forget(changed)
		w.walkFrom(ctx, places)
		w.judge()
		if w.cut { // the round before has seen more
			w.held = before
			break
		}
		for i := range before {
			found[before[i].String()] = true
		}
		changed = w.changed(ctx, found)
	}
	for i := range w.held {
		h := &w.held[i]
		if !found[h.String()] &&
			slices.ContainsFunc(h.about(), func(d *document) bool { return changed[d] }) {
			w.leftOut("anew", place{uri: h.URI},
				"not everything was compared: the documents are made anew faster than they are read",
				"check again when the Source is less busy")
			continue
		}
		w.tell(h.Finding)
	}
}

// changed reads again the documents that new findings compare, and returns those that are not
// as they were.
func (w *walk) changed(ctx context.Context, found map[string]bool) map[*document]bool {
	changed, looked := map[*document]bool{}, map[*document]bool{}
	for i := range w.held {
		if found[w.held[i].String()] {
			continue
		}
		for _, d := range w.held[i].about() {
			if d == nil || !d.whole || d.local || looked[d] || len(looked) == maxReread {
				continue
			}
			looked[d] = true
			if w.isOther(ctx, d) {
				changed[d] = true
			}
		}
	}
	return changed
}

// forget begins another round. It reads again what has changed, what was no document, and
// packages of which a dump now says something else.
func (w *walk) forget(changed map[*document]bool) {
	w.former = map[string]*document{}
	for at, d := range w.seen {
		if !changed[d] && (d.known || d.pack != nil) {
			w.former[at] = d
		}
	}
	for d := range changed {
		w.kept, w.compared = w.kept-d.kept, w.compared-d.compared
	}
	for _, r := range []*reservoir[sampled]{&w.sample, &w.changes} {
		r.kept = slices.DeleteFunc(r.kept, func(s sampled) bool { return changed[s.d] })
	}
	w.round, w.cut = newRound(), false
}

// serves reports whether a document of the round before can be used again for a lead.
func (d *document) serves(l *lead) bool {
	return d != nil && (d.pack == nil || d.pack.told == l.claim())
}

// reuse takes a document of the round before into this one.
func (w *walk) reuse(d *document, l *lead) {
	w.seen[l.to.String()] = d
	if slices.Contains(w.documents, d) {
		return // another address of it
	}
	w.seen[d.base.String()] = d
	w.restore(d, l)
	if d.pack != nil && d.pack.manifest != nil {
		w.restore(d.pack.manifest, l)
	}
}

// restore follows a document of the round before as if it had been read now.
func (w *walk) restore(d *document, l *lead) {
	w.documents = append(w.documents, d)
	d.roles, d.channelOf = 0, nil
	if d.known {
		d.set = setOf(d, l)
	}
	w.expand(d, l)
}

// around returns a document and those that it is compared with.
func (w *walk) around(d *document) []*document {
	all := []*document{d}
	for i := range d.head.Links {
		if to := d.resolve(d.head.Links[i].Href); to != nil {
			all = append(all, w.seen[to.String()])
		}
	}
	for at := range d.addresses() {
		all = append(all, w.seen[at])
	}
	return all
}

// isSampled reports whether the document of a sample is one of the last round.
func (w *walk) isSampled(s *sampled) bool { return slices.Contains(w.documents, s.d) }
