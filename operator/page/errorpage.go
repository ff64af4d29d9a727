package page

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"carillon/operator"
)

// errorPage is an error as a page shows it: its kind, its own words, and the remedy.
type errorPage struct {
	Status int
	Title  string
	Text   string // the error's own words; may be foreign
	Advice string
}

// Error implements error.
func (t *errorPage) Error() string { return t.Title }

// errorPages are the errors of a Desk.
var errorPages = []struct {
	is error
	errorPage
}{
	{operator.ErrNotFound, errorPage{
		Status: http.StatusNotFound, Title: "There is no such thing here",
		Advice: "It may have ended, been removed or gone from the log since. Search for it with the box at the top.",
	}},
	{operator.ErrInvalid, errorPage{
		Status: http.StatusBadRequest, Title: "That cannot be answered",
		Advice: "Mend what was entered and try again. Nothing was changed.",
	}},
	{operator.ErrConflict, errorPage{
		Status: http.StatusConflict, Title: "That cannot be done as things stand",
		Advice: "Nothing was changed. Look at how things stand now, then decide again.",
	}},
	{operator.ErrUnavailable, errorPage{
		Status: http.StatusServiceUnavailable, Title: "The store, or the hub process that knows, does not answer",
		Advice: "Load this page again in a moment. If it stays like this, the checks on the overview and the hub's log say what is wrong.",
	}},
	{context.DeadlineExceeded, errorPage{
		Status: http.StatusServiceUnavailable, Title: "There was no answer in time",
		Advice: "Load this page again in a moment, or ask for less: a filter by topic or host makes the answer shorter.",
	}},
}

// errorPageOf makes an error page of an error; nil for an unforeseen one.
func errorPageOf(err error) *errorPage {
	if t, ok := errors.AsType[*errorPage](err); ok {
		return t
	}
	for _, known := range errorPages {
		if errors.Is(err, known.is) {
			t := known.errorPage
			t.Text = strings.TrimPrefix(err.Error(), known.is.Error()+": ")
			return &t
		}
	}
	return nil
}
