package notifier

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"carillon/payload"
)

// ParseEvent reads one event from the text of a JSON object, and holds it to
// every rule of payload.Entry. Unknown fields, fields in another case, fields that
// stand twice and anything after the object are errors. Any error is an *InputError.
func ParseEvent(data []byte) (Event, error) {
	s := &scanner{data: data}
	e, err := s.alone()
	if err != nil {
		return Event{}, err
	}
	return e, nil
}

// UnmarshalJSON reads the event as strictly as ParseEvent.
func (e *Event) UnmarshalJSON(data []byte) error {
	parsed, err := ParseEvent(data)
	if err == nil {
		*e = parsed
	}
	return err
}

// alone reads an event with nothing after it.
func (s *scanner) alone() (Event, *InputError) {
	e, err := s.event()
	if err == nil {
		err = s.end()
	}
	return e, err
}

// ParseArray reads the events of a JSON array, or of one JSON object, at most
// limit of them: the body of a request with type application/json. Any error is
// an *InputError that counts elements, or ErrTooMany.
func ParseArray(data []byte, limit int) ([]Event, error) {
	s := &scanner{data: data}
	if s.peek() == '{' {
		e, err := s.alone()
		if err != nil {
			return nil, err.at("element", 1)
		}
		return []Event{e}, nil
	}
	more, err := s.opens('[', ']', "an event or an array of events, in JSON")
	if err != nil {
		return nil, fault("the body %s", err.Reason)
	}
	var events []Event
	for more {
		if len(events) == limit {
			return nil, ErrTooMany
		}
		e, err := s.event()
		if err == nil {
			more, err = s.more(']')
		}
		if err != nil {
			return nil, err.at("element", len(events)+1)
		}
		events = append(events, e)
	}
	if err := s.end(); err != nil {
		return nil, err
	}
	return events, nil
}

// ParseLines reads the events of NDJSON, one object on each line, at most limit of them; lines has the
// line of each. Blank lines are passed over, and counted. Any error is an *InputError that counts
// lines, or ErrTooMany.
func ParseLines(data []byte, limit int) (events []Event, lines []int, err error) {
	number, links := 0, 0
	for line := range bytes.Lines(data) {
		number++
		if blank(line) {
			continue
		}
		if len(events) == limit {
			return nil, nil, ErrTooMany
		}
		s := &scanner{data: line, links: links}
		e, err := s.alone()
		if err != nil {
			return nil, nil, err.at("line", number)
		}
		links = s.links
		events, lines = append(events, e), append(lines, number)
	}
	return events, lines, nil
}

// blank reports whether a line has nothing but white space of JSON.
func blank(line []byte) bool { return len(bytes.Trim(line, " \t\r\n")) == 0 }

// event reads one event and judges it.
func (s *scanner) event() (Event, *InputError) {
	var e Event
	s.space()
	s.limit = s.pos + MaxEventBytes
	err := s.object("an event (a JSON object)", func(name string) (bool, *InputError) {
		return s.eventField(&e, name)
	})
	if err != nil {
		return Event{}, err
	}
	if s.pos > s.limit {
		return Event{}, errTooLong()
	}
	if err := e.Validate(); err != nil {
		return Event{}, inputError(err)
	}
	return e, nil
}

// object reads an object whose members field reads; it reports whether it knows the
// name. Names that stand twice are errors.
func (s *scanner) object(what string, field func(name string) (bool, *InputError)) *InputError {
	more, err := s.opens('{', '}', what)
	if err != nil {
		return err
	}
	var seen []string
	for more {
		if s.peek() != '"' {
			return fault("expected the name of a field, found %s", s.found())
		}
		name, err := s.text()
		if err != nil {
			return fault("a field's name %s", err.Reason)
		}
		if slices.Contains(seen, name) {
			return &InputError{Field: shown(name), Reason: "stands twice"}
		}
		seen = append(seen, name)
		if err := s.take(':'); err != nil {
			return under(shown(name), fault("has no value: %s", err.Reason))
		}
		known, err := field(name)
		if err == nil && !known {
			err = fault("is not a field that is known here; names are in lower case")
		}
		if err != nil {
			return under(shown(name), err)
		}
		if more, err = s.more('}'); err != nil {
			return err
		}
	}
	return nil
}

