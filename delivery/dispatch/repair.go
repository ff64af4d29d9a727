package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon/delivery"
	"carillon/delivery/report"
	"carillon/delivery/retain"
	"carillon/subscription"
	"carillon/topic"
)

// repairs does what an operator wants for one subscription.
type repairs struct {
	*base
	table    *table
	ledger   *ledger
	schedule *schedule
	saver    *saver
	survey   *survey
	records  delivery.Log
	cursors  delivery.Cursors
	marks    delivery.Marks // nil where this process has the engine to itself
	trimmer  *retain.Trimmer
}

// RetryNow has the next attempt of a subscription made now, before others of its host,
// though it would back off for longer. Where that attempt fails, too, the next one is made when
// it would have been, and the failures in a row are as many as before, so that no attempt by hand
// makes a pause longer; only what the callback asks for (Retry-After) does. Where its
// host is allowed too few attempts at a time it is allowed one more, within
// Config.MaxPerHost. While the engine is away, and no attempt starts (Stats.Paused), it
// waits for that to end.
func (rep *repairs) RetryNow(_ context.Context, id subscription.ID) error {
	rep.table.mu.Lock()
	defer rep.table.mu.Unlock()
	e, err := rep.repairable(id)
	switch {
	case err != nil:
		return err
	case e.state == flying, rep.table.abroad[id] > 0:
		return fmt.Errorf("%w: an attempt has begun and has not ended", delivery.ErrUnderWay)
	case !e.behind():
		return fmt.Errorf("%w: it has got everything", delivery.ErrNothingToDo)
	case e.state == waiting:
		rep.schedule.hurry(e)
	case e.state == ready:
		rep.schedule.widen(e.host, e.lane()) // it has its turn
	default:
		return fmt.Errorf("%w: the head of its topic's log is still to be read", delivery.ErrUnavailable)
	}
	rep.kick()
	return nil
}

// repairable returns an entry that an operator may have delivered to. mu is held.
func (rep *repairs) repairable(id subscription.ID) (*entry, error) {
	e, err := rep.table.entryOf(id)
	switch {
	case err != nil:
		return nil, err
	case rep.table.shardOf(e).leaving:
		return nil, delivery.ErrNotHeld
	case rep.table.shardOf(e).away:
		return nil, fmt.Errorf("%w: it is the one that keeps the position of the subscription", delivery.ErrPartAway)
	case !rep.schedule.sure.Of(subscription.ShardOf(id), time.Now()):
		return nil, fmt.Errorf("%w by now, or may do so", delivery.ErrNotHeld)
	case e.expires <= rep.now():
		return nil, fmt.Errorf("%w: its lease is over", delivery.ErrNothingToDo)
	}
	return e, nil
}

// Replay has the notifications from..last delivered to a subscription once more; last 0: up to the
// head. They go in order and one at a time, before those it has not got yet. Notifications behind the
// cursor are still to come anyway, so the replay ends there, at the last number that is returned.
//
// The replay is durable when Replay returns nil. ErrNotHeld: the shard is another process's by then,
// and nothing is delivered here. ErrUnderWay: another replay of the subscription runs. *NotKeptError:
// it would begin before the oldest kept notification.
//
// Earlier failures of the callback count no more. Each notification is tried replayTries times at
// most, within Config.RetryFor, and is passed over then; where the one after it fails as well the
// replay ends.
func (rep *repairs) Replay(
	ctx context.Context, id subscription.ID, from, last delivery.Seq,
) (first, end delivery.Seq, err error) {
	at, settled, err := rep.replayable(id)
	if err != nil {
		return 0, 0, err
	}
	if end = settled; last > 0 {
		end = min(end, last)
	}
	if err := rep.checkKept(ctx, at, from, end); err != nil {
		return 0, 0, err
	}
	if err := rep.saver.flush(context.WithoutCancel(ctx)); err != nil { // all gaps up to end
		return 0, 0, fmt.Errorf("saving positions before a replay: %w", err)
	}
	gaps, err := report.Gaps(ctx, rep.cursors, id)
	if err != nil {
		return 0, 0, err
	}
	r := &replay{next: 1, last: end, known: true, told: replayTold{first: from}}
	r.take(gaps)
	cuts := r.pass(from - 1)
	sh, err := rep.beginReplay(id, r, cuts, settled)
	if err != nil {
		return 0, 0, err
	}
	needs, _ := rep.survey.slowestOf(subscription.ShardOf(id)) // before the flush: a mark is of what is saved
	if err := rep.saver.flush(context.WithoutCancel(ctx)); err != nil {
		return 0, 0, fmt.Errorf("a replay has begun, and is not saved yet: %w", err)
	}
	if err := rep.keeps(sh); err != nil {
		return 0, 0, err
	}
	rep.markNow(ctx, needs)
	return from, end, nil
}

