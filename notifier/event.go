package notifier

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"carillon/payload"
)

// MaxEventBytes bounds the JSON text of one event, so that every event fits
// into a notification.
const MaxEventBytes = 1 << 20

// Limits of what one request brings.
const (
	// MaxIntakeEvents is how many events it may have: 413.
	MaxIntakeEvents = 50_000
	// MaxIntakeLinks is how many links the events may have in all: 413. In memory a link takes
	// many times what it takes in a body.
	MaxIntakeLinks = 500_000
	// MaxIntakeBytes is how large the body may be, and what it unpacks to: 413.
	MaxIntakeBytes = payload.MaxReadBytes
)

// maxSets is how many sets one event may name: each costs a copy of it.
const maxSets = 256

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

// InputError reports the faults of an event, in words for its sender.
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

// ErrTooMany: there are more events, or more links in them, than one request may have.
var ErrTooMany = errors.New("too many events or links")

// inputError puts a broken rule of an entry in the words of an event.
func inputError(err error) *InputError {
	var wrong *InputError
	if errors.As(err, &wrong) {
		return wrong
	}
	var broken *payload.FieldError
	if errors.As(err, &broken) {
		return &InputError{Field: broken.Field, Reason: broken.Reason}
	}
	return &InputError{Reason: err.Error()}
}

// shown makes a name that a stranger chose fit for a message: short, and with
// nothing in it that would break the line.
func shown(name string) string {
	const longest = 40
	if runes := []rune(name); len(runes) > longest {
		name = string(runes[:longest]) + "…"
	}
	if strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}

// fault is an error without a field.
func fault(format string, args ...any) *InputError {
	return &InputError{Reason: fmt.Sprintf(format, args...)}
}

func errTooLong() *InputError { return fault("the event has more than %d bytes", MaxEventBytes) }
