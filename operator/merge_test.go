package operator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon/delivery"
	"carillon/delivery/report"
	"carillon/operator"
	"carillon/store/pebblestore"
	"carillon/subscription"
)

// twoProcesses has subscriptions in two processes: 40 to one topic, of which each third fails.
func twoProcesses(t *testing.T) (services map[string]*operator.Service, s *fakePeers, a, b *fake, last delivery.Receipt) {
	t.Helper()
	return twoProcessesOn(t, openStore(t))
}

func twoProcessesOn(t *testing.T, db *pebblestore.DB) (services map[string]*operator.Service, s *fakePeers, a, b *fake, last delivery.Receipt) {
	t.Helper()
	now := time.Now()
	publish(t, db, topicURL, "1", "2", now.Add(-time.Minute))
	last = publish(t, db, topicURL, "2", "3", now.Add(-time.Second))
	a, b = newFake(1, even), newFake(2, odd)
	a.oldest, b.oldest = now.Add(-time.Second), now.Add(-10*time.Second)
	for i := range 40 {
		for _, f := range []*fake{a, b} {
			callback := fmt.Sprintf("https://c%d.example/secret/path", i)
			if i%3 == 0 {
				f.subscribe(topicURL, callback, 1, 2, report.StateFailing)
			} else {
				f.subscribe(topicURL, callback, 2, 2, report.StateIdle)
			}
		}
	}
	if len(a.stands) == 0 || len(b.stands) == 0 {
		t.Fatal("all are in the shards of one process")
	}
	services, s = newFakePeers(t, db, map[string]*fake{"a": a, "b": b})
	return services, s, a, b, last
}

// TestEveryProcessGivesTheSameAnswer asks each of two, and a command that holds nothing.
func TestEveryProcessGivesTheSameAnswer(t *testing.T) {
	services, _, _, _, last := twoProcesses(t)
	want := operator.Tally{Subscribers: 40, Delivered: 26, Pending: 14, Failing: 14}
	for name, d := range services {
		n, err := d.Notification(t.Context(), topicURL, last.ID)
		if err != nil {
			t.Fatal(err)
		}
		if n.Tally != want || len(n.Missing) != 14 || n.MissingMore || n.MissingShards != 0 || len(n.Trouble) != 0 {
			t.Errorf("%s: %+v, %d missing, %+v", name, n.Tally, len(n.Missing), n.Coverage)
		}
		for _, m := range n.Missing {
			if m.Outcome != "failing" || m.State != operator.StateFailing || m.LagSeconds < 1 {
				t.Errorf("%+v", m)
			}
		}
		if anywhere, err := d.Notification(t.Context(), "", last.ID); err != nil || anywhere.Topic != topicURL || anywhere.Tally != want {
			t.Errorf("without the topic: %+v %v", anywhere.Notification, err)
		}
		page, err := d.Notifications(t.Context(), topicURL, 0, 0)
		if err != nil || len(page.Notifications) != 2 || page.Notifications[0].Tally != want || page.Notifications[1].Tally.Delivered != 40 {
			t.Errorf("%+v %v", page, err)
		}
		one, err := d.Topic(t.Context(), topicURL)
		if err != nil || one.Subscriptions != 40 || one.Behind != 14 || one.Failing != 14 || one.Head != 2 || one.Coverage != nil {
			t.Errorf("%+v %v", one, err)
		}
		o, err := d.Overview(t.Context())
		if err != nil || o.Counts.Subscriptions != 40 || o.Counts.Failing != 14 || o.Counts.Topics != 1 || len(o.Processes) != 2 || o.MissingShards != 0 {
			t.Errorf("%+v %v", o, err)
		}
		if o.LagSeconds < 10 || o.LagSeconds > 30 {
			t.Errorf("the oldest waits for %v s", o.LagSeconds)
		}
		for _, p := range o.Processes {
			if p.Self != (p.ID == name) {
				t.Errorf("asked %s: %+v", name, p)
			}
		}
	}
}

