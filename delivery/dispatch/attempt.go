package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"carillon/delivery"
	"carillon/delivery/report"
	"carillon/delivery/retain"
	"carillon/delivery/send"
	"carillon/subscription"
)

// result is what a flight brings home.
type result struct {
	outcome send.Outcome
	settled delivery.Seq // where the cursor stands now
	gaps    []delivery.Gap
	gaveUp  bool
	readErr error        // the log could not be read: nothing was tried
	after   delivery.Seq // what stands before the notification that was read
	lost    delivery.Seq // up to where the log has lost what was before that, 0: it has not
	noRoom  bool         // the body must wait for others: nothing was tried
	tried   bool         // there was an attempt, and it came to an end
	text    string       // why it had no answer (errorText)

	replayed replayed
}

// gap notes a stretch that is passed over, and moves the cursor behind it.
func (r *result) gap(id subscription.ID, first, last delivery.Seq, reason delivery.GapReason, failure delivery.Class) {
	r.gaps = append(r.gaps, delivery.Gap{
		Subscription: id, First: first, Last: last,
		Reason: reason, Failure: failure, At: time.Now(),
	})
	r.settled = last
}

// work makes flights until there is none to make: workers are there on demand.
func (d *Dispatcher) work(ctx context.Context, f *flight) {
	for f != nil {
		d.fly(ctx, f)
		f = d.land(ctx, f)
	}
}

// fly reads the next notification of a subscription, if it is not in memory, and
// tries to deliver it.
func (d *Dispatcher) fly(ctx context.Context, f *flight) {
	r := &f.result
	id, settled, replay := f.was.id, f.was.settled, f.was.replay()
	if replay != nil {
		if err := d.replayGaps(ctx, f, replay); err != nil {
			d.readFailed(ctx, "the gaps of a subscription could not be read", f.topic.key, err)
			r.readErr = err
			return
		}
	}
	if f.note == nil {
		nt, err := d.read(ctx, f.topic, f.was.from(), f.claim)
		switch {
		case errors.Is(err, errNoRoom):
			r.noRoom = true
			return
		case errors.Is(err, delivery.ErrEndOfLog) && replay != nil:
			r.replayed.passed = replay.last
			return
		case errors.Is(err, delivery.ErrEndOfLog):
			// Durable up to head, and nothing left of it.
			r.gap(id, settled+1, f.head, delivery.GapTrimmed, delivery.ClassNone)
			d.doubt(f.topic.key)
			return
		case err != nil:
			d.readFailed(ctx, "a log could not be read", f.topic.key, err)
			r.readErr = err
			return
		}
		f.note, f.begun = nt, d.now()
	}
	n := f.note.n
	if r.after = n.After; f.note.blind {
		r.after = n.Seq - 1
	}
	if replay != nil {
		d.tryAgain(ctx, f, replay)
		return
	}
	r.lost = f.lost(r.after, n.Seq)
	if missing := max(min(r.after, f.head), r.lost); missing > settled {
		r.gap(id, settled+1, missing, delivery.GapTrimmed, delivery.ClassNone)
	}
	if n.Seq <= f.head { // else it is not known to be durable yet
		d.try(ctx, f)
	}
}

// try makes the attempt and judges what came of it.
func (d *Dispatcher) try(ctx context.Context, f *flight) {
	n, r := f.note.n, &f.result
	if f.was.gone() {
		r.outcome.Class = delivery.ClassGone // said already; its end is still to be stored
	} else {
		if !d.splits || !f.attempt.Aim(&f.host.Host, f.was.rest()) {
			f.attempt.Callback = f.was.callback()
		}
		f.attempt.Notification, f.attempt.Wire = n, &f.note.wire
		r.outcome = d.sender.Send(ctx, &f.attempt)
		if r.tried = r.outcome.Class != delivery.ClassNone; r.outcome.Err != nil {
			r.text = send.ErrorText(r.outcome.Err)
		}
	}
	switch r.outcome.Class {
	case delivery.ClassNone: // broken off: not known what came of it
	case delivery.ClassDelivered:
		if f.was.replay() != nil {
			r.replayed.again = n.Seq
		} else {
			r.settled = n.Seq
		}
	case delivery.ClassGone:
		d.end(ctx, f)
	default:
		d.judge(ctx, f)
	}
}

