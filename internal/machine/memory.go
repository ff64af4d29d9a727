package machine

import (
	"fmt"
	"io/fs"
	"math"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// MemoryLimit returns what the operator allows the process by GOMEMLIMIT, in bytes;
// math.MaxInt64: there is no limit.
func MemoryLimit() int64 { return debug.SetMemoryLimit(-1) }

// WarnOfMemory reports a limit that the kernel holds the process to, and Go does not know of.
func WarnOfMemory(known, limit int64) string {
	if known != math.MaxInt64 || limit == 0 {
		return ""
	}
	return fmt.Sprintf(
		"GOMEMLIMIT is not set, and the process is ended when it takes more than %d MiB (its control group): set GOMEMLIMIT to some three quarters of that, %dMiB",
		limit>>20, limit>>20*3/4,
	)
}

// noLimit is the value of control groups (version 1) without a limit.
const noLimit = 1 << 60

// GroupLimit is the least limit of memory of the process's control groups, in bytes; 0 without a
// visible one. root is the file system, from /.
func GroupLimit(root fs.FS) int64 {
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
	groups, _ := fs.ReadFile(root, "proc/self/cgroup") // exists on Linux only
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
