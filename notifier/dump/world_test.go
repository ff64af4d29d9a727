package dump_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"carillon/notifier"
	"carillon/notifier/dump"
	"carillon/payload"
	"carillon/store/pebblestore"
)

const base = "http://source.example/"

// hub takes everything.
type hub struct{}

func (hub) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	r.Body.Close()
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// shelf is a Source in memory: the content of resources by their locs.
type shelf struct {
	mu      sync.Mutex
	content map[string]string                                       // guarded by mu
	open    func(ctx context.Context, loc string, opened int) error // guarded by mu; nil: no trouble
	opened  map[string]int                                          // guarded by mu
}

func newShelf() *shelf { return &shelf{content: map[string]string{}, opened: map[string]int{}} }

func (s *shelf) put(loc, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.content[loc] = text
}

func (s *shelf) remove(loc string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.content, loc)
}

func (s *shelf) trouble(open func(ctx context.Context, loc string, opened int) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = open
}

func (s *shelf) Open(ctx context.Context, e *payload.Entry) (*dump.Content, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened[e.Loc]++
	if s.open != nil {
		if err := s.open(ctx, e.Loc, s.opened[e.Loc]); err != nil {
			return nil, err
		}
	}
	text, is := s.content[e.Loc]
	if !is {
		return nil, &dump.LeftOutError{Reason: dump.Missing, Text: "it is not there"}
	}
	return &dump.Content{ReadCloser: io.NopCloser(strings.NewReader(text)), Size: int64(len(text)), Own: true}, nil
}

// world is a running notifier with dumps of the set "default".
type world struct {
	*notifier.Notifier
	t        *testing.T
	fs       vfs.FS
	dir      string
	cfg      notifier.Config
	dumps    dump.Config
	shelf    *shelf
	store    *pebblestore.Journal
	made     *dump.Dumps
	stop     func()
	http     *httptest.Server
	log      *lockedBuffer
	registry *prometheus.Registry
	// changed has each generation of changes.
	changed chan *dump.Generation
}

type lockedBuffer struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	awaited map[string]chan struct{} // guarded by mu: closed when the text is there
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := b.buf.Write(p)
	b.look()
	return n, err
}

// look wakes those who wait for a text that has come; mu is held.
func (b *lockedBuffer) look() {
	for text, there := range b.awaited {
		if bytes.Contains(b.buf.Bytes(), []byte(text)) {
			close(there)
			delete(b.awaited, text)
		}
	}
}

// await waits until the log has a text.
func (b *lockedBuffer) await(text string) {
	there := make(chan struct{})
	b.mu.Lock()
	b.awaited = map[string]chan struct{}{text: there}
	b.look()
	b.mu.Unlock()
	<-there
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func newWorld(t *testing.T, cfg notifier.Config, dumps dump.Config) *world {
	t.Helper()
	w := &world{t: t, fs: vfs.NewMem(), dir: filepath.Join(t.TempDir(), "dumps"), cfg: cfg, dumps: dumps, shelf: newShelf(), log: &lockedBuffer{}}
	w.cfg.ResourceLists = []string{notifier.DefaultSet}
	w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

func (w *world) start() {
	w.t.Helper()
	journal, err := pebblestore.OpenJournal(pebblestore.Config{Dir: "journal", FS: w.fs, MemTableBytes: 1 << 20, CacheBytes: 1 << 20})
	if err != nil {
		w.t.Fatal(err)
	}
	w.store = journal
	cfg := w.cfg
	cfg.Journal, cfg.Transport, cfg.Hub = journal, hub{}, "http://hub.example/"
	if cfg.URL == "" {
		cfg.URL = base
	}
	n, err := notifier.New(context.Background(), cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Notifier = n
	d := w.dumps
	d.Notifier, d.Store, d.Dir = n, journal, w.dir
	w.registry = prometheus.NewRegistry()
	d.Registry = w.registry
	d.Logger = slog.New(slog.NewTextHandler(w.log, nil))
	if d.Sets == nil {
		d.Sets = []dump.Set{{Name: notifier.DefaultSet, Source: w.shelf}}
	}
	if w.made, err = dump.New(context.Background(), d); err != nil {
		w.t.Fatal(err)
	}
	w.made.SetPause(time.Millisecond)
	w.changed = make(chan *dump.Generation, 100)
	changed := w.changed
	w.made.OnFinished(func(g *dump.Generation) {
		if g.Kind == dump.Changes {
			changed <- g
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- n.Run(ctx) }()
	go func() { ended <- w.made.Run(ctx) }()
	public, intake := n.Public(), n.Intake()
	w.http = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/sets/") {
			intake.ServeHTTP(rw, r)
			return
		}
		public.ServeHTTP(rw, r)
	}))
	server := w.http
	w.stop = sync.OnceFunc(func() {
		cancel()
		server.Close()
		if err := errors.Join(<-ended, <-ended, journal.Close()); err != nil {
			w.t.Error(err)
		}
	})
}

func (w *world) restart() {
	w.t.Helper()
	w.stop()
	w.start()
}

func loc(name string) string { return "http://source.example/files/" + name }

func entry(name, text string, change payload.Change) notifier.Event {
	e := payload.Entry{Loc: loc(name), Change: change}
	if change != payload.Deleted {
		e.Hash, e.Length, e.Type = hashOf(text), strconv.Itoa(len(text)), "text/plain"
	}
	return notifier.Event{Entry: e, Sets: []string{notifier.DefaultSet}}
}

func hashOf(text string) string { return fmt.Sprintf("sha-256:%x", sha256.Sum256([]byte(text))) }

// put gives a resource its content, and announces it.
func (w *world) put(name, text string, change payload.Change) {
	w.t.Helper()
	if change == payload.Deleted {
		w.shelf.remove(loc(name))
	} else {
		w.shelf.put(loc(name), text)
	}
	w.tell(entry(name, text, change))
}

func (w *world) tell(events ...notifier.Event) {
	w.t.Helper()
	if err := w.Append(context.Background(), events); err != nil {
		w.t.Fatal(err)
	}
}

// ask has a Resource Dump made, as notifier dump does.
func (w *world) ask() dump.Answer {
	w.t.Helper()
	a := w.tryAsk()
	if !a.Done {
		w.t.Fatal(a.Error)
	}
	return a
}

// tryAsk is ask where the notifier may end meanwhile.
func (w *world) tryAsk() dump.Answer { return w.tryAskTold(func(dump.Progress) {}) }

// tryAskTold is tryAsk that hears of the progress.
func (w *world) tryAskTold(tell func(dump.Progress)) dump.Answer {
	resp, err := http.Post(w.http.URL+"/sets/default/dump", "", nil)
	if err != nil {
		return dump.Answer{Error: err.Error()}
	}
	defer resp.Body.Close()
	answer, err := dump.ReadAnswer(resp.Body, tell)
	if err != nil {
		return dump.Answer{Error: err.Error()}
	}
	return answer
}

// get asks the public listener.
func (w *world) get(uri string, header ...string) (*http.Response, []byte) {
	w.t.Helper()
	r, err := http.NewRequest(http.MethodGet, w.http.URL+"/"+strings.TrimPrefix(uri, base), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp, body
}

// listed is a dump document as a Destination reads it.
type listed struct {
	header   payload.Header
	packages []payload.Entry
}

func (w *world) document(path string) listed {
	w.t.Helper()
	resp, body := w.get(path)
	if resp.StatusCode != http.StatusOK {
		w.t.Fatalf("%s: %s, %s", path, resp.Status, body)
	}
	return parse(w.t, body)
}

func parse(t *testing.T, doc []byte) listed {
	t.Helper()
	r := payload.NewReader(bytes.NewReader(doc), payload.Limits{})
	var l listed
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			if l.header, err = r.Header(); err != nil {
				t.Fatal(err)
			}
			return l
		}
		if err != nil {
			t.Fatalf("%v in\n%.2000s", err, doc)
		}
		l.packages = append(l.packages, e)
	}
}

