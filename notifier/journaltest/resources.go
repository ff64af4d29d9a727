package journaltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon/notifier"
	"carillon/payload"
)

// RunResources runs the suite of notifier.ResourceStore.
func RunResources(t *testing.T, start func(t *testing.T) Place) {
	for name, test := range map[string]func(*testing.T, Place){
		"EventsAddUp":         testEventsAddUp,
		"WhatIsOfTheResource": testWhatIsOfTheResource,
		"WholeFromTheStart":   testWholeFromTheStart,
		"NotWhole":            testNotWhole,
		"OneMoment":           testOneMoment,
		"Snapshots":           testSnapshots,
		"ReadOnce":            testReadOnce,
		"ImportIntoNew":       testImportIntoNew,
		"ImportIntoUnknown":   testImportIntoUnknown,
		"ImportDiffers":       testImportDiffers,
		"ImportTold":          testImportTold,
		"ImportTwice":         testImportTwice,
		"ImportLeft":          testImportLeft,
		"ImportResumed":       testImportResumed,
		"EventsDuringImport":  testEventsDuringImport,
		"ManyDifferences":     testManyDifferences,
		"ResourceSetsApart":   testResourceSetsApart,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
}

// change is an event of the set "a" about the resource with the name.
func change(kind payload.Change, name, hash string) notifier.Event {
	return notifier.Event{Sets: []string{"a"}, Entry: payload.Entry{
		Loc: "http://a.example/" + name, Change: kind, Hash: hash,
	}}
}

// resource is one of a snapshot.
func resource(name, hash string) payload.Entry {
	return payload.Entry{Loc: "http://a.example/" + name, Hash: hash}
}

func keep(t *testing.T, j notifier.Store, set string) {
	t.Helper()
	if err := j.KeepResources(t.Context(), set); err != nil {
		t.Fatalf("KeepResources(%s): %v", set, err)
	}
}

func wantNotWhole(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, notifier.ErrNotWhole) {
		t.Errorf("%s: %v, want ErrNotWhole", what, err)
	}
}

// described gives resources as "name:hash name:hash".
func described(t *testing.T, all func(func(payload.Entry, error) bool)) string {
	t.Helper()
	var names []string
	last := ""
	for e, err := range all {
		if err != nil {
			t.Fatalf("reading resources: %v", err)
		}
		if e.Loc <= last {
			t.Fatalf("%s comes after %s", e.Loc, last)
		}
		if last = e.Loc; e.Change != "" {
			t.Errorf("%s has the change %q", e.Loc, e.Change)
		}
		names = append(names, strings.TrimPrefix(e.Loc, "http://a.example/")+":"+e.Hash)
	}
	return strings.Join(names, " ")
}

func wantResources(t *testing.T, j notifier.Store, set, want string) {
	t.Helper()
	_, all, err := j.Resources(t.Context(), set)
	if err != nil {
		t.Fatalf("Resources(%s): %v", set, err)
	}
	if got := described(t, all); got != want {
		t.Errorf("the resources of %s are %q, want %q", set, got, want)
	}
}

func testEventsAddUp(t *testing.T, at Place) {
	j := at()
	open(t, j, "a", noon)
	keep(t, j, "a")
	wantResources(t, j, "a", "")
	add(
		t, j, noon, change(payload.Created, "2", "md5:1"), change(payload.Created, "1", "md5:1"),
		change(payload.Created, "é", "md5:1"), change(payload.Deleted, "never", ""),
		change(payload.Updated, "3", "md5:1"),
	)
	j = at()
	keep(t, j, "a")
	wantResources(t, j, "a", "1:md5:1 2:md5:1 3:md5:1 é:md5:1")
	add(
		t, j, noon, change(payload.Deleted, "2", ""), change(payload.Updated, "1", "md5:2"),
		change(payload.Created, "4", ""), change(payload.Deleted, "4", ""), change(payload.Created, "3", "md5:3"),
	)
	for range 2 {
		wantResources(t, j, "a", "1:md5:2 3:md5:3 é:md5:1")
		for name, want := range map[string]bool{"1": true, "2": false, "4": false, "é": true, "": false} {
			e, found, err := j.Resource(t.Context(), "a", "http://a.example/"+name)
			if err != nil || found != want || found && e.Loc != "http://a.example/"+name {
				t.Errorf("Resource(%q): %+v, %t, %v", name, e, found, err)
			}
		}
		j = at()
	}
}

