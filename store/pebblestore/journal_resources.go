package pebblestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"carillon/notifier"
	"carillon/payload"
)

// Records of the resources of a set. A generation of them is the sum of the events, or the result of
// an import; the state names the one that counts.
//
//	45 set                     the state: which generation counts
//	46 set 00 generation loc   a resource
//
// generation is 8 bytes. Generations that no state names are left from imports that were cut short;
// load deletes them.
const (
	kindResourceState = 0x45
	kindResource      = 0x46
)

// resourcesVersion is the version of a state's record.
const resourcesVersion = 1

// flagTold marks a state that was reported.
const flagTold = 1

// The first byte of a resource's record says where it is from; 8 bytes of the event's
// datetime follow, and then what notifier.AppendResourceRecord gives.
const (
	fromEvent  = 1
	fromImport = 2 // its datetime is zero: there was no event
	deletedBy  = 3 // an event that came during an import; nothing follows the datetime
)

const resourceHead = 1 + 8

// resourcesState is what is known of a set whose resources are kept: all that it has.
type resourcesState struct {
	// The state was reported: a Snapshot was handed out, on which its reader may rely.
	told       bool
	generation uint64
	// staged is the generation of an import that was sealed and is not yet applied
	// to its end, generation+1; 0 without one.
	staged uint64
}

// journalResources is what a Journal holds in memory of resources; Journal.mu guards it.
type journalResources struct {
	states map[string]resourcesState // of the sets whose resources are kept
	// imports has the generation of the import into a set that is under way: events
	// go there too.
	imports map[string]uint64
	// resumable are the sets whose import was sealed, and not applied.
	resumable map[string]bool
	views     map[*resourcesView]bool // those that have no reader yet
	closed    bool                    // no more views
	scratch   []byte
}

func newJournalResources() journalResources {
	return journalResources{
		states: map[string]resourcesState{}, imports: map[string]uint64{},
		resumable: map[string]bool{}, views: map[*resourcesView]bool{},
	}
}

var _ notifier.ResourceStore = (*Journal)(nil)

func resourceStateKey(set string) []byte { return append([]byte{kindResourceState}, set...) }

func resourcesPrefix(set string, generation uint64) []byte {
	return binary.BigEndian.AppendUint64(journalSetPrefix(kindResource, set), generation)
}

func resourceKey(set string, generation uint64, loc string) []byte {
	return append(resourcesPrefix(set, generation), loc...)
}

// load reads the states, and deletes what imports have left.
func (r *journalResources) load(e *engine, channels map[string]*notifier.Channel) error {
	*r = newJournalResources()
	var damage error
	err := e.scan(context.Background(), []byte{kindResourceState}, func(key, value []byte) bool {
		set := string(key[1:])
		var state resourcesState
		if state, damage = decodeResourcesState(set, value); damage != nil {
			return false
		}
		r.states[set] = state
		if state.staged != 0 {
			r.imports[set] = state.staged
			r.resumable[set] = true
		}
		return true
	})
	if err := errors.Join(err, damage); err != nil {
		return err
	}
	b := e.db.NewBatch()
	for set := range channels {
		if err := r.forgetStagings(e, b, set); err != nil {
			return errors.Join(err, b.Close())
		}
	}
	return e.lazily(b)
}

// forgetStagings deletes the generations that the state of a set does not name.
func (r *journalResources) forgetStagings(e *engine, b *pebble.Batch, set string) error {
	state := r.states[set]
	all := journalSetPrefix(kindResource, set)
	err := e.forgetRange(b, all, resourcesPrefix(set, state.generation))
	if err != nil {
		return err
	}
	return e.forgetRange(b, resourcesPrefix(set, max(state.generation, state.staged)+1), keyEnd(all))
}

// forgetRange deletes the keys from from on and before end, if there are any.
func (e *engine) forgetRange(b *pebble.Batch, from, end []byte) error {
	some, err := e.some(from, end)
	if err != nil || !some {
		return err
	}
	if err := b.DeleteRange(from, end, nil); err != nil {
		return unavailable(err)
	}
	return nil
}

// some reports whether there are keys from from on and before end.
func (e *engine) some(from, end []byte) (bool, error) {
	it, err := iterator(e.db, from, end)
	if err != nil {
		return false, err
	}
	some := it.First()
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return false, readError(err)
	}
	return some, nil
}

func decodeResourcesState(set string, record []byte) (resourcesState, error) {
	d := newDecoder(record, resourcesVersion)
	flags := d.octet()
	state := resourcesState{
		told: flags&flagTold != 0, generation: d.number(), staged: d.number(),
	}
	if state.staged != 0 && state.staged != state.generation+1 {
		d.fail("an import is of no known generation")
	}
	if err := d.done(); err != nil {
		return resourcesState{}, fmt.Errorf("resources of %q: %w", set, err)
	}
	return state, nil
}

