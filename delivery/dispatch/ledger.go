package dispatch

import "carillon/subscription"

// ledger counts what is not saved yet. Guarded by table.mu.
type ledger struct {
	*base
	table     *table
	flushSoon chan struct{} // a signal: there is something to save
	flushNow  chan struct{} // a signal: there is much to save
	awaySoon  chan struct{} // a signal: there is a shard that is sidelined

	unsaved   int  // outcomes not saved yet
	unsavable bool // the latest Save has failed
}

func newLedger(b *base, t *table) *ledger {
	return &ledger{
		base: b, table: t, flushSoon: make(chan struct{}, 1), flushNow: make(chan struct{}, 1),
		awaySoon: make(chan struct{}, 1),
	}
}

// changed records that an entry's position is to be saved. mu is held.
func (l *ledger) changed(sh *shardTable, e *entry) {
	if !e.dirty {
		e.dirty = true
		sh.dirty = append(sh.dirty, e)
	}
	sh.unsaved++
	if sh.away {
		signal(l.awaySoon)
		return
	}
	l.unsaved++
	signal(l.flushSoon)
	if l.unsaved >= l.cfg.FlushCount/2 {
		signal(l.flushNow)
	}
}

// sideline has no attempt of a shard start until its positions are saved. Its outcomes
// do not delay other shards. mu is held.
func (l *ledger) sideline(sh *shardTable) {
	if !sh.away {
		sh.away = true
		l.unsaved -= sh.unsaved
	}
	signal(l.awaySoon)
}

// reinstate counts a shard among the healthy ones, as its positions were saved. It is for
// the caller to resume it. mu is held.
func (l *ledger) reinstate(sh *shardTable) {
	sh.away = false
	l.unsaved += sh.unsaved
	if sh.unsaved > 0 {
		signal(l.flushSoon)
	}
}

// drop forgets a shard with all its entries. mu is held.
func (l *ledger) drop(s subscription.Shard) {
	sh := l.table.shards[s]
	if sh == nil {
		return
	}
	l.table.shards[s] = nil
	if !sh.away {
		l.unsaved -= sh.unsaved
	}
	for _, e := range sh.entries.slots {
		if e == nil {
			continue
		}
		l.table.forget(e)
		if len(e.topic.entries) == 0 {
			l.table.leaveTopic(e.topic)
		}
	}
}
