package check

import (
	"errors"
	"fmt"
)

// Level says how bad a Finding is.
type Level string

// The levels. A broken must is an Error, a broken should or recommendation a Warning. A Note
// says what was not looked at, or what may be of use.
const (
	Error   Level = "error"
	Warning Level = "warning"
	Note    Level = "note"
)

// Finding is one thing that is wrong, or a note.
type Finding struct {
	Level Level `json:"level"`
	// Clause is the document and section of the standard: "core 11.2", "CN 3", "archives 5",
	// "WebSub 4". It is "limits" where something was not looked at.
	Clause string `json:"clause"`
	// URI is the document, package or resource: an address, or the name of a file.
	URI string `json:"uri"`
	// Line is where the element begins, from 1; 0 where that is not known.
	Line int `json:"line,omitempty"`
	// Element is the element, such as "url[3]/rs:md/@hash"; empty for the whole document.
	Element string `json:"element,omitempty"`
	// What states the fault, and Mend the remedy. Texts of strangers in them are quoted and short.
	What string `json:"what"`
	Mend string `json:"mend,omitempty"`

	rule *ruleID // of this package, nil for others
}

// Place is where the finding is: the address or file, the line and the element.
func (f *Finding) Place() string {
	place := f.URI
	if f.Line > 0 {
		place += fmt.Sprintf(":%d", f.Line)
	}
	if f.Element != "" {
		place += " " + f.Element
	}
	return place
}

// String is the finding as one line: level, clause, place, and what to do.
func (f *Finding) String() string {
	line := fmt.Sprintf("%s %s %s: %s", f.Level, f.Clause, f.Place(), f.What)
	if f.Mend != "" {
		line += "; " + f.Mend
	}
	return line
}

// Summary says what a Run has looked at.
type Summary struct {
	Documents int   `json:"documents"` // lists, indexes, manifests, notifications
	Packages  int   `json:"packages"`  // ZIP files that were read
	Resources int   `json:"resources"` // that were fetched and compared
	Requests  int   `json:"requests"`
	Bytes     int64 `json:"bytes"` // of the answers
	Errors    int   `json:"errors"`
	Warnings  int   `json:"warnings"`
	Notes     int   `json:"notes"`
	// Complete is false where a limit or Config.Allow kept the Run from looking at
	// something; notes say at what.
	Complete bool `json:"complete"`
}

// place is where something is: a document and an element of it.
type place struct {
	uri     string
	line    int
	element string
}

// Limits that were reached. They end what is under way, and are notes.
var (
	errTime     = errors.New("the time is over")
	errRequests = errors.New("as many requests as are allowed were made")
	errBytes    = errors.New("as many bytes as are allowed were read")
	errUnpacked = errors.New("as many bytes as are allowed were unpacked")
)

// errNoFile: a package cannot be put into a temporary file.
var errNoFile = errors.New("no temporary file can be written")

// errNotAllowed: Config.Allow refuses the address.
var errNotAllowed = errors.New("not allowed")
