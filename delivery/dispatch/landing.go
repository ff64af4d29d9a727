package dispatch

import (
	"context"
	"time"

	"carillon/delivery"
	"carillon/delivery/report"
	"carillon/subscription"
)

// land settles a flight and returns the worker's next one, nil without one.
func (a *attempts) land(ctx context.Context, f *flight) *flight {
	if f.result.tried {
		ended := a.now() // noted without the mutex, for which many wait
		a.remember(f, ended)
		a.metrics.tried(f.result.outcome.Class, time.Duration(ended-f.begun))
		if f.result.outcome.Class == delivery.ClassDelivered && f.was.replay() == nil {
			a.metrics.delivered(time.Duration(ended - f.note.n.Accepted.UnixNano()))
		}
	}
	var news hostNews
	defer func() { a.tellHost(news) }()
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	clock := time.Now()
	now := a.nowBy(clock)
	a.schedule.heedClock(clock, now)
	if f.note != nil {
		a.bodies.release(f.note)
	}
	if f.result.tried {
		news = a.told.watch(f.host, &f.result.outcome, now)
	}
	f.adapt(&f.result.outcome, int32(a.cfg.MaxPerHost), now)
	a.schedule.landed(f)
	if f.e.state != ended {
		a.settle(f, now)
	} else {
		a.comeHome(f.was.id, now)
	}
	a.flights.recycle(f)
	if !a.schedule.running && a.flights.underWay() == 0 {
		close(a.drained)
	}
	return a.launch(ctx, clock)
}

// remember records an attempt that came to an end.
func (a *attempts) remember(f *flight, ended int64) {
	r := &f.result
	a.history.Add(f.was.id, &report.Attempt{
		At: timeOf(ended), Took: max(0, time.Duration(ended-f.begun)), Seq: f.note.n.Seq, Number: f.attempt.Number,
		Class: r.outcome.Class, Status: uint16(r.outcome.Status), Error: r.text, Replay: f.was.replay() != nil,
	})
}

// settle moves an entry on after a flight. mu is held.
func (a *attempts) settle(f *flight, now int64) {
	e, sh, r := f.e, a.table.shardOf(f.e), &f.result
	e.settled = max(e.settled, r.settled)
	if len(r.gaps) > 0 {
		sh.gaps, e.gapped = append(sh.gaps, r.gaps...), true
		if replay := e.replay(); replay != nil {
			replay.others = true
		}
		for _, g := range r.gaps {
			a.metrics.gaps.WithLabelValues(g.Reason.String()).Inc()
		}
	}
	if replay := f.was.replay(); replay != nil {
		a.settleReplay(f, replay)
	}
	if r.readErr == nil {
		a.schedule.readPauses, e.topic.rests = 0, 0
	}
	if r.lost > 0 || e.topic.before > 0 {
		a.testify(e.topic, r)
	}
	switch {
	case r.noRoom:
		a.schedule.park(e)
		return
	case r.readErr != nil:
		a.schedule.pauseReads(e, r.readErr, now)
		return
	case r.outcome.Class == delivery.ClassNone:
		if len(r.gaps) > 0 || f.was.replay() != nil {
			a.ledger.changed(sh, e)
		}
	case r.outcome.Class == delivery.ClassDelivered, r.gaveUp && !e.behind():
		// With nothing left to send, the next notification is tried at once
		// (WebSub §7: try again for each new update).
		a.table.fail(e, 0, 0, delivery.ClassNone, 0)
		a.ledger.changed(sh, e)
	default:
		failures, due := a.next(e, r.outcome.RetryAfter, now)
		a.table.fail(e, failures, due, r.outcome.Class, uint16(r.outcome.Status))
		e.rare.gone = r.outcome.Class == delivery.ClassGone && r.outcome.Err != nil && e.expires == f.was.expires
		a.ledger.changed(sh, e)
	}
	a.schedule.place(e, now)
}

// comeHome counts out an attempt whose entry has ended. A new entry with the same ID has waited for
// that, so that its deliveries stay one at a time. mu is held.
func (a *attempts) comeHome(id subscription.ID, now int64) {
	if a.table.abroad[id]--; a.table.abroad[id] == 0 {
		delete(a.table.abroad, id)
	}
	if e, err := a.table.entryOf(id); err == nil && e.state == idle {
		a.schedule.place(e, now)
	}
}

// next is how many failures in a row there are after one more, and when the next attempt is
// due. One by hand leaves both as they were. mu is held.
func (a *attempts) next(e *entry, asked time.Duration, now int64) (failures uint32, due int64) {
	failures = e.failures()
	if !e.hurried() {
		failures++
	} else if planned := -e.rare.due; planned > now {
		return failures, max(planned, now+int64(min(asked, a.cfg.RetryMax)))
	}
	return failures, now + int64(a.cfg.retryDelay(failures, asked))
}

// testify clears up what a read has shown of a topic's log. mu is held.
func (a *attempts) testify(t *followed, r *result) {
	if r.lost > 0 {
		a.reader.fell(t, r.after, r.lost)
	}
	if t.before == r.after {
		t.before = 0
	}
}

// tellHost writes a line.
func (a *attempts) tellHost(news hostNews) {
	switch {
	case news.host == "":
	case news.failed == 0:
		a.log.Info("a callback host works again", "callback_host", news.host)
	default:
		a.log.Warn("a callback host fails; its deliveries are tried again", "callback_host", news.host,
			"in_a_row", news.failed, "class", news.class.String(), "status", news.status)
	}
}
