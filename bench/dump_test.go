package main

import (
	"archive/zip"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	source "carillon/destination/lists"
)

// The loop that packs and the one that unpacks are no shortcuts: what comes out is what was there.
func TestDumpLoops(t *testing.T) {
	const files = 30
	from, work := t.TempDir(), t.TempDir()
	for i := range files {
		if err := writeFile(filepath.Join(from, file(i*100)), contentOf(i, dumpedBytes, i%2 > 0)); err != nil {
			t.Fatal(err)
		}
	}
	pack, err := newPacker()
	if err != nil {
		t.Fatal(err)
	}
	for name, with := range map[string]zip.Compressor{"archive/zip": nil, "klauspost": pack} {
		if err := packAll(from, work, with); err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(http.FileServer(http.Dir(work)))
		defer server.Close()
		d := &dumping{mirroring: &mirroring{dir: t.TempDir(), client: server.Client()}}
		to := t.TempDir()
		n, err := d.unpackAll(t.Context(), []source.Package{{URI: server.URL + "/" + loopZIP}}, to)
		if err != nil || n != files {
			t.Fatalf("%s: %d entries, %v", name, n, err)
		}
		for i := range files {
			got, err := os.ReadFile(filepath.Join(to, file(i*100)))
			if want := contentOf(i, dumpedBytes, i%2 > 0); err != nil || string(got) != string(want) {
				t.Errorf("%s: file %d is not what was packed: %v", name, i, err)
			}
		}
	}
	info, err := os.Stat(filepath.Join(work, loopZIP))
	if err != nil {
		t.Fatal(err)
	}
	// Half of it is as good as random, and text becomes about half of it.
	if size := info.Size(); size < files*dumpedBytes/2 || size > files*dumpedBytes {
		t.Errorf("the ZIP has %d bytes of %d: the content packs unlike that of a Source", size, files*dumpedBytes)
	}
}

func TestPackEnds(t *testing.T) {
	if err := packAll(t.TempDir(), t.TempDir(), nil); err != nil {
		t.Errorf("an empty directory: %v", err)
	}
	if err := packAll(filepath.Join(t.TempDir(), "none"), t.TempDir(), nil); err == nil {
		t.Error("no directory: no error")
	}
}