// TestPagesOfSubscriptions goes through all pages of both processes.
func TestPagesOfSubscriptions(t *testing.T) {
	services, _, _, _, _ := twoProcesses(t)
	for _, limit := range []int{1, 7, 40, 1000} {
		var ids []subscription.ID
		q := operator.SubscriptionQuery{Topic: topicURL, Limit: limit}
		for pages := 0; pages < 50; pages++ {
			page, err := services["a"].Subscriptions(t.Context(), q)
			if err != nil || page.Matching != 40 {
				t.Fatalf("%d %v", page.Matching, err)
			}
			for _, row := range page.Subscriptions {
				ids = append(ids, row.ID)
				if strings.Contains(row.CallbackHost, "secret") {
					t.Fatalf("a list shows %s", row.CallbackHost)
				}
			}
			if page.Next == "" {
				break
			}
			if err := q.After.UnmarshalText([]byte(page.Next)); err != nil {
				t.Fatal(err)
			}
		}
		if len(ids) != 40 || !slices.IsSortedFunc(ids, func(a, b subscription.ID) int { return strings.Compare(a.String(), b.String()) }) {
			t.Errorf("pages of %d gave %d", limit, len(ids))
		}
	}
}

// TestFilters asks for each.
func TestFilters(t *testing.T) {
	services, _, a, b, _ := twoProcesses(t)
	someone := subscription.NewID(topicURL, "https://c3.example/secret/path")
	for _, f := range []*fake{a, b} {
		if s, ok := f.stands[subscription.NewID(topicURL, "https://c1.example/secret/path")]; ok {
			s.Gapped, s.Subscription.Expires = true, time.Now().Add(time.Minute)
			f.stands[s.Subscription.ID] = s
		}
	}
	for name, c := range map[string]struct {
		q    operator.SubscriptionQuery
		want int
	}{
		"state":         {operator.SubscriptionQuery{State: operator.StateFailing}, 14},
		"behind":        {operator.SubscriptionQuery{State: operator.StateBehind}, 14},
		"idle":          {operator.SubscriptionQuery{State: operator.StateIdle}, 26},
		"gapped":        {operator.SubscriptionQuery{Gapped: true}, 1},
		"lease":         {operator.SubscriptionQuery{LeaseUnder: 10 * time.Minute}, 1},
		"host":          {operator.SubscriptionQuery{Host: "C39.example"}, 1},
		"host, port":    {operator.SubscriptionQuery{Host: "C39.example.:443"}, 1},
		"host, scheme":  {operator.SubscriptionQuery{Host: "https://c39.example:443"}, 1},
		"other scheme":  {operator.SubscriptionQuery{Host: "http://c39.example:443"}, 0},
		"other port":    {operator.SubscriptionQuery{Host: "c39.example:80"}, 0},
		"host, no path": {operator.SubscriptionQuery{Host: "secret"}, 0},
		"topic as host": {operator.SubscriptionQuery{Contains: "https://c39.example/feed"}, 0},
		"host as path":  {operator.SubscriptionQuery{Host: "c39.example/feed"}, 0},
		"contains":      {operator.SubscriptionQuery{Contains: "a.EXAMPLE/top"}, 40},
		"id":            {operator.SubscriptionQuery{Contains: someone.String()}, 1},
		"another topic": {operator.SubscriptionQuery{Topic: topicURL + "/x"}, 0},
		"spelling":      {operator.SubscriptionQuery{Topic: "https://a.example/%74opic"}, 40},
		"lag":           {operator.SubscriptionQuery{LagOver: 500 * time.Millisecond}, 14},
		"no such lag":   {operator.SubscriptionQuery{LagOver: 30 * time.Second}, 0},
	} {
		page, err := services["b"].Subscriptions(t.Context(), c.q)
		if err != nil || page.Matching != c.want || len(page.Subscriptions) != c.want {
			t.Errorf("%s: %d of %d, not %d: %v", name, len(page.Subscriptions), page.Matching, c.want, err)
		}
	}
	if _, err := services["b"].Subscriptions(t.Context(), operator.SubscriptionQuery{State: "sleepy"}); !errors.Is(err, operator.ErrInvalid) {
		t.Error(err)
	}
}

