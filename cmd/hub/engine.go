package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/delivery"
	"carillon/operator"
	"carillon/operator/api"
	"carillon/source"
	"carillon/store/pebblestore"
	"carillon/store/redisstore"
	"carillon/subscription"
	"carillon/transfer"
)

// storeFlags say where everything is kept. Those for Redis are not heeded with
// another engine: they may come from a file or an environment that several
// commands share.
type storeFlags struct {
	Store string `default:"pebble:hub-data" placeholder:"ENGINE:WHERE" help:"Where everything is kept: pebble:DIRECTORY, of one process; or in Redis, which several processes share: redis://USER@HOST:PORT/DB, rediss:// (TLS), redis+sentinel://HOST:PORT,HOST:PORT/MASTER/DB, redis+cluster://HOST:PORT,HOST:PORT."`

	RedisPasswordFile string `placeholder:"FILE" help:"With Redis: file with the password, so that it need not stand in --store, which other users of the machine can see. $HUB_REDIS_PASSWORD may have the password itself."`
	RedisReplicas     int    `default:"0" placeholder:"N" help:"With Redis: an answer waits until so many replicas have what it acknowledges; 503 where they do not. Not with Cluster. 0 leaves it to --store (replicas=N)." range:"0 to 100"`
	AllowEviction     bool   `help:"With Redis: start although its maxmemory-policy lets it throw away what was acknowledged."`

	takeover time.Duration // of a hub that serves; 0: the engine's default
	maxBody  int64         // the largest notification; 0: any
	// pebble is what the embedded engine is to have unlike its defaults.
	pebble pebblestore.Config
}

// maxReplicas is the largest --redis-replicas.
const maxReplicas = 100

// passwordVariable may have the password of Redis. It is no flag: a command line
// can be seen by every user of the machine.
const passwordVariable = "HUB_REDIS_PASSWORD"

// Validate refuses what no engine could be opened with. It is called when the
// flags of a command that embeds them are parsed.
func (f *storeFlags) Validate() error {
	if f.RedisReplicas < 0 || f.RedisReplicas > maxReplicas {
		return fmt.Errorf("--redis-replicas must be from 0 to %d, not %d", maxReplicas, f.RedisReplicas)
	}
	if !redisstore.IsURL(f.Store) {
		_, err := f.directory()
		return err
	}
	where, err := f.redisURL()
	if err == nil {
		_, err = redisstore.ParseURL(where)
	}
	return f.failed(err)
}

// directory is where Pebble keeps everything.
func (f *storeFlags) directory() (string, error) {
	kind, where, _ := strings.Cut(f.Store, ":")
	switch {
	case kind != "pebble":
		return "", f.failed(errors.New("the engine must be pebble, as in pebble:hub-data, or redis, as in redis://localhost:6379/0"))
	case where == "":
		return "", f.failed(errors.New("the directory is missing, as in pebble:hub-data"))
	}
	return where, nil
}

// redisURL is --store with the password, where that stands elsewhere.
func (f *storeFlags) redisURL() (string, error) {
	password, from, err := f.password()
	if err != nil || password == "" {
		return f.Store, err
	}
	scheme, rest, _ := strings.Cut(f.Store, "://")
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	authority, path := rest[:end], rest[end:]
	at := strings.LastIndex(authority, "@")
	user, hosts := authority[:max(at, 0)], authority[at+1:]
	if strings.Contains(user, ":") {
		return "", fmt.Errorf("it has a password, and so has %s: keep one", from)
	}
	return scheme + "://" + user + ":" + escape(password) + "@" + hosts + path, nil
}

