package notifier

import (
	"context"
	"time"

	"carillon/internal/await"
)

// What is dated, and what goes for its age, goes by Notifier.clock, which does not believe at once
// that the machine's clock was set forward (package wallclock): a datetime of the journal is never
// taken back, and what is dated later waits until the clock has come there.
const (
	// doubtFor is after what time a clock that was set forward is believed.
	doubtFor = time.Hour
	// clockLook is how often the clock is looked at, so that no doubt goes on unseen.
	clockLook = time.Minute
)

// watchClock tells when the clock is in doubt, until ctx ends.
func (n *Notifier) watchClock(ctx context.Context) {
	doubts := false
	for {
		n.clock.Now()
		ahead := n.clock.Ahead()
		n.metrics.ahead.Set(ahead.Seconds())
		switch {
		case ahead > 0 && !doubts:
			n.log.Warn("the clock was set forward; events are dated, and kept, by the time before until it has stayed so for a while",
				"by", ahead.Round(time.Millisecond).String(), "believed_after", doubtFor.String())
		case ahead == 0 && doubts:
			n.log.Info("the clock is believed again")
		}
		doubts = ahead > 0
		if await.For(ctx, clockLook) != nil {
			return
		}
	}
}
