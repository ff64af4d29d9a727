package destination_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"hash"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"carillon/destination"
)

// methods are those of WebSub §8.3.
var methods = map[string]func() hash.Hash{
	"sha1": sha1.New, "sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New,
}

// FuzzDelivery: whatever is posted to the callback, only what the hub has signed is
// taken, and all of that is, be it a notification or not.
func FuzzDelivery(f *testing.F) {
	f.Add("sha256", "", "n1", "application/xml", []byte(minute(1)))
	f.Add("", "sha256=00", "", "text/plain", []byte("hello"))
	w := newFixture(f)
	cfg := w.config(f.TempDir())
	cfg.Sink = destination.NewPrinter(io.Discard, true)
	cfg.Logger, cfg.StopWithin = slog.New(slog.DiscardHandler), time.Millisecond
	w.start(cfg)
	a := <-w.asked
	f.Cleanup(func() { w.cancel(); _ = w.end() })
	f.Fuzz(func(t *testing.T, method, signature, id, contentType string, body []byte) {
		if newHash := methods[method]; newHash != nil {
			mac := hmac.New(newHash, []byte(a.secret()))
			_, _ = mac.Write(body)
			signature = method + "=" + hex.EncodeToString(mac.Sum(nil))
		}
		r := httptest.NewRequest("POST", a.callback(), bytes.NewReader(body))
		r.Header.Set("Content-Type", contentType)
		r.Header.Set("X-Hub-Notification-Id", id)
		r.Header.Set("X-Hub-Signature", signature)
		rec := w.serve(r)
		want := 403
		if methods[method] != nil {
			want = 204
		}
		if rec.Code != want || strings.Contains(rec.Body.String(), "<") {
			t.Errorf("%d %s, want %d", rec.Code, rec.Body, want)
		}
	})
}
