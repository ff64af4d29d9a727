package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"carillon/destination/follow"
	"carillon/destination/packages"
	"carillon/internal/fetch"
	"carillon/internal/legible"
	"carillon/payload"
)

// maxTake is how many changes one Take is done with at most: what is done is told the
// sooner.
const maxTake = 1000

// Mirror keeps the copies. Take, Baseline, Audit and Settle are called by one goroutine; Run runs
// beside them.
type Mirror struct {
	cfg   Config
	bases []base
	tree  *tree
	fetch *fetcher
	// packages are those of dumps that are being read.
	packages *packages.Client
	hosts    *fetch.Hosts
	slots    chan struct{} // that fetch, or read files
	busy     keys
	claims   claims
	counts   counters
	lines    quiet
	wake     chan struct{} // something is due that was not
	moment   atomic.Pointer[time.Time]
}

var _ follow.Taker = (*Mirror)(nil)

// New takes the directory. The error names the setting that is wrong.
func New(cfg Config) (*Mirror, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Catalog == nil {
		return nil, errors.New("there is no catalog")
	}
	cfg = cfg.withDefaults()
	m := &Mirror{
		cfg: cfg, hosts: newHosts(&cfg), slots: make(chan struct{}, cfg.Parallel),
		claims: claims{catalog: cfg.Catalog}, wake: make(chan struct{}, 1),
	}
	for _, raw := range cfg.Bases {
		b, err := parseBase(raw)
		if err != nil {
			return nil, err
		}
		m.bases = append(m.bases, b)
	}
	home, moved, err := atHome(context.Background(), &cfg)
	if err != nil {
		return nil, err
	}
	if m.tree, err = openTree(cfg.Dir, cfg.ReadOnly, cfg.Sync, cfg.MinFree); err != nil {
		return nil, err
	}
	if moved {
		if err := m.settleIn(context.Background(), home); err != nil {
			return nil, errors.Join(err, m.tree.close())
		}
	}
	if !home.Moment.IsZero() {
		m.moment.Store(&home.Moment)
	}
	m.fetch = newFetcher(&m.cfg, m.tree, m.below)
	m.packages = m.newPackages()
	return m, nil
}

// Close gives the directory back. Nothing else may be running.
func (m *Mirror) Close() error {
	m.fetch.client.CloseIdleConnections()
	if err := errors.Join(m.packages.Close(), m.tree.close()); err != nil {
		return fmt.Errorf("mirror directory: %w", err)
	}
	return nil
}

// Take implements follow.Taker: of several changes of a resource the last counts; what could not be
// fetched is recorded, and done with here. An error is trouble of the mirror itself: its disk has no
// room, its Catalog is away; ErrKept.
func (m *Mirror) Take(ctx context.Context, changes []follow.Change) (done int, err error) {
	return m.take(ctx, changes, func(*payload.Entry) *packed { return nil })
}

