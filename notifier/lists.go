package notifier

import (
	"context"
	"errors"
	"iter"
	"time"

	"carillon/payload"
)

// ErrNotWhole: the events of the set do not add up to its resources: they did not
// start from the beginning, and no snapshot was imported.
var ErrNotWhole = errors.New("the set's resources are not known from its events")

// ChangeList is a stretch of the events of one set: the content of one Change List (core §12.1).
type ChangeList struct {
	Set string
	// From and Until are whole microseconds; every event with From <= datetime < Until
	// is in it. Until is zero for the open one.
	From, Until time.Time
	// Entries is how many events it has; of the open one it is not counted.
	Entries int
	// Closed is when it was closed; zero of the open one.
	Closed time.Time
	// Lastmods is whether each entry of a closed one has a lastmod, as Config.LastmodAlways
	// was then: a closed list stays as it is (core §12.1).
	Lastmods bool
}

// Lists keeps where the Change Lists of each set end; their entries are the journal's
// events. A set has one open list, the last; each begins where the one before ended.
// The first began when the channel was made, or with the first event that was still
// there when lists were begun to be kept. Guarantees are those of Journal; its methods
// may be called from any goroutine.
type Lists interface {
	// ChangeLists returns the lists of a set, oldest first: closed ones, and the
	// open one last. ErrNoSet if it has no channel.
	ChangeLists(ctx context.Context, set string) ([]ChangeList, error)

	// CloseList closes the open list of l.Set at l.Until; the next begins there.
	// No event to come is dated before l.Until. ErrOutOfOrder unless l.From is
	// the open list's, and l.Until is later; ErrNoSet.
	CloseList(ctx context.Context, l ChangeList) error

	// DropLists forgets the closed lists that ended at keepFrom or before, whose
	// events may go, too, as far as they are in accepted notifications. No event
	// goes, here and in Accept, that a list still has. ErrNoSet.
	DropLists(ctx context.Context, set string, keepFrom time.Time) error
}

// Resources keeps what the events of each set add up to: its resources, each with what
// the latest event said of it. Guarantees are those of Journal.
type Resources interface {
	// Resources gives the resources of a set at one moment, by the bytes of their loc. They are the result
	// of every event before at; events dated at or later are left out. Entries have the Datetime of their
	// event and no Change. ErrNotWhole, ErrNoSet. An iteration that has begun can go to its end, whatever
	// happens meanwhile.
	Resources(ctx context.Context, set string) (at time.Time, all iter.Seq2[payload.Entry, error], err error)

	// Resource returns one resource of a set; false if the set lacks it, or keeps none.
	Resource(ctx context.Context, set, loc string) (payload.Entry, bool, error)
}

var errNoList = errors.New("the journal has no Change List of the set, not even an open one")
