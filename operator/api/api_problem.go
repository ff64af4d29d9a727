package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"carillon/operator"
)

// Problem is how the API says that something is wrong (RFC 9457).
type Problem struct {
	// Type is always about:blank: the status says all that a program must know.
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Detail is a sentence or two for people.
	Detail string `json:"detail"`
	// Parameter names what is wrong in the query, the path or the body.
	Parameter string `json:"parameter,omitempty"`
}

// Error is the text for people.
func (p Problem) Error() string { return p.Detail }

// Refusal is an error with a status.
func Refusal(status int, detail string) Problem {
	return Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail}
}

// wrong is a 400 that names the parameter.
func wrong(parameter, detail string) Problem {
	p := Refusal(http.StatusBadRequest, parameter+" "+detail)
	p.Parameter = parameter
	return p
}

// errorTable maps the errors of a Desk to a status. Any other error is 500, and its text goes only to
// the log.
var errorTable = []struct {
	err    error
	status int
}{
	{operator.ErrNotFound, http.StatusNotFound},
	{operator.ErrInvalid, http.StatusBadRequest},
	{operator.ErrConflict, http.StatusConflict},
	{operator.ErrUnavailable, http.StatusServiceUnavailable},
}

// problemOf says an error to the client.
func problemOf(err error) Problem {
	if p, is := errors.AsType[Problem](err); is {
		return p
	}
	for _, row := range errorTable {
		if errors.Is(err, row.err) {
			return Refusal(row.status, sentence(strings.TrimPrefix(err.Error(), row.err.Error()+": ")))
		}
	}
	return Refusal(http.StatusInternalServerError, "The hub could not do this: its log says why.")
}

// sentence begins with a capital letter, unless that is one of a name, and ends with a full stop.
func sentence(text string) string {
	word, _, _ := strings.Cut(text, " ")
	if word == "" {
		return text
	}
	if !strings.ContainsFunc(word, func(r rune) bool { return r < 'a' || r > 'z' }) {
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	if last := text[len(text)-1]; last != '.' && last != '!' && last != '?' {
		text += "."
	}
	return text
}

// retryAfter is what a 503 and a 429 advise, whole seconds.
const retryAfter = "5"

// write answers with the problem.
func (p Problem) write(w http.ResponseWriter) {
	switch p.Status {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		if w.Header().Get("Retry-After") == "" {
			w.Header().Set("Retry-After", retryAfter)
		}
	}
	text, _ := json.Marshal(p) // strings and a number
	writeText(w, p.Status, "application/problem+json", append(text, '\n'))
}
