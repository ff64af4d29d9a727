package payload

import (
	"fmt"
	"time"
)

// Head is what a document, or an index of documents, says of itself. Times that are zero
// are left out; the others are written in UTC with microseconds.
type Head struct {
	// Index writes an index, whose entries AppendPart writes (core §10.2, §12.2).
	// Manifests have no index.
	Index bool
	// Capability is one of the Cap constants, but CapDescription and CapCapabilityList:
	// WriteSourceDescription and WriteCapabilityList write those.
	Capability string
	// From is required for Change Lists, Change Dumps and their manifests, and for
	// indexes of them. Without Until more may come. If they are equal the document
	// covers nothing, and has no entries.
	From, Until time.Time
	// At is required for Resource Lists, Resource Dumps and their manifests, and for
	// indexes of them: the snapshot began then, and ended at Completed. Archives
	// have no times.
	At, Completed time.Time
	// Links must have rel=up, the Capability List. A part of an index has rel=index, and a document with
	// an archive rel=archives; each stands once at most.
	Links []Link
	// Orphan lets rel=up be missing: for a server of the changes of a Source whose Capability List is
	// unknown.
	Orphan bool
}

// AppendHead appends everything of a list or an index that stands before its
// entries. The error is a *FieldError ("from", "ln", "ln[0].href"), and dst is
// returned as it was.
func AppendHead(dst []byte, h Head) ([]byte, error) {
	if err := h.validate(); err != nil {
		return dst, err
	}
	open := documentHead
	if h.Index {
		open = indexHead
	}
	return appendHead(dst, open, h.Links, h.Capability, h.times()), nil
}

// AppendTail appends everything of a list, or an index, that stands after its entries.
func AppendTail(dst []byte, index bool) []byte {
	if index {
		return append(dst, indexTail...)
	}
	return append(dst, documentTail...)
}

func (h *Head) validate() error {
	k := kindOf(h.Capability)
	switch {
	case k == nil || k.lists == capabilities || h.Capability == ChangeNotification:
		return &FieldError{
			Field:  "capability",
			Reason: "must be that of a list, a dump, a manifest or an archive",
		}
	case h.Index && k.index == "":
		return &FieldError{
			Field:  "capability",
			Reason: "must not be " + h.Capability + " in an index: a manifest has none",
		}
	case k.times == interval && h.From.IsZero():
		return &FieldError{
			Field:  "from",
			Reason: "is missing; a " + k.name + " must have it (" + k.clause + ")",
		}
	case k.times == interval && !(h.At.IsZero() && h.Completed.IsZero()):
		return &FieldError{
			Field:  "at",
			Reason: "and completed must be left out of a " + k.name + " (core §7)",
		}
	case k.times == snapshot && h.At.IsZero():
		return &FieldError{
			Field:  "at",
			Reason: "is missing; a " + k.name + " must have it (" + k.clause + ")",
		}
	case k.times == snapshot && !(h.From.IsZero() && h.Until.IsZero()):
		return &FieldError{
			Field:  "from",
			Reason: "and until must be left out of a " + k.name + " (core §7)",
		}
	case k.times == noTimes && h.times() != (spans{}):
		return &FieldError{
			Field:  "at",
			Reason: "and all other times must be left out of a " + k.name + " (" + k.clause + ")",
		}
	}
	if err := h.times().validate(); err != nil {
		return err
	}
	return h.validateLinks(k)
}

// validateLinks demands rel=up once, and lets rel=index and rel=archives be there once
// where they have a meaning.
func (h *Head) validateLinks(k *kind) error {
	if err := validateLinks(h.Links, ofDocument); err != nil {
		return err
	}
	ups, indexes, archives := countRel(h.Links, RelUp), countRel(h.Links, RelIndex),
		countRel(h.Links, RelArchives)
	switch {
	case ups > 1 || ups == 0 && !h.Orphan:
		return &FieldError{
			Field:  "ln",
			Reason: "must have rel=up once, the Capability List (" + k.clause + ")",
		}
	case indexes > 0 && (h.Index || k.index == ""):
		return &FieldError{
			Field:  "ln",
			Reason: "must not have rel=index: an index and a manifest are no parts of an index",
		}
	case indexes > 1:
		return &FieldError{Field: "ln", Reason: "must have rel=index once at most"}
	case archives > 0 && k.lists == documents:
		return &FieldError{
			Field:  "ln",
			Reason: "must not have rel=archives: an archive has no archive (archives §2.2)",
		}
	case archives > 1:
		return &FieldError{
			Field:  "ln",
			Reason: "must have rel=archives once at most (archives §2.2)",
		}
	case len(appendHead(nil, "", h.Links, "", spans{})) > MaxEntryBytes:
		return &FieldError{
			Field:  "ln",
			Reason: fmt.Sprintf("makes the head larger than %d bytes", MaxEntryBytes),
		}
	}
	return nil
}

func (h *Head) times() spans { return spans{h.From, h.Until, h.At, h.Completed} }
