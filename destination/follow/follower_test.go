package follow_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/destination"
	"carillon/destination/follow"
	"carillon/destination/follow/followtest"
	"carillon/destination/lists"
	"carillon/payload"
)

// inWorld runs the test in a world of its own, which is stopped at the end.
func inWorld(t *testing.T, test func(w *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		test(w)
		if w.f.Load() != nil {
			if err := w.stop(); err != nil {
				t.Errorf("Run: %v", err)
			}
		}
	})
}

func TestPush(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.src.memory, w.src.list = nil, nil
		w.start()
		w.push(w.src.publish(3))
		w.sleep(follow.DefaultSettle)
		w.push(w.src.publish(2), w.src.publish(1))
		w.want(0)
		seen := map[string]bool{}
		for _, c := range w.handler.changes() {
			if c.Via != follow.Push || c.Notification == "" || c.Key == "" || seen[c.Key] {
				t.Errorf("a change is %+v", c)
			}
			seen[c.Key] = true
		}
	})
}

// An overtaken notification is waited for, and no list is asked.
func TestOvertaken(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.start()
		w.push(w.src.publish(1))
		w.sleep(follow.DefaultSettle)
		w.src.change(func() { w.src.memory.asked, w.src.list.asked = 0, 0 })
		a, b, c := w.src.publish(1), w.src.publish(1), w.src.publish(1)
		w.push(c, b)
		w.sleep(follow.DefaultSettle / 2)
		w.push(c, a, a)
		w.want(0)
		if w.src.memory.asked+w.src.list.asked > 0 {
			t.Error("the lists were asked")
		}
	})
}

// A gap is filled from the memory; where that fails from the Change Lists; an open list
// that does not reach is asked again.
func TestGap(t *testing.T) {
	for name, tt := range map[string]struct {
		prepare func(w *fixture)
		via     follow.Via
	}{
		"memory":        {func(*fixture) {}, follow.ChangeMemory},
		"memory later":  {func(w *fixture) { w.src.list = nil; w.src.memory.fail = failing(3, errLater) }, follow.ChangeMemory},
		"no memory":     {func(w *fixture) { w.src.memory = nil }, follow.ChangeList},
		"memory gone":   {func(w *fixture) { w.src.memory.fail = failing(1000, &lists.GoneError{}) }, follow.ChangeList},
		"memory broken": {func(w *fixture) { w.src.memory.fail = failing(1000, lists.ErrAnswer) }, follow.ChangeList},
		"list later": {func(w *fixture) {
			w.src.memory = nil
			w.src.list.ends = w.src.next
			time.AfterFunc(time.Hour, func() { w.src.change(func() { w.src.list.ends = time.Time{} }) })
		}, follow.ChangeList},
		"busy": {func(w *fixture) {
			w.src.memory = nil
			w.src.list.fail = failing(1, &lists.BusyError{RetryAfter: time.Minute})
		}, follow.ChangeList},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *fixture) {
				w.start()
				w.push(w.src.publish(2))
				w.sleep(follow.DefaultSettle)
				w.src.change(func() { tt.prepare(w) })
				w.src.publish(2)
				w.push(w.src.publish(2))
				w.sleep(2 * time.Hour)
				w.want(0)
				for i, c := range w.handler.changes()[2:] {
					if c.Via != tt.via && (i < 2 || c.Via != follow.Push) {
						t.Errorf("change %d came by %s", i, c.Via)
					}
				}
			})
		})
	}
}

func failing(times int, err error) func(int) error {
	return func(asked int) error {
		if times--; times >= 0 {
			return err
		}
		return nil
	}
}

// A change that is kept nowhere is never passed over in silence.
func TestLost(t *testing.T) {
	for name, prepare := range map[string]func(w *fixture){
		"nobody to ask": func(w *fixture) { w.src.memory, w.src.list = nil, nil },
		"not kept":      func(w *fixture) { w.src.memory.begins, w.src.list.begins = w.src.next, w.src.next },
		"broken":        func(w *fixture) { w.src.memory.fail, w.src.list = failing(1000, lists.ErrAnswer), nil },
		"other host":    func(w *fixture) { w.src.list.fail, w.src.memory = failing(1000, lists.ErrOtherHost), nil },
		"memory with a hole": func(w *fixture) {
			w.src.memory.ends, w.src.list = w.src.entries[1].Datetime, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t)
				w.start()
				w.push(w.src.publish(1))
				w.sleep(follow.DefaultSettle)
				from := w.src.next
				w.src.publish(1)
				last := w.src.publish(1)
				w.src.change(func() { prepare(w) })
				w.push(last)
				w.sleep(time.Hour)
				select {
				case err := <-w.ran:
					if !errors.Is(err, follow.ErrGap) || !strings.Contains(err.Error(), from.UTC().Format("15:04:05")) {
						t.Errorf("Run: %v", err)
					}
				default:
					w.cancel()
					<-w.ran
					t.Errorf("Run goes on:\n%s", w.logs.String())
				}
				if n := len(w.handler.changes()); n != 1 {
					t.Errorf("%d changes were handed on", n)
				}
			})
		})
	}
}

