package delivery

import "errors"

// Bodies that attempts hold are bounded (Config.MaxBytes), without anybody's trouble
// becoming that of others:
//
//   - Bodies of up to smallBody do not count, and never wait: the attempts that may
//     be under way bound them.
//   - A body that an attempt holds already is there for all other attempts of it.
//   - Any other waits, in the order of coming, until there is room for it; the first
//     one when nothing that counts is held, so also one that is larger than all.
//   - Retries, and attempts to hosts that have slow ones, get the first half of the
//     room only, and wait by themselves: callbacks that hang hold bodies until the
//     deadline of the attempt, but not those for which others have room.
//
// Who waits holds nothing: neither a slot nor a goroutine nor the body, which is read
// again. What is being read (maxReads) is not counted before its size is known.

// smallBody is the largest body that need not wait for room.
const smallBody = 64 << 10

// errNoRoom: the body must wait for others to be given back.
var errNoRoom = errors.New("no room for a body")

// refusal is what is known of a notification that was read and found no room.
type refusal struct {
	low, seq Seq
	size     int64
}

// counted is what a note takes of Config.MaxBytes.
func (nt *note) counted() int64 {
	if len(nt.n.Body) <= smallBody {
		return 0
	}
	return int64(len(nt.n.Body))
}

// fits tells whether there is room for a body of that many counted bytes. mu is held.
func (d *Dispatcher) fits(size int64, careful bool) bool {
	room := d.cfg.MaxBytes
	if careful {
		room /= 2
	}
	return size == 0 || d.bytes == 0 || d.bytes+size <= room
}

// careful tells whether an attempt may hold its body for long.
func (h *host) careful(l lane) bool { return l == again || h.slow > 0 }

// admit counts users of a note in if there is room for it. mu is held.
func (d *Dispatcher) admit(nt *note, users int, careful, look bool) (*note, error) {
	if !look && nt.users == 0 && !d.fits(nt.counted(), careful) {
		nt.topic.refused = refusal{nt.low, nt.n.Seq, nt.counted()}
		if nt.found && !nt.spare {
			d.cache.list(nt)
		}
		return nil, errNoRoom
	}
	d.use(nt, users)
	return nt, nil
}

// wants returns the counted bytes that an attempt needs which reads a topic from a
// place, beyond what is held and as far as is known, and the note if that is in
// memory. mu is held.
func (t *topic) wants(from Seq) (*note, int64) {
	if nt := t.find(from); nt != nil {
		if nt.users > 0 {
			return nt, 0
		}
		return nt, nt.counted()
	}
	if r := &t.refused; r.low <= from && from <= r.seq {
		return nil, r.size
	}
	return nil, 0
}

// park has an entry wait for room. mu is held.
func (d *Dispatcher) park(e *entry) {
	d.setState(e, ready)
	d.parked[careLane(e.host.careful(e.lane()))].push(e)
}

// careLane is which of the two lines somebody waits in.
func careLane(careful bool) lane {
	if careful {
		return again
	}
	return fresh
}

// unpark returns a flight for an entry that has waited for room and now has it, nil
// if there is none. It is bounded: the rest is for the next call. mu is held.
func (d *Dispatcher) unpark(now int64) *flight {
	const looks = 64
	for l := range d.parked {
		q := &d.parked[l]
		for n := 0; q.head != nil && n < looks; n++ {
			e := q.head
			if !d.eligible(e, now) {
				q.pop()
				continue
			}
			nt, size := e.topic.wants(e.settled + 1)
			if !d.fits(size, l == int(again)) {
				break
			}
			q.pop()
			if el := e.lane(); e.host.room(el) && (el == fresh || d.retriesFree()) {
				return d.takeOff(e, nt, el, now)
			}
			e.host.queue[e.lane()].push(e) // asks again when its host has a slot
			d.enter(e.host, e.lane())
		}
	}
	return nil
}
