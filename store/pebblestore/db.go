package pebblestore

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/delivery"
	"carillon/subscription"
)

// topicStripes is how many locks the topics share for their appends, and
// maxStates of how many topics of each the state is remembered: of 8,192 in all,
// in a few MiB.
const (
	topicStripes = 256
	maxStates    = 32
)

// DB is an open store. Its parts implement the interfaces of the rooms; they may
// be used from any goroutine.
type DB struct {
	engine *engine

	// shards guard the read-then-write changes of subscriptions, requests, positions and gaps. A caller
	// that needs several takes them in order.
	shards [subscription.Shards]shard
	// topics guard the appends, so that sequence numbers are consecutive.
	topics [topicStripes]stripe
	// pings guards the pings and their count.
	pings struct {
		sync.Mutex
		count uint64
	}
	sources sync.Mutex  // guards the changes of Sources
	running atomic.Bool // Shards.Run is
	// floor is what every sequence number given is above: 0 but in a store that was
	// restored (raiseNumbers). It is set before the store is used.
	floor  uint64
	backup sync.Mutex // held while there is a Backup
}

// maxRemembered is of how many subscriptions of a shard the last position is
// remembered: a million in all, with some 40 MiB if that many are delivered to.
const maxRemembered = 1 << 14

type shard struct {
	sync.Mutex
	epoch uint64
	// settled is where subscriptions stand by their stored positions, so that a Save need not look. An
	// entry agrees with the store, and its subscription exists. Subscriptions that are saved often are in
	// it.
	settled map[subscription.ID]delivery.Seq
	// lease is a key before which the index of leases has no entry of the shard that
	// counts, nil: not known; indexed is how many were put there.
	lease   []byte
	indexed uint64
}

// firstLease is where to look for the first entry of the shard in the index of
// leases, and how many were put there before.
func (s *shard) firstLease() (from []byte, indexed uint64) {
	s.Lock()
	defer s.Unlock()
	if s.lease == nil {
		return []byte{kindExpiry}, s.indexed
	}
	return s.lease, s.indexed
}

// passedLeases records that no entry before the key counts, unless one was put in the index since,
// which the pass may have missed.
func (s *shard) passedLeases(key []byte, indexed uint64) {
	s.Lock()
	defer s.Unlock()
	if s.indexed == indexed {
		s.lease = key
	}
}

// indexes records an entry that is put in the index under the lock.
func (s *shard) indexes(key []byte) {
	s.indexed++
	if bytes.Compare(key, s.lease) < 0 {
		s.lease = key
	}
}

// remember records a position that is written under the lock of the shard.
func (s *shard) remember(id subscription.ID, settled delivery.Seq) {
	if _, known := s.settled[id]; !known && len(s.settled) >= maxRemembered {
		s.settled = nil
	}
	if s.settled == nil {
		s.settled = make(map[subscription.ID]delivery.Seq)
	}
	s.settled[id] = settled
}

// forget has the stored positions of the batches' shards looked at again, where it is
// not known what was written. Their locks are held.
func (db *DB) forget(batches []delivery.Batch) {
	for _, batch := range batches {
		db.shards[batch.Tenure.Shard].settled = nil
	}
}

// stripe is the lock of some topics with their stored states, so that an append need not look. An
// entry agrees with the store; a state may be missing. A caller that stores a state under the lock
// remembers or forgets it.
type stripe struct {
	sync.Mutex
	states map[topicID]topicState
}

// remember keeps a state that is stored next under the lock. If that fails the engine is broken, and
// no call will ask.
func (s *stripe) remember(t topicID, state topicState) {
	if known, is := s.states[t]; is {
		state.key = known.key
	} else {
		if s.states == nil || len(s.states) >= maxStates {
			s.states = make(map[topicID]topicState)
		}
		state.key = strings.Clone(state.key) // it may be a part of a request
	}
	state.until, state.previous = strings.Clone(state.until), strings.Clone(state.previous)
	s.states[t] = state
}

// Open opens the store in cfg.Dir, or makes one there. ErrInUse, ErrForeign,
// ErrNewer and ErrOlder say why it cannot.
func Open(cfg Config) (*DB, error) {
	e, err := openEngine(cfg, hubLayout())
	if err != nil {
		return nil, err
	}
	db := &DB{engine: e}
	err = db.load()
	if err == nil {
		err = db.afterRestore(time.Now().Unix())
	}
	if err != nil {
		_ = e.close()
		return nil, fmt.Errorf("store directory %q: %w", cfg.Dir, err)
	}
	return db, nil
}

// NewMemory returns a store that lives in memory and is gone with Close: for
// trials and tests.
func NewMemory() (*DB, error) {
	return Open(Config{Dir: "memory", FS: vfs.NewMem(), Logger: slog.New(slog.DiscardHandler)})
}

// load reads the counts that are held in memory.
func (db *DB) load() error {
	count, err := db.count(pingCountKey())
	if err != nil {
		return err
	}
	db.pings.count = count
	if db.floor, err = db.count(floorKey()); err != nil {
		return err
	}
	for i := range db.shards {
		if db.shards[i].epoch, err = db.count(epochKey(subscription.Shard(i))); err != nil {
			return err
		}
	}
	return nil
}

func (db *DB) count(key []byte) (uint64, error) {
	record, err := db.engine.get(key)
	if err != nil || record == nil {
		return 0, err
	}
	n, err := decodeCount(record)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", kindNames[key[0]], err)
	}
	return n, nil
}

// Close waits for the calls that are under way and closes the store. Every
// later call is ErrUnavailable. It must not be called from within an iteration.
func (db *DB) Close() error { return db.engine.close() }

// Subscriptions is the store's subscription.Store.
func (db *DB) Subscriptions() *Subscriptions { return &Subscriptions{db} }

// Log is the store's delivery.Log.
func (db *DB) Log() *Log { return &Log{db} }

// Pings is the store's delivery.Pings.
func (db *DB) Pings() *Pings { return &Pings{db} }

// Cursors is the store's delivery.Cursors.
func (db *DB) Cursors() *Cursors { return &Cursors{db} }

// Shards is the store's delivery.Shards.
func (db *DB) Shards() *Shards { return &Shards{db} }

// Restore is the store's transfer.Target.
func (db *DB) Restore() *Restore { return &Restore{db} }

// shardLock is the lock that guards the subscription.
func (db *DB) shardLock(id subscription.ID) sync.Locker {
	return &db.shards[subscription.ShardOf(id)]
}

// topicLock is the lock that guards the topic's log.
func (db *DB) topicLock(t topicID) *stripe { return &db.topics[stripeOf(t)] }

func stripeOf(t topicID) int { return int(t[0]) % topicStripes }

// locks are several locks as one. A holder of some waits for no lower one.
type locks []sync.Locker

// Lock takes them in their order.
func (l locks) Lock() {
	for _, one := range l {
		one.Lock()
	}
}

// Unlock gives them back.
func (l locks) Unlock() {
	for _, one := range l {
		one.Unlock()
	}
}

// lockShards is the lock that guards the shards, which may be named repeatedly.
func (db *DB) lockShards(shards []subscription.Shard) locks {
	slices.Sort(shards)
	var l locks
	for _, s := range slices.Compact(shards) {
		l = append(l, &db.shards[s])
	}
	return l
}

// lockTopics is the lock that guards the topics' logs.
func (db *DB) lockTopics(topics []topicID) locks {
	var taken [topicStripes]bool
	for _, t := range topics {
		taken[stripeOf(t)] = true
	}
	var l locks
	for i := range taken {
		if taken[i] {
			l = append(l, &db.topics[i])
		}
	}
	return l
}
