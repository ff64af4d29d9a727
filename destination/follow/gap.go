package follow

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// gap is what is missing before the first notification of the Inbox.
type gap struct {
	until    time.Time // where that notification begins
	since    time.Time // when it was seen first
	attempts int       // to fill it, since there was progress
	retryAt  time.Time
	retry    *backoff.ExponentialBackOff
}

// settle is how long to wait still for what comes late, before a gap up to until is believed.
func (g *gap) settle(until time.Time, long time.Duration) time.Duration {
	if !g.until.Equal(until) || g.since.IsZero() {
		*g = gap{until: until, since: time.Now()}
	}
	return long - time.Since(g.since)
}

// missing sees to what lies between the position and a notification.
func (f *Follower) missing(ctx context.Context, p Pushed) error {
	g := &f.gap
	if wait := g.settle(p.From, f.cfg.Settle); wait > 0 {
		return f.wait(ctx, wait, f.news)
	}
	if wait := time.Until(g.retryAt); wait > 0 {
		return f.wait(ctx, wait, f.news)
	}
	if g.retry == nil {
		g.retry = f.retry()
		f.cfg.Logger.Warn("gap: changes are missing before a notification; catching up",
			"position", shown(f.place.at), "from", shown(p.From), "id", p.ID)
	}
	before := f.place.at
	found, err := f.catchUp(ctx, p.From)
	if err != nil {
		return err
	}
	if !f.place.at.Before(p.From) {
		f.cfg.Logger.Info("the gap is filled", "from", shown(p.From))
		f.gap = gap{}
		return nil
	}
	if g.attempts++; f.place.at.After(before) {
		g.attempts = 0
		g.retry.Reset()
	}
	if found.final(g.attempts >= f.cfg.GapAttempts) {
		f.gap = gap{}
		return f.lost(ctx, p.From, found)
	}
	wait := g.retry.NextBackOff()
	g.retryAt = time.Now().Add(wait)
	f.cfg.Logger.Warn("what is missing is not there yet; asking again", "position", shown(f.place.at),
		"from", shown(p.From), "reason", found.reason(), "in", wait.Round(time.Millisecond).String())
	return nil
}

// lost does what Config says of changes that nobody has any more: those before until, or
// where that is zero before the first that there are.
func (f *Follower) lost(ctx context.Context, until time.Time, found finding) error {
	err := gapError(f.place.at, until, found.reason())
	switch f.cfg.OnGap {
	case GapBaseline:
		f.cfg.Logger.Error("a new baseline is taken", "error", err)
		return f.baseline(ctx)
	case GapGoOn:
		to := until
		if found.earliest.After(f.place.at) && (until.IsZero() || found.earliest.Before(until)) {
			to = found.earliest
		}
		f.cfg.Logger.Error("going on without them", "error", err, "position", shown(to))
		f.place.reach(to)
		return f.save(ctx)
	}
	return err
}

// baseline takes the Source's state, and goes on from its moment.
func (f *Follower) baseline(ctx context.Context) error {
	at, err := tried(ctx, f, "the baseline is not taken yet; trying again", f.cfg.Baseline.Baseline)
	if err != nil {
		return err
	}
	f.looked = time.Time{} // what changed meanwhile is looked for at once
	if at.IsZero() {
		f.cfg.Logger.Warn("the Resource List does not tell its moment (core §10.1: at); going on from the first change that there is")
		f.place = placeOf(Position{})
		if uri, err := f.cfg.Places.ChangeList(ctx); err == nil && uri != "" {
			if _, err := f.readList(ctx, ChangeList, uri); ctx.Err() != nil {
				return ctx.Err()
			} else if err != nil {
				f.cfg.Logger.Warn("the Change Lists cannot be read", "error", err)
			}
		}
		return f.save(ctx)
	}
	if !at.After(f.place.at) {
		f.cfg.Logger.Info("the baseline is older than the position", "at", shown(at), "position", shown(f.place.at))
	}
	f.place = placeOf(Position{At: at})
	f.cfg.Logger.Info("the baseline is taken", "position", shown(at))
	return f.save(ctx)
}
