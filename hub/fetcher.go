package hub

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"golang.org/x/sync/errgroup"

	"carillon/delivery"
	"carillon/internal/bodies"
	"carillon/internal/turns"
	"carillon/subscription"
	"carillon/topic"
)

// fetcher carries out pings: it fetches each topic that was pinged and publishes
// what it finds.
//
//	add ──▶ due ── its time has come ──▶ ready, by host
//	         ▲                             │ hosts in turn, so many of one host and in all
//	         │                             ▼
//	         ├── failed: backoff ───── running ── FetchSlowAfter ──▶ slow, so many in all
//	         │                             │ published, empty, refused     │
//	         │                             ▼                               │
//	         └── pinged again ──────── Pings.Fetched ◀─────────────────────┘
//
// A topic is fetched by one at a time, and pings that come before its fetch begins
// are carried out by that one. Waiting costs no goroutine.
//
// Of the processes that share a store the owner of a topic's shard
// (subscription.TopicShard) fetches it. Where a shard is lost what waits is
// forgotten here, and what runs is not published any more, as what the next owner
// finds may be newer by then and must be what comes last. The next owner finds the
// pings in the store.
type fetcher struct {
	cfg     Config
	pings   delivery.Pings
	source  *source
	pace    *pace // shared with the checks
	sure    *subscription.Surety
	known   func(at topic.Address) bool // it has subscribers, or is remembered as naming this hub
	wake    chan struct{}               // holds one token: something changed
	stale   chan struct{}               // holds one token: the waiting pings are to be read
	refused *notices                    // of pings that came to nothing
	logger  *slog.Logger
	metrics *metrics

	mu    sync.Mutex
	owned [subscription.Shards]bool // the shards of this process. Owned by mu.
	jobs  map[string]*fetchJob      // every topic that waits or runs, by key. Owned by mu.
	turns *fetchTurns               // the same, by host. Owned by mu.
	// total and byHost count the topics that wait or run, and those whose ping is
	// being noted. Owned by mu.
	total  int
	byHost map[string]int
	// settled remembers recent pings that were carried out: later reads and reports may be older than
	// that. Owned by mu.
	settled recent
}

type (
	fetchTurns  = turns.Queue[string, *fetchJob]
	fetchTicket = turns.Ticket[string, *fetchJob]
)

// fetchJob is one topic that is to be fetched. While it runs its fields belong
// to the goroutine that runs it, else to fetcher.mu.
type fetchJob struct {
	at      topic.Address
	ping    delivery.Ping
	shard   subscription.Shard
	host    string
	ticket  *fetchTicket // Owned by fetcher.mu.
	running bool         // Owned by fetcher.mu.
	lost    bool         // the shard was, since the attempt began. Owned by fetcher.mu.
	// backoff counts from the first failure; nil before.
	backoff *backoff.ExponentialBackOff
	// settled: nothing is left but to have the ping forgotten.
	settled bool
}

func newFetcher(cfg Config, parts Parts, logger *slog.Logger) *fetcher {
	return &fetcher{
		cfg:   cfg,
		pings: parts.Pings,
		source: &source{
			cfg: cfg, self: normalHub(cfg.URL), transport: parts.Transport,
			publisher: parts.Publisher,
			bodies:    bodies.NewRoom(cfg.MaxFetchBytes, cfg.MaxBody, errBusy),
		},
		pace: parts.Checker.pace,
		sure: parts.Surety,
		known: func(at topic.Address) bool {
			said, ok := parts.Checker.remembered(at)
			_, wanted := parts.Audience.Spelling(at.Key())
			return wanted || ok && said == nil
		},
		wake:    make(chan struct{}, 1),
		stale:   make(chan struct{}, 1),
		refused: &notices{},
		logger:  logger,
		jobs:    make(map[string]*fetchJob),
		turns: turns.NewQueue[string, *fetchJob](turns.Config[string]{
			Slots: cfg.Fetches, PerPeer: cfg.FetchesPerHost,
			SlowAfter: cfg.FetchSlowAfter, SlowSlots: cfg.SlowFetches,
		}),
		byHost: make(map[string]int),
	}
}

// fetchedHost is by what pings are counted and take turns.
func fetchedHost(at topic.Address) string { return topic.Site(at.String()) }

// add has topics fetched whose pings are durable, those of this process's shards.
func (f *fetcher) add(pings ...delivery.Ping) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range pings {
		at := p.Topic
		shard := subscription.TopicShard(at)
		switch j := f.jobs[at.Key()]; {
		case !f.owned[shard] || p.Count <= f.settled.count(at.Key()):
		case j == nil:
			j = &fetchJob{at: at, ping: p, shard: shard, host: fetchedHost(at)}
			f.jobs[at.Key()] = j
			f.count(j.host)
			j.ticket = f.turns.Push(j.host, turns.Fresh, j)
		case !j.running && !j.settled && p.Count > j.ping.Count:
			j.ping = p
		default: // Fetched will tell of it
		}
	}
	f.signal()
}

func (f *fetcher) waitingCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.jobs)
}

