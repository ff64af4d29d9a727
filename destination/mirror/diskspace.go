package mirror

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"carillon/internal/durable"
)

// measureInterval is how old the knowledge about free space may be.
const measureInterval = time.Second

// diskSpace watches the space that is left on the disk.
type diskSpace struct {
	dir string
	min uint64

	mu       sync.Mutex
	measured time.Time // guarded by mu
	left     uint64    // guarded by mu; the free space, minus what was taken since
	known    bool      // guarded by mu
}

func newDiskSpace(dir string, minFree uint64) *diskSpace { return &diskSpace{dir: dir, min: minFree} }

// reserve reports whether there is room for so many bytes more; 0 or less: an unknown number.
func (r *diskSpace) reserve(bytes int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); r.measured.IsZero() || now.Sub(r.measured) >= measureInterval {
		r.left, r.known = durable.Free(r.dir)
		r.measured = now
	}
	if !r.known {
		return nil
	}
	need := uint64(max(bytes, 0))
	if r.left < r.min || r.left-r.min < need {
		return fmt.Errorf("%w: %d bytes are free, %d are to stay free, %d are needed", ErrRoom, r.left, r.min, need)
	}
	r.left -= need
	return nil
}

// ErrRoom: the disk has not the room for it.
var ErrRoom = errors.New("there is no room on the mirror's disk")
