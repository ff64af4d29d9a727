package main

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestChangeListOfAProcess: an accepted event is in the Change List at once, without a hub, and is
// there after a kill of the process.
func TestChangeListOfAProcess(t *testing.T) {
	t.Parallel()
	args := []string{
		"--listen", "127.0.0.1:0", "--intake", "127.0.0.1:0", "--data", t.TempDir(), "--hub", "http://127.0.0.1:1/",
		"--url", "http://source.example/", "--hide-channel", "default", "--lastmod-always", "--log-level", "error",
	}
	get := func(p *process, path string) []byte {
		t.Helper()
		resp, err := http.Get("http://" + p.listen + path) // packed on the way
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK || !resp.Uncompressed && path == "/default/changelist.xml" {
			t.Fatalf("%s: %v %v", path, resp, err)
		}
		return body
	}
	p := startProcess(t, args...)
	defer func() { p.kill() }()
	resp, err := http.Post("http://"+p.intake+"/sets/default/events", "application/json",
		strings.NewReader(`[{"loc":"http://a.example/1","change":"created"},{"loc":"http://a.example/2","change":"deleted"}]`))
	if err != nil || resp.StatusCode != http.StatusAccepted {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
	before := get(p, "/default/changelist.xml")
	if bytes.Count(before, []byte("<url>")) != 2 || bytes.Count(before, []byte("<lastmod>")) != 2 {
		t.Errorf("the list is\n%s", before)
	}
	if list := get(p, "/default/capabilitylist.xml"); bytes.Contains(list, []byte("change-notification")) ||
		!bytes.Contains(list, []byte("http://source.example/default/changelist.xml")) {
		t.Errorf("the Capability List is\n%s", list)
	}
	p.kill()
	p = startProcess(t, args...)
	if after := get(p, "/default/changelist.xml"); !bytes.Equal(before, after) {
		t.Errorf("the list was\n%s\nand is\n%s", before, after)
	}
}
