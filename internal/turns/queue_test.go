package turns_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"carillon/internal/turns"
)

type (
	queue  = turns.Queue[string, int]
	ticket = turns.Ticket[string, int]
)

// began is a moment of no meaning.
var began = time.Unix(1_800_000_000, 0)

// drain has the queue's work done one after the other and returns the peers in that order.
func drain(q *queue, now time.Time) string {
	var order []string
	q.Tick(now)
	for t := q.Next(now); t != nil; t = q.Next(now) {
		order = append(order, t.Lane().Key)
		q.Done(t)
	}
	return strings.Join(order, "")
}

// TestTurns: peers take turns, however much one of them has to do, and what one peer waits for
// is done in the order of coming.
func TestTurns(t *testing.T) {
	q := turns.NewQueue[string, int](turns.Config[string]{Slots: 1})
	for i := range 4 {
		q.Push("a", turns.Fresh, i)
	}
	q.Push("b", turns.Fresh, 0)
	q.Push("c", turns.Fresh, 0)
	q.Push("c", turns.Fresh, 1)
	if got := drain(q, began); got != "abcacaa" {
		t.Errorf("the order of the peers is %s, want abcacaa", got)
	}
}

// TestClasses: new and earlier entries take turns, within a peer and between peers.
func TestClasses(t *testing.T) {
	q := turns.NewQueue[string, int](turns.Config[string]{Slots: 1})
	for i := range 3 {
		q.Push("a", turns.Backlog, i)
		q.Push("b", turns.Backlog, i)
	}
	q.Push("c", turns.Fresh, 0)
	q.Push("a", turns.Fresh, 9)
	if got := drain(q, began); got != "caababab" {
		t.Errorf("the order of the peers is %s, want caababab", got)
	}
}

// TestTime: an entry with a time is not begun before it, and Wake returns the time.
func TestTime(t *testing.T) {
	q := turns.NewQueue[string, int](turns.Config[string]{Slots: 10})
	q.PushAt("late", turns.Fresh, 0, began.Add(2*time.Second))
	q.PushAt("soon", turns.Fresh, 0, began.Add(time.Second))
	gone := q.PushAt("gone", turns.Fresh, 0, began)
	q.Remove(gone)
	q.Remove(gone)
	if got := drain(q, began); got != "" {
		t.Errorf("%s began before its time", got)
	}
	if at, ok := q.Wake(); !ok || at != began.Add(time.Second) {
		t.Errorf("wake at %v, %v, want after a second", at, ok)
	}
	if got := drain(q, began.Add(3*time.Second)); got != "soonlate" {
		t.Errorf("%q began, want soonlate", got)
	}
	if at, ok := q.Wake(); ok {
		t.Errorf("wake at %v with nothing that waits", at)
	}
}

// TestSlow: one that takes long gives its slot back, but not its place among those of its
// peer, and only while the slow ones are not too many.
func TestSlow(t *testing.T) {
	q := turns.NewQueue[string, int](turns.Config[string]{Slots: 2, PerPeer: 1, SlowAfter: time.Second, SlowSlots: 1})
	for _, peer := range []string{"a", "a", "b", "c", "d"} {
		q.Push(peer, turns.Fresh, 0)
	}
	start := func(now time.Time) (all []*ticket) {
		q.Tick(now)
		for t := q.Next(now); t != nil; t = q.Next(now) {
			all = append(all, t)
		}
		return all
	}
	first := start(began)
	if at, ok := q.Wake(); len(first) != 2 || !ok || at != began.Add(time.Second) {
		t.Fatalf("%d began, wake at %v, want 2 and after a second", len(first), at)
	}
	second := start(began.Add(time.Second))
	if len(second) != 1 || second[0].Lane().Key != "c" {
		t.Fatalf("%d began instead of the slow one, want c", len(second))
	}
	if _, ok := q.Wake(); ok || q.AtWork() != 3 {
		t.Errorf("%d are at work, and there is a time to wake at: %v", q.AtWork(), ok)
	}
	if more := start(began.Add(time.Hour)); more != nil {
		t.Errorf("%d more began though there is one slow slot", len(more))
	}
	q.Done(first[0])
	// The next one of all at work for long is slow in its place.
	if third := start(began.Add(time.Hour)); len(third) != 1 || third[0].Lane().Key != "d" {
		t.Errorf("%d began, want d", len(third))
	}
}

