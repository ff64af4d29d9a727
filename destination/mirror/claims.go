package mirror

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"
)

// errPathInUse: two resources have the same digest.
var errPathInUse = &failure{state: Failed, reason: "another resource has its path"}

// claims gives out paths. Those of jobs that are not saved yet it knows beside the Catalog.
type claims struct {
	catalog Catalog

	mu    sync.Mutex
	files map[string]string // loc by claim; guarded by mu
	dirs  map[string]int    // how many of them are below; guarded by mu
	// lately are claims of directories that were looked up: no resource has them. Where nothing was
	// below one, it has what was given in it since: the Catalog knows of nothing else there.
	lately map[string]map[string]struct{} // guarded by mu
	kept   int                            // bytes of memory for lately, about; guarded by mu
}

const (
	// maxKept bounds the memory for lately, bytes: a Source chooses how long its paths are.
	maxKept = 16 << 20
	// keptEach is what a map needs for an entry beside its text, bytes.
	keptEach = 64
)

// give finds the path of a resource that has none, and claims it until settle.
func (c *claims) give(ctx context.Context, loc string, names []string) (at, claim string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	names = slices.Clone(names)
	last := len(names) - 1
	for i := range last {
		dir := claimOf(path.Join(names[:i+1]...))
		if _, known := c.lately[dir]; known {
			continue
		}
		owner, below, err := c.owner(ctx, dir)
		if err != nil {
			return "", "", err
		}
		if owner != "" {
			names[i] += dirMark
			continue
		}
		c.keep(len(dir) + keptEach)
		c.lately[dir] = nil
		if !below {
			c.lately[dir] = map[string]struct{}{}
		}
	}
	for try := range 2 {
		at = path.Join(names...)
		claim = claimOf(at)
		owner, below, err := c.owner(ctx, claim)
		if err != nil {
			return "", "", err
		}
		if !below && (owner == "" || owner == loc) {
			c.reserve(claim, loc)
			return at, claim, nil
		}
		if try == 0 {
			names[last] = distinct(names[last], loc)
		}
	}
	return "", "", errPathInUse
}

func (c *claims) owner(ctx context.Context, claim string) (loc string, below bool, err error) {
	if loc, below = c.files[claim], c.dirs[claim] > 0; loc != "" || below {
		return loc, below, nil
	}
	if dir := strings.LastIndexByte(claim, '/'); dir > 0 {
		if given := c.lately[claim[:dir]]; given != nil {
			if _, is := given[claim]; !is {
				return "", false, nil
			}
		}
	}
	loc, below, err = c.catalog.Owner(ctx, claim)
	if err != nil && errors.Is(err, ErrNone) {
		err = nil
	}
	return loc, below, err
}

func (c *claims) reserve(claim, loc string) {
	if c.files == nil {
		c.files, c.dirs = map[string]string{}, map[string]int{}
	}
	c.files[claim] = loc
	delete(c.lately, claim)
	in, size := claim, 0
	for dir := range above(claim) {
		c.dirs[dir]++
		if given := c.lately[dir]; given != nil {
			if _, is := given[in]; !is {
				given[in] = struct{}{}
				size += len(claim) + keptEach // in is a part of claim, and keeps it all
			}
		}
		in = dir
	}
	c.keep(size)
}

// keep counts bytes of lately, and empties it where they are too many.
func (c *claims) keep(size int) {
	if c.kept += size; c.lately == nil || c.kept > maxKept {
		c.forget()
	}
}

func (c *claims) forget() { c.lately, c.kept = map[string]map[string]struct{}{}, 0 }

// settle forgets a claim that the Catalog knows, or that is no longer held.
func (c *claims) settle(claim string) {
	if claim == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.files, claim)
	for dir := range above(claim) {
		if c.dirs[dir]--; c.dirs[dir] == 0 {
			delete(c.dirs, dir)
		}
	}
}

// above gives the directories that a path is in.
func above(claim string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := strings.LastIndexByte(claim, '/'); i > 0; i = strings.LastIndexByte(claim[:i], '/') {
			if !yield(claim[:i]) {
				return
			}
		}
	}
}
