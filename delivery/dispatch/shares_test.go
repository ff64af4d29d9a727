package dispatch_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"carillon/delivery/dispatch"
)

// A stranger who floods topics of his own, under as many names as he likes and without
// a subscription, pays for that himself, also with what is young: an honest
// subscriber who was away gets what waited for it.
func TestFloodPaysForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const good = "https://news.honest.com/good"
		e, s := newEngine(), &attempts{answer: unlessRefuses}
		d := start(t, e, dispatch.Config{KeepBytes: 1000, CacheBytes: -1}, s)
		waits := d.listen(good, refuses)
		d.fill(good, 3)
		time.Sleep(20 * time.Minute) // it is old by now
		for range 5 {
			for i := range 8 {
				d.fill(fmt.Sprintf("https://a%d.stranger.com/%d", i, i), 5)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			n, _ := e.keeps(good)
			equal(t, "kept of the honest one", n, 3)
			if bytes := d.metric("log_bytes", ""); bytes > 1000 {
				t.Errorf("the logs take %v bytes", bytes)
			}
		}
		s.setAnswer(nil)
		s.take()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		sameSeqs(t, "delivered", s.seqs(), 1, 2, 3)
		wantGaps(t, "the honest one", e.gapsOf(waits.ID))
	})
}

// Young notifications go by size only from a site that is above its share.
func TestYoungStaysWithinTheShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const one, two = "https://one.com/", "https://two.com/"
		e, s := newEngine(), &attempts{answer: unlessRefuses}
		d := start(t, e, dispatch.Config{KeepBytes: 1000, CacheBytes: -1}, s)
		d.listen(one, refuses)
		d.listen(two, refuses)
		d.fill(one, 5)
		d.fill(two, 30)
		time.Sleep(time.Minute)
		synctest.Wait()
		n, _ := e.keeps(one)
		equal(t, "kept of the one within its share", n, 5)
		n, first := e.keeps(two)
		equal(t, "kept of the other", n, 5)
		equal(t, "the first of it", first, 26)
	})
}
