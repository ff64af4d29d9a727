package follow

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"

	"carillon/internal/await"
	"carillon/payload"
)

// errNoProgress: a Taker took nothing and said nothing.
var errNoProgress = errors.New("nothing was taken")

// handover gives changes to the Taker, and keeps the position. Run's goroutine owns it.
type handover struct {
	*inbox
	progress *progress
	count    uint64 // changes handed on since the start
}

// hand gives changes to the Taker until it has done with all of them, however long that takes: the
// order rests meanwhile. The position moves with each that is done, up to limit. The error
// is the end of ctx.
func (h *handover) hand(ctx context.Context, changes []Change, limit time.Time) error {
	retry := h.retry()
	for len(changes) > 0 {
		done, err := h.cfg.Handler.Handle(ctx, changes)
		done = min(max(done, 0), len(changes))
		if done > 0 {
			h.done(changes[:done], limit)
			changes = changes[done:]
			// Also at the end: completed changes must be recorded.
			if err := h.save(ctx); err != nil {
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
		h.cfg.Logger.Warn("a change was not taken; it is given again, and all others wait", "error", err,
			"key", changes[0].Key, "in", wait.Round(time.Millisecond).String())
		if err := await.For(ctx, wait); err != nil {
			return err
		}
	}
	return nil
}

// done notes changes that were handed on.
func (h *handover) done(changes []Change, limit time.Time) {
	h.count += uint64(len(changes))
	for i := range changes {
		c := &changes[i]
		h.progress.handed(&c.Entry, c.Key, limit)
		if c.Datetime.IsZero() && c.Via == Push {
			h.progress.pushed(&c.Entry)
		}
	}
}

// save writes the position, and drops notifications from the Inbox; it tries until that
// is durable, or ctx ends. It is tried once after that.
func (h *handover) save(ctx context.Context, drop ...string) error {
	retry := h.retry()
	for {
		to := h.progress.position()
		err := h.advance(ctx, to, drop)
		if err == nil {
			h.mu.Lock()
			h.at = sourceTime(to)
			h.mu.Unlock()
			return ctx.Err()
		}
		if ctx.Err() != nil {
			h.cfg.Logger.Error(
				"the position could not be written: the last changes are handed on again at the next start",
				"error", err,
			)
			return ctx.Err()
		}
		wait := retry.NextBackOff()
		h.cfg.Logger.Error(
			"the position could not be written; trying again", "error", err,
			"in", wait.Round(time.Millisecond).String(),
		)
		_ = await.For(ctx, wait) // at the end it is tried once more
	}
}

// advance has the Store move on, also when ctx has ended, and within a time.
func (h *handover) advance(ctx context.Context, to Position, drop []string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeWithin)
	defer cancel()
	return h.cfg.Store.Advance(ctx, to, drop...)
}

// retry is how waits grow: half of each is random, and they never end.
func (h *handover) retry() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(h.cfg.RetryFirst),
		backoff.WithMaxInterval(h.cfg.RetryMax), backoff.WithMaxElapsedTime(0))
}

// batch gathers changes and hands them on when there are enough.
type batch struct {
	f       *handover
	limit   time.Time // of the position
	changes []Change
	keys    map[string]struct{}
	bytes   int
}

// has reports whether the change waits in it.
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

// limit is how far a change may move the position: a wrong datetime, in the future, must not make
// everything until then count as past. The future goes by this clock, or by the Source's where that is
// ahead. Its lead shows in the position, and in the beginning of a waiting notification (zero: none).
func (h *handover) limit(waiting time.Time) time.Time {
	return later(later(time.Now(), h.progress.at), waiting).Add(h.cfg.Skew)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// earlier is a, or b if that is no zero and earlier.
func earlier(a, b time.Time) time.Time {
	if !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// tried calls what until it works, or ctx ends.
func tried[T any](ctx context.Context, f *handover, message string, what func(context.Context) (T, error)) (T, error) {
	retry := f.retry()
	for {
		v, err := what(ctx)
		if err == nil || ctx.Err() != nil {
			return v, ctx.Err()
		}
		wait := retry.NextBackOff()
		f.cfg.Logger.Error(message, "error", err, "in", wait.Round(time.Millisecond).String())
		if err := await.For(ctx, wait); err != nil {
			return v, err
		}
	}
}

// sourceTime is the moment of a position that came from the Source; zero of another.
func sourceTime(p Position) time.Time {
	if p.Assumed {
		return time.Time{}
	}
	return p.At
}

// assume is where following begins that begins now, until the Source gives a time.
func (h *handover) assume() Position {
	return Position{At: time.Now().UTC().Add(-h.cfg.Skew).Truncate(time.Microsecond), Assumed: true}
}

func shown(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// read reads what a notification has, in order.
func (h *handover) read(p Pushed) ([]Change, error) {
	r := payload.NewReader(bytes.NewReader(p.Body), payload.Limits{Bytes: int64(len(p.Body)) + 1})
	var all []Change
	var last time.Time // of those that tell
	sorted := true
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if !e.Datetime.IsZero() {
			sorted, last = sorted && !e.Datetime.Before(last), e.Datetime
		}
		all = append(all, Change{Entry: e, Via: Push, Notification: p.ID})
	}
	if !sorted {
		h.cfg.Logger.Warn(
			"the changes of a notification are not in the order of their datetimes (CN §3), and are put in it",
			"id", p.ID,
		)
		inOrder(all)
	}
	var nth counter
	for i := range all {
		c := &all[i]
		if c.Key = nth.key(&c.Entry); c.Datetime.IsZero() {
			c.Key = within(p.ID, c.Key)
		}
	}
	return all, nil
}

// inOrder sorts changes by their datetimes; those without one stay behind the one before them.
func inOrder(all []Change) {
	type at struct {
		time   time.Time
		change Change
	}
	timed := make([]at, len(all))
	var last time.Time
	for i, c := range all {
		if !c.Datetime.IsZero() {
			last = c.Datetime
		}
		timed[i] = at{last, c}
	}
	slices.SortStableFunc(timed, func(a, b at) int { return a.time.Compare(b.time) })
	for i := range timed {
		all[i] = timed[i].change
	}
}
