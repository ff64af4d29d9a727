package h1

import "time"

// idleSet lists the idle connections of all hosts in the order in which they became idle, and
// those of each host in the reverse order. A request uses the connection that was used last, so
// that surplus ones reach their timeout. One that hear returns moves to the end of the list, and
// hear looks at its timeout. Guarded by pool.mu.
type idleSet struct {
	first, last *conn
	all         []*conn       // in no order
	bytes       int64         // of memory, by estimate
	looked      int           // at which of all the last look was
	lookAt      time.Duration // when the next is
}

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

// Servers close idle connections, most after a minute or less. A connection that its server has
// closed takes a file and memory until the Client closes it. So the Client looks at each idle
// connection every lookEvery, at 1/lookPart of them at a time.
const (
	lookEvery = 30 * time.Second
	lookPart  = 16
)

// look removes from the pool the idle connections on which something has come, and returns them.
// It looks at a part of all, and continues there the next time. mu is held.
func (l *idleSet) look(now time.Duration) (spoken []*conn) {
	if now < l.lookAt {
		return nil
	}
	l.lookAt = now + lookEvery/lookPart
	for n := len(l.all)/lookPart + 1; n > 0 && len(l.all) > 0; n-- {
		if l.looked++; l.looked >= len(l.all) {
			l.looked = 0
		}
		if cn := l.all[l.looked]; cn.hasSomething() {
			l.remove(cn)
			spoken = append(spoken, cn)
		}
	}
	return spoken
}
