package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"carillon/delivery"
	"carillon/delivery/dispatch"
	"carillon/hub"
	"carillon/store/redisstore"
)

// memoryFlags say what is kept for those who come later.
type memoryFlags struct {
	Memory      bool           `default:"true" help:"Whether Destinations may read what was published lately, at memory below the hub URI: to catch up on what they missed. With --memory=false what nobody waits for goes from the logs after --keep-at-least."`
	MemoryFor   *time.Duration `placeholder:"DURATION" help:"How long a notification stays for that when no subscription waits for it any more. Default: a day more than --retry-for. --keep-for and --keep-bytes come first." range:"0 or more"`
	MemoryBytes *byteSize      `placeholder:"SIZE" help:"What all logs together may take before what nobody waits for goes, though it is younger than --memory-for: of the sites of topics that take most, oldest first. Default: a tenth of --keep-bytes; with Redis, which holds it in memory, 64MiB at most." range:"1MB or more, and not more than --keep-bytes"`
}

const (
	// memoryPart is the part of --keep-bytes that is for what nobody waits for.
	memoryPart = 10
	// memoryInRedis is the most of it in Redis, if the operator does not say.
	memoryInRedis = 64 << 20
	// memoryLonger is by how much it is kept longer than --retry-for: for so long a notification
	// that was given up can be read.
	memoryLonger = 24 * time.Hour
)

// validate refuses what cannot be kept.
func (f *memoryFlags) validate(keepBytes int64) error {
	var all []error
	if f.MemoryFor != nil && *f.MemoryFor < 0 {
		all = append(all, fmt.Errorf("--memory-for must be 0 or more, not %s", *f.MemoryFor))
	}
	if f.MemoryBytes == nil {
		return errors.Join(all...)
	}
	switch size := int64(*f.MemoryBytes); {
	case size < minKeepBytes:
		all = append(all, fmt.Errorf("--memory-bytes must be 1MB or more, not %d bytes; sizes may have units, like 1GiB; --memory=false keeps nothing", size))
	case keepBytes > 0 && size > keepBytes:
		all = append(all, fmt.Errorf("--memory-bytes (%s) must not be more than --keep-bytes (%s)", *f.MemoryBytes, byteSize(keepBytes)))
	}
	return errors.Join(all...)
}

// remember has the logs keep what may be read later.
func (f *serveCommand) remember(cfg *dispatch.Config) {
	if !f.Memory {
		return
	}
	cfg.RememberFor = f.RetryFor + min(memoryLonger, 1<<62-f.RetryFor)
	if f.MemoryFor != nil {
		cfg.RememberFor = *f.MemoryFor
	}
	cfg.RememberBytes = cmp.Or(int64(f.KeepBytes)/memoryPart, dispatch.DefaultRememberBytes)
	if redisstore.IsURL(f.Store) {
		cfg.RememberBytes = min(cfg.RememberBytes, memoryInRedis)
	}
	if f.MemoryBytes != nil {
		cfg.RememberBytes = int64(*f.MemoryBytes)
	}
}

// memory is what the hub reads the change memory from; nil: there is none.
func (h *house) memory(f serveCommand) hub.Memory {
	if !f.Memory {
		return nil
	}
	return gatedMemory{h.store.Log, gate{h}}
}

// gatedMemory is read only where the store was checked: every reading begins with the state of
// its log.
type gatedMemory struct {
	delivery.Log
	gate
}

// State implements hub.Memory.
func (m gatedMemory) State(ctx context.Context, topic string) (delivery.TopicState, error) {
	if err := m.closed(); err != nil {
		return delivery.TopicState{}, err
	}
	return m.Log.State(ctx, topic)
}
