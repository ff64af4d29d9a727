package deliverytest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"carillon/delivery"
	"carillon/subscription"
)

// SharingHarness is an engine that several processes share, empty at first.
type SharingHarness struct {
	// Process opens the engine as one more process.
	Process func(t *testing.T) Process
	// Takeover is how long a process that is not heard of keeps its shards. Some
	// tests take a few times as long; a second is a good choice.
	Takeover time.Duration
}

// Process is one of those that share an engine.
type Process struct {
	Parts
	// Silence cuts the process off from the engine, as if it were stopped or
	// killed: it hands nothing back, and its calls do not arrive.
	Silence func()
	// Return ends that.
	Return func()
}

// sharingLimit is how long a test waits for what must come; it is reached only where
// the test fails.
const sharingLimit = 30 * time.Second

// town is the processes of a test. It knows who works on what, and sees to it that
// no two do on the same.
type town struct {
	t        *testing.T
	takeover time.Duration
	process  func(t *testing.T) Process

	mu        sync.Mutex
	changed   chan struct{} // closed, and made anew, when something happened
	epochs    [subscription.Shards]uint64
	residents []*resident
}

// resident is a process that runs, and its Holder. The fields after reply are guarded by town.mu.
type resident struct {
	Process
	town *town
	name string
	stop context.CancelFunc
	done chan struct{} // closed when Run has ended

	// reply is what Gained returns, and lose what Lost does meanwhile; nil for
	// nothing. They do not change while it runs.
	reply func(ctx context.Context, tenure delivery.Tenure) error
	lose  func(s subscription.Shard)

	held     map[subscription.Shard]delivery.Tenure
	sure     time.Time
	until    [subscription.Shards]time.Time // as sure, by shard
	silenced bool                           // once, at least
	inside   int                            // calls of Gained and Lost
	gained   int
	lost     int
	err      error // what Run returned
}

func newTown(t *testing.T, h SharingHarness) *town {
	return &town{t: t, takeover: h.Takeover, process: h.Process, changed: make(chan struct{})}
}

// move adds a process that does not run yet.
func (w *town) move() *resident {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := &resident{
		town: w, name: fmt.Sprint("process ", len(w.residents)+1), done: make(chan struct{}),
		held: make(map[subscription.Shard]delivery.Tenure),
	}
	w.residents = append(w.residents, r)
	return r
}

// run opens the engine for a process and has it share the shards until the test
// ends, or end is called.
func (r *resident) run() *resident {
	r.town.t.Helper()
	r.Process = r.town.process(r.town.t)
	return r.start()
}

func (r *resident) start() *resident {
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() {
		err := r.Shards.Run(ctx, r)
		r.town.note(func() { r.err = err })
		close(r.done)
	}()
	r.town.t.Cleanup(func() {
		stop()
		<-r.done
	})
	return r
}

// end has a process hand back what it has, and checks that it did.
func (r *resident) end() {
	r.town.t.Helper()
	r.stop()
	<-r.done
	r.town.mu.Lock()
	defer r.town.mu.Unlock()
	if r.err != nil {
		r.town.t.Errorf("%s: Run: %v", r.name, r.err)
	}
	r.checkEnd()
}

// checkEnd checks that all that was gained was lost. mu is held.
func (r *resident) checkEnd() {
	r.town.t.Helper()
	if len(r.held) > 0 || r.gained != r.lost {
		r.town.t.Errorf("%s ended with %d shards, having gained %d and lost %d", r.name, len(r.held), r.gained, r.lost)
	}
}

// silence cuts a process off.
func (r *resident) silence() {
	r.town.note(func() { r.silenced = true })
	r.Silence()
}

// note changes what a test may be waiting for.
func (w *town) note(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	close(w.changed)
	w.changed = make(chan struct{})
}

// wait waits until a condition holds, which it is asked with mu held.
func (w *town) wait(what string, holds func() bool) {
	w.t.Helper()
	limit := time.NewTimer(sharingLimit)
	defer limit.Stop()
	for {
		w.mu.Lock()
		ok, changed := holds(), w.changed
		w.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			w.t.Fatalf("not within %s: %s; %s", sharingLimit, what, w)
		}
	}
}

// waitParts waits until the residents own so many shards each.
func (w *town) waitParts(parts map[*resident]int) {
	w.t.Helper()
	w.wait("the shards are shared as they should be", func() bool {
		for r, n := range parts {
			if len(r.held) != n {
				return false
			}
		}
		return true
	})
}

// String says who has what.
func (w *town) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := ""
	for _, r := range w.residents {
		text += fmt.Sprintf(
			"%s has %d shards, gained %d, lost %d, sure until %s; ", r.name, len(r.held), r.gained, r.lost, r.sure,
		)
	}
	return text
}

// tenures are those of the moment.
func (r *resident) tenures() map[subscription.Shard]delivery.Tenure {
	r.town.mu.Lock()
	defer r.town.mu.Unlock()
	tenures := make(map[subscription.Shard]delivery.Tenure)
	for s, tenure := range r.held {
		tenures[s] = tenure
	}
	return tenures
}

// Gained implements delivery.Holder.
func (r *resident) Gained(ctx context.Context, tenure delivery.Tenure) error {
	r.town.note(func() { r.gain(tenure) })
	defer r.town.note(func() { r.inside-- })
	if r.reply != nil {
		return r.reply(ctx, tenure)
	}
	return nil
}

// gain checks that no other resident can work on the shard. mu is held.
func (r *resident) gain(tenure delivery.Tenure) {
	w, s, now := r.town, tenure.Shard, time.Now()
	if r.inside++; r.inside > 1 {
		w.t.Errorf("%s: two calls at once", r.name)
	}
	if r.sure.IsZero() {
		w.t.Errorf("%s: Gained before Sure", r.name)
	}
	if tenure.Epoch <= w.epochs[s] {
		w.t.Errorf("%s: epoch %d of shard %d after %d", r.name, tenure.Epoch, s, w.epochs[s])
	}
	for _, other := range w.residents {
		_, held := other.held[s]
		switch {
		case !held:
		case other == r:
			w.t.Errorf("%s gained shard %d twice", r.name, s)
		case !other.silenced:
			w.t.Errorf("%s gained shard %d before %s was told that it is lost", r.name, s, other.name)
		case other.until[s].After(now):
			w.t.Errorf(
				"%s gained shard %d while %s is sure of it for another %s", r.name, s, other.name,
				other.until[s].Sub(now),
			)
		}
	}
	w.epochs[s] = max(w.epochs[s], tenure.Epoch)
	r.held[s] = tenure
	r.gained++
}

// Lost implements delivery.Holder.
func (r *resident) Lost(s subscription.Shard) {
	r.town.note(func() {
		if r.inside++; r.inside > 1 {
			r.town.t.Errorf("%s: two calls at once", r.name)
		}
		if _, held := r.held[s]; !held {
			r.town.t.Errorf("%s lost shard %d, which it does not have", r.name, s)
		}
	})
	if r.lose != nil {
		r.lose(s)
	}
	r.town.note(func() {
		delete(r.held, s)
		r.lost++
		r.inside--
	})
}

// Sure implements delivery.Holder.
func (r *resident) Sure(until time.Time, doubted ...subscription.Shard) {
	r.town.note(func() {
		if left := time.Until(until); left > r.town.takeover {
			r.town.t.Errorf("%s is sure for another %s, the lease is %s", r.name, left, r.town.takeover)
		}
		r.sure = until
		for s := range r.until {
			if !slices.Contains(doubted, subscription.Shard(s)) {
				r.until[s] = until
			}
		}
	})
}