// TestWhoIsMissing has the other process say nothing, answer garbage, be of another version, or be
// gone.
func TestWhoIsMissing(t *testing.T) {
	services, s, a, _, last := twoProcesses(t)
	d := services["a"]
	say := func(text string) func(context.Context, []byte) []byte {
		return func(context.Context, []byte) []byte { return []byte(text) }
	}
	for name, c := range map[string]struct {
		answer func(context.Context, []byte) []byte
		want   string
	}{
		"silent":  {func(context.Context, []byte) []byte { return nil }, "process b did not answer: no answer in time"},
		"garbled": {say("{"), "its answer is not understood"},
		"older": {func(ctx context.Context, q []byte) []byte {
			var v map[string]any
			_ = json.Unmarshal(q, &v)
			v["ask"] = "what_nobody_knows"
			text, _ := json.Marshal(v)
			return services["b"].AnswerTo(ctx, text)
		}, "does not know the question"},
		"gone": {nil, "no process answered for 32 of the 64 shards"},
	} {
		s.mu.Lock()
		if s.live["b"] = c.answer; c.answer == nil {
			delete(s.live, "b")
		}
		s.mu.Unlock()
		n, err := d.Notification(t.Context(), topicURL, last.ID)
		if err != nil {
			t.Fatal(err)
		}
		if n.Tally.Subscribers != len(a.stands) || n.MissingShards != 32 || !strings.Contains(strings.Join(n.Trouble, "\n"), c.want) {
			t.Errorf("%s: %+v %+v", name, n.Tally, n.Coverage)
		}
	}
}

// TestNobodyIsThere: a command asks, and no hub works on the store.
func TestNobodyIsThere(t *testing.T) {
	db := openStore(t)
	last := publish(t, db, topicURL, "", "", time.Now())
	sub := subscription.Subscription{ID: subscription.NewID(topicURL, "https://c.example/"), Topic: topicURL, Callback: "https://c.example/"}
	store(t, db, sub)
	s := &fakePeers{live: map[string]func(context.Context, []byte) []byte{}}
	d := newService(t, db, nil, func(c *operator.Config) { c.Peers = fakePeer{s, "command"} })
	_, _, err := d.Fate(t.Context(), topicURL, last.ID)
	errs := []error{
		err, second(d.Topics(t.Context(), operator.TopicQuery{})), second(d.Subscriptions(t.Context(), operator.SubscriptionQuery{})),
		second(d.Overview(t.Context())), second(d.Notifications(t.Context(), topicURL, 0, 0)), second(d.Topic(t.Context(), topicURL)),
	}
	for _, err := range append(errs, d.Retry(t.Context(), sub.ID), d.Remove(t.Context(), sub.ID, ""), second(d.Subscription(t.Context(), sub.ID))) {
		if !errors.Is(err, operator.ErrUnavailable) || !strings.Contains(err.Error(), "no hub works on this store: start one") {
			t.Error(err)
		}
	}
}

// store stores a subscription as a verified request does.
func store(t *testing.T, db *pebblestore.DB, sub subscription.Subscription) {
	t.Helper()
	sub.Created, sub.Lease, sub.Expires = time.Now(), time.Hour, time.Now().Add(time.Hour)
	if err := db.Restore().PutMembers(t.Context(), []delivery.Member{{Subscription: sub}}); err != nil {
		t.Fatal(err)
	}
}

