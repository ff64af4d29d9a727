package dispatch

import (
	"math"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// retryDelay returns how long to wait after so many failures in a row:
// exponential with full jitter, so that callbacks which failed together do not
// come back together. It needs nothing but the count, which is stored: a
// restart carries on where the count stands. A delay that the callback asked
// for (Retry-After) is not undercut, within RetryMax.
func (c *Config) retryDelay(failures uint32, asked time.Duration) time.Duration {
	// At the cap too the jitter is full: half of RetryMax, give or take half.
	mean := c.RetryMax / 2
	if n := min(failures, 63); n > 0 {
		if d := c.RetryFirst << (n - 1); d > 0 && d>>(n-1) == c.RetryFirst {
			mean = min(mean, d)
		}
	}
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(mean),
		backoff.WithRandomizationFactor(1),
		backoff.WithMaxElapsedTime(0),
	)
	return min(max(b.NextBackOff(), asked), c.RetryMax)
}

// pauses returns how long the pauses after so many failures in a row are together, on the
// average.
func (c *Config) pauses(failures uint32) (sum time.Duration) {
	mean := min(c.RetryFirst, c.RetryMax/2)
	for ; failures > 0 && mean < c.RetryMax/2; failures-- {
		sum += mean
		mean *= 2
	}
	if rest := float64(failures) * float64(c.RetryMax/2); rest < math.MaxInt64/2 {
		return sum + time.Duration(rest)
	}
	return math.MaxInt64
}

// enginePause returns a backoff for calls to an engine that is away.
func enginePause() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(engineRetryFirst),
		backoff.WithMaxInterval(engineRetryMax),
		backoff.WithMaxElapsedTime(0),
	)
}
