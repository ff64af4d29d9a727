package archive_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"carillon/notifier/archive"
	"carillon/notifier/moments"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func kept(from, until int) archive.Kept {
	return archive.Kept{Begin: epoch.Add(time.Duration(from) * time.Second), End: epoch.Add(time.Duration(until) * time.Second)}
}

// place is where archives of tests are.
type place struct {
	dir, suffix string
	most        int
}

func (p place) open(t interface {
	Helper()
	Fatal(...any)
},
) *archive.Archive {
	t.Helper()
	a, err := archive.Open(archive.Config{
		Dir: filepath.Join(p.dir, "archives", "a", "changelist"), Root: p.dir,
		Suffix: p.suffix, Most: p.most, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// write makes a document of a text.
func (p place) write(text string) func(string) error {
	return func(path string) error {
		if p.suffix == "" {
			if err := os.Mkdir(path, 0o700); err != nil {
				return err
			}
			path = filepath.Join(path, "text")
		}
		return os.WriteFile(path, []byte(text), 0o600)
	}
}

func (p place) read(path string) (string, error) {
	if p.suffix == "" {
		path = filepath.Join(path, "text")
	}
	text, err := os.ReadFile(path)
	return string(text), err
}

func all(a *archive.Archive) (has []archive.Kept) {
	for _, part := range a.Parts() {
		for i := range part.Len() {
			has = append(has, part.At(i))
		}
	}
	return has
}

var errDisk = errors.New("the disk is full")

// TestArchive: whatever is added, goes, fails and is cut short by a kill, an archive has what a
// list of the same would have, in order, under the same paths, and nothing else is on the disk.
func TestArchive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		p := place{dir, rapid.SampledFrom([]string{"", ".xml.gz"}).Draw(rt, "suffix"), rapid.IntRange(1, 4).Draw(rt, "most")}
		a := p.open(rt)
		var want []archive.Kept
		clock := 0
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			at := epoch.Add(time.Duration(rapid.IntRange(0, clock+1).Draw(rt, "at")) * time.Second)
			before := a.Parts()
			names := partNames(before)
			switch what := rapid.IntRange(0, 9).Draw(rt, "what"); what {
			case 0:
				n, err := a.DropUntil(at)
				gone := slices.IndexFunc(want, func(k archive.Kept) bool { return k.End.After(at) })
				if gone < 0 {
					gone = len(want)
				}
				if want = want[gone:]; err != nil || n != gone {
					rt.Fatalf("%d have gone, want %d: %v", n, gone, err)
				}
			case 1:
				n, err := a.CutWhile(func(k archive.Kept) bool { return k.End.After(at) })
				had := len(want)
				want = slices.DeleteFunc(slices.Clone(want), func(k archive.Kept) bool { return k.End.After(at) })
				if err != nil || n != had-len(want) {
					rt.Fatalf("%d have gone, want %d: %v", n, had-len(want), err)
				}
			case 2:
				a = p.open(rt) // a kill: nothing was closed
				if got := partNames(a.Parts()); !slices.Equal(got, names) {
					rt.Fatalf("the parts are %v after a start, %v before", got, names)
				}
			case 3, 4:
				err := a.Add(kept(clock, clock+1), func(path string) error {
					return errors.Join(p.write("half")(path), errDisk)
				})
				if !errors.Is(err, errDisk) {
					rt.Fatalf("an error of the disk is told as %v", err)
				}
			case 5: // a kill in the middle of an Add, or just after the name was given
				path := filepath.Join(p.dir, "archives", "a", "changelist", "x")
				if len(before) > 0 {
					_, some, _ := a.Find(before[0].At(0).Begin)
					path = filepath.Join(filepath.Dir(some), "20300101T000000.000000Z_20300101T000001.000000Z"+p.suffix+".making")
					if err := p.write("half")(path); err != nil && !errors.Is(err, os.ErrExist) {
						rt.Fatal(err)
					}
				}
				a = p.open(rt)
				if _, err := os.Stat(path); err == nil {
					rt.Fatalf("%s is still there after a start", path)
				}
			default:
				k := kept(clock, clock+rapid.IntRange(0, 3).Draw(rt, "takes"))
				if err := a.Add(k, p.write(k.Begin.String())); err != nil {
					rt.Fatal(err)
				}
				want = append(want, k)
				clock = int(k.End.Sub(epoch)/time.Second) + rapid.IntRange(0, 2).Draw(rt, "gap")
				if k.End.Equal(k.Begin) {
					clock++ // two of one moment would have one name
				}
			}
			if got := all(a); !slices.Equal(got, want) {
				rt.Fatalf("the archive has\n%v\nwant\n%v", got, want)
			}
			p.check(rt, a, want)
		}
	})
}

func partNames(parts []archive.Part) (names []time.Time) {
	for _, part := range parts {
		names = append(names, part.First)
	}
	return names
}

// check looks for each document at its place, and for anything else.
func (p place) check(t interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}, a *archive.Archive, want []archive.Kept,
) {
	t.Helper()
	there := map[string]bool{}
	for _, k := range want {
		found, path, ok := a.Find(k.Begin)
		text, err := p.read(path)
		if !ok || found != k || err != nil || text != k.Begin.String() {
			t.Fatalf("at %s there is %v %t, %q, %v", k.Begin, found, ok, text, err)
		}
		there[path] = true
	}
	if _, _, ok := a.Find(epoch.Add(-time.Hour)); ok {
		t.Fatal("there is one from before all")
	}
	for _, part := range a.Parts() {
		if part.Len() > p.most {
			t.Fatalf("a part has %d documents", part.Len())
		}
	}
	dirs, err := filepath.Glob(filepath.Join(p.dir, "archives", "a", "changelist", "*", "*"))
	for _, path := range dirs {
		if !there[path] && !strings.HasSuffix(path, ".making") {
			t.Fatalf("%s is there too", path)
		}
	}
	if oldest, newest, some := a.Ends(); err != nil || some != (len(want) > 0) || some && (oldest != want[0] || newest != want[len(want)-1]) {
		t.Fatalf("the ends are %v and %v, %t", oldest, newest, some)
	}
}

