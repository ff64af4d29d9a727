package pebblestore

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// The defaults and bounds of a Config.
const (
	DefaultCacheBytes    = 64 << 20
	DefaultMemTableBytes = 16 << 20
	DefaultMinFree       = 256 << 20

	minMemTableBytes = 1 << 20
	maxMemTableBytes = 1 << 30
)

// maxOpenFiles bounds the table files that are held open. Sockets need the
// process's descriptors more.
const maxOpenFiles = 256

// memTables is how many memtables may wait to be written out before writers wait
// for them. With DefaultMemTableBytes one publication of the largest size
// fits beside the current memtable.
const memTables = 4

// Config says where a store is and what it may use.
type Config struct {
	// Dir is the directory, made if it does not exist (its parents too). It
	// must be empty, or a store that this package made.
	Dir string
	// FS is the file system; nil: the disk. Tests give vfs.NewMem() or
	// vfs.NewCrashableMem().
	FS vfs.FS
	// Logger takes what an operator should know; nil: nowhere.
	Logger *slog.Logger
	// CacheBytes is the memory for blocks read from disk. Default 64 MiB.
	CacheBytes int64
	// MemTableBytes is the size of one memtable, 1 MiB to 1 GiB; up to four
	// are held while they are written out. Default 16 MiB.
	MemTableBytes uint64
	// MinFree is how many bytes must be free on the disk before anything
	// that grows the store is taken. Default 256 MiB; 1 turns the check off
	// in effect. File systems that cannot tell are not checked.
	MinFree uint64
	// Fatal is called once when the engine can no longer write, with the
	// error that gives the reason why. It should end the process: if it returns, every
	// further call is ErrUnavailable, but Pebble itself may panic. Default:
	// log the error and end the process with status 1.
	Fatal func(error)

	unpacking bool // the directory may be one that a restore has not finished
}

func (c Config) withDefaults() Config {
	if c.FS == nil {
		c.FS = vfs.Default
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.CacheBytes == 0 {
		c.CacheBytes = DefaultCacheBytes
	}
	if c.MemTableBytes == 0 {
		c.MemTableBytes = DefaultMemTableBytes
	}
	if c.MinFree == 0 {
		c.MinFree = DefaultMinFree
	}
	if c.Fatal == nil {
		logger := c.Logger
		c.Fatal = func(err error) {
			logger.Error("the store can no longer write; ending", "error", err)
			os.Exit(1)
		}
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Dir == "":
		return errors.New("the store's directory is not set")
	case c.CacheBytes < 0:
		return fmt.Errorf("CacheBytes is %d; it must not be negative", c.CacheBytes)
	case c.MemTableBytes < minMemTableBytes || c.MemTableBytes > maxMemTableBytes:
		return fmt.Errorf("MemTableBytes is %d; it must be between %d and %d",
			c.MemTableBytes, minMemTableBytes, maxMemTableBytes)
	}
	return nil
}

// options are Pebble's, for a store of small records and a few big bodies.
func (c Config) options(fs vfs.FS, cache *pebble.Cache, logger pebble.Logger) *pebble.Options {
	return &pebble.Options{
		FS:                          fs,
		FormatMajorVersion:          pebble.FormatWALSyncChunks,
		Logger:                      logger,
		Cache:                       cache,
		MaxOpenFiles:                maxOpenFiles,
		MemTableSize:                c.MemTableBytes,
		MemTableStopWritesThreshold: memTables,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
		// Trim deletes ranges; without a delay that forces a flush, an idle
		// store would keep their space.
		FlushDelayDeleteRange: flushDelay,
		EventListener:         listener(logger),
	}
}
