package notifier

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"

	"github.com/gorilla/mux"
	"golang.org/x/sync/errgroup"

	"carillon/internal/await"
	"carillon/internal/bodies"
)

// maxImports is how many snapshots are taken at the same time: 503 beyond that. Only the free disk
// space bounds the size of one; the journal leaves some free.
const maxImports = 4

// imports carries out the imports that were sealed: the differences of a snapshot become events.
type imports struct {
	n      *Notifier
	taking chan struct{} // a token for each snapshot that may be taken
	wake   chan struct{} // holds one token: something was sealed

	mu      sync.Mutex
	waiting map[string]*importWait // guarded by mu, by set
	stopped bool                   // guarded by mu: Run has ended
}

// importWait is a request that waits for the end of an import.
type importWait struct {
	done chan struct{} // closed at its end, or when Run ends
	made Differences
	// pending: Run has ended before; the next one goes on with it.
	pending bool
}

func newImports(n *Notifier) *imports {
	return &imports{
		n: n, taking: make(chan struct{}, maxImports), wake: make(chan struct{}, 1),
		waiting: map[string]*importWait{},
	}
}

func (m *imports) await(set string) *importWait {
	m.mu.Lock()
	defer m.mu.Unlock()
	wait := &importWait{done: make(chan struct{})}
	if m.stopped {
		wait.pending = true
		close(wait.done)
		return wait
	}
	m.waiting[set] = wait
	return wait
}

// ended signals the requests that wait for the import into a set.
func (m *imports) ended(set string, made Differences) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if wait := m.waiting[set]; wait != nil {
		wait.made = made
		close(wait.done)
		delete(m.waiting, set)
	}
}

// stop signals all waiting requests that Run has ended.
func (m *imports) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped = true
	for set, wait := range m.waiting {
		wait.pending = true
		close(wait.done)
		delete(m.waiting, set)
	}
}

// run applies what is sealed, also by an earlier run, until ctx ends.
func (m *imports) run(ctx context.Context) {
	defer m.stop()
	var g errgroup.Group
	for ctx.Err() == nil {
		var sealed []ResourceImport
		err := patiently(ctx, m.n.log, "looking for imports", func() (err error) {
			sealed, err = m.n.cfg.Journal.ResumeImports(ctx)
			return err
		})
		if err != nil && ctx.Err() == nil {
			m.n.log.Error("imports cannot be gone on with; it is tried again at the next one", "error", err)
		}
		for _, i := range sealed {
			g.Go(func() error {
				m.apply(ctx, i)
				return nil
			})
		}
		select {
		case <-ctx.Done():
		case <-m.wake:
		}
	}
	_ = g.Wait() // they return nil
}

// apply makes events of an import's differences, for as long as it takes.
func (m *imports) apply(ctx context.Context, i ResourceImport) {
	var made Differences
	ch, pause := m.n.byName[i.Set()], newBackOff()
	for more := true; more && ctx.Err() == nil; {
		var step Differences
		var err error
		step, more, err = i.Apply(ctx, m.n.clock.Now())
		if err != nil && ctx.Err() == nil {
			more = true
			m.n.metrics.journalErrors.Inc()
			wait := min(pause.NextBackOff(), longestRetry)
			m.n.log.Error(
				"trouble with the journal; the import will go on", "set", i.Set(), "error", err,
				"retry_in", wait.String(),
			)
			_ = await.For(ctx, wait)
			continue
		}
		pause.Reset()
		made.add(step)
		if ch != nil && step.Total() > 0 { // a set may be left out of this start
			ch.came(step.Total())
		}
	}
	if err := i.Close(); err != nil {
		m.n.log.Error("an import could not be closed", "set", i.Set(), "error", err)
	}
	if ctx.Err() != nil {
		return
	}
	m.n.log.Info(
		"an import was carried out", "set", i.Set(), "created", made.Created,
		"updated", made.Updated, "deleted", made.Deleted,
	)
	m.ended(i.Set(), made)
	m.n.RenewResourceList(i.Set())
}

