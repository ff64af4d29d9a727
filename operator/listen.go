package operator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/google/uuid"

	"carillon/subscription"
)

const (
	// listenLease is the lease that a listener asks for. The hub may grant a longer one.
	listenLease = time.Second
	// listenLook is how often it is looked whether a listener's subscription stands.
	listenLook = time.Second
	// listenTries is how many names are tried to find one in a shard of this process: one
	// in 64 is, where it holds a single shard.
	listenTries = 10_000
	// unsubscribeWithin bounds the work at the end of listening.
	unsubscribeWithin = 5 * time.Second
)

// Listen subscribes the hub itself to the topic and yields what it hears, until ctx ends or
// the loop does; then the subscription is gone. It ends by itself after a denial, where the
// subscription ended otherwise, and where events are read too slowly.
func (d *hubService) Listen(ctx context.Context, topic string) iter.Seq2[TestEvent, error] {
	return func(yield func(TestEvent, error) bool) {
		if err := d.mayListen(topic); err != nil {
			yield(TestEvent{}, err)
			return
		}
		for {
			again, err := d.listenOnce(ctx, topic, yield)
			if err != nil {
				yield(TestEvent{}, err)
			}
			if !again || err != nil {
				return
			}
			if !yield(
				TestEvent{
					At: time.Now().UTC(), Kind: TestWaiting,
					Text: "The hub processes share their work anew. Subscribing again.",
				},
				nil,
			) {
				return
			}
		}
	}
}

func (d *hubService) mayListen(topic string) error {
	switch {
	case topic == "":
		return fmt.Errorf("%w: no topic is named", ErrInvalid)
	case d.cfg.Requests == nil || d.cfg.TestCallbacks == nil || d.cfg.Deliveries == nil:
		return fmt.Errorf("%w: only a running hub can listen", ErrConflict)
	case d.cfg.CheckTopic == nil:
		return nil
	}
	if err := d.cfg.CheckTopic(topic); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// listenOnce listens with one subscription. again: its shard went to another
// process, so the caller listens anew.
func (d *hubService) listenOnce(ctx context.Context, topic string, yield func(TestEvent, error) bool) (again bool, err error) {
	l, err := d.newListener(topic)
	if err != nil {
		return false, err
	}
	if err := d.cfg.TestCallbacks.open(l); err != nil {
		return false, err
	}
	defer d.stopListening(ctx, l)
	if err := d.subscribe(ctx, l, topic); err != nil {
		return false, err
	}
	if !yield(
		TestEvent{
			At: time.Now().UTC(), Kind: TestWaiting,
			Text: "The hub has taken the subscription. It checks the topic now.",
		},
		nil,
	) {
		return false, nil
	}
	look := time.NewTicker(listenLook)
	defer look.Stop()
	renewed := time.Now()
	for {
		select {
		case <-ctx.Done():
			return false, nil
		case <-d.stopped:
			yield(ended("The hub process is stopping."), nil)
			return false, nil
		case h, more := <-l.heard:
			if !more {
				if _, _, why := d.cfg.TestCallbacks.state(l); why != "denied" {
					yield(ended(sentenceOf(why)), nil)
				}
				return false, nil
			}
			if !yield(h, nil) {
				return false, nil
			}
		case <-look.C:
			switch state := d.look(l, renewed); state {
			case listenRenew:
				renewed = time.Now()
				if err := d.subscribe(ctx, l, topic); err != nil {
					d.log.Debug("renewing a test callback", "error", err) // it is tried again
				}
			case listenMoved:
				return true, nil
			case listenGone:
				yield(ended("The subscription has ended."), nil)
				return false, nil
			case listenUnanswered:
				yield(
					ended(
						"The hub could not verify the subscription: the topic's server did not answer, or the store is away.",
					),
					nil,
				)
				return false, nil
			}
		}
	}
}

func ended(text string) TestEvent {
	return TestEvent{At: time.Now().UTC(), Kind: TestEnded, Text: text}
}

func sentenceOf(why string) string {
	if why == "" {
		return "The subscription has ended."
	}
	return string(why[0]-'a'+'A') + why[1:] + "."
}

// newListener makes a listener whose subscription is of a shard that this process holds: another
// process could not hand a delivery to it.
func (d *hubService) newListener(topic string) (*testCallback, error) {
	var held [subscription.Shards]bool
	for _, t := range d.holdings() {
		held[t.Shard] = true
	}
	for range listenTries {
		callback := ListenOrigin + "/" + uuid.NewString()
		if id := subscription.NewID(topic, callback); held[subscription.ShardOf(id)] {
			return &testCallback{
				callback: callback, id: id, secret: subscription.Secret(rand.Text()),
				heard: make(chan TestEvent, maxEvents),
			}, nil
		}
	}
	return nil, fmt.Errorf("%w: this process holds no part of the subscriptions at the moment", ErrUnavailable)
}

func (d *hubService) subscribe(ctx context.Context, l *testCallback, topic string) error {
	err := d.cfg.Requests.Submit(ctx, subscription.Wish{
		Mode: subscription.ModeSubscribe, Topic: topic, Callback: l.callback, Secret: l.secret, Lease: listenLease, LeaseGiven: true,
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, subscription.ErrBusy), errors.Is(err, subscription.ErrHostBusy), errors.Is(err, subscription.ErrClientBusy):
		return fmt.Errorf("%w: too many requests wait to be verified: %w", ErrUnavailable, err)
	}
	return fmt.Errorf("subscribing the hub itself: %w", err)
}

// The next step for a listener.
type listenState int

const (
	listenOn listenState = iota
	listenRenew
	listenMoved
	listenGone
	listenUnanswered
)

// verifyWithin is after how long without a verification a listener gives up.
const verifyWithin = 3 * time.Minute

// look returns the next step for a listener, whose latest subscription request was made at asked.
func (d *hubService) look(l *testCallback, asked time.Time) listenState {
	if len(l.heard) > 0 {
		return listenOn // first what was heard
	}
	held := false
	for _, t := range d.holdings() {
		held = held || t.Shard == subscription.ShardOf(l.id)
	}
	granted, lease, _ := d.cfg.TestCallbacks.state(l)
	switch {
	case !held:
		if d.cfg.Deliveries.Stats().Unsure {
			return listenOn // it may still be this process's
		}
		return listenMoved
	case lease == 0:
		if time.Since(asked) > verifyWithin {
			return listenUnanswered
		}
		return listenOn
	case !d.holds(l.id) && time.Since(granted) > 2*listenLook:
		return listenGone
	case time.Since(granted) > lease/2 && time.Since(asked) > min(lease/4, time.Minute):
		return listenRenew
	}
	return listenOn
}

// stopListening ends the subscription. The rest that a failure leaves answers 410 to the first
// delivery, or is over with its lease.
func (d *hubService) stopListening(ctx context.Context, l *testCallback) {
	d.cfg.TestCallbacks.shut(l)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unsubscribeWithin)
	defer cancel()
	sub, err := d.cfg.Subscriptions.Get(ctx, l.id)
	if err == nil {
		_, err = d.cfg.Requests.Remove(ctx, sub)
	}
	if err != nil && !errors.Is(err, subscription.ErrNotFound) {
		d.log.Debug("a test callback could not be unsubscribed; it ends by itself", "error", err)
	}
}
