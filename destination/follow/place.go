package follow

import (
	"slices"
	"strings"
	"time"
)

// place is the Position as it is worked with; Run's goroutine has it.
type place struct {
	at      time.Time
	dated   []string // keys with a datetime of at or later
	undated []string // oldest first
	known   map[string]struct{}
}

func placeOf(p Position) *place {
	pl := &place{at: p.At, known: map[string]struct{}{}}
	for _, key := range p.Keys {
		pl.note(key)
	}
	return pl
}

func (p *place) position() Position {
	return Position{At: p.at, Keys: slices.Concat(p.dated, p.undated)}
}

// past tells whether a change was handed on, or lies before all that may be.
func (p *place) past(datetime time.Time, key string) bool {
	if !datetime.IsZero() && datetime.Before(p.at) {
		return true
	}
	_, known := p.known[key]
	return known
}

// handed notes a change that was handed on, after all that lie before it. What lies
// beyond limit does not move the position, and is known by its key: all that comes until
// then would count as past.
func (p *place) handed(datetime time.Time, key string, limit time.Time) {
	if !datetime.After(limit) {
		p.reach(datetime)
	}
	if _, known := p.known[key]; !known {
		p.note(key)
	}
}

func (p *place) note(key string) {
	p.known[key] = struct{}{}
	if !strings.HasPrefix(key, undated) {
		p.dated = append(p.dated, key)
		return
	}
	if p.undated = append(p.undated, key); len(p.undated) > maxUndated {
		delete(p.known, p.undated[0])
		p.undated = slices.Delete(p.undated, 0, 1)
	}
}

// reach moves on to at, if that lies ahead: all before it is done.
func (p *place) reach(at time.Time) {
	if !at.After(p.at) {
		return
	}
	p.at = at
	floor := at.Truncate(time.Microsecond)
	p.dated = slices.DeleteFunc(p.dated, func(key string) bool {
		over := keyTime(key).Before(floor)
		if over {
			delete(p.known, key)
		}
		return over
	})
}

// keepUndated forgets the keys without a datetime that keep does not have: a list that
// has no such change any more will not have it again.
func (p *place) keepUndated(keep map[string]struct{}) {
	p.undated = slices.DeleteFunc(p.undated, func(key string) bool {
		_, kept := keep[key]
		if !kept {
			delete(p.known, key)
		}
		return !kept
	})
}
