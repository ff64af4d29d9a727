package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"carillon/delivery"
	"carillon/subscription"
)

// farewellTime bounds how long the server may take to hear that the shards are
// given up.
const farewellTime = 5 * time.Second

// phase is where a shard stands with this process:
//
//	afar ──▶ taken ──▶ gaining ──▶ held
//	 ▲         │          │          │
//	 │         │          ▼          │
//	 │         │        leaving ◀────┘
//	 │         ▼          ▼
//	 ├────  given up ◀─ losing
//	 └────────────────────┘ where it is another's by now
type phase uint8

const (
	afar    phase = iota // not this process's
	taken                // leased; Gained waits for its turn
	gaining              // Gained is being called
	held                 // Gained returned nil
	leaving              // Lost waits for its turn
	losing               // Lost is being called
	givenUp              // Lost is over; the lease is to be released
)

// lease is a shard, as the keeper sees it.
type lease struct {
	phase
	epoch   uint64
	renewed time.Time // when the last renewal was sent; kept while afar
	fenced  bool      // it is another's by now, or may be: it is not renewed
	again   bool      // its server may have lost what was acknowledged: to be read anew

	// While gaining: how to break it off, and that it is.
	stop   context.CancelFunc
	broken bool

	// While afar.
	known    bool      // freeAt was asked since the last round
	freeAt   time.Time // when it can be taken; zero: at once
	wanted   bool      // it is to be taken
	failures int       // of Gained in a row
	unsure   bool      // an answer to take is missing: it may be this process's
	retryAt  time.Time // not before

	silent bool // releasing it failed; to be tried with the next round
}

// mine reports whether the process holds the lease and may call upon it.
func (l *lease) mine() bool { return l.phase == taken || l.phase == gaining || l.phase == held }

// entrusted reports that Gained was called, and Lost has not returned.
func (l *lease) entrusted() bool {
	return l.phase == gaining || l.phase == held || l.phase == leaving || l.phase == losing
}

// keeper is a running Shards.Run. Everything in it belongs to the goroutine of run. Calls that wait
// for the Holder or for the server have goroutines of their own and answer by a channel. So leases are
// renewed however long a Gained takes, and a Lost begins though the server is silent.
type keeper struct {
	db       *DB
	engine   *engine
	holder   delivery.Holder
	log      *slog.Logger
	takeover time.Duration

	leases [subscription.Shards]lease
	calls  bool // the Holder is being called
	asking bool // an exchange is under way

	rounds    schedule
	processes int // 0: not known
	fair      int
	first     int // the shard at which this process begins to take

	ending   bool
	fatal    error
	left     bool        // the membership is over
	farewell bool        // the last exchange is made
	limit    *time.Timer // of that
}

func newKeeper(db *DB, h delivery.Holder) *keeper {
	return &keeper{db: db, engine: db.engine, holder: h, log: db.engine.log, takeover: db.engine.cfg.Takeover}
}

// run keeps the shards until ctx ends, or Gained fails for good.
func (k *keeper) run(ctx context.Context, wake <-chan struct{}) error {
	deeds, done := make(chan deed), make(chan deed, 1)
	defer close(deeds)
	go k.perform(deeds, done)
	// Exchanges outlive ctx, so that shards are renewed while they are handed back.
	lasting, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	answered := make(chan round, 1)
	timer := time.NewTimer(0)
	defer timer.Stop()
	ended := ctx.Done()
	for {
		if !k.calls {
			k.call(ctx, deeds)
		}
		if k.over(cut) {
			return k.fatal
		}
		if !k.asking {
			k.ask(lasting, answered)
		}
		k.show()
		timer.Reset(time.Until(k.rounds.next))
		due := timer.C
		if k.asking {
			due = nil // a round that is due waits for the answers
		}
		select {
		case <-ended:
			ended = nil
			k.end(nil)
		case <-wake:
			k.soon()
		case <-due:
		case d := <-done:
			k.performed(ctx, d)
		case r := <-answered:
			k.applyRound(r)
		}
		k.balance()
	}
}

// over reports whether everything is handed back. The server gets once more the messages that it may
// lack, within a bound that begins when the Holder is done.
func (k *keeper) over(cut func()) bool {
	if !k.ending || k.working() {
		return false
	}
	if k.limit == nil {
		k.limit = time.AfterFunc(farewellTime, cut)
	}
	if k.asking {
		return false
	}
	if _, leased := k.find(givenUp); k.farewell || k.left && !leased { // the server knows all
		k.limit.Stop()
		return true
	}
	k.farewell, k.rounds.next = true, time.Now()
	return false
}

// deed is a call of the Holder: Gained if there is a context, else Lost.
type deed struct {
	tenure delivery.Tenure
	ctx    context.Context
	err    error
}

// perform makes the calls, one at a time.
func (k *keeper) perform(deeds <-chan deed, done chan<- deed) {
	for d := range deeds {
		if d.ctx != nil {
			d.err = k.holder.Gained(d.ctx, d.tenure)
		} else {
			k.holder.Lost(d.tenure.Shard)
		}
		done <- d
	}
}

// call begins the next call of the Holder, if one is due: others wait for what is
// to be lost.
func (k *keeper) call(ctx context.Context, deeds chan<- deed) {
	s, ok := k.find(leaving)
	if !ok {
		s, ok = k.find(taken)
	}
	if !ok {
		return
	}
	l := &k.leases[s]
	d := deed{tenure: delivery.Tenure{Shard: s, Epoch: l.epoch}}
	if l.phase == taken {
		l.phase, l.broken = gaining, false
		d.ctx, l.stop = context.WithCancel(ctx)
	} else {
		l.phase = losing
	}
	k.calls = true
	deeds <- d
}

