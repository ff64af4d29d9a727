package main

import (
	"time"

	"carillon/admin"
	"carillon/cmd/internal/program"
	"carillon/operator"
)

var _ admin.Desk = (*operator.Desk)(nil)

// joinDesk makes the operator's desk of a hub, once all its rooms are there.
func (h *house) joinDesk() (err error) {
	cfg := operator.Config{
		URL: h.url, Engine: h.store.name(), Version: program.Version, Started: time.Now(),
		Deliveries: h.dispatcher, Log: h.store.Log, Cursors: h.store.Cursors,
		Subscriptions: h.store.Subscriptions, Sources: h.store.Sources,
		Requests: h.service, Warnings: h.warnings, Logger: h.logger,
	}
	if h.sources != nil {
		cfg.Registry = h.sources
	}
	h.desk, err = operator.New(cfg)
	return err
}

// name is the engine's, as operators are told it.
func (e *engine) name() string {
	if e.Directory != "" {
		return "pebble"
	}
	return "redis"
}
