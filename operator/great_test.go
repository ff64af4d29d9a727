package operator_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"carillon/delivery/report"
	"carillon/operator"
)

// TestLongTopics: nothing is lost for topics of the greatest length, and of characters that take more
// room on their way.
func TestLongTopics(t *testing.T) {
	for name, character := range map[string]string{"ampersand": "&", "quote": `"`} {
		t.Run(name, func(t *testing.T) {
			long := func(i int) string {
				return fmt.Sprintf("https://a.example/%04d?%s", i, strings.Repeat(character, 2000))
			}
			db := openStore(t)
			a, b := newFake(1, even), newFake(1, odd)
			subscribe := func(topic, callback string) {
				a.subscribe(topic, callback, 0, 1, report.StateFailing)
				b.subscribe(topic, callback, 0, 1, report.StateFailing)
			}
			for i := range 1500 {
				subscribe(long(0), fmt.Sprintf("https://c%d.example/", i))
				subscribe(long(i), "https://many.example/")
			}
			subscribe("https://z.example/", "https://c.example/")
			last := publish(t, db, long(0), "", "", time.Now())
			services, _ := newFakePeers(t, db, map[string]*fake{"a": a, "b": b})

			n, err := services["a"].Notification(t.Context(), long(0), last.ID)
			if err != nil || n.Tally.Subscribers != 1501 || n.MissingShards > 0 || len(n.Missing) != operator.MaxMissing || !n.MissingMore || n.Missing[0].Topic != long(0) {
				t.Errorf("%+v %+v %d named, error %v", n.Tally, n.Coverage, len(n.Missing), err)
			}
			seen, q := map[string]bool{}, operator.SubscriptionQuery{Limit: operator.MaxLimit}
			for next := "-"; next != ""; {
				page, err := services["a"].Subscriptions(t.Context(), q)
				if err != nil || page.MissingShards > 0 || len(page.Subscriptions) == 0 {
					t.Fatalf("%d subscriptions, %+v, error %v", len(page.Subscriptions), page.Coverage, err)
				}
				for _, row := range page.Subscriptions {
					seen[row.ID.String()] = true
				}
				if next = page.Next; next != "" {
					_ = q.After.UnmarshalText([]byte(next))
				}
			}
			if len(seen) != len(a.stands)+len(b.stands) {
				t.Errorf("%d of %d subscriptions", len(seen), len(a.stands)+len(b.stands))
			}
			for _, failing := range []bool{false, true} {
				wantTopics(t, services["a"], failing, 1501)
			}
		})
	}
}

// wantTopics goes through all pages of topics, and checks how many there are and that all
// their subscriptions were counted.
func wantTopics(t *testing.T, d *operator.Service, failing bool, want int) {
	t.Helper()
	q, topics := operator.TopicQuery{Failing: failing, Limit: operator.MaxLimit}, map[string]int{}
	for next := "-"; next != ""; q.After = next {
		page, err := d.Topics(t.Context(), q)
		if err != nil || page.MissingShards > 0 || len(page.Topics) == 0 {
			t.Fatalf("%d topics, %+v, error %v", len(page.Topics), page.Coverage, err)
		}
		for _, one := range page.Topics {
			topics[one.Topic] += one.Subscriptions
		}
		next = page.Next
	}
	subscriptions := 0
	for _, n := range topics {
		subscriptions += n
	}
	if len(topics) != want || subscriptions != 3001 {
		t.Errorf("failing %v: %d topics, %d subscriptions", failing, len(topics), subscriptions)
	}
}
