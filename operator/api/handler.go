// Package api is the operator's listener of a hub: whether the process lives, whether it can accept
// and deliver, and its metrics.
//
// The first line of /readyz is "ready", or each failed check has a line "CHECK: REASON"; lines
// "warning: …" follow. With Accept: application/json it is one object, {"checks": [{"name", "ready",
// "error"}], "ready", "warnings"}, without an empty "error" or "warnings". With Config.Auth, a client
// without token and session gets no warnings, and "not ready" for each REASON: both name files and
// addresses.
//
// Below /api/v1/ is the JSON API: a Desk's answers and actions. Its file for programs is
// /api/v1/openapi.yaml. The pages (Config.Pages) are a face of the same Desk.
//
//	              ┌─ /healthz, /readyz                   without a token
//	Handler ── Auth ─┬─ /metrics, /api/v1/…   token or session
//	                 └─ Config.Pages          (/login and /static/ without a token)
//
// With Config.Auth it checks its clients. Without, every client that reaches it is the operator, so
// cmd/hub binds it to a loopback address then. API alone is for a socket, whose file permissions
// decide.
package api

import (
	"log/slog"
	"net/http"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

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
