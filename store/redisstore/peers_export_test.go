package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"carillon/subscription"
)

// SetPatience says how long the others may take to say that they have a question, so that
// tests on a busy machine wait long enough. It comes before the first one.
func (p *Peers) SetPatience(d time.Duration) { p.db.silence.first = d }

// Silent are those that are not waited for long.
func (p *Peers) Silent() []string {
	p.db.silence.mu.Lock()
	defer p.db.silence.mu.Unlock()
	return slices.Sorted(maps.Keys(p.db.silence.since))
}

// Owners reports which shards each process has by the leases in the store, also one that
// does not answer. One that died has them until another took them.
func (p *Peers) Owners(ctx context.Context) (map[string][]subscription.Shard, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e := p.db.engine
	pipe := e.client.Pipeline()
	var found [subscription.Shards]*redis.StringCmd
	for s := range found {
		found[s] = pipe.HGet(ctx, e.keys.cursors(subscription.Shard(s)), "!owner")
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	owners := make(map[string][]subscription.Shard)
	for s, cmd := range found {
		owner, err := cmd.Result()
		if errors.Is(err, redis.Nil) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list the owners of shards: %w", e.failed(ctx, err))
		}
		owners[owner] = append(owners[owner], subscription.Shard(s))
	}
	return owners, nil
}
