package pebblestore

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"carillon/destination/mirror"
	"carillon/payload"
	"carillon/subscription"
)

// Keys of a mirror in a Destination's store.
//
//	58 loc          copy
//	59 claim        the loc whose copy has that place
//	5a next loc     index: copies by when they are tried again
//	5b loc          resource of the ledger
//	5c              which directory has the copies
//
// next is a time as appendTime has it; loc and claim are text.
const (
	kindMirrorCopy   = 0x58
	kindMirrorClaim  = 0x59
	kindMirrorDue    = 0x5a
	kindMirrorLedger = 0x5b
	kindMirrorHome   = 0x5c
)

// mirrorVersion is the version of the records of a mirror. Records of version 1, which a store of today
// may still hold, have no links.
const mirrorVersion = 2

// mirrorDecoder reads a record of a mirror of either version; linked reports whether it may have links.
func mirrorDecoder(record []byte) (d *decoder, linked bool) {
	if len(record) > 0 && record[0] == 1 {
		return newDecoder(record, 1), false
	}
	return newDecoder(record, mirrorVersion), true
}

// mirrorStates are the states as records have them; the numbers are for good.
var mirrorStates = []mirror.State{
	mirror.Whole, mirror.Missing, mirror.Failed, mirror.Gone, mirror.Refused, mirror.Invalid,
}

func mirrorEncodeCopy(c *mirror.Copy) []byte {
	record := newEncoder(mirrorVersion, 160+len(c.Path)+len(c.Described.Hash)+len(c.Described.Links)+len(c.Reason))
	record.words(c.Path)
	state := byte(0xff)
	for i, s := range mirrorStates {
		if s == c.State {
			state = byte(i)
		}
	}
	record.octet(state)
	mirrorEncodeTold(&record, &c.Described)
	if f := c.File; f == nil {
		record.octet(0)
	} else {
		record.octet(1)
		record.number(uint64(f.Size))
		record.raw(f.SHA256[:])
		record.instant(f.ModTime)
		record.words(f.ETag)
		record.words(f.LastModified)
		record.words(f.Encoding)
	}
	record.number(uint64(c.Tries))
	record.instant(c.Next)
	record.words(c.Reason)
	return record
}

func mirrorDecodeCopy(key, record []byte) (mirror.Copy, error) {
	d, linked := mirrorDecoder(record)
	c := mirror.Copy{Loc: string(key[1:]), Path: d.words()}
	if state := int(d.octet()); state < len(mirrorStates) {
		c.State = mirrorStates[state]
	} else {
		d.fail("a state of no known kind")
	}
	c.Described = mirrorDecodeTold(d, linked)
	if d.octet() != 0 {
		f := &mirror.File{Size: int64(d.uintMax(math.MaxInt64))}
		d.array(f.SHA256[:])
		f.ModTime = d.instant()
		f.ETag, f.LastModified, f.Encoding = d.words(), d.words(), d.words()
		c.File = f
	}
	c.Tries = int(d.uintMax(math.MaxInt32))
	c.Next = d.instant()
	c.Reason = d.words()
	return c, d.done()
}

func mirrorEncodeTold(record *encoder, t *mirror.Described) {
	record.words(string(t.Change))
	record.instant(t.Datetime)
	for _, s := range []string{t.LastMod, t.Hash, t.Length, t.Type, t.Encoding, t.Links} {
		record.words(s)
	}
}

func mirrorDecodeTold(d *decoder, linked bool) mirror.Described {
	t := mirror.Described{Change: payload.Change(d.words()), Datetime: d.instant()}
	for _, s := range []*string{&t.LastMod, &t.Hash, &t.Length, &t.Type, &t.Encoding} {
		*s = d.words()
	}
	if linked {
		t.Links = d.words()
	}
	return t
}

// mirrorErrors gives all with errors in the words of a mirror.
func mirrorErrors[T any](all iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for one, err := range all {
			if err != nil {
				err = mirrorError(err)
			}
			if !yield(one, err) {
				return
			}
		}
	}
}

// mirrorError puts the engine's trouble in the words of a mirror.
func mirrorError(err error) error {
	if errors.Is(err, subscription.ErrUnavailable) {
		return fmt.Errorf("%w: %w", mirror.ErrUnavailable, err)
	}
	return err
}

func mirrorKey(kind byte, text string) []byte {
	return append(append(make([]byte, 0, 1+len(text)), kind), text...)
}

func mirrorDueKey(next time.Time, loc string) []byte {
	return append(appendTime([]byte{kindMirrorDue}, next), loc...)
}
