package dump

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon/notifier"
	"carillon/payload"
)

func (s *set) runChanges(ctx context.Context) {
	s.loop(ctx, s.wakeChanges, nil, Changes, s.stepChanges)
}

// stepChanges packs the next Change List that was closed, and drops what belongs to lists that are
// not kept any more.
func (s *set) stepChanges(ctx context.Context) (time.Duration, error) {
	lists, err := s.d.cfg.Store.ChangeLists(ctx, s.name)
	if err != nil {
		return 0, err
	}
	s.forgetChanges(lists)
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
	for err == nil && s.packages(Changes) > s.most {
		s.log.Warn("the oldest part of the Change Dump is dropped before its time, as a document can list no more packages",
			"packages", s.packages(Changes), "most", s.most)
		s.drop(Changes, 1)
	}
	return 0, err
}

// packages returns how many packages the generations of a kind have.
func (s *set) packages(kind Kind) (n int) {
	for _, g := range s.of(kind) {
		n += len(g.Packages)
	}
	return n
}

// forgetChanges drops the parts of lists that are not kept any more.
func (s *set) forgetChanges(lists []notifier.ChangeList) {
	all, drop := s.of(Changes), 0
	for drop < len(all) && !all[drop].Until.After(lists[0].From) {
		drop++
	}
	s.drop(Changes, drop)
}

// nextList returns the closed list that is to be packed; nil: none is. What was closed
// long before the first part has no content of its time any more.
func (s *set) nextList(lists []notifier.ChangeList) *notifier.ChangeList {
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
func (s *set) firstList(closed []notifier.ChangeList) *notifier.ChangeList {
	for i := range closed {
		if !closed[i].Closed.Before(s.started) {
			return &closed[i]
		}
	}
	return &closed[len(closed)-1]
}

// packList makes the part of the Change Dump for one list.
func (s *set) packList(ctx context.Context, l notifier.ChangeList) error {
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
		if dir, p, err = s.planChanges(ctx, l); err != nil {
			return err
		}
	}
	_, err = s.make(ctx, dir, p, &s.changing)
	return err
}

// planChanges writes down what the package of a list will have: each change in order, but for those
// of a resource that the same list deletes later, whose content nobody can have. All changes of a
// resource have its content at the end.
func (s *set) planChanges(ctx context.Context, l notifier.ChangeList) (dir string, p plan, err error) {
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

func (s *set) eachChange(
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
