package notifier

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"carillon/internal/await"
	"carillon/notifier/archive"
)

// When Resource Lists are made besides every Config.ResourceListEvery.
const (
	// firstListPause is how long the first waits for what else comes.
	firstListPause = 10 * time.Second
	// listPause is how long there are at least between two where there have been as
	// many events as the older has resources; from fewGenerations kept ones on it is a
	// part of Config.ResourceListEvery.
	listPause      = time.Minute
	fewGenerations = 16
	listPausePart  = 24
	// generationStays is how long a list can be read after another has taken its place.
	generationStays = 24 * time.Hour
	// longestListRetry bounds the pause after one that could not be made.
	longestListRetry = time.Hour
)

// resourceLists are the Resource Lists of one set: those that are served, and the loop
// that makes others and lets old ones go.
type resourceLists struct {
	ch   *channel
	dir  string // of the set; empty: none are made
	wake chan struct{}
	// archived is what is known of lists that are served from the archive.
	archived archive.Loaded[*generation]

	mu          sync.Mutex
	generations []*generation // guarded by mu: oldest first; never changed in place
	asked       bool          // guarded by mu: another list is wanted
	unknown     bool          // guarded by mu: the set's resources are not kept
	changes     int           // guarded by mu: events since the newest was begun
	firstCame   time.Time     // guarded by mu: when the first event came, where there is no list
}

// newResourceLists looks at what an earlier run has left.
func newResourceLists(ctx context.Context, ch *channel) (*resourceLists, error) {
	l := &resourceLists{ch: ch, wake: make(chan struct{}, 1)}
	if ch.n.cfg.ResourceListDir == "" {
		return l, nil
	}
	l.dir = filepath.Join(ch.n.cfg.ResourceListDir, ch.set)
	last, err := ch.n.cfg.Journal.Last(ctx)
	if err == nil {
		l.generations, err = loadGenerations(l.dir, last, ch.log)
	}
	for _, g := range l.generations {
		g.since = time.Now().Add(-max(ch.n.clock.Now().Sub(g.Completed), 0))
	}
	if newest := l.newest(); newest != nil && newest.Linked && !slices.Contains(ch.n.cfg.Archives, ch.set) {
		l.asked = true // the archive that it links to is not served any more
	}
	if err == nil && len(l.generations) == 0 {
		l.asked, err = l.hasSome(ctx) // at once, as nothing else is on its way
		if errors.Is(err, ErrNotWhole) {
			err = nil
		}
	}
	return l, err
}

// keepResources has the journal keep the set's resources where that was asked for.
func (ch *channel) keepResources(ctx context.Context) (err error) {
	cfg := &ch.n.cfg
	if slices.Contains(cfg.ResourceLists, ch.set) || slices.Contains(cfg.Within, ch.set) {
		err = cfg.Journal.KeepResources(ctx, ch.set)
		if errors.Is(err, ErrNotWhole) {
			return fmt.Errorf("the set %s has had events before, from which %w; "+
				"import a snapshot first: notifier import %s < resources.ndjson", ch.set, errUnknown, ch.set)
		}
		if err != nil && !errors.Is(err, ErrImporting) {
			return err
		}
	}
	ch.resources, err = newResourceLists(ctx, ch)
	return err
}

// errUnknown is ErrNotWhole in the middle of a sentence.
var errUnknown = fmt.Errorf("its resources are not known%w", silent{ErrNotWhole})

// silent is an error that is there for errors.Is only.
type silent struct{ error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.error }

// newest is the Resource List that is served now; nil without one.
func (l *resourceLists) newest() *generation {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.generations) == 0 {
		return nil
	}
	return l.generations[len(l.generations)-1]
}

func (l *resourceLists) served() []*generation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.generations
}

// ask has another list made.
func (l *resourceLists) ask() {
	l.mu.Lock()
	l.asked, l.unknown = true, false
	l.mu.Unlock()
	await.Wake(l.wake)
}

// arrived reports events.
func (l *resourceLists) arrived(events int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unknown || l.dir == "" {
		return
	}
	before := l.overtaken()
	l.changes += events
	news := l.overtaken() != before
	if len(l.generations) == 0 {
		news = true
		if l.firstCame.IsZero() {
			l.firstCame = time.Now()
		}
	}
	if news {
		await.Wake(l.wake)
	}
}

// overtaken reports whether there were so many events that the list is hardly of use;
// l.mu is held.
func (l *resourceLists) overtaken() bool {
	return len(l.generations) > 0 && l.changes > 0 && l.changes >= l.generations[len(l.generations)-1].resources()
}

