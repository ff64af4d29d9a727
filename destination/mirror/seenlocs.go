package mirror

import (
	"hash/maphash"
)

// maxRemembered bounds how many resources a memory has: 8 bytes each, and what the map adds.
const maxRemembered = 1 << 20

// seenLocs remembers locs, by a hash of each. It forgets those beyond maxRemembered. The zero memory
// is empty.
type seenLocs struct {
	seed maphash.Seed
	locs map[uint64]struct{}
}

func (m *seenLocs) add(loc string) {
	if m.locs == nil {
		m.seed, m.locs = maphash.MakeSeed(), map[uint64]struct{}{}
	}
	if len(m.locs) < maxRemembered {
		m.locs[maphash.String(m.seed, loc)] = struct{}{}
	}
}

func (m *seenLocs) has(loc string) bool {
	if m.locs == nil {
		return false
	}
	_, is := m.locs[maphash.String(m.seed, loc)]
	return is
}

// settled reports whether a resource in m became a copy that is as r says, so that nothing is left
// to be done for it. A copy that was like that before does not count.
func (m *seenLocs) settled(r *Resource, c *Copy) bool {
	return c != nil && c.State == Whole && c.Described == r.Described && m.has(r.Loc)
}
