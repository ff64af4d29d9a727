package hub

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	registered "carillon/source"
	"carillon/subscription"
	"carillon/topic"
)

// A registered Source may ask for the outcome of a notification that it published:
//
//	GET {hub URI}notifications/{id}?topic=URL        Authorization: Bearer TOKEN
//
// The answer to a publication has that address in Location.

// answersPath is where they are below the hub URI.
const answersPath = "notifications/"

// sourceAnswers answers Sources.
type sourceAnswers struct {
	Answers
	cfg    Config
	keeper *gatekeeper
	askers *clients // Sources that ask
}

// newSourceAnswers returns nil where Sources cannot ask at all.
func newSourceAnswers(cfg Config, parts Parts, keeper *gatekeeper, logger *slog.Logger) *sourceAnswers {
	if parts.Answers == nil || parts.Sources == nil {
		return nil
	}
	pace := Config{ClientRate: cfg.AnswerRate, ClientBurst: cfg.AnswerBurst, Clients: registered.MaxSources}
	return &sourceAnswers{parts.Answers, cfg, keeper, newClients(pace, logger)}
}

// address is where a Source can ask for a notification.
func (a *sourceAnswers) address(topic string, id uuid.UUID) string {
	return appendQuery(a.cfg.belowHub(answersPath+id.String()), query{"topic", topic})
}

// get answers a Source.
func (a *sourceAnswers) get(w http.ResponseWriter, r *http.Request) (string, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		return kindAnswer, refuse(
			http.StatusMethodNotAllowed, "What became of a notification is asked for by GET or HEAD.",
		)
	}
	grant, err := a.keeper.authenticate(w, r, kindAnswer)
	if err != nil {
		return kindAnswer, err
	}
	if wait := a.askers.take(grant.Name(), 1, time.Now()); wait > 0 {
		return kindAnswer, &subscription.Later{Err: errAsksTooFast, After: wait}
	}
	return kindAnswer, a.answer(w, r, grant)
}

func (a *sourceAnswers) answer(w http.ResponseWriter, r *http.Request, grant *registered.Grant) error {
	id, err := uuid.Parse(mux.Vars(r)["id"])
	if err != nil || len(mux.Vars(r)["id"]) != len(id.String()) {
		return refuse(
			http.StatusNotFound,
			"The path must end in the ID of a notification, as the answer to its publication had it.",
		)
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
	if len(spelling) > a.cfg.MaxURL {
		return badRequest("topic is longer than %d bytes.", a.cfg.MaxURL)
	}
	if err := a.keeper.covered(w, r, grant, kindAnswer, "topic", topic.Parse(spelling)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.cfg.StoreTimeout)
	defer cancel()
	answer, err := a.Answer(ctx, spelling, id)
	if errors.Is(err, ErrNoNotification) {
		return refuse(
			http.StatusNotFound,
			"This topic has no notification of that ID: it was never published here, or the hub keeps it no longer.",
		)
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
