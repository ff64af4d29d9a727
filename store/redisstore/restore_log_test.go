package redisstore_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
)

// from is a notification as another engine had it.
func from(n int, seq, after delivery.Seq) *delivery.Notification {
	return &delivery.Notification{
		Publication: second(topicURL, n), ID: uuid.New(), Seq: seq, After: after,
		Accepted: begin.Add(time.Duration(n) * time.Second),
	}
}

func lastOf(n *delivery.Notification) delivery.Last {
	return delivery.Last{ID: n.ID, Until: n.Until, Digest: n.Digest()}
}

// wantLog checks the whole log of the topic.
func wantLog(t *testing.T, w *world, want ...*delivery.Notification) {
	t.Helper()
	got := readAll(t, w.db, topicURL)
	if len(got) != len(want) {
		t.Fatalf("the log has %d notifications, want %d", len(got), len(want))
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("notification %d: got %+v, want %+v", i, got[i], want[i])
		}
	}
}

func TestRestoreALog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	restore := w.db.Restore()
	notes := []*delivery.Notification{from(2, 2, 1), from(3, 3, 2), from(4, 7, 3)}
	state := delivery.TopicState{Topic: topicURL, First: 2, Head: 7, Last: lastOf(notes[2])}
	for range 2 { // each call may be repeated
		must(t, restore.PutNotifications(t.Context(), notes[:2]))
		must(t, restore.PutNotifications(t.Context(), notes[1:]))
		must(t, restore.PutTopics(t.Context(), []delivery.TopicState{state}))
		wantLog(t, w, notes...)
		if got := states(t, w.db)[topicURL]; got != state {
			t.Errorf("got %+v, want %+v", got, state)
		}
		wantBytes(t, w, 3)
	}
	again := publish(t, w.db, topicURL, 4)
	if want := (delivery.Receipt{ID: notes[2].ID, Seq: 7, Repeated: true, Previous: notes[1].Until}); again != want {
		t.Errorf("the last one again: got %+v, want %+v", again, want)
	}
	next := publish(t, w.db, topicURL, 5)
	if next.Seq <= 7 || next.Previous != notes[2].Until {
		t.Errorf("the next: got %+v, want a number above 7", next)
	}
	if got := readAll(t, w.db, topicURL); len(got) != 4 || got[3].After != 7 {
		t.Errorf("the log has %d notifications, want 4, the last after 7", len(got))
	}
}

func TestRestoreATrimmedLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	last := from(8, 9, 8)
	state := delivery.TopicState{Topic: topicURL, First: 10, Head: 9, Last: lastOf(last)}
	must(t, w.db.Restore().PutTopics(t.Context(), []delivery.TopicState{state}))
	if got := states(t, w.db)[topicURL]; got != state {
		t.Errorf("got %+v, want %+v", got, state)
	}
	if got := publish(t, w.db, topicURL, 8); !got.Repeated || got.ID != last.ID {
		t.Errorf("the last one again: got %+v", got)
	}
	if got := publish(t, w.db, topicURL, 9); got.Seq <= 9 || got.Previous != last.Until {
		t.Errorf("the next: got %+v", got)
	}
}

func TestRestoreNeverLowersAHead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	publish(t, w.db, topicURL, 1)
	before := states(t, w.db)[topicURL]
	low := from(0, 5, 4)
	must(t, w.db.Restore().PutNotifications(t.Context(), []*delivery.Notification{low}))
	must(t, w.db.Restore().PutTopics(t.Context(), []delivery.TopicState{{Topic: topicURL, Head: 5, Last: lastOf(low)}}))
	want := before
	want.First = 5
	if got := states(t, w.db)[topicURL]; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := publish(t, w.db, topicURL, 2).Seq; got <= before.Head {
		t.Errorf("the next is %d, want it above %d", got, before.Head)
	}
}

func TestRestoreIntoALog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	restore := w.db.Restore()
	old := []*delivery.Notification{from(2, 2, 0), from(4, 4, 2), from(6, 6, 4)}
	must(t, restore.PutNotifications(t.Context(), old))
	more := []*delivery.Notification{from(5, 5, 4), from(7, 7, 6), from(40, 4, 2), from(1, 1, 0)}
	must(t, restore.PutNotifications(t.Context(), more))
	want := []*delivery.Notification{more[3], old[0], more[2], more[0], old[2], more[1]}
	wantLog(t, w, want...)
	wantBytes(t, w, len(want))
	if got := states(t, w.db)[topicURL]; got.First != 1 || got.Head != 7 || got.Last != lastOf(more[1]) {
		t.Errorf("got %+v, want 1 to 7", got)
	}
	// Trimmed notifications come back.
	trim(t, w.db.Log(), topicURL, 8, begin.Add(time.Hour))
	wantLog(t, w)
	must(t, restore.PutNotifications(t.Context(), more[:1]))
	wantLog(t, w, more[0])
	wantBytes(t, w, 1)
	trim(t, w.db.Log(), topicURL, 8, begin.Add(time.Hour))
	wantLog(t, w)
}

func TestRestoreRefusesWhatIsNoNumber(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, n := range []*delivery.Notification{
		from(1, 0, 0), from(1, 1, 1), from(1, delivery.MaxSeq+1, 0),
	} {
		if err := w.db.Restore().PutNotifications(t.Context(), []*delivery.Notification{n}); err == nil {
			t.Errorf("number %d after %d was taken", n.Seq, n.After)
		}
	}
	if err := w.db.Restore().PutTopics(t.Context(), []delivery.TopicState{{Topic: topicURL, Head: delivery.MaxSeq + 1}}); err == nil {
		t.Error("a head above MaxSeq was taken")
	}
	if got := states(t, w.db); len(got) != 0 {
		t.Errorf("there is %v", got)
	}
}
