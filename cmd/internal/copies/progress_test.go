package copies_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/cmd/internal/copies"
	"carillon/cmd/internal/program"
	"carillon/transfer"
)

// On a terminal the progress is one line that changes and goes; in a log it is a
// line now and then.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var screen, log bytes.Buffer
		shown := copies.NewReporter("importing", 4_000_000, program.NewScreen(&screen), slog.New(slog.DiscardHandler))
		logged := copies.NewReporter("exporting", 0, &log, slog.New(slog.NewTextHandler(&log, nil)))
		for i := range 3000 {
			p := transfer.Progress{Counts: transfer.Counts{Subscriptions: i}, Bytes: int64(1000 * i)}
			shown.Progress(p)
			logged.Progress(p)
			time.Sleep(10 * time.Millisecond)
		}
		shown.End()
		logged.End()
		if strings.Contains(screen.String(), "\n") || !strings.Contains(
			screen.String(), " 50% of 4.0 MB, subscriptions 2000, notifications 0, 100 records/s",
		) {
			t.Errorf("the terminal shows %q", &screen)
		}
		if n := strings.Count(screen.String(), "importing"); n != 150 || !strings.HasSuffix(screen.String(), "\r\x1b[K") {
			t.Errorf("the terminal's line changed %d times in 30 s; want 5 times a second, and that it goes", n)
		}
		if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "records_per_second=100") {
			t.Errorf("the log has %d lines in 30 s; want 2:\n%s", n, &log)
		}
	})
}
