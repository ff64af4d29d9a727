package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"carillon/delivery"
)

var _ delivery.Shards = (*Shards)(nil)

var errRunning = errors.New("it runs already")

// Run implements delivery.Shards. The process joins those that share the store,
// takes its fair part of the shards, and hands back what is more than that
// when others come. A process that is not heard of for Config.Takeover loses its
// shards to the others; it learns of it as soon as it is back, at the latest when its
// next Save is refused. A server that was restarted or replaced may have lost the
// end of what it acknowledged: every shard is then lost and gained again, under a
// fresh epoch, so that it is read anew.
//
// Sure is by the monotonic clock, which stands still while a machine is suspended:
// a process that comes back from that may begin attempts that the new owner makes
// too, until its first renewal.
//
// While the server is away nothing is lost; Sure is not told any later time, so
// that the Holder begins nothing once others might own the shards.
//
// Sure is called beside Gained and Lost, which may take long. When ctx ends, Run
// gives the server a few seconds to take the shards back after the last Lost.
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

// ShardState is how the shards are shared at the moment, as far as this process
// knows. It is zero while Shards.Run does not run.
type ShardState struct {
	Processes int // that share the store; 0 while that is not known
	Fair      int // how many shards are this process's part
	Owned     int // how many it works on
	// Joined: the process was heard of within Config.Takeover, so that the
	// others leave it its part.
	Joined bool
	// LastRenewal is when all leases were renewed last.
	LastRenewal time.Time
}

// State tells how the shards are shared.
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

// sharing is what the running Shards.Run shows, if one runs.
type sharing struct {
	mu    sync.Mutex
	wake  chan struct{} // guarded by mu; nil: none runs
	state ShardState    // guarded by mu
}

func (s *sharing) begin() (wake <-chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wake != nil {
		return nil, false
	}
	s.wake = make(chan struct{}, 1)
	return s.wake, true
}

func (s *sharing) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake, s.state = nil, ShardState{}
}

func (s *sharing) set(state ShardState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = state
}

func (s *sharing) get() ShardState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}
