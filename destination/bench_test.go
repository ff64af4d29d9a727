package destination_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"carillon/destination"
)

// nothing is a Sink that drops notifications.
type nothing struct{}

func (nothing) Accept(*destination.Notification) error { return nil }

// BenchmarkDelivery is a notification of some changes, from the POST to its answer.
func BenchmarkDelivery(b *testing.B) {
	for _, changes := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(changes), func(b *testing.B) {
			w := newFixture(b)
			cfg := w.config(b.TempDir())
			cfg.Sink = nothing{}
			cfg.Logger, cfg.StopWithin = slog.New(slog.DiscardHandler), time.Millisecond
			w.start(cfg)
			a := <-w.asked
			defer func() { w.cancel(); _ = w.end() }()
			head, entry, _ := strings.Cut(minute(1), "  <url>")
			entry, tail, _ := strings.Cut(entry, "</url>")
			body := head + strings.Repeat("  <url>"+entry+"</url>\n", changes) + tail
			mac := hmac.New(sha256.New, []byte(a.secret()))
			_, _ = io.WriteString(mac, body)
			signature := "sha256=" + hex.EncodeToString(mac.Sum(nil))
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				r := httptest.NewRequest(http.MethodPost, a.callback(), strings.NewReader(body))
				r.Header.Set("Content-Type", "application/xml")
				r.Header.Set("X-Hub-Notification-Id", fmt.Sprint(n))
				r.Header.Set("X-Hub-Signature", signature)
				if rec := w.serve(r); rec.Code != http.StatusNoContent {
					b.Fatalf("%d %s", rec.Code, rec.Body)
				}
			}
		})
	}
}
