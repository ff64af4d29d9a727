package dispatch

import (
	"slices"
	"sort"
	"time"

	"carillon/delivery"
	"carillon/delivery/send"
)

// bodies holds notifications so that each is in memory once, however many deliveries of it are in
// flight. It holds those in use, and of the others the latest used, up to a number of bytes. It counts
// the bodies that attempts hold, which are bounded (see room.go). Guarded by table.mu.
//
// A log's numbers are not consecutive. Readers ask for the notification after a place, and that place
// often has no notification of its own. So a notification is found from the lowest place that led to
// it. This stays right: nothing is appended between two notifications, and no number is given twice.
// Where a log has lost its end, a place may still lead to a lost notification. It was accepted, so
// subscriptions at that place get it.
type bodies struct {
	*base
	loads map[place]*load
	// Without users, the latest used first.
	newest, oldest *note
	kept           int64 // bytes of those
	held           int64 // bytes of the bodies that attempts hold, those that count
	careful        int64 // of those, what careful attempts brought in
}

// place is a place in a topic's log: a notification's number, or one before it.
type place struct {
	topic *followed
	seq   delivery.Seq
}

// note is a notification that is held. n never changes.
type note struct {
	n     *delivery.Notification
	wire  send.Wire
	topic *followed
	// low is the lowest place that is known to lead to it.
	low delivery.Seq
	// blind: n.After is not known. Such a note serves only readers that ask for this very number and stand
	// right before it.
	blind   bool
	found   bool // in topic.notes
	spare   bool // in the list of those without users
	users   int
	careful bool      // the first of them was
	since   time.Time // when the first of them came, where the body counts
	// prev and next in that list.
	prev, next *note
}

// counted is what a note takes of Config.MaxBytes.
func (nt *note) counted() int64 {
	if len(nt.n.Body) <= smallBody {
		return 0
	}
	return int64(len(nt.n.Body))
}

// size is what a note takes, about.
func (nt *note) size() int64 {
	const overhead = 512
	return int64(len(nt.n.Body)) + overhead
}

// load is a read under way that others wait for.
type load struct {
	done    chan struct{}
	waiters int   // guarded by table.mu
	turn    bool  // likewise: a claim.turn
	note    *note // set before done is closed
	err     error // likewise
}

// put holds a notification that was just appended, as if it had been read; its
// After need not be known. mu is held.
func (b *bodies) put(t *followed, n *delivery.Notification) {
	if n.Seq < t.floor {
		return
	}
	nt := b.hold(t, n, true)
	b.use(nt, 1, false)
	b.release(nt)
}

// hold returns the note of a notification. It makes one of n where the cache has no note, or only a
// blind one.
func (b *bodies) hold(t *followed, n *delivery.Notification, blind bool) *note {
	i := len(t.notes)
	if i > 0 && t.notes[i-1].n.Seq >= n.Seq {
		i = sort.Search(i, func(i int) bool { return t.notes[i].n.Seq >= n.Seq })
	}
	if i < len(t.notes) && t.notes[i].n.Seq == n.Seq {
		nt := t.notes[i]
		if blind || !nt.blind {
			return nt
		}
		b.unlist(nt)
		t.drop(nt)
	}
	nt := &note{n: n, topic: t, low: n.Seq, blind: blind, found: true}
	t.notes = slices.Insert(t.notes, i, nt)
	return nt
}

// use counts users in. mu is held.
func (b *bodies) use(nt *note, users int, careful bool) {
	if nt.users == 0 {
		b.unlist(nt)
		nt.careful = careful
		if size := nt.counted(); size > 0 {
			nt.since = time.Now()
			b.count(size, careful)
		}
	}
	nt.users += users
}

// release counts a user out. mu is held.
func (b *bodies) release(nt *note) {
	if nt.users--; nt.users > 0 {
		return
	}
	b.count(-nt.counted(), nt.careful)
	if nt.found {
		b.list(nt)
	}
}

// list puts a note in front of those without users, and drops what has been out
// of use longest where there is too much of it.
func (b *bodies) list(nt *note) {
	nt.spare, nt.next = true, b.newest
	if b.newest != nil {
		b.newest.prev = nt
	} else {
		b.oldest = nt
	}
	b.newest = nt
	b.kept += nt.size()
	for b.kept > b.cfg.CacheBytes {
		last := b.oldest
		b.unlist(last)
		last.topic.drop(last)
	}
}

// unlist takes a note from those without users.
func (b *bodies) unlist(nt *note) {
	if !nt.spare {
		return
	}
	if nt.prev != nil {
		nt.prev.next = nt.next
	} else {
		b.newest = nt.next
	}
	if nt.next != nil {
		nt.next.prev = nt.prev
	} else {
		b.oldest = nt.prev
	}
	nt.spare, nt.prev, nt.next = false, nil, nil
	b.kept -= nt.size()
}

// count counts bytes in, or out. mu is held.
func (b *bodies) count(size int64, careful bool) {
	b.held += size
	if careful {
		b.careful += size
	}
}

// book counts a body for a flight that is to read it. mu is held.
func (b *bodies) book(f *flight, size int64) {
	f.claim.booked = size
	b.count(size, f.claim.careful)
	if r := f.topic.refusalAt(f.was.from()); r != nil {
		r.coming = true
	}
}

// unbook gives back what was booked for what is at a place. mu is held.
func (b *bodies) unbook(t *followed, from delivery.Seq, c claim) {
	b.count(-c.booked, c.careful)
	if r := t.refusalAt(from); r != nil && c.booked > 0 {
		r.coming = false
	}
}

// fits reports whether there is room for a body of that many counted bytes. mu is held.
func (b *bodies) fits(size int64, careful bool) bool {
	return within(b.held, size, b.cfg.MaxBytes) && (!careful || b.spares(size))
}

// spares reports whether a body is within what careful attempts may bring in. mu is held.
func (b *bodies) spares(size int64) bool {
	return within(b.careful, size, b.cfg.MaxBytes/2)
}

func within(held, size, room int64) bool {
	return size == 0 || held == 0 || held+size <= room
}

// claim is what an attempt may have of the room.
type claim struct {
	careful bool
	look    bool  // for a look only: always
	turn    bool  // it has waited, and now it is its turn
	booked  int64 // bytes that were counted for it then
}
