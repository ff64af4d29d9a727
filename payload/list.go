package payload

import (
	"fmt"
	"time"
)

// Capabilities, as documents name their own and those that they list (core §7).
// That of a channel is ChangeNotification.
const (
	CapChangeList     = "changelist"
	CapResourceList   = "resourcelist"
	CapCapabilityList = "capabilitylist"
	CapDescription    = "description"
)

// Head is what a list, or an index of lists, says of itself. Times that are zero
// are left out; the others are written in UTC with microseconds.
type Head struct {
	// Index tells an index, whose entries are Parts (core §10.2, §12.2), from a list.
	Index bool
	// Capability is CapChangeList or CapResourceList, also of an index.
	Capability string
	// From and Until are what a Change List covers; without Until it is open. If
	// they are equal it covers nothing, and has no entries.
	From, Until time.Time
	// At and Completed are when the snapshot of a Resource List began and ended.
	At, Completed time.Time
	// Links must have rel=up, the Capability List; a list of an index has rel=index.
	Links []Link
	// Orphan lets rel=up be missing: for who serves the changes of a Source that
	// has not told of its Capability List.
	Orphan bool
}

// AppendHead appends everything of a list or an index that stands before its
// entries. The error is a *FieldError ("from", "ln", "ln[0].href"), and dst is
// returned as it was.
func AppendHead(dst []byte, h Head) ([]byte, error) {
	if err := h.validate(); err != nil {
		return dst, err
	}
	if h.Index {
		dst = append(dst, indexHead...)
	} else {
		dst = append(dst, documentHead...)
	}
	for i := range h.Links {
		dst = appendLink(dst, &h.Links[i])
	}
	dst = append(dst, "<rs:md"...)
	dst = appendAttr(dst, ` capability="`, h.Capability)
	dst = h.times().append(dst)
	return append(dst, "/>\n"...), nil
}

// AppendTail appends everything of a list, or an index, that stands after its entries.
func AppendTail(dst []byte, index bool) []byte {
	if index {
		return append(dst, indexTail...)
	}
	return append(dst, documentTail...)
}

// AppendResource appends the url element of a resource of a Resource List (core
// §10.1), and a line end. Its Change must be empty, and its Datetime is left out: both are
// of changes. The error is a *FieldError, and dst is returned as it was.
func AppendResource(dst []byte, e *Entry) ([]byte, error) {
	if e.Change != "" {
		return dst, &FieldError{Field: "change", Reason: "must be empty: a Resource List has no changes (core §10.1)"}
	}
	if err := e.validate(false); err != nil {
		return dst, err
	}
	dst = appendNames(append(dst, "<url>\n"...), e.Loc, e.LastMod)
	if e.Hash != "" || e.Length != "" || e.Type != "" || e.Encoding != "" {
		dst = append(e.appendContent(append(dst, "<rs:md"...)), "/>\n"...)
	}
	for i := range e.Links {
		dst = appendLink(dst, &e.Links[i])
	}
	return append(dst, "</url>\n"...), nil
}

// Part is one list of an index: a sitemap element. What is empty or zero is left out.
type Part struct {
	Loc     string // URI of the list
	LastMod string // W3C Datetime
	// From and Until are those of a Change List; that of an open one has no Until
	// (core §12.2). At and Completed are those of a Resource List.
	From, Until, At, Completed time.Time
}

// AppendPart appends the sitemap element of p and a line end. The error is a
// *FieldError, and dst is returned as it was.
func AppendPart(dst []byte, p *Part) ([]byte, error) {
	if reason := check(p.Loc, true, webURIRule); reason != "" {
		return dst, &FieldError{Field: "loc", Reason: reason}
	}
	if reason := check(p.LastMod, false, datetimeRule); reason != "" {
		return dst, &FieldError{Field: "lastmod", Reason: reason}
	}
	times := spans{p.From, p.Until, p.At, p.Completed}
	if err := times.validate(); err != nil {
		return dst, err
	}
	dst = appendNames(append(dst, "<sitemap>\n"...), p.Loc, p.LastMod)
	if times != (spans{}) {
		dst = append(times.append(append(dst, "<rs:md"...)), "/>\n"...)
	}
	return append(dst, "</sitemap>\n"...), nil
}

