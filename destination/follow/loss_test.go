package follow_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon/destination"
	"carillon/destination/follow"
	"carillon/destination/lists"
	"carillon/payload"
)

// It subscribes while nothing was published yet (the memory answers 404, there is no Change List), is
// stopped, and returns: the notifications that the hub kept for it are handed on.
func TestStartNowAndAway(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.src.list = nil
		w.src.memory.fail = failing(1000, lists.ErrAnswer)
		w.start()
		w.sleep(time.Minute)
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
		var all []*destination.Notification
		for range 5 {
			time.Sleep(time.Minute)
			w.src.next = time.Now()
			all = append(all, w.src.publish(2))
		}
		w.src.memory.fail = nil
		time.Sleep(time.Hour)
		w.start()
		w.push(all...)
		w.sleep(time.Hour)
		w.want(0)
	})
}

// The first notification is delivered late, or not at all; the lists that could not be
// read at the start have it.
func TestStartNowFirstLate(t *testing.T) {
	for name, delivered := range map[string][]int{"late": {0}, "lost": {1}, "none": nil} {
		for _, how := range []error{lists.ErrAnswer, errLater} {
			t.Run(name+" "+how.Error(), func(t *testing.T) {
				inWorld(t, func(w *fixture) {
					w.src.list = nil
					w.src.memory.fail = failing(1, how)
					w.start()
					w.sleep(30 * time.Second)
					w.src.next = time.Now()
					all := []*destination.Notification{w.src.publish(2), w.src.publish(2)}
					w.sleep(30 * time.Minute)
					for _, i := range delivered {
						w.push(all[i])
					}
					w.sleep(time.Hour)
					w.want(0)
				})
			})
		}
	}
}

// A clock that is ahead has nothing of what is pushed count as known.
func TestStartNowClockAhead(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.src.memory, w.src.list = nil, nil
		w.src.next = time.Now().Add(-time.Hour)
		w.start()
		w.sleep(2 * time.Minute)
		for range 3 {
			w.push(w.src.publish(2))
			w.sleep(time.Minute)
		}
		w.want(0)
	})
}

// The Source has left the hub: its memory still answers, and the Change Lists begin after the position.
func TestStaleMemory(t *testing.T) {
	for name, pushed := range map[string]bool{"push": true, "no push": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t)
				w.cfg.Start, w.cfg.StartTime = follow.StartAt, w.src.next
				w.start()
				w.push(w.src.publish(2))
				w.sleep(time.Minute)
				_ = w.stop()
				w.src.memory.ends, w.src.pushed = w.src.next, pushed
				for range 5 {
					time.Sleep(24 * time.Hour)
					w.src.next = time.Now()
					w.src.publish(2)
				}
				w.src.list.begins = time.Now().Add(-36 * time.Hour)
				w.start()
				w.sleep(24 * time.Hour)
				if err := w.stop(); !errors.Is(err, follow.ErrGap) {
					t.Errorf("Run: %v\n%s", err, w.logs.String())
				}
			})
		})
	}
}

// A start before all that is kept is a gap also with a subscription, which began later: nothing
// from before it is pushed.
func TestStartBeforeWhatIsKept(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted=%v", restarted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t)
				w.cfg.Start, w.cfg.StartTime = follow.StartAt, w.src.next.Add(-24*time.Hour)
				w.src.change(func() { w.src.memory = nil; w.src.list.begins = w.src.next })
				w.src.publish(1)
				if restarted {
					w.start()
					_ = w.stop()
				}
				w.start()
				w.sleep(time.Minute)
				if err := w.stop(); !errors.Is(err, follow.ErrGap) {
					t.Errorf("Run: %v\n%s", err, w.logs.String())
				}
			})
		})
	}
}

// A list that begins after the position and has nothing shows no gap, also without push.
func TestNothingSince(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.cfg.Start, w.cfg.StartTime = follow.StartAt, w.src.next
		w.start()
		w.push(w.src.publish(1))
		w.sleep(follow.DefaultSettle)
		w.src.change(func() { w.src.pushed = false; w.src.list.begins = w.src.next.Add(time.Hour) })
		w.sleep(24 * time.Hour)
		w.want(0)
	})
}

// baselineAt is a baseline whose moment changes while it is asked.
type baselineAt struct {
	at    atomic.Pointer[time.Time]
	calls atomic.Int32
}

func (b *baselineAt) set(at time.Time) { b.at.Store(&at) }

func (b *baselineAt) Baseline(context.Context) (time.Time, error) {
	b.calls.Add(1)
	return *b.at.Load(), nil
}

