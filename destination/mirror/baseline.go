package mirror

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"carillon/destination/follow"
	"carillon/destination/lists"
	"carillon/payload"
)

// ErrEmpty: the Source lists nothing, while there are copies.
var ErrEmpty = errors.New("the Source lists no resources, while the mirror has copies: nothing was deleted")

// noteBatch is how many entries are put into the Ledger in one step.
const noteBatch = 1000

// Lists reads what a Source lists: *lists.Client does.
type Lists interface {
	Resources(ctx context.Context, uri string, visit func(payload.Entry) error) (lists.Snapshot, error)
	Changes(ctx context.Context, uri string, since time.Time, visit func(payload.Entry) error) (lists.Covered, error)
}

// Seen is what the lists of a Source have shown.
type Seen struct {
	// At is the moment of the Resource List; zero where the Source does not tell. Position
	// is from when on changes are not in it: At, or later where the Change List was read too.
	At, Position time.Time
	// Entries is how many resources the Resource List has, Changes how many changes since.
	Entries, Changes int
}

// Baseline has the copies be what a Source's Resource List says, and its Change List since: what is new
// or differs is fetched, what is not there any more is deleted, or recorded. Nothing is
// changed unless all of the Resource List was read. What could not be fetched is recorded; Settle tries it again.
func (m *Mirror) Baseline(ctx context.Context, from Lists, set lists.Set) (Seen, error) {
	seen, err := m.expect(ctx, from, set)
	if err != nil {
		return Seen{}, err
	}
	if seen.Entries+seen.Changes == 0 {
		for c, err := range m.cfg.Catalog.All(ctx) {
			if err != nil || c.State != Gone {
				return Seen{}, errors.Join(err, ErrEmpty)
			}
		}
	}
	m.counts.total.Add(int64(seen.Entries))
	p := m.newPool(ctx)
	err = m.pairs(ctx, func(r *Resource, c *Copy) error {
		switch {
		case r != nil && c != nil && r.Datetime.IsZero() && !seen.At.IsZero() && c.Told.Datetime.After(seen.At):
			return nil // what it was changed to since is known already
		case r != nil:
			return p.submit(&job{loc: r.Loc, told: r.Told})
		case c.State == Gone && !m.cfg.Delete:
			return nil
		}
		// What was changed after the position stays: that is not known here.
		return p.submit(&job{loc: c.Loc, told: deletion(seen.Position)})
	})
	if waited := p.wait(); waited != nil {
		err = waited
	}
	return seen, err
}

// expect puts what the Source has into the Ledger.
func (m *Mirror) expect(ctx context.Context, from Lists, set lists.Set) (Seen, error) {
	switch {
	case m.cfg.Ledger == nil:
		return Seen{}, errors.New("there is no ledger")
	case set.ResourceList == "":
		return Seen{}, fmt.Errorf("%w: a Resource List", lists.ErrNone)
	}
	if err := m.cfg.Ledger.Clear(ctx); err != nil {
		return Seen{}, err
	}
	if c, ok := from.(interface{ Forget() }); ok {
		c.Forget() // what was read before is not in the Ledger
	}
	n := noting{ctx: ctx, to: m.cfg.Ledger}
	snapshot, err := from.Resources(ctx, set.ResourceList, n.note)
	if err = errors.Join(err, n.flush()); err != nil {
		return Seen{}, err
	}
	seen := Seen{At: snapshot.At, Position: snapshot.At, Entries: n.count}
	if set.ChangeList == "" || snapshot.At.IsZero() {
		return seen, nil
	}
	n.count = 0
	covered, err := from.Changes(ctx, set.ChangeList, snapshot.At, n.change)
	if flushed := n.flush(); flushed != nil {
		return Seen{}, flushed
	}
	seen.Changes = n.count
	switch {
	case ctx.Err() != nil:
		return Seen{}, ctx.Err()
	case err != nil:
		m.cfg.Logger.Warn("the changes since the Resource List are not known", "error", cut(err.Error()))
	case covered.Until.After(seen.Position):
		seen.Position = covered.Until
	}
	return seen, nil
}

// noting puts entries into the Ledger, several at a time.
type noting struct {
	ctx   context.Context // of one call
	to    Ledger
	batch []payload.Entry
	count int
}

// note takes an entry of a Resource List, where a change means nothing.
func (n *noting) note(e payload.Entry) error {
	e.Change, e.Datetime = "", time.Time{}
	return n.change(e)
}

func (n *noting) change(e payload.Entry) error {
	e.Links = nil
	n.count++
	if n.batch = append(n.batch, e); len(n.batch) < noteBatch {
		return nil
	}
	return n.flush()
}

func (n *noting) flush() error {
	if len(n.batch) == 0 {
		return nil
	}
	err := n.to.Note(n.ctx, n.batch)
	n.batch = n.batch[:0]
	return err
}

// pairs calls each with every resource of the Ledger and its copy, by the bytes of their locs; nil
// where there is only one of the two.
func (m *Mirror) pairs(ctx context.Context, each func(*Resource, *Copy) error) error {
	nextResource, stopResources := iter.Pull2(m.cfg.Ledger.Resources(ctx))
	defer stopResources()
	nextCopy, stopCopies := iter.Pull2(m.cfg.Catalog.All(ctx))
	defer stopCopies()
	r, errR, moreR := nextResource()
	c, errC, moreC := nextCopy()
	for moreR || moreC {
		if err := errors.Join(errR, errC); err != nil {
			return err
		}
		onlyR := moreR && (!moreC || r.Loc < c.Loc)
		onlyC := moreC && (!moreR || c.Loc < r.Loc)
		var err error
		switch {
		case onlyR:
			err = each(&r, nil)
		case onlyC:
			err = each(nil, &c)
		default:
			err = each(&r, &c)
		}
		if err != nil {
			return err
		}
		if !onlyC {
			r, errR, moreR = nextResource()
		}
		if !onlyR {
			c, errC, moreC = nextCopy()
		}
	}
	return nil
}

// Baselines takes baselines for a follower.
type Baselines struct {
	*Mirror
	From Lists
	// Set is what the Source offers.
	Set func(ctx context.Context) (lists.Set, error)
}

var _ follow.Baseliner = Baselines{}

// Baseline implements follow.Baseliner.
func (b Baselines) Baseline(ctx context.Context) (time.Time, error) {
	set, err := b.Set(ctx)
	if err != nil {
		return time.Time{}, err
	}
	seen, err := b.Mirror.Baseline(ctx, b.From, set)
	return seen.Position, err
}