// TestAShardThatTwoAnswerFor counts once, as its holder says.
func TestAShardThatTwoAnswerFor(t *testing.T) {
	db := openStore(t)
	last := publish(t, db, topicURL, "", "", time.Now())
	late, holder := newFake(1, all), newFake(2, all)
	for i := range 10 {
		late.subscribe(topicURL, fmt.Sprintf("https://c%d.example/", i), 0, 1, report.StateReady)
		holder.subscribe(topicURL, fmt.Sprintf("https://c%d.example/", i), 1, 1, report.StateIdle)
	}
	services, _ := newFakePeers(t, db, map[string]*fake{"late": late, "holder": holder})
	for name, d := range services {
		n, cover, err := d.Fate(t.Context(), topicURL, last.ID)
		if err != nil || n.Tally != (operator.Tally{Subscribers: 10, Delivered: 10}) || cover.MissingShards != 0 {
			t.Errorf("asked %s: %+v %+v %v", name, n.Tally, cover, err)
		}
	}
	late.unsure = true // now it says so by itself
	if n, cover, err := services["late"].Fate(t.Context(), topicURL, last.ID); err != nil || n.Tally.Subscribers != 10 || cover.MissingShards != 0 {
		t.Errorf("%+v %+v %v", n.Tally, cover, err)
	}
}

// TestShardsThatChangeHands during an answer: it is given anew, and where they do not stop
// changing the process says so.
func TestShardsThatChangeHands(t *testing.T) {
	db := openStore(t)
	last := publish(t, db, topicURL, "", "", time.Now())
	f := newFake(1, all)
	f.subscribe(topicURL, "https://c.example/", 1, 1, report.StateIdle)
	changes := 0
	f.onHeld = func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if changes--; changes >= 0 {
			f.held[0].Epoch++
		}
	}
	services, _ := newFakePeers(t, db, map[string]*fake{"a": f})
	changes = 2
	if n, cover, err := services["a"].Fate(t.Context(), topicURL, last.ID); err != nil || n.Tally.Subscribers != 1 || cover.MissingShards != 0 {
		t.Errorf("%+v %+v %v", n.Tally, cover, err)
	}
	changes = 1000
	if _, _, err := services["a"].Fate(t.Context(), topicURL, last.ID); !errors.Is(err, operator.ErrUnavailable) {
		t.Errorf("an answer was given while shards changed hands: %v", err)
	}
}

// TestWhatIsDoneGoesToTheHolder sends an order to any process, which passes it on.
func TestWhatIsDoneGoesToTheHolder(t *testing.T) {
	db := openStore(t)
	services, s, a, b, _ := twoProcessesOn(t, db)
	for i := range 40 {
		id := subscription.NewID(topicURL, fmt.Sprintf("https://c%d.example/secret/path", i))
		d := services["a"]
		if i%2 == 0 {
			d = services["b"]
		}
		switch err := d.Retry(t.Context(), id); {
		case i%3 == 0 && err != nil, i%3 != 0 && !errors.Is(err, operator.ErrConflict):
			t.Errorf("retry of %d: %v", i, err)
		}
		if did, err := d.Replay(t.Context(), id, 2, 5); err != nil || did != (operator.Replay{Next: 2, Last: 5}) {
			t.Errorf("replay: %+v %v", did, err)
		}
		if _, err := d.Replay(t.Context(), id, 1, 5); !errors.Is(err, operator.ErrInvalid) || !strings.Contains(err.Error(), "has number 2") {
			t.Errorf("replay of what is not kept: %v", err)
		}
		detail, err := d.Subscription(t.Context(), id)
		if err != nil || detail.ID != id || len(detail.Attempts) != 1 || detail.Attempts[0].Status != 503 || !strings.HasSuffix(detail.Callback, "/secret/path") {
			t.Errorf("%+v %v", detail, err)
		}
	}
	if got := len(a.retried) + len(b.retried); got != 14 {
		t.Errorf("%d were retried, not 14", got)
	}
	for _, id := range a.retried {
		if !a.holds(id) {
			t.Errorf("a retried %s, which b holds", id)
		}
	}
	stranger := subscription.NewID(topicURL, "https://nobody.example/")
	if err := services["a"].Retry(t.Context(), stranger); !errors.Is(err, operator.ErrNotFound) {
		t.Error(err)
	}
	// Their holder is silent, and the store has them: it is not known whether the order was carried out.
	s.mu.Lock()
	s.live["b"] = func(context.Context, []byte) []byte { return nil }
	s.mu.Unlock()
	for id, s := range b.stands {
		store(t, db, s.Subscription)
		if err := services["a"].Retry(t.Context(), id); !errors.Is(err, operator.ErrUnavailable) || !strings.Contains(err.Error(), "process b") {
			t.Error(err)
		}
		break
	}
}

