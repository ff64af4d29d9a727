package follow_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"carillon/destination"
	"carillon/destination/follow"
	"carillon/destination/follow/followtest"
	"carillon/destination/lists"
)

// TestInStepWhateverHappens: random changes; notifications that are lost, come twice or in another order;
// a Destination that is stopped and killed; lists that cannot be read for a while, or are written late;
// a Taker and a Store that fail. In the end each change was handed on, in order, once, but
// for those that a killed process had not noted, which come again under the same key.
func TestInStepWhateverHappens(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan(rt) // before the bubble, where rapid cannot work
		var err error
		synctest.Test(t, func(t *testing.T) { err = p.run(t) })
		if err != nil {
			rt.Fatalf("%v", err)
		}
	})
}

// plan is what happens.
type plan struct {
	memory, list bool // which there are; one at least
	late         time.Duration
	settle       time.Duration
	inbox        int
	steps        []step
}

type step struct {
	kind    int
	changes int             // of a notification
	after   []time.Duration // when it is delivered, each time; none: it is lost
	wait    time.Duration
	calls   int // after so many calls the trouble begins
}

// The kinds of steps.
const (
	publishes = iota
	waits
	stops
	kills
	breaksLists
	breaksHandler
	breaksStore
	hubGone
	kinds
)

func drawPlan(rt *rapid.T) plan {
	duration := func(name string, high time.Duration) time.Duration {
		return time.Duration(rapid.Int64Range(0, int64(high)).Draw(rt, name))
	}
	p := plan{
		memory: rapid.Bool().Draw(rt, "memory"), late: duration("late", 10*time.Minute),
		settle: duration("settle", 5*time.Second) + 1, inbox: rapid.IntRange(1, 20).Draw(rt, "inbox"),
	}
	p.list = !p.memory || rapid.Bool().Draw(rt, "list")
	for range rapid.IntRange(1, 25).Draw(rt, "steps") {
		s := step{kind: publishes}
		if rapid.IntRange(0, 2).Draw(rt, "not a publication") == 0 {
			s.kind = rapid.IntRange(0, kinds-1).Draw(rt, "kind")
		}
		switch s.kind {
		case publishes:
			s.changes = rapid.IntRange(0, 6).Draw(rt, "changes")
			for range rapid.IntRange(0, 3).Draw(rt, "deliveries") {
				s.after = append(s.after, duration("after", 8*time.Second))
			}
		default:
			s.wait = duration("wait", 20*time.Minute)
			s.calls = rapid.IntRange(0, 3).Draw(rt, "calls")
		}
		p.steps = append(p.steps, s)
	}
	return p
}

// run is within a bubble.
func (p plan) run(t *testing.T) error {
	w := newFixture(t)
	w.cfg.Settle, w.cfg.Inbox = p.settle, p.inbox
	w.cfg.Start, w.cfg.StartTime = follow.StartAt, time.Now()
	if !p.memory {
		w.src.memory = nil
	}
	if !p.list {
		w.src.list = nil
	}
	d := &drill{fixture: w, plan: p}
	d.prepare()
	d.begin()
	for _, s := range p.steps {
		d.step(s)
	}
	d.healed.Store(true)
	w.src.mu.Lock()
	w.src.pushed = true
	w.src.mu.Unlock()
	d.sleep(time.Hour)
	// A lost last publication is found when push is silent, or by the next one.
	d.deliver(w.src.publish(1), 0)
	d.sleep(3 * time.Hour)
	if err := w.stop(); err != nil {
		return fmt.Errorf("Run: %w\n%s", err, w.logs.String())
	}
	if err := d.judge(); err != nil {
		return fmt.Errorf("%w\n%s", err, w.logs.String())
	}
	return nil
}

// drill carries a plan out.
type drill struct {
	*fixture
	plan   plan
	kills  int
	healed atomic.Bool
	dead   atomic.Pointer[atomic.Bool] // of the process that runs
	// Until when what fails.
	listsUntil, handlerUntil, storeUntil until
	killAt                               atomic.Int64 // at which Advance the process is killed; 0: not
}

