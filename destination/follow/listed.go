package follow

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"

	"carillon/destination/lists"
	"carillon/internal/await"
	"carillon/payload"
)

// ResourceLists reads the state of a Source: *lists.Client does.
type ResourceLists interface {
	Resources(ctx context.Context, uri string, visit func(payload.Entry) error) (lists.Snapshot, error)
}

// Listed is a Baseliner that hands every resource of a Source to a Taker, as created. It knows nothing
// of earlier changes: it does not report resources that the Source no longer has.
type Listed struct {
	Lists   ResourceLists
	Handler Handler
	// ResourceList is where the Source's is; empty: it has none.
	ResourceList func(ctx context.Context) (uri string, err error)
	// Logger reports what happens; default: nowhere.
	Logger *slog.Logger
	// RetryFirst and RetryMax bound the wait after a Taker that failed; defaults as Config's.
	RetryFirst, RetryMax time.Duration
}

// errNoResourceList: there is nothing to take a baseline from.
var errNoResourceList = errors.New("the Source names no Resource List")

// Baseline implements Baseliner. Where the list breaks off in the middle it begins anew, under
// the same keys.
func (l *Listed) Baseline(ctx context.Context) (time.Time, error) {
	uri, err := l.ResourceList(ctx)
	if err == nil && uri == "" {
		err = errNoResourceList
	}
	if err != nil {
		return time.Time{}, err
	}
	var changes []Change
	size := 0
	snapshot, err := l.Lists.Resources(ctx, uri, func(e payload.Entry) error {
		key := "resource-" + digest(0, e.Loc, e.LastMod, e.Hash, e.Length, e.Type, e.Encoding)
		e.Change = payload.Created
		c := Change{Entry: e, Key: key, Via: ResourceList}
		changes = append(changes, c)
		if size += sizeOf(&c); len(changes) < maxBatch && size < maxBatchBytes {
			return nil
		}
		err := l.give(ctx, changes)
		changes, size = nil, 0
		return err
	})
	if err == nil {
		err = l.give(ctx, changes)
	}
	if err != nil {
		return time.Time{}, err
	}
	if l.Logger != nil {
		l.Logger.Info("the Source's resources were handed on", "count", snapshot.Entries)
	}
	return snapshot.At, nil
}

// give has the Taker take them all, however long it takes.
func (l *Listed) give(ctx context.Context, changes []Change) error {
	cfg := Config{RetryFirst: l.RetryFirst, RetryMax: l.RetryMax, Logger: l.Logger}.withDefaults()
	retry := backoff.NewExponentialBackOff(backoff.WithInitialInterval(cfg.RetryFirst),
		backoff.WithMaxInterval(cfg.RetryMax), backoff.WithMaxElapsedTime(0))
	for len(changes) > 0 {
		done, err := l.Handler.Handle(ctx, changes)
		changes = changes[min(max(done, 0), len(changes)):]
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if done > 0 {
			retry.Reset()
		}
		if err == nil && done > 0 || len(changes) == 0 {
			continue
		}
		wait := retry.NextBackOff()
		cfg.Logger.Warn("a resource was not taken; it is given again", "error", err, "key", changes[0].Key,
			"in", wait.Round(time.Millisecond).String())
		if err := await.For(ctx, wait); err != nil {
			return err
		}
	}
	return nil
}
