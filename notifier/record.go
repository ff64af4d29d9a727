package notifier

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
	"time"

	"carillon/payload"
)

// ErrRecord: a stored event cannot be read.
var ErrRecord = errors.New("not the record of an event")

// The tags of a record's fields. They are stored and never change.
const (
	tagLoc      = 1
	tagLastMod  = 2
	tagChange   = 3
	tagHash     = 4
	tagLength   = 5
	tagType     = 6
	tagEncoding = 7
	tagLink     = 8 // begins a link; the tags after it belong to the link
	tagRel      = 9
	tagHref     = 10
	tagModified = 11
	tagPath     = 12 // of a link; older versions wrote it, and it is ignored
	tagPri      = 13
)

// AppendRecord appends the form in which engines store an event: everything but
// its Datetime and its Sets, which are in the key. A record is a sequence of
// fields: a tag, the length of the value, the value; absent fields are left out.
func AppendRecord(dst []byte, e *Event) []byte {
	e.eachField(func(tag byte, value string) {
		dst = append(dst, tag)
		dst = binary.AppendUvarint(dst, uint64(len(value)))
		dst = append(dst, value...)
	})
	return dst
}

// RecordSize returns how many bytes AppendRecord appends.
func RecordSize(e *Event) (size int) {
	e.eachField(func(_ byte, value string) {
		size += 1 + (bits.Len(uint(len(value))|1)+6)/7 + len(value) // 7 bits of the length a byte
	})
	return size
}

// eachField visits the fields of the record.
func (e *Event) eachField(visit func(tag byte, value string)) {
	some := func(tag byte, value string) {
		if value != "" {
			visit(tag, value)
		}
	}
	some(tagLoc, e.Loc)
	some(tagLastMod, e.LastMod)
	some(tagChange, string(e.Change))
	some(tagHash, e.Hash)
	some(tagLength, e.Length)
	some(tagType, e.Type)
	some(tagEncoding, e.Encoding)
	for i := range e.Links {
		l := &e.Links[i]
		visit(tagLink, "")
		some(tagRel, l.Rel)
		some(tagHref, l.Href)
		some(tagHash, l.Hash)
		some(tagLength, l.Length)
		some(tagType, l.Type)
		some(tagEncoding, l.Encoding)
		some(tagModified, l.Modified)
		some(tagPri, l.Pri)
	}
}

// ParseRecord reads what AppendRecord wrote. The event has no Datetime and no
// Sets, and shares no memory with the record. The error is ErrRecord.
func ParseRecord(record []byte) (Event, error) {
	var e Event
	text := string(record) // one copy for all fields
	for len(record) > 0 {
		tag := record[0]
		size, n := binary.Uvarint(record[1:])
		if n <= 0 || size > uint64(len(record)-1-n) {
			return Event{}, ErrRecord
		}
		end := 1 + n + int(size)
		if !e.setField(tag, text[1+n:end]) {
			return Event{}, ErrRecord
		}
		record, text = record[end:], text[end:]
	}
	if e.Links = slices.DeleteFunc(e.Links, unusablePatch); len(e.Links) == 0 {
		e.Links = nil
	}
	return e, nil
}

// unusablePatch reports whether a link is a patch without a media type. Older versions accepted
// them. No document may carry one (core §14.4), and one event must not hold up all later ones.
func unusablePatch(l payload.Link) bool { return l.Type == "" && l.Rel == payload.RelPatch }

func (e *Event) setField(tag byte, value string) bool {
	if tag == tagLink {
		e.Links = append(e.Links, payload.Link{})
		return true
	}
	if len(e.Links) > 0 {
		return setLinkField(&e.Links[len(e.Links)-1], tag, value)
	}
	switch tag {
	case tagLoc:
		e.Loc = value
	case tagLastMod:
		e.LastMod = value
	case tagChange:
		e.Change = payload.Change(value)
	case tagHash:
		e.Hash = value
	case tagLength:
		e.Length = value
	case tagType:
		e.Type = value
	case tagEncoding:
		e.Encoding = value
	default:
		return false
	}
	return true
}

func setLinkField(l *payload.Link, tag byte, value string) bool {
	switch tag {
	case tagRel:
		l.Rel = value
	case tagHref:
		l.Href = value
	case tagHash:
		l.Hash = value
	case tagLength:
		l.Length = value
	case tagType:
		l.Type = value
	case tagEncoding:
		l.Encoding = value
	case tagModified:
		l.Modified = value
	case tagPath: // links of changes have none (core §14.4)
	case tagPri:
		l.Pri = value
	default:
		return false
	}
	return true
}

// nextMicro is the first microsecond after t.
func nextMicro(t time.Time) time.Time { return t.Add(time.Microsecond) }
