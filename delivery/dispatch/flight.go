package dispatch

import (
	"net/http"
	"time"

	"carillon/delivery"
	"carillon/delivery/send"
	"carillon/subscription"
)

// flight is an attempt under way. When it has ended it is used for another one.
type flight struct {
	// Guarded by table.mu.
	list       *flightList // of flights.young or early; nil: it is slow
	prev, next *flight

	// These never change from its start to its end.
	e       *entry
	host    *host
	topic   *followed
	shard   *shardTable
	lane    lane
	claim   claim
	started int64
	// The entry as it was at the start, and the topic's head and before.
	was          entry
	wasRare      rare
	head, before delivery.Seq

	// The worker's.
	attempt send.Attempt
	note    *note // nil: to be read
	begun   int64 // when the attempt itself began
	result  result
}

// result is what a flight brings home.
type result struct {
	outcome send.Outcome
	settled delivery.Seq // where the cursor stands now
	gaps    []delivery.Gap
	gaveUp  bool
	readErr error        // the log could not be read: nothing was tried
	after   delivery.Seq // the place before the notification that was read
	lost    delivery.Seq // up to where the log has lost what was before that, 0: it has not
	noRoom  bool         // the body must wait for others: nothing was tried
	tried   bool         // there was an attempt, and it came to an end
	text    string       // why it had no answer (errorText)

	replayed replayed
}

// gap records a stretch that is passed over, and moves the cursor behind it.
func (r *result) gap(id subscription.ID, first, last delivery.Seq, reason delivery.GapReason, failure delivery.Class) {
	r.gaps = append(r.gaps, delivery.Gap{
		Subscription: id, First: first, Last: last,
		Reason: reason, Failure: failure, At: time.Now(),
	})
	r.settled = last
}

// replayed is what a flight of a replay brings home.
type replayed struct {
	stored []delivery.Gap // the gaps as they were read, if read
	read   bool
	passed delivery.Seq // up to here nothing was delivered again
	early  bool
	again  delivery.Seq // and from there up to here everything was
}

// lost returns the end of the stretch that the log has lost before a notification, given that
// notification and the number before it; 0 if nothing was lost there. Its fields never change.
func (f *flight) lost(after, seq delivery.Seq) (last delivery.Seq) {
	for _, head := range []delivery.Seq{f.head, f.before} {
		if after < head && head < seq {
			return head
		}
	}
	return 0
}

// adapt learns from an outcome how much the host can take. Answers that are
// about the one callback (404, a redirect) say nothing about its host.
func (f *flight) adapt(o *send.Outcome, most int32, now int64) {
	h := f.host
	switch o.Class {
	case delivery.ClassDelivered:
		h.limit = min(h.limit+1, most)
	case delivery.ClassServerError, delivery.ClassTimeout, delivery.ClassRefused, delivery.ClassDNS, delivery.ClassTLS:
		h.shrink(f, now)
	case delivery.ClassClientError:
		if o.Status == http.StatusTooManyRequests {
			h.shrink(f, now)
		}
	}
}

// flightList holds flights about in the order of their start.
type flightList struct{ oldest, youngest *flight }

func (l *flightList) push(f *flight) {
	f.list, f.prev, f.next = l, l.youngest, nil
	if l.youngest == nil {
		l.oldest = f
	} else {
		l.youngest.next = f
	}
	l.youngest = f
}

func (l *flightList) remove(f *flight) {
	if f.prev == nil {
		l.oldest = f.next
	} else {
		f.prev.next = f.next
	}
	if f.next == nil {
		l.youngest = f.prev
	} else {
		f.next.prev = f.prev
	}
	f.list, f.prev, f.next = nil, nil, nil
}

// flights are the attempts under way. Guarded by table.mu.
type flights struct {
	*base
	table        *table
	bodies       *bodies
	young, early flightList
	inSlots      [lanes]int // flights by lane: those that have a slot
	slow         [lanes]int // and those that gave it back, early ones included
	spare        *flight    // flights to be used again
	stuck        bool       // flights would give their slot back if fewer were slow
}

// takeOff starts a flight, with the note that it delivers if that is in memory. mu is held.
func (fs *flights) takeOff(e *entry, nt *note, l lane, now int64) *flight {
	fs.table.setState(e, flying)
	f := fs.spare
	if f == nil {
		f = &flight{}
	} else {
		fs.spare, f.next = f.next, nil
	}
	f.e, f.host, f.topic, f.shard, f.lane, f.started, f.begun = e, e.host, e.topic, fs.table.shardOf(e), l, now, now
	f.claim.careful = e.host.careful(l)
	f.was = *e
	if e.rare != nil {
		f.wasRare = *e.rare
		f.was.rare = &f.wasRare
	}
	f.head, f.before = e.topic.head, e.topic.before
	a := &f.attempt
	a.Subscription, a.Number = e.id, e.failures()+1
	a.Secret, a.Shared = fs.table.secrets.of(e)
	a.Shared = a.Shared || a.Number > 1
	if f.note = nt; nt != nil {
		fs.bodies.use(nt, 1, f.claim.careful)
	}
	f.result.settled = e.settled

	f.shard.flying++
	if fs.young.oldest == nil {
		fs.kick() // the timer has an attempt to watch again
	}
	fs.young.push(f)
	fs.inSlots[l]++
	e.host.young[l]++
	e.host.last = l
	return f
}

// touchDown takes a flight that ended off the books. mu is held.
func (fs *flights) touchDown(f *flight) {
	h := f.host
	if f.shard.flying--; f.shard.flying == 0 && f.shard.leaving {
		close(f.shard.landed)
	}
	switch f.list {
	case &fs.young:
		fs.young.remove(f)
		fs.inSlots[f.lane]--
		h.young[f.lane]--
	case &fs.early:
		fs.early.remove(f)
		h.young[f.lane]--
		fs.leaveSlow(f)
	default:
		fs.leaveSlow(f)
	}
	fs.table.forgetHost(h)
}

// recycle keeps a flight for another attempt. No reference to it may be left. mu is held.
func (fs *flights) recycle(f *flight) {
	*f = flight{next: fs.spare}
	fs.spare = f
}

// leaveSlot has a young flight count among those that have given their slot back.
func (fs *flights) leaveSlot(f *flight) {
	fs.young.remove(f)
	fs.inSlots[f.lane]--
	fs.slow[f.lane]++
	f.host.slow++
}

// leaveSlow counts a flight out that had given its slot back.
func (fs *flights) leaveSlow(f *flight) {
	fs.slow[f.lane]--
	f.host.slow--
	if fs.stuck {
		fs.kick()
	}
}

// maySlow reports whether a flight may leave its slot: a host may have a quarter
// of the slow attempts, and retries half of what there is.
func (fs *flights) maySlow(f *flight) bool {
	all, ofHost := fs.cfg.MaxSlow, fs.cfg.slowPerHost()
	if f.lane == again {
		return fs.slow[again] < all/2 && fs.slow[fresh]+fs.slow[again] < all && int(f.host.slow) < max(1, ofHost/2)
	}
	return fs.slow[fresh]+fs.slow[again] < all && int(f.host.slow) < ofHost
}

// underWay counts the attempts under way, those of ended subscriptions too. mu
// is held.
func (fs *flights) underWay() int {
	return fs.inSlots[fresh] + fs.inSlots[again] + fs.slow[fresh] + fs.slow[again]
}

// retriesFree reports whether there is a slot that a retry may have.
func (fs *flights) retriesFree() bool {
	return fs.inSlots[again] < max(1, fs.cfg.MaxInFlight/4)
}
