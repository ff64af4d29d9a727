package notifier

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon/internal/readings"
	"carillon/internal/wallclock"
)

// Notifier is the Source side of the channels of its sets. Its methods may be
// called from any goroutine; Run once.
type Notifier struct {
	cfg      Config
	log      *slog.Logger
	clock    *wallclock.Clock
	metrics  *metrics
	channels []*channel          // in the order of Config.Sets
	byName   map[string]*channel // the same
	uris     addresses
	gate     gate
	docs     *documents
	intake   *budget
	imports  *imports
	files    *readings.Readings
	builders chan []byte // scratch for the notifications under construction
}

// builders is how many notifications may be under construction at a time. With
// payload.MaxBytes for each it bounds the memory for that, however many sets and
// however big the backlog.
const builders = 2

// New opens the channels in the journal, making those that are new. A set that was
// there at an earlier start and is left out keeps its data.
func New(ctx context.Context, cfg Config) (*Notifier, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Journal == nil {
		return nil, errNoJournal
	}
	cfg = cfg.withDefaults()
	sent, files := newReadings(maxReadings, clientReadings), newReadings(cfg.Files, max(1, cfg.Files/filesShare))
	n := &Notifier{
		cfg: cfg, log: cfg.Logger, metrics: newMetrics(cfg.Registry, cfg.Sets, sent, files),
		clock:  wallclock.New(wallclock.Config{Wall: cfg.Now, DoubtFor: doubtFor}),
		uris:   addresses{base: cfg.URL, hub: cfg.Hub},
		gate:   gate{sets: cfg.Sets, within: cfg.Within},
		byName: map[string]*channel{}, intake: newBudget(),
		builders: make(chan []byte, builders), files: files,
	}
	n.docs = &documents{answers: answers{cfg.Logger}, metrics: n.metrics, now: cfg.Now, readings: sent}
	n.imports = newImports(n)
	for range builders {
		n.builders <- nil
	}
	for _, name := range cfg.Sets {
		state, err := cfg.Journal.Open(ctx, name, n.clock.Now())
		if err != nil {
			return nil, err
		}
		ch := newChannel(n, name, state)
		if ch.archives, err = newArchives(ctx, ch); err != nil {
			return nil, err
		}
		if err := ch.keepResources(ctx); err != nil {
			return nil, err
		}
		if err := ch.carryOn(ctx); err != nil {
			return nil, err
		}
		n.channels = append(n.channels, ch)
		n.byName[name] = ch
	}
	return n, nil
}

// Run publishes what the journal has and gets until ctx ends, closes Change Lists, makes
// Resource Lists, and archives both; each set on its own, for as long as it takes. A POST that is under way when ctx ends has a few
// seconds to finish. It returns nil.
func (n *Notifier) Run(ctx context.Context) error {
	var g errgroup.Group
	for _, ch := range n.channels {
		g.Go(func() error {
			ch.run(ctx)
			return nil
		})
		g.Go(func() error {
			ch.lists.run(ctx)
			return nil
		})
		g.Go(func() error {
			ch.resources.run(ctx)
			return nil
		})
		g.Go(func() error {
			ch.archives.run(ctx)
			return nil
		})
	}
	g.Go(func() error {
		n.imports.run(ctx)
		return nil
	})
	g.Go(func() error {
		watchClock(ctx, n.clock, n.metrics.ahead, n.log)
		return nil
	})
	return g.Wait()
}

// Append takes events into the journal and wakes the publishing of their sets.
// It is what intake and ReadLines do with what they have parsed; each event must
// name at least one of the sets. The events are durable when it returns nil.
func (n *Notifier) Append(ctx context.Context, events []Event) error {
	for i := range events {
		if err := n.gate.knows(&events[i]); err != nil {
			return err
		}
	}
	if len(events) == 0 {
		return nil
	}
	if err := n.cfg.Journal.Append(ctx, events, n.clock.Now()); err != nil {
		n.metrics.journalErrors.Inc()
		return err
	}
	count := map[string]int{}
	for i := range events {
		for _, set := range events[i].Sets {
			count[set]++
		}
	}
	for set, k := range count {
		ch := n.byName[set]
		ch.came(k)
	}
	return nil
}

// Drain waits until everything that was in the journal when it was called is in notifications that the
// hub has accepted. Batches with such events are closed before they are full; later events are not
// waited for.
func (n *Notifier) Drain(ctx context.Context) error {
	var last time.Time
	err := patiently(ctx, n.log, "draining", func() (err error) {
		last, err = n.cfg.Journal.Last(ctx)
		return err
	})
	if err != nil {
		return err
	}
	var accepted []<-chan struct{}
	for _, ch := range n.channels {
		accepted = append(accepted, ch.drain(last))
	}
	for _, done := range accepted {
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// CapabilityList is the URI of a set's Capability List.
func (n *Notifier) CapabilityList(set string) string { return n.uris.capabilityList(set) }

var errNoJournal = errors.New("no journal")
