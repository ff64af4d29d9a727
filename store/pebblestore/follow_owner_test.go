package pebblestore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/destination/follow"
	"carillon/destination/mirror"
	"carillon/store/pebblestore"
)

// A Source is known by any of what it offers; until something was handed on another one, or another
// beginning, takes its place.
func TestBelong(t *testing.T) {
	fs := vfs.NewMem()
	d, err := pebblestore.OpenDestination(pebblestore.Config{Dir: "d", FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	f := d.Following()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	belong := func(ours, kept bool, begin string, names ...string) pebblestore.Owner {
		t.Helper()
		o, err := f.Belong(t.Context(), pebblestore.Belonging{Names: names, Begin: begin})
		p, errP := f.Position(t.Context())
		if err != nil || errP != nil || o.Ours != ours || p.At.IsZero() == kept {
			t.Errorf("%s by %s: %+v, %v; the position is %v, %v", names, begin, o, err, p.At, errP)
		}
		return o
	}
	move := func() {
		t.Helper()
		if err := f.Advance(t.Context(), follow.Position{At: at}); err != nil {
			t.Fatal(err)
		}
	}
	belong(true, false, "now", "typo")
	move()
	belong(true, true, "now", "typo")
	belong(true, false, "now", "topic", "")
	move()
	belong(true, false, "baseline", "topic")
	move()
	belong(true, true, "", "topic")
	belong(false, true, "", "other")
	if err := f.Keep(t.Context(), follow.Pushed{ID: "n", From: at, Until: at.Add(1)}); err != nil {
		t.Fatal(err)
	}
	belong(false, true, "now", "other") // acknowledged changes are not thrown away
	if err := f.Advance(t.Context(), follow.Position{At: at}, "n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o := belong(true, true, "now", "caps", "topic", "changes"); !o.Settled || o.Is != "topic" {
		t.Errorf("%+v", o)
	}
	belong(true, true, "now", "changes", strings.Repeat("long", 1000))
	belong(true, true, "now", strings.Repeat("long", 1000))
	belong(false, true, "now", "other")
	for i := range 100 {
		belong(true, true, "now", fmt.Sprint(i), "topic")
	}
	belong(false, true, "now", "changes") // only so many are kept
	belong(true, true, "now", "99")

	// Which directory has the copies is kept, too, and at which moment they are.
	home := mirror.Home{ID: "id", Begun: true, Moment: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)}
	if err := d.Mirrored().SetHome(t.Context(), home); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if d, err = pebblestore.OpenDestination(pebblestore.Config{Dir: "d", FS: fs}); err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if got, err := d.Mirrored().Home(t.Context()); err != nil || got != home {
		t.Errorf("the home is %+v, %v", got, err)
	}
	home.Moment = time.Time{}
	if err := d.Mirrored().SetHome(t.Context(), home); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Mirrored().Home(t.Context()); err != nil || got != home {
		t.Errorf("a home of no moment is %+v, %v", got, err)
	}
	if o, err := d.Following().Belong(t.Context(), pebblestore.Belonging{Names: []string{"topic"}}); err != nil || !o.Ours || !o.Settled {
		t.Errorf("after a start: %+v, %v", o, err)
	}
}
