package notifier_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"carillon/notifier"
	"carillon/payload"
)

// published are the locs that the hub has, without what they have in common.
func (w *world) published() (locs []string) {
	w.t.Helper()
	for _, n := range w.hub.notes(w.t, notifier.DefaultSet) {
		locs = append(locs, n.locs()...)
	}
	return locs
}

func (w *world) wantPublished(what string, want int) {
	w.t.Helper()
	synctest.Wait()
	if got := w.published(); len(got) != want {
		w.t.Errorf("%s: %v are published, want %d", what, got, want)
	}
	if err := checkChain(w.hub.notes(w.t, notifier.DefaultSet)); err != nil {
		w.t.Errorf("%s: %v", what, err)
	}
}

// A clock that is wrong for a minute, by more than Change Lists are kept, removes none of them and
// holds nothing up: events meanwhile are dated by the time before.
func TestClockSetForwardForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &wildClock{}
		w := newWorld(t, notifier.Config{Now: clock.now, ChangeListFor: time.Minute}, &hub{})
		w.add(inDefault, "1")
		time.Sleep(2 * time.Minute)
		w.add(inDefault, "2")
		time.Sleep(time.Hour)
		addresses := w.wantIndex("default/changelist.xml", 3)
		clock.step(notifier.DefaultKeep + 24*time.Hour)
		w.add(inDefault, "3")
		time.Sleep(time.Minute)
		w.wantPublished("while the clock is wrong", 3)
		clock.step(-notifier.DefaultKeep - 24*time.Hour)
		w.add(inDefault, "4")
		time.Sleep(2 * time.Second)
		w.wantPublished("when it is right again", 4)
		for _, n := range w.hub.notes(t, notifier.DefaultSet) {
			if n.until.After(time.Now()) {
				t.Errorf("a notification ends at %s, it is %s", n.until, time.Now())
			}
		}
		if got := w.get(addresses[0]); got.Code != http.StatusOK {
			t.Errorf("a Change List that was closed an hour ago: %d %s", got.Code, got.Body)
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if got := w.get(addresses[0]); got.Code != http.StatusOK {
			t.Errorf("a Change List that was closed a day ago: %d %s", got.Code, got.Body)
		}
	})
}

// A clock that was set forward, and stays so, is believed after an hour.
func TestClockSetForwardForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &wildClock{}
		w := newWorld(t, notifier.Config{Now: clock.now, ChangeListFor: time.Minute}, &hub{})
		w.add(inDefault, "1")
		time.Sleep(2 * time.Minute)
		w.add(inDefault, "2")
		time.Sleep(2 * time.Minute)
		first := w.wantIndex("default/changelist.xml", 3)[0]
		clock.step(notifier.DefaultKeep)
		time.Sleep(59 * time.Minute)
		synctest.Wait()
		if got := w.get(first); got.Code != http.StatusOK {
			t.Errorf("a Change List while the clock is in doubt: %d", got.Code)
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if got := w.get(first); got.Code != http.StatusGone {
			t.Errorf("a Change List that is too old by a clock that is believed: %d", got.Code)
		}
		w.add(inDefault, "3")
		time.Sleep(2 * time.Second)
		w.wantPublished("afterwards", 3)
		notes := w.hub.notes(t, notifier.DefaultSet)
		if at := notes[len(notes)-1].entries[0].Datetime; clock.now().Sub(at) > time.Minute {
			t.Errorf("an event is dated %s, it is %s", at, clock.now())
		}
	})
}

// A clock that was behind the journal, and is set right, holds publishing up for no longer than it
// was behind: that time has been.
func TestClockReturns(t *testing.T) {
	for name, restart := range map[string]bool{"while it runs": false, "after a start": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock := &wildClock{}
				w := newWorld(t, notifier.Config{Now: clock.now}, &hub{})
				w.add(inDefault, "1")
				time.Sleep(2 * time.Second)
				clock.step(-24 * time.Hour)
				if restart {
					w.restart()
				}
				w.add(inDefault, "2")
				time.Sleep(3 * time.Hour)
				w.wantPublished("while the clock is behind", 1)
				clock.step(24 * time.Hour)
				time.Sleep(3 * time.Second)
				w.wantPublished("when it is right again", 2)
				w.add(inDefault, "3")
				time.Sleep(2 * time.Second)
				w.wantPublished("afterwards", 3)
			})
		})
	}
}

// Resource Lists are made whatever becomes of the clock.
func TestResourceListWhenClockIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &wildClock{}
		w := listed(t, notifier.Config{ResourceListEvery: time.Hour, Now: clock.now})
		w.record(eventOf(payload.Created, "1", ""), eventOf(payload.Created, "2", ""))
		time.Sleep(11 * time.Second)
		synctest.Wait()
		first := w.read("/a/resourcelist.xml").At
		clock.step(-30 * 24 * time.Hour)
		w.record(eventOf(payload.Updated, "1", ""))
		time.Sleep(59 * time.Minute)
		synctest.Wait()
		w.wantListOf(first, "before its time")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if at := w.read("/a/resourcelist.xml").At; at == first {
			t.Error("no other list in time")
		}
	})
}