func testWhatIsOfTheResource(t *testing.T, at Place) {
	j := at()
	open(t, j, "a", noon)
	keep(t, j, "a")
	full := notifier.Event{Sets: []string{"a"}, Entry: payload.Entry{
		Loc: "http://a.example/é?x=1&y=<", LastMod: "2026-03-02", Change: payload.Updated,
		Hash: "md5:1584abdf8ebdc9802ac0c6a7402c03b6", Length: "9007199254740993", Type: "text/html", Encoding: "gzip",
		Links: []payload.Link{
			{Rel: "http://www.openarchives.org/rs/terms/patch", Href: "http://a.example/patch"}, // core §14.4
			{
				Rel: "duplicate", Href: "http://c.example/", Hash: "md5:1e0d5cb8ef6ba40c99b14c0237be735e", Length: "0",
				Type: "text/plain", Encoding: "br", Modified: "2026-03-01T00:00:00Z", Pri: "1",
			},
		},
	}}
	add(t, j, noon, full)
	j = at()
	want := full.Entry
	want.Change, want.Datetime, want.Links = "", noonMicro, full.Links[1:]
	got, found, err := j.Resource(t.Context(), "a", full.Loc)
	if err != nil || !found || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %+v, %t, %v\nwant %+v", got, found, err, want)
	}
}

func testWholeFromTheStart(t *testing.T, at Place) {
	j := at()
	from := open(t, j, "a", noon).Next
	add(t, j, noon, change(payload.Created, "1", ""))
	n := seal(t, j, notifier.Notification{Set: "a", From: from, Until: noonMicro.Add(time.Hour)}, nil)
	accept(t, j, n, noonMicro.Add(time.Hour))
	list := notifier.ChangeList{Set: "a", From: from, Until: n.Until, Entries: 1, Closed: noon}
	if err := errors.Join(j.CloseList(t.Context(), list), j.DropLists(t.Context(), "a", n.Until)); err != nil {
		t.Fatal(err)
	}
	if left := all(t, j, "a", time.Time{}); len(left) != 0 {
		t.Fatalf("%d events are left", len(left))
	}
	j = at()
	wantNotWhole(t, "KeepResources where no event is left", j.KeepResources(t.Context(), "a"))
	open(t, j, "b", noon)
	keep(t, j, "b")
	b := change(payload.Created, "1", "")
	b.Sets = []string{"b"}
	add(t, j, noon, b)
	j = at()
	keep(t, j, "b") // it was done before
	wantResources(t, j, "b", "1:")
	wantNotWhole(t, "KeepResources after a restart", j.KeepResources(t.Context(), "a"))
}

func testNotWhole(t *testing.T, at Place) {
	j := at()
	open(t, j, "a", noon)
	add(t, j, noon, change(payload.Created, "1", ""))
	for range 2 {
		_, _, err := j.Resources(t.Context(), "a")
		wantNotWhole(t, "Resources", err)
		_, _, err = j.Snapshot(t.Context(), "a", noon)
		wantNotWhole(t, "Snapshot", err)
		if _, found, err := j.Resource(t.Context(), "a", "http://a.example/1"); found || err != nil {
			t.Errorf("Resource: %t, %v", found, err)
		}
		wantNotWhole(t, "KeepResources", j.KeepResources(t.Context(), "a"))
		j = at()
	}
	testNoSuchSet(t, j)
}

