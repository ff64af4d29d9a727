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
)

// attempts makes the attempts, and settles the outcome of them.
type attempts struct {
	*base
	table    *table
	bodies   *bodies
	flights  *flights
	ledger   *ledger
	schedule *schedule
	reader   *reader
	cursors  delivery.Cursors
	ender    Ender
	sender   send.Sender
	splits   bool            // the sender takes callbacks in two parts (send.Attempt.Aim)
	history  *report.History // has its own mutex

	told    hostLines     // guarded by table.mu
	drained chan struct{} // closed when nothing is under way, once Run ends; guarded by table.mu
}

// start lets attempts begin.
func (a *attempts) start() {
	a.table.mu.Lock()
	a.schedule.running, a.drained = true, make(chan struct{})
	a.table.mu.Unlock()
	a.kick()
}

// scheduleLoop wakes, ripens, ages and starts, whenever something changed or
// the one timer fires.
func (a *attempts) scheduleLoop(ctx, flights context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.kicked:
		case <-timer.C:
		}
		for more := true; more && ctx.Err() == nil; {
			a.table.mu.Lock()
			clock := time.Now()
			now := a.nowBy(clock)
			a.schedule.heedClock(clock, now)
			more = a.schedule.walkSome(now)
			a.schedule.ripen(now)
			aging := a.schedule.age(now)
			if f := a.launch(flights, clock); f != nil {
				go a.work(flights, f)
			}
			wait := a.schedule.timer(aging, now)
			a.table.mu.Unlock()
			timer.Stop()
			if wait > 0 {
				timer.Reset(wait)
			}
		}
	}
}

// launch starts every flight that may start. The first is for the caller to
// make, so that a worker goes on without a new goroutine. mu is held.
func (a *attempts) launch(flights context.Context, clock time.Time) *flight {
	if !a.schedule.sure.OfAny(clock) {
		return nil
	}
	a.schedule.looked = clock
	now := a.nowBy(clock)
	first := a.schedule.pick(now)
	for f := first; f != nil; {
		if f = a.schedule.pick(now); f != nil {
			go a.work(flights, f)
		}
	}
	return first
}

// work makes flights while entries are ready; workers start on demand.
func (a *attempts) work(ctx context.Context, f *flight) {
	for f != nil {
		a.fly(ctx, f)
		f = a.land(ctx, f)
	}
}

// fly reads the next notification of a subscription, if it is not in memory, and
// tries to deliver it.
func (a *attempts) fly(ctx context.Context, f *flight) {
	r := &f.result
	id, settled, replay := f.was.id, f.was.settled, f.was.replay()
	if replay != nil {
		if err := a.replayGaps(ctx, f, replay); err != nil {
			a.reader.readFailed(ctx, "the gaps of a subscription could not be read", f.topic.key, err)
			r.readErr = err
			return
		}
	}
	if f.note == nil {
		nt, err := a.reader.read(ctx, f.topic, f.was.from(), f.claim)
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
			a.table.doubt(f.topic.key)
			return
		case err != nil:
			a.reader.readFailed(ctx, "a log could not be read", f.topic.key, err)
			r.readErr = err
			return
		}
		f.note, f.begun = nt, a.now()
	}
	n := f.note.n
	if r.after = n.After; f.note.blind {
		r.after = n.Seq - 1
	}
	if replay != nil {
		a.tryAgain(ctx, f, replay)
		return
	}
	r.lost = f.lost(r.after, n.Seq)
	if missing := max(min(r.after, f.head), r.lost); missing > settled {
		r.gap(id, settled+1, missing, delivery.GapTrimmed, delivery.ClassNone)
	}
	if n.Seq <= f.head { // else it is not known to be durable yet
		a.try(ctx, f)
	}
}

// try makes the attempt and judges the outcome of it.
func (a *attempts) try(ctx context.Context, f *flight) {
	n, r := f.note.n, &f.result
	if f.was.gone() {
		r.outcome.Class = delivery.ClassGone // said already; its end is still to be stored
	} else {
		if !a.splits || !f.attempt.Aim(&f.host.Host, f.was.rest()) {
			f.attempt.Callback = f.was.callback()
		}
		f.attempt.Notification, f.attempt.Wire = n, &f.note.wire
		r.outcome = a.sender.Send(ctx, &f.attempt)
		if r.tried = r.outcome.Class != delivery.ClassNone; r.outcome.Err != nil {
			r.text = send.ErrorText(r.outcome.Err)
		}
	}
	switch r.outcome.Class {
	case delivery.ClassNone: // broken off: not known the outcome of it
	case delivery.ClassDelivered:
		if f.was.replay() != nil {
			r.replayed.again = n.Seq
		} else {
			r.settled = n.Seq
		}
	case delivery.ClassGone:
		a.end(ctx, f)
	default:
		a.judge(ctx, f)
	}
}

