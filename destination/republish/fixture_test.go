package republish_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/destination/follow"
	"carillon/destination/mirror"
	"carillon/destination/republish"
	"carillon/notifier"
	"carillon/payload"
	"carillon/store/pebblestore"
)

const (
	base = "http://mirror.test/files/"
	set  = "agg"
)

// checker is what a test and a property have in common.
type checker interface {
	Helper()
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

// source is a Source's server.
type source struct {
	*httptest.Server
	mu      sync.Mutex
	content map[string]string // by path; guarded by mu
	broken  map[string]int    // statuses by path; guarded by mu
	clock   time.Time
}

func newSource() *source {
	s := &source{content: map[string]string{}, broken: map[string]int{}, clock: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	s.Server = httptest.NewServer(s)
	return s
}

func (s *source) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	text, there := s.content[r.RequestURI]
	status := s.broken[r.RequestURI]
	s.mu.Unlock()
	switch {
	case status != 0:
		w.WriteHeader(status)
	case !there:
		http.NotFound(w, r)
	default:
		_, _ = io.WriteString(w, text)
	}
}

func (s *source) break_(path string, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken[path] = status
}

// put has the Source have a resource, and returns the change.
func (s *source) put(path, text string) follow.Change {
	s.mu.Lock()
	s.content[path] = text
	s.mu.Unlock()
	c := s.change(payload.Updated, path)
	c.Hash, c.Length, c.Type = hashOf(text), strconv.Itoa(len(text)), "text/plain"
	c.LastMod = c.Datetime.Format(time.RFC3339)
	return c
}

func (s *source) remove(path string) follow.Change {
	s.mu.Lock()
	delete(s.content, path)
	s.mu.Unlock()
	return s.change(payload.Deleted, path)
}

func (s *source) change(kind payload.Change, path string) follow.Change {
	s.clock = s.clock.Add(time.Minute)
	return follow.Change{Entry: payload.Entry{Loc: s.URL + path, Change: kind, Datetime: s.clock}}
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha-256:" + hex.EncodeToString(sum[:])
}

// intake is a notifier's, on the way to which anything may happen.
type intake struct {
	*httptest.Server
	notifier *notifier.Notifier
	way      http.RoundTripper

	mu     sync.Mutex
	next   func(pass func() (*http.Response, error)) (*http.Response, error) // guarded by mu
	bodies [][]byte                                                          // guarded by mu: of all requests
}

func newIntake(c checker) *intake {
	journal, err := pebblestore.OpenJournal(pebblestore.Config{Dir: "journal", FS: vfs.NewMem()})
	if err != nil {
		c.Fatalf("%v", err)
	}
	i := &intake{way: &http.Transport{}}
	i.notifier, err = notifier.New(context.Background(), notifier.Config{
		Journal: journal, URL: "http://notifier.test/", Hub: "http://hub.test/", Sets: []string{set, "other"}, Within: []string{"other"},
	})
	if err != nil {
		c.Fatalf("%v", err)
	}
	i.Server = httptest.NewServer(i.notifier.Intake())
	return i
}

func (i *intake) target() republish.Target {
	return republish.Target{Intake: i.URL + "/sets/" + set + "/events", Base: base}
}

func (i *intake) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	i.mu.Lock()
	i.bodies = append(i.bodies, body)
	next := i.next
	i.next = nil
	i.mu.Unlock()
	pass := func() (*http.Response, error) { return i.way.RoundTrip(r) }
	if next != nil {
		return next(pass)
	}
	return pass()
}

// once has the next request be treated so.
func (i *intake) once(f func(pass func() (*http.Response, error)) (*http.Response, error)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.next = f
}

var errCut = errors.New("the way is cut")

// lost does not reach the intake; unanswered does, and the answer is lost.
func lost(func() (*http.Response, error)) (*http.Response, error) { return nil, errCut }

func unanswered(pass func() (*http.Response, error)) (*http.Response, error) {
	if resp, err := pass(); err == nil {
		resp.Body.Close()
	}
	return nil, errCut
}

// published is the set's Change List.
func (i *intake) published(c checker) (all []payload.Entry) {
	c.Helper()
	w := httptest.NewRecorder()
	i.notifier.Public().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+set+"/changelist/open.xml", nil))
	if w.Code != http.StatusOK {
		c.Fatalf("the Change List: %d %s", w.Code, w.Body)
	}
	r := payload.NewReader(w.Body, payload.Limits{})
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			c.Fatalf("%v", err)
		}
		all = append(all, e)
	}
}

