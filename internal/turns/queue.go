package turns

import (
	"container/list"
	"time"
)

// Config holds the bounds of a Queue.
type Config[K comparable] struct {
	// Slots is how many may be at work at once, the slow ones aside.
	Slots int
	// PerPeer is how many of one peer may be at work at once, slow ones included; 0: any
	// number. SetLimit changes it for a lane. A Judge says it in its place.
	PerPeer int
	// SlowAfter is after how long one at work gives its slot back and continues among the slow ones.
	// SlowSlots is how many of these there may be. 0: slots are not given back.
	SlowAfter time.Duration
	SlowSlots int
	// Judge says which lanes begin among the slow ones, of whose slots they get a quarter.
	// Nil: none does.
	Judge Judge[K]
}

// Judge is what the owner of a Queue knows of its peers. It is called by the Queue, while the
// owner's mutex is held.
type Judge[K comparable] interface {
	// Limit returns how many of a peer may be at work at once; 0: any number.
	Limit(key K) int
	// Beside reports whether the next one of a lane begins among the slow ones.
	Beside(l *Lane[K]) bool
}

// Class reports what has just come from a backlog. Both get their turns, so a long backlog
// does not hold up what comes now.
type Class uint8

// The classes of what waits.
const (
	Fresh Class = iota
	Backlog
	classes
)

// way is where one begins: in one of Config.Slots or among the slow ones.
type way uint8

const (
	prompt way = iota
	beside
	ways
)

// Lane is what waits for one peer, and what is at work for it. The Queue forgets a lane that
// holds nothing and does not rest. Only the Queue changes its fields, but for Proven.
type Lane[K comparable] struct {
	Key     K
	Limit   int       // how many may be at work; 0: any number
	Running int       // how many are at work
	Slow    int       // how many of them are among the slow ones
	Last    time.Time // when the last one began
	Proven  bool      // the owner's: the peer has shown that it answers

	ready [classes]list.List     // of *Ticket
	place [classes]*list.Element // in Queue.rings[way]
	way   way
	rest  *Entry[*Lane[K]] // in Queue.resting; nil: it does not rest
}

// Waiting returns how many are ready in the lane.
func (l *Lane[K]) Waiting() int { return l.ready[Fresh].Len() + l.ready[Backlog].Len() }

// Ticket is one that waits or is at work. It belongs to the Queue that returned it, and counts
// for nothing after Remove and Done.
type Ticket[K comparable, T any] struct {
	Value T

	key    K
	class  Class
	due    *Entry[*Ticket[K, T]] // in Queue.due, at first
	lane   *Lane[K]              // nil before it is ready, and after Done
	place  *list.Element         // in lane.ready
	began  time.Time
	young  *list.Element // in Queue.young
	beside bool          // it began among the slow ones
}

// Lane returns the lane of a ticket that is ready or at work.
func (t *Ticket[K, T]) Lane() *Lane[K] { return t.lane }

// Queue decides who is next. Its owner guards it with a mutex.
type Queue[K comparable, T any] struct {
	cfg     Config[K]
	lanes   map[K]*Lane[K]
	rings   [ways][classes]list.List // of *Lane: those with something ready and a slot left
	turn    [ways]Class
	due     Timetable[*Ticket[K, T]]
	resting Timetable[*Lane[K]]
	ready   int
	// young holds the tickets that have one of Config.Slots, the one that began first leading.
	// slow counts the others at work, and beside those of them that began so.
	young        list.List
	slow, beside int
}

// NewQueue returns an empty Queue.
func NewQueue[K comparable, T any](cfg Config[K]) *Queue[K, T] {
	return &Queue[K, T]{cfg: cfg, lanes: make(map[K]*Lane[K])}
}

// Push makes a value ready for its peer.
func (q *Queue[K, T]) Push(key K, c Class, v T) *Ticket[K, T] {
	t := &Ticket[K, T]{Value: v, key: key, class: c}
	q.enter(t)
	return t
}

// PushAt makes a value ready at a time. Tick must be called then.
func (q *Queue[K, T]) PushAt(key K, c Class, v T, at time.Time) *Ticket[K, T] {
	t := &Ticket[K, T]{Value: v, key: key, class: c}
	t.due = q.due.Add(t, at)
	return t
}

// enter puts a ticket into the lane of its peer.
func (q *Queue[K, T]) enter(t *Ticket[K, T]) {
	l := q.lanes[t.key]
	if l == nil {
		l = &Lane[K]{Key: t.key, Limit: q.cfg.PerPeer}
		if q.cfg.Judge != nil {
			l.Limit = q.cfg.Judge.Limit(t.key)
		}
		q.lanes[t.key] = l
	}
	t.due, t.lane = nil, l
	t.place = l.ready[t.class].PushBack(t)
	q.ready++
	q.Arrange(l)
}

// Remove takes out a ticket that waits. It does nothing with one at work, and with nil.
func (q *Queue[K, T]) Remove(t *Ticket[K, T]) {
	switch {
	case t == nil:
	case t.place != nil:
		l := t.lane
		l.ready[t.class].Remove(t.place)
		t.place, t.lane = nil, nil
		q.ready--
		q.Arrange(l)
	default:
		q.due.Remove(t.due)
	}
}

