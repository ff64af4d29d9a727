package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// engine is one of the two that a hub keeps its state in.
type engine string

const (
	noEngine engine = ""
	onPebble engine = "pebble"
	onRedis  engine = "redis"
)

func (e engine) String() string {
	if e == onRedis {
		return "Redis"
	}
	return "Pebble"
}

// store is where the hub of a scenario keeps its state: a directory, or a
// redis-server of its own that keeps what it acknowledges in a directory.
type store struct {
	dir   string
	redis *redisServer // nil on Pebble
}

func (e *env) newStore(ctx context.Context, on engine) (*store, error) {
	dir, err := os.MkdirTemp(e.dir, string(on)+"-")
	if err != nil || on == onPebble {
		return &store{dir: dir}, err
	}
	server, err := startRedis(ctx, dir)
	return &store{dir: dir, redis: server}, err
}

// flag is what --store is given.
func (s *store) flag() string {
	if s.redis != nil {
		return "redis://" + s.redis.address + "/0"
	}
	return "pebble:" + filepath.Join(s.dir, "hub")
}

// remove ends the store, and frees its space for the next.
func (s *store) remove() {
	if s.redis != nil {
		s.redis.stop()
	}
	_ = os.RemoveAll(s.dir) // the run's directory is removed at its end
}

// size is how many bytes the store's files have.
func (s *store) size() (int64, error) {
	sum := int64(0)
	err := filepath.WalkDir(s.dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return ignoreGone(err)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return ignoreGone(err)
		}
		sum += info.Size()
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("the size of the store: %w", err)
	}
	return sum, nil
}

// ignoreGone takes a file that was removed meanwhile for one of no bytes.
func ignoreGone(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}
