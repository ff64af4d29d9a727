//go:build !race

package main

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"carillon/payload"
)

const (
	resources   = 100 // that the Source has at first
	listEntries = 100 // of one of its Change Lists
	// retryFor is when the hub gives up: within it a callback that refuses is tried ten
	// times and more, as pauses are 50 ms on the average at most.
	retryFor = 600 * time.Millisecond
)

// said is what is said of a resource, as an event and as a line of the Destination.
type said struct {
	Loc     string          `json:"loc"`
	Change  string          `json:"change,omitempty"`
	LastMod string          `json:"lastmod,omitempty"`
	Hash    string          `json:"hash,omitempty"`
	Length  json.RawMessage `json:"length,omitempty"`
	Type    string          `json:"type,omitempty"`
}

func (s said) String() string {
	return fmt.Sprint(s.Loc, " ", s.Change, " ", s.LastMod, " ", s.Hash, " ", string(s.Length), " ", s.Type)
}

// saidOf is the same of an entry of a document.
func saidOf(e *payload.Entry) said {
	return said{e.Loc, string(e.Change), e.LastMod, e.Hash, json.RawMessage(e.Length), e.Type}
}

// network is a Source with a notifier, and a hub.
type network struct {
	t             *testing.T
	rng           *rand.Rand
	dir           string
	hubArgs       []string
	hub, notifier *child
	topic         string
	has           map[string]said // what the Source has
	events        []said          // all that happened
}

func hubArgs(t *testing.T, dir string) []string {
	return []string{
		"--listen", freeAddress(t), "--admin", "127.0.0.1:0", "--store", "pebble:" + filepath.Join(dir, "hub"),
		"--retry-first", "20ms", "--retry-max", "100ms", "--retry-for", retryFor.String(),
	}
}

func newNetwork(t *testing.T) *network {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	w := &network{t: t, rng: rand.New(rand.NewPCG(seed, 0)), dir: t.TempDir(), has: map[string]said{}}
	w.hubArgs = hubArgs(t, w.dir)
	w.hub = launch(t, "hub", w.hubArgs...)
	// Each event is a notification of its own.
	w.notifier = launch(t, "notifier", "--listen", "127.0.0.1:0", "--intake", "127.0.0.1:0", "--hub", w.hub.ready["url"],
		"--data", filepath.Join(w.dir, "notifier"), "--set", "town", "--max-entries", "1", "--max-wait", "1ms",
		"--changelist-entries", fmt.Sprint(listEntries))
	w.topic = w.notifier.ready["url"] + "town/change/"
	for i := range resources {
		w.create(i)
	}
	if got := w.take(); !strings.HasSuffix(got, "they are what the set has\n") {
		t.Fatalf("the import: %s", got)
	}
	return w
}

// create has the Source have a resource, or another version of it.
func (w *network) create(i int) said {
	loc := fmt.Sprintf("http://source.example/%d?a=1&b='%d'", i, i)
	sum := md5.Sum(fmt.Append(nil, len(w.events), loc))
	s := said{
		Loc: loc, LastMod: "2026-01-02T03:04:05Z", Hash: "md5:" + hex.EncodeToString(sum[:]),
		Length: json.RawMessage(fmt.Sprint(len(w.events))), Type: "text/plain",
	}
	w.has[loc] = s
	return s
}

// happen makes a change, of a few resources again and again.
func (w *network) happen() said {
	i := w.rng.IntN(resources + 20)
	before, there := w.has[fmt.Sprintf("http://source.example/%d?a=1&b='%d'", i, i)]
	if there && w.rng.IntN(4) == 0 {
		delete(w.has, before.Loc)
		return said{Loc: before.Loc, Change: "deleted"}
	}
	s := w.create(i)
	s.Change = "created"
	if there {
		s.Change = "updated"
	}
	return s
}

// post sends the notifier so many changes.
func (w *network) post(n int) {
	w.t.Helper()
	var body bytes.Buffer
	lines := json.NewEncoder(&body)
	for range n {
		s := w.happen()
		w.events = append(w.events, s)
		if err := lines.Encode(s); err != nil {
			w.t.Fatal(err)
		}
	}
	resp, err := http.Post("http://"+w.notifier.ready["intake"]+"/sets/town/events", "application/x-ndjson", &body)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusAccepted {
		w.t.Fatalf("%s %s", resp.Status, answer)
	}
}

