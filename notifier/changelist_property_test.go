package notifier_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"carillon/notifier"
	"carillon/notifier/journaltest"
	"carillon/payload"
)

// TestChangeListsProperty: whatever happens to a notifier, its lists follow each other
// without a hole, have every event once and none too many, and do not end in the future; and
// a Destination that reads them now and then, by what core §12.1 says, sees each event once,
// in order.
func TestChangeListsProperty(t *testing.T) {
	checks(t, 20)
	rapid.Check(t, func(rt *rapid.T) {
		p := drawListPlan(rt) // before the bubble, where rapid cannot work
		var err error
		synctest.Test(t, func(t *testing.T) { err = p.run(t) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// checks sets how often a property is checked, unless the command line sets another number. Tests of
// this package run one after another.
func checks(t *testing.T, n int) {
	t.Helper()
	const name, usual = "rapid.checks", "100"
	if flag.Lookup(name).Value.String() != usual {
		return
	}
	set := func(value string) {
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	set(strconv.Itoa(n))
	t.Cleanup(func() { set(usual) })
}

// listPlan is what happens to a notifier and its reader.
type listPlan struct {
	entries int
	lasting time.Duration
	steps   []listStep
}

// listStep is what happens before the reader looks, if it does.
type listStep struct {
	step
	fault string // of the next call of that name
	kept  bool
	reads bool
}

func drawListPlan(rt *rapid.T) listPlan {
	p := listPlan{
		entries: rapid.IntRange(1, 6).Draw(rt, "entries"),
		lasting: time.Duration(rapid.Int64Range(int64(time.Second), int64(time.Hour)).Draw(rt, "lasting")),
	}
	events := drawPlan(rt)
	for _, s := range events.steps {
		p.steps = append(p.steps, listStep{
			step: s, reads: rapid.Bool().Draw(rt, "reads"), kept: rapid.Bool().Draw(rt, "kept"),
			fault: rapid.SampledFrom([]string{"", "", "ChangeLists", "CloseList", "Events", "Last"}).Draw(rt, "fault"),
		})
	}
	return p
}

func (p listPlan) run(t *testing.T) error {
	clock := &wildClock{}
	var mu sync.Mutex
	fault := ""
	kept := journaltest.Lost
	w := &world{t: t, hub: &hub{}, fs: newMem(), cfg: notifier.Config{
		URL: base, Hub: hubURL, Sets: []string{"a", "b"}, Now: clock.now, ChangeListEntries: p.entries, ChangeListFor: p.lasting,
	}}
	w.cfg.Transport = w.hub
	var future atomic.Int64
	w.wrap = func(j notifier.Store) notifier.Store {
		j = &closings{j, func(l notifier.ChangeList) {
			if l.Until.After(clock.now()) {
				future.Add(1)
			}
		}}
		return journaltest.NewFaulty(j, func(call string) journaltest.Fault {
			mu.Lock()
			defer mu.Unlock()
			if call != fault {
				return journaltest.Works
			}
			fault = ""
			return kept
		})
	}
	arm := func(call string, f journaltest.Fault) {
		mu.Lock()
		defer mu.Unlock()
		fault, kept = call, f
	}
	w.start()
	defer func() { w.stop() }()
	readers := map[string]*listReader{"a": {w: w, set: "a"}, "b": {w: w, set: "b"}}
	want := map[string][]string{}
	for i, s := range p.steps {
		synctest.Wait()
		clock.step(s.clock)
		arm(s.fault, map[bool]journaltest.Fault{true: journaltest.Kept, false: journaltest.Lost}[s.kept])
		time.Sleep(s.sleep)
		if s.restart {
			arm("", journaltest.Works) // a failed start is reported, and is no matter here
			w.restart()
		}
		var events []notifier.Event
		for k, a := range s.events {
			e := journaltest.Created(fmt.Sprintf("http://a.example/%d/%d", i, k), a.sets...)
			if a.ago != 0 {
				e.Datetime = clock.now().Add(-a.ago)
			}
			events = append(events, e)
			for _, set := range a.sets {
				want[set] = append(want[set], fmt.Sprintf("%d/%d", i, k))
			}
		}
		if err := w.Append(context.Background(), events); err != nil {
			return err
		}
		if s.reads {
			for _, r := range readers {
				if err := r.read(); err != nil && !strings.Contains(err.Error(), "status 503") {
					return err
				}
			}
		}
	}
	arm("", journaltest.Works)
	clock.step(time.Hour) // what waited for it
	time.Sleep(20 * time.Second)
	for set, r := range readers {
		if err := p.check(w, set, want[set]); err != nil {
			return err
		}
		if err := r.read(); err != nil {
			return err
		}
		if !slices.Equal(r.seen, want[set]) {
			return fmt.Errorf("the reader of %s has seen\n%v\nwant\n%v", set, r.seen, want[set])
		}
	}
	if n := future.Load(); n > 0 {
		return fmt.Errorf("%d lists were closed in the future", n)
	}
	return nil
}

// closings is a journal that reports the lists that are to be closed.
type closings struct {
	notifier.Store
	closing func(notifier.ChangeList)
}

func (c *closings) CloseList(ctx context.Context, l notifier.ChangeList) error {
	c.closing(l)
	return c.Store.CloseList(ctx, l)
}

// check looks at all lists of a set.
func (p listPlan) check(w *world, set string, want []string) error {
	top, err := readDoc(w.get(set + "/changelist.xml"))
	if err != nil {
		return err
	}
	addresses := []string{base + set + "/changelist.xml"}
	if top.Root == payload.RootSitemapIndex {
		addresses = nil
		for _, part := range top.entries {
			addresses = append(addresses, part.Loc)
		}
	}
	var got []string
	var until time.Time
	for i, address := range addresses {
		l, err := readDoc(w.get(address))
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", address, err)
		case i > 0 && !l.FromTime.Equal(until):
			return fmt.Errorf("%s is from %s, the one before until %s", address, l.From, until)
		case len(l.entries) > p.entries, i < len(addresses)-1 && len(l.entries) == 0:
			return fmt.Errorf("%s has %d entries", address, len(l.entries))
		}
		until = l.UntilTime
		for _, e := range l.entries {
			got = append(got, strings.TrimPrefix(e.Loc, "http://a.example/"))
		}
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("the lists of %s have\n%v\nwant\n%v", set, got, want)
	}
	return nil
}

// listReader reads the lists of a set as a Destination does.
type listReader struct {
	w    *world
	set  string
	at   string // address of the list that it polls
	upTo time.Time
	seen []string
}

// read polls the list, and goes on to the next where it is closed.
func (r *listReader) read() error {
	if r.at == "" {
		top, err := readDoc(r.w.get(r.set + "/changelist.xml"))
		if err != nil {
			return err
		}
		r.at = base + r.set + "/changelist/" + top.FromTime.Format("20060102T150405.000000Z") + ".xml"
	}
	for {
		l, err := readDoc(r.w.get(r.at))
		if err != nil {
			return err
		}
		for _, e := range l.entries {
			if e.Datetime.After(r.upTo) {
				r.seen = append(r.seen, strings.TrimPrefix(e.Loc, "http://a.example/"))
				r.upTo = e.Datetime
			}
		}
		if l.UntilTime.IsZero() {
			return nil
		}
		if r.at, err = r.following(l); err != nil {
			return err
		}
	}
}

// following is the address of the list that begins where l ends.
func (r *listReader) following(l list) (string, error) {
	index, err := readDoc(r.w.get(l.link("index")))
	if err != nil {
		return "", err
	}
	for _, part := range index.entries {
		if part.From == l.Until {
			return part.Loc, nil
		}
	}
	return "", fmt.Errorf("no list begins at %s, where %s ends", l.Until, r.at)
}

// TestChangeListFaults makes each call that has to do with lists fail once, without and
// with its change kept, and looks at what is served in the end.
func TestChangeListFaults(t *testing.T) {
	for _, call := range []string{"ChangeLists", "CloseList", "DropLists", "Last"} {
		for _, fault := range []journaltest.Fault{journaltest.Lost, journaltest.Kept} {
			t.Run(fmt.Sprintf("%s/kept=%t", call, fault == journaltest.Kept), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { listsSurvive(t, call, fault) })
			})
		}
	}
}

func listsSurvive(t *testing.T, call string, fault journaltest.Fault) {
	w := &world{t: t, hub: &hub{}, fs: newMem(), cfg: notifier.Config{
		URL: base, Hub: hubURL, ChangeListEntries: 2, Keep: 5 * time.Minute,
	}}
	w.cfg.Transport = w.hub
	var mu sync.Mutex
	failed := 0
	w.wrap = func(j notifier.Store) notifier.Store {
		return journaltest.NewFaulty(j, func(name string) journaltest.Fault {
			mu.Lock()
			defer mu.Unlock()
			if name != call || failed > 2 {
				return journaltest.Works
			}
			failed++
			return fault
		})
	}
	w.start()
	defer func() { w.stop() }()
	w.add(inDefault, "1", "2", "3")
	time.Sleep(2 * time.Minute)
	addresses := w.wantIndex("default/changelist.xml", 2)
	w.want(addresses[0], "1 2", true)
	w.want(addresses[1], "3", false)
	time.Sleep(4 * time.Minute)
	w.want("default/changelist.xml", "3", false)
	w.restart()
	w.want("default/changelist.xml", "3", false)
	mu.Lock()
	defer mu.Unlock()
	if failed == 0 {
		t.Error("no call failed")
	}
}
