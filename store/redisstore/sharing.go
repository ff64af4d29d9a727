package redisstore

import (
	"sync"
	"time"
)

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