// TestRest: a lane that rests begins nothing, also with a slot left, and is remembered.
func TestRest(t *testing.T) {
	q := turns.NewQueue[string, int](turns.Config[string]{Slots: 1})
	q.Push("a", turns.Fresh, 0)
	q.Rest(q.Lane("a"), began.Add(time.Second), began)
	q.Push("b", turns.Fresh, 0)
	if got := drain(q, began); got != "b" {
		t.Errorf("%q began, want b: a rests", got)
	}
	if at, ok := q.Wake(); !ok || at != began.Add(time.Second) {
		t.Errorf("wake at %v, %v, want when a has rested", at, ok)
	}
	if got := drain(q, began.Add(time.Second)); got != "a" {
		t.Errorf("%q began, want a", got)
	}
	q.Push("c", turns.Fresh, 0)
	q.Rest(q.Lane("c"), began.Add(time.Hour), began)
	q.Rest(q.Lane("c"), time.Time{}, began)
	if got := drain(q, began); got != "c" {
		t.Errorf("%q began, want c, whose rest was ended", got)
	}
	if q.Lane("a") != nil || q.Lane("b") != nil {
		t.Error("lanes with nothing in them are remembered")
	}
}

// hanging judges the peers whose name begins so as hanging.
type hanging struct{}

func (hanging) Limit(string) int { return 1 }

func (hanging) Beside(l *turns.Lane[string]) bool { return strings.HasPrefix(l.Key, "hanging") }

// TestBeside: peers that are judged to hang take no slot of the others, and a quarter of the
// slow ones.
func TestBeside(t *testing.T) {
	q := turns.NewQueue[string, int](turns.Config[string]{Slots: 2, SlowAfter: time.Second, SlowSlots: 8, Judge: hanging{}})
	for i := range 9 {
		q.Push(fmt.Sprintf("hanging%d", i), turns.Fresh, 0)
	}
	for i := range 3 {
		q.Push(fmt.Sprintf("well%d", i), turns.Fresh, 0)
	}
	var order []string
	q.Tick(began)
	for t := q.Next(began); t != nil; t = q.Next(began) {
		order = append(order, t.Lane().Key)
	}
	if got := strings.Join(order, " "); got != "well0 well1 hanging0 hanging1" {
		t.Errorf("%s began, want two of each", got)
	}
}

// TestFair: whatever comes, goes, is removed, rests or turns slow, no bound is passed, each
// value is given out once or removed, and no peer that could begin is passed over: between two
// turns of one peer every other one that was ready for all of that time had one.
func TestFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := turns.Config[string]{
			Slots: rapid.IntRange(1, 4).Draw(t, "slots"), PerPeer: rapid.IntRange(0, 3).Draw(t, "per peer"),
			SlowAfter: time.Second, SlowSlots: rapid.IntRange(0, 3).Draw(t, "slow slots"),
		}
		w := &world{t: t, cfg: cfg, queue: turns.NewQueue[string, int](cfg), now: began, passed: map[string]map[string]int{}}
		peer := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) { w.add(w.queue.Push(peer.Draw(t, "peer"), turns.Fresh, w.next())) },
			"push at": func(t *rapid.T) {
				in := time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond
				w.add(w.queue.PushAt(peer.Draw(t, "peer"), turns.Fresh, w.next(), w.now.Add(in)))
			},
			"remove": func(t *rapid.T) {
				if len(w.waiting) > 0 {
					one := rapid.SampledFrom(slices.Sorted(maps.Keys(w.waiting))).Draw(t, "waiting")
					w.queue.Remove(w.waiting[one])
					delete(w.waiting, one)
				}
			},
			"done": func(t *rapid.T) {
				if len(w.atWork) > 0 {
					i := rapid.IntRange(0, len(w.atWork)-1).Draw(t, "at work")
					w.queue.Done(w.atWork[i])
					w.atWork = append(w.atWork[:i:i], w.atWork[i+1:]...)
				}
			},
			"time": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 1500).Draw(t, "ms")) * time.Millisecond)
			},
			"": func(*rapid.T) { w.begin() },
		})
		w.finish()
	})
}