func (f *fetcher) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// run fetches until ctx ends.
func (f *fetcher) run(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error { f.carryOn(ctx); return nil })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		ready, next := f.take(time.Now())
		for _, j := range ready {
			g.Go(func() error { f.carryOut(ctx, j); return nil })
		}
		timer.Reset(next)
		select {
		case <-ctx.Done():
		case <-f.wake:
		case <-timer.C:
		}
	}
	return g.Wait()
}

// carryOn takes up the pings that the store holds, as often as it is asked for,
// each time until it has succeeded, until ctx ends.
func (f *fetcher) carryOn(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.stale:
		}
		err := f.readWaiting(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		f.logger.Error("waiting pings could not be read; trying again", "error", err)
		f.refresh()
		select {
		case <-ctx.Done():
		case <-time.After(f.cfg.RetryAfter):
		}
	}
}

// refresh has the waiting pings read soon.
func (f *fetcher) refresh() {
	select {
	case f.stale <- struct{}{}:
	default:
	}
}

func (f *fetcher) readWaiting(ctx context.Context) error {
	f.keepSettled(true)
	defer f.keepSettled(false)
	for p, err := range f.pings.Waiting(ctx) {
		if err != nil {
			return err
		}
		f.add(p)
	}
	return nil
}

func (f *fetcher) keepSettled(keep bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settled.keep = keep
}

// gained takes over the topics of a shard: those that wait are read soon, once for
// all shards that are gained at about the same time.
func (f *fetcher) gained(shard subscription.Shard) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.owned[shard] = true
	f.refresh()
}

// lost forgets the topics of a shard that wait; those that run publish nothing any
// more, and are forgotten after their attempt.
func (f *fetcher) lost(shard subscription.Shard) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.owned[shard] = false
	for _, j := range f.jobs {
		switch {
		case j.shard != shard:
		case j.running:
			j.lost = true
		default:
			f.turns.Remove(j.ticket)
			f.forget(j)
		}
	}
	f.signal()
}

// mine reports whether the job's topic has been this process's to fetch since its
// attempt began.
func (f *fetcher) mine(j *fetchJob) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !j.lost && f.sure.Of(j.shard, time.Now())
}

// idle is how long the loop sleeps if nothing is due; it is woken before.
const idle = time.Hour

// take returns the jobs to start now, and how long until it is to be called again.
func (f *fetcher) take(now time.Time) (ready []*fetchJob, next time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turns.Tick(now)
	for f.sure.OfAny(now) {
		t := f.turns.Next(now)
		if t == nil {
			break
		}
		j := t.Value
		j.running, j.lost = true, false
		ready = append(ready, j)
	}
	if at, ok := f.turns.Wake(); ok {
		return ready, at.Sub(now)
	}
	return ready, idle
}

// carryOut makes one attempt at a job, and puts the job back if there is more to do.
func (f *fetcher) carryOut(ctx context.Context, j *fetchJob) {
	pause, done := f.attempt(ctx, j)
	f.mu.Lock()
	defer f.mu.Unlock()
	j.running = false
	f.turns.Done(j.ticket)
	switch {
	case done:
		f.forget(j)
		f.settled.add(j.at.Key(), j.ping.Count)
	case !f.owned[j.shard]:
		f.forget(j)
	default:
		j.ticket = f.turns.PushAt(j.host, turns.Fresh, j, time.Now().Add(pause))
	}
	f.signal()
}

// forget takes out a job. The caller holds mu.
func (f *fetcher) forget(j *fetchJob) {
	delete(f.jobs, j.at.Key())
	f.unreserve(j.host)
}

// attempt fetches a topic and settles its ping, as far as it gets. If that is not
// all, it says after which pause to go on.
func (f *fetcher) attempt(ctx context.Context, j *fetchJob) (pause time.Duration, done bool) {
	if !j.settled {
		if pause, j.settled = f.fetch(ctx, j); !j.settled {
			return pause, false
		}
	}
	// The end of the process must not undo what was published already.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.cfg.StoreTimeout)
	defer cancel()
	left, err := f.pings.Fetched(ctx, j.ping)
	if err != nil {
		f.logger.Error("fetched ping could not be forgotten; trying again", "topic", j.ping.Topic, "error", err)
		return f.cfg.RetryAfter, false
	}
	if left == nil {
		return 0, true
	}
	j.ping, j.settled, j.backoff = *left, false, nil
	return 0, false
}

// doubtPause is how long a job waits whose shard may be another process's by now.
const doubtPause = time.Second

