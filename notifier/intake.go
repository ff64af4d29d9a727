package notifier

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// maxStoredBytes bounds what one request adds to the journal, where an event
	// is kept once for each of its sets: 413.
	maxStoredBytes = 4 * MaxIntakeBytes
	// appendTimeout bounds how long a request waits for the journal: 503, and
	// it is open whether the events are taken.
	appendTimeout = 20 * time.Second
)

// Intake returns what only the Source's own systems should reach:
//
//	POST /sets/NAME/events  events of one set; they must not have sets themselves
//	PUT  /sets/NAME/resources  a snapshot of the set's resources, application/x-ndjson (see Import)
//	POST /events            events that each say which sets they belong to
//	GET  /healthz           200 while the process serves
//	GET  /metrics           for Prometheus
//
// The body is a JSON object or an array of them (application/json) or NDJSON
// (application/x-ndjson), gzip-encoded or not. The answer is 202 with
// {"accepted": N} when all events are durable in the journal; any other answer
// means that none of them was taken, but for a 5xx, which can leave it open.
func (n *Notifier) Intake() http.Handler {
	router := mux.NewRouter().SkipClean(true).UseEncodedPath()
	router.NotFoundHandler = http.HandlerFunc(n.docs.notFound)
	events := &taking{n, n.intake}
	router.Path("/sets/{set}/events").Handler(events.answer(events.forSet))
	router.Path("/events").Handler(events.answer(events.forAny))
	router.Path("/sets/{set}/resources").Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, err := n.imports.serve(w, r)
		if err != nil {
			status = n.docs.fail(w, r, err)
		}
		n.metrics.answered(status)
	}))
	for _, ch := range n.channels {
		ch.routeCompanions(router, "/sets/", true)
	}
	router.Path("/healthz").Handler(n.docs.readOnly(func(w http.ResponseWriter, _ *http.Request) error {
		_, _ = io.WriteString(w, "ok\n") // a client that has gone needs no answer
		return nil
	}))
	metrics := promhttp.HandlerFor(n.cfg.Registry, promhttp.HandlerOpts{})
	router.Path("/metrics").Handler(n.docs.readOnly(func(w http.ResponseWriter, r *http.Request) error {
		metrics.ServeHTTP(w, r)
		return nil
	}))
	return router
}

// taking takes the events of requests.
type taking struct {
	n      *Notifier
	budget *budget
}

// answer answers POST with h, which returns how many events it took.
func (t *taking) answer(h func(http.ResponseWriter, *http.Request) (int, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := only(r, http.MethodPost)
		accepted := 0
		if err == nil {
			accepted, err = h(w, r)
		}
		if err != nil {
			t.n.metrics.answered(t.n.docs.fail(w, r, err))
			return
		}
		t.n.metrics.answered(http.StatusAccepted)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		// A client that has gone needs no answer.
		_ = json.NewEncoder(w).Encode(struct {
			Accepted int `json:"accepted"`
		}{accepted})
	})
}

func (t *taking) forSet(w http.ResponseWriter, r *http.Request) (int, error) {
	set := mux.Vars(r)["set"]
	if t.n.byName[set] == nil {
		return 0, refuse(http.StatusNotFound, "There is no such set.")
	}
	if err := t.n.gate.open(set); err != nil {
		return 0, err
	}
	return t.take(w, r, func(e *Event) error {
		if e.Sets != nil {
			return &InputError{Field: "sets", Reason: "must be left out, as the path names the set"}
		}
		e.Sets = []string{set}
		return nil
	})
}

func (t *taking) forAny(w http.ResponseWriter, r *http.Request) (int, error) {
	return t.take(w, r, t.n.gate.admits)
}

// take reads a request's events, judges each by its sets, and appends them.
func (t *taking) take(w http.ResponseWriter, r *http.Request, judge func(*Event) error) (int, error) {
	parse, unit, err := formatOf(r.Header)
	if err != nil {
		return 0, err
	}
	body, release, err := t.budget.readBody(w, r)
	if err != nil {
		return 0, err
	}
	working := false
	defer func() {
		if !working {
			release()
		}
	}()
	placed, err := parse(body) // which takes several times the memory of a large body
	if err != nil {
		return 0, err
	}
	events, stored := placed.events, 0
	for i := range events {
		if err := judge(&events[i]); err != nil {
			return 0, inputError(err).at(unit, placed.numberOf(i))
		}
		size := RecordSize(&events[i]) + keyOverhead
		for _, set := range events[i].Sets {
			stored += size + len(set)
		}
	}
	if stored > maxStoredBytes {
		return 0, refuse(http.StatusRequestEntityTooLarge,
			"These events belong to so many sets that they are too large together. Send them in several requests.")
	}
	working = true
	return len(events), t.appendWithin(r.Context(), events, release)
}

// appendWithin appends what was read, also when the client goes. When the journal
// takes too long it leaves the appending behind, which may yet succeed; release is
// called at its end.
func (t *taking) appendWithin(ctx context.Context, events []Event, release func()) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), appendTimeout)
	appended := make(chan error, 1)
	go func() {
		defer cancel()
		defer release()
		appended <- t.n.Append(ctx, events)
	}()
	select {
	case err := <-appended:
		return err
	case <-ctx.Done():
		select {
		case err := <-appended: // cancelled by its end
			return err
		default:
			return fmt.Errorf("appending: %w", ctx.Err())
		}
	}
}

// keyOverhead is about what the journal keeps of an event beside its record and
// the name of its set.
const keyOverhead = 16

// parsed are the events of a body, and where they stood.
type parsed struct {
	events []Event
	lines  []int // the line of each event; nil where they are elements
}

func (p parsed) numberOf(i int) int {
	if p.lines != nil {
		return p.lines[i]
	}
	return i + 1
}

// formatOf chooses the parser by Content-Type.
func formatOf(header http.Header) (parse func([]byte) (parsed, error), unit string, err error) {
	kinds := header.Values("Content-Type")
	if len(kinds) != 1 {
		return nil, "", errMediaType
	}
	kind, params, err := mime.ParseMediaType(kinds[0])
	if charset, ok := params["charset"]; err != nil || ok && !strings.EqualFold(charset, "utf-8") {
		return nil, "", errMediaType
	}
	switch kind {
	case "application/json":
		return func(body []byte) (parsed, error) {
			events, err := ParseArray(body, MaxIntakeEvents)
			return parsed{events: events}, err
		}, "element", nil
	case "application/x-ndjson":
		return func(body []byte) (parsed, error) {
			events, lines, err := ParseLines(body, MaxIntakeEvents)
			return parsed{events: events, lines: lines}, err
		}, "line", nil
	}
	return nil, "", errMediaType
}

var errMediaType = refuse(http.StatusUnsupportedMediaType,
	"The Content-Type must be application/json (an event or an array of events) or application/x-ndjson (an event on each line), in UTF-8.")
