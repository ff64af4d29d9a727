package payload

import (
	"fmt"
	"io"
)

// CapabilityList is what a Source offers for one set of resources (core §9).
type CapabilityList struct {
	// Up is the URI of the Source Description; it is mandatory.
	Up string
	// DescribedBy is the URI of a document about the set; recommended.
	DescribedBy  string
	Capabilities []Capability
}

// Capability is one entry of a Capability List.
type Capability struct {
	// Loc is the URI of the capability's document, or of its channel.
	Loc string
	// Capability is its name: "changelist", ChangeNotification, …
	Capability string
	// Links lead to what belongs to it. A change notification channel has its
	// hub as rel=hub (CN §5).
	Links []Link
}

// SourceDescription lists the Capability Lists of a Source (core §8).
type SourceDescription struct {
	// DescribedBy is the URI of a document about the Source; recommended.
	DescribedBy     string
	CapabilityLists []CapabilityListRef
}

// CapabilityListRef is one entry of a Source Description.
type CapabilityListRef struct {
	Loc string
	// DescribedBy is the URI of a document about the set of resources; recommended.
	DescribedBy string
}

// WriteCapabilityList writes a Capability List, without lastmod: it would have to
// follow every document it lists (core §9). A capability that is listed twice, a
// channel without a hub, and values that are not what the clauses demand are a
// *FieldError ("up", "capabilities[1].loc"), and nothing is written.
func WriteCapabilityList(w io.Writer, list CapabilityList) error {
	if err := list.validate(); err != nil {
		return err
	}
	links := append(describedBy(list.DescribedBy), Link{Rel: RelUp, Href: list.Up})
	doc := appendHead(nil, documentHead, links, CapCapabilityList, spans{})
	for _, c := range list.Capabilities {
		// CN §5 says that the links are in a "child element of loc", which holds text only; its
		// example has them where all other documents do.
		doc = appendCapability(doc, c.Loc, c.Capability, c.Links)
	}
	return writeDocument(w, append(doc, documentTail...))
}

// WriteSourceDescription writes a Source Description, without lastmod (core §8).
// The error is as with WriteCapabilityList ("capabilityLists[0].loc").
func WriteSourceDescription(w io.Writer, d SourceDescription) error {
	if err := d.validate(); err != nil {
		return err
	}
	doc := appendHead(nil, documentHead, describedBy(d.DescribedBy), CapDescription, spans{})
	for _, ref := range d.CapabilityLists {
		doc = appendCapability(doc, ref.Loc, CapCapabilityList, describedBy(ref.DescribedBy))
	}
	return writeDocument(w, append(doc, documentTail...))
}

func (l *CapabilityList) validate() error {
	if reason := check(l.Up, true, webURIRule); reason != "" {
		return &FieldError{Field: "up", Reason: reason}
	}
	if reason := check(l.DescribedBy, false, uriRule); reason != "" {
		return &FieldError{Field: "describedBy", Reason: reason}
	}
	seen := map[string]bool{}
	for i := range l.Capabilities {
		c := &l.Capabilities[i]
		err := c.validate()
		if err == nil && seen[c.Capability] {
			err = &FieldError{
				Field:  "capability",
				Reason: "is listed twice; a Capability List has one entry for each (core §9)",
			}
		}
		if err != nil {
			err.Field = fmt.Sprintf("capabilities[%d].%s", i, err.Field)
			return err
		}
		seen[c.Capability] = true
	}
	return nil
}

func (c *Capability) validate() *FieldError {
	if reason := check(c.Loc, true, webURIRule); reason != "" {
		return &FieldError{Field: "loc", Reason: reason}
	}
	if reason := check(c.Capability, true, capabilityRule); reason != "" {
		return &FieldError{Field: "capability", Reason: reason}
	}
	hub := false
	for i := range c.Links {
		if err := c.Links[i].validate(ofDocument); err != nil {
			err.Field = fmt.Sprintf("ln[%d].%s", i, err.Field)
			return err
		}
		hub = hub || c.Links[i].Rel == RelHub
	}
	if c.Capability == ChangeNotification && !hub {
		return &FieldError{Field: "ln", Reason: "must have rel=hub, the hub of the channel (CN §5)"}
	}
	return nil
}

func (d *SourceDescription) validate() error {
	if reason := check(d.DescribedBy, false, uriRule); reason != "" {
		return &FieldError{Field: "describedBy", Reason: reason}
	}
	for i, ref := range d.CapabilityLists {
		if reason := check(ref.Loc, true, webURIRule); reason != "" {
			return &FieldError{Field: fmt.Sprintf("capabilityLists[%d].loc", i), Reason: reason}
		}
		if reason := check(ref.DescribedBy, false, uriRule); reason != "" {
			return &FieldError{
				Field:  fmt.Sprintf("capabilityLists[%d].describedBy", i),
				Reason: reason,
			}
		}
	}
	return nil
}

// capabilityRule asks for a name like those of core §7; others may come.
func capabilityRule(s string) string {
	if !isRelToken(s) {
		return "must be a name in lower case, such as changelist"
	}
	return ""
}

// describedBy returns the link to a description, if there is one.
func describedBy(uri string) []Link {
	if uri == "" {
		return nil
	}
	return []Link{{Rel: RelDescribedBy, Href: uri}}
}

// appendCapability appends an entry of a Capability List or a Source Description.
func appendCapability(doc []byte, loc, capability string, links []Link) []byte {
	el := Entry{Loc: loc, Capability: capability, Links: links}
	return new(pen).element(doc, "url", &el, ofDocument)
}

func writeDocument(w io.Writer, doc []byte) error {
	if _, err := w.Write(doc); err != nil {
		return fmt.Errorf("writing a ResourceSync document: %w", err)
	}
	return nil
}