// Tick makes ready what is due, ends the rest of lanes, and moves those at work for
// Config.SlowAfter to the slow ones, as far as these are not too many. It is called before Next.
func (q *Queue[K, T]) Tick(now time.Time) {
	for t, ok := q.due.Due(now); ok; t, ok = q.due.Due(now) {
		q.enter(t)
	}
	for l, ok := q.resting.Due(now); ok; l, ok = q.resting.Due(now) {
		l.rest = nil
		q.Arrange(l)
	}
	for at, ok := q.slowAt(); ok && !at.After(now); at, ok = q.slowAt() {
		t := q.young.Remove(q.young.Front()).(*Ticket[K, T])
		t.young = nil
		q.slow++
		t.lane.Slow++
		q.Arrange(t.lane)
	}
}

// slowAt returns when the next one may move to the slow ones; ok is false if none may.
func (q *Queue[K, T]) slowAt() (at time.Time, ok bool) {
	if q.slow >= q.cfg.SlowSlots || q.young.Len() == 0 {
		return time.Time{}, false
	}
	return q.young.Front().Value.(*Ticket[K, T]).began.Add(q.cfg.SlowAfter), true
}

// Next takes out the ticket whose turn it is and counts it as at work until Done; nil if none
// may begin.
func (q *Queue[K, T]) Next(now time.Time) *Ticket[K, T] {
	if q.young.Len() < q.cfg.Slots {
		if t := q.pop(prompt, now); t != nil {
			return t
		}
	}
	// The rest is for those of the others that turn out to be slow.
	if q.slow < q.cfg.SlowSlots && q.beside < max(1, q.cfg.SlowSlots/4) {
		return q.pop(beside, now)
	}
	return nil
}

// pop takes the first ticket of the lane in turn, and sends the lane to the end of its ring.
func (q *Queue[K, T]) pop(w way, now time.Time) *Ticket[K, T] {
	for range classes {
		c := q.turn[w]
		q.turn[w] = (c + 1) % classes
		front := q.rings[w][c].Front()
		if front == nil {
			continue
		}
		l := q.rings[w][c].Remove(front).(*Lane[K])
		l.place[c] = nil
		t := l.ready[c].Remove(l.ready[c].Front()).(*Ticket[K, T])
		t.place, t.began = nil, now
		q.ready--
		l.Running++
		l.Last = now
		if w == prompt {
			t.young = q.young.PushBack(t)
		} else {
			t.beside = true
			l.Slow++
			q.slow++
			q.beside++
		}
		q.Arrange(l)
		return t
	}
	return nil
}

// Done gives back the slot of a ticket that Next returned.
func (q *Queue[K, T]) Done(t *Ticket[K, T]) {
	l := t.lane
	t.lane = nil
	l.Running--
	if t.young != nil {
		q.young.Remove(t.young)
		t.young = nil
	} else {
		q.slow--
		l.Slow--
	}
	if t.beside {
		q.beside--
	}
	q.Arrange(l)
}

// Wake returns when Tick is to be called again, unless something changes before; ok is false
// if only a change helps.
func (q *Queue[K, T]) Wake() (at time.Time, ok bool) {
	for _, first := range []func() (time.Time, bool){q.due.First, q.resting.First, q.slowAt} {
		if next, any := first(); any && (!ok || next.Before(at)) {
			at, ok = next, true
		}
	}
	return at, ok
}

// Lane returns the lane of a peer, nil without one.
func (q *Queue[K, T]) Lane(key K) *Lane[K] { return q.lanes[key] }

// SetLimit changes how many of a lane may be at work, as long as the lane is remembered.
func (q *Queue[K, T]) SetLimit(l *Lane[K], limit int) {
	l.Limit = limit
	q.Arrange(l)
}

// Rest lets a lane begin nothing until a time. A time that is not after now ends its rest.
func (q *Queue[K, T]) Rest(l *Lane[K], until, now time.Time) {
	q.resting.Remove(l.rest)
	if l.rest = nil; until.After(now) {
		l.rest = q.resting.Add(l, until)
	}
	q.Arrange(l)
}

// Waiting returns how many are ready, and AtWork how many are at work.
func (q *Queue[K, T]) Waiting() int { return q.ready }

// AtWork returns how many are at work.
func (q *Queue[K, T]) AtWork() int { return q.young.Len() + q.slow }

// Arrange puts a lane into the rings where it belongs, takes it out of the others, and forgets
// it if nothing is left of it. The owner calls it where the Judge may say something else of the
// lane now; the Queue does so by itself with each change of its own.
func (q *Queue[K, T]) Arrange(l *Lane[K]) {
	may := (l.Limit == 0 || l.Running < l.Limit) && l.rest == nil
	w := prompt
	if q.cfg.Judge != nil && q.cfg.Judge.Beside(l) {
		w = beside
	}
	for c := range l.ready {
		n := l.ready[c].Len()
		if l.place[c] != nil && (n == 0 || !may || w != l.way) {
			q.rings[l.way][c].Remove(l.place[c])
			l.place[c] = nil
		}
		if n > 0 && may && l.place[c] == nil {
			l.place[c] = q.rings[w][c].PushBack(l)
		}
	}
	l.way = w
	if l.Waiting() == 0 && l.Running == 0 && l.rest == nil {
		delete(q.lanes, l.Key)
	}
}
