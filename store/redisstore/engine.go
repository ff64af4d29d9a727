package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"carillon/delivery"
	"carillon/subscription"
)

// engine is the way to the server, or servers.
type engine struct {
	cfg     Config // with its defaults
	url     *URL
	client  redis.UniversalClient
	keys    keys
	log     *slog.Logger
	metrics *metrics
	full    fullness // whether the servers' memory is
	routes  reroute
	absence absence // of a part of a Cluster

	mu       sync.Mutex
	settings []string            // guarded by mu: warnings of the server's settings
	events   []string            // guarded by mu: warnings of what has happened
	told     map[string]struct{} // guarded by mu: defects that were logged and are not logged again
	passed   map[string]struct{} // guarded by mu: and damaged records
	closed   bool                // guarded by mu: CONFIG GET was refused
	id       string              // guarded by mu: the store's, "" while it is not known
	lost     time.Time           // guarded by mu: when it was found emptied last
}

// refusal is an error that waiting does not mend.
type refusal string

func (r refusal) Error() string { return string(r) }

const errNoCluster refusal = "it is not a node of a Cluster: the URL must begin with redis:// or rediss://"

func refuse(message string, args ...any) error { return refusal(fmt.Sprintf(message, args...)) }

// states are the beginnings of the answers by which a server says that it, or who
// asks, is not fit to carry out a command now.
var states = []string{
	"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "MOVED", "ASK", "TRYAGAIN", "MISCONF", "BUSY", "UNKILLABLE",
	"NOREPLICAS", "UNBLOCKED", "NOPERM", "NOAUTH", "WRONGPASS", "NOSCRIPT", "EXECABORT", "DENIED", "max number of clients",
}

// classify reports what a failure is.
func classify(err error) class {
	if _, answered := errors.AsType[redis.Error](err); !answered {
		return network
	}
	if errors.Is(err, redis.Nil) { // the Sentinels know of no primary
		return refused
	}
	if redis.IsOOMError(err) || redis.HasErrorPrefix(err, "OOM") {
		return memory
	}
	for _, state := range states {
		if redis.HasErrorPrefix(err, state) {
			return refused
		}
	}
	return defect
}

// failed turns trouble with the server into ErrUnavailable, and leaves the end of the caller's own
// context as it is. An error that no state of a server explains is a defect of a script or of this
// package: it is logged, once each.
func (e *engine) failed(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, subscription.ErrUnavailable) {
		return err
	}
	if ctxErr := ctx.Err(); errors.Is(ctxErr, context.Canceled) {
		return ctxErr
	}
	c := classify(err)
	e.metrics.failures.WithLabelValues(string(c)).Inc()
	switch c {
	case memory:
		e.full.noteFull(e.log, e.url)
	case network, refused:
		e.reroute()
	}
	if c == defect {
		text, _, _ := strings.Cut(err.Error(), " script: ")
		e.once(e.told, text, func() {
			e.log.Error(
				"Redis refuses what it should not: a defect of this program, or of what stands between", "error", err,
			)
		})
	}
	if e.url.kind == cluster {
		return fmt.Errorf("%w: %w", delivery.ErrPartAway, err) // the others may not be away
	}
	return fmt.Errorf("%w: %w", subscription.ErrUnavailable, err)
}

// maxTold bounds what is remembered of what was logged, and so how much is.
const maxTold = 1000

// once calls tell unless it was called for the same what before. full reports that this is not known.
func (e *engine) once(told map[string]struct{}, what string, tell func()) (full bool) {
	e.mu.Lock()
	_, known := told[what]
	full = !known && len(told) >= maxTold
	if !known && !full {
		told[what] = struct{}{}
	}
	e.mu.Unlock()
	if !known && !full {
		tell()
	}
	return full
}

// damaged logs, once for each record, one that cannot be read and is passed over.
func (e *engine) damaged(key, field string, err error) {
	full := e.once(e.passed, key+" "+field, func() {
		e.metrics.damaged.Inc()
		e.log.Error("a stored record is damaged and passed over", "key", key, "field", field, "error", err)
	})
	if full {
		e.metrics.damaged.Inc()
	}
}

// warn adds to what the operator must know, for as long as the process runs.
func (e *engine) warn(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, text)
	if len(e.events) > maxEvents {
		e.events = e.events[1:]
	}
}

// maxEvents bounds how many events are remembered; the latest are.
const maxEvents = 10

// settle takes the warnings of the server's settings, in place of those before, and
// logs what is new.
func (e *engine) settle(warnings []string) {
	e.mu.Lock()
	before := e.settings
	e.settings = warnings
	e.mu.Unlock()
	for _, text := range warnings {
		if !slices.Contains(before, text) {
			e.log.Warn("acknowledged data could vanish", "store", e.url, "warning", text)
		}
	}
}

func (e *engine) close() error {
	err := e.client.Close()
	if errors.Is(err, redis.ErrClosed) {
		return nil
	}
	return err
}