// fetch fetches and publishes a topic, and returns the outcome for its job. Any client may ping
// anything. So a failed ping gets a line now and then for each topic, and the metrics count it. A
// topic that is known to be wanted needs no turn: a stranger's pings of missing topics cannot hold up
// a healthy topic beside them.
func (f *fetcher) fetch(ctx context.Context, j *fetchJob) (pause time.Duration, settled bool) {
	at := j.at
	known := f.known(at)
	if later := (*subscription.Later)(nil); !known && errors.As(f.pace.turn(at), &later) {
		return later.After, false
	}
	if !f.mine(j) {
		return doubtPause, false
	}
	published, err := f.source.publish(ctx, at, func() bool { return f.mine(j) })
	if err == nil || definitive(err) || errors.Is(err, ErrTopicAway) {
		f.pace.note(at, err)
	}
	switch {
	case err == nil && published:
		f.metrics.fetches.WithLabelValues(fetchPublished).Inc()
		return 0, true
	case err == nil:
		f.metrics.fetches.WithLabelValues(fetchEmpty).Inc()
		return 0, true
	case ctx.Err() != nil:
		return 0, false
	case definitive(err):
		f.metrics.fetches.WithLabelValues(fetchRefused).Inc()
		if tell, untold := f.refused.tell(at); tell {
			f.logger.Info("pinged topic not distributed", "topic", at.String(), "untold", untold, "error", err)
		} else {
			f.logger.Debug("pinged topic not distributed", "topic", at.String(), "error", err)
		}
		return 0, true
	case errors.Is(err, errNotMine):
		f.logger.Debug("fetched topic not published: its shard was lost, or may be", "topic", at.String())
		return 0, false
	case errors.Is(err, errBusy):
		return f.cfg.RetryAfter, false // the room is others' for now
	case errors.Is(err, delivery.ErrUnavailable):
		f.logger.Error("pinged topic could not be stored; trying again", "topic", at.String(), "error", err)
		return f.cfg.RetryAfter, false
	}
	f.metrics.fetches.WithLabelValues(fetchFailed).Inc()
	if j.backoff == nil {
		j.backoff = f.newBackoff(known)
	}
	if pause = j.backoff.NextBackOff(); pause == backoff.Stop {
		f.metrics.fetches.WithLabelValues(fetchGivenUp).Inc()
		if tell, untold := f.refused.tell(at); tell {
			f.logger.Info("fetching a pinged topic was given up", "topic", at.String(), "untold", untold, "error", err)
		}
		return 0, true
	}
	if answer := (*laterError)(nil); errors.As(err, &answer) {
		pause = max(pause, min(answer.retryAfter, f.cfg.FetchRetryMax))
	}
	f.logger.Debug("fetching a pinged topic failed; trying again", "topic", at.String(), "after", pause, "error", err)
	return pause, false
}

// newBackoff returns the schedule of retries. A topic that is not known to be wanted, nor to name this
// hub, may be a stranger's victim. It is tried seldom: four times more by default, the last time half
// an hour later or more.
func (f *fetcher) newBackoff(known bool) *backoff.ExponentialBackOff {
	if !known {
		return backoff.NewExponentialBackOff(
			backoff.WithInitialInterval(f.cfg.FetchRetryFirst),
			backoff.WithMaxInterval(max(f.cfg.FetchRetryFor, f.cfg.FetchRetryFirst)),
			backoff.WithMultiplier(7),
			backoff.WithRandomizationFactor(0.2),
			backoff.WithMaxElapsedTime(f.cfg.FetchRetryFor),
		)
	}
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(f.cfg.FetchRetryFirst),
		backoff.WithMaxInterval(f.cfg.FetchRetryMax),
		backoff.WithMultiplier(2),
		backoff.WithMaxElapsedTime(f.cfg.FetchRetryFor),
	)
}

// count counts one more topic of the host, also beyond the bounds: pings that were answered before the
// process began are carried out. The caller holds mu.
func (f *fetcher) count(host string) {
	f.total++
	f.byHost[host]++
}

// unreserve counts one topic less of each host. The caller holds mu.
func (f *fetcher) unreserve(hosts ...string) {
	for _, host := range hosts {
		f.total--
		if f.byHost[host]--; f.byHost[host] == 0 {
			delete(f.byHost, host)
		}
	}
}

// reserve counts one more topic. The caller holds mu.
func (f *fetcher) reserve(c counted) error {
	switch waiting := f.byHost[c.host]; {
	case f.total >= f.cfg.MaxPings:
		return errBusy
	case waiting >= f.cfg.MaxPingsPerHost, waiting >= maxBadPings && c.few:
		return errHostBusy
	}
	f.count(c.host)
	return nil
}

// counted is where a topic that does not wait yet is counted.
type counted struct {
	host string
	// few: the site is in bad standing, and the topic is not known to be wanted, so that only maxBadPings
	// of its like may wait.
	few bool
}

// admit reserves room for the topics of a ping that do not wait yet: errBusy if too
// many wait in all, errHostBusy if too many of one host do. The room is held until
// release is called, after add or where the ping came to nothing.
func (f *fetcher) admit(topics []topic.Address) (release func(), err error) {
	all := make([]counted, len(topics))
	for i, at := range topics {
		host := fetchedHost(at)
		all[i] = counted{host, f.pace.bad(host) && !f.known(at)}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var hosts []string
	for i, at := range topics {
		if f.jobs[at.Key()] != nil {
			continue
		}
		if err := f.reserve(all[i]); err != nil {
			f.unreserve(hosts...)
			return nil, err
		}
		hosts = append(hosts, all[i].host)
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.unreserve(hosts...)
	}, nil
}
