package check

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"slices"

	"carillon/payload"
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

// conclude judges what was read, and reports what it has confirmed.
func (w *walk) conclude(ctx context.Context, places []string) {
	w.judge(ctx)
	found := map[string]bool{} // in the rounds before
	changed := w.changed(ctx, found)
	for n := 1; len(changed) > 0 && n < maxRounds; n++ {
		before := w.held
		w.forget(changed)
		w.walkFrom(ctx, places)
		w.judge(ctx)
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

// judge compares what this round has read.
func (w *walk) judge(ctx context.Context) {
	j := newJudge(evidence{w.reporter, w.round})
	j.run(ctx)
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
	w.samples.forget(changed)
	*w.round, w.cut = newRound(), false
}

// maxLooks is how many closed documents are looked at a second time.
const maxLooks = 20

// judgeClosed looks at closed documents a second time: they never change (core 7, 12.1).
func (w *walk) judgeClosed(ctx context.Context) {
	looks := 0
	for _, d := range w.documents {
		if !d.whole || d.local || d.base == nil || d.head.Until == "" ||
			d.is(payload.ChangeNotification) || looks == maxLooks {
			continue
		}
		tag := validator(d.header)
		if tag == "" {
			continue
		}
		looks++
		a, err := w.get(ctx, http.MethodHead, d.base, w.cfg.Limits.Answer)
		if err != nil {
			if w.limited(err, d.place(""), d.base) {
				return
			}
			continue
		}
		a.close()
		if now := validator(a.header); a.status == http.StatusOK && now != "" && now != tag &&
			w.isOther(ctx, d) {
			w.report(ruleClosedChanged, d.place(""), d,
				"write further changes into another document",
				"it is closed (until %s), and has changed while it was looked at: %s was %s",
				quote(d.head.Until), tag, now)
		}
	}
}

// isOther reads a document again, and reports whether it has become another, or is gone. It
// compares the bytes, as some servers give one document several ETags.
func (w *walk) isOther(ctx context.Context, d *document) bool {
	a, err := w.get(ctx, http.MethodGet, d.base, w.cfg.Limits.Answer)
	if err != nil {
		w.limited(err, d.place(""), d.base)
		return false
	}
	defer a.close()
	if a.status == http.StatusNotFound || a.status == http.StatusGone {
		return true
	}
	body, err := w.unpacked(a)
	if err != nil || a.status != http.StatusOK {
		return false
	}
	digest := sha256.New()
	if n, err := io.Copy(digest, io.LimitReader(body, payload.MaxReadBytes+1)); err != nil ||
		n > payload.MaxReadBytes {
		return false
	}
	return hex.EncodeToString(digest.Sum(nil)) != d.sum
}

// validator is the text by which versions of a document differ.
func validator(h http.Header) string {
	if tag := h.Get("ETag"); tag != "" {
		return "ETag " + quote(tag)
	}
	if at := h.Get("Last-Modified"); at != "" {
		return "Last-Modified " + quote(at)
	}
	return ""
}
