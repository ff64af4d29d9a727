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
	"carillon/topic"
)

// Every change goes to the process that holds the subscription's shard. The others answer
// that they do not.

type command struct {
	ID     subscription.ID `json:"id"`
	From   delivery.Seq    `json:"from,omitempty"`
	Last   delivery.Seq    `json:"last,omitempty"`
	Reason string          `json:"reason,omitempty"`
}

// actionResult is the outcome of it. Held: this process holds the subscription, and did it.
type actionResult struct {
	Held   bool   `json:"held"`
	Replay Replay `json:"replay,omitzero"`
}

var (
	retrying  = kind[command, actionResult]{name: "retry", handle: (*local).retry, once: true}
	replaying = kind[command, actionResult]{name: "replay", handle: (*local).replay, once: true}
	removing  = kind[command, actionResult]{name: "remove", handle: (*local).remove, once: true}
)

// MaxReason is the longest reason of a removal, bytes: it goes into the address of a request.
const MaxReason = 500

// holds reports whether this process holds a subscription.
func (h *local) holds(id subscription.ID) bool {
	if h.cfg.Deliveries == nil {
		return false
	}
	_, there := h.cfg.Deliveries.Standing(id)
	return there
}

func (h *local) retry(ctx context.Context, p command) (actionResult, error) {
	if !h.holds(p.ID) {
		return actionResult{}, nil
	}
	err := h.cfg.Deliveries.RetryNow(ctx, p.ID)
	switch {
	case isElsewhere(err):
		return actionResult{}, nil
	case err != nil:
		return actionResult{}, repairError("retrying", p.ID, err)
	}
	h.log.Info("an operator had a subscription tried again", "subscription", p.ID)
	return actionResult{Held: true}, nil
}

func (h *local) replay(ctx context.Context, p command) (actionResult, error) {
	if !h.holds(p.ID) {
		return actionResult{}, nil
	}
	first, last, err := h.cfg.Deliveries.Replay(ctx, p.ID, p.From, p.Last)
	switch {
	case isElsewhere(err):
		return actionResult{}, nil
	case err != nil:
		return actionResult{}, repairError("replaying to", p.ID, err)
	}
	h.log.Info("an operator had notifications delivered once more", "subscription", p.ID, "from", first, "last", last)
	return actionResult{Held: true, Replay: Replay{Next: first, Last: last}}, nil
}

func (h *local) remove(ctx context.Context, p command) (actionResult, error) {
	if !h.holds(p.ID) {
		return actionResult{}, nil
	}
	sub, err := h.cfg.Subscriptions.Get(ctx, p.ID)
	if errors.Is(err, subscription.ErrNotFound) {
		return actionResult{}, nil
	}
	if err != nil {
		return actionResult{}, fmt.Errorf("reading subscription %s: %w", p.ID, err)
	}
	switch err := h.end(ctx, sub, p.Reason); {
	case errors.Is(err, subscription.ErrNotFound):
		return actionResult{}, nil
	case errors.Is(err, subscription.ErrSuperseded):
		return actionResult{}, fmt.Errorf("%w: subscription %s was renewed at this moment: try again", ErrConflict, p.ID)
	case errors.Is(err, subscription.ErrBusy):
		return actionResult{}, fmt.Errorf("%w: too many callbacks wait for their denial: %w", ErrUnavailable, err)
	case err != nil:
		return actionResult{}, fmt.Errorf("removing subscription %s: %w", p.ID, err)
	}
	h.log.Info("an operator removed a subscription", "subscription", sub, "reason", p.Reason)
	return actionResult{Held: true}, nil
}

