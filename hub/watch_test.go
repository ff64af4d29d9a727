package hub_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"carillon/hub"
	"carillon/subscription"
)

// TestWatch: subscribers are denied after three definitive refusals in a row, and
// for nothing less.
func TestWatch(t *testing.T) {
	const callback = "https://callback.example/"
	rounds := func(kinds string) (denied []string) {
		synctest.Test(t, func(t *testing.T) {
			c := &clerk{}
			s := newStage(t, hub.Config{URL: hubURL, TopicWatchInterval: time.Hour}, c, anywhere{})
			defer s.running(t)()
			for _, kind := range kinds {
				subs := map[string][]subscription.Subscription{"https://source.example/nobody": nil}
				if kind != 'x' { // x: no subscription is left
					subs[topicURL] = []subscription.Subscription{{Topic: topicURL, Callback: callback}}
				}
				s.audience.is(subs)
				map[rune]func(){'g': c.good, 'r': c.refuse, 'a': c.away, '!': c.refuse, 'x': c.refuse}[kind]()
				s.requests.fail(nil)
				if kind == '!' {
					s.requests.fail(subscription.ErrBusy)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if c.asked.Swap(0) == 0 && kind != 'x' {
					t.Errorf("%s: no check in a round", kinds)
				}
			}
			denied = s.requests.denied
		})
		return denied
	}
	told := []string{callback + ": it answers with status 404"}
	for _, tt := range []struct {
		kinds string
		want  []string
	}{
		{"ggg", nil},
		{"aaaa", nil},
		{"rr", nil},
		{"rrr", told},
		{"rrgrr", nil},
		{"rarar", told},
		{"rrxr", nil},
		{"rr!", nil},
		{"rr!r", told},
	} {
		if got := rounds(tt.kinds); !slices.Equal(got, tt.want) {
			t.Errorf("%s: denied %q, want %q", tt.kinds, got, tt.want)
		}
	}
}
