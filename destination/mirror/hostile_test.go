package mirror_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"carillon/destination/mirror"
	"carillon/destination/packages/packagestest"
	"carillon/payload"
)

// evil is what an entry of a hostile package would have somewhere.
const evil = "evil content"

// hostile are packages by what is wrong with them: the ZIP that is right is given, and what is added
// to it, or made of it.
func hostile() map[string]func(t *testing.T, good []byte) []byte {
	all := map[string]func(t *testing.T, good []byte) []byte{
		"truncated":        func(_ *testing.T, good []byte) []byte { return good[:len(good)/2] },
		"something before": func(_ *testing.T, good []byte) []byte { return append([]byte("#!/bin/sh\n"), good...) },
		"something after":  func(_ *testing.T, good []byte) []byte { return append(bytes.Clone(good), evil...) },
		"no ZIP":           func(*testing.T, []byte) []byte { return []byte(strings.Repeat(evil, 100)) },
		"empty":            func(*testing.T, []byte) []byte { return nil },
		"encrypted": func(_ *testing.T, good []byte) []byte {
			good = bytes.Clone(good)
			for i := range good[:len(good)-10] {
				switch string(good[i : i+4]) {
				case "PK\x03\x04":
					good[i+6] |= 1
				case "PK\x01\x02":
					good[i+8] |= 1
				}
			}
			return good
		},
		"an unknown method": func(_ *testing.T, good []byte) []byte {
			good = bytes.Clone(good)
			for i := range good[:len(good)-12] {
				if string(good[i:i+4]) == "PK\x01\x02" {
					good[i+10] = 93
				}
			}
			return good
		},
		"a bomb": func(t *testing.T, good []byte) []byte {
			return extended(t, good, &zip.FileHeader{Name: "bomb", Method: zip.Deflate}, strings.Repeat("\x00", 65<<20))
		},
	}
	for _, name := range []string{
		"../evil", "../../evil", "a/../../../evil", "/evil", "/etc/evil", `..\evil`, `\evil`, `C:\evil`, "C:/evil", "C:evil", `\\host\share\evil`,
		"//host/share/evil", "%2e%2e%2fevil", "..%2fevil", "%252e%252e/evil", "a\x00b", "evil\n", "resources/0", ".carillon/../../evil",
	} {
		all[fmt.Sprintf("a name %q", name)] = func(t *testing.T, good []byte) []byte {
			return extended(t, good, &zip.FileHeader{Name: name}, evil)
		}
	}
	for name, mode := range map[string]fs.FileMode{
		"a symbolic link": fs.ModeSymlink | 0o777, "a device": fs.ModeDevice | 0o666, "a FIFO": fs.ModeNamedPipe | 0o666, "a socket": fs.ModeSocket | 0o666,
	} {
		all[name] = func(t *testing.T, good []byte) []byte {
			h := &zip.FileHeader{Name: "special"}
			h.SetMode(mode)
			return extended(t, good, h, "../../evil")
		}
	}
	return all
}

// extended is a ZIP with one more entry.
func extended(t *testing.T, good []byte, h *zip.FileHeader, content string) []byte {
	t.Helper()
	old, err := zip.NewReader(bytes.NewReader(good), int64(len(good)))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range old.File {
		if err := w.Copy(f); err != nil {
			t.Fatal(err)
		}
	}
	one, err := w.CreateHeader(h)
	if err == nil {
		_, err = one.Write([]byte(content))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// tree is all that is in a directory, links and modes too.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		size := info.Size()
		if d.IsDir() {
			size = 0 // as the file system likes
		}
		fmt.Fprintf(&all, "%s %s %d\n", name, info.Mode(), size)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// TestHostilePackages has one package of each kind beside a good one. Nothing appears outside of the
// mirror, nothing but copies in it; with auto the resources come by GET, with only they do not come.
func TestHostilePackages(t *testing.T) {
	for name, spoil := range hostile() {
		t.Run(name, func(t *testing.T) {
			for _, mode := range []func(*mirror.Config){auto, only} {
				parent := t.TempDir()
				s := newSource(t)
				s.content["/a"], s.content["/b"] = "text a", "text b"
				l := s.list()
				d := s.pack(t, l, 2, nil)
				uri := "/dump/1.zip"
				d.packages[1] = s.serve(uri, spoil(t, []byte(s.content[uri])), l.at)
				c := newCopies(t, s, func(c *mirror.Config) {
					mode(c)
					c.Dir = filepath.Join(parent, "copies")
				})
				c.dir = c.cfg.Dir
				if err := os.WriteFile(filepath.Join(parent, "evil"), []byte("mine"), 0o600); err != nil {
					t.Fatal(err)
				}
				before := tree(t, parent)
				c.baselineOf(d, withDump)
				p := c.Progress()
				for _, e := range l.resources {
					from := strings.TrimPrefix(e.Loc, s.URL)
					if got, _ := c.store.Mirrored().Copy(t.Context(), e.Loc); got.State == mirror.Whole {
						c.want(from[1:], s.content[from])
					} else if c.cfg.Dump == mirror.DumpAuto {
						t.Errorf("%s is %s: %s", from, got.State, got.Reason)
					}
				}
				if p.Packages != 1 || p.Unusable != 1 || p.Unpacked != 1 || c.cfg.Dump == mirror.DumpOnly && (p.Fetched != 1 || p.Failed != 1) {
					t.Errorf("%+v", p)
				}
				c.nothingHalf()
				if err := os.RemoveAll(filepath.Join(c.dir, c.host)); err != nil {
					t.Fatal(err)
				}
				if after := tree(t, parent); after != before {
					t.Errorf("before:\n%safter:\n%s", before, after)
				}
			}
		})
	}
}

// TestLyingManifests has manifests that are right but for what they say of one resource.
func TestLyingManifests(t *testing.T) {
	other := "sha-256:" + digest("other")
	for name, change := range map[string]func(e *payload.Entry){
		"another hash":   func(e *payload.Entry) { e.Hash = other },
		"another length": func(e *payload.Entry) { e.Length = "7" },
		"a hash of another algorithm that is wrong": func(e *payload.Entry) { e.Hash = "md5:d41d8cd98f00b204e9800998ecf8427e" },
	} {
		t.Run(name, func(t *testing.T) {
			for _, hashed := range []bool{true, false} {
				s := newSource(t)
				s.content["/a"], s.content["/b"] = "text a", "text b"
				l := s.list()
				c := newCopies(t, s, auto)
				d := s.pack(t, l, 1, func(p *packagestest.Package, i int, e payload.Entry) bool {
					if i == 0 {
						change(&e)
						p.Add(e, s.content[strings.TrimPrefix(e.Loc, s.URL)])
					}
					return i == 0
				})
				if !hashed {
					l.resources[0].Hash, l.resources[0].Length = "", ""
				}
				c.baselineOf(d, withDump)
				c.want("a", "text a")
				c.want("b", "text b")
				if p := c.Progress(); p.Fetched != 2 || p.Unpacked != 1 {
					t.Errorf("hashed %v: %+v", hashed, p)
				}
			}
		})
	}
}
