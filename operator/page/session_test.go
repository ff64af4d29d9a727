package page_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/operator/api"
	"carillon/operator/page"
)

// Live pages end for who has signed out, and for everybody when the token is another: nothing of
// what happens after that is sent to them.
func TestLivePagesEndWithWhoMaySeeThem(t *testing.T) {
	const good = "0123456789abcdef"
	for _, path := range []string{"/live", "/listen/live?topic=" + url.QueryEscape(hostileTopic)} {
		for _, how := range []string{"signed out", "another token, session", "another token, program"} {
			t.Run(path[:5]+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var token atomic.Value
					token.Store(good)
					quiet := slog.New(slog.DiscardHandler)
					auth := api.NewAuth(func() string { return token.Load().(string) }, quiet)
					h := api.Handler(
						api.Config{
							Auth: auth, Metrics: prometheus.NewRegistry(), Logger: quiet,
							Pages: page.New(page.Config{Service: newFixture(), Auth: auth}),
						},
					)
					header := http.Header{"Authorization": {"Bearer " + good}}
					if !strings.Contains(how, "program") {
						header = http.Header{
							"Cookie":         {post(t, h, "/login", url.Values{"token": {good}}).Result().Cookies()[0].String()},
							"Sec-Fetch-Site": {"same-origin"},
						}
					}
					rec, ended := httptest.NewRecorder(), make(chan struct{})
					go func() {
						defer close(ended)
						req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
						req.Header = header
						h.ServeHTTP(rec, req)
					}()
					time.Sleep(2*api.BeatEvery + time.Second/2)
					synctest.Wait()
					before, changed := rec.Body.String(), time.Now()
					if strings.Contains(how, "token") {
						token.Store("another-" + good)
					} else {
						post(t, h, "/logout", nil, "Cookie", header.Get("Cookie"))
					}
					<-ended
					if took := time.Since(changed); took > api.BeatEvery {
						t.Errorf("it went on for %s", took)
					}
					if after := strings.TrimPrefix(rec.Body.String(), before); !strings.Contains(before, "data: ") || strings.Contains(after, "data: ") {
						t.Errorf("%d bytes before, and then %.200q", len(before), after)
					}
				})
			})
		}
	}
}
