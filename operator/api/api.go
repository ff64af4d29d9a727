package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"
)

// apiRoot is where the API begins. An incompatible change gets another version.
const apiRoot = "/api/v1"

// Bounds of the API.
const (
	// answerWithin is how long one answer may take, streams and backups aside: 503 beyond. It stops
	// a store that hangs from holding those who ask.
	answerWithin = 25 * time.Second
	// maxRequest is the largest body of a request, bytes: 413 beyond.
	maxRequest = 1 << 20
)

// api answers the JSON API.
type api struct {
	Config
	latest  Latest
	streams chan struct{} // one for each that is open
}

// route is one operation: the table of them is the API, as openapi.yaml has it.
type route struct {
	method, path string
	// parameters are those that the query may have.
	parameters []string
	serve      func(a *api, w http.ResponseWriter, r *request) error
	// long: it takes as long as it takes.
	long bool
}

// operations are those of one path, by method.
type operations map[string]route

// handle answers the requests of a path.
func (a *api) handle(all operations) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := a.serve(w, r, all); err != nil {
			a.refuse(w, r, err)
		}
	})
}

// serve does what is asked. Nothing is answered yet where it returns an error.
func (a *api) serve(w http.ResponseWriter, r *http.Request, all operations) error {
	if Foreign(r) {
		return Refusal(http.StatusForbidden, "A page of another origin may not ask this.")
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	o, ok := all[method]
	if !ok {
		allowed := all.allowed()
		w.Header().Set("Allow", allowed)
		return Refusal(http.StatusMethodNotAllowed, "This path takes "+allowed+".")
	}
	asked, err := readQuery(r.URL.RawQuery, o.parameters)
	if err != nil {
		return err
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
	if o.long {
		return o.serve(a, w, &request{r, asked})
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
	defer cancel()
	err = o.serve(a, w, &request{r.WithContext(ctx), asked})
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && errors.Is(err, context.DeadlineExceeded) {
		return Refusal(http.StatusServiceUnavailable, "There was no answer within "+answerWithin.String()+".")
	}
	return err
}

// allowed is the header Allow (RFC 9110 §10.2.1).
func (o operations) allowed() string {
	var methods []string
	for method := range o {
		methods = append(methods, method)
		if method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	slices.Sort(methods)
	return strings.Join(methods, ", ")
}

// service returns the Desk, once the question was understood.
func (a *api) service(r *request) (Service, error) {
	if r.err != nil {
		return nil, r.err
	}
	if a.Service == nil {
		return nil, Refusal(http.StatusServiceUnavailable, "The hub only begins. Ask again.")
	}
	return a.Service, nil
}

// respond answers with what the Desk says.
func respond[A any](a *api, w http.ResponseWriter, r *request, ask func(Service) (A, error)) error {
	desk, err := a.service(r)
	if err != nil {
		return err
	}
	answer, err := ask(desk)
	return writeJSON(w, http.StatusOK, answer, err)
}

// refuse answers with an error, and logs one that is not the client's.
func (a *api) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		return // the client is gone
	}
	p := problemOf(err)
	if p.Status == http.StatusInternalServerError {
		a.Logger.LogAttrs(r.Context(), slog.LevelError, "an operator's request failed",
			slog.String("method", r.Method), slog.String("path", pathOf(r)), slog.Any("error", err))
	}
	p.write(w)
}

// pathOf is the path as the table has it, so that IDs stay out of the log.
func pathOf(r *http.Request) string {
	if matched := mux.CurrentRoute(r); matched != nil {
		if path, err := matched.GetPathTemplate(); err == nil {
			return path
		}
	}
	return apiRoot
}
