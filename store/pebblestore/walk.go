package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"math/big"

	"github.com/cockroachdb/pebble/v2"
)

// walk goes through records in order and passes over unreadable ones. Of a damaged block that is every
// record: its content is unknown.
//
//	for ok := w.toFirst(); ok; ok = w.next() { w.recordKey(), w.value }
//	err := w.close()
type walk struct {
	engine *engine
	reader pebble.Reader
	it     *pebble.Iterator
	from   []byte // where it begins
	upper  []byte // where it ends
	last   []byte // the key it was at before it moved
	value  []byte // valid until it moves
	err    error  // trouble that ended it
}

// walk goes through the keys from from on, up to but not including upper. All are
// of one kind.
func (e *engine) walk(r pebble.Reader, from, upper []byte) (*walk, error) {
	it, err := iterator(r, from, upper)
	if err != nil {
		return nil, err
	}
	return &walk{engine: e, reader: r, it: it, from: from, upper: upper}, nil
}

// valid reports whether it is at a record.
func (w *walk) valid() bool { return w.err == nil && w.it.Valid() }

func (w *walk) recordKey() []byte { return w.it.Key() }

func (w *walk) toFirst() bool {
	w.last = append(w.last[:0], w.from...)
	return w.arrive(w.it.First())
}

func (w *walk) next() bool { return w.arrive(w.it.Next()) }

// close returns the trouble that ended the walk, if it was not the end.
func (w *walk) close() error {
	if err := w.it.Close(); w.err == nil && err != nil && !pebble.IsCorruptionError(err) {
		w.err = readError(err)
	}
	return w.err
}

// arrive takes the value where the iterator is, or goes on to the next place that
// can be read.
func (w *walk) arrive(ok bool) bool {
	for {
		var err error
		if ok {
			w.last = append(w.last[:0], w.it.Key()...)
			w.value, err = w.it.ValueAndErr()
		} else {
			err = w.it.Error()
		}
		switch {
		case err == nil:
			return ok
		case !pebble.IsCorruptionError(err):
			w.err = readError(err)
			return false
		}
		w.engine.damaged(w.last, err)
		if ok {
			ok = w.it.Next()
		} else if ok = w.leap(); !ok {
			return false
		}
	}
}

// leap moves the iterator over the damage that begins behind w.last, and says
// whether there is a record.
func (w *walk) leap() bool {
	if to, known := w.engine.found.end(w.last); known {
		if ok, err := w.seek(to); err == nil {
			return ok
		}
	}
	to, err := endOfDamage(w.reader, w.last)
	if err != nil {
		w.err = err
		return false
	}
	w.engine.found.stretch(w.last, to)
	ok, err := w.seek(to)
	w.err = err
	return ok
}

// seek moves to the first record from key on, with another iterator: one that has met
// damage reports it again when it goes forward to a place behind all records. Pebble would
// read the last block also for a key that is behind it.
func (w *walk) seek(key []byte) (ok bool, err error) {
	if bytes.Compare(key, w.upper) >= 0 {
		return false, nil
	}
	it, err := iterator(w.reader, w.from, w.upper)
	if err != nil {
		return false, err
	}
	_ = w.it.Close() // what it met is known
	w.it = it
	if ok = w.it.SeekGE(key); !ok && w.it.Error() != nil {
		err = readError(w.it.Error())
	}
	return ok, err
}

// The search for the end of damage. Each try that fails costs milliseconds, since
// Pebble looks for the bit that changed: hence the great steps, and an end that is
// found to within a small part of what is passed over.
const (
	leapFactor = 8  // powers of 2 by which steps grow
	leapFine   = 32 // powers of 2 of the precision: of many records few are left out
	leapWidth  = 1 + idLen
)

// endOfDamage finds a place behind the key that can be read again, and behind
// which little damage of the same block is left out. It tries: in steps that grow
// until a place can be read, and then by halving back towards the first such place.
func endOfDamage(r pebble.Reader, key []byte) ([]byte, error) {
	kind := key[:1]
	width := max(leapWidth, len(key)-1)
	at := func(place *big.Int) []byte {
		if place.BitLen() > 8*width {
			return keyEnd(kind)
		}
		return append(bytes.Clone(kind), place.FillBytes(make([]byte, width))...)
	}
	var failed error
	whole := func(place *big.Int) bool {
		if failed != nil || place.BitLen() > 8*width {
			return true
		}
		var it *pebble.Iterator // for each a new one, as in seek
		if it, failed = iterator(r, kind, keyEnd(kind)); failed != nil {
			return true
		}
		defer it.Close() // what it met last may have been the damage
		return it.SeekGE(at(place)) || !pebble.IsCorruptionError(it.Error())
	}
	begin := new(big.Int).SetBytes(append(bytes.Clone(key[1:]), make([]byte, width-len(key)+1)...))
	bad, good, step := new(big.Int).Set(begin), new(big.Int), big.NewInt(1)
	for good.Add(bad, step); !whole(good); good.Add(bad, step) {
		bad.Set(good)
		step.Lsh(step, leapFactor)
	}
	fine := new(big.Int).Sub(good, begin)
	fine.Rsh(fine, leapFine).Add(fine, big.NewInt(1))
	for step.Sub(good, bad).Cmp(fine) > 0 {
		middle := new(big.Int).Add(bad, new(big.Int).Rsh(step, 1))
		if whole(middle) {
			good.Set(middle)
		} else {
			bad.Set(middle)
		}
		step.Sub(good, bad)
	}
	return at(good), failed
}

// sift calls each with the records whose keys begin with prefix, in order, until
// it says stop, and passes over what cannot be read. Key and value are valid
// within the call only.
func (e *engine) sift(ctx context.Context, prefix []byte, each func(key, value []byte) (more bool)) error {
	w, err := e.walk(e.db, prefix, keyEnd(prefix))
	if err != nil {
		return err
	}
	for ok := w.toFirst(); ok; ok = w.next() {
		if err := ctx.Err(); err != nil {
			return errors.Join(err, w.close())
		}
		if !each(w.recordKey(), w.value) {
			break
		}
	}
	return w.close()
}

// records lists what is stored under a prefix, leaving out what cannot be read.
func records[T any](
	ctx context.Context, e *engine, prefix []byte, decode func(key, value []byte) (T, error),
) func(yield func(T, error) bool) {
	return func(yield func(T, error) bool) {
		var zero T
		if err := e.enter(ctx); err != nil {
			yield(zero, err)
			return
		}
		defer e.leave()
		stopped := false
		err := e.sift(ctx, prefix, func(key, value []byte) bool {
			record, err := decode(key, value)
			if err != nil {
				e.damaged(key, err)
				return true
			}
			stopped = !yield(record, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(zero, err)
		}
	}
}
