package notifier

import (
	"fmt"

	"carillon/payload"
)

// ParseResource reads one resource of a snapshot from the text of a JSON object, as
// strictly as ParseEvent: the fields of an event but change, datetime and sets. Any
// error is an *InputError.
func ParseResource(data []byte) (payload.Entry, error) {
	s := &scanner{data: data}
	e, err := s.resource()
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return payload.Entry{}, err
	}
	return e, nil
}

// resource reads one resource and judges it.
func (s *scanner) resource() (payload.Entry, *InputError) {
	var e Event
	s.space()
	s.limit = s.pos + MaxEventBytes
	err := s.object("a resource (a JSON object)", func(name string) (bool, *InputError) {
		switch name {
		case "change", "datetime":
			return true, fault("is of a change, not of a resource; leave it out")
		case "sets":
			return true, fault("must be left out, as the set is named beside")
		}
		return s.eventField(&e, name)
	})
	switch {
	case err != nil:
		return payload.Entry{}, err
	case s.pos > s.limit:
		return payload.Entry{}, errTooLong()
	}
	e.Change = payload.Created // the rules of an entry ask for one
	if err := e.Validate(); err != nil {
		return payload.Entry{}, inputError(err)
	}
	for i := range e.Links {
		if e.Links[i].Rel == payload.RelPatch {
			return payload.Entry{}, &InputError{
				Field: fmt.Sprintf("ln[%d].rel", i), Reason: "is of a change, not of a resource (core §14.4)",
			}
		}
	}
	e.Change = ""
	return e.Entry, nil
}
