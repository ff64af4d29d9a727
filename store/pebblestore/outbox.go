package pebblestore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"carillon/destination/mirror"
	"carillon/destination/republish"
)

// Outbox is what a mirror hands over to an intake: its records follow from Mirrored.Save. A record
// that cannot be read back is logged, and the copy is handed over again with its next change.
type Outbox struct{ m *Mirrored }

var _ republish.Outbox = (*Outbox)(nil)

// outboxState is what is held in memory of an outbox.
type outboxState struct {
	open      bool   // guarded by Mirrored.mu
	collected bool   // guarded by Mirrored.mu: all copies were looked at since it was opened
	next      uint64 // guarded by Mirrored.mu: the next number in the queue
	wake      chan struct{}
}

// load reads the state of an outbox.
func (o *Outbox) load() error {
	m := o.m
	m.outbox.wake = make(chan struct{}, 1)
	to, collected, err := o.target()
	if err != nil {
		return err
	}
	m.outbox.open, m.outbox.collected, m.outbox.next = to != (republish.Target{}), collected, 1
	it, err := iterator(m.engine.db, []byte{kindOutboxQueue}, keyEnd([]byte{kindOutboxQueue}))
	if err != nil {
		return err
	}
	if it.Last() && len(it.Key()) == 9 {
		m.outbox.next = binary.BigEndian.Uint64(it.Key()[1:]) + 1
	}
	return it.Close()
}

func (o *Outbox) target() (to republish.Target, collected bool, err error) {
	record, err := o.m.engine.get([]byte{kindOutboxRest, outboxTarget})
	if err != nil || record == nil {
		return to, false, err
	}
	d := newDecoder(record, outboxVersion)
	to.Intake, to.Base = d.words(), d.words()
	collected = d.octet() != 0
	return to, collected, d.done()
}

func setTarget(b *pebble.Batch, to republish.Target, collected bool) error {
	record := newEncoder(outboxVersion, len(to.Intake)+len(to.Base)+8)
	record.words(to.Intake)
	record.words(to.Base)
	record.flag(collected)
	return b.Set([]byte{kindOutboxRest, outboxTarget}, record, nil)
}

// Open implements republish.Outbox.
func (o *Outbox) Open(ctx context.Context, to republish.Target) (anew bool, err error) {
	collected := false
	err = o.change(ctx, shrinks, func(b *pebble.Batch, _ *notes) error {
		var was republish.Target
		if was, collected, err = o.target(); err != nil {
			return err
		}
		switch {
		case was == to:
			return nil
		case was.Intake == to.Intake:
			return fmt.Errorf("%w: %s", republish.ErrMoved, was.Base)
		}
		anew, collected = true, false
		for _, all := range [][]byte{{kindOutboxPost}, {kindOutboxQueue}, {kindOutboxRest}} {
			err = errors.Join(err, b.DeleteRange(all, keyEnd(all), nil))
		}
		return errors.Join(err, setTarget(b, to, false))
	})
	if err != nil {
		return false, fmt.Errorf("open the outbox: %w", err)
	}
	o.m.mu.Lock()
	o.m.outbox.open, o.m.outbox.collected = true, collected
	o.m.mu.Unlock()
	for more := true; more; {
		err := o.change(ctx, shrinks, func(b *pebble.Batch, n *notes) (err error) {
			more, err = o.retryRefused(ctx, b, n)
			return err
		})
		if err != nil {
			return false, fmt.Errorf("have what was refused wait again: %w", err)
		}
	}
	return anew, nil
}

// retryRefused has some of what was refused wait again, and reports whether there may be more.
func (o *Outbox) retryRefused(ctx context.Context, b *pebble.Batch, n *notes) (more bool, err error) {
	var paths []string
	prefix := []byte{kindOutboxRest, outboxRefused}
	err = o.m.engine.scan(ctx, prefix, func(key, _ []byte) bool {
		paths = append(paths, string(key[len(prefix):]))
		return len(paths) < outboxStep
	})
	for _, at := range paths {
		if err != nil {
			return false, err
		}
		var p *post
		if p, err = n.post(at); err != nil {
			return false, err
		}
		if p.state == postRefused {
			p.reason = ""
			n.queue(p)
		}
		err = b.Delete(outboxRefusedKey(at), nil)
	}
	return len(paths) > 0, err
}

// Collect implements republish.Outbox.
func (o *Outbox) Collect(ctx context.Context) error {
	o.m.mu.Lock()
	collected := o.m.outbox.collected
	o.m.mu.Unlock()
	if collected {
		return nil
	}
	var locs []string
	for c, err := range o.m.All(ctx) {
		if err != nil {
			return fmt.Errorf("look what is to be handed over: %w", err)
		}
		if locs = append(locs, c.Loc); len(locs) < outboxStep {
			continue
		}
		if err := o.collect(ctx, locs); err != nil {
			return err
		}
		locs = locs[:0]
	}
	if err := o.collect(ctx, locs); err != nil {
		return err
	}
	err := o.change(ctx, shrinks, func(b *pebble.Batch, _ *notes) error {
		to, _, err := o.target()
		if err != nil {
			return err
		}
		return setTarget(b, to, true)
	})
	if err != nil {
		return fmt.Errorf("note that everything waits that is to be handed over: %w", err)
	}
	o.m.mu.Lock()
	defer o.m.mu.Unlock()
	o.m.outbox.collected = true
	return nil
}

