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
	if err := s.forgetChanges(lists); err != nil {
		return 0, err
	}
	next, err := s.nextList(lists)
	if err != nil || next == nil {
		return longestLook, err
	}
	err = within(ctx, s.d.packaging, func() error { return s.packList(ctx, *next) })
	if errors.Is(err, ErrRoom) && len(s.of(Changes)) > 0 {
		s.log.Warn("the oldest part of the Change Dump is dropped before its time, as there is no room for a new one", "error", err)
		s.drop(Changes, 1)
		return 0, s.renewChangeDump()
	}
	return 0, err
}

// forgetChanges drops the parts of lists that are not kept any more.
func (s *set) forgetChanges(lists []notifier.ChangeList) error {
	all, drop := s.of(Changes), 0
	for drop < len(all) && !all[drop].Until.After(lists[0].From) {
		drop++
	}
	if drop == 0 {
		return nil
	}
	s.drop(Changes, drop)
	return s.renewChangeDump()
}

// nextList returns the closed list that is to be packed; nil: none is. What was closed
// long before the first part has no content of its time any more.
func (s *set) nextList(lists []notifier.ChangeList) (*notifier.ChangeList, error) {
	closed := lists[:len(lists)-1]
	if len(closed) == 0 {
		return nil, nil
	}
	all := s.of(Changes)
	if len(all) == 0 {
		return s.firstList(closed), nil
	}
	end := all[len(all)-1].Until
	for i := range closed {
		if closed[i].From.Equal(end) {
			return &closed[i], nil
		}
	}
	if last := closed[len(closed)-1]; !last.Until.After(end) {
		return nil, nil
	}
	// The list that follows was dropped before it was packed: a Change Dump has no gaps.
	s.log.Warn("the Change Dump begins anew: Change Lists were dropped before they were packed", "until", payload.FormatDatetime(end))
	s.drop(Changes, len(all))
	return s.firstList(closed), s.renewChangeDump()
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
		return "", p, fmt.Errorf("the Change List of %s has %d entries, and %d are in the journal", payload.FormatDatetime(l.From), l.Entries, count)
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

func (s *set) eachChange(ctx context.Context, l notifier.ChangeList, visit func(*payload.Entry) error) error {
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

// changeDump is the Change Dump as it is served.
type changeDump struct {
	doc      []byte // nil: there is none
	modified time.Time
	linked   bool // to its archive
}

// renewChangeDump writes the Change Dump of the parts that there are (core §13.1). It has no until,
// as further packages follow.
func (s *set) renewChangeDump() error {
	s.renewing.Lock() // so that none of before takes the place of a newer one
	defer s.renewing.Unlock()
	var d changeDump
	if all := s.of(Changes); len(all) > 0 {
		archives := s.d.cfg.Notifier.ArchiveLinks(s.name, payload.CapChangeDump)
		head := payload.Head{
			Capability: payload.CapChangeDump, From: all[0].From,
			Links: append([]payload.Link{{Rel: payload.RelUp, Href: s.up}}, archives...),
		}
		doc, err := document(head, all, s.uri, s.manifestURI)
		if err != nil {
			return err
		}
		d = changeDump{doc: doc, modified: s.d.cfg.Notifier.Now(), linked: len(archives) > 0}
	}
	s.mu.Lock()
	s.dump = d
	s.mu.Unlock()
	return nil
}

// linkChangeDump has the Change Dump link to its archive, which has something now.
func (s *set) linkChangeDump() {
	s.mu.Lock()
	linked := s.dump.linked
	s.mu.Unlock()
	if linked {
		return
	}
	if err := s.renewChangeDump(); err != nil {
		s.log.Error("the Change Dump cannot be written", "error", err)
	}
}
