package api

import (
	"net/http"

	"carillon/operator"
)

func (a *api) overview(w http.ResponseWriter, r *request) error {
	return respond(a, w, r, func(desk Service) (operator.Overview, error) {
		return desk.Overview(r.Context())
	})
}

func (a *api) topics(w http.ResponseWriter, r *request) error {
	q := operator.TopicQuery{
		Contains: r.text("contains"), Failing: r.boolean("failing"), After: r.text("after"), Limit: r.limit(),
	}
	return respond(a, w, r, func(desk Service) (operator.TopicPage, error) {
		return desk.Topics(r.Context(), q)
	})
}

func (a *api) topic(w http.ResponseWriter, r *request) error {
	topic := r.topic(true)
	return respond(a, w, r, func(desk Service) (operator.Topic, error) {
		return desk.Topic(r.Context(), topic)
	})
}

func (a *api) notifications(w http.ResponseWriter, r *request) error {
	topic, before, limit := r.topic(true), r.seq("before"), r.limit()
	return respond(a, w, r, func(desk Service) (operator.NotificationPage, error) {
		return desk.Notifications(r.Context(), topic, before, limit)
	})
}

func (a *api) notification(w http.ResponseWriter, r *request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	topic := r.topic(false)
	return respond(a, w, r, func(desk Service) (operator.NotificationDetail, error) {
		return desk.Notification(r.Context(), topic, id)
	})
}

func (a *api) subscriptions(w http.ResponseWriter, r *request) error {
	q := operator.SubscriptionQuery{
		Topic: r.topic(false), Contains: r.text("contains"), Host: r.text("host"),
		State: r.oneOf(
			"state", operator.StateIdle, operator.StateReady, operator.StateInFlight, operator.StateFailing, "behind",
		),
		Gapped: r.boolean("gapped"), LagOver: r.duration("lag_over"), LeaseUnder: r.duration("lease_under"),
		After: r.id("after"), Limit: r.limit(),
	}
	return respond(a, w, r, func(desk Service) (operator.SubscriptionPage, error) {
		return desk.Subscriptions(r.Context(), q)
	})
}

func (a *api) subscription(w http.ResponseWriter, r *request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	return respond(a, w, r, func(desk Service) (operator.SubscriptionDetail, error) {
		return desk.Subscription(r.Context(), id)
	})
}

func (a *api) sources(w http.ResponseWriter, r *request) error {
	return respond(a, w, r, func(desk Service) ([]operator.Source, error) {
		return desk.Sources(r.Context())
	})
}

// VersionResponse names the program that answers.
type VersionResponse struct {
	Version string `json:"version"`
	// Publishers is open, for all clients, or registered, for registered Sources. It is empty where a
	// command answers that has opened the store itself.
	Publishers string `json:"publishers,omitempty"`
}

func (a *api) version(w http.ResponseWriter, _ *request) error {
	return writeJSON(w, http.StatusOK, VersionResponse{Version: a.Version, Publishers: a.Publishers}, nil)
}

// LevelResponse is the least level of log lines, read or set.
type LevelResponse struct {
	Level string `json:"level"` // debug, info, warn or error
}

func (a *api) logLevel(w http.ResponseWriter, _ *request) error {
	if a.Level == nil {
		return errNoLevel
	}
	return writeJSON(w, http.StatusOK, LevelResponse{a.Level.Get()}, nil)
}

var errNoLevel = Refusal(http.StatusConflict, "No hub runs here that has log lines.")
