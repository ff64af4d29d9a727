package follow_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon/destination"
	"carillon/destination/follow"
	"carillon/destination/follow/followtest"
	"carillon/destination/lists"
	"carillon/payload"
)

const (
	memoryURI = "http://hub.example/memory"
	listURI   = "http://source.example/changelist.xml"
)

// source has changes, notifications of them, and lists: it is what a Follower
// follows, and the hub in between.
type source struct {
	mu            sync.Mutex // guards all that follows, the readings too
	entries       []payload.Entry
	notifications []*destination.Notification
	next          time.Time // where the next notification begins

	memory, list *reading // nil without one
	pushed       bool
}

// reading is how one of its lists is read.
type reading struct {
	fail   func(asked int) error // before each reading
	begins time.Time             // of what it has
	ends   time.Time             // an open list that is written late: zero: of all
	closed time.Time
	asked  int
	name   string // of the list
}

func newSource(begin time.Time) *source {
	return &source{next: begin, pushed: true, memory: &reading{begins: begin}, list: &reading{begins: begin}}
}

// change changes it while it is asked.
func (s *source) change(what func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what()
}

// publish makes n changes and the notification that has them.
func (s *source) publish(n int, made ...payload.Entry) *destination.Notification {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := s.next
	for i := range n {
		made = append(made, payload.Entry{
			Loc: fmt.Sprintf("http://source.example/%d", (len(s.entries)+i)%5), Change: payload.Updated,
			Datetime: from.Add(time.Duration(i) * time.Millisecond), Length: fmt.Sprint(len(s.entries) + i),
		})
	}
	s.next = from.Add(time.Second)
	for _, e := range made {
		if e.Datetime.After(s.next) {
			s.next = e.Datetime.Add(time.Microsecond)
		}
	}
	s.entries = append(s.entries, made...)
	note := notification(fmt.Sprint("n", len(s.notifications)), from, s.next, made)
	s.notifications = append(s.notifications, note)
	return note
}

// notification is one as the room hands it to a Sink.
func notification(id string, from, until time.Time, entries []payload.Entry) *destination.Notification {
	n := &destination.Notification{ID: id, ChangeNotification: true, Changes: entries}
	if !from.IsZero() {
		n.From, n.Until = payload.FormatDatetime(from), payload.FormatDatetime(until)
	}
	body := []byte(
		`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="change-notification"/>`,
	)
	for i := range entries {
		e := &entries[i]
		body = fmt.Appendf(body, `<url><loc>%s</loc><rs:md change=%q length=%q`, e.Loc, e.Change, e.Length)
		if !e.Datetime.IsZero() {
			body = fmt.Appendf(body, ` datetime=%q`, e.Datetime.Format(time.RFC3339Nano))
		}
		body = append(body, `/></url>`...)
	}
	n.Body = append(body, `</urlset>`...)
	n.Size = len(n.Body)
	return n
}

// Changes implements follow.Lists.
func (s *source) Changes(ctx context.Context, uri string, since time.Time, visit func(payload.Entry) error) (lists.Covered, error) {
	s.mu.Lock()
	r := s.list
	if uri == memoryURI {
		r = s.memory
	}
	r.asked++
	asked, fail, begins, ends, closed := r.asked, r.fail, r.begins, r.ends, r.closed
	if r.name != "" {
		lists.Begins(ctx, r.name)
	}
	s.mu.Unlock()
	if fail != nil {
		if err := fail(asked); err != nil {
			return lists.Covered{}, err
		}
	}
	if since.Before(begins) && !since.IsZero() {
		return lists.Covered{}, &lists.GoneError{URI: uri, Earliest: begins}
	}
	s.mu.Lock()
	entries := s.entries[:len(s.entries):len(s.entries)]
	if uri == memoryURI && closed.IsZero() { // what it covers is what the hub has relayed
		closed = s.next
		if !ends.IsZero() {
			closed = ends
		}
	}
	s.mu.Unlock()
	covered := lists.Covered{From: since, Until: later(since, begins), Open: true, Documents: 1}
	for _, e := range entries {
		if !ends.IsZero() && !e.Datetime.Before(ends) || !e.Datetime.IsZero() && e.Datetime.Before(later(since, begins)) {
			continue
		}
		if err := visit(e); err != nil {
			return covered, err
		}
		covered.Entries++
		covered.Until = later(covered.Until, e.Datetime)
	}
	if !closed.IsZero() {
		covered.Until, covered.Open = later(covered.Until, closed), false
	}
	return covered, nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// locator are where a source has its lists.
type locator struct{ *source }

func (s locator) ChangeMemory(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memory == nil {
		return "", nil
	}
	return memoryURI, nil
}

func (s locator) ChangeList(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.list == nil {
		return "", nil
	}
	return listURI, nil
}

func (s locator) Pushed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pushed
}