// run makes lists and lets them go until ctx ends.
func (l *resourceLists) run(ctx context.Context) {
	if l.dir == "" {
		return
	}
	pause := newBackOff()
	pause.MaxInterval = longestListRetry
	for ctx.Err() == nil {
		wait, err := l.step(ctx)
		if err == nil {
			pause.Reset()
		} else if ctx.Err() == nil {
			wait = min(pause.NextBackOff(), longestListRetry)
			l.ch.metrics.resourceListFailures.Inc()
			l.ch.log.Error(
				"no Resource List could be made; the one before stays", "error", err, "retry_in", wait.String(),
			)
			_ = await.For(ctx, wait) // ctx has ended
			continue
		}
		_, _ = await.Until(ctx, wait, l.wake) // ctx may have ended
	}
}

// step does what is to be done now, and returns when to look again.
func (l *resourceLists) step(ctx context.Context) (wait time.Duration, err error) {
	now := l.ch.n.clock.Now()
	l.forget()
	due, err := l.due(ctx, now)
	if err != nil || due > 0 {
		return due, err
	}
	g, err := l.makeList(ctx, now)
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	l.generations = append(slices.Clone(l.generations), g)
	l.mu.Unlock()
	l.show(g)
	l.ch.archives.poke()
	l.ch.log.Info("a Resource List was made", "resources", g.resources(), "parts", len(g.Parts),
		"at", g.At.Format(time.RFC3339Nano), "took", g.Completed.Sub(g.At).String())
	return 0, nil
}

// show sets the metrics of the newest list.
func (l *resourceLists) show(g *generation) {
	l.ch.metrics.resourceListAt.Set(float64(g.At.UnixMicro()) / 1e6)
	l.ch.metrics.resourceListEntries.Set(float64(g.resources()))
}

// due is how long it is until another list is to be made.
func (l *resourceLists) due(ctx context.Context, now time.Time) (time.Duration, error) {
	l.mu.Lock()
	newest, asked, overtaken, first, kept := (*generation)(nil), l.asked, l.overtaken(), l.firstCame, len(l.generations)
	if kept > 0 {
		newest = l.generations[kept-1]
	}
	l.mu.Unlock()
	some, err := l.hasSome(ctx)
	l.mu.Lock()
	l.unknown = errors.Is(err, ErrNotWhole)
	l.mu.Unlock()
	switch {
	case errors.Is(err, ErrNotWhole): // until an import, which asks
		return longestLook, nil
	case err != nil:
		return 0, err
	case asked:
		return 0, nil
	case newest == nil && (!some || first.IsZero()): // until an event has come
		return longestLook, nil
	case newest == nil:
		return clampLook(firstListPause - time.Since(first)), nil
	}
	every := l.every()
	after := every
	if overtaken {
		pause := listPause
		if kept >= fewGenerations {
			pause = max(listPause, every/listPausePart)
		}
		after = min(after, pause)
	}
	// A clock that was set back holds nothing up; one that was set forward, and is believed, may
	// have let Change Lists go.
	age := max(now.Sub(newest.Completed), time.Since(newest.since))
	wait := after - age
	if due, ever := l.ch.archives.resourcesIn(now); ever {
		wait = min(wait, due)
	}
	return clampLook(wait), nil
}

// every is how often a list is made: so often that the Change Lists always reach back
// to its at.
func (l *resourceLists) every() time.Duration {
	return max(min(l.ch.n.cfg.ResourceListEvery, l.ch.n.cfg.Keep/2), shortestEvery)
}

// clampLook bounds a wait: the clock may be set.
func clampLook(wait time.Duration) time.Duration { return min(wait, longestLook) }

// hasSome reports whether the set has a resource.
func (l *resourceLists) hasSome(ctx context.Context) (bool, error) {
	_, all, err := l.ch.n.cfg.Journal.Resources(ctx, l.ch.set)
	if err != nil {
		return false, err
	}
	for _, err := range all {
		return err == nil, err
	}
	return false, nil
}

// forget drops lists that should have no reader any more.
func (l *resourceLists) forget() {
	all := l.served()
	drop := 0
	for drop+1 < len(all) && time.Since(all[drop+1].since) >= generationStays && l.ch.archives.hasResources(all[drop]) {
		drop++
	}
	if drop == 0 {
		return
	}
	l.mu.Lock()
	l.generations = slices.Clone(l.generations[drop:])
	l.mu.Unlock()
	for _, g := range all[:drop] {
		if err := g.remove(); err != nil {
			l.ch.log.Warn("an old Resource List cannot be removed; it is tried again at the next start", "error", err)
		}
	}
}

// begins records that a list is being made: later requests are for the next.
func (l *resourceLists) begins() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked, l.changes, l.firstCame = false, 0, time.Time{}
}

// RenewResourceList has a Resource List made of what the set has now, if Resource Lists of it
// are made at all.
func (n *Notifier) RenewResourceList(set string) {
	if ch := n.byName[set]; ch != nil {
		ch.resources.ask()
	}
}