// awaitPublished waits until every event was published, by a notification each.
func (w *network) awaitPublished() {
	w.t.Helper()
	w.notifier.await("notifications", func() bool {
		return w.notifier.countLogged("the hub accepted a notification") == len(w.events)
	})
}

// take has the notifier take a snapshot of what the Source has, and make a Resource
// List; it returns what that came to.
func (w *network) take() string {
	w.t.Helper()
	const made = "a Resource List was made"
	w.notifier.mu.Lock()
	before := w.notifier.countLogged(made)
	w.notifier.mu.Unlock()
	var snapshot, stderr bytes.Buffer
	lines := json.NewEncoder(&snapshot)
	for _, loc := range slices.Sorted(maps.Keys(w.has)) {
		s := w.has[loc]
		s.Change = ""
		if err := lines.Encode(s); err != nil {
			w.t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(w.t.Context(), filepath.Join(programs(w.t), "notifier"), "import", "town",
		"--data", filepath.Join(w.dir, "notifier"), "--intake", w.notifier.ready["intake"])
	cmd.Stdin, cmd.Stderr = &snapshot, &stderr
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("%v: %s", err, &stderr)
	}
	w.notifier.await("a Resource List", func() bool { return w.notifier.countLogged(made) > before })
	return string(out)
}

// givenUp counts what the hub has given up, by subscription, from a line of its log on.
// It is called with w.hub.mu held.
func (w *network) givenUp(from int) map[string]int {
	lost := map[string]int{}
	for _, r := range w.hub.log[from:] {
		if r.Msg == "notifications given up: their time is over" {
			lost[r.Subscription] += int(r.Last - r.First + 1)
		}
	}
	return lost
}

// loggedSoFar is where the hub's log ends.
func (w *network) loggedSoFar() int {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	return len(w.hub.log)
}

// awaitGivenUp waits until the hub has given up so many notifications for each of so many
// subscriptions, and counts them.
func (w *network) awaitGivenUp(from, subscriptions, each int) (all int) {
	w.t.Helper()
	w.hub.await("it to give up", func() bool {
		lost := w.givenUp(from)
		for _, n := range lost {
			if n < each {
				return false
			}
		}
		return len(lost) == subscriptions
	})
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	for _, n := range w.givenUp(from) {
		all += n
	}
	return all
}

// document reads a document of the Source.
func (w *network) document(uri string) (payload.Header, []payload.Entry) {
	w.t.Helper()
	resp, err := http.Get(uri)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		w.t.Fatalf("%s: %s", uri, resp.Status)
	}
	r := payload.NewReader(resp.Body, payload.Limits{})
	var all []payload.Entry
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			w.t.Fatalf("%s: %v", uri, err)
		}
		all = append(all, e)
	}
	head, err := r.Header()
	if err != nil {
		w.t.Fatal(err)
	}
	return head, all
}

// changeLists reads all that the Source's Change Lists have, and how many of them are closed.
func (w *network) changeLists() (all []payload.Entry, closed int) {
	w.t.Helper()
	head, parts := w.document(w.notifier.ready["url"] + "town/changelist.xml")
	if head.Root != payload.RootSitemapIndex {
		return parts, 0
	}
	for _, part := range parts {
		if part.Until != "" {
			closed++
		}
		_, entries := w.document(part.Loc)
		all = append(all, entries...)
	}
	return all, closed
}

// relay is the way to a server, which may be cut while that is there.
type relay struct {
	*httptest.Server
	to   atomic.Pointer[url.URL]
	cut  atomic.Bool
	seen chan string // the requests, for tests that read them
}

func newRelay(t *testing.T, seen chan string) *relay {
	r := &relay{seen: seen}
	way := &httputil.ReverseProxy{
		Rewrite:      func(p *httputil.ProxyRequest) { p.SetURL(r.to.Load()) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if r.cut.Load() || r.to.Load() == nil {
			panic(http.ErrAbortHandler)
		}
		if r.seen != nil {
			r.seen <- req.URL.Path
		}
		way.ServeHTTP(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

// leadTo has it lead to what a process listens on.
func (r *relay) leadTo(c *child) {
	r.to.Store(&url.URL{Scheme: "http", Host: c.ready["listen"]})
}