// A baseline that does not close the gap is not taken again and again.
func TestBaselineDoesNotHelp(t *testing.T) {
	for name, push := range map[string]bool{"push": true, "no push": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *fixture) {
				now := time.Now()
				b := &baselineAt{}
				b.set(now.Add(-48 * time.Hour))
				w.src.memory, w.src.pushed = nil, push
				w.src.list.begins = now.Add(-24 * time.Hour)
				w.cfg.Baseline, w.cfg.OnGap = b, follow.GapBaseline
				_ = w.store.Advance(context.Background(), follow.Position{At: now.Add(-72 * time.Hour)})
				w.start()
				if push {
					w.push(w.src.publish(1))
				}
				w.sleep(5 * time.Hour)
				if n := b.calls.Load(); n < 3 || n > 15 {
					t.Errorf("%d baselines in 5 hours", n)
				}
				// The Source makes another Resource List.
				b.set(now.Add(-time.Hour))
				if !push {
					w.src.publish(1)
				}
				w.sleep(2 * time.Hour)
				w.want(0)
			})
		})
	}
}

// A baseline that does not tell its moment, and a Change List that cannot be read just then.
func TestBaselineWithoutAtBusy(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.src.memory = nil
		w.cfg.Start, w.cfg.Baseline = follow.StartBaseline, &baseliner{}
		w.src.publish(3) // since the Resource List
		time.Sleep(time.Hour)
		w.src.next = time.Now()
		w.src.list.fail = failing(1, &lists.BusyError{RetryAfter: time.Second})
		w.start()
		w.sleep(time.Hour)
		w.push(w.src.publish(2))
		w.sleep(time.Hour)
		w.want(0)
	})
}

// The same where it never can be read.
func TestBaselineWithoutAtBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.cfg.Start, w.cfg.Baseline = follow.StartBaseline, &baseliner{}
		w.src.list.fail = failing(1000, lists.ErrAnswer)
		w.start()
		w.sleep(time.Hour)
		if err := w.stop(); !errors.Is(err, follow.ErrGap) {
			t.Errorf("Run: %v", err)
		}
	})
}

// This clock is an hour behind the Source's, and a notification is lost.
func TestClockBehind(t *testing.T) {
	for name, lose := range map[string]func(w *fixture){
		"memory": func(w *fixture) { w.src.list = nil },
		"list":   func(w *fixture) { w.src.memory = nil },
		"none":   nil,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *fixture) {
				w.src.next = w.src.next.Add(time.Hour)
				w.src.memory.begins, w.src.list.begins = w.src.next, w.src.next
				w.cfg.Start, w.cfg.StartTime = follow.StartAt, w.src.next
				if lose == nil {
					w.src.memory, w.src.list = nil, nil
				} else {
					lose(w)
				}
				w.start()
				w.push(w.src.publish(1))
				w.sleep(follow.DefaultSettle)
				if lose != nil {
					w.src.publish(1) // lost
				}
				w.push(w.src.publish(1))
				for range 5 {
					w.sleep(20 * time.Minute)
					n := w.src.publish(0)
					until := time.Now().Add(time.Hour) // the Source was quiet till now
					n.Until = payload.FormatDatetime(until)
					w.src.change(func() { w.src.next = until })
					w.push(n, w.src.publish(1))
				}
				w.sleep(10 * time.Minute)
				w.want(0)
				if n, _, _ := w.store.Kept(context.Background()); n > 0 {
					t.Errorf("%d notifications wait\n%s", n, w.logs.String())
				}
			})
		})
	}
}

// A wrong until, far ahead, does not make later changes count as known.
func TestUntilAhead(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.start()
		w.push(w.src.publish(1))
		w.sleep(follow.DefaultSettle)
		n := w.src.publish(1)
		n.Until = "2099-01-01T00:00:00Z"
		w.push(n)
		for range 3 {
			w.push(w.src.publish(1))
			w.sleep(time.Hour)
		}
		w.want(0)
		if !strings.Contains(w.logs.String(), "ends in the future") {
			t.Errorf("nothing is told:\n%s", w.logs.String())
		}
	})
}

// An open list was read to its last change; the next notification begins just behind it. Nothing is
// missing, waited for or reported.
func TestSeamOfAnOpenList(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.src.memory = nil
		w.cfg.Start, w.cfg.StartTime = follow.StartAt, w.src.next
		entry := payload.Entry{Loc: "http://source.example/a", Change: payload.Updated, Datetime: w.src.next.Add(time.Second), Length: "1"}
		w.src.entries = []payload.Entry{entry}
		w.start()
		w.src.next = entry.Datetime.Add(time.Microsecond)
		w.push(w.src.publish(2))
		w.want(0)
		if strings.Contains(w.logs.String(), "WARN") {
			t.Errorf("log:\n%s", w.logs.String())
		}
	})
}

// A notification that cannot be read back from the inbox is dropped and named; the lists have it.
func TestDamagedInbox(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.store.Damaged = "n1"
		w.start()
		w.push(w.src.publish(1), w.src.publish(1), w.src.publish(1))
		w.sleep(time.Minute)
		w.want(0)
		if !strings.Contains(w.logs.String(), "cannot be read back") || !strings.Contains(w.logs.String(), "id=n1") {
			t.Errorf("nothing is told:\n%s", w.logs.String())
		}
	})
}
