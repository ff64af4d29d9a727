// Package journaltest says what a notifier.Store does, as tests that every
// engine runs, and helps to test what is built on one: Faulty makes its calls fail.
package journaltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"carillon/notifier"
	"carillon/payload"
)

// Place is where a journal lives: each call closes the journal that the call
// before opened, if there was one, and opens it again. The last is closed when the
// test ends.
type Place func() notifier.Store

// Run runs the suite; start makes a new, empty place.
func Run(t *testing.T, start func(t *testing.T) Place) {
	for name, test := range map[string]func(*testing.T, Place){
		"Open":                 testOpen,
		"Datetimes":            testDatetimes,
		"ClockStepsBack":       testClockStepsBack,
		"AllOrNothing":         testAllOrNothing,
		"Last":                 testLast,
		"EventsComeBack":       testEventsComeBack,
		"ConcurrentAppends":    testConcurrentAppends,
		"Seal":                 testSeal,
		"SealOutOfOrder":       testSealOutOfOrder,
		"Accept":               testAccept,
		"Body":                 testBody,
		"BodyOutlivesAccept":   testBodyOutlivesAccept,
		"KeepFrom":             testKeepFrom,
		"NewSetAfterEvents":    testNewSetAfterEvents,
		"EndedContext":         testEndedContext,
		"SetsAreApart":         testSetsAreApart,
		"NothingBeforeSealEnd": testNothingBeforeSealEnd,
		"ChangeLists":          testChangeLists,
		"CloseListOutOfOrder":  testCloseListOutOfOrder,
		"NothingBeforeListEnd": testNothingBeforeListEnd,
		"DropLists":            testDropLists,
		"ListsOfNoSet":         testListsOfNoSet,
	} {
		t.Run(name, func(t *testing.T) { test(t, start(t)) })
	}
}

var noon = time.Date(2026, 3, 2, 12, 0, 0, 123_456_789, time.UTC)

// noonMicro is noon as the journal knows it.
var noonMicro = noon.Truncate(time.Microsecond)

// Created is an event: the resource was created.
func Created(loc string, sets ...string) notifier.Event {
	return notifier.Event{Entry: payload.Entry{Loc: loc, Change: payload.Created}, Sets: sets}
}

func open(t *testing.T, j notifier.Store, set string, now time.Time) notifier.Channel {
	t.Helper()
	ch, err := j.Open(t.Context(), set, now)
	if err != nil {
		t.Fatalf("Open(%s): %v", set, err)
	}
	return ch
}

func add(t *testing.T, j notifier.Store, now time.Time, events ...notifier.Event) {
	t.Helper()
	if err := j.Append(t.Context(), events, now); err != nil {
		t.Fatalf("Append: %v", err)
	}
}

func all(t *testing.T, j notifier.Store, set string, from time.Time) []notifier.Event {
	t.Helper()
	var events []notifier.Event
	for e, err := range j.Events(t.Context(), set, from) {
		if err != nil {
			t.Fatalf("Events(%s): %v", set, err)
		}
		events = append(events, e)
	}
	return events
}

func seal(t *testing.T, j notifier.Store, n notifier.Notification, body []byte) notifier.Notification {
	t.Helper()
	n.Size = int64(len(body))
	if err := j.Seal(t.Context(), n, body); err != nil {
		t.Fatalf("Seal: %v", err)
	}
	return n
}

func accept(t *testing.T, j notifier.Store, n notifier.Notification, keepFrom time.Time) {
	t.Helper()
	if err := j.Accept(t.Context(), n, keepFrom); err != nil {
		t.Fatalf("Accept: %v", err)
	}
}

func read(t *testing.T, j notifier.Store, n notifier.Notification) []byte {
	t.Helper()
	r, err := j.Body(t.Context(), n)
	if err != nil {
		t.Fatalf("Body: %v", err)
	}
	body, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatalf("Body: %v", err)
	}
	return body
}

func wantTime(t *testing.T, what string, got, want time.Time) {
	t.Helper()
	if !got.Equal(want) {
		t.Errorf("%s is %s, want %s", what, got.Format(time.RFC3339Nano), want.Format(time.RFC3339Nano))
	}
}