// judge reports whether a notification is given up after an attempt that failed.
func (a *attempts) judge(ctx context.Context, f *flight) {
	n, r := f.note.n, &f.result
	if a.log.Enabled(ctx, slog.LevelDebug) {
		a.log.Debug("a delivery failed", "subscription", f.was.id, "callback_host", f.host.Name(), "notification", n.ID,
			"attempt", f.attempt.Number, "class", r.outcome.Class.String(), "status", r.outcome.Status, "error", r.outcome.Err)
	}
	if replay := f.was.replay(); replay != nil {
		a.judgeReplay(f, replay)
		return
	}
	if !a.isOver(n.Accepted, f.attempt.Number) {
		return
	}
	last := a.lastExpired(ctx, f, n.Seq)
	a.log.Warn("notifications given up: their time is over",
		"subscription", f.was.id, "topic", n.Topic, "callback_host", f.host.Name(), "first", n.Seq, "last", last,
		"class", r.outcome.Class.String(), "status", r.outcome.Status)
	r.gap(f.was.id, n.Seq, last, delivery.GapGivenUp, r.outcome.Class)
	r.gaveUp = true
}

// fewestTries is how often in a row a callback must have failed before a notification is given up for
// its age. A notification may grow old untried, behind a replay or while the hub was off. Fewer tries
// are enough where RetryFor has no room for the pauses between them.
const fewestTries = replayTries

// isOver reports whether a notification is not tried any more. A wrong clock may have accepted it in
// the future; then it is tried for as long as RetryFor of pauses takes.
func (a *attempts) isOver(accepted time.Time, attempts uint32) bool {
	through, age := a.cfg.pauses(attempts) > a.cfg.RetryFor, a.ageOf(accepted)
	if age < -retain.MaxAhead {
		return through
	}
	return age > a.cfg.RetryFor && (attempts >= fewestTries || through)
}

// end ends a subscription whose callback is gone (WebSub §7). The Ender takes
// it out of the table; one that is still there was renewed, or is to be ended yet.
// Where its shard was lost meanwhile it is for the next owner to hear that.
func (a *attempts) end(ctx context.Context, f *flight) {
	if !a.table.holds(f.shard) {
		f.result.outcome.Err = delivery.ErrNotHeld
		return
	}
	sub := f.was.subscription(f.attempt.Secret) // a renewal since then stands
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	removed, err := a.ender.Remove(ctx, sub)
	if err != nil {
		a.log.Warn("a subscription whose callback is gone could not be ended; it is tried again",
			"subscription", sub.ID, "error", err)
		f.result.outcome.Err = err
		return
	}
	if removed {
		a.log.Info(
			"subscription ended: its callback is gone", "subscription", sub.ID, "topic", sub.Topic,
			"callback_host", f.host.Name(),
		)
	}
}

// lastExpired returns the last notification up to head that is too old to be
// tried again, so that a dead callback does not drag its backlog along. Logs
// are in the order of acceptance, so it is found by halving, over numbers that
// need not be in the log. Bodies come with what is read: the cache keeps those
// few for all who give up together.
func (a *attempts) lastExpired(ctx context.Context, f *flight, from delivery.Seq) delivery.Seq {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	last, end := from, f.head // everything up to last is too old; everything after end is not
	for last < end {
		mid := last + (end-last+1)/2
		nt, err := a.reader.read(ctx, f.topic, mid, claim{look: true})
		if errors.Is(err, delivery.ErrEndOfLog) {
			end = mid - 1 // the log has lost its end
			continue
		}
		if err != nil {
			return last // the rest is found the next time
		}
		seq, accepted := nt.n.Seq, nt.n.Accepted
		a.table.mu.Lock()
		a.bodies.release(nt)
		a.table.mu.Unlock()
		if seq <= f.head && a.ageOf(accepted) > a.cfg.RetryFor {
			last = seq
		} else {
			end = mid - 1
		}
	}
	return last
}

// drain waits for the attempts under way, and breaks them off when their time
// is up. Their positions stay as they were.
func (a *attempts) drain(breakOff context.CancelFunc) {
	a.table.mu.Lock()
	a.schedule.running = false
	if a.flights.underWay() == 0 {
		close(a.drained)
	}
	drained := a.drained
	a.table.mu.Unlock()
	limit := time.NewTimer(a.cfg.DrainTimeout)
	defer limit.Stop()
	select {
	case <-drained:
	case <-limit.C:
		breakOff()
		<-drained
	}
}
