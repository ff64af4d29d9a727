package payload

import (
	"fmt"
	"strings"
)

// place is where an entry or a link stands, as far as the rules differ.
type place int

const (
	ofDocument         place = iota // the head, and entries that are documents or packages
	ofResource                      // Resource Lists
	ofChange                        // Change Lists and change notifications
	ofPackagedResource              // Resource Dump Manifests
	ofPackagedChange                // Change Dump Manifests
)

func (p place) tellsChanges() bool { return p == ofChange || p == ofPackagedChange }

func (p place) packaged() bool { return p == ofPackagedResource || p == ofPackagedChange }

// validateLinks judges the links of one place. The error is a *FieldError.
func validateLinks(links []Link, p place) error {
	if len(links) > MaxLinks {
		return errManyLinks()
	}
	for i := range links {
		if err := links[i].validate(p); err != nil {
			err.Field = fmt.Sprintf("ln[%d].%s", i, err.Field)
			return err
		}
	}
	return nil
}

func errManyLinks() error {
	return &FieldError{Field: "ln", Reason: fmt.Sprintf("must have at most %d links", MaxLinks)}
}

// validate judges a link by core §7 and §14.4. It returns a concrete type so that the
// caller can say which link it is.
func (l *Link) validate(p place) *FieldError {
	if err := l.validateFields(); err != nil {
		return err
	}
	switch patch := l.Rel == RelPatch; {
	case patch && !p.tellsChanges():
		return &FieldError{
			Field:  "rel",
			Reason: "must not be a patch: only changes have one (core §14.4)",
		}
	case patch && l.Type == "":
		return &FieldError{Field: "type", Reason: "is missing; a patch must have it (core §14.4)"}
	case patch && p == ofPackagedChange && l.Path == "":
		return &FieldError{
			Field:  "path",
			Reason: "is missing; a patch in a Change Dump Manifest must have it (core §14.4)",
		}
	case l.Path != "" && !(patch && p == ofPackagedChange):
		return &FieldError{
			Field:  "path",
			Reason: "must be left out: only a patch in a Change Dump Manifest has one (core §14.4)",
		}
	}
	return nil
}

// validateFields judges the attributes of a link, each by itself (core §7).
func (l *Link) validateFields() *FieldError {
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
		{"path", l.Path, false, bitstreamRule},
		{"pri", l.Pri, false, priRule},
	} {
		if reason := check(c.value, c.required, c.rule); reason != "" {
			return &FieldError{Field: c.field, Reason: reason}
		}
	}
	return nil
}

// countRel returns how many links have the relation.
func countRel(links []Link, rel string) int {
	n := 0
	for i := range links {
		if links[i].Rel == rel {
			n++
		}
	}
	return n
}

func priRule(s string) string {
	if !allDigits(s) || s[0] == '0' || len(s) > len("999999") {
		return "must be a whole number from 1 to 999999 (core §7)"
	}
	return ""
}

// manifestPath is where a package has its manifest (core §11.2, §13.2), as a path would say it.
const manifestPath = "/manifest.xml"

// bitstreamRule asks for the form of core §11.2 and §13.2, which takes precedence over
// "relative" in §7: from the root of the package, with a slash in front. It refuses what
// systems would unpack elsewhere than at that place.
func bitstreamRule(s string) string {
	switch {
	case s[0] != '/' || strings.HasSuffix(s, "/"):
		return "must begin with a slash and must not end with one (core §11.2)"
	case strings.Contains(s, "//") || strings.Contains(s+"/", "/./"):
		return "must not have empty segments, and no segment ."
	case strings.Contains(s+"/", "/../"):
		return "must not have a segment .."
	case strings.ContainsRune(s, '\\'):
		return "must not have a backslash"
	case strings.EqualFold(s, manifestPath):
		return "must not be that of the manifest itself (core §11.2)"
	}
	return ""
}
