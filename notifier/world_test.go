package notifier_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/notifier"
	"carillon/notifier/journaltest"
	"carillon/payload"
	"carillon/store/pebblestore"
)

const (
	base   = "http://source.example/"
	hubURL = "http://hub.example/websub/"
)

// hub is a hub within the process: it is the Transport of a notifier.
type hub struct {
	// answer gives the answer to the POST with the number (from 1), or an error
	// for none; nil: always 200.
	answer func(number int, r *http.Request) (*http.Response, error)

	mu    sync.Mutex
	posts []post
}

// post is a POST that the hub received.
type post struct {
	at     time.Time
	header http.Header
	body   []byte
	took   bool // answered with 2xx
}

func (h *hub) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	number := len(h.posts) + 1
	h.posts = append(h.posts, post{at: time.Now(), header: r.Header, body: body})
	h.mu.Unlock()
	resp, err := status(http.StatusOK), error(nil)
	if answer := h.answers(); answer != nil {
		resp, err = answer(number, r)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.posts[number-1].took = err == nil && resp.StatusCode/100 == 2
	return resp, err
}

func (h *hub) answers() func(int, *http.Request) (*http.Response, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.answer
}

// set changes how the hub answers while the notifier is running.
func (h *hub) set(answer func(int, *http.Request) (*http.Response, error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = answer
}

func status(code int) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("ok"))}
}

func (h *hub) received() []post {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]post(nil), h.posts...)
}

// notes are the notifications of a topic that the hub has, in the order of
// their first arrival, each once.
func (h *hub) notes(t interface {
	Helper()
	Fatalf(string, ...any)
}, set string,
) []note {
	t.Helper()
	var notes []note
	seen := map[string]bool{}
	for _, p := range h.received() {
		if !strings.HasPrefix(p.header.Get("Link"), "<"+base+set+"/change/>") || seen[string(p.body)] {
			continue
		}
		seen[string(p.body)] = true
		n, err := readNote(p.body)
		if err != nil {
			t.Fatalf("%v in\n%s", err, p.body)
		}
		notes = append(notes, n)
	}
	return notes
}

// note is a notification as a Destination reads it.
type note struct {
	from, until time.Time
	entries     []payload.Entry
}

func readNote(body []byte) (note, error) {
	summary, err := payload.ValidateNotification(bytes.NewReader(body))
	if err != nil {
		return note{}, err
	}
	n := note{from: summary.FromTime, until: summary.UntilTime}
	r := payload.NewReader(bytes.NewReader(body), payload.Limits{})
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return note{}, err
		}
		n.entries = append(n.entries, e)
	}
}

func (n note) locs() []string {
	var locs []string
	for i := range n.entries {
		locs = append(locs, n.entries[i].Loc)
	}
	return locs
}

// checkChain holds the notifications of one set to CN §3: consecutive intervals,
// entries in order within them, none empty, and none twice.
func checkChain(notes []note) error {
	seen := map[string]bool{}
	for i, n := range notes {
		if i > 0 && !n.from.Equal(notes[i-1].until) {
			return fmt.Errorf("notification %d is from %s; the one before ends at %s", i, n.from, notes[i-1].until)
		}
		if len(n.entries) == 0 {
			return fmt.Errorf("notification %d is empty", i)
		}
		last := n.from.Add(-1)
		for _, e := range n.entries {
			if !e.Datetime.After(last) || !e.Datetime.Before(n.until) {
				return fmt.Errorf("notification %d, %s: datetime %s is not after %s and before %s", i, e.Loc, e.Datetime, last, n.until)
			}
			last = e.Datetime
			if seen[e.Loc] {
				return fmt.Errorf("%s is told twice", e.Loc)
			}
			seen[e.Loc] = true
		}
	}
	return nil
}

// world is a running notifier with its hub.
type world struct {
	*notifier.Notifier
	t    testing.TB
	fs   vfs.FS
	hub  *hub
	cfg  notifier.Config
	wrap func(notifier.Store) notifier.Store
	stop func()
}

// newWorld starts a notifier on a new journal in memory.
func newWorld(t testing.TB, cfg notifier.Config, h *hub) *world {
	t.Helper()
	cfg.URL, cfg.Hub, cfg.Transport = base, hubURL, h
	w := &world{t: t, fs: vfs.NewMem(), hub: h, cfg: cfg}
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
	cfg := w.cfg
	cfg.Journal = journal
	if w.wrap != nil {
		cfg.Journal = w.wrap(journal)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	n, err := notifier.New(context.Background(), cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Notifier = n
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-ended, journal.Close()); err != nil {
			w.t.Error(err)
		}
	})
}

// restart stops the notifier and starts it again on the same data.
func (w *world) restart() {
	w.t.Helper()
	w.stop()
	w.start()
}

// add takes events that are known by their locs.
func (w *world) add(sets []string, locs ...string) {
	w.t.Helper()
	var events []notifier.Event
	for _, loc := range locs {
		events = append(events, journaltest.Created("http://a.example/"+loc, sets...))
	}
	if err := w.Append(context.Background(), events); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) drain() {
	w.t.Helper()
	if err := w.Drain(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

var inDefault = []string{notifier.DefaultSet}
