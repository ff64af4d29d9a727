package delivery

import (
	"container/list"
	"context"
	"sync"
)

// cache holds notifications so that each is in memory once, however many
// deliveries of it are in flight. Those in use are held anyway; of the others
// it keeps the latest used, up to a number of bytes.
//
// A log's numbers are not consecutive: what is asked for is often no number of a
// notification, but of one place after another. Therefore a notification is
// found under every place that led to it. That never becomes wrong, as nothing
// is appended between two notifications, and no number is given twice. Where a log
// has lost its end, a place before it may still lead to one that was lost: it was
// accepted, and whoever stands there gets it.
type cache struct {
	log Log
	max int64

	mu    sync.Mutex // guards everything below
	notes map[place]*note
	loads map[place]*load
	idle  list.List // of *note without users, the latest used in front
	bytes int64     // of those in idle
}

// place is a place in a topic's log: a notification's number, or one before it.
type place struct {
	topic string // its key
	seq   Seq
}

// maxPlaces bounds the places under which one notification is found.
const maxPlaces = 64

// note is a notification that is held. All fields are guarded by cache.mu,
// but n never changes.
type note struct {
	n      *Notification
	wire   wire
	places []place // under which it is found; empty: another took its place
	// blind: n.After is not known. It is for whoever asks for this very number,
	// and stands right before it.
	blind bool
	users int
	elem  *list.Element // in idle, nil while in use
}

// load is a read under way that others wait for.
type load struct {
	done    chan struct{}
	waiters int   // guarded by cache.mu
	note    *note // set before done is closed
	err     error // likewise
}

func newCache(log Log, maxBytes int64) *cache {
	return &cache{log: log, max: maxBytes, notes: map[place]*note{}, loads: map[place]*load{}}
}

// get returns the first notification of the topic at or after from, to be given
// back with release. Concurrent readers share one load.
func (c *cache) get(ctx context.Context, topic string, from Seq) (*note, error) {
	at := place{topic, from}
	c.mu.Lock()
	if nt := c.notes[at]; nt != nil {
		c.use(nt, 1)
		c.mu.Unlock()
		return nt, nil
	}
	if l := c.loads[at]; l != nil {
		l.waiters++
		c.mu.Unlock()
		<-l.done // bounded: by engineTimeout of the one who reads
		return l.note, l.err
	}
	l := &load{done: make(chan struct{})}
	c.loads[at] = l
	c.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	n, err := c.log.Read(ctx, topic, from)
	cancel()

	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.loads, at)
	if l.err = err; err == nil {
		l.note = c.hold(topic, n, false)
		c.find(l.note, at)
		c.use(l.note, 1+l.waiters)
	}
	close(l.done)
	return l.note, l.err
}

// put holds a notification that was just appended, as if it had been read; its
// After need not be known.
func (c *cache) put(topic string, n *Notification) {
	c.mu.Lock()
	defer c.mu.Unlock()
	nt := c.hold(topic, n, true)
	c.use(nt, 1)
	c.releaseLocked(nt)
}

// release gives a note back.
func (c *cache) release(nt *note) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.releaseLocked(nt)
}

// hold returns the note of a notification, made of n if there is none, or only a
// blind one. mu is held.
func (c *cache) hold(topic string, n *Notification, blind bool) *note {
	at := place{topic, n.Seq}
	nt := c.notes[at]
	if nt != nil && nt.blind && !blind {
		c.use(nt, 0)
		c.forget(nt)
		nt = nil
	}
	if nt == nil {
		nt = &note{n: n, blind: blind}
		c.find(nt, at)
	}
	return nt
}

// find has a note found under a place. mu is held.
func (c *cache) find(nt *note, at place) {
	if c.notes[at] != nil || len(nt.places) >= maxPlaces {
		return
	}
	c.notes[at] = nt
	nt.places = append(nt.places, at)
}

// forget has a note found no more. mu is held.
func (c *cache) forget(nt *note) {
	for _, at := range nt.places {
		delete(c.notes, at)
	}
	nt.places = nil
}

// use counts users in. mu is held.
func (c *cache) use(nt *note, users int) {
	nt.users += users
	if nt.elem != nil {
		c.idle.Remove(nt.elem)
		c.bytes -= nt.size()
		nt.elem = nil
	}
}

// releaseLocked counts a user out, and drops what has been out of use longest
// where there is too much of it. mu is held.
func (c *cache) releaseLocked(nt *note) {
	if nt.users--; nt.users > 0 || len(nt.places) == 0 {
		return
	}
	nt.elem = c.idle.PushFront(nt)
	c.bytes += nt.size()
	for c.bytes > c.max {
		last := c.idle.Remove(c.idle.Back()).(*note)
		last.elem = nil
		c.bytes -= last.size()
		c.forget(last)
	}
}

// size is what a note takes, about.
func (nt *note) size() int64 {
	const overhead = 512
	return int64(len(nt.n.Body)) + overhead
}
