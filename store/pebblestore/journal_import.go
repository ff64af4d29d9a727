package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"carillon/notifier"
	"carillon/payload"
)

const (
	// putAtOnce is how many resources of an import are put in while events wait.
	putAtOnce = 256
	// applyAtOnce and applyBytes are about how many differences become events in one
	// step, and how much they may have.
	applyAtOnce = 1000
	applyBytes  = 4 << 20
)

// journalImport is an import: it puts a generation together beside the one that counts.
//
//	Begin ──▶ Put … ──▶ Seal ──▶ the snapshot counts
//	   (a crash: nothing    └──▶ Apply … ──▶ the differences are events
//	    has happened)            (a crash: load finds it, ResumeImports goes on)
type journalImport struct {
	journal    *Journal
	set        string
	generation uint64
	sealed     bool   // it will be carried out; guarded by Journal.mu
	done       bool   // it was; guarded by Journal.mu
	from       []byte // the loc from which differences are looked for
}

var (
	_ notifier.ResourceImport = (*journalImport)(nil)

	errSealed    = errors.New("the import was sealed")
	errNotSealed = errors.New("the import was not sealed")
)

// BeginImport implements notifier.ResourceStore.
func (j *Journal) BeginImport(ctx context.Context, set string) (_ notifier.ResourceImport, err error) {
	defer journalDoing(&err, "import into", set)
	if err := j.engine.enter(ctx); err != nil {
		return nil, err
	}
	defer j.engine.leave()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.channels[set] == nil {
		return nil, notifier.ErrNoSet
	}
	if j.resources.imports[set] != 0 {
		return nil, notifier.ErrImporting
	}
	i := &journalImport{journal: j, set: set, generation: j.resources.states[set].generation + 1}
	b := j.engine.db.NewBatch()
	if err := j.resources.forgetStagings(j.engine, b, set); err != nil { // of one that could not be closed
		return nil, errors.Join(err, b.Close())
	}
	if err := j.engine.lazily(b); err != nil {
		return nil, err
	}
	j.resources.imports[set] = i.generation
	return i, nil
}

// ResumeImports implements notifier.ResourceStore.
func (j *Journal) ResumeImports(ctx context.Context) ([]notifier.ResourceImport, error) {
	if err := j.engine.enter(ctx); err != nil {
		return nil, journalError(err)
	}
	defer j.engine.leave()
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []notifier.ResourceImport
	for set := range j.resources.resumable {
		all = append(all, &journalImport{
			journal: j, set: set, generation: j.resources.imports[set], sealed: true,
		})
	}
	clear(j.resources.resumable)
	return all, nil
}

// Set implements notifier.ResourceImport.
func (i *journalImport) Set() string { return i.set }

// Put implements notifier.ResourceImport. It is not durable before Seal.
func (i *journalImport) Put(ctx context.Context, resources []payload.Entry) error {
	at := 0
	for some := range slices.Chunk(resources, putAtOnce) {
		if err := i.put(ctx, some); err != nil {
			var twice *notifier.DuplicateError
			if errors.As(err, &twice) {
				twice.Index += at
			}
			return fmt.Errorf("import into %s: %w", i.set, journalError(err))
		}
		at += len(some)
	}
	return nil
}

// put looks and writes under the lock, so that no event comes in between.
func (i *journalImport) put(ctx context.Context, resources []payload.Entry) error {
	j := i.journal
	if err := j.engine.enter(ctx); err != nil {
		return err
	}
	defer j.engine.leave()
	if err := j.engine.space.check(grows); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if i.sealed || j.resources.imports[i.set] != i.generation {
		return errSealed
	}
	b := j.engine.db.NewIndexedBatch()
	for n := range resources {
		if err := i.putOne(b, &resources[n], n); err != nil {
			return errors.Join(err, b.Close())
		}
	}
	return j.engine.lazily(b)
}

