// Package archive keeps documents for years: in a directory, in the order of the times that they
// cover, so that nothing is lost over a kill, and with a few bytes of memory for each.
//
//	DIR/{begin of the first}/{begin}_{end}SUFFIX
//
// A directory below DIR has the documents that one archive document lists. So the grouping, and with
// it each address, stays the same when documents are added, go, or the process starts again. The names
// have everything, so that a start reads no file. An unfinished document has a name that ends in
// .making, and is removed at the next start.
package archive

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"carillon/internal/durable"
	"carillon/notifier/moments"
)

// Kept is what is known of a document besides its bytes: the time that it covers, or when the
// making of it began and ended. Whole microseconds.
type Kept struct{ Begin, End time.Time }

// span is a Kept that takes 16 bytes: microseconds.
type span struct{ begin, end int64 }

func (s span) kept() Kept {
	return Kept{time.UnixMicro(s.begin).UTC(), time.UnixMicro(s.end).UTC()}
}

func spanOf(k Kept) span { return span{k.Begin.UnixMicro(), k.End.UnixMicro()} }

// Part is what one archive document lists. It does not change, whatever is added or goes.
type Part struct {
	// First is the Begin of its first document, also when that has gone: the name of the part.
	First time.Time
	spans []span
}

// Len is how many documents it has, at least one.
func (p Part) Len() int { return len(p.spans) }

// At returns document i, from 0, the oldest.
func (p Part) At(i int) Kept { return p.spans[i].kept() }

// Config says where an archive is, and what is in it.
type Config struct {
	// Dir is its directory, made with the first document. Root is above it, and exists already.
	Dir, Root string
	// Suffix ends the name of each document: ".xml.gz"; empty where a document is a directory.
	Suffix string
	// Moments: a document is of the moment when it begins, and may end when others have begun, as
	// the clock may have been set back. Else documents are of intervals, which do not overlap.
	Moments bool
	// Most is how many documents a part has at most.
	Most int
	// Logger hears of what is in the directory and of no use.
	Logger *slog.Logger
}

// Archive keeps the documents of one capability of one set. Its methods may be called from any
// goroutine, Add, DropUntil and CutWhile by one at a time.
type Archive struct {
	cfg Config

	mu    sync.Mutex
	parts []Part // guarded by mu, oldest first; parts that were handed out never change
}

// Open finds what an earlier run has left.
func Open(cfg Config) (*Archive, error) {
	a := &Archive{cfg: cfg}
	entries, err := os.ReadDir(cfg.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find the archive: %w", err)
	}
	for _, entry := range entries { // in the order of their names, which is that of the times
		first, err := moments.Parse(entry.Name())
		if err != nil || !entry.IsDir() {
			continue // not ours
		}
		if err := a.load(first); err != nil {
			return nil, fmt.Errorf("find the archive: %w", err)
		}
	}
	return a, durable.SyncDirectory(cfg.Dir)
}

// load finds the documents of a part.
func (a *Archive) load(first time.Time) error {
	dir := a.partDir(first)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	part := Part{First: first}
	_, newest, some := a.Ends()
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), moments.Making) {
			if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
			continue
		}
		s, ok := a.parse(entry.Name())
		if !ok || entry.IsDir() != (a.cfg.Suffix == "") {
			continue // not ours
		}
		if some && !a.follows(s.kept(), newest) || s.end < s.begin {
			a.cfg.Logger.Warn("an archived document is left out: the time that it covers is another's too",
				"file", filepath.Join(dir, entry.Name()))
			continue
		}
		newest, some = s.kept(), true
		part.spans = append(part.spans, s)
	}
	if len(part.spans) == 0 {
		_ = os.Remove(dir) // where something is in it that is not ours it stays
		return nil
	}
	part.spans = slices.Clip(part.spans)
	a.parts = append(a.parts, part)
	// A name that was given just before a kill may not be durable yet.
	return durable.SyncDirectory(dir)
}

func (a *Archive) parse(name string) (span, bool) {
	name, is := strings.CutSuffix(name, a.cfg.Suffix)
	begin, end, cut := strings.Cut(name, "_")
	from, err := moments.Parse(begin)
	until, err2 := moments.Parse(end)
	return spanOf(Kept{from, until}), is && cut && err == nil && err2 == nil
}

func (a *Archive) partDir(first time.Time) string {
	return filepath.Join(a.cfg.Dir, moments.Name(first))
}

func (a *Archive) path(part Part, s span) string {
	k := s.kept()
	name := moments.Name(k.Begin) + "_" + moments.Name(k.End) + a.cfg.Suffix
	return filepath.Join(a.partDir(part.First), name)
}

// follows reports whether a document may stand behind another.
func (a *Archive) follows(k, newest Kept) bool {
	if a.cfg.Moments {
		return k.Begin.After(newest.Begin)
	}
	return !k.Begin.Before(newest.End)
}

// Follows reports whether Add takes a document, for its time.
func (a *Archive) Follows(k Kept) bool {
	_, newest, some := a.Ends()
	return !some || a.follows(k, newest)
}

// Parts returns what there is, oldest first.
func (a *Archive) Parts() []Part {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.parts
}

// Len is how many documents there are.
func (a *Archive) Len() (n int) {
	for _, part := range a.Parts() {
		n += part.Len()
	}
	return n
}

// Ends returns the oldest and the newest document; false without one.
func (a *Archive) Ends() (oldest, newest Kept, some bool) {
	parts := a.Parts()
	if len(parts) == 0 {
		return Kept{}, Kept{}, false
	}
	last := parts[len(parts)-1]
	return parts[0].At(0), last.At(last.Len() - 1), true
}

// Find returns the document that begins at a time, and where it is.
func (a *Archive) Find(begin time.Time) (k Kept, path string, found bool) {
	micros := begin.UnixMicro()
	parts := a.Parts()
	i, exact := slices.BinarySearchFunc(parts, micros, func(p Part, at int64) int {
		return cmp.Compare(p.spans[0].begin, at)
	})
	if !exact {
		i--
	}
	if i < 0 {
		return Kept{}, "", false
	}
	spans := parts[i].spans
	j, found := slices.BinarySearchFunc(spans, micros, func(s span, at int64) int {
		return cmp.Compare(s.begin, at)
	})
	if !found {
		return Kept{}, "", false
	}
	return spans[j].kept(), a.path(parts[i], spans[j]), true
}
