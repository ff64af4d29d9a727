package hub

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"carillon/internal/bodies"
	"carillon/internal/egress"
	"carillon/internal/weblink"
	"carillon/subscription"
)

// The paths that the hub serves below its URI besides the endpoint itself.
const (
	selfPath   = "self/"  // where it answers itself
	memoryPath = "memory" // its memory of topics
)

// relArchives is the relation by which the answer to a request to subscribe names the
// memory of its topic ("archives" is registered at IANA: historical records).
const relArchives = "archives"

// mediaXML is the media type of ResourceSync documents (CN §4.1).
const mediaXML = "application/xml"

// Hub answers the requests of Sources and Destinations. Its handler may be used
// before Run, but what pings ask for is fetched while Run runs, by the process that
// owns the topic's shard (Gained, Lost).
type Hub struct {
	cfg      Config
	parts    Parts
	self     string // the hub URL in the form to compare by
	fetcher  *fetcher
	keeper   *gatekeeper
	page     page
	bodies   *bodies.Room
	clients  *clients
	answers  *sourceAnswers // nil: Sources cannot ask the outcome of notifications
	memory   *memory
	closing  atomic.Bool
	nonce    string                     // of SelfAddress
	origin   http.CrossOriginProtection // of the hub's own pages only
	failures *failures
	// lookalikes reports publications that look like notifications and are not.
	lookalikes *lookalikes
	logger     *slog.Logger
	metrics    *metrics
}

// handle makes an http.Handler of a function that reports what kind of request it
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
		// A body that came too slowly is no longer coming, and a client that awaits 100 Continue has not
		// begun.
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

func (h *Hub) notFound(http.ResponseWriter, *http.Request) (string, error) {
	return kindOther, refuse(http.StatusNotFound, "There is nothing here. The hub is at %s", h.cfg.URL)
}

func methodNotAllowed(w http.ResponseWriter, _ *http.Request) (string, error) {
	w.Header().Set("Allow", "GET, HEAD, POST")
	return kindOther, refuse(http.StatusMethodNotAllowed, "The hub takes GET, HEAD and POST.")
}

// writeError answers a request that failed, and logs what is the hub's own fault.
func (h *Hub) writeError(w http.ResponseWriter, r *http.Request, err error) {
	a := answerFor(err)
	if a.silent && r.Context().Err() != nil {
		return
	}
	if a.silent {
		a = answer{
			status:  http.StatusServiceUnavailable,
			message: "The request was broken off. Try again later.", retry: true,
		}
	}
	if a.ours {
		h.failures.note(r.Method, a.status, err)
	}
	if a.limit != "" {
		h.metrics.limits.WithLabelValues(string(a.limit)).Inc()
	}
	if a.retry {
		wait := h.cfg.RetryAfter
		if later := (*subscription.Later)(nil); errors.As(err, &later) {
			wait = later.After
		}
		w.Header().Set("Retry-After", retryAfter(wait))
	}
	writeText(w, a.status, a.message)
}

// readBody reads the whole body of a request, whose memory stays counted until
// release is called, also after an error: *http.MaxBytesError beyond limit,
// os.ErrDeadlineExceeded if the client stops in the middle or is too slow, errBusy
// if there is no room.
func (h *Hub) readBody(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, release func(), err error) {
	held := h.bodies.Hold()
	limits := bodies.Limits{
		Most: limit, Idle: h.cfg.BodyIdle, Rate: h.cfg.BodyRate, Timeout: h.cfg.BodyTimeout,
	}
	body, err = limits.Read(w, r, &held)
	if err != nil {
		return nil, held.Release, readError(err)
	}
	return body, held.Release, nil
}

// readError keeps the errors of reading that the table of answers knows; every
// other says that the body broke off or was not HTTP.
func readError(err error) error {
	var tooLong *http.MaxBytesError
	if errors.As(err, &tooLong) || errors.Is(err, errBusy) || answerFor(err).status == http.StatusRequestTimeout ||
		answerFor(err).status == http.StatusBadRequest {
		return err
	}
	return &requestError{http.StatusBadRequest, "The body could not be read to its end.", err}
}

// checkAddress reports the faults of a topic or callback that came in the
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
		return &requestError{
			http.StatusForbidden,
			name + " has a port that this hub does not connect to: it is below 1024, or belongs to another service than the web.",
			err,
		}
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

// belowHub is an address below the hub URI.
func (c Config) belowHub(path string) string {
	return strings.TrimSuffix(c.URL, "/") + "/" + path
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

// memoryLink is the Link value with the address of a topic's memory.
func (h *Hub) memoryLink(topic string) string {
	return weblink.Link{
		URI: appendQuery(h.cfg.belowHub(memoryPath), query{"topic", topic}), Rel: []string{relArchives},
		Params: []weblink.Param{{Name: "type", Value: mediaXML}},
	}.String()
}
