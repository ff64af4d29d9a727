package dump_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/notifier"
	"carillon/notifier/dump"
	"carillon/payload"
	"carillon/store/pebblestore"
)

// archived is a notifier with dumps and archives of one set.
type archived struct {
	*notifier.Notifier
	t    *testing.T
	fs   vfs.FS
	dir  string
	keep time.Duration
	// lists is how many entries a Change List has; 0: two.
	lists int
	// source has the content; nil: texts.
	source dump.Source
	log    lockedBuffer
	// without: the set is not archived.
	without  bool
	registry *prometheus.Registry
	stop     func()
}

// texts is a Source of which every resource has its own address as content.
type texts struct{}

func (texts) Open(_ context.Context, e *payload.Entry) (*dump.Content, error) {
	return &dump.Content{ReadCloser: io.NopCloser(strings.NewReader(e.Loc)), Size: int64(len(e.Loc)), Own: true}, nil
}

func (a *archived) start() {
	a.t.Helper()
	must := func(err error) {
		a.t.Helper()
		if err != nil {
			a.t.Fatal(err)
		}
	}
	journal, err := pebblestore.OpenJournal(pebblestore.Config{Dir: "journal", FS: a.fs, MemTableBytes: 1 << 20, CacheBytes: 1 << 20})
	must(err)
	archives := []string{"a"}
	if a.without {
		archives = nil
	}
	logger := slog.New(slog.NewTextHandler(&a.log, nil))
	a.Notifier, err = notifier.New(context.Background(), notifier.Config{
		Logger: logger,
		URL:    "http://source.example/", Hub: "http://hub.example/", Journal: journal, Transport: taking{}, Sets: []string{"a"},
		ResourceLists: []string{"a"}, Archives: archives, ArchiveDir: filepath.Join(a.dir, "archives"),
		ChangeListEntries: cmp.Or(a.lists, 2), Keep: a.keep, ArchiveEvery: 3 * time.Hour, ArchiveFor: 24 * time.Hour,
	})
	must(err)
	source := a.source
	if source == nil {
		source = texts{}
	}
	a.registry = prometheus.NewRegistry()
	dumps, err := dump.New(context.Background(), dump.Config{
		Notifier: a.Notifier, Store: journal, Dir: filepath.Join(a.dir, "dumps"),
		Sets:  []dump.Set{{Name: "a", Source: source}},
		Every: time.Hour, Keep: time.Minute, Logger: logger, Registry: a.registry,
	})
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = a.Run(ctx) }) // it returns nil
	running.Go(func() { _ = dumps.Run(ctx) })
	a.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		if err := journal.Close(); err != nil {
			a.t.Error(err)
		}
	})
}

// taking is a hub that takes everything.
type taking struct{}

func (taking) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Body.Close()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}, nil
}

func (a *archived) ask(path string) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	a.Public().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/"+strings.TrimPrefix(path, "http://source.example/"), nil))
	return answer
}

// read reads a document.
func (a *archived) read(path string) (payload.Header, []payload.Entry) {
	a.t.Helper()
	answer := a.ask(path)
	if answer.Code != http.StatusOK {
		a.t.Fatalf("%s: %d %s", path, answer.Code, answer.Body)
	}
	var all []payload.Entry
	r := payload.NewReader(answer.Body, payload.Limits{})
	for {
		e, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			a.t.Fatalf("%s: %v", path, err)
		}
		all = append(all, e)
	}
	h, err := r.Header()
	if err != nil {
		a.t.Fatalf("%s: %v", path, err)
	}
	return h, all
}

func linkOf(links []payload.Link, rel string) string {
	for _, l := range links {
		if l.Rel == rel {
			return l.Href
		}
	}
	return ""
}

