package redisstore

import (
	"maps"
	"slices"
	"time"
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
