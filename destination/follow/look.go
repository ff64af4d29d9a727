package follow

import (
	"context"
	"errors"
	"time"

	"carillon/destination/lists"
	"carillon/payload"
)

// look reads the lists without a notification that asks for it: because push is silent,
// because there is none, or because the Destination was away.
func (f *Follower) look(ctx context.Context) error {
	if f.place.at.IsZero() {
		return f.startNow(ctx)
	}
	found, err := f.catchUp(ctx, time.Time{})
	if err != nil {
		return err
	}
	pushed := f.cfg.Places.Pushed()
	f.unread = found.read == 0 && found.later
	switch {
	case found.read > 0:
		if found.err != nil {
			f.cfg.Logger.Debug("looked at the lists; one could not be read", "error", found.err)
		}
	case found.asked == 0:
		if !pushed {
			f.cfg.Logger.Warn("nothing can be expected by push, and there is no list to look at")
		}
	case pushed:
		// The next notification tells whether anything is missing.
		f.cfg.Logger.Info("the lists do not go back to the position, or cannot be read", "position", shown(f.place.at), "reason", found.err)
	case !found.earliest.IsZero() && found.final(false):
		return f.lost(ctx, time.Time{}, found)
	default:
		f.cfg.Logger.Warn("the lists cannot be read; trying again", "reason", found.err)
	}
	return nil
}

// startNow finds a first position by the Source's own clock: that of its last change. What
// was before it is not handed on. Where there is no list the first notification tells.
func (f *Follower) startNow(ctx context.Context) error {
	for _, place := range []func(context.Context) (string, error){f.cfg.Places.ChangeList, f.cfg.Places.Memory} {
		uri, err := place(ctx)
		if err == nil && uri == "" {
			continue
		}
		var at Position
		if err == nil {
			at, err = f.latest(ctx, uri, time.Now().Add(-f.cfg.Skew))
		}
		if gone := (*lists.GoneError)(nil); errors.As(err, &gone) && !gone.Earliest.IsZero() {
			at, err = f.latest(ctx, uri, gone.Earliest)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			f.cfg.Logger.Warn("where to begin is not known yet", "error", err)
			continue
		}
		f.place = placeOf(at)
		f.cfg.Logger.Info("beginning with what changes from now on", "position", shown(at.At))
		return f.save(ctx)
	}
	return nil
}

// latest visits a list from a moment on, and returns the position behind its last change.
func (f *Follower) latest(ctx context.Context, uri string, since time.Time) (Position, error) {
	p, nth := placeOf(Position{At: since}), counter{}
	_, err := f.cfg.Lists.Changes(ctx, uri, since, func(e payload.Entry) error {
		p.handed(e.Datetime, nth.key(&e), f.limit())
		return ctx.Err()
	})
	return p.position(), err
}
