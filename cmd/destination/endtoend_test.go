//go:build !race

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"carillon/payload"
)

// given is a line that the Destination prints for a change.
type given struct {
	said
	Datetime, Key, Via string
}

// listener follows the Source, in one process after the other.
type listener struct {
	w    *network
	name string
	args []string
	way  *relay
	runs []*child
}

func (w *network) listener(name string, args ...string) *listener {
	l := &listener{w: w, name: name, way: newRelay(w.t, nil)}
	l.args = append([]string{
		"follow", "--topic", w.topic, "--listen", "127.0.0.1:0", "--url", l.way.URL,
		"--data", filepath.Join(w.dir, name), "--start", "baseline", "--settle", "100ms",
	}, args...)
	return l
}

func (l *listener) start() {
	l.w.t.Helper()
	c := launch(l.w.t, "destination", l.args...)
	l.runs = append(l.runs, c)
	l.way.leadTo(c)
}

func (l *listener) now() *child { return l.runs[len(l.runs)-1] }

// heard are the lines of one process.
func (l *listener) heard(c *child) []given {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]given, len(c.out))
	for i, line := range c.out {
		if err := json.Unmarshal([]byte(line), &all[i]); err != nil {
			l.w.t.Errorf("%s: %v: %q", l.name, err, line)
		}
	}
	return all
}

func (l *listener) awaitSubscribed() {
	l.w.t.Helper()
	l.now().await("its subscription", func() bool { return l.now().countLogged("subscribed") > 0 })
}

// awaitLast waits until the last event that there is was handed on.
func (l *listener) awaitLast() {
	l.w.t.Helper()
	want := l.w.events[len(l.w.events)-1]
	l.now().await("the last change", func() bool {
		out := l.now().out
		if len(out) == 0 {
			return false
		}
		var last given
		_ = json.Unmarshal([]byte(out[len(out)-1]), &last) // heard reports it
		return last.said.String() == want.String() && last.Via != "resourcelist"
	})
}

// verdict is how a listener has fared.
type verdict struct {
	state map[string]said
	via   map[string]int
	again int // handed on again, after a kill
}

// judge compares what was handed on with the Source's journal: after the baseline each change
// of it, in order, from where the process before was killed on.
func (l *listener) judge(journal []payload.Entry) verdict {
	t := l.w.t
	v := verdict{state: map[string]said{}, via: map[string]int{}}
	keys := map[string]int{}
	next := 0
	for run, c := range l.runs {
		strict := false // from the first change of a run on
		for _, g := range l.heard(c) {
			v.via[g.Via]++
			if g.Via == "resourcelist" {
				if next > 0 || run > 0 {
					t.Errorf("%s: a baseline in the middle: %s", l.name, g)
				}
				v.hold(g.said)
				continue
			}
			i, known := keys[g.Key]
			if !known {
				i = len(keys)
				keys[g.Key] = i
			}
			switch {
			case i >= len(journal):
				t.Fatalf("%s: run %d: a change under another key, or one that nobody made: %s %s by %s", l.name, run, g, g.Key, g.Via)
			case strict && i != next || i > next:
				t.Fatalf("%s: run %d: change %d comes where %d is next: %s", l.name, run, i, next, g)
			}
			e := &journal[i]
			if g.said.String() != saidOf(e).String() || g.Datetime != payload.FormatDatetime(e.Datetime) {
				t.Fatalf(
					"%s: run %d: change %d is\n%s %s by %s; the Source has\n%s %s", l.name, run, i,
					g, g.Datetime, g.Via, saidOf(e), payload.FormatDatetime(e.Datetime),
				)
			}
			if known {
				v.again++
			}
			next, strict = i+1, true
			v.hold(g.said)
		}
	}
	if next != len(journal) {
		t.Errorf("%s: %d changes were handed on of %d", l.name, next, len(journal))
	}
	return v
}

func (v *verdict) hold(s said) {
	if s.Change == "deleted" {
		delete(v.state, s.Loc)
		return
	}
	s.Change = ""
	v.state[s.Loc] = s
}

