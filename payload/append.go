package payload

import (
	"errors"
	"fmt"
	"time"
)

// The namespaces of ResourceSync documents (CN §1.2).
const (
	spaceSitemap = "http://www.sitemaps.org/schemas/sitemap/0.9"
	spaceRS      = "http://www.openarchives.org/rs/terms/"
)

const (
	documentHead = prolog + "<urlset" + namespaces
	documentTail = "</urlset>\n"
	indexHead    = prolog + "<sitemapindex" + namespaces
	indexTail    = "</sitemapindex>\n"

	prolog     = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"
	namespaces = ` xmlns="` + spaceSitemap + `" xmlns:rs="` + spaceRS + `">` + "\n"
)

// ErrInterval: an interval does not go from an earlier to a later time.
var ErrInterval = errors.New("the interval must go from an earlier to a later time between the years 0 and 9999")

// AppendEntry appends the url element of e, a change, which must be Valid and have a Datetime, and a
// line end. LastMod and the other fields are written unchanged; NormalizeDatetime brings a time to
// UTC. The error is a *FieldError, and dst is returned as it was.
func AppendEntry(dst []byte, e *Entry) ([]byte, error) { return e.append(dst, ofChange) }

// AppendResource appends the url element of a resource of a Resource List (core
// §10.1), and a line end. Its Change and Path must be empty, and its Datetime is left out: Change
// and Datetime are of changes. The error is a *FieldError, and dst is returned as it was.
func AppendResource(dst []byte, e *Entry) ([]byte, error) {
	if e.Change != "" {
		return dst, &FieldError{
			Field:  "change",
			Reason: "must be empty: a Resource List has no changes (core §10.1)",
		}
	}
	return e.append(dst, ofResource)
}

// AppendBitstream appends the url element of a bitstream of a dump manifest, and a line end.
// Path says where the package holds it.
//
// With a Change it is of a Change Dump Manifest (core §13.2): Datetime is required, and a
// deleted resource has no Path. Without one it is of a Resource Dump Manifest (core §11.2):
// Datetime is left out. The error is a *FieldError, and dst is returned as it was.
func AppendBitstream(dst []byte, e *Entry) ([]byte, error) {
	if e.Change == "" {
		return e.append(dst, ofPackagedResource)
	}
	return e.append(dst, ofPackagedChange)
}

// append validates e and appends it. Most entries are valid and show it at once: those take one
// pass. The rules judge the others by themselves, and name the field.
func (e *Entry) append(dst []byte, p place) ([]byte, error) {
	if e.isPlain(p) {
		w := pen{checks: true}
		longer := w.element(dst, "url", e, p)
		if !w.broken && len(longer)-len(dst) <= MaxEntryBytes {
			return longer, nil
		}
	}
	if err := e.validate(p); err != nil {
		return dst, err
	}
	if p.tellsChanges() {
		if err := e.validateDatetime(); err != nil {
			return dst, err
		}
	}
	return new(pen).element(dst, "url", e, p), nil
}

// isPlain reports whether the rules for single values alone decide whether e is valid.
func (e *Entry) isPlain(p place) bool {
	switch {
	case p.packaged() || e.Path != "" || e.Loc == "" || len(e.Links) > MaxLinks:
		return false
	case p == ofResource:
		return true
	}
	return (e.Change == Created || e.Change == Updated || e.Change == Deleted) &&
		!e.Datetime.IsZero() && writable(e.Datetime)
}

// validateDatetime asks for a Datetime that can be written.
func (e *Entry) validateDatetime() error {
	switch {
	case e.Datetime.IsZero():
		return &FieldError{Field: "datetime", Reason: "is missing"}
	case !writable(e.Datetime):
		return &FieldError{Field: "datetime", Reason: "must be between the years 0 and 9999"}
	}
	return nil
}

// writable reports whether four digits can tell the year of t.
func writable(t time.Time) bool {
	const year0, year10000 = -62167219200, 253402300800 // in seconds of Unix
	seconds := t.Unix()
	return year0 <= seconds && seconds < year10000
}

// AppendNotificationHead appends everything of a change notification that stands
// before its entries. up is the URI of the Capability List, empty for none (CN
// §3). The error is ErrInterval or a *FieldError for "up", and dst is returned
// as it was.
func AppendNotificationHead(dst []byte, iv Interval, up string) ([]byte, error) {
	from, until := iv.From.Truncate(time.Microsecond), iv.Until.Truncate(time.Microsecond)
	if from.IsZero() || !from.Before(until) || !writable(from) || !writable(until) {
		return dst, fmt.Errorf("%w: from %v until %v", ErrInterval, iv.From, iv.Until)
	}
	if reason := check(up, false, webURIRule); reason != "" {
		return dst, &FieldError{Field: "up", Reason: reason}
	}
	var links []Link
	if up != "" {
		links = []Link{{Rel: RelUp, Href: up}}
	}
	times := spans{from: from, until: until}
	return appendHead(dst, documentHead, links, ChangeNotification, times), nil
}

// appendHead appends everything of a document that stands before its entries.
func appendHead(dst []byte, open string, links []Link, capability string, times spans) []byte {
	var w pen
	md := times.entry()
	md.Capability = capability
	return w.md(w.links(append(dst, open...), links, ofDocument), &md, ofDocument)
}

// AppendNotificationTail appends everything of a change notification that stands
// after its entries.
func AppendNotificationTail(dst []byte) []byte { return append(dst, documentTail...) }

// NotificationOverhead returns how many bytes a change notification has besides
// its entries: a batch of entries fits if their sizes and this are not over
// MaxBytes. It is 0 where AppendNotificationHead would fail.
func NotificationOverhead(iv Interval, up string) int {
	head, err := AppendNotificationHead(nil, iv, up)
	if err != nil {
		return 0
	}
	return len(head) + len(documentTail)
}
