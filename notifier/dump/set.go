package dump

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"carillon/internal/await"
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

// set is what is known of the dumps of one set.
type set struct {
	d                          *Dumps
	name                       string
	source                     Source
	workers                    int
	dir                        string
	up                         string // URI of the Capability List
	started                    time.Time
	most                       int // packages that a document can list
	log                        *slog.Logger
	metrics                    *metrics
	wakeResources, wakeChanges chan struct{} // each holds one token
	urgent                     chan struct{} // holds one token: somebody waits for a Resource Dump
	progress                   progress      // of the Resource Dump
	changing                   progress      // of the Change Dump; nobody looks at it

	mu          sync.Mutex
	touched     map[Kind]time.Time     // guarded by mu: when the served document changed last
	generations map[Kind][]*generation // guarded by mu: oldest first; slices never change in place
	waiting     []chan outcome         // guarded by mu: requests for a Resource Dump
	answering   []chan outcome         // guarded by mu: those that the dump being made answers
	first, last time.Time              // guarded by mu: when events came
}

func (s *set) dirOf(kind Kind) string { return filepath.Join(s.dir, string(kind)) }

// of returns the generations of a kind.
func (s *set) of(kind Kind) []*generation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.generations[kind]
}

// newest returns the newest Resource Dump; nil if there is none.
func (s *set) newest() *generation {
	all := s.of(Resources)
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

// load finds what an earlier run has left.
func (s *set) load(ctx context.Context) error {
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
	now := time.Now()
	s.first, s.last = now, now
	return nil
}

// loadKind loads the generations of a kind. It removes those that are of no use: what is not whole
// and cannot be resumed, and what is of a time that the journal has not seen.
func (s *set) loadKind(kind Kind, last time.Time) (all []*generation, _ error) {
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

// resumable reads the plan of a dump that is not whole. An error says why it cannot be gone on with.
func (s *set) resumable(kind Kind, dir string, last time.Time) (plan, error) {
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
func (s *set) begun(ctx context.Context, kind Kind) (dir string, p plan, found bool, err error) {
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

// make makes the generation of a plan, and has it served.
func (s *set) make(ctx context.Context, dir string, p plan, progress *progress) (*generation, error) {
	m := &maker{set: s, dir: dir, plan: p, shown: progress}
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

// failed decides what becomes of a dump that could not be made: it is gone on with where the trouble
// may pass, and removed where it takes room that is missing.
func (s *set) failed(ctx context.Context, dir string, err error) error {
	if ctx.Err() != nil || errors.Is(err, ErrHeld) {
		return err
	}
	return errors.Join(err, s.d.room.remove(dir))
}

// Arrived implements notifier.Companion.
func (s *set) Arrived(int) {
	s.mu.Lock()
	now, none := time.Now(), len(s.generations[Resources]) == 0
	if s.last = now; s.first.IsZero() {
		s.first = now
	}
	s.mu.Unlock()
	if none {
		await.Wake(s.wakeResources)
	}
}

// ListsChanged implements notifier.Companion.
func (s *set) ListsChanged() { await.Wake(s.wakeChanges) }

// ask requests a Resource Dump that begins from now on, and returns a channel with its outcome.
func (s *set) ask() chan outcome {
	answer := make(chan outcome, 1)
	s.mu.Lock()
	s.waiting = append(s.waiting, answer)
	s.mu.Unlock()
	await.Wake(s.urgent)
	return answer
}

// beginsNow notes that a Resource Dump begins: it has what there was at all requests until now.
func (s *set) beginsNow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answering, s.waiting = append(s.answering, s.waiting...), nil
}

// waits reports whether the dump of a request has not begun yet.
func (s *set) waits(request chan outcome) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.waiting, request)
}

// answer answers the requests of the dump that has ended. An error answers all of them.
func (s *set) answer(o outcome) {
	s.mu.Lock()
	ended := s.answering
	s.answering = nil
	if o.Err != nil {
		ended, s.waiting = append(ended, s.waiting...), nil
	}
	s.mu.Unlock()
	for _, request := range ended {
		request <- o // which has room
	}
}

// loop calls step until ctx ends: when it says, or when it is woken. After trouble only what is urgent
// wakes it, so that events do not have it try without a pause.
func (s *set) loop(
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
