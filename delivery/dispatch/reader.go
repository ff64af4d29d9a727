package dispatch

import (
	"context"
	"errors"

	"carillon/delivery"
)

// reader reads notifications from the logs, each once for all who want it.
type reader struct {
	*base
	table    *table
	bodies   *bodies
	schedule *schedule
	records  delivery.Log
	// reading has a place for each notification that is being read from the log.
	reading chan struct{}
	reads   trouble // has its own mutex
}

// maxReads bounds the notifications that are being read from the log at a time: of
// how much that is nothing is known before.
const maxReads = 8

// read returns the first notification of the topic at or after from, to be given
// back with release. Concurrent readers share one load. It is errNoRoom where the
// body must wait for others to be given back (see room.go), unless it is for a look only.
func (r *reader) read(ctx context.Context, t *followed, from delivery.Seq, c claim) (*note, error) {
	at := place{t, from}
	r.table.mu.Lock()
	nt, size := t.wants(from)
	l := r.bodies.loads[at]
	if nt != nil {
		defer r.table.mu.Unlock()
		r.bodies.unbook(t, from, c)
		return r.schedule.admit(nt, 1, c)
	}
	if l != nil {
		l.waiters++
		l.turn = l.turn || c.turn
		r.bodies.unbook(t, from, c)
		r.table.mu.Unlock()
		<-l.done // bounded: by the deadline of the one who reads
		return l.note, l.err
	}
	if c.booked == 0 && !r.schedule.open(size, c) {
		r.table.mu.Unlock()
		return nil, errNoRoom // as an earlier reader found out
	}
	l = &load{done: make(chan struct{}), turn: c.turn}
	r.bodies.loads[at] = l
	r.table.mu.Unlock()

	n, err := r.readLog(ctx, at)
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	for err == nil && n.Seq < t.floor { // it was trimmed meanwhile
		r.table.mu.Unlock()
		n, err = r.readLog(ctx, place{t, n.Seq + 1})
		r.table.mu.Lock()
	}
	delete(r.bodies.loads, at)
	r.bodies.unbook(t, from, c)
	c.turn = l.turn
	if l.err = err; err == nil {
		nt := r.bodies.hold(t, n, false)
		nt.low = min(nt.low, from)
		l.note, l.err = r.schedule.admit(nt, 1+l.waiters, c)
	}
	close(l.done)
	return l.note, l.err
}

// readLog reads the log when it is its turn, within engineTimeout.
func (r *reader) readLog(ctx context.Context, at place) (*delivery.Notification, error) {
	select {
	case r.reading <- struct{}{}:
		defer func() { <-r.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	n, err := r.records.Read(ctx, at.topic.key, at.seq)
	if err == nil {
		r.readWorked()
	}
	return n, err
}

// readFailed counts and logs a read that will be tried again: trouble with the engine when it
// begins, anything else each time.
func (r *reader) readFailed(ctx context.Context, msg, topic string, err error) {
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return // the end of Run
	}
	r.metrics.readFails.Inc()
	if !errors.Is(err, delivery.ErrUnavailable) || r.reads.failure() {
		r.log.Warn(msg, "topic", topic, "error", err)
	}
}

// readWorked records that a log could be read.
func (r *reader) readWorked() {
	if ends, failed, took := r.reads.success(); ends {
		r.log.Info("logs can be read again", "failed", failed, "after", took)
	}
}

// fell logs that a log has lost its end, once for each loss. mu is held.
func (r *reader) fell(t *followed, left, head delivery.Seq) {
	if head <= t.fell {
		return
	}
	t.fell = head
	r.metrics.losses.Inc()
	r.log.Error("the end of a log is lost: the engine no longer has what it had acknowledged; "+
		"what was not delivered before is recorded as gaps", "topic", t.key, "head", head, "left", left)
}
