package hub_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"carillon/hub"
)

// TestNetworkRate: a /48 network of IPv6 may send what four of its /64 networks may, at once and
// in the long run; a client that is refused takes nothing from the others around it.
func TestNetworkRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, hub.Config{URL: hubURL, ClientRate: 1, ClientBurst: 10, MaxPingTopics: 5}, &clerk{}, anywhere{})
		n := 0
		taken := func(from string, tries int) (taken int) {
			for range tries {
				n++
				got := s.send(from, formType, form("hub.mode", "unsubscribe", "hub.topic", aTopic, "hub.callback", fmt.Sprint(aCallback, n)))
				switch got.status {
				case http.StatusAccepted:
					taken++
				case http.StatusTooManyRequests:
				default:
					t.Fatalf("%+v", got)
				}
			}
			return taken
		}
		for _, step := range []struct {
			from string
			want int
		}{
			{"[2001:db8:1:1::1]", 10},
			{"[2001:db8:1:1::2]", 0}, // the same /64
			{"[2001:db8:1:2::1]", 10},
			{"[2001:db8:1:3::1]", 10},
			{"[2001:db8:1:4::1]", 10},
			{"[2001:db8:1:5::1]", 0}, // the fifth of the /48
			{"[2001:db8:2:1::1]", 10},
			{"192.0.2.1", 10},
			{"192.0.2.2", 10},
		} {
			if got := taken(step.from, 15); got != step.want {
				t.Errorf("%s: %d are taken, want %d", step.from, got, step.want)
			}
		}
		time.Sleep(time.Minute)
		all := 0
		for range 100 {
			time.Sleep(time.Second)
			for network := 10; network < 20; network++ {
				all += taken(fmt.Sprintf("[2001:db8:1:%d::1]", network), 1)
			}
		}
		if all < 4*100 || all > 4*110 {
			t.Errorf("%d are taken of ten networks within 100 s, want four a second", all)
		}
	})
}
