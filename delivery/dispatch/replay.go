package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"carillon/delivery"
	"carillon/delivery/report"
	"carillon/delivery/retain"
	"carillon/subscription"
)

// A replay delivers a stretch of the log to one subscription once more (decision 28):
//
//	log      1 2 3 4 5 6 7 8 9
//	               ▲   ▲ ▲   ▲
//	            next last│   head     first 4 and 5 again, then what is behind the cursor
//	                  settled
//
// It is a part of the position: it is saved with it and goes on where it was after a
// restart, or in another process. While there is one the cursor rests.
//
// Gaps that it fills are marked as Replayed one by one, in the batch that moves next past
// their end. So that this is right also for who comes to a replay half way through, a gap
// is cut in two where the replay begins, where it had to pass something over and where
// it ends. What holds at any time: of a gap that is not Replayed and that next is in the
// midst of, everything before next was delivered again.

// replayTries is how often each notification of a replay is tried.
const replayTries = 10

// replay is one that is under way. While there is a flight for its entry only that one's
// landing changes it. Guarded by Dispatcher.mu otherwise.
type replay struct {
	next, last delivery.Seq
	// gaps are those from next to last that were not replayed, by their First; known:
	// they were read. others: there are more that were not.
	gaps          []delivery.Gap
	known, others bool
	told          replayTold
}

// replayTold is what the log tells of a replay at its end. It begins anew where another
// process, or this one after a restart, goes on with it.
type replayTold struct {
	first                  delivery.Seq // where it began
	sent, givenUp, untried int          // numbers: delivered, failed to the last try, never tried
	missed                 delivery.Seq // the first that was not delivered, 0: none
	early                  bool
}

// Replay has the notifications from..last delivered to a subscription once more, in order
// and one at a time, and before what it has not got yet; last 0: up to the head. What lies
// behind its cursor is still to come anyway: so the replay ends there, at the last number
// that is returned. It is durable when Replay returns nil; where the shard is another process's
// by then it is ErrNotHeld, and nothing is delivered here. What the callback failed before
// counts no more. Each notification is tried replayTries times at most, within
// Config.RetryFor, and is passed over then; where the one after it fails as well
// the replay ends. There is one at a time: another is ErrUnderWay. One that begins before
// what is kept is a *NotKeptError.
func (d *Dispatcher) Replay(ctx context.Context, id subscription.ID, from, last delivery.Seq) (first, end delivery.Seq, err error) {
	url, settled, err := d.replayable(id)
	if err != nil {
		return 0, 0, err
	}
	if end = settled; last > 0 {
		end = min(end, last)
	}
	if err := d.checkKept(ctx, url, from, end); err != nil {
		return 0, 0, err
	}
	if err := d.flush(context.WithoutCancel(ctx)); err != nil { // all gaps up to end
		return 0, 0, fmt.Errorf("saving positions before a replay: %w", err)
	}
	gaps, err := report.Gaps(ctx, d.cursors, id)
	if err != nil {
		return 0, 0, err
	}
	r := &replay{next: 1, last: end, known: true, told: replayTold{first: from}}
	r.take(gaps)
	cuts := r.pass(from - 1)
	sh, err := d.beginReplay(id, r, cuts, settled)
	if err != nil {
		return 0, 0, err
	}
	needs, _ := d.slowestOf(subscription.ShardOf(id)) // before the flush: a mark is of what is saved
	if err := d.flush(context.WithoutCancel(ctx)); err != nil {
		return 0, 0, fmt.Errorf("a replay has begun, and is not saved yet: %w", err)
	}
	if err := d.keeps(sh); err != nil {
		return 0, 0, err
	}
	d.markNow(ctx, needs)
	return from, end, nil
}

// keeps reports whether what a flush was to save of a shard, as it was held before, is stored.
func (d *Dispatcher) keeps(sh *shardTable) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !d.stays(sh):
		return fmt.Errorf("%w by now", delivery.ErrNotHeld)
	case sh.away:
		return fmt.Errorf("a replay has begun, and is not saved yet: %w", delivery.ErrPartAway)
	}
	return nil
}

