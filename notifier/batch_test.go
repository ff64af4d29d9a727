package notifier_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/notifier"
	"carillon/notifier/journaltest"
	"carillon/payload"
)

func TestBatchClosesByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, notifier.Config{MaxWait: 3 * time.Second}, &hub{})
		begun := time.Now()
		w.add(inDefault, "1")
		time.Sleep(2 * time.Second)
		w.add(inDefault, "2")
		time.Sleep(time.Second - time.Nanosecond)
		synctest.Wait()
		if got := w.hub.received(); len(got) != 0 {
			t.Fatalf("%d notifications before the time was over", len(got))
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		notes := w.hub.notes(t, notifier.DefaultSet)
		if len(notes) != 1 || len(notes[0].entries) != 2 {
			t.Fatalf("after 3 s: %+v, want one notification of two", notes)
		}
		if !notes[0].from.Equal(begun) {
			t.Errorf("the first from is %s; the journal was made at %s", notes[0].from, begun)
		}
		time.Sleep(time.Hour)
		w.add(inDefault, "3")
		time.Sleep(time.Second)
		synctest.Wait()
		if got := w.hub.received(); len(got) != 1 {
			t.Fatalf("%d notifications; none is sent empty, and the third event has waited for 1 s only", len(got))
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		notes = w.hub.notes(t, notifier.DefaultSet)
		if err := checkChain(notes); err != nil || len(notes) != 2 {
			t.Errorf("%d notifications, %v", len(notes), err)
		}
	})
}

func TestBatchClosesByCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, notifier.Config{MaxWait: time.Hour, MaxEntries: 3}, &hub{})
		w.add(inDefault, "1", "2")
		time.Sleep(time.Minute)
		w.add(inDefault, "3", "4", "5", "6", "7")
		time.Sleep(time.Second) // the clock must pass the datetimes
		synctest.Wait()
		var sizes []int
		for _, n := range w.hub.notes(t, notifier.DefaultSet) {
			sizes = append(sizes, len(n.entries))
		}
		if !slices.Equal(sizes, []int{3, 3}) {
			t.Fatalf("notifications of %v, want two full ones", sizes)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		notes := w.hub.notes(t, notifier.DefaultSet)
		if err := checkChain(notes); err != nil || len(notes) != 3 {
			t.Errorf("%d notifications, %v", len(notes), err)
		}
	})
}

func TestBatchClosesByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 2 << 20
		w := newWorld(t, notifier.Config{MaxWait: time.Hour, MaxBytes: limit}, &hub{})
		var events []notifier.Event
		for i := range 5 {
			e := journaltest.Created(fmt.Sprintf("http://a.example/%d", i), inDefault...)
			for range 400 { // 400 links of about 2,000 bytes
				e.Links = append(e.Links, payload.Link{Rel: "via", Href: "http://b.example/" + strings.Repeat("x", 1960)})
			}
			events = append(events, e)
		}
		if err := w.Append(t.Context(), events); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		posts := w.hub.received()
		if len(posts) != 2 {
			t.Fatalf("%d notifications, want two that are full by size", len(posts))
		}
		for _, p := range posts {
			if len(p.body) > limit || len(p.body) < limit*3/4 {
				t.Errorf("a notification of %d bytes, with a limit of %d", len(p.body), limit)
			}
		}
		w.drain()
		if err := checkChain(w.hub.notes(t, notifier.DefaultSet)); err != nil {
			t.Error(err)
		}
	})
}

// TestBatchFillsWhileTheHubIsAway: a backlog becomes few full notifications, and events that have
// waited long enough do not wait again.
func TestBatchFillsWhileTheHubIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{answer: slowly(10 * time.Second)}
		w := newWorld(t, notifier.Config{MaxEntries: 100}, h)
		w.add(inDefault, "first")
		time.Sleep(1500 * time.Millisecond)
		for i := range 250 {
			w.add(inDefault, fmt.Sprint(i))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		var sizes []int
		posts := h.received()
		for _, n := range h.notes(t, notifier.DefaultSet) {
			sizes = append(sizes, len(n.entries))
		}
		if !slices.Equal(sizes, []int{1, 100, 100, 50}) {
			t.Fatalf("notifications of %v", sizes)
		}
		for i := 1; i < len(posts); i++ {
			if gap := posts[i].at.Sub(posts[i-1].at); gap != 10*time.Second {
				t.Errorf("POST %d came %s after the one before; it had waited long enough", i+1, gap)
			}
		}
	})
}

func TestBacklogIsPublishedAtOnceAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, notifier.Config{MaxWait: time.Hour}, &hub{})
		w.add(inDefault, "1", "2")
		time.Sleep(time.Second)
		w.restart()
		synctest.Wait()
		notes := w.hub.notes(t, notifier.DefaultSet)
		if len(notes) != 1 || len(notes[0].entries) != 2 {
			t.Fatalf("after the restart: %+v", notes)
		}
		w.add(inDefault, "3")
		time.Sleep(time.Hour - time.Second)
		synctest.Wait()
		if got := len(w.hub.received()); got != 1 {
			t.Errorf("%d notifications; new events wait their time", got)
		}
	})
}

func TestDrainDoesNotWaitForTheBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, notifier.Config{MaxWait: time.Hour, Sets: []string{"a", "b"}}, &hub{})
		begun := time.Now()
		w.drain() // nothing to wait for
		w.add([]string{"a", "b"}, "1")
		w.add([]string{"b"}, "2")
		w.drain()
		if took := time.Since(begun); took > time.Second {
			t.Errorf("draining took %s", took)
		}
		if got := w.hub.notes(t, "b"); len(got) != 1 || len(got[0].entries) != 2 {
			t.Errorf("b got %+v", got)
		}
		if got := w.hub.notes(t, "a"); len(got) != 1 || len(got[0].entries) != 1 {
			t.Errorf("a got %+v", got)
		}
	})
}

// TestDrainEndsWhileEventsCome: events that come during a drain are neither waited for nor hurried.
func TestDrainEndsWhileEventsCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{answer: slowly(time.Second)}
		w := newWorld(t, notifier.Config{MaxWait: time.Hour}, h)
		w.add(inDefault, "first")
		go func() {
			for i := range 600 {
				time.Sleep(100 * time.Millisecond)
				w.add(inDefault, fmt.Sprint(i))
			}
		}()
		begun := time.Now()
		w.drain()
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("draining took %s", took)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := len(h.received()); got > 1 {
			t.Errorf("%d notifications; only the first event was waited for", got)
		}
		w.drain()
		if err := checkChain(h.notes(t, notifier.DefaultSet)); err != nil || len(h.received()) != 2 {
			t.Errorf("%d notifications, %v", len(h.received()), err)
		}
	})
}

// TestClockSetBack: until is never in the future, so publishing waits for the
// clock, and intake goes on.
func TestClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &wildClock{}
		w := newWorld(t, notifier.Config{Now: clock.now}, &hub{})
		w.add(inDefault, "1")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		clock.step(-time.Minute)
		w.add(inDefault, "2")
		time.Sleep(57 * time.Second)
		synctest.Wait()
		if got := len(w.hub.received()); got != 1 {
			t.Fatalf("%d notifications while the clock is behind, want 1", got)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		notes := w.hub.notes(t, notifier.DefaultSet)
		if err := checkChain(notes); err != nil || len(notes) != 2 {
			t.Errorf("%d notifications, %v", len(notes), err)
		}
	})
}