// find returns the first shard in the phase, by the order of this process.
func (k *keeper) find(p phase) (subscription.Shard, bool) {
	for i := range subscription.Shards {
		if s := k.ordered(i); k.leases[s].phase == p {
			return s, true
		}
	}
	return 0, false
}

// ordered is the i-th shard in the order in which this process takes them. Each
// process begins elsewhere, so that several seldom want the same one.
func (k *keeper) ordered(i int) subscription.Shard {
	return subscription.Shard((k.first + i) % subscription.Shards)
}

// performed goes on after a call.
func (k *keeper) performed(ctx context.Context, d deed) {
	k.calls = false
	l := &k.leases[d.tenure.Shard]
	if d.ctx == nil {
		k.afterLost(l)
		return
	}
	l.stop()
	l.stop = nil
	if d.err == nil && !l.broken {
		l.phase, l.failures = held, 0
		return
	}
	l.phase = leaving
	switch {
	case d.err == nil, l.broken, ctx.Err() != nil:
	case errors.Is(d.err, delivery.ErrUnavailable), errors.Is(d.err, delivery.ErrFenced):
		pause := min(k.takeover/10<<min(l.failures, 10), max(k.takeover, time.Minute))
		l.failures++
		l.retryAt = time.Now().Add(pause)
		k.log.Warn(
			"a shard could not be taken over; it is tried again", "shard", d.tenure.Shard,
			"after", pause, "error", d.err,
		)
	default:
		k.end(fmt.Errorf("take shard %d: %w", d.tenure.Shard, d.err))
	}
}

// afterLost goes on after Lost.
func (k *keeper) afterLost(l *lease) {
	switch {
	case l.fenced:
		l.forget()
	case l.again && !k.ending && k.owned() < k.fair:
		l.forget() // the lease is still this process's, so that it can be taken anew
	default:
		l.phase = givenUp
	}
}

// forget makes a shard one of those that may be taken, if their owner lets them.
func (l *lease) forget() {
	*l = lease{known: true, renewed: l.renewed, failures: l.failures, retryAt: l.retryAt}
}

// partWith ends the work on a shard.
func (k *keeper) partWith(l *lease) {
	switch l.phase {
	case taken:
		k.afterLost(l)
	case gaining:
		l.broken = true
		l.stop()
	case held:
		l.phase = leaving
	}
}

// end hands everything back.
func (k *keeper) end(err error) {
	if k.ending {
		return
	}
	k.ending, k.fatal = true, err
	for s := range k.leases {
		l := &k.leases[s]
		if k.partWith(l); l.unsure {
			*l = lease{phase: givenUp}
		}
	}
	k.rounds.next = time.Now()
}

// working reports whether the Holder still works on a shard.
func (k *keeper) working() bool {
	for s := range k.leases {
		if k.leases[s].phase != afar && k.leases[s].phase != givenUp {
			return true
		}
	}
	return false
}

// owned is how many shards are this process's and shall remain so.
func (k *keeper) owned() (n int) {
	for s := range k.leases {
		if k.leases[s].mine() {
			n++
		}
	}
	return n
}

// balance decides what to hand back and what to take.
func (k *keeper) balance() {
	if k.ending || !k.rounds.proven {
		return
	}
	owned := k.owned()
	// Shards that are taken but not yet gained go first, then those that others like best.
	for _, p := range [...]phase{taken, gaining, held} {
		for i := subscription.Shards - 1; i >= 0 && owned > k.fair; i-- {
			if l := &k.leases[k.ordered(i)]; l.phase == p && !(p == gaining && l.broken) {
				k.partWith(l)
				owned--
			}
		}
	}
	now := time.Now()
	for i := range subscription.Shards {
		l := &k.leases[k.ordered(i)]
		l.wanted = l.phase == afar && l.known && owned < k.fair && !now.Before(l.freeAt) && !now.Before(l.retryAt)
		if l.wanted {
			owned++
		}
	}
	if owned < k.fair && !k.rounds.looked {
		k.soon()
	}
	k.rounds.next = k.earliest(owned < k.fair)
}

// earliest is when the next round is due: as planned, or when a shard that is
// missing may be free.
func (k *keeper) earliest(missing bool) time.Time {
	next := k.rounds.next
	for s := range k.leases {
		l := &k.leases[s]
		if !missing || l.phase != afar || !l.known || l.wanted {
			continue
		}
		at := l.freeAt
		if at.Before(l.retryAt) {
			at = l.retryAt
		}
		if at = k.spaced(at); at.Before(next) {
			next = at
		}
	}
	return next
}

// soon makes the next round come at once.
func (k *keeper) soon() {
	if at := k.spaced(time.Now()); at.Before(k.rounds.next) {
		k.rounds.next = at
	}
}

// spaced keeps a distance from the last round, so that many reasons to look are
// not as many rounds.
func (k *keeper) spaced(at time.Time) time.Time {
	if earliest := k.rounds.last.Add(k.takeover / 100); at.Before(earliest) {
		return earliest
	}
	return at
}

// show shows others the state of the shards.
func (k *keeper) show() {
	state := ShardState{Processes: k.processes, Fair: k.fair, LastRenewal: k.rounds.renewal}
	for s := range k.leases {
		if k.leases[s].phase == held {
			state.Owned++
		}
	}
	k.db.sharing.set(state)
}
