package notifier

import (
	"fmt"

	"carillon/payload"
)

// MaxEventBytes bounds the JSON text of one event, so that every event fits
// into a notification.
const MaxEventBytes = 1 << 20

// Event says that one resource was created, updated or deleted, in the words of
// a ResourceSync entry. As JSON it is one object with these fields; all but
// loc and change may be left out:
//
//	loc       string   URI of the resource, absolute http or https, kept verbatim
//	change    string   created, updated or deleted
//	datetime  string   time of the change; see Journal.Append for when it counts
//	lastmod   string   the resource's own modification time, a W3C Datetime
//	hash      string   algorithm:hexdigest, several separated by spaces
//	length    number   bytes, a whole number
//	type      string   media type
//	encoding  string   content coding
//	ln        array    related resources: objects with rel, href and, if need be,
//	                   hash, length, type, encoding, modified, path, pri (number)
//	sets      array    names of the sets of resources that it belongs to
type Event struct {
	// Entry is the change. Its Datetime is what the client asks for, zero if it
	// asks for nothing; in the journal it is the datetime that was given.
	payload.Entry
	// Sets are the names of the sets that the event belongs to, none twice.
	Sets []string
}

// UnmarshalJSON reads the event as strictly as ParseEvent.
func (e *Event) UnmarshalJSON(data []byte) error {
	parsed, err := ParseEvent(data)
	if err == nil {
		*e = parsed
	}
	return err
}

// InputError says what is wrong with an event, in words for its sender.
type InputError struct {
	// Unit is what Number counts, from 1: "line" or "element". Both are zero where
	// the event stood alone.
	Unit   string
	Number int
	// Field is the field at fault, such as "loc" or "ln[0].href"; empty if
	// it is the text as a whole.
	Field string
	// Reason goes on from the field's name, where there is one.
	Reason string

	cause error // what errors.Is knows it by; nil for most
}

// Unwrap makes errors.Is tell ErrTooMany.
func (e *InputError) Unwrap() error { return e.cause }

// Error gives the message as intake answers it.
func (e *InputError) Error() string {
	text := e.Reason
	if e.Field != "" {
		text = e.Field + " " + text
	}
	if e.Unit != "" {
		text = fmt.Sprintf("%s %d: %s", e.Unit, e.Number, text)
	}
	return text
}

// at returns the error with the place of its event.
func (e *InputError) at(unit string, number int) *InputError {
	placed := *e
	placed.Unit, placed.Number = unit, number
	return &placed
}