// put writes the state of a set, and holds it.
func (r *journalResources) put(b *pebble.Batch, set string, state resourcesState) error {
	record := newEncoder(resourcesVersion, 1+2*binary.MaxVarintLen64)
	var flags byte
	if state.told {
		flags |= flagTold
	}
	record.octet(flags)
	record.number(state.generation)
	record.number(state.staged)
	if err := b.Set(resourceStateKey(set), record, nil); err != nil {
		return unavailable(err)
	}
	r.states[set] = state
	return nil
}

// apply brings the resources of a set up to date with an event.
func (r *journalResources) apply(b *pebble.Batch, set string, datetime int64, e *payload.Entry) error {
	state, kept := r.states[set]
	staged, importing := r.imports[set]
	if !kept && !importing {
		return nil
	}
	kind := byte(fromEvent)
	if e.Change == payload.Deleted {
		kind = deletedBy
	}
	record := appendResourceHead(r.scratch[:0], kind, datetime)
	if kind == fromEvent {
		record = notifier.AppendResourceRecord(record, e)
	}
	r.scratch = record
	var err error
	switch {
	case !kept:
	case kind == deletedBy:
		err = b.Delete(resourceKey(set, state.generation, e.Loc), nil)
	default:
		err = b.Set(resourceKey(set, state.generation, e.Loc), record, nil)
	}
	if importing && err == nil {
		err = b.Set(resourceKey(set, staged, e.Loc), record, nil)
	}
	if err != nil {
		return unavailable(err)
	}
	return nil
}

func appendResourceHead(dst []byte, kind byte, datetime int64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, kind), uint64(datetime))
}

// decodeResource reads a resource; ok is false where the record says that it was deleted.
func decodeResource(loc string, record []byte) (e payload.Entry, ok bool, err error) {
	if len(record) < resourceHead || record[0] < fromEvent || record[0] > deletedBy {
		return payload.Entry{}, false, fmt.Errorf("%w: resource %q", ErrDamaged, loc)
	}
	if record[0] == deletedBy {
		return payload.Entry{}, false, nil
	}
	if e, err = notifier.ParseResourceRecord(record[resourceHead:]); err != nil {
		return payload.Entry{}, false, fmt.Errorf("%w: resource %q: %w", ErrDamaged, loc, err)
	}
	e.Loc = loc
	if record[0] == fromEvent {
		e.Datetime = journalTime(int64(binary.BigEndian.Uint64(record[1:])))
	}
	return e, true, nil
}

// sameResource reports whether two records say the same of a resource.
func sameResource(a, b []byte) bool {
	return len(a) >= resourceHead && len(b) >= resourceHead && bytes.Equal(a[resourceHead:], b[resourceHead:])
}

// KeepResources implements notifier.ResourceStore.
func (j *Journal) KeepResources(ctx context.Context, set string) (err error) {
	defer journalDoing(&err, "keep the resources of", set)
	return j.engine.change(ctx, grows, &j.mu, func(b *pebble.Batch) error {
		if j.channels[set] == nil {
			return notifier.ErrNoSet
		}
		if _, kept := j.resources.states[set]; kept {
			return nil
		}
		if j.resources.imports[set] != 0 {
			return notifier.ErrImporting // which will keep them
		}
		fresh, err := j.isNew(set)
		if err == nil && !fresh {
			err = notifier.ErrNotWhole
		}
		if err != nil {
			return err
		}
		return j.resources.put(b, set, resourcesState{generation: 1})
	})
}

// isNew reports whether a set has had no event yet; j.mu is held.
func (j *Journal) isNew(set string) (bool, error) {
	if ch := j.channels[set]; ch.Sealed != nil || ch.Accepted != nil {
		return false, nil
	}
	prefix := journalSetPrefix(kindJournalEvent, set)
	some, err := j.engine.some(prefix, keyEnd(prefix))
	return err == nil && !some, err
}

// Resource implements notifier.Resources.
func (j *Journal) Resource(ctx context.Context, set, loc string) (_ payload.Entry, found bool, err error) {
	defer journalDoing(&err, "read a resource of", set)
	if err := j.engine.enter(ctx); err != nil {
		return payload.Entry{}, false, err
	}
	defer j.engine.leave()
	record, err := j.resourceRecord(set, loc)
	if err != nil || record == nil {
		return payload.Entry{}, false, err
	}
	return decodeResource(loc, record)
}

// resourceRecord reads again where an import has made another generation count meanwhile.
func (j *Journal) resourceRecord(set, loc string) ([]byte, error) {
	for before := uint64(0); ; {
		j.mu.Lock()
		known, generation := j.channels[set] != nil, j.resources.states[set].generation
		j.mu.Unlock()
		if !known {
			return nil, notifier.ErrNoSet
		}
		if generation == 0 { // they are not kept
			return nil, nil
		}
		record, err := j.engine.get(resourceKey(set, generation, loc))
		if err != nil || record != nil || generation == before {
			return record, err
		}
		before = generation
	}
}
