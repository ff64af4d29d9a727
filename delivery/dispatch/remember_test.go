package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery/dispatch"
)

// Notifications that no subscription waits for stay for RememberFor. The others stay as long as
// before.
func TestRememberFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{answer: unlessRefuses}
		d := start(t, e, dispatch.Config{RememberFor: time.Hour, CacheBytes: -1}, s)
		d.fill(huge, 10)
		d.fill(small, 3)
		d.fill(idle, 4)
		d.listen(huge, takes)
		d.listen(small, refuses)
		keeps := func() (all [3]int) {
			for i, topic := range []string{huge, small, idle} {
				all[i], _ = e.keeps(topic)
			}
			return all
		}
		time.Sleep(59 * time.Minute)
		synctest.Wait()
		equal(t, "within the hour", keeps(), [3]int{10, 3, 4})
		d.fill(huge, 1)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		equal(t, "after it", keeps(), [3]int{1, 3, 0})
		equal(t, "trimmed as settled", d.metric("trimmed_total", "settled"), 14)
	})
}

// Remembered notifications keep to their bound, and never displace those that a subscription waits
// for. The latter count, but do not pay. The largest topics of the largest sites pay, oldest first.
func TestRememberBytes(t *testing.T) {
	const elsewhere = "https://elsewhere.example/topic"
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{}
		d := start(t, e, dispatch.Config{RememberFor: 10 * time.Hour, RememberBytes: 6000, CacheBytes: -1}, s)
		d.listen(middle, refuses)
		d.fill(middle, 20)
		synctest.Wait()
		s.setAnswer(unlessRefuses)
		d.fill(middle, 18)
		d.fill(huge, 50)
		d.fill(small, 5)
		d.fill(idle, 40)
		d.fill(elsewhere, 10)
		d.listen(huge, refuses)
		fast := d.listen(middle, takes)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		keeps := func(topic string) int { n, _ := e.keeps(topic); return n }
		equal(t, "younger than KeepAtLeast", keeps(idle), 40)

		time.Sleep(time.Minute)
		synctest.Wait()
		// elsewhere has its 1000, and example.com 5000: small its 500, the others 1500 each.
		equal(t, "what somebody waits for", keeps(huge), 50)
		equal(t, "what not all have got", keeps(middle), 18)
		equal(t, "what nobody subscribes to", keeps(idle), 15)
		equal(t, "a small one", keeps(small), 5)
		equal(t, "another site", keeps(elsewhere), 10)
		if _, first := e.keeps(idle); first != 26 {
			t.Errorf("the first that is kept is %d: the oldest go", first)
		}
		equal(t, "trimmed as settled", d.metric("trimmed_total", "settled"), 45)
		equal(t, "trimmed by size", d.metric("trimmed_total", "size"), 0)
		equal(t, "bytes", d.metric("log_bytes", ""), 9800)

		d.fill(idle, 1)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		equal(t, "later", keeps(idle), 15)

		s.setAnswer(nil)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		wantGaps(t, "who had it all", e.gapsOf(fast.ID))
		equal(t, "gaps", len(e.gaps), 0)
		equal(t, "when all have it, the huge one pays", keeps(huge), 15)
	})
}

// Remembered notifications are cut to their bound before KeepBytes removes any that a subscription
// waits for.
func TestRememberedGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{answer: unlessRefuses}
		d := start(t, e, dispatch.Config{RememberFor: 10 * time.Hour, RememberBytes: 1000, KeepBytes: 6000, CacheBytes: -1}, s)
		d.fill(huge, 50)
		d.fill(idle, 50)
		d.listen(huge, refuses)
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		waits, _ := e.keeps(huge)
		rests, _ := e.keeps(idle)
		equal(t, "what somebody waits for", waits, 50)
		equal(t, "what nobody waits for", rests, 5)
		equal(t, "trimmed by size", d.metric("trimmed_total", "size"), 0)
	})
}

// Where what is remembered keeps to its bound, and there is too much still, the greatest pay as ever.
func TestRememberedIsNotEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(), &attempts{answer: unlessRefuses}
		d := start(t, e, dispatch.Config{RememberFor: 10 * time.Hour, RememberBytes: 3000, KeepBytes: 4000, CacheBytes: -1}, s)
		d.fill(huge, 50)
		d.fill(idle, 40)
		d.listen(huge, refuses)
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		waits, _ := e.keeps(huge)
		rests, _ := e.keeps(idle)
		equal(t, "what somebody waits for", waits, 25)
		equal(t, "what nobody waits for", rests, 15)
	})
}
