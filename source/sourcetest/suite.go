package sourcetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon/source"
)

// Harness is a store under test, empty at first.
type Harness struct {
	Store source.Store
	// Reopen ends the store in good order and opens it again.
	Reopen func(t *testing.T) source.Store
	// Crash ends the store without warning, so that only what is durable is left, and
	// opens it again.
	Crash func(t *testing.T) source.Store
	// Stop makes the engine unavailable for the rest of the test.
	Stop func(t *testing.T)
}

// Run runs the suite. Each subtest opens a store of its own.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, part := range []struct {
		name string
		run  func(t *testing.T, open func(t *testing.T) Harness)
	}{
		{"Changes", testChanges},
		{"Durable", testDurable},
		{"Refused", testRefused},
		{"AtOnce", testAtOnce},
		{"Faults", testFaults},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, open) })
	}
}

// start is not a round time, so that cut-off parts show.
var start = time.Date(2026, 3, 1, 10, 20, 30, 123456789, time.UTC)

// numbered returns the n-th Source. Two of the same n are the same.
func numbered(n int) source.Source {
	return source.Source{
		Name:      fmt.Sprintf("source-%d", n),
		Prefixes:  []string{fmt.Sprintf("https://source.example/%d/", n), "https://other.example"},
		TokenHash: source.Token(fmt.Sprintf("token %d", n)).Hash(),
		Created:   start.Add(time.Duration(n)), Issued: start.Add(time.Hour + time.Duration(n)),
	}
}

// rotated is the n-th Source with another token.
func rotated(n int) source.Source {
	s := numbered(n)
	s.TokenHash, s.Issued = source.Token("another").Hash(), start.Add(24*time.Hour)
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

// wantAll checks that exactly these are there, by List and by Get.
func wantAll(t *testing.T, s source.Store, want ...source.Source) {
	t.Helper()
	got, err := s.List(t.Context())
	must(t, err)
	want = slices.Clone(want)
	slices.SortFunc(want, func(a, b source.Source) int { return strings.Compare(a.Name, b.Name) })
	if !slices.EqualFunc(got, want, source.Source.Same) {
		t.Fatalf("Sources:\n got %+v\nwant %+v", got, want)
	}
	for _, w := range want {
		one, err := s.Get(t.Context(), w.Name)
		must(t, err)
		if !one.Same(w) {
			t.Fatalf("Source:\n got %+v\nwant %+v", one, w)
		}
	}
}

func testChanges(t *testing.T, open func(t *testing.T) Harness) {
	for name, test := range map[string]func(t *testing.T, s source.Store){
		"an empty store has none": func(t *testing.T, s source.Store) {
			wantAll(t, s)
			_, err := s.Get(t.Context(), "nobody")
			wantError(t, err, source.ErrNotFound)
		},
		"what was added is given back, by name": func(t *testing.T, s source.Store) {
			for _, n := range []int{3, 1, 2, 10} {
				must(t, s.Add(t.Context(), numbered(n)))
			}
			wantAll(t, s, numbered(1), numbered(2), numbered(3), numbered(10))
		},
		"a name is added once": func(t *testing.T, s source.Store) {
			must(t, s.Add(t.Context(), numbered(1)))
			wantError(t, s.Add(t.Context(), rotated(1)), source.ErrExists)
			other := numbered(1)
			other.Prefixes = other.Prefixes[:1]
			wantError(t, s.Add(t.Context(), other), source.ErrExists)
			wantAll(t, s, numbered(1))
			must(t, s.Add(t.Context(), numbered(1))) // the very same, as after an answer that was lost
			wantAll(t, s, numbered(1))
		},
		"names differ by case and end": func(t *testing.T, s source.Store) {
			var want []source.Source
			for _, name := range []string{"a", "A", "aa", "a.b", strings.Repeat("x", 64)} {
				one := numbered(1)
				one.Name = name
				must(t, s.Add(t.Context(), one))
				want = append(want, one)
			}
			wantAll(t, s, want...)
			must(t, s.Delete(t.Context(), "a"))
			wantAll(t, s, want[1:]...)
		},
		"a Source is replaced": func(t *testing.T, s source.Store) {
			must(t, s.Add(t.Context(), numbered(1)))
			must(t, s.Add(t.Context(), numbered(2)))
			must(t, s.Replace(t.Context(), rotated(1)))
			wantAll(t, s, rotated(1), numbered(2))
			must(t, s.Replace(t.Context(), rotated(1)))
			wantAll(t, s, rotated(1), numbered(2))
		},
		"what is not there is not replaced": func(t *testing.T, s source.Store) {
			wantError(t, s.Replace(t.Context(), numbered(1)), source.ErrNotFound)
			wantAll(t, s)
		},
		"a Source is ended": func(t *testing.T, s source.Store) {
			must(t, s.Add(t.Context(), numbered(1)))
			must(t, s.Add(t.Context(), numbered(2)))
			must(t, s.Delete(t.Context(), numbered(1).Name))
			wantAll(t, s, numbered(2))
			wantError(t, s.Delete(t.Context(), numbered(1).Name), source.ErrNotFound)
			_, err := s.Get(t.Context(), numbered(1).Name)
			wantError(t, err, source.ErrNotFound)
			must(t, s.Add(t.Context(), rotated(1)))
			wantAll(t, s, rotated(1), numbered(2))
		},
		"bytes stay as they are": func(t *testing.T, s source.Store) {
			one := numbered(1)
			one.Prefixes = nil
			for i := range source.MaxPrefixes {
				one.Prefixes = append(
					one.Prefixes,
					fmt.Sprintf("https://s\u00f6urce.example/%d/%%7E\xff\x00/%s", i, strings.Repeat("x", 1900)),
				)
			}
			must(t, s.Add(t.Context(), one))
			wantAll(t, s, one)
		},
		"many are listed": func(t *testing.T, s source.Store) {
			var want []source.Source
			for n := range 1200 {
				want = append(want, numbered(n))
				must(t, s.Add(t.Context(), numbered(n)))
			}
			wantAll(t, s, want...)
		},
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t).Store) })
	}
}

