package dispatch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"carillon/delivery"
)

// Bounds of looking for the oldest notification that somebody waits for.
const (
	// oldestEvery is for how long it counts what was found.
	oldestEvery = 10 * time.Second
	// maxOldestReads is how many logs are read for it: of further ones it is not known yet
	// how old what waits there is. Those that stand where they stood are not read again.
	maxOldestReads = 1000
)

// oldest remembers what was found.
type oldest struct {
	mu    sync.Mutex
	asked time.Time             // owned by mu
	found atomic.Int64          // Unix nanoseconds, 0: nobody waits
	known map[string]waitsSince // by the topic's key. Owned by mu.
}

// waitsSince is from when the first notification behind a place in a log is.
type waitsSince struct {
	settled  delivery.Seq
	accepted time.Time
}

// OldestWaiting is when the oldest notification was accepted that a subscription here has
// still to get, as found within the last seconds; zero: nobody waits. What is delivered once
// more counts for nothing: whoever gets it had it. What cannot be read is passed over.
func (d *Dispatcher) OldestWaiting(ctx context.Context) time.Time {
	o := &d.oldest
	if !o.mu.TryLock() {
		return timeOf(o.found.Load()) // somebody looks at this moment
	}
	defer o.mu.Unlock()
	now := time.Now()
	if !o.asked.IsZero() && now.Sub(o.asked) < oldestEvery {
		return timeOf(o.found.Load())
	}
	o.asked = now
	var found time.Time
	known, reads := map[string]waitsSince{}, 0
	for key, settled := range d.behind() {
		w, same := o.known[key]
		if same = same && w.settled == settled; !same {
			if reads++; reads > maxOldestReads || ctx.Err() != nil {
				continue
			}
			first, err := d.records.Summary(ctx, key, settled+1)
			if err != nil && !errors.Is(err, delivery.ErrEndOfLog) {
				continue
			}
			w = waitsSince{settled, first.Accepted}
		}
		known[key] = w
		if !w.accepted.IsZero() && (found.IsZero() || w.accepted.Before(found)) {
			found = w.accepted
		}
	}
	o.known = known
	o.found.Store(nanos(found))
	return found
}

// behind returns the lowest place of those that are behind, by the key of their topic.
func (d *Dispatcher) behind() map[string]delivery.Seq {
	var topics []*topic
	d.eachTopic(func(t *topic) {
		if t.idle < len(t.entries) {
			topics = append(topics, t)
		}
	})
	lowest := map[string]delivery.Seq{}
	for _, t := range topics {
		d.backward(func() int { return len(t.entries) }, func(first, end int) {
			for _, e := range t.entries[first:end] {
				if e.settled >= t.head {
					continue
				}
				if before, some := lowest[t.key]; !some || e.settled < before {
					lowest[t.key] = e.settled
				}
			}
		})
	}
	return lowest
}

// waitingAge is the age of what was found last; 0: nobody waits.
func (d *Dispatcher) waitingAge() float64 {
	found := d.oldest.found.Load()
	if found == 0 {
		return 0
	}
	return max(0, d.ageOf(timeOf(found)).Seconds())
}
