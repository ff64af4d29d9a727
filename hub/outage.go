package hub

import (
	"sync"
	"time"
)

// outageEvery is how often the log says that requests fail because the store is
// away: not once for each of thousands that are refused meanwhile.
const outageEvery = 10 * time.Second

// outage counts the requests that failed because the store was away.
type outage struct {
	mu     sync.Mutex
	said   time.Time // when the log was told last. Owned by mu.
	untold int       // that failed since. Owned by mu.
}

// tell says whether the log is to be told of one more, and how many it was not
// told of before.
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
