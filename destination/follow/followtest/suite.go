package followtest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"carillon/destination/follow"
)

// Run runs the suite on a Store. Open opens it anew each time, after the one
// before was closed, or its process has died.
func Run(t *testing.T, open func(t *testing.T) func() follow.Store) {
	for name, test := range map[string]func(*testing.T, func() follow.Store){
		"empty": empty, "position": position, "inbox": inbox, "order": order, "drop": drop, "together": together,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

var begin = time.Date(2026, 1, 2, 3, 4, 5, 123456000, time.UTC)

func after(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }

func pushed(id string, from, until int) follow.Pushed {
	return follow.Pushed{ID: id, From: after(from), Until: after(until), Body: []byte("body of " + id)}
}

func keep(t *testing.T, s follow.Store, all ...follow.Pushed) {
	t.Helper()
	for _, p := range all {
		if err := s.Keep(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
}

func wantKept(t *testing.T, s follow.Store, all ...follow.Pushed) {
	t.Helper()
	var size int64
	for _, p := range all {
		size += int64(len(p.Body))
	}
	if n, got, err := s.Kept(t.Context()); err != nil || n != len(all) || got != size {
		t.Errorf("%d notifications of %d bytes are kept, %v; want %d of %d", n, got, err, len(all), size)
	}
	if len(all) == 0 {
		if p, err := s.First(t.Context()); !errors.Is(err, follow.ErrNothing) {
			t.Errorf("the first is %v, %v; want ErrNothing", p, err)
		}
		return
	}
	if p, err := s.First(t.Context()); err != nil || !same(p, all[0]) {
		t.Errorf("the first is %+v, %v; want %+v", p, err, all[0])
	}
}

func same(a, b follow.Pushed) bool {
	return a.ID == b.ID && a.From.Equal(b.From) && a.Until.Equal(b.Until) && bytes.Equal(a.Body, b.Body)
}

func wantPosition(t *testing.T, s follow.Store, want follow.Position) {
	t.Helper()
	if p, err := s.Position(t.Context()); err != nil || !p.At.Equal(want.At) || p.At.IsZero() != want.At.IsZero() || p.Assumed != want.Assumed || !slices.Equal(p.Keys, want.Keys) {
		t.Errorf("the position is %+v, %v; want %+v", p, err, want)
	}
}

func empty(t *testing.T, open func() follow.Store) {
	s := open()
	wantPosition(t, s, follow.Position{})
	wantKept(t, s)
	s = open()
	wantPosition(t, s, follow.Position{})
	wantKept(t, s)
}

func position(t *testing.T, open func() follow.Store) {
	s := open()
	for _, want := range []follow.Position{
		{At: after(1).Add(789), Keys: []string{"b", "a", "ä~ 2026-01-02T03:04:05Z"}},
		{At: after(2)},
		{At: after(3), Assumed: true},
		{At: after(1), Keys: []string{"c"}}, // back, for a new baseline
		{},
	} {
		if err := s.Advance(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		wantPosition(t, s, want)
		s = open()
		wantPosition(t, s, want)
	}
}

func inbox(t *testing.T, open func() follow.Store) {
	s := open()
	one := pushed("1", 0, 1)
	keep(t, s, one, one, follow.Pushed{ID: "1", From: after(5), Until: after(6), Body: []byte("another")})
	wantKept(t, s, one)
	s = open()
	wantKept(t, s, one)
	keep(t, s, one)
	wantKept(t, s, one)
	if err := s.Advance(t.Context(), follow.Position{At: after(1)}, "1"); err != nil {
		t.Fatal(err)
	}
	wantKept(t, s)
	keep(t, s, one) // a caller that drops one may get it again
	wantKept(t, s, one)
}

// order: the earliest From is first, of those the earliest Until, also far from now.
func order(t *testing.T, open func() follow.Store) {
	s := open()
	all := []follow.Pushed{
		{ID: "old", From: time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), Until: after(0), Body: []byte("old")},
		{ID: "early", From: time.Date(1969, 12, 31, 23, 59, 59, 999, time.UTC), Until: after(0), Body: nil},
		pushed("a", 1, 2), pushed("b", 1, 3), pushed("c", 2, 2),
		{ID: "nano", From: after(2).Add(1), Until: after(2), Body: []byte("x")},
		{ID: "far", From: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(9999, 1, 2, 0, 0, 0, 0, time.UTC), Body: []byte("far")},
	}
	for _, i := range []int{3, 6, 0, 4, 2, 5, 1} {
		keep(t, s, all[i])
	}
	for i, p := range all {
		wantKept(t, s, all[i:]...)
		if err := s.Advance(t.Context(), follow.Position{At: p.Until}, p.ID); err != nil {
			t.Fatal(err)
		}
		if i == len(all)/2 {
			s = open()
		}
	}
	wantKept(t, s)
}

// drop: a dropped notification need not be there; the position moves all the same.
func drop(t *testing.T, open func() follow.Store) {
	s := open()
	keep(t, s, pushed("1", 0, 1), pushed("2", 1, 2), pushed("3", 2, 3))
	at := follow.Position{At: after(2), Keys: []string{"k"}}
	if err := s.Advance(t.Context(), at, "none", "2", "1", "2"); err != nil {
		t.Fatal(err)
	}
	wantPosition(t, s, at)
	wantKept(t, s, pushed("3", 2, 3))
	s = open()
	wantPosition(t, s, at)
	wantKept(t, s, pushed("3", 2, 3))
}

// together: notifications come while the position moves.
func together(t *testing.T, open func() follow.Store) {
	s := open()
	const n = 40
	failed := make(chan error, 2)
	go func() {
		var all error
		for i := range n {
			all = errors.Join(all, s.Keep(t.Context(), pushed(fmt.Sprint("n", i), i, i+1)))
		}
		failed <- all
	}()
	go func() {
		var all error
		for i := range n {
			all = errors.Join(all, s.Advance(t.Context(), follow.Position{At: after(i)}, fmt.Sprint("x", i)))
		}
		failed <- all
	}()
	if err := errors.Join(<-failed, <-failed); err != nil {
		t.Fatal(err)
	}
	s = open()
	var all []follow.Pushed
	for i := range n {
		all = append(all, pushed(fmt.Sprint("n", i), i, i+1))
	}
	wantKept(t, s, all...)
	wantPosition(t, s, follow.Position{At: after(n - 1)})
}
