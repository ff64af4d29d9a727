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
	// changeMemoryPart is the divisor of KeepBytes that gives the share of notifications which every
	// subscription has settled.
	changeMemoryPart = 10
	// memoryInRedis is the most of it in Redis, unless MemoryBytes says otherwise.
	changeMemoryInRedis = 64 << 20
	// memoryLonger is by how much it is kept longer than RetryFor: for so long a notification that
	// was given up can be read.
	changeMemoryLonger = 24 * time.Hour
)

// Delivery returns what the Config says of deliveries and logs.
func (c Config) Delivery() dispatch.Config {
	cfg := dispatch.Config{
		MaxPerHost: maxPerHost,
		RetryFirst: c.RetryFirst, RetryMax: c.RetryMax, RetryFor: c.RetryFor,
		DrainTimeout: c.stageWithin(),
		KeepAtLeast:  c.KeepAtLeast, KeepBytes: c.KeepBytes, KeepFor: c.KeepFor,
	}
	if c.NoChangeMemory {
		return cfg
	}
	cfg.RememberFor = max(0, cmp.Or(c.ChangeMemoryFor, c.RetryFor+min(changeMemoryLonger, 1<<62-c.RetryFor)))
	cfg.RememberBytes = dispatch.DefaultRememberBytes
	if c.KeepBytes > 0 {
		cfg.RememberBytes = c.KeepBytes / changeMemoryPart
	}
	if c.Engine().Redis() {
		cfg.RememberBytes = min(cfg.RememberBytes, changeMemoryInRedis)
	}
	cfg.RememberBytes = cmp.Or(c.ChangeMemoryBytes, cfg.RememberBytes)
	return cfg
}
