// Package republishtest holds what every engine of an outbox must do: its suite is run by the
// tests of each engine.
package republishtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon/destination/mirror"
	"carillon/destination/republish"
	"carillon/payload"
)

// Store is an engine's catalog with its outbox.
type Store struct {
	mirror.Catalog
	republish.Outbox
}

// Outbox tests one. open opens the same store again each time, after close has closed it, or a crash
// ended it.
func Outbox(t *testing.T, open func(t *testing.T) (s Store, closed func())) {
	for name, test := range map[string]func(*fixture){
		"kinds": kinds, "order": order, "sealed": sealed, "in flight": inFlight, "refused": refused, "many refused": manyRefused,
		"collected": collected, "targets": targets, "paths": paths, "states": states, "bounds": bounds,
	} {
		t.Run(name, func(t *testing.T) {
			w := &fixture{t: t, reopen: open}
			w.Store, w.closed = open(t)
			defer func() { w.closed() }()
			test(w)
		})
	}
}

var (
	there = republish.Target{Intake: "http://n.test/sets/a/events", Base: "http://m.test/"}
	when  = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

type fixture struct {
	Store
	t      *testing.T
	reopen func(*testing.T) (Store, func())
	closed func()
}

func (w *fixture) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *fixture) restart() {
	w.t.Helper()
	w.closed()
	w.Store, w.closed = w.reopen(w.t)
}

func (w *fixture) open(to republish.Target) (anew bool) {
	w.t.Helper()
	anew, err := w.Open(w.t.Context(), to)
	w.check(err)
	return anew
}

func (w *fixture) save(copies ...mirror.Copy) {
	w.t.Helper()
	w.check(w.Save(w.t.Context(), copies, nil))
}

func (w *fixture) forget(locs ...string) {
	w.t.Helper()
	w.check(w.Save(w.t.Context(), nil, locs))
}

func (w *fixture) next(want ...string) []republish.Item {
	w.t.Helper()
	items, err := w.Next(w.t.Context(), 100, 1<<20)
	w.check(err)
	var got []string
	for _, i := range items {
		e := &i.Entry
		got = append(got, strings.TrimSpace(fmt.Sprint(e.Change, " ", i.Path, " ", e.Length)))
		if len(e.Links) == 0 || e.Links[0].Rel != "via" {
			w.t.Errorf("%s has the links %+v", i.Path, e.Links)
		}
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("next are %q, want %q", got, want)
	}
	return items
}

func (w *fixture) settle(n int, reason string) {
	w.t.Helper()
	w.check(w.Settle(w.t.Context(), n, reason))
}

func (w *fixture) waiting(want int) {
	w.t.Helper()
	if n, err := w.Waiting(w.t.Context()); err != nil || n != want {
		w.t.Errorf("%d wait, %v; want %d", n, err, want)
	}
}

func copyOf(name string, size int64) mirror.Copy {
	return mirror.Copy{
		Loc: "http://a.test/" + name, Path: "a.test/" + name, State: mirror.Whole, Described: mirror.Described{Type: "text/plain", Datetime: when},
		File: &mirror.File{Size: size, SHA256: [32]byte{byte(size)}, ModTime: when},
	}
}

// A change waits as soon as its copy is saved: as created, updated or deleted from where the intake's set is.
func kinds(w *fixture) {
	w.save(copyOf("before", 1))
	w.waiting(0)
	w.open(there)
	w.save(copyOf("a", 1))
	select {
	case <-w.Changed():
	default:
		w.t.Error("nobody was woken")
	}
	items := w.next("created a.test/a 1")
	want := payload.Entry{
		Change: payload.Created, LastMod: "2026-01-02T03:04:05Z", Length: "1", Type: "text/plain",
		Hash:  "sha-256:01" + strings.Repeat("0", 62),
		Links: []payload.Link{{Rel: "via", Href: "http://a.test/a", Type: "text/plain"}},
	}
	if fmt.Sprint(items[0].Entry) != fmt.Sprint(want) {
		w.t.Errorf("got %+v\nwant %+v", items[0].Entry, want)
	}
	w.settle(1, "")
	w.next()
	w.save(copyOf("a", 1)) // as it was
	w.next()
	w.save(copyOf("a", 2))
	w.next("updated a.test/a 2")
	w.settle(1, "")
	w.forget("http://a.test/a", "http://a.test/never")
	w.next("deleted a.test/a")
	w.settle(1, "")
	w.save(copyOf("a", 2))
	w.next("created a.test/a 2")
	w.settle(1, "")
	w.waiting(0)
}