// under names the field of an error, or puts it before the field it names.
func under(name string, err *InputError) *InputError {
	switch {
	case err.Field == "":
	case err.Field[0] == '[':
		name += err.Field
	default:
		name += "." + err.Field
	}
	return &InputError{Field: name, Reason: err.Reason, cause: err.cause}
}

func (s *scanner) eventField(e *Event, name string) (known bool, err *InputError) {
	switch name {
	case "loc":
		e.Loc, err = s.text()
	case "change":
		var change string
		change, err = s.text()
		e.Change = payload.Change(change)
	case "datetime":
		err = s.datetime(e)
	case "lastmod":
		e.LastMod, err = s.lastmod()
	case "hash":
		e.Hash, err = s.filled()
	case "length":
		e.Length, err = s.whole()
	case "type":
		e.Type, err = s.filled()
	case "encoding":
		e.Encoding, err = s.filled()
	case "ln":
		err = s.list("links", func() *InputError {
			var l payload.Link
			if s.links++; s.links > MaxIntakeLinks {
				return &InputError{
					Reason: fmt.Sprintf("is beyond the %d links that one request may have", MaxIntakeLinks),
					cause:  ErrTooMany,
				}
			}
			err := s.object("a link (a JSON object)", func(name string) (bool, *InputError) {
				return s.linkField(&l, name)
			})
			switch { // at once, so that empty links take no room
			case err != nil:
			case l.Rel == "":
				err = &InputError{Field: "rel", Reason: "is missing"}
			case l.Href == "":
				err = &InputError{Field: "href", Reason: "is missing"}
			}
			e.Links = append(e.Links, l)
			return err
		})
	case "sets":
		err = s.setNames(e)
	default:
		return false, nil
	}
	return true, err
}

func (s *scanner) linkField(l *payload.Link, name string) (known bool, err *InputError) {
	switch name {
	case "rel":
		l.Rel, err = s.filled()
	case "href":
		l.Href, err = s.filled()
	case "hash":
		l.Hash, err = s.filled()
	case "length":
		l.Length, err = s.whole()
	case "type":
		l.Type, err = s.filled()
	case "encoding":
		l.Encoding, err = s.filled()
	case "modified":
		l.Modified, err = s.lastmod()
	case "path":
		l.Path, err = s.filled()
	case "pri":
		l.Pri, err = s.whole()
	default:
		return false, nil
	}
	return true, err
}

// filled reads a string that is not empty: an empty one would be dropped
// silently, as Entry writes no empty fields.
func (s *scanner) filled() (string, *InputError) {
	v, err := s.text()
	if err == nil && v == "" {
		err = fault("is empty; leave the field out instead")
	}
	return v, err
}

// list reads an array, calling element at each of its members.
func (s *scanner) list(what string, element func() *InputError) *InputError {
	more, err := s.opens('[', ']', "an array of "+what)
	for i := 0; more && err == nil; i++ {
		if err = element(); err != nil {
			return under(index(i), err)
		}
		more, err = s.more(']')
	}
	return err
}

func (s *scanner) setNames(e *Event) *InputError {
	e.Sets = []string{}
	err := s.list("set names", func() *InputError {
		name, err := s.filled()
		if err == nil && slices.Contains(e.Sets, name) {
			err = fault("names a set twice")
		}
		if len(e.Sets) == maxSets {
			err = fault("is beyond the %d sets that one event may name", maxSets)
		}
		e.Sets = append(e.Sets, name)
		return err
	})
	if err == nil && len(e.Sets) == 0 {
		err = fault("names no set")
	}
	return err
}

// lastmod reads a W3C Datetime, and gives it as the same instant in UTC, or as
// the same day.
func (s *scanner) lastmod() (string, *InputError) {
	v, err := s.filled()
	if err != nil {
		return "", err
	}
	told, bad := payload.NormalizeDatetime(v)
	if bad != nil {
		return "", fault(notADatetime)
	}
	return told, nil
}

func (s *scanner) datetime(e *Event) *InputError {
	v, err := s.filled()
	if err != nil {
		return err
	}
	t, bad := payload.ParseDatetime(v)
	if bad != nil {
		return fault(notADatetime)
	}
	e.Datetime = t
	return nil
}

const notADatetime = "must be a W3C Datetime, such as 2026-01-31T12:00:00Z"

// index names a member of an array.
func index(i int) string { return "[" + strconv.Itoa(i) + "]" }
