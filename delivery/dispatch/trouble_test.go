package dispatch_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery/dispatch"
	"carillon/delivery/send"
)

// A host that begins to fail is reported once, and once when it works again: not for each attempt, and
// not each time that it flaps.
func TestHostsThatFailAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{RetryMax: time.Minute}, s)
		var broke atomic.Bool
		s.setAnswer(func(_ context.Context, a *send.Attempt) send.Outcome {
			if broke.Load() && strings.HasPrefix(a.Callback, "https://a.example/") {
				return broken
			}
			return delivered
		})
		d.subscribe(e, "https://a.example/secret-path?key=1")
		d.subscribe(e, "https://b.example/")
		for round := range 4 { // the last two within its rest
			if round == 2 {
				time.Sleep(hostRests)
			}
			broke.Store(true)
			d.publish(fmt.Sprint(round))
			time.Sleep(5 * time.Minute)
			broke.Store(false)
			time.Sleep(5 * time.Minute)
			synctest.Wait()
		}
		logs := d.logs.String()
		for text, want := range map[string]int{
			"a callback host fails":            2,
			"a callback host works again":      2,
			"callback_host=https://a.example ": 2, "callback_host=https://b.example": 0,
			"class=server_error status=500": 2, "secret-path": 0,
		} {
			if n := strings.Count(logs, text); n != want {
				t.Errorf("%q is there %d times, want %d:\n%s", text, n, want, logs)
			}
		}
	})
}

// hostRests is how long after its recovery a host is not reported again.
const hostRests = 10 * time.Minute

// Strangers choose the hosts: their lines are bounded.
func TestHostLinesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{RetryFirst: 100 * time.Millisecond, RetryMax: 5 * time.Second}, s)
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return broken })
		const hosts = 200
		for i := range hosts {
			d.subscribe(e, fmt.Sprintf("https://h%d.example/", i))
		}
		d.publish("x")
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if n := strings.Count(d.logs.String(), "a callback host fails"); n != 20 {
			t.Errorf("%d lines within a minute", n)
		}
	})
}