// TestMissesNothing is the promise, by real processes: Destinations are killed and stay away
// for 1,000 notifications, of which the hub gives up most; they are cut off while they run;
// the hub is killed, and comes back. In the end each has been handed every change, in the
// order of the Source's journal and under one key, and what they add up to is the Source's
// Resource List, entry by entry. One has all that there is to catch up by, one the Source's Change
// Lists only, one the hub's memory only; one runs a command, and polls.
func TestMissesNothing(t *testing.T) {
	t.Parallel()
	w := newNetwork(t)
	both := w.listener("both")
	byLists := w.listener("lists", "--change-memory", "none")
	byMemory := w.listener("memory", "--changelist", "none")
	polling := w.listener("polling", "--change-memory", "none", "--poll", "1s", "--exec", "cat")
	all := []*listener{both, byLists, byMemory, polling}
	each := func(do func(*listener)) {
		t.Helper()
		for _, l := range all {
			do(l)
		}
	}

	each((*listener).start)
	each((*listener).awaitSubscribed)
	w.post(10)
	each((*listener).awaitLast)

	// Killed in the middle of something.
	w.post(100)
	each(func(l *listener) {
		l.now().await("some changes", func() bool { return len(l.now().out) > resources+10+10 })
		l.now().kill()
	})
	mark := w.loggedSoFar()
	w.post(1000)
	w.awaitPublished()
	away := w.awaitGivenUp(mark, len(all), 900)
	each((*listener).start)
	polling.now().await("some changes", func() bool { return len(polling.now().out) > 100 })
	polling.now().kill() // what its command has done is noted once a second
	polling.start()
	w.post(10)
	each((*listener).awaitLast)

	// Cut off while they run: the chain has a hole that only the next notification shows.
	w.awaitPublished()
	mark = w.loggedSoFar()
	each(func(l *listener) { l.way.cut.Store(true) })
	w.post(50)
	w.awaitPublished()
	holes := w.awaitGivenUp(mark, len(all), 40)
	each(func(l *listener) { l.way.cut.Store(false) })
	w.post(10)
	each((*listener).awaitLast)
	for _, l := range all[:3] {
		l.now().await("the gap to be filled", func() bool { return l.now().countLogged("the gap is filled") > 0 })
	}

	// Without a hub: by polling, after another kill, and from nothing. And with it again.
	w.awaitPublished()
	w.hub.kill()
	w.post(50)
	polling.awaitLast()
	byLists.now().kill()
	byLists.start()
	late := w.listener("late")
	late.start()
	byLists.awaitLast()
	late.awaitLast()
	all = append(all, late)
	w.hub = launch(t, "hub", w.hubArgs...)
	late.awaitSubscribed()
	w.awaitPublished()
	each((*listener).awaitLast)
	// As two of them poll or have just begun, the first changes may come by other ways.
	byPush := map[*listener]bool{}
	for round := 0; len(byPush) < len(all); round++ {
		if round == 50 {
			t.Fatal("the hub is back, and nothing is pushed")
		}
		w.post(1)
		each(func(l *listener) {
			l.awaitLast()
			if heard := l.heard(l.now()); heard[len(heard)-1].Via == "push" {
				byPush[l] = true
			}
		})
	}
	w.awaitPublished()
	each(func(l *listener) { l.now().stop() })

	t.Logf("%d notifications, one change each; given up while the Destinations were away: %d of 4 times 1,000; while they were cut off: %d of 4 times 50",
		len(w.events), away, holes)
	w.compare(all)
}

// compare holds what the listeners were handed against what the Source serves.
func (w *network) compare(all []*listener) {
	t := w.t
	journal, closed := w.changeLists()
	if len(journal) != len(w.events) || closed != len(w.events)/listEntries {
		t.Errorf("the Change Lists have %d entries of %d; %d lists are closed", len(journal), len(w.events), closed)
	}
	for i := range min(len(journal), len(w.events)) {
		if got := saidOf(&journal[i]).String(); got != w.events[i].String() {
			t.Fatalf("the Change Lists have %s; entry %d is %s", got, i, w.events[i])
		}
	}
	// The notifier imports the Source's resources: nothing differs.
	if got, want := w.take(), fmt.Sprintf("notifier imported %d resources into town: 0 created, 0 updated, 0 deleted\n", len(w.has)); got != want {
		t.Errorf("the Source has another state than its journal adds up to: %s", got)
	}
	_, entries := w.document(w.notifier.ready["url"] + "town/resourcelist.xml")
	for _, l := range all {
		v := l.judge(journal)
		for i := range entries {
			want := saidOf(&entries[i])
			if got := v.state[want.Loc]; got.String() != want.String() {
				t.Errorf("%s: has %s; the Source has %s", l.name, got, want)
			}
		}
		if len(v.state) != len(entries) {
			t.Errorf("%s: has %d resources; the Source has %d", l.name, len(v.state), len(entries))
		}
		gaps := 0
		for _, c := range l.runs {
			gaps += c.countLogged("the gap is filled")
		}
		t.Logf("%s: state equal: %d resources; %d changes in order, %d of them handed on again after a kill, under the same key; by %s; gaps filled: %d",
			l.name, len(entries), len(journal), v.again, byWay(v.via), gaps)
		w.viaAllowed(l, v)
	}
}

// viaAllowed looks whether a listener was helped by what it may use, and by nothing else.
func (w *network) viaAllowed(l *listener, v verdict) {
	for way, want := range map[string]string{"memory": "--change-memory", "changelist": "--changelist"} {
		i := slices.Index(l.args, want)
		if n := v.via[way]; n > 0 && i > 0 && l.args[i+1] == none {
			w.t.Errorf("%s: %d changes came by %s", l.name, n, way)
		}
	}
	if caught := v.via["memory"] + v.via["changelist"]; caught < 500 {
		w.t.Errorf("%s: only %d changes were caught up on", l.name, caught)
	}
	if v.via["push"] == 0 {
		w.t.Errorf("%s: nothing came by push", l.name)
	}
}

func byWay(via map[string]int) (text string) {
	for _, way := range slices.Sorted(maps.Keys(via)) {
		text += fmt.Sprintf("%s %d, ", way, via[way])
	}
	return text[:max(0, len(text)-2)]
}
