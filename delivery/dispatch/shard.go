package dispatch

import (
	"slices"

	"carillon/delivery"
	"carillon/subscription"
)

// shardTable is a shard that this process owns.
type shardTable struct {
	tenure  delivery.Tenure
	entries entrySet
	// While the members are read, what happens meanwhile waits here: the
	// subscription, or nil if it ended.
	loading bool
	pending map[subscription.ID]*subscription.Subscription
	// Attempts under way. Once the shard is to be handed over no attempt is added, and landed is closed
	// with the last.
	flying  int
	leaving bool
	landed  chan struct{}
	unsure  bool // entries were passed over as it may be another process's
	// Its store was away when it was to be saved: no attempt starts, and it is saved beside the others.
	away bool
	// Entries to be saved, and how many outcomes they hold.
	dirty   []*entry
	gaps    []delivery.Gap
	saving  []delivery.Gap // those that were taken to be saved just now
	unsaved int
}

// batch takes what is to be saved of a shard, and of how many outcomes it came. mu
// is held.
func (sh *shardTable) batch() (b delivery.Batch, outcomes int) {
	b, outcomes = delivery.Batch{Tenure: sh.tenure, Gaps: sh.current(sh.gaps)}, sh.unsaved
	if len(sh.dirty) > 0 {
		b.Advances = make([]delivery.Advance, 0, len(sh.dirty))
	}
	for _, e := range sh.dirty {
		e.dirty = false
		if e.state != ended {
			b.Advances = append(b.Advances, delivery.Advance{Subscription: e.id, Position: e.position()})
		}
	}
	clear(sh.dirty)
	sh.dirty, sh.gaps = sh.dirty[:0], nil
	if cap(sh.dirty) > dirtyKept {
		sh.dirty = nil
	}
	return b, outcomes
}

// dirtyKept is how long a list of changes may stay allocated between two saves.
const dirtyKept = 4096

// current returns the gaps of subscriptions that still stand. One that has ended takes its gaps
// along: the next subscription with the same ID starts behind them. mu is held.
func (sh *shardTable) current(gaps []delivery.Gap) []delivery.Gap {
	isOver := func(g delivery.Gap) bool {
		e := sh.entries.get(g.Subscription)
		return e == nil || g.First <= e.start
	}
	if !slices.ContainsFunc(gaps, isOver) {
		return gaps
	}
	return slices.DeleteFunc(slices.Clone(gaps), isOver) // others read the list as it was
}

// group is what keeps the saves of shards apart that are sidelined, as the part of the engine
// that keeps them is away: a Save of theirs may take long.
type group int

const (
	healthy group = iota
	sidelined
	groups
)

// group is the one of a shard. mu is held.
func (sh *shardTable) group() group {
	if sh.away {
		return sidelined
	}
	return healthy
}
