package operator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/delivery"
	"carillon/delivery/report"
	"carillon/operator"
)

// TestFindByID finds every notification of several logs by its ID alone, also those that
// processes with other clocks have accepted, out of the order of their times.
func TestFindByID(t *testing.T) {
	db := openStore(t)
	d := newService(t, db, newFake(1, all), nil)
	begin := time.Now().Add(-10 * time.Hour)
	found := map[uuid.UUID]string{}
	for i := range 300 {
		url := fmt.Sprintf("%s/%d", topicURL, i%3)
		at := begin.Add(time.Duration(i) * 10 * time.Second)
		if i%7 == 0 {
			at = at.Add(-45 * time.Second) // its clock is slow
		}
		found[publish(t, db, url, "", "", at).ID] = url
	}
	publish(t, db, topicURL+"/young", "", "", time.Now())
	for id, url := range found {
		n, _, err := d.Fate(t.Context(), "", id)
		if err != nil || n.ID != id || n.Topic != url {
			t.Fatalf("%s of %s: %+v %v", id, url, n, err)
		}
	}
	for name, c := range map[string]struct {
		topic string
		id    uuid.UUID
		want  error
	}{
		"another topic":      {topicURL + "/young", firstOf(found), operator.ErrNotFound},
		"no such topic":      {topicURL + "/none", firstOf(found), operator.ErrNotFound},
		"never published":    {"", idAt(begin.Add(time.Hour)), operator.ErrNotFound},
		"before all":         {"", idAt(begin.Add(-time.Hour)), operator.ErrNotFound},
		"not by this hub":    {"", uuid.New(), operator.ErrInvalid},
		"none at all":        {topicURL, uuid.Nil, operator.ErrInvalid},
		"in the future":      {"", idAt(time.Now().Add(time.Hour)), operator.ErrNotFound},
		"not yet, one topic": {topicURL + "/1", idAt(time.Now().Add(time.Hour)), operator.ErrNotFound},
	} {
		if _, _, err := d.Fate(t.Context(), c.topic, c.id); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func firstOf(found map[uuid.UUID]string) (first uuid.UUID) {
	for id := range found {
		if first == uuid.Nil || id.String() < first.String() {
			first = id
		}
	}
	return first
}

// TestContinuityBreaks are reported where the interval before is known, and only there.
func TestContinuityBreaks(t *testing.T) {
	db := openStore(t)
	d := newService(t, db, newFake(1, all), nil)
	now := time.Now().Add(-time.Minute)
	for i, iv := range [][2]string{{"1", "2"}, {"2", "3"}, {"4", "5"}, {"", ""}, {"7", "8"}, {"8", "9"}} {
		publish(t, db, topicURL, iv[0], iv[1], now.Add(time.Duration(i)*time.Second))
	}
	want := map[delivery.Seq]bool{3: true}
	var before delivery.Seq
	seen := 0
	for {
		page, err := d.Notifications(t.Context(), topicURL, before, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range page.Notifications {
			seen++
			if n.Break != want[n.Seq] {
				t.Errorf("%d: break %v", n.Seq, n.Break)
			}
			if one, _, err := d.Fate(t.Context(), topicURL, n.ID); err != nil || one.Break != n.Break {
				t.Errorf("%d by its ID: %v %v", n.Seq, one.Break, err)
			}
		}
		if before = page.Next; before == 0 {
			break
		}
	}
	if seen != 6 {
		t.Errorf("%d were on the pages", seen)
	}
}

// TestTopicPages are those with a log and those with subscriptions, in the order of their keys.
func TestTopicPages(t *testing.T) {
	db := openStore(t)
	a, b := newFake(1, even), newFake(2, odd)
	var want []string
	for i := range 30 {
		url := fmt.Sprintf("https://a.example/%02d", i)
		want = append(want, url)
		if i%2 == 0 {
			publish(t, db, url, "1", "2", time.Now())
		}
		if i%3 == 0 || i%2 == 1 {
			for c := range 4 {
				for _, f := range []*fake{a, b} {
					state := report.StateIdle
					if i == 9 {
						state = report.StateFailing
					}
					f.subscribe(url, fmt.Sprintf("https://c%d.example/", c), 1, 1, state)
				}
			}
		}
	}
	services, _ := newFakePeers(t, db, map[string]*fake{"a": a, "b": b})
	for _, limit := range []int{1, 4, 30, 100} {
		var got []string
		q := operator.TopicQuery{Limit: limit}
		for range 40 {
			page, err := services["b"].Topics(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, topic := range page.Topics {
				got = append(got, topic.Topic)
				if has := topic.Subscriptions; has != 4 && has != 0 {
					t.Errorf("%s has %d subscriptions", topic.Topic, has)
				}
				if topic.Head == 1 && (topic.Published.IsZero() || topic.Oldest.IsZero() || topic.LastUntil != "2" || topic.Bytes == 0) {
					t.Errorf("%+v", topic)
				}
			}
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d gave %v", limit, got)
		}
	}
	page, err := services["a"].Topics(t.Context(), operator.TopicQuery{Failing: true})
	if err != nil || len(page.Topics) != 1 || page.Topics[0].Topic != want[9] || page.Topics[0].Subscriptions != 4 || page.Topics[0].Failing != 4 {
		t.Errorf("%+v %v", page, err)
	}
	page, err = services["a"].Topics(t.Context(), operator.TopicQuery{Contains: "EXAMPLE/1"})
	if err != nil || len(page.Topics) != 10 {
		t.Errorf("%d topics: %v", len(page.Topics), err)
	}
	if _, err := services["a"].Topic(t.Context(), "https://b.example/"); !errors.Is(err, operator.ErrNotFound) {
		t.Error(err)
	}
}

// TestTrim goes to the head, refuses to go further, and says what went.
func TestTrim(t *testing.T) {
	db := openStore(t)
	d := newService(t, db, newFake(1, all), nil)
	for range 5 {
		publish(t, db, topicURL, "", "", time.Now())
	}
	for _, c := range []struct {
		before delivery.Seq
		went   int
	}{{3, 2}, {3, 0}, {6, 3}} {
		if r, err := d.Trim(t.Context(), topicURL, c.before); err != nil || r.Notifications != c.went || c.went > 0 && r.Bytes == 0 {
			t.Errorf("before %d: %+v %v", c.before, r, err)
		}
	}
	if r := publish(t, db, topicURL, "", "", time.Now()); r.Seq != 6 {
		t.Errorf("the next has number %d", r.Seq)
	}
	if _, err := d.Trim(t.Context(), topicURL, 8); !errors.Is(err, operator.ErrInvalid) || !strings.Contains(err.Error(), "7 at most") {
		t.Errorf("beyond the newest: %v", err)
	}
	for topic, want := range map[string]error{"https://b.example/": operator.ErrNotFound, "": operator.ErrInvalid} {
		if _, err := d.Trim(t.Context(), topic, 1); !errors.Is(err, want) {
			t.Errorf("%q: %v", topic, err)
		}
	}
}

// TestRemoveReasons refuses reasons that a callback may not get.
func TestRemoveReasons(t *testing.T) {
	d := newService(t, openStore(t), newFake(1, all), nil)
	for _, reason := range []string{strings.Repeat("x", operator.MaxReason+1), "a\nb", "\xff"} {
		if err := d.Remove(t.Context(), uuid.New(), reason); !errors.Is(err, operator.ErrInvalid) {
			t.Errorf("%.20q: %v", reason, err)
		}
	}
}

// TestTrimIsTold: every process forgets its copies in memory; a process that did not answer is named.
func TestTrimIsTold(t *testing.T) {
	services, s, a, b, last := twoProcesses(t)
	r, err := services["a"].Trim(t.Context(), topicURL, last.Seq+1)
	want := []string{fmt.Sprint(topicURL, " ", last.Seq+1)}
	if err != nil || len(r.Trouble) > 0 || !slices.Equal(a.trimmed, want) || !slices.Equal(b.trimmed, want) {
		t.Errorf("%+v %v, a was told of %q, b of %q", r, err, a.trimmed, b.trimmed)
	}
	s.mu.Lock()
	s.live["b"] = func(context.Context, []byte) []byte { return nil }
	s.mu.Unlock()
	a.unsure = true // it may be delivering, and is asked
	r, err = services["a"].Trim(t.Context(), topicURL, 1)
	if err != nil || len(a.trimmed) != 2 || len(r.Trouble) != 1 || !strings.Contains(r.Trouble[0], "process b may still deliver") {
		t.Errorf("%+v %v, a was told of %q", r, err, a.trimmed)
	}
}
