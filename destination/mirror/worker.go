package mirror

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"carillon/destination/packages"
	"carillon/internal/fetch"
	"carillon/internal/legible"
	"carillon/payload"
)

// worker does jobs: it fetches, verifies and removes copies, and records the outcome of them. It
// owns the directory, and what is known of hosts and paths.
type worker struct {
	cfg    Config
	bases  []base
	tree   *tree
	fetch  *fetcher
	hosts  *fetch.Hosts
	slots  chan struct{} // that fetch, or read files
	busy   keys
	claims claims
	counts counters
	lines  quiet
	wake   chan struct{}             // something is due that was not
	moment atomic.Pointer[time.Time] // at which the copies are kept, by BaselineAt; nil: they are not
}

func newWorker(cfg Config) *worker {
	return &worker{
		cfg: cfg, hosts: newHosts(&cfg), slots: make(chan struct{}, cfg.Parallel),
		claims: claims{catalog: cfg.Catalog}, wake: make(chan struct{}, 1),
	}
}

// described is what an entry says, with a line on what of it is not believed.
func (w *worker) described(e *payload.Entry) Described {
	t := describedBy(e)
	if t != (Described{
		e.Change, e.Datetime, e.LastMod, e.Hash, e.Length, e.Type, e.Encoding, t.Links,
	}) && w.lines.may(w.cfg.Logger) {
		w.cfg.Logger.Warn("a part of a resource's description is passed over: a datetime in the future, or a text that is too long",
			"loc", legible.Cut(e.Loc), "datetime", e.Datetime, "limit_bytes", maxDescribed)
	}
	return t
}

// overlong reports whether a loc is too long to be asked for. It is not even recorded: the Catalog would
// grow by what a stranger likes.
func (w *worker) overlong(loc string) bool {
	if len(loc) <= maxLoc {
		return false
	}
	w.counts.invalid.Add(1)
	if w.lines.may(w.cfg.Logger) {
		w.cfg.Logger.Warn("a resource is not mirrored: its loc is too long",
			"loc", legible.Cut(loc), "bytes", len(loc), "limit_bytes", maxLoc)
	}
	return true
}

// allowed reports why a resource is not mirrored, if it is not.
func (w *worker) allowed(loc string) (*url.URL, error) {
	u, err := parseLoc(loc)
	if err != nil {
		return nil, &failure{state: Invalid, reason: err.Error()}
	}
	if !w.below(u) {
		return nil, &failure{state: Refused, reason: "it is outside of what is mirrored (--base)"}
	}
	return u, nil
}

// below reports whether a URL is below one of the bases.
func (w *worker) below(u *url.URL) bool {
	return slices.ContainsFunc(w.bases, func(b base) bool { return b.has(u) })
}

// again is when something that failed for so many times in a row is tried again; its server may ask for
// a longer wait, up to RetryMax.
func (w *worker) again(tries int, after time.Duration) time.Time {
	wait := w.cfg.RetryMax
	if shift := min(tries-1, 30); w.cfg.RetryFirst<<shift>>shift == w.cfg.RetryFirst {
		wait = min(w.cfg.RetryFirst<<shift, w.cfg.RetryMax)
	}
	wait = wait/2 + rand.N(wait/2+1)
	return time.Now().Add(min(max(wait, after), w.cfg.RetryMax)).UTC().Truncate(time.Microsecond)
}

// log logs the outcome of a resource, the first time that it failed.
func (w *worker) log(c *Copy, aside bool) {
	level := slog.LevelWarn
	switch {
	case aside || c.Tries > 1:
		level = slog.LevelDebug
	case c.State == Missing, c.State == Refused && w.cfg.Chosen:
		level = slog.LevelInfo
	}
	if level > slog.LevelDebug && !w.lines.may(w.cfg.Logger) {
		return
	}
	what := []any{
		"loc", legible.Cut(c.Loc), "state", string(c.State), "reason", legible.Cut(c.Reason), "tries", c.Tries,
	}
	if !c.Next.IsZero() {
		what = append(what, "next", c.Next)
	}
	w.cfg.Logger.Log(context.Background(), level, "a resource was not mirrored", what...)
}

// kept reports whether the copies are kept at a moment.
func (w *worker) kept() bool { return w.moment.Load() != nil }

// free returns ErrKept where the copies are kept at a moment.
func (w *worker) free() error {
	if at := w.moment.Load(); at != nil {
		return fmt.Errorf("%w, %s", ErrKept, payload.FormatDatetime(*at))
	}
	return nil
}

// job is what is to be done for one resource.
type job struct {
	loc       string
	described Described
	// retry: it is tried again; the job then has the description of before.
	retry bool
	// unlisted: it is deleted since the list lacks it, by the datetime up to which that is known; no list
	// announces the deletion. keep: its file stays, whatever Config.Delete says.
	unlisted, keep bool

	// packed is the content that a package has; nil: it is fetched.
	packed *packed
	// packedOnly: the job ends if its content does not match the description. Another package may have it.
	packedOnly bool

	copy    Copy // the known copy; its State is empty for an unknown one
	url     *url.URL
	claimed string

	// The outcome.
	save, forget bool
	finished     bool // for good: the Catalog has it; read after pool.wait
}

// keys are locks by name.
type keys struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed when it is free; guarded by mu
}

func (k *keys) lock(ctx context.Context, name string) error {
	for {
		k.mu.Lock()
		held := k.held[name]
		if held == nil {
			if k.held == nil {
				k.held = map[string]chan struct{}{}
			}
			k.held[name] = make(chan struct{})
			k.mu.Unlock()
			return nil
		}
		k.mu.Unlock()
		select {
		case <-held:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (k *keys) unlock(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	close(k.held[name])
	delete(k.held, name)
}

// packed is a content in a package.
type packed struct {
	from      *packages.Package
	path      string
	described Described // by the manifest
	// listed is the moment of the list with the job's description; zero for a change.
	listed time.Time
}