func testOpen(t *testing.T, at Place) {
	j := at()
	ch := open(t, j, "a", noon)
	wantTime(t, "the first Next", ch.Next, noonMicro)
	if ch.Set != "a" || ch.Sealed != nil || ch.Accepted != nil {
		t.Errorf("a new channel is %+v", ch)
	}
	for range 2 {
		ch = open(t, j, "a", noon.Add(time.Hour))
		wantTime(t, "Next of a channel that is there", ch.Next, noonMicro)
		j = at()
	}
}

func testDatetimes(t *testing.T, at Place) {
	j := at()
	open(t, j, "a", noon.Add(-time.Hour))
	wish := func(t time.Time) notifier.Event {
		e := Created("http://a.example/", "a")
		e.Datetime = t
		return e
	}
	add(t, j, noon, wish(noon.Add(-2*time.Hour))) // before the channel was made
	add(t, j, noon.Add(time.Minute),
		wish(noon.Add(30*time.Second)), // honoured
		wish(noon.Add(30*time.Second)), // not after the last
		wish(time.Time{}),              // not after the last, which is now
		wish(noon.Add(time.Minute+1)),  // in the future
	)
	j = at()
	add(t, j, noon.Add(time.Hour), wish(noon.Add(time.Minute+3*time.Microsecond))) // honoured after a restart
	want := []time.Duration{
		0, 30 * time.Second, time.Minute, time.Minute + time.Microsecond, time.Minute + 2*time.Microsecond,
		time.Minute + 3*time.Microsecond,
	}
	got := all(t, j, "a", time.Time{})
	if len(got) != len(want) {
		t.Fatalf("%d events, want %d", len(got), len(want))
	}
	for i := range want {
		wantTime(t, fmt.Sprintf("datetime %d", i), got[i].Datetime, noonMicro.Add(want[i]))
	}
}

func testClockStepsBack(t *testing.T, at Place) {
	j := at()
	open(t, j, "a", noon)
	add(t, j, noon.Add(time.Second), Created("http://a.example/1", "a"))
	add(t, j, noon.Add(-time.Hour), Created("http://a.example/2", "a"))
	j = at()
	add(t, j, noon.Add(-2*time.Hour), Created("http://a.example/3", "a"))
	for i, e := range all(t, j, "a", time.Time{}) {
		if e.Loc != fmt.Sprintf("http://a.example/%d", i+1) {
			t.Errorf("event %d is %s", i, e.Loc)
		}
		wantTime(t, e.Loc, e.Datetime, noonMicro.Add(time.Second+time.Duration(i)*time.Microsecond))
	}
}

func testAllOrNothing(t *testing.T, at Place) {
	j := at()
	open(t, j, "a", noon)
	open(t, j, "b", noon)
	err := j.Append(t.Context(), []notifier.Event{
		Created("http://a.example/1", "a", "b"), Created("http://a.example/2", "b", "nowhere"),
	}, noon)
	if !errors.Is(err, notifier.ErrNoSet) {
		t.Fatalf("Append to an unknown set: %v, want ErrNoSet", err)
	}
	if left := len(all(t, j, "a", time.Time{})) + len(all(t, j, "b", time.Time{})); left > 0 {
		t.Errorf("%d events of a refused Append are there", left)
	}
	add(t, j, noon, Created("http://a.example/3", "a", "b"))
	j = at()
	a, b := all(t, j, "a", time.Time{}), all(t, j, "b", time.Time{})
	if len(a) != 1 || len(b) != 1 || !a[0].Datetime.Equal(b[0].Datetime) {
		t.Errorf("an event of two sets is in them as %v and %v", a, b)
	}
}

func testLast(t *testing.T, at Place) {
	j := at()
	open(t, j, "a", noon)
	open(t, j, "b", noon)
	add(t, j, noon.Add(time.Minute), Created("http://a.example/1", "a"), Created("http://a.example/2", "b"))
	j = at()
	last, err := j.Last(t.Context())
	if err != nil {
		t.Fatalf("Last: %v", err)
	}
	newest := all(t, j, "b", time.Time{})[0].Datetime
	add(t, j, noon, Created("http://a.example/3", "a"))
	next := all(t, j, "a", noonMicro.Add(time.Minute+time.Microsecond))[0].Datetime
	if last.Before(newest) || !last.Before(next) {
		t.Errorf("Last is %s, between the newest event, %s, and the next, %s", last, newest, next)
	}
}

