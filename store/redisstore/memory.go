package redisstore

import (
	"fmt"
	"sync"
	"time"
)

// fullness is whether the server's memory is full: what grows is refused then, and
// all else goes on, so that nothing but this tells.
type fullness struct {
	mu    sync.Mutex
	since time.Time // guarded by mu: of the first refusal; zero: what grows is let in
}

// noteFull remembers that something was refused for want of memory.
func (e *engine) noteFull() {
	e.full.mu.Lock()
	first := e.full.since.IsZero()
	if first {
		e.full.since = time.Now()
	}
	e.full.mu.Unlock()
	if first {
		e.log.Warn("the memory of Redis is full: what would need more is refused, deliveries go on", "store", e.url)
	}
}

// noteRoom forgets it, as a script that grows was let in.
func (e *engine) noteRoom() {
	e.full.mu.Lock()
	since := e.full.since
	e.full.since = time.Time{}
	e.full.mu.Unlock()
	if !since.IsZero() {
		e.log.Info("Redis has memory again", "store", e.url, "full", time.Since(since).Round(time.Second))
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
