package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"carillon/source"
)

var _ source.Store = (*Sources)(nil)

// Sources keeps the registered Sources.
type Sources struct{ db *DB }

// Sources returns the source.Store.
func (db *DB) Sources() *Sources { return &Sources{db} }

// addSourceScript adds a Source.
//
//	KEYS  1 sources
//	ARGV  1 name  2 the Source  3 a record that may be written over, as it cannot be read
//
// It returns the record that is there instead, or nothing where it was added.
var addSourceScript = grows("add Source", `
local stored = redis.call('HGET', KEYS[1], ARGV[1])
if stored and stored ~= ARGV[2] and stored ~= ARGV[3] then return stored end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return false
`)

// replaceSourceScript puts a Source in the place of another.
//
//	KEYS  1 sources
//	ARGV  1 name  2 the Source
//
// It returns 1, or 0 without one.
var replaceSourceScript = shrinks("replace Source", `
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
`)

// deleteSourceScript ends a Source.
//
//	KEYS  1 sources
//	ARGV  1 name
//
// It returns 1, or 0 without one.
var deleteSourceScript = shrinks("delete Source", `
return redis.call('HDEL', KEYS[1], ARGV[1])
`)

// Add implements source.Store. An unreadable record is no Source, and is overwritten.
func (s *Sources) Add(ctx context.Context, one source.Source) error {
	return s.about("add Source", one.Name, s.add(ctx, one))
}

func (s *Sources) add(ctx context.Context, one source.Source) error {
	e := s.db.engine
	record := encodeSource(one)
	unreadable := ""
	for {
		value, err := e.run(ctx, addSourceScript, []string{e.keys.sources()}, one.Name, record, unreadable)
		if err != nil {
			return err
		}
		stored, there := value.(string)
		if !there {
			return nil
		}
		if _, err := decodeSource(one.Name, stored); err == nil {
			return source.ErrExists
		}
		e.damaged(e.keys.sources(), one.Name, ErrDamaged)
		unreadable = stored
	}
}

// Replace implements source.Store.
func (s *Sources) Replace(ctx context.Context, one source.Source) error {
	return s.about("replace Source", one.Name, s.ofOne(ctx, replaceSourceScript, one.Name, encodeSource(one)))
}

// Delete implements source.Store. An unreadable record is removed, too.
func (s *Sources) Delete(ctx context.Context, name string) error {
	return s.about("delete Source", name, s.ofOne(ctx, deleteSourceScript, name))
}

// ofOne runs a script that is about a Source which must be there.
func (s *Sources) ofOne(ctx context.Context, script *script, name string, more ...any) error {
	e := s.db.engine
	value, err := e.run(ctx, script, []string{e.keys.sources()}, append([]any{name}, more...)...)
	if err == nil && value != int64(1) {
		err = source.ErrNotFound
	}
	return err
}

// Get implements source.Store.
func (s *Sources) Get(ctx context.Context, name string) (source.Source, error) {
	one, err := s.get(ctx, name)
	return one, s.about("get Source", name, err)
}

func (s *Sources) get(ctx context.Context, name string) (one source.Source, err error) {
	if err := ctx.Err(); err != nil {
		return one, err
	}
	e := s.db.engine
	record, err := e.client.HGet(ctx, e.keys.sources(), name).Result()
	if errors.Is(err, redis.Nil) {
		return one, source.ErrNotFound
	}
	if err != nil {
		return one, e.failed(ctx, err)
	}
	if one, err = decodeSource(name, record); err != nil {
		e.damaged(e.keys.sources(), name, err)
		return one, fmt.Errorf("%w: %w", source.ErrNotFound, err)
	}
	return one, nil
}

// List implements source.Store.
func (s *Sources) List(ctx context.Context) ([]source.Source, error) {
	e := s.db.engine
	var all []source.Source
	for fields, err := range e.scan(ctx, scanHash, e.keys.sources(), scanRequests) {
		if err != nil {
			return nil, fmt.Errorf("list Sources: %w", err)
		}
		for i := 0; i < len(fields); i += 2 {
			one, err := decodeSource(fields[i], fields[i+1])
			if err != nil {
				e.damaged(e.keys.sources(), fields[i], err)
				continue
			}
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b source.Source) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func (s *Sources) about(what, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %q: %w", what, name, err)
}

func encodeSource(s source.Source) []byte {
	e := encoder{recordVersion}
	e.raw(string(s.TokenHash[:]))
	e.instant(s.Created)
	e.instant(s.Issued)
	e.uint(uint64(len(s.Prefixes)))
	for _, p := range s.Prefixes {
		e.words(p)
	}
	return e
}

func decodeSource(name, record string) (source.Source, error) {
	d := decode(record)
	s := source.Source{Name: name}
	copy(s.TokenHash[:], d.take(uint64(len(s.TokenHash))))
	s.Created, s.Issued = d.instant(), d.instant()
	for n := d.uint(); n > 0 && d.err == nil; n-- {
		s.Prefixes = append(s.Prefixes, d.words())
	}
	if err := d.done(); err != nil {
		return source.Source{}, err
	}
	return s, nil
}
