package hub

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"carillon/delivery"
)

// outageEvery is how often the log says that requests fail because the store is
// away: not once for each of thousands that are refused meanwhile.
const outageEvery = 10 * time.Second

// outage counts the requests that failed because the store was away.
type outage struct {
	mu     sync.Mutex
	said   time.Time // when the last line was written. Owned by mu.
	untold int       // that failed since. Owned by mu.
}

// tell reports whether a line is to be written about one more case, and how many cases before it had
// no line.
func (o *outage) tell(now time.Time) (tell bool, untold int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.said.IsZero() && now.Sub(o.said) < outageEvery {
		o.untold++
		return false, 0
	}
	untold, o.untold, o.said = o.untold, 0, now
	return true, untold
}

// failures logs the requests that fail by the hub's own fault.
type failures struct {
	logger *slog.Logger
	outage outage
}

// note logs a request that failed by the hub's own fault. A store that is away
// is a line now and then, with the number of those that had none.
func (f *failures) note(method string, status int, err error) {
	if !errors.Is(err, delivery.ErrUnavailable) {
		f.logger.Error("request failed", "method", method, "status", status, "error", err)
		return
	}
	if tell, untold := f.outage.tell(time.Now()); tell {
		f.logger.Error(
			"requests fail as the store is away", "method", method, "status", status, "untold", untold, "error", err,
		)
	}
}
