// Package retryafter reads the Retry-After header of those whom we ask to take
// something: callbacks, hubs, topics. How far it is heeded is the asker's to say.
package retryafter

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxSeconds keeps what is asked for within a time.Duration.
const maxSeconds = 1 << 32

// Parse returns the wait that a Retry-After value asks for, from now on (RFC 9110 §10.2.3): seconds or
// a date. An invalid value, and a past date, is 0.
func Parse(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, maxSeconds)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
