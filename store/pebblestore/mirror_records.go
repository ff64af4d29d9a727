package pebblestore

import (
	"context"
	"fmt"
	"iter"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"carillon/destination/mirror"
	"carillon/payload"
)

// mirrorVersion is the version of the records of a mirror. Records of version 1, which a store of today
// may still hold, have no links.
const mirrorVersion = 2

// mirrorDecoder reads a record of a mirror of either version; linked tells whether it may have links.
func mirrorDecoder(record []byte) (d *decoder, linked bool) {
	if len(record) > 0 && record[0] == 1 {
		return newDecoder(record, 1), false
	}
	return newDecoder(record, mirrorVersion), true
}

// mirrorStates are the states as records have them; the numbers are for good.
var mirrorStates = []mirror.State{mirror.Whole, mirror.Missing, mirror.Failed, mirror.Gone, mirror.Refused, mirror.Invalid}

func mirrorEncodeCopy(c *mirror.Copy) []byte {
	record := newEncoder(mirrorVersion, 160+len(c.Path)+len(c.Told.Hash)+len(c.Told.Links)+len(c.Reason))
	record.string(c.Path)
	state := byte(0xff)
	for i, s := range mirrorStates {
		if s == c.State {
			state = byte(i)
		}
	}
	record.byte(state)
	mirrorEncodeTold(&record, &c.Told)
	if f := c.File; f == nil {
		record.byte(0)
	} else {
		record.byte(1)
		record.uint(uint64(f.Size))
		record.bytes(f.SHA256[:])
		record.time(f.ModTime)
		record.string(f.ETag)
		record.string(f.LastModified)
		record.string(f.Encoding)
	}
	record.uint(uint64(c.Tries))
	record.time(c.Next)
	record.string(c.Reason)
	return record
}

func mirrorDecodeCopy(key, record []byte) (mirror.Copy, error) {
	d, linked := mirrorDecoder(record)
	c := mirror.Copy{Loc: string(key[1:]), Path: d.string()}
	if state := int(d.byte()); state < len(mirrorStates) {
		c.State = mirrorStates[state]
	} else {
		d.fail("a state of no known kind")
	}
	c.Told = mirrorDecodeTold(d, linked)
	if d.byte() != 0 {
		f := &mirror.File{Size: int64(d.uintMax(math.MaxInt64))}
		d.array(f.SHA256[:])
		f.ModTime = d.time()
		f.ETag, f.LastModified, f.Encoding = d.string(), d.string(), d.string()
		c.File = f
	}
	c.Tries = int(d.uintMax(math.MaxInt32))
	c.Next = d.time()
	c.Reason = d.string()
	return c, d.done()
}

func mirrorEncodeTold(record *encoder, t *mirror.Told) {
	record.string(string(t.Change))
	record.time(t.Datetime)
	for _, s := range []string{t.LastMod, t.Hash, t.Length, t.Type, t.Encoding, t.Links} {
		record.string(s)
	}
}

func mirrorDecodeTold(d *decoder, linked bool) mirror.Told {
	t := mirror.Told{Change: payload.Change(d.string()), Datetime: d.time()}
	for _, s := range []*string{&t.LastMod, &t.Hash, &t.Length, &t.Type, &t.Encoding} {
		*s = d.string()
	}
	if linked {
		t.Links = d.string()
	}
	return t
}

// Ledger is a list of resources beside the copies; it is not durable.
type Ledger struct{ engine *engine }

var _ mirror.Ledger = (*Ledger)(nil)

// Clear implements mirror.Ledger.
func (l *Ledger) Clear(ctx context.Context) error {
	all := []byte{kindMirrorLedger}
	return l.write(ctx, shrinks, func(b *pebble.Batch) error { return b.DeleteRange(all, keyEnd(all), nil) })
}

// Note implements mirror.Ledger.
func (l *Ledger) Note(ctx context.Context, entries []payload.Entry) error {
	return l.write(ctx, grows, func(b *pebble.Batch) error {
		for i := range entries {
			key := mirrorKey(kindMirrorLedger, entries[i].Loc)
			if entries[i].Change == payload.Deleted {
				if err := b.Delete(key, nil); err != nil {
					return err
				}
				continue
			}
			told := mirror.ResourceOf(&entries[i]).Told
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
	return mirror.Resource{Loc: loc, Told: told}, d.done()
}

// Resources implements mirror.Ledger.
func (l *Ledger) Resources(ctx context.Context) iter.Seq2[mirror.Resource, error] {
	return mirrorErrors(records(ctx, l.engine, []byte{kindMirrorLedger}, func(key, record []byte) (mirror.Resource, error) {
		return ledgerResource(string(key[1:]), record)
	}))
}
