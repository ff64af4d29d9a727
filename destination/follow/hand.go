package follow

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"

	"carillon/internal/await"
)

// errNoProgress: a Taker took nothing and said nothing.
var errNoProgress = errors.New("nothing was taken")

// hand gives changes to the Taker until it has done with all of them, however long that takes: the
// order rests meanwhile. The position moves with each that is done, up to limit. The error
// is the end of ctx.
func (f *Follower) hand(ctx context.Context, changes []Change, limit time.Time) error {
	retry := f.retry()
	for len(changes) > 0 {
		done, err := f.cfg.Taker.Take(ctx, changes)
		done = min(max(done, 0), len(changes))
		if done > 0 {
			f.done(changes[:done], limit)
			changes = changes[done:]
			// Also at the end: what is done must be known to be.
			if err := f.save(ctx); err != nil {
				return err
			}
			retry.Reset()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil && done == 0 {
			err = errNoProgress
		}
		if err == nil || len(changes) == 0 {
			continue
		}
		wait := retry.NextBackOff()
		f.cfg.Logger.Warn("a change was not taken; it is given again, and all others wait", "error", err,
			"key", changes[0].Key, "in", wait.Round(time.Millisecond).String())
		if err := await.For(ctx, wait); err != nil {
			return err
		}
	}
	return nil
}

// done notes changes that were handed on.
func (f *Follower) done(changes []Change, limit time.Time) {
	f.count += uint64(len(changes))
	for i := range changes {
		c := &changes[i]
		f.place.handed(&c.Entry, c.Key, limit)
		if c.Datetime.IsZero() && c.Via == Push {
			f.place.pushed(&c.Entry)
		}
	}
}

// save writes the position, and drops notifications from the Inbox; it tries until that
// is durable, or ctx ends. It is tried once after that.
func (f *Follower) save(ctx context.Context, drop ...string) error {
	retry := f.retry()
	for {
		to := f.place.position()
		err := f.advance(ctx, to, drop)
		if err == nil {
			f.mu.Lock()
			f.at = told(to)
			f.mu.Unlock()
			return ctx.Err()
		}
		if ctx.Err() != nil {
			f.cfg.Logger.Error("the position could not be written: the last changes are handed on again at the next start", "error", err)
			return ctx.Err()
		}
		wait := retry.NextBackOff()
		f.cfg.Logger.Error("the position could not be written; trying again", "error", err, "in", wait.Round(time.Millisecond).String())
		_ = await.For(ctx, wait) // at the end it is tried once more
	}
}

// advance has the Store move on, also when ctx has ended, and within a time.
func (f *Follower) advance(ctx context.Context, to Position, drop []string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeWithin)
	defer cancel()
	return f.cfg.Store.Advance(ctx, to, drop...)
}

// retry is how waits grow: half of each is random, and they never end.
func (f *Follower) retry() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(f.cfg.RetryFirst),
		backoff.WithMaxInterval(f.cfg.RetryMax), backoff.WithMaxElapsedTime(0))
}

// batch gathers changes and hands them on when there are enough.
type batch struct {
	f       *Follower
	limit   time.Time // of the position
	changes []Change
	keys    map[string]struct{}
	bytes   int
}

// has tells whether the change waits in it.
func (b *batch) has(key string) bool {
	_, has := b.keys[key]
	return has
}

func (b *batch) add(ctx context.Context, c Change) error {
	if b.keys == nil {
		b.keys = map[string]struct{}{}
	}
	b.keys[c.Key] = struct{}{}
	b.changes = append(b.changes, c)
	if b.bytes += sizeOf(&c); len(b.changes) < maxBatch && b.bytes < maxBatchBytes {
		return nil
	}
	return b.flush(ctx)
}

func (b *batch) flush(ctx context.Context) error {
	changes := b.changes
	b.changes, b.bytes = nil, 0
	clear(b.keys)
	return b.f.hand(ctx, changes, b.limit)
}

// sizeOf is about how much memory the texts of a change take.
func sizeOf(c *Change) int {
	const rest = 400 // of the structs, the times and the key
	n := rest + len(c.Loc) + len(c.LastMod) + len(c.Hash) + len(c.Type)
	for i := range c.Links {
		l := &c.Links[i]
		n += rest/2 + len(l.Rel) + len(l.Href) + len(l.Hash) + len(l.Type) + len(l.Path)
	}
	return n
}
