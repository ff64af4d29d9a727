package subscription

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Surety is until when no other process can own each shard of this process, by the monotonic
// clock. One serves all rooms of a process: the engine sets it (Sure), and each room asks before
// it does what only the owner of a shard may do. The zero value, and nil, is sure for ever. Its
// methods may be called from any goroutine; Of and OfAny take no lock.
type Surety struct {
	now atomic.Pointer[vouched] // nil before Sure

	mu      sync.Mutex
	watches []func() // called after each Sure. Owned by mu.
}

// vouched is the argument of the last Sure. It does not change.
type vouched struct {
	until  [Shards]time.Time
	latest time.Time // of these
}

// Sure sets until when no other process can own the shards of this one; for the doubted ones the time
// stays as it was. The engine calls it, as part of a delivery.Holder.
func (s *Surety) Sure(until time.Time, doubted ...Shard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := &vouched{}
	if last := s.now.Load(); last != nil {
		next.until = last.until
	}
	for shard := range next.until {
		if !slices.Contains(doubted, Shard(shard)) {
			next.until[shard] = until
		}
		if next.until[shard].After(next.latest) {
			next.latest = next.until[shard]
		}
	}
	s.now.Store(next)
	for _, watch := range s.watches {
		watch()
	}
}

// Watch has a function called after each Sure: waiting work may go on. It must not call Sure or Watch.
func (s *Surety) Watch(watch func()) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches = append(s.watches, watch)
}

// Of reports whether no other process can own the shard.
func (s *Surety) Of(shard Shard, now time.Time) bool {
	last := s.last()
	return last == nil || now.Before(last.until[shard])
}

// OfAny reports whether there may be a shard that no other process can own.
func (s *Surety) OfAny(now time.Time) bool {
	last := s.last()
	return last == nil || now.Before(last.latest)
}

// Latest returns until when this process is sure of some shard, zero before Sure.
func (s *Surety) Latest() time.Time {
	if last := s.last(); last != nil {
		return last.latest
	}
	return time.Time{}
}

func (s *Surety) last() *vouched {
	if s == nil {
		return nil
	}
	return s.now.Load()
}
