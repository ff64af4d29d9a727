package redisstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"carillon/delivery"
	"carillon/subscription"
)

// Restore puts what an export holds. Nothing else works on the store meanwhile.
type Restore struct{ db *DB }

// Restore returns the transfer.Target.
func (db *DB) Restore() *Restore { return &Restore{db} }

// restoreStep is how many records go in one round trip.
const restoreStep = 500

// Empty reports whether no subscription, request, log, ping or Source is kept. The owners of the
// shards, and the name of the store, do not count.
func (r *Restore) Empty(ctx context.Context) (bool, error) {
	e := r.db.engine
	if err := ctx.Err(); err != nil {
		return false, err
	}
	pipe := e.client.Pipeline()
	counts := []*redis.IntCmd{
		pipe.SCard(ctx, e.keys.topics()), pipe.HLen(ctx, e.keys.pings()), pipe.HLen(ctx, e.keys.sources()),
	}
	for s := range subscription.Shard(subscription.Shards) {
		counts = append(counts, pipe.HLen(ctx, e.keys.subs(s)), pipe.HLen(ctx, e.keys.requests(s)))
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	empty := true
	for _, count := range counts {
		n, err := count.Result()
		if err != nil {
			return false, fmt.Errorf("look whether the store is empty: %w", e.failed(ctx, err))
		}
		empty = empty && n == 0
	}
	return empty, nil
}

// putMemberScript stores a subscription and its position, in the place of what is there.
//
//	KEYS  1 requests, which it leaves alone  2 subs  3 leases  4 cursors  5 gaps, too
//	ARGV  1 id  2 the subscription  3 the position
var putMemberScript = grows("restore subscription", remove+`
unlease(redis.call('HGET', KEYS[2], ARGV[1]))
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[3], 0, string.sub(ARGV[2], 2, 25) .. ARGV[1])
redis.call('HSET', KEYS[4], ARGV[1], ARGV[3])
return 1
`)

// PutMembers implements transfer.Target.
func (r *Restore) PutMembers(ctx context.Context, members []delivery.Member) error {
	calls := make([]call, len(members))
	for i, m := range members {
		calls[i] = call{putMemberScript, r.db.engine.keys.own(m.ID), []any{
			m.ID.String(), encodeSubscription(m.Subscription), encodePosition(m.Position),
		}}
	}
	if err := r.db.engine.put(ctx, calls); err != nil {
		return fmt.Errorf("restore subscriptions: %w", err)
	}
	return nil
}

// putGapScript stores a gap, in the place of one that begins at the same number.
//
//	KEYS  1 gaps
//	ARGV  1 the number at which it begins  2 the gap  3 how many are kept
var putGapScript = grows("restore gap", `
redis.call('ZREMRANGEBYSCORE', KEYS[1], ARGV[1], ARGV[1])
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - ARGV[3])
return 1
`)

// PutGaps implements transfer.Target.
func (r *Restore) PutGaps(ctx context.Context, gaps []delivery.Gap) error {
	calls := make([]call, len(gaps))
	for i, g := range gaps {
		calls[i] = call{putGapScript, []string{r.db.engine.keys.gaps(g.Subscription)}, []any{
			uint64(g.First), encodeGap(g), maxGaps,
		}}
	}
	if err := r.db.engine.put(ctx, calls); err != nil {
		return fmt.Errorf("restore gaps: %w", err)
	}
	return nil
}

// put makes calls that may all be repeated, a part at a time.
func (e *engine) put(ctx context.Context, calls []call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for part := range slices.Chunk(calls, restoreStep) {
		for _, result := range e.runAll(ctx, part) {
			if result.err != nil {
				return result.err
			}
		}
	}
	return nil
}
