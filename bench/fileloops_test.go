package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// The loops take no shortcuts: what each writes is the content of the Source.
func TestFileLoops(t *testing.T) {
	const files = 30
	from, work, unpacked, got := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	for i := range files {
		if err := writeFile(filepath.Join(from, file(i)), textOf(i, fileBytes)); err != nil {
			t.Fatal(err)
		}
	}
	if err := packAll(from, work); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(work, loopZIP))
	if err != nil {
		t.Fatal(err)
	}
	if size := info.Size(); size < files*fileBytes/4 || size > files*fileBytes*3/4 {
		t.Errorf("the ZIP has %d bytes of %d: the content packs unlike that of a Source", size, files*fileBytes)
	}
	for dir, loop := range map[string]func(url string) error{
		unpacked: func(url string) error {
			n, err := unpackAll(t.Context(), []string{url + "copy/" + loopZIP}, t.TempDir(), unpacked)
			if n != files {
				t.Errorf("%d entries", n)
			}
			return err
		},
		got: func(url string) error { return getAll(t.Context(), url+"from/", got, files) },
	} {
		mux := http.NewServeMux()
		mux.Handle("/copy/", http.StripPrefix("/copy/", http.FileServer(http.Dir(work))))
		mux.Handle("/from/", http.StripPrefix("/from/", http.FileServer(http.Dir(from))))
		server := httptest.NewServer(mux)
		err := loop(server.URL + "/")
		server.Close()
		if err != nil {
			t.Fatal(err)
		}
		for i := range files {
			text, err := os.ReadFile(filepath.Join(dir, file(i)))
			if err != nil || string(text) != string(textOf(i, fileBytes)) {
				t.Errorf("file %d is not that of the Source: %v", i, err)
			}
		}
	}
}

func TestPackEnds(t *testing.T) {
	if err := packAll(t.TempDir(), t.TempDir()); err != nil {
		t.Errorf("an empty directory: %v", err)
	}
	if err := packAll(filepath.Join(t.TempDir(), "none"), t.TempDir()); err == nil {
		t.Error("no directory: no error")
	}
}