func testNoSuchSet(t *testing.T, j notifier.Store) {
	t.Helper()
	_, _, resources := j.Resources(t.Context(), "b")
	_, _, snapshot := j.Snapshot(t.Context(), "b", noon)
	_, _, resource := j.Resource(t.Context(), "b", "http://a.example/1")
	_, begin := j.BeginImport(t.Context(), "b")
	for what, err := range map[string]error{
		"Resources": resources, "Snapshot": snapshot, "Resource": resource, "BeginImport": begin,
		"KeepResources": j.KeepResources(t.Context(), "b"),
	} {
		if !errors.Is(err, notifier.ErrNoSet) {
			t.Errorf("%s of no set: %v, want ErrNoSet", what, err)
		}
	}
}

// testOneMoment: every event before at is in what is read, and none that is dated at or later.
func testOneMoment(t *testing.T, at Place) {
	j := at()
	open(t, j, "a", noon)
	keep(t, j, "a")
	add(t, j, noon, change(payload.Created, "1", "md5:1"), change(payload.Created, "2", "md5:1"))
	moment, rest, err := j.Resources(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	late := change(payload.Updated, "1", "md5:2")
	late.Datetime = noon.Add(-time.Minute)
	add(t, j, noon.Add(-time.Hour), late, change(payload.Deleted, "2", ""))
	if got := described(t, rest); got != "1:md5:1 2:md5:1" {
		t.Errorf("what was begun is %q", got)
	}
	events := all(t, j, "a", moment)
	if len(events) != 2 || events[0].Hash != "md5:2" {
		t.Errorf("from the moment on there are %v, want both of the later events", events)
	}
}

func testSnapshots(t *testing.T, at Place) {
	j := at()
	open(t, j, "a", noon)
	keep(t, j, "a")
	add(t, j, noon, change(payload.Created, "1", "md5:1"))
	var moments []time.Time
	for _, now := range []time.Time{noon.Add(time.Minute), noon.Add(time.Minute), noon, noon.Add(time.Hour)} {
		moment, all, err := j.Snapshot(t.Context(), "a", now)
		if err != nil {
			t.Fatal(err)
		}
		if got := described(t, all); got != "1:md5:1" {
			t.Errorf("the snapshot has %q", got)
		}
		moments = append(moments, moment)
		j = at()
	}
	wantTime(t, "the first", moments[0], noonMicro.Add(time.Minute))
	wantTime(t, "the second, at the same time", moments[1], noonMicro.Add(time.Minute+time.Microsecond))
	wantTime(t, "the third, by a clock that was set back", moments[2], noonMicro.Add(time.Minute+2*time.Microsecond))
	wantTime(t, "the last", moments[3], noonMicro.Add(time.Hour))
	early := change(payload.Created, "2", "")
	early.Datetime = noon.Add(2 * time.Minute)
	add(t, j, noon.Add(3*time.Minute), early)
	if got := all(t, j, "a", moments[3]); len(got) != 1 {
		t.Errorf("an event is dated before the moment of a snapshot that does not have it")
	}
}

// testReadOnce: an unread or partly read view holds up nothing.
func testReadOnce(t *testing.T, at Place) {
	j := at()
	open(t, j, "a", noon)
	keep(t, j, "a")
	add(t, j, noon, change(payload.Created, "1", ""), change(payload.Created, "2", ""))
	_, all, err := j.Resources(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	for range all {
		break
	}
	wantFails(t, "a second reading", all)
	ended, cancel := context.WithCancel(t.Context())
	if _, all, err = j.Resources(ended, "a"); err != nil {
		t.Fatal(err)
	}
	cancel()
	wantFails(t, "reading after ctx has ended", all)
	if _, all, err = j.Resources(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	at()
	wantFails(t, "reading after Close", all)
}

func wantFails(t *testing.T, what string, all func(func(payload.Entry, error) bool)) {
	t.Helper()
	failed := false
	for e, err := range all {
		failed = failed || err != nil
		if err == nil {
			t.Errorf("%s gives %s", what, e.Loc)
		}
	}
	if !failed {
		t.Errorf("%s is no error", what)
	}
}

// begin begins an import of the resources.
func begin(t *testing.T, j notifier.Store, resources ...payload.Entry) notifier.ResourceImport {
	t.Helper()
	i, err := j.BeginImport(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Put(t.Context(), resources); err != nil {
		t.Fatal(err)
	}
	return i
}

// finish seals an import and applies it.
func finish(t *testing.T, i notifier.ResourceImport, now time.Time) notifier.Differences {
	t.Helper()
	pending, err := i.Seal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	done := apply(t, i, now)
	if !pending && done.Total() > 0 {
		t.Errorf("an import that has nothing to apply made %+v", done)
	}
	return done
}

func apply(t *testing.T, i notifier.ResourceImport, now time.Time) (total notifier.Differences) {
	t.Helper()
	for more := true; more; {
		var done notifier.Differences
		var err error
		if done, more, err = i.Apply(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		total.Created += done.Created
		total.Updated += done.Updated
		total.Deleted += done.Deleted
	}
	if err := i.Close(); err != nil {
		t.Fatal(err)
	}
	return total
}

func testImportIntoNew(t *testing.T, at Place) {
	j := at()
	open(t, j, "a", noon)
	done := finish(t, begin(t, j, resource("2", "md5:2"), resource("1", "md5:1")), noon)
	if done.Total() != 0 {
		t.Errorf("%+v events of an import into a new set", done)
	}
	for range 2 {
		wantResources(t, j, "a", "1:md5:1 2:md5:2")
		j = at()
	}
	if got := all(t, j, "a", time.Time{}); len(got) != 0 {
		t.Errorf("events %v of an import into a new set", got)
	}
	add(t, j, noon, change(payload.Deleted, "1", ""), change(payload.Created, "3", ""))
	wantResources(t, at(), "a", "2:md5:2 3:")
}

func testImportIntoUnknown(t *testing.T, at Place) {
	j := at()
	open(t, j, "a", noon)
	add(t, j, noon, change(payload.Created, "old", ""))
	if done := finish(t, begin(t, j, resource("1", "md5:1")), noon); done.Total() != 0 {
		t.Errorf("%+v events of an import into a set that is not whole", done)
	}
	add(t, j, noon, change(payload.Created, "2", ""))
	wantResources(t, at(), "a", "1:md5:1 2:")
}

func testImportDiffers(t *testing.T, at Place) {
	j := at()
	open(t, j, "a", noon)
	keep(t, j, "a")
	add(
		t, j, noon, change(payload.Created, "same", "md5:1"), change(payload.Created, "other", "md5:1"),
		change(payload.Created, "gone", "md5:1"), change(payload.Created, "zz", "md5:1"),
	)
	imported := begin(
		t, j, resource("zz", "md5:1"), resource("new", "md5:1"), resource("same", "md5:1"),
		resource("other", "md5:2"),
	)
	wantResources(t, j, "a", "gone:md5:1 other:md5:1 same:md5:1 zz:md5:1")
	done := finish(t, imported, noon.Add(time.Minute))
	if want := (notifier.Differences{Created: 1, Updated: 1, Deleted: 1}); done != want {
		t.Errorf("the import made %+v, want %+v", done, want)
	}
	for range 2 {
		wantResources(t, j, "a", "new:md5:1 other:md5:2 same:md5:1 zz:md5:1")
		var got []string
		for _, e := range all(t, j, "a", noonMicro.Add(time.Minute)) {
			got = append(got, string(e.Change)+" "+e.Loc+" "+e.Hash)
		}
		want := "deleted http://a.example/gone ,created http://a.example/new md5:1,updated http://a.example/other md5:2"
		if strings.Join(got, ",") != want {
			t.Errorf("its events are %q, want %q", strings.Join(got, ","), want)
		}
		j = at()
	}
	if done := finish(
		t,
		begin(
			t, j, resource("zz", "md5:1"), resource("new", "md5:1"), resource("same", "md5:1"),
			resource("other", "md5:2"),
		),
		noon,
	); done.Total() != 0 {
		t.Errorf("the same once more makes %+v", done)
	}
}

// testImportTold: where a client may have the Resource List of before, an import becomes events.
func testImportTold(t *testing.T, at Place) {
	j := at()
	open(t, j, "a", noon)
	keep(t, j, "a")
	if done := finish(t, begin(t, j, resource("1", "")), noon); done.Total() != 0 {
		t.Errorf("the first makes %+v", done)
	}
	if done := finish(t, begin(t, j, resource("2", "")), noon); done.Total() != 0 {
		t.Errorf("another, where nobody saw the first, makes %+v", done)
	}
	wantResources(t, j, "a", "2:")
	if _, _, err := j.Snapshot(t.Context(), "a", noon); err != nil {
		t.Fatal(err)
	}
	j = at()
	if done := finish(t, begin(t, j, resource("3", "")), noon); done != (notifier.Differences{Created: 1, Deleted: 1}) {
		t.Errorf("one after a snapshot makes %+v", done)
	}
	wantResources(t, at(), "a", "3:")
}

func testImportTwice(t *testing.T, at Place) {
	j := at()
	open(t, j, "a", noon)
	i := begin(t, j, resource("1", ""), resource("2", ""))
	if _, err := j.BeginImport(t.Context(), "a"); !errors.Is(err, notifier.ErrImporting) {
		t.Errorf("a second import: %v, want ErrImporting", err)
	}
	var twice *notifier.DuplicateError
	many := make([]payload.Entry, 1000)
	for n := range many {
		many[n] = resource(fmt.Sprint("many", n), "")
	}
	many[900] = resource("1", "")
	if err := i.Put(t.Context(), many); !errors.As(err, &twice) || twice.Index != 900 {
		t.Errorf("a resource that was put before: %v, want a DuplicateError of 900", err)
	}
	if err := i.Put(
		t.Context(), []payload.Entry{resource("x", ""), resource("x", "")},
	); !errors.As(err, &twice) || twice.Index != 1 {
		t.Errorf("a resource that is there twice: %v, want a DuplicateError of 1", err)
	}
	if err := i.Close(); err != nil {
		t.Fatal(err)
	}
	finish(t, begin(t, j, resource("1", "")), noon)
	wantResources(t, j, "a", "1:")
}

// testImportLeft: an import without a Seal has changed nothing.
func testImportLeft(t *testing.T, at Place) {
	j := at()
	open(t, j, "a", noon)
	keep(t, j, "a")
	add(t, j, noon, change(payload.Created, "1", "md5:1"))
	if err := begin(t, j, resource("2", "")).Close(); err != nil {
		t.Fatal(err)
	}
	begin(t, j, resource("3", "")) // and the process ends
	add(t, j, noon, change(payload.Created, "4", ""))
	j = at()
	if left, err := j.ResumeImports(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("%d imports to resume, %v; want none", len(left), err)
	}
	wantResources(t, j, "a", "1:md5:1 4:")
	if done := finish(t, begin(t, j, resource("1", "md5:1"), resource("4", "")), noon); done.Total() != 0 {
		t.Errorf("what was left behind is in the next: %+v", done)
	}
}

func testImportResumed(t *testing.T, at Place) {
	j := at()
	open(t, j, "a", noon)
	keep(t, j, "a")
	add(t, j, noon, change(payload.Created, "1", ""), change(payload.Created, "3", ""))
	i := begin(t, j, resource("2", ""), resource("3", ""))
	if pending, err := i.Seal(t.Context()); err != nil || !pending {
		t.Fatalf("Seal: pending %t, %v", pending, err)
	}
	j = at() // the process ended before it was applied
	wantResources(t, j, "a", "1: 3:")
	if _, err := j.BeginImport(t.Context(), "a"); !errors.Is(err, notifier.ErrImporting) {
		t.Errorf("an import before the other is resumed: %v, want ErrImporting", err)
	}
	add(t, j, noon, change(payload.Updated, "3", "md5:later"))
	for n := range 2 {
		left, err := j.ResumeImports(t.Context())
		if err != nil || len(left) != 1 || left[0].Set() != "a" {
			t.Fatalf("imports to resume: %v, %v; want one", left, err)
		}
		if again, err := j.ResumeImports(t.Context()); err != nil || len(again) != 0 {
			t.Errorf("it can be had twice: %v, %v", again, err)
		}
		if n == 0 { // not now
			if err := left[0].Close(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if done := apply(t, left[0], noon.Add(time.Minute)); done != (notifier.Differences{Created: 1, Deleted: 1}) {
			t.Errorf("it made %+v", done)
		}
	}
	for range 2 {
		wantResources(t, j, "a", "2: 3:md5:later")
		j = at()
	}
	if left, err := j.ResumeImports(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("%d imports to resume, %v; want none", len(left), err)
	}
}

// testEventsDuringImport: an event before the end of an import is later than the imported state.
func testEventsDuringImport(t *testing.T, at Place) {
	for name, whole := range map[string]bool{"not whole": false, "whole": true} {
		j := at()
		set := open(t, j, "a", noon).Set
		if whole {
			add(t, j, noon, change(payload.Created, "before", "md5:1"), change(payload.Created, "gone", "md5:1"))
		}
		i := begin(
			t, j, resource("before", "md5:1"), resource("gone", "md5:1"),
			resource("updated", "md5:1"), resource("deleted", "md5:1"),
		)
		add(
			t, j, noon, change(payload.Updated, "updated", "md5:2"),
			change(payload.Deleted, "deleted", ""), change(payload.Created, "new", "md5:2"),
		)
		add(t, j, noon, change(payload.Updated, "early", "md5:2"), change(payload.Deleted, "never", ""))
		if err := i.Put(
			t.Context(),
			[]payload.Entry{resource("early", "md5:1"), resource("never", "md5:1"), resource("late", "md5:1")},
		); err != nil {
			t.Fatal(err)
		}
		if _, err := i.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		add(t, j, noon, change(payload.Deleted, "gone", ""), change(payload.Updated, "late", "md5:2"))
		apply(t, i, noon.Add(time.Minute))
		wantResources(t, j, set, "before:md5:1 early:md5:2 late:md5:2 new:md5:2 updated:md5:2")
		if t.Failed() {
			t.Fatal("the set was", name)
		}
		finish(t, begin(t, j), noon.Add(time.Hour)) // so that the next round begins empty
		wantResources(t, at(), set, "")
	}
}

func testManyDifferences(t *testing.T, at Place) {
	j := at()
	open(t, j, "a", noon)
	keep(t, j, "a")
	var events []notifier.Event
	var resources []payload.Entry
	for n := range 2500 {
		events = append(events, change(payload.Created, fmt.Sprint("old", n), ""))
		resources = append(resources, resource(fmt.Sprint("new", n), ""))
	}
	add(t, j, noon, events...)
	i := begin(t, j, resources...)
	if pending, err := i.Seal(t.Context()); err != nil || !pending {
		t.Fatalf("Seal: pending %t, %v", pending, err)
	}
	if _, more, err := i.Apply(t.Context(), noon.Add(time.Minute)); err != nil || !more {
		t.Fatalf("the first step: more %t, %v", more, err)
	}
	j = at() // the process ended in the middle
	left, err := j.ResumeImports(t.Context())
	if err != nil || len(left) != 1 {
		t.Fatal(left, err)
	}
	apply(t, left[0], noon.Add(time.Minute))
	if got := all(t, j, "a", noonMicro.Add(time.Minute)); len(got) != 5000 {
		t.Errorf("%d events, want each difference once: 5000", len(got))
	}
	_, all, err := j.Resources(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(resources, func(a, b payload.Entry) int { return strings.Compare(a.Loc, b.Loc) })
	n := 0
	for e := range all {
		if e.Loc != resources[n].Loc {
			t.Fatalf("resource %d is %s, want %s", n, e.Loc, resources[n].Loc)
		}
		n++
	}
}

func testResourceSetsApart(t *testing.T, at Place) {
	j := at()
	names := []string{"a", "a.b", "ab", "A"}
	for _, set := range names {
		open(t, j, set, noon)
		keep(t, j, set)
	}
	for _, set := range names {
		e := change(payload.Created, set, "")
		e.Sets = []string{set}
		add(t, j, noon, e)
	}
	finish(t, begin(t, j), noon)
	j = at()
	wantResources(t, j, "a", "")
	for _, set := range names[1:] {
		wantResources(t, j, set, set+":")
	}
}