// escape encodes every byte that may mean something in a URL.
func escape(password string) string {
	var b strings.Builder
	for _, c := range []byte(password) {
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

// password is the one that does not stand in --store, if there is one, and where it is
// from.
func (f *storeFlags) password() (password, from string, err error) {
	password = os.Getenv(passwordVariable)
	switch {
	case f.RedisPasswordFile == "":
		return password, passwordVariable, nil
	case password != "":
		return "", "", fmt.Errorf("there are %s and --redis-password-file: keep one", passwordVariable)
	}
	text, err := os.ReadFile(f.RedisPasswordFile)
	if err != nil {
		return "", "", fmt.Errorf("--redis-password-file: %w", err)
	}
	if password = strings.TrimRight(string(text), "\r\n"); password == "" {
		return "", "", fmt.Errorf("--redis-password-file: %s is empty", f.RedisPasswordFile)
	}
	return password, "--redis-password-file", nil
}

// failed names --store in an error, without what may be a password in it.
func (f *storeFlags) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("--store %s: %w", f.shown(), err)
}

// shown is --store for messages.
func (f *storeFlags) shown() string {
	if u, err := redisstore.ParseURL(f.Store); err == nil {
		return u.Redacted()
	}
	kind, rest, _ := strings.Cut(f.Store, ":")
	switch {
	case !strings.ContainsAny(f.Store, "@/") || kind == "pebble":
		return f.Store
	case !strings.ContainsAny(kind, "@/") && strings.HasPrefix(rest, "//"), redisstore.IsURL(kind + "://"):
		return kind + ":…"
	default: // what stands first may be a password, too
		return "…"
	}
}

// engine is what keeps everything, whichever it is.
type engine struct {
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
	// Listen tells what other processes do until ctx ends; nil where there
	// are none.
	Listen func(ctx context.Context, e ear) error
	// Peers asks the other hubs that work on it, and answers them; nil where there is no
	// other.
	Peers operator.Peers
	// Processes tells how many hubs work on it; nil where there is no other.
	Processes func(ctx context.Context) (int, error)
	// Fair tells how many shards are this process's part; not joined: that is
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

// ear hears of what other processes did, and of what this one did too
// (redisstore.Ear).
type ear interface {
	Published(topic string, head delivery.Seq)
	Requested(id subscription.ID)
	Pinged(p delivery.Ping)
	Refresh()
}

// openEngine opens what --store says. An engine that is reached by network is not
// asked yet: that is for Ready.
func openEngine(f storeFlags, logger *slog.Logger, metrics prometheus.Registerer) (*engine, error) {
	if redisstore.IsURL(f.Store) {
		return openRedis(f, logger, metrics)
	}
	where, err := f.directory()
	if err != nil {
		return nil, err
	}
	cfg := f.pebble
	cfg.Dir, cfg.Logger = where, logger
	db, err := pebblestore.Open(cfg)
	if err != nil {
		return nil, f.failed(err)
	}
	return &engine{
		Subscriptions: db.Subscriptions(), Log: db.Log(), Pings: db.Pings(), Cursors: db.Cursors(), Shards: db.Shards(),
		Sources: db.Sources(), Restore: db.Restore(),
		Directory: where,
		Backup:    holdBackup(db),
		Ready:     func(context.Context) error { return nil },
		Warnings:  func() []string { return nil },
		Fair:      func() (int, bool) { return subscription.Shards, true },
		Close:     db.Close,
	}, nil
}

func openRedis(f storeFlags, logger *slog.Logger, metrics prometheus.Registerer) (*engine, error) {
	where, err := f.redisURL()
	if err != nil {
		return nil, f.failed(err)
	}
	db, err := redisstore.Open(redisstore.Config{
		URL: where, Takeover: f.takeover, MaxBody: f.maxBody, Replicas: f.RedisReplicas, AllowEviction: f.AllowEviction,
		Logger: logger, Registerer: metrics,
	})
	if err != nil {
		return nil, f.failed(err)
	}
	return &engine{
		Subscriptions: db.Subscriptions(), Log: db.Log(), Pings: db.Pings(), Cursors: db.Cursors(), Shards: db.Shards(),
		Marks: db.Marks(), Sources: db.Sources(), Restore: db.Restore(),
		Ready: func(ctx context.Context) error {
			err := db.Ready(ctx)
			if err == nil || errors.Is(err, subscription.ErrUnavailable) {
				return err
			}
			if _, evicts := errors.AsType[redisstore.EvictionError](err); evicts {
				return fmt.Errorf("--store: %w (--allow-eviction)", err)
			}
			return fmt.Errorf("--store: %w", err)
		},
		Warnings:  db.Warnings,
		Listen:    func(ctx context.Context, e ear) error { return db.Listen(ctx, e) },
		Peers:     db.Peers(),
		Processes: db.Processes,
		Fair: func() (int, bool) {
			state := db.Shards().State()
			return state.Fair, state.Processes > 0
		},
		Close: db.Close,
	}, nil
}
