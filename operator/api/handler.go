// Package api is the operator's listener of a hub: whether the process
// lives, whether it can accept and deliver, and its metrics.
//
// The first line of /readyz is "ready", or there is a line "CHECK: REASON" for
// each check that failed; lines "warning: …" follow. With Accept:
// application/json it is one object, {"checks": [{"name", "ready", "error"}],
// "ready", "warnings"}, without "error" and "warnings" where there are none. With
// Config.Auth, who sends neither token nor session gets no warnings, and "not ready" for each REASON:
// both name files and addresses.
//
// Below /api/v1/ is the JSON API: what a Desk answers, and what it does. Its file for
// programs is /api/v1/openapi.yaml. The pages (Config.Pages) are a face of the same Desk.
//
//	              ┌─ /healthz, /readyz                   for everybody
//	Handler ── Auth ─┬─ /metrics, /api/v1/…   token or session
//	                 └─ Config.Pages          (/login and /static/ for everybody)
//
// With Config.Auth it asks who comes; without, everybody who reaches it is the operator, and
// so cmd/hub binds it to a loopback address then. API alone is for a socket whose file says who
// may use it.
package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// checkTimeout bounds one readiness check: a check that hangs has failed.
const checkTimeout = 3 * time.Second

// Check is one thing that must work before the hub can accept and deliver.
type Check struct {
	// Name is what the check looks at, as /readyz shows it: "store".
	Name string
	// Ready returns nil, or what is wrong in words an operator can act on.
	Ready func(context.Context) error
}

// Config is what the listener shows.
type Config struct {
	// Checks are run, in order, for every request to /readyz, which strangers may send: one that
	// costs something answers by a Recent.
	Checks []Check
	// Warnings returns what the operator must know although the hub works, each
	// with what to do. /readyz shows them to who may see them (Auth.May), and its status is as
	// without them. nil: there are none. It does not block.
	Warnings func() []string
	// Metrics is what /metrics gathers.
	Metrics prometheus.Gatherer
	// Desk answers the API; nil: nobody answers yet, which is 503.
	Desk Desk
	// Profiles has the profiles of the process at /debug/pprof/, for go tool pprof.
	Profiles bool
	// Pages serves every path that is none of the others; nil: they are not found.
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
	// Backup holds a state of the store, to be answered with; nil: there is none to be had here.
	Backup func(context.Context) (Backup, error)
	// Logger takes what goes wrong.
	Logger *slog.Logger
}

// Who may publish to a hub: nobody is asked for a token, or everybody is.
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

// Handler serves /healthz, /readyz, /metrics, the API and the pages.
func Handler(cfg Config) http.Handler {
	r := mux.NewRouter()
	r.Path("/healthz").Handler(reading(http.HandlerFunc(healthz)))
	r.Path("/readyz").Handler(reading(readyz{cfg.Checks, cfg.Warnings, cfg.Auth}))
	r.Path("/metrics").Handler(reading(promhttp.HandlerFor(cfg.Metrics, promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelError),
		ErrorHandling: promhttp.ContinueOnError,
	})))
	r.PathPrefix("/api/").Handler(API(cfg))
	if cfg.Profiles {
		profiles(r)
	}
	cfg.Auth.paths(r, cfg.Pages)
	r.NotFoundHandler = http.HandlerFunc(notFound)
	if cfg.Pages != nil {
		r.PathPrefix("/").Handler(cfg.Pages)
	}
	return own(cfg.Auth.guard(r))
}

// healthz says that the process lives. It does no work: a store that is away
// must not get the process killed.
func healthz(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok") }

// reading lets GET and HEAD through.
func reading(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			plain(w, http.StatusMethodNotAllowed, "This path takes GET and HEAD.")
			return
		}
		h.ServeHTTP(w, r)
	})
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	plain(w, http.StatusNotFound, "There are /healthz, /readyz, /metrics and /api/v1/ here.")
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}

type readyz struct {
	checks   []Check
	warnings func() []string // may be nil
	auth     *Auth           // may be nil
}

// report is the answer of /readyz in JSON.
type report struct {
	Checks   []result `json:"checks"`
	Ready    bool     `json:"ready"`
	Warnings []string `json:"warnings,omitempty"`
}

// result is the outcome of one check, as /readyz gives it in JSON.
type result struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
	Error string `json:"error,omitempty"`
}

func (h readyz) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	results, status := h.run(r.Context())
	var warnings []string
	told := h.auth == nil || h.auth.judge(r) == welcome // a wrong token counts, here as elsewhere
	if told && h.warnings != nil {
		warnings = h.warnings()
	}
	if !told {
		for i := range results {
			results[i].Error = ""
		}
	}
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(report{results, status == http.StatusOK, warnings}) // the client is gone: nobody to tell
		return
	}
	var lines []string
	for _, res := range results {
		if !res.Ready {
			lines = append(lines, res.Name+": "+cmp.Or(res.Error, "not ready"))
		}
	}
	if len(lines) == 0 {
		lines = []string{"ready"}
	}
	for _, warning := range warnings {
		lines = append(lines, "warning: "+warning)
	}
	plain(w, status, strings.Join(lines, "\n"))
}

func (h readyz) run(ctx context.Context) ([]result, int) {
	results, status := make([]result, len(h.checks)), http.StatusOK
	for i, c := range h.checks {
		results[i] = result{Name: c.Name, Ready: true}
		if err := c.Run(ctx); err != nil {
			results[i].Ready, results[i].Error = false, err.Error()
			status = http.StatusServiceUnavailable
		}
	}
	return results, status
}

// Run returns what the check says, within checkTimeout. It runs in a goroutine of its own,
// because a check that ignores its context must not hold the answer.
func (c Check) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- c.Ready(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("no answer within %s", checkTimeout)
	}
}
