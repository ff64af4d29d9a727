package api_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/operator/api"
)

func get(t *testing.T, h http.Handler, method, path, accept string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	req.Header.Set("Accept", accept)
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	return rec
}

func handler(checks ...api.Check) http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "strokes_total", Help: "Strokes."}))
	return api.Handler(api.Config{Checks: checks, Metrics: reg, Logger: slog.New(slog.DiscardHandler)})
}

func TestReadyzTellsWhatIsWrong(t *testing.T) {
	good := api.Check{Name: "store", Ready: func(context.Context) error { return nil }}
	bad := api.Check{Name: "loops", Ready: func(context.Context) error { return errors.New("starting") }}

	if rec := get(t, handler(good), "GET", "/readyz", ""); rec.Code != 200 || rec.Body.String() != "ready\n" {
		t.Errorf("all good: %d %q", rec.Code, rec.Body)
	}
	if rec := get(t, handler(good, bad), "GET", "/readyz", ""); rec.Code != 503 || rec.Body.String() != "loops: starting\n" {
		t.Errorf("one bad: %d %q", rec.Code, rec.Body)
	}
	rec := get(t, handler(good, bad), "GET", "/readyz", "application/json")
	want := `{"checks":[{"name":"store","ready":true},{"name":"loops","ready":false,"error":"starting"}],"ready":false}` + "\n"
	if rec.Code != 503 || rec.Body.String() != want {
		t.Errorf("as JSON: %d %s", rec.Code, rec.Body)
	}
}

// A warning is beside the outcome and does not change it.
func TestReadyzTellsWarnings(t *testing.T) {
	check := api.Check{Name: "store", Ready: func(context.Context) error { return nil }}
	var warnings []string
	cfg := api.Config{
		Warnings: func() []string { return warnings },
		Metrics:  prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	}
	for _, test := range []struct {
		failed     error
		warnings   []string
		status     int
		text, json string
	}{
		{nil, nil, 200, "ready\n", `{"checks":[{"name":"store","ready":true}],"ready":true}`},
		{
			nil,
			[]string{"one", "two"},
			200, "ready\nwarning: one\nwarning: two\n",
			`{"checks":[{"name":"store","ready":true}],"ready":true,"warnings":["one","two"]}`,
		},
		{
			errors.New("away"),
			[]string{"one"},
			503, "store: away\nwarning: one\n",
			`{"checks":[{"name":"store","ready":false,"error":"away"}],"ready":false,"warnings":["one"]}`,
		},
	} {
		check.Ready = func(context.Context) error { return test.failed }
		cfg.Checks, warnings = []api.Check{check}, test.warnings
		h := api.Handler(cfg)
		if rec := get(t, h, "GET", "/readyz", ""); rec.Code != test.status || rec.Body.String() != test.text {
			t.Errorf("%d %q; want %d %q", rec.Code, rec.Body, test.status, test.text)
		}
		if rec := get(t, h, "GET", "/readyz", "application/json"); rec.Code != test.status || rec.Body.String() != test.json+"\n" {
			t.Errorf("as JSON: %d %s; want %d %s", rec.Code, rec.Body, test.status, test.json)
		}
	}
}

// With a token set, a client without it gets the facts that load balancers need. It gets neither
// warnings nor the reasons of failed checks: both name files and addresses.
func TestReadyzTellsStrangersTheStatusOnly(t *testing.T) {
	token, log := goodToken, bytes.Buffer{}
	cfg := bareConfig()
	cfg.Auth = api.NewAuth(func() string { return token }, slog.New(slog.NewTextHandler(&log, nil)))
	cfg.Warnings = func() []string { return []string{"/srv/tok can be read by everybody"} }
	cfg.Checks = []api.Check{
		{Name: "hub", Ready: func(context.Context) error { return nil }},
		{Name: "store", Ready: func(context.Context) error { return errors.New("open /srv/store: away") }},
	}
	const (
		stranger = `{"checks":[{"name":"hub","ready":true},{"name":"store","ready":false}],"ready":false}`
		whole    = `{"checks":[{"name":"hub","ready":true},{"name":"store","ready":false,"error":"open /srv/store: away"}],"ready":false,"warnings":["/srv/tok can be read by everybody"]}`
	)
	h := api.Handler(cfg)
	_, session := login(t, h, goodToken, "")
	for name, test := range map[string]struct {
		header []string
		want   string
	}{
		"text":                {nil, "store: not ready"},
		"text, wrong token":   {[]string{"Authorization", "Bearer wrong"}, "store: not ready"},
		"text, token":         {[]string{"Authorization", "Bearer " + goodToken}, "store: open /srv/store: away\nwarning: /srv/tok can be read by everybody"},
		"text, session":       {[]string{"Cookie", session.String()}, "store: open /srv/store: away\nwarning: /srv/tok can be read by everybody"},
		"JSON":                {[]string{"Accept", "application/json"}, stranger},
		"JSON, another token": {[]string{"Accept", "application/json", "Authorization", "Bearer another"}, stranger},
		"JSON, token":         {[]string{"Accept", "application/json", "Authorization", "Bearer " + goodToken}, whole},
	} {
		if rec := visit(t, h, "GET /readyz", "", test.header...); rec.Code != 503 || rec.Body.String() != test.want+"\n" {
			t.Errorf("%s: %d %q; want %q", name, rec.Code, rec.Body, test.want)
		}
	}
	cfg.Checks = cfg.Checks[:1]
	if rec := visit(t, api.Handler(cfg), "GET /readyz", ""); rec.Code != 200 || rec.Body.String() != "ready\n" {
		t.Errorf("ready: %d %q", rec.Code, rec.Body)
	}
}

func TestReadyzDoesNotHangWithACheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		hung := api.Check{Name: "store", Ready: func(context.Context) error { <-release; return nil }}
		rec := get(t, handler(hung), "GET", "/readyz", "")
		if rec.Code != 503 || !strings.Contains(rec.Body.String(), "no answer within") {
			t.Errorf("got %d %q", rec.Code, rec.Body)
		}
		close(release)
	})
}

func TestHealthzAsksNobody(t *testing.T) {
	asked := false
	h := handler(api.Check{Name: "store", Ready: func(context.Context) error { asked = true; return errors.New("away") }})
	if rec := get(t, h, "GET", "/healthz", ""); rec.Code != 200 || asked {
		t.Errorf("%d, asked = %t; a store that is away must not fail liveness", rec.Code, asked)
	}
}

func TestMetricsAndRefusals(t *testing.T) {
	if rec := get(t, handler(), "GET", "/metrics", ""); rec.Code != 200 || !strings.Contains(rec.Body.String(), "strokes_total 0") {
		t.Errorf("/metrics: %d %q", rec.Code, rec.Body)
	}
	if rec := get(t, handler(), "POST", "/readyz", ""); rec.Code != 405 || rec.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST /readyz: %d, Allow %q", rec.Code, rec.Header().Get("Allow"))
	}
	if rec := get(t, handler(), "GET", "/", ""); rec.Code != 404 {
		t.Errorf("/: %d", rec.Code)
	}
}

func ExampleHandler() {
	reg := prometheus.NewRegistry()
	h := api.Handler(api.Config{
		Checks:  []api.Check{{Name: "store", Ready: func(context.Context) error { return nil }}},
		Metrics: reg,
		Logger:  slog.New(slog.DiscardHandler),
	})
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest("GET", "/readyz", nil))
	fmt.Print(rec.Body)
	// Output: ready
}
