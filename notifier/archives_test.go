package notifier_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/notifier"
	"carillon/notifier/moments"
	"carillon/payload"
)

// archiving is a notifier that archives the set "a", in directories of its own.
func archiving(t *testing.T, cfg notifier.Config) *world {
	t.Helper()
	dir := t.TempDir()
	cfg.Sets, cfg.ResourceLists, cfg.Archives = []string{"a"}, []string{"a"}, []string{"a"}
	cfg.ResourceListDir, cfg.ArchiveDir = filepath.Join(dir, "resourcelists"), filepath.Join(dir, "archives")
	return newWorld(t, cfg, &hub{})
}

// archived reads an archive, or one by its Index, and holds it to the clauses.
func (w *world) archived(of string) (all []payload.Entry) {
	w.t.Helper()
	capability := of + "-archive"
	head := func(path string) resourceDoc {
		l := w.read(path)
		if l.Capability != capability || l.At+l.Completed+l.From+l.Until != "" || l.link("up") != base+"a/capabilitylist.xml" {
			w.t.Errorf("%s: the head is %+v", path, l.Header) // AR-3, AR-4
		}
		return l
	}
	top := head("/a/" + capability + ".xml")
	if top.Root != payload.RootSitemapIndex {
		return top.entries
	}
	for _, part := range top.entries {
		l := head(part.Loc)
		if l.link("index") != base+"a/"+capability+".xml" || part.LastMod != "" { // AR-5, AR-8
			w.t.Errorf("%s: the part links to %q; the Index tells of %+v", part.Loc, l.link("index"), part)
		}
		all = append(all, l.entries...)
	}
	return all
}

// wantArchives looks at what the Capability List and a live document tell of an archive.
func (w *world) wantArchives(there bool) {
	w.t.Helper()
	list := w.ask(http.MethodGet, "/a/capabilitylist.xml").Body.String()
	for _, of := range []string{"changelist", "resourcelist"} {
		url := base + "a/" + of + "-archive.xml"
		if n := strings.Count(list, url); n != map[bool]int{true: 1}[there] { // AR-1
			w.t.Errorf("the Capability List names the archive of the %s %d times:\n%s", of, n, list)
		}
		if link := w.read("/a/" + of + ".xml").link("archives"); there && link != url { // AR-2
			w.t.Errorf("the %s links to %q as its archive", of, link)
		}
	}
}

