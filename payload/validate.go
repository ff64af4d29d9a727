package payload

import (
	"fmt"
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

// Validate reports whether a change notification or a Change List can carry the entry as it
// is: whether each field follows its clause, and XML 1.0 can carry it without loss. The error
// is a *FieldError for the first field that breaks a rule. Validate ignores Datetime, which
// AppendEntry demands.
func (e *Entry) Validate() error { return e.validate(ofChange) }

// validate is Validate for an entry of any document.
func (e *Entry) validate(p place) error {
	for _, c := range [...]struct {
		field, value string
		required     bool
		rule         func(string) string
	}{
		{"loc", e.Loc, true, webURIRule},
		{"change", string(e.Change), p.tellsChanges(), changeRule},
		{"lastmod", e.LastMod, false, datetimeRule},
		{"hash", e.Hash, false, hashRule},
		{"length", e.Length, false, lengthRule},
		{"type", e.Type, false, mediaTypeRule},
		{"encoding", e.Encoding, false, encodingRule},
		{"path", e.Path, p.packaged() && e.Change != Deleted, bitstreamRule},
	} {
		if reason := check(c.value, c.required, c.rule); reason != "" {
			return &FieldError{Field: c.field, Reason: reason}
		}
	}
	switch {
	case e.Path != "" && !p.packaged():
		return &FieldError{
			Field:  "path",
			Reason: "must be left out: only entries of dump manifests have one (core §7)",
		}
	case e.Path != "" && e.Change == Deleted:
		return &FieldError{
			Field:  "path",
			Reason: "must be left out: a package holds nothing of a deleted resource (core §13.2)",
		}
	}
	if err := validateLinks(e.Links, p); err != nil {
		return err
	}
	if !e.fits(p) {
		return errEntrySize()
	}
	return nil
}

// fits reports whether the size of the element is within MaxEntryBytes. The entry and a link have
// nine values each, of at most MaxFieldChars characters: a few links cannot make it larger.
func (e *Entry) fits(p place) bool {
	const few = MaxEntryBytes/(9*MaxFieldChars*len("&quot;")) - 1
	return len(e.Links) <= few || len(new(pen).element(nil, "url", e, p)) <= MaxEntryBytes
}

func errEntrySize() error {
	return &FieldError{
		Field:  "ln",
		Reason: fmt.Sprintf("makes the entry larger than %d bytes", MaxEntryBytes),
	}
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

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
