package follow_test

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"carillon/destination"
	"carillon/destination/follow"
	"carillon/destination/lists"
	"carillon/payload"
)

// sourceTime is an entry of one resource.
func sourceTime(c payload.Change, at time.Time, length string) payload.Entry {
	return payload.Entry{Loc: "http://source.example/a", Change: c, Datetime: at, Length: length}
}

// A resource may change more than once at one datetime, as Sources tell it that count seconds.
func TestSameDatetime(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.src.memory, w.src.list = nil, nil
		w.start()
		w.push(w.src.publish(1))
		w.sleep(follow.DefaultSettle)
		at := w.src.next
		w.push(w.src.publish(0, sourceTime(payload.Created, at, "1"), sourceTime(payload.Deleted, at, "0"),
			sourceTime(payload.Created, at, "2"), sourceTime(payload.Deleted, at, "0"), sourceTime(payload.Created, at, "2")))
		w.want(0)
		seen := map[string]bool{}
		for _, c := range w.handler.changes() {
			if seen[c.Key] {
				t.Errorf("two changes have the key %s", c.Key)
			}
			seen[c.Key] = true
		}
	})
}

// The same where two notifications meet, and both have that moment; equal entries are one change.
func TestSameDatetimeAtSeam(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.src.memory, w.src.list = nil, nil
		w.start()
		seam := w.src.next.Add(time.Second)
		one, two := sourceTime(payload.Updated, seam, "1"), sourceTime(payload.Updated, seam, "2")
		w.push(notification("1", w.src.next, seam, []payload.Entry{one}))
		w.sleep(follow.DefaultSettle)
		w.push(notification("2", seam, seam.Add(time.Second), []payload.Entry{two, one}))
		w.src.entries = []payload.Entry{one, two}
		w.want(0)
	})
}

// A list is read again where its last datetime has one change more, which says what the
// one before has said.
func TestSameDatetimeInList(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.src.memory, w.src.pushed = nil, false
		w.cfg.Start, w.cfg.StartTime = follow.StartAt, w.src.next
		e := sourceTime(payload.Updated, w.src.next.Add(time.Second), "1")
		w.src.entries = []payload.Entry{e, e}
		w.start()
		w.sleep(2 * follow.DefaultPollGone)
		w.want(0)
		w.src.change(func() { w.src.entries = []payload.Entry{e, e, e} })
		w.sleep(2 * follow.DefaultPollGone)
		w.want(0)
	})
}

// A datetime that is a day may be any moment of it.
func TestDays(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.src.memory, w.src.pushed = nil, false
		day := w.src.next.Truncate(24 * time.Hour)
		w.cfg.Start, w.cfg.StartTime = follow.StartAt, day.Add(10*time.Hour)
		w.src.list.begins = day
		w.cfg.Lists = daily{w.src}
		e := sourceTime(payload.Updated, day, "1")
		e.DatetimeTold = day.Format(time.DateOnly)
		w.src.entries = []payload.Entry{e}
		w.start()
		w.sleep(2 * follow.DefaultPollGone)
		w.want(0)
		w.src.change(func() { w.src.entries = append(w.src.entries, sourceTime(payload.Updated, day.Add(11*time.Hour), "2")) })
		w.sleep(2 * follow.DefaultPollGone)
		w.src.change(func() { e.Length = "3"; w.src.entries = append(w.src.entries, e) })
		w.sleep(2 * follow.DefaultPollGone)
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
		w.start()
		w.sleep(48 * time.Hour)
		w.want(0)
	})
}

// daily visits what a list has of the day in which since lies, as lists.Client does.
type daily struct{ *source }

func (d daily) Changes(ctx context.Context, uri string, since time.Time, visit func(payload.Entry) error) (lists.Covered, error) {
	covered, err := d.source.Changes(ctx, uri, since.Truncate(24*time.Hour), visit)
	covered.Until = later(covered.Until, since)
	return covered, err
}

