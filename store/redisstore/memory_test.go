package redisstore_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"carillon/store/redisstore"
	"carillon/subscription"
)

// While the server refuses what grows there is a warning of it, and one log line.
func TestWarningWhileMemoryIsFull(t *testing.T) {
	t.Parallel()
	w := ownWorld(t)
	var log bytes.Buffer
	db := openOnly(t, redisstore.Config{URL: w.cfg.URL, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ready(t, db)
	w.server.Set(t, "maxmemory", "1")
	for n := range 2 {
		wantError(t, db.Subscriptions().Submit(t.Context(), request(n)), subscription.ErrUnavailable)
	}
	// Commands that only read, and those that free, are let in and prove nothing.
	ready(t, db)
	wantWarnings(t, db, "the memory of Redis is full")
	if n := strings.Count(log.String(), "is full"); n != 1 {
		t.Errorf("%d log lines, want one:\n%s", n, &log)
	}
	w.server.Set(t, "maxmemory", "0")
	must(t, db.Subscriptions().Submit(t.Context(), request(3)))
	wantWarnings(t, db)
	if !strings.Contains(log.String(), "has memory again") {
		t.Errorf("the log does not say that there is room again:\n%s", &log)
	}
}
