package hub

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// verdicts remembers what topics said, a bounded number of them: the one asked
// for longest ago is forgotten first. Its methods may be called from any
// goroutine.
type verdicts struct {
	mu    sync.Mutex
	byKey *simplelru.LRU[string, *verdict] // Owned by mu.
}

// verdict is what a topic said: it names this hub, or a refusal.
type verdict struct {
	key     string
	refusal error // nil: it names this hub
	// renew is from when on it is asked again in the background, and expires when it
	// counts no more.
	renew, expires time.Time
}

func newVerdicts(limit int) *verdicts {
	byKey, _ := simplelru.NewLRU[string, *verdict](limit, nil) // it refuses only what is below 1
	return &verdicts{byKey: byKey}
}

// get returns what is remembered of a topic and still counts. Stale is true for
// the first who asks when it is time to ask the topic again.
func (v *verdicts) get(key string, now time.Time) (found verdict, stale, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	kept, ok := v.byKey.Get(key)
	if !ok {
		return verdict{}, false, false
	}
	if !now.Before(kept.expires) {
		v.byKey.Remove(key)
		return verdict{}, false, false
	}
	if stale = !now.Before(kept.renew); stale {
		kept.renew = kept.expires
	}
	return *kept, stale, true
}

// put remembers what a topic said in the place of what it said before.
func (v *verdicts) put(said verdict) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.byKey.Add(said.key, &said)
}

func (v *verdicts) len() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.byKey.Len()
}
