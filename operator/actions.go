package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"carillon/delivery"
	"carillon/subscription"
)

// Every change goes to the process that holds the subscription's shard. The others answer
// that they do not.

type onePlea struct {
	ID     subscription.ID `json:"id"`
	From   delivery.Seq    `json:"from,omitempty"`
	Last   delivery.Seq    `json:"last,omitempty"`
	Reason string          `json:"reason,omitempty"`
}

// done is what came of it. Held: this process holds the subscription, and did it.
type done struct {
	Held   bool   `json:"held"`
	Replay Replay `json:"replay,omitzero"`
}

var (
	retrying  = kind[onePlea, done]{name: "retry", answer: (*here).retry, once: true}
	replaying = kind[onePlea, done]{name: "replay", answer: (*here).replay, once: true}
	removing  = kind[onePlea, done]{name: "remove", answer: (*here).remove, once: true}
)

// MaxReason is the longest reason of a removal, bytes: it goes into the address of a request.
const MaxReason = 500

// has tells whether this process holds a subscription.
func (h *here) has(id subscription.ID) bool {
	if h.cfg.Deliveries == nil {
		return false
	}
	_, there := h.cfg.Deliveries.Standing(id)
	return there
}

func (h *here) retry(ctx context.Context, p onePlea) (done, error) {
	if !h.has(p.ID) {
		return done{}, nil
	}
	err := h.cfg.Deliveries.RetryNow(ctx, p.ID)
	switch {
	case elsewhere(err):
		return done{}, nil
	case err != nil:
		return done{}, repairError("retrying", p.ID, err)
	}
	h.log.Info("an operator had a subscription tried again", "subscription", p.ID)
	return done{Held: true}, nil
}

func (h *here) replay(ctx context.Context, p onePlea) (done, error) {
	if !h.has(p.ID) {
		return done{}, nil
	}
	first, last, err := h.cfg.Deliveries.Replay(ctx, p.ID, p.From, p.Last)
	switch {
	case elsewhere(err):
		return done{}, nil
	case err != nil:
		return done{}, repairError("replaying to", p.ID, err)
	}
	h.log.Info("an operator had notifications delivered once more", "subscription", p.ID, "from", first, "last", last)
	return done{Held: true, Replay: Replay{Next: first, Last: last}}, nil
}

func (h *here) remove(ctx context.Context, p onePlea) (done, error) {
	if !h.has(p.ID) {
		return done{}, nil
	}
	sub, err := h.cfg.Subscriptions.Get(ctx, p.ID)
	if errors.Is(err, subscription.ErrNotFound) {
		return done{}, nil
	}
	if err != nil {
		return done{}, fmt.Errorf("reading subscription %s: %w", p.ID, err)
	}
	switch err := h.end(ctx, sub, p.Reason); {
	case errors.Is(err, subscription.ErrNotFound):
		return done{}, nil
	case errors.Is(err, subscription.ErrSuperseded):
		return done{}, fmt.Errorf("%w: subscription %s was renewed at this moment: try again", ErrConflict, p.ID)
	case errors.Is(err, subscription.ErrBusy):
		return done{}, fmt.Errorf("%w: too many callbacks wait to be told of their end: %w", ErrUnavailable, err)
	case err != nil:
		return done{}, fmt.Errorf("removing subscription %s: %w", p.ID, err)
	}
	h.log.Info("an operator removed a subscription", "subscription", sub, "reason", p.Reason)
	return done{Held: true}, nil
}

// end ends a subscription. Where no hub runs its callback is told nothing.
func (h *here) end(ctx context.Context, sub subscription.Subscription, reason string) error {
	if h.cfg.Requests != nil {
		return h.cfg.Requests.Deny(ctx, sub, reason)
	}
	removed, err := h.cfg.Subscriptions.Remove(ctx, sub)
	if err == nil && !removed {
		return subscription.ErrSuperseded
	}
	if err == nil && h.cfg.Deliveries != nil {
		h.cfg.Deliveries.Ended(sub.ID)
	}
	return err
}

// tell has the process that holds a subscription do something.
func (d *subscriptionDesk) tell(ctx context.Context, k kind[onePlea, done], p onePlea) (done, error) {
	if d.has(p.ID) && !d.isUnsure() { // else who has taken it over is to do it
		if did, err := k.answer(d.here, ctx, p); err != nil || did.Held {
			return did, err
		}
	}
	parts, troubles := askAll(ctx, d.here, k, p)
	var unsure error
	for _, part := range parts {
		switch {
		case part.err == nil && part.answer.Held:
			return part.answer, nil
		case part.err == nil:
		case errors.Is(part.err, ErrNotFound), errors.Is(part.err, ErrInvalid), errors.Is(part.err, ErrConflict):
			return done{}, part.err
		default:
			unsure = fmt.Errorf("process %s: %w", part.process, part.err)
		}
	}
	if _, err := d.cfg.Subscriptions.Get(ctx, p.ID); unsure != nil && !errors.Is(err, subscription.ErrNotFound) {
		return done{}, fmt.Errorf("%w: it is not known whether it was done: %w", ErrUnavailable, unsure)
	}
	_, cover := settle(parts, overtaken(parts), troubles)
	return done{}, d.absent(ctx, p.ID, cover)
}

