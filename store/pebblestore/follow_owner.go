package pebblestore

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// ownerVersion is the version of the record of an owner; of version 1 there is one name alone.
const ownerVersion = 2

const (
	// maxOwnerNames is how many names of its owner a store keeps: the first, and the latest.
	maxOwnerNames = 16
	// maxOwnerName is how long a name may be, bytes; of a longer one a digest is kept.
	maxOwnerName = 2 << 10
)

// Belonging is whom a store is to belong to.
type Belonging struct {
	// Names are what the Source is known by: its topic and lists. Empty ones do not count.
	Names []string
	// Begin says how it was begun. While nothing was handed on (Settle) another beginning forgets
	// the position, and another owner takes the store, if its inbox is empty. Empty: nothing is changed.
	Begin string
}

// Owner is the outcome of a Belonging.
type Owner struct {
	Is   string // the first name of whom the store belongs to
	Ours bool
	// Settled: something was handed on, or the beginning is known to be good.
	Settled bool
}

type ownerRecord struct {
	begin string // empty: settled
	names []string
}

// Belong binds the store to a Source of which it knows at least one name. It adds the unknown names:
// any of the lists and the topic that a Source offers may change, or be away for a while.
func (f *Following) Belong(ctx context.Context, c Belonging) (o Owner, err error) {
	names := ownerNames(c.Names)
	err = f.engine.change(ctx, shrinks, &f.mu, func(b *pebble.Batch) error {
		r, found, err := f.readOwner()
		if err != nil {
			return err
		}
		known := slices.ContainsFunc(names, func(n string) bool { return slices.Contains(r.names, n) })
		open := r.begin != "" && f.count == 0
		o = Owner{Ours: known || !found || open && c.Begin != "", Settled: found && r.begin == ""}
		switch {
		case !o.Ours || c.Begin == "" || len(names) == 0:
		case !known:
			r = ownerRecord{c.Begin, names}
			err = f.forget(b)
		case r.begin != "" && r.begin != c.Begin:
			r.begin = c.Begin
			err = f.forget(b)
		}
		if len(r.names) > 0 {
			o.Is = r.names[0]
		}
		if err != nil || !o.Ours || c.Begin == "" {
			return err
		}
		return f.own(b, r.with(names))
	})
	if err != nil {
		return Owner{}, fmt.Errorf("read whom the store belongs to: %w", followError(err))
	}
	return o, nil
}

// Settle records that the beginning was good: nothing but its owner can use the store from now on, and it
// is gone on with where it ended.
func (f *Following) Settle(ctx context.Context) error {
	err := f.engine.change(ctx, shrinks, &f.mu, func(b *pebble.Batch) error {
		r, found, err := f.readOwner()
		if err != nil || !found || r.begin == "" {
			return err
		}
		r.begin = ""
		return f.own(b, r)
	})
	if err != nil {
		return fmt.Errorf("settle whom the store belongs to: %w", followError(err))
	}
	return nil
}

// with adds names, and drops the oldest but the first.
func (r ownerRecord) with(names []string) ownerRecord {
	all := slices.Clone(r.names)
	for _, n := range names {
		if !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	if over := len(all) - maxOwnerNames; over > 0 {
		all = slices.Delete(all, 1, 1+over)
	}
	return ownerRecord{r.begin, all}
}

func ownerNames(given []string) (names []string) {
	for _, n := range given {
		if len(n) > maxOwnerName {
			n = fmt.Sprintf("sha-256:%x", sha256.Sum256([]byte(n)))
		}
		if n != "" && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names[:min(len(names), maxOwnerNames)]
}

func (f *Following) readOwner() (r ownerRecord, found bool, err error) {
	record, err := f.engine.get([]byte{kindFollowOwner})
	if err != nil || record == nil {
		return r, false, err
	}
	if len(record) > 0 && record[0] == followVersion {
		d := newDecoder(record, followVersion)
		r.names = []string{d.words()}
		return r, true, d.done()
	}
	d := newDecoder(record, ownerVersion)
	r.begin, r.names = d.words(), d.list()
	return r, true, d.done()
}

func (f *Following) own(b *pebble.Batch, r ownerRecord) error {
	record := newEncoder(ownerVersion, 256)
	record.words(r.begin)
	record.number(uint64(len(r.names)))
	for _, n := range r.names {
		record.words(n)
	}
	return b.Set([]byte{kindFollowOwner}, record, nil)
}

// forget removes the owner of the position.
func (f *Following) forget(b *pebble.Batch) error {
	return b.Delete([]byte{kindFollowPosition}, nil)
}
