package dump

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"carillon/notifier"
	"carillon/payload"
)

// changeDump makes the parts of the Change Dump of a set.
type changeDump struct {
	*shelf
	wake     chan struct{} // holds one token
	progress progress      // not read
}

func (s *changeDump) run(ctx context.Context) {
	s.loop(ctx, s.wake, nil, Changes, s.step)
}

// step packs the next Change List that was closed, and drops what belongs to lists that are
// not kept any more.
func (s *changeDump) step(ctx context.Context) (time.Duration, error) {
	lists, err := s.d.cfg.Store.ChangeLists(ctx, s.name)
	if err != nil {
		return 0, err
	}
	s.forget(lists)
	next := s.nextList(lists)
	if next == nil {
		return longestLook, nil
	}
	err = within(ctx, s.d.packaging, func() error { return s.packList(ctx, *next) })
	if errors.Is(err, errRoom) && len(s.of(Changes)) > 0 {
		s.log.Warn("the oldest part of the Change Dump is dropped before its time, as there is no room for a new one",
			"error", err)
		s.drop(Changes, 1)
		return 0, nil
	}
	for err == nil && s.packages() > s.most {
		s.log.Warn("the oldest part of the Change Dump is dropped before its time, as a document can list no more packages",
			"packages", s.packages(), "most", s.most)
		s.drop(Changes, 1)
	}
	return 0, err
}

// packages returns how many packages the Change Dump has.
func (s *changeDump) packages() (n int) {
	for _, g := range s.of(Changes) {
		n += len(g.Packages)
	}
	return n
}

// forget drops the parts of lists that are not kept any more.
func (s *changeDump) forget(lists []notifier.ChangeList) {
	all, drop := s.of(Changes), 0
	for drop < len(all) && !all[drop].Until.After(lists[0].From) {
		drop++
	}
	s.drop(Changes, drop)
}

// nextList returns the closed list that is to be packed, or nil. Lists closed long before the first
// part have no content of their time any more.
func (s *changeDump) nextList(lists []notifier.ChangeList) *notifier.ChangeList {
	closed := lists[:len(lists)-1]
	if len(closed) == 0 {
		return nil
	}
	all := s.of(Changes)
	if len(all) == 0 {
		return s.firstList(closed)
	}
	end := all[len(all)-1].Until
	for i := range closed {
		if closed[i].From.Equal(end) {
			return &closed[i]
		}
	}
	if last := closed[len(closed)-1]; !last.Until.After(end) {
		return nil
	}
	// The list that follows was dropped before it was packed: a Change Dump has no gaps.
	s.log.Warn("the Change Dump begins anew: Change Lists were dropped before they were packed",
		"until", payload.FormatDatetime(end))
	s.drop(Changes, len(all))
	return s.firstList(closed)
}

// firstList is the list that the Change Dump begins with: the first that was closed in this run, else
// the newest.
func (s *changeDump) firstList(closed []notifier.ChangeList) *notifier.ChangeList {
	for i := range closed {
		if !closed[i].Closed.Before(s.started) {
			return &closed[i]
		}
	}
	return &closed[len(closed)-1]
}

// packList makes the part of the Change Dump for one list.
func (s *changeDump) packList(ctx context.Context, l notifier.ChangeList) error {
	dir, p, begun, err := s.begun(ctx, Changes)
	if err != nil {
		return err
	}
	if begun && !p.From.Equal(l.From) {
		if err := s.d.room.remove(dir); err != nil {
			return err
		}
		begun = false
	}
	if !begun {
		if dir, p, err = s.takePlan(ctx, l); err != nil {
			return err
		}
	}
	_, err = s.complete(ctx, dir, p, &s.progress)
	return err
}

// takePlan writes down the content of a list's package: each change in order, except those of a
// resource that the same list deletes later, whose content is gone. All changes of a resource have its
// content at the end.
func (s *changeDump) takePlan(ctx context.Context, l notifier.ChangeList) (dir string, p plan, err error) {
	last := map[string]payload.Entry{}
	count := 0
	if err := s.eachChange(ctx, l, func(e *payload.Entry) error {
		count++
		last[e.Loc] = *e
		return nil
	}); err != nil {
		return "", p, err
	}
	if count != l.Entries {
		return "", p, fmt.Errorf("the Change List of %s has %d entries, and %d are in the journal",
			payload.FormatDatetime(l.From), l.Entries, count)
	}
	w, err := s.newPlan(plan{Kind: Changes, From: l.From, Until: l.Until})
	if err != nil {
		return "", p, err
	}
	seen := map[string]bool{}
	err = s.eachChange(ctx, l, func(e *payload.Entry) error {
		end := last[e.Loc]
		switch {
		case e.Change == payload.Deleted:
			e.Hash, e.Length, e.Type, e.Encoding = "", "", "", ""
			return w.add(e, false)
		case end.Change == payload.Deleted:
			return nil
		}
		end.Change, end.Datetime = e.Change, e.Datetime
		end.Links = withoutPatches(end.Links)
		same := seen[e.Loc]
		seen[e.Loc] = true
		return w.add(&end, same)
	})
	return w.end(err)
}

func (s *changeDump) eachChange(
	ctx context.Context, l notifier.ChangeList, visit func(*payload.Entry) error,
) error {
	for event, err := range s.d.cfg.Store.Events(ctx, s.name, l.From) {
		if err != nil {
			return err
		}
		if !event.Datetime.Before(l.Until) {
			return nil
		}
		if err := visit(&event.Entry); err != nil {
			return err
		}
	}
	return nil
}

// withoutPatches drops links that need content of their own in a package (core §14.4).
func withoutPatches(links []payload.Link) []payload.Link {
	return slices.DeleteFunc(slices.Clone(links), func(l payload.Link) bool {
		return l.Rel == payload.RelPatch
	})
}
