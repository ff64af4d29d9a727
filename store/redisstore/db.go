package redisstore

import (
	"fmt"
	"slices"

	"carillon/delivery"
	"carillon/subscription"
)

// DB is a hub's state in Redis. Its parts may be used from any goroutine.
type DB struct {
	engine  *engine
	sharing sharing       // what Shards.Run shows
	asks    chan struct{} // has one for each question to other processes that is under way
	silence silence       // of processes that were asked
}

// Open returns the store that cfg names. It does not connect: until the server
// answers, every call is ErrUnavailable. Ready reports whether it does.
func Open(cfg Config) (*DB, error) {
	u, err := ParseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults(u)
	if err := cfg.validate(u); err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	e := &engine{
		cfg: cfg, url: u, keys: keys{u.prefix}, log: cfg.Logger, told: make(map[string]struct{}),
		passed: make(map[string]struct{}),
	}
	db := &DB{engine: e, asks: make(chan struct{}, asksAtOnce)}
	if e.metrics, err = newMetrics(
		cfg.Registerer, func() int { return len(db.Warnings()) }, db.Shards().State,
	); err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	e.client = newClient(u, cfg.Process)
	return db, nil
}

// Close ends all connections. Every later call is ErrUnavailable.
func (db *DB) Close() error {
	if err := db.engine.close(); err != nil {
		return fmt.Errorf("close the store: %w", err)
	}
	return nil
}

// Warnings are what the operator must know, with the fix: settings of the server by
// which acknowledged data could vanish, and that it did; clocks that differ; a memory
// that is full. They stay until the process ends, or Ready finds the setting
// mended, or what grows is let in again.
func (db *DB) Warnings() []string {
	db.engine.mu.Lock()
	defer db.engine.mu.Unlock()
	return slices.Concat(db.engine.settings, db.engine.full.warnings(), db.engine.absence.warnings(), db.engine.events)
}

// Subscriptions returns the subscription.Store.
func (db *DB) Subscriptions() *Subscriptions { return &Subscriptions{db} }

// Subscriptions keeps subscriptions and the requests that are not settled.
type Subscriptions struct{ db *DB }

// Log returns the delivery.Log.
func (db *DB) Log() *Log { return &Log{db} }

// Log keeps the topics' notifications.
type Log struct{ db *DB }

// Pings returns the delivery.Pings.
func (db *DB) Pings() *Pings { return &Pings{db} }

// Pings keeps the pings that wait for their fetch.
type Pings struct{ db *DB }

// Cursors returns the delivery.Cursors.
func (db *DB) Cursors() *Cursors { return &Cursors{db} }

// Cursors keeps the positions of subscriptions and their gaps.
type Cursors struct{ db *DB }

// Marks returns the delivery.Marks.
func (db *DB) Marks() *Marks { return &Marks{db} }

// Marks keeps the lowest cursors of topics, by shard.
type Marks struct{ db *DB }

// Shards returns the delivery.Shards.
func (db *DB) Shards() *Shards { return &Shards{db} }

// Shards shares the shards among the processes.
type Shards struct{ db *DB }

// Ear hears of what other processes did, and of what this one did too. Its
// methods do not block.
type Ear interface {
	// Published: a topic's log has grown up to head.
	Published(topic string, head delivery.Seq)
	// Requested: a request was submitted.
	Requested(id subscription.ID)
	// Pinged: a ping was noted.
	Pinged(p delivery.Ping)
	// Refresh: something may have been missed. It comes after every time that
	// nothing could be heard, and now and then in any case.
	Refresh()
}