// TestArchives: closed Change Lists, and Resource Lists now and then, have lasting addresses, which
// two documents list, in order. Addresses that are kept nowhere else any more redirect there.
func TestArchives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := archiving(t, notifier.Config{ChangeListEntries: 2, Keep: 4 * time.Hour, ArchiveEvery: 24 * time.Hour, ArchiveFor: 72 * time.Hour})
		w.wantNone()
		var served []string // closed lists, as they were served
		for i := range 5 {
			w.record(eventOf(payload.Created, fmt.Sprint(i), ""), eventOf(payload.Updated, fmt.Sprint(i), ""))
			time.Sleep(time.Minute)
			synctest.Wait()
			served = append(served, w.read("/a/changelist-index.xml").entries[i].Loc)
		}
		w.wantArchives(true)
		lists := w.archived("changelist")
		if len(lists) != 5 {
			t.Fatalf("%d Change Lists are archived: %+v", len(lists), lists)
		}
		for i, e := range lists {
			live, kept := w.read(served[i]), w.read(e.Loc)
			if i > 0 && e.From != lists[i-1].Until || e.From != kept.From || e.Until != kept.Until { // AR-6, AR-7
				t.Errorf("entry %d is %+v, of %+v", i, e, kept.Header)
			}
			if kept.locs() != live.locs() || kept.Until != live.Until || kept.From != live.From || kept.link("index") != "" ||
				kept.link("up") != live.link("up") || kept.link("archives") != base+"a/changelist-archive.xml" {
				t.Errorf("archived it is %+v, and was %+v", kept, live)
			}
			if !strings.HasPrefix(e.Loc, base+"a/archive/changelist/") {
				t.Errorf("it is archived at %s", e.Loc)
			}
		}
		testRepresentations(t, w, lists[0].Loc, "public, max-age=2592000, immutable")
		tag := w.ask(http.MethodGet, "/a/changelist-archive.xml").Header().Get("ETag")
		if answer := w.ask(http.MethodGet, "/a/changelist-archive.xml", "If-None-Match", tag); answer.Code != http.StatusNotModified {
			t.Errorf("an archive that has not changed is answered %d", answer.Code)
		}
		resources := w.archived("resourcelist")
		if len(resources) != 1 {
			t.Fatalf("%d Resource Lists are archived: %+v", len(resources), resources)
		}
		if l := w.read(resources[0].Loc); l.locs() != "0" || l.At != resources[0].At || l.Completed != resources[0].Completed {
			t.Errorf("the archived Resource List is %+v", l)
		}
		testRepresentations(t, w, resources[0].Loc, "public, max-age=2592000, immutable")

		time.Sleep(5 * time.Hour) // beyond Keep
		synctest.Wait()
		for i, address := range served {
			answer := w.ask(http.MethodGet, address)
			if answer.Code != http.StatusMovedPermanently || answer.Header().Get("Location") != lists[i].Loc ||
				answer.Header().Get("Link") != "<"+base+`a/changelist-archive.xml>; rel="archives"` {
				t.Errorf("%s is answered %d %v", address, answer.Code, answer.Header())
			}
			w.read(lists[i].Loc)
		}
		if got := w.archived("resourcelist"); len(got) != 1 {
			t.Errorf("%d Resource Lists are archived before the time", len(got))
		}
		w.restart()
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		again := w.archived("resourcelist")
		if len(again) != 2 || again[0].Loc != resources[0].Loc || w.read(again[1].Loc).locs() != "0 1 2 3 4" {
			t.Fatalf("a day later %+v are archived", again)
		}
		w.read(again[0].Loc)
		if got := w.archived("changelist"); !slices.EqualFunc(got, lists, func(a, b payload.Entry) bool { return a.Loc == b.Loc }) {
			t.Errorf("after a start there are %+v", got)
		}

		time.Sleep(48 * time.Hour) // beyond ArchiveFor
		synctest.Wait()
		for _, address := range []string{lists[0].Loc, resources[0].Loc, served[0]} {
			if answer := w.ask(http.MethodGet, address); answer.Code != http.StatusGone || answer.Header().Get("Link") == "" {
				t.Errorf("%s is answered %d %v", address, answer.Code, answer.Header())
			}
		}
		for _, missing := range []string{
			"/a/changelist-archive.xml", "/a/archive/changelist/20300101T000000.000000Z.xml",
			"/a/archive/resourcelist/20300101T000000.000000Z/list.xml",
			"/a/changelist-archive/20300101T000000.000000Z.xml",
		} {
			if answer := w.ask(http.MethodGet, missing); answer.Code != http.StatusNotFound {
				t.Errorf("%s is answered %d", missing, answer.Code)
			}
		}
	})
}

// wantNone looks at a set of which nothing was archived.
func (w *world) wantNone() {
	w.t.Helper()
	if answer := w.ask(http.MethodGet, "/a/changelist-archive.xml"); answer.Code != http.StatusNotFound {
		w.t.Errorf("an archive of nothing is answered %d %s", answer.Code, answer.Body)
	}
	if text := w.ask(http.MethodGet, "/a/capabilitylist.xml").Body.String(); strings.Contains(text, "-archive") {
		w.t.Errorf("the Capability List names an archive of nothing:\n%s", text)
	}
}

