// Package offline answers operators for a store without a running hub: its subscriptions are seen, and
// nothing is delivered. An order is in the store when Close returns, and is carried out when a hub
// runs.
package offline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/delivery/report"
	"carillon/delivery/send"
	"carillon/operator"
	"carillon/subscription"
	"carillon/topic"
)

// Deliveries are those of a store that no hub works on: seen, and not made.
type Deliveries struct {
	*dispatch.Dispatcher
	cursors delivery.Cursors
	end     func() error // saves what was changed
}

var _ operator.Deliveries = (*Deliveries)(nil)

// Store is what is read of a store.
type Store struct {
	Log     delivery.Log
	Cursors delivery.Cursors
	Shards  delivery.Shards
}

// A undelivered delivers nothing, and ends no subscription.
type undelivered struct{}

// Send is not called: no attempt starts.
func (undelivered) Send(context.Context, *send.Attempt) send.Outcome { return send.Outcome{} }

// Remove is not called either: no callback answers 410.
func (undelivered) Remove(context.Context, subscription.Subscription) (bool, error) {
	return false, errors.New("no hub runs")
}

// Read takes all shards of a store and reads them. Close it before the store.
func Read(ctx context.Context, store Store, logger *slog.Logger) (*Deliveries, error) {
	surety := &subscription.Surety{}
	seen, err := dispatch.New(
		dispatch.Config{Surety: surety}, dispatch.Stores{Log: store.Log, Cursors: store.Cursors},
		undelivered{}, undelivered{}, logger, nil,
	)
	if err != nil {
		return nil, err
	}
	own, release := context.WithCancel(context.WithoutCancel(ctx))
	var owning errgroup.Group
	taken := make(chan struct{})
	holder := &reader{Dispatcher: seen, Surety: surety, left: subscription.Shards, done: taken}
	ended := make(chan struct{})
	owning.Go(func() error { defer close(ended); return store.Shards.Run(own, holder) })
	d := &Deliveries{Dispatcher: seen, cursors: store.Cursors, end: func() error { release(); return owning.Wait() }}
	select {
	case <-taken:
		err = d.readHeads(ctx, store.Log)
	case <-ended:
		err = errors.New("the shards of the store could not be taken")
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading the subscriptions: %w", err), d.Close())
	}
	return d, nil
}

// Close gives the shards back, with what was changed.
func (d *Deliveries) Close() error { return d.end() }

// reader is the holder of all shards.
type reader struct {
	*dispatch.Dispatcher
	*subscription.Surety
	left int // shards to be taken. One Gained or Lost at a time.
	done chan struct{}
}

// Gained reads a shard.
func (t *reader) Gained(ctx context.Context, tenure delivery.Tenure) error {
	err := t.Dispatcher.Gained(ctx, tenure)
	if err == nil {
		if t.left--; t.left == 0 {
			close(t.done)
		}
	}
	return err
}

// headsAtOnce is how many heads are read in one call.
const headsAtOnce = 1000

// readHeads gives the dispatcher the heads of the logs.
func (d *Deliveries) readHeads(ctx context.Context, log delivery.Reader) error {
	for some := range slices.Chunk(d.Topics(), headsAtOnce) {
		heads, err := log.Heads(ctx, some)
		if err != nil {
			return err
		}
		for i, key := range some {
			d.Published(key, heads[i])
		}
	}
	return nil
}

// TopicCounts counts by the positions: the dispatcher has woken no subscription.
func (d *Deliveries) TopicCounts(ctx context.Context) ([]report.TopicCount, error) {
	byTopic := map[string]*report.TopicCount{}
	err := d.Each(ctx, "", func(one report.Standing) bool {
		key := topic.Key(one.Subscription.Topic)
		c := byTopic[key]
		if c == nil {
			c = &report.TopicCount{Topic: key}
			byTopic[key] = c
		}
		c.Subscriptions++
		if one.State != report.StateIdle {
			c.Behind++
		}
		if one.State == report.StateFailing {
			c.Failing++
		}
		return true
	})
	counts := make([]report.TopicCount, 0, len(byTopic))
	for _, c := range byTopic {
		counts = append(counts, *c)
	}
	slices.SortFunc(counts, func(a, b report.TopicCount) int { return strings.Compare(a.Topic, b.Topic) })
	return counts, err
}

// Totals are those of the moment.
func (d *Deliveries) Totals() report.Totals {
	var t report.Totals
	counts, err := d.TopicCounts(context.Background())
	if err != nil {
		return t
	}
	for _, c := range counts {
		t.Behind += c.Behind
		t.Failing += c.Failing
	}
	return t
}

// RetryNow has a hub try again when it starts, however long it was to back off.
func (d *Deliveries) RetryNow(ctx context.Context, id subscription.ID) error {
	one, there := d.Standing(id)
	if !there {
		return delivery.ErrNoSubscription
	}
	if one.State == report.StateIdle {
		return fmt.Errorf("%w: it has got everything", delivery.ErrNothingToDo)
	}
	held, _ := d.Held()
	at := slices.IndexFunc(held, func(t delivery.Tenure) bool { return t.Shard == subscription.ShardOf(id) })
	if at < 0 {
		return delivery.ErrNotHeld
	}
	p := one.Position
	p.NextAttempt = time.Time{}
	return d.cursors.Save(
		ctx, []delivery.Batch{{Tenure: held[at], Advances: []delivery.Advance{{Subscription: id, Position: p}}}},
	)
}
