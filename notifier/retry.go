package notifier

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// firstRetry and longestRetry bound the pause after a failure, the hub's or the journal's; it
// grows in between.
const (
	firstRetry   = 500 * time.Millisecond
	longestRetry = time.Minute
)

func newBackOff() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstRetry),
		backoff.WithMultiplier(2),
		backoff.WithMaxInterval(longestRetry),
		backoff.WithMaxElapsedTime(0), // for ever
	)
}

// patiently does something with the journal for as long as it takes it to be there.
func patiently(ctx context.Context, log *slog.Logger, what string, do func() error) error {
	return backoff.Retry(func() error {
		err := do()
		if !errors.Is(err, ErrUnavailable) {
			return backoff.Permanent(err)
		}
		log.Error("trouble with the journal; it is tried again", "while", what, "error", err)
		return err
	}, backoff.WithContext(newBackOff(), ctx))
}

// Bounds of how long the loop waits where nothing comes: the clock may be set.
const (
	shortestLook = time.Millisecond
	longestLook  = time.Hour
)
