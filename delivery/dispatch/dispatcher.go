package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"carillon/delivery"
	"carillon/delivery/report"
	"carillon/delivery/retain"
	"carillon/delivery/send"
	"carillon/internal/await"
	"carillon/subscription"
)

// Ender ends subscriptions whose callback said that it is gone (WebSub §7).
// subscription.Service is one. It is called from several goroutines.
type Ender interface {
	// Remove ends the subscription unless it was renewed since sub was read, and returns whether it did.
	// Before it returns without an error it has called the Dispatcher: Ended, or Activated with the
	// subscription that stands. After an error it is called again, with the sub of that time.
	Remove(ctx context.Context, sub subscription.Subscription) (removed bool, err error)
}

// Stores are what a Dispatcher works on. Marks is nil where one process has the
// engine to itself.
type Stores struct {
	Log     delivery.Log
	Cursors delivery.Cursors
	Marks   delivery.Marks
}

// Dispatcher publishes into the logs and delivers from them. All methods may be
// called from any goroutine; deliveries are made while Run runs.
type Dispatcher struct {
	*report.Reports // Standing, Each, Tally …
	*publisher      // Publish, Published, Head …
	*holder         // Gained, Lost, Activated, Ended
	*repairs        // RetryNow, Replay
	*survey         // Topics, Subscribers, Position …

	*base
	table    *table
	bodies   *bodies
	flights  *flights
	ledger   *ledger
	schedule *schedule
	attempts *attempts
	saver    *saver
	heads    *heads
	trimmer  *retain.Trimmer
}

// New returns a Dispatcher. It owns no shard yet: that comes by Gained. A nil
// Registerer is for those who want no metrics.
func New(cfg Config, stores Stores, ender Ender, sender send.Sender,
	logger *slog.Logger, reg prometheus.Registerer,
) (*Dispatcher, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(stores.Marks != nil); err != nil {
		return nil, fmt.Errorf("delivery: %w", err)
	}
	m, err := newMetrics(reg)
	if err != nil {
		return nil, fmt.Errorf("delivery: metrics: %w", err)
	}
	b := &base{
		cfg: cfg, log: cmp.Or(logger, slog.New(slog.DiscardHandler)), metrics: m,
		wall: newClock(cfg), kicked: make(chan struct{}, 1),
	}
	d := assemble(b, stores, ender, sender)
	d.trimmer, err = retain.New(cfg.retention(), stores.Log, stores.Marks, held{d.survey, d.saver}, b.wall, b.log, reg)
	if err == nil && reg != nil {
		err = d.gauges(reg)
	}
	if err != nil {
		return nil, fmt.Errorf("delivery: metrics: %w", err)
	}
	d.repairs.trimmer = d.trimmer
	cfg.Surety.Watch(d.assured)
	return d, nil
}

// assemble makes the parts, from the lowest on.
func assemble(b *base, stores Stores, ender Ender, sender send.Sender) *Dispatcher {
	t := newTable(b)
	bs := &bodies{base: b, loads: map[place]*load{}}
	f := &flights{base: b, table: t, bodies: bs}
	l := newLedger(b, t)
	s := &schedule{
		base: b, table: t, bodies: bs, flights: f, ledger: l, sure: b.cfg.Surety, steps: steps{epoch: time.Now()},
	}
	s.steps.offset = b.nowBy(s.steps.epoch)
	r := &reader{
		base: b, table: t, bodies: bs, schedule: s, records: stores.Log, reading: make(chan struct{}, maxReads),
	}
	_, splits := sender.(*send.HTTPSender)
	history, published := report.NewHistory(), new(report.Published)
	a := &attempts{
		base: b, table: t, bodies: bs, flights: f, ledger: l, schedule: s, reader: r,
		cursors: stores.Cursors, ender: ender, sender: sender, splits: splits, history: history,
	}
	sv := newSaver(b, t, l, s, stores.Cursors)
	sy := &survey{base: b, table: t}
	return &Dispatcher{
		Reports:   report.New(&view{t}, stores.Log, stores.Cursors, history, published),
		publisher: &publisher{base: b, table: t, bodies: bs, schedule: s, records: stores.Log, published: published},
		holder:    &holder{base: b, table: t, ledger: l, schedule: s, saver: sv, cursors: stores.Cursors},
		repairs: &repairs{
			base: b, table: t, ledger: l, schedule: s, saver: sv, survey: sy,
			records: stores.Log, cursors: stores.Cursors, marks: stores.Marks,
		},
		survey: sy,
		base:   b, table: t, bodies: bs, flights: f, ledger: l, schedule: s, attempts: a, saver: sv,
		heads: &heads{base: b, table: t, schedule: s, reader: r},
	}
}

