package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"carillon/delivery"
	"carillon/delivery/report"
	"carillon/topic"

	"github.com/google/uuid"
)

// publisher appends to the logs, and records what was appended.
type publisher struct {
	*base
	table     *table
	bodies    *bodies
	schedule  *schedule
	records   delivery.Log
	published *report.Published // has its own mutex
	overdue   atomic.Int64      // appends that go on after their callers had an answer
}

// Publish appends a publication to its topic's log and has it delivered. It is
// durable when Publish returns nil; after an error it may be in the log or
// not, and is delivered if it is. The body and the links belong to the
// Dispatcher from then on and are not to be changed.
//
// A caller that hangs up does not break off what it began. After
// Config.PublishTimeout Publish returns ErrUnavailable, also where the engine
// does not look at its context: then the append goes on, and until it ends
// every other publication is refused at once.
func (pub *publisher) Publish(ctx context.Context, p delivery.Publication) (delivery.Receipt, error) {
	if err := ctx.Err(); err != nil {
		return delivery.Receipt{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return delivery.Receipt{}, fmt.Errorf("making a notification's id: %w", err)
	}
	// By the machine's clock, also where that is in doubt: where the engine is shared the others
	// go by theirs, and what is accepted too early would be too old there.
	n := &delivery.Notification{Publication: p, ID: id, Accepted: time.Now()}
	r, err := pub.append(context.WithoutCancel(ctx), n)
	pub.metrics.appending.Observe(time.Since(n.Accepted).Seconds())
	if err != nil {
		pub.metrics.publishes.WithLabelValues(resultFailed).Inc()
		return delivery.Receipt{}, fmt.Errorf("appending to the log of %s: %w", p.Topic, err)
	}
	if r.Repeated {
		pub.metrics.publishes.WithLabelValues(resultRepeated).Inc()
		pub.advance(p.Topic.Key(), r.Seq, nil)
		return r, nil
	}
	pub.metrics.publishes.WithLabelValues(resultAccepted).Inc()
	pub.published.Accept()
	if r.Previous != "" && p.From != "" && r.Previous != p.From {
		pub.metrics.breaks.Inc()
		pub.published.Break(p.Topic.Key())
		pub.log.Warn("continuity break: the interval does not begin where the one before ended",
			"topic", p.Topic, "notification", r.ID, "from", p.From, "previous_until", r.Previous)
	}
	n.Seq = r.Seq
	pub.advance(p.Topic.Key(), r.Seq, n)
	return r, nil
}

// append appends and waits for the end of it, for Config.PublishTimeout. After an
// error the record may be there: the head is read again.
func (pub *publisher) append(ctx context.Context, n *delivery.Notification) (delivery.Receipt, error) {
	if pub.overdue.Load() > 0 {
		return delivery.Receipt{}, fmt.Errorf("%w: an earlier append has not ended", delivery.ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(ctx, pub.cfg.PublishTimeout)
	type result struct {
		delivery.Receipt
		err error
	}
	ended := make(chan result)
	go func() {
		defer cancel()
		r, err := pub.records.Append(ctx, n.Publication, n.ID, n.Accepted)
		select {
		case ended <- result{r, err}:
		case <-ctx.Done(): // the caller has its answer
			pub.overdue.Add(-1)
			pub.table.doubt(n.Topic.Key())
		}
	}()
	select {
	case r := <-ended:
		if r.err != nil {
			pub.table.doubt(n.Topic.Key())
		}
		if errors.Is(r.err, context.DeadlineExceeded) && !errors.Is(r.err, delivery.ErrUnavailable) {
			r.err = fmt.Errorf("%w: %w", delivery.ErrUnavailable, r.err)
		}
		return r.Receipt, r.err
	case <-ctx.Done():
		pub.overdue.Add(1)
		return delivery.Receipt{}, fmt.Errorf(
			"%w: no end of it within %s", delivery.ErrUnavailable, pub.cfg.PublishTimeout,
		)
	}
}

// Head returns the sequence number of the last notification of a topic: where a
// subscription that begins now starts.
func (pub *publisher) Head(ctx context.Context, topicURL string) (uint64, error) {
	key := topic.Key(topicURL)
	heads, err := pub.records.Heads(ctx, []string{key})
	if err != nil {
		return 0, fmt.Errorf("reading the head of the log of %s: %w", topicURL, err)
	}
	pub.table.mu.Lock()
	defer pub.table.mu.Unlock()
	head := heads[0]
	if t := pub.table.topics[key]; t != nil {
		pub.schedule.tell(t, head)
	}
	// A loss of the log is never behind its head.
	for _, topics := range []map[string]*followed{pub.table.topics, pub.table.left[0], pub.table.left[1]} {
		if t := topics[key]; t != nil {
			head = max(head, t.head)
		}
	}
	return uint64(head), nil
}

// Published records that another process has appended to a topic's log, up to head.
func (pub *publisher) Published(key string, head delivery.Seq) { pub.advance(key, head, nil) }

// Refresh has the heads of all topics read again, because a report of another process's publication
// may have been missed.
func (pub *publisher) Refresh() {
	pub.table.eachTopic(pub.table.asks.enlist)
	signal(pub.table.asks.asked)
}

// Trimmed records that the operator has removed everything of a topic before a number. Attempts under
// way go on; no other subscription gets those notifications from memory. A subscription that lacked
// them has a gap when its turn comes.
func (pub *publisher) Trimmed(key string, before delivery.Seq) {
	pub.table.mu.Lock()
	defer pub.table.mu.Unlock()
	for _, topics := range []map[string]*followed{pub.table.topics, pub.table.left[0], pub.table.left[1]} {
		t := topics[key]
		if t == nil {
			continue
		}
		t.floor = max(t.floor, before)
		for len(t.notes) > 0 && t.notes[0].n.Seq < t.floor {
			first := t.notes[0]
			pub.bodies.unlist(first)
			t.drop(first)
		}
	}
}

// advance records that a topic's log is durable up to head, and hands in the last notification if it
// is at hand.
func (pub *publisher) advance(key string, head delivery.Seq, n *delivery.Notification) {
	pub.table.mu.Lock()
	defer pub.table.mu.Unlock()
	t := pub.table.topics[key]
	if t == nil {
		return // no subscription here
	}
	if n != nil {
		pub.bodies.put(t, n)
	}
	pub.schedule.tell(t, head)
}
