package dump

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"carillon/internal/await"
)

// errNoResources: the set has no resources, so there is nothing to dump.
var errNoResources = errors.New("the set has no resources yet")

// resourceDump makes the Resource Dumps of a set.
type resourceDump struct {
	*shelf
	requests
	wake     chan struct{} // holds one token
	progress progress

	came        sync.Mutex
	first, last time.Time // guarded by came: when events came
}

func newResourceDump(s *shelf) *resourceDump {
	now := time.Now()
	return &resourceDump{
		shelf: s, wake: make(chan struct{}, 1), requests: requests{urgent: make(chan struct{}, 1)},
		first: now, last: now,
	}
}

// arrived records that events came.
func (s *resourceDump) arrived() {
	none := s.newest() == nil
	s.came.Lock()
	now := time.Now()
	if s.last = now; s.first.IsZero() {
		s.first = now
	}
	s.came.Unlock()
	if none {
		await.Wake(s.wake)
	}
}

func (s *resourceDump) run(ctx context.Context) {
	s.loop(ctx, s.wake, s.urgent, Resources, s.step)
	s.answer(outcome{Err: errors.New("the notifier ends; the dump is gone on with at its next start")})
}

// step does what is to be done of Resource Dumps now, and returns when to look again.
func (s *resourceDump) step(ctx context.Context) (time.Duration, error) {
	s.forget()
	dir, p, begun, err := s.begun(ctx, Resources)
	if err != nil {
		return 0, err
	}
	if wait := s.due(); wait > 0 && !begun {
		return min(wait, longestLook), nil
	}
	var g *generation
	err = within(ctx, s.d.making, func() (err error) {
		if !begun {
			if dir, p, err = s.takePlan(ctx); err != nil {
				return err
			}
		}
		g, err = s.complete(ctx, dir, p, &s.progress)
		return err
	})
	done := s.progress.end()
	switch {
	case errors.Is(err, errNoResources):
		s.answer(outcome{Err: err})
		s.came.Lock()
		s.first = time.Time{} // until an event comes
		s.came.Unlock()
		return longestLook, nil
	case err != nil:
		if ctx.Err() == nil {
			s.answer(outcome{Progress: done, Err: err})
		}
		return 0, err
	}
	s.answer(outcome{Progress: done, At: g.At})
	return 0, nil
}

// due is how long it is until a Resource Dump is to be made.
func (s *resourceDump) due() time.Duration {
	if s.some() {
		return 0
	}
	all := s.of(Resources)
	s.came.Lock()
	defer s.came.Unlock()
	switch {
	case len(all) == 0 && s.first.IsZero():
		return longestLook
	case len(all) == 0:
		return min(quiet-time.Since(s.last), firstAtLast-time.Since(s.first))
	}
	return s.d.cfg.Every - s.age(all[len(all)-1])
}

// takePlan takes a snapshot of the set.
func (s *resourceDump) takePlan(ctx context.Context) (dir string, p plan, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // lets go what was not read
	s.begin()
	at, all, err := s.d.cfg.Notifier.Snapshot(ctx, s.name)
	if err != nil {
		return "", p, err
	}
	w, err := s.newPlan(plan{Kind: Resources, At: at})
	if err != nil {
		return "", p, err
	}
	for e, listErr := range all {
		if err = listErr; err == nil {
			err = w.add(&e, false)
		}
		if err != nil {
			break
		}
	}
	if err == nil && w.Entries == 0 && s.newest() == nil {
		err = errNoResources
	}
	if err == nil && w.Content/s.d.cfg.PackageBytes >= int64(s.most) {
		err = fmt.Errorf("the set has %d bytes, which may need %w; allow packages of more than %d bytes with "+
			"--dump-package-bytes", w.Content, s.tooMany(), w.Content/int64(s.most))
	}
	return w.end(err)
}

// forget drops Resource Dumps that were replaced long enough ago.
func (s *resourceDump) forget() {
	all := s.of(Resources)
	drop := 0
	for drop+1 < len(all) && time.Since(all[drop+1].since) >= s.d.cfg.Keep {
		drop++
	}
	s.drop(Resources, drop)
}
