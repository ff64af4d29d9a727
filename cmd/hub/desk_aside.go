package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon/cmd/internal/program"
	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/delivery/report"
	"carillon/delivery/send"
	"carillon/operator"
	"carillon/subscription"
)

// deskAside is the desk of a command on a store that it has opened. On a Redis it asks the
// hubs. On Pebble, where no hub can run beside it, it reads the subscriptions itself: what is
// told to be done is in the store when close returns, and done when a hub runs.
type deskAside struct {
	*operator.Desk
	close func() error // before the store's
}

// openDesk reads what there is in the store. Close it.
func openDesk(ctx context.Context, e *engine, logger *slog.Logger) (*deskAside, error) {
	cfg := operator.Config{
		Engine: e.name(), Version: program.Version, Started: time.Now(), Log: e.Log, Cursors: e.Cursors,
		Subscriptions: e.Subscriptions, Sources: e.Sources, Peers: e.Peers, Warnings: e.Warnings, Logger: logger,
	}
	end := func() error { return nil }
	if e.Peers == nil {
		still, err := readStill(ctx, e, logger)
		if err != nil {
			return nil, err
		}
		cfg.Deliveries, end = still, still.end
	}
	desk, err := operator.New(cfg)
	if err != nil {
		return nil, errors.Join(err, end())
	}
	return &deskAside{desk, end}, nil
}

// still are the deliveries of a store that no hub works on: seen, and not made.
type still struct {
	*dispatch.Dispatcher
	cursors delivery.Cursors
	end     func() error // saves what was changed
}

var _ operator.Deliveries = (*still)(nil)

// nobody delivers nothing, and ends no subscription.
type nobody struct{}

// Send is not called: no attempt starts.
func (nobody) Send(context.Context, *send.Attempt) send.Outcome { return send.Outcome{} }

// Remove is not called either: nobody says 410.
func (nobody) Remove(context.Context, subscription.Subscription) (bool, error) {
	return false, errors.New("no hub runs")
}

// readStill takes all shards of a store and reads them.
func readStill(ctx context.Context, e *engine, logger *slog.Logger) (*still, error) {
	d, err := dispatch.New(dispatch.Config{}, dispatch.Stores{Log: e.Log, Cursors: e.Cursors}, nobody{}, nobody{}, logger, nil)
	if err != nil {
		return nil, err
	}
	own, release := context.WithCancel(context.WithoutCancel(ctx))
	var owning errgroup.Group
	taken := make(chan struct{})
	holder := &takingAll{Dispatcher: d, left: subscription.Shards, done: taken}
	ended := make(chan struct{})
	owning.Go(func() error { defer close(ended); return e.Shards.Run(own, holder) })
	s := &still{Dispatcher: d, cursors: e.Cursors, end: func() error { release(); return owning.Wait() }}
	select {
	case <-taken:
		err = s.readHeads(ctx, e.Log)
	case <-ended:
		err = errors.New("the shards of the store could not be taken")
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading the subscriptions: %w", err), s.end())
	}
	return s, nil
}

// takingAll is the holder of a command.
type takingAll struct {
	*dispatch.Dispatcher
	left int // shards to be taken. One Gained or Lost at a time.
	done chan struct{}
}

// Gained reads a shard.
func (t *takingAll) Gained(ctx context.Context, tenure delivery.Tenure) error {
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

// readHeads tells the dispatcher what there is to get.
func (s *still) readHeads(ctx context.Context, log delivery.Reader) error {
	for some := range slices.Chunk(s.Topics(), headsAtOnce) {
		heads, err := log.Heads(ctx, some)
		if err != nil {
			return err
		}
		for i, topic := range some {
			s.Published(topic, heads[i])
		}
	}
	return nil
}

// TopicCounts counts by the positions: the dispatcher has woken nobody.
func (s *still) TopicCounts(ctx context.Context) ([]report.TopicCount, error) {
	byTopic := map[string]*report.TopicCount{}
	err := s.Each(ctx, "", func(one report.Standing) bool {
		key := subscription.Key(one.Subscription.Topic)
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
func (s *still) Totals() report.Totals {
	var t report.Totals
	counts, err := s.TopicCounts(context.Background())
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
func (s *still) RetryNow(ctx context.Context, id subscription.ID) error {
	one, there := s.Standing(id)
	if !there {
		return delivery.ErrNoSubscription
	}
	if one.State == report.StateIdle {
		return fmt.Errorf("%w: it has got everything", delivery.ErrNothingToDo)
	}
	held, _ := s.Held()
	at := slices.IndexFunc(held, func(t delivery.Tenure) bool { return t.Shard == subscription.ShardOf(id) })
	if at < 0 {
		return delivery.ErrNotHeld
	}
	p := one.Position
	p.NextAttempt = time.Time{}
	return s.cursors.Save(ctx, []delivery.Batch{{Tenure: held[at], Advances: []delivery.Advance{{Subscription: id, Position: p}}}})
}
