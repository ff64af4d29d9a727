package pebblestore

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

var (
	errLowSpace = errors.New("the disk is nearly full")
	errNoSpace  = errors.New("the disk is full")
)

// spaceInterval is how old the knowledge about free space may be.
const spaceInterval = time.Second

// space watches the room that is left on the disk.
type space struct {
	fs  vfs.FS
	dir string
	min uint64
	log *slog.Logger

	waiting atomic.Bool   // writes wait for room
	low     atomic.Bool   // as of the last look
	looked  atomic.Int64  // when that was, Unix nanoseconds
	looking sync.Mutex    // one look at a time
	closing chan struct{} // closed by stop
	once    sync.Once
}

func newSpace(fs vfs.FS, dir string, minFree uint64, log *slog.Logger) *space {
	return &space{fs: fs, dir: dir, min: minFree, log: log, closing: make(chan struct{})}
}

// guarded is the file system with writes that wait when the disk is full.
func (s *space) guarded() vfs.FS { return vfs.OnDiskFull(s.fs, s.wait) }

func (s *space) stop() { s.once.Do(func() { close(s.closing) }) }

// check reports whether a change may be taken.
func (s *space) check(g growth) error {
	if s.waiting.Load() {
		return unavailable(errNoSpace)
	}
	if g == grows && s.isLow() {
		return unavailable(errLowSpace)
	}
	return nil
}

func (s *space) isLow() bool {
	now := time.Now().UnixNano()
	passed := now - s.looked.Load() // less than 0: the clock was set back
	if 0 <= passed && passed < int64(spaceInterval) || !s.looking.TryLock() {
		return s.low.Load()
	}
	defer s.looking.Unlock()
	s.looked.Store(now)
	free, known := s.free()
	low := known && free < s.min
	if s.low.Swap(low) != low {
		s.log.Warn("free space on the store's disk", "low", low, "free_bytes", free, "min_free_bytes", s.min)
	}
	return low
}

func (s *space) free() (bytes uint64, known bool) {
	usage, err := s.fs.GetDiskUsage(s.dir)
	return usage.AvailBytes, err == nil
}

// wait is called when a write found the disk full. Pebble's writes stand still
// until it returns, and then the write is tried once more. It looks for a while even
// if there seems to be room, since a failure then ends the process.
func (s *space) wait() {
	s.waiting.Store(true)
	defer s.waiting.Store(false)
	s.log.Error("the store's disk is full; writes wait for room")
	tick := time.NewTicker(spaceInterval)
	defer tick.Stop()
	for {
		select {
		case <-s.closing:
			return
		case <-tick.C:
		}
		if free, known := s.free(); !known || free >= s.min/2 {
			s.log.Info("the store's disk has room again", "free_bytes", free)
			return
		}
	}
}

// growth reports whether a change may grow the store.
type growth bool

const (
	grows   growth = true
	shrinks growth = false // or stays as it is
)
