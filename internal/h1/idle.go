package h1

import (
	"math/rand/v2"
	"time"
)

// idleSet lists the idle connections of all hosts in the order in which they became idle, and
// those of each host in the reverse order. A request uses the connection that was used last, so
// that surplus ones reach their timeout. One that hear returns moves to the end of the list, and
// hear looks at its timeout. Guarded by Client.mu.
type idleSet struct {
	first, last *conn
	all         []*conn // in no order
	bytes       int64   // of memory, by estimate
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

// leastNeeded returns an idle connection to drop: one whose host is expected late or never. The
// least recently used connection would be wrong: in rounds over more hosts than fit, the next
// request needs it.
func (l *idleSet) leastNeeded(now time.Duration) *conn {
	return latest(l.all, func(cn *conn) time.Duration { return cn.host.nextUse(cn.since, now) })
}

// samples is how many elements latest compares, picked at random. The result is, about, in the
// latest eighth of all.
const samples = 12

// latest returns the element with the latest time among samples of them, or among all where there
// are few.
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
