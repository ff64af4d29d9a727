// Package mirrortest holds what every engine of a mirror must do: its suites are
// run by the tests of each engine.
package mirrortest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"testing"
	"time"

	"carillon/destination/mirror"
	"carillon/payload"
)

// Catalog tests one. open opens the same store again each time, after close has closed
// it.
func Catalog(t *testing.T, open func(t *testing.T) (mirror.Catalog, func())) {
	for name, test := range map[string]func(*testing.T, func(*testing.T) (mirror.Catalog, func())){
		"copies": copies, "claims": claims, "due": due, "all": all,
	} {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

var moment = time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)

// full has every field.
func full(loc, path string) mirror.Copy {
	return mirror.Copy{
		Loc: loc, Path: path, State: mirror.Failed,
		Described: mirror.Described{
			Change: payload.Updated, Datetime: moment, LastMod: "2026-01-02", Hash: "md5:00 x:y",
			Length: "18446744073709551616", Type: "a/b", Encoding: "gzip",
			Links: `[{"Rel":"via","Href":"http://a.test/"}]`,
		},
		File: &mirror.File{
			Size: 1 << 40, SHA256: [32]byte{1, 31: 9}, ModTime: moment.Add(1), ETag: `W/"x"`,
			LastModified: "Fri, 02 Jan 2026 03:04:05 GMT", Encoding: "br",
		},
		Tries: 7, Next: moment.Add(time.Hour), Reason: "it is so",
	}
}

func save(t *testing.T, c mirror.Catalog, copies []mirror.Copy, forget ...string) {
	t.Helper()
	if err := c.Save(t.Context(), copies, forget); err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, c mirror.Catalog, copy mirror.Copy) {
	t.Helper()
	got, err := c.Copy(t.Context(), copy.Loc)
	if err != nil || !reflect.DeepEqual(got, copy) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, copy)
	}
}

func wantNone(t *testing.T, c mirror.Catalog, loc string) {
	t.Helper()
	if got, err := c.Copy(t.Context(), loc); !errors.Is(err, mirror.ErrNone) {
		t.Errorf("%s is %+v, %v", loc, got, err)
	}
}

// copies come back as they were saved, also after a restart, and are forgotten.
func copies(t *testing.T, open func(*testing.T) (mirror.Catalog, func())) {
	c, closed := open(t)
	one, two := full("http://a.test/1", "a.test/1"), mirror.Copy{Loc: "http://a.test/2", State: mirror.Refused}
	wantNone(t, c, one.Loc)
	save(t, c, []mirror.Copy{one, two})
	want(t, c, one)
	closed()
	c, closed = open(t)
	defer func() { closed() }()
	want(t, c, one)
	want(t, c, two)
	for _, state := range []mirror.State{mirror.Whole, mirror.Missing, mirror.Gone} {
		two.State = state
		save(t, c, []mirror.Copy{two})
		want(t, c, two)
	}
	save(t, c, nil, one.Loc, "http://a.test/never")
	wantNone(t, c, one.Loc)
	want(t, c, two)
	closed()
	if _, err := c.Copy(t.Context(), two.Loc); !errors.Is(err, mirror.ErrUnavailable) {
		t.Errorf("after the end: %v", err)
	}
	if err := c.Save(t.Context(), []mirror.Copy{one}, nil); !errors.Is(err, mirror.ErrUnavailable) {
		t.Errorf("after the end: %v", err)
	}
	c, closed = open(t)
	wantNone(t, c, one.Loc)
}

// claims follow the copies.
func claims(t *testing.T, open func(*testing.T) (mirror.Catalog, func())) {
	c, closed := open(t)
	defer closed()
	owner := func(claim, loc string, below bool) {
		t.Helper()
		got, gotBelow, err := c.Owner(t.Context(), claim)
		if err != nil || got != loc || gotBelow != below {
			t.Errorf("%s is of %q, %t, %v; want %q, %t", claim, got, gotBelow, err, loc, below)
		}
	}
	one, two := full("l1", "h/A/b"), full("l2", "h/A/b!")
	save(t, c, []mirror.Copy{one, two})
	owner("h/a/b", "l1", false)
	owner("h/a/b!", "l2", false)
	owner("h/a", "", true)
	owner("h", "", true)
	owner("h/a/", "", false)
	owner("H/A/b", "", false)
	one.Path = "h/c"
	save(t, c, []mirror.Copy{one}, "l2")
	owner("h/a/b", "", false)
	owner("h/a", "", false)
	owner("h/c", "l1", false)
	one.Path = ""
	save(t, c, []mirror.Copy{one})
	owner("h/c", "", false)
	owner("h", "", false)
}

