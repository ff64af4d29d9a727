package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"carillon/delivery"
	"carillon/topic"
)

// Pings keeps the pings that wait for their fetch. Their counts come from one
// row for the whole store and never return, so that a late Fetched cannot take
// a new ping for the one it means.
type Pings struct{ db *DB }

var _ delivery.Pings = (*Pings)(nil)

// Ping implements delivery.Pings.
func (p *Pings) Ping(ctx context.Context, topics []topic.Address) ([]delivery.Ping, error) {
	noted := make([]delivery.Ping, len(topics))
	err := p.db.engine.change(ctx, grows, &p.db.pings, func(b *pebble.Batch) error {
		counts := make(map[string]uint64, len(topics))
		for i, at := range topics {
			key := at.Key()
			if counts[key] == 0 {
				p.db.pings.count++
				counts[key] = p.db.pings.count
			}
			noted[i] = delivery.Ping{Topic: at, Count: counts[key]}
			if err := b.Set(pingKey(key), encodePing(noted[i]), nil); err != nil {
				return err
			}
		}
		return b.Set(pingCountKey(), encodeCount(p.db.pings.count), nil)
	})
	if err != nil {
		return nil, fmt.Errorf("note pings: %w", err)
	}
	return noted, nil
}

// Fetched implements delivery.Pings.
func (p *Pings) Fetched(ctx context.Context, ping delivery.Ping) (left *delivery.Ping, err error) {
	key := pingKey(ping.Topic.Key())
	err = p.db.engine.change(ctx, shrinks, &p.db.pings, func(b *pebble.Batch) error {
		record, err := p.db.engine.get(key)
		if err == nil && record == nil {
			return nil
		}
		var stored delivery.Ping
		if err == nil {
			stored, err = decodePing(record)
		}
		if errors.Is(err, ErrDamaged) {
			// Its topic is known from the call, and was fetched.
			p.db.engine.damaged(key, err)
			return b.Delete(key, nil)
		}
		if err != nil {
			return err
		}
		if stored.Count != ping.Count {
			left = &stored
			return nil
		}
		return b.Delete(key, nil)
	})
	if err != nil {
		return nil, fmt.Errorf("forget the ping of %q: %w", ping.Topic, err)
	}
	return left, nil
}

// Waiting implements delivery.Pings.
func (p *Pings) Waiting(ctx context.Context) iter.Seq2[delivery.Ping, error] {
	return records(ctx, p.db.engine, []byte{kindPing},
		func(_, value []byte) (delivery.Ping, error) { return decodePing(value) })
}
