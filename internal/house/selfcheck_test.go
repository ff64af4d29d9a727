package house

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestAskBack: only this hub's own answer will do, or where a store is shared, that of another process
// of the same URL.
func TestAskBack(t *testing.T) {
	t.Parallel()
	const hubURL = "https://hub.example/websub/"
	client := selfCheckClient(nil)
	for name, tt := range map[string]struct {
		status       int
		body         string
		alone, among string // the warning on a store of its own, and on a shared one
	}{
		"this hub":           {204, "", "", ""},
		"another process":    {404, "There is nothing here. The hub is at " + hubURL + "\n", "another hub answers there", ""},
		"a hub of another":   {404, "There is nothing here. The hub is at https://other.example/\n", "status 404", "status 404"},
		"a proxy on its own": {502, "Bad Gateway", "status 502", "status 502"},
		"a welcome page":     {200, "It works!", "status 200", "status 200"},
		"a redirect":         {301, "", "status 301", "status 301"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			}))
			defer server.Close()
			for shared, want := range map[bool]string{false: tt.alone, true: tt.among} {
				err := checkAddress(t.Context(), client, server.URL, hubURL, shared)
				if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
					t.Errorf("shared %t: %v, want %q", shared, err, want)
				}
			}
			server.Close()
			if err := checkAddress(t.Context(), client, server.URL, hubURL, true); err == nil || strings.Contains(err.Error(), server.URL) {
				t.Errorf("nobody there: %v", err)
			}
		})
	}
}

// TestWayBack: three tries within a minute, then a warning, which ends when the URL leads back.
func TestWayBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var works atomic.Bool
		var tries atomic.Int32
		b := &selfCheck{check: func(context.Context) error {
			if tries.Add(1); works.Load() {
				return nil
			}
			return errors.New("no answer")
		}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan struct{})
		go func() { b.run(ctx, slog.New(slog.DiscardHandler)); close(done) }()
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if tries.Load() != 2 || b.Warning() != "" {
			t.Errorf("after %d tries: %q", tries.Load(), b.Warning())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if tries.Load() != 3 || !strings.Contains(b.Warning(), "does not seem to lead back to this hub: no answer. Check its port and path") {
			t.Errorf("after %d tries: %q", tries.Load(), b.Warning())
		}
		works.Store(true)
		time.Sleep(selfCheckEvery)
		<-done
		if tries.Load() != 4 || b.Warning() != "" {
			t.Errorf("after %d tries: %q", tries.Load(), b.Warning())
		}
	})
}

// TestWarningsOfChoices: /readyz and the page warn of a --url that leads elsewhere, and of a
// --trusted-proxy that covers every address. A hub that its --url reaches gets no warning.
func TestWarningsOfChoices(t *testing.T) {
	t.Parallel()
	handler := http.NotFoundHandler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	defer server.Close()
	h, err := Open(Config{
		URL: server.URL + "/websub", Store: "pebble:" + t.TempDir(), TrustedProxy: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")},
	}, Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := h.selfCheck.check(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "status 404") {
		t.Errorf("another server: %v", err)
	} else {
		h.selfCheck.warn(err)
	}
	said := strings.Join(h.warnings(), "\n")
	for _, want := range []string{"TrustedProxy takes in everybody (0.0.0.0/0)", "URL does not seem to lead back to this hub: status 404"} {
		if !strings.Contains(said, want) {
			t.Errorf("no warning has %q:\n%s", want, said)
		}
	}
	handler = h.hub.Handler()
	if err := h.selfCheck.check(t.Context()); err != nil {
		t.Errorf("this hub: %v", err)
	}
}
