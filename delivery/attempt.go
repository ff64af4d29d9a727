package delivery

import (
	"context"
	"errors"
	"time"

	"carillon/subscription"
)

// result is what a flight brings home.
type result struct {
	outcome Outcome
	settled Seq // where the cursor stands now
	gaps    []Gap
	gaveUp  bool
	readErr error // the log could not be read: nothing was tried
	after   Seq   // what stands before the notification that was read
	lost    Seq   // up to where the log has lost what was before that, 0: it has not
}

// gap notes a stretch that is passed over, and moves the cursor behind it.
func (r *result) gap(id subscription.ID, first, last Seq, reason GapReason, failure Class) {
	r.gaps = append(r.gaps, Gap{
		Subscription: id, First: first, Last: last,
		Reason: reason, Failure: failure, At: time.Now(),
	})
	r.settled = last
}

// work makes flights until there is none to make: workers are there on demand.
func (d *Dispatcher) work(ctx context.Context, f *flight) {
	for f != nil {
		f = d.land(ctx, f, d.fly(ctx, f))
	}
}

// fly reads the next notification of a subscription and tries to deliver it.
func (d *Dispatcher) fly(ctx context.Context, f *flight) result {
	r := result{settled: f.settled}
	topic := f.e.topic.key
	nt, err := d.cache.get(ctx, topic, f.settled+1)
	if errors.Is(err, ErrEndOfLog) {
		// Durable up to head, and nothing left of it.
		r.gap(f.sub.ID, f.settled+1, f.head, GapTrimmed, ClassNone)
		d.doubt(topic)
		return r
	}
	if err != nil {
		d.readFailed(ctx, "a log could not be read", topic, err)
		r.readErr = err
		return r
	}
	defer d.cache.release(nt)
	n := nt.n
	if r.after = n.After; nt.blind {
		r.after = n.Seq - 1
	}
	r.lost = f.lost(r.after, n.Seq)
	if missing := max(min(r.after, f.head), r.lost); missing > f.settled {
		r.gap(f.sub.ID, f.settled+1, missing, GapTrimmed, ClassNone)
	}
	if n.Seq > f.head {
		return r // not known to be durable yet
	}
	d.try(ctx, f, nt, &r)
	return r
}

// try makes the attempt and judges what came of it.
func (d *Dispatcher) try(ctx context.Context, f *flight, nt *note, r *result) {
	n := nt.n
	if f.gone {
		r.outcome.Class = ClassGone // said already; its end is still to be stored
	} else {
		begun := time.Now()
		r.outcome = d.sender.Send(ctx, &Attempt{
			Subscription: f.sub.ID, Callback: f.sub.Callback, Secret: f.sub.Secret,
			Notification: n, Number: f.number, wire: &nt.wire,
		})
		if r.outcome.Class == ClassNone {
			return // broken off: not known what came of it
		}
		d.metrics.attempts.WithLabelValues(r.outcome.Class.String()).Inc()
		d.metrics.seconds.Observe(time.Since(begun).Seconds())
	}
	switch r.outcome.Class {
	case ClassDelivered:
		r.settled = n.Seq
	case ClassGone:
		d.end(ctx, f, r)
	default:
		d.log.Debug("a delivery failed", "subscription", f.sub.ID, "notification", n.ID,
			"attempt", f.number, "class", r.outcome.Class.String(), "status", r.outcome.Status, "error", r.outcome.Err)
		if time.Since(n.Accepted) > d.cfg.RetryFor {
			last := d.lastExpired(ctx, f, n.Seq)
			d.log.Warn("notifications given up: their time is over",
				"subscription", f.sub.ID, "topic", n.Topic, "first", n.Seq, "last", last,
				"class", r.outcome.Class.String(), "status", r.outcome.Status)
			r.gap(f.sub.ID, n.Seq, last, GapGivenUp, r.outcome.Class)
			r.gaveUp = true
		}
	}
}

