package dispatch

import (
	"carillon/delivery"
	"carillon/subscription"
)

// EntrySet is the set of entries, for tests against a map.
type EntrySet struct{ set entrySet }

func NewEntrySet() *EntrySet { return &EntrySet{newEntrySet()} }

func (s *EntrySet) Put(id subscription.ID, at int32) { s.set.put(&entry{id: id, at: at}) }

func (s *EntrySet) Remove(id subscription.ID) { s.set.remove(id) }

func (s *EntrySet) Len() int { return s.set.n }

func (s *EntrySet) Slots() int { return len(s.set.slots) }

func (s *EntrySet) Get(id subscription.ID) (at int32, found bool) {
	if e := s.set.get(id); e != nil {
		return e.at, true
	}
	return 0, false
}

// Each walks as a survey does that holds the mutex for one slot at a time, and calls
// between after each. It reports whether it may have missed some.
func (s *EntrySet) Each(f func(subscription.ID), between func()) (moved bool) {
	before := s.set.moved
	for i := len(s.set.slots) - 1; i >= 0 && s.set.moved == before; i-- {
		if e := s.set.slots[i]; e != nil {
			f(e.id)
		}
		between()
	}
	return s.set.moved != before
}

// SharedSecrets is how many secrets are held for more than one.
func (d *Dispatcher) SharedSecrets() int {
	d.table.mu.Lock()
	defer d.table.mu.Unlock()
	return len(d.table.secrets.byText)
}

// HeldBytes returns the bytes of the bodies that attempts hold, and of the unused ones in the cache.
func (d *Dispatcher) HeldBytes() (held, cached int64) {
	d.table.mu.Lock()
	defer d.table.mu.Unlock()
	return d.bodies.held, d.bodies.kept
}

// Slowest is what would be marked.
func (d *Dispatcher) Slowest() map[string]delivery.Seq {
	lowest := map[string]delivery.Seq{}
	for s := range subscription.Shard(subscription.Shards) {
		m, _ := d.slowestOf(s)
		for topic, seq := range m.Lowest {
			if least, found := lowest[topic]; !found || seq < least {
				lowest[topic] = seq
			}
		}
	}
	return lowest
}

// EachOfShard walks a shard as surveys do. f may add to it: that is what others do
// between two stretches.
func (d *Dispatcher) EachOfShard(s subscription.Shard, f func(id subscription.ID, add func(subscription.Subscription))) bool {
	sh := d.table.shards[s]
	return d.table.eachEntry(sh, func(e *entry) {
		f(e.id, func(sub subscription.Subscription) { d.upsert(sh, sub) })
	})
}
