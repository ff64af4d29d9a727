package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon/delivery"
)

var _ delivery.Shards = (*Shards)(nil)

var errRunning = errors.New("it runs already")

// Run implements delivery.Shards. The process joins those that share the store, takes its fair part of
// the shards, and hands back the surplus when others come. A process that is silent for
// Config.Takeover loses its shards to the others. It learns of that as soon as it is back, at the
// latest when its next Save is refused. A server that was restarted or replaced may have lost the end
// of its acknowledged data: every shard is then lost and gained again, under a fresh epoch, so that it
// is read anew.
//
// Sure is by the monotonic clock, which stands still while a machine is suspended. A process that
// comes back from that may begin attempts that the new owner makes too, until its first renewal.
//
// While the server is away nothing is lost. Sure is not called with a later time, so that the Holder
// begins nothing once others might own the shards.
//
// Sure is called beside Gained and Lost, which may take long. When ctx ends, Run gives the server a
// few seconds to take the shards back after the last Lost.
func (s *Shards) Run(ctx context.Context, h delivery.Holder) error {
	wake, ok := s.db.sharing.begin()
	if !ok {
		return fmt.Errorf("own the shards: %w", errRunning)
	}
	defer s.db.sharing.end()
	if ctx.Err() != nil {
		return nil
	}
	s.db.engine.log.Info("sharing the work on the store, under this name", "process", s.db.engine.cfg.Process)
	if err := newKeeper(s.db, h).run(ctx, wake); err != nil {
		return fmt.Errorf("own the shards: %w", err)
	}
	return nil
}

// State reports how the shards are shared.
func (s *Shards) State() ShardState {
	state := s.db.sharing.get()
	state.Joined = !state.LastRenewal.IsZero() && time.Since(state.LastRenewal) < s.db.engine.cfg.Takeover
	return state
}

// nudge makes Shards.Run look at once at what others did.
func (db *DB) nudge() {
	db.sharing.mu.Lock()
	defer db.sharing.mu.Unlock()
	if db.sharing.wake == nil {
		return
	}
	select {
	case db.sharing.wake <- struct{}{}:
	default: // it is about to look
	}
}

// countScript counts the members.
//
//	KEYS  1 members
//	ARGV  none
//
// It returns how many have not been silent for too long.
var countScript = reads("count members", `
return redis.call('ZCOUNT', KEYS[1], '(' .. string.format('%.0f', now()), '+inf')
`)

// Processes reports how many processes share the work on the store at the moment:
// those that run Shards.Run. One that died counts until its Takeover is over.
func (db *DB) Processes(ctx context.Context) (int, error) {
	value, err := db.engine.run(ctx, countScript, []string{db.engine.keys.members()})
	if err != nil {
		return 0, fmt.Errorf("count the processes: %w", err)
	}
	n, ok := value.(int64)
	if !ok {
		return 0, fmt.Errorf("count the processes: an answer of the type %T", value)
	}
	return int(n), nil
}