// TestArchivedIndex: the parts of an archived Resource List, and its Index, lead to each other at
// their lasting addresses, from the moment when they are served first; an archive that has more
// than one document can list has an Index, whose parts keep their addresses.
func TestArchivedIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := archiving(t, notifier.Config{
			ResourceListEntries: 2, ChangeListEntries: 1, ArchiveEntries: 3,
			ResourceListEvery: time.Hour, ArchiveEvery: 2 * time.Hour, ArchiveFor: 31 * 24 * time.Hour,
		})
		for i := range 5 {
			w.record(eventOf(payload.Created, fmt.Sprint(i), ""))
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		live := w.read("/a/resourcelist.xml")
		kept := w.archived("resourcelist")
		if len(kept) != 1 || live.Root != payload.RootSitemapIndex || len(live.entries) != 3 {
			t.Fatalf("there are %+v of %+v", kept, live)
		}
		index := w.read(kept[0].Loc)
		if index.Root != payload.RootSitemapIndex || len(index.entries) != 3 {
			t.Fatalf("the archived Index is %+v", index)
		}
		for i, part := range index.entries {
			l := w.read(part.Loc)
			if part.Loc != live.entries[i].Loc || l.link("index") != kept[0].Loc || !strings.Contains(part.Loc, "/a/archive/resourcelist/") {
				t.Errorf("part %d at %s has the Index %s; served now is %s", i, part.Loc, l.link("index"), live.entries[i].Loc)
			}
		}
		before := w.read("/a/changelist-archive.xml")
		if before.Root != payload.RootSitemapIndex || len(before.entries) != 2 || len(w.archived("changelist")) != 5 {
			t.Fatalf("the archive of 5 Change Lists is %+v", before)
		}
		time.Sleep(2 * time.Hour) // the first stays in the memory of the process for a day
		synctest.Wait()
		if got := w.archived("resourcelist"); len(got) != 2 {
			t.Fatalf("there are %+v", got)
		}
		time.Sleep(25 * time.Hour)
		w.restart()
		for _, part := range index.entries {
			w.read(part.Loc)
		}
		after := w.read("/a/changelist-archive.xml")
		for i, part := range before.entries {
			if after.entries[i].Loc != part.Loc {
				t.Errorf("part %d has moved to %s", i, after.entries[i].Loc)
			}
		}
		for _, missing := range []string{"/4.xml", "/0.xml", "/01.xml"} {
			if answer := w.ask(http.MethodGet, strings.TrimSuffix(kept[0].Loc, "/list.xml")+missing); answer.Code != http.StatusNotFound {
				t.Errorf("the part %s is answered %d", missing, answer.Code)
			}
		}
	})
}

// TestArchiveWaitsForTheDisk: while the archive cannot be written to the journal keeps the closed
// lists, whatever their age, intake and lists go on, and afterwards nothing is missing.
func TestArchiveWaitsForTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := archiving(t, notifier.Config{ChangeListEntries: 1, Keep: time.Hour, ArchiveFor: 1000 * time.Hour})
		blocked := filepath.Join(w.cfg.ArchiveDir, "a")
		if err := errors.Join(os.MkdirAll(w.cfg.ArchiveDir, 0o700), os.WriteFile(blocked, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			w.record(eventOf(payload.Created, fmt.Sprint(i), ""))
			time.Sleep(time.Minute)
		}
		time.Sleep(30 * time.Hour)
		synctest.Wait()
		if l := w.read("/a/changelist.xml"); len(l.entries) != 5 || l.link("archives") != "" {
			t.Errorf("the Index has %d lists, and links to %q", len(l.entries), l.link("archives"))
		}
		metrics := w.metrics()
		for _, want := range []string{
			`carillon_notifier_archive_waiting{set="a"} 4`,
			`carillon_notifier_archived_documents{archive="changelist-archive",set="a"} 0`,
		} {
			if !strings.Contains(metrics, want) {
				t.Errorf("there is no %s", want)
			}
		}
		if strings.Contains(metrics, `carillon_notifier_archive_failures_total{set="a"} 0`) {
			t.Error("no failure was counted")
		}
		if err := os.Remove(blocked); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := w.archived("changelist"); len(got) != 4 {
			t.Errorf("%d Change Lists are archived", len(got))
		}
		if l := w.read("/a/changelist.xml"); l.Root != payload.RootURLSet {
			t.Errorf("the journal still has %d lists", len(l.entries))
		}
		if got := w.archived("resourcelist"); len(got) != 1 {
			t.Errorf("%d Resource Lists are archived", len(got))
		}
		if !strings.Contains(w.metrics(), `carillon_notifier_archive_waiting{set="a"} 0`) {
			t.Error("lists are still waiting")
		}
	})
}

// metrics is what /metrics of the intake listener says.
func (w *world) metrics() string {
	w.t.Helper()
	return ask(w.Intake(), "GET", "/metrics", "").Body.String()
}

