package follow

import (
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"carillon/destination/lists"
	"carillon/payload"
)

// progress is the Position as it is worked with; Run's goroutine has it.
type progress struct {
	at      time.Time
	dated   []string // keys with a datetime of at or later; beyond maxDated the first are forgotten, and may be handed on again
	undated []string // oldest first
	known   map[string]struct{}
	recent  recent
	assumed bool // see Position
}

func newProgress(p Position) *progress {
	pl := &progress{at: p.At, assumed: p.Assumed, known: map[string]struct{}{}, recent: newRecent(p.At)}
	for _, key := range p.Keys {
		pl.record(key)
	}
	return pl
}

func (p *progress) position() Position {
	return Position{At: p.at, Keys: slices.Concat(p.dated, p.undated), Assumed: p.assumed}
}

// past reports whether a change was handed on, or lies before all that may be. A datetime without a
// time of day may be as late as its end.
func (p *progress) past(e *payload.Entry, key string) bool {
	if !e.Datetime.IsZero() && lists.Latest(e).Before(p.at) {
		return true
	}
	_, known := p.known[key]
	return known
}

// missed reports whether a change is past, and was passed over all the same.
func (p *progress) missed(e *payload.Entry, key string) bool {
	_, known := p.known[key]
	return !known && p.recent.lacks(e)
}

// handed records a change that was handed on, after all that lie before it. A change beyond limit does
// not move the position, and is known by its key: all changes until then would count as past.
func (p *progress) handed(e *payload.Entry, key string, limit time.Time) {
	p.assumed = p.assumed && e.Datetime.IsZero()
	if !e.Datetime.After(limit) {
		p.reach(e.Datetime)
		p.recent.record(e)
	}
	if _, known := p.known[key]; !known {
		p.record(key)
	}
}

func (p *progress) record(key string) {
	p.known[key] = struct{}{}
	if !strings.HasPrefix(key, undated) {
		if p.dated = append(p.dated, key); len(p.dated) > maxDated {
			const oldest = maxDated / 10 // at once, as each time all others are moved
			for _, key := range p.dated[:oldest] {
				delete(p.known, key)
			}
			p.dated = slices.Delete(p.dated, 0, oldest)
		}
		return
	}
	if p.undated = append(p.undated, key); len(p.undated) > maxUndated {
		delete(p.known, p.undated[0])
		p.undated = slices.Delete(p.undated, 0, 1)
	}
}

// reach moves on to at, if that lies ahead: all before it is done.
func (p *progress) reach(at time.Time) {
	if !at.After(p.at) {
		return
	}
	if p.at.IsZero() {
		p.recent.floor = at // it begins here
	}
	p.at, p.assumed = at, false
	floor := at.Truncate(time.Microsecond)
	p.dated = slices.DeleteFunc(p.dated, func(key string) bool {
		over := keyTime(key).Before(floor)
		if over {
			delete(p.known, key)
		}
		return over
	})
}

// pushed records an undated change that was pushed, and that a list may tell as well.
func (p *progress) pushed(e *payload.Entry) {
	if n := p.unlisted(e); n < maxPushed {
		p.record(pushedKey(e, n))
	}
}

// maxPushed is how many pushed undated changes with the same description are remembered, until a list
// has them.
const maxPushed = 100

// unlisted is how many those are.
func (p *progress) unlisted(e *payload.Entry) (n int) {
	for ; n < maxPushed; n++ {
		if _, known := p.known[pushedKey(e, n)]; !known {
			break
		}
	}
	return n
}

// listed reports whether the undated change that a list has under a key is one that was
// pushed: it is known by that key from then on, and the next one that says the same is another.
func (p *progress) listed(e *payload.Entry, key string) bool {
	if _, known := p.known[key]; known || !e.Datetime.IsZero() {
		return false
	}
	n := p.unlisted(e)
	if n == 0 {
		return false
	}
	pushed := pushedKey(e, n-1)
	delete(p.known, pushed)
	p.undated = slices.DeleteFunc(p.undated, func(key string) bool { return key == pushed })
	p.record(key)
	return true
}

// keepUndated forgets the keys without a datetime that keep does not have: a list that
// has no such change any more will not have it again.
func (p *progress) keepUndated(keep map[string]struct{}) {
	p.undated = slices.DeleteFunc(p.undated, func(key string) bool {
		_, kept := keep[key]
		if !kept {
			delete(p.known, key)
		}
		return !kept
	})
}

// maxRecent is how many resources recent remembers at least.
const maxRecent = 20_000

// recent remembers which change of a resource was handed on last. A change that comes late, as an
// open list lacked it or a notification repeats it, must not undo a later change of its resource. It is not durable:
// nothing is known of changes at or before floor, unless they were handed on late.
type recent struct {
	floor time.Time
	last  map[[keyBytes]byte]time.Time // datetimes, by digests of locs
	older map[[keyBytes]byte]time.Time // those of before, while last fills
}

func newRecent(floor time.Time) recent {
	return recent{floor: floor, last: map[[keyBytes]byte]time.Time{}}
}

func (r *recent) record(e *payload.Entry) {
	loc := locOf(e)
	if at, known := r.of(loc); known && at.After(e.Datetime) {
		return
	}
	if r.last[loc] = e.Datetime; len(r.last) <= maxRecent {
		return
	}
	for _, at := range r.older {
		r.floor = later(r.floor, at)
	}
	r.older, r.last = r.last, map[[keyBytes]byte]time.Time{}
}

// of returns the datetime of the last change of a resource, if it is known.
func (r *recent) of(loc [keyBytes]byte) (at time.Time, known bool) {
	if at, known = r.last[loc]; !known {
		at, known = r.older[loc]
	}
	return at, known
}

// lacks reports whether neither the change nor a later one of its resource was handed on since
// the floor.
func (r *recent) lacks(e *payload.Entry) bool {
	return e.Datetime.After(r.floor) && !r.reached(e)
}

// reached reports whether the change, or a later one of its resource, is known to be handed on.
func (r *recent) reached(e *payload.Entry) bool {
	at, known := r.of(locOf(e))
	return known && !at.Before(e.Datetime)
}

func locOf(e *payload.Entry) [keyBytes]byte {
	sum := sha256.Sum256([]byte(e.Loc))
	return [keyBytes]byte(sum[:])
}
