package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"carillon/notifier"
	"carillon/payload"
)

// resourcesView is the resources of a set at one moment.
type resourcesView struct {
	journal  *Journal
	set      string
	prefix   []byte
	snapshot *pebble.Snapshot
}

// Resources implements notifier.Resources.
func (j *Journal) Resources(ctx context.Context, set string) (time.Time, iter.Seq2[payload.Entry, error], error) {
	at, v, err := j.viewNow(ctx, set)
	if err != nil {
		return time.Time{}, nil, fmt.Errorf("read the resources of %s: %w", set, journalError(err))
	}
	return at, v.entries(ctx), nil
}

func (j *Journal) viewNow(ctx context.Context, set string) (time.Time, *resourcesView, error) {
	if err := j.engine.enter(ctx); err != nil {
		return time.Time{}, nil, err
	}
	defer j.engine.leave()
	j.mu.Lock()
	at := journalTime(j.last + 1)
	v, err := j.view(set)
	j.mu.Unlock()
	if err != nil {
		return time.Time{}, nil, err
	}
	if err := j.engine.settled(); err != nil {
		v.drop()
		return time.Time{}, nil, err
	}
	return at, v, nil
}

// Snapshot implements notifier.ResourceStore.
func (j *Journal) Snapshot(
	ctx context.Context, set string, now time.Time,
) (at time.Time, all iter.Seq2[payload.Entry, error], err error) {
	var v *resourcesView
	err = j.engine.change(ctx, shrinks, &j.mu, func(b *pebble.Batch) error {
		if v, err = j.view(set); err != nil {
			return err
		}
		// Later events are behind the moment, and so is the next Snapshot.
		j.last = max(j.last+1, now.UnixMicro())
		at = journalTime(j.last)
		if state := j.resources.states[set]; !state.told {
			state.told = true
			if err := j.resources.put(b, set, state); err != nil {
				return err
			}
		}
		return putLast(b, j.last)
	})
	if err != nil {
		if v != nil {
			v.drop()
		}
		return time.Time{}, nil, fmt.Errorf("read the resources of %s: %w", set, journalError(err))
	}
	return at, v.entries(ctx), nil
}

// view holds what the resources of a set are now; j.mu is held. Until it is read it does not
// keep the journal from closing.
func (j *Journal) view(set string) (*resourcesView, error) {
	state, kept := j.resources.states[set]
	switch {
	case j.resources.closed:
		return nil, unavailable(errClosed)
	case j.channels[set] == nil:
		return nil, notifier.ErrNoSet
	case !kept:
		return nil, notifier.ErrNotWhole
	}
	v := &resourcesView{
		journal: j, set: set, prefix: resourcesPrefix(set, state.generation), snapshot: j.engine.db.NewSnapshot(),
	}
	j.resources.views[v] = true
	return v, nil
}

// take makes the view the caller's; false where it was read, or dropped, already.
func (v *resourcesView) take() bool {
	v.journal.mu.Lock()
	defer v.journal.mu.Unlock()
	mine := v.journal.resources.views[v]
	delete(v.journal.resources.views, v)
	return mine
}

// drop releases the view if it has no reader.
func (v *resourcesView) drop() {
	if v.take() {
		_ = v.snapshot.Close()
	}
}

// dropViews releases the views without a reader, so that Pebble can be closed.
func (j *Journal) dropViews() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.resources.closed = true
	for v := range j.resources.views {
		_ = v.snapshot.Close()
		delete(j.resources.views, v)
	}
}

var (
	errReadOnce  = errors.New("they can be read once, before ctx ends")
	errBrokenOff = errors.New("the reader has enough")
)

// entries reads the view, once. The end of ctx lets it go, read or not.
func (v *resourcesView) entries(ctx context.Context) iter.Seq2[payload.Entry, error] {
	ended := context.AfterFunc(ctx, v.drop)
	return func(yield func(payload.Entry, error) bool) {
		err := v.journal.engine.enter(ctx)
		if err == nil {
			defer v.journal.engine.leave()
			if err = errReadOnce; v.take() {
				ended()
				err = errors.Join(v.read(ctx, yield), v.snapshot.Close())
			}
		}
		if err != nil && !errors.Is(err, errBrokenOff) {
			yield(payload.Entry{}, fmt.Errorf("read the resources of %s: %w", v.set, journalError(err)))
		}
	}
}

// read gives the resources. A damaged one is an error: to leave it out would tell of a
// deletion.
func (v *resourcesView) read(ctx context.Context, yield func(payload.Entry, error) bool) error {
	it, err := iterator(v.snapshot, v.prefix, keyEnd(v.prefix))
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		e, there, err := resourceAt(it, len(v.prefix))
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		if err != nil {
			return errors.Join(err, it.Close())
		}
		if there && !yield(e, nil) {
			return errors.Join(errBrokenOff, it.Close())
		}
	}
	if err := it.Close(); err != nil {
		return readError(err)
	}
	return nil
}

func resourceAt(it *pebble.Iterator, prefix int) (e payload.Entry, ok bool, err error) {
	value, err := it.ValueAndErr()
	if err != nil {
		return payload.Entry{}, false, readError(err)
	}
	return decodeResource(string(it.Key()[prefix:]), value)
}
