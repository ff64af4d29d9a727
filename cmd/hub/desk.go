package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/program"
	"carillon/hub"
	"carillon/operator"
	"carillon/operator/api"
	"carillon/subscription"
)

var _ api.Desk = (*operator.Desk)(nil)

// joinDesk makes the operator's desk of a hub, once all its rooms are there.
func (h *house) joinDesk() (err error) {
	cfg := operator.Config{
		URL: h.url, Engine: h.store.name(), Version: program.Version, Started: time.Now(),
		Deliveries: h.dispatcher, Log: h.store.Log, Cursors: h.store.Cursors,
		Subscriptions: h.store.Subscriptions, Sources: h.store.Sources, Peers: h.store.Peers,
		Requests: h.service, Waiting: h.service.Pending, Connections: h.connections, Listeners: h.heard, CheckTopic: h.dialer.CheckURL, Check: h.check,
		Checks: h.checked, Warnings: h.warnings, Logger: h.logger,
	}
	if h.sources != nil {
		cfg.Registry = h.sources
	}
	h.desk, err = operator.New(cfg)
	return err
}

// name is the engine's, as operators are told it.
func (e *engine) name() string {
	if e.Directory != "" {
		return "pebble"
	}
	return "redis"
}

// checked are the checks of /readyz, as the overview shows them.
func (h *house) checked(ctx context.Context) []operator.Check {
	var all []operator.Check
	for _, c := range h.checks() {
		err := c.Run(ctx)
		shown := operator.Check{Name: c.Name, Ready: err == nil}
		if err != nil {
			shown.Error = err.Error()
		}
		all = append(all, shown)
	}
	return all
}

// confirmer speaks to callbacks: to those of the hub's own listeners within the process, to
// all others by HTTP.
type confirmer struct {
	inside  *operator.Listeners
	outside subscription.Confirmer
}

var _ subscription.Confirmer = confirmer{}

// Confirm asks whether a request was meant.
func (c confirmer) Confirm(ctx context.Context, r subscription.Request, challenge string) error {
	if operator.Owns(r.Callback) {
		return c.inside.Confirm(ctx, r, challenge)
	}
	return c.outside.Confirm(ctx, r, challenge)
}

// Deny tells of a denial.
func (c confirmer) Deny(ctx context.Context, topic, callback, reason string) error {
	if operator.Owns(callback) {
		return c.inside.Deny(ctx, topic, callback, reason)
	}
	return c.outside.Deny(ctx, topic, callback, reason)
}

// sourceAnswers tells Sources what became of their notifications. The desk is made after the
// hub that asks it.
type sourceAnswers struct{ *house }

// Answer asks the desk.
func (a sourceAnswers) Answer(ctx context.Context, topic string, id uuid.UUID) (hub.Answer, error) {
	n, cover, err := a.desk.Fate(ctx, topic, id)
	switch {
	case errors.Is(err, operator.ErrNotFound), errors.Is(err, operator.ErrInvalid):
		return hub.Answer{}, fmt.Errorf("%w: %w", hub.ErrNoNotification, err)
	case err != nil:
		return hub.Answer{}, err
	}
	return hub.Answer{
		ID: n.ID, Topic: n.Topic, Seq: n.Seq, Accepted: n.Accepted,
		Subscribers: n.Tally.Subscribers, Delivered: n.Tally.Delivered, Pending: n.Tally.Pending,
		Failing: n.Tally.Failing, GivenUp: n.Tally.GivenUp, Trimmed: n.Tally.Trimmed, MissingShards: cover.MissingShards,
	}, nil
}
