package notifier

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
)

// httpError is an error with the answer for it.
type httpError struct {
	status int
	text   string // for the client: a sentence that shows nothing from inside
	cause  error  // for the log; nil if the client alone is to blame
	header http.Header
}

func (e *httpError) Error() string {
	if e.cause != nil {
		return e.text + ": " + e.cause.Error()
	}
	return e.text
}

func (e *httpError) Unwrap() error { return e.cause }

func refuse(status int, text string) error { return &httpError{status: status, text: text} }

const tooLongText = "The events of one request may have 52428800 bytes in all."

// answerOf is the table from errors to answers.
func answerOf(err error) *httpError {
	var answer *httpError
	var wrong *InputError
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &answer):
		return answer
	case errors.As(err, &wrong) && errors.Is(err, ErrTooMany):
		return &httpError{status: http.StatusRequestEntityTooLarge, text: wrong.Error()}
	case errors.As(err, &wrong):
		return &httpError{status: http.StatusBadRequest, text: wrong.Error()}
	case errors.Is(err, ErrTooMany):
		return &httpError{status: http.StatusRequestEntityTooLarge, text: "There may be 50000 events in one request."}
	case errors.As(err, &tooLong):
		return &httpError{status: http.StatusRequestEntityTooLarge, text: tooLongText}
	case errors.Is(err, ErrUnavailable), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &httpError{
			status: http.StatusServiceUnavailable, cause: err, header: http.Header{"Retry-After": {"5"}},
			text: "The journal cannot take or give anything at the moment. Try again.",
		}
	}
	return &httpError{status: http.StatusInternalServerError, cause: err, text: "Something went wrong here."}
}

// handler is a http.Handler that leaves the answer to its errors to answerOf.
type handler func(http.ResponseWriter, *http.Request) error

// answers writes answers to requests.
type answers struct{ log *slog.Logger }

// fail writes the answer to an error, and returns its status.
func (a answers) fail(w http.ResponseWriter, r *http.Request, err error) int {
	answer := answerOf(err)
	header := w.Header()
	for _, name := range []string{
		"Content-Length", "Content-Encoding", "Cache-Control", "ETag", "Last-Modified", "Link",
	} {
		header.Del(name)
	}
	for name, values := range answer.header {
		header[name] = values
	}
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(answer.status)
	if answer.cause != nil && r.Context().Err() == nil {
		a.log.Error("a request failed", "status", answer.status, "error", answer.cause)
	}
	_, _ = io.WriteString(w, answer.text+"\n") // a client that has gone needs no answer
	return answer.status
}

// readOnly answers GET and HEAD with h, and everything else with 405.
func (a answers) readOnly(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := only(r, http.MethodGet, http.MethodHead)
		if err == nil {
			err = h(w, r)
		}
		if err != nil {
			a.fail(w, r, err)
		}
	})
}

// only refuses methods that are not among those allowed.
func only(r *http.Request, allowed ...string) error {
	for _, method := range allowed {
		if r.Method == method {
			return nil
		}
	}
	allow := strings.Join(allowed, ", ")
	return &httpError{
		status: http.StatusMethodNotAllowed, header: http.Header{"Allow": {allow}},
		text: "This path takes " + allow + " only.",
	}
}

func (a answers) notFound(w http.ResponseWriter, r *http.Request) {
	a.fail(w, r, refuse(http.StatusNotFound, "There is nothing at this path."))
}
