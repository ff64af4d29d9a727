// Package bodies takes in the bodies of requests from strangers: memory is counted as it is filled, and
// a client that is slower than the least rate is given up. What a client announces costs nothing.
// It serves every side that is sent long bodies.
package bodies

import "sync"

// Long is the part of a body, in bytes, that may take from the whole Room. The part beyond it takes
// from the share for long bodies, so that these never keep out the short ones.
const Long = 1 << 20

// Room is the memory for bodies that are being read. No request waits for it: a refused client holds
// nothing meanwhile.
type Room struct {
	full error
	mu   sync.Mutex
	all  int64 // bytes that are free. Owned by mu.
	long int64 // how many of them what is beyond Long may take. Owned by mu.
}

// NewRoom returns a Room of so many bytes; full is its error when it has none left. An eighth is kept
// for short bodies, or the rest beside one body of the longest kind.
func NewRoom(bytes, longest int64, full error) *Room {
	return &Room{full: full, all: bytes, long: bytes - min(bytes/8, bytes-longest)}
}

// Held is what one body holds of a Room. It belongs to one goroutine.
type Held struct {
	room *Room
	size int64
}

// Hold returns what a body holds that has not begun.
func (r *Room) Hold() Held { return Held{room: r} }

// Grow takes room for more bytes, or returns the Room's error and takes none.
func (h *Held) Grow(bytes int64) error {
	long := beyond(h.size+bytes) - beyond(h.size)
	h.room.mu.Lock()
	defer h.room.mu.Unlock()
	if h.room.all < bytes || h.room.long < long {
		return h.room.full
	}
	h.room.all -= bytes
	h.room.long -= long
	h.size += bytes
	return nil
}

// Release gives everything back.
func (h *Held) Release() {
	h.room.mu.Lock()
	defer h.room.mu.Unlock()
	h.room.all += h.size
	h.room.long += beyond(h.size)
	h.size = 0
}

// beyond is how much of so many bytes belongs to the share for long bodies.
func beyond(bytes int64) int64 { return max(0, bytes-Long) }