// TestArchiveOfAnotherJournal: the part of an archive after the end of a restored journal is not
// continued, and goes; the part before stays.
func TestArchiveOfAnotherJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := archiving(t, notifier.Config{ChangeListEntries: 1})
		w.record(eventOf(payload.Created, "1", ""))
		time.Sleep(time.Minute)
		synctest.Wait()
		w.stop()
		journal := w.fs
		w.fs = copyOf(t, journal)
		w.start()
		w.record(eventOf(payload.Created, "2", ""))
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := w.archived("changelist"); len(got) != 2 {
			t.Fatalf("there are %+v", got)
		}
		w.stop()
		w.fs = journal // as it was before
		w.start()
		if got := w.archived("changelist"); len(got) != 1 {
			t.Fatalf("after a restoration there are %+v", got)
		}
		w.record(eventOf(payload.Created, "3", ""))
		time.Sleep(time.Minute)
		synctest.Wait()
		got := w.archived("changelist")
		if len(got) != 2 || got[0].Until != got[1].From || w.read(got[1].Loc).locs() != "3" {
			t.Errorf("after that there are %+v", got)
		}
	})
}

// TestArchiveLater: a set that is archived from some time on has in its archive what the journal still
// has; the hole of the time before is reported.
func TestArchiveLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := archiving(t, notifier.Config{ChangeListEntries: 1, Keep: 2 * time.Hour})
		names := w.cfg.Archives
		step := func(archives []string, locs ...string) {
			w.stop()
			w.cfg.Archives = archives
			w.start()
			for _, loc := range locs {
				w.record(eventOf(payload.Created, loc, ""))
				time.Sleep(time.Minute)
			}
			synctest.Wait()
		}
		step(nil, "1", "2")
		step(names, "3")
		if got := w.archived("changelist"); len(got) != 3 {
			t.Fatalf("there are %+v", got)
		}
		lasting := w.archived("resourcelist")[0].Loc
		step(nil, "4")
		if answer := w.ask(http.MethodGet, "/a/changelist-archive.xml"); answer.Code != http.StatusNotFound {
			t.Errorf("without --archive it is answered %d", answer.Code)
		}
		w.read(lasting) // it is still kept
		if link := w.read("/a/resourcelist.xml").link("archives"); link != "" {
			t.Errorf("without --archive the Resource List links to %s", link)
		}
		time.Sleep(3 * time.Hour)
		step(names, "5")
		got := w.archived("changelist")
		if len(got) != 4 || got[2].Until == got[3].From || w.read(got[3].Loc).locs() != "5" {
			t.Errorf("there are %+v", got)
		}
	})
}

// TestArchiveAfterAStepOfTheClock checks that Resource Lists are archived also after a clock that was
// ahead while one of them was made: that one was completed later than those that follow.
func TestArchiveAfterAStepOfTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		var runs atomic.Bool
		w := archiving(t, notifier.Config{
			ResourceListEntries: 1, ResourceListEvery: time.Minute, ArchiveEvery: time.Minute,
			Now: func() time.Time {
				if runs.Load() { // by less than what is believed at once
					ahead.Add(int64(50 * time.Second))
				}
				return time.Now().Add(time.Duration(ahead.Load()))
			},
			Logger: slog.New(slog.NewTextHandler(writer(func(line []byte) {
				if bytes.Contains(line, []byte("a Resource List was made")) && runs.Swap(false) {
					ahead.Store(0)
				}
			}), nil)),
		})
		for i := range 10 {
			w.record(eventOf(payload.Created, fmt.Sprint(i), ""))
		}
		time.Sleep(9 * time.Second)
		runs.Store(true)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		before := w.archived("resourcelist")
		slow := before[len(before)-1]
		if moment(t, slow.Completed).Sub(moment(t, slow.At)) < 5*time.Minute {
			t.Fatalf("the newest archived list is %+v, which should have taken minutes", slow)
		}
		time.Sleep(time.Until(moment(t, slow.At).Add(3 * time.Minute)))
		synctest.Wait()
		after := w.archived("resourcelist")
		if n := len(before); len(after) < n+2 || after[n].At <= slow.At || after[n].At >= slow.Completed {
			t.Fatalf("after the clock was set right there are %+v", after)
		}
		w.restart()
		if got := w.archived("resourcelist"); len(got) < len(after) {
			t.Errorf("after a start there are %+v", got)
		}
	})
}

