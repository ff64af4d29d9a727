package destination_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon/destination"
)

const (
	hubOne = "https://hub1.example/"
	hubTwo = "https://hub2.example/"
)

func linksTo(hubs ...string) http.HandlerFunc {
	return withLinks("<" + topicURL + ">;rel=self,<" + strings.Join(hubs, ">;rel=hub,<") + ">;rel=hub")
}

// TestTwoHubs: a topic of two hubs is subscribed to at one of them, also where
// that one fails for a while.
func TestTwoHubs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.topic = linksTo(hubOne, hubTwo)
		posts := 0
		w.hub = func(rw http.ResponseWriter, _ *http.Request) {
			if posts++; posts == 2 {
				rw.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			rw.WriteHeader(http.StatusAccepted)
		}
		w.start(w.config(t.TempDir()))
		first := w.subscribed(time.Hour)
		failed := <-w.asked
		again := w.subscribed(time.Hour)
		for _, a := range []ask{first, failed, again} {
			if a.url != hubOne || a.callback() != first.callback() {
				t.Errorf("asked %s for %s, want the first hub and callback always", a.url, a.callback())
			}
		}
		w.cancel()
		if a := <-w.asked; a.url != hubOne {
			t.Errorf("at the stop %s is asked", a.url)
		} else {
			w.verify(a, nil)
		}
		if err := w.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestNextHub: where the first hub does not verify, the next is asked, and the
// first has nothing left that it could verify.
func TestNextHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.topic = linksTo(hubOne, hubTwo)
		w.start(w.config(t.TempDir()))
		first := <-w.asked
		time.Sleep(destination.DefaultVerifyWithin)
		second := <-w.asked
		if first.url != hubOne || second.url != hubTwo {
			t.Errorf("asked %s, then %s", first.url, second.url)
		}
		if rec := w.verify(first, nil); rec.Code != http.StatusNotFound {
			t.Errorf("the late verification of the first hub is answered %d: both would deliver", rec.Code)
		}
		if rec := w.verify(second, nil); rec.Code != http.StatusOK {
			t.Errorf("the second hub's verification is answered %d", rec.Code)
		}
		w.stop()
	})
}

// TestTopicMovesToAnotherHub: nothing is lost on the way, nothing comes twice, and the old hub gets an
// unsubscription.
func TestTopicMovesToAnotherHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		var moved atomic.Bool
		w.topic = func(rw http.ResponseWriter, r *http.Request) {
			if moved.Load() {
				linksTo(hubTwo)(rw, r)
				return
			}
			linksTo(hubOne)(rw, r)
		}
		w.start(w.config(t.TempDir()))
		first := w.subscribed(time.Hour)
		moved.Store(true)
		failed := <-w.asked
		if failed.url != hubTwo || failed.callback() != first.callback() {
			t.Fatalf("asked %s with callback %s", failed.url, failed.callback())
		}
		second := <-w.asked // as the hub had not verified
		if second.url != hubTwo || second.callback() != first.callback() {
			t.Fatalf("asked %s with callback %s", second.url, second.callback())
		}
		w.verify(second, url.Values{"hub.lease_seconds": {"3600"}})
		left := <-w.asked
		if left.url != hubOne || left.form.Get("hub.mode") != "unsubscribe" || left.callback() != first.callback() {
			t.Errorf("then asked %s: %v, want the old hub to end it", left.url, left.form)
		}
		for id, secret := range map[string]string{"1": first.secret(), "2": second.secret()} {
			if rec := w.deliver(first, secret, id, minute(1)); rec.Code != http.StatusNoContent {
				t.Errorf("the delivery %s is answered %d", id, rec.Code)
			}
		}
		if rec := w.verify(left, nil); rec.Code != http.StatusOK {
			t.Errorf("the old hub's verification is answered %d", rec.Code)
		}
		if rec := w.verify(second, nil); rec.Code != http.StatusOK {
			t.Errorf("the new hub's verification, once more, is answered %d", rec.Code)
		}
		if rec := w.deliver(second, second.secret(), "3", minute(2)); rec.Code != http.StatusNoContent {
			t.Errorf("a delivery after the move is answered %d", rec.Code)
		}
		if want := minuteLine(1) + minuteLine(2); w.out.String() != want {
			t.Errorf("printed\n%swant\n%s", w.out, want)
		}
		w.stop()
	})
}
