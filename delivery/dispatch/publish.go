package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/subscription"
)

// Publish appends a publication to its topic's log and has it delivered. It is
// durable when Publish returns nil; after an error it may be in the log or
// not, and is delivered if it is. The body and the links belong to the
// Dispatcher from then on and are not to be changed.
//
// A caller that hangs up does not break off what it began. After
// Config.PublishTimeout Publish returns ErrUnavailable, also where the engine
// does not look at its context: then the append goes on, and until it ends
// every other publication is refused at once.
func (d *Dispatcher) Publish(ctx context.Context, p delivery.Publication) (delivery.Receipt, error) {
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
	r, err := d.append(context.WithoutCancel(ctx), n)
	d.metrics.appending.Observe(time.Since(n.Accepted).Seconds())
	if err != nil {
		d.metrics.publishes.WithLabelValues(resultFailed).Inc()
		return delivery.Receipt{}, fmt.Errorf("appending to the log of %s: %w", p.Topic, err)
	}
	if r.Repeated {
		d.metrics.publishes.WithLabelValues(resultRepeated).Inc()
		d.advance(p.Topic, r.Seq, nil)
		return r, nil
	}
	d.metrics.publishes.WithLabelValues(resultAccepted).Inc()
	d.published.Accept()
	if r.Previous != "" && p.From != "" && r.Previous != p.From {
		d.metrics.breaks.Inc()
		d.published.Break(subscription.Key(p.Topic))
		d.log.Warn("continuity break: the interval does not begin where the one before ended",
			"topic", p.Topic, "notification", r.ID, "from", p.From, "previous_until", r.Previous)
	}
	n.Seq = r.Seq
	d.advance(p.Topic, r.Seq, n)
	return r, nil
}

// append appends and waits for the end of it, for Config.PublishTimeout. After an
// error the record may be there: the head is read again.
func (d *Dispatcher) append(ctx context.Context, n *delivery.Notification) (delivery.Receipt, error) {
	if d.overdue.Load() > 0 {
		return delivery.Receipt{}, fmt.Errorf("%w: an earlier append has not ended", delivery.ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.PublishTimeout)
	type result struct {
		delivery.Receipt
		err error
	}
	ended := make(chan result)
	go func() {
		defer cancel()
		r, err := d.records.Append(ctx, n.Publication, n.ID, n.Accepted)
		select {
		case ended <- result{r, err}:
		case <-ctx.Done(): // the caller was told
			d.overdue.Add(-1)
			d.doubt(n.Topic)
		}
	}()
	select {
	case r := <-ended:
		if r.err != nil {
			d.doubt(n.Topic)
		}
		if errors.Is(r.err, context.DeadlineExceeded) && !errors.Is(r.err, delivery.ErrUnavailable) {
			r.err = fmt.Errorf("%w: %w", delivery.ErrUnavailable, r.err)
		}
		return r.Receipt, r.err
	case <-ctx.Done():
		d.overdue.Add(1)
		return delivery.Receipt{}, fmt.Errorf("%w: no end of it within %s", delivery.ErrUnavailable, d.cfg.PublishTimeout)
	}
}

// advance tells that a topic's log is durable up to head, and hands in the
// last notification if it is at hand.
func (d *Dispatcher) advance(topicURL string, head delivery.Seq, n *delivery.Notification) {
	key := subscription.Key(topicURL)
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.topics[key]
	if t == nil {
		return // nobody here wants it
	}
	if n != nil {
		d.put(t, n)
	}
	d.tell(t, head)
}

// tell says what the head of a topic's log is. mu is held.
func (d *Dispatcher) tell(t *topic, head delivery.Seq) {
	if head <= t.head && t.known {
		return
	}
	if head > t.head {
		d.rise(t, head)
	}
	t.known = true
	d.wake(t)
	d.kick()
}

// doubt has a topic's head read again, after an append with an unknown end.
func (d *Dispatcher) doubt(topicURL string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.topics[subscription.Key(topicURL)]; t != nil {
		d.askHead(t)
	}
}
