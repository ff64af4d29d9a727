package house

import (
	"log/slog"
	"math"

	"carillon/delivery/dispatch"
	"carillon/hub"
	"carillon/store/pebblestore"
)

// budgets is what may be held in memory of what is large, bytes: the greatest parts
// of what a hub takes besides its table of subscriptions.
type budgets struct {
	sending  int64 // bodies that deliveries hold (dispatch.Config.MaxBytes)
	latest   int64 // latest notifications read from the logs (dispatch.Config.CacheBytes)
	taking   int64 // bodies of requests (hub.Config.MaxBodiesBytes)
	fetching int64 // bodies of topics that are fetched (hub.Config.MaxFetchBytes)
	blocks   int64 // of the embedded store (pebblestore.Config.CacheBytes)
	table    int64 // likewise, each of up to four (pebblestore.Config.MemTableBytes)
	idle     int64 // connections kept for the next delivery (send.Limits.IdleBytes)
	sessions int64 // TLS sessions of hosts (send.Limits.SessionBytes)
}

// bodyCopies is how often a body that is taken in may be in memory at once: in the parts
// that came, put together, and in what is written to the store.
const bodyCopies = 3

// The parts of a limit that each has at most. Where a body of the largest kind is takingPart of
// it they leave, with bodyCopies of what is taken and fetched, and four tables, a 32nd.
const (
	sendingPart, latestPart  = 8, 32
	takingPart, fetchingPart = 8, 10
	blocksPart, tablePart    = 32, 128
)

// Connections and sessions have what the others leave of a limit, from leastKeptPart to
// mostKeptPart of it; a sessionsPart of that is for sessions. everythingElse stays free.
const (
	leastKeptPart, mostKeptPart = 64, 8
	sessionsPart                = 4
	everythingElse              = 32
)

// leastTable is the least size of a table that the store works well with.
const leastTable = 2 << 20

// budgetsWithin lowers the budgets for bodies of a process with little memory. A body that does
// not fit waits, or its request gets 503. One body of the largest kind always fits. kept is the
// budget of idle connections and sessions, which shrinks too.
func budgetsWithin(limit, maxBody, kept int64) budgets {
	const fetches = hub.DefaultFetches
	s := budgets{
		sending:  min(dispatch.DefaultMaxBytes, limit/sendingPart),
		latest:   min(dispatch.DefaultCacheBytes, limit/latestPart),
		taking:   max(maxBody, hub.DefaultMaxForm, min(hub.DefaultMaxBodiesBytes, limit/takingPart)),
		fetching: max(maxBody, min(fetches*maxBody, limit/fetchingPart)),
		blocks:   min(pebblestore.DefaultCacheBytes, limit/blocksPart),
		table:    max(leastTable, min(pebblestore.DefaultMemTableBytes, limit/tablePart)),
	}
	left := limit - limit/everythingElse - s.all()
	kept = min(kept, limit/mostKeptPart, max(left, limit/leastKeptPart))
	s.sessions = kept / sessionsPart
	s.idle = kept - s.sessions
	return s
}

// all is what the shares come to, at the most.
func (s budgets) all() int64 {
	return s.sending + s.latest + bodyCopies*(s.taking+s.fetching) + s.blocks + 4*s.table + s.idle + s.sessions
}

// logLimit says in the log that there is little memory.
func (s budgets) logLimit(logger *slog.Logger, limit, maxBody, kept int64) {
	if least := maxBody * takingPart; limit < least {
		logger.Warn("GOMEMLIMIT is small for --max-body: while such bodies are taken in the process may need more; raise the one or lower the other",
			"memory_limit", limit, "max_body", maxBody, "least_memory_limit", least)
	}
	if s != budgetsWithin(math.MaxInt64, maxBody, kept) {
		logger.Info("the memory limit leaves less room for bodies and idle connections", "memory_limit", limit,
			"deliveries", s.sending, "requests", s.taking, "fetches", s.fetching, "idle_connections", s.idle, "tls_sessions", s.sessions)
	}
}
