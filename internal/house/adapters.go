package house

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"carillon/hub"
	"carillon/operator"
	"carillon/subscription"
)

// ender ends subscriptions for the dispatcher, which is made before the service and runs after it
// is made.
type ender struct{ *House }

func (e ender) Remove(ctx context.Context, sub subscription.Subscription) (bool, error) {
	return e.service.Remove(ctx, sub)
}

// confirmer speaks to callbacks: to those of the hub's own listeners within the process, to
// all others by HTTP.
type confirmer struct {
	inside  *operator.TestCallbacks
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

// Deny sends a denial to the callback, unless it is a test callback of this hub.
func (c confirmer) Deny(ctx context.Context, topic, callback, reason string) error {
	if operator.Owns(callback) {
		return c.inside.Deny(ctx, topic, callback, reason)
	}
	return c.outside.Deny(ctx, topic, callback, reason)
}

// fates answers Sources that ask the outcome of their notifications. The operator service
// exists only after the hub that asks it.
type fates struct{ *House }

// Answer asks the desk.
func (a fates) Answer(ctx context.Context, topic string, id uuid.UUID) (hub.Answer, error) {
	n, cover, err := a.operatorService.Fate(ctx, topic, id)
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