// Going on: from the first kept change, and the gap is reported.
func TestGoOn(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.cfg.OnGap = follow.GapGoOn
		w.start()
		w.push(w.src.publish(1))
		w.sleep(follow.DefaultSettle)
		w.src.publish(1)
		w.src.change(func() { w.src.memory.begins, w.src.list.begins = w.src.next, w.src.next })
		w.src.publish(1)
		w.push(w.src.publish(1))
		w.sleep(time.Hour)
		if err := inStep(w.handler.changes(), append(w.src.entries[:1:1], w.src.entries[2:]...)); err != nil {
			t.Errorf("%v\n%s", err, w.logs.String())
		}
		if !strings.Contains(w.logs.String(), "going on without them") {
			t.Errorf("nothing is told:\n%s", w.logs.String())
		}
	})
}

// baseliner takes a baseline at a moment.
type baseliner struct {
	at    time.Time
	calls int
	fail  error
}

func (b *baseliner) Baseline(context.Context) (time.Time, error) {
	b.calls++
	if b.calls == 1 && b.fail != nil {
		return time.Time{}, b.fail
	}
	return b.at, nil
}

func TestBaseline(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.src.publish(2)
		b := &baseliner{at: w.src.next, fail: errLater}
		w.cfg.Start, w.cfg.OnGap, w.cfg.Baseline = follow.StartBaseline, follow.GapBaseline, b
		missed := w.src.publish(2) // while the baseline is taken
		w.start()
		w.push(missed)
		w.sleep(time.Minute)
		w.want(2)
		if b.calls != 2 {
			t.Errorf("the baseline was taken %d times", b.calls)
		}
		// A later loss is made up for by another notification.
		w.src.publish(3)
		w.src.change(func() { w.src.memory, w.src.list = nil, nil })
		last := w.src.publish(1)
		b.at = w.src.entries[len(w.src.entries)-1].Datetime
		w.push(last)
		w.sleep(time.Minute)
		if err := inStep(w.handler.changes()[2:], w.src.entries[7:]); err != nil {
			t.Error(err)
		}
		if b.calls != 3 {
			t.Errorf("the baseline was taken %d times", b.calls)
		}
	})
}

// A Resource List that does not tell its moment: all changes that there are come after it.
func TestBaselineWithoutAt(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.src.publish(3)
		w.cfg.Start, w.cfg.Baseline = follow.StartBaseline, &baseliner{}
		w.start()
		w.push(w.src.publish(1))
		w.sleep(time.Minute)
		w.want(0)
	})
}

// Start now: earlier changes are not handed on, by the Source's clock, and later ones are, also if
// they are never pushed.
func TestStartNow(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.src.next = time.Now().Add(5 * time.Minute) // the Source's clock is ahead
		w.src.publish(3)
		w.start()
		w.want(3)
		w.src.publish(2) // lost
		w.sleep(2 * follow.DefaultPoll)
		w.want(3)
		w.push(w.src.publish(1))
		w.sleep(follow.DefaultSettle)
		w.want(3)
	})
}

func TestStartAt(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.src.publish(5)
		w.cfg.Start, w.cfg.StartTime = follow.StartAt, w.src.entries[2].Datetime
		w.start()
		w.want(2)
	})
}

// Without push the lists are looked at.
func TestPoll(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.src.pushed, w.src.memory = false, nil
		w.start()
		for range 3 {
			w.src.publish(2)
			w.sleep(2 * follow.DefaultPollGone)
			w.want(0)
		}
		w.src.change(func() { w.src.list.asked, w.src.pushed = 0, true })
		w.sleep(2 * follow.DefaultPoll)
		if n := w.src.list.asked; n < 1 || n > 3 {
			t.Errorf("with push the list was asked %d times in half an hour", n)
		}
	})
}

// A list that begins later than the position is no gap while there is push: nothing need
// have happened in between.
func TestQuietSource(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.start()
		w.push(w.src.publish(1))
		w.sleep(follow.DefaultSettle)
		w.src.change(func() { w.src.memory = nil; w.src.list.begins = time.Now().Add(time.Hour) })
		w.sleep(3 * follow.DefaultPoll)
		w.push(w.src.publish(1))
		w.want(0)
	})
}

