package dump

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"carillon/notifier/moments"
	"carillon/payload"
)

// When dumps are made.
const (
	// quiet is how long no event must have come before the first dump of a set; firstAtLast is how
	// long it waits at most.
	quiet       = 10 * time.Second
	firstAtLast = 10 * time.Minute
	// longestLook bounds a wait: the clock may be set.
	longestLook = time.Hour
	// heldAtStart is how long it is no trouble that content cannot be had: a directory is scanned
	// first.
	heldAtStart = time.Minute
	// firstRetry and longestRetry bound the pause after a dump that could not be made.
	firstRetry   = 5 * time.Second
	longestRetry = time.Hour
)

// shelf is what is known of the dumps of one set.
type shelf struct {
	d       *Dumps
	name    string
	source  Source
	workers int
	dir     string
	up      string // URI of the Capability List
	started time.Time
	most    int // packages that a document can list
	log     *slog.Logger
	metrics *metrics

	mu          sync.Mutex
	touched     map[Kind]time.Time     // guarded by mu: when the served document changed last
	generations map[Kind][]*generation // guarded by mu: oldest first; slices never change in place
}

func (s *shelf) dirOf(kind Kind) string { return filepath.Join(s.dir, string(kind)) }

// of returns the generations of a kind.
func (s *shelf) of(kind Kind) []*generation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.generations[kind]
}

