package mirror

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon/destination/follow"
	"carillon/destination/lists"
	"carillon/internal/legible"
	"carillon/payload"
)

// ErrOlder reports that a Resource Dump is of an earlier moment than the copies, and that no Change
// List leads from the dump to that moment. Such a dump would bring back what was deleted since.
var ErrOlder = errors.New("the Source's Resource Dump is older than the mirror")

// Positions knows up to when changes were taken: *pebblestore.Following does.
type Positions interface {
	Position(ctx context.Context) (follow.Position, error)
}

// position returns up to when the copies have every change; zero if that is unknown.
func (src *source) position(ctx context.Context) (time.Time, error) {
	if src.cfg.Positions == nil {
		return time.Time{}, nil
	}
	if src.cfg.Homes != nil {
		// Unless it is begun, other programs took the changes up to the position. A mirror of a
		// moment is brought to any other, as BaselineAt does.
		if h, err := src.cfg.Homes.Home(ctx); err != nil || !h.Begun || !h.Moment.IsZero() {
			return time.Time{}, err
		}
	}
	at, err := src.cfg.Positions.Position(ctx)
	return at.At, err
}

// notOlder returns ErrOlder unless the state that a dump leads to is at least as new as the copies.
// It changes no copy, and remembers in d what the Source deleted after the dump was made.
func (d *dumped) notOlder(ctx context.Context, from Lists, set lists.Set) error {
	m, at := d.m, d.seen.At
	position, err := m.position(ctx)
	if err != nil || at.IsZero() || !position.After(at) {
		return err
	}
	switch {
	case m.cfg.Dump == DumpOnly:
		return older(at, position, "--dump auto also reads the Source's lists")
	case set.ChangeList == "":
		return older(at, position, "the Source has no Change List")
	}
	covered, err := from.Changes(ctx, set.ChangeList, at, func(e payload.Entry) error {
		if e.Change == payload.Deleted {
			d.deleted.add(e.Loc)
		}
		return nil
	})
	forget(from) // the changes are read again when the dump was taken
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return older(at, position, "the Change List does not help: "+legible.Cut(err.Error()))
	case !covered.Open && covered.Until.Before(position):
		return older(at, position, "the Change Lists end at "+payload.FormatDatetime(covered.Until))
	}
	return nil
}

// older is ErrOlder with both moments, and with a remark.
func older(at, position time.Time, remark string) error {
	return fmt.Errorf("%w: it is of %s, and the mirror has all changes up to %s. What was deleted since would come "+
		"back, so nothing was changed. Take what has changed since with destination incremental, or wait for a newer "+
		"dump (%s)", ErrOlder, payload.FormatDatetime(at), payload.FormatDatetime(position), remark)
}
