package measured

import (
	"context"
	"iter"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/subscription"
	"carillon/topic"
)

type log struct {
	delivery.Log
	calls *Calls
}

// Log is the engine's, measured.
func (c *Calls) Log(l delivery.Log) delivery.Log { return log{l, c} }

func (l log) Append(
	ctx context.Context, p delivery.Publication, id uuid.UUID, accepted time.Time,
) (_ delivery.Receipt, err error) {
	defer l.calls.done(logAppend, time.Now(), &err)
	return l.Log.Append(ctx, p, id, accepted)
}

func (l log) Read(
	ctx context.Context, key string, from delivery.Seq,
) (_ *delivery.Notification, err error) {
	defer l.calls.done(logRead, time.Now(), &err)
	return l.Log.Read(ctx, key, from)
}

func (l log) Heads(ctx context.Context, keys []string) (_ []delivery.Seq, err error) {
	defer l.calls.done(logHeads, time.Now(), &err)
	return l.Log.Heads(ctx, keys)
}

func (l log) Trim(
	ctx context.Context, key string, before delivery.Seq, olderThan time.Time,
) (_ delivery.Trimmed, err error) {
	defer l.calls.done(logTrim, time.Now(), &err)
	return l.Log.Trim(ctx, key, before, olderThan)
}

func (l log) Shrink(
	ctx context.Context, key string, keep int64, before delivery.Seq, olderThan time.Time,
) (_ delivery.Trimmed, err error) {
	defer l.calls.done(logShrink, time.Now(), &err)
	return l.Log.Shrink(ctx, key, keep, before, olderThan)
}

func (l log) Keys(ctx context.Context) iter.Seq2[string, error] {
	return sequence(l.calls, logKeys, l.Log.Keys(ctx))
}

func (l log) Topics(ctx context.Context) iter.Seq2[delivery.TopicState, error] {
	return sequence(l.calls, logTopics, l.Log.Topics(ctx))
}

func (l log) Summaries(
	ctx context.Context, key string, before delivery.Seq, limit int,
) (_ []delivery.Summary, err error) {
	defer l.calls.done(logSummaries, time.Now(), &err)
	return l.Log.Summaries(ctx, key, before, limit)
}

func (l log) Summary(
	ctx context.Context, key string, from delivery.Seq,
) (_ delivery.Summary, err error) {
	defer l.calls.done(logSummary, time.Now(), &err)
	return l.Log.Summary(ctx, key, from)
}

func (l log) State(ctx context.Context, key string) (_ delivery.TopicState, err error) {
	defer l.calls.done(logState, time.Now(), &err)
	return l.Log.State(ctx, key)
}

type pings struct {
	delivery.Pings
	calls *Calls
}

// Pings are the engine's, measured.
func (c *Calls) Pings(p delivery.Pings) delivery.Pings { return pings{p, c} }

func (p pings) Ping(ctx context.Context, topics []topic.Address) (_ []delivery.Ping, err error) {
	defer p.calls.done(pingsPing, time.Now(), &err)
	return p.Pings.Ping(ctx, topics)
}

func (p pings) Fetched(ctx context.Context, one delivery.Ping) (_ *delivery.Ping, err error) {
	defer p.calls.done(pingsFetched, time.Now(), &err)
	return p.Pings.Fetched(ctx, one)
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

func (c cursors) Save(ctx context.Context, batches []delivery.Batch) (err error) {
	defer c.calls.done(cursorsSave, time.Now(), &err)
	return c.Cursors.Save(ctx, batches)
}

func (c cursors) Gaps(
	ctx context.Context, id subscription.ID, limit int,
) (_ []delivery.Gap, err error) {
	defer c.calls.done(cursorsGaps, time.Now(), &err)
	return c.Cursors.Gaps(ctx, id, limit)
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

func (m marks) Mark(ctx context.Context, t delivery.Tenure, lowest map[string]delivery.Seq) (err error) {
	defer m.calls.done(marksMark, time.Now(), &err)
	return m.Marks.Mark(ctx, t, lowest)
}

func (m marks) Lowest(
	ctx context.Context, since time.Time,
) (_ map[string]delivery.Seq, _ bool, err error) {
	defer m.calls.done(marksLowest, time.Now(), &err)
	return m.Marks.Lowest(ctx, since)
}