// newest returns the newest Resource Dump; nil without one.
func (s *shelf) newest() *generation {
	all := s.of(Resources)
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

// load finds what an earlier run has left.
func (s *shelf) load(ctx context.Context) error {
	last, err := s.d.cfg.Store.Last(ctx)
	if err != nil {
		return err
	}
	for _, kind := range []Kind{Resources, Changes} {
		all, err := s.loadKind(kind, last)
		if err != nil {
			return err
		}
		s.generations[kind] = all
		if len(all) > 0 {
			s.metrics.show(all[len(all)-1])
		}
	}
	return nil
}

// loadKind loads the generations of a kind. It removes useless ones: those that are not whole and
// cannot be resumed, and those of a time that the journal has not seen.
func (s *shelf) loadKind(kind Kind, last time.Time) (all []*generation, _ error) {
	found, err := moments.List(s.dirOf(kind))
	if err != nil {
		return nil, err
	}
	now := s.d.cfg.Notifier.Now()
	for _, f := range found {
		g := &generation{dir: f.Path}
		var err error
		if !f.Whole {
			if _, err = s.resumable(kind, f.Path, last); err == nil {
				continue
			}
		} else if err = g.load(); err == nil && (g.Kind != kind || !g.begins().Equal(f.At)) {
			err = errors.New("it is of another time than its name")
		} else if err == nil && f.At.After(last) {
			err = errors.New("it is of another journal")
		}
		if err == nil {
			g.since = time.Now().Add(-max(now.Sub(g.Completed), 0))
			all = append(all, g)
			continue
		}
		s.log.Warn("a dump is of no use, and removed", "directory", f.Path, "error", err)
		if err := s.d.room.remove(f.Path); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// resumable reads the plan of a dump that is not whole. An error gives the reason why it cannot be gone on with.
func (s *shelf) resumable(kind Kind, dir string, last time.Time) (plan, error) {
	p, err := loadPlan(dir)
	switch {
	case err != nil:
		return p, err
	case p.Kind != kind || p.Set != s.name:
		return p, errors.New("its plan is of another set")
	case p.At.After(last) || p.Until.After(nextMicro(last)):
		return p, errors.New("its plan is of another journal")
	case kind == Resources && s.d.cfg.Notifier.Now().Sub(p.At) > max(s.d.cfg.Every, DefaultEvery):
		return p, errors.New("its snapshot is too old")
	}
	return p, nil
}

// begun finds a generation that was begun, and can be resumed.
func (s *shelf) begun(ctx context.Context, kind Kind) (dir string, p plan, found bool, err error) {
	all, err := moments.List(s.dirOf(kind))
	if err != nil {
		return "", p, false, err
	}
	last, err := s.d.cfg.Store.Last(ctx)
	if err != nil {
		return "", p, false, err
	}
	for _, f := range all {
		if f.Whole {
			continue
		}
		if p, err = s.resumable(kind, f.Path, last); err == nil {
			return f.Path, p, true, nil
		}
		if err := s.d.room.remove(f.Path); err != nil {
			return "", p, false, err
		}
	}
	return "", plan{}, false, nil
}

// complete makes the generation of a plan, and has it served.
func (s *shelf) complete(ctx context.Context, dir string, p plan, progress *progress) (*generation, error) {
	m := &maker{shelf: s, dir: dir, plan: p, shown: progress}
	m.packer = packer{
		source: s.source, unasked: m.unasked, dir: dir, pause: s.d.pause, room: s.d.room,
		files:  func() int { return int(m.files.Add(1)) },
		limits: contentLimits{most: maxContent, untold: s.d.cfg.PackageBytes},
		current: func(ctx context.Context, loc string) (payload.Entry, bool, error) {
			return s.d.cfg.Store.Resource(ctx, s.name, loc)
		},
	}
	begun := time.Now()
	s.metrics.making[p.Kind].Set(1)
	defer s.metrics.making[p.Kind].Set(0)
	g, err := m.run(ctx)
	if err != nil {
		return nil, s.failed(ctx, dir, err)
	}
	s.mu.Lock()
	s.generations[p.Kind] = append(slices.Clone(s.generations[p.Kind]), g)
	s.mu.Unlock()
	s.touch(p.Kind)
	s.d.finished(g)
	s.d.cfg.Notifier.Archive(s.name)
	s.metrics.took[p.Kind].Set(time.Since(begun).Seconds())
	s.metrics.made[p.Kind].Inc()
	s.metrics.show(g)
	s.log.Info("a dump was made", "dump", string(p.Kind),
		"entries", g.Entries(), "left_out", g.LeftOutTotal(), "packages", len(g.Packages), "bytes", g.Bytes(),
		"from", payload.FormatDatetime(g.begins()), "took", time.Since(begun).Round(time.Millisecond).String())
	return g, nil
}

// failed decides the outcome of a dump that could not be made: it is gone on with where the trouble
// may pass, and removed where it takes room that is missing.
func (s *shelf) failed(ctx context.Context, dir string, err error) error {
	if ctx.Err() != nil || errors.Is(err, ErrHeld) {
		return err
	}
	return errors.Join(err, s.d.room.remove(dir))
}

// drop drops the oldest generations of a kind.
func (s *shelf) drop(kind Kind, n int) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	dropped := s.generations[kind][:n]
	s.generations[kind] = slices.Clone(s.generations[kind][n:])
	s.mu.Unlock()
	if kind == Changes { // a Resource Dump is one generation, the newest
		s.touch(kind)
	}
	for _, g := range dropped {
		if err := s.d.room.remove(g.dir); err != nil {
			s.log.Warn("an old dump cannot be removed", "directory", g.dir, "error", err)
		}
	}
}

// touch records that the document of a kind has changed: other generations, or a link to the archive.
func (s *shelf) touch(kind Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touched[kind] = s.d.cfg.Notifier.Now()
}

// modified returns when the document of a kind changed last, or later: a start may have changed the
// addresses in it. It must be called before the generations are read, which may change meanwhile.
func (s *shelf) modified(kind Kind) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.touched[kind]; at.After(s.started) {
		return at
	}
	return s.started
}

// age returns how old a generation is. A clock that was set back makes none younger.
func (s *shelf) age(g *generation) time.Duration {
	return max(s.d.cfg.Notifier.Now().Sub(g.Completed), time.Since(g.since))
}

// tooMany is the error of a dump with more packages than a document can list.
func (s *shelf) tooMany() error {
	return fmt.Errorf("more than %d packages, which a dump cannot list (core §7)", s.most)
}

// loop calls step until ctx ends: when it says, or when it is woken. After trouble only what is urgent
// wakes it, so that events do not have it try without a pause.
func (s *shelf) loop(
	ctx context.Context, wake, urgent chan struct{}, kind Kind,
	step func(context.Context) (time.Duration, error),
) {
	pause := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstRetry), backoff.WithMultiplier(2),
		backoff.WithMaxInterval(longestRetry), backoff.WithMaxElapsedTime(0),
	)
	for ctx.Err() == nil {
		wait, err := step(ctx)
		woken := wake
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, ErrHeld) && s.d.cfg.Notifier.Now().Sub(s.started) < heldAtStart:
			woken, wait = nil, firstRetry
			s.log.Info("a dump waits until its content can be had",
				"kind", string(kind), "error", err, "retry_in", wait.String())
		case err != nil:
			woken = nil
			s.metrics.failures[kind].Inc()
			wait = min(pause.NextBackOff(), longestRetry)
			if held, is := errors.AsType[*heldError](err); is {
				wait = min(wait, held.wait)
			}
			s.log.Error("no dump could be made; the one before stays",
				"kind", string(kind), "error", err, "retry_in", wait.String())
		default:
			pause.Reset()
		}
		timer := time.NewTimer(max(wait, 0))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-woken:
		case <-urgent:
		}
		timer.Stop()
	}
}

func newShelf(d *Dumps, one Set, m *metrics) *shelf {
	return &shelf{
		d: d, name: one.Name, source: one.Source, workers: max(2, runtime.GOMAXPROCS(0)),
		dir: filepath.Join(d.cfg.Dir, one.Name), up: d.cfg.Notifier.CapabilityList(one.Name),
		log: d.log.With("set", one.Name), metrics: m, started: d.cfg.Notifier.Now(),
		generations: map[Kind][]*generation{}, touched: map[Kind]time.Time{},
	}
}
