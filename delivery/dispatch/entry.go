package dispatch

import (
	"math"
	"strings"
	"time"

	"carillon/delivery"
	"carillon/subscription"
)

// The table holds every subscription of the shards that this process owns. What
// is in this file is guarded by table.mu, but for what never changes.

// state is where an entry is in the drawing of the package comment.
type state uint8

const (
	idle    state = iota // nothing to send, its lease is over, or its shard is still being read
	ready                // in its host's queue, or among those that wait for room
	flying               // an attempt is under way
	waiting              // in the heap, until its retry is due
	ended                // no longer in the table
	states
)

// lane is what keeps retries apart from the rest, so that callbacks in trouble
// wait for each other and not before healthy ones.
type lane uint8

const (
	fresh lane = iota // the last attempt succeeded, or no attempt was made
	again             // the last attempt failed
	lanes
)

// entry is a subscription and its position. There may be millions, most of them idle. So the struct
// fills one size class of the allocator (112 bytes) to the last byte. Data that entries share is held
// once (topic, host, secret), and data that few have is apart (rare). Guarded by table.mu, except for
// id and text, which never change in place.
type entry struct {
	id   subscription.ID
	text string // the callback without the name of its host, then the secret if it is this one's own
	// The next one in the queue of the host, or of those that wait for room.
	next           *entry
	topic          *followed
	host           *host
	rare           *rare // nil: nothing of it
	settled, start delivery.Seq
	// Unix nanoseconds, 0 for none.
	created, expires int64

	lease  uint32    // seconds
	secret secretRef // 0: it has its own, or none
	at     int32     // index in topic.entries
	own    uint8     // how many bytes of text are the secret
	state  state
	dirty  bool // in its shard's list of changes to save
	gapped bool // there is a gap that was not replayed
}

// rare is what few entries have.
type rare struct {
	// Rare fields of an entry, zero otherwise.
	topicURL string              // spelled unlike topic.key
	callback string              // does not begin with the host's name
	secret   subscription.Secret // the longest allowed
	lease    time.Duration       // not in whole seconds

	replay *replay // nil: none

	// Of an entry whose last attempt failed.
	due      int64 // Unix nanoseconds; negative: at that time, had an operator not wanted it now
	failures uint32
	status   uint16
	class    delivery.Class
	gone     bool // its callback said 410, its end is still to be stored
}

// callback returns the callback as in the request.
func (e *entry) callback() string {
	if e.rare != nil && e.rare.callback != "" {
		return e.rare.callback
	}
	return e.host.Name() + e.rest()
}

// rest returns what follows the host's name in the callback, if that begins with it.
func (e *entry) rest() string {
	if e.rare != nil && e.rare.callback != "" {
		return ""
	}
	return e.text[:len(e.text)-int(e.own)]
}

// topicURL returns the topic as subscribed to; topic.key is what it is compared by.
func (e *entry) topicURL() string {
	if e.rare != nil && e.rare.topicURL != "" {
		return e.rare.topicURL
	}
	return e.topic.key
}

func (e *entry) leaseTime() time.Duration {
	if e.rare != nil && e.rare.lease != 0 {
		return e.rare.lease
	}
	return time.Duration(e.lease) * time.Second
}

func (e *entry) subscription(secret subscription.Secret) subscription.Subscription {
	return subscription.Subscription{
		ID: e.id, Topic: e.topicURL(), Callback: e.callback(), Secret: secret,
		Start: uint64(e.start), Lease: e.leaseTime(), Expires: timeOf(e.expires), Created: timeOf(e.created),
	}
}

// failures counts the failed attempts in a row.
func (e *entry) failures() uint32 {
	if e.rare == nil {
		return 0
	}
	return e.rare.failures
}

func (e *entry) lane() lane {
	if e.failures() > 0 {
		return again
	}
	return fresh
}

// hurried reports whether the next attempt is made before its time, because an operator wants it.
func (e *entry) hurried() bool { return e.rare != nil && e.rare.due < 0 }

// gone reports whether the callback said 410, and the end is still to be stored.
func (e *entry) gone() bool { return e.rare != nil && e.rare.gone }

