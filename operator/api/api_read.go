package api

import (
	"net/http"

	"carillon/operator"
)

func (a *api) overview(w http.ResponseWriter, r *request) error {
	desk, err := a.desk()
	if err != nil {
		return err
	}
	answer, err := desk.Overview(r.Context())
	return answerJSON(w, http.StatusOK, answer, err)
}

func (a *api) topics(w http.ResponseWriter, r *request) error {
	q := operator.TopicQuery{Contains: r.text("contains"), Failing: r.boolean("failing"), After: r.text("after"), Limit: r.limit()}
	desk, err := a.asked(r)
	if err != nil {
		return err
	}
	answer, err := desk.Topics(r.Context(), q)
	return answerJSON(w, http.StatusOK, answer, err)
}

func (a *api) topic(w http.ResponseWriter, r *request) error {
	topic := r.topic(true)
	desk, err := a.asked(r)
	if err != nil {
		return err
	}
	answer, err := desk.Topic(r.Context(), topic)
	return answerJSON(w, http.StatusOK, answer, err)
}

func (a *api) notifications(w http.ResponseWriter, r *request) error {
	topic, before, limit := r.topic(true), r.seq("before"), r.limit()
	desk, err := a.asked(r)
	if err != nil {
		return err
	}
	answer, err := desk.Notifications(r.Context(), topic, before, limit)
	return answerJSON(w, http.StatusOK, answer, err)
}

func (a *api) notification(w http.ResponseWriter, r *request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	topic := r.topic(false)
	desk, err := a.asked(r)
	if err != nil {
		return err
	}
	answer, err := desk.Notification(r.Context(), topic, id)
	return answerJSON(w, http.StatusOK, answer, err)
}

func (a *api) subscriptions(w http.ResponseWriter, r *request) error {
	q := operator.SubscriptionQuery{
		Topic: r.topic(false), Contains: r.text("contains"), Host: r.text("host"),
		State:  r.oneOf("state", operator.StateIdle, operator.StateReady, operator.StateInFlight, operator.StateFailing, "behind"),
		Gapped: r.boolean("gapped"), LagOver: r.duration("lag_over"), LeaseUnder: r.duration("lease_under"),
		After: r.id("after"), Limit: r.limit(),
	}
	desk, err := a.asked(r)
	if err != nil {
		return err
	}
	answer, err := desk.Subscriptions(r.Context(), q)
	return answerJSON(w, http.StatusOK, answer, err)
}

func (a *api) subscription(w http.ResponseWriter, r *request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	desk, err := a.desk()
	if err != nil {
		return err
	}
	answer, err := desk.Subscription(r.Context(), id)
	return answerJSON(w, http.StatusOK, answer, err)
}

func (a *api) sources(w http.ResponseWriter, r *request) error {
	desk, err := a.desk()
	if err != nil {
		return err
	}
	answer, err := desk.Sources(r.Context())
	return answerJSON(w, http.StatusOK, answer, err)
}

// VersionAnswer tells whom one speaks to.
type VersionAnswer struct {
	Version string `json:"version"`
	// Publishers is who may publish: open, everybody; registered, Sources that are. It is
	// not told where a command answers that has opened the store itself.
	Publishers string `json:"publishers,omitempty"`
}

func (a *api) version(w http.ResponseWriter, _ *request) error {
	return answerJSON(w, http.StatusOK, VersionAnswer{Version: a.Version, Publishers: a.Publishers}, nil)
}

// LevelAnswer is the least level of log lines, asked or told.
type LevelAnswer struct {
	Level string `json:"level"` // debug, info, warn or error
}

func (a *api) logLevel(w http.ResponseWriter, _ *request) error {
	if a.Level == nil {
		return errNoLevel
	}
	return answerJSON(w, http.StatusOK, LevelAnswer{a.Level.Get()}, nil)
}

var errNoLevel = Refusal(http.StatusConflict, "No hub runs here that has log lines.")