// replayable returns the topic of a subscription that a replay may begin for, and its
// cursor.
func (rep *repairs) replayable(id subscription.ID) (at topic.Address, settled delivery.Seq, err error) {
	rep.table.mu.Lock()
	defer rep.table.mu.Unlock()
	e, err := rep.repairable(id)
	switch {
	case err != nil:
		return at, 0, err
	case e.gone():
		return at, 0, fmt.Errorf("%w: its callback is gone", delivery.ErrNothingToDo)
	case e.replay() != nil:
		return at, 0, fmt.Errorf(
			"%w: a replay up to %d has come to %d", delivery.ErrUnderWay, e.replay().last, e.replay().next,
		)
	}
	return topic.Stored(e.topicURL(), e.topic.key), e.settled, nil
}

// checkKept reports whether a log has what is to be replayed.
func (rep *repairs) checkKept(ctx context.Context, at topic.Address, from, end delivery.Seq) error {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	state, err := rep.records.State(ctx, at.Key())
	if err != nil {
		return fmt.Errorf("reading the state of the log of %s: %w", at, err)
	}
	if from < state.First {
		return &delivery.NotKeptError{First: state.First}
	}
	if from > end {
		return fmt.Errorf("%w: what comes after %d is still to be delivered anyway", delivery.ErrNothingToDo, end)
	}
	s, err := rep.records.Summary(ctx, at.Key(), from)
	if errors.Is(err, delivery.ErrEndOfLog) || err == nil && s.Seq > end {
		return fmt.Errorf("%w: the log has nothing from %d to %d", delivery.ErrNothingToDo, from, end)
	}
	if err != nil {
		return fmt.Errorf("reading the log of %s: %w", at, err)
	}
	return nil
}

// beginReplay sets a replay off, if nothing has changed that it depends on since the cursor
// was settled.
func (rep *repairs) beginReplay(
	id subscription.ID, r *replay, cuts []delivery.Gap, settled delivery.Seq,
) (*shardTable, error) {
	rep.table.mu.Lock()
	defer rep.table.mu.Unlock()
	e, err := rep.repairable(id)
	switch {
	case err != nil:
		return nil, err
	case e.replay() != nil:
		return nil, fmt.Errorf(
			"%w: a replay up to %d has come to %d", delivery.ErrUnderWay, e.replay().last, e.replay().next,
		)
	case e.settled < r.last:
		return nil, fmt.Errorf("%w: the subscription has begun anew", delivery.ErrUnavailable)
	}
	r.others = r.others || e.gapped && e.settled != settled // one may have come since
	e.setReplay(r)
	rep.table.fail(e, 0, 0, delivery.ClassNone, 0)
	sh := rep.table.shardOf(e)
	sh.gaps = append(sh.gaps, cuts...)
	rep.ledger.changed(sh, e)
	switch e.state {
	case waiting:
		rep.schedule.hurry(e)
	case idle:
		rep.schedule.place(e, rep.now())
	}
	rep.kick()
	return sh, nil
}

// keeps reports whether what a flush was to save of a shard, as it was held before, is stored.
func (rep *repairs) keeps(sh *shardTable) error {
	rep.table.mu.Lock()
	defer rep.table.mu.Unlock()
	switch {
	case !rep.table.stays(sh):
		return fmt.Errorf("%w by now", delivery.ErrNotHeld)
	case sh.away:
		return fmt.Errorf("a replay has begun, and is not saved yet: %w", delivery.ErrPartAway)
	}
	return nil
}

// markNow marks a shard without waiting for the next round of trimming, in whichever process that
// runs. The replay passes over notifications that are trimmed all the same.
func (rep *repairs) markNow(ctx context.Context, m retain.Mark) {
	if rep.marks == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), engineTimeout)
	defer cancel()
	if err := rep.trimmer.WriteMark(ctx, m); err != nil {
		rep.log.Debug("a shard was not marked for a replay", "shard", m.Tenure.Shard, "error", err)
	}
}
