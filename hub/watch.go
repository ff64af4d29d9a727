package hub

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon/subscription"
	"carillon/topic"
)

// watchers is how many topics the watch asks at once.
const watchers = 8

// watch asks the topics that have subscribers, again and again, whether they still
// name this hub. One that has definitely refused Config.TopicRefusals times in a
// row has its subscribers denied (WebSub §5.2: at any point). That its server is away
// counts neither for nor against it. The counts begin anew with the process.
//
// Of the processes that share a store each knows the subscribers of its own shards
// and no others: it asks the topics that those subscribe to, so that a topic may be
// asked by each, and denies those. As every shard has an owner, all subscribers of a
// topic that has left are denied in the end; where a shard changes hands its
// next owner counts for itself, so that it may take as long again.
type watch struct {
	cfg     Config
	parts   Parts
	logger  *slog.Logger
	metrics *metrics

	mu       sync.Mutex
	refusals map[string]int // by topic key, those above 0. Owned by mu.
}

func newWatch(cfg Config, parts Parts, logger *slog.Logger, m *metrics) *watch {
	return &watch{cfg: cfg, parts: parts, logger: logger, metrics: m, refusals: make(map[string]int)}
}

// run makes a round every Config.TopicWatchInterval until ctx ends.
func (w *watch) run(ctx context.Context) error {
	ticker := time.NewTicker(w.cfg.TopicWatchInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			w.round(ctx)
		}
	}
}

// round asks every topic once.
func (w *watch) round(ctx context.Context) {
	topics := w.parts.Audience.Topics()
	w.forgetOthers(topics)
	var g errgroup.Group
	g.SetLimit(watchers)
	for _, topic := range topics {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error { w.look(ctx, topic); return nil })
	}
	_ = g.Wait()
}

// forgetOthers forgets the topics that lost their last subscription.
func (w *watch) forgetOthers(topics []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := make(map[string]int)
	for _, t := range topics {
		if n := w.refusals[t]; n > 0 {
			kept[t] = n
		}
	}
	w.refusals = kept
}

// look asks one topic, and denies its subscribers if it has refused often enough.
func (w *watch) look(ctx context.Context, key string) {
	spelling, ok := w.parts.Audience.Spelling(key)
	if !ok {
		return
	}
	err := w.parts.Checker.check(ctx, topic.Stored(spelling, key), false)
	var refusal *subscription.Refusal
	switch {
	case err == nil:
		w.count(key, false)
	case errors.As(err, &refusal):
		n := w.count(key, true)
		w.logger.Warn("topic does not name this hub any more", "topic", key, "in_a_row", n, "error", err)
		if n >= w.cfg.TopicRefusals {
			w.deny(ctx, key, refusal.Reason)
		}
	}
}

// count records what the topic said and returns how often it has refused in a row.
func (w *watch) count(topic string, refused bool) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !refused {
		delete(w.refusals, topic)
		return 0
	}
	w.refusals[topic]++
	return w.refusals[topic]
}

// deny ends the subscriptions to a topic. Those that could not be ended are left
// to the next round. One that was renewed meanwhile stands: its topic was checked then.
func (w *watch) deny(ctx context.Context, topic, reason string) {
	w.metrics.denied.Inc()
	for _, sub := range w.parts.Audience.Subscribers(topic) {
		err := w.parts.Requests.Deny(ctx, sub, reason)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !errors.Is(err, subscription.ErrNotFound) && !errors.Is(err, subscription.ErrSuperseded) {
			w.logger.Error("subscriber could not be denied", "topic", topic, "subscription", sub.ID, "error", err)
		}
	}
}
