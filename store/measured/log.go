package measured

import (
	"context"
	"iter"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/subscription"
)

type log struct {
	delivery.Log
	calls *Calls
}

// Log is the engine's, measured.
func (c *Calls) Log(l delivery.Log) delivery.Log { return log{l, c} }

func (l log) Append(ctx context.Context, p delivery.Publication, id uuid.UUID, accepted time.Time) (delivery.Receipt, error) {
	began := time.Now()
	r, err := l.Log.Append(ctx, p, id, accepted)
	l.calls.done(logAppend, began, err)
	return r, err
}

func (l log) Read(ctx context.Context, topic string, from delivery.Seq) (*delivery.Notification, error) {
	began := time.Now()
	n, err := l.Log.Read(ctx, topic, from)
	l.calls.done(logRead, began, err)
	return n, err
}

func (l log) Heads(ctx context.Context, topics []string) ([]delivery.Seq, error) {
	began := time.Now()
	heads, err := l.Log.Heads(ctx, topics)
	l.calls.done(logHeads, began, err)
	return heads, err
}

func (l log) Trim(ctx context.Context, topic string, before delivery.Seq, olderThan time.Time) (delivery.Trimmed, error) {
	began := time.Now()
	went, err := l.Log.Trim(ctx, topic, before, olderThan)
	l.calls.done(logTrim, began, err)
	return went, err
}

func (l log) Shrink(ctx context.Context, topic string, keep int64, before delivery.Seq, olderThan time.Time) (delivery.Trimmed, error) {
	began := time.Now()
	went, err := l.Log.Shrink(ctx, topic, keep, before, olderThan)
	l.calls.done(logShrink, began, err)
	return went, err
}

func (l log) Keys(ctx context.Context) iter.Seq2[string, error] {
	return sequence(l.calls, logKeys, l.Log.Keys(ctx))
}

func (l log) Topics(ctx context.Context) iter.Seq2[delivery.TopicState, error] {
	return sequence(l.calls, logTopics, l.Log.Topics(ctx))
}

func (l log) Summaries(ctx context.Context, topic string, before delivery.Seq, limit int) ([]delivery.Summary, error) {
	began := time.Now()
	all, err := l.Log.Summaries(ctx, topic, before, limit)
	l.calls.done(logSummaries, began, err)
	return all, err
}

func (l log) Summary(ctx context.Context, topic string, from delivery.Seq) (delivery.Summary, error) {
	began := time.Now()
	one, err := l.Log.Summary(ctx, topic, from)
	l.calls.done(logSummary, began, err)
	return one, err
}

func (l log) State(ctx context.Context, topic string) (delivery.TopicState, error) {
	began := time.Now()
	state, err := l.Log.State(ctx, topic)
	l.calls.done(logState, began, err)
	return state, err
}

type pings struct {
	delivery.Pings
	calls *Calls
}

// Pings are the engine's, measured.
func (c *Calls) Pings(p delivery.Pings) delivery.Pings { return pings{p, c} }

func (p pings) Ping(ctx context.Context, topics []string) ([]delivery.Ping, error) {
	began := time.Now()
	noted, err := p.Pings.Ping(ctx, topics)
	p.calls.done(pingsPing, began, err)
	return noted, err
}

func (p pings) Fetched(ctx context.Context, one delivery.Ping) (*delivery.Ping, error) {
	began := time.Now()
	left, err := p.Pings.Fetched(ctx, one)
	p.calls.done(pingsFetched, began, err)
	return left, err
}

func (p pings) Waiting(ctx context.Context) iter.Seq2[delivery.Ping, error] {
	return sequence(p.calls, pingsWaiting, p.Pings.Waiting(ctx))
}

type cursors struct {
	delivery.Cursors
	calls *Calls
}

// Cursors are the engine's, measured.
func (c *Calls) Cursors(all delivery.Cursors) delivery.Cursors { return cursors{all, c} }

func (c cursors) Members(ctx context.Context, s subscription.Shard) iter.Seq2[delivery.Member, error] {
	return sequence(c.calls, cursorsMembers, c.Cursors.Members(ctx, s))
}

func (c cursors) Save(ctx context.Context, batches []delivery.Batch) error {
	began := time.Now()
	err := c.Cursors.Save(ctx, batches)
	c.calls.done(cursorsSave, began, err)
	return err
}

func (c cursors) Gaps(ctx context.Context, id subscription.ID, limit int) ([]delivery.Gap, error) {
	began := time.Now()
	gaps, err := c.Cursors.Gaps(ctx, id, limit)
	c.calls.done(cursorsGaps, began, err)
	return gaps, err
}

func (c cursors) Gapped(ctx context.Context, s subscription.Shard) iter.Seq2[subscription.ID, error] {
	return sequence(c.calls, cursorsGapped, c.Cursors.Gapped(ctx, s))
}

type marks struct {
	delivery.Marks
	calls *Calls
}

// Marks are the engine's, measured; nil where it has none.
func (c *Calls) Marks(all delivery.Marks) delivery.Marks {
	if all == nil {
		return nil
	}
	return marks{all, c}
}

func (m marks) Mark(ctx context.Context, t delivery.Tenure, lowest map[string]delivery.Seq) error {
	began := time.Now()
	err := m.Marks.Mark(ctx, t, lowest)
	m.calls.done(marksMark, began, err)
	return err
}

func (m marks) Lowest(ctx context.Context, since time.Time) (map[string]delivery.Seq, bool, error) {
	began := time.Now()
	lowest, known, err := m.Marks.Lowest(ctx, since)
	m.calls.done(marksLowest, began, err)
	return lowest, known, err
}