func testDurable(t *testing.T, open func(t *testing.T) Harness) {
	for name, again := range map[string]func(t *testing.T, h Harness) source.Store{
		"reopened": func(t *testing.T, h Harness) source.Store { return h.Reopen(t) },
		"crashed":  func(t *testing.T, h Harness) source.Store { return h.Crash(t) },
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			for n := range 3 {
				must(t, h.Store.Add(t.Context(), numbered(n)))
			}
			must(t, h.Store.Replace(t.Context(), rotated(1)))
			must(t, h.Store.Delete(t.Context(), numbered(2).Name))
			wantAll(t, again(t, h), numbered(0), rotated(1))
		})
	}
}

// calls makes each call of the interface once; the Source 1 is there.
func calls() map[string]func(ctx context.Context, s source.Store) error {
	return map[string]func(ctx context.Context, s source.Store) error{
		"Add":     func(ctx context.Context, s source.Store) error { return s.Add(ctx, numbered(2)) },
		"Replace": func(ctx context.Context, s source.Store) error { return s.Replace(ctx, rotated(1)) },
		"Delete":  func(ctx context.Context, s source.Store) error { return s.Delete(ctx, numbered(1).Name) },
		"Get": func(ctx context.Context, s source.Store) error {
			_, err := s.Get(ctx, numbered(1).Name)
			return err
		},
		"List": func(ctx context.Context, s source.Store) error { _, err := s.List(ctx); return err },
	}
}

// testRefused: a context that has ended changes nothing, and an engine that is away says so.
func testRefused(t *testing.T, open func(t *testing.T) Harness) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range calls() {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			must(t, h.Store.Add(t.Context(), numbered(1)))
			wantError(t, call(ended, h.Store), context.Canceled)
			wantAll(t, h.Store, numbered(1))
			h.Stop(t)
			wantError(t, call(t.Context(), h.Store), source.ErrUnavailable)
		})
	}
}

// testAtOnce: of many who add one name, or end one, one does.
func testAtOnce(t *testing.T, open func(t *testing.T) Harness) {
	s := open(t).Store
	const callers = 8
	count := func(refusal error, call func(n int) error) (done int) {
		t.Helper()
		errs := make([]error, callers)
		var wg sync.WaitGroup
		for n := range callers {
			wg.Go(func() { errs[n] = call(n) })
		}
		wg.Wait()
		for _, err := range errs {
			if err == nil {
				done++
			} else {
				wantError(t, err, refusal)
			}
		}
		return done
	}
	added := count(source.ErrExists, func(n int) error {
		one := numbered(n)
		one.Name = "wanted"
		return s.Add(t.Context(), one)
	})
	if all, err := s.List(t.Context()); added != 1 || err != nil || len(all) != 1 {
		t.Fatalf("%d added it, and there are %d (%v)", added, len(all), err)
	}
	if ended := count(source.ErrNotFound, func(int) error { return s.Delete(t.Context(), "wanted") }); ended != 1 {
		t.Fatalf("%d ended it", ended)
	}
	wantAll(t, s)
}

// testFaults is the fault table: each change fails, made and not; after a crash it is
// there whole or not at all, and the call can be repeated.
func testFaults(t *testing.T, open func(t *testing.T) Harness) {
	for name, row := range map[string]struct {
		after  []source.Source
		repeat error // of the call when its change was made
	}{
		"Add":     {[]source.Source{numbered(1), numbered(2)}, nil},
		"Replace": {[]source.Source{rotated(1)}, nil},
		"Delete":  {nil, source.ErrNotFound},
	} {
		for _, persisted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, persisted %v", name, persisted), func(t *testing.T) {
				h := open(t)
				call := calls()[name]
				must(t, h.Store.Add(t.Context(), numbered(1)))
				wantError(t, call(t.Context(), Faulty{h.Store, persisted}), source.ErrUnavailable)
				s := h.Crash(t)
				if persisted {
					wantAll(t, s, row.after...)
					if err := call(t.Context(), s); !errors.Is(err, row.repeat) {
						t.Fatalf("repeated: got error %v, want %v", err, row.repeat)
					}
				} else {
					wantAll(t, s, numbered(1))
					must(t, call(t.Context(), s))
				}
				wantAll(t, s, row.after...)
			})
		}
	}
}