func testEventsComeBack(t *testing.T, at Place) {
	j := at()
	open(t, j, "a", noon)
	full := notifier.Event{Sets: []string{"a"}, Entry: payload.Entry{
		Loc: "http://a.example/é?x=1&y=<", LastMod: "2026-03-02", Change: payload.Updated,
		Hash: "md5:1584abdf8ebdc9802ac0c6a7402c03b6", Length: "9007199254740993", Type: "text/html", Encoding: "gzip",
		Links: []payload.Link{
			{Rel: "via", Href: "http://b.example/"},
			{
				Rel: "duplicate", Href: "http://c.example/", Hash: "md5:1e0d5cb8ef6ba40c99b14c0237be735e", Length: "0",
				Type: "text/plain", Encoding: "br", Modified: "2026-03-01T00:00:00Z", Pri: "1",
			},
		},
	}}
	add(t, j, noon, full, Created("http://a.example/2", "a"))
	j = at()
	got := all(t, j, "a", time.Time{})
	full.Sets, full.Datetime = nil, noonMicro
	if len(got) != 2 || fmt.Sprintf("%+v", got[0]) != fmt.Sprintf("%+v", full) {
		t.Errorf("got  %+v\nwant %+v", got, full)
	}
	if rest := all(t, j, "a", noonMicro.Add(time.Microsecond)); len(rest) != 1 || rest[0].Loc != "http://a.example/2" {
		t.Errorf("from after the first: %+v", rest)
	}
	for e, err := range j.Events(t.Context(), "a", time.Time{}) {
		if err != nil || e.Loc != full.Loc {
			t.Errorf("the first of a scan that is broken off: %v, %v", e, err)
		}
		break
	}
}

func testConcurrentAppends(t *testing.T, at Place) {
	const writers, each = 8, 20
	j := at()
	open(t, j, "a", noon)
	var g sync.WaitGroup
	for w := range writers {
		g.Go(func() {
			for i := range each {
				e := Created(fmt.Sprintf("http://a.example/%d/%d", w, i), "a")
				if err := j.Append(context.WithoutCancel(t.Context()), []notifier.Event{e, e}, noon); err != nil {
					t.Error(err)
				}
			}
		})
	}
	g.Wait()
	j = at()
	events := all(t, j, "a", time.Time{})
	if len(events) != writers*each*2 {
		t.Fatalf("%d events, want %d", len(events), writers*each*2)
	}
	next := map[string]int{}
	for i, e := range events {
		if i > 0 && !events[i-1].Datetime.Before(e.Datetime) {
			t.Fatal("datetimes do not rise strictly")
		}
		var w string
		var k int
		if _, err := fmt.Sscanf(e.Loc, "http://a.example/%1s/%d", &w, &k); err != nil || k != next[w]/2 {
			t.Fatalf("%s is out of its writer's order (%v)", e.Loc, err)
		}
		next[w]++
	}
}

func testSeal(t *testing.T, at Place) {
	j := at()
	from := open(t, j, "a", noon).Next
	add(t, j, noon.Add(time.Second), Created("http://a.example/", "a"))
	n := seal(
		t, j,
		notifier.Notification{Set: "a", From: from, Until: noonMicro.Add(time.Minute), Entries: 1},
		[]byte("bytes"),
	)
	for range 2 {
		ch := open(t, j, "a", noon)
		wantTime(t, "Next", ch.Next, n.Until)
		if ch.Sealed == nil || *ch.Sealed != n || ch.Accepted != nil {
			t.Errorf("the channel is %+v, want %+v outstanding", ch, n)
		}
		if got := read(t, j, n); string(got) != "bytes" {
			t.Errorf("the bytes are %q", got)
		}
		j = at()
	}
}

func testSealOutOfOrder(t *testing.T, at Place) {
	j := at()
	from := open(t, j, "a", noon).Next
	for name, n := range map[string]notifier.Notification{
		"a gap":       {Set: "a", From: from.Add(time.Microsecond), Until: from.Add(time.Second)},
		"an overlap":  {Set: "a", From: from.Add(-time.Microsecond), Until: from.Add(time.Second)},
		"no interval": {Set: "a", From: from, Until: from},
		"backwards":   {Set: "a", From: from, Until: from.Add(-time.Second)},
	} {
		if err := j.Seal(t.Context(), n, []byte("x")); !errors.Is(err, notifier.ErrOutOfOrder) {
			t.Errorf("Seal with %s: %v, want ErrOutOfOrder", name, err)
		}
	}
	if err := j.Seal(
		t.Context(), notifier.Notification{Set: "b", From: from, Until: from.Add(1e9)}, nil,
	); !errors.Is(err, notifier.ErrNoSet) {
		t.Errorf("Seal without a channel: %v, want ErrNoSet", err)
	}
	n := seal(t, j, notifier.Notification{Set: "a", From: from, Until: from.Add(time.Second)}, []byte("x"))
	second := notifier.Notification{Set: "a", From: n.Until, Until: n.Until.Add(time.Second)}
	if err := j.Seal(t.Context(), second, []byte("y")); !errors.Is(err, notifier.ErrOutOfOrder) {
		t.Errorf("Seal of a second while one is outstanding: %v, want ErrOutOfOrder", err)
	}
	if got := read(t, at(), n); string(got) != "x" {
		t.Errorf("the outstanding bytes changed to %q", got)
	}
}

