package deliverytest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"carillon/delivery"
	"carillon/subscription"
)

// RunProperty compares Cursors with a model: owners with current and with old
// epochs save side by side, the shards change hands, subscriptions end and begin,
// and the engine is opened again. No cursor ever moves back, and nothing that is
// stale is accepted. It makes a few hundred changes; -rapid.checks asks for more.
func RunProperty(t *testing.T, open func(t *testing.T) Harness) {
	h := open(t)
	w := &cursorWorld{t: t, h: h, processes: []Parts{h.Parts}}
	w.take(h.Parts)
	rapid.Check(t, func(rt *rapid.T) {
		w.round++
		m := &cursorModel{cursorWorld: w, rt: rt, subs: make(map[int]*modelCursor)}
		defer m.clear()
		for range rapid.IntRange(3, 8).Draw(rt, "steps") {
			switch rapid.IntRange(0, 19).Draw(rt, "step") {
			case 0, 1, 2, 3:
				m.begin()
			case 4, 5:
				m.end()
			case 6:
				m.change()
			case 7:
				m.reopen()
			default:
				m.save()
			}
			m.check()
		}
	})
}

// cursorWorld is what goes on from one check to the next.
type cursorWorld struct {
	t         *testing.T
	h         Harness
	processes []Parts
	now       Parts    // of the owner
	owners    []*owner // all that there were; the last one is the owner
	round     int
}

// take makes a process the owner of every shard.
func (w *cursorWorld) take(p Parts) {
	if n := len(w.owners); n > 0 {
		w.owners[n-1].end(w.t)
	}
	w.now = p
	w.owners = append(w.owners, own(w.t, p.Shards))
}

// modelCursor is a subscription with what must be stored of it.
type modelCursor struct {
	subscription.Subscription
	position delivery.Position
	gaps     map[delivery.Seq]delivery.Gap
}

// cursorModel is one check.
type cursorModel struct {
	*cursorWorld
	rt   *rapid.T
	subs map[int]*modelCursor // those that are not ended, by number
}

// cursorSubs is how many subscriptions one check has at most.
const cursorSubs = 6

func (m *cursorModel) which() int {
	return m.round*cursorSubs + rapid.IntRange(0, cursorSubs-1).Draw(m.rt, "subscription")
}

// begin makes a new subscription, or renews one.
func (m *cursorModel) begin() {
	n := m.which()
	from := delivery.Seq(rapid.IntRange(0, 5).Draw(m.rt, "start"))
	if c := m.subs[n]; c != nil {
		from = delivery.Seq(c.Start) // which its renewal keeps
	}
	if err := activate(m.t, m.now.Subscriptions, n, from); err != nil {
		m.rt.Fatal(err)
	}
	if m.subs[n] == nil {
		m.subs[n] = &modelCursor{
			granted(n, from), delivery.Position{Settled: from}, make(map[delivery.Seq]delivery.Gap),
		}
	}
}

func (m *cursorModel) end() {
	n := m.which()
	if m.subs[n] == nil {
		return
	}
	if removed, err := m.now.Subscriptions.Remove(m.t.Context(), m.subs[n].Subscription); err != nil || !removed {
		m.rt.Fatalf("removed is %v, error %v", removed, err)
	}
	delete(m.subs, n)
}

// change gives the shards to another owner: this process again, or another.
func (m *cursorModel) change() {
	if m.h.Another != nil && len(m.processes) < 3 {
		m.processes = append(m.processes, m.h.Another(m.t))
	}
	m.take(m.processes[rapid.IntRange(0, len(m.processes)-1).Draw(m.rt, "process")])
}

// reopen ends the engine in good order, or not, and opens it again.
func (m *cursorModel) reopen() {
	m.owners[len(m.owners)-1].end(m.t)
	if rapid.Bool().Draw(m.rt, "crash") {
		m.processes[0] = m.h.Crash(m.t)
	} else {
		m.processes[0] = m.h.Reopen(m.t)
	}
	m.take(m.processes[0])
}

