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