func (i *journalImport) putOne(b *pebble.Batch, e *payload.Entry, n int) error {
	j := i.journal
	key := resourceKey(i.set, i.generation, e.Loc)
	there, closer, err := b.Get(key)
	switch {
	case err == nil:
		event := len(there) > 0 && there[0] != fromImport
		if err := closer.Close(); err != nil {
			return unavailable(err)
		}
		if event {
			return nil // it came after the snapshot was taken
		}
		return &notifier.DuplicateError{Index: n}
	case !errors.Is(err, pebble.ErrNotFound):
		return readError(err)
	}
	j.resources.scratch = notifier.AppendResourceRecord(appendResourceHead(j.resources.scratch[:0], fromImport, 0), e)
	if err := b.Set(key, j.resources.scratch, nil); err != nil {
		return unavailable(err)
	}
	return nil
}

// Seal implements notifier.ResourceImport. The write-ahead log keeps the order, so the state never
// names a generation that is not there whole.
func (i *journalImport) Seal(ctx context.Context) (pending bool, err error) {
	j := i.journal
	err = j.engine.change(ctx, grows, &j.mu, func(b *pebble.Batch) error {
		if i.sealed || j.resources.imports[i.set] != i.generation {
			return errSealed
		}
		state, kept := j.resources.states[i.set]
		fresh := !kept
		if kept && !state.told {
			var err error
			if fresh, err = j.isNew(i.set); err != nil {
				return err
			}
		}
		if !fresh {
			state.staged = i.generation
			i.sealed, pending = true, true
			return j.resources.put(b, i.set, state)
		}
		if err := b.DeleteRange(
			journalSetPrefix(kindResource, i.set), resourcesPrefix(i.set, i.generation), nil,
		); err != nil {
			return unavailable(err)
		}
		i.sealed, i.done = true, true
		delete(j.resources.imports, i.set)
		return j.resources.put(b, i.set, resourcesState{generation: i.generation})
	})
	if err != nil {
		return false, fmt.Errorf("import into %s: %w", i.set, journalError(err))
	}
	return pending, nil
}

// Apply implements notifier.ResourceImport. Differences are found without the lock, and looked at
// again under it. Where it is cut short, and done again, applied ones do not differ any more.
func (i *journalImport) Apply(ctx context.Context, now time.Time) (notifier.Differences, bool, error) {
	done, more, err := i.apply(ctx, now)
	if err != nil {
		return notifier.Differences{}, true, fmt.Errorf("import into %s: %w", i.set, journalError(err))
	}
	return done, more, nil
}

func (i *journalImport) apply(ctx context.Context, now time.Time) (done notifier.Differences, more bool, err error) {
	j := i.journal
	j.mu.Lock()
	sealed, finished := i.sealed, i.done
	j.mu.Unlock()
	if finished {
		return done, false, nil
	}
	if !sealed {
		return done, false, errNotSealed
	}
	found, next, err := i.differences(ctx)
	if err != nil {
		return done, true, err
	}
	err = j.engine.change(ctx, grows, &j.mu, func(b *pebble.Batch) error {
		done = notifier.Differences{}
		for n := range found {
			if err := i.applyOne(b, &found[n], now, &done); err != nil {
				return err
			}
		}
		if next == nil {
			if err := i.finish(b); err != nil {
				return err
			}
		}
		return putLast(b, j.last)
	})
	if err != nil {
		return done, true, err
	}
	i.from = next
	return done, next != nil, nil
}

// applyOne makes a difference an event, unless an event has come in between.
func (i *journalImport) applyOne(b *pebble.Batch, e *notifier.Event, now time.Time, done *notifier.Differences) error {
	j := i.journal
	staged, err := j.engine.get(resourceKey(i.set, i.generation, e.Loc))
	if err != nil {
		return err
	}
	if len(staged) > 0 && staged[0] != fromImport {
		return nil
	}
	switch e.Change {
	case payload.Created:
		done.Created++
	case payload.Updated:
		done.Updated++
	default:
		done.Deleted++
	}
	return j.appendEvent(b, i.set, j.stamp(time.Time{}, now), e, notifier.AppendRecord(nil, e))
}

// finish ends the import; j.mu is held.
func (i *journalImport) finish(b *pebble.Batch) error {
	j := i.journal
	prefix := resourcesPrefix(i.set, i.generation)
	if err := b.DeleteRange(prefix, keyEnd(prefix), nil); err != nil {
		return unavailable(err)
	}
	i.done = true
	delete(j.resources.imports, i.set)
	state := j.resources.states[i.set]
	state.staged = 0
	return j.resources.put(b, i.set, state)
}