func (h *Head) validate() error {
	switch h.Capability {
	case CapChangeList:
		if h.From.IsZero() {
			return &FieldError{Field: "from", Reason: "is missing; a Change List must have it (core §12.1)"}
		}
	case CapResourceList:
		if h.At.IsZero() {
			return &FieldError{Field: "at", Reason: "is missing; a Resource List must have it (core §10.1)"}
		}
	default:
		return &FieldError{Field: "capability", Reason: "must be " + CapChangeList + " or " + CapResourceList}
	}
	if err := h.times().validate(); err != nil {
		return err
	}
	return h.validateLinks()
}

// validateLinks demands rel=up once, and lets rel=index stand once in a list.
func (h *Head) validateLinks() error {
	if len(h.Links) > MaxLinks {
		return &FieldError{Field: "ln", Reason: fmt.Sprintf("must have at most %d links", MaxLinks)}
	}
	size, ups, indexes := 0, 0, 0
	for i := range h.Links {
		l := &h.Links[i]
		if err := l.validate(); err != nil {
			err.Field = fmt.Sprintf("ln[%d].%s", i, err.Field)
			return err
		}
		size += l.size()
		switch l.Rel {
		case "up":
			ups++
		case "index":
			indexes++
		}
	}
	switch {
	case ups > 1 || ups == 0 && !h.Orphan:
		return &FieldError{Field: "ln", Reason: "must have rel=up once, the Capability List (core §10, §12)"}
	case indexes > 1 || indexes > 0 && h.Index:
		return &FieldError{Field: "ln", Reason: "must have rel=index once at most, and in an index not at all"}
	case size > MaxEntryBytes:
		return &FieldError{Field: "ln", Reason: fmt.Sprintf("makes the head larger than %d bytes", MaxEntryBytes)}
	}
	return nil
}

func (h *Head) times() spans { return spans{h.From, h.Until, h.At, h.Completed} }

// spans are the times that a document has as a whole: those of changes, or those of
// a snapshot (core §7, appendix A).
type spans struct{ from, until, at, completed time.Time }

// validate tells whether the times go together. What is compared is what is
// written, microseconds.
func (s spans) validate() error {
	changes, snapshot := !s.from.IsZero() || !s.until.IsZero(), !s.at.IsZero() || !s.completed.IsZero()
	for _, t := range [...]struct {
		field string
		time.Time
	}{{"from", s.from}, {"until", s.until}, {"at", s.at}, {"completed", s.completed}} {
		if !writable(t.Time) {
			return &FieldError{Field: t.field, Reason: "must be between the years 0 and 9999"}
		}
	}
	switch {
	case changes && snapshot:
		return &FieldError{Field: "at", Reason: "and completed are of Resource Lists, from and until of Change Lists: " +
			"they must not stand together (core §7)"}
	case s.from.IsZero() && !s.until.IsZero():
		return &FieldError{Field: "from", Reason: "is missing beside until"}
	case s.at.IsZero() && !s.completed.IsZero():
		return &FieldError{Field: "at", Reason: "is missing beside completed"}
	case !s.until.IsZero() && s.until.UnixMicro() < s.from.UnixMicro():
		return &FieldError{Field: "until", Reason: "must not be before from"}
	case !s.completed.IsZero() && s.completed.UnixMicro() < s.at.UnixMicro():
		return &FieldError{Field: "completed", Reason: "must not be before at"}
	}
	return nil
}

func (s spans) append(dst []byte) []byte {
	dst = appendTime(dst, ` from="`, s.from)
	dst = appendTime(dst, ` until="`, s.until)
	dst = appendTime(dst, ` at="`, s.at)
	return appendTime(dst, ` completed="`, s.completed)
}
