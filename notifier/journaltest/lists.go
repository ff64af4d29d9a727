package journaltest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"carillon/notifier"
)

func lists(t *testing.T, j notifier.Store, set string) []notifier.ChangeList {
	t.Helper()
	found, err := j.ChangeLists(t.Context(), set)
	if err != nil {
		t.Fatalf("ChangeLists(%s): %v", set, err)
	}
	return found
}

func closeList(t *testing.T, j notifier.Store, l notifier.ChangeList) {
	t.Helper()
	if err := j.CloseList(t.Context(), l); err != nil {
		t.Fatalf("CloseList: %v", err)
	}
}

func drop(t *testing.T, j notifier.Store, keepFrom time.Time) {
	t.Helper()
	if err := j.DropLists(t.Context(), "a", keepFrom); err != nil {
		t.Fatalf("DropLists: %v", err)
	}
}

func wantLists(t *testing.T, j notifier.Store, set string, want ...notifier.ChangeList) {
	t.Helper()
	if got := lists(t, j, set); !slices.Equal(got, want) {
		t.Errorf("the lists of %s are\n%+v\nwant\n%+v", set, got, want)
	}
}

// testChangeLists: a set has one open list from its beginning on; each begins where the
// one before ended.
func testChangeLists(t *testing.T, at Place) {
	j := at()
	from := open(t, j, "a", noon).Next
	open(t, j, "b", noon)
	made := notifier.ChangeList{Set: "a", From: from}
	wantLists(t, j, "a", made)
	first := notifier.ChangeList{
		Set: "a", From: from, Until: from.Add(time.Minute), Entries: 3, Closed: from.Add(time.Hour),
	}
	closeList(t, j, first)
	second := notifier.ChangeList{
		Set: "a", From: first.Until, Until: first.Until.Add(time.Second), Closed: first.Closed, Lastmods: true,
	}
	closeList(t, j, second)
	for range 2 {
		wantLists(t, j, "a", first, second, notifier.ChangeList{Set: "a", From: second.Until})
		wantLists(t, j, "b", notifier.ChangeList{Set: "b", From: open(t, j, "b", noon).Next})
		j = at()
		open(t, j, "a", noon.Add(time.Hour)) // begins no other
	}
}

func testCloseListOutOfOrder(t *testing.T, at Place) {
	j := at()
	from := open(t, j, "a", noon).Next
	first := notifier.ChangeList{Set: "a", From: from, Until: from.Add(time.Minute), Closed: from}
	closeList(t, j, first)
	opened := notifier.ChangeList{Set: "a", From: first.Until}
	for name, l := range map[string]notifier.ChangeList{
		"the closed one": first,
		"a gap":          {Set: "a", From: opened.From.Add(time.Microsecond), Until: opened.From.Add(time.Minute)},
		"an overlap":     {Set: "a", From: opened.From.Add(-time.Microsecond), Until: opened.From.Add(time.Minute)},
		"no interval":    {Set: "a", From: opened.From, Until: opened.From},
		"backwards":      {Set: "a", From: opened.From, Until: opened.From.Add(-time.Second)},
	} {
		if err := j.CloseList(t.Context(), l); !errors.Is(err, notifier.ErrOutOfOrder) {
			t.Errorf("CloseList of %s: %v, want ErrOutOfOrder", name, err)
		}
	}
	wantLists(t, at(), "a", first, opened)
}

// testNothingBeforeListEnd: a list that was closed is closed for good, also for
// datetimes that clients ask for.
func testNothingBeforeListEnd(t *testing.T, at Place) {
	j := at()
	from := open(t, j, "a", noon).Next
	l := notifier.ChangeList{Set: "a", From: from, Until: noonMicro.Add(time.Hour), Closed: noonMicro.Add(time.Hour)}
	closeList(t, j, l)
	j = at()
	e := Created("http://a.example/", "a")
	e.Datetime = noon.Add(time.Minute)
	add(t, j, noon.Add(2*time.Minute), e)
	if got := all(t, j, "a", time.Time{}); len(got) != 1 || got[0].Datetime.Before(l.Until) {
		t.Errorf("an event came into a closed list: %v", got)
	}
}

// testDropLists: events stay as long as a list has them, and those that are in no
// accepted notification longer.
func testDropLists(t *testing.T, at Place) {
	j := at()
	from := open(t, j, "a", noon).Next
	end := func(minutes int) time.Time { return noonMicro.Add(time.Duration(minutes) * 10 * time.Minute) }
	var kept []notifier.ChangeList
	for i := range 4 { // an event in the middle of each ten minutes
		add(t, j, end(i).Add(5*time.Minute), Created(fmt.Sprint("http://a.example/", i), "a"))
		l := notifier.ChangeList{Set: "a", From: from, Until: end(i + 1), Entries: 1, Closed: end(i + 1)}
		closeList(t, j, l)
		kept, from = append(kept, l), l.Until
	}
	kept = append(kept, notifier.ChangeList{Set: "a", From: from})
	n := seal(t, j, notifier.Notification{Set: "a", From: open(t, j, "a", noon).Next, Until: end(2), Entries: 2}, nil)
	accept(t, j, n, end(5))
	locs := func(want ...int) {
		t.Helper()
		var got []int
		for _, e := range all(t, j, "a", time.Time{}) {
			got = append(got, int(e.Loc[len(e.Loc)-1]-'0'))
		}
		if !slices.Equal(got, want) {
			t.Errorf("the events %v are there, want %v", got, want)
		}
	}
	locs(0, 1, 2, 3)
	drop(t, j, end(1).Add(-time.Microsecond))
	wantLists(t, j, "a", kept...)
	drop(t, j, end(1))
	j = at()
	wantLists(t, j, "a", kept[1:]...)
	locs(1, 2, 3)
	drop(t, j, end(10)) // all that are closed; two events are in no notification
	wantLists(t, j, "a", kept[4])
	locs(2, 3)
	j = at()
	wantLists(t, j, "a", kept[4])
	n = seal(t, j, notifier.Notification{Set: "a", From: n.Until, Until: end(4), Entries: 2}, nil)
	accept(t, j, n, end(10))
	locs()
}

func testListsOfNoSet(t *testing.T, at Place) {
	j := at()
	open(t, j, "a", noon)
	_, listed := j.ChangeLists(t.Context(), "b")
	for what, err := range map[string]error{
		"ChangeLists": listed,
		"CloseList": j.CloseList(t.Context(), notifier.ChangeList{
			Set: "b", From: noonMicro, Until: noonMicro.Add(1e9), Closed: noonMicro,
		}),
		"DropLists": j.DropLists(t.Context(), "b", noonMicro),
	} {
		if !errors.Is(err, notifier.ErrNoSet) {
			t.Errorf("%s of a set that is not there: %v, want ErrNoSet", what, err)
		}
	}
}
