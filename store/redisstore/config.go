package redisstore

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The defaults and bounds of a Config.
const (
	DefaultTakeover    = 10 * time.Second
	DefaultPoll        = 10 * time.Second
	DefaultMaxRequests = 2000
	DefaultMaxPings    = 20000

	minTakeover = time.Second
	maxTakeover = 5 * time.Minute
)

// Config says which Redis holds a store, and how its processes share it.
type Config struct {
	// URL says where the store is: see ParseURL.
	URL string
	// Process names this process among those that share the store, for people as well:
	// letters, digits and .:_-, 100 at most. No two that ever run may have the same.
	// Default: the machine's name, the process's number there, and a random part.
	Process string
	// Takeover is how long a process that is not heard of keeps its shards: how
	// long their deliveries rest after it died, and how long it may hang
	// without losing them. From 1 s to 5 m; default 10 s.
	Takeover time.Duration
	// Poll is how often a process looks for changes whose message it missed. Default 10 s.
	Poll time.Duration
	// MaxRequests bounds the requests of a shard that are not settled: one more
	// is subscription.ErrBusy. Default 2,000.
	MaxRequests int
	// MaxPings bounds the topics that wait for their fetch. Default 20,000.
	MaxPings int
	// MaxBody is the greatest body of a notification, in bytes, that the
	// server's limits must admit (proto-max-bulk-len). 0: not checked.
	MaxBody int64
	// Replicas is how many replicas must have received a change before it counts as made (WAIT); where too
	// few answer in time, the call is ErrUnavailable. Not with Cluster. Default: the value in the URL, or
	// none.
	Replicas int
	// AllowEviction lets Ready accept a server that removes keys when its memory is full (maxmemory-policy
	// other than noeviction), and acknowledged data with them.
	AllowEviction bool
	// Logger takes what an operator should know; nil: nowhere.
	Logger *slog.Logger
	// Registerer takes the metrics; nil: nowhere.
	Registerer prometheus.Registerer
}

func (c Config) withDefaults(u *URL) Config {
	if c.Process == "" {
		c.Process = newName()
	}
	if c.Takeover == 0 {
		c.Takeover = DefaultTakeover
	}
	if c.Poll == 0 {
		c.Poll = DefaultPoll
	}
	if c.MaxRequests == 0 {
		c.MaxRequests = DefaultMaxRequests
	}
	if c.MaxPings == 0 {
		c.MaxPings = DefaultMaxPings
	}
	if c.Replicas == 0 {
		c.Replicas = u.replicas
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// validate checks a Config that has its defaults.
func (c Config) validate(u *URL) error {
	if !isName(c.Process) {
		return fmt.Errorf(
			"the name of the process, %q, is not of letters, digits and .:_-, or longer than %d", c.Process, maxName,
		)
	}
	switch {
	case c.Takeover < minTakeover || c.Takeover > maxTakeover:
		return fmt.Errorf("the Takeover is %s; it must be between %s and %s", c.Takeover, minTakeover, maxTakeover)
	case c.Poll < 0:
		return fmt.Errorf("the Poll is %s; it must not be negative", c.Poll)
	case c.MaxRequests < 0:
		return fmt.Errorf("MaxRequests is %d; it must not be negative", c.MaxRequests)
	case c.MaxPings < 0:
		return fmt.Errorf("MaxPings is %d; it must not be negative", c.MaxPings)
	case c.MaxBody < 0:
		return fmt.Errorf("MaxBody is %d; it must not be negative", c.MaxBody)
	case c.Replicas < 0 || c.Replicas > maxReplicas:
		return fmt.Errorf("the number of Replicas is %d; it must be between 0 and %d", c.Replicas, maxReplicas)
	case c.Replicas > 0 && u.kind == cluster:
		return errors.New("a Cluster cannot be waited for: Replicas (replicas= in the URL) must be 0")
	}
	return nil
}