// wantDump reads an archived dump, and all its packages.
func (a *archived) wantDump(at payload.Entry, capability string) {
	a.t.Helper()
	h, packages := a.read(at.Loc)
	if h.Capability != capability || h.At != at.At || h.Completed != at.Completed || h.From != at.From || h.Until != at.Until ||
		linkOf(h.Links, "archives") != "http://source.example/a/"+capability+"-archive.xml" || len(packages) == 0 {
		a.t.Errorf("%s has %d packages and the head %+v; the archive tells %+v", at.Loc, len(packages), h, at)
	}
	for _, p := range packages {
		answer := a.ask(p.Loc)
		if hash := fmt.Sprintf("sha-256:%x", sha256.Sum256(answer.Body.Bytes())); answer.Code != http.StatusOK || hash != p.Hash ||
			!strings.HasPrefix(p.Loc, strings.TrimSuffix(at.Loc, "dump.xml")) {
			a.t.Errorf("%s: %d, %s; it should be %s", p.Loc, answer.Code, hash, p.Hash)
		}
		if answer := a.ask(linkOf(p.Links, "contents")); answer.Code != http.StatusOK || !strings.Contains(
			answer.Body.String(), capability+"-manifest",
		) {
			a.t.Errorf("%s: the copy of its manifest: %d %s", p.Loc, answer.Code, answer.Body)
		}
	}
}

// TestArchivedDumpIsReadOnce: the facts of an archived dump are read from the disk once, not for each
// request for it or for one of its packages.
func TestArchivedDumpIsReadOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &archived{t: t, fs: vfs.NewMem(), dir: t.TempDir(), keep: 2 * time.Hour, lists: 1}
		a.start()
		defer func() { a.stop() }()
		event := notifier.Event{
			Sets: []string{"a"}, Entry: payload.Entry{Loc: "http://a.example/1", Change: payload.Created},
		}
		if err := a.Append(context.Background(), []notifier.Event{event}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		_, changes := a.read("a/changedump-archive.xml")
		if len(changes) != 1 {
			t.Fatalf("archived are %+v", changes)
		}
		a.wantDump(changes[0], "changedump")
		files, err := filepath.Glob(filepath.Join(a.dir, "archives/a/changedump/*/*/generation.json"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%v, %v", files, err)
		}
		if err := os.Remove(files[0]); err != nil {
			t.Fatal(err)
		}
		a.wantDump(changes[0], "changedump")
	})
}

// TestArchives: Resource Dumps now and then, and each part of the Change Dump, stay at lasting
// addresses, with their packages as hard links, also when the dumps themselves have gone.
func TestArchives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &archived{t: t, fs: vfs.NewMem(), dir: t.TempDir(), keep: 2 * time.Hour}
		a.start()
		defer func() { a.stop() }()
		for i := range 6 {
			err := a.Append(context.Background(), []notifier.Event{{
				Sets:  []string{"a"},
				Entry: payload.Entry{Loc: fmt.Sprintf("http://a.example/%d", i), Change: payload.Created},
			}})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		_, changes := a.read("a/changedump-archive.xml")
		_, resources := a.read("a/resourcedump-archive.xml")
		if len(changes) != 3 || len(resources) != 1 {
			t.Fatalf("archived are %+v and %+v", changes, resources)
		}
		list := a.ask("a/capabilitylist.xml").Body.String()
		for _, capability := range []string{payload.CapResourceDump, payload.CapChangeDump} {
			if n := strings.Count(list, capability+"-archive.xml"); n != 1 {
				t.Errorf("the Capability List names the archive of %s %d times", capability, n)
			}
			if h, _ := a.read("a/" + capability + ".xml"); linkOf(h.Links, "archives") != "http://source.example/a/"+capability+"-archive.xml" {
				t.Errorf("the %s links to %+v", capability, h.Links)
			}
		}
		for i, one := range changes {
			if i > 0 && one.From != changes[i-1].Until {
				t.Errorf("part %d is from %s, the one before until %s", i, one.From, changes[i-1].Until)
			}
			a.wantDump(one, payload.CapChangeDump)
		}
		_, packages := a.read("a/resourcedump.xml")
		_, kept := a.read(resources[0].Loc)
		if packages[0].Hash != kept[0].Hash || !a.linked(packages[0].Loc, kept[0].Loc) {
			t.Error("an archived package is no hard link of that which is live")
		}
		time.Sleep(5 * time.Hour) // beyond --keep, and the first dumps have gone
		a.stop()
		a.start()
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, one := range changes {
			a.wantDump(one, payload.CapChangeDump)
		}
		_, again := a.read("a/resourcedump-archive.xml")
		if len(again) != 2 {
			t.Fatalf("there are %+v", again)
		}
		for _, one := range again {
			a.wantDump(one, payload.CapResourceDump)
		}
		a.wantCounted()
		for _, missing := range []string{"2.zip", "0.zip", "01.zip", "1.txt", "generation.json"} {
			if answer := a.ask(strings.Replace(resources[0].Loc, "dump.xml", missing, 1)); answer.Code != http.StatusNotFound {
				t.Errorf("%s is answered %d", missing, answer.Code)
			}
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		for _, one := range []payload.Entry{changes[0], resources[0]} {
			if answer := a.ask(one.Loc); answer.Code != http.StatusGone {
				t.Errorf("%s is answered %d", one.Loc, answer.Code)
			}
		}
	})
}

