package carillon_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon"
	"carillon/internal/redistest"
)

func configOf(t *testing.T) carillon.Config {
	return carillon.Config{URL: "http://127.0.0.1:9/websub/", Store: "pebble:" + t.TempDir(), NoSelfCheck: true}
}

func opened(t *testing.T, cfg carillon.Config) *carillon.Hub {
	t.Helper()
	h, err := carillon.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

func status(h http.Handler, path string) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code
}

// A hub runs once, closes its store at its end, and answers 503 from then on.
func TestLifeOfAHub(t *testing.T) {
	cfg := configOf(t)
	h := opened(t, cfg)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	<-h.Ready()
	if err := h.Run(ctx); !errors.Is(err, carillon.ErrRan) {
		t.Errorf("a second Run: %v", err)
	}
	if err := h.Close(); err != nil || status(h.Handler(), "/websub/") != http.StatusOK {
		t.Errorf("Close of a hub that runs: %v, and it does not answer as before", err)
	}
	if _, err := carillon.Open(cfg); err == nil || !strings.Contains(err.Error(), "Store pebble:") {
		t.Errorf("a store that is in use: %v", err)
	}
	h.Retire()
	h.Retire()
	if got := status(h.Operator(), "/readyz"); got != http.StatusServiceUnavailable {
		t.Errorf("/readyz of a hub that is to end: %d", got)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for name, handler := range map[string]http.Handler{"/websub/": h.Handler(), "/healthz": h.Operator()} {
		if got := status(handler, name); got != http.StatusServiceUnavailable {
			t.Errorf("%s of a hub that has ended: %d", name, got)
		}
	}
	next := opened(t, cfg) // the store is free
	if err := next.Close(); err != nil {
		t.Error(err)
	}
	if err := next.Run(t.Context()); !errors.Is(err, carillon.ErrClosed) {
		t.Errorf("Run after Close: %v", err)
	}
}

// Two hubs work in one process. With one registry they need labels; a hub that is refused leaves
// those of the other there.
func TestTwoHubs(t *testing.T) {
	reg := prometheus.NewRegistry()
	count := func() int {
		families, err := reg.Gather()
		if err != nil {
			t.Error(err)
		}
		return len(families)
	}
	one := configOf(t)
	one.Registerer = prometheus.WrapRegistererWith(prometheus.Labels{"hub": "one"}, reg)
	first := opened(t, one)
	all := count()
	two := configOf(t)
	two.Registerer = one.Registerer
	if _, err := carillon.Open(two); err == nil || !strings.Contains(err.Error(), "WrapRegistererWith") {
		t.Errorf("the same metrics twice: %v", err)
	}
	if got := count(); got != all || all < 60 {
		t.Errorf("%d metrics after another hub was refused, %d before", got, all)
	}
	two.Registerer = prometheus.WrapRegistererWith(prometheus.Labels{"hub": "two"}, reg)
	one.Registerer = nil
	if err := first.Close(); err != nil || count() != 0 {
		t.Errorf("Close: %v, and %d metrics stay", err, count())
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for _, cfg := range []carillon.Config{one, two} {
		h := opened(t, cfg)
		go func() { ended <- h.Run(ctx) }()
		<-h.Ready()
	}
	stop()
	if err := errors.Join(<-ended, <-ended); err != nil {
		t.Error(err)
	}
}

// TestConfigShowsNoUser prints a Config whose URL has a user name, which Open refuses.
func TestConfigShowsNoUser(t *testing.T) {
	cfg := configOf(t)
	for verb := range strings.FieldsSeq("%v %+v %#v %s") {
		cfg.URL = "https://someone:word@hub.example/"
		if text := fmt.Sprintf(verb, cfg); strings.Contains(text, "someone") || strings.Contains(text, "word@") {
			t.Errorf("%s shows %q", verb, text)
		}
		cfg.URL = "https://hub.example/"
		if text := fmt.Sprintf(verb, cfg); !strings.Contains(text, cfg.URL) {
			t.Errorf("%s shows %q, without the URL", verb, text)
		}
	}
}

// Refused settings are reported by the names of their fields, or of the program's flags, all at once.
func TestConfigRefusals(t *testing.T) {
	cfg := configOf(t)
	cfg.RetryFor, cfg.MaxBody, cfg.AllowPort, cfg.KeepBytes, cfg.URL = -time.Hour, -1, []string{"0"}, 10, "/websub/"
	cfg.SignatureFor, cfg.LeaseMin, cfg.StopWithin = map[string]string{"a.example": "md5"}, 1000*time.Hour, time.Second
	_, err := carillon.Open(cfg)
	for _, field := range []string{"RetryFor", "MaxBody", "AllowPort", "KeepBytes", "URL", "SignatureFor", "LeaseMin", "StopWithin"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not named in %v", field, err)
		}
	}
	cfg = configOf(t)
	cfg.TrustedProxy = []netip.Prefix{{}}
	cfg.SignatureFor = map[string]string{"Host.example:80": "sha256", "": "sha256", "::1": "sha256", "a.example": "sha512"}
	err = cfg.Check()
	for _, want := range []string{"TrustedProxy: a network is missing", `SignatureFor: "Host.example:80" is not`, `SignatureFor: "" is not`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
	if err != nil && (strings.Contains(err.Error(), `"::1"`) || strings.Contains(err.Error(), "a.example")) {
		t.Errorf("a host is refused: %v", err)
	}
	cfg = configOf(t)
	cfg.RetryFor = -time.Hour
	cfg.Names = strings.ToUpper
	if err := cfg.Check(); err == nil || !strings.Contains(err.Error(), "RETRYFOR must be more than 0") {
		t.Errorf("with other names: %v", err)
	}
}

// The example on Redis, on a Redis of the test's own.
func TestExampleOnRedis(t *testing.T) {
	redis := redistest.Start(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	routes := http.NewServeMux()
	if err := serveOnRedis(ctx, redis.URL(), routes, func() {
		if got := status(routes, "/websub/"); got != http.StatusOK {
			t.Errorf("the hub answers %d", got)
		}
		stop()
	}); err != nil {
		t.Error(err)
	}
}
