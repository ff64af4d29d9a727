package directory_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"

	"carillon/notifier"
	"carillon/notifier/directory"
	"carillon/payload"
)

const base = "https://source.example/files/"

// state is the journal of one set: it takes events, and reports what they add up to.
type state struct {
	mu     sync.Mutex
	fails  error // of Append, and of asking
	taking error // of Append
	has    map[string]payload.Entry
	events []notifier.Event
	news   chan notifier.Event // if not nil, gets every event
	whole  error
}

func newState() *state { return &state{has: map[string]payload.Entry{}} }

func (s *state) Append(_ context.Context, events []notifier.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(s.fails, s.taking); err != nil {
		return err
	}
	for _, e := range events {
		e.Datetime = time.Now().UTC().Truncate(time.Microsecond)
		s.events = append(s.events, e)
		resource := e.Entry
		resource.Change = ""
		if s.has[e.Loc] = resource; e.Change == payload.Deleted {
			delete(s.has, e.Loc)
		}
		if s.news != nil {
			s.news <- e
		}
	}
	return nil
}

func (s *state) Resource(_ context.Context, _, loc string) (payload.Entry, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.has[loc]
	return e, ok, s.fails
}

func (s *state) Resources(context.Context, string) (time.Time, iter.Seq2[payload.Entry, error], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails != nil || s.whole != nil {
		return time.Time{}, nil, fmt.Errorf("resources: %w%w", s.fails, s.whole)
	}
	snapshot := maps.Clone(s.has)
	return time.Now(), func(yield func(payload.Entry, error) bool) {
		for _, loc := range slices.Sorted(maps.Keys(snapshot)) {
			if !yield(snapshot[loc], nil) {
				return
			}
		}
	}, nil
}

func (s *state) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = err
}

func (s *state) failTaking(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taking = err
}

// take gives what was announced since the last call, as "change name", by name; of one
// file in order.
func (s *state) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var told []string
	for _, e := range s.events {
		told = append(told, string(e.Change)+" "+strings.TrimPrefix(e.Loc, base))
	}
	s.events = nil
	slices.SortStableFunc(told, func(a, b string) int {
		_, a, _ = strings.Cut(a, " ")
		_, b, _ = strings.Cut(b, " ")
		return strings.Compare(a, b)
	})
	return told
}

// fakeWatcher reports what a test has it tell.
type fakeWatcher struct {
	events chan fsnotify.Event
	errs   chan error

	mu      sync.Mutex
	paths   map[string]bool
	removed int   // calls of Remove
	fails   error // of Add
}

func newFakeWatcher() *fakeWatcher {
	return &fakeWatcher{events: make(chan fsnotify.Event), errs: make(chan error), paths: map[string]bool{}}
}

func (w *fakeWatcher) Add(path string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fails == nil {
		w.paths[path] = true
	}
	return w.fails
}

func (w *fakeWatcher) Remove(path string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.paths, path)
	w.removed++
	return nil
}

func (w *fakeWatcher) watched() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.paths))
}

func (w *fakeWatcher) Events() <-chan fsnotify.Event { return w.events }
func (w *fakeWatcher) Errors() <-chan error          { return w.errs }
func (w *fakeWatcher) Close() error {
	close(w.events)
	close(w.errs)
	return nil
}

// logs is what was logged.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// world is a directory under watch, in the time of a bubble.
type world struct {
	t       *testing.T
	dir     string
	state   *state
	watcher *fakeWatcher
	d       *directory.Directory
	logs    *logs
	stop    func()
}

const (
	settle = 2 * time.Second
	rescan = 15 * time.Minute
)

// newWorld starts nothing yet.
func newWorld(t *testing.T) *world {
	return &world{t: t, dir: filepath.Join(t.TempDir(), "dir"), state: newState(), logs: &logs{}}
}