// judge tells whether a notification is given up after an attempt that failed.
func (d *Dispatcher) judge(ctx context.Context, f *flight) {
	n, r := f.note.n, &f.result
	if d.log.Enabled(ctx, slog.LevelDebug) {
		d.log.Debug("a delivery failed", "subscription", f.was.id, "callback_host", f.host.Name(), "notification", n.ID,
			"attempt", f.attempt.Number, "class", r.outcome.Class.String(), "status", r.outcome.Status, "error", r.outcome.Err)
	}
	if replay := f.was.replay(); replay != nil {
		d.judgeReplay(f, replay)
		return
	}
	if !d.isOver(n.Accepted, f.attempt.Number) {
		return
	}
	last := d.lastExpired(ctx, f, n.Seq)
	d.log.Warn("notifications given up: their time is over",
		"subscription", f.was.id, "topic", n.Topic, "callback_host", f.host.Name(), "first", n.Seq, "last", last,
		"class", r.outcome.Class.String(), "status", r.outcome.Status)
	r.gap(f.was.id, n.Seq, last, delivery.GapGivenUp, r.outcome.Class)
	r.gaveUp = true
}

// fewestTries is how often in a row a callback must have failed before a notification is
// given up for its age: what has waited behind a replay, or for a hub that was off, was not
// tried while it grew old. Fewer do where RetryFor has no room for the pauses between them.
const fewestTries = replayTries

// isOver tells whether a notification is not tried any more. What was accepted in the
// future, by a clock that was wrong, is tried for as long as RetryFor of pauses takes.
func (d *Dispatcher) isOver(accepted time.Time, attempts uint32) bool {
	through, age := d.cfg.pauses(attempts) > d.cfg.RetryFor, d.ageOf(accepted)
	if age < -retain.MaxAhead {
		return through
	}
	return age > d.cfg.RetryFor && (attempts >= fewestTries || through)
}

// end ends a subscription whose callback is gone (WebSub §7). The Ender takes
// it out of the table; one that is still there was renewed, or is to be ended yet.
// Where its shard was lost meanwhile it is for the next owner to hear that.
func (d *Dispatcher) end(ctx context.Context, f *flight) {
	if !d.holds(f.shard) {
		f.result.outcome.Err = delivery.ErrNotHeld
		return
	}
	sub := f.was.subscription(f.attempt.Secret) // a renewal since then stands
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	removed, err := d.ender.Remove(ctx, sub)
	if err != nil {
		d.log.Warn("a subscription whose callback is gone could not be ended; it is tried again",
			"subscription", sub.ID, "error", err)
		f.result.outcome.Err = err
		return
	}
	if removed {
		d.log.Info("subscription ended: its callback is gone", "subscription", sub.ID, "topic", sub.Topic, "callback_host", f.host.Name())
	}
}

// lastExpired returns the last notification up to head that is too old to be
// tried again, so that a dead callback does not drag its backlog along. Logs
// are in the order of acceptance, so it is found by halving, over numbers that
// need not be in the log. Bodies come with what is read: the cache keeps those
// few for all who give up together.
func (d *Dispatcher) lastExpired(ctx context.Context, f *flight, from delivery.Seq) delivery.Seq {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	last, end := from, f.head // last is too old; what is behind end is not
	for last < end {
		mid := last + (end-last+1)/2
		nt, err := d.read(ctx, f.topic, mid, claim{look: true})
		if errors.Is(err, delivery.ErrEndOfLog) {
			end = mid - 1 // the log has lost its end
			continue
		}
		if err != nil {
			return last // the rest is found the next time
		}
		seq, accepted := nt.n.Seq, nt.n.Accepted
		d.mu.Lock()
		d.release(nt)
		d.mu.Unlock()
		if seq <= f.head && d.ageOf(accepted) > d.cfg.RetryFor {
			last = seq
		} else {
			end = mid - 1
		}
	}
	return last
}

// land settles a flight and returns the worker's next one, nil if there is none.
func (d *Dispatcher) land(ctx context.Context, f *flight) *flight {
	if f.result.tried {
		ended := d.now() // noted without the mutex, for which many wait
		d.remember(f, ended)
		d.metrics.tried(f.result.outcome.Class, time.Duration(ended-f.begun))
		if f.result.outcome.Class == delivery.ClassDelivered && f.was.replay() == nil {
			d.metrics.delivered(time.Duration(ended - f.note.n.Accepted.UnixNano()))
		}
	}
	var news hostNews
	defer func() { d.tellHost(news) }()
	d.mu.Lock()
	defer d.mu.Unlock()
	clock := time.Now()
	now := d.nowBy(clock)
	d.heedClock(clock, now)
	if f.note != nil {
		d.release(f.note)
	}
	if f.result.tried {
		news = d.watch(f.host, &f.result.outcome, now)
	}
	d.adapt(f, &f.result.outcome, now)
	d.touchDown(f)
	if f.e.state != ended {
		d.settle(f, now)
	} else {
		d.comeHome(f.was.id, now)
	}
	d.recycle(f)
	if !d.running && d.underWay() == 0 {
		close(d.drained)
	}
	return d.launch(ctx, clock)
}

