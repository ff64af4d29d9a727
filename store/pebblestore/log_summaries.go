package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"carillon/delivery"
)

// summary is what the head of a notification says of it.
func summary(n *delivery.Notification, bodyLen uint64) delivery.Summary {
	return delivery.Summary{
		Seq: n.Seq, After: n.After, ID: n.ID, Accepted: n.Accepted,
		ContentType: n.ContentType, From: n.From, Until: n.Until,
		Bytes: int64(min(bodyLen, math.MaxInt64)),
	}
}

// Summary implements delivery.Log.
func (l *Log) Summary(ctx context.Context, key string, from delivery.Seq) (delivery.Summary, error) {
	if err := l.db.engine.enter(ctx); err != nil {
		return delivery.Summary{}, fmt.Errorf("look into the log of %q: %w", key, err)
	}
	defer l.db.engine.leave()
	n, err := l.next(topicIDOf(key), uint64(from), false)
	if err != nil {
		return delivery.Summary{}, fmt.Errorf("look into the log of %q at %d: %w", key, from, err)
	}
	return summary(&n.Notification, n.bodyLen), nil
}

// Summaries implements delivery.Log.
func (l *Log) Summaries(
	ctx context.Context, key string, before delivery.Seq, limit int,
) ([]delivery.Summary, error) {
	end := uint64(before)
	if before == 0 {
		end = math.MaxUint64
	}
	if err := l.db.engine.enter(ctx); err != nil {
		return nil, fmt.Errorf("list the log of %q: %w", key, err)
	}
	defer l.db.engine.leave()
	if limit <= 0 {
		return nil, nil
	}
	list, err := l.latest(ctx, topicIDOf(key), end, limit)
	if errors.Is(err, ErrDamaged) {
		list, err = l.latestAround(ctx, topicIDOf(key), end, limit)
	}
	if err != nil {
		return nil, fmt.Errorf("list the log of %q below %d: %w", key, before, err)
	}
	return list, nil
}

// latest goes back through the heads below end. A body that was found damaged is left out
// with its head. It is ErrDamaged where it meets a block
// that cannot be read.
func (l *Log) latest(ctx context.Context, topic topicID, end uint64, limit int) ([]delivery.Summary, error) {
	it, err := iterator(l.db.engine.db, logKey(kindHead, topic, 0), logKey(kindHead, topic, end))
	if err != nil {
		return nil, err
	}
	var list []delivery.Summary
	for ok := it.Last(); ok && len(list) < limit && err == nil; ok = it.Prev() {
		var value []byte
		if value, err = it.ValueAndErr(); err != nil {
			break
		}
		seq := seqOf(it.Key())
		n, bodyLen, damage := decodeHead(seq, value)
		switch {
		case damage != nil:
			l.db.engine.damaged(it.Key(), damage)
		case !l.db.engine.found.has(logKey(kindBody, topic, seq)):
			list = append(list, summary(&n, bodyLen))
		}
		err = ctx.Err()
	}
	if ctxErr := ctx.Err(); ctxErr != nil {
		return nil, errors.Join(ctxErr, it.Close())
	}
	if err = errors.Join(err, it.Error()); err != nil {
		_ = it.Close() // it returns the same error again
		return nil, readError(err)
	}
	if err := it.Close(); err != nil {
		return nil, readError(err)
	}
	return list, nil
}

// latestAround goes forward through all that is kept below end, as reading does, which
// finds its way around damage, and remembers the last of it.
func (l *Log) latestAround(ctx context.Context, topic topicID, end uint64, limit int) ([]delivery.Summary, error) {
	var list []delivery.Summary
	for from := uint64(0); from < end; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n, err := l.next(topic, from, false)
		if errors.Is(err, delivery.ErrEndOfLog) || err == nil && uint64(n.Seq) >= end {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(list) == limit {
			list = slices.Delete(list, 0, 1)
		}
		list = append(list, summary(&n.Notification, n.bodyLen))
		from = uint64(n.Seq) + 1
	}
	slices.Reverse(list)
	return list, nil
}
