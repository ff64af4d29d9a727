//go:build !race

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Our own notifier and hub have no finding at all: Change Lists with their index, a Resource List,
// dumps of both, archives of all four, a topic, and the resources.
func TestCheckOfOurOwn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := filepath.Join(dir, "files")
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(files, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(files, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		write(fmt.Sprintf("%d é&'.txt", i), strings.Repeat("x", i))
	}
	hub := launch(t, "hub", hubArgs(t, dir)...)
	listen := freeAddress(t)
	notifier := launch(t, "notifier", "--listen", listen, "--describedby", "http://"+listen+"/books/files/1.txt", "--describedby", "books=http://"+listen+"/books/files/1.txt",
		"--intake", "127.0.0.1:0", "--hub", hub.ready["url"],
		"--data", filepath.Join(dir, "notifier"), "--watch", "books="+files, "--serve", "books",
		"--watch-settle", "100ms", "--max-wait", "1ms", "--changelist-entries", "5", "--dump", "books", "--archive", "books", "--archive-every", "1m")
	notifier.await("a Resource List", func() bool { return notifier.countLogged("a Resource List was made") > 0 })
	closed := 0
	notifier.await("closed lists", func() bool { closed = notifier.countLogged("a Change List was closed"); return closed > 1 })
	published := 0
	notifier.await("dumps", func() bool {
		return notifier.countLogged("a dump was made") > closed && notifier.archived("resourcedump-archive", "changedump-archive") > closed
	})
	notifier.await("a notification", func() bool { published = notifier.countLogged("the hub accepted a notification"); return published > 0 })
	write("1 é&'.txt", "another")
	if err := os.Remove(filepath.Join(files, "2 é&'.txt")); err != nil {
		t.Fatal(err)
	}
	notifier.await("what has changed", func() bool { return notifier.countLogged("the hub accepted a notification") > published })

	site := notifier.ready["url"]
	for _, place := range []string{site, site + "books/change/", site + "books/changelist-archive.xml"} {
		var out, stderr bytes.Buffer
		status := run(t.Context(), []string{"check", place, "--sample", "100"}, &out, &stderr)
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		for _, line := range lines[:len(lines)-1] {
			t.Error(line)
		}
		last := lines[len(lines)-1]
		if status != 0 || !strings.Contains(last, " 0 errors") || strings.Contains(last, "not everything") || strings.Contains(last, " 0 resources") || strings.Contains(last, " 0 packages") {
			t.Errorf("%s: status %d: %s %s", place, status, last, &stderr)
		}
	}
}
