package hub

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"carillon/internal/bodies"
	"carillon/internal/egress"
)

// Handler serves the hub: its endpoint at the path of Config.URL, with a slash at
// the end and without, and 404 everywhere else.
func (h *Hub) Handler() http.Handler {
	// The path is matched as it was sent: cleaning it would answer a POST
	// with a redirect.
	r := mux.NewRouter().SkipClean(true).UseEncodedPath()
	for _, path := range endpointPaths(h.cfg.URL) {
		r.Path(path).Methods(http.MethodGet, http.MethodHead).Handler(h.handle(h.getPage))
		r.Path(path).Methods(http.MethodPost).Handler(h.handle(h.post))
		r.Path(path).Handler(h.handle(methodNotAllowed))
	}
	if h.answers() {
		r.Path(answersFor(h.cfg.URL)).Handler(h.handle(h.getAnswer))
	}
	if paths := endpointPaths(h.cfg.URL); len(paths) > 0 && h.parts.Memory != nil {
		r.Path(paths[len(paths)-1] + memoryPath).Handler(h.handle(h.getMemory))
	}
	if paths := endpointPaths(h.cfg.URL); len(paths) > 0 {
		r.Path(paths[len(paths)-1] + selfPath + "{nonce}").Methods(http.MethodGet).Handler(h.handle(h.getSelf))
	}
	r.NotFoundHandler = h.handle(h.notFound)
	return postsFirst(endpointPaths(h.cfg.URL), h.handle(h.post), r)
}

// postsFirst gives the POSTs at one of the paths to post without asking the router, which
// would give them to it too: publishing is what is done most often by far.
func postsFirst(paths []string, post, router http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && slices.Contains(paths, r.URL.EscapedPath()) {
			post.ServeHTTP(w, r)
			return
		}
		router.ServeHTTP(w, r)
	})
}

// endpointPaths returns the path of the hub URL without and with a slash at its end.
func endpointPaths(hubURL string) []string {
	u, err := url.Parse(hubURL)
	if err != nil { // New has refused it
		return nil
	}
	base := strings.TrimRight(u.EscapedPath(), "/")
	if base == "" {
		return []string{"/"}
	}
	return []string{base, base + "/"}
}

// handle makes an http.Handler of a function that tells what kind of request it
// found and what went wrong. On error nothing was written yet, but with errCutOff.
func (h *Hub) handle(f func(http.ResponseWriter, *http.Request) (kind string, err error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		both := &struct { // one allocation
			statusRecorder
			bodies.Tracked
		}{statusRecorder{ResponseWriter: w}, bodies.Tracked{ReadCloser: r.Body, Done: r.ContentLength == 0}}
		rec, body := &both.statusRecorder, &both.Tracked
		r.Body = body
		kind, err := f(rec, r)
		if errors.Is(err, errCutOff) {
			h.metrics.answered(kind, rec.status, began)
			panic(http.ErrAbortHandler)
		}
		if err != nil {
			if !body.Done {
				bodies.Abandon(rec)
			}
			h.writeError(rec, r, err)
		}
		h.metrics.answered(kind, rec.status, began)
		// Who was too slow is not sending, and who waits to be asked has not begun.
		if err != nil && !body.Done && rec.status != http.StatusRequestTimeout && r.Header.Get("Expect") == "" {
			bodies.Linger(rec, body)
		}
	})
}

// statusRecorder remembers the status for the metrics.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader remembers the status and passes it on.
func (s *statusRecorder) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the connection.
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// statusLabel names a status in metrics. It is one of those this package writes;
// a client that hung up got none.
func statusLabel(status int) string {
	switch status {
	case 0:
		return "none"
	case http.StatusOK:
		return "200"
	}
	return strconv.Itoa(status)
}

func (h *Hub) notFound(http.ResponseWriter, *http.Request) (string, error) {
	return kindOther, refuse(http.StatusNotFound, "There is nothing here. The hub is at %s", h.cfg.URL)
}

func methodNotAllowed(w http.ResponseWriter, _ *http.Request) (string, error) {
	w.Header().Set("Allow", "GET, HEAD, POST")
	return kindOther, refuse(http.StatusMethodNotAllowed, "The hub takes GET, HEAD and POST.")
}

// errForeignPage refuses what a page of another origin has a visitor's browser send: the
// hub may be where only the visitor can reach it, and limits count his address.
var errForeignPage = refuse(http.StatusForbidden, "A web page of another origin may not have a visitor's browser send this. Send it from a server.")

// post tells by the media type what a POST means.
func (h *Hub) post(w http.ResponseWriter, r *http.Request) (string, error) {
	if h.closing.Load() {
		return kindOther, errClosing
	}
	if h.origin.Check(r) != nil {
		return kindOther, errForeignPage
	}
	media, params, err := mediaType(r.Header)
	if err != nil {
		return kindOther, err
	}
	if media == "application/x-www-form-urlencoded" {
		return h.form(w, r, params["charset"])
	}
	return kindPublish, h.publish(w, r, media)
}

// mediaType reads Content-Type, and refuses codings: what is relayed is the
// content itself, and signatures are made over it.
func mediaType(header http.Header) (media string, params map[string]string, err error) {
	values := header.Values("Content-Type")
	if len(values) != 1 {
		return "", nil, refuse(http.StatusUnsupportedMediaType,
			"Exactly one Content-Type is needed: application/x-www-form-urlencoded for hub.mode, or the media type of what is published.")
	}
	media, params, err = mime.ParseMediaType(values[0])
	if err != nil || !strings.Contains(media, "/") {
		return "", nil, refuse(http.StatusUnsupportedMediaType, "Content-Type is not a media type.")
	}
	for _, coding := range header.Values("Content-Encoding") {
		if !strings.EqualFold(strings.TrimSpace(coding), "identity") {
			return "", nil, refuse(http.StatusUnsupportedMediaType, "Content-Encoding is not supported: send the body without one.")
		}
	}
	return media, params, nil
}

// checkAddress says what is wrong with a topic or callback that came in the
// parameter, as far as it can be said at once.
func (h *Hub) checkAddress(name, raw string) error {
	if len(raw) > h.cfg.MaxURL {
		return badRequest("%s is longer than %d bytes.", name, h.cfg.MaxURL)
	}
	err := h.parts.Addresses.CheckURL(raw)
	if err == nil {
		return nil
	}
	var bad *egress.BadURL
	switch {
	case errors.As(err, &bad):
		return &requestError{http.StatusBadRequest, name + " " + bad.Rule + ".", err}
	case errors.Is(err, egress.ErrPort):
		return &requestError{http.StatusForbidden, name + " has a port that this hub does not connect to: it is below 1024, or belongs to another service than the web.", err}
	case errors.Is(err, egress.ErrForbidden):
		return &requestError{http.StatusForbidden, name + " is in a network that this hub does not reach.", err}
	}
	return &requestError{http.StatusBadRequest, name + " is not a URL that this hub can make a request to.", err}
}

// storing returns the context for keeping what a request asks for: a client that
// hangs up does not break it off, StoreTimeout does.
func (h *Hub) storing(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), h.cfg.StoreTimeout)
}
