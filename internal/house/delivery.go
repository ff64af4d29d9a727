package house

import (
	"cmp"
	"time"

	"carillon/delivery/dispatch"
)

// Bounds on deliveries (dispatch.Config).
const (
	maxInFlight = 512
	maxPerHost  = 64
)

const (
	// memoryPart is the part of KeepBytes that is for what nobody waits for.
	memoryPart = 10
	// memoryInRedis is the most of it in Redis, unless MemoryBytes says otherwise.
	memoryInRedis = 64 << 20
	// memoryLonger is by how much it is kept longer than RetryFor: for so long a notification that
	// was given up can be read.
	memoryLonger = 24 * time.Hour
)

// Delivery returns what the Config says of deliveries and logs.
func (c Config) Delivery() dispatch.Config {
	cfg := dispatch.Config{
		MaxPerHost: maxPerHost,
		RetryFirst: c.RetryFirst, RetryMax: c.RetryMax, RetryFor: c.RetryFor,
		DrainTimeout: c.stageWithin(),
		KeepAtLeast:  c.KeepAtLeast, KeepBytes: c.KeepBytes, KeepFor: c.KeepFor,
	}
	if c.NoMemory {
		return cfg
	}
	cfg.RememberFor = max(0, cmp.Or(c.MemoryFor, c.RetryFor+min(memoryLonger, 1<<62-c.RetryFor)))
	cfg.RememberBytes = dispatch.DefaultRememberBytes
	if c.KeepBytes > 0 {
		cfg.RememberBytes = c.KeepBytes / memoryPart
	}
	if c.Engine().Redis() {
		cfg.RememberBytes = min(cfg.RememberBytes, memoryInRedis)
	}
	cfg.RememberBytes = cmp.Or(c.MemoryBytes, cfg.RememberBytes)
	return cfg
}