// end ends a subscription. Without a running hub its callback gets no denial.
func (h *local) end(ctx context.Context, sub subscription.Subscription, reason string) error {
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

// instruct has the process that holds a subscription do something.
func (d *subscriptionService) instruct(ctx context.Context, k kind[command, actionResult], p command) (actionResult, error) {
	if d.holds(p.ID) && !d.isUnsure() { // else who has taken it over is to do it
		if did, err := k.handle(d.local, ctx, p); err != nil || did.Held {
			return did, err
		}
	}
	parts, troubles := askAll(ctx, d.local, k, p)
	var unsure error
	for _, part := range parts {
		switch {
		case part.err == nil && part.result.Held:
			return part.result, nil
		case part.err == nil:
		case errors.Is(part.err, ErrNotFound), errors.Is(part.err, ErrInvalid), errors.Is(part.err, ErrConflict):
			return actionResult{}, part.err
		default:
			unsure = fmt.Errorf("process %s: %w", part.process, part.err)
		}
	}
	if _, err := d.cfg.Subscriptions.Get(ctx, p.ID); unsure != nil && !errors.Is(err, subscription.ErrNotFound) {
		return actionResult{}, fmt.Errorf("%w: it is not known whether it was done: %w", ErrUnavailable, unsure)
	}
	_, cover := settle(parts, stalePartsOf(parts), troubles)
	return actionResult{}, d.absent(ctx, p.ID, cover)
}

// Retry makes the next attempt of a subscription now.
func (d *subscriptionService) Retry(ctx context.Context, id subscription.ID) error {
	_, err := d.instruct(ctx, retrying, command{ID: id})
	return err
}

// Replay delivers from..last once more; last 0: up to the head.
func (d *subscriptionService) Replay(ctx context.Context, id subscription.ID, from, last delivery.Seq) (Replay, error) {
	if from == 0 {
		return Replay{}, fmt.Errorf("%w: the number of the first notification is missing: it is at least 1", ErrInvalid)
	}
	if last != 0 && last < from {
		return Replay{}, fmt.Errorf("%w: the last number (%d) is below the first (%d)", ErrInvalid, last, from)
	}
	did, err := d.instruct(ctx, replaying, command{ID: id, From: from, Last: last})
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

// isElsewhere reports whether an error says that this process has no such subscription.
func isElsewhere(err error) bool {
	return errors.Is(err, delivery.ErrNotHeld) || errors.Is(err, delivery.ErrNoSubscription)
}

// Remove ends a subscription and sends its callback hub.mode=denied with the reason (WebSub §5.2).
// Without a running hub, in this process or another, no denial is sent.
func (d *subscriptionService) Remove(ctx context.Context, id subscription.ID, reason string) error {
	if len(reason) > MaxReason || !utf8.ValidString(reason) || strings.ContainsFunc(reason, unicode.IsControl) {
		return fmt.Errorf("%w: the reason must be one line of UTF-8, at most %d bytes", ErrInvalid, MaxReason)
	}
	if reason == "" {
		reason = "the operator of the hub ended the subscription"
	}
	_, err := d.instruct(ctx, removing, command{ID: id, Reason: reason})
	return err
}

// farFuture is later than anything that was accepted.
const farFuture = 100 * 365 * 24 * time.Hour

// Trim removes the notifications of a topic before a number, also those that a subscription waits for.
// The number behind the head removes all; one beyond it was meant as another number, or for another
// topic, and is refused.
func (d *topicService) Trim(ctx context.Context, topicURL string, before delivery.Seq) (TrimResult, error) {
	key := topic.Key(topicURL)
	if key == "" || before == 0 {
		return TrimResult{}, fmt.Errorf(
			"%w: the topic, or the number before which all is to go, is missing", ErrInvalid,
		)
	}
	state, err := d.cfg.Log.State(ctx, key)
	if err != nil {
		return TrimResult{}, fmt.Errorf("reading the state of %s: %w", topicURL, err)
	}
	if state.Head == 0 {
		return TrimResult{}, fmt.Errorf("%w: nothing was ever published to %s", ErrNotFound, topicURL)
	}
	if before > state.Head+1 {
		return TrimResult{}, fmt.Errorf(
			"%w: %d is beyond the newest notification, which is %d: the number may be %d at most",
			ErrInvalid, before, state.Head, state.Head+1,
		)
	}
	went, err := d.cfg.Log.Trim(ctx, key, before, time.Now().Add(farFuture))
	result := TrimResult{Notifications: went.Notifications, Bytes: went.Bytes}
	if went.Notifications > 0 {
		d.log.Info(
			"an operator trimmed a log", "topic", key, "before", before,
			"notifications", went.Notifications, "bytes", went.Bytes,
		)
	}
	if err != nil {
		return result, fmt.Errorf("trimming the log of %s: %w", topicURL, err)
	}
	parts, troubles := askAll(ctx, d.local, trimming, trimCommand{key, before})
	for _, p := range parts {
		if p.err != nil {
			troubles = append(
				troubles, fmt.Sprintf("process %s may still deliver what it has in memory: %v", p.process, p.err),
			)
		}
	}
	slices.Sort(troubles)
	result.Trouble = troubles
	return result, nil
}

// trimCommand is what went from a log.
type trimCommand struct {
	Topic  string       `json:"topic"` // its key
	Before delivery.Seq `json:"before"`
}

// trimming has every process forget what it has in memory of what was trimmed.
var trimming = kind[trimCommand, actionResult]{name: "trim", handle: (*local).trimmed, unsure: true, once: true}

func (h *local) trimmed(_ context.Context, p trimCommand) (actionResult, error) {
	if h.cfg.Deliveries != nil {
		h.cfg.Deliveries.Trimmed(p.Topic, p.Before)
	}
	return actionResult{Held: true}, nil
}
