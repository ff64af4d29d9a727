// Package packagestest makes packages of dumps for tests, right ones and others.
package packagestest

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"testing"

	"carillon/payload"
)

// Package is one that is being made. It is for one goroutine.
type Package struct {
	t        testing.TB
	manifest []byte
	files    []file
	// Edit, where it is set, changes the manifest that was made; an emptied part is left out.
	Edit func(manifest string) string
}

type file struct{ name, content string }

// New returns a package with nothing in it. The head says which kind of dump it is of.
func New(t testing.TB, head payload.Head) *Package {
	t.Helper()
	head.Links = append(head.Links, payload.Link{Rel: payload.RelUp, Href: "http://source.example/caps.xml"})
	manifest, err := payload.AppendHead(nil, head)
	if err != nil {
		t.Fatal(err)
	}
	return &Package{t: t, manifest: manifest}
}

// Add adds a bitstream and its entry in the manifest, where the entry has the path or gets one.
func (p *Package) Add(e payload.Entry, content string) {
	p.t.Helper()
	if e.Path == "" {
		e.Path = fmt.Sprintf("/resources/%d", len(p.files))
	}
	p.List(e)
	p.File(e.Path[1:], content)
}

// Tell adds an entry to the manifest alone.
func (p *Package) List(e payload.Entry) {
	p.t.Helper()
	manifest, err := payload.AppendBitstream(p.manifest, &e)
	if err != nil {
		p.t.Fatal(err)
	}
	p.manifest = manifest
}

// File adds a file that the manifest does not have.
func (p *Package) File(name, content string) {
	p.files = append(p.files, file{name, content})
}

// Bytes is the ZIP.
func (p *Package) Bytes() []byte {
	p.t.Helper()
	manifest := string(payload.AppendTail(bytes.Clone(p.manifest), false))
	if p.Edit != nil {
		manifest = p.Edit(manifest)
	}
	files := p.files
	if manifest != "" {
		files = append([]file{{"manifest.xml", manifest}}, files...)
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range files {
		w, err := z.Create(f.name)
		if err == nil {
			_, err = io.WriteString(w, f.content)
		}
		if err != nil {
			p.t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		p.t.Fatal(err)
	}
	return b.Bytes()
}
