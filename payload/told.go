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
	datetime, err := e.toldDatetime()
	if err != nil {
		return dst, err
	}
	el := *e
	el.DatetimeTold = datetime
	if err := el.writable(); err != nil {
		return dst, err
	}
	longer := new(pen).element(dst, "url", &el, ofDocument)
	if len(longer)-len(dst) > MaxEntryBytes && el.largest() > MaxEntryBytes {
		return dst, &FieldError{
			Field:  "entry",
			Reason: fmt.Sprintf("has a tag or a text of more than %d bytes", MaxEntryBytes),
		}
	}
	return longer, nil
}

// toldDatetime returns the entry's datetime as it is to be written.
func (e *Entry) toldDatetime() (string, error) {
	switch {
	case e.DatetimeTold != "" && timeOf(e.DatetimeTold).Equal(e.Datetime):
		return e.DatetimeTold, nil
	case e.Datetime.IsZero():
		return "", nil
	case !writable(e.Datetime):
		return "", &FieldError{Field: "datetime", Reason: "must be between the years 0 and 9999"}
	case e.Datetime.Nanosecond()%int(time.Microsecond) != 0:
		return e.Datetime.UTC().Format(time.RFC3339Nano), nil
	}
	return FormatDatetime(e.Datetime), nil
}

// writable returns an error if XML cannot carry the entry within the limits of reading.
func (e *Entry) writable() error {
	size, err := toldValues([]toldValue{
		{"loc", e.Loc},
		{"lastmod", e.LastMod},
		{"capability", e.Capability},
		{"change", string(e.Change)},
		{"datetime", e.DatetimeTold},
		{"from", e.From},
		{"until", e.Until},
		{"at", e.At},
		{"completed", e.Completed},
		{"hash", e.Hash},
		{"length", e.Length},
		{"type", e.Type},
		{"encoding", e.Encoding},
		{"path", e.Path},
	})
	if err != nil {
		return err
	}
	if len(e.Links) > MaxLinks {
		return errManyLinks()
	}
	for i := range e.Links {
		l := &e.Links[i]
		n, err := toldValues([]toldValue{
			{"rel", l.Rel},
			{"href", l.Href},
			{"hash", l.Hash},
			{"length", l.Length},
			{"type", l.Type},
			{"encoding", l.Encoding},
			{"modified", l.Modified},
			{"path", l.Path},
			{"pri", l.Pri},
		})
		if err != nil {
			err.Field = fmt.Sprintf("ln[%d].%s", i, err.Field)
			return err
		}
		size += n
	}
	if size > MaxEntryBytes {
		return &FieldError{
			Field:  "entry",
			Reason: fmt.Sprintf("has more than %d bytes", MaxEntryBytes),
		}
	}
	return nil
}

type toldValue struct{ field, value string }

// toldValues returns how many bytes the values have, and an error if XML cannot carry one.
func toldValues(values []toldValue) (size int, err *FieldError) {
	for _, v := range values {
		if reason := charsRule(v.value); reason != "" {
			return 0, &FieldError{Field: v.field, Reason: reason}
		}
		size += len(v.value)
	}
	return size, nil
}