// due gives what is due, earliest first.
func due(t *testing.T, open func(*testing.T) (mirror.Catalog, func())) {
	c, closed := open(t)
	defer closed()
	var saved []mirror.Copy
	for i, minutes := range []int{5, 1, 3, 0, 3} {
		one := full(fmt.Sprint("l", i), fmt.Sprint("p", i))
		one.Next = moment.Add(time.Duration(minutes) * time.Minute)
		if minutes == 0 {
			one.Next = time.Time{}
		}
		saved = append(saved, one)
	}
	save(t, c, saved)
	look := func(minutes, limit, next int, locs ...string) {
		t.Helper()
		got, at, err := c.Due(t.Context(), moment.Add(time.Duration(minutes)*time.Minute), limit)
		var gotLocs []string
		for _, one := range got {
			gotLocs = append(gotLocs, one.Loc)
		}
		wantAt := moment.Add(time.Duration(next) * time.Minute)
		if next < 0 {
			wantAt = time.Time{}
		}
		if err != nil || !slices.Equal(gotLocs, locs) || !at.Equal(wantAt) {
			t.Errorf("at %d: %q, next %s, %v; want %q, %s", minutes, gotLocs, at, err, locs, wantAt)
		}
	}
	look(0, 9, 1)
	look(1, 9, 3, "l1")
	look(4, 9, 5, "l1", "l2", "l4")
	look(4, 2, 3, "l1", "l2")
	look(9, 9, -1, "l1", "l2", "l4", "l0")
	saved[1].Next = moment.Add(7 * time.Minute)
	save(t, c, saved[1:2], "l2")
	look(9, 9, -1, "l4", "l0", "l1")
}

// all gives every copy in the order of the bytes of locs, and may be broken off.
func all(t *testing.T, open func(*testing.T) (mirror.Catalog, func())) {
	c, closed := open(t)
	defer closed()
	locs := []string{"b", "a", "ab", "a/", "\u00e9", "Z"}
	for _, loc := range locs {
		save(t, c, []mirror.Copy{full(loc, loc)})
	}
	slices.Sort(locs)
	wantLocs(t, locs, c.All(t.Context()), func(c mirror.Copy) string { return c.Loc })
	for range c.All(t.Context()) {
		break
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for _, err := range c.All(ended) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("after the end: %v", err)
		}
	}
}

func wantLocs[T any](t *testing.T, want []string, all iter.Seq2[T, error], loc func(T) string) {
	t.Helper()
	var got []string
	for one, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, loc(one))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Ledger tests one.
func Ledger(t *testing.T, l mirror.Ledger) {
	note := func(entries ...payload.Entry) {
		t.Helper()
		if err := l.Record(t.Context(), entries); err != nil {
			t.Fatal(err)
		}
	}
	look := func(locs ...string) {
		t.Helper()
		wantLocs(t, locs, l.Resources(t.Context()), func(r mirror.Resource) string { return r.Loc })
	}
	look()
	one := payload.Entry{
		Loc: "b", Change: payload.Created, Datetime: moment, LastMod: "2026", Hash: "x", Length: "1", Type: "t", Encoding: "e",
		Links: []payload.Link{{Rel: "a", Href: "b"}},
	}
	note(one, payload.Entry{Loc: "a"}, payload.Entry{Loc: "c"})
	look("a", "b", "c")
	note(
		payload.Entry{Loc: "a", Change: payload.Deleted}, payload.Entry{Loc: "d"},
		payload.Entry{Loc: "d", Change: payload.Deleted}, payload.Entry{Loc: "c", Length: "2"},
	)
	for r, err := range l.Resources(t.Context()) {
		if err != nil || r.Loc == "b" && r != mirror.ResourceOf(&one) || r.Loc == "c" && r.Length != "2" {
			t.Errorf("%+v, %v", r, err)
		}
	}
	look("b", "c")
	if r, err := l.Resource(t.Context(), "b"); err != nil || r != mirror.ResourceOf(&one) {
		t.Errorf("%+v, %v", r, err)
	}
	for _, loc := range []string{"a", "d", ""} {
		if r, err := l.Resource(t.Context(), loc); !errors.Is(err, mirror.ErrNone) {
			t.Errorf("%q: %+v, %v", loc, r, err)
		}
	}
	if err := l.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	look()
	note(one)
	look("b")
}
