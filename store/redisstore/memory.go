package redisstore

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// fullness holds whether the server's memory is full. Then growing changes are refused and all others
// go on, so that only this shows it.
type fullness struct {
	mu    sync.Mutex
	since time.Time // guarded by mu: of the first refusal; zero: what grows is let in
}

// noteFull remembers that something was refused for want of memory, and logs the first time.
func (f *fullness) noteFull(log *slog.Logger, where any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.since.IsZero() {
		f.since = time.Now()
		log.Warn("the memory of Redis is full: what would need more is refused, deliveries go on", "store", where)
	}
}

// noteRoom forgets it, as a script that grows was let in.
func (f *fullness) noteRoom(log *slog.Logger, where any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.since.IsZero() {
		log.Info("Redis has memory again", "store", where, "full", time.Since(f.since).Round(time.Second))
		f.since = time.Time{}
	}
}

// warnings say that it is full.
func (f *fullness) warnings() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.since.IsZero() {
		return nil
	}
	return []string{fmt.Sprintf("since %s the memory of Redis is full, at least for the latest that was to be stored: "+
		"publications, pings and subscriptions are refused, deliveries go on; raise maxmemory by CONFIG SET and in redis.conf, "+
		"or see to Destinations that do not take what waits for them", f.since.UTC().Format(time.RFC3339))}
}