// holds tells whether a shard is held as it was: then what a flush has saved of it since
// is stored, and else it may have been refused.
func (d *Dispatcher) holds(sh *shardTable) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stays(sh)
}

// markNow marks a shard without waiting for the next round of trimming, wherever that is done. What
// is trimmed all the same the replay passes over.
func (d *Dispatcher) markNow(ctx context.Context, m retain.Mark) {
	if d.marks == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), engineTimeout)
	defer cancel()
	if err := d.trimmer.WriteMark(ctx, m); err != nil {
		d.log.Debug("a shard was not marked for a replay", "shard", m.Tenure.Shard, "error", err)
	}
}

// replayable returns the topic of a subscription that a replay may begin for, and its
// cursor.
func (d *Dispatcher) replayable(id subscription.ID) (url string, settled delivery.Seq, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, err := d.repairable(id)
	switch {
	case err != nil:
		return "", 0, err
	case e.gone():
		return "", 0, fmt.Errorf("%w: its callback is gone", delivery.ErrNothingToDo)
	case e.replay() != nil:
		return "", 0, fmt.Errorf("%w: a replay up to %d has come to %d", delivery.ErrUnderWay, e.replay().last, e.replay().next)
	}
	return e.topicURL(), e.settled, nil
}

// checkKept tells whether a log has what is to be replayed.
func (d *Dispatcher) checkKept(ctx context.Context, topic string, from, end delivery.Seq) error {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	state, err := d.records.State(ctx, topic)
	if err != nil {
		return fmt.Errorf("reading the state of the log of %s: %w", topic, err)
	}
	if from < state.First {
		return &delivery.NotKeptError{First: state.First}
	}
	if from > end {
		return fmt.Errorf("%w: what comes after %d is still to be delivered anyway", delivery.ErrNothingToDo, end)
	}
	s, err := d.records.Summary(ctx, topic, from)
	if errors.Is(err, delivery.ErrEndOfLog) || err == nil && s.Seq > end {
		return fmt.Errorf("%w: the log has nothing from %d to %d", delivery.ErrNothingToDo, from, end)
	}
	if err != nil {
		return fmt.Errorf("reading the log of %s: %w", topic, err)
	}
	return nil
}

// beginReplay sets a replay off, if nothing has changed that it depends on since the cursor
// was settled.
func (d *Dispatcher) beginReplay(id subscription.ID, r *replay, cuts []delivery.Gap, settled delivery.Seq) (*shardTable, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, err := d.repairable(id)
	switch {
	case err != nil:
		return nil, err
	case e.replay() != nil:
		return nil, fmt.Errorf("%w: a replay up to %d has come to %d", delivery.ErrUnderWay, e.replay().last, e.replay().next)
	case e.settled < r.last:
		return nil, fmt.Errorf("%w: the subscription has begun anew", delivery.ErrUnavailable)
	}
	r.others = r.others || e.gapped && e.settled != settled // one may have come since
	e.setReplay(r)
	d.fail(e, 0, 0, delivery.ClassNone, 0)
	sh := d.shardOf(e)
	sh.gaps = append(sh.gaps, cuts...)
	d.changed(sh, e)
	switch e.state {
	case waiting:
		d.hurry(e)
	case idle:
		d.place(e, d.now())
	}
	d.kick()
	return sh, nil
}

func (e *entry) setReplay(r *replay) {
	if e.rare == nil {
		e.rare = &rare{}
	}
	e.rare.replay = r
}

// take takes over the gaps of the subscription, as they were read.
func (r *replay) take(gaps []delivery.Gap) {
	r.known = true
	r.others = r.others || len(gaps) == report.MaxGaps // there may be more
	for _, g := range gaps {
		switch {
		case !g.Replayed.IsZero():
		case g.Last < r.next, g.First > r.last:
			r.others = true
		default:
			r.gaps = append(r.gaps, g)
		}
	}
	slices.SortFunc(r.gaps, func(a, b delivery.Gap) int { return cmp.Compare(a.First, b.First) })
}

