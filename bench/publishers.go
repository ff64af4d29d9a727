package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

var goalPublishes = atLeast(
	0.3, "publishes/s, 64 publishers on 64 topics ÷ synced 1 KB appends/s of the bare store with 64 writers", "",
)

// publishers has many publish at once, each to a topic of its own without subscriptions, in turn with
// as many that write to the bare store.
func publishers(ctx context.Context, e *env) error {
	e.report.section("Publishing by many")
	e.report.note("%d publishers over HTTP, a topic each, %d bytes, ÷ %d writers to the bare store: "+
		"Pebble's Set with Sync, and XADD to a redis-server with appendfsync always. "+
		"%d rounds of %s each on the same stores, with a rest of %s before each for what the other one has left to do, medians.",
		e.plan.writers, e.plan.bodyBytes, e.plan.writers, e.plan.rounds, e.plan.roundFor, e.plan.roundRest)
	var rows [][]string
	err := e.onEach(ctx, func(on engine, s *store) error {
		p, err := e.publishersOn(ctx, s)
		if err != nil {
			return err
		}
		defer p.close()
		var rounds []speeds
		for range e.plan.rounds {
			round, err := p.compare(ctx)
			if err != nil {
				return err
			}
			rounds = append(rounds, round)
		}
		ratio := median(rounds, func(s speeds) float64 { return s.published / s.appended })
		rows = append(rows, cells("%s|%.0f|%.0f|%.2f|%.1f", on,
			median(rounds, func(s speeds) float64 { return s.published }),
			median(rounds, func(s speeds) float64 { return s.appended }),
			ratio, median(rounds, func(s speeds) float64 { return s.hubCPU })))
		e.report.put(goalPublishes, on, ratio)
		return nil
	})
	e.report.table(cells("|publishes/s|appends/s of the bare store|÷|CPU of the hub, µs a publish"), rows)
	return err
}

// speeds is what a round gave, a second, and what a publication took of the hub's
// processors, in microseconds.
type speeds struct{ published, appended, hubCPU float64 }

// manyPublishers are the publishers of one hub, and the writers beside them.
type manyPublishers struct {
	*env
	hub     *hub
	to      []*rawPublisher
	writers appenders
}

func (e *env) publishersOn(ctx context.Context, s *store) (*manyPublishers, error) {
	writers, err := openAppenders(ctx, s, e.plan.writers, e.plan.bodyBytes)
	if err != nil {
		return nil, err
	}
	p := &manyPublishers{env: e, writers: writers}
	if p.hub, err = e.startHub(ctx, s); err != nil {
		writers.close()
		return nil, err
	}
	body := content(e.plan.bodyBytes)
	for i := range e.plan.writers {
		to, err := p.hub.publication(e.town.topic(fmt.Sprintf("publisher-%d", i)), body).dial(ctx)
		if err != nil {
			p.close()
			return nil, err
		}
		p.to = append(p.to, to)
		if err := to.publish(); err != nil { // the topic is checked
			p.close()
			return nil, err
		}
	}
	return p, nil
}

func (p *manyPublishers) close() {
	for _, to := range p.to {
		to.close()
	}
	p.hub.stop()
	p.writers.close()
}

func (p *manyPublishers) compare(ctx context.Context) (s speeds, err error) {
	if err := pause(ctx, p.plan.roundRest); err != nil {
		return s, err
	}
	s.appended, err = together(ctx, len(p.writers), p.plan.roundFor, func(i int) error { return p.writers[i].append() })
	if err != nil {
		return s, err
	}
	if err := pause(ctx, p.plan.roundRest); err != nil {
		return s, err
	}
	before, err := p.hub.cpu()
	if err != nil {
		return s, err
	}
	begin := time.Now()
	s.published, err = together(ctx, len(p.to), p.plan.roundFor, func(i int) error { return p.to[i].publish() })
	if err != nil {
		return s, err
	}
	count := s.published * time.Since(begin).Seconds()
	after, err := p.hub.cpu()
	s.hubCPU = float64((after - before).Microseconds()) / count
	return s, err
}

// together has n of them do the same again and again, each on its own, and returns how often a second
// it was done.
func together(ctx context.Context, n int, d time.Duration, do func(i int) error) (perSecond float64, err error) {
	var done atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	begin := time.Now()
	for i := range n {
		wg.Go(func() {
			for ctx.Err() == nil && time.Since(begin) < d {
				if err := do(i); err != nil {
					failed.Store(&err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(done.Load()) / time.Since(begin).Seconds(), ctx.Err()
}
