// Package lists reads the documents of a Source: its Source Description, Capability Lists, Resource
// Lists and Change Lists, and the change memory of a hub, which is a Change List too (core §8 to §12).
// It reads the documents of Resource Dumps and Change Dumps (core §11.1, §13.1), but not their
// packages, and the archives of all four.
//
// Every document comes from a stranger. Each is bounded in bytes, entries and depth, an index in
// parts, a whole reading in documents and in time. An index leads to no other host than those that the
// caller trusts, and never back to a document that was read already. Documents are put down in a
// temporary file before the first of their entries is handed on: one that breaks off in the middle
// hands on nothing.
//
// The oddities of real Sources are taken, with a Warning that names the clause: entries out of order,
// no at, no datetime, several entries of one capability, offsets in datetimes, rs:md before loc.
//
// Packages follow and mirror use the entries.
package lists

import (
	"errors"
	"fmt"
	"time"

	"carillon/payload"
)

// Errors of a reading, wrapped with the document's address.
var (
	// ErrGone: the requested time lies before the kept changes; the error is a *GoneError too.
	ErrGone = errors.New("not kept any more")
	// ErrOtherHost: a document leads to a host that is not trusted.
	ErrOtherHost = errors.New("leads to another host")
	// ErrLoop: a document leads back to one that was read already, or there
	// are more documents than the limit.
	ErrLoop = errors.New("documents without end")
	// ErrNone: the Source offers no such thing.
	ErrNone = errors.New("the Source does not offer it")
	// ErrAnswer: the server's answer is no document: its status, its coding, its size.
	ErrAnswer = errors.New("no document")
)

// GoneError says from when on there is something.
type GoneError struct {
	URI string
	// Earliest is from when on changes are kept; zero where that is unknown.
	Earliest time.Time
	// Guessed: the list does not state its beginning (core §12.1), and Earliest is its first change. There
	// may have been others before.
	Guessed bool
}

func (e *GoneError) Error() string {
	if e.Earliest.IsZero() {
		return fmt.Sprintf("%s: %v", e.URI, ErrGone)
	}
	guessed := ""
	if e.Guessed {
		guessed = ", its first change: it does not say from when on it is (core §12.1: from)"
	}
	return fmt.Sprintf("%s: %v; the earliest is %s%s", e.URI, ErrGone,
		payload.FormatDatetime(e.Earliest), guessed)
}

// Is makes errors.Is tell ErrGone.
func (e *GoneError) Is(target error) bool { return target == ErrGone }

// Warning is what a document does otherwise than the specification has it, and
// was taken all the same.
type Warning struct {
	URI string // of the document
	// Violation has the clause. Each kind is reported once for a document.
	payload.Violation
}

// Set has a Source's documents for one set of resources: its Capability List (core §9). Missing ones
// are empty.
type Set struct {
	CapabilityList string
	// Description is the Source Description that it is part of.
	Description  string
	ResourceList string
	ChangeList   string
	// Topic is the channel of its change notifications, and Hubs those that the
	// Capability List names for it (CN §5).
	Topic string
	Hubs  []string
	// Dumps of the resources and of the changes (core §11.1, §13.1).
	ResourceDump, ChangeDump string
	// Archives of the four. A live document may link to its own (rel=archives): see WithArchives.
	ResourceListArchive, ResourceDumpArchive, ChangeListArchive, ChangeDumpArchive string
}

// offered returns where the address of a capability is kept; nil for one that has none.
func (s *Set) offered(capability string) *string {
	switch capability {
	case payload.CapResourceList:
		return &s.ResourceList
	case payload.CapChangeList:
		return &s.ChangeList
	case payload.CapResourceDump:
		return &s.ResourceDump
	case payload.CapChangeDump:
		return &s.ChangeDump
	case payload.CapResourceListArchive:
		return &s.ResourceListArchive
	case payload.CapResourceDumpArchive:
		return &s.ResourceDumpArchive
	case payload.CapChangeListArchive:
		return &s.ChangeListArchive
	case payload.CapChangeDumpArchive:
		return &s.ChangeDumpArchive
	}
	return nil
}

// Covered is what a reading of changes has shown: every change with
// From <= datetime < Until, as far as the Source keeps its promise.
type Covered struct {
	// From is where the reading began: the requested time, or later where the part before is known to be
	// without changes.
	From time.Time
	// Until is how far the reading is complete. Of an open list (core §12.1: more may come) that is the
	// datetime of its last entry, which others with the same datetime may still follow; Open reports that.
	Until time.Time
	Open  bool
	// Entries is how many changes were visited, and Documents how many were read.
	Entries, Documents int
	// Unchanged: nothing has changed since this Client read it last (304), and nothing was visited.
	Unchanged bool
}

// Snapshot is what a reading of Resource Lists has shown.
type Snapshot struct {
	// At: every change before it is in what was visited (core §10.1); later ones
	// may be. Zero where the Source does not tell.
	At, Completed      time.Time
	Entries, Documents int
	// Unnamed is how many entries, and lists of an index, have no loc: the visited entries may not be all
	// of the Source's.
	Unnamed int
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
