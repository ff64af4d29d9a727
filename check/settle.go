package check

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"

	"carillon/payload"
)

// maxLooks is how many closed documents are looked at a second time.
const maxLooks = 20

// judge compares what this round has read: each lead with its target, intervals, sets. The
// findings are held back: see conclude.
func (w *walk) judge() {
	w.judging = true
	defer func() { w.judging = false }()
	w.held, w.pages = nil, nil
	for i := range w.arrivals {
		w.judgeArrival(&w.arrivals[i])
	}
	w.gather()
	for _, d := range w.documents {
		if !d.known {
			continue
		}
		w.about = func() []*document { return w.around(d) }
		if d.whole {
			w.judgeOrder(d)
		}
		if d.is(payload.CapResourceDump) || d.is(payload.CapChangeDump) {
			w.judgeFormats(d)
		}
		w.judgeOneEntry(d)
		w.judgeArchiveEnds(d)
		w.judgeListed(d)
	}
	w.judgeSets()
	w.judgePages()
	w.about = func() []*document { return w.documents }
	w.judgeDescriptions()
}

// judgeArrival judges what a lead says of its target.
func (w *walk) judgeArrival(a *arrival) {
	l, d := &a.lead, a.d
	w.about = func() []*document { return []*document{l.from, d} }
	if l.from != nil && !w.isThere(l, d) {
		w.breaks(l.set)
		return
	}
	if d.broken || d.known && l.set != "" && w.setAt(d.set) != w.setAt(l.set) {
		w.breaks(l.set) // what was read belongs to another set, or something is missing
	}
	if judge := w.roles[l.role].judge; judge != nil {
		judge(w, l, d)
	}
}

// judgeListed: a Capability List enumerates the documents that link up to it (core 9). Parts
// are listed by their index, archived documents by an archive, manifests by a dump.
func (w *walk) judgeListed(d *document) {
	switch d.head.Capability {
	case payload.CapDescription, payload.CapCapabilityList, payload.CapResourceDumpManifest,
		payload.CapChangeDumpManifest, "":
		return
	}
	up := d.link(payload.RelUp)
	if up == nil || d.local || d.link(payload.RelIndex) != nil || d.led(rolePart) ||
		d.led(roleArchived) || d.led(roleCapability) || d.isTopic() {
		return
	}
	to := d.resolve(up.Href)
	if to == nil {
		return
	}
	above := w.seen[to.String()]
	if above == nil || !above.is(payload.CapCapabilityList) || !above.whole || above.cut ||
		w.mayList(above, d) || w.isArchivedLink(d) || w.isListedElsewhere(above, d) {
		return
	}
	w.report(ruleListed, above.place(""), above, "add a url for it",
		"%s, a %s that links to it with rel=up, is not listed",
		quote(d.uri), kindOf(d.head.Capability, d.isIndex()))
}

// isArchivedLink reports whether the document is an archive that other documents lead to by
// rel=archives alone: an entry in the Capability List is optional then (archives 2.1).
func (w *walk) isArchivedLink(d *document) bool {
	_, is := payload.Archived(d.head.Capability)
	return is && d.led(roleArchives)
}

// isListedElsewhere reports whether a Capability List has the same document at another address:
// an index may have one of its own beside that of the capability.
func (w *walk) isListedElsewhere(list, d *document) bool {
	for at := range list.addresses() {
		other := w.seen[at]
		if other == nil || !other.known || other.head.Capability != d.head.Capability {
			continue
		}
		if other.sum == d.sum || d.isIndex() && other.isIndex() && sharePart(other, d) {
			return true
		}
	}
	return false
}

// sharePart reports whether two indexes list the same part.
func sharePart(a, b *document) bool {
	for at := range a.addresses() {
		if _, is := b.addresses()[at]; is {
			return true
		}
	}
	return false
}

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

// validator is what tells one version of a document from another.
func validator(h http.Header) string {
	if tag := h.Get("ETag"); tag != "" {
		return "ETag " + quote(tag)
	}
	if at := h.Get("Last-Modified"); at != "" {
		return "Last-Modified " + quote(at)
	}
	return ""
}
