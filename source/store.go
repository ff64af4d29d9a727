package source

import (
	"context"
	"errors"

	"carillon/subscription"
)

// Errors that a Store returns, wrapped.
var (
	// ErrNotFound: there is no Source of that name.
	ErrNotFound = errors.New("no such Source")
	// ErrExists: there is another Source of that name.
	ErrExists = errors.New("there is a Source of that name")
	// ErrUnavailable: the store cannot take or give anything at the moment; the same
	// call may succeed later.
	ErrUnavailable = subscription.ErrUnavailable
)

// Store keeps the Sources, by name.
//
// Every method that changes something is atomic, and what it changed is durable when it
// returns nil. When it returns an error the change may or may not have been made: each is
// safe to repeat. All methods may be called from any goroutine. Trouble with the engine
// is wrapped as ErrUnavailable. A context that is done already changes nothing and comes
// back as its error. Strings come back byte for byte and times as the same instant.
// A record that cannot be read counts as none, so that its Source cannot publish; Replace and
// Delete find it.
type Store interface {
	// Add keeps a new Source. ErrExists where there is another of its name; the very
	// same one again is no error.
	Add(ctx context.Context, s Source) error
	// Replace puts a Source in the place of the one of its name, or is ErrNotFound.
	Replace(ctx context.Context, s Source) error
	// Delete ends a Source, or is ErrNotFound, as it is when this very call was made
	// before.
	Delete(ctx context.Context, name string) error
	// Get returns one Source, or ErrNotFound.
	Get(ctx context.Context, name string) (Source, error)
	// List returns all Sources, by name.
	List(ctx context.Context) ([]Source, error)
}
