package mirror_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"carillon/destination/mirror"
)

// A directory that has not the copies, as its disk is not mounted, is left as it is; so is everything by who
// may only read.
func TestHome(t *testing.T) {
	s := newSource(t)
	c := newCopies(t, s, nil)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	other := newCopies(t, s, nil)
	home := c.store.Mirrored()
	fails := func(what, dir string, readOnly bool, want error) {
		t.Helper()
		cfg := c.cfg
		cfg.Dir, cfg.ReadOnly = dir, readOnly
		m, err := mirror.New(cfg)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", what, err)
		}
		if m != nil {
			_ = m.Close()
		}
	}
	c.cfg.Homes = home
	absent := filepath.Join(t.TempDir(), "absent")
	fails("nothing was mirrored", c.dir, true, mirror.ErrNoMirror)
	c.open()
	if begun, err := c.Begun(t.Context()); err != nil || begun {
		t.Errorf("begun at first: %t, %v", begun, err)
	}
	if err := c.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.handle(s.put("/a", "a"))
	c.reopen(func(cfg *mirror.Config) { cfg.ReadOnly = true })
	c.reopen(func(cfg *mirror.Config) { cfg.ReadOnly = false })
	if begun, err := c.Begun(t.Context()); err != nil || !begun {
		t.Errorf("begun: %t, %v", begun, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{false, true} {
		fails("not mounted", absent, readOnly, mirror.ErrElsewhere)
		fails("another mirror", other.dir, readOnly, mirror.ErrElsewhere)
	}
	if _, err := os.Lstat(absent); err == nil {
		t.Error("the directory was made")
	}
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(c.dir, moved); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(moved, ".carillon", "LOCK")); err != nil {
		t.Fatal(err)
	}
	c.cfg.Dir, c.cfg.ReadOnly = moved, true // the marker goes with the copies
	c.open()
	if _, err := os.Lstat(filepath.Join(moved, ".carillon", "LOCK")); err == nil {
		t.Error("who may only read has made a file")
	}

	// Another data directory takes the copies over; a directory without a Home begins anew anywhere.
	fresh := newCopies(t, s, func(cfg *mirror.Config) { cfg.Homes = nil })
	if err := fresh.Close(); err != nil {
		t.Fatal(err)
	}
	fresh.cfg.Homes, fresh.cfg.Dir = fresh.store.Mirrored(), moved
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	fresh.open()
	was, err := home.Home(t.Context())
	is, errIs := fresh.cfg.Homes.Home(t.Context())
	if err != nil || errIs != nil || is.ID != was.ID || is.Begun {
		t.Errorf("the homes are %+v and %+v", was, is)
	}
	if err := fresh.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	fresh.reopen(func(cfg *mirror.Config) { cfg.Dir = absent })
	if begun, err := fresh.Begun(t.Context()); err != nil || begun {
		t.Errorf("elsewhere: begun %t, %v", begun, err)
	}
}
