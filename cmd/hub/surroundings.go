package main

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
)

// lookAroundEvery is how often it is looked who else may read the store's files.
const lookAroundEvery = time.Minute

// surroundings are what a hub is warned of that is not its own doing: who may read its
// files, and how much memory it may have.
type surroundings struct {
	look func() []string

	mu     sync.Mutex
	looked time.Time // guarded by mu
	found  []string  // guarded by mu
}

// around makes the surroundings of a hub.
func around(f serveCommand) *surroundings {
	return &surroundings{look: func() []string {
		all := f.exposed()
		if warning := warnOfMemory(memoryLimit(), groupLimit(os.DirFS("/"))); warning != "" {
			all = append(all, warning)
		}
		return all
	}}
}

// warnings are what was found a minute ago at most.
func (s *surroundings) warnings() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.looked.IsZero() || time.Since(s.looked) >= lookAroundEvery {
		s.found, s.looked = s.look(), time.Now()
	}
	return s.found
}

// warnOfMemory tells of a limit that the kernel holds the process to, and Go does not know of.
func warnOfMemory(known, limit int64) string {
	if known != math.MaxInt64 || limit == 0 {
		return ""
	}
	return fmt.Sprintf("GOMEMLIMIT is not set, and the process is ended when it takes more than %d MiB (its control group): set GOMEMLIMIT to some three quarters of that, %dMiB", limit>>20, limit>>20*3/4)
}

// noLimit is a limit of control groups (version 1) that is none.
const noLimit = 1 << 60

// groupLimit is the least limit of memory of the process's control groups, in bytes; 0:
// none is seen. root is the file system, from /.
func groupLimit(root fs.FS) int64 {
	least := int64(0)
	take := func(name string) {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 && n < noLimit && (least == 0 || n < least) {
			least = n
		}
	}
	groups, _ := fs.ReadFile(root, "proc/self/cgroup") // there is none but on Linux
	for _, line := range strings.Split(string(groups), "\n") {
		group, ok := strings.CutPrefix(line, "0::/")
		for ok {
			take(path.Join("sys/fs/cgroup", group, "memory.max"))
			if group == "" || group == "." {
				break
			}
			group = path.Dir(group)
		}
	}
	take("sys/fs/cgroup/memory/memory.limit_in_bytes")
	return least
}

// tellAround puts into the log what /readyz warns of.
func (h *house) tellAround() {
	for _, warning := range h.around.warnings() {
		h.logger.Warn(warning)
	}
}