// An open list that lacks a change for now takes nothing from the notification that waits
// behind the gap, and has it.
func TestListLags(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.src.memory = nil
		w.cfg.Start, w.cfg.StartTime = follow.StartAt, w.src.next
		w.src.list.fail = failing(1, errLater) // the first look
		w.src.publish(2)                       // lost
		n := w.src.publish(3)
		w.cfg.Lists = lagging{w.src, w.src.entries[3].Datetime}
		w.start()
		w.push(n)
		w.sleep(follow.DefaultSettle)
		w.want(0)
	})
}

// Where such a list was read before the notification came, what it lacked is handed on late,
// unless its resource has changed since.
func TestListLagged(t *testing.T) {
	for name, newer := range map[string]bool{"handed on late": false, "changed since": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *fixture) {
				w.src.memory = nil
				w.cfg.Start, w.cfg.StartTime = follow.StartAt, w.src.next
				n := w.src.publish(3)
				w.cfg.Lists = lagging{w.src, w.src.entries[1].Datetime}
				if newer {
					e := w.src.entries[1]
					e.Change, e.Datetime = payload.Deleted, w.src.next
					w.src.publish(0, e)
				}
				w.src.publish(1)
				w.start()
				w.push(n, n)
				var late []follow.Change
				for i, c := range w.handler.changes() {
					if c.Loc == w.src.entries[1].Loc && c.Change == payload.Updated {
						late = w.handler.changes()[i:]
					}
				}
				if want := !newer; (len(late) == 1) != want || w.logs.Len() == 0 {
					t.Errorf("handed on late: %v, want %v\n%s", late, want, w.logs.String())
				}
			})
		})
	}
}

// lagging has lists that lack what is at a moment.
type lagging struct {
	*source
	at time.Time
}

func (l lagging) Changes(ctx context.Context, uri string, since time.Time, visit func(payload.Entry) error) (lists.Covered, error) {
	return l.source.Changes(ctx, uri, since, func(e payload.Entry) error {
		if e.Datetime.Equal(l.at) {
			return nil
		}
		return visit(e)
	})
}

// A notification without an interval and a datetime is handed on after everything that came before it,
// also where no list has it, and in the order of arrival.
func TestNothingTold(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.src.memory, w.src.list = nil, nil
		var none time.Time
		odd := func(id string, c payload.Change) *destination.Notification {
			return notification(id, none, none, []payload.Entry{sourceTime(c, none, "1")})
		}
		w.start()
		w.push(odd("z", payload.Created)) // there is no position yet
		w.sleep(follow.DefaultSettle)
		first, second := w.src.publish(1), w.src.publish(1)
		w.push(first)
		w.sleep(follow.DefaultSettle)
		third := w.src.publish(1)
		w.push(third, odd("y", payload.Deleted), odd("x", payload.Created)) // behind a gap
		w.push(second)
		w.sleep(time.Hour)
		var got []payload.Change
		for _, c := range w.handler.changes() {
			got = append(got, c.Change)
		}
		want := []payload.Change{payload.Created, payload.Updated, payload.Updated, payload.Updated, payload.Deleted, payload.Created}
		if len(got) != len(want) {
			t.Fatalf("handed on: %v, want %v\n%s", got, want, w.logs.String())
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("handed on: %v, want %v", got, want)
				break
			}
		}
	})
}

// After an unreadable notification, and after one without an interval and a datetime, the lists are
// read.
func TestOddHasListsLookedAt(t *testing.T) {
	for _, n := range []*destination.Notification{
		{ID: "broken", Size: 3, Body: []byte("xxx")},
		notification("nothing told", time.Time{}, time.Time{}, []payload.Entry{sourceTime(payload.Updated, time.Time{}, "1")}),
	} {
		t.Run(n.ID, func(t *testing.T) {
			inWorld(t, func(w *fixture) {
				w.src.memory = nil
				w.start()
				w.push(w.src.publish(1))
				w.sleep(time.Minute)
				w.src.publish(1)
				asked := w.src.list.asked
				w.push(n)
				if w.src.list.asked == asked {
					t.Error("the lists were not looked at")
				}
			})
		})
	}
}