// TestArchiveWithAHole checks that a hole in the archive of the Change Dump is in the log: of a time
// when the set was not archived.
func TestArchiveWithAHole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &archived{t: t, fs: vfs.NewMem(), dir: t.TempDir(), keep: 2 * time.Hour}
		const line = `msg="the archive has a hole: nothing of that time is there any more" set=a archive=changedump-archive`
		for i := range 3 {
			a.without = i == 1
			a.start()
			a.resources(fmt.Sprintf("%d.example", i), 2)
			time.Sleep(time.Minute)
			synctest.Wait()
			if had := strings.Contains(a.log.String(), line); had != (i == 2) {
				t.Errorf("after start %d the log has the hole: %t\n%s", i, had, &a.log)
			}
			time.Sleep(3 * time.Hour) // beyond --keep
			a.stop()
		}
	})
}

// wantCounted checks that the bound of the disk counts live dumps, and not those that only the
// archive has.
func (a *archived) wantCounted() {
	a.t.Helper()
	sizes := func(pattern string) (sum int64) {
		names, err := filepath.Glob(filepath.Join(a.dir, pattern))
		if err != nil || len(names) == 0 {
			a.t.Fatalf("%s: %v, %v", pattern, names, err)
		}
		for _, name := range names {
			info, err := os.Stat(name)
			if err != nil {
				a.t.Fatal(err)
			}
			sum += info.Size()
		}
		return sum
	}
	live, kept := sizes("dumps/a/*/*/*"), sizes("archives/a/*dump/*/*/*")
	want := fmt.Sprintf("carillon_notifier_dump_disk_bytes %v\n", float64(live))
	if text := metrics(a.t, a.registry); kept <= live || !strings.Contains(text, want) {
		a.t.Errorf("live dumps have %d bytes, archived ones %d; counted are\n%s", live, kept, text)
	}
}

// linked reports whether a live package and an archived one are one file.
func (a *archived) linked(live, kept string) bool {
	a.t.Helper()
	generation := filepath.Base(filepath.Dir(live))
	one, err := os.Stat(filepath.Join(a.dir, "dumps", "a", "resource", generation, filepath.Base(live)))
	if err != nil {
		a.t.Fatal(err)
	}
	found, err := filepath.Glob(
		filepath.Join(a.dir, "archives", "a", "resourcedump", "*", filepath.Base(filepath.Dir(kept))+"_*", filepath.Base(kept)),
	)
	if err != nil || len(found) != 1 {
		a.t.Fatalf("%v, %v", found, err)
	}
	other, err := os.Stat(found[0])
	return err == nil && os.SameFile(one, other)
}
