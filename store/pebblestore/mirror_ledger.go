package pebblestore

import (
	"context"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"carillon/destination/mirror"
	"carillon/payload"
)

// Ledger is a list of resources beside the copies; it is not durable.
type Ledger struct{ engine *engine }

var _ mirror.Ledger = (*Ledger)(nil)

// Clear implements mirror.Ledger.
func (l *Ledger) Clear(ctx context.Context) error {
	all := []byte{kindMirrorLedger}
	return l.write(ctx, shrinks, func(b *pebble.Batch) error { return b.DeleteRange(all, keyEnd(all), nil) })
}

// Note implements mirror.Ledger.
func (l *Ledger) Record(ctx context.Context, entries []payload.Entry) error {
	return l.write(ctx, grows, func(b *pebble.Batch) error {
		for i := range entries {
			key := mirrorKey(kindMirrorLedger, entries[i].Loc)
			if entries[i].Change == payload.Deleted {
				if err := b.Delete(key, nil); err != nil {
					return err
				}
				continue
			}
			told := mirror.ResourceOf(&entries[i]).Described
			record := newEncoder(mirrorVersion, 64+len(told.Hash))
			mirrorEncodeTold(&record, &told)
			if err := b.Set(key, record, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

func (l *Ledger) write(ctx context.Context, g growth, build func(*pebble.Batch) error) error {
	err := l.engine.enter(ctx)
	if err == nil {
		defer l.engine.leave()
		err = l.engine.space.check(g)
	}
	if err == nil {
		b := l.engine.db.NewBatch()
		if err = build(b); err == nil {
			err = l.engine.lazily(b)
		}
	}
	if err != nil {
		return fmt.Errorf("write the ledger: %w", mirrorError(err))
	}
	return nil
}

// Resource implements mirror.Ledger.
func (l *Ledger) Resource(ctx context.Context, loc string) (mirror.Resource, error) {
	if err := l.engine.enter(ctx); err != nil {
		return mirror.Resource{}, fmt.Errorf("read the ledger: %w", mirrorError(err))
	}
	defer l.engine.leave()
	record, err := l.engine.get(mirrorKey(kindMirrorLedger, loc))
	if err != nil {
		return mirror.Resource{}, fmt.Errorf("read the ledger: %w", mirrorError(err))
	}
	if record == nil {
		return mirror.Resource{}, mirror.ErrNone
	}
	return ledgerResource(loc, record)
}

func ledgerResource(loc string, record []byte) (mirror.Resource, error) {
	d, linked := mirrorDecoder(record)
	told := mirrorDecodeTold(d, linked)
	return mirror.Resource{Loc: loc, Described: told}, d.done()
}

// Resources implements mirror.Ledger.
func (l *Ledger) Resources(ctx context.Context) iter.Seq2[mirror.Resource, error] {
	return mirrorErrors(records(ctx, l.engine, []byte{kindMirrorLedger}, func(key, record []byte) (mirror.Resource, error) {
		return ledgerResource(string(key[1:]), record)
	}))
}
