package report

import (
	"sync"
	"sync/atomic"
)

// maxBreakTopics bounds the topics whose continuity breaks are counted by topic, some 200
// bytes each.
const maxBreakTopics = 4096

// Published counts what was published, and continuity breaks by topic.
type Published struct {
	accepted atomic.Uint64
	mu       sync.Mutex
	breaks   map[string]int // by key. Guarded by mu
}

// Accept counts a publication.
func (p *Published) Accept() { p.accepted.Add(1) }

// Break counts a continuity break of a topic, by its key. Where there are too many it takes another's place.
func (p *Published) Break(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, found := p.breaks[key]; !found && len(p.breaks) >= maxBreakTopics {
		for other := range p.breaks {
			delete(p.breaks, other)
			break
		}
	}
	if p.breaks == nil {
		p.breaks = map[string]int{}
	}
	p.breaks[key]++
}

// all returns a copy of the counts by topic.
func (p *Published) all() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make(map[string]int, len(p.breaks))
	for key, n := range p.breaks {
		all[key] = n
	}
	return all
}
