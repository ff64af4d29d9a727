package dispatch

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"carillon/delivery"
	"carillon/delivery/report"
	"carillon/subscription"
)

// totals is what is counted for Totals. Guarded by Dispatcher.mu.
type totals struct {
	attempts [delivery.Classes]uint64
	latency  report.Latency
}

// Totals returns the counts as of now.
func (d *Dispatcher) Totals() report.Totals {
	d.mu.Lock()
	defer d.mu.Unlock()
	return report.Totals{
		Attempts: d.totals.attempts, Latency: d.totals.latency, Published: d.breaks.published.Load(),
		Behind: d.counts[ready] + d.counts[waiting] + d.counts[flying], Failing: d.failing,
		HeldBytes: d.bytes, MaxHeldBytes: d.cfg.MaxBytes,
	}
}

// TopicCounts returns the counts of every topic that somebody here subscribes to, or in
// which a continuity break was seen, in the order of their keys.
func (d *Dispatcher) TopicCounts(ctx context.Context) ([]report.TopicCount, error) {
	var all []report.TopicCount
	breaks := d.breaks.all()
	topics := d.topicsOf("")
	for some := range slices.Chunk(topics, surveyStretch) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		d.mu.Lock()
		for _, t := range some {
			if len(t.entries) > 0 {
				all = append(all, t.count(breaks[t.key]))
				delete(breaks, t.key)
			}
		}
		d.mu.Unlock()
	}
	for key, n := range breaks {
		all = append(all, report.TopicCount{Topic: key, Breaks: n})
	}
	slices.SortFunc(all, func(a, b report.TopicCount) int { return cmp.Compare(a.Topic, b.Topic) })
	return all, nil
}

// TopicCount returns the counts of one topic, given in any spelling.
func (d *Dispatcher) TopicCount(topic string) report.TopicCount {
	key := subscription.Key(topic)
	breaks := d.breaks.of(key)
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.topics[key]; t != nil {
		return t.count(breaks)
	}
	return report.TopicCount{Topic: key, Breaks: breaks}
}

// count returns a topic's counts. mu is held.
func (t *topic) count(breaks int) report.TopicCount {
	return report.TopicCount{
		Topic: t.key, Subscriptions: len(t.entries), Behind: len(t.entries) - t.idle, Failing: t.failing, Breaks: breaks,
	}
}

// maxBreakTopics bounds the topics whose continuity breaks are counted by topic, some 200
// bytes each.
const maxBreakTopics = 4096

// breaks counts continuity breaks by topic, and what was published.
type breaks struct {
	published atomic.Uint64
	mu        sync.Mutex
	topics    map[string]int // by key
}

// note counts a break of a topic. Where there are too many it takes another's place.
func (b *breaks) note(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, found := b.topics[key]; !found && len(b.topics) >= maxBreakTopics {
		for other := range b.topics {
			delete(b.topics, other)
			break
		}
	}
	if b.topics == nil {
		b.topics = map[string]int{}
	}
	b.topics[key]++
}

func (b *breaks) of(key string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.topics[key]
}

// all returns a copy of the counts by topic.
func (b *breaks) all() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make(map[string]int, len(b.topics))
	for key, n := range b.topics {
		all[key] = n
	}
	return all
}