func (o *Outbox) collect(ctx context.Context, locs []string) error {
	err := o.change(ctx, grows, func(_ *pebble.Batch, n *notes) error {
		for _, loc := range locs {
			c, err := o.m.readCopy(loc)
			if errors.Is(err, mirror.ErrNone) {
				continue
			}
			if err == nil {
				err = n.foundCopy(&c)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look what is to be handed over: %w", err)
	}
	return nil
}

// Next implements republish.Outbox.
func (o *Outbox) Next(ctx context.Context, limit, bytes int) (items []republish.Item, err error) {
	more := true
	for more && err == nil && len(items) == 0 {
		if items, err = o.sealed(ctx, limit); err != nil || len(items) > 0 {
			break
		}
		err = o.change(ctx, shrinks, func(b *pebble.Batch, n *notes) error {
			more, err = o.seal(ctx, b, n, limit, bytes)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("seal what is to be handed over: %w", mirrorError(err))
	}
	return items, nil
}

// sealed reads the sealed batch.
func (o *Outbox) sealed(ctx context.Context, limit int) (items []republish.Item, err error) {
	if err := o.m.engine.enter(ctx); err != nil {
		return nil, err
	}
	defer o.m.engine.leave()
	err = o.m.engine.scan(ctx, []byte{kindOutboxRest, outboxSealed}, func(key, record []byte) bool {
		item, err := decodeItem(key, record)
		if err != nil {
			o.m.engine.damaged(key, err)
			return true
		}
		items = append(items, item)
		return len(items) < limit
	})
	return items, err
}

// seal moves what waits longest into the sealed batch, which is empty or cannot be read.
func (o *Outbox) seal(
	ctx context.Context, b *pebble.Batch, n *notes, limit, bytes int,
) (more bool, err error) {
	if err := o.dropSealed(ctx, b, n, math.MaxInt, nil); err != nil {
		return false, err
	}
	type waiting struct {
		key  []byte
		path string
	}
	var queue []waiting
	err = o.m.engine.scan(ctx, []byte{kindOutboxQueue}, func(key, at []byte) bool {
		queue = append(queue, waiting{append([]byte(nil), key...), string(at)})
		return len(queue) < limit
	})
	for i := 0; i < len(queue) && err == nil && bytes > 0; i++ {
		more = true
		var p *post
		if p, err = n.post(queue[i].path); err != nil {
			break
		}
		if p.state != postWaiting || !sameSeq(queue[i].key, p.seq) {
			err = b.Delete(queue[i].key, nil) // the entry is left from before
			continue
		}
		var record []byte
		if record = n.fly(p); record == nil {
			continue // the intake's set never had it
		}
		bytes -= len(record)
		err = b.Set(outboxSealedKey(uint32(i), queue[i].path), record, nil)
	}
	return more, err
}

// dropSealed takes the first items out of the sealed batch, and calls settle with each that can be
// read.
func (o *Outbox) dropSealed(
	ctx context.Context, b *pebble.Batch, n *notes, count int,
	settle func(p *post, item *republish.Item),
) error {
	type sealed struct {
		key  []byte
		item republish.Item
		read bool
	}
	var all []sealed
	err := o.m.engine.scan(ctx, []byte{kindOutboxRest, outboxSealed}, func(key, record []byte) bool {
		item, err := decodeItem(key, record)
		all = append(all, sealed{append([]byte(nil), key...), item, err == nil})
		if err == nil {
			count--
		}
		return count > 0
	})
	for i := range all {
		if err != nil {
			break
		}
		var p *post
		if p, err = n.post(all[i].item.Path); err != nil {
			break
		}
		p.land()
		if all[i].read && settle != nil {
			settle(p, &all[i].item)
		} else {
			p.handed = unknownDigest
		}
		p.touched = true
		err = b.Delete(all[i].key, nil)
	}
	return err
}

// Settle implements republish.Outbox.
func (o *Outbox) Settle(ctx context.Context, count int, refused string) error {
	err := o.change(ctx, shrinks, func(b *pebble.Batch, n *notes) error {
		return o.dropSealed(ctx, b, n, count, func(p *post, item *republish.Item) {
			p.settle(item, refused)
		})
	})
	if err != nil {
		return fmt.Errorf("note what was handed over: %w", err)
	}
	return nil
}

// Waiting implements republish.Outbox.
func (o *Outbox) Waiting(ctx context.Context) (int, error) {
	all, err := o.count(ctx, []byte{kindOutboxQueue}, []byte{kindOutboxRest, outboxSealed})
	return all, err
}

// Standing counts what the intake has, is to get, and has refused. It reads all records.
func (o *Outbox) Counts(ctx context.Context) (s republish.Counts, err error) {
	if s.Waiting, err = o.Waiting(ctx); err != nil {
		return s, err
	}
	if s.Refused, err = o.count(ctx, []byte{kindOutboxRest, outboxRefused}); err != nil {
		return s, err
	}
	for p, err := range records(ctx, o.m.engine, []byte{kindOutboxPost}, decodePost) {
		if err != nil {
			return s, mirrorError(err)
		}
		if p.has {
			s.Published++
		}
	}
	return s, nil
}

func (o *Outbox) count(ctx context.Context, prefixes ...[]byte) (n int, err error) {
	if err := o.m.engine.enter(ctx); err != nil {
		return 0, mirrorError(err)
	}
	defer o.m.engine.leave()
	for _, prefix := range prefixes {
		err = errors.Join(err, o.m.engine.scan(ctx, prefix, func(_, _ []byte) bool { n++; return true }))
	}
	return n, mirrorError(err)
}

// Changed implements republish.Outbox.
func (o *Outbox) Changed() <-chan struct{} { return o.m.outbox.wake }

// change is engine.change with what is noted of copies.
func (o *Outbox) change(ctx context.Context, g growth, build func(*pebble.Batch, *notes) error) error {
	n := notes{m: o.m}
	err := o.m.engine.change(ctx, g, &o.m.mu, func(b *pebble.Batch) error {
		if err := build(b, &n); err != nil {
			return err
		}
		return n.write(b)
	})
	n.wake()
	return mirrorError(err)
}
