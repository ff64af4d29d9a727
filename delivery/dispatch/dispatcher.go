package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"carillon/delivery"
	"carillon/delivery/report"
	"carillon/delivery/retain"
	"carillon/delivery/send"
	"carillon/internal/wallclock"
	"carillon/subscription"
)

const tooManyRequests = http.StatusTooManyRequests

// Ender ends subscriptions whose callback said that it is gone (WebSub §7).
// subscription.Service is one. It is called from several goroutines.
type Ender interface {
	// Remove ends the subscription unless it was renewed since sub was read;
	// removed tells. When it returns without an error it has told the
	// Dispatcher what holds: Ended, or Activated with the one that stands.
	// After an error it is called again, with the sub of then.
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
	*report.Reports
	cfg     Config
	records delivery.Log
	cursors delivery.Cursors
	marks   delivery.Marks // nil where this process has the engine to itself
	ender   Ender
	sender  send.Sender
	splits  bool // the sender takes callbacks in two parts (aim)
	log     *slog.Logger
	metrics *metrics

	overdue   atomic.Int64     // appends that go on after their callers were told
	published report.Published // has its own mutex
	history   *report.History  // likewise
	reads     trouble          // of logs
	saves     trouble          // of positions
	parts     trouble          // of positions that a part of the engine keeps

	// Signals, each with room for one that nobody waits for yet.
	kicked    chan struct{} // the schedule changed
	asked     chan struct{} // a topic's head is to be read
	flushSoon chan struct{} // there is something to save
	flushNow  chan struct{} // there is much to save
	awaySoon  chan struct{} // there is a shard that is sidelined

	// saving is full during a Save of the group, so that an older position never lands after
	// a newer one: mutexes that can be waited for with a bound. They are taken
	// before mu.
	saving  [groups]chan struct{}
	trimmer *retain.Trimmer
	// reading has a place for each notification that is being read from the log.
	reading chan struct{}

	epoch time.Time        // when it was made
	wall  *wallclock.Clock // what the schedule goes by

	mu     sync.Mutex // guards what follows, the table and the schedule
	offset int64      // of the wall clock to the time since epoch, as of the last look
	doubts bool       // the wall clock was set forward, and is not believed yet
	shards [subscription.Shards]*shardTable
	topics map[string]*topic
	// topicList are those in topics, in no order.
	topicList []*topic
	left      [2]map[string]*topic // see leaveTopic
	hosts     map[string]*host
	// abroad counts the attempts under way whose entry has ended. What has the same ID by now,
	// as the shard was gained again or somebody subscribed anew, waits until they end.
	abroad  map[subscription.ID]int
	secrets secrets
	counts  [states]int // entries by their state; what ended counts up for ever
	cache   cache
	failing int // entries whose last attempt failed

	walks        struct{ head, tail *topic }
	unknown      []*topic // topics whose head is to be read
	due          dueHeap
	rings        [lanes]ring
	parked       [lanes]queue // see room.go
	turn         lane         // which of these two has its turn
	bytes        int64        // of the bodies that attempts hold, those that count
	carefulBytes int64        // of those, what careful attempts brought in
	young, early flightList
	inSlots      [lanes]int // flights by lane: those that have a slot
	slow         [lanes]int // and those that gave it back, early ones included
	spare        *flight    // flights to be used again
	pressed      bool       // early ones give their slot back
	stuck        bool       // flights would give their slot back if fewer were slow

	running     bool
	sure        *subscription.Surety // no attempt of a shard starts after
	looked      time.Time            // the latest look at the schedule
	patience    time.Time            // until when slow attempts of lost shards are waited for
	saveTime    time.Duration        // what is left for the saves of lost shards
	handedOver  time.Time            // the end of the latest Lost
	readPause   int64                // no attempt starts before, Unix nanoseconds
	readPauses  int                  // pauses in a row
	unsaved     int                  // outcomes not saved yet
	saveFailing bool
	lines       hostLines
	drained     chan struct{} // closed when nothing is under way, once Run ends
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
	d := &Dispatcher{
		cfg: cfg, records: stores.Log, cursors: stores.Cursors, marks: stores.Marks, ender: ender, sender: sender,
		log:       cmp.Or(logger, slog.New(slog.DiscardHandler)),
		kicked:    make(chan struct{}, 1),
		asked:     make(chan struct{}, 1),
		flushSoon: make(chan struct{}, 1),
		flushNow:  make(chan struct{}, 1),
		awaySoon:  make(chan struct{}, 1),
		saving:    [groups]chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)},
		reading:   make(chan struct{}, maxReads),
		cache:     cache{max: cfg.CacheBytes, loads: map[place]*load{}},
		secrets:   newSecrets(),
		history:   report.NewHistory(),
		epoch:     time.Now(),
		wall:      newClock(cfg),
		topics:    map[string]*topic{},
		hosts:     map[string]*host{},
		abroad:    map[subscription.ID]int{},
	}
	d.Reports = report.New(view{d}, d.records, d.cursors, d.history, &d.published)
	d.sure = cfg.Surety
	d.offset = d.nowBy(d.epoch)
	_, d.splits = sender.(*send.HTTPSender)
	var err error
	if d.metrics, err = newMetrics(d, reg); err != nil {
		return nil, fmt.Errorf("delivery: metrics: %w", err)
	}
	d.trimmer, err = retain.New(cfg.retention(), stores.Log, stores.Marks, held{d}, d.wall, d.log, reg)
	if err != nil {
		return nil, fmt.Errorf("delivery: metrics: %w", err)
	}
	cfg.Surety.Watch(d.assured)
	return d, nil
}

