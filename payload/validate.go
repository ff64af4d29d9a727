package payload

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// MaxFieldChars is how many characters a field of an entry or a link may
	// have. For loc it is the rule of sitemaps.org, "less than 2,048
	// characters"; for the others it only keeps one entry from filling a
	// document.
	MaxFieldChars = 2047
	// MaxEntryBytes is how large one entry may be, written or read. It stops an
	// entry with endless links from filling a document alone.
	MaxEntryBytes = 1 << 20
	// MaxLinks is how many links one entry, or a document's head, may have. A
	// link costs memory even where it says nothing.
	MaxLinks = 4096
)

// FieldError says which field of an entry breaks which rule.
type FieldError struct {
	// Field is the field's name in an event: loc, change, ln[2].href (the
	// first link is ln[0]).
	Field string
	// Reason goes on from the name: "is missing", "must be …".
	Reason string
}

// Error is the field and the reason, as one clause.
func (e *FieldError) Error() string { return e.Field + " " + e.Reason }

// Validate tells whether a change notification can carry the entry as it is:
// whether each field is what its clause says, and can be told in XML 1.0
// without loss. The error is a *FieldError for the first field that is not.
// Datetime is not looked at: AppendEntry demands it.
func (e *Entry) Validate() error { return e.validate(true) }

// validate is Validate; a resource of a Resource List has no change.
func (e *Entry) validate(change bool) error {
	for _, c := range [...]struct {
		field, value string
		required     bool
		rule         func(string) string
	}{
		{"loc", e.Loc, true, webURIRule},
		{"change", string(e.Change), change, changeRule},
		{"lastmod", e.LastMod, false, datetimeRule},
		{"hash", e.Hash, false, hashRule},
		{"length", e.Length, false, lengthRule},
		{"type", e.Type, false, mediaTypeRule},
		{"encoding", e.Encoding, false, encodingRule},
	} {
		if reason := check(c.value, c.required, c.rule); reason != "" {
			return &FieldError{Field: c.field, Reason: reason}
		}
	}
	if len(e.Links) > MaxLinks {
		return &FieldError{Field: "ln", Reason: fmt.Sprintf("must have at most %d links", MaxLinks)}
	}
	for i := range e.Links {
		if err := e.Links[i].validate(); err != nil {
			err.Field = fmt.Sprintf("ln[%d].%s", i, err.Field)
			return err
		}
	}
	if e.size() > MaxEntryBytes && len(e.append(nil)) > MaxEntryBytes {
		return &FieldError{Field: "ln", Reason: fmt.Sprintf("makes the entry larger than %d bytes", MaxEntryBytes)}
	}
	return nil
}

// validate judges a link by core §7. It returns a concrete type so that the
// caller can say which link it is.
func (l *Link) validate() *FieldError {
	for _, c := range [...]struct {
		field, value string
		required     bool
		rule         func(string) string
	}{
		{"rel", l.Rel, true, relRule},
		{"href", l.Href, true, uriRule},
		{"hash", l.Hash, false, hashRule},
		{"length", l.Length, false, lengthRule},
		{"type", l.Type, false, mediaTypeRule},
		{"encoding", l.Encoding, false, encodingRule},
		{"modified", l.Modified, false, datetimeRule},
		{"path", l.Path, false, pathRule},
		{"pri", l.Pri, false, priRule},
	} {
		if reason := check(c.value, c.required, c.rule); reason != "" {
			return &FieldError{Field: c.field, Reason: reason}
		}
	}
	return nil
}

// check applies what holds for every field, and then the field's own rule.
func check(value string, required bool, rule func(string) string) string {
	if value == "" {
		if required {
			return "is missing"
		}
		return ""
	}
	if len(value) > MaxFieldChars && utf8.RuneCountInString(value) > MaxFieldChars {
		return fmt.Sprintf("must have at most %d characters", MaxFieldChars)
	}
	if reason := charsRule(value); reason != "" {
		return reason
	}
	return rule(value)
}

// charsRule refuses what XML 1.0 §2.2 cannot carry.
func charsRule(s string) string {
	for i := 0; i < len(s); {
		if c := s[i]; 0x20 <= c && c < utf8.RuneSelf {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			return "must be valid UTF-8"
		}
		if !IsXMLChar(r) {
			return fmt.Sprintf("has the character U+%04X, which XML 1.0 cannot carry", r)
		}
		i += n
	}
	return ""
}

// size is an upper bound of the written length, cheap to compute: no character
// takes more than maxEscape bytes for each of its own.
func (e *Entry) size() int {
	n := len(e.Loc) + len(e.LastMod) + len(e.Hash) + len(e.Length) + len(e.Type) + len(e.Encoding)
	total := maxEscape*n + 2*maxMarkup
	for i := range e.Links {
		total += e.Links[i].size()
	}
	return total
}

// size is that of an Entry, for one of its links.
func (l *Link) size() int {
	n := len(l.Rel) + len(l.Href) + len(l.Hash) + len(l.Length) + len(l.Type) +
		len(l.Encoding) + len(l.Modified) + len(l.Path) + len(l.Pri)
	return maxEscape*n + maxMarkup
}

// maxMarkup is the length of the tags and attribute names of one element, rounded up.
const maxMarkup = 256

func changeRule(s string) string {
	switch Change(s) {
	case Created, Updated, Deleted:
		return ""
	}
	return "must be created, updated or deleted (CN §3)"
}

func datetimeRule(s string) string {
	if _, ok := scanDatetime(s); !ok {
		return "must be a W3C Datetime, such as 2026-01-31T12:00:00Z or 2026-01-31"
	}
	return ""
}

func lengthRule(s string) string {
	if !allDigits(s) || len(s) > 1 && s[0] == '0' {
		return "must be a whole number of bytes, in decimal digits"
	}
	return ""
}

func priRule(s string) string {
	if !allDigits(s) || s[0] == '0' || len(s) > len("999999") {
		return "must be a whole number from 1 to 999999 (core §7)"
	}
	return ""
}

// pathRule asks for the form of core §11.2 and §13.2, which goes before "relative"
// in §7: from the root of the package, with a slash in front.
func pathRule(s string) string {
	switch {
	case s[0] != '/' || s == "/" || strings.HasSuffix(s, "/"):
		return "must begin with a slash and must not end with one (core §13.2)"
	case strings.Contains(s+"/", "/../"):
		return "must not have a segment .."
	}
	return ""
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