// A list that was begun anew has another change where it repeats, without a datetime, an entry of the
// one before. A change that both push and a list have is one.
func TestUndatedListBegunAnew(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.src.memory, w.src.pushed = nil, false
		w.cfg.Start, w.cfg.StartTime = follow.StartAt, w.src.next
		u := sourceTime(payload.Updated, time.Time{}, "1")
		w.src.entries, w.src.list.name = []payload.Entry{u}, "1"
		w.start()
		handed := func(when string, want int) {
			t.Helper()
			w.sleep(2 * follow.DefaultPollGone)
			if n := len(w.handler.changes()); n != want {
				t.Errorf("%s: %d changes were handed on, want %d\n%s", when, n, want, w.logs.String())
			}
		}
		handed("the first list", 1)
		w.src.change(func() { w.src.list.name = "2" })
		handed("the second list", 2)
		begin := w.src.next
		w.push(notification("pushed", begin, begin.Add(time.Second), []payload.Entry{u, u}))
		w.src.change(func() { w.src.entries = []payload.Entry{u, u, u} })
		handed("pushed and listed", 4)
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
		w.start()
		handed("after a restart", 4)
		w.src.change(func() { w.src.entries = []payload.Entry{u, u, u, u} })
		handed("one more", 5)
		seen := map[string]bool{}
		for _, c := range w.handler.changes() {
			if seen[c.Key] {
				t.Errorf("two changes have the key %s", c.Key)
			}
			seen[c.Key] = true
		}
	})
}

// A notification that repeats changes from before its interval (CN §3) undoes no later change of their
// resource, and nothing of it is handed on twice; a new change in it is handed on.
func TestRepeated(t *testing.T) {
	for name, longAgo := range map[string]time.Duration{"since the start": 0, "before the start": 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *fixture) {
				w.src.memory, w.src.list = nil, nil
				w.start()
				w.push(w.src.publish(1))
				w.sleep(follow.DefaultSettle)
				at := w.src.next
				created := sourceTime(payload.Created, at.Add(time.Second/5-longAgo), "1")
				deleted := sourceTime(payload.Deleted, at.Add(time.Second/2-longAgo), "0")
				other := created
				other.Loc = "http://source.example/b"
				for i, entries := range [][]payload.Entry{{created, deleted}, {created}, {created, other}, {deleted, other}} {
					from := at.Add(time.Duration(i) * time.Second)
					w.push(notification(string(rune('a'+i)), from, from.Add(time.Second), entries))
				}
				w.sleep(time.Minute)
				var got []payload.Entry
				for _, c := range w.handler.changes()[1:] {
					got = append(got, payload.Entry{Loc: c.Loc, Change: c.Change})
				}
				want := []payload.Entry{
					{Loc: created.Loc, Change: created.Change},
					{Loc: created.Loc, Change: deleted.Change},
					{Loc: other.Loc, Change: other.Change},
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("handed on: %v\nwant: %v", got, want)
				}
				if !strings.Contains(w.logs.String(), "passed_over=1") {
					t.Errorf("nothing is logged of what was passed over:\n%s", w.logs.String())
				}
			})
		})
	}
}

// Content that is no ResourceSync is said once, with what to use for it; a broken notification each time.
func TestForeignContent(t *testing.T) {
	inWorld(t, func(w *fixture) {
		w.src.memory, w.src.list = nil, nil
		w.start()
		feed := func(id string) *destination.Notification {
			return &destination.Notification{
				ID: id, Topic: "http://source.example/feed", ContentType: "application/atom+xml",
				Body: []byte("<feed/>"), Size: 7,
			}
		}
		broken := notification("broken", time.Time{}, time.Time{}, nil)
		broken.ChangeNotification, broken.Broken = false, true
		w.push(feed("1"), feed("2"), broken, feed("3"))
		logs := w.logs.String()
		if n := strings.Count(
			logs, "is no ResourceSync change notification",
		); n != 1 || !strings.Contains(logs, "run a callback of your own") || !strings.Contains(logs, "topic=http://source.example/feed") {
			t.Errorf("said %d times:\n%s", n, logs)
		}
		if !strings.Contains(logs, "cannot be read, and is passed over\" id=broken") {
			t.Errorf("nothing is said of the broken one:\n%s", logs)
		}
	})
}
