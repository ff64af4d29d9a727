package hub

import (
	"container/list"
	"sync"
	"time"
)

// verdicts remembers what topics said, a bounded number of them: the one asked
// for longest ago is forgotten first. Its methods may be called from any
// goroutine.
type verdicts struct {
	limit int

	mu     sync.Mutex
	byKey  map[string]*list.Element // of *verdict. Owned by mu.
	latest *list.List               // the one asked for last leads. Owned by mu.
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
	return &verdicts{limit: limit, byKey: make(map[string]*list.Element), latest: list.New()}
}

// get returns what is remembered of a topic and still counts. Stale is true for
// the first who asks when it is time to ask the topic again.
func (v *verdicts) get(key string, now time.Time) (found verdict, stale, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.byKey[key]
	if e == nil {
		return verdict{}, false, false
	}
	kept := e.Value.(*verdict)
	if !now.Before(kept.expires) {
		v.remove(e)
		return verdict{}, false, false
	}
	v.latest.MoveToFront(e)
	if stale = !now.Before(kept.renew); stale {
		kept.renew = kept.expires
	}
	return *kept, stale, true
}

// put remembers what a topic said in the place of what it said before.
func (v *verdicts) put(said verdict) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := v.byKey[said.key]; e != nil {
		v.remove(e)
	}
	v.byKey[said.key] = v.latest.PushFront(&said)
	for v.latest.Len() > v.limit {
		v.remove(v.latest.Back())
	}
}

// remove forgets an entry. The caller holds mu.
func (v *verdicts) remove(e *list.Element) {
	v.latest.Remove(e)
	delete(v.byKey, e.Value.(*verdict).key)
}

func (v *verdicts) len() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.latest.Len()
}
