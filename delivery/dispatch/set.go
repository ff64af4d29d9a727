package dispatch

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"

	"carillon/subscription"
)

// entrySet finds entries by their ID: open addressing with linear probing, nine
// bytes a slot, as the key is in the entry. It takes 11 to 14 bytes an entry, of
// which a map would take 40. IDs are hashes that strangers can choose among, so
// their places depend on a seed of the set. Guarded by table.mu.
type entrySet struct {
	slots []*entry
	tags  []uint8 // of what is in the slots, so that few entries are looked at; 0: free
	n     int
	seed  uint64
	// moved counts the times that entries may have come to where a walk from the
	// end to the front has been: then it misses them.
	moved int
}

const minSlots = 8

func newEntrySet() entrySet {
	return entrySet{slots: make([]*entry, minSlots), tags: make([]uint8, minSlots), seed: rand.Uint64()}
}

func (s *entrySet) get(id subscription.ID) *entry {
	slot, _, _ := s.find(&id)
	return s.slots[slot]
}

// put adds an entry, in the place of one with the same ID.
func (s *entrySet) put(e *entry) {
	if s.n+1 > len(s.slots)/5*4 {
		s.grow()
	}
	slot, tag, found := s.find(&e.id)
	if !found {
		s.n++
	}
	s.slots[slot], s.tags[slot] = e, tag
}

// grow makes room by a quarter, or doubles what is small.
func (s *entrySet) grow() {
	old := s.slots
	size := len(old) + max(len(old)/4, min(len(old), 1024))
	s.slots, s.tags = make([]*entry, size), make([]uint8, size)
	s.moved++
	for _, e := range old {
		if e != nil {
			slot, tag := s.home(&e.id)
			for s.tags[slot] != 0 {
				slot = s.next(slot)
			}
			s.slots[slot], s.tags[slot] = e, tag
		}
	}
}

// remove takes out the entry with an ID, and moves those up that it kept from
// their place.
func (s *entrySet) remove(id subscription.ID) {
	hole, _, found := s.find(&id)
	if !found {
		return
	}
	s.n--
	for slot := s.next(hole); s.tags[slot] != 0; slot = s.next(slot) {
		home, _ := s.home(&s.slots[slot].id)
		if hole < slot && hole < home && home <= slot || slot < hole && (hole < home || home <= slot) {
			continue // between its home and the hole nothing is free
		}
		if slot < hole {
			s.moved++ // around the end
		}
		s.slots[hole], s.tags[hole] = s.slots[slot], s.tags[slot]
		hole = slot
	}
	s.slots[hole], s.tags[hole] = nil, 0
}

// find returns the slot of an ID and true, or the free one where it belongs.
func (s *entrySet) find(id *subscription.ID) (slot int, tag uint8, found bool) {
	slot, tag = s.home(id)
	for s.tags[slot] != 0 {
		if s.tags[slot] == tag && s.slots[slot].id == *id {
			return slot, tag, true
		}
		slot = s.next(slot)
	}
	return slot, tag, false
}

// home returns the slot where the search for an ID begins, and its tag.
func (s *entrySet) home(id *subscription.ID) (slot int, tag uint8) {
	hi, lo := bits.Mul64(
		binary.LittleEndian.Uint64(id[:8])^s.seed, binary.LittleEndian.Uint64(id[8:])^bits.Reverse64(s.seed),
	)
	hi, lo = bits.Mul64(hi^lo, uint64(len(s.slots)))
	return int(hi), uint8(lo>>56) | 1
}

func (s *entrySet) next(slot int) int {
	if slot++; slot < len(s.slots) {
		return slot
	}
	return 0
}