// deliver takes note that everything from next to a number was delivered again, and
// returns how the gaps are to be stored.
func (r *replay) deliver(to delivery.Seq, at time.Time) (changed []delivery.Gap) {
	to = min(to, r.last)
	for len(r.gaps) > 0 && r.gaps[0].First <= to {
		g := r.gaps[0]
		if rest := g; g.Last > to {
			if to < r.last {
				break // not yet
			}
			rest.First, g.Last = to+1, to
			changed = append(changed, rest)
			r.others = true
		}
		g.Replayed = at
		changed = append(changed, g)
		r.gaps = r.gaps[1:]
	}
	r.next = max(r.next, to+1)
	return changed
}

// pass takes note that what is from next to a number was not delivered, and returns how
// the gaps are to be stored.
func (r *replay) pass(to delivery.Seq) (changed []delivery.Gap) {
	var left []delivery.Gap
	for _, g := range r.gaps {
		if g.First > to {
			left = append(left, g)
			continue
		}
		whole := g
		if g.First < r.next {
			before := g
			before.Last, before.Replayed = r.next-1, time.Now()
			g.First = r.next
			changed = append(changed, before)
		}
		if g.Last > to {
			rest := g
			g.Last, rest.First = to, to+1
			if changed = append(changed, rest); rest.First <= r.last {
				left = append(left, rest)
			}
		}
		if g != whole && g.First <= g.Last {
			changed = append(changed, g)
		}
		r.others = true
	}
	r.gaps = left
	r.next = max(r.next, to+1)
	return changed
}

// replayed is what a flight of a replay brings home.
type replayed struct {
	stored []delivery.Gap // the gaps as they were read, if read
	read   bool
	passed delivery.Seq // up to here nothing was delivered again
	early  bool
	again  delivery.Seq // and from there up to here everything was
}

// replayGaps reads the gaps where nobody here has read them yet: the replay comes from
// before a restart, or from another process.
func (d *Dispatcher) replayGaps(ctx context.Context, f *flight, r *replay) error {
	if r.known {
		return nil
	}
	gaps, err := report.Gaps(ctx, d.cursors, f.was.id)
	if err != nil {
		return err
	}
	f.result.replayed.stored, f.result.replayed.read = gaps, true
	return nil
}

// tryAgain delivers a notification of a replay, or finds that there is none left.
func (d *Dispatcher) tryAgain(ctx context.Context, f *flight, r *replay) {
	p := &f.result.replayed
	if after := f.result.after; after >= r.next {
		p.passed = min(after, r.last) // trimmed meanwhile
	}
	if seq := f.note.n.Seq; seq <= r.last {
		d.try(ctx, f)
	} else {
		p.again = r.last
	}
}

// judgeReplay tells whether a replay passes over a notification, or ends, after an
// attempt that failed.
func (d *Dispatcher) judgeReplay(f *flight, r *replay) {
	over := func(attempts uint32) bool {
		return attempts >= replayTries || d.cfg.pauses(attempts) > d.cfg.RetryFor
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
func (d *Dispatcher) settleReplay(f *flight, r *replay) {
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
	sh := d.shardOf(e)
	sh.gaps = append(sh.gaps, changed...)
	if r.next > r.last {
		d.endReplay(e, r)
	}
}

// miss counts what is passed over, for the log; tried: one of it was, to the last try.
func (r *replay) miss(to delivery.Seq, tried bool) {
	if r.told.missed == 0 {
		r.told.missed = r.next
	}
	r.told.untried += int(min(to, r.last) - r.next + 1)
	if tried {
		r.told.untried--
		r.told.givenUp++
	}
}

// endReplay ends a replay that is through. mu is held.
func (d *Dispatcher) endReplay(e *entry, r *replay) {
	e.gapped = r.others
	e.rare.replay = nil
	e.tidy()
	log := d.log.With("subscription", e.id, "topic", e.topic.key, "first", r.told.first, "last", r.last,
		"delivered", r.told.sent, "given_up", r.told.givenUp, "not_tried", r.told.untried)
	switch {
	case r.told.early:
		log.Warn("a replay has ended early: the callback took none of two in a row", "not_delivered_from", r.told.missed)
	case r.told.missed > 0:
		log.Warn("a replay has ended, and not all of it was delivered", "not_delivered_from", r.told.missed)
	default:
		log.Info("a replay has ended")
	}
}