func (w *world) config() directory.Config {
	w.watcher = newFakeWatcher()
	watcher := w.watcher
	return directory.Config{
		Set: "maps", Dir: w.dir, Base: base, Sink: w.state, State: w.state,
		NewWatcher:     func() (directory.Watcher, error) { return watcher, nil },
		CapabilityList: "https://source.example/maps/capabilitylist.xml",
		Logger:         slog.New(slog.NewTextHandler(w.logs, nil)),
	}
}

// start runs the directory until the world is stopped; with says what is other than usual.
func (w *world) start(with ...func(*directory.Directory)) {
	w.t.Helper()
	w.startAs(w.config(), with...)
}

func (w *world) startAs(cfg directory.Config, with ...func(*directory.Directory)) {
	w.t.Helper()
	d, err := directory.New(w.t.Context(), cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range with {
		f(d)
	}
	w.d = d
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := d.Run(ctx); err != nil {
			w.t.Errorf("Run: %v", err)
		}
	}()
	w.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	w.t.Cleanup(w.stop)
}

// pass lets time pass, and then everything come to rest.
func (w *world) pass(d time.Duration) {
	time.Sleep(d) // of the bubble
	synctest.Wait()
}

func (w *world) path(rel string) string { return filepath.Join(w.dir, filepath.FromSlash(rel)) }

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// write writes a file with the time of the bubble. The file appears whole and with that time: a scan
// that ran between would see the real time.
func (w *world) write(rel, content string) {
	w.t.Helper()
	w.writeAt(rel, content, time.Now())
}

func (w *world) writeAt(rel, content string, modified time.Time) {
	w.t.Helper()
	outside := w.dir + ".new"
	w.must(os.MkdirAll(filepath.Dir(w.path(rel)), 0o700))
	w.must(os.WriteFile(outside, []byte(content), 0o600))
	w.must(os.Chtimes(outside, modified, modified))
	w.must(os.Rename(outside, w.path(rel)))
}

func (w *world) touch(rel string, modified time.Time) {
	w.t.Helper()
	w.must(os.Chtimes(w.path(rel), modified, modified))
}

// tell reports an event as the system would.
func (w *world) tell(op fsnotify.Op, rel string) {
	w.watcher.events <- fsnotify.Event{Name: w.path(rel), Op: op}
}

// expect compares what was announced since the last call.
func (w *world) expect(want ...string) {
	w.t.Helper()
	synctest.Wait()
	if got := w.state.take(); !slices.Equal(got, want) {
		w.t.Errorf("at %s announced: %q, want %q\n%s", time.Now().Format(time.TimeOnly), got, want, w.logs)
	}
}

// logged reports how often the log has a text.
func (w *world) logged(text string) int { return strings.Count(w.logs.String(), text) }

// inDirectory is what the state should be: entries by loc, without what depends on when it was.
func inDirectory(dir, base string) (map[string]payload.Entry, error) {
	found := map[string]payload.Entry{}
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		if strings.HasPrefix(e.Name(), ".") {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !e.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		rel, err := filepath.Rel(dir, name)
		loc := base + filepath.ToSlash(rel) // the tests' names need no escapes, but where they say so
		found[loc] = payload.Entry{
			Loc: loc, Length: fmt.Sprint(len(content)), Hash: "sha-256:" + hex.EncodeToString(sum[:]),
			LastMod: info.ModTime().UTC().Format("2006-01-02T15:04:05Z"),
		}
		return err
	})
	return found, err
}

// differs reports how the state differs from the directory.
func (s *state) differs(dir, base string) error {
	want, err := inDirectory(dir, base)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for loc, e := range want {
		had, ok := s.has[loc]
		if !ok {
			return fmt.Errorf("the set has no %s", loc)
		}
		if had.Length != e.Length || had.Hash != e.Hash || had.LastMod != e.LastMod {
			return fmt.Errorf("the set has %+v, want %+v", had, e)
		}
	}
	for loc := range s.has {
		if _, ok := want[loc]; !ok {
			return fmt.Errorf("the set still has %s", loc)
		}
	}
	return nil
}