// faulty fails calls of a store: before they are made, or after.
type faulty struct {
	mirror.Catalog
	republish.Outbox
	plan func(call string) (before, after bool)
}

var errStore = errors.New("the store fails")

func (f *faulty) do(call string, made func() error) error {
	before, after := f.plan(call)
	if before {
		return errStore
	}
	if err := made(); err != nil || !after {
		return err
	}
	return errStore
}

func (f *faulty) Save(ctx context.Context, copies []mirror.Copy, forget []string) error {
	return f.do("Save", func() error { return f.Catalog.Save(ctx, copies, forget) })
}

func (f *faulty) Collect(ctx context.Context) error {
	return f.do("Collect", func() error { return f.Outbox.Collect(ctx) })
}

func (f *faulty) Next(ctx context.Context, limit, size int) (items []republish.Item, err error) {
	err = f.do("Next", func() (err error) {
		items, err = f.Outbox.Next(ctx, limit, size)
		return err
	})
	if err != nil {
		return nil, err
	}
	return items, nil
}

func (f *faulty) Settle(ctx context.Context, n int, refused string) error {
	return f.do("Settle", func() error { return f.Outbox.Settle(ctx, n, refused) })
}

// aggregator is a mirror that is published.
type aggregator struct {
	c      checker
	from   *source
	to     *intake
	dir    string
	disk   *vfs.MemFS
	store  *pebblestore.Destination
	faulty *faulty
	mirror *mirror.Mirror
	out    *republish.Publisher
	delete bool
}

func newAggregator(t *testing.T, c checker) *aggregator {
	a := &aggregator{c: c, from: newSource(), to: newIntake(c), dir: t.TempDir(), disk: vfs.NewCrashableMem(), delete: true}
	a.faulty = &faulty{plan: func(string) (bool, bool) { return false, false }}
	a.open()
	return a
}

func (a *aggregator) check(err error) {
	a.c.Helper()
	if err != nil {
		a.c.Fatalf("%v", err)
	}
}

// open opens the store and the mirror.
func (a *aggregator) open() {
	var err error
	a.store, err = pebblestore.OpenDestination(pebblestore.Config{Dir: "d", FS: a.disk})
	a.check(err)
	a.faulty.Catalog, a.faulty.Outbox = a.store.Mirrored(), a.store.Outbox()
	a.mirror, err = mirror.New(mirror.Config{
		Dir: a.dir, Bases: []string{a.from.URL + "/"}, Catalog: a.faulty, Ledger: a.store.Ledger(), MinFree: 1, Delete: a.delete,
		RetryFirst: time.Hour, RetryMax: time.Hour,
	})
	a.check(err)
}

// publish begins to publish.
func (a *aggregator) publish() {
	a.c.Helper()
	_, err := a.store.Outbox().Open(context.Background(), a.to.target())
	a.check(err)
	a.out, err = republish.New(republish.Config{Outbox: a.faulty, Target: a.to.target(), Transport: a.to})
	a.check(err)
}

// kill ends the process without warning: writes without a sync are lost.
func (a *aggregator) kill() {
	died := a.disk.CrashClone(vfs.CrashCloneCfg{})
	a.close()
	a.disk = died
	a.open()
}

func (a *aggregator) close() {
	a.check(errors.Join(a.mirror.Close(), a.store.Close()))
}

func (a *aggregator) end() {
	a.close()
	a.to.Close()
	a.from.Close()
}

// handle hands changes to the mirror, and returns how many are done with.
func (a *aggregator) handle(changes ...follow.Change) (done int, err error) {
	for done < len(changes) {
		n, err := a.mirror.Handle(context.Background(), changes[done:])
		if done += n; err != nil {
			return done, err
		}
	}
	return done, nil
}

// drain hands over all that waits.
func (a *aggregator) drain() {
	a.c.Helper()
	ctx := context.Background()
	a.check(a.faulty.Collect(ctx))
	for {
		more, err := a.out.Step(ctx)
		if a.check(err); !more {
			break
		}
	}
	if n, err := a.faulty.Waiting(ctx); err != nil || n != 0 {
		a.c.Fatalf("%d wait, %v", n, err)
	}
}
