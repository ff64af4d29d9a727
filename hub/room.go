package hub

import "sync"

// longBody is the part of a body that may take from the whole room for bodies. What
// is longer holds the rest of it in the share for long bodies, so that these
// never keep out the short ones.
const longBody = 1 << 20

// room is the memory for bodies that are being taken in. Nobody waits for it: a
// client that is told to come again holds nothing meanwhile.
type room struct {
	mu   sync.Mutex
	all  int64 // bytes that are free. Owned by mu.
	long int64 // how many of them what is beyond longBody may take. Owned by mu.
}

// newRoom returns a room of so many bytes. An eighth is kept for short bodies, or
// what there is beside one body of the longest kind.
func newRoom(bytes, longest int64) *room {
	return &room{all: bytes, long: bytes - min(bytes/8, bytes-longest)}
}

// held is what one body holds of a room. It belongs to one goroutine.
type held struct {
	room *room
	size int64
}

// grow takes room for more bytes, or returns errBusy and takes none.
func (h *held) grow(bytes int64) error {
	long := beyond(h.size+bytes) - beyond(h.size)
	h.room.mu.Lock()
	defer h.room.mu.Unlock()
	if h.room.all < bytes || h.room.long < long {
		return errBusy
	}
	h.room.all -= bytes
	h.room.long -= long
	h.size += bytes
	return nil
}

// release gives everything back.
func (h *held) release() {
	h.room.mu.Lock()
	defer h.room.mu.Unlock()
	h.room.all += h.size
	h.room.long += beyond(h.size)
	h.size = 0
}

// beyond is how much of so many bytes belongs to the share for long bodies.
func beyond(bytes int64) int64 { return max(0, bytes-longBody) }
