package pebblestore

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"carillon/subscription"
)

// ErrDamaged: a stored record cannot be read back. Trying again does not help.
var ErrDamaged = errors.New("a stored record is damaged")

var errClosed = errors.New("the store is closed")

// unavailable wraps trouble with the engine.
func unavailable(cause error) error {
	return fmt.Errorf("%w: %w", subscription.ErrUnavailable, cause)
}

// readError separates damage, which stays, from trouble that may pass.
func readError(err error) error {
	if pebble.IsCorruptionError(err) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return unavailable(fmt.Errorf("read the store: %w", err))
}

// wayOut ends every line about a directory that cannot be used.
const wayOut = `restore a backup into another directory (hub restore), or see docs/backup.md`

// damagedError is a directory that cannot be used.
func damagedError(cause error) error {
	return fmt.Errorf("%w: %w; %s", errDirectory, cause, wayOut)
}

// errDirectory is ErrDamaged of the whole directory.
var errDirectory = fmt.Errorf("the directory is damaged%w", silent{ErrDamaged})

// silent is an error that is there for errors.Is only.
type silent struct{ error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.error }

// openError states in one line why Pebble cannot open the directory, and the remedy. Faults of the
// machine, not of the directory, are reported as they are.
func openError(err error) error {
	line, _, _ := strings.Cut(err.Error(), "\n")
	short := errors.New(line)
	switch {
	case errors.Is(err, errDirectory):
		return err
	case strings.Contains(line, "invalid key=value syntax"):
		return damagedError(errors.New("OPTIONS-… is not what it was (it may be removed: it is made anew)"))
	case errors.Is(err, ErrDamaged), pebble.IsCorruptionError(err), errors.Is(err, pebble.ErrDBNotPristine),
		errors.Is(err, fs.ErrNotExist), strings.Contains(line, "a record at byte"), strings.Contains(line, "malformed manifest"),
		strings.Contains(line, "size mismatch"), strings.Contains(line, "unknown to the objstorage provider"):
		return damagedError(short)
	}
	return err
}
