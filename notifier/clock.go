package notifier

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/internal/await"
	"carillon/internal/wallclock"
)

// Datetimes and ages go by Notifier.clock, which does not believe at once that the machine's clock was
// set forward (package wallclock). A datetime of the journal is never taken back, and later ones wait
// until the clock has come there.
const (
	// doubtFor is after what time a clock that was set forward is believed.
	doubtFor = time.Hour
	// clockLook is how often the clock is looked at, so that no doubt goes on unseen.
	clockLook = time.Minute
)

// watchClock reports when the clock is in doubt, until ctx ends.
func watchClock(ctx context.Context, clock *wallclock.Clock, doubted prometheus.Gauge, log *slog.Logger) {
	doubts := false
	for {
		clock.Now()
		ahead := clock.Ahead()
		doubted.Set(ahead.Seconds())
		switch {
		case ahead > 0 && !doubts:
			log.Warn("the clock was set forward; events are dated, and kept, by the time before until it has stayed so for a while",
				"by", ahead.Round(time.Millisecond).String(), "believed_after", doubtFor.String())
		case ahead == 0 && doubts:
			log.Info("the clock is believed again")
		}
		doubts = ahead > 0
		if await.For(ctx, clockLook) != nil {
			return
		}
	}
}
