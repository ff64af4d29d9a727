// Package admin is the operator's listener of a hub: whether the process
// lives, whether it can accept and deliver, and its metrics.
//
// The first line of /readyz is "ready", or there is a line "CHECK: REASON" for
// each check that failed; lines "warning: …" follow. With Accept:
// application/json it is one object, {"checks": [{"name", "ready", "error"}],
// "ready", "warnings"}, without "error" and "warnings" where there are none.
//
// It answers to whoever can reach it and shows nothing that must stay
// secret; cmd/hub binds it to a loopback address by default. It changes nothing.
package admin

import (
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
	// Checks are run, in order, for every request to /readyz.
	Checks []Check
	// Warnings returns what the operator must know although the hub works, each
	// with what to do. /readyz shows them and answers as it does without
	// them. nil: there are none. It does not block.
	Warnings func() []string
	// Metrics is what /metrics gathers.
	Metrics prometheus.Gatherer
	// Logger takes the errors of gathering.
	Logger *slog.Logger
}

// Handler serves /healthz, /readyz and /metrics.
func Handler(cfg Config) http.Handler {
	r := mux.NewRouter()
	r.Path("/healthz").Methods(http.MethodGet, http.MethodHead).HandlerFunc(healthz)
	r.Path("/readyz").Methods(http.MethodGet, http.MethodHead).Handler(readyz{cfg.Checks, cfg.Warnings})
	r.Path("/metrics").Methods(http.MethodGet, http.MethodHead).Handler(promhttp.HandlerFor(cfg.Metrics, promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelError),
		ErrorHandling: promhttp.ContinueOnError,
	}))
	r.MethodNotAllowedHandler = http.HandlerFunc(methodNotAllowed)
	r.NotFoundHandler = http.HandlerFunc(notFound)
	return r
}

// healthz says that the process lives. It does no work: a store that is away
// must not get the process killed.
func healthz(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok") }

func methodNotAllowed(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Allow", "GET, HEAD")
	plain(w, http.StatusMethodNotAllowed, "This path takes GET and HEAD.")
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	plain(w, http.StatusNotFound, "There are /healthz, /readyz and /metrics here.")
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
	if h.warnings != nil {
		warnings = h.warnings()
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
			lines = append(lines, res.Name+": "+res.Error)
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
		if err := checkWithin(ctx, c); err != nil {
			results[i].Ready, results[i].Error = false, err.Error()
			status = http.StatusServiceUnavailable
		}
	}
	return results, status
}

// checkWithin runs a check in a goroutine of its own, because a check that
// ignores its context must not hold the answer.
func checkWithin(ctx context.Context, c Check) error {
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
