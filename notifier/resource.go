package notifier

import (
	"context"
	"errors"
	"iter"
	"time"

	"carillon/payload"
)

// ErrImporting: another import into the set is under way.
var ErrImporting = errors.New("another import into the set is under way")

// ResourceStore is what engines implement of the resources of sets: Resources to read
// them, and what begins to keep them. A set's resources are kept from KeepResources
// or from an import on; from then on every Append brings them up to date in the
// step that makes its events durable.
type ResourceStore interface {
	Resources

	// Snapshot is Resources at a moment of now or later: no event to come is dated
	// before at, and no other Snapshot has the same one.
	Snapshot(
		ctx context.Context, set string, now time.Time,
	) (at time.Time, all iter.Seq2[payload.Entry, error], err error)

	// KeepResources begins to keep the resources of a set that has had no event yet, and does
	// nothing where they are kept. ErrNotWhole for a set with events, whose resources
	// only an import can tell; ErrImporting; ErrNoSet.
	KeepResources(ctx context.Context, set string) error

	// BeginImport begins an import of a snapshot into a set; ErrImporting while
	// there is another. Events that come until its end are later than the snapshot, and win.
	BeginImport(ctx context.Context, set string) (ResourceImport, error)

	// ResumeImports returns the imports that were sealed and not applied to their
	// ends, by a process that ended in between. Each can be had once.
	ResumeImports(ctx context.Context) ([]ResourceImport, error)
}

// ResourceImport is one import: Put as often as it takes, Seal, then Apply where that is
// pending, until there is no more. Close ends it; one that was not sealed has changed nothing.
// It is for one goroutine.
type ResourceImport interface {
	// Set is the name of the set.
	Set() string

	// Put adds resources. It returns a *DuplicateError for one that was there already; the import can then
	// only be closed.
	Put(ctx context.Context, resources []payload.Entry) error

	// Seal ends the snapshot. The put resources are durable then, and the import will be carried out. The
	// snapshot takes the place of the set's resources at once if no reader can have relied on them: they
	// were not known whole, or the set has had no event and no Snapshot. Else pending reports that
	// differences are to be applied.
	Seal(ctx context.Context) (pending bool, err error)

	// Apply takes a part of the differences into the journal as events, like Append.
	// more is whether there are, or may be, others.
	Apply(ctx context.Context, now time.Time) (done Differences, more bool, err error)

	// Close ends the import in this process.
	Close() error
}

// Differences are how many events an import has made.
type Differences struct {
	Created, Updated, Deleted int
}

// Total is how many events they are.
func (d Differences) Total() int { return d.Created + d.Updated + d.Deleted }

func (d *Differences) add(o Differences) {
	d.Created += o.Created
	d.Updated += o.Updated
	d.Deleted += o.Deleted
}

// DuplicateError says that a snapshot has a resource twice.
type DuplicateError struct {
	Index int // among the resources of that Put
}

func (e *DuplicateError) Error() string { return "the resource stands twice" }

// AppendResourceRecord appends the form in which engines store a resource, as AppendRecord does an
// event: everything but its Loc and its Datetime, which stand beside it. Fields of a change only are
// left out.
func AppendResourceRecord(dst []byte, e *payload.Entry) []byte {
	resource := Event{Entry: *e}
	resource.Loc, resource.Change = "", ""
	for i := range e.Links {
		if e.Links[i].Rel == payload.RelPatch {
			resource.Links = withoutPatches(e.Links)
			break
		}
	}
	return AppendRecord(dst, &resource)
}

func withoutPatches(links []payload.Link) []payload.Link {
	var kept []payload.Link
	for _, l := range links {
		if l.Rel != payload.RelPatch {
			kept = append(kept, l)
		}
	}
	return kept
}

// ParseResourceRecord reads what AppendResourceRecord wrote. The error is ErrRecord.
func ParseResourceRecord(record []byte) (payload.Entry, error) {
	e, err := ParseRecord(record)
	if err == nil && (e.Loc != "" || e.Change != "") {
		err = ErrRecord
	}
	return e.Entry, err
}

// Store is all that a notifier keeps.
type Store interface {
	Journal
	Lists
	ResourceStore
}
