package machine_test

import (
	"math"
	"strings"
	"testing"
	"testing/fstest"

	"carillon/internal/machine"
)

// The least limit counts, of the process's own group and of those above.
func TestGroupLimit(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for name, test := range map[string]struct {
		files fstest.MapFS
		want  int64
	}{
		"none":          {fstest.MapFS{}, 0},
		"a container's": {fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("2147483648\n")}, 2 << 30},
		"no limit":      {fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("max\n")}, 0},
		"of a service": {
			fstest.MapFS{
				"proc/self/cgroup": file("0::/system.slice/hub.service\n"),
				"sys/fs/cgroup/system.slice/hub.service/memory.max": file("max\n"),
				"sys/fs/cgroup/system.slice/memory.max":             file("1048576\n"),
			},
			1 << 20,
		},
		"version 1": {fstest.MapFS{
			"proc/self/cgroup":                           file("4:memory:/x\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("1073741824\n"),
		}, 1 << 30},
		"version 1, no such": {fstest.MapFS{"sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n")}, 0},
	} {
		if got := machine.GroupLimit(test.files); got != test.want {
			t.Errorf("%s: %d; want %d", name, got, test.want)
		}
	}
	if machine.WarnOfMemory(math.MaxInt64, 0) != "" || machine.WarnOfMemory(1<<30, 2<<30) != "" {
		t.Error("it warns where there is no limit, or where it is known")
	}
	if got := machine.WarnOfMemory(math.MaxInt64, 2<<30); !strings.Contains(got, "2048 MiB") || !strings.Contains(got, "1536MiB") {
		t.Error(got)
	}
}
