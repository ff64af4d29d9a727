package dispatch_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery/dispatch"
	"carillon/delivery/send"
)

// docs/abuse.md has how much one publication makes the hub send to callbacks that have confirmed and
// refuse it now.
func TestAmplificationOfDeliveries(t *testing.T) {
	text, err := os.ReadFile("../../docs/abuse.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(
		`(?m)^\| (in its first minute|in its first hour|in its first day|until it is given up) \| (\d+) \|$`,
	).FindAllStringSubmatch(string(text), -1)
	equal(t, "rows", len(rows), 4)
	synctest.Test(t, func(t *testing.T) {
		const subscriptions = 400
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{}, s)
		for i := range subscriptions {
			d.subscribe(e, fmt.Sprintf("%s%d", refuses, i))
		}
		s.setAnswer(func(context.Context, *send.Attempt) send.Outcome { return broken })
		began := time.Now()
		d.publish("x")
		sent := 0
		for _, row := range rows {
			until := map[string]time.Duration{
				"in its first minute": time.Minute, "in its first hour": time.Hour,
				"in its first day": 24 * time.Hour, "until it is given up": 96 * time.Hour,
			}[row[1]]
			time.Sleep(until - time.Since(began))
			synctest.Wait()
			sent += len(s.take())
			said, _ := strconv.Atoi(row[2])
			each := float64(sent) / subscriptions
			t.Logf("%s: %.2f", row[1], each)
			if math.Abs(each-float64(said)) > 1+each/50 {
				t.Errorf("%s: docs/abuse.md says %d for each subscription; it is %.2f", row[1], said, each)
			}
		}
	})
}