// Retry makes the next attempt of a subscription now.
func (d *subscriptionDesk) Retry(ctx context.Context, id subscription.ID) error {
	_, err := d.tell(ctx, retrying, onePlea{ID: id})
	return err
}

// Replay delivers from..last once more; last 0: up to the head.
func (d *subscriptionDesk) Replay(ctx context.Context, id subscription.ID, from, last delivery.Seq) (Replay, error) {
	if from == 0 {
		return Replay{}, fmt.Errorf("%w: the number of the first notification is missing: it is at least 1", ErrInvalid)
	}
	if last != 0 && last < from {
		return Replay{}, fmt.Errorf("%w: the last number (%d) is below the first (%d)", ErrInvalid, last, from)
	}
	did, err := d.tell(ctx, replaying, onePlea{ID: id, From: from, Last: last})
	return did.Replay, err
}

// repairError says what was wrong with what an operator wanted for a subscription.
func repairError(doing string, id subscription.ID, err error) error {
	_, trimmed := errors.AsType[*delivery.NotKeptError](err)
	switch {
	case trimmed:
		return fmt.Errorf("%w: subscription %s: %w", ErrInvalid, id, err)
	case errors.Is(err, delivery.ErrNothingToDo), errors.Is(err, delivery.ErrUnderWay):
		return fmt.Errorf("%w: subscription %s: %w", ErrConflict, id, err)
	}
	return fmt.Errorf("%s subscription %s: %w", doing, id, err)
}

// elsewhere tells an error which says that this process has no such subscription.
func elsewhere(err error) bool {
	return errors.Is(err, delivery.ErrNotHeld) || errors.Is(err, delivery.ErrNoSubscription)
}

// Remove ends a subscription and tells its callback hub.mode=denied with the reason (WebSub
// §5.2). Where no hub runs in this process, nor in another, nobody tells it.
func (d *subscriptionDesk) Remove(ctx context.Context, id subscription.ID, reason string) error {
	if len(reason) > MaxReason || !utf8.ValidString(reason) || strings.ContainsFunc(reason, unicode.IsControl) {
		return fmt.Errorf("%w: the reason must be one line of UTF-8, at most %d bytes", ErrInvalid, MaxReason)
	}
	if reason == "" {
		reason = "the operator of the hub ended the subscription"
	}
	_, err := d.tell(ctx, removing, onePlea{ID: id, Reason: reason})
	return err
}

// farFuture is later than anything that was accepted.
const farFuture = 100 * 365 * 24 * time.Hour

// Trim removes the notifications of a topic before a number, also those that somebody waits
// for. The number behind the head takes all; one beyond it was to be another number, or
// another topic, and is refused.
func (d *topicDesk) Trim(ctx context.Context, topic string, before delivery.Seq) (TrimResult, error) {
	key := subscription.Key(topic)
	if key == "" || before == 0 {
		return TrimResult{}, fmt.Errorf("%w: the topic, or the number before which all is to go, is missing", ErrInvalid)
	}
	state, err := d.cfg.Log.State(ctx, key)
	if err != nil {
		return TrimResult{}, fmt.Errorf("reading the state of %s: %w", topic, err)
	}
	if state.Head == 0 {
		return TrimResult{}, fmt.Errorf("%w: nothing was ever published to %s", ErrNotFound, topic)
	}
	if before > state.Head+1 {
		return TrimResult{}, fmt.Errorf("%w: %d is beyond the newest notification, which is %d: the number may be %d at most", ErrInvalid, before, state.Head, state.Head+1)
	}
	went, err := d.cfg.Log.Trim(ctx, key, before, time.Now().Add(farFuture))
	result := TrimResult{Notifications: went.Notifications, Bytes: went.Bytes}
	if went.Notifications > 0 {
		d.log.Info("an operator trimmed a log", "topic", key, "before", before, "notifications", went.Notifications, "bytes", went.Bytes)
	}
	if err != nil {
		return result, fmt.Errorf("trimming the log of %s: %w", topic, err)
	}
	parts, troubles := askAll(ctx, d.here, trimming, trimPlea{key, before})
	for _, p := range parts {
		if p.err != nil {
			troubles = append(troubles, fmt.Sprintf("process %s may still deliver what it has in memory: %v", p.process, p.err))
		}
	}
	slices.Sort(troubles)
	result.Trouble = troubles
	return result, nil
}

// trimPlea is what went from a log.
type trimPlea struct {
	Topic  string       `json:"topic"` // its key
	Before delivery.Seq `json:"before"`
}

// trimming has every process forget what it has in memory of what was trimmed.
var trimming = kind[trimPlea, done]{name: "trim", answer: (*here).trimmed, unsure: true, once: true}

func (h *here) trimmed(_ context.Context, p trimPlea) (done, error) {
	if h.cfg.Deliveries != nil {
		h.cfg.Deliveries.Trimmed(p.Topic, p.Before)
	}
	return done{Held: true}, nil
}
