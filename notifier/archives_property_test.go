package notifier_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"carillon/notifier"
	"carillon/notifier/journaltest"
	"carillon/payload"
)

// TestArchivesProperty: whatever happens to a notifier, the archived Change Lists and those that
// are live follow each other without a hole and without an overlap, and have every event once that
// is not older than what the archive is to keep; and an archived Resource List, with the changes
// since, gives what there was at each moment.
func TestArchivesProperty(t *testing.T) {
	checks(t, 20)
	rapid.Check(t, func(rt *rapid.T) {
		p := drawArchivePlan(rt) // before the bubble, where rapid cannot work
		var err error
		synctest.Test(t, func(t *testing.T) { err = p.run(t) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// archivePlan is what happens to a notifier with archives.
type archivePlan struct {
	entries, most             int
	keep, every, lasting, age time.Duration
	steps                     []archiveStep
}

type archiveStep struct {
	clock, sleep time.Duration
	restart      bool
	fault        string
	kept         bool
	blocked      bool // the disk of the archive
	events       []notifier.Event
}

func drawArchivePlan(rt *rapid.T) archivePlan {
	duration := func(low, high time.Duration, name string) time.Duration {
		return time.Duration(rapid.Int64Range(int64(low), int64(high)).Draw(rt, name))
	}
	p := archivePlan{
		entries: rapid.IntRange(1, 4).Draw(rt, "entries"), most: rapid.IntRange(1, 3).Draw(rt, "most"),
		keep: duration(time.Second, 20*time.Minute, "keep"), every: duration(time.Minute, time.Hour, "every"),
		lasting: duration(time.Second, time.Hour, "lasting"),
	}
	p.age = p.keep + p.every + duration(0, 3*time.Hour, "age")
	there := map[string]bool{}
	for range rapid.IntRange(1, 15).Draw(rt, "steps") {
		s := archiveStep{
			sleep: duration(1, time.Minute, "sleep"),
			fault: rapid.SampledFrom([]string{"", "", "ChangeLists", "CloseList", "DropLists", "Events", "Last", "Snapshot"}).Draw(rt, "fault"),
			kept:  rapid.Bool().Draw(rt, "kept"), blocked: rapid.Bool().Draw(rt, "blocked"),
		}
		switch rapid.IntRange(0, 6).Draw(rt, "step") {
		case 0:
			s.clock = duration(-time.Minute, 2*time.Hour, "clock")
		case 1, 2:
			s.sleep = duration(1, 2*time.Hour, "long sleep")
		case 3:
			s.restart = true
		default:
			for range rapid.IntRange(1, 6).Draw(rt, "events") {
				loc := "http://a.example/" + rapid.SampledFrom([]string{"1", "2", "3", "4"}).Draw(rt, "loc")
				change := payload.Created
				if there[loc] {
					change = rapid.SampledFrom([]payload.Change{payload.Updated, payload.Deleted}).Draw(rt, "change")
				}
				there[loc] = change != payload.Deleted
				s.events = append(s.events, notifier.Event{
					Sets: []string{"a"}, Entry: payload.Entry{Loc: loc, Change: change, Length: strconv.Itoa(100*len(p.steps) + len(s.events))},
				})
			}
		}
		p.steps = append(p.steps, s)
	}
	return p
}

func (p archivePlan) run(t *testing.T) error {
	clock := &wildClock{}
	dir := t.TempDir()
	var mu sync.Mutex
	fault, kept := "", journaltest.Lost
	w := &world{t: t, hub: &hub{}, fs: newMem(), cfg: notifier.Config{
		URL: base, Hub: hubURL, Sets: []string{"a"}, ResourceLists: []string{"a"}, Archives: []string{"a"}, Now: clock.now,
		ResourceListDir: filepath.Join(dir, "resourcelists"), ArchiveDir: filepath.Join(dir, "archives"), ResourceListEvery: time.Hour,
		ChangeListEntries: p.entries, ChangeListFor: p.lasting, Keep: p.keep, ArchiveEvery: p.every, ArchiveFor: p.age, ArchiveEntries: p.most,
	}}
	w.cfg.Transport = w.hub
	w.wrap = func(j notifier.Store) notifier.Store {
		return journaltest.NewFaulty(j, func(call string) journaltest.Fault {
			mu.Lock()
			defer mu.Unlock()
			if call != fault {
				return journaltest.Works
			}
			fault = ""
			return kept
		})
	}
	arm := func(call string, f journaltest.Fault) {
		mu.Lock()
		defer mu.Unlock()
		fault, kept = call, f
	}
	w.start()
	defer func() { w.stop() }()
	disk := blockedDisk{dir: filepath.Join(dir, "archives", "a")}
	var truth []payload.Entry
	var latest time.Time
	look := func() error {
		if disk.blocked {
			if err := disk.block(false); err != nil {
				return err
			}
			time.Sleep(2 * time.Minute) // until it is tried again
		}
		synctest.Wait()
		if now := clock.now(); now.After(latest) {
			latest = now
		}
		return p.check(w, truth, latest)
	}
	for _, s := range p.steps {
		if err := look(); err != nil {
			return err
		}
		clock.step(s.clock)
		arm(s.fault, map[bool]journaltest.Fault{true: journaltest.Kept, false: journaltest.Lost}[s.kept])
		if err := disk.block(s.blocked && !s.restart); err != nil {
			return err
		}
		if s.restart {
			arm("", journaltest.Works) // a failed start is reported, and is no matter here
			w.restart()
		}
		if err := w.Append(context.Background(), s.events); err != nil {
			return err
		}
		for i := range s.events {
			truth = append(truth, s.events[i].Entry)
		}
		time.Sleep(s.sleep)
		arm("", journaltest.Works)
		if err := look(); err != nil {
			return err
		}
	}
	clock.step(time.Hour) // what waited for it
	time.Sleep(2 * time.Minute)
	if err := look(); err != nil {
		return err
	}
	if l, err := p.read(w, base+"a/changelist/open.xml"); err != nil || len(l.entries) > 0 && l.entries[len(l.entries)-1].Length != truth[len(truth)-1].Length {
		return fmt.Errorf("the open list ends with %+v: %w", l.entries, err)
	}
	if strings.Contains(w.metrics(), `archive_waiting{set="a"} 0`) {
		return nil
	}
	return errors.New("closed lists are not archived in the end")
}

// read is a document as it is served, or none.
func (p archivePlan) read(w *world, address string) (resourceDoc, error) {
	answer := w.get(address)
	if answer.Code == 404 {
		return resourceDoc{}, nil
	}
	if answer.Code != 200 {
		return resourceDoc{}, fmt.Errorf("%s is answered %d %s", address, answer.Code, answer.Body)
	}
	return readList(answer.Body)
}

// listed reads what an archive, an index, or a lone list has at an address.
func (p archivePlan) listed(w *world, address string, lone bool) (all []payload.Entry, err error) {
	top, err := p.read(w, address)
	if err != nil || top.Root != payload.RootSitemapIndex || !lone && top.Capability == payload.CapChangeList {
		return top.entries, err
	}
	for _, part := range top.entries {
		l, err := p.read(w, part.Loc)
		if err != nil || len(l.entries) > p.most {
			return nil, fmt.Errorf("%s has %d: %w", part.Loc, len(l.entries), err)
		}
		all = append(all, l.entries...)
	}
	return all, nil
}

// check looks at everything that is served, as a Destination could. latest is the latest time that
// the clock has ever had.
func (p archivePlan) check(w *world, truth []payload.Entry, latest time.Time) error {
	lists, err := p.listed(w, "a/changelist-archive.xml", true)
	if err != nil {
		return err
	}
	archived := len(lists)
	live, err := p.read(w, base+"a/changelist.xml")
	if err != nil {
		return err
	}
	parts := live.entries
	if live.Root != payload.RootSitemapIndex {
		parts = []payload.Entry{{Loc: base + "a/changelist.xml", From: live.From}}
	}
	end := ""
	if archived > 0 {
		end = lists[archived-1].Until
	}
	for _, part := range parts {
		if part.From >= end {
			lists = append(lists, part)
		}
	}
	var changes []payload.Entry
	for i, e := range lists {
		l, err := p.read(w, e.Loc)
		switch {
		case err != nil:
			return err
		case l.From != e.From || i < archived && l.Until != e.Until:
			return fmt.Errorf("%s is from %s until %s, not %s until %s", e.Loc, l.From, l.Until, e.From, e.Until)
		case i > 0 && e.From != lists[i-1].Until:
			return fmt.Errorf("%s is from %s, and the one before until %s", e.Loc, e.From, lists[i-1].Until)
		}
		changes = append(changes, l.entries...)
	}
	told := func(e payload.Entry) string { return e.Loc + " " + string(e.Change) + " " + e.Length }
	// The oldest may have gone; the newest may not be listed yet, if the clock was set back.
	missing := len(truth)
	if len(changes) > 0 {
		missing = max(0, slices.IndexFunc(truth, func(e payload.Entry) bool { return told(e) == told(changes[0]) }))
	}
	if listed := truth[missing:min(len(truth), missing+len(changes))]; !slices.EqualFunc(
		changes, listed, func(a, b payload.Entry) bool { return told(a) == told(b) },
	) {
		return fmt.Errorf("the lists have %d events, which are not those from %d on of the %d that there were", len(changes), missing, len(truth))
	}
	if from, _ := payload.ParseDatetime(lists[0].From); missing > 0 && from.After(latest.Add(-p.age)) {
		return fmt.Errorf("%d events have gone, and it is not %s since %s", missing, p.age, lists[0].From)
	}
	if missing+len(changes) < len(truth) {
		return nil // a snapshot may have what the lists do not have yet
	}
	return p.checkSnapshots(w, changes, truth[:missing])
}

// checkSnapshots plays the changes since each archived Resource List from it.
func (p archivePlan) checkSnapshots(w *world, changes, before []payload.Entry) error {
	snapshots, err := p.listed(w, "a/resourcelist-archive.xml", true)
	if err != nil {
		return err
	}
	play := func(state map[string]string, e payload.Entry) {
		if e.Change == payload.Deleted {
			delete(state, e.Loc)
			return
		}
		state[e.Loc] = e.Length
	}
	for _, s := range snapshots {
		l, err := p.read(w, s.Loc)
		if err != nil {
			return err
		}
		at, err := payload.ParseDatetime(l.At)
		if err != nil || l.At != s.At {
			return fmt.Errorf("%s is of %s, not %s: %w", s.Loc, l.At, s.At, err)
		}
		state := map[string]string{}
		for _, e := range l.entries {
			state[e.Loc] = e.Length
		}
		truth, reached := map[string]string{}, len(before) == 0 || !slices.ContainsFunc(
			changes, func(e payload.Entry) bool { return e.Datetime.Before(at) },
		)
		for _, e := range before {
			play(truth, e)
		}
		for _, e := range changes {
			if !e.Datetime.Before(at) {
				if !reached && !maps.Equal(state, truth) {
					return fmt.Errorf("the Resource List of %s has %v; there was %v", l.At, state, truth)
				}
				reached = true
				play(state, e)
			}
			play(truth, e)
		}
		if oldest := len(changes) == 0 || !changes[0].Datetime.After(at); (oldest || len(before) == 0) && !maps.Equal(state, truth) {
			return fmt.Errorf("the Resource List of %s and the changes since make %v; there is %v", l.At, state, truth)
		}
	}
	return nil
}
