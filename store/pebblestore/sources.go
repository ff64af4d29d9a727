package pebblestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"carillon/source"
)

// Sources keeps the registered Sources.
type Sources struct{ db *DB }

var _ source.Store = (*Sources)(nil)

// Sources is the store's source.Store.
func (db *DB) Sources() *Sources { return &Sources{db} }

// Add implements source.Store. An unreadable record is no Source, and is overwritten.
func (s *Sources) Add(ctx context.Context, one source.Source) error {
	return s.change(ctx, "add Source", one.Name, grows, func(b *pebble.Batch) error {
		stored, err := s.get(one.Name)
		switch {
		case err == nil && stored.Same(one):
			return nil
		case err == nil:
			return source.ErrExists
		case !errors.Is(err, source.ErrNotFound):
			return err
		}
		return b.Set(sourceKey(one.Name), encodeSource(one), nil)
	})
}

// Replace implements source.Store. It takes the place of a record of about the same size,
// and is taken though the disk is nearly full: a token that got about must go. So it is with one
// that cannot be read.
func (s *Sources) Replace(ctx context.Context, one source.Source) error {
	return s.change(ctx, "replace Source", one.Name, shrinks, func(b *pebble.Batch) error {
		if _, err := s.get(one.Name); err != nil && !errors.Is(err, ErrDamaged) {
			return err
		}
		return b.Set(sourceKey(one.Name), encodeSource(one), nil)
	})
}

// Delete implements source.Store. An unreadable record is removed, too.
func (s *Sources) Delete(ctx context.Context, name string) error {
	return s.change(ctx, "delete Source", name, shrinks, func(b *pebble.Batch) error {
		if _, err := s.get(name); err != nil && !errors.Is(err, ErrDamaged) {
			return err
		}
		return b.Delete(sourceKey(name), nil)
	})
}

func (s *Sources) change(ctx context.Context, what, name string, g growth, build func(*pebble.Batch) error) error {
	err := s.db.engine.change(ctx, g, &s.db.sources, build)
	if err != nil {
		return fmt.Errorf("%s %q: %w", what, name, err)
	}
	return nil
}

// Get implements source.Store.
func (s *Sources) Get(ctx context.Context, name string) (source.Source, error) {
	err := s.db.engine.enter(ctx)
	var one source.Source
	if err == nil {
		defer s.db.engine.leave()
		one, err = s.get(name)
	}
	if err != nil {
		return source.Source{}, fmt.Errorf("get Source %q: %w", name, err)
	}
	return one, nil
}

// get reads a Source, or ErrNotFound; also ErrDamaged, logged, where it cannot be read.
func (s *Sources) get(name string) (source.Source, error) {
	key := sourceKey(name)
	record, err := s.db.engine.get(key)
	if err == nil && record == nil {
		return source.Source{}, source.ErrNotFound
	}
	var one source.Source
	if err == nil {
		one, err = decodeSource(name, record)
	}
	if errors.Is(err, ErrDamaged) {
		s.db.engine.damaged(key, err)
		err = fmt.Errorf("%w: %w", source.ErrNotFound, err)
	}
	return one, err
}

// List implements source.Store. Keys sort as names do.
func (s *Sources) List(ctx context.Context) ([]source.Source, error) {
	var all []source.Source
	for one, err := range records(ctx, s.db.engine, []byte{kindSource}, func(key, value []byte) (source.Source, error) {
		return decodeSource(string(key[1:]), value)
	}) {
		if err != nil {
			return nil, fmt.Errorf("list Sources: %w", err)
		}
		all = append(all, one)
	}
	return all, nil
}

func sourceKey(name string) []byte { return append([]byte{kindSource}, name...) }

func encodeSource(s source.Source) []byte {
	size := len(s.TokenHash) + 48
	for _, p := range s.Prefixes {
		size += len(p) + 2
	}
	e := newEncoder(recordVersion, size)
	e.raw(s.TokenHash[:])
	e.instant(s.Created)
	e.instant(s.Issued)
	e.number(uint64(len(s.Prefixes)))
	for _, p := range s.Prefixes {
		e.words(p)
	}
	return e
}

func decodeSource(name string, record []byte) (source.Source, error) {
	d := newDecoder(record, recordVersion)
	s := source.Source{Name: name}
	d.array(s.TokenHash[:])
	s.Created = d.instant()
	s.Issued = d.instant()
	s.Prefixes = d.list()
	return s, d.done()
}
