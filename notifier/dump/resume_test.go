package dump_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"carillon/notifier"
	"carillon/notifier/dump"
	"carillon/payload"
)

// A dump that was cut short at any moment is gone on with: of the same snapshot, without what is in
// packages that were finished; nothing that is not whole is served, or left behind.
func TestResumed(t *testing.T) {
	t.Parallel()
	const resources, each = 60, 10
	rng := rand.New(rand.NewPCG(3, 4))
	for range 8 {
		w := newWorld(t, notifier.Config{}, dump.Config{PackageEntries: each})
		want := map[string]string{}
		for i := range resources {
			name, text := fmt.Sprintf("%03d", i), noise(uint64(i), rng.IntN(400<<10))
			w.put(name, text, payload.Created)
			want[loc(name)] = text
		}
		opens, cut := 0, 1+rng.IntN(resources)
		reached := make(chan struct{})
		w.shelf.trouble(func(ctx context.Context, _ string, _ int) error {
			if opens++; opens < cut {
				return nil
			}
			if opens == cut {
				close(reached)
			}
			<-ctx.Done()
			return ctx.Err()
		})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = w.tryAsk()
		}()
		<-reached
		w.stop()
		<-ended
		finished := 0
		for _, name := range w.files() {
			if strings.HasSuffix(name, ".zip") {
				finished++
			}
		}
		// The leftovers of a killed process.
		making, err := filepath.Glob(filepath.Join(w.dir, "default", "resource", "*.making"))
		if err != nil || len(making) != 1 {
			t.Fatalf("%v, %v", making, err)
		}
		for _, name := range []string{"large-77.temp", "members.temp", "9.zip.temp", "7.zip"} {
			if err := os.WriteFile(filepath.Join(making[0], name), []byte("part"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		w.shelf.trouble(nil)
		w.start()
		if resp, _ := w.get("default/resourcedump.xml"); resp.StatusCode == 200 && len(w.made.Generations("default", dump.Resources)) == 0 {
			t.Error("a dump is served that is not whole")
		}
		a := w.ask()
		if a.Error != "" {
			t.Fatal(a.Error)
		}
		all := w.made.Generations("default", dump.Resources)
		if first := all[0]; first.Name()+".making" != filepath.Base(making[0]) || first.Entries() != resources {
			t.Errorf("the dump is of %s with %d entries, %s was begun", first.Name(), first.Entries(), making[0])
		}
		w.same(w.dumped(w.document("default/resourcedump.xml")), want)
		for i := range finished * each {
			if n := w.shelf.opened[loc(fmt.Sprintf("%03d", i))]; n > len(all) {
				t.Errorf("resource %d, of %d in finished packages, was opened %d times for %d dumps", i, finished*each, n, len(all))
			}
		}
		w.counted()
		for _, name := range w.files() {
			if base := filepath.Base(name); base != "generation.json" && filepath.Ext(base) != ".zip" || strings.Contains(name, ".making") || base == "7.zip" {
				t.Errorf("%s is left", name)
			}
		}
		w.stop()
	}
}

// Whatever happens to resources while packages are made: each manifest is true of its package (open
// checks it), the content of each entry is one that the resource had, and the changes bring the dump
// to what the set has.
func TestPropertyOfPackages(t *testing.T) {
	t.Parallel()
	const perList = 20
	for round := range 5 {
		rng := rand.New(rand.NewPCG(uint64(round), 5))
		w := newWorld(t, notifier.Config{ChangeListEntries: perList}, dump.Config{PackageEntries: 1 + rng.IntN(8)})
		had := map[string]map[string]bool{}
		now := map[string]string{}
		told, texts := 0, 0
		change := func(tell bool) {
			name := fmt.Sprint(rng.IntN(12))
			at := loc(name)
			texts++
			text := strings.Repeat(fmt.Sprintf("%s %d ", name, texts), []int{0, 1, 40_000}[rng.IntN(3)])
			if had[at] == nil {
				had[at] = map[string]bool{}
			}
			had[at][text] = true
			if !tell {
				if _, is := now[at]; is {
					w.shelf.put(at, text)
				}
				return
			}
			told++
			if _, is := now[at]; is && rng.IntN(4) == 0 {
				delete(now, at)
				w.put(name, "", payload.Deleted)
				return
			}
			kind := payload.Updated
			if _, is := now[at]; !is {
				kind = payload.Created
			}
			now[at] = text
			w.put(name, text, kind)
		}
		for range 30 {
			change(true)
		}
		done := make(chan dump.Answer, 1)
		go func() { done <- w.tryAsk() }()
		for range 60 {
			change(rng.IntN(2) == 0)
		}
		for told%perList != 0 {
			change(true)
		}
		a := <-done
		for range told / perList {
			<-w.changed
		}
		if a.Error == "" {
			for at, text := range w.dumped(w.document("default/resourcedump.xml")) {
				if !had[at][text] {
					t.Errorf("%s never had %.50q", at, text)
				}
			}
		}
		// The last change of each resource, as the Change Dump has it, is what it was then or later.
		for at, text := range w.dumped(w.document("default/changedump.xml")) {
			if !had[at][text] {
				t.Errorf("%s never had %.50q", at, text)
			}
			if _, is := now[at]; !is {
				t.Errorf("%s is deleted, and the Change Dump has it", at)
			}
		}
		w.stop()
	}
}

// Dumps of a set that is not dumped any more stay, and the log says so; they are not served.
func TestUnusedSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, notifier.Config{}, dump.Config{})
	const warned = "not dumped any more"
	w.restart()
	if strings.Contains(w.log.String(), warned) {
		t.Error(w.log.String())
	}
	w.stop()
	old := filepath.Join(w.dir, "old", "resource", "20260101T000000.000000Z", "1.zip")
	if err := os.MkdirAll(filepath.Dir(old), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(old, []byte("a package"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.start()
	if text := w.log.String(); !strings.Contains(text, warned) || !strings.Contains(text, "bytes=9") {
		t.Errorf("the log: %s", text)
	}
	w.counted()
}
