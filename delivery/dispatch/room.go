package dispatch

import (
	"errors"
	"slices"
	"sort"
	"time"

	"carillon/delivery"
)

// Bodies that attempts hold are bounded (Config.MaxBytes), without anybody's trouble
// becoming that of others:
//
//   - Bodies of up to smallBody do not count, and never wait: the attempts that may
//     be under way bound them.
//   - A body that an attempt holds already is there for all other attempts of it. Where
//     it has been held for sharedFor, and others wait for room, further attempts of it go
//     into the line: those of callbacks that hang would hold it for ever, one after another.
//   - Any other waits, in the order of coming, until there is room for it; the first
//     one when nothing that counts is held, so also one that is larger than all.
//   - Careful attempts (retries, and those to hosts that have slow ones) bring in half
//     of the room at most, or one body, and wait in a line of their own: callbacks that
//     hang hold bodies until the deadline of the attempt. While they have less than
//     their half the two lines take turns, so neither passes the other for ever.
//
// Who waits holds nothing: neither a slot nor a goroutine nor the body, which is read
// again when it is its turn, with the room for it booked. What is being read for the
// first time (maxReads) is not counted before its size is known.

const (
	// smallBody is the largest body that need not wait for room.
	smallBody = 64 << 10
	// sharedFor is for how long a body is there for everybody while others wait.
	sharedFor = time.Second
	// maxLooks is how many of those that wait for room are looked at in a row.
	maxLooks = 64
)

// errNoRoom: the body must wait for others to be given back.
var errNoRoom = errors.New("no room for a body")

// claim is what an attempt may have of the room.
type claim struct {
	careful bool
	look    bool  // for a look only: always
	turn    bool  // it has waited, and now it is its turn
	booked  int64 // what was counted for it then
}

// refusal is what is known of a notification that was read and found no room: also when
// it is out of memory it need not be read again to know what it wants.
type refusal struct {
	low, seq delivery.Seq // see note
	size     int64
	coming   bool // somebody has booked the room for it, and reads it
}

// counted is what a note takes of Config.MaxBytes.
func (nt *note) counted() int64 {
	if len(nt.n.Body) <= smallBody {
		return 0
	}
	return int64(len(nt.n.Body))
}

// count counts bytes in, or out. mu is held.
func (d *Dispatcher) count(size int64, careful bool) {
	d.bytes += size
	if careful {
		d.carefulBytes += size
	}
}

// book counts a body for a flight that is to read it. mu is held.
func (d *Dispatcher) book(f *flight, size int64) {
	f.claim.booked = size
	d.count(size, f.claim.careful)
	if r := f.topic.refusalAt(f.was.from()); r != nil {
		r.coming = true
	}
}

// unbook gives back what was booked for what is at a place. mu is held.
func (d *Dispatcher) unbook(t *topic, from delivery.Seq, c claim) {
	d.count(-c.booked, c.careful)
	if r := t.refusalAt(from); r != nil && c.booked > 0 {
		r.coming = false
	}
}

// fits tells whether there is room for a body of that many counted bytes. mu is held.
func (d *Dispatcher) fits(size int64, careful bool) bool {
	return within(d.bytes, size, d.cfg.MaxBytes) && (!careful || d.spares(size))
}

// spares tells whether a body is within what careful attempts may bring in. mu is held.
func (d *Dispatcher) spares(size int64) bool {
	return within(d.carefulBytes, size, d.cfg.MaxBytes/2)
}

func within(held, size, room int64) bool {
	return size == 0 || held == 0 || held+size <= room
}

// open tells whether there is room for a body, and nobody who came before waits for
// it. mu is held.
func (d *Dispatcher) open(size int64, c claim) bool {
	if size == 0 || c.look {
		return true
	}
	if !d.fits(size, c.careful) {
		return false
	}
	return c.turn || d.firstParked(d.now()) == nil && d.parked[careLane(c.careful)].head == nil
}

// outstays tells whether a body has been held for long enough, as others wait. mu is held.
func (d *Dispatcher) outstays(nt *note) bool {
	return nt != nil && nt.users > 0 && nt.counted() > 0 && time.Since(nt.since) > sharedFor &&
		(d.parked[fresh].head != nil || d.parked[again].head != nil)
}

// careful tells whether an attempt may hold its body for long.
func (h *host) careful(l lane) bool { return l == again || h.slow > 0 }