// Head returns the sequence number of the last notification of a topic: where a
// subscription that begins now starts.
func (d *Dispatcher) Head(ctx context.Context, topicURL string) (uint64, error) {
	heads, err := d.records.Heads(ctx, []string{topicURL})
	if err != nil {
		return 0, fmt.Errorf("reading the head of the log of %s: %w", topicURL, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	key, head := subscription.Key(topicURL), heads[0]
	if t := d.topics[key]; t != nil {
		d.tell(t, head)
	}
	// What the log has lost is nothing that comes after its head.
	for _, topics := range []map[string]*topic{d.topics, d.left[0], d.left[1]} {
		if t := topics[key]; t != nil {
			head = max(head, t.head)
		}
	}
	return uint64(head), nil
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
	d.mu.Lock()
	d.running, d.drained = true, make(chan struct{})
	d.mu.Unlock()
	d.kick()

	var loops errgroup.Group
	loops.Go(func() error { d.headLoop(ctx); return nil })
	loops.Go(func() error { d.flushLoop(ctx, saves); return nil })
	loops.Go(func() error { d.awayLoop(ctx, saves); return nil })
	loops.Go(func() error { d.trimLoop(ctx, saves); return nil })
	loops.Go(func() error { d.scheduleLoop(ctx, flights); return nil })
	<-ctx.Done()
	d.drain(breakOff)
	limit := time.AfterFunc(lastSaves, cut)
	defer limit.Stop()
	_ = loops.Wait() // a Save may be under way
	if err := errors.Join(d.save(saves, healthy), d.save(saves, sidelined)); err != nil {
		d.log.Error("positions could not be saved at the end: some deliveries will come twice", "error", err)
	}
	return nil
}

// drain waits for the attempts under way, and breaks them off when their time
// is up. Their positions stay as they were.
func (d *Dispatcher) drain(breakOff context.CancelFunc) {
	d.mu.Lock()
	d.running = false
	if d.underWay() == 0 {
		close(d.drained)
	}
	drained := d.drained
	d.mu.Unlock()
	limit := time.NewTimer(d.cfg.DrainTimeout)
	defer limit.Stop()
	select {
	case <-drained:
	case <-limit.C:
		breakOff()
		<-drained
	}
}

// underWay counts the attempts under way, those of ended subscriptions too. mu
// is held.
func (d *Dispatcher) underWay() int {
	return d.inSlots[fresh] + d.inSlots[again] + d.slow[fresh] + d.slow[again]
}

// scheduleLoop wakes, ripens, ages and starts, whenever something changed or
// the one timer fires.
func (d *Dispatcher) scheduleLoop(ctx, flights context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.kicked:
		case <-timer.C:
		}
		for more := true; more && ctx.Err() == nil; {
			d.mu.Lock()
			clock := time.Now()
			now := d.nowBy(clock)
			d.heedClock(clock, now)
			more = d.walkSome(now)
			d.ripen(now)
			aging := d.age(now)
			if f := d.launch(flights, clock); f != nil {
				go d.work(flights, f)
			}
			wait := d.timer(aging, now)
			d.mu.Unlock()
			timer.Stop()
			if wait > 0 {
				timer.Reset(wait)
			}
		}
	}
}

// launch starts every flight that may start. The first is for the caller to
// make, so that a worker goes on without a new goroutine. mu is held.
func (d *Dispatcher) launch(flights context.Context, clock time.Time) *flight {
	if !d.sure.OfAny(clock) {
		return nil
	}
	d.looked = clock
	now := d.nowBy(clock)
	first := d.pick(now)
	for f := first; f != nil; {
		if f = d.pick(now); f != nil {
			go d.work(flights, f)
		}
	}
	return first
}

// Stats returns the counts of the moment.
func (d *Dispatcher) Stats() report.Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := report.Stats{
		Topics: len(d.topics), Hosts: len(d.hosts),
		Subscriptions: d.counts[idle] + d.counts[ready] + d.counts[waiting] + d.counts[flying],
		Ready:         d.counts[ready], Waiting: d.counts[waiting],
		InFlight: d.underWay(), Slow: d.slow[fresh] + d.slow[again],
		Unsaved: d.unsaved,
		Paused:  d.saveFailing || d.readPause > d.now(),
		Unsure:  !d.sure.OfAny(time.Now()),
	}
	for _, sh := range d.shards {
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
	d.mu.Lock()
	defer d.mu.Unlock()
	t.Behind, t.Failing = d.counts[ready]+d.counts[waiting]+d.counts[flying], d.failing
	t.HeldBytes, t.MaxHeldBytes = d.bytes, d.cfg.MaxBytes
	return t
}

// shardOf returns the shard of an entry, nil if it is not owned. mu is held.
func (d *Dispatcher) shardOf(e *entry) *shardTable {
	return d.shards[subscription.ShardOf(e.id)]
}

// kick tells the schedule's loop to look.
func (d *Dispatcher) kick() { signal(d.kicked) }

// signal leaves a signal if none is waiting already.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