// take is Take with a content that a package may have of a change.
func (m *Mirror) take(
	ctx context.Context, changes []follow.Change, content func(*payload.Entry) *packed,
) (done int, err error) {
	if err := m.free(); err != nil {
		return 0, err
	}
	changes = changes[:min(len(changes), maxTake)]
	last := make(map[string]*job, len(changes))
	for i := range changes {
		e := &changes[i].Entry
		last[e.Loc] = &job{loc: e.Loc, told: m.told(e), packed: content(e)}
	}
	p := m.newPool(ctx)
	submitted := make(map[string]bool, len(last))
	for i := range changes {
		loc := changes[i].Loc
		if submitted[loc] {
			continue
		}
		submitted[loc] = true
		if m.overlong(loc) {
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
func (m *Mirror) told(e *payload.Entry) Told {
	t := toldBy(e)
	if t != (Told{e.Change, e.Datetime, e.LastMod, e.Hash, e.Length, e.Type, e.Encoding, t.Links}) && m.lines.may(m.cfg.Logger) {
		m.cfg.Logger.Warn("what a Source tells of a resource is passed over: a datetime in the future, or a text that is too long",
			"loc", legible.Cut(e.Loc), "datetime", e.Datetime, "limit_bytes", maxTold)
	}
	return t
}

// overlong tells whether a loc is too long to be asked for. It is not even recorded: the Catalog would
// grow by what a stranger likes.
func (m *Mirror) overlong(loc string) bool {
	if len(loc) <= maxLoc {
		return false
	}
	m.counts.invalid.Add(1)
	if m.lines.may(m.cfg.Logger) {
		m.cfg.Logger.Warn("a resource is not mirrored: its loc is too long",
			"loc", legible.Cut(loc), "bytes", len(loc), "limit_bytes", maxLoc)
	}
	return true
}

// allowed tells why a resource is not mirrored, if it is not.
func (m *Mirror) allowed(loc string) (*url.URL, error) {
	u, err := parseLoc(loc)
	if err != nil {
		return nil, &trouble{state: Invalid, reason: err.Error()}
	}
	if !m.below(u) {
		return nil, &trouble{state: Refused, reason: "it is outside of what is mirrored (--base)"}
	}
	return u, nil
}

// below tells whether a URL is below one of the bases.
func (m *Mirror) below(u *url.URL) bool {
	return slices.ContainsFunc(m.bases, func(b base) bool { return b.has(u) })
}

// again is when something that failed for so many times in a row is tried again; its server may ask for
// a longer wait, up to RetryMax.
func (m *Mirror) again(tries int, after time.Duration) time.Time {
	wait := m.cfg.RetryMax
	if shift := min(tries-1, 30); m.cfg.RetryFirst<<shift>>shift == m.cfg.RetryFirst {
		wait = min(m.cfg.RetryFirst<<shift, m.cfg.RetryMax)
	}
	wait = wait/2 + rand.N(wait/2+1)
	return time.Now().Add(min(max(wait, after), m.cfg.RetryMax)).UTC().Truncate(time.Microsecond)
}

// tell logs what became of a resource, the first time that it failed.
func (m *Mirror) tell(c *Copy, aside bool) {
	level := slog.LevelWarn
	switch {
	case aside || c.Tries > 1:
		level = slog.LevelDebug
	case c.State == Missing, c.State == Refused && m.cfg.Chosen:
		level = slog.LevelInfo
	}
	if level > slog.LevelDebug && !m.lines.may(m.cfg.Logger) {
		return
	}
	what := []any{"loc", legible.Cut(c.Loc), "state", string(c.State), "reason", legible.Cut(c.Reason), "tries", c.Tries}
	if !c.Next.IsZero() {
		what = append(what, "next", c.Next)
	}
	m.cfg.Logger.Log(context.Background(), level, "a resource was not mirrored", what...)
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

// Progress is what was done since the Mirror was made. A resource that was tried several
// times counts each time.
type Progress struct {
	// Total is how many resources there are to look at, where that is known: of a Baseline.
	Total int64
	Fetched, Unchanged, Deleted, Kept,
	Missing, Failed, Refused, Invalid int64
	// Bytes were fetched.
	Bytes int64
	// Unpacked are those of Fetched that came from packages of dumps, Spoiled those whose content in
	// a package was not what the Source told.
	Unpacked, Spoiled int64
	// Packages is how many packages were used, Unusable how many could not be.
	Packages, Unusable int64
	// PackageBytes were downloaded of packages, of PackageTotal, as far as dumps tell their lengths.
	PackageBytes, PackageTotal int64
}

// Done is how many were looked at.
func (p Progress) Done() int64 {
	return p.Fetched + p.Unchanged + p.Deleted + p.Kept + p.Missing + p.Failed + p.Refused + p.Invalid
}

type counters struct {
	total, fetched, unchanged, deleted, kept, missing, failed, refused, invalid, bytes atomic.Int64
	unpacked, spoiled, packages, unusable, packageBytes, packageTotal                  atomic.Int64
}

// Progress may be asked at any time.
func (m *Mirror) Progress() Progress {
	c := &m.counts
	return Progress{
		c.total.Load(), c.fetched.Load(), c.unchanged.Load(), c.deleted.Load(), c.kept.Load(),
		c.missing.Load(), c.failed.Load(), c.refused.Load(), c.invalid.Load(), c.bytes.Load(),
		c.unpacked.Load(), c.spoiled.Load(), c.packages.Load(), c.unusable.Load(), c.packageBytes.Load(), c.packageTotal.Load(),
	}
}

// Standing is how many resources there are of each state.
type Standing map[State]int

// Standing counts what the Catalog has, and shows some of what Failed: at most limit.
func (m *Mirror) Standing(ctx context.Context, limit int) (all Standing, bad []Copy, err error) {
	all = Standing{}
	for c, err := range m.cfg.Catalog.All(ctx) {
		if err != nil {
			return nil, nil, err
		}
		all[c.State]++
		if c.State == Failed && len(bad) < limit {
			bad = append(bad, c)
		}
	}
	return all, bad, nil
}

// EachFailed calls each with every copy that Failed, by the bytes of their locs.
func (m *Mirror) EachFailed(ctx context.Context, each func(*Copy) error) error {
	for c, err := range m.cfg.Catalog.All(ctx) {
		if err == nil && c.State == Failed {
			err = each(&c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// deletion tells what the Source says of a resource that it has deleted.
func deletion(at time.Time) Told { return Told{Change: payload.Deleted, Datetime: at} }
