package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/delivery"
	"carillon/store/pebblestore"
	"carillon/subscription"
)

// storeFlags say where everything is kept.
type storeFlags struct {
	Store string `default:"pebble:hub-data" placeholder:"ENGINE:WHERE" help:"Where everything is kept: pebble:DIRECTORY."`
}

// Validate refuses what no engine could be opened with. It is called when the
// flags of a command that embeds them are parsed.
func (f *storeFlags) Validate() error {
	_, _, err := f.parse()
	return err
}

// parse tells the kind of engine and where it keeps everything.
func (f *storeFlags) parse() (kind, where string, err error) {
	kind, where, _ = strings.Cut(f.Store, ":")
	if kind != "pebble" {
		return "", "", fmt.Errorf("--store %s: the engine must be pebble, as in pebble:hub-data", f.Store)
	}
	if where == "" {
		return "", "", fmt.Errorf("--store %s: the directory is missing, as in pebble:hub-data", f.Store)
	}
	return kind, where, nil
}

// engine is what keeps everything, whichever it is.
type engine struct {
	Subscriptions subscription.Store
	Log           delivery.Log
	Pings         delivery.Pings
	Cursors       delivery.Cursors
	Marks         delivery.Marks // nil where one process has the engine to itself
	Shards        delivery.Shards
	// Ready reaches the engine and prepares it. subscription.ErrUnavailable:
	// not yet; any other error: never, as it is set up.
	Ready func(ctx context.Context) error
	// Warnings are what the operator must know of how the engine is set up,
	// each with what to do.
	Warnings func() []string
	// Listen tells what other processes do until ctx ends; nil where there
	// are none.
	Listen func(ctx context.Context, e ear) error
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
	_, where, err := f.parse()
	if err != nil {
		return nil, err
	}
	db, err := pebblestore.Open(pebblestore.Config{Dir: where, Logger: logger})
	if err != nil {
		return nil, fmt.Errorf("--store %s: %w", f.Store, err)
	}
	return &engine{
		Subscriptions: db.Subscriptions(), Log: db.Log(), Pings: db.Pings(), Cursors: db.Cursors(), Shards: db.Shards(),
		Ready:    func(context.Context) error { return nil },
		Warnings: func() []string { return nil },
		Close:    db.Close,
	}, nil
}
