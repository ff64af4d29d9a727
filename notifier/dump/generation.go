package dump

import (
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"carillon/notifier"
	"carillon/notifier/moments"
	"carillon/payload"
)

// Kind says what a generation is.
type Kind string

// The kinds of generations.
const (
	// Resources is a Resource Dump: all resources of a set at one moment (core §11).
	Resources Kind = "resource"
	// Changes is the part of the Change Dump that belongs to one closed Change List (core §13).
	Changes Kind = "change"
)

// Files of a generation, in a directory of package moments that is named for when it begins.
//
//	1.zip, 2.zip, …   the packages
//	generation.json   the generation; in a directory that is being made, 1.json, 2.json, …
//	                  each say that a package is finished
const (
	generationName = "generation.json"
	versionKnown   = 1
	maxGeneration  = 64 << 20 // bytes of generation.json; 50,000 packages need a third of that
)

// generation is a dump that is whole: a Resource Dump, or the packages of one Change List. It
// never changes. Its files stay until the set drops the generation.
type generation struct {
	Version int    `json:"version"`
	Set     string `json:"set"`
	Kind    Kind   `json:"kind"`
	// At is the moment of a Resource Dump's snapshot. From and Until are the interval of a
	// Change List.
	At    time.Time `json:"at,omitzero"`
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Completed is when the last package was finished.
	Completed time.Time `json:"completed"`
	Packages  []zipFile `json:"packages"`
	// LeftOut is how many entries have no content in any package, by reason.
	LeftOut map[Reason]int `json:"left_out,omitempty"`

	dir   string
	since time.Time // by the monotonic clock, when it was completed or loaded
}

// zipFile is one ZIP.
type zipFile struct {
	// Bytes is the size of the file, Hash its SHA-256 in the form of rs:md, "sha-256:…".
	Bytes int64  `json:"bytes"`
	Hash  string `json:"hash"`
	// Entries are those of its manifest, Content the bytes of its members before packing.
	Entries int   `json:"entries"`
	Content int64 `json:"content"`
	// From and Until are what a package of a Change Dump covers.
	From      time.Time `json:"from,omitzero"`
	Until     time.Time `json:"until,omitzero"`
	Completed time.Time `json:"completed"`
	// Manifest is where manifest.xml is in the file, packed as a raw DEFLATE stream.
	Manifest extent `json:"manifest"`
}

// extent is a part of a file.
type extent struct {
	Offset int64 `json:"offset"`
	Packed int64 `json:"packed"`
	Size   int64 `json:"size"` // when unpacked
}

// begins is the moment that names the generation.
func (g *generation) begins() time.Time {
	if g.Kind == Changes {
		return g.From
	}
	return g.At
}

// Name is the generation's name in URIs, and that of its directory.
func (g *generation) Name() string { return moments.Name(g.begins()) }

// File returns the name of the file of package n, counted from 1.
func (g *generation) File(n int) string { return filepath.Join(g.dir, packageName(n)) }

func packageName(n int) string { return strconv.Itoa(n) + ".zip" }

// Entries returns how many entries the manifests have.
func (g *generation) Entries() (n int) {
	for i := range g.Packages {
		n += g.Packages[i].Entries
	}
	return n
}

// Bytes returns the size of all packages.
func (g *generation) Bytes() (n int64) {
	for i := range g.Packages {
		n += g.Packages[i].Bytes
	}
	return n
}

// LeftOutTotal returns how many entries have no content.
func (g *generation) LeftOutTotal() (n int) {
	for _, one := range g.LeftOut {
		n += one
	}
	return n
}

// listed returns the entry for package n of a Resource Dump or Change Dump (core §11.1, §13.1),
// where package and manifest are at the URIs.
func (g *generation) listed(n int, uri, manifest string) payload.Part {
	p := &g.Packages[n-1]
	part := payload.Part{
		Loc: uri, Type: mediaZip, Length: strconv.FormatInt(p.Bytes, 10), Hash: p.Hash,
		Links: []payload.Link{{Rel: payload.RelContents, Href: manifest, Type: "application/xml"}},
	}
	if g.Kind == Changes {
		part.From, part.Until = p.From, p.Until
	} else {
		part.At, part.Completed = g.At, p.Completed
	}
	return part
}

// document describes a dump of generations: the Resource Dump of one (core §11.1), or the Change Dump
// of those that follow each other (core §13.1). uri and manifest return where package n of a
// generation and its manifest are.
func document(
	head payload.Head, all []*generation, uri, manifest func(g *generation, n int) string,
) notifier.Entries {
	doc := notifier.Entries{Head: head}
	var version strings.Builder
	for _, g := range all {
		doc.Count += len(g.Packages)
		fmt.Fprintf(&version, "%s %d %d\n", g.Name(), g.Completed.UnixMicro(), g.Bytes())
	}
	doc.Version = version.String()
	n := 0 // the last package of all[0] that was appended
	doc.Append = func(dst []byte) ([]byte, error) {
		for n == len(all[0].Packages) {
			all, n = all[1:], 0
		}
		n++
		part := all[0].listed(n, uri(all[0], n), manifest(all[0], n))
		return payload.AppendListed(dst, &part)
	}
	return doc
}

// resourceHead is the head of a Resource Dump. links must have rel=up.
func (g *generation) resourceHead(links []payload.Link) payload.Head {
	return payload.Head{
		Capability: payload.CapResourceDump, At: g.At, Completed: g.Completed, Links: links,
	}
}

// openManifest opens the manifest within the file of a package, unpacked: the same bytes as in the
// ZIP.
func openManifest(file string, at extent) (io.ReadCloser, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	unpacked := flate.NewReader(io.NewSectionReader(f, at.Offset, at.Packed))
	return struct {
		io.Reader
		io.Closer
	}{unpacked, f}, nil
}

// load reads the generation in g.dir, and looks whether its files are there.
func (g *generation) load() error {
	if err := moments.ReadJSON(filepath.Join(g.dir, generationName), maxGeneration, g); err != nil {
		return err
	}
	if g.Version != versionKnown || g.Kind != Resources && g.Kind != Changes {
		return errors.New(generationName + " is of another version of the program")
	}
	for n := range g.Packages {
		if info, err := os.Stat(g.File(n + 1)); err != nil || info.Size() != g.Packages[n].Bytes {
			return fmt.Errorf("%s is not there whole", packageName(n+1))
		}
	}
	return nil
}

// nextMicro is the first microsecond after t.
func nextMicro(t time.Time) time.Time { return t.Add(time.Microsecond) }
