package main

import (
	"math"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
)

// The least limit counts, of the process's own group and of those above.
func TestGroupLimit(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for name, test := range map[string]struct {
		files fstest.MapFS
		want  int64
	}{
		"none":               {fstest.MapFS{}, 0},
		"a container's":      {fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("2147483648\n")}, 2 << 30},
		"no limit":           {fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("max\n")}, 0},
		"of a service":       {fstest.MapFS{"proc/self/cgroup": file("0::/system.slice/hub.service\n"), "sys/fs/cgroup/system.slice/hub.service/memory.max": file("max\n"), "sys/fs/cgroup/system.slice/memory.max": file("1048576\n")}, 1 << 20},
		"version 1":          {fstest.MapFS{"proc/self/cgroup": file("4:memory:/x\n"), "sys/fs/cgroup/memory/memory.limit_in_bytes": file("1073741824\n")}, 1 << 30},
		"version 1, no such": {fstest.MapFS{"sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n")}, 0},
	} {
		if got := groupLimit(test.files); got != test.want {
			t.Errorf("%s: %d; want %d", name, got, test.want)
		}
	}
	if warnOfMemory(math.MaxInt64, 0) != "" || warnOfMemory(1<<30, 2<<30) != "" {
		t.Error("it warns where there is no limit, or where it is known")
	}
	if got := warnOfMemory(math.MaxInt64, 2<<30); !strings.Contains(got, "2048 MiB") || !strings.Contains(got, "1536MiB") {
		t.Error(got)
	}
}

// A store that everybody can write to is a warning of /readyz.
func TestReadyWarnsOfExposedStore(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		return // modes say nothing there
	}
	dir := filepath.Join(t.TempDir(), "store")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	p := startHub(t, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "pebble:"+dir)
	_, text, err := answer(http.Get("http://" + p.ready["admin"] + "/readyz"))
	if err != nil || !strings.Contains(text, "warning: --store: every user of this machine may change the directory "+dir+" (mode 0777)") {
		t.Errorf("%v\n%s", err, text)
	}
	if err := p.stop(t); err != nil {
		t.Error(err)
	}
}