// world is a Queue and what should be in it.
type world struct {
	t       *rapid.T
	cfg     turns.Config[string]
	queue   *queue
	now     time.Time
	count   int
	waiting map[int]*ticket
	atWork  []*ticket
	// passed counts how often each other peer began while the peer could have.
	passed map[string]map[string]int
}

func (w *world) next() int { w.count++; return w.count }

func (w *world) add(one *ticket) {
	if w.waiting == nil {
		w.waiting = map[int]*ticket{}
	}
	w.waiting[one.Value] = one
}

// begin starts what may begin and looks at the bounds.
func (w *world) begin() {
	w.queue.Tick(w.now)
	for {
		able := w.able()
		one := w.queue.Next(w.now)
		if one == nil {
			break
		}
		if w.waiting[one.Value] != one {
			w.t.Fatalf("%d was given out twice, or after it was removed", one.Value)
		}
		delete(w.waiting, one.Value)
		w.atWork = append(w.atWork, one)
		w.pass(one.Lane().Key, able)
	}
	perPeer := map[string]int{}
	for _, one := range w.atWork {
		perPeer[one.Lane().Key]++
	}
	for peer, n := range perPeer {
		if w.cfg.PerPeer > 0 && n > w.cfg.PerPeer {
			w.t.Fatalf("%d of %s are at work, of %d", n, peer, w.cfg.PerPeer)
		}
	}
	if n := len(w.atWork); n > w.cfg.Slots+w.cfg.SlowSlots || n != w.queue.AtWork() {
		w.t.Fatalf("%d are at work, the queue counts %d", n, w.queue.AtWork())
	}
	if able := w.able(); len(able) > 0 && len(w.atWork) < w.cfg.Slots {
		w.t.Fatalf("%v could begin, and there is a slot", able)
	}
}

// able returns the peers that have something ready and a slot of their own left.
func (w *world) able() map[string]bool {
	able := map[string]bool{}
	for _, peer := range []string{"a", "b", "c", "d"} {
		l := w.queue.Lane(peer)
		able[peer] = l != nil && l.Waiting() > 0 && (w.cfg.PerPeer == 0 || l.Running < w.cfg.PerPeer)
		if !able[peer] {
			delete(able, peer)
			delete(w.passed, peer) // whatever was counted: it goes to the end
		}
	}
	return able
}

// pass records that a peer began before others that could have.
func (w *world) pass(began string, able map[string]bool) {
	delete(w.passed, began)
	for peer := range able {
		if peer == began {
			continue
		}
		if w.passed[peer] == nil {
			w.passed[peer] = map[string]int{}
		}
		if w.passed[peer][began]++; w.passed[peer][began] > 1 {
			w.t.Fatalf("%s began twice while %s waited for its turn", began, peer)
		}
	}
}

// finish has everything done that is left: all comes to its end, and nothing is remembered.
func (w *world) finish() {
	for len(w.waiting)+len(w.atWork) > 0 {
		for _, one := range w.atWork {
			w.queue.Done(one)
		}
		w.atWork = nil
		w.now = w.now.Add(time.Hour)
		w.begin()
		if len(w.atWork) == 0 && len(w.waiting) > 0 {
			w.t.Fatalf("%d wait for ever", len(w.waiting))
		}
	}
	for _, peer := range []string{"a", "b", "c", "d"} {
		if w.queue.Lane(peer) != nil {
			w.t.Errorf("the lane of %s is remembered", peer)
		}
	}
	if _, ok := w.queue.Wake(); ok || w.queue.Waiting() != 0 || w.queue.AtWork() != 0 {
		w.t.Errorf("%d wait and %d are at work when all is done", w.queue.Waiting(), w.queue.AtWork())
	}
}
