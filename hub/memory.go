package hub

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"carillon/internal/readings"
	"carillon/payload"
	"carillon/subscription"
	"carillon/topic"
)

// The change memory: a Destination that was away, or for which a notification was given
// up, may read what was published meanwhile from the log of the topic:
//
//	GET {hub URI}memory?topic=URL&from=DATETIME
//
// The answer is a Change List (core §12.1). Its from is what was asked for, and its until
// where to ask again from.

// memoryShare is the part of the room for bodies that those have who read: one body of the
// largest kind at least.
const memoryShare = 4

// memory answers those who read the change memory.
type memory struct {
	cfg      Config
	log      Memory
	clients  *clients
	readers  *clients // those who read
	readings *readings.Readings
	closing  *atomic.Bool
	failures *failures
	metrics  *metrics
}

// get answers a reader of the memory.
func (m *memory) get(w http.ResponseWriter, r *http.Request) (string, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		return kindMemory, refuse(http.StatusMethodNotAllowed, "The change memory is read by GET or HEAD.")
	}
	if m.closing.Load() {
		return kindMemory, errClosing
	}
	wish, err := m.parse(r.URL.RawQuery)
	if err != nil {
		return kindMemory, err
	}
	client := m.clients.of(r)
	if client != "" {
		if wait := m.readers.take(client, 1, time.Now()); wait > 0 {
			return kindMemory, &subscription.Later{Err: errTooFast, After: wait}
		}
	}
	one, r, err := m.readings.Enter(client, w, r)
	if err != nil {
		return kindMemory, err
	}
	defer one.Leave()
	a := &asked{Memory: m.log, wish: wish, reading: one}
	err = m.remember(w, r, a)
	if client != "" {
		m.readers.charge(client, a.cost(), time.Now())
	}
	if errors.Is(err, context.Canceled) && one.WasCut() {
		err = errBusy
	}
	m.metrics.remembered(err)
	return kindMemory, err
}

// parse reads the query of such a request. It refuses unknown parameters: a misspelled from would
// return everything.
func (m *memory) parse(raw string) (memoryWish, error) {
	var wish memoryWish
	values, err := url.ParseQuery(raw)
	if err != nil {
		return wish, badRequest("The query is not form-encoded.")
	}
	for name := range values {
		if !slices.Contains([]string{"topic", "from"}, name) {
			return wish, badRequest("The query has a parameter that is neither topic nor from.")
		}
	}
	spelling, err := required(values, "topic")
	if err != nil {
		return wish, err
	}
	if len(spelling) > m.cfg.MaxURL {
		return wish, badRequest("topic is longer than %d bytes.", m.cfg.MaxURL)
	}
	wish.topic = topic.Key(spelling)
	from, err := single(values, "from")
	if err != nil || !values.Has("from") {
		return wish, err
	}
	at, err := payload.ParseDatetime(from)
	if wish.from = at.Truncate(time.Microsecond); err != nil || wish.from.IsZero() {
		return wish, badRequest(
			"from must be a W3C Datetime, as the from and until of documents are: 2026-05-01T12:00:00.000000Z",
		)
	}
	return wish, nil
}

// remembered records the outcome of a reading of the change memory.
func (m *metrics) remembered(err error) {
	result := readFailed
	gone := (*goneError)(nil)
	switch {
	case err == nil:
		result = readAnswered
	case errors.As(err, &gone):
		result = readGone
	case errors.Is(err, errNoMemory):
		result = readUnknown
	case errors.Is(err, errCutOff):
		result = readCutOff
	}
	m.readings.WithLabelValues(result).Inc()
}
