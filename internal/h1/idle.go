package h1

import (
	"math/rand/v2"
	"time"
)

// idleSet holds the idle connections of all hosts: in the order in which they became
// idle, and those of each host the other way round: what was used last is used first, and
// the rest may grow old. Guarded by Client.mu.
type idleSet struct {
	first, last *conn
	all         []*conn // in no order
	bytes       int64   // what they take, about
}

func (l *idleSet) oldest() *conn { return l.first }

func (l *idleSet) push(cn *conn) {
	if cn.prev = l.last; l.last != nil {
		l.last.next = cn
	} else {
		l.first = cn
	}
	l.last = cn
	cn.place = len(l.all)
	l.all = append(l.all, cn)
	l.bytes += cn.bytes
	h := cn.host
	if cn.below = h.idle; h.idle != nil {
		h.idle.above = cn
	}
	h.idle = cn
	h.idleN++
}

func (l *idleSet) remove(cn *conn) {
	if cn.prev != nil {
		cn.prev.next = cn.next
	} else {
		l.first = cn.next
	}
	if cn.next != nil {
		cn.next.prev = cn.prev
	} else {
		l.last = cn.prev
	}
	end := len(l.all) - 1
	moved := l.all[end]
	l.all[cn.place], moved.place = moved, cn.place
	l.all[end], l.all = nil, l.all[:end]
	l.bytes -= cn.bytes
	h := cn.host
	if cn.above != nil {
		cn.above.below = cn.below
	} else {
		h.idle = cn.below
	}
	if cn.below != nil {
		cn.below.above = cn.above
	}
	h.idleN--
	cn.prev, cn.next, cn.above, cn.below = nil, nil, nil, nil
}

// leastNeeded returns the idle connection to be dropped where there are too many: one whose
// host is expected late or not at all. The one that was used longest ago would be the
// wrong one: where notifications go round more hosts than fit, it is the next to be needed.
func (l *idleSet) leastNeeded(now time.Duration) *conn {
	return latest(l.all, func(cn *conn) time.Duration { return cn.host.nextUse(cn.since, now) })
}

// samples is of how many, picked at random, the worst is dropped. It is about one of the
// worst eighth of all.
const samples = 12

// latest returns the one with the latest of a few times, or of all where there are few.
func latest[T any](of []T, at func(T) time.Duration) (found T) {
	when := time.Duration(-1)
	for i := range min(len(of), samples) {
		if len(of) > samples {
			i = rand.IntN(len(of))
		}
		if t := at(of[i]); t > when {
			found, when = of[i], t
		}
	}
	return found
}
