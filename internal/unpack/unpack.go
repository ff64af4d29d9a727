// Package unpack reads a ZIP file that a stranger made. It believes nothing that the file says.
//
// Open reads the directory of the file and judges it as a whole. Content is read later, one entry
// at a time, and is checked while it is read.
//
// What it guarantees: no name of an entry is ever used as the name of a file, so no name leads
// anywhere. Each content has the size and the CRC-32 of the directory, or reading it fails. No two
// entries share bytes of the file, so a small file cannot hold much more than its size times 1,032,
// and Limits bound that further. Memory is bounded by Limits.Entries and by the size of the
// directory. Where two readers of ZIP could understand a file differently, Open refuses it.
//
// What it does not: it does not read the manifest, follow links, or unpack a ZIP in a ZIP.
//
// It has a reader of its own for the directory, because archive/zip keeps every entry that a file
// has before anyone can count them, and does not compare the directory with the local headers.
package unpack

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
)

// ManifestName is the entry that describes the others (core §11.2, §13.2).
const ManifestName = "manifest.xml"

// Errors of Open, Manifest and of reading content. They are wrapped, with the entry's name.
var (
	// ErrFormat: the file is not a ZIP, or its parts contradict each other.
	ErrFormat = errors.New("not a valid ZIP file")
	// ErrTruncated: the file begins like a ZIP, and its end is missing.
	ErrTruncated = errors.New("the ZIP file is truncated")
	// ErrEncrypted: an entry is encrypted.
	ErrEncrypted = errors.New("the ZIP file is encrypted")
	// ErrUnsupported: an entry is packed by a method other than store and deflate, or the ZIP is
	// one part of several.
	ErrUnsupported = errors.New("the ZIP file uses a feature that is not supported")
	// ErrBomb: the file has too many entries, or unpacks to too much.
	ErrBomb = errors.New("the ZIP file exceeds a limit")
	// ErrNames: a name is unsafe, ambiguous, or used twice.
	ErrNames = errors.New("the ZIP file has an unsafe name")
	// ErrSpecial: an entry is a symbolic link, a device, or another thing that is not a file.
	ErrSpecial = errors.New("the ZIP file has an entry that is not a plain file")
	// ErrManifest: the file has no entry with the name ManifestName.
	ErrManifest = errors.New("the ZIP file has no " + ManifestName)
	// ErrNoEntry: the file has no entry of the name that Archive.Open was given.
	ErrNoEntry = errors.New("the ZIP file has no such entry")
)

// ratioFloor is how much may be unpacked, by an entry or by all, before Limits.Ratio counts, bytes:
// a small file of zeros packs very well.
const ratioFloor = 64 << 20

// maxBytes is the largest limit that counts.
const maxBytes = 1 << 61

// Limits bound what a file may hold. Zero fields have the default.
type Limits struct {
	// Bytes is how much all entries may have unpacked; default 64 GiB.
	Bytes int64
	// EntryBytes is how much one entry may have unpacked; default 10 GiB.
	EntryBytes int64
	// Entries is how many there may be, folders among them; default 100,000.
	Entries int
	// Ratio is how many times larger content may be than its packed form, where it has more than
	// 64 MiB; default 200. It counts for each entry and for all together.
	Ratio int
}

func (l Limits) withDefaults() Limits {
	// Sums of two must not overflow. Twice what a manifest may list (core §7) leaves room for folders.
	return Limits{
		Bytes: min(cmp.Or(l.Bytes, 64<<30), maxBytes), EntryBytes: min(cmp.Or(l.EntryBytes, 10<<30), maxBytes),
		Entries: cmp.Or(l.Entries, 100_000), Ratio: cmp.Or(l.Ratio, 200),
	}
}

// check returns ErrBomb where so many bytes unpacked from so many are too many. what and name describe
// the content; name may be empty.
func (l *Limits) check(what, name string, size, packed, most int64) error {
	long := size > most
	if !long && (size <= ratioFloor || size/int64(l.Ratio) <= packed) {
		return nil
	}
	if name != "" {
		what = fmt.Sprintf("%s %.200q", what, name)
	}
	if long {
		return fmt.Errorf("%w: %s has %d bytes unpacked, and the limit is %d", ErrBomb, what, size, most)
	}
	return fmt.Errorf("%w: %s unpacks %d bytes to %d, and the limit is %d times as many",
		ErrBomb, what, packed, size, l.Ratio)
}

// Entry is a file in an Archive.
type Entry struct {
	// Name is the path in the archive, in UTF-8, without a leading slash.
	Name string
	// Size and Packed are the bytes unpacked and packed.
	Size, Packed int64

	raw    string // the name as the local header has it
	offset int64  // of its local header
	next   int64  // where the entry or the directory after it begins
	crc    uint32
	method uint16
	// descriptor: CRC and sizes follow the content.
	descriptor bool
}

// Archive is a ZIP file that Open has judged. Its methods may be called by several goroutines.
type Archive struct {
	r       io.ReaderAt
	size    int64
	limits  Limits
	entries []Entry
	names   map[string]int // indexes in entries, by names without the slash that ends a folder's
}

// Open reads the directory of a ZIP file of size bytes. An error from outside this package comes from
// r.
func Open(r io.ReaderAt, size int64, l Limits) (*Archive, error) {
	l = l.withDefaults()
	d, err := findDirectory(r, size)
	if err != nil {
		return nil, err
	}
	a := &Archive{r: r, size: size, limits: l, names: map[string]int{}}
	if err := a.readDirectory(d, &l); err != nil {
		return nil, err
	}
	if err := a.separate(d.offset); err != nil {
		return nil, err
	}
	return a, nil
}

// Names returns the files in the order of the directory, the manifest among them.
func (a *Archive) Names() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for i := range a.entries {
			if !a.entries[i].folder() && !yield(a.entries[i]) {
				return
			}
		}
	}
}

// Lookup returns the file with a path as a manifest has it, with or without the leading slash. Paths
// are compared byte by byte.
func (a *Archive) Lookup(path string) (Entry, bool) {
	e := a.find(path)
	if e == nil {
		return Entry{}, false
	}
	return *e, true
}

func (a *Archive) find(path string) *Entry {
	i, known := a.names[strings.TrimPrefix(path, "/")]
	if !known || a.entries[i].folder() {
		return nil
	}
	return &a.entries[i]
}

// Allows returns ErrBomb where so many bytes are more than may come of the whole file. It is for who
// reads entries several times.
func (a *Archive) Allows(bytes int64) error {
	return a.limits.check("what is read of it", "", bytes, a.size, a.limits.Bytes)
}

// Manifest opens the manifest; ErrManifest without one.
func (a *Archive) Manifest() (io.ReadCloser, error) {
	e := a.find(ManifestName)
	if e == nil {
		return nil, fmt.Errorf("%w at its top level (core §11.2)", ErrManifest)
	}
	return a.open(e)
}

// Open opens the file with a path as Lookup takes it; ErrNoEntry for a missing one. Reading fails
// where the content differs from the directory.
func (a *Archive) Open(path string) (io.ReadCloser, error) {
	e := a.find(path)
	if e == nil {
		return nil, fmt.Errorf("%w: %.200q", ErrNoEntry, path)
	}
	return a.open(e)
}

func (e *Entry) folder() bool { return strings.HasSuffix(e.Name, "/") }
