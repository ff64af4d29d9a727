package api_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/operator/api"
)

func profilesOf(t *testing.T, on bool, token string) *httptest.Server {
	t.Helper()
	cfg := api.Config{Metrics: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler), Profiles: on}
	if token != "" {
		cfg.Auth = api.NewAuth(func() string { return token }, slog.New(slog.DiscardHandler))
	}
	server := httptest.NewServer(api.Handler(cfg))
	t.Cleanup(server.Close)
	return server
}

func askFor(t *testing.T, method, address, token string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// Profiles exist where they are wanted, and only for the operator.
func TestProfiles(t *testing.T) {
	const token = "a-token-of-the-operator"
	for _, tt := range []struct {
		on                  bool
		token, shown        string
		method, path, holds string
		status              int
	}{
		{on: false, method: "GET", path: "/debug/pprof/", status: 404},
		{on: false, method: "GET", path: "/debug/pprof/heap", status: 404},
		{on: true, method: "GET", path: "/debug/pprof/", status: 200, holds: "goroutine"},
		{on: true, method: "GET", path: "/debug/pprof/heap?debug=1", status: 200, holds: "heap profile"},
		{on: true, method: "GET", path: "/debug/pprof/cmdline", status: 404},
		{on: true, method: "GET", path: "/debug/pprof/profile?seconds=3600", status: 400, holds: "at most 50"},
		{on: true, method: "GET", path: "/debug/pprof/allocs?seconds=NaN", status: 400},
		{on: true, method: "POST", path: "/debug/pprof/heap", status: 405},
		{on: true, token: token, method: "GET", path: "/debug/pprof/heap", status: 401},
		{on: true, token: token, shown: "another-token-that-is-long", method: "GET", path: "/debug/pprof/heap", status: 401},
		{on: true, token: token, shown: token, method: "GET", path: "/debug/pprof/goroutine?debug=1", status: 200, holds: "goroutine profile"},
	} {
		status, body := askFor(t, tt.method, profilesOf(t, tt.on, tt.token).URL+tt.path, tt.shown)
		if status != tt.status || !strings.Contains(body, tt.holds) {
			t.Errorf("%+v: %d %.200s", tt, status, body)
		}
	}
}