// TestHandedOut: parts that were handed out stay unchanged.
func TestHandedOut(t *testing.T) {
	p := place{t.TempDir(), ".xml.gz", 10}
	a := p.open(t)
	add := func(from int) {
		t.Helper()
		if err := a.Add(kept(from, from+1), p.write("")); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 4 {
		add(i)
	}
	before := a.Parts()
	if _, err := a.CutWhile(func(k archive.Kept) bool { return k.End.After(epoch.Add(2 * time.Second)) }); err != nil {
		t.Fatal(err)
	}
	add(7)
	if got := before[0].At(2); got != kept(2, 3) || before[0].Len() != 4 {
		t.Errorf("what was handed out has become %v of %d", got, before[0].Len())
	}
	if err := a.Add(kept(6, 9), p.write("")); !errors.Is(err, archive.ErrOverlap) {
		t.Errorf("what begins before the newest ends is answered %v", err)
	}
}

// TestMoments checks that documents of moments follow each other by when they begin, also where one
// ends later than others begin, and that a start finds them so.
func TestMoments(t *testing.T) {
	p := place{dir: t.TempDir(), most: 2}
	open := func() *archive.Archive {
		a, err := archive.Open(archive.Config{
			Dir: filepath.Join(p.dir, "a"), Root: p.dir, Moments: true, Most: p.most,
			Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a, want := open(), []archive.Kept{kept(0, 9), kept(1, 2), kept(2, 2), kept(5, 7), kept(6, 6)}
	for _, k := range want {
		if err := a.Add(k, p.write("")); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range []archive.Kept{kept(6, 8), kept(5, 20)} {
		if err := a.Add(k, p.write("")); !errors.Is(err, archive.ErrOverlap) {
			t.Errorf("what does not begin behind the newest is answered %v", err)
		}
	}
	for range 2 {
		if got := all(a); !slices.Equal(got, want) {
			t.Errorf("the archive has %v", got)
		}
		a = open()
	}
}

// TestDiskFails: an error of the disk leaves the archive as it was, and passes.
func TestDiskFails(t *testing.T) {
	p := place{t.TempDir(), ".xml.gz", 1}
	a := p.open(t)
	if err := a.Add(kept(0, 1), p.write("")); err != nil {
		t.Fatal(err)
	}
	part := filepath.Join(p.dir, "archives", "a", "changelist", kept(1, 2).Begin.Format(moments.Layout))
	if err := os.WriteFile(part, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.Add(kept(1, 2), p.write("")); err == nil || a.Len() != 1 {
		t.Fatalf("a directory that cannot be made is answered %v; there are %d documents", err, a.Len())
	}
	if err := os.Remove(part); err != nil {
		t.Fatal(err)
	}
	if err := a.Add(kept(1, 2), p.write("")); err != nil || a.Len() != 2 {
		t.Fatalf("afterwards: %v; there are %d documents", err, a.Len())
	}
}

// TestStrangers: foreign files are left alone, and overlapping documents are left out.
func TestStrangers(t *testing.T) {
	p := place{t.TempDir(), ".xml.gz", 10}
	a := p.open(t)
	if err := a.Add(kept(0, 5), p.write("")); err != nil {
		t.Fatal(err)
	}
	_, path, _ := a.Find(epoch)
	dir := filepath.Dir(path)
	name := func(k archive.Kept) string {
		return filepath.Join(dir, k.Begin.Format(moments.Layout)+"_"+k.End.Format(moments.Layout)+".xml.gz")
	}
	strangers := []string{
		name(kept(3, 7)), name(kept(9, 8)), name(kept(5, 6)) + ".bak",
		filepath.Join(dir, "notes.txt"), filepath.Join(filepath.Dir(dir), "README"),
	}
	for _, name := range strangers {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := all(p.open(t)); !slices.Equal(got, []archive.Kept{kept(0, 5)}) {
		t.Errorf("the archive has %v", got)
	}
	for _, name := range strangers {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
}

// TestManyDocuments: a document costs some twenty bytes of memory, and a start reads no file.
func TestManyDocuments(t *testing.T) {
	p := place{t.TempDir(), ".xml.gz", 50_000}
	const documents = 100_000
	for i := range documents {
		dir := filepath.Join(p.dir, "archives", "a", "changelist", kept(i-i%p.most, 0).Begin.Format(moments.Layout))
		k := kept(i, i+1)
		path := filepath.Join(dir, k.Begin.Format(moments.Layout)+"_"+k.End.Format(moments.Layout)+".xml.gz")
		if i%p.most == 0 {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0) // unreadable
		if err != nil {
			t.Fatal(err)
		}
		file.Close()
	}
	before := inUse()
	a := p.open(t)
	took := inUse() - before
	if a.Len() != documents || len(a.Parts()) != 2 || took > documents*24 {
		t.Errorf("%d documents in %d parts take %d bytes", a.Len(), len(a.Parts()), took)
	}
	runtime.KeepAlive(a)
}

func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
