package dump

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"carillon/payload"
)

// errNoResources: the set has no resources, so there is nothing to dump.
var errNoResources = errors.New("the set has no resources yet")

// tooMany is the error of a dump with more packages than a document can list.
func (s *set) tooMany() error {
	return fmt.Errorf("more than %d packages, which a dump cannot list (core §7)", s.most)
}

func (s *set) runResources(ctx context.Context) {
	s.loop(ctx, s.wakeResources, s.urgent, Resources, s.stepResources)
	s.answer(outcome{Err: errors.New("the notifier ends; the dump is gone on with at its next start")})
}

// stepResources does what is to be done of Resource Dumps now, and returns when to look again.
func (s *set) stepResources(ctx context.Context) (time.Duration, error) {
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
			if dir, p, err = s.planResources(ctx); err != nil {
				return err
			}
		}
		g, err = s.make(ctx, dir, p, &s.progress)
		return err
	})
	done := s.progress.end()
	switch {
	case errors.Is(err, errNoResources):
		s.answer(outcome{Err: err})
		s.mu.Lock()
		s.first = time.Time{} // until an event comes
		s.mu.Unlock()
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
func (s *set) due() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.generations[Resources]
	switch {
	case len(s.waiting) > 0:
		return 0
	case len(all) == 0 && s.first.IsZero():
		return longestLook
	case len(all) == 0:
		return min(quiet-time.Since(s.last), firstAtLast-time.Since(s.first))
	}
	return s.d.cfg.Every - s.age(all[len(all)-1])
}

// age returns how old a generation is. A clock that was set back makes none younger.
func (s *set) age(g *generation) time.Duration {
	return max(s.d.cfg.Notifier.Now().Sub(g.Completed), time.Since(g.since))
}

// planResources takes a snapshot of the set.
func (s *set) planResources(ctx context.Context) (dir string, p plan, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // lets go what was not read
	s.beginsNow()
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
func (s *set) forget() {
	all := s.of(Resources)
	drop := 0
	for drop+1 < len(all) && time.Since(all[drop+1].since) >= s.d.cfg.Keep {
		drop++
	}
	s.drop(Resources, drop)
}

// drop drops the oldest generations of a kind.
func (s *set) drop(kind Kind, n int) {
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

// withoutPatches drops links that need content of their own in a package (core §14.4).
func withoutPatches(links []payload.Link) []payload.Link {
	return slices.DeleteFunc(slices.Clone(links), func(l payload.Link) bool {
		return l.Rel == payload.RelPatch
	})
}
