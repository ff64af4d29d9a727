package follow

import (
	"context"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"carillon/internal/await"
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

// seam is how far after the last change of an open Change List a notification may begin that follows
// on it: an interval ends after its last change (CN §3), by the smallest step.
const seam = time.Microsecond

// missing sees to what lies between the position and a notification.
func (f *Follower) missing(ctx context.Context, p Pushed) error {
	if p.From.Sub(f.progress.at) <= seam && !f.glanced.Equal(p.From) {
		f.glanced = p.From // only what has the very datetime of the position could be missing
		_, err := f.catchUp(ctx, p.From)
		return err
	}
	g := &f.gap
	if wait := g.settle(p.From, f.cfg.Settle); wait > 0 {
		return f.wait(ctx, wait, f.news)
	}
	if wait := time.Until(g.retryAt); wait > 0 {
		return f.wait(ctx, wait, f.news)
	}
	if g.retry == nil {
		g.retry = f.retry()
		what := []any{"position", shown(f.progress.at), "from", shown(p.From), "id", p.ID}
		if f.progress.assumed {
			f.cfg.Logger.Info("asking for what came before the first notification", what...)
		} else {
			f.cfg.Logger.Warn("gap: changes are missing before a notification; catching up", what...)
		}
	}
	before := f.progress.at
	found, err := f.catchUp(ctx, p.From)
	if err != nil {
		return err
	}
	if !f.progress.at.Before(p.From) {
		f.cfg.Logger.Info("the gap is filled", "from", shown(p.From))
		f.gap = gap{}
		f.helped()
		return nil
	}
	if g.attempts++; f.progress.at.After(before) {
		g.attempts = 0
		g.retry.Reset()
	}
	if found.final(g.attempts >= f.cfg.GapAttempts) {
		f.gap = gap{}
		return f.lost(ctx, p.From, found)
	}
	wait := g.retry.NextBackOff()
	g.retryAt = time.Now().Add(wait)
	f.cfg.Logger.Warn("what is missing is not there yet; asking again", "position", shown(f.progress.at),
		"from", shown(p.From), "reason", found.reason(), "in", wait.Round(time.Millisecond).String())
	return nil
}

// lost carries out Config's choice for changes that are kept nowhere any more: those before until, or
// where that is zero before the first kept one. Before a first position that is only assumed no change
// is known to be missing.
func (f *Follower) lost(ctx context.Context, until time.Time, found finding) error {
	to := until
	if found.earliest.After(f.progress.at) && (until.IsZero() || found.earliest.Before(until)) {
		to = found.earliest
	}
	if f.progress.assumed {
		return f.startAt(ctx, to)
	}
	err := gapError(f.progress.at, until, found.reason())
	switch f.cfg.OnGap {
	case GapBaseline:
		return f.rebase(ctx, err)
	case GapGoOn:
		f.cfg.Logger.Error("going on without them", "error", err, "position", shown(to))
		f.progress.reach(to)
		f.complete = time.Time{}
		return f.save(ctx)
	}
	return err
}

// The waits between baselines that do not help.
const (
	rebaseFirst = time.Minute
	rebaseMax   = time.Hour
)

// rebase takes a new baseline because of a gap. One that was taken and has not closed it, as the
// Resource List is older than the Change Lists go back, is taken again when the Source may have made
// another.
func (f *Follower) rebase(ctx context.Context, gap error) error {
	if f.rebased == nil {
		f.rebased = backoff.NewExponentialBackOff(backoff.WithInitialInterval(rebaseFirst), backoff.WithMultiplier(2),
			backoff.WithMaxInterval(rebaseMax), backoff.WithMaxElapsedTime(0))
	} else if wait := f.rebased.NextBackOff(); !f.rested {
		f.rested = true
		f.cfg.Logger.Error("the new baseline has not helped: the Source's Resource List is older than what its Change Lists go back to; waiting for another",
			"error", gap, "in", wait.Round(time.Second).String())
		f.complete = time.Time{}
		return await.For(ctx, wait) // then the lists are asked again, before all resources are
	}
	f.rested = false
	f.cfg.Logger.Error("a new baseline is taken", "error", gap)
	return f.baseline(ctx)
}

// helped records that changes follow on the position again.
func (f *Follower) helped() { f.rebased, f.rested = nil, false }

// baseline takes the Source's state, and goes on from its moment.
func (f *Follower) baseline(ctx context.Context) error {
	begun := f.assume()
	at, err := tried(ctx, f.handover, "the baseline is not taken yet; trying again", f.cfg.Baseline.Baseline)
	if err != nil {
		return err
	}
	f.complete = time.Time{} // what changed meanwhile is looked for at once
	if at.IsZero() {
		return f.sinceUnknown(ctx, begun)
	}
	if !at.After(f.progress.at) {
		f.cfg.Logger.Info("the baseline is older than the position", "at", shown(at), "position", shown(f.progress.at))
	}
	f.progress = newProgress(Position{At: at})
	f.cfg.Logger.Info("the baseline is taken", "position", shown(at))
	return f.save(ctx)
}

// sinceUnknown goes on from a baseline without a known moment: from the first change that the Change
// Lists have. They are asked until they answer: their changes cannot be made up for later.
func (f *Follower) sinceUnknown(ctx context.Context, begun Position) error {
	f.cfg.Logger.Warn(
		"the Resource List does not tell its moment (core §10.1: at); going on from the first change that there is",
	)
	f.progress = newProgress(Position{})
	for attempts, retry := 1, f.retry(); ; attempts++ {
		var found finding
		if err := f.ask(ctx, &found, ChangeList, f.cfg.Locator.ChangeList, time.Time{}); err != nil {
			return err
		}
		if found.asked == 0 || found.read > 0 {
			break
		}
		if found.final(attempts >= f.cfg.GapAttempts) {
			err := fmt.Errorf(
				"%w: what changed since the Resource List, which does not tell its moment: %w",
				ErrGap, found.reason(),
			)
			if f.cfg.OnGap != GapGoOn {
				return err
			}
			f.cfg.Logger.Error("going on without them", "error", err)
			break
		}
		wait := retry.NextBackOff()
		f.cfg.Logger.Warn(
			"the Change Lists cannot be read; trying again", "reason", found.reason(),
			"in", wait.Round(time.Millisecond).String(),
		)
		if err := await.For(ctx, wait); err != nil {
			return err
		}
	}
	if f.progress.at.IsZero() { // there was no change
		f.progress = newProgress(begun)
	}
	return f.save(ctx)
}

// startAt sets the first position to at, the Source's time.
func (f *Follower) startAt(ctx context.Context, at time.Time) error {
	f.progress = newProgress(Position{At: at})
	f.complete, f.gap = time.Time{}, gap{}
	f.cfg.Logger.Info("beginning at the Source's first time", "position", shown(at))
	return f.save(ctx)
}

// fresh reports whether "now" may still be taken from the present lists: no list could be read yet.
// Later they may have changes since the start, which are to be handed on.
func (f *Follower) fresh() bool { return f.progress.assumed && time.Now().Before(f.freshUntil) }
