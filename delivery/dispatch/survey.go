package dispatch

import (
	"context"
	"slices"

	"carillon/delivery"
	"carillon/delivery/retain"
	"carillon/subscription"
)

// survey answers other rooms about the table.
type survey struct {
	*base
	table *table
}

// Topics returns the keys of the topics with a subscription here, sorted.
func (sy *survey) Topics() []string {
	var keys []string
	sy.table.eachTopic(func(t *followed) { keys = append(keys, t.key) })
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Spelling returns the topic with a key as one of its subscriptions spells it; ok is false where the
// topic has no subscription here.
func (sy *survey) Spelling(key string) (spelling string, ok bool) {
	sy.table.mu.Lock()
	defer sy.table.mu.Unlock()
	t := sy.table.topics[key]
	if t == nil {
		return "", false
	}
	return t.entries[0].topicURL(), true
}

// Subscribers returns the subscriptions to the topic with a key that are in the shards of
// this process. Of those that begin or end meanwhile some are there, others not.
func (sy *survey) Subscribers(key string) []subscription.Subscription {
	sy.table.mu.Lock()
	t := sy.table.topics[key]
	if t == nil {
		sy.table.mu.Unlock()
		return nil
	}
	subs := make([]subscription.Subscription, 0, len(t.entries))
	removed := t.removed
	sy.table.mu.Unlock()
	sy.table.backward(func() int { return len(t.entries) }, func(first, end int) {
		for _, e := range t.entries[first:end] {
			subs = append(subs, sy.table.secrets.subscription(e))
		}
	})
	sy.table.mu.Lock()
	moved := t.removed != removed
	sy.table.mu.Unlock()
	if !moved {
		return subs
	}
	seen := make(map[subscription.ID]bool, len(subs))
	return slices.DeleteFunc(subs, func(sub subscription.Subscription) bool {
		twice := seen[sub.ID]
		seen[sub.ID] = true
		return twice
	})
}

// Position returns where a subscription stands; ok is false for one that is not
// in the shards of this process.
func (sy *survey) Position(id subscription.ID) (p delivery.Position, ok bool) {
	sy.table.mu.Lock()
	defer sy.table.mu.Unlock()
	sh := sy.table.shards[subscription.ShardOf(id)]
	if sh == nil {
		return delivery.Position{}, false
	}
	e := sh.entries.get(id)
	if e == nil {
		return delivery.Position{}, false
	}
	return e.position(), true
}

// Held returns the shards that this process owns and has read, and those that it is
// reading.
func (sy *survey) Held() (held, loading []delivery.Tenure) {
	sy.table.mu.Lock()
	defer sy.table.mu.Unlock()
	for _, sh := range sy.table.shards {
		switch {
		case sh == nil:
		case sh.loading:
			loading = append(loading, sh.tenure)
		default:
			held = append(held, sh.tenure)
		}
	}
	return held, loading
}

// slowestOf returns the mark of a shard, if that is owned and read. A subscription
// whose lease is over counts until it is ended: its renewal may be under way.
// One that begins meanwhile needs nothing older than Config.KeepAtLeast.
func (sy *survey) slowestOf(s subscription.Shard) (m retain.Mark, held bool) {
	sy.table.mu.Lock()
	sh := sy.table.shards[s]
	settled := sh != nil && !sh.loading && !sh.leaving
	sy.table.mu.Unlock()
	if !settled {
		return retain.Mark{}, false
	}
	m = retain.Mark{Tenure: sh.tenure, Lowest: map[string]delivery.Seq{}}
	var last *followed // most have the topic of the one before
	var lowest delivery.Seq
	held = sy.table.eachEntry(sh, func(e *entry) {
		if e.topic != last {
			if last = e.topic; last != nil {
				var found bool
				if lowest, found = m.Lowest[last.key]; !found {
					lowest = delivery.MaxSeq
					m.Lowest[last.key] = lowest
				}
			}
		}
		if needs := e.from() - 1; needs < lowest {
			lowest = needs
			m.Lowest[last.key] = lowest
		}
	})
	return m, held
}

// held is the shards of this process, as the Trimmer knows them.
type held struct {
	survey *survey
	saver  *saver
}

func (h held) Mark(s subscription.Shard) (retain.Mark, bool) { return h.survey.slowestOf(s) }

func (h held) Save(ctx context.Context) error { return h.saver.flush(ctx) }

func (h held) Sidelined() int { return h.saver.sidelined() }
