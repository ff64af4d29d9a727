package follow

import (
	"context"
	"errors"
	"time"

	"carillon/destination/lists"
)

// pushSilence is how long a hub that serves a subscription may take to deliver what it has: only
// after so long does what stands in a Change List alone show that it is not pushed.
const pushSilence = 2 * time.Hour

// checkLists reads the lists without a notification that asks for it: because push is silent or
// missing, or because the Destination was away.
func (f *Follower) checkLists(ctx context.Context) error {
	if f.fresh() {
		return f.startNow(ctx)
	}
	found, err := f.catchUp(ctx, time.Time{})
	if err != nil {
		return err
	}
	pushed := f.cfg.Locator.Pushed()
	comes := pushed && !f.progress.at.Equal(f.unpushed) // missing changes may still come by push
	f.unread = found.read == 0 && found.later
	switch {
	case f.progress.assumed && !found.later && found.earliest.After(f.progress.at) && !found.earliest.After(f.limit(time.Time{})):
		return f.startAt(ctx, found.earliest) // nothing is known to have been before
	case found.behind.After(f.progress.at) && !found.later:
		return f.behind(ctx, comes, found)
	case found.read > 0:
		f.helped()
		if found.err != nil {
			f.cfg.Logger.Debug("looked at the lists; one could not be read", "error", found.err)
		}
	case found.asked == 0:
		if !pushed {
			f.cfg.Logger.Warn("nothing can be expected by push, and there is no list to look at")
		}
	case comes:
		// The next notification reports whether anything is missing.
		f.cfg.Logger.Info(
			"the lists do not go back to the position, or cannot be read",
			"position", shown(f.progress.at), "reason", found.err,
		)
	case !found.earliest.IsZero() && found.final(false):
		return f.lost(ctx, time.Time{}, found)
	default:
		f.cfg.Logger.Warn("the lists cannot be read; trying again", "reason", found.err)
	}
	return nil
}

// behind judges a Change List that begins after the position. A memory to which nothing newer has
// come, and push that is silent, tell what came to the hub and nothing of the Source: where the list has
// changes that should have come by them long ago, changes are missing. Where it has none, nothing need
// have happened.
func (f *Follower) behind(ctx context.Context, pushed bool, found finding) error {
	if !pushed && found.read == 0 && !found.doubtful {
		return f.lost(ctx, time.Time{}, found)
	}
	long := f.cfg.Poll
	if pushed {
		long = pushSilence
	}
	if !pushed || time.Since(f.lastPush) >= long {
		first, err := f.firstOf(ctx, found.behind)
		if err != nil {
			return err
		}
		if !first.IsZero() && time.Since(first) >= long {
			return f.lost(ctx, time.Time{}, found)
		}
	}
	f.cfg.Logger.Info("the Change List begins after the position; nothing shows that anything is missing",
		"position", shown(f.progress.at), "from", shown(found.behind))
	return nil
}

// startNow finds a first position by the Source's own clock: that of its last change. Earlier changes
// are not handed on. Without a list yet it is tried again soon. Where one cannot be read, all is
// handed on from the assumed position on: the pushed changes, and those that the lists turn out to
// have.
func (f *Follower) startNow(ctx context.Context) error {
	for _, find := range []func(context.Context) (string, error){f.cfg.Locator.ChangeList, f.cfg.Locator.ChangeMemory} {
		uri, err := find(ctx)
		if err == nil && uri == "" {
			continue
		}
		f.freshUntil = time.Time{}
		var at Position
		if err == nil {
			at, err = f.latest(ctx, uri, f.progress.at)
		}
		if gone := (*lists.GoneError)(nil); errors.As(err, &gone) && !gone.Earliest.IsZero() {
			at, err = f.latest(ctx, uri, gone.Earliest)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			f.unread = true
			f.cfg.Logger.Warn("where to begin is not known yet", "error", err)
			continue
		}
		f.unread = false
		if p, err := f.cfg.Store.First(ctx); err == nil && p.From.Before(at.At) {
			return f.startAt(ctx, p.From) // it came since the start
		}
		if !at.At.After(f.progress.at) || at.At.After(f.limit(time.Time{})) {
			return nil // nothing has changed lately: the first notification has the time
		}
		f.progress = newProgress(at)
		f.cfg.Logger.Info("beginning with what changes from now on", "position", shown(at.At))
		return f.save(ctx)
	}
	return nil
}
