package hub

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	registered "carillon/source"
	"carillon/subscription"
	"carillon/topic"
)

// A registered Source may ask what became of a notification that it published:
//
//	GET {hub URI}notifications/{id}?topic=URL        Authorization: Bearer TOKEN
//
// A publish tells it that address in Location.

// answersPath is where they are below the hub URI.
const answersPath = "notifications/"

// answersFor is the pattern of the path for the router: below the path of the hub URI.
func answersFor(hubURL string) string {
	paths := endpointPaths(hubURL)
	if len(paths) == 0 {
		return ""
	}
	return paths[len(paths)-1] + answersPath + "{id}"
}

// answerAddress is where a Source can ask for a notification.
func (h *Hub) answerAddress(topic string, id uuid.UUID) string {
	base := h.cfg.URL
	if !strings.HasSuffix(base, "/") {
		base += "/"
	}
	return appendQuery(base+answersPath+id.String(), query{"topic", topic})
}

// answers tells whether Sources can ask at all.
func (h *Hub) answers() bool { return h.parts.Answers != nil && h.keeper.sources != nil }

// getAnswer answers a Source.
func (h *Hub) getAnswer(w http.ResponseWriter, r *http.Request) (string, error) {
	if !h.answers() {
		return h.notFound(w, r)
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		return kindAnswer, refuse(http.StatusMethodNotAllowed, "What became of a notification is asked for by GET or HEAD.")
	}
	grant, err := h.keeper.authenticate(w, r, kindAnswer)
	if err != nil {
		return kindAnswer, err
	}
	if wait := h.askers.take(grant.Name(), 1, time.Now()); wait > 0 {
		return kindAnswer, &subscription.Later{Err: errAsksTooFast, After: wait}
	}
	return kindAnswer, h.answerSource(w, r, grant)
}

func (h *Hub) answerSource(w http.ResponseWriter, r *http.Request, grant *registered.Grant) error {
	id, err := uuid.Parse(mux.Vars(r)["id"])
	if err != nil || len(mux.Vars(r)["id"]) != len(id.String()) {
		return refuse(http.StatusNotFound, "The path must end in the ID of a notification, as the answer to its publication had it.")
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badRequest("The query is not form-encoded.")
	}
	spelling, err := single(values, "topic")
	if err == nil && spelling == "" {
		err = badRequest("topic is missing in the query: it is the topic that the notification was published to.")
	}
	if err != nil {
		return err
	}
	if len(spelling) > h.cfg.MaxURL {
		return badRequest("topic is longer than %d bytes.", h.cfg.MaxURL)
	}
	if err := h.keeper.covered(w, r, grant, kindAnswer, "topic", topic.Parse(spelling)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.cfg.StoreTimeout)
	defer cancel()
	answer, err := h.parts.Answers.Answer(ctx, spelling, id)
	if errors.Is(err, ErrNoNotification) {
		return refuse(http.StatusNotFound, "This topic has no notification of that ID: it was never published here, or the hub keeps it no longer.")
	}
	if err != nil {
		return err
	}
	return writeJSON(w, answer)
}

// writeJSON answers with a JSON object.
func writeJSON(w http.ResponseWriter, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	head := w.Header()
	head.Set("Content-Type", "application/json")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Cache-Control", "no-store")
	head.Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text) // who asked is gone
	return nil
}
