package mirror

import (
	"context"
	"fmt"
	"time"

	"carillon/destination/lists"
	"carillon/payload"
)

// expectDumped puts the set of a Source without a Resource List into the Ledger: the entries in the
// manifests of its Resource Dump, and the changes since, from the Change List or the Change Dump.
func (src *source) expectDumped(ctx context.Context, from Lists, set lists.Set) (Seen, error) {
	past, is := from.(Past)
	if !is {
		return Seen{}, fmt.Errorf("%w: a Resource List", lists.ErrNone)
	}
	n := recorder{ctx: ctx, m: src}
	snapshot, err := n.recordDump(past, set.ResourceDump)
	if err == nil {
		err = n.flush()
	}
	if err != nil {
		return Seen{}, err
	}
	if ahead(snapshot.At) {
		snapshot.At = time.Time{}
	}
	seen := Seen{
		At: snapshot.At, Position: snapshot.At,
		Entries: n.count, Unnamed: snapshot.Unnamed, Overlong: n.overlong,
	}
	switch {
	case set.ChangeList != "":
		err = src.expectChanges(ctx, from, set.ChangeList, &seen)
	case set.ChangeDump != "":
		err = src.expectChanges(ctx, changesOfDumps{src, past}, set.ChangeDump, &seen)
	}
	return seen, err
}

// changesOfDumps has Changes read the manifests of a Change Dump.
type changesOfDumps struct {
	m *source
	Past
}

// Changes visits every change that the packages tell of. The first of them may have earlier changes.
func (c changesOfDumps) Changes(
	ctx context.Context, uri string, since time.Time, visit func(payload.Entry) error,
) (lists.Covered, error) {
	return c.ChangeDump(ctx, uri, since, func(p lists.Package) error {
		b, err := c.m.OpenChanges(ctx, p)
		if err != nil {
			return err
		}
		defer b.Close()
		for i := range b.Entries {
			e := &b.Entries[i]
			if !e.Datetime.IsZero() && lists.Latest(e).Before(since) {
				continue // the list has it
			}
			if err := visit(*e); err != nil {
				return err
			}
		}
		return nil
	})
}
