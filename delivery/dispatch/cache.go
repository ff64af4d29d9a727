package dispatch

import (
	"context"
	"slices"
	"sort"
	"time"

	"carillon/delivery"
	"carillon/delivery/send"
)

// cache holds notifications so that each is in memory once, however many
// deliveries of it are in flight. Those in use are held anyway; of the others
// it keeps the latest used, up to a number of bytes. It is guarded by Dispatcher.mu.
//
// A log's numbers are not consecutive: what is asked for is often no number of a
// notification, but of one place after another. Therefore a notification is
// found from the lowest place on that led to it. That never becomes wrong, as nothing
// is appended between two notifications, and no number is given twice. Where a log
// has lost its end, a place before it may still lead to one that was lost: it was
// accepted, and whoever stands there gets it.
type cache struct {
	max   int64
	loads map[place]*load
	// Without users, the latest used first.
	newest, oldest *note
	bytes          int64 // of those
}

// place is a place in a topic's log: a notification's number, or one before it.
type place struct {
	topic *topic
	seq   delivery.Seq
}

// note is a notification that is held. n never changes.
type note struct {
	n     *delivery.Notification
	wire  send.Wire
	topic *topic
	// low is the lowest place that is known to lead to it.
	low delivery.Seq
	// blind: n.After is not known. It is for whoever asks for this very number,
	// and stands right before it.
	blind   bool
	found   bool // in topic.notes
	spare   bool // in the list of those without users
	users   int
	careful bool      // the first of them was
	since   time.Time // when the first of them came, where the body counts
	// prev and next in that list.
	prev, next *note
}

// load is a read under way that others wait for.
type load struct {
	done    chan struct{}
	waiters int   // guarded by Dispatcher.mu
	turn    bool  // likewise: somebody's claim.turn
	note    *note // set before done is closed
	err     error // likewise
}

// maxReads bounds the notifications that are being read from the log at a time: of
// how much that is nothing is known before.
const maxReads = 8

// find returns the note that a place leads to, nil if it is not in memory. mu is held.
func (t *topic) find(from delivery.Seq) *note {
	n := len(t.notes)
	if n == 0 {
		return nil
	}
	nt := t.notes[n-1] // what most look for
	if n > 1 && t.notes[n-2].n.Seq >= from {
		nt = t.notes[sort.Search(n-1, func(i int) bool { return t.notes[i].n.Seq >= from })]
	}
	if nt.low <= from && from <= nt.n.Seq {
		return nt
	}
	return nil
}

// read returns the first notification of the topic at or after from, to be given
// back with release. Concurrent readers share one load. It is errNoRoom where the
// body must wait for others to be given back (see room.go), unless it is for a look only.
func (d *Dispatcher) read(ctx context.Context, t *topic, from delivery.Seq, c claim) (*note, error) {
	at := place{t, from}
	d.mu.Lock()
	nt, size := t.wants(from)
	l := d.cache.loads[at]
	if nt != nil {
		defer d.mu.Unlock()
		d.unbook(t, from, c)
		return d.admit(nt, 1, c)
	}
	if l != nil {
		l.waiters++
		l.turn = l.turn || c.turn
		d.unbook(t, from, c)
		d.mu.Unlock()
		<-l.done // bounded: by the deadline of the one who reads
		return l.note, l.err
	}
	if c.booked == 0 && !d.open(size, c) {
		d.mu.Unlock()
		return nil, errNoRoom // as somebody found out who read it before
	}
	l = &load{done: make(chan struct{}), turn: c.turn}
	d.cache.loads[at] = l
	d.mu.Unlock()

	n, err := d.readLog(ctx, at)
	d.mu.Lock()
	defer d.mu.Unlock()
	for err == nil && n.Seq < t.floor { // it was trimmed meanwhile
		d.mu.Unlock()
		n, err = d.readLog(ctx, place{t, n.Seq + 1})
		d.mu.Lock()
	}
	delete(d.cache.loads, at)
	d.unbook(t, from, c)
	c.turn = l.turn
	if l.err = err; err == nil {
		nt := d.cache.hold(t, n, false)
		nt.low = min(nt.low, from)
		l.note, l.err = d.admit(nt, 1+l.waiters, c)
	}
	close(l.done)
	return l.note, l.err
}