// Run delivers until ctx ends. Then no attempt starts, those under way have
// Config.DrainTimeout to finish, and all positions are saved, for which a Save
// that keeps to its context has a few seconds more. It always returns nil; end
// it before the shards are handed back.
func (d *Dispatcher) Run(ctx context.Context) error {
	flights, breakOff := context.WithCancel(context.WithoutCancel(ctx))
	defer breakOff()
	saves, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	d.attempts.start()

	var loops errgroup.Group
	loops.Go(func() error { d.heads.headLoop(ctx); return nil })
	loops.Go(func() error { d.saver.flushLoop(ctx, saves); return nil })
	loops.Go(func() error { d.saver.awayLoop(ctx, saves); return nil })
	loops.Go(func() error { d.trimLoop(ctx, saves); return nil })
	loops.Go(func() error { d.attempts.scheduleLoop(ctx, flights); return nil })
	<-ctx.Done()
	d.attempts.drain(breakOff)
	limit := time.AfterFunc(lastSaves, cut)
	defer limit.Stop()
	_ = loops.Wait() // a Save may be under way
	if err := errors.Join(d.saver.save(saves, healthy), d.saver.save(saves, sidelined)); err != nil {
		d.log.Error("positions could not be saved at the end: some deliveries will come twice", "error", err)
	}
	return nil
}

// trimLoop trims the logs now and then, until ctx ends. A Save that is under way
// then goes on while saves stands.
func (d *Dispatcher) trimLoop(ctx, saves context.Context) {
	for await.For(ctx, d.cfg.TrimInterval) == nil {
		d.table.forgetTopics()
		d.lookAtOldest(ctx)
		d.trimmer.Round(ctx, saves)
	}
}

// lookAtOldest has the metric tell how it stands now.
func (d *Dispatcher) lookAtOldest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	d.OldestWaiting(ctx)
}

// Stats returns the counts of the moment.
func (d *Dispatcher) Stats() report.Stats {
	d.table.mu.Lock()
	defer d.table.mu.Unlock()
	s := report.Stats{
		Topics: len(d.table.topics), Hosts: len(d.table.hosts),
		Subscriptions: d.table.counts[idle] + d.table.counts[ready] + d.table.counts[waiting] + d.table.counts[flying],
		Ready:         d.table.counts[ready], Waiting: d.table.counts[waiting],
		InFlight: d.flights.underWay(), Slow: d.flights.slow[fresh] + d.flights.slow[again],
		Unsaved: d.ledger.unsaved,
		Paused:  d.ledger.unsavable || d.schedule.readPause > d.now(),
		Unsure:  !d.schedule.sure.OfAny(time.Now()),
	}
	for _, sh := range d.table.shards {
		switch {
		case sh == nil:
		case sh.loading:
			s.Loading++
		default:
			s.Shards++
		}
		if sh != nil && sh.away {
			s.Away++
			s.Unsaved += sh.unsaved
		}
	}
	return s
}

// Totals returns the counts as of now.
func (d *Dispatcher) Totals() report.Totals {
	var t report.Totals
	d.Count(&t)
	d.table.mu.Lock()
	defer d.table.mu.Unlock()
	t.Behind, t.Failing = d.table.counts[ready]+d.table.counts[waiting]+d.table.counts[flying], d.table.failing
	t.HeldBytes, t.MaxHeldBytes = d.bodies.held, d.cfg.MaxBytes
	return t
}

// Format says what it is and nothing of what is in it: the secrets of subscriptions are.
func (d *Dispatcher) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "dispatch.Dispatcher") }