func testAccept(t *testing.T, at Place) {
	j := at()
	from := open(t, j, "a", noon).Next
	n := seal(t, j, notifier.Notification{Set: "a", From: from, Until: from.Add(time.Second), Entries: 3}, []byte("x"))
	other := n
	other.Until = other.Until.Add(time.Microsecond)
	if err := j.Accept(t.Context(), other, time.Time{}); !errors.Is(err, notifier.ErrOutOfOrder) {
		t.Errorf("Accept of what is not outstanding: %v, want ErrOutOfOrder", err)
	}
	accept(t, j, n, time.Time{})
	accept(t, j, n, time.Time{}) // once more does no harm
	j = at()
	ch := open(t, j, "a", noon)
	if ch.Sealed != nil || ch.Accepted == nil || *ch.Accepted != n || !ch.Next.Equal(n.Until) {
		t.Errorf("the channel is %+v, want %+v accepted", ch, n)
	}
	second := seal(t, j, notifier.Notification{Set: "a", From: n.Until, Until: n.Until.Add(time.Second)}, []byte("y"))
	accept(t, j, second, time.Time{})
	if err := j.Accept(t.Context(), n, time.Time{}); !errors.Is(err, notifier.ErrOutOfOrder) {
		t.Errorf("Accept of the one before: %v, want ErrOutOfOrder", err)
	}
	if _, err := j.Body(t.Context(), n); !errors.Is(err, notifier.ErrGone) {
		t.Errorf("Body of the one before: %v, want ErrGone", err)
	}
	if got := read(t, at(), second); string(got) != "y" {
		t.Errorf("the accepted bytes are %q", got)
	}
}

// testBody stores a notification of several megabytes, and an empty one.
func testBody(t *testing.T, at Place) {
	j := at()
	from := open(t, j, "a", noon).Next
	big := bytes.Repeat([]byte("0123456789abcdef\n"), 200_001)
	n := seal(t, j, notifier.Notification{Set: "a", From: from, Until: from.Add(time.Second)}, big)
	j = at()
	if !bytes.Equal(read(t, j, n), big) {
		t.Error("a big notification does not come back as it was")
	}
	accept(t, j, n, time.Time{})
	n = seal(t, j, notifier.Notification{Set: "a", From: n.Until, Until: n.Until.Add(1e9)}, nil)
	if got := read(t, j, n); len(got) != 0 {
		t.Errorf("an empty one comes back with %d bytes", len(got))
	}
}

