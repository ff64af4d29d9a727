package mirror

import (
	"context"
	"errors"
	"time"

	"carillon/internal/await"
)

const (
	// maxDue is how many of what is due are looked at in one step.
	maxDue = 256
	// lookAgain is how long Run waits at most before it looks what is due.
	retryInterval = time.Minute
	// troubleWait is how long Run waits after trouble of the mirror itself.
	troubleWait = 15 * time.Second
	// maxSettleWait is how long Settle waits for one round at most.
	maxSettleWait = time.Minute
)

// Run tries again what failed, when it is due, and first carries out deletions that were only
// recorded so far, where Config.Delete says so. It returns when ctx ends.
func (m *Mirror) Run(ctx context.Context) error {
	swept := !m.cfg.Delete
	for {
		wait := retryInterval
		var err error
		if !swept {
			if err = m.Sweep(ctx); errors.Is(err, ErrTooMany) {
				m.cfg.Logger.Error("what the Source has deleted is not removed", "error", err)
				err = nil
			}
			swept = err == nil
		}
		var next time.Time
		if err == nil {
			next, err = m.retryDue(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			m.cfg.Logger.Error("what failed is not tried again for now", "error", err, "pause", troubleWait)
			wait = troubleWait
		case !next.IsZero():
			wait = min(max(time.Until(next), 0), retryInterval)
		}
		if err := m.pause(ctx, wait, err == nil); err != nil {
			return nil
		}
	}
}

// pause waits, or until something is due that was not.
func (m *Mirror) pause(ctx context.Context, wait time.Duration, wakes bool) error {
	wake := m.wake
	if !wakes {
		wake = nil
	}
	_, err := await.Until(ctx, wait, wake)
	return err
}

// retryDue tries everything that is due, and returns when the next is.
func (m *Mirror) retryDue(ctx context.Context) (next time.Time, err error) {
	for {
		due, next, err := m.cfg.Catalog.Due(ctx, time.Now(), maxDue)
		if err != nil || len(due) == 0 {
			return next, err
		}
		p := m.newPool(ctx)
		for i := range due {
			if err = p.submit(&job{loc: due[i].Loc, retry: true}); err != nil {
				break
			}
		}
		if err := p.wait(); err != nil {
			return time.Time{}, err
		}
	}
}

// Settle retries failures, so many times, waiting for each to be due. It returns when nothing is left
// that Failed, or when the rest is due much later. Missing resources do not hold it up.
func (m *Mirror) Settle(ctx context.Context, rounds int) error {
	if m.cfg.Dump == DumpOnly {
		return nil
	}
	for round := range rounds {
		next, err := m.retryDue(ctx)
		if err != nil || next.IsZero() {
			return err
		}
		if all, _, err := m.Counts(ctx, 0); err != nil || all[Failed] == 0 {
			return err
		}
		// A little longer than until the first is due: others of the round are soon after it.
		wait := max(time.Until(next), 0) + min(m.cfg.RetryFirst<<min(round, 10), maxSettleWait)/2
		if wait > maxSettleWait {
			return nil
		}
		if err := m.pause(ctx, wait, false); err != nil {
			return err
		}
	}
	if rounds <= 0 {
		return nil
	}
	_, err := m.retryDue(ctx)
	return err
}

// Sweep removes the files of what the Source has deleted, where they were kept until now. ErrTooMany where
// that are more than Config.MaxDelete.
func (m *Mirror) Sweep(ctx context.Context) (err error) {
	if !m.cfg.Delete {
		return nil
	}
	var d deletions
	for c, err := range m.cfg.Catalog.All(ctx) {
		if err != nil {
			return err
		}
		d.count(&c, c.State == Gone)
	}
	if err := d.tooMany(m.cfg.MaxDelete); err != nil {
		return err
	}
	p := m.newPool(ctx)
	for c, listErr := range m.cfg.Catalog.All(ctx) {
		if err = listErr; err != nil {
			break
		}
		if c.State != Gone {
			continue
		}
		if err = p.submit(&job{loc: c.Loc, described: c.Described}); err != nil {
			break
		}
	}
	return errors.Join(err, p.wait())
}