// readLog reads the log when it is its turn, within engineTimeout.
func (d *Dispatcher) readLog(ctx context.Context, at place) (*delivery.Notification, error) {
	select {
	case d.reading <- struct{}{}:
		defer func() { <-d.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	n, err := d.records.Read(ctx, at.topic.key, at.seq)
	if err == nil {
		d.readWorked()
	}
	return n, err
}

// put holds a notification that was just appended, as if it had been read; its
// After need not be known. mu is held.
func (d *Dispatcher) put(t *topic, n *delivery.Notification) {
	if n.Seq < t.floor {
		return
	}
	nt := d.cache.hold(t, n, true)
	d.use(nt, 1, false)
	d.release(nt)
}

// hold returns the note of a notification, made of n if there is none, or only a
// blind one.
func (c *cache) hold(t *topic, n *delivery.Notification, blind bool) *note {
	i := len(t.notes)
	if i > 0 && t.notes[i-1].n.Seq >= n.Seq {
		i = sort.Search(i, func(i int) bool { return t.notes[i].n.Seq >= n.Seq })
	}
	if i < len(t.notes) && t.notes[i].n.Seq == n.Seq {
		nt := t.notes[i]
		if blind || !nt.blind {
			return nt
		}
		c.unlist(nt)
		t.drop(nt)
	}
	nt := &note{n: n, topic: t, low: n.Seq, blind: blind, found: true}
	t.notes = slices.Insert(t.notes, i, nt)
	return nt
}

// drop has a note found no more. mu is held.
func (t *topic) drop(nt *note) {
	if i := sort.Search(len(t.notes), func(i int) bool { return t.notes[i].n.Seq >= nt.n.Seq }); nt.found {
		t.notes = slices.Delete(t.notes, i, i+1)
		nt.found = false
	}
	if len(t.notes) == 0 {
		t.notes = nil
	}
}

// list puts a note in front of those without users, and drops what has been out
// of use longest where there is too much of it.
func (c *cache) list(nt *note) {
	nt.spare, nt.next = true, c.newest
	if c.newest != nil {
		c.newest.prev = nt
	} else {
		c.oldest = nt
	}
	c.newest = nt
	c.bytes += nt.size()
	for c.bytes > c.max {
		last := c.oldest
		c.unlist(last)
		last.topic.drop(last)
	}
}

// unlist takes a note from those without users.
func (c *cache) unlist(nt *note) {
	if !nt.spare {
		return
	}
	if nt.prev != nil {
		nt.prev.next = nt.next
	} else {
		c.newest = nt.next
	}
	if nt.next != nil {
		nt.next.prev = nt.prev
	} else {
		c.oldest = nt.prev
	}
	nt.spare, nt.prev, nt.next = false, nil, nil
	c.bytes -= nt.size()
}

// use counts users in. mu is held.
func (d *Dispatcher) use(nt *note, users int, careful bool) {
	if nt.users == 0 {
		d.cache.unlist(nt)
		nt.careful = careful
		if size := nt.counted(); size > 0 {
			nt.since = time.Now()
			d.count(size, careful)
		}
	}
	nt.users += users
}

// release counts a user out. mu is held.
func (d *Dispatcher) release(nt *note) {
	if nt.users--; nt.users > 0 {
		return
	}
	d.count(-nt.counted(), nt.careful)
	if nt.found {
		d.cache.list(nt)
	}
}

// size is what a note takes, about.
func (nt *note) size() int64 {
	const overhead = 512
	return int64(len(nt.n.Body)) + overhead
}
