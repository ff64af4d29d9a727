package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// busyHub is a hub with many subscriptions to one topic.
type busyHub struct {
	*env
	hub    *hub
	store  *store
	topic  string
	one    *publication
	owed   int     // deliveries so far
	atRest float64 // commands a second of a Redis whose hub has nothing to do
}

// startBusy starts one, and publishes a first notification, which opens the connections.
func (e *env) startBusy(ctx context.Context, s *store) (*busyHub, error) {
	topic := e.town.topic("busy")
	b, err := e.newBusy(ctx, s, topic, group(e.plan.callbacks, topic, func(i int) string {
		return e.town.callback(0, pathCallback, i)
	}))
	if err != nil {
		return nil, err
	}
	if err := b.warmUp(ctx); err != nil {
		b.hub.stop()
		return nil, err
	}
	return b, nil
}

// newBusy starts a hub that has these subscriptions to a topic, and no connection yet.
func (e *env) newBusy(ctx context.Context, s *store, topic string, who people, flags ...string) (*busyHub, error) {
	if err := e.moveIn(ctx, s, who); err != nil {
		return nil, err
	}
	h, err := e.startHub(ctx, s, flags...)
	if err != nil {
		return nil, err
	}
	if _, err := h.awaitSubscriptions(ctx, who.n); err != nil {
		h.stop()
		return nil, err
	}
	one := h.publication(topic, content(e.plan.bodyBytes))
	return &busyHub{env: e, hub: h, store: s, topic: topic, one: one}, nil
}

func (b *busyHub) warmUp(ctx context.Context) error {
	if err := b.deliver(ctx, 1); err != nil {
		return err
	}
	if err := b.check(ctx); err != nil {
		return fmt.Errorf("the round that is checked: %w", err)
	}
	if b.store.redis == nil {
		return nil
	}
	b.log("watching the hub on Redis at rest for %s", b.plan.rest)
	err := pause(ctx, b.plan.rest/5) // the positions of the first deliveries are saved
	if err != nil {
		return err
	}
	b.atRest, err = b.store.redis.watch(ctx, b.plan.rest)
	return err
}

// check delivers some notifications while the sink looks at each.
func (b *busyHub) check(ctx context.Context) error {
	before, err := b.town.counted()
	if err != nil {
		return err
	}
	if err := b.town.order("/check"); err != nil {
		return err
	}
	for i := range b.plan.checked { // one after another: so their order is known
		one := b.hub.publication(b.topic, stamped(time.Now(), i, b.plan.bodyBytes))
		if _, err := one.send(); err != nil {
			return err
		}
	}
	n := b.plan.callbacks * b.plan.checked
	b.owed += n
	if err := b.town.await(ctx, before+int64(n)); err != nil {
		return err
	}
	if err := b.town.quiet(ctx, b.plan.rest/5); err != nil { // until then nothing comes twice
		return err
	}
	return b.town.checked(b.plan.callbacks, b.plan.checked)
}

// deliver publishes so many notifications at once, and returns when the last
// delivery has arrived.
func (b *busyHub) deliver(ctx context.Context, publications int) error {
	before, err := b.town.counted()
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(b.plan.publishers)
	for range publications {
		group.Go(func() error {
			_, err := b.one.send()
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	b.owed += b.plan.callbacks * publications
	return b.town.await(ctx, before+int64(b.plan.callbacks*publications))
}

// measured delivers the notifications of a round, and returns what that took.
func (b *busyHub) measured(ctx context.Context) (usage, error) {
	commands, asked := int64(0), time.Now()
	cpu, err := b.hub.cpu()
	if err == nil && b.store.redis != nil {
		commands, err = b.store.redis.commands(ctx)
	}
	if err != nil {
		return usage{}, err
	}
	begin := time.Now()
	if err := b.deliver(ctx, b.plan.publications); err != nil {
		return usage{}, err
	}
	u := usage{Deliveries: b.plan.callbacks * b.plan.publications, Wall: time.Since(begin)}
	// The hub saves the last positions a flush interval later. That counts, too.
	if err := pause(ctx, time.Second); err != nil {
		return usage{}, err
	}
	after, err := b.hub.cpu()
	if u.CPU = after - cpu; err != nil || b.store.redis == nil {
		return u, err
	}
	all, err := b.store.redis.commands(ctx)
	u.Commands = float64(all-commands) - b.atRest*time.Since(asked).Seconds()
	return u, err
}
