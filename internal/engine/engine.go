// Package engine opens the store of a hub, in Pebble or in Redis, as one set of interfaces. No other
// package chooses between the two.
package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"carillon/operator/api"
	"carillon/operator/socket"

	"carillon/delivery"
	"carillon/internal/machine"
	"carillon/internal/release"
	"carillon/operator"
	"carillon/source"
	"carillon/store/pebblestore"
	"carillon/store/redisstore"
	"carillon/subscription"
	"carillon/transfer"
)

// Engine is what keeps everything, whichever it is.
type Engine struct {
	Subscriptions subscription.Store
	Log           delivery.Log
	Pings         delivery.Pings
	Cursors       delivery.Cursors
	Marks         delivery.Marks // nil where one process has the engine to itself
	Shards        delivery.Shards
	Sources       source.Store
	Restore       transfer.Target // takes in an export
	// Ready reaches the engine and prepares it. subscription.ErrUnavailable:
	// not yet; any other error: never, as it is set up.
	Ready func(ctx context.Context) error
	// Warnings are what the operator must know of how the engine is set up,
	// each with what to do. The engine logs each when it finds it.
	Warnings func() []string
	// Listen reports the changes of other processes until ctx ends; nil for an engine of one process.
	Listen func(ctx context.Context, e Ear) error
	// Peers asks the other hubs that work on it, and answers them; nil where there is no
	// other.
	Peers operator.Peers
	// Processes reports how many hubs work on it; nil where there is no other.
	Processes func(ctx context.Context) (int, error)
	// Fair reports how many shards are this process's part; not joined: that is
	// not known yet.
	Fair func() (shards int, joined bool)
	// Backup holds a state of the store, to be written to a file; nil where the engine
	// has its own way.
	Backup func(ctx context.Context) (api.Backup, error)
	// Directory is where it keeps everything, for the control socket; empty where
	// commands can open it beside a hub.
	Directory string
	// Close ends it; whatever worked on it has ended before.
	Close func() error
}

// Ear hears of what other processes did, and of what this one did too
// (redisstore.Ear).
type Ear interface {
	Published(topic string, head delivery.Seq)
	Requested(id subscription.ID)
	Pinged(p delivery.Ping)
	Refresh()
}

// ErrRedisBackup is the way with Redis.
var ErrRedisBackup = errors.New("it is kept by Redis, which is backed up by its own means: copy its RDB snapshot (BGSAVE) or its append-only files; " +
	"hub export writes what the hub keeps as a file that any engine takes")

// HoldBackup holds a state of the store for the API.
func (e *Engine) HoldBackup(ctx context.Context) (api.Backup, error) {
	if e.Backup == nil {
		return nil, api.Refusal(http.StatusConflict, ErrRedisBackup.Error())
	}
	return e.Backup(ctx)
}

// Socket is where commands reach the hub that works in a directory.
func Socket(dir string) socket.Location {
	return socket.Location{Dir: dir, Name: pebblestore.ControlSocket, Scratch: pebblestore.ScratchSuffix}
}

// Name returns the engine's name, as operators see it: pebble or redis.
func (e *Engine) Name() string {
	if e.Directory != "" {
		return "pebble"
	}
	return "redis"
}

// Source returns what an export reads.
func (e *Engine) Source() transfer.Source {
	return transfer.Source{
		Subscriptions: e.Subscriptions, Cursors: e.Cursors, Log: e.Log, Pings: e.Pings, Sources: e.Sources,
	}
}

// Open opens the store. It does not ask an engine that is reached by network: that is for
// Engine.Ready.
func Open(c Config) (*Engine, error) {
	if c.Redis() {
		return openRedis(c)
	}
	where, err := c.Directory()
	if err != nil {
		return nil, err
	}
	cfg := pebblestore.Config{
		Dir: where, CacheBytes: c.CacheBytes, MemTableBytes: uint64(c.TableBytes), Logger: c.Logger,
	}
	if c.Pebble != nil {
		c.Pebble(&cfg)
	}
	db, err := pebblestore.Open(cfg)
	if err != nil {
		return nil, c.Failed(err)
	}
	return &Engine{
		Subscriptions: db.Subscriptions(), Log: db.Log(), Pings: db.Pings(), Cursors: db.Cursors(), Shards: db.Shards(),
		Sources: db.Sources(), Restore: db.Restore(),
		Directory: where,
		Backup: func(ctx context.Context) (api.Backup, error) {
			b, err := db.Backup(ctx, release.Version)
			if errors.Is(err, pebblestore.ErrBackupRuns) {
				return nil, api.Refusal(http.StatusConflict, err.Error())
			}
			if err != nil {
				return nil, err
			}
			return b, nil
		},
		Ready:    func(context.Context) error { return nil },
		Warnings: func() []string { return nil },
		Fair:     func() (int, bool) { return subscription.Shards, true },
		Close:    db.Close,
	}, nil
}

// OpenNow opens the store for a command that ends, which does not wait for a store that is
// away.
func OpenNow(ctx context.Context, c Config) (*Engine, error) {
	if where, err := c.Directory(); err == nil {
		if err := machine.RefuseRoot(where); err != nil {
			return nil, c.Failed(err)
		}
	}
	e, err := Open(c)
	if errors.Is(err, pebblestore.ErrInUse) {
		return nil, fmt.Errorf("%w: stop the hub first", err)
	}
	if err != nil {
		return nil, err
	}
	if err := e.Ready(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("the store is not ready: %w", err), e.Close())
	}
	return e, nil
}

func openRedis(c Config) (*Engine, error) {
	where, err := c.RedisURL()
	if err != nil {
		return nil, c.Failed(err)
	}
	db, err := redisstore.Open(redisstore.Config{
		URL: where, Takeover: c.Takeover, MaxBody: c.MaxBody, Replicas: c.Replicas, AllowEviction: c.AllowEviction,
		Logger: c.Logger, Registerer: c.Registerer,
	})
	if err != nil {
		return nil, c.Failed(err)
	}
	return &Engine{
		Subscriptions: db.Subscriptions(), Log: db.Log(), Pings: db.Pings(), Cursors: db.Cursors(), Shards: db.Shards(),
		Marks: db.Marks(), Sources: db.Sources(), Restore: db.Restore(),
		Ready: func(ctx context.Context) error {
			err := db.Ready(ctx)
			if err == nil || errors.Is(err, subscription.ErrUnavailable) {
				return err
			}
			if _, evicts := errors.AsType[redisstore.EvictionError](err); evicts {
				return fmt.Errorf("%s: %w (%s)", c.name("Store"), err, c.name("AllowEviction"))
			}
			return fmt.Errorf("%s: %w", c.name("Store"), err)
		},
		Warnings:  db.Warnings,
		Listen:    func(ctx context.Context, e Ear) error { return db.Listen(ctx, e) },
		Peers:     db.Peers(),
		Processes: db.Processes,
		Fair: func() (int, bool) {
			state := db.Shards().State()
			return state.Fair, state.Processes > 0
		},
		Close: db.Close,
	}, nil
}