// TestDoneByWhoIsSure: of two that have a subscription, the one that is not sure of it does
// nothing for it.
func TestDoneByWhoIsSure(t *testing.T) {
	late, holder := newFake(1, all), newFake(2, all)
	var id subscription.ID
	for _, f := range []*fake{late, holder} {
		id = f.subscribe(topicURL, "https://c.example/", 1, 2, report.StateFailing)
	}
	late.unsure = true
	services, _ := newFakePeers(t, openStore(t), map[string]*fake{"late": late, "holder": holder})
	if err := services["late"].Retry(t.Context(), id); err != nil || len(late.retried) > 0 || len(holder.retried) != 1 {
		t.Errorf("%v, the late one retried %v, the holder %v", err, late.retried, holder.retried)
	}
}

// TestDoneOnce moves shards: an order is carried out, and not repeated.
func TestDoneOnce(t *testing.T) {
	services, _, _, b, _ := twoProcesses(t)
	epoch := uint64(2)
	b.onHeld = func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		epoch++
		b.held[0].Epoch = epoch
	}
	for id, s := range b.stands {
		if s.State != report.StateFailing {
			continue
		}
		if err := services["a"].Retry(t.Context(), id); err != nil || !slices.Equal(b.retried, []subscription.ID{id}) {
			t.Errorf("retried were %v: %v", b.retried, err)
		}
		return
	}
}

// TestNobodyAsksFurther: a process that is asked answers for itself, and does not ask others.
func TestNobodyAsksFurther(t *testing.T) {
	services, s, _, _, last := twoProcesses(t)
	var asked []string
	s.mu.Lock()
	answer := s.live["b"]
	s.live["b"] = func(ctx context.Context, q []byte) []byte { asked = append(asked, "b"); return answer(ctx, q) }
	s.live["a"] = func(context.Context, []byte) []byte { asked = append(asked, "a"); return nil }
	s.mu.Unlock()
	if _, _, err := services["a"].Fate(t.Context(), topicURL, last.ID); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(asked, []string{"b"}) {
		t.Errorf("asked were %v", asked)
	}
}

// TestQuestionsOfOthers that are broken, or too large, are answered with what is wrong.
func TestQuestionsOfOthers(t *testing.T) {
	services, _, _, _, _ := twoProcesses(t)
	many := make([]delivery.Seq, operator.MaxLimit+1)
	args, err := json.Marshal(map[string]any{"topic": topicURL, "seqs": many})
	if err != nil {
		t.Fatal(err)
	}
	for question, want := range map[string]string{
		"":                             "not understood",
		`{"ask":"tally","args":"x"}`:   "not understood",
		`{"ask":"tomorrow","args":{}}`: "version 1.2.3, which does not know",
		`{"ask":"tally","args":` + string(args) + `}`: "too many",
		`{"ask":"overview","args":{},"a":1}`:          `"subscriptions"`, // unknown fields are passed over
	} {
		if text := string(services["a"].AnswerTo(t.Context(), []byte(question))); !strings.Contains(text, want) {
			t.Errorf("%.60s: %.300s", question, text)
		}
	}
}