// end ends a subscription whose callback is gone (WebSub §7). The Ender takes
// it out of the table; one that is still there was renewed, or is to be ended yet.
func (d *Dispatcher) end(ctx context.Context, f *flight, r *result) {
	sub := f.sub // a renewal since then stands
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	removed, err := d.ender.Remove(ctx, sub)
	if err != nil {
		d.log.Warn("a subscription whose callback is gone could not be ended; it is tried again",
			"subscription", sub.ID, "error", err)
		r.outcome.Err = err
		return
	}
	if removed {
		d.log.Info("subscription ended: its callback is gone", "subscription", sub.ID, "topic", sub.Topic)
	}
}

// lastExpired returns the last notification up to head that is too old to be
// tried again, so that a dead callback does not drag its backlog along. Logs
// are in the order of acceptance, so it is found by halving, over numbers that
// need not be in the log. Bodies come with what is read: the cache keeps those
// few for all who give up together.
func (d *Dispatcher) lastExpired(ctx context.Context, f *flight, from Seq) Seq {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	oldest := time.Now().Add(-d.cfg.RetryFor)
	last, end := from, f.head // last is too old; what is behind end is not
	for last < end {
		mid := last + (end-last+1)/2
		nt, err := d.cache.get(ctx, f.e.topic.key, mid)
		if errors.Is(err, ErrEndOfLog) {
			end = mid - 1 // the log has lost its end
			continue
		}
		if err != nil {
			return last // the rest is found the next time
		}
		seq, accepted := nt.n.Seq, nt.n.Accepted
		d.cache.release(nt)
		if seq <= f.head && accepted.Before(oldest) {
			last = seq
		} else {
			end = mid - 1
		}
	}
	return last
}

// land settles a flight and returns the worker's next one, nil if there is none.
func (d *Dispatcher) land(ctx context.Context, f *flight, r result) *flight {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now().UnixNano()
	d.adapt(f, r.outcome, now)
	d.touchDown(f)
	if f.e.state != ended {
		d.settle(f, r, now)
	}
	if !d.running && d.underWay() == 0 {
		close(d.drained)
	}
	return d.launch(ctx, now)
}

// settle moves an entry on after a flight. mu is held.
func (d *Dispatcher) settle(f *flight, r result, now int64) {
	e, sh := f.e, d.shardOf(f.e)
	e.settled = max(e.settled, r.settled)
	sh.gaps = append(sh.gaps, r.gaps...)
	for _, g := range r.gaps {
		d.metrics.gaps.WithLabelValues(g.Reason.String()).Inc()
	}
	if r.readErr == nil {
		d.readPauses = 0
	}
	if r.lost > 0 || e.topic.before > 0 {
		d.testify(e.topic, r)
	}
	switch {
	case r.readErr != nil:
		d.pauseReads(e, r.readErr, now)
		return
	case r.outcome.Class == ClassNone:
		if len(r.gaps) > 0 {
			d.changed(sh, e)
		}
	case r.outcome.Class == ClassDelivered, r.gaveUp && e.settled >= e.topic.head:
		// With nothing left to send, the next notification is tried at once
		// (WebSub §7: try again for each new update).
		e.failures, e.due, e.class, e.status = 0, 0, ClassNone, 0
		d.changed(sh, e)
	default:
		e.gone = r.outcome.Class == ClassGone && r.outcome.Err != nil && e.expires == nanos(f.sub.Expires)
		e.failures++
		e.class, e.status = r.outcome.Class, uint16(r.outcome.Status)
		e.due = now + int64(d.cfg.retryDelay(e.failures, r.outcome.RetryAfter))
		d.changed(sh, e)
	}
	d.place(e, now)
}

// pauseReads leaves an entry alone whose log could not be read, and all of them
// for a while if the engine is away. mu is held.
func (d *Dispatcher) pauseReads(e *entry, err error, now int64) {
	d.await(e, now+int64(engineRetryMax))
	if !errors.Is(err, ErrUnavailable) || now < d.readPause {
		return // those that failed together count as one
	}
	d.readPause = now + int64(min(engineRetryFirst<<min(d.readPauses, 10), engineRetryMax))
	d.readPauses++
	d.kick()
}
