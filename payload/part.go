package payload

import (
	"time"
)

// Part is a document or a package that another document lists: a list of an index, a package of a
// dump, a document of an archive. An empty or zero field is left out.
type Part struct {
	Loc     string // URI of the document or package
	LastMod string // W3C Datetime
	// From and Until are those of a Change List or Change Dump; that of an open one has no
	// Until (core §12.2). At and Completed are those of a Resource List or Resource Dump.
	From, Until, At, Completed time.Time
	// Type and Length are recommended for a package (core §11.1, §13.1). They and Hash are
	// as in an Entry.
	Type, Length, Hash string
	// Links of a package may have rel=contents: a copy of its manifest.
	Links []Link
}

// AppendPart appends the sitemap element of p, a part of an index, and a line end. The
// error is a *FieldError, and dst is returned as it was.
func AppendPart(dst []byte, p *Part) ([]byte, error) {
	if countRel(p.Links, RelContents) > 0 {
		return dst, &FieldError{
			Field:  "ln",
			Reason: "must not have rel=contents: only packages have contents (core §11.1)",
		}
	}
	return p.append(dst, "sitemap")
}

// AppendListed appends the url element of p, a package of a dump or a document of an archive,
// and a line end. The error is a *FieldError, and dst is returned as it was.
func AppendListed(dst []byte, p *Part) ([]byte, error) {
	if countRel(p.Links, RelContents) > 1 {
		return dst, &FieldError{
			Field:  "ln",
			Reason: "must have rel=contents once at most, the manifest of the package (core §11.1)",
		}
	}
	return p.append(dst, "url")
}

func (p *Part) validate() error {
	for _, c := range [...]struct {
		field, value string
		required     bool
		rule         func(string) string
	}{
		{"loc", p.Loc, true, webURIRule},
		{"lastmod", p.LastMod, false, datetimeRule},
		{"hash", p.Hash, false, hashRule},
		{"length", p.Length, false, lengthRule},
		{"type", p.Type, false, mediaTypeRule},
	} {
		if reason := check(c.value, c.required, c.rule); reason != "" {
			return &FieldError{Field: c.field, Reason: reason}
		}
	}
	if err := p.times().validate(); err != nil {
		return err
	}
	return validateLinks(p.Links, ofDocument)
}

func (p *Part) append(dst []byte, name string) ([]byte, error) {
	if err := p.validate(); err != nil {
		return dst, err
	}
	el := p.times().entry()
	el.Loc, el.LastMod, el.Links = p.Loc, p.LastMod, p.Links
	el.Hash, el.Length, el.Type = p.Hash, p.Length, p.Type
	longer := new(pen).element(dst, name, &el, ofDocument)
	if len(longer)-len(dst) > MaxEntryBytes {
		return dst, errEntrySize()
	}
	return longer, nil
}

func (p *Part) times() spans { return spans{p.From, p.Until, p.At, p.Completed} }

// spans are the times that a document has as a whole: those of changes, or those of
// a snapshot (core §7, appendix A).
type spans struct{ from, until, at, completed time.Time }

// validate reports whether the times go together. It compares the written form, microseconds.
func (s spans) validate() error {
	changes, snapshot := !s.from.IsZero() || !s.until.IsZero(), !s.at.IsZero() ||
		!s.completed.IsZero()
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
		return &FieldError{
			Field: "at",
			Reason: "and completed are of snapshots, from and until of changes: " +
				"a document must not have both (core §7)",
		}
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

// entry returns an entry with the times, as they are written.
func (s spans) entry() Entry {
	return Entry{
		From: formatSet(s.from), Until: formatSet(s.until),
		At: formatSet(s.at), Completed: formatSet(s.completed),
	}
}

// formatSet is FormatDatetime, and empty for the zero time.
func formatSet(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return FormatDatetime(t)
}
