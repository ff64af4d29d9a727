package subscription

import (
	"slices"
	"time"
)

// Surety is until when no other process can own each shard of this process, by the monotonic
// clock. The zero value is sure for ever. It has no mutex of its own.
type Surety struct {
	bounded bool // Vouch was called
	until   [Shards]time.Time
	latest  time.Time // of these
}

// Vouch notes a new time for all shards but the doubted ones, of which it stays as it was.
func (s *Surety) Vouch(until time.Time, doubted ...Shard) {
	s.bounded, s.latest = true, time.Time{}
	for shard := range s.until {
		if !slices.Contains(doubted, Shard(shard)) {
			s.until[shard] = until
		}
		if s.until[shard].After(s.latest) {
			s.latest = s.until[shard]
		}
	}
}

// Of reports whether no other process can own the shard.
func (s *Surety) Of(shard Shard, now time.Time) bool {
	return !s.bounded || now.Before(s.until[shard])
}

// OfAny reports whether there may be a shard that no other process can own.
func (s *Surety) OfAny(now time.Time) bool { return !s.bounded || now.Before(s.latest) }
