package redisstore_test

import (
	"testing"
	"time"

	"carillon/source"
	"carillon/source/sourcetest"
)

func TestSources(t *testing.T) {
	t.Parallel()
	sourcetest.Run(t, func(t *testing.T) sourcetest.Harness {
		w := newWorld(t)
		return sourcetest.Harness{
			Store:  w.db.Sources(),
			Reopen: func(t *testing.T) source.Store { w.reopen(t); return w.db.Sources() },
			Crash:  func(t *testing.T) source.Store { w.crash(t); return w.db.Sources() },
			Stop:   func(t *testing.T) { w.stop(t) },
		}
	})
}

// A record that cannot be read is reported and counts as none; the others are served.
func TestADamagedSourceCountsAsNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.db.Sources()
	good := source.Source{Name: "good", Prefixes: []string{"https://a.example/"}, Created: time.Unix(5, 6), Issued: time.Unix(7, 8)}
	bad := good
	bad.Name = "bad"
	must(t, s.Add(t.Context(), good))
	if empty, err := w.db.Restore().Empty(t.Context()); err != nil || empty {
		t.Errorf("a store with a Source alone is empty: %v, %v", empty, err)
	}
	for name, mend := range map[string]func() error{
		"Add":     func() error { return s.Add(t.Context(), bad) },
		"Replace": func() error { return s.Replace(t.Context(), bad) },
		"Delete":  func() error { return s.Delete(t.Context(), bad.Name) },
	} {
		w.server.Do(t, "HSET", prefixOf(w)+":{sources}", bad.Name, "1rubbish")
		all, err := s.List(t.Context())
		if must(t, err); len(all) != 1 || !all[0].Same(good) {
			t.Errorf("%s: listed are %v, want the good one", name, all)
		}
		_, err = s.Get(t.Context(), bad.Name)
		wantError(t, err, source.ErrNotFound)
		must(t, mend())
		if one, err := s.Get(t.Context(), bad.Name); name != "Delete" && (err != nil || !one.Same(bad)) {
			t.Errorf("%s over a damaged one: %v, %v", name, one, err)
		}
	}
}