// save saves some positions and gaps under the tenures of owners, most of them
// of the one that there is.
func (m *cursorModel) save() {
	var batches []delivery.Batch
	stale := make(map[subscription.Shard]bool)
	for range rapid.IntRange(1, 5).Draw(m.rt, "batches") {
		n := m.which()
		sub := granted(n, 0)
		p := delivery.Position{Settled: delivery.Seq(rapid.IntRange(0, 20).Draw(m.rt, "settled"))}
		if rapid.Bool().Draw(m.rt, "failed") {
			p = owing(p.Settled)
		}
		if rapid.IntRange(0, 3).Draw(m.rt, "replay") == 0 {
			p.ReplayNext = delivery.Seq(rapid.IntRange(1, 5).Draw(m.rt, "next"))
			p.ReplayLast = p.ReplayNext + delivery.Seq(rapid.IntRange(0, 5).Draw(m.rt, "to"))
		}
		var gaps []delivery.Gap
		if rapid.IntRange(0, 3).Draw(m.rt, "gap") == 0 {
			first := delivery.Seq(rapid.IntRange(1, 20).Draw(m.rt, "first"))
			gaps = append(gaps, gap(sub.ID, first, first+delivery.Seq(rapid.IntRange(0, 3).Draw(m.rt, "more"))))
			if rapid.Bool().Draw(m.rt, "replayed") {
				gaps[0] = replayed(gaps[0])
			}
		}
		current := len(m.owners) - 1
		by := max(0, current-max(0, rapid.IntRange(-3, 3).Draw(m.rt, "owners ago")))
		b := m.owners[by].batch(sub.ID, p, gaps...)
		batches = append(batches, b)
		if by < current {
			if b.Tenure.Epoch >= m.owners[current].tenures[b.Tenure.Shard].Epoch {
				m.rt.Fatalf(
					"the owner before had %+v, this one has %+v", b.Tenure, m.owners[current].tenures[b.Tenure.Shard],
				)
			}
			stale[b.Tenure.Shard] = true
			continue
		}
		if c := m.subs[n]; c != nil {
			if p.Settled >= c.position.Settled {
				c.position = p
			}
			for _, g := range gaps {
				c.gaps[g.First] = g
			}
		}
	}
	m.wantSaved(m.now.Cursors.Save(m.t.Context(), batches), stale)
}

// wantSaved checks that the shards of stale batches, and no others, are refused.
func (m *cursorModel) wantSaved(err error, stale map[subscription.Shard]bool) {
	if len(stale) == 0 {
		if err != nil {
			m.rt.Fatal(err)
		}
		return
	}
	var fenced *delivery.FencedError
	if !errors.As(err, &fenced) {
		m.rt.Fatalf("stale batches for %v: got error %v", stale, err)
	}
	want := slices.Sorted(maps.Keys(stale))
	if got := slices.Compact(slices.Sorted(slices.Values(fenced.Shards))); !slices.Equal(got, want) {
		m.rt.Fatalf("refused are %v, want %v", got, want)
	}
}

// check compares what is stored with the model.
func (m *cursorModel) check() {
	stored := make(map[subscription.ID]delivery.Position)
	shards, mine := make(map[subscription.Shard]bool), make(map[subscription.ID]bool)
	for i := range cursorSubs {
		id := granted(m.round*cursorSubs+i, 0).ID
		shards[subscription.ShardOf(id)], mine[id] = true, true
	}
	gapped := make(map[subscription.ID]int)
	for s := range shards {
		for id, err := range m.now.Cursors.Gapped(m.t.Context(), s) {
			if err != nil {
				m.rt.Fatal(err)
			}
			if mine[id] {
				gapped[id]++
			}
		}
		for member, err := range m.now.Cursors.Members(m.t.Context(), s) {
			if err != nil {
				m.rt.Fatal(err)
			}
			if mine[member.ID] {
				stored[member.ID] = member.Position
			}
		}
	}
	for _, c := range m.subs {
		got, found := stored[c.ID]
		if !found || !got.NextAttempt.Equal(c.position.NextAttempt) {
			m.rt.Fatalf("%s is at %+v, want %+v", c.ID, got, c.position)
		}
		if got.NextAttempt = c.position.NextAttempt; got != c.position {
			m.rt.Fatalf("%s is at %+v, want %+v", c.ID, got, c.position)
		}
		delete(stored, c.ID)
		m.checkGaps(c)
		want := 0
		for _, g := range c.gaps {
			if g.Replayed.IsZero() {
				want = 1
			}
		}
		if gapped[c.ID] != want {
			m.rt.Fatalf("%s is listed with gaps %d times, want %d: %+v", c.ID, gapped[c.ID], want, c.gaps)
		}
		delete(gapped, c.ID)
	}
	if len(gapped) > 0 {
		m.rt.Fatalf("subscriptions that are not there have gaps: %v", gapped)
	}
	if len(stored) > 0 {
		m.rt.Fatalf("subscriptions that are not there have positions: %+v", stored)
	}
}

func (m *cursorModel) checkGaps(c *modelCursor) {
	got, err := m.now.Cursors.Gaps(m.t.Context(), c.ID, 100)
	if err != nil {
		m.rt.Fatal(err)
	}
	byFirst := func(a, b delivery.Gap) int { return cmp.Compare(a.First, b.First) }
	slices.SortFunc(got, byFirst)
	want := slices.SortedFunc(maps.Values(c.gaps), byFirst)
	same := slices.EqualFunc(got, want, func(a, b delivery.Gap) bool {
		equal := a.At.Equal(b.At) && a.Replayed.Equal(b.Replayed)
		a.At, a.Replayed = b.At, b.Replayed
		return equal && a == b
	})
	if !same {
		m.rt.Fatal(fmt.Sprintf("gaps of %s:\n got %+v\nwant %+v", c.ID, got, want))
	}
}

// clear ends every subscription, so that the next check has little to list.
func (m *cursorModel) clear() {
	for _, c := range m.subs {
		if _, err := m.now.Subscriptions.Remove(m.t.Context(), c.Subscription); err != nil {
			m.t.Error(err)
		}
	}
}
