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
	el := e.row(datetime)
	el.md[fCapability], el.md[fFrom], el.md[fUntil] = e.Capability, e.From, e.Until
	el.md[fAt], el.md[fCompleted] = e.At, e.Completed
	if err := el.told(); err != nil {
		return dst, err
	}
	return el.append(dst, allEscapes), nil
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

// told returns an error if XML cannot carry the element within the limits of reading.
func (e *row) told() error {
	size := len(e.loc) + len(e.lastMod)
	for _, f := range [...]struct{ name, value string }{{"loc", e.loc}, {"lastmod", e.lastMod}} {
		if reason := charsRule(f.value); reason != "" {
			return &FieldError{Field: f.name, Reason: reason}
		}
	}
	n, err := e.md.told()
	if err != nil {
		return err
	}
	size += n
	if len(e.links) > MaxLinks {
		return errManyLinks()
	}
	for i := range e.links {
		v := e.links[i].values()
		n, err := v.told()
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
	if e.bound() > MaxEntryBytes && e.largest() > MaxEntryBytes {
		return &FieldError{
			Field:  "entry",
			Reason: fmt.Sprintf("has a tag or a text of more than %d bytes", MaxEntryBytes),
		}
	}
	return nil
}

// told returns how many bytes the values have, and an error if XML cannot carry one.
func (v *values) told() (size int, err *FieldError) {
	for f := range v {
		if reason := charsRule(v[f]); reason != "" {
			return 0, &FieldError{Field: field(f).String(), Reason: reason}
		}
		size += len(v[f])
	}
	return size, nil
}