// admit counts users of a note in if there is room for it. mu is held.
func (d *Dispatcher) admit(nt *note, users int, c claim) (*note, error) {
	if nt.users == 0 && !d.open(nt.counted(), c) {
		nt.topic.refuse(nt)
		if nt.found && !nt.spare {
			d.cache.list(nt)
		}
		return nil, errNoRoom
	}
	d.use(nt, users, c.careful)
	return nt, nil
}

// refuse remembers what a note wants. All places from its lowest on lead to it, and no
// longer to what was remembered of them. mu is held.
func (t *topic) refuse(nt *note) {
	const more = 16 // that are being read, or were waited for in vain
	if len(t.refused) >= 2*t.parked+more {
		t.refused = nil // who waits for them reads them once more
	}
	r := refusal{low: nt.low, seq: nt.n.Seq, size: nt.counted()}
	i, j := t.refusal(r.low), t.refusal(r.seq+1)
	if i < j && t.refused[j-1].seq == r.seq {
		r.low = min(r.low, t.refused[j-1].low)
	}
	t.refused = slices.Replace(t.refused, i, j, r)
}

// refusal returns the index of the first one at a place or behind it.
func (t *topic) refusal(from delivery.Seq) int {
	return sort.Search(len(t.refused), func(i int) bool { return t.refused[i].seq >= from })
}

// refusalAt returns what is known of who found no room at a place, nil if nothing is.
func (t *topic) refusalAt(from delivery.Seq) *refusal {
	if i := t.refusal(from); i < len(t.refused) && t.refused[i].low <= from {
		return &t.refused[i]
	}
	return nil
}

// wants returns the counted bytes that an attempt needs which reads a topic from a
// place, beyond what is held and as far as is known, and the note if that is in
// memory. mu is held.
func (t *topic) wants(from delivery.Seq) (*note, int64) {
	if nt := t.find(from); nt != nil {
		if nt.users > 0 {
			return nt, 0
		}
		return nt, nt.counted()
	}
	if r := t.refusalAt(from); r != nil && !r.coming {
		return nil, r.size
	}
	return nil, 0
}

// park has an entry wait for room. mu is held.
func (d *Dispatcher) park(e *entry) {
	d.setState(e, ready)
	e.topic.parked++
	d.parked[careLane(e.host.careful(e.lane()))].push(e)
}

// leaveLine takes the first one out of a line. mu is held.
func (d *Dispatcher) leaveLine(l lane) *entry {
	e := d.parked[l].pop()
	if e.topic.parked--; e.topic.parked == 0 {
		e.topic.refused = nil
	}
	return e
}

// careLane is which of the two lines somebody waits in.
func careLane(careful bool) lane {
	if careful {
		return again
	}
	return fresh
}

// front returns the first one of a line, nil if there is none: without those that may
// not start any more, or belong into the other line by now. mu is held.
func (d *Dispatcher) front(l lane, now int64) *entry {
	for range maxLooks {
		e := d.parked[l].head
		if e == nil {
			return nil
		}
		if !d.eligible(e, now) {
			d.leaveLine(l)
			continue
		}
		if careLane(e.host.careful(e.lane())) == l {
			return e
		}
		d.leaveLine(l)
		d.park(e)
	}
	d.kick() // the rest is for the next call
	return nil
}

// firstParked returns who has waited for room and is the next to have it, nil if there is
// none. The lines take turns; careful ones are passed while they may bring in no
// more. mu is held.
func (d *Dispatcher) firstParked(now int64) *entry {
	for _, l := range [...]lane{d.turn, lanes - 1 - d.turn} {
		e := d.front(l, now)
		if e == nil {
			continue
		}
		if _, size := e.topic.wants(e.from()); l == fresh || d.spares(size) {
			return e
		}
	}
	return nil
}

// unpark returns a flight for an entry that has waited for room and now has it, nil
// if there is none. mu is held.
func (d *Dispatcher) unpark(now int64) *flight {
	for range maxLooks {
		e := d.firstParked(now)
		if e == nil {
			return nil
		}
		l, careful := e.lane(), e.host.careful(e.lane())
		nt, size := e.topic.wants(e.from())
		if !d.fits(size, careful) {
			return nil
		}
		line := careLane(careful)
		d.leaveLine(line)
		d.turn = lanes - 1 - line
		if e.host.room(l) && (l == fresh || d.retriesFree()) {
			f := d.takeOff(e, nt, l, now)
			if f.claim.turn = true; nt == nil {
				d.book(f, size)
			}
			return f
		}
		e.host.queue[l].push(e) // asks again when its host has a slot
		d.enter(e.host, l)
	}
	d.kick() // the rest is for the next call
	return nil
}