// prepare has what fails fail.
func (d *drill) prepare() {
	for _, r := range []*reading{d.src.memory, d.src.list} {
		if r != nil {
			r.fail = func(asked int) error {
				if !d.healed.Load() && d.listsUntil.lasts() {
					return []error{errLater, &lists.BusyError{RetryAfter: 10 * time.Second}}[asked%2]
				}
				return nil
			}
		}
	}
	d.handler.fail = func(calls int, changes []follow.Change) (int, error) {
		if d.dead.Load().Load() {
			return 0, errDead
		}
		if !d.healed.Load() && d.handlerUntil.lasts() {
			return calls % (len(changes) + 1), errors.New("the taker fails")
		}
		return len(changes), nil
	}
	d.store.Fail = func(call string) error {
		if call == "Advance" && d.killAt.Load() > 0 && d.killAt.Add(-1) == 0 {
			d.dead.Load().Store(true)
		}
		if d.dead.Load().Load() {
			return errDead
		}
		if !d.healed.Load() && d.storeUntil.lasts() {
			return follow.ErrUnavailable
		}
		return nil
	}
}

// begin starts a process. One that is dead changes nothing any more.
func (d *drill) begin() {
	dead := &atomic.Bool{}
	d.dead.Store(dead)
	d.cfg.Store = &mortal{Store: d.store, dead: dead}
	d.start()
}

var errDead = errors.New("the process is dead")

// mortal is the store as one process has it.
type mortal struct {
	*followtest.Store
	dead *atomic.Bool
}

func (m *mortal) Advance(ctx context.Context, to follow.Position, drop ...string) error {
	if m.dead.Load() {
		return errDead
	}
	return m.Store.Advance(ctx, to, drop...)
}

func (d *drill) step(s step) {
	switch s.kind {
	case publishes:
		if d.src.list != nil {
			d.src.change(func() { d.src.list.ends = d.src.next })
			time.AfterFunc(d.plan.late, d.written)
		}
		n := d.src.publish(s.changes)
		for _, after := range s.after {
			time.AfterFunc(after, func() { d.deliver(n, 0) })
		}
		time.Sleep(time.Until(d.src.next)) // the Source's clock goes on
	case waits:
		d.sleep(s.wait)
	case stops:
		if d.storeUntil.lasts() {
			d.kills++ // a failed record has the effect of a kill
		}
		if err := d.stop(); err != nil {
			d.t.Errorf("Run: %v\n%s", err, d.logs.String())
		}
		time.Sleep(s.wait)
		d.begin()
	case kills:
		d.killAt.Store(int64(s.calls))
		time.Sleep(s.wait)
		d.kills++
		d.dead.Load().Store(true)
		_ = d.stop()
		d.killAt.Store(0)
		d.begin()
	case breaksLists:
		d.listsUntil.set(s.wait)
	case breaksHandler:
		d.handlerUntil.set(s.wait)
	case breaksStore:
		d.storeUntil.set(s.wait)
	case hubGone:
		d.src.mu.Lock()
		d.src.pushed = !d.src.pushed
		d.src.mu.Unlock()
	}
}

// written: the Change List has all that was published.
func (d *drill) written() {
	d.src.change(func() { d.src.list.ends = time.Time{} })
}

// deliver is a hub that comes again, and gives up in the end.
func (d *drill) deliver(n *destination.Notification, attempt int) {
	if err := d.f.Load().Accept(n); err != nil && attempt < 5 {
		time.AfterFunc(time.Minute, func() { d.deliver(n, attempt+1) })
	}
}

// judge looks at what was handed on.
func (d *drill) judge() error {
	want := map[string]int{}
	for i := range d.src.entries {
		want[follow.Key(&d.src.entries[i], 0)] = i
	}
	next, back := 0, 0
	for _, c := range d.handler.changes() {
		i, known := want[c.Key]
		switch {
		case !known:
			return fmt.Errorf("nobody made the change %s", c.Key)
		case i > next:
			return fmt.Errorf("change %d is handed on where %d is next", i, next)
		case i < next:
			back++
			if d.kills == 0 {
				return fmt.Errorf("change %d is handed on again", i)
			}
		}
		next = i + 1
	}
	if next != len(d.src.entries) {
		return fmt.Errorf("%d changes were handed on of %d", next, len(d.src.entries))
	}
	return nil
}
