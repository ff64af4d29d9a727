package payload

import (
	"fmt"
	"time"
)

// AppendTold appends the url element of an entry as a Reader gave it, whatever it
// lacks and whatever its values are, and a line end: a Reader gives the same entry
// back. Datetime is written in UTC with microseconds, or nanoseconds where it has
// some, unless DatetimeTold says the same time otherwise. The error is a *FieldError
// for what XML 1.0 cannot carry, or what a Reader would refuse for its size, and dst
// is returned as it was.
func AppendTold(dst []byte, e *Entry) ([]byte, error) {
	datetime, err := e.told()
	if err != nil {
		return dst, err
	}
	from := len(dst)
	out := appendNames(append(dst, "<url>\n"...), e.Loc, e.LastMod)
	md := len(out)
	out = append(out, "<rs:md"...)
	bare := len(out)
	out = appendAttr(out, ` capability="`, e.Capability)
	out = appendAttr(out, ` change="`, string(e.Change))
	out = appendAttr(out, ` datetime="`, datetime)
	out = appendAttr(out, ` from="`, e.From)
	out = appendAttr(out, ` until="`, e.Until)
	out = appendAttr(out, ` at="`, e.At)
	out = appendAttr(out, ` completed="`, e.Completed)
	out = e.appendContent(out)
	if len(out) == bare {
		out = out[:md]
	} else {
		out = append(out, "/>\n"...)
	}
	largest := max(md-from, len(out)-md)
	for i := range e.Links {
		before := len(out)
		out = appendLink(out, &e.Links[i])
		largest = max(largest, len(out)-before)
	}
	if largest > MaxEntryBytes {
		return dst, &FieldError{
			Field:  "entry",
			Reason: fmt.Sprintf("has a tag or a text of more than %d bytes", MaxEntryBytes),
		}
	}
	return append(out, "</url>\n"...), nil
}

// told tells whether XML can carry the entry within the limits of reading, and
// returns its datetime as it is to be written.
func (e *Entry) told() (datetime string, err error) {
	switch {
	case e.DatetimeTold != "" && timeOf(e.DatetimeTold).Equal(e.Datetime):
		datetime = e.DatetimeTold
	case e.Datetime.IsZero():
	case !writable(e.Datetime):
		return "", &FieldError{Field: "datetime", Reason: "must be between the years 0 and 9999"}
	case e.Datetime.Nanosecond()%int(time.Microsecond) != 0:
		datetime = e.Datetime.UTC().Format(time.RFC3339Nano)
	default:
		datetime = FormatDatetime(e.Datetime)
	}
	size := 0
	for _, f := range [...]struct{ field, value string }{
		{"loc", e.Loc},
		{"lastmod", e.LastMod},
		{"capability", e.Capability},
		{"change", string(e.Change)},
		{"datetime", datetime},
		{"from", e.From},
		{"until", e.Until},
		{"at", e.At},
		{"completed", e.Completed},
		{"hash", e.Hash},
		{"length", e.Length},
		{"type", e.Type},
		{"encoding", e.Encoding},
		{"path", e.Path},
	} {
		if reason := charsRule(f.value); reason != "" {
			return "", &FieldError{Field: f.field, Reason: reason}
		}
		size += len(f.value)
	}
	if len(e.Links) > MaxLinks {
		return "", &FieldError{
			Field:  "ln",
			Reason: fmt.Sprintf("must have at most %d links", MaxLinks),
		}
	}
	for i := range e.Links {
		n, err := e.Links[i].told()
		if err != nil {
			err.Field = fmt.Sprintf("ln[%d].%s", i, err.Field)
			return "", err
		}
		size += n
	}
	if size > MaxEntryBytes {
		return "", &FieldError{
			Field:  "entry",
			Reason: fmt.Sprintf("has more than %d bytes", MaxEntryBytes),
		}
	}
	return datetime, nil
}

// told tells whether XML can carry the link, and how many bytes it has.
func (l *Link) told() (size int, err *FieldError) {
	for _, f := range [...]struct{ field, value string }{
		{"rel", l.Rel},
		{"href", l.Href},
		{"hash", l.Hash},
		{"length", l.Length},
		{"type", l.Type},
		{"encoding", l.Encoding},
		{"modified", l.Modified},
		{"path", l.Path},
		{"pri", l.Pri},
	} {
		if reason := charsRule(f.value); reason != "" {
			return 0, &FieldError{Field: f.field, Reason: reason}
		}
		size += len(f.value)
	}
	return size, nil
}
