package mirror

import (
	"context"
	"crypto/sha256"
	"errors"
	"iter"
	"strconv"
	"time"

	"carillon/payload"
)

// Errors of a Catalog, wrapped.
var (
	// ErrNone: the Catalog knows no such resource.
	ErrNone = errors.New("no such resource is known")
	// ErrUnavailable: the Catalog cannot be read or written now; trying again may help.
	ErrUnavailable = errors.New("the mirror's catalog is unavailable")
)

// State is how the copy of a resource stands.
type State string

// The states.
const (
	// Whole: the file matches the Source's description.
	Whole State = "whole"
	// Missing: the Source announced it, and its server answers 404 or 410. It is asked again.
	Missing State = "missing"
	// Failed: it could not be fetched, did not match the Source's description, or could not be removed. It
	// is tried again.
	Failed State = "failed"
	// Gone: the Source has deleted it, and the file was kept (Config.Delete).
	Gone State = "gone"
	// Refused: it is outside of Config.Bases. It is looked at again with the next change, or
	// the next baseline.
	Refused State = "refused"
	// Invalid: its loc is not a URI that can be asked for, so the mirror cannot have it. It is looked
	// at again as what is Refused.
	Invalid State = "invalid"
)

// Described is the Source's latest description of a resource.
type Described struct {
	Change   payload.Change // empty: it is in a Resource List
	Datetime time.Time      // of the change, zero where the Source gave none
	LastMod  string
	Hash     string
	Length   string
	Type     string
	Encoding string
	// Links are the links that stay true of a copy, as linksOf writes them.
	Links string
}

const (
	// maxDescribed bounds each text of a description, in bytes: it is kept for every resource, for good.
	// All hashes of known algorithms together are shorter.
	maxDescribed = 2 << 10
	// maxSkew is how far the clock that dates changes may be ahead of this one.
	maxSkew = 10 * time.Minute
)

// describedBy returns the description in an entry. A text that is too long counts as absent, and so
// does a datetime in the future: every change until then would count as older.
func describedBy(e *payload.Entry) Described {
	t := Described{e.Change, e.Datetime, e.LastMod, e.Hash, e.Length, e.Type, e.Encoding, linksOf(e.Links)}
	if ahead(t.Datetime) {
		t.Datetime = time.Time{}
	}
	if len(t.Change) > maxDescribed {
		t.Change = payload.Updated // an unknown kind; the content is looked at
	}
	for _, text := range []*string{&t.LastMod, &t.Hash, &t.Length, &t.Type, &t.Encoding} {
		if len(*text) > maxDescribed {
			*text = ""
		}
	}
	return t
}

// ahead reports whether a datetime lies in the future, by more than clocks differ.
func ahead(at time.Time) bool { return time.Until(at) > maxSkew }

// size is the length as a number, -1 without a valid one.
func (t *Described) size() int64 {
	if n, err := strconv.ParseInt(t.Length, 10, 64); err == nil && n >= 0 {
		return n
	}
	return -1
}

// modified is LastMod as an instant; zero where it has no time of day, or is invalid.
func (t *Described) modified() time.Time {
	at, err := payload.ParseDatetime(t.LastMod)
	if err != nil || len(t.LastMod) <= len("2006-01-02") {
		return time.Time{}
	}
	return at
}

// File is what was fetched: the representation as it was sent, in its Content-Encoding.
type File struct {
	Size    int64
	SHA256  [sha256.Size]byte
	ModTime time.Time // as the file has it
	// ETag, LastModified and Encoding are the answer's headers.
	ETag, LastModified, Encoding string
}

// Copy is what is known of one resource.
type Copy struct {
	Loc string
	// Path is that of the file below the directory, with slashes; empty for what is Refused or Invalid.
	Path      string
	State     State
	Described Described
	// File is the file on the disk; nil: nothing was fetched yet, or it was removed. Where State is not
	// Whole it belongs to an earlier change.
	File *File
	// Tries is how often it failed in a row, Next when it is tried again, and Reason
	// what the trouble was.
	Tries  int
	Next   time.Time
	Reason string
}

// Claim is what a Catalog keeps Owner by: the same for two paths that some file system takes for one.
func (c *Copy) Claim() string { return claimOf(c.Path) }

// Catalog is the durable memory of a mirror. A method's changes are durable when it returns nil, and
// whole or not there. Its methods may be called from any goroutine; Save for one resource by one at a
// time. No method keeps its arguments.
type Catalog interface {
	// Copy is what is known of a resource; ErrNone if nothing is.
	Copy(ctx context.Context, loc string) (Copy, error)

	// Save keeps the copies, in the place of what was known of the same locs, and forgets the
	// locs of others.
	Save(ctx context.Context, copies []Copy, forget []string) error

	// Owner is the loc of the resource with the Claim, empty if none has it, and whether there
	// are Claims below: ones that begin with it and a slash.
	Owner(ctx context.Context, claim string) (loc string, below bool, err error)

	// All yields every copy, by the bytes of their locs. Copies saved meanwhile may be in it or not.
	All(ctx context.Context) iter.Seq2[Copy, error]

	// Due returns at most limit of the copies with a Next of now or earlier, earliest first, and
	// the earliest Next that is later; zero without one.
	Due(ctx context.Context, now time.Time, limit int) (due []Copy, next time.Time, err error)
}

// Ledger is what a Source has at the moment, while it is compared with the Catalog: a
// list beside it, which need not outlive the process. It is for one goroutine.
type Ledger interface {
	// Clear empties it.
	Clear(ctx context.Context) error
	// Record stores the entries in place of earlier ones with the same Loc; one whose Change is
	// payload.Deleted removes its Loc. It keeps the fields of an entry that Described has.
	Record(ctx context.Context, entries []payload.Entry) error
	// Resource returns the one with a loc; ErrNone without one.
	Resource(ctx context.Context, loc string) (Resource, error)
	// Resources gives what is in it, by the bytes of their locs.
	Resources(ctx context.Context) iter.Seq2[Resource, error]
}

// Resource is one that a Source has.
type Resource struct {
	Loc string
	Described
}

// ResourceOf is what an entry says of a resource.
func ResourceOf(e *payload.Entry) Resource { return Resource{e.Loc, describedBy(e)} }
