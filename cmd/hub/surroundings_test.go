package main

import (
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

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