// replay returns the replay that is under way, nil without one.
func (e *entry) replay() *replay {
	if e.rare == nil {
		return nil
	}
	return e.rare.replay
}

func (e *entry) setReplay(r *replay) {
	if e.rare == nil {
		e.rare = &rare{}
	}
	e.rare.replay = r
}

// from is the place in the log from which the next attempt reads.
func (e *entry) from() delivery.Seq {
	if r := e.replay(); r != nil {
		return r.next
	}
	return e.settled + 1
}

// behind reports whether there is something to send, as far as is known.
func (e *entry) behind() bool { return e.settled < e.topic.head || e.replay() != nil }

// tidy gives back the place of what is rare where there is nothing of it.
func (e *entry) tidy() {
	if *e.rare == (rare{}) {
		e.rare = nil
	}
}

// position returns where the entry stands.
func (e *entry) position() delivery.Position {
	p := delivery.Position{Settled: e.settled}
	if r := e.rare; r != nil && r.failures > 0 {
		p.Failures, p.NextAttempt, p.LastFailure, p.LastStatus = r.failures, timeOf(max(r.due, -r.due)), r.class, r.status
	}
	if r := e.replay(); r != nil {
		p.ReplayNext, p.ReplayLast = r.next, r.last
	}
	return p
}

// fill takes over what a subscription says. Its place in the log stays, unless
// it starts behind it. mu is held.
func (s *secrets) fill(e *entry, sub subscription.Subscription) {
	r := rare{}
	if e.rare != nil {
		r = rare{failures: e.rare.failures, due: e.rare.due, status: e.rare.status, class: e.rare.class}
		if delivery.Seq(sub.Start) <= e.settled {
			r.replay = e.rare.replay
		}
	}
	if sub.Topic != e.topic.key {
		r.topicURL = strings.Clone(sub.Topic)
	}
	rest, plain := strings.CutPrefix(sub.Callback, e.host.Name())
	if !plain {
		r.callback, rest = strings.Clone(sub.Callback), ""
	}
	e.lease = uint32(sub.Lease / time.Second)
	if sub.Lease < 0 || sub.Lease/time.Second > math.MaxUint32 || sub.Lease%time.Second != 0 {
		e.lease, r.lease = 0, sub.Lease
	}
	r.secret = s.fillText(e, rest, string(sub.Secret))
	e.start = delivery.Seq(sub.Start)
	e.settled = max(e.settled, e.start) // a new life of the same subscription starts anew
	e.created, e.expires = nanos(sub.Created), nanos(sub.Expires)
	e.rare = nil
	if r != (rare{}) {
		e.rare = new(rare)
		*e.rare = r
	}
}

// fillText takes over a callback's rest and a secret, which is returned where there is
// no place for it. One that others have too is held once. mu is held.
func (s *secrets) fillText(e *entry, rest, secret string) (long subscription.Secret) {
	s.drop(e.secret)
	e.secret = 0
	if secret != e.text[len(e.text)-int(e.own):] { // or it is known from this very entry
		e.secret = s.share(secret)
	}
	switch {
	case e.secret != 0:
		secret = ""
	case len(secret) > math.MaxUint8: // WebSub §5.1 ends them at 200 bytes
		long, secret = subscription.Secret(strings.Clone(secret)), ""
	}
	e.own = uint8(len(secret))
	if rest == "" || secret == "" {
		e.text = strings.Clone(rest + secret)
	} else {
		e.text = rest + secret
	}
	if secret != "" {
		s.note(e.text[len(rest):])
	}
	return long
}

// of returns an entry's secret, and whether others have it too. mu is held.
func (s *secrets) of(e *entry) (secret subscription.Secret, shared bool) {
	switch {
	case e.secret != 0:
		return s.value(e.secret), true
	case e.own > 0:
		return subscription.Secret(e.text[len(e.text)-int(e.own):]), false
	case e.rare != nil:
		return e.rare.secret, false
	}
	return "", false
}

// subscription returns an entry as the rest of the hub knows it. mu is held.
func (s *secrets) subscription(e *entry) subscription.Subscription {
	secret, _ := s.of(e)
	return e.subscription(secret)
}