// Copies wait in the order of their first change; several changes of one are handed over as one.
func order(w *fixture) {
	w.open(there)
	w.save(copyOf("c", 1))
	w.save(copyOf("a", 1), copyOf("never", 1))
	w.save(copyOf("b", 1))
	w.save(copyOf("c", 2))
	w.forget("http://a.test/never")
	w.restart()
	w.save(copyOf("d", 1))
	w.waiting(4)
	w.next("created a.test/c 2", "created a.test/a 1", "created a.test/b 1", "created a.test/d 1")
	w.settle(4, "")
	w.save(copyOf("a", 2))
	w.save(copyOf("a", 1)) // back to what the intake has
	w.next()
}

// A sealed batch stays what it is, until it is settled; also in parts, and over restarts.
func sealed(w *fixture) {
	w.open(there)
	for _, name := range []string{"a", "b", "c"} {
		w.save(copyOf(name, 1))
	}
	w.next("created a.test/a 1", "created a.test/b 1", "created a.test/c 1")
	w.forget("http://a.test/a")
	w.save(copyOf("b", 2), copyOf("d", 1))
	w.restart()
	w.next("created a.test/a 1", "created a.test/b 1", "created a.test/c 1")
	w.settle(2, "")
	w.restart()
	w.next("created a.test/c 1")
	w.waiting(4)
	w.settle(1, "")
	w.restart()
	w.waiting(3)
	w.next("deleted a.test/a", "updated a.test/b 2", "created a.test/d 1")
}

// A copy that changes while it is under way is handed over afterwards; one in the sent state is not.
func inFlight(w *fixture) {
	w.open(there)
	w.save(copyOf("a", 1), copyOf("b", 1), copyOf("c", 1))
	w.next("created a.test/a 1", "created a.test/b 1", "created a.test/c 1")
	w.save(copyOf("a", 2), copyOf("b", 2))
	w.save(copyOf("b", 1))
	w.forget("http://a.test/c")
	w.settle(3, "")
	w.next("updated a.test/a 2", "deleted a.test/c")
	w.save(copyOf("a", 1))
	w.settle(2, "")
	w.next("updated a.test/a 1")
}

// A change that the intake refuses is set aside: until the copy changes, or the outbox is opened.
func refused(w *fixture) {
	w.open(there)
	w.save(copyOf("a", 1))
	w.save(copyOf("b", 1))
	w.save(copyOf("c", 1))
	w.next("created a.test/a 1", "created a.test/b 1", "created a.test/c 1")
	w.settle(1, "no")
	w.settle(1, "no")
	w.settle(1, "")
	w.save(copyOf("a", 1), copyOf("c", 1))
	w.restart()
	w.next()
	w.save(copyOf("a", 2))
	w.next("created a.test/a 2")
	w.settle(1, "")
	if w.open(there) {
		w.t.Error("it was opened anew")
	}
	w.next("created a.test/b 1")
	w.settle(1, "no")
	w.forget("http://a.test/b")
	w.next()
	w.save(copyOf("c", 2))
	w.next("updated a.test/c 2")
	w.settle(1, "no")
	w.save(copyOf("c", 1)) // which the intake has
	w.open(there)
	w.next()
	w.save(copyOf("c", 3))
	w.next("updated a.test/c 3")
	w.save(copyOf("c", 4))
	w.settle(1, "no")
	w.next("updated a.test/c 4")
	w.settle(1, "no")
	w.forget("http://a.test/c")
	w.next("deleted a.test/c")
}

// All that was refused waits again, however much it is.
func manyRefused(w *fixture) {
	w.open(there)
	for i := range 300 {
		w.save(copyOf(fmt.Sprintf("%03d", i), 1))
	}
	for range 3 {
		items, err := w.Next(w.t.Context(), 100, 1<<20)
		w.check(err)
		w.settle(len(items), "no")
	}
	w.next()
	w.restart()
	w.waiting(0)
	w.open(there)
	w.waiting(300)
}

