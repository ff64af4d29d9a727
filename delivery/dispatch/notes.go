package dispatch

import (
	"slices"
	"sort"

	"carillon/delivery"
)

// find returns the note that a place leads to, nil if it is not in memory. mu is held.
func (t *followed) find(from delivery.Seq) *note {
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

// wants returns the counted bytes that an attempt needs which reads a topic from a
// place, beyond what is held and as far as is known, and the note if that is in
// memory. mu is held.
func (t *followed) wants(from delivery.Seq) (*note, int64) {
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

// drop has a note found no more. mu is held.
func (t *followed) drop(nt *note) {
	if i := sort.Search(len(t.notes), func(i int) bool { return t.notes[i].n.Seq >= nt.n.Seq }); nt.found {
		t.notes = slices.Delete(t.notes, i, i+1)
		nt.found = false
	}
	if len(t.notes) == 0 {
		t.notes = nil
	}
}

// refusal is what is known of a notification that was read and found no room: also when
// it is out of memory it need not be read again to know what it wants.
type refusal struct {
	low, seq delivery.Seq // see note
	size     int64
	coming   bool // a reader has booked the room for it, and reads it
}

// refuse remembers what a note wants. All places from its lowest on lead to it, and no
// longer to what was remembered of them. mu is held.
func (t *followed) refuse(nt *note) {
	const more = 16 // that are being read, or were waited for in vain
	if len(t.refused) >= 2*t.parked+more {
		t.refused = nil // entries that wait for them read them once more
	}
	r := refusal{low: nt.low, seq: nt.n.Seq, size: nt.counted()}
	i, j := t.refusal(r.low), t.refusal(r.seq+1)
	if i < j && t.refused[j-1].seq == r.seq {
		r.low = min(r.low, t.refused[j-1].low)
	}
	t.refused = slices.Replace(t.refused, i, j, r)
}

// refusalAt returns what is known of who found no room at a place, nil if nothing is.
func (t *followed) refusalAt(from delivery.Seq) *refusal {
	if i := t.refusal(from); i < len(t.refused) && t.refused[i].low <= from {
		return &t.refused[i]
	}
	return nil
}

// refusal returns the index of the first one at a place or behind it.
func (t *followed) refusal(from delivery.Seq) int {
	return sort.Search(len(t.refused), func(i int) bool { return t.refused[i].seq >= from })
}
