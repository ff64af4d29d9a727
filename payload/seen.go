package payload

import (
	"hash/maphash"
)

// seen remembers which texts were there, as hashes of 64 bits in an open table. It holds
// MaxEntries at most, and takes eight to 32 bytes for each.
type seen struct {
	seed  maphash.Seed
	slots []uint64 // 0 is free
	n     int
}

// again reports whether text was there before, and remembers it.
func (s *seen) again(text string) bool {
	if s.slots == nil {
		s.seed, s.slots = maphash.MakeSeed(), make([]uint64, 64)
	}
	h := max(1, maphash.String(s.seed, text))
	if s.put(h) {
		return true
	}
	if s.n++; 2*s.n > len(s.slots) {
		old := s.slots
		s.slots = make([]uint64, 2*len(old))
		for _, h := range old {
			if h != 0 {
				s.put(h)
			}
		}
	}
	return false
}

// put puts h into a free slot, unless it is in one.
func (s *seen) put(h uint64) (before bool) {
	mask := uint64(len(s.slots) - 1)
	for at := h & mask; ; at = (at + 1) & mask {
		switch s.slots[at] {
		case h:
			return true
		case 0:
			s.slots[at] = h
			return false
		}
	}
}