// A process that went away goes on where it was.
func TestRestart(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.start()
		w.push(w.src.publish(3))
		w.sleep(follow.DefaultSettle)
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			w.src.publish(1)
		}
		w.start()
		w.want(0)
		if via := w.handler.changes()[3].Via; via != follow.ChangeMemory {
			t.Errorf("by %s", via)
		}
	})
}

// A process that was stopped within a notification looks for what it missed, too.
func TestRestartWithin(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.start()
		w.push(w.src.publish(1))
		w.sleep(follow.DefaultSettle)
		w.handler.fail = func(_ int, changes []follow.Change) (int, error) {
			w.cancel()
			return 1, nil
		}
		w.push(w.src.publish(2))
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
		w.handler.fail = nil
		w.src.publish(2)
		w.start()
		w.want(0)
	})
}

// Lists that could not be read at the start are read soon.
func TestListsAwayAtStart(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.cfg.Start, w.cfg.StartTime = follow.StartAt, time.Now()
		w.src.publish(2)
		w.src.memory = nil
		w.src.list.fail = failing(1, errLater)
		w.start()
		w.sleep(2 * follow.DefaultPollGone)
		w.want(0)
	})
}

// The order waits while a change is not taken; a completed one is not given again.
func TestTakerFails(t *testing.T) {
	inWorld(t, func(w *fixture) {
		first := ""
		w.handler.fail = func(calls int, changes []follow.Change) (int, error) {
			switch {
			case first == "":
				first = changes[0].Key
			case calls < 6 && changes[0].Key != first:
				t.Errorf("call %d is given %s", calls, changes[0].Key)
			}
			switch {
			case calls < 6:
				return 0, errors.New("not now")
			case calls == 6:
				return 0, nil // no progress, and no reason
			}
			return 1, nil
		}
		w.start()
		w.push(w.src.publish(4), w.src.publish(2))
		w.sleep(time.Hour)
		w.want(0)
	})
}

// The position cannot be written for a while: nothing is handed on twice.
func TestStoreFails(t *testing.T) {
	inWorld(t, func(w *fixture) {
		var broken until
		w.store.Fail = func(string) error {
			if broken.lasts() {
				return follow.ErrUnavailable
			}
			return nil
		}
		w.start()
		w.push(w.src.publish(1))
		w.sleep(follow.DefaultSettle)
		broken.set(time.Minute)
		n := w.src.publish(2)
		if err := w.f.Load().Accept(n); !errors.Is(err, destination.ErrNotNow) {
			t.Errorf("without a store a delivery is answered %v", err)
		}
		w.sleep(2 * time.Minute)
		w.handler.fail = func(_ int, changes []follow.Change) (int, error) {
			broken.set(time.Minute) // from here on taken changes cannot be recorded
			return len(changes), nil
		}
		w.push(n)
		w.sleep(time.Hour)
		w.want(0)
	})
}

// The inbox is bounded; a notification that all others wait for has room.
func TestInboxFull(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.cfg.Inbox, w.src.memory, w.src.list = 2, nil, nil
		w.cfg.Settle = time.Minute
		w.start()
		w.push(w.src.publish(1))
		w.sleep(time.Minute)
		all := []*destination.Notification{w.src.publish(1), w.src.publish(1), w.src.publish(1), w.src.publish(1)}
		w.push(all[2], all[1])
		if err := w.f.Load().Accept(all[3]); !errors.Is(err, destination.ErrNotNow) {
			t.Errorf("a full inbox answers %v", err)
		}
		w.push(all[0])
		w.push(all[3])
		w.want(0)
	})
}

// What Sources do that do not keep the rules.
func TestOddNotifications(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.src.memory, w.src.list = nil, nil
		w.start()
		begin := w.src.next
		w.push(w.src.publish(1))
		w.sleep(follow.DefaultSettle)
		at := func(s float64) time.Time { return begin.Add(time.Duration(s * float64(time.Second))) }
		entry := func(name string, at time.Time) payload.Entry {
			return payload.Entry{Loc: "http://source.example/" + name, Change: payload.Updated, Datetime: at, Length: "1"}
		}
		var none time.Time
		w.push(
			notification("unordered", at(1), at(2), []payload.Entry{entry("b", at(1.5)), entry("a", at(1.1)), entry("u", none)}),
			notification("undated", at(2), at(3), []payload.Entry{entry("x", none), entry("y", at(2.5)), entry("x", none)}),
			notification("undated again", at(3), at(4), []payload.Entry{entry("x", none)}),
			notification("outside", at(4), at(5), []payload.Entry{entry("early", at(0.5)), entry("seam", at(5)), entry("late", at(50))}),
			notification("seam", at(5), at(6), []payload.Entry{entry("seam", at(5)), entry("more", at(5.5))}),
			notification("beyond", at(6), at(7), []payload.Entry{entry("more", at(6.5))}),
			notification("no interval", none, none, []payload.Entry{entry("free", at(7))}),
			notification("empty", at(7), at(8), nil),
			&destination.Notification{ID: "other", Body: []byte("x"), Size: 1},
			notification("nothing told", none, none, []payload.Entry{entry("lost", none)}),
			notification("end", at(8), at(9), []payload.Entry{entry("end", at(8))}),
		)
		var got []string
		for _, c := range w.handler.changes()[1:] {
			got = append(got, strings.TrimPrefix(c.Loc, "http://source.example/"))
		}
		if want := "a u b x y x x early seam late more more free lost end"; strings.Join(got, " ") != want {
			t.Errorf("handed on: %q\nwant       %q\n%s", strings.Join(got, " "), want, w.logs.String())
		}
	})
}