// Earlier copies are collected, once.
func collected(w *fixture) {
	var names []string
	for i := range 600 {
		name := fmt.Sprintf("%03d", i)
		names = append(names, "created a.test/"+name+" 1")
		w.save(copyOf(name, 1))
	}
	kept := copyOf("kept", 3)
	kept.State, kept.Described = mirror.Gone, mirror.Described{Change: payload.Deleted, Type: "text/html"}
	w.save(
		kept,
		mirror.Copy{Loc: "http://a.test/missing", Path: "a.test/missing", State: mirror.Missing},
		mirror.Copy{Loc: "x:", State: mirror.Invalid},
	)
	if !w.open(there) {
		w.t.Error("it was not opened anew")
	}
	w.save(copyOf("new", 1))
	w.restart()
	w.check(w.Collect(w.t.Context()))
	names = slices.Concat([]string{"created a.test/new 1"}, names, []string{"created a.test/kept 3"})
	for len(names) > 0 {
		n := min(len(names), 100)
		items := w.next(names[:n]...)
		for _, i := range items {
			if i.Path == "a.test/kept" && i.Entry.Type != "" {
				w.t.Errorf("what was told of a deletion: %+v", i.Entry)
			}
		}
		names = names[n:]
		w.settle(n, "")
	}
	w.restart()
	w.check(w.Collect(w.t.Context()))
	w.next()
}

// Another intake gets everything, another base is refused.
func targets(w *fixture) {
	if !w.open(there) {
		w.t.Error("it was not opened anew")
	}
	w.save(copyOf("a", 1))
	w.save(copyOf("b", 1))
	w.check(w.Collect(w.t.Context()))
	w.next("created a.test/a 1", "created a.test/b 1")
	w.settle(1, "")
	moved := republish.Target{Intake: there.Intake, Base: "http://m.test/other/"}
	if _, err := w.Open(w.t.Context(), moved); !errors.Is(err, republish.ErrMoved) || !strings.Contains(err.Error(), there.Base) {
		w.t.Errorf("another base: %v", err)
	}
	w.restart()
	if w.open(there) {
		w.t.Error("it was opened anew")
	}
	w.next("created a.test/b 1")
	w.forget("http://a.test/b")
	moved.Intake = "http://n.test/sets/b/events"
	if !w.open(moved) {
		w.t.Error("another intake does not begin anew")
	}
	w.waiting(0)
	w.restart()
	w.check(w.Collect(w.t.Context()))
	w.next("created a.test/a 1")
}

// A path may be that of another resource later, and a resource may have another path.
func paths(w *fixture) {
	w.open(there)
	w.save(copyOf("a", 1))
	w.next("created a.test/a 1")
	w.settle(1, "")
	w.forget("http://a.test/a")
	other := copyOf("a", 2)
	other.Loc = "http://a.test/A"
	w.save(other)
	items := w.next("updated a.test/a 2")
	if href := items[0].Entry.Links[0].Href; href != other.Loc {
		w.t.Errorf("via is %s", href)
	}
	w.settle(1, "")
	other.Path = "a.test/b"
	w.save(other)
	w.next("deleted a.test/a", "created a.test/b 2")
}

// A copy that could not be fetched again is what it was; one that is kept is still there.
func states(w *fixture) {
	w.open(there)
	a := copyOf("a", 1)
	w.save(a)
	w.next("created a.test/a 1")
	w.settle(1, "")
	a.State, a.Described.Type, a.Next = mirror.Failed, "text/html", when
	w.save(a)
	w.next()
	lost := a
	lost.File = nil
	w.save(lost)
	w.save(a)
	a.State = mirror.Gone
	w.save(a)
	w.next()
	never := mirror.Copy{Loc: "http://a.test/never", Path: "a.test/never", State: mirror.Failed, Next: when}
	w.save(never)
	w.forget(never.Loc)
	w.next()
	a.State = mirror.Whole
	w.save(a)
	w.next("updated a.test/a 1") // of another type
	w.settle(1, "")
	found := copyOf("a", 2) // its file turned out to be another one, when it was kept
	found.State = mirror.Gone
	w.save(found)
	w.next("updated a.test/a 2")
}

// A batch is bounded by items and by bytes.
func bounds(w *fixture) {
	w.open(there)
	for i := range 10 {
		w.save(copyOf(fmt.Sprint(i), 1))
	}
	for _, tc := range []struct{ limit, bytes, want int }{{3, 1 << 20, 3}, {100, 1, 1}, {100, 1 << 20, 6}} {
		items, err := w.Next(w.t.Context(), tc.limit, tc.bytes)
		if w.check(err); len(items) != tc.want {
			w.t.Errorf("%d items and %d bytes: %d items", tc.limit, tc.bytes, len(items))
		}
		w.settle(len(items), "")
	}
}
