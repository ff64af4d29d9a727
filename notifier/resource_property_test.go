package notifier_test

import (
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"carillon/notifier"
	"carillon/payload"
)

// TestResourceListsProperty: a client takes a Resource List, also an old one, and then the changes of
// the Change Lists from its at on. It then has what the set has; for all events, clocks, imports and
// restarts.
func TestResourceListsProperty(t *testing.T) {
	fewerChecks(t)
	rapid.Check(t, func(rt *rapid.T) {
		p := drawResourcePlan(rt) // before the bubble, where rapid cannot work
		var err error
		synctest.Test(t, func(t *testing.T) { err = p.run(t) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// fewerChecks has rapid try a quarter of what it would, for a test that writes files.
func fewerChecks(t *testing.T) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	if before != checks.DefValue { // the command line sets another number
		return
	}
	number, err := strconv.Atoi(before)
	if err == nil {
		err = flag.Set(checks.Name, strconv.Itoa(number/4))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set(checks.Name, before) }) // it was its value
}

// resourcePlan is what happens to a set of few resources.
type resourcePlan struct {
	perList int
	imports bool // a snapshot comes first, instead of --resource-list
	steps   []resourceStep
}

// resourceStep is one of: events, a snapshot, time, another clock, a restart, a Resource List.
type resourceStep struct {
	events   []notifier.Event
	snapshot map[string]string // hashes by name
	sleep    time.Duration
	clock    time.Duration
	restart  bool
	renew    bool
}

func drawResourcePlan(rt *rapid.T) resourcePlan {
	name := rapid.SampledFrom([]string{"1", "2", "3", "4", "é", "6?a=b&c"})
	hash := rapid.SampledFrom([]string{"", md5One, md5Two})
	p := resourcePlan{perList: rapid.IntRange(1, 4).Draw(rt, "per-list"), imports: rapid.Bool().Draw(rt, "imports")}
	for range rapid.IntRange(1, 10).Draw(rt, "steps") {
		var s resourceStep
		switch rapid.IntRange(0, 8).Draw(rt, "step") {
		case 0:
			s.snapshot = rapid.MapOfN(name, hash, 0, 5).Draw(rt, "snapshot")
		case 1:
			s.sleep = time.Duration(rapid.Int64Range(1, int64(65*time.Second)).Draw(rt, "sleep"))
		case 2:
			s.clock = time.Duration(rapid.Int64Range(-int64(time.Second), int64(time.Second)).Draw(rt, "clock"))
		case 3:
			s.restart = true
		case 4, 5:
			s.renew = true
		default:
			for range rapid.IntRange(1, 5).Draw(rt, "events") {
				kind := rapid.SampledFrom([]payload.Change{payload.Created, payload.Updated, payload.Deleted}).Draw(rt, "change")
				e := eventOf(kind, name.Draw(rt, "name"), "")
				if kind != payload.Deleted {
					e.Hash = hash.Draw(rt, "hash")
				}
				s.events = append(s.events, e)
			}
		}
		p.steps = append(p.steps, s)
	}
	return p
}

// taken is a Resource List as a client took it.
type taken struct {
	at    time.Time
	state map[string]string // hashes by loc
}

func (p resourcePlan) run(t *testing.T) error {
	var offset atomic.Int64 // of the clock
	w := newWorld(t, notifier.Config{
		Sets: []string{"a"}, ResourceListDir: filepath.Join(t.TempDir(), "lists"), ResourceListEvery: time.Minute,
		ResourceListEntries: p.perList, ChangeListEntries: 3, MaxWait: time.Millisecond,
	}, &hub{})
	w.stop()
	w.cfg.Now = func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
	if !p.imports {
		w.cfg.ResourceLists = []string{"a"}
	}
	w.start()
	defer func() { w.stop() }()
	state := map[string]string{}
	if p.imports {
		if err := w.snapshot(state); err != nil {
			return err
		}
	}
	var all []taken
	for _, s := range p.steps {
		switch {
		case s.snapshot != nil:
			state = map[string]string{}
			for name, hash := range s.snapshot {
				state["http://a.example/"+name] = hash
			}
			if err := w.snapshot(state); err != nil {
				return err
			}
		case s.restart:
			w.restart()
		case s.renew:
			w.RenewResourceList("a")
		}
		w.record(s.events...)
		for _, e := range s.events {
			if state[e.Loc] = e.Hash; e.Change == payload.Deleted {
				delete(state, e.Loc)
			}
		}
		offset.Add(int64(s.clock))
		time.Sleep(s.sleep)
		synctest.Wait()
		now, err := w.take()
		if err != nil {
			return err
		}
		all = append(all, now...)
	}
	time.Sleep(20 * time.Second) // until Change Lists that are full are closed, by whatever clock
	synctest.Wait()
	return w.caughtUp(all, state)
}

// snapshot sends the state as a snapshot.
func (w *world) snapshot(state map[string]string) error {
	var text strings.Builder
	for loc, hash := range state {
		if hash != "" {
			hash = fmt.Sprintf(`,"hash":%q`, hash)
		}
		fmt.Fprintf(&text, `{"loc":%q%s}`+"\n", loc, hash)
	}
	if answer := w.put(strings.NewReader(text.String())); answer.Code != 200 {
		return fmt.Errorf("the snapshot is %d %s", answer.Code, answer.Body)
	}
	return nil
}

// take takes the Resource List, if there is one.
func (w *world) take() ([]taken, error) {
	if w.ask("GET", "/a/resourcelist.xml").Code == 404 {
		return nil, nil
	}
	l := w.read("/a/resourcelist.xml")
	parts := []resourceDoc{l}
	if l.Root == payload.RootSitemapIndex {
		parts = nil
		for _, part := range l.entries {
			parts = append(parts, w.read(part.Loc))
		}
	}
	now := taken{l.AtTime, map[string]string{}}
	for _, part := range parts {
		if !part.AtTime.Equal(l.AtTime) {
			return nil, fmt.Errorf("a part is of %s, the Index of %s", part.At, l.At)
		}
		for _, e := range part.entries {
			if _, twice := now.state[e.Loc]; twice {
				return nil, fmt.Errorf("%s is there twice", e.Loc)
			}
			now.state[e.Loc] = e.Hash
		}
	}
	return []taken{now}, nil
}

// caughtUp holds every list, with the changes from its at on, against what the set has.
func (w *world) caughtUp(all []taken, want map[string]string) error {
	var changes []payload.Entry
	lists := []resourceDoc{w.read("/a/changelist.xml")}
	if index := lists[0]; index.Root == payload.RootSitemapIndex {
		lists = nil
		for _, part := range index.entries {
			lists = append(lists, w.read(part.Loc))
		}
	}
	for _, l := range lists {
		changes = append(changes, l.entries...)
	}
	for _, then := range all {
		state := maps.Clone(then.state)
		if then.at.Before(lists[0].FromTime) {
			return fmt.Errorf("the Resource List is of %s, the Change Lists begin at %s", then.at, lists[0].FromTime)
		}
		for _, e := range changes {
			if e.Datetime.Before(then.at) {
				continue
			}
			if state[e.Loc] = e.Hash; e.Change == payload.Deleted {
				delete(state, e.Loc)
			}
		}
		if !maps.Equal(state, want) {
			return fmt.Errorf("from the Resource List of %s, %v, the changes lead to %v, want %v", then.at, then.state, state, want)
		}
	}
	return nil
}
