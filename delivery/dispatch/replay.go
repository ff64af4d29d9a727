package dispatch

import (
	"context"
	"time"

	"carillon/delivery"
	"carillon/delivery/report"
)

// replayGaps reads the gaps if this process has not read them yet: the replay comes from before a
// restart, or from another process.
func (a *attempts) replayGaps(ctx context.Context, f *flight, r *replay) error {
	if r.known {
		return nil
	}
	gaps, err := report.Gaps(ctx, a.cursors, f.was.id)
	if err != nil {
		return err
	}
	f.result.replayed.stored, f.result.replayed.read = gaps, true
	return nil
}

// tryAgain delivers a notification of a replay, or finds that the replay is over.
func (a *attempts) tryAgain(ctx context.Context, f *flight, r *replay) {
	p := &f.result.replayed
	if after := f.result.after; after >= r.next {
		p.passed = min(after, r.last) // trimmed meanwhile
	}
	if seq := f.note.n.Seq; seq <= r.last {
		a.try(ctx, f)
	} else {
		p.again = r.last
	}
}

// judgeReplay reports whether a replay passes over a notification, or ends, after an
// attempt that failed.
func (a *attempts) judgeReplay(f *flight, r *replay) {
	over := func(attempts uint32) bool {
		return attempts >= replayTries || a.cfg.pauses(attempts) > a.cfg.RetryFor
	}
	switch attempts, p := f.attempt.Number, &f.result; {
	case !over(attempts):
	case attempts > 1 && over(attempts-1): // this is the second one in a row
		p.replayed.passed, p.gaveUp, p.replayed.early = r.last, true, f.note.n.Seq < r.last
	default:
		p.replayed.passed, p.gaveUp = f.note.n.Seq, true
	}
}

// settleReplay moves a replay on after a flight of it. mu is held.
func (a *attempts) settleReplay(f *flight, r *replay) {
	e, p := f.e, &f.result.replayed
	if e.replay() != r {
		return // the subscription has begun anew
	}
	if p.read {
		r.take(p.stored)
	}
	var changed []delivery.Gap
	if p.passed >= r.next {
		r.miss(p.passed, f.result.gaveUp)
		r.told.early = p.early
		changed = r.pass(p.passed)
	}
	if p.again >= r.next {
		changed = append(changed, r.deliver(p.again, time.Now())...)
		if f.result.tried {
			r.told.sent++
		}
	}
	sh := a.table.shardOf(e)
	sh.gaps = append(sh.gaps, changed...)
	if r.next > r.last {
		a.endReplay(e, r)
	}
}

// endReplay ends a replay that is through. mu is held.
func (a *attempts) endReplay(e *entry, r *replay) {
	e.gapped = r.others
	e.rare.replay = nil
	e.tidy()
	log := a.log.With("subscription", e.id, "topic", e.topic.key, "first", r.told.first, "last", r.last,
		"delivered", r.told.sent, "given_up", r.told.givenUp, "not_tried", r.told.untried)
	switch {
	case r.told.early:
		log.Warn(
			"a replay has ended early: the callback took none of two in a row", "not_delivered_from", r.told.missed,
		)
	case r.told.missed > 0:
		log.Warn("a replay has ended, and not all of it was delivered", "not_delivered_from", r.told.missed)
	default:
		log.Info("a replay has ended")
	}
}
