package notifier

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"carillon/internal/durable"
	"carillon/notifier/moments"
)

// The files of a generation, in a directory of package moments that is named for its at:
//
//	1.xml.gz, 2.xml.gz, …   the Resource Lists
//	index.xml.gz            their Index, where there are several
//	generation.json         the rest of what is here
const (
	manifestName  = "generation.json"
	maxManifest   = 32 << 20 // for 50,000 parts, many times over
	manifestKnown = 1
)

// generation is one Resource List as it is served: one document, or several and
// their Index, of one moment (core §10.2).
type generation struct {
	Version int `json:"version"`
	// At is the moment, Completed when the making ended.
	At        time.Time    `json:"at"`
	Completed time.Time    `json:"completed"`
	Parts     []storedList `json:"parts"`
	// Lasting: it is archived, and its documents have the addresses that they have there.
	Lasting bool `json:"lasting,omitempty"`
	// Linked: its documents link to the archive.
	Linked bool `json:"linked,omitempty"`
	// Index is there where there are several parts.
	Index *storedList `json:"index,omitempty"`

	dir string
	// since is when it was completed, or about, by the monotonic clock: waits for its age do not depend on
	// the wall clock.
	since time.Time
}

// storedList is a document that is kept packed.
type storedList struct {
	// Size is what it has, Packed what its file has, bytes.
	Size   int64 `json:"size"`
	Packed int64 `json:"packed"`
	// Entries are its resources, or the parts of an Index.
	Entries int `json:"entries"`
}

func (g *generation) resources() (n int) {
	for _, part := range g.Parts {
		n += part.Entries
	}
	return n
}

// file is the name of the file of part n, from 1, or of the Index, 0.
func (g *generation) file(n int) string {
	name := "index"
	if n > 0 {
		name = strconv.Itoa(n)
	}
	return filepath.Join(g.dir, name+".xml.gz")
}

// stored is what is known of part n, or of the Index; nil without one.
func (g *generation) stored(n int) *storedList {
	if n == 0 {
		return g.Index
	}
	if n < 0 || n > len(g.Parts) {
		return nil
	}
	return &g.Parts[n-1]
}

func (g *generation) remove() error {
	if err := os.RemoveAll(g.dir); err != nil {
		return fmt.Errorf("remove the Resource List of %s: %w", g.At.Format(time.RFC3339), err)
	}
	return nil
}

// loadGenerations loads the lists in the directory of a set, oldest first. It removes those that are
// not whole, and those of a moment after last, the last datetime of the journal: they belong to
// another journal.
func loadGenerations(dir string, last time.Time, log *slog.Logger) (all []*generation, _ error) {
	found, err := moments.List(dir)
	if err != nil {
		return nil, fmt.Errorf("find the Resource Lists: %w", err)
	}
	for _, f := range found {
		g := &generation{At: f.At, dir: f.Path}
		if f.Whole {
			err := g.load()
			switch {
			case err == nil && !g.At.Equal(f.At):
				err = errors.New("it is of another time than its name")
			case err == nil && f.At.After(last):
				err = errors.New("it is of another journal")
			case err == nil:
				all = append(all, g)
				continue
			}
			log.Warn("a Resource List is of no use, and removed", "directory", g.dir, "error", err)
		}
		if err := g.remove(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// load reads the manifest in g.dir, and checks that its files are there.
func (g *generation) load() error {
	if err := moments.ReadJSON(filepath.Join(g.dir, manifestName), maxManifest, g); err != nil {
		return err
	}
	if g.Version != manifestKnown || len(g.Parts) == 0 || (g.Index != nil) != (len(g.Parts) > 1) {
		return errors.New(manifestName + " names no list")
	}
	for n := range len(g.Parts) + 1 {
		stored := g.stored(n)
		if stored == nil {
			continue
		}
		if info, err := os.Stat(g.file(n)); err != nil || info.Size() != stored.Packed {
			return fmt.Errorf("%s is not there whole", filepath.Base(g.file(n)))
		}
	}
	return nil
}

// save writes the manifest.
func (g *generation) save() error {
	text, err := json.Marshal(g)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(g.dir, manifestName), func(to io.Writer) error {
		_, err := to.Write(text)
		return err
	})
}
