package hub_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery"
	"carillon/hub"
)

// A store that is away is not one line in the log for each request: one every ten
// seconds reports how many others there were.
func TestOutageInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := newStage(t, hub.Config{URL: hubURL}, nowhere{}, anywhere{})
		s.logger = slog.New(slog.NewTextHandler(&log, nil))
		s.rebuild(t, hub.Config{URL: hubURL}, nowhere{}, anywhere{})
		s.pings.fail(delivery.ErrUnavailable)
		ping := func() {
			t.Helper()
			r := httptest.NewRequest(http.MethodPost, hubURL, strings.NewReader(form("hub.mode", "publish", "hub.url", aTopic)))
			r.Header.Set("Content-Type", formType)
			w := httptest.NewRecorder()
			s.hub.Handler().ServeHTTP(w, r)
			if w.Code != http.StatusServiceUnavailable {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
		for range 30 {
			ping()
		}
		time.Sleep(10 * time.Second)
		ping()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "untold=0") || !strings.Contains(lines[1], "untold=29") {
			t.Errorf("31 requests failed; the log says\n%s", &log)
		}
	})
}

// nowhere is a network in which nothing is asked.
type nowhere struct{}

func (nowhere) RoundTrip(*http.Request) (*http.Response, error) { panic("a request went out") }