// Changes without datetimes in a list are handed on once; and again where the list was begun anew.
func TestUndatedList(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.src.memory, w.src.pushed = nil, false
		w.cfg.Start, w.cfg.StartTime = follow.StartAt, time.Now()
		undated := func(name string) payload.Entry {
			return payload.Entry{Loc: "http://source.example/" + name, Change: payload.Updated}
		}
		w.src.entries = []payload.Entry{undated("a"), undated("b"), undated("a")}
		w.start()
		w.sleep(10 * follow.DefaultPollGone)
		w.want(0)
		w.src.change(func() { w.src.entries = append(w.src.entries, undated("a")) })
		w.sleep(10 * follow.DefaultPollGone)
		w.want(0)
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
		w.start()
		w.want(0)
		w.src.change(func() { w.src.entries = []payload.Entry{undated("c")} })
		w.sleep(2 * follow.DefaultPollGone)
		w.src.change(func() { w.src.entries = []payload.Entry{undated("a")} })
		w.sleep(2 * follow.DefaultPollGone)
		if n := len(w.handler.changes()); n != 6 {
			t.Errorf("%d changes were handed on, want 6", n)
		}
	})
}

// A wrong datetime does not make everything until then count as past.
func TestFutureDatetime(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.src.memory, w.src.pushed = nil, false
		w.cfg.Start, w.cfg.StartTime = follow.StartAt, time.Now()
		w.start()
		w.src.mu.Lock()
		w.src.entries = append(
			w.src.entries,
			payload.Entry{Loc: "http://source.example/x", Change: payload.Created, Datetime: time.Now().Add(1000 * time.Hour)},
		)
		w.src.mu.Unlock()
		w.sleep(2 * follow.DefaultPollGone)
		for range 3 {
			w.sleep(time.Hour)
			w.src.mu.Lock()
			w.src.next = time.Now()
			w.src.mu.Unlock()
			w.src.publish(2)
			w.sleep(2 * follow.DefaultPollGone)
		}
		if n := len(w.handler.changes()); n != 7 {
			t.Errorf("%d changes were handed on, want 7\n%s", n, w.logs.String())
		}
	})
}

// However many changes are said to be in the future, what is remembered of them is bounded.
func TestManyInTheFuture(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.src.memory, w.src.pushed = nil, false
		w.cfg.Start, w.cfg.StartTime = follow.StartAt, time.Now()
		const many = 70_000
		for i := range many {
			w.src.entries = append(w.src.entries, payload.Entry{
				Loc: fmt.Sprintf("http://source.example/x%d", i), Change: payload.Created, Datetime: time.Now().Add(1000 * time.Hour),
			})
		}
		w.start()
		w.sleep(time.Second)
		if n := len(w.handler.changes()); n < many {
			t.Errorf("%d of %d changes were handed on", n, many)
		}
		p, err := w.cfg.Store.Position(t.Context())
		if err != nil || len(p.Keys) == 0 || len(p.Keys) > 60_000 {
			t.Errorf("%d keys are kept: %v", len(p.Keys), err)
		}
	})
}

func TestConfigRefused(t *testing.T) {
	good := newFollowConfig()
	if _, err := follow.New(good); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*follow.Config){
		"store":    func(c *follow.Config) { c.Store = nil },
		"start":    func(c *follow.Config) { c.Start = "then" },
		"datetime": func(c *follow.Config) { c.Start = follow.StartAt },
		"on-gap":   func(c *follow.Config) { c.OnGap = "cry" },
		"baseline": func(c *follow.Config) { c.OnGap = follow.GapBaseline },
		"negative": func(c *follow.Config) { c.Settle = -1 },
	} {
		cfg := good
		spoil(&cfg)
		if _, err := follow.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func newFollowConfig() follow.Config {
	src := newSource(time.Now())
	return follow.Config{Store: &followtest.Store{}, Handler: &handler{}, Lists: src, Locator: locator{src}}
}
