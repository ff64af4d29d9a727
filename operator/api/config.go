package api

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
)

// Config is what the listener shows.
type Config struct {
	// Checks are run, in order, for every request to /readyz, which strangers may send: one that
	// costs something answers by a Recent.
	Checks []Check
	// Warnings returns what the operator must know although the hub works, each
	// with what to do. /readyz shows them to who may see them (Auth.May), and its status is as
	// without them. nil without one. It does not block.
	Warnings func() []string
	// Metrics is what /metrics gathers.
	Metrics prometheus.Gatherer
	// Desk answers the API; nil: it is not ready yet, which is 503.
	Service Service
	// Profiles has the profiles of the process at /debug/pprof/, for go tool pprof.
	Profiles bool
	// Pages serves every other path; nil: they are not found.
	Pages http.Handler
	// Auth asks who comes; nil: everybody is the operator.
	Auth *Auth
	// Version is that of the program.
	Version string
	// Publishers is who may publish to the hub: Everybody or Registered; "": no hub answers.
	Publishers string
	// Level is the least level of log lines; nil: it cannot be asked or changed.
	Level Level
	// Stopping is closed when the hub ends: then streams do; nil: never.
	Stopping <-chan struct{}
	// Backup holds a state of the store, to be answered with; nil without one to be had here.
	Backup func(context.Context) (Backup, error)
	// Logger takes what goes wrong.
	Logger *slog.Logger
}

// The publishers of a hub: every client, or only Sources with a token.
const (
	Everybody  = "open"
	Registered = "registered"
)

// Level is the least level of log lines: debug, info, warn or error.
type Level interface {
	Get() string
	// Set refuses what is no level.
	Set(name string) error
}