// writer takes what is written.
type writer func([]byte)

func (w writer) Write(line []byte) (int, error) {
	w(line)
	return len(line), nil
}

func moment(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// copyOf copies a file system in memory.
func copyOf(t *testing.T, fs vfs.FS) vfs.FS {
	t.Helper()
	copied := vfs.NewMem()
	if _, err := vfs.Clone(fs, copied, "journal", "journal"); err != nil {
		t.Fatal(err)
	}
	return copied
}

func TestArchiveConfig(t *testing.T) {
	good := notifier.Config{URL: base, Hub: hubURL, Archives: []string{"default"}, ArchiveDir: "x"}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*notifier.Config){
		`archive: "b" is no set here`:               func(c *notifier.Config) { c.Archives = []string{"b"} },
		"archive-every must be 1m0s to 87600h0m0s":  func(c *notifier.Config) { c.ArchiveEvery = time.Second },
		"archive-for must be at least keep":         func(c *notifier.Config) { c.ArchiveFor = time.Hour },
		"archive-for must be at least archive-ever": func(c *notifier.Config) { c.ArchiveFor, c.Keep = time.Hour, time.Hour },
		"ArchiveEntries must be 1 to 50000":         func(c *notifier.Config) { c.ArchiveEntries = -1 },
		"there is no ArchiveDir":                    func(c *notifier.Config) { c.ArchiveDir = "" },
	} {
		cfg := good
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if _, err := notifier.New(
		context.Background(), notifier.Config{URL: base, Hub: hubURL, ArchiveFor: 1},
	); err == nil || strings.Contains(err.Error(), "archive") {
		t.Errorf("settings of archives that nobody asked for are refused: %v", err)
	}
}

// blockedDisk is a directory of an archive that cannot be used for a while.
type blockedDisk struct {
	dir     string
	blocked bool
}

// block has the directory be no directory, or one again.
func (d *blockedDisk) block(on bool) error {
	if on == d.blocked {
		return nil
	}
	aside := d.dir + ".aside"
	d.blocked = on
	if !on {
		if err := os.Remove(d.dir); err != nil {
			return err
		}
		if err := os.Rename(aside, d.dir); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.Rename(d.dir, aside); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(d.dir), 0o700); err != nil {
		return err
	}
	return os.WriteFile(d.dir, nil, 0o600)
}

// TestManyArchivedLists: of 100,000 archived Change Lists there are two archives and their Index,
// each within what a document may be; the newest ones that come make a third.
func TestManyArchivedLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lists = 100_000
		first := time.Date(1999, 12, 30, 0, 0, 0, 0, time.UTC) // before the journal was begun
		name := func(i int) string { return first.Add(time.Duration(i) * time.Second).Format(moments.Layout) }
		w := archiving(t, notifier.Config{ChangeListEntries: 1})
		w.stop()
		for i := range lists {
			dir := filepath.Join(w.cfg.ArchiveDir, "a", "changelist", name(i-i%payload.MaxEntries))
			if i%payload.MaxEntries == 0 {
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(dir, name(i)+"_"+name(i+1)+".xml.gz"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		w.start()
		w.record(eventOf(payload.Created, "1", ""))
		time.Sleep(time.Minute)
		synctest.Wait()
		index := w.read("/a/changelist-archive.xml")
		if index.Root != payload.RootSitemapIndex || len(index.entries) != 3 {
			t.Fatalf("there are %d archives", len(index.entries))
		}
		for i, want := range []int{payload.MaxEntries, payload.MaxEntries, 1} {
			answer := w.ask(http.MethodGet, index.entries[i].Loc)
			if size := answer.Body.Len(); size > payload.MaxBytes {
				t.Errorf("part %d has %d bytes", i, size)
			}
			if l, err := readList(answer.Body); err != nil || len(l.entries) != want {
				t.Errorf("part %d lists %d: %v", i, len(l.entries), err)
			}
		}
		if all := w.archived("changelist"); len(all) != lists+1 || w.read(all[lists].Loc).locs() != "1" {
			t.Errorf("%d are listed", len(all))
		}
	})
}