// handler takes changes, and fails as the test sets it.
type handler struct {
	mu   sync.Mutex
	took []follow.Change
	fail func(calls int, changes []follow.Change) (done int, err error)

	calls int
}

func (k *handler) Handle(_ context.Context, changes []follow.Change) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls++
	done, err := len(changes), error(nil)
	if k.fail != nil {
		done, err = k.fail(k.calls, changes)
	}
	k.took = append(k.took, changes[:done]...)
	return done, err
}

func (k *handler) changes() []follow.Change {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.took[:len(k.took):len(k.took)]
}

// fixture is a Follower with all that it needs.
type fixture struct {
	t       *testing.T
	src     *source
	store   *followtest.Store
	handler *handler
	cfg     follow.Config
	logs    bytes.Buffer

	f      atomic.Pointer[follow.Follower]
	cancel context.CancelFunc
	ran    chan error
}

// newFixture is within a bubble of synctest.
func newFixture(t *testing.T) *fixture {
	w := &fixture{t: t, src: newSource(time.Now()), store: &followtest.Store{}, handler: &handler{}}
	w.cfg = follow.Config{Store: w.store, Handler: w.handler, Lists: w.src, Locator: locator{w.src}, Logger: slog.New(slog.NewTextHandler(&w.logs, nil))}
	return w
}

func (w *fixture) start() {
	w.t.Helper()
	f, err := follow.New(w.cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.f.Store(f)
	w.cancel, w.ran = cancel, make(chan error, 1)
	ran := w.ran
	go func() { ran <- f.Run(ctx) }()
	synctest.Wait()
}

func (w *fixture) stop() error {
	w.cancel()
	return <-w.ran
}

// push delivers notifications and lets them be worked on.
func (w *fixture) push(all ...*destination.Notification) {
	w.t.Helper()
	for _, n := range all {
		if err := w.f.Load().Accept(n); err != nil {
			w.t.Errorf("the delivery of %s: %v", n.ID, err)
		}
	}
	synctest.Wait()
}

// sleep lets time pass, and what is due be done.
func (w *fixture) sleep(long time.Duration) {
	time.Sleep(long)
	synctest.Wait()
}

// want compares what was handed on with all the source's changes from the first on.
func (w *fixture) want(from int) {
	w.t.Helper()
	if err := inStep(w.handler.changes(), w.src.entries[from:]); err != nil {
		w.t.Errorf("%v\n%s", err, w.logs.String())
	}
}

// inStep reports where what was handed on is not each of the entries, once and in order.
func inStep(took []follow.Change, entries []payload.Entry) error {
	for i, c := range took {
		if i >= len(entries) {
			return fmt.Errorf("a further change: %s by %s", c.Key, c.Via)
		}
		if e := entries[i]; c.Loc != e.Loc || c.Length != e.Length || !c.Datetime.Equal(e.Datetime) {
			return fmt.Errorf("change %d is %s %s by %s; want %s %s", i, c.Loc, c.Datetime, c.Via, e.Loc, e.Datetime)
		}
	}
	if len(took) < len(entries) {
		return fmt.Errorf("%d changes were handed on of %d", len(took), len(entries))
	}
	return nil
}

// until is a moment.
type until struct{ atomic.Pointer[time.Time] }

func (u *until) set(wait time.Duration) { at := time.Now().Add(wait); u.Store(&at) }
func (u *until) lasts() bool            { at := u.Load(); return at != nil && time.Now().Before(*at) }

var errLater = errors.New("connection refused")