// remember notes an attempt that came to an end.
func (d *Dispatcher) remember(f *flight, ended int64) {
	r := &f.result
	d.history.Add(f.was.id, &report.Attempt{
		At: timeOf(ended), Took: max(0, time.Duration(ended-f.begun)), Seq: f.note.n.Seq, Number: f.attempt.Number,
		Class: r.outcome.Class, Status: uint16(r.outcome.Status), Error: r.text, Replay: f.was.replay() != nil,
	})
}

// comeHome counts out an attempt whose entry has ended. What has its ID by now waited for that, so
// that its deliveries stay one at a time. mu is held.
func (d *Dispatcher) comeHome(id subscription.ID, now int64) {
	if d.abroad[id]--; d.abroad[id] == 0 {
		delete(d.abroad, id)
	}
	if e, err := d.entryOf(id); err == nil && e.state == idle {
		d.place(e, now)
	}
}

// settle moves an entry on after a flight. mu is held.
func (d *Dispatcher) settle(f *flight, now int64) {
	e, sh, r := f.e, d.shardOf(f.e), &f.result
	e.settled = max(e.settled, r.settled)
	if len(r.gaps) > 0 {
		sh.gaps, e.gapped = append(sh.gaps, r.gaps...), true
		if replay := e.replay(); replay != nil {
			replay.others = true
		}
		for _, g := range r.gaps {
			d.metrics.gaps.WithLabelValues(g.Reason.String()).Inc()
		}
	}
	if replay := f.was.replay(); replay != nil {
		d.settleReplay(f, replay)
	}
	if r.readErr == nil {
		d.readPauses, e.topic.rests = 0, 0
	}
	if r.lost > 0 || e.topic.before > 0 {
		d.testify(e.topic, r)
	}
	switch {
	case r.noRoom:
		d.park(e)
		return
	case r.readErr != nil:
		d.pauseReads(e, r.readErr, now)
		return
	case r.outcome.Class == delivery.ClassNone:
		if len(r.gaps) > 0 || f.was.replay() != nil {
			d.changed(sh, e)
		}
	case r.outcome.Class == delivery.ClassDelivered, r.gaveUp && !e.behind():
		// With nothing left to send, the next notification is tried at once
		// (WebSub §7: try again for each new update).
		d.fail(e, 0, 0, delivery.ClassNone, 0)
		d.changed(sh, e)
	default:
		failures, due := d.next(e, r.outcome.RetryAfter, now)
		d.fail(e, failures, due, r.outcome.Class, uint16(r.outcome.Status))
		e.rare.gone = r.outcome.Class == delivery.ClassGone && r.outcome.Err != nil && e.expires == f.was.expires
		d.changed(sh, e)
	}
	d.place(e, now)
}

// next is how many failures in a row there are after one more, and when the next attempt is
// due. One by hand leaves both as they were. mu is held.
func (d *Dispatcher) next(e *entry, asked time.Duration, now int64) (failures uint32, due int64) {
	failures = e.failures()
	if !e.hurried() {
		failures++
	} else if planned := -e.rare.due; planned > now {
		return failures, max(planned, now+int64(min(asked, d.cfg.RetryMax)))
	}
	return failures, now + int64(d.cfg.retryDelay(failures, asked))
}

// pauseReads leaves an entry alone whose log could not be read, and all of them
// for a while if the engine is away. mu is held.
func (d *Dispatcher) pauseReads(e *entry, err error, now int64) {
	if errors.Is(err, delivery.ErrPartAway) {
		d.rest(e, now)
		return
	}
	d.await(e, now+int64(engineRetryMax))
	if !errors.Is(err, delivery.ErrUnavailable) || now < d.readPause {
		return // those that failed together count as one
	}
	d.readPause = now + int64(min(engineRetryFirst<<min(d.readPauses, 10), engineRetryMax))
	d.readPauses++
	d.kick()
}