// Close implements notifier.ResourceImport.
func (i *journalImport) Close() error {
	j := i.journal
	if err := j.engine.enter(context.Background()); err != nil {
		return nil // the next start does what is to be done
	}
	defer j.engine.leave()
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case i.done || j.resources.imports[i.set] != i.generation:
		return nil
	case i.sealed:
		j.resources.resumable[i.set] = true
		return nil
	}
	delete(j.resources.imports, i.set)
	b := j.engine.db.NewBatch()
	if err := j.resources.forgetStagings(j.engine, b, i.set); err != nil {
		return errors.Join(err, b.Close())
	}
	return journalError(j.engine.lazily(b))
}

// differences finds the next that differ between what counts and what was imported, as
// events without datetimes; next is the loc to go on from, nil at the end.
func (i *journalImport) differences(ctx context.Context) (found []notifier.Event, next []byte, err error) {
	j := i.journal
	if err := j.engine.enter(ctx); err != nil {
		return nil, nil, err
	}
	defer j.engine.leave()
	snapshot := j.engine.db.NewSnapshot() // one for both sides
	defer snapshot.Close()                // it was only read
	old, err := openSide(snapshot, resourcesPrefix(i.set, i.generation-1), i.from)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, old.close()) }()
	staged, err := openSide(snapshot, resourcesPrefix(i.set, i.generation), i.from)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, staged.close()) }()
	size, before := 0, 0
	for old.ok || staged.ok || old.err != nil || staged.err != nil {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		size += len(old.value) + len(staged.value)
		event, differs, err := compare(old, staged)
		if err != nil {
			return nil, nil, err
		}
		if !differs {
			size = before
			continue
		}
		found, before = append(found, event), size
		if len(found) == applyAtOnce || size > applyBytes {
			return found, append([]byte(event.Loc), 0), nil
		}
	}
	return found, nil, nil
}

// side is one of the two that are compared.
type side struct {
	it     *pebble.Iterator
	prefix int
	ok     bool
	value  []byte
	err    error
}

func openSide(r pebble.Reader, prefix, from []byte) (*side, error) {
	it, err := iterator(r, append(slices.Clone(prefix), from...), keyEnd(prefix))
	if err != nil {
		return nil, err
	}
	s := &side{it: it, prefix: len(prefix)}
	s.arrive(it.First())
	return s, nil
}

func (s *side) resource() string { return string(s.it.Key()[s.prefix:]) }

func (s *side) arrive(ok bool) {
	s.ok, s.value = ok, nil
	err := s.it.Error()
	if ok {
		s.value, err = s.it.ValueAndErr()
	}
	switch {
	case err != nil:
		s.err = readError(err)
	case ok && len(s.value) < resourceHead:
		s.err = fmt.Errorf("%w: resource %q", ErrDamaged, s.resource())
	}
}

func (s *side) close() error {
	if err := s.it.Close(); err != nil {
		return readError(err)
	}
	return nil
}

// compare looks at the next loc of either side, and goes on behind it.
func compare(old, staged *side) (e notifier.Event, differs bool, err error) {
	if err := errors.Join(old.err, staged.err); err != nil {
		return e, false, err
	}
	loc := ""
	inOld, inStaged := old.ok, staged.ok
	if inOld {
		loc = old.resource()
	}
	if inStaged {
		switch other := staged.resource(); {
		case !inOld || other < loc:
			loc, inOld = other, false
		case other > loc:
			inStaged = false
		}
	}
	e.Loc = loc
	switch {
	case !inStaged:
		e.Change, differs = payload.Deleted, true
	case staged.value[0] != fromImport: // an event, which is in both
	case inOld && sameResource(old.value, staged.value):
	default:
		e.Entry, differs, err = decodeResource(loc, staged.value)
		if e.Change = payload.Created; inOld {
			e.Change = payload.Updated
		}
	}
	if inOld {
		old.arrive(old.it.Next())
	}
	if inStaged {
		staged.arrive(staged.it.Next())
	}
	return e, differs, err
}
