package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"carillon/destination/follow"
	"carillon/internal/fetch"
	"carillon/internal/legible"
	"carillon/payload"
)

// worker does jobs: it fetches, verifies and removes copies, and records what became of them. It
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

// take is Take with a content that a package may have of a change.
func (w *worker) take(
	ctx context.Context, changes []follow.Change, content func(*payload.Entry) *packed,
) (done int, err error) {
	if err := w.free(); err != nil {
		return 0, err
	}
	changes = changes[:min(len(changes), maxTake)]
	last := make(map[string]*job, len(changes))
	for i := range changes {
		e := &changes[i].Entry
		last[e.Loc] = &job{loc: e.Loc, told: w.told(e), packed: content(e)}
	}
	p := w.newPool(ctx)
	submitted := make(map[string]bool, len(last))
	for i := range changes {
		loc := changes[i].Loc
		if submitted[loc] {
			continue
		}
		submitted[loc] = true
		if w.overlong(loc) {
			last[loc].finished = true
			continue
		}
		if err = p.submit(last[loc]); err != nil {
			break
		}
	}
	err = p.wait()
	for done < len(changes) && last[changes[done].Loc].finished {
		done++
	}
	return done, err
}

// told is what an entry says, with a line on what of it is not believed.
func (w *worker) told(e *payload.Entry) Told {
	t := toldBy(e)
	if t != (Told{e.Change, e.Datetime, e.LastMod, e.Hash, e.Length, e.Type, e.Encoding, t.Links}) && w.lines.may(w.cfg.Logger) {
		w.cfg.Logger.Warn("what a Source tells of a resource is passed over: a datetime in the future, or a text that is too long",
			"loc", legible.Cut(e.Loc), "datetime", e.Datetime, "limit_bytes", maxTold)
	}
	return t
}

// overlong tells whether a loc is too long to be asked for. It is not even recorded: the Catalog would
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

// allowed tells why a resource is not mirrored, if it is not.
func (w *worker) allowed(loc string) (*url.URL, error) {
	u, err := parseLoc(loc)
	if err != nil {
		return nil, &trouble{state: Invalid, reason: err.Error()}
	}
	if !w.below(u) {
		return nil, &trouble{state: Refused, reason: "it is outside of what is mirrored (--base)"}
	}
	return u, nil
}

// below tells whether a URL is below one of the bases.
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

// tell logs what became of a resource, the first time that it failed.
func (w *worker) tell(c *Copy, aside bool) {
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
	what := []any{"loc", legible.Cut(c.Loc), "state", string(c.State), "reason", legible.Cut(c.Reason), "tries", c.Tries}
	if !c.Next.IsZero() {
		what = append(what, "next", c.Next)
	}
	w.cfg.Logger.Log(context.Background(), level, "a resource was not mirrored", what...)
}

// quiet bounds how many lines there are about single resources.
type quiet struct {
	mu    sync.Mutex
	from  time.Time // of the minute; guarded by mu
	lines int       // in it; guarded by mu
}

// maxLines is how many lines a minute there are about single resources.
const maxLines = 100

func (q *quiet) may(logger *slog.Logger) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now := time.Now(); now.Sub(q.from) >= time.Minute {
		q.from, q.lines = now, 0
	}
	q.lines++
	if q.lines == maxLines+1 {
		logger.Warn("more resources were not mirrored: no further lines for a minute; an audit lists them all")
	}
	return q.lines <= maxLines
}

type counters struct {
	total, fetched, unchanged, deleted, kept, missing, failed, refused, invalid, bytes atomic.Int64
	unpacked, spoiled, packages, unusable, packageBytes, packageTotal                  atomic.Int64
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

// workersOf is how many jobs of a host are in work at a time. What waits for no host and no disk waits
// for processors: more workers would be in each other's way.
func (w *worker) workersOf(host string) int {
	if host == localHost && !w.cfg.Sync {
		return min(w.cfg.PerHost, runtime.GOMAXPROCS(0))
	}
	return w.cfg.PerHost
}

// maxTake is how many changes one Take is done with at most: what is done is told the
// sooner.
const maxTake = 1000

// trouble is why a resource was not fetched.
type trouble struct {
	state  State // Missing, Failed, Refused or Invalid
	reason string
	cause  error // a *fetch.Trouble, or nil
	// host: it is its host's trouble, not that of the resource; after is how long that asks to be
	// left alone.
	host  bool
	after time.Duration
	// final: trying again is of no use.
	final bool
}

func (t *trouble) Error() string { return t.reason }

func (t *trouble) Unwrap() error { return t.cause }

func failed(format string, args ...any) error {
	return &trouble{state: Failed, reason: fmt.Sprintf(format, args...)}
}

// fatal tells what is trouble of the mirror itself from that of one resource.
func fatal(err error) bool {
	t := (*trouble)(nil)
	return err != nil && !errors.As(err, &t)
}

// ErrKept: the copies are kept as they were at a moment, so that they are not brought to another.
var ErrKept = errors.New("the mirror is kept as it was at a moment")

// Troubles of a resource whose state at a moment is asked for, of which trying again is of no use.
var (
	errUndecided = &trouble{
		state: Failed, final: true,
		reason: "the Source does not tell whether it was changed before the moment or after",
	}
	errUnproven = &trouble{
		state: Failed, final: true,
		reason: "the Source told no hash of it, so that what it was at the moment cannot be proven",
	}
)

// deletion tells what the Source says of a resource that it has deleted.
func deletion(at time.Time) Told { return Told{Change: payload.Deleted, Datetime: at} }

// localHost is the queue of what needs no host; none has the name.
const localHost = "-"