func testBodyOutlivesAccept(t *testing.T, at Place) {
	j := at()
	from := open(t, j, "a", noon).Next
	big := bytes.Repeat([]byte("x"), 3<<20)
	first := seal(t, j, notifier.Notification{Set: "a", From: from, Until: from.Add(time.Second)}, big)
	accept(t, j, first, time.Time{})
	reader, err := j.Body(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	second := seal(t, j, notifier.Notification{Set: "a", From: first.Until, Until: first.Until.Add(1e9)}, []byte("y"))
	accept(t, j, second, time.Time{})
	got, err := io.ReadAll(reader)
	if err != nil || !bytes.Equal(got, big) {
		t.Errorf("a reader that was open gave %d bytes, %v; want all %d", len(got), err, len(big))
	}
	if err := errors.Join(reader.Close(), reader.Close()); err != nil {
		t.Errorf("closing twice: %v", err)
	}
	if _, err := reader.Read(make([]byte, 1)); err == nil {
		t.Error("a closed reader reads")
	}
}

func testKeepFrom(t *testing.T, at Place) {
	j := at()
	from := open(t, j, "a", noon).Next
	open(t, j, "b", noon)
	for i := range 4 {
		add(t, j, noon.Add(time.Duration(i+1)*time.Minute), Created(fmt.Sprint("http://a.example/", i), "a", "b"))
	}
	n := seal(
		t, j,
		notifier.Notification{Set: "a", From: from, Until: noonMicro.Add(3*time.Minute + time.Microsecond)},
		nil,
	)
	endLists(t, j, from, noonMicro.Add(time.Hour))
	accept(t, j, n, noonMicro.Add(2*time.Minute))
	if got := all(t, j, "a", time.Time{}); len(got) != 3 || got[0].Loc != "http://a.example/1" {
		t.Errorf("kept from minute 2: %v", got)
	}
	n = seal(t, j, notifier.Notification{Set: "a", From: n.Until, Until: n.Until.Add(time.Second)}, nil)
	accept(t, j, n, noonMicro.Add(time.Hour))
	j = at()
	if got := all(t, j, "a", time.Time{}); len(got) != 1 || got[0].Loc != "http://a.example/3" {
		t.Errorf("events that are in no notification must stay: %v", got)
	}
	if got := all(t, j, "b", time.Time{}); len(got) != 4 {
		t.Errorf("the other set has %d events, want 4", len(got))
	}
}

// endLists closes the open list of a at until and forgets it, so that it keeps no events.
func endLists(t *testing.T, j notifier.Store, from, until time.Time) {
	t.Helper()
	closeList(t, j, notifier.ChangeList{Set: "a", From: from, Until: until, Closed: until})
	drop(t, j, until)
}

func testNewSetAfterEvents(t *testing.T, at Place) {
	j := at()
	open(t, j, "a", noon)
	add(t, j, noon.Add(time.Hour), Created("http://a.example/1", "a"))
	j = at()
	b := open(t, j, "b", noon) // by a clock that was set back
	wantTime(t, "Next of the new set", b.Next, noonMicro.Add(time.Hour+time.Microsecond))
	late := Created("http://a.example/2", "a", "b")
	late.Datetime = noon.Add(time.Minute)
	add(t, j, noon.Add(2*time.Hour), late)
	c := open(t, j, "c", noon.Add(3*time.Hour))
	early := Created("http://a.example/3", "c")
	early.Datetime = c.Next.Add(-time.Microsecond)
	add(t, j, noon.Add(4*time.Hour), early)
	for _, ch := range []notifier.Channel{b, c} {
		if got := all(t, j, ch.Set, time.Time{}); len(got) != 1 || got[0].Datetime.Before(ch.Next) {
			t.Errorf("the events of %s, made at %s: %v", ch.Set, ch.Next, got)
		}
	}
}

func testEndedContext(t *testing.T, at Place) {
	j := at()
	from := open(t, j, "a", noon).Next
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	n := notifier.Notification{Set: "a", From: from, Until: from.Add(time.Second)}
	if err := j.Append(
		ended, []notifier.Event{Created("http://a.example/", "a")}, noon,
	); !errors.Is(err, context.Canceled) {
		t.Errorf("Append: %v", err)
	}
	if err := j.Seal(ended, n, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Seal: %v", err)
	}
	for _, err := range j.Events(ended, "a", from) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Events: %v", err)
		}
	}
}

func testSetsAreApart(t *testing.T, at Place) {
	j := at()
	names := []string{"a", "a.b", "a-b", "ab", "A", "a0"}
	for _, set := range names {
		open(t, j, set, noon)
		add(t, j, noon, Created("http://a.example/"+set, set))
	}
	j = at()
	for _, set := range names {
		if got := all(t, j, set, time.Time{}); len(got) != 1 || got[0].Loc != "http://a.example/"+set {
			t.Errorf("the events of %s: %v", set, got)
		}
	}
}

// testNothingBeforeSealEnd: an interval that was sealed is closed for good, also
// for datetimes that clients ask for.
func testNothingBeforeSealEnd(t *testing.T, at Place) {
	j := at()
	from := open(t, j, "a", noon).Next
	n := seal(t, j, notifier.Notification{Set: "a", From: from, Until: noonMicro.Add(time.Hour)}, nil)
	e := Created("http://a.example/", "a")
	e.Datetime = noon.Add(time.Minute)
	add(t, j, noon.Add(2*time.Minute), e)
	if got := all(t, at(), "a", time.Time{}); len(got) != 1 || got[0].Datetime.Before(n.Until) {
		t.Errorf("an event came into a sealed interval: %v", got)
	}
}
