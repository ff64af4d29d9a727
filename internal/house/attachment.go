package house

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"carillon/delivery"
	"carillon/internal/engine"
	"carillon/operator/api"
	"carillon/subscription"
)

// Waiting for the store.
const (
	askWithin = 10 * time.Second // one try to reach it
	askEvery  = time.Second      // pause between two
	lookEvery = time.Minute      // pause between two looks at a store that was there
)

// errNotReached is why the store is not ready before the first try has ended.
var errNotReached = fmt.Errorf("%w: it was not reached yet", subscription.ErrUnavailable)

// attachment is the store, and whether it was reached and prepared.
type attachment struct {
	*engine.Engine
	logger  *slog.Logger
	missing atomic.Pointer[error] // why it is waited for; nil once it was there
	asked   api.Recent            // whether it answers, for all that ask
}

func newAttachment(e *engine.Engine, logger *slog.Logger) *attachment {
	a := &attachment{Engine: e, logger: logger}
	a.missing.Store(&errNotReached)
	return a
}

// closed returns why nothing may be taken in: subscription.ErrUnavailable.
func (a *attachment) closed() error {
	if missing := a.missing.Load(); missing != nil {
		return *missing
	}
	return nil
}

// shared reports whether other processes work on the store.
func (a *attachment) shared() bool { return a.Listen != nil }

// await returns nil when the store is there and prepared, or when ctx ended; an error is one that
// waiting does not mend.
func (a *attachment) await(ctx context.Context) error {
	for tries := 0; ; tries++ {
		err := a.reach(ctx)
		switch {
		case err == nil:
			a.missing.Store(nil)
			if tries > 0 {
				a.logger.Info("the store is there")
			}
			return nil
		case ctx.Err() != nil:
			return nil
		case !errors.Is(err, subscription.ErrUnavailable):
			return err
		}
		a.missing.Store(&err)
		if tries == 0 {
			a.logger.Warn("waiting for the store; until it is there what needs it is answered with 503", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(askEvery):
		}
	}
}

// reach tries once to reach the store.
func (a *attachment) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	err := a.Ready(ctx)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		return fmt.Errorf("%w: no answer within %s: %w", subscription.ErrUnavailable, askWithin, err)
	}
	return err
}

// watch looks now and then whether the store is still set up as at the start, until ctx ends:
// settings are changed while a hub runs, and another server may take the place of the one before.
func (a *attachment) watch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookEvery):
		}
		if err := a.reach(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, subscription.ErrUnavailable) {
			a.logger.Error("the store would be refused at a start; the hub goes on", "error", err)
		}
	}
}

// answers asks the store, at most once a second for all strangers together. sure is until when
// the shards are surely this process's.
func (a *attachment) answers(ctx context.Context, sure func() time.Time) error {
	if err := a.closed(); err != nil {
		return err
	}
	return a.asked.Ask(ctx, func(ctx context.Context) error { return a.ask(ctx, sure()) })
}

// ask reads a subscription that does not exist.
func (a *attachment) ask(ctx context.Context, sure time.Time) error {
	var nobody subscription.ID
	_, err := a.Subscriptions.Get(ctx, nobody)
	if errors.Is(err, subscription.ErrNotFound) {
		return nil
	}
	// The rest serves, which others could not do better; Warnings tell of the part.
	if errors.Is(err, delivery.ErrPartAway) && time.Now().Before(sure) {
		return nil
	}
	// The subscription ID of the probe is of no use to the operator.
	for cause := err; cause != nil && strings.Contains(err.Error(), nobody.String()); cause = errors.Unwrap(cause) {
		err = cause
	}
	return err
}