// Import takes a snapshot of a set: NDJSON, a resource on each line, whole or not at all.
// Where the set's resources were known the differences become events, by Run; it
// returns when they are in the journal, or, with Pending, when Run has ended: then the next
// start goes on. So it does when ctx ends, if the snapshot was read to its end. An empty one is
// refused where the set has resources, unless that is allowed.
func (n *Notifier) Import(ctx context.Context, set string, r io.Reader, allowEmpty bool) (Imported, error) {
	sealed, done, err := Importer{Store: n.cfg.Journal, Now: n.clock.Now, AllowEmpty: allowEmpty}.Read(ctx, set, r)
	if err != nil {
		if errors.Is(err, ErrUnavailable) {
			n.metrics.journalErrors.Inc()
		}
		return done, err
	}
	if sealed == nil {
		n.RenewResourceList(set)
		return done, nil
	}
	wait := n.imports.await(set)
	if err := sealed.Close(); err != nil { // Run goes on with it
		return done, err
	}
	await.Wake(n.imports.wake)
	select {
	case <-wait.done:
		done.Differences, done.Pending = wait.made, wait.pending
		return done, nil
	case <-ctx.Done():
		return done, ctx.Err()
	}
}

// serve answers PUT /sets/NAME/resources.
func (m *imports) serve(w http.ResponseWriter, r *http.Request) (status int, err error) {
	if err := only(r, http.MethodPut); err != nil {
		return 0, err
	}
	set := mux.Vars(r)["set"]
	if m.n.byName[set] == nil {
		return 0, refuse(http.StatusNotFound, "There is no such set.")
	}
	if err := m.n.gate.open(set); err != nil {
		return 0, err
	}
	if err := ndjson(r.Header); err != nil {
		return 0, err
	}
	select {
	case m.taking <- struct{}{}:
		defer func() { <-m.taking }()
	default:
		return 0, tooManyLarge(nil)
	}
	body, err := snapshotBody(w, r)
	if err != nil {
		return 0, err
	}
	done, err := m.n.Import(r.Context(), set, body, r.URL.Query().Get("allow-empty") == "true")
	if errors.Is(err, ErrImporting) {
		return 0, refuse(http.StatusConflict, "Another import into this set is under way.")
	}
	if err != nil {
		return 0, body.explain(err)
	}
	w.Header().Set("Content-Type", "application/json")
	if status = http.StatusOK; done.Pending {
		status = http.StatusAccepted
	}
	w.WriteHeader(status)
	// A client that has gone needs no answer.
	_ = json.NewEncoder(w).Encode(importAnswer{
		Resources: done.Resources, Events: done.Events, Pending: done.Pending,
		Created: done.Created, Updated: done.Updated, Deleted: done.Deleted,
	})
	return status, nil
}

// importAnswer is the answer to an import: 200, or 202 where it is pending.
type importAnswer struct {
	Resources int  `json:"resources"`
	Events    bool `json:"events"`
	Pending   bool `json:"pending,omitempty"`
	Created   int  `json:"created"`
	Updated   int  `json:"updated"`
	Deleted   int  `json:"deleted"`
}

func ndjson(header http.Header) error {
	kinds := header.Values("Content-Type")
	if len(kinds) == 1 {
		kind, params, err := mime.ParseMediaType(kinds[0])
		charset, given := params["charset"]
		if err == nil && kind == "application/x-ndjson" && (!given || strings.EqualFold(charset, "utf-8")) {
			return nil
		}
	}
	return refuse(
		http.StatusUnsupportedMediaType,
		"The Content-Type must be application/x-ndjson (a resource on each line), in UTF-8.",
	)
}

// streamedBody is a snapshot as it comes, unpacked.
type streamedBody struct {
	io.Reader
	err error // why it could not be read to its end
}

func (b *streamedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// explain separates trouble with the sender from that with the journal.
func (b *streamedBody) explain(err error) error {
	if b.err != nil {
		return bodyError(b.err)
	}
	return err
}

func snapshotBody(w http.ResponseWriter, r *http.Request) (*streamedBody, error) {
	unpack, err := unpacking(r)
	if err != nil {
		return nil, err
	}
	source, err := bodies.Limits{Idle: bodyIdle, Rate: bodyRate, Unpack: unpack}.Stream(w, r)
	if err != nil {
		return nil, bodyError(err)
	}
	return &streamedBody{Reader: source}, nil
}
