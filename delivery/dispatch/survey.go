package dispatch

import (
	"context"
	"slices"

	"carillon/delivery"
	"carillon/delivery/retain"
	"carillon/subscription"
)

// What others ask of the table. There may be a million answers: they are gathered a
// stretch at a time, so that nobody waits long for the mutex.

// surveyStretch is how many entries or topics are looked at under one hold of the mutex.
const surveyStretch = 1024

// backward calls some for stretches of a list from its end to the front, under mu,
// with a bound on the index that is looked at next. size tells how long the list is by
// now. An element that is removed meanwhile gives its place to the last one, which was
// looked at already: so none is missed that is there throughout, and some may be seen
// twice.
func (d *Dispatcher) backward(size func() int, some func(first, end int)) {
	d.mu.Lock()
	for end := size(); end > 0; {
		first := max(0, end-surveyStretch)
		some(first, end)
		d.mu.Unlock()
		d.mu.Lock()
		end = min(first, size())
	}
	d.mu.Unlock()
}

// Topics returns the keys of the topics that somebody here subscribes to, sorted.
func (d *Dispatcher) Topics() []string {
	var keys []string
	d.eachTopic(func(t *topic) { keys = append(keys, t.key) })
	slices.Sort(keys)
	return slices.Compact(keys)
}

// eachTopic calls f under mu for every topic, for some twice.
func (d *Dispatcher) eachTopic(f func(t *topic)) {
	d.backward(func() int { return len(d.topicList) }, func(first, end int) {
		for _, t := range d.topicList[first:end] {
			f(t)
		}
	})
}

// eachEntry calls f under mu for every entry of a shard that is in it throughout,
// for some more than once. It returns false if the shard is not held any more.
func (d *Dispatcher) eachEntry(sh *shardTable, f func(e *entry)) (held bool) {
	const patience = 8 // walks that came to nothing before one is under a single hold
	held = true
	for again, stretch := 0, surveyStretch; ; again++ {
		if again == patience {
			stretch = 0
		}
		if moved, ended := d.walkShard(sh, stretch, f); ended || !moved {
			return !ended
		}
	}
}

// walkShard is one walk of eachEntry, in stretches, 0: of any length. It tells
// whether entries have moved so that it may have missed some.
func (d *Dispatcher) walkShard(sh *shardTable, stretch int, f func(e *entry)) (moved, ended bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := sh.entries.moved
	for end := len(sh.entries.slots); end > 0; {
		if !d.stays(sh) {
			return false, true
		}
		if sh.entries.moved != before {
			return true, false
		}
		first := 0
		if stretch > 0 {
			first = max(0, end-stretch)
		}
		for _, e := range sh.entries.slots[first:end] {
			if e != nil {
				f(e)
			}
		}
		if end = first; end > 0 {
			d.mu.Unlock()
			d.mu.Lock()
		}
	}
	return false, !d.stays(sh)
}

// Spelling returns a topic as one of its subscriptions spells it, given its key
// or any other spelling; ok is false where nobody here subscribes to it.
func (d *Dispatcher) Spelling(topic string) (spelling string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.topics[subscription.Key(topic)]
	if t == nil {
		return "", false
	}
	return t.entries[0].topicURL(), true
}

// Subscribers returns the subscriptions to a topic that are in the shards of
// this process. Of those that begin or end meanwhile some are there, others not.
func (d *Dispatcher) Subscribers(topic string) []subscription.Subscription {
	d.mu.Lock()
	t := d.topics[subscription.Key(topic)]
	if t == nil {
		d.mu.Unlock()
		return nil
	}
	subs := make([]subscription.Subscription, 0, len(t.entries))
	removed := t.removed
	d.mu.Unlock()
	d.backward(func() int { return len(t.entries) }, func(first, end int) {
		for _, e := range t.entries[first:end] {
			subs = append(subs, d.subscriptionOf(e))
		}
	})
	d.mu.Lock()
	moved := t.removed != removed
	d.mu.Unlock()
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
func (d *Dispatcher) Position(id subscription.ID) (p delivery.Position, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	sh := d.shards[subscription.ShardOf(id)]
	if sh == nil {
		return delivery.Position{}, false
	}
	e := sh.entries.get(id)
	if e == nil {
		return delivery.Position{}, false
	}
	return e.position(), true
}

// slowestOf returns the mark of a shard, if that is owned and read. A subscription
// whose lease is over counts until it is ended: its renewal may be under way.
// One that begins meanwhile needs nothing older than Config.KeepAtLeast.
func (d *Dispatcher) slowestOf(s subscription.Shard) (m retain.Mark, held bool) {
	d.mu.Lock()
	sh := d.shards[s]
	settled := sh != nil && !sh.loading && !sh.leaving
	d.mu.Unlock()
	if !settled {
		return retain.Mark{}, false
	}
	m = retain.Mark{Tenure: sh.tenure, Lowest: map[string]delivery.Seq{}}
	var last *topic // most have the topic of the one before
	var lowest delivery.Seq
	held = d.eachEntry(sh, func(e *entry) {
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

// held is the shards of a Dispatcher, as the Trimmer knows them.
type held struct{ d *Dispatcher }

func (h held) Mark(s subscription.Shard) (retain.Mark, bool) { return h.d.slowestOf(s) }
func (h held) Save(ctx context.Context) error                { return h.d.flush(ctx) }
func (h held) Sidelined() int                                { return h.d.sidelined() }