// unpacked is a package as a Destination sees it.
type unpacked struct {
	manifest listed
	raw      []byte            // of the manifest
	content  map[string]string // by path
}

// open reads a package by archive/zip, and holds it to what every package promises.
func open(t *testing.T, file []byte) unpacked {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	u := unpacked{content: map[string]string{}}
	for i, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		if (i == 0) != (f.Name == "manifest.xml") {
			t.Fatalf("member %d is %s", i, f.Name)
		}
		if i == 0 {
			u.raw, u.manifest = text, parse(t, text)
			continue
		}
		u.content["/"+f.Name] = string(text)
	}
	used := map[string]bool{}
	for _, e := range u.manifest.packages {
		if e.Change == payload.Deleted {
			if e.Path != "" {
				t.Errorf("%s is deleted and has the path %s", e.Loc, e.Path)
			}
			continue
		}
		text, is := u.content[e.Path]
		used[e.Path] = true
		if !is || e.Hash != hashOf(text) || e.Length != strconv.Itoa(len(text)) {
			t.Errorf(
				"%s: path %q (%t), hash %s, length %s, but the content has %d bytes and %s", e.Loc,
				e.Path, is, e.Hash, e.Length, len(text), hashOf(text),
			)
		}
	}
	if len(used) != len(u.content) {
		t.Errorf("%d members are in no entry", len(u.content)-len(used))
	}
	return u
}

// dumped is what the packages of a document have: content by loc, as the last entry has it.
func (w *world) dumped(l listed) map[string]string {
	w.t.Helper()
	all := map[string]string{}
	for _, p := range l.packages {
		resp, file := w.get(p.Loc)
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/zip" {
			w.t.Fatalf("%s: %s", p.Loc, resp.Status)
		}
		if p.Length != strconv.Itoa(len(file)) || p.Hash != hashOf(string(file)) {
			w.t.Errorf("%s: told %s bytes, %s; it has %d, %s", p.Loc, p.Length, p.Hash, len(file), hashOf(string(file)))
		}
		u := open(w.t, file)
		if _, manifest := w.get(p.Links[0].Href); !bytes.Equal(manifest, u.raw) {
			w.t.Errorf("%s: the copy of the manifest is another", p.Loc)
		}
		for _, e := range u.manifest.packages {
			if e.Change == payload.Deleted {
				delete(all, e.Loc)
				continue
			}
			all[e.Loc] = u.content[e.Path]
		}
	}
	return all
}

// files are the names below the directory of the dumps.
func (w *world) files() (names []string) {
	w.t.Helper()
	err := filepath.WalkDir(w.dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(w.dir, name)
			names = append(names, rel)
		}
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	return names
}

// metric reports whether the metrics have the line.
func (w *world) metric(line string) bool {
	w.t.Helper()
	return strings.Contains(metrics(w.t, w.registry), line+"\n")
}

// metrics returns what a registry has, as text.
func metrics(t *testing.T, registry *prometheus.Registry) string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}

// counted holds the count of the disk that dumps take to what they take.
func (w *world) counted() {
	w.t.Helper()
	size := int64(0)
	for _, name := range w.files() {
		info, err := os.Stat(filepath.Join(w.dir, name))
		if err != nil {
			w.t.Fatal(err)
		}
		size += info.Size()
	}
	if !w.metric(fmt.Sprintf("carillon_notifier_dump_disk_bytes %v", float64(size))) {
		w.t.Errorf("the dumps have %d bytes, and another number is counted", size)
	}
}
